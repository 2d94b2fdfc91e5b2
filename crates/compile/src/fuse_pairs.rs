//! Fuses two arithmetic instructions into one pass: the intermediate value stays in a vector register.
//!
//! Both operations round as before, so the result is bit-identical to two instructions.

use crate::program::{FloatInstruction, Instruction, Program};
use clematis_core::Result;
use clematis_core::op::Binary;
use clematis_native::kernel::row_kernels::{map1, map2, map3};

/// A row kernel with three operands, some of which are one scalar per row.
#[derive(Clone, Copy)]
pub enum PairKernel {
    Vectors(Row3),
    ScalarSecond(fn(&mut [f32], &[f32], f32, &[f32])),
    ScalarThird(fn(&mut [f32], &[f32], &[f32], f32)),
    ScalarBoth(fn(&mut [f32], &[f32], f32, f32)),
}

/// A row kernel with three vector operands.
type Row3 = fn(&mut [f32], &[f32], &[f32], &[f32]);

/// A row kernel with one vector and one scalar operand.
pub type ScalarKernel = fn(&mut [f32], &[f32], f32);

/// `x op y` with a scalar `y` for the row, or `y op x` if swapped; `None` for anything but arithmetic.
pub fn scalar_kernel(op: Binary, swapped: bool) -> Option<ScalarKernel> {
    Some(match (op, swapped) {
        (Binary::Add, _) => |out, x, y| map1(out, x, |x| x + y),
        (Binary::Mul, _) => |out, x, y| map1(out, x, |x| x * y),
        (Binary::Sub, false) => |out, x, y| map1(out, x, |x| x - y),
        (Binary::Sub, true) => |out, x, y| map1(out, x, |x| y - x),
        (Binary::Div, false) => |out, x, y| map1(out, x, |x| x / y),
        (Binary::Div, true) => |out, x, y| map1(out, x, |x| y / x),
        _ => return None,
    })
}

/// `(x first y) then z`, or `z then (x first y)` if swapped, where `y` or `z` may be a scalar for the row; `None` for
/// anything but arithmetic.
fn pair_kernel(
    first: Binary,
    then: Binary,
    swapped: bool,
    [y_scalar, z_scalar]: [bool; 2],
) -> Option<PairKernel> {
    macro_rules! kinds {
        (|$x:ident, $y:ident, $z:ident| $body:expr) => {
            match (y_scalar, z_scalar) {
                (false, false) => {
                    PairKernel::Vectors(|out, x, y, z| map3(out, x, y, z, |$x, $y, $z| $body))
                }
                (true, false) => {
                    PairKernel::ScalarSecond(|out, x, $y, z| map2(out, x, z, |$x, $z| $body))
                }
                (false, true) => {
                    PairKernel::ScalarThird(|out, x, y, $z| map2(out, x, y, |$x, $y| $body))
                }
                (true, true) => PairKernel::ScalarBoth(|out, x, $y, $z| map1(out, x, |$x| $body)),
            }
        };
    }
    macro_rules! rows {
        ($first:tt) => {
            match (then, swapped) {
                (Binary::Add, _) => kinds!(|x, y, z| (x $first y) + z),
                (Binary::Mul, _) => kinds!(|x, y, z| (x $first y) * z),
                (Binary::Sub, false) => kinds!(|x, y, z| (x $first y) - z),
                (Binary::Sub, true) => kinds!(|x, y, z| z - (x $first y)),
                (Binary::Div, false) => kinds!(|x, y, z| (x $first y) / z),
                (Binary::Div, true) => kinds!(|x, y, z| z / (x $first y)),
                _ => return None,
            }
        };
    }
    Some(match first {
        Binary::Add => rows!(+),
        Binary::Sub => rows!(-),
        Binary::Mul => rows!(*),
        Binary::Div => rows!(/),
        _ => return None,
    })
}

/// The shortest row for which one call per row pays.
const MIN_ROW: usize = 32;

