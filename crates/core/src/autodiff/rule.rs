//! The derivative rule of each op, in one table.
//!
//! A rule defines both modes. Pointwise, linear and multilinear ops need one formula. For `Forward`, the VJP is the
//! transpose of the JVP: the JVP is linear in the tangents, so it is recorded and transposed.

use super::{
    composite, control, index, linalg, linear, pointwise, reduce, scan, structural, window,
};
use crate::error::Result;
use crate::expr::Expr;
use crate::op::{CumulativeKind, Op, ReduceKind, ScatterKind, Unary, WindowKind};
use crate::tensor::Tensor;

/// ∂y/∂xᵢ of an elementwise op; `y` is the result.
pub type Partial = fn(&Op, usize, &[&Tensor], &Tensor) -> Expr;
/// The transpose in operand i: maps the cotangent of the result to the cotangent of the operand.
pub type Transpose = fn(&Op, usize, &[&Tensor], &Tensor) -> Expr;
/// Arguments: operands, results, cotangents of results (absent: zero), which operands need a cotangent.
pub type Vjp =
    fn(&Op, &[&Tensor], &[&Tensor], &[Option<Tensor>], &[bool]) -> Result<Vec<Option<Tensor>>>;
/// Arguments: operands, results, tangents of operands (absent: zero). Returns tangents of results.
pub type Jvp = fn(&Op, &[&Tensor], &[&Tensor], &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>>;

/// How an op is differentiated.
pub enum Rule {
    /// The derivative is zero.
    Zero,
    /// Elementwise, by partial derivatives.
    Pointwise(Partial),
    /// Linear in all float operands together: the JVP is the op itself on tangents.
    Linear(Transpose),
    /// Linear in each float operand separately: the JVP is a sum of the op with one tangent each.
    Multilinear(Transpose),
    /// By the JVP alone; the VJP is its transpose.
    Forward(Jvp),
    /// By separate VJP and JVP.
    General {
        /// Reverse mode.
        vjp: Vjp,
        /// Forward mode.
        jvp: Jvp,
    },
    /// Not differentiable, with the reason.
    None(&'static str),
}

impl Op {
    /// The derivative rule of this op.
    pub fn rule(&self) -> Rule {
        match self {
            Op::Unary(u) => unary(*u),
            Op::Binary(b) => pointwise::binary_rule(*b),
            Op::Compare(_) => Rule::Zero,
            Op::Select => Rule::Linear(pointwise::select),
            Op::Clamp => Rule::Pointwise(pointwise::clamp),
            Op::StopGradient => Rule::Zero,
            Op::Cast(_) => Rule::General {
                vjp: structural::cast_vjp,
                jvp: structural::cast_jvp,
            },
            Op::Bitcast(_) => Rule::Zero,
            Op::Full(_) | Op::Iota(_) => Rule::Zero,
            Op::Reshape(_) => Rule::Linear(structural::reshape),
            Op::Transpose(_) => Rule::Linear(structural::transpose),
            Op::Broadcast(_) => Rule::Linear(structural::broadcast),
            Op::Slice(_) => Rule::Linear(structural::slice),
            Op::Pad(_) => Rule::Linear(structural::pad),
            Op::Concat(_) => Rule::Linear(structural::concat),
            Op::Reverse(_) => Rule::Linear(structural::reverse),
            Op::DynamicSlice(_) => Rule::Linear(index::dynamic_slice),
            Op::DynamicUpdate => Rule::Linear(index::dynamic_update),
            Op::Gather(_) => Rule::Linear(index::gather),
            Op::Scatter(p) => match p.kind {
                ScatterKind::Add => Rule::Linear(index::scatter_add),
                ScatterKind::Set => Rule::Forward(index::scatter_set),
                ScatterKind::Mul => Rule::Forward(index::scatter_mul),
                ScatterKind::Min | ScatterKind::Max => Rule::Forward(index::scatter_extreme),
            },
            Op::NonZero(_) | Op::SearchSorted(_) | Op::ArgReduce(_) => Rule::Zero,
            Op::Reduce(p) => match p.kind {
                ReduceKind::Sum => Rule::Linear(reduce::sum),
                ReduceKind::Prod => Rule::Forward(reduce::prod),
                ReduceKind::Max | ReduceKind::Min => Rule::General {
                    vjp: reduce::extreme_vjp,
                    jvp: reduce::extreme_jvp,
                },
                ReduceKind::Any | ReduceKind::All => Rule::Zero,
            },
            Op::Cumulative(p) => match p.kind {
                CumulativeKind::Sum => Rule::Linear(reduce::cumulative_sum),
                CumulativeKind::Prod => Rule::Forward(reduce::cumulative_prod),
                CumulativeKind::Max | CumulativeKind::Min => {
                    Rule::Forward(reduce::cumulative_extreme)
                }
                CumulativeKind::LogSumExp => Rule::Forward(reduce::cumulative_logsumexp),
            },
            Op::Sort(_) => Rule::Forward(reduce::sort),
            Op::TopK(_) => Rule::Forward(reduce::top_k),
            Op::Dot(_) => Rule::Multilinear(linear::dot),
            Op::Conv(_) => Rule::Multilinear(linear::conv),
            Op::Window(p) => match p.kind {
                WindowKind::Sum => Rule::Linear(window::sum),
                WindowKind::Max | WindowKind::Min => Rule::General {
                    vjp: window::extreme_vjp,
                    jvp: window::extreme_jvp,
                },
                WindowKind::Prod => Rule::Forward(window::prod),
            },
            Op::WindowScatter(_) => Rule::General {
                vjp: window::scatter_vjp,
                jvp: window::scatter_jvp,
            },
            Op::WindowGather(_) => Rule::General {
                vjp: window::gather_vjp,
                jvp: window::gather_jvp,
            },
            Op::Cholesky(_) => Rule::Forward(linalg::cholesky),
            Op::Qr(_) => Rule::Forward(linalg::qr),
            Op::Svd(_) => Rule::Forward(linalg::svd),
            Op::Eigh(_) => Rule::Forward(linalg::eigh),
            Op::Eig(_) => Rule::Forward(linalg::eig),
            Op::Lu => Rule::Forward(linalg::lu),
            Op::TriangularSolve(_) => Rule::General {
                vjp: linalg::triangular_solve_vjp,
                jvp: linalg::triangular_solve_jvp,
            },
            Op::Fft(_) => Rule::Linear(linalg::fft),
            Op::Cond(_) => Rule::General {
                vjp: control::cond_vjp,
                jvp: control::cond_jvp,
            },
            Op::While(_) => Rule::General {
                vjp: control::while_vjp,
                jvp: control::while_jvp,
            },
            Op::Scan(_) => Rule::General {
                vjp: scan::scan_vjp,
                jvp: scan::scan_jvp,
            },
            Op::Collective(_) => {
                Rule::None("collective ops are not differentiable in this version")
            }
            Op::Call(c) => composite::rule(c),
            Op::Custom(_) => Rule::General {
                vjp: composite::custom_vjp,
                jvp: composite::custom_jvp,
            },
        }
    }

    /// Whether a composite has a derivative rule of its own. Others are expanded when recorded with values.
    pub fn has_rule(&self) -> bool {
        match self {
            Op::Call(c) => composite::is_whole(c),
            _ => true,
        }
    }
}

fn unary(u: Unary) -> Rule {
    match u {
        Unary::Neg | Unary::Positive | Unary::Conj => Rule::Linear(pointwise::linear_unary),
        Unary::Real | Unary::Imag => Rule::Linear(pointwise::linear_unary),
        Unary::Abs => Rule::General {
            vjp: pointwise::abs_vjp,
            jvp: pointwise::abs_jvp,
        },
        Unary::Sign => Rule::Forward(pointwise::sign_jvp),
        Unary::Floor
        | Unary::Ceil
        | Unary::Trunc
        | Unary::Round
        | Unary::IsNan
        | Unary::IsInf
        | Unary::IsFinite
        | Unary::Signbit
        | Unary::BitwiseNot
        | Unary::LogicalNot => Rule::Zero,
        _ => Rule::Pointwise(pointwise::unary),
    }
}
