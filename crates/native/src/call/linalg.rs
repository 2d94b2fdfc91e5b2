//! Matrix factorizations and triangular solves, batched over leading axes.
//!
//! Matrices that are not contiguous are copied some at a time, never a whole batch.

use crate::buffer::{self, Buffer};
use crate::kernel::linalg::{self as la, LinalgError, Scalar};
use crate::layout::View;
use crate::{memory, parallel};
use clematis_core::host::Bytes;
use clematis_core::op::{Cholesky, Eig, Eigh, Qr, Svd, Transposed, TriangularSolve};
use clematis_core::{DType, Error, Kind, Result, Spec, Tensor, bail};
use num_complex::Complex;
use std::ops::Range;

/// Runs an expression with `T` standing for a matrix's element type.
macro_rules! by_matrix {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::C64 => {
                type $T = Complex<f32>;
                $body
            }
            DType::C128 => {
                type $T = Complex<f64>;
                $body
            }
            other => bail!(Internal, "{}: the engine has no kernel for {other}", $op),
        }
    };
}

/// Converts an error in the matrices from `first` on.
fn fail(first: usize) -> impl Fn(LinalgError) -> Error {
    move |mut e| {
        if let LinalgError::NotPositiveDefinite { batch, .. }
        | LinalgError::NoConvergence { batch, .. } = &mut e
        {
            *batch += first;
        }
        let kind = match e {
            LinalgError::Length { .. } => Kind::Internal,
            _ => Kind::Value,
        };
        Error::new(kind, e.to_string())
    }
}

/// The number of matrices, and their rows and columns.
fn shape(x: &Tensor) -> (usize, (usize, usize)) {
    let sizes = x.shape().sizes();
    let rank = sizes.len();
    (
        sizes[..rank - 2].iter().product(),
        (sizes[rank - 2], sizes[rank - 1]),
    )
}

/// Elements of copied matrices that are held at a time; at least one matrix per thread.
const MAX_COPIED: usize = 1 << 20;

/// The matrices of an operand, in row-major order.
struct Matrices<'a, T> {
    op: &'static str,
    view: View<'a, T>,
    /// All of them, if they are contiguous already.
    dense: Option<&'a [T]>,
    size: usize,
    /// The number of matrices wanted at a time.
    each: usize,
    copied: Option<Bytes>,
}

impl<'a, T: bytemuck::Pod + Send + Sync> Matrices<'a, T> {
    fn new(op: &'static str, buffer: &'a Buffer, x: &Tensor) -> Self {
        let (_, (rows, columns)) = shape(x);
        Matrices {
            op,
            view: buffer.view::<T>(x.shape()).merged(),
            dense: buffer.dense(x.shape().count()),
            size: rows * columns,
            each: 0,
            copied: None,
        }
    }

    /// The number of matrices per round: all, unless they are copied.
    fn rounds(
        &mut self,
        batch: usize,
        copies: bool,
    ) -> impl Iterator<Item = Range<usize>> + use<T> {
        let most = (MAX_COPIED / self.size.max(1)).max(parallel::threads());
        let each = match copies || self.dense.is_none() {
            true => most.min(batch).max(1),
            false => batch.max(1),
        };
        self.each = each;
        // An empty batch is one round, which still checks sizes.
        (0..batch.max(1))
            .step_by(each)
            .map(move |start| start..batch.min(start + each))
    }

    fn get(&mut self, range: &Range<usize>) -> Result<&[T]> {
        match self.dense {
            Some(all) => Ok(&all[range.start * self.size..range.end * self.size]),
            None => self.copy(range).map(|copy| &*copy),
        }
    }

    fn copy(&mut self, range: &Range<usize>) -> Result<&mut [T]> {
        let copied = match self.copied.take() {
            Some(copied) => copied,
            None => {
                let bytes = self.each.max(range.len()) * self.size * size_of::<T>();
                memory::alloc(self.op, &Spec::of(DType::U8, [bytes])?)?
            }
        };
        let copied = self.copied.insert(copied).as_mut_slice::<T>();
        let copied = &mut copied[..range.len() * self.size];
        let first = range.start * self.size;
        let view = &self.view;
        let grain = crate::kernel::map::Cost::Light.grain();
        parallel::for_chunks_mut(copied, grain, |start, out| view.read(first + start, out));
        Ok(copied)
    }
}

