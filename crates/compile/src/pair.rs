//! Two arithmetic instructions in one pass: what lies between them stays in a vector register.
//!
//! Both round as they would by themselves, so the bits are those of two instructions.

use crate::code::{Code, Program};
use clematis_core::op::Binary;
use clematis_native::multiversion;

/// A kernel of one row with three operands.
pub type Row3 = fn(&mut [f32], &[f32], &[f32], &[f32]);

multiversion! {
    fn each[F: Fn(f32, f32, f32) -> f32](out: &mut [f32], x: &[f32], y: &[f32], z: &[f32], f: F) {
        for (((out, &x), &y), &z) in out.iter_mut().zip(x).zip(y).zip(z) {
            *out = f(x, y, z);
        }
    }
}

/// `(x first y) then z`, or `z then (x first y)` if swapped; `None` for anything but arithmetic.
fn row(first: Binary, then: Binary, swapped: bool) -> Option<Row3> {
    macro_rules! rows {
        ($first:tt) => {
            match (then, swapped) {
                (Binary::Add, _) => |out, x, y, z| each(out, x, y, z, |x, y, z| (x $first y) + z),
                (Binary::Mul, _) => |out, x, y, z| each(out, x, y, z, |x, y, z| (x $first y) * z),
                (Binary::Sub, false) => |out, x, y, z| each(out, x, y, z, |x, y, z| (x $first y) - z),
                (Binary::Sub, true) => |out, x, y, z| each(out, x, y, z, |x, y, z| z - (x $first y)),
                (Binary::Div, false) => |out, x, y, z| each(out, x, y, z, |x, y, z| (x $first y) / z),
                (Binary::Div, true) => |out, x, y, z| each(out, x, y, z, |x, y, z| z / (x $first y)),
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

impl Program {
    /// Joins an instruction with the one that alone reads its result.
    pub(crate) fn pair_up(&mut self) {
        let first = self.sources.len();
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
        for i in 0..self.codes.len() {
            let Code::Binary(then, _, a, b) = self.codes[i] else {
                continue;
            };
            let joined =
                [(a, b, false), (b, a, true)]
                    .into_iter()
                    .find_map(|(inner, other, swapped)| {
                        let at = (inner as usize).checked_sub(first)?;
                        let same =
                            self.values[inner as usize].class == self.values[first + i].class;
                        match self.codes[at] {
                            Code::Binary(op, _, x, y) if same && uses[inner as usize] == 1 => {
                                Some(Code::Pair(row(op, then, swapped)?, x, y, other))
                            }
                            _ => None,
                        }
                    });
            if let Some(pair) = joined {
                self.codes[i] = pair;
            }
        }
        self.drop_dead();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_two_instructions() {
        let all = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div];
        let (x, y, z) = ([3.0, 1e-8, -7.0], [0.1, 5.0, 0.0], [0.3, -2.0, 1e9]);
        for first in all {
            for then in all {
                for swapped in [false, true] {
                    let single =
                        |op| clematis_native::kernel::binary::row(op).expect("it is arithmetic");
                    let (mut inner, mut expected, mut out) = ([0.0; 3], [0.0; 3], [0.0; 3]);
                    single(first)(&mut inner, &x, &y);
                    match swapped {
                        false => single(then)(&mut expected, &inner, &z),
                        true => single(then)(&mut expected, &z, &inner),
                    }
                    row(first, then, swapped).expect("it is arithmetic")(&mut out, &x, &y, &z);
                    assert_eq!(out.map(f32::to_bits), expected.map(f32::to_bits));
                }
            }
        }
        assert!(row(Binary::Pow, Binary::Add, false).is_none());
    }
}
