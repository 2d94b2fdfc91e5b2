//! Shape ops: for each index of the result, the index of its source element.

use crate::array::{Array, Num, places};
use clematis_core::op::{Broadcast, Dims, Full, Iota, Pad, Slice};
use clematis_core::{DType, Scalar, Shape};

fn known(dims: &Dims) -> Vec<i64> {
    dims.iter().map(|d| d.value().unwrap_or(0)).collect()
}

fn scalar(value: Scalar, dtype: DType) -> Num {
    if dtype.is_inexact() {
        let (re, im) = value.as_complex();
        Num::Inexact(crate::array::C::new(re, im))
    } else {
        Num::of(dtype, value.as_i128())
    }
}

pub fn full(p: &Full) -> Array {
    Array::filled(p.dtype, &p.shape.sizes(), scalar(p.value, p.dtype))
}

pub fn iota(p: &Iota) -> Array {
    Array::from_fn(p.dtype, &p.shape.sizes(), |at| {
        Num::of(p.dtype, at[p.axis] as i128)
    })
}

pub fn reshape(x: &Array, to: &Shape) -> Array {
    Array::new(x.dtype, &to.sizes(), x.values.clone())
}

pub fn broadcast(x: &Array, p: &Broadcast) -> Array {
    Array::from_fn(x.dtype, &p.shape.sizes(), |at| {
        let own: Vec<usize> = p
            .axes
            .iter()
            .zip(&x.shape)
            .map(|(&axis, &n)| if n == 1 { 0 } else { at[axis] })
            .collect();
        x.at(&own)
    })
}

pub fn slice(x: &Array, p: &Slice) -> Array {
    let (start, limit) = (known(&p.start), known(&p.limit));
    let shape: Vec<usize> = (0..x.rank())
        .map(|a| ((limit[a] - start[a]) as usize).div_ceil(p.strides[a]))
        .collect();
    Array::from_fn(x.dtype, &shape, |at| {
        let own: Vec<usize> = (0..x.rank())
            .map(|a| start[a] as usize + at[a] * p.strides[a])
            .collect();
        x.at(&own)
    })
}

pub fn pad(x: &Array, value: Num, p: &Pad) -> Array {
    let (low, high) = (known(&p.low), known(&p.high));
    let shape: Vec<usize> = (0..x.rank())
        .map(|a| {
            let n = x.shape[a] as i64;
            let inner = n + (n - 1).max(0) * p.interior[a] as i64;
            (inner + low[a] + high[a]) as usize
        })
        .collect();
    Array::from_fn(x.dtype, &shape, |at| {
        let mut own = Vec::new();
        for a in 0..x.rank() {
            let step = p.interior[a] as i64 + 1;
            let from = at[a] as i64 - low[a];
            if from < 0 || from % step != 0 || from / step >= x.shape[a] as i64 {
                return value;
            }
            own.push((from / step) as usize);
        }
        x.at(&own)
    })
}

pub fn concat(x: &[Array], axis: usize) -> Array {
    let mut shape = x[0].shape.clone();
    shape[axis] = x.iter().map(|x| x.shape[axis]).sum();
    Array::from_fn(x[0].dtype, &shape, |at| {
        let mut own = at.to_vec();
        for part in x {
            if own[axis] < part.shape[axis] {
                return part.at(&own);
            }
            own[axis] -= part.shape[axis];
        }
        Num::Whole(0)
    })
}

pub fn reverse(x: &Array, axes: &[usize]) -> Array {
    Array::from_fn(x.dtype, &x.shape, |at| {
        let mut own = at.to_vec();
        for &a in axes {
            own[a] = x.shape[a] - 1 - own[a];
        }
        x.at(&own)
    })
}

/// The start of a block, clipped so that the block is inside.
fn clipped(start: &Array, shape: &[usize], block: &[usize]) -> Vec<usize> {
    (0..shape.len())
        .map(|a| {
            let last = (shape[a] - block[a]) as i128;
            start.values[a].i().clamp(0, last) as usize
        })
        .collect()
}

pub fn dynamic_slice(x: &Array, start: &Array, sizes: &[usize]) -> Array {
    let from = clipped(start, &x.shape, sizes);
    Array::from_fn(x.dtype, sizes, |at| {
        let own: Vec<usize> = at.iter().zip(&from).map(|(i, s)| i + s).collect();
        x.at(&own)
    })
}

pub fn dynamic_update(x: &Array, update: &Array, start: &Array) -> Array {
    let from = clipped(start, &x.shape, &update.shape);
    let mut out = x.clone();
    for at in places(&update.shape) {
        let to: Vec<usize> = at.iter().zip(&from).map(|(i, s)| i + s).collect();
        let to = crate::array::offset(&x.shape, &to);
        out.values[to] = update.at(&at);
    }
    out
}
