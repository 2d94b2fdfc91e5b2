//! Two arithmetic instructions in one pass: what lies between them stays in a vector register.
//!
//! Both round as they would by themselves, so the bits are those of two instructions.

use crate::code::{Code, FloatCode, Program};
use clematis_core::Result;
use clematis_core::op::Binary;
use clematis_native::kernel::rows::{map1, map2, map3};

/// A kernel of one row with three operands, of which some are one number for the whole row.
#[derive(Clone, Copy)]
pub enum Triple {
    Full(Row3),
    SecondRow(fn(&mut [f32], &[f32], f32, &[f32])),
    ThirdRow(fn(&mut [f32], &[f32], &[f32], f32)),
    BothRows(fn(&mut [f32], &[f32], f32, f32)),
}

/// A kernel of one row with three operands.
type Row3 = fn(&mut [f32], &[f32], &[f32], &[f32]);

/// A kernel of one row with a number for the whole row.
pub type ByRow = fn(&mut [f32], &[f32], f32);

/// `x op y` with one `y` for the row, or `y op x` if swapped; `None` for anything but arithmetic.
pub fn by_row(op: Binary, swapped: bool) -> Option<ByRow> {
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

/// `(x first y) then z`, or `z then (x first y)` if swapped, where `y` or `z` may be one number for the row; `None` for anything but
/// arithmetic.
fn row(first: Binary, then: Binary, swapped: bool, [y_row, z_row]: [bool; 2]) -> Option<Triple> {
    macro_rules! kinds {
        (|$x:ident, $y:ident, $z:ident| $body:expr) => {
            match (y_row, z_row) {
                (false, false) => {
                    Triple::Full(|out, x, y, z| map3(out, x, y, z, |$x, $y, $z| $body))
                }
                (true, false) => Triple::SecondRow(|out, x, $y, z| map2(out, x, z, |$x, $z| $body)),
                (false, true) => Triple::ThirdRow(|out, x, y, $z| map2(out, x, y, |$x, $y| $body)),
                (true, true) => Triple::BothRows(|out, x, $y, $z| map1(out, x, |$x| $body)),
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

/// Fewer elements of a row are not worth a call for each row.
const SHORTEST: usize = 32;

impl Program {
    fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0usize; self.values.len()];
        for code in &self.codes {
            code.args().iter().for_each(|&a| uses[a as usize] += 1);
        }
        for target in &self.targets {
            uses[target.value as usize] += 2;
        }
        for down in &self.downs {
            uses[down.value as usize] += 2;
        }
        uses
    }

    /// The instruction that makes a value, if that is a float.
    fn maker(&self, value: u16) -> Option<FloatCode> {
        let at = (value as usize).checked_sub(self.sources.len())?;
        match self.codes.get(at)? {
            Code::Float(code) => Some(*code),
            Code::Bool(_) => None,
        }
    }

    /// Whether a value is one float for all elements.
    pub(crate) fn is_number(&self, value: u16) -> bool {
        let source = self.sources.get(value as usize);
        source.is_some_and(|source| source.number)
    }

    /// Arithmetic with what is repeated along a row, or everywhere, takes the one number, and sums take what is summed without
    /// writing it.
    pub(crate) fn shorten(&mut self) -> Result<()> {
        let uses = self.uses();
        let long = self.space.columns() >= SHORTEST;
        let repeated = |value: u16| match self.maker(value) {
            Some(FloatCode::Spread(row)) if long => Some(row),
            _ if self.is_number(value) => Some(value),
            _ => None,
        };
        let mut codes = self.codes.clone();
        for code in &mut codes {
            let Code::Float(code) = code else {
                continue;
            };
            match *code {
                FloatCode::Binary(op, _, a, b) => {
                    let either = matches!(op, Binary::Add | Binary::Mul);
                    let (other, row, swapped) = match (repeated(a), repeated(b)) {
                        (None, Some(row)) => (a, row, false),
                        (Some(row), None) => (b, row, !either),
                        _ => continue,
                    };
                    if let Some(kernel) = by_row(op, swapped) {
                        *code = FloatCode::ByRow(op, swapped, kernel, other, row);
                    }
                }
                FloatCode::Sum(a) if uses[a as usize] == 1 => {
                    if let Some(FloatCode::Binary(Binary::Mul, _, x, y)) = self.maker(a) {
                        *code = FloatCode::SumOfProducts(x, y);
                    }
                }
                _ => {}
            }
        }
        self.codes = codes;
        self.drop_dead()
    }

    /// Joins an instruction with the one that alone reads its result.
    pub(crate) fn pair_up(&mut self) -> Result<()> {
        let uses = self.uses();
        let first = self.sources.len();
        for i in 0..self.codes.len() {
            // What is joined first, the operand beside it, whether that comes first, and whether it is one for the row.
            let Code::Float(code) = self.codes[i] else {
                continue;
            };
            let (then, ways) = match code {
                FloatCode::Binary(then, _, a, b) => (
                    then,
                    [Some((a, b, false, false)), Some((b, a, true, false))],
                ),
                FloatCode::ByRow(then, swapped, _, a, row) => {
                    (then, [Some((a, row, swapped, true)), None])
                }
                _ => continue,
            };
            let joined = ways
                .into_iter()
                .flatten()
                .find_map(|(inner, other, swapped, by_row)| {
                    let same = self.values[inner as usize].class == self.values[first + i].class;
                    if !same || uses[inner as usize] != 1 {
                        return None;
                    }
                    let (op, x, y, of_row) = match self.maker(inner)? {
                        FloatCode::Binary(op, _, x, y) => (op, x, y, false),
                        FloatCode::ByRow(op, false, _, x, y) => (op, x, y, true),
                        _ => return None,
                    };
                    Some(FloatCode::Pair(
                        row(op, then, swapped, [of_row, by_row])?,
                        x,
                        y,
                        other,
                    ))
                });
            if let Some(pair) = joined {
                self.codes[i] = pair.into();
            }
        }
        self.drop_dead()
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
            for ways in 0..8 {
                let [swapped, y_row, z_row] = [1, 2, 4].map(|bit| ways & bit != 0);
                let single =
                    |op| clematis_native::kernel::binary::row(op).expect("it is arithmetic");
                let y = if y_row { [0.1; 3] } else { [0.1, 5.0, 0.0] };
                let z = if z_row { [0.3; 3] } else { [0.3, -2.0, 1e9] };
                let (mut inner, mut expected, mut out) = ([0.0; 3], [0.0; 3], [0.0; 3]);
                single(first)(&mut inner, &x, &y);
                match swapped {
                    false => single(then)(&mut expected, &inner, &z),
                    true => single(then)(&mut expected, &z, &inner),
                }
                match row(first, then, swapped, [y_row, z_row]).expect("it is arithmetic") {
                    Triple::Full(f) => f(&mut out, &x, &y, &z),
                    Triple::SecondRow(f) => f(&mut out, &x, y[0], &z),
                    Triple::ThirdRow(f) => f(&mut out, &x, &y, z[0]),
                    Triple::BothRows(f) => f(&mut out, &x, y[0], z[0]),
                }
                assert_eq!(out.map(f32::to_bits), expected.map(f32::to_bits));
                let alone = by_row(then, swapped).expect("it is arithmetic");
                alone(&mut out, &inner, z[0]);
                match swapped {
                    false => single(then)(&mut expected, &inner, &[z[0]; 3]),
                    true => single(then)(&mut expected, &[z[0]; 3], &inner),
                }
                assert_eq!(out.map(f32::to_bits), expected.map(f32::to_bits));
            }
        }
        assert!(row(Binary::Pow, Binary::Add, false, [false; 2]).is_none());
        assert!(by_row(Binary::Pow, false).is_none());
    }
}
