//! Parameters of the structural ops. Types only: the meaning is defined by `infer` and the engine.

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
    /// The reduction operator.
    ReduceKind { Sum "sum", Prod "prod", Max "max", Min "min", Any "any", All "all" }
}
words! {
    /// Which extreme an arg-reduction finds.
    Extreme { Max "max", Min "min" }
}
words! {
    /// The operator of a cumulative reduction.
    CumulativeKind { Sum "sum", Prod "prod", Max "max", Min "min", LogSumExp "logsumexp" }
}
words! {
    /// How a scatter combines updates with the operand.
    ScatterKind { Set "set", Add "add", Mul "mul", Min "min", Max "max" }
}
words! {
    /// Treatment of out-of-range indices.
    OutOfRange {
        /// Clipped to the nearest valid index.
        Clip "clip",
        /// Reads give zero, writes are dropped.
        Drop "drop",
    }
}
words! {
    /// The reduction operator of a window.
    WindowKind { Sum "sum", Max "max", Min "min", Prod "prod" }
}
words! {
    /// Whether a triangular matrix is transposed.
    Transposed { No "no", Yes "yes", Adjoint "adjoint" }
}
words! {
    /// The kind of Fourier transform.
    FftKind {
        /// Complex to complex.
        Forward "forward",
        /// Complex to complex, scaled by 1/n.
        Inverse "inverse",
        /// Real to the non-negative half of the spectrum.
        Real "real",
        /// Half spectrum to real numbers, scaled by 1/n.
        RealInverse "real_inverse",
    }
}
words! {
    /// How devices combine their values.
    CollectiveKind { AllReduceSum "all_reduce_sum", AllGather "all_gather", ReduceScatterSum "reduce_scatter_sum", AllToAll "all_to_all", Broadcast "broadcast_from" }
}

params! {
    /// A constant tensor.
    Full { value: Scalar, dtype: DType, shape: Shape }
    /// 0, 1, 2 … along one axis.
    Iota { axis: Axis, dtype: DType, shape: Shape }
    /// Axis `i` of the operand becomes axis `axes[i]` of `shape`; axes of size 1 and new axes are repeated.
    Broadcast { shape: Shape, axes: Axes }
    /// Elements from `start` up to `limit` with step `strides`.
    Slice { start: Dims, limit: Dims, strides: Axes }
    /// Pads with the second operand around and (`interior` times) between the elements; negative padding crops.
    Pad { low: Dims, high: Dims, interior: Axes }
    /// Reads a slice of `slice_sizes` at each index vector (the last axis of the second operand).
    ///
    /// `offset_axes`: the axes of the slice in the result. `collapsed`: slice axes of size 1 that are dropped.
    /// `index_map`: the operand axis of each component of an index vector. `operand_batch` and `index_batch`: pairs
    /// of batch axes.
    Gather { offset_axes: Axes, collapsed: Axes, index_map: Axes, operand_batch: Axes, index_batch: Axes, slice_sizes: Dims, mode: OutOfRange }
    /// Writes slices of the third operand into the first at each index vector of the second; the reverse of `Gather`.
    Scatter { kind: ScatterKind, window_axes: Axes, inserted: Axes, index_map: Axes, operand_batch: Axes, index_batch: Axes, mode: OutOfRange }
    /// Reduces over axes, which are removed.
    Reduce { kind: ReduceKind, axes: Axes }
    /// Index of the first maximum or minimum along an axis, which is removed; NaN counts as the extreme.
    ArgReduce { kind: Extreme, axis: Axis }
    /// Cumulative reduction along an axis.
    Cumulative { kind: CumulativeKind, axis: Axis, reverse: bool }
    /// Sorts all operands together by the first `keys` of them; NaN last.
    Sort { axis: Axis, keys: u8, descending: bool, stable: bool }
    /// `dot_general`: sums products over the contracted axes, batched over the batch axes. The result is `[batch…,
    /// lhs free…, rhs free…]`.
    Dot { lhs_batch: Axes, rhs_batch: Axes, lhs_contract: Axes, rhs_contract: Axes }
    /// General convolution: any number of spatial axes, any layout.
    ///
    /// A layout lists the position of each logical axis: `[batch, feature, spatial…]` for input and output, `[out
    /// feature, in feature, spatial…]` for the filter.
    Conv { strides: Axes, padding: Pads, lhs_dilation: Axes, rhs_dilation: Axes, lhs_layout: Axes, rhs_layout: Axes, out_layout: Axes, feature_groups: usize, batch_groups: usize }
    /// Reduces sliding windows over all axes.
    Window { kind: WindowKind, size: Axes, strides: Axes, padding: Pads, base_dilation: Axes, window_dilation: Axes }
    /// Adds each element of the second operand to the element that its window selects in the first; `kind` is max or
    /// min.
    WindowScatter { kind: Extreme, size: Axes, strides: Axes, padding: Pads, base_dilation: Axes, window_dilation: Axes }
    /// Reads from the second operand the element that each window selects in the first; `kind` is max or min.
    WindowGather { kind: Extreme, size: Axes, strides: Axes, padding: Pads, base_dilation: Axes, window_dilation: Axes }
    /// Cholesky factor of a positive definite matrix; reads the lower triangle.
    Cholesky { upper: bool }
    /// QR decomposition: `q, r`.
    Qr { complete: bool }
    /// Singular values in descending order, with vectors if `vectors` is set: `u, s, vh` or `s`.
    Svd { complete: bool, vectors: bool }
    /// Eigenvalues in ascending order of a Hermitian matrix given by its lower triangle: `w, v` or `w`.
    Eigh { vectors: bool }
    /// Eigenvalues of any square matrix: `w, v` or `w`, complex.
    Eig { vectors: bool }
    /// Solves `a x = b` with a triangular matrix, or `x a = b` where `left` is false.
    TriangularSolve { left: bool, lower: bool, transpose: Transposed, unit_diagonal: bool }
    /// A Fourier transform over axes; for the real transforms the last one is halved, and `length` is its size
    /// outside of the spectrum.
    Fft { kind: FftKind, axes: Axes, length: Dim }
    /// Runs the branch that the first operand selects (clipped to the range) on the other operands.
    Cond { branches: Vec<Body> }
    /// Runs `body` on the carries while `test` is true. Operands: consts of the test, consts of the body, carries.
    While { test: Body, body: Body, test_consts: usize, body_consts: usize }
    /// Runs `body` over the leading axis. Operands: consts, carries, sequences; results: carries, sequences.
    Scan { body: Body, consts: usize, carries: usize, length: Dim, reverse: bool }
    /// Combines values over a named group of devices.
    Collective { kind: CollectiveKind, group: String, axis: Axis }
}