/// The part of a result that belongs to some matrices of a batch.
fn part<'a, T>(all: &'a mut [T], range: &Range<usize>, batch: usize) -> &'a mut [T] {
    let size = all.len() / batch.max(1);
    &mut all[range.start * size..range.end * size]
}

fn alloc<const N: usize>(op: &str, out: &[Spec]) -> Result<[Bytes; N]> {
    let all = out
        .iter()
        .map(|spec| memory::alloc(op, spec))
        .collect::<Result<Vec<_>>>()?;
    match all.try_into() {
        Ok(all) => Ok(all),
        Err(_) => bail!(Internal, "{op}: another number of results was expected"),
    }
}

fn finish<const N: usize>(bytes: [Bytes; N]) -> Vec<Buffer> {
    bytes.into_iter().map(Buffer::new).collect()
}

/// The triangular factor; the lower triangle of the operand is read.
pub fn cholesky(p: &Cholesky, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, (n, _)) = shape(x);
    let from = buffer::of(x)?;
    let mut bytes = alloc::<1>("cholesky", out)?;
    by_matrix!("cholesky", x.dtype(), T => {
        let mut matrices = Matrices::<T>::new("cholesky", &from, x);
        for range in matrices.rounds(batch, p.upper) {
            let to = part(bytes[0].as_mut_slice::<T>(), &range, batch);
            let a = match p.upper {
                // The kernel reads the triangle that it writes, so it gets the adjoint of the lower one.
                true => adjoints(matrices.copy(&range)?, n),
                false => matrices.get(&range)?,
            };
            la::cholesky(a, range.len(), n, p.upper, to).map_err(fail(range.start))?;
        }
    });
    Ok(finish(bytes))
}

/// Replaces each `n × n` matrix by its adjoint.
fn adjoints<T: Scalar>(all: &mut [T], n: usize) -> &[T] {
    for a in all.chunks_mut((n * n).max(1)) {
        for i in 0..n {
            a[i * n + i] = a[i * n + i].conjugate();
            for j in 0..i {
                let (low, high) = (a[i * n + j], a[j * n + i]);
                (a[i * n + j], a[j * n + i]) = (high.conjugate(), low.conjugate());
            }
        }
    }
    all
}

/// `q` and `r`.
pub fn qr(p: &Qr, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, sizes) = shape(x);
    let from = buffer::of(x)?;
    let [mut q, mut r] = alloc("qr", out)?;
    by_matrix!("qr", x.dtype(), T => {
        let mut matrices = Matrices::<T>::new("qr", &from, x);
        for range in matrices.rounds(batch, false) {
            let q = part(q.as_mut_slice::<T>(), &range, batch);
            let r = part(r.as_mut_slice::<T>(), &range, batch);
            let a = matrices.get(&range)?;
            la::qr(a, range.len(), sizes, p.complete, q, r).map_err(fail(range.start))?;
        }
    });
    Ok(finish([q, r]))
}

/// `u`, `s` and `vh`, or `s`.
pub fn svd(p: &Svd, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, sizes) = shape(x);
    let from = buffer::of(x)?;
    by_matrix!("svd", x.dtype(), T => {
        type Part = <T as Scalar>::Part;
        let mut matrices = Matrices::<T>::new("svd", &from, x);
        if !p.vectors {
            let [mut s] = alloc("svd", out)?;
            for range in matrices.rounds(batch, false) {
                let s = part(s.as_mut_slice::<Part>(), &range, batch);
                let a = matrices.get(&range)?;
                la::svd(a, range.len(), sizes, p.complete, s, None).map_err(fail(range.start))?;
            }
            return Ok(finish([s]));
        }
        let [mut u, mut s, mut vh] = alloc("svd", out)?;
        for range in matrices.rounds(batch, false) {
            let u = part(u.as_mut_slice::<T>(), &range, batch);
            let s = part(s.as_mut_slice::<Part>(), &range, batch);
            let vh = part(vh.as_mut_slice::<T>(), &range, batch);
            let a = matrices.get(&range)?;
            la::svd(a, range.len(), sizes, p.complete, s, Some((u, vh))).map_err(fail(range.start))?;
        }
        Ok(finish([u, s, vh]))
    })
}

