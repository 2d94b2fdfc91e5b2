//! The function to differentiate, and the measures of its derivatives: finite differences, pairings, gaps.

use crate::array::{Array, C, Num, upload};
use crate::case::Case;
use clematis_core::dispatch::apply;
use clematis_core::{Backend, DType, Result, Tensor, ops};

/// A selection of operands and results to differentiate.
#[derive(Clone)]
pub struct Part {
    /// Indices of operands.
    pub operands: Vec<usize>,
    /// Indices of results.
    pub results: Vec<usize>,
}

/// A case's op on a backend, as a function of selected operands.
pub struct Subject<'a> {
    /// The backend.
    pub backend: &'static dyn Backend,
    /// The case.
    pub case: &'a Case,
    /// All operands.
    pub all: Vec<Tensor>,
    /// Whether no result is differentiable, so that all derivatives must be zero.
    pub flat: bool,
}

impl<'a> Subject<'a> {
    /// Uploads the operands.
    pub fn new(backend: &'static dyn Backend, case: &'a Case, flat: bool) -> Result<Subject<'a>> {
        let all = case.inputs.iter().map(|x| upload(backend, x));
        Ok(Subject {
            backend,
            case,
            all: all.collect::<Result<_>>()?,
            flat,
        })
    }

    /// The differentiable results for these operands.
    pub fn results(&self, args: &[&Tensor]) -> Result<Vec<Tensor>> {
        let out = apply(&self.case.op, args)?.into_vec();
        match self.case.derivative.invariant {
            Some(invariant) => invariant(&out),
            None => Ok(out),
        }
    }

    /// The selected results, with other values for the selected operands.
    pub fn call(&self, part: &Part, xs: &[Tensor]) -> Result<Vec<Tensor>> {
        let mut args: Vec<&Tensor> = self.all.iter().collect();
        for (&i, x) in part.operands.iter().zip(xs) {
            args[i] = x;
        }
        let out = self.results(&args)?;
        part.results
            .iter()
            .map(|&i| match out.get(i) {
                Some(y) if self.flat && !y.dtype().is_complex() => ops::cast(y, DType::F64).done(),
                Some(y) => Ok(y.clone()),
                None => clematis_core::bail!(Internal, "result {i} is missing"),
            })
            .collect()
    }

    pub fn operands(&self, part: &Part) -> Vec<Tensor> {
        part.operands.iter().map(|&i| self.all[i].clone()).collect()
    }

    /// The operands, moved along a direction.
    pub fn moved(&self, part: &Part, along: &[Array], by: f64) -> Result<Vec<Tensor>> {
        part.operands
            .iter()
            .zip(along)
            .map(|(&i, d)| {
                let x = &self.case.inputs[i];
                let values = x
                    .values
                    .iter()
                    .zip(&d.values)
                    .map(|(x, d)| Num::Inexact(x.c() + d.c() * by));
                upload(
                    self.backend,
                    &Array::new(x.dtype, &x.shape, values.collect()),
                )
            })
            .collect()
    }

    /// The directional derivative of a function of the operands, by finite differences.
    pub fn difference(
        &self,
        part: &Part,
        along: &[Array],
        f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<Vec<Vec<C>>> {
        let h = self.case.derivative.step;
        let at = |by: f64| -> Result<Vec<Vec<C>>> { values(&f(&self.moved(part, along, by)?)?) };
        let [a, b, c, d] = [at(-2.0 * h)?, at(-h)?, at(h)?, at(2.0 * h)?];
        Ok((0..a.len())
            .map(|k| {
                (0..a[k].len())
                    .map(|i| ((c[k][i] - b[k][i]) * 8.0 - (d[k][i] - a[k][i])) / (12.0 * h))
                    .collect()
            })
            .collect())
    }
}

pub fn values(xs: &[Tensor]) -> Result<Vec<Vec<C>>> {
    xs.iter()
        .map(|x| {
            Ok(Array::from_tensor(x)?
                .values
                .into_iter()
                .map(Num::c)
                .collect())
        })
        .collect()
}

pub fn cells(xs: &[Array]) -> Vec<Vec<C>> {
    xs.iter()
        .map(|x| x.values.iter().map(|v| v.c()).collect())
        .collect()
}

/// Re Σ a b, and Σ |a| |b|.
pub fn pairing(a: &[Vec<C>], b: &[Vec<C>]) -> (f64, f64) {
    let mut sums = (0.0, 0.0);
    for (a, b) in a.iter().flatten().zip(b.iter().flatten()) {
        sums.0 += (a * b).re;
        sums.1 += a.norm() * b.norm();
    }
    sums
}

/// The maximum difference between two sets of arrays, relative to the largest element of each array.
pub fn gap(got: &[Vec<C>], want: &[Vec<C>]) -> f64 {
    let mut worst = 0.0f64;
    for (g, w) in got.iter().zip(want) {
        let scale = w.iter().map(|v| v.norm()).fold(1e-3, f64::max);
        for (g, w) in g.iter().zip(w) {
            let error = (g - w).norm() / scale;
            worst = if error.is_nan() {
                f64::INFINITY
            } else {
                worst.max(error)
            };
        }
    }
    worst
}

/// All operands to all results; each operand alone; each result alone.
pub fn parts(operands: &[usize], results: &[usize]) -> Vec<Part> {
    let mut all = vec![Part {
        operands: operands.to_vec(),
        results: results.to_vec(),
    }];
    if operands.len() > 1 {
        all.extend(operands.iter().map(|&i| Part {
            operands: vec![i],
            results: results.to_vec(),
        }));
    }
    if results.len() > 1 {
        all.extend(results.iter().map(|&i| Part {
            operands: operands.to_vec(),
            results: vec![i],
        }));
    }
    all
}

/// The same numbers in double precision.
pub fn widened(x: &Array) -> Array {
    let dtype = match x.dtype {
        d if d.is_complex() => DType::C128,
        d if d.is_float() => DType::F64,
        d => d,
    };
    Array { dtype, ..x.clone() }
}

impl Case {
    /// The case in double precision, if its op supports that: the dtypes of a cast or a graph are in its parameters.
    pub fn widened(&self) -> Option<Case> {
        let case = Case {
            inputs: self.inputs.iter().map(widened).collect(),
            ..self.clone()
        };
        case.is_legal().then_some(case)
    }
}

/// Whether finite differences are possible: all operands and results have double precision.
pub fn wide(xs: &[Tensor]) -> bool {
    xs.iter()
        .all(|x| matches!(x.dtype(), DType::F64 | DType::C128))
}