impl Program {
    fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0usize; self.values.len()];
        for instruction in &self.instructions {
            instruction
                .args()
                .iter()
                .for_each(|&a| uses[a as usize] += 1);
        }
        for target in &self.targets {
            uses[target.value as usize] += 2;
        }
        for column_sum in &self.column_sums {
            uses[column_sum.value as usize] += 2;
        }
        uses
    }

    /// The float instruction that produces a value, if there is one.
    fn producer(&self, value: u16) -> Option<FloatInstruction> {
        let at = (value as usize).checked_sub(self.sources.len())?;
        match self.instructions.get(at)? {
            Instruction::Float(instruction) => Some(*instruction),
            Instruction::Bool(_) => None,
        }
    }

    /// Whether a value is one float for all elements.
    pub(crate) fn is_scalar(&self, value: u16) -> bool {
        let source = self.sources.get(value as usize);
        source.is_some_and(|source| source.is_scalar)
    }

    /// Replaces broadcast operands of arithmetic by scalar operands, and `sum(x * y)` by a row dot product that does
    /// not store the product.
    pub(crate) fn use_scalar_operands(&mut self) -> Result<()> {
        let uses = self.uses();
        let long = self.domain.columns() >= MIN_ROW;
        let repeated = |value: u16| match self.producer(value) {
            Some(FloatInstruction::Broadcast(row)) if long => Some(row),
            _ if self.is_scalar(value) => Some(value),
            _ => None,
        };
        let mut instructions = self.instructions.clone();
        for instruction in &mut instructions {
            let Instruction::Float(instruction) = instruction else {
                continue;
            };
            match *instruction {
                FloatInstruction::Binary(op, _, a, b) => {
                    let commutes = matches!(op, Binary::Add | Binary::Mul);
                    let (other, row, swapped) = match (repeated(a), repeated(b)) {
                        (None, Some(row)) => (a, row, false),
                        (Some(row), None) => (b, row, !commutes),
                        _ => continue,
                    };
                    if let Some(kernel) = scalar_kernel(op, swapped) {
                        *instruction =
                            FloatInstruction::BinaryScalar(op, swapped, kernel, other, row);
                    }
                }
                FloatInstruction::Sum(a) if uses[a as usize] == 1 => {
                    if let Some(FloatInstruction::Binary(Binary::Mul, _, x, y)) = self.producer(a) {
                        *instruction = FloatInstruction::RowDot(x, y);
                    }
                }
                _ => {}
            }
        }
        self.instructions = instructions;
        self.eliminate_dead_code()
    }

    /// Fuses each instruction with the only reader of its result.
    pub(crate) fn fuse_pairs(&mut self) -> Result<()> {
        let uses = self.uses();
        let first = self.sources.len();
        for i in 0..self.instructions.len() {
            // The inner value, the other operand, whether the other operand comes first, and whether it is a scalar per
            // row.
            let Instruction::Float(instruction) = self.instructions[i] else {
                continue;
            };
            let (then, candidates) = match instruction {
                FloatInstruction::Binary(then, _, a, b) => (
                    then,
                    [Some((a, b, false, false)), Some((b, a, true, false))],
                ),
                FloatInstruction::BinaryScalar(then, swapped, _, a, row) => {
                    (then, [Some((a, row, swapped, true)), None])
                }
                _ => continue,
            };
            let fused = candidates.into_iter().flatten().find_map(
                |(inner, other, swapped, scalar_other)| {
                    let same = self.values[inner as usize].extent == self.values[first + i].extent;
                    if !same || uses[inner as usize] != 1 {
                        return None;
                    }
                    let (op, x, y, scalar_inner) = match self.producer(inner)? {
                        FloatInstruction::Binary(op, _, x, y) => (op, x, y, false),
                        FloatInstruction::BinaryScalar(op, false, _, x, y) => (op, x, y, true),
                        _ => return None,
                    };
                    Some(FloatInstruction::FusedPair(
                        pair_kernel(op, then, swapped, [scalar_inner, scalar_other])?,
                        x,
                        y,
                        other,
                    ))
                },
            );
            if let Some(pair) = fused {
                self.instructions[i] = pair.into();
            }
        }
        self.eliminate_dead_code()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_two_instructions() {
        let all = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div];
        let x = [3.0, 1e-8, -7.0];
        for (first, then) in all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b))) {
            for candidates in 0..8 {
                let [swapped, y_scalar, z_scalar] = [1, 2, 4].map(|bit| candidates & bit != 0);
                let single =
                    |op| clematis_native::kernel::binary::row(op).expect("it is arithmetic");
                let y = if y_scalar { [0.1; 3] } else { [0.1, 5.0, 0.0] };
                let z = if z_scalar { [0.3; 3] } else { [0.3, -2.0, 1e9] };
                let (mut inner, mut expected, mut out) = ([0.0; 3], [0.0; 3], [0.0; 3]);
                single(first)(&mut inner, &x, &y);
                match swapped {
                    false => single(then)(&mut expected, &inner, &z),
                    true => single(then)(&mut expected, &z, &inner),
                }
                match pair_kernel(first, then, swapped, [y_scalar, z_scalar])
                    .expect("it is arithmetic")
                {
                    PairKernel::Vectors(f) => f(&mut out, &x, &y, &z),
                    PairKernel::ScalarSecond(f) => f(&mut out, &x, y[0], &z),
                    PairKernel::ScalarThird(f) => f(&mut out, &x, &y, z[0]),
                    PairKernel::ScalarBoth(f) => f(&mut out, &x, y[0], z[0]),
                }
                assert_eq!(out.map(f32::to_bits), expected.map(f32::to_bits));
                let alone = scalar_kernel(then, swapped).expect("it is arithmetic");
                alone(&mut out, &inner, z[0]);
                match swapped {
                    false => single(then)(&mut expected, &inner, &[z[0]; 3]),
                    true => single(then)(&mut expected, &[z[0]; 3], &inner),
                }
                assert_eq!(out.map(f32::to_bits), expected.map(f32::to_bits));
            }
        }
        assert!(pair_kernel(Binary::Pow, Binary::Add, false, [false; 2]).is_none());
        assert!(scalar_kernel(Binary::Pow, false).is_none());
    }
}
