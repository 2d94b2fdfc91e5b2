//! What can be computed element by element together: over which space, and what each value is in it.

use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, ReduceKind, Unary};
use clematis_core::{Composite, DType, Op, Shape};
use clematis_native::kernel::{binary, unary};

/// The longest row that is folded inside of a tile.
const LONGEST_ROW: usize = 1 << 14;

/// The elements that members of a group are computed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// The shape of values that have all of them.
    pub shape: Shape,
    /// Whether some values have one element for each row along the last axis.
    pub by_rows: bool,
}

/// How many elements of its space a value has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// All of them.
    Full,
    /// One for each row along the last axis.
    Row,
}

impl Space {
    /// Without rows.
    pub fn flat(shape: &Shape) -> Self {
        Space {
            shape: shape.clone(),
            by_rows: false,
        }
    }

    /// The size of the last axis.
    pub fn columns(&self) -> usize {
        match self.shape.rank() {
            0 => 1,
            rank => self.shape.size(rank - 1),
        }
    }

    /// How many elements.
    pub fn count(&self) -> usize {
        self.shape.count()
    }

    /// What a value of this shape is here, if anything.
    pub fn class(&self, shape: &Shape) -> Option<Class> {
        if *shape == self.shape {
            return Some(Class::Full);
        }
        (self.by_rows && self.is_row(shape)).then_some(Class::Row)
    }

    /// Whether a shape is that of rows: the last axis is gone or 1.
    pub fn is_row(&self, shape: &Shape) -> bool {
        let rank = self.shape.rank();
        rank > 0
            && (*shape == self.shape.without(&[rank - 1]) || *shape == self.shape.with(rank - 1, 1))
    }

    /// Whether rows of this space can be folded inside of a tile.
    pub fn has_rows(&self) -> bool {
        self.shape.rank() > 0 && (2..=LONGEST_ROW).contains(&self.columns())
    }
}

/// What a node is to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Each element from the elements at the same place.
    Each,
    /// Each row to one element.
    Fold,
    /// The same rows under another shape, or repeated along the last axis.
    Spread,
}

fn plain(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::Bool)
}

/// What a node can be to a group; `None` where it stands alone.
pub fn part(graph: &Graph, node: &Node) -> Option<Part> {
    let out = match node.outs.len() {
        1 => &graph.values[node.outs.start as usize],
        _ => return None,
    };
    let args: Vec<_> = node.args.iter().map(|a| graph.arg_spec(a)).collect();
    if !plain(out.dtype) || args.iter().any(|s| !plain(s.dtype)) || out.shape.count() == 0 {
        return None;
    }
    let first = args.first().map(|s| s.dtype);
    let float = first == Some(DType::F32);
    let each = match &node.op {
        Op::Unary(u) if float => unary::row(*u).is_some() || unary::truth_row(*u).is_some(),
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
    if each {
        return Some(Part::Each);
    }
    match &node.op {
        Op::Reduce(p) if float => {
            let shape = &args[0].shape;
            let folds = matches!(p.kind, ReduceKind::Sum | ReduceKind::Max);
            let last = p.axes.len() == 1 && p.axes[0] + 1 == shape.rank();
            (folds && last && Space::flat(shape).has_rows()).then_some(Part::Fold)
        }
        Op::Reshape(_) if float => Some(Part::Spread),
        Op::Broadcast(p) if float => {
            let plain = p.axes.iter().enumerate().all(|(i, &a)| i == a);
            plain.then_some(Part::Spread)
        }
        _ => None,
    }
}

/// The value that an operand is, unless it is a number.
pub fn value(arg: &Arg) -> Option<usize> {
    match arg {
        Arg::Value(id) => Some(id.0 as usize),
        Arg::Const(_) => None,
    }
}
