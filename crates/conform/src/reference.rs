//! Slow reference implementations of all ops: naive loops over exact numbers, textbook formulas and series.
//!
//! Shares no code with any engine. Results are not rounded; `compare` does that.

pub mod complex;
pub mod composite;
pub mod elementwise;
pub mod fourier;
pub mod index;
pub mod linalg;
pub mod linear;
pub mod matrix;
pub mod neural;
pub mod number;
pub mod random;
pub mod reduce;
pub mod resize;
pub mod shape;
pub mod special;

use crate::array::Array;
use clematis_core::{Op, Result, bail};

/// The reference of an op that is defined by its parameters.
pub fn run(op: &Op, x: &[Array]) -> Result<Vec<Array>> {
    Ok(vec![match op {
        Op::Full(p) => shape::full(p),
        Op::Iota(p) => shape::iota(p),
        Op::Reshape(to) => shape::reshape(&x[0], to),
        Op::Transpose(axes) => x[0].transposed(axes),
        Op::Broadcast(p) => shape::broadcast(&x[0], p),
        Op::Slice(p) => shape::slice(&x[0], p),
        Op::Pad(p) => shape::pad(&x[0], x[1].values[0], p),
        Op::Concat(axis) => shape::concat(x, *axis),
        Op::Reverse(axes) => shape::reverse(&x[0], axes),
        Op::DynamicSlice(sizes) => shape::dynamic_slice(&x[0], &x[1], &sizes.sizes()),
        Op::DynamicUpdate => shape::dynamic_update(&x[0], &x[1], &x[2]),
        Op::Gather(p) => index::gather(&x[0], &x[1], p),
        Op::Scatter(p) => index::scatter(&x[0], &x[1], &x[2], p),
        Op::NonZero(size) => index::nonzero(&x[0], size.value().unwrap_or(0) as usize),
        Op::SearchSorted(right) => index::searchsorted(&x[0], &x[1], *right),
        Op::Reduce(p) => reduce::reduce(&x[0], p),
        Op::ArgReduce(p) => reduce::arg_reduce(&x[0], p),
        Op::Cumulative(p) => reduce::cumulative(&x[0], p),
        Op::Sort(p) => return Ok(reduce::sort(x, p)),
        Op::TopK(k) => return Ok(reduce::top_k(&x[0], k.value().unwrap_or(0) as usize)),
        Op::Dot(p) => linear::dot(&x[0], &x[1], p),
        Op::Conv(p) => linear::conv(&x[0], &x[1], p),
        Op::Window(p) => linear::window(&x[0], p),
        Op::WindowScatter(p) => linear::window_scatter(&x[0], &x[1], p),
        Op::WindowGather(p) => linear::window_gather(&x[0], &x[1], p),
        Op::Fft(p) => fourier::fft(&x[0], p),
        Op::Call(c) => return composite::run(c, x),
        other => bail!(Internal, "{}: no reference", other.name()),
    }])
}
