//! Pattern matching: replaces the formula of a composite by the composite, so that a backend's fused kernel runs:
//! `x * sigmoid(x) → silu(x)`.
//!
//! Only if no other node reads the intermediates: a derivative that needs them is better off with the formula. And
//! only if the engine's kernel is bit-identical to the formula, except for frameworks, which get any op they have a
//! fused kernel for.

mod rounded;

use crate::graph_view::GraphView;
use crate::rewriter::{Args, rewrite};
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::op::{Binary, Unary};
use clematis_core::pass::Options;
use clematis_core::{Composite, DType, Op, Result, Spec};
use smallvec::SmallVec;

/// √(2 / π) and the factor of the cubic term in the tanh approximation of gelu.
const ROOT: f64 = 0.797_884_560_802_865_4;
const CUBE: f64 = 0.044_715;

/// A composite and its operands.
type Found<'a> = (Composite, SmallVec<[&'a Arg; 3]>);

fn of(composite: Composite, x: &Arg) -> Found<'_> {
    (composite, SmallVec::from_slice(&[x]))
}

/// A graph in which formulas are matched.
struct Formulas<'a> {
    view: GraphView<'a>,
}

impl<'a> Formulas<'a> {
    /// The node that produces an operand which is read `times` times.
    fn node(&self, arg: &Arg, times: usize) -> Option<&'a Node> {
        self.view.producer_read(arg, times)
    }

    fn spec<'b>(&'b self, arg: &'b Arg) -> &'b Spec {
        self.view.graph().arg_spec(arg)
    }

    /// Both operands of an operation that is read once.
    fn both(&self, arg: &Arg, op: Binary) -> Option<&'a [Arg]> {
        let node = self.node(arg, 1)?;
        (node.op == Op::Binary(op)).then_some(&node.args[..])
    }

    /// Whether an operand of the node that defines `arg` is this number, rounded to its dtype.
    fn is_number(&self, operand: &Arg, arg: &Arg, number: f64) -> bool {
        let double = self.spec(arg).dtype == DType::F64;
        match operand {
            Arg::Const(t) => t.as_number().is_some_and(|found| match double {
                true => found.as_f64() == number,
                false => found.as_f64() as f32 == number as f32,
            }),
            Arg::Value(_) => false,
        }
    }

    /// The other operand, where this multiplies or adds a number.
    fn with_number(&self, arg: &Arg, op: Binary, number: f64) -> Option<&'a Arg> {
        let is_number = |n: &Arg| self.is_number(n, arg, number);
        match self.both(arg, op)? {
            [x, n] | [n, x] if is_number(n) && !is_number(x) => Some(x),
            _ => None,
        }
    }

    /// `x` where this is `x · x · x`.
    fn cubed(&self, arg: &Arg) -> Option<&'a Arg> {
        let [a, b] = self.both(arg, Binary::Mul)? else {
            return None;
        };
        let root = |square: &Arg| {
            let node = self.node(square, 1)?;
            match (&node.op, &node.args[..]) {
                (Op::Unary(Unary::Square), [x]) => Some(x),
                (Op::Binary(Binary::Mul), [x, y]) if same(x, y) => Some(x),
                _ => None,
            }
        };
        let pick = |square, x| root(square).filter(|found| same(found, x));
        pick(a, b).or_else(|| pick(b, a))
    }

    /// `x` of `(x / 2) (1 + tanh(√(2/π) (x + 0.044715 x³)))`.
    fn gelu(&self, node: &Node) -> Option<&'a Arg> {
        let (Op::Binary(Binary::Mul), [a, b]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let found = |half: &Arg, rest: &Arg| {
            let x = self.with_number(half, Binary::Mul, 0.5)?;
            let tanh = self.node(self.with_number(rest, Binary::Add, 1.0)?, 1)?;
            let inner = tanh
                .args
                .first()
                .filter(|_| tanh.op == Op::Unary(Unary::Tanh))?;
            let sum = self.both(self.with_number(inner, Binary::Mul, ROOT)?, Binary::Add)?;
            let cube = match sum {
                [y, cube] | [cube, y] if same(x, y) => self.with_number(cube, Binary::Mul, CUBE)?,
                _ => return None,
            };
            self.cubed(cube).filter(|y| same(x, y)).map(|_| x)
        };
        found(a, b).or_else(|| found(b, a))
    }

    /// `x` of `x sigmoid(x)`.
    fn silu(&self, node: &Node) -> Option<&'a Arg> {
        let (Op::Binary(Binary::Mul), [a, b]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let found = |x: &Arg, sigmoid: &Arg| {
            let node = self.node(sigmoid, 1)?;
            let is_sigmoid = matches!(&node.op, Op::Call(c) if **c == Composite::Sigmoid {});
            node.args.first().filter(|y| is_sigmoid && same(x, y))
        };
        found(a, b).or_else(|| found(b, a))
    }
}

fn same(a: &Arg, b: &Arg) -> bool {
    matches!((a, b), (Arg::Value(a), Arg::Value(b)) if a == b)
}

/// Replaces formulas by composites.
pub fn run(graph: &Graph, options: Options) -> Result<Option<Graph>> {
    let formulas = Formulas {
        view: GraphView::new(graph),
    };
    rewrite(graph, |new, node, _| {
        let out = &graph.values[node.outs.start as usize];
        // With half precision a formula rounds after each step, a kernel only once.
        if node.outs.len() != 1 || ![DType::F32, DType::F64].contains(&out.dtype) {
            return Ok(None);
        }
        let found = match (formulas.gelu(node), formulas.silu(node)) {
            (Some(x), _) => Some(of(Composite::Gelu { approximate: true }, x)),
            (_, Some(x)) => Some(of(Composite::Silu {}, x)),
            _ if options.fused => formulas.rounded(node),
            _ => None,
        };
        let Some((composite, args)) = found else {
            return Ok(None);
        };
        let args = args.into_iter().map(|x| new.lookup(x));
        let args = args.collect::<Result<Args>>()?;
        Ok(Some(vec![new.one(composite.into(), args, node.scope)?]))
    })
}
