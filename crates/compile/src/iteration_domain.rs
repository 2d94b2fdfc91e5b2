//! Iteration domains of fusion groups, and the role of a node in a group.

use clematis_core::graph::{Graph, Node};
use clematis_core::op::{Binary, ReduceKind, Unary};
use clematis_core::{Composite, DType, Op, Shape};
use clematis_native::kernel::{binary, unary};

/// The longest row that is reduced within a tile.
const MAX_ROW: usize = 1 << 14;

/// The index space over which all members of a fusion group are computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IterationDomain {
    /// The shape of values that have every element.
    pub shape: Shape,
    /// Whether some values have one element per row (along the last axis).
    pub has_row_values: bool,
}

/// How much of its domain a value covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// Every element.
    Full,
    /// One element per row (along the last axis).
    Row,
}

impl IterationDomain {
    /// A domain without per-row values.
    pub fn flat(shape: &Shape) -> Self {
        IterationDomain {
            shape: shape.clone(),
            has_row_values: false,
        }
    }

    /// The size of the last axis.
    pub fn columns(&self) -> usize {
        match self.shape.rank() {
            0 => 1,
            rank => self.shape.size(rank - 1),
        }
    }

    /// The number of elements.
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    /// The extent of a value of this shape, if it fits the domain.
    pub fn extent(&self, shape: &Shape) -> Option<Extent> {
        if *shape == self.shape {
            return Some(Extent::Full);
        }
        (self.has_row_values && self.is_row(shape)).then_some(Extent::Row)
    }

    /// Whether a shape has one element per row: the last axis is removed or 1.
    pub fn is_row(&self, shape: &Shape) -> bool {
        let rank = self.shape.rank();
        rank > 0
            && (*shape == self.shape.without(&[rank - 1]) || *shape == self.shape.with(rank - 1, 1))
    }

    /// Whether rows of this domain can be reduced within a tile.
    pub fn can_reduce_rows(&self) -> bool {
        self.shape.rank() > 0 && (2..=MAX_ROW).contains(&self.columns())
    }
}

/// The role of a node in a fusion group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FusionRole {
    /// Each element depends on the elements at the same position.
    Elementwise,
    /// Reduces each row to one element.
    Reduce,
    /// Reshapes per-row values, or broadcasts them along the last axis.
    Broadcast,
}

fn is_supported(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::Bool)
}

/// The role that a node can have in a fusion group; `None` if it cannot be fused.
pub fn role(graph: &Graph, node: &Node) -> Option<FusionRole> {
    let out = match node.outs.len() {
        1 => &graph.values[node.outs.start as usize],
        _ => return None,
    };
    let args: Vec<_> = node.args.iter().map(|a| graph.arg_spec(a)).collect();
    if !is_supported(out.dtype)
        || args.iter().any(|s| !is_supported(s.dtype))
        || out.shape.count() == 0
    {
        return None;
    }
    let first = args.first().map(|s| s.dtype);
    let float = first == Some(DType::F32);
    let elementwise = match &node.op {
        Op::Unary(u) if float => unary::row(*u).is_some() || unary::predicate_row(*u).is_some(),
        Op::Unary(u) => *u == Unary::LogicalNot,
        Op::Binary(b) if float => out.dtype == DType::F32 && binary::row(*b).is_some(),
        Op::Binary(b) => matches!(
            b,
            Binary::LogicalAnd | Binary::LogicalOr | Binary::BitwiseAnd | Binary::BitwiseOr
        ),
        Op::Compare(_) => float,
        Op::Select => out.dtype == DType::F32,
        Op::Cast(to) => *to == DType::F32 && first == Some(DType::Bool),
        Op::Call(c) => {
            out.dtype == DType::F32
                && matches!(
                    **c,
                    Composite::Relu {}
                        | Composite::Sigmoid {}
                        | Composite::Silu {}
                        | Composite::Gelu { .. }
                )
        }
        _ => false,
    };
    if elementwise {
        return Some(FusionRole::Elementwise);
    }
    match &node.op {
        Op::Reduce(p) if float => {
            let shape = &args[0].shape;
            let folds = matches!(p.kind, ReduceKind::Sum | ReduceKind::Max);
            let last = p.axes.len() == 1 && p.axes[0] + 1 == shape.rank();
            (folds && last && IterationDomain::flat(shape).can_reduce_rows())
                .then_some(FusionRole::Reduce)
        }
        Op::Reshape(_) if float => Some(FusionRole::Broadcast),
        Op::Broadcast(p) if float => {
            let identity = p.axes.iter().enumerate().all(|(i, &a)| i == a);
            identity.then_some(FusionRole::Broadcast)
        }
        _ => None,
    }
}
