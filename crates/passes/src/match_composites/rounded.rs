//! Composites that round differently from their formulas: a framework's fused op replaces a chain of small ones.

use super::{Formulas, Found, of, same};
use clematis_core::graph::{Arg, Node};
use clematis_core::op::{Binary, Composite, Op, ReduceKind, Unary};
use clematis_core::shape::Axes;
use smallvec::SmallVec;
use std::f64::consts::{FRAC_1_SQRT_2, SQRT_2};

impl<'a> Formulas<'a> {
    /// Matches the node against the formulas of these composites.
    pub fn rounded(&self, node: &'a Node) -> Option<Found<'a>> {
        self.softmax(node)
            .or_else(|| self.log_softmax(node))
            .or_else(|| self.gelu_erf(node))
            .or_else(|| self.sigmoid(node))
            .or_else(|| self.normalised(node))
            .or_else(|| self.affine(node))
    }

    /// The operand of a unary op that is read `times` times.
    fn function(&self, arg: &Arg, op: Unary, times: usize) -> Option<&'a Arg> {
        let node = self.node(arg, times)?;
        node.args.first().filter(|_| node.op == Op::Unary(op))
    }

    /// A reduction with kept axes (size 1), read once.
    fn kept(&self, arg: &Arg) -> Option<&'a Node> {
        let reshape = self.node(arg, 1)?;
        let (Op::Reshape(to), [folded]) = (&reshape.op, &reshape.args[..]) else {
            return None;
        };
        let node = self.node(folded, 1)?;
        let axes: &Axes = match &node.op {
            Op::Reduce(p) => &p.axes,
            Op::Call(c) => match &**c {
                Composite::Mean { axes } | Composite::Var { axes, .. } => axes,
                _ => return None,
            },
            _ => return None,
        };
        let from = &self.spec(&node.args[0]).shape;
        let is_kept = |a: usize| match axes.contains(&a) {
            true => to.dims()[a] == 1usize,
            false => to.dims()[a] == from.dims()[a],
        };
        (to.rank() == from.rank() && (0..to.rank()).all(is_kept)).then_some(node)
    }

    /// The operand of a reduction along one axis.
    fn along(&self, arg: &Arg, kind: ReduceKind) -> Option<(&'a Arg, usize)> {
        let node = self.kept(arg)?;
        match (&node.op, &node.args[..]) {
            (Op::Reduce(p), [x]) if p.kind == kind => match p.axes[..] {
                [axis] => Some((x, axis)),
                _ => None,
            },
            _ => None,
        }
    }

    /// `x` and the axis of `x - max(x)`, where that is read `times` times.
    fn shifted(&self, arg: &Arg, times: usize) -> Option<(&'a Arg, usize)> {
        let node = self.node(arg, times)?;
        let (Op::Binary(Binary::Sub), [x, top]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let top = match self.node(top, 1)? {
            n if n.op == Op::StopGradient => &n.args[0],
            _ => top,
        };
        let (y, axis) = self.along(top, ReduceKind::Max)?;
        same(x, y).then_some((x, axis))
    }

    fn softmax(&self, node: &'a Node) -> Option<Found<'a>> {
        let (Op::Binary(Binary::Div), [e, sum]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let (summed, axis) = self.along(sum, ReduceKind::Sum)?;
        let inner = self
            .function(e, Unary::Exp, 2)
            .filter(|_| same(e, summed))?;
        let (x, along) = self.shifted(inner, 1)?;
        (axis == along).then(|| of(Composite::Softmax { axis }, x))
    }

    fn log_softmax(&self, node: &'a Node) -> Option<Found<'a>> {
        let (Op::Binary(Binary::Sub), [d, log]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let (e, axis) = self.along(self.function(log, Unary::Log, 1)?, ReduceKind::Sum)?;
        let inner = self.function(e, Unary::Exp, 1).filter(|y| same(d, y))?;
        let (x, along) = self.shifted(inner, 2)?;
        (axis == along).then(|| of(Composite::LogSoftmax { axis }, x))
    }

    /// Matches `(x / 2) (1 + erf(x / √2))`, with factors in any order.
    fn gelu_erf(&self, node: &'a Node) -> Option<Found<'a>> {
        let (Op::Binary(Binary::Mul), [a, b]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let found = |half: &'a Arg, rest: &Arg| {
            let x = self.with_number(half, Binary::Mul, 0.5)?;
            let inner = self.function(self.with_number(rest, Binary::Add, 1.0)?, Unary::Erf, 1)?;
            let y = self
                .with_number(inner, Binary::Mul, FRAC_1_SQRT_2)
                .or_else(|| self.over_number(inner, SQRT_2))?;
            same(x, y).then(|| of(Composite::Gelu { approximate: false }, x))
        };
        found(a, b).or_else(|| found(b, a))
    }

    /// The operand of a division by a number.
    fn over_number(&self, arg: &Arg, number: f64) -> Option<&'a Arg> {
        match self.both(arg, Binary::Div)? {
            [x, n] if self.is_number(n, arg, number) => Some(x),
            _ => None,
        }
    }

    /// Matches `1 / (1 + exp(-x))`.
    fn sigmoid(&self, node: &'a Node) -> Option<Found<'a>> {
        let (Op::Binary(Binary::Div), [one, sum]) = (&node.op, &node.args[..]) else {
            return None;
        };
        let e = self.with_number(sum, Binary::Add, 1.0)?;
        let x = self.function(self.function(e, Unary::Exp, 1)?, Unary::Neg, 1)?;
        self.is_number(one, sum, 1.0)
            .then(|| of(Composite::Sigmoid {}, x))
    }

    /// Matches `(x - mean(x)) / √(variance + ε)` over the last axes.
    fn normalised(&self, node: &'a Node) -> Option<Found<'a>> {
        let Op::Binary(op @ (Binary::Mul | Binary::Div)) = node.op else {
            return None;
        };
        let [d, by] = &node.args[..] else { return None };
        let root = match op {
            Binary::Mul => Unary::Rsqrt,
            _ => Unary::Sqrt,
        };
        let sum = self.both(self.function(by, root, 1)?, Binary::Add)?;
        let [variance, Arg::Const(epsilon)] = sum else {
            return None;
        };
        let variance = self.kept(variance)?;
        let (axes, times) = match (&variance.op, &variance.args[..]) {
            (Op::Call(c), [x]) => match &**c {
                Composite::Var { axes, correction } if correction.0 == 0.0 => {
                    (axes, self.is_centred(d, x, axes, 1).then_some(1)?)
                }
                Composite::Mean { axes } => (axes, self.squared(x, d)?),
                _ => return None,
            },
            _ => return None,
        };
        let [x, _] = &self.node(d, times)?.args[..] else {
            return None;
        };
        let rank = self.spec(x).rank();
        let last: Axes = (rank.checked_sub(axes.len())?..rank).collect();
        (self.is_centred(d, x, axes, times) && !last.is_empty() && *axes == last).then_some(())?;
        let epsilon = epsilon.as_number()?.as_f64().into();
        let axis = last[0];
        Some(of(Composite::LayerNorm { axis, epsilon }, x))
    }

    /// The total number of uses of `d`, where `arg` is its square.
    fn squared(&self, arg: &Arg, d: &Arg) -> Option<usize> {
        let node = self.node(arg, 1)?;
        match (&node.op, &node.args[..]) {
            (Op::Unary(Unary::Square), [x]) if same(x, d) => Some(2),
            (Op::Binary(Binary::Mul), [x, y]) if same(x, d) && same(y, d) => Some(3),
            _ => None,
        }
    }

    /// Whether `d` is `x - mean(x)` over these axes and read `times` times.
    fn is_centred(&self, d: &Arg, x: &Arg, axes: &Axes, times: usize) -> bool {
        let mean = || {
            let node = self.node(d, times)?;
            let (Op::Binary(Binary::Sub), [y, mean]) = (&node.op, &node.args[..]) else {
                return None;
            };
            let mean = self.kept(mean)?;
            let fits =
                matches!(&mean.op, Op::Call(c) if **c == Composite::Mean { axes: axes.clone() });
            (fits && same(x, y) && same(x, mean.args.first()?)).then_some(())
        };
        mean().is_some()
    }

    /// Matches a norm with a scale or a bias of its rows' shape.
    fn affine(&self, node: &'a Node) -> Option<Found<'a>> {
        let Op::Binary(op @ (Binary::Mul | Binary::Add)) = node.op else {
            return None;
        };
        let [a, b] = &node.args[..] else { return None };
        let found = |y: &Arg, parameter: &'a Arg| {
            let norm = self.node(y, 1)?;
            let Op::Call(c) = &norm.op else { return None };
            let Composite::LayerNorm { axis, .. } = &**c else {
                return None;
            };
            let given = if op == Binary::Mul { 1 } else { 2 };
            let rows = &self.spec(&norm.args[0]).shape.dims()[*axis..];
            let spec = self.spec(parameter);
            let fits = spec.shape.dims() == rows && spec.dtype == self.spec(y).dtype;
            (norm.args.len() == given && fits).then(|| {
                let mut args: SmallVec<[&Arg; 3]> = norm.args.iter().collect();
                args.push(parameter);
                ((**c).clone(), args)
            })
        };
        found(a, b).or_else(|| found(b, a))
    }
}