/// `w` and `v`, or `w`.
pub fn eigh(p: &Eigh, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, (n, _)) = shape(x);
    let from = buffer::of(x)?;
    by_matrix!("eigh", x.dtype(), T => {
        type Part = <T as Scalar>::Part;
        let mut matrices = Matrices::<T>::new("eigh", &from, x);
        if !p.vectors {
            let [mut w] = alloc("eigh", out)?;
            for range in matrices.rounds(batch, false) {
                let w = part(w.as_mut_slice::<Part>(), &range, batch);
                la::eigh(matrices.get(&range)?, range.len(), n, w, None).map_err(fail(range.start))?;
            }
            return Ok(finish([w]));
        }
        let [mut w, mut v] = alloc("eigh", out)?;
        for range in matrices.rounds(batch, false) {
            let w = part(w.as_mut_slice::<Part>(), &range, batch);
            let v = part(v.as_mut_slice::<T>(), &range, batch);
            la::eigh(matrices.get(&range)?, range.len(), n, w, Some(v)).map_err(fail(range.start))?;
        }
        Ok(finish([w, v]))
    })
}

/// `w` and `v`, or `w`, complex.
pub fn eig(p: &Eig, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, (n, _)) = shape(x);
    let from = buffer::of(x)?;
    by_matrix!("eig", x.dtype(), T => {
        type Pair = Complex<<T as Scalar>::Part>;
        let mut matrices = Matrices::<T>::new("eig", &from, x);
        if !p.vectors {
            let [mut w] = alloc("eig", out)?;
            for range in matrices.rounds(batch, false) {
                let w = part(w.as_mut_slice::<Pair>(), &range, batch);
                la::eig(matrices.get(&range)?, range.len(), n, w, None).map_err(fail(range.start))?;
            }
            return Ok(finish([w]));
        }
        let [mut w, mut v] = alloc("eig", out)?;
        for range in matrices.rounds(batch, false) {
            let w = part(w.as_mut_slice::<Pair>(), &range, batch);
            let v = part(v.as_mut_slice::<Pair>(), &range, batch);
            la::eig(matrices.get(&range)?, range.len(), n, w, Some(v)).map_err(fail(range.start))?;
        }
        Ok(finish([w, v]))
    })
}

/// Packed factors, pivots and permutation.
pub fn lu(x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, sizes) = shape(x);
    let from = buffer::of(x)?;
    let [mut factors, mut pivots, mut permutation] = alloc("lu", out)?;
    by_matrix!("lu", x.dtype(), T => {
        let mut matrices = Matrices::<T>::new("lu", &from, x);
        for range in matrices.rounds(batch, false) {
            let factors = part(factors.as_mut_slice::<T>(), &range, batch);
            let pivots = part(pivots.as_mut_slice::<i32>(), &range, batch);
            let permutation = part(permutation.as_mut_slice::<i32>(), &range, batch);
            let a = matrices.get(&range)?;
            la::lu(a, range.len(), sizes, factors, pivots, permutation).map_err(fail(range.start))?;
        }
    });
    Ok(finish([factors, pivots, permutation]))
}

/// Solves with a triangular matrix.
pub fn triangular_solve(
    p: &TriangularSolve,
    a: &Tensor,
    b: &Tensor,
    out: &[Spec],
) -> Result<Vec<Buffer>> {
    let op = "triangular_solve";
    let (batch, (n, _)) = shape(a);
    let (_, (height, width)) = shape(b);
    let (side, columns) = if p.left {
        (la::Side::Left, width)
    } else {
        (la::Side::Right, height)
    };
    let triangle = if p.lower {
        la::Triangle::Lower
    } else {
        la::Triangle::Upper
    };
    let transform = match p.transpose {
        Transposed::No => la::Transform::None,
        Transposed::Yes => la::Transform::Transpose,
        Transposed::Adjoint => la::Transform::Adjoint,
    };
    let (left, right) = (buffer::of(a)?, buffer::of(b)?);
    let [mut x] = alloc(op, out)?;
    by_matrix!(op, a.dtype(), T => {
        let mut left = Matrices::<T>::new(op, &left, a);
        let mut right = Matrices::<T>::new(op, &right, b);
        let copies = left.dense.is_none() || right.dense.is_none();
        // Both operands use the same rounds: sized by the larger of the two.
        let larger = if left.size > right.size { &mut left } else { &mut right };
        for range in larger.rounds(batch, copies) {
            la::triangular_solve(
                left.get(&range)?,
                right.get(&range)?,
                range.len(),
                (n, columns),
                side,
                triangle,
                transform,
                p.unit_diagonal,
                part(x.as_mut_slice::<T>(), &range, batch),
            )
            .map_err(fail(range.start))?;
        }
    });
    Ok(finish([x]))
}
