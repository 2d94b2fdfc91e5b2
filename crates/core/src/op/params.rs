//! The parameters of the structural ops. Types only: what an op means is said in `infer` and in the engine.

use crate::dim::Dim;
use crate::dtype::{DType, Scalar};
use crate::graph::Body;
use crate::shape::{Axes, Axis, Shape};
use crate::{params, words};
use smallvec::SmallVec;

/// Sizes or offsets per axis.
pub type Dims = SmallVec<[Dim; 6]>;
/// Low and high padding per axis; negative padding crops.
pub type Pads = SmallVec<[(Dim, Dim); 4]>;

words! {
    /// How a reduction combines.
    ReduceKind { Sum "sum", Prod "prod", Max "max", Min "min", Any "any", All "all" }
}
words! {
    /// Which extreme an arg-reduction looks for.
    Extreme { Max "max", Min "min" }
}
words! {
    /// How a running reduction combines.
    CumulativeKind { Sum "sum", Prod "prod", Max "max", Min "min", LogSumExp "logsumexp" }
}
words! {
    /// What a scatter does where it writes.
    ScatterKind { Set "set", Add "add", Mul "mul", Min "min", Max "max" }
}
words! {
    /// What happens to an index that is out of range.
    OutOfRange {
        /// It is moved to the nearest legal place.
        Clip "clip",
        /// Reading gives zero, writing does nothing.
        Drop "drop",
    }
}
words! {
    /// How a window is reduced.
    WindowKind { Sum "sum", Max "max", Min "min", Prod "prod" }
}
words! {
    /// How a triangular matrix is taken.
    Transposed { No "no", Yes "yes", Adjoint "adjoint" }
}
words! {
    /// Which Fourier transform.
    FftKind {
        /// Complex to complex.
        Forward "forward",
        /// Complex to complex, scaled by 1/n.
        Inverse "inverse",
        /// Real to the non-negative half of the spectrum.
        Real "real",
        /// The half spectrum back to real numbers, scaled by 1/n.
        RealInverse "real_inverse",
    }
}
words! {
    /// How devices combine what they hold.
    CollectiveKind { AllReduceSum "all_reduce_sum", AllGather "all_gather", ReduceScatterSum "reduce_scatter_sum", AllToAll "all_to_all", Broadcast "broadcast_from" }
}

params! {
    /// One value everywhere.
    Full { value: Scalar, dtype: DType, shape: Shape }
    /// 0, 1, 2 … along one axis.
    Iota { axis: Axis, dtype: DType, shape: Shape }
    /// Axis `i` of the operand becomes axis `axes[i]` of `shape`; sizes of 1 are repeated, new axes too.
    Broadcast { shape: Shape, axes: Axes }
    /// From `start` up to `limit`, every `strides`-th.
    Slice { start: Dims, limit: Dims, strides: Axes }
    /// Puts the second operand around (and `interior` times between) the elements; negative padding crops.
    Pad { low: Dims, high: Dims, interior: Axes }
    /// Takes a slice of `slice_sizes` at each index vector (the last axis of the second operand).
    ///
    /// `offset_axes`: where the slice's axes stand in the result. `collapsed`: slice axes of size 1 that are dropped.
    /// `index_map`: which operand axis each component of an index vector is for. `operand_batch` and `index_batch`
    /// pair axes that go side by side.
    Gather { offset_axes: Axes, collapsed: Axes, index_map: Axes, operand_batch: Axes, index_batch: Axes, slice_sizes: Dims, mode: OutOfRange }
    /// Writes slices of the third operand into the first at each index vector of the second; the mirror of `Gather`.
    Scatter { kind: ScatterKind, window_axes: Axes, inserted: Axes, index_map: Axes, operand_batch: Axes, index_batch: Axes, mode: OutOfRange }
    /// Combines over axes, which vanish.
    Reduce { kind: ReduceKind, axes: Axes }
    /// The first place of the largest or smallest along an axis, which vanishes; NaN counts as the extreme.
    ArgReduce { kind: Extreme, axis: Axis }
    /// Combines all elements up to each one along an axis.
    Cumulative { kind: CumulativeKind, axis: Axis, reverse: bool }
    /// Sorts all operands together by the first `keys` of them; NaN last.
    Sort { axis: Axis, keys: u8, descending: bool, stable: bool }
    /// Sums products over the contracted axes, side by side over the batch axes: `[batch…, lhs free…, rhs free…]`.
    Dot { lhs_batch: Axes, rhs_batch: Axes, lhs_contract: Axes, rhs_contract: Axes }
    /// Slides a filter over the input: any number of spatial axes, any layout.
    ///
    /// A layout lists where each logical axis stands: `[batch, feature, spatial…]` for input and output,
    /// `[out feature, in feature, spatial…]` for the filter.
    Conv { strides: Axes, padding: Pads, lhs_dilation: Axes, rhs_dilation: Axes, lhs_layout: Axes, rhs_layout: Axes, out_layout: Axes, feature_groups: usize, batch_groups: usize }
    /// Slides a window over every axis and reduces what lies in it.
    Window { kind: WindowKind, size: Axes, strides: Axes, padding: Pads, base_dilation: Axes, window_dilation: Axes }
    /// Adds each element of the second operand to the place that its window selects in the first; `kind` is max or min.
    WindowScatter { kind: WindowKind, size: Axes, strides: Axes, padding: Pads, base_dilation: Axes, window_dilation: Axes }
    /// Takes from the second operand the place that each window selects in the first; `kind` is max or min.
    WindowGather { kind: WindowKind, size: Axes, strides: Axes, padding: Pads, base_dilation: Axes, window_dilation: Axes }
    /// The triangular factor of a positive definite matrix; reads the lower triangle.
    Cholesky { upper: bool }
    /// Orthogonal times upper triangular: `q, r`.
    Qr { complete: bool }
    /// Singular values, falling, with vectors unless told otherwise: `u, s, vh` or `s`.
    Svd { complete: bool, vectors: bool }
    /// Eigenvalues, rising, of a Hermitian matrix given by its lower triangle: `w, v` or `w`.
    Eigh { vectors: bool }
    /// Eigenvalues of any square matrix: `w, v` or `w`, complex.
    Eig { vectors: bool }
    /// Solves with a triangular matrix: `a x = b`, or `x a = b` where `left` is false.
    TriangularSolve { left: bool, lower: bool, transpose: Transposed, unit_diagonal: bool }
    /// A Fourier transform over axes; the last one is the halved one, and `length` is its size outside of the spectrum.
    Fft { kind: FftKind, axes: Axes, length: Dim }
    /// Runs the branch that the first operand numbers (clipped to the range) on the other operands.
    Cond { branches: Vec<Body> }
    /// Runs `body` on the carries while `test` is true. Operands: consts of the test, consts of the body, carries.
    While { test: Body, body: Body, test_consts: usize, body_consts: usize }
    /// Runs `body` over the leading axis. Operands: consts, carries, sequences; results: carries, sequences.
    Scan { body: Body, consts: usize, carries: usize, length: Dim, reverse: bool }
    /// Combines over a named group of devices.
    Collective { kind: CollectiveKind, group: String, axis: Axis }
}
