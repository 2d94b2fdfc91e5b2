//! Control flow: `cond`, `switch`, `while_loop`, `scan` and `map`.
//!
//! Bodies are traced once. Tensors that they capture become operands, so derivatives reach them.

use crate::dim::Dim;
use crate::dispatch::apply;
use crate::dtype::{DType, Scalar};
use crate::error::Result;
use crate::graph::{Arg, Body, Graph, Output, ScopeId, ValueId};
use crate::op::{Cond, Full, Op, Scan, While};
use crate::ops::{self, require};
use crate::outs::Outs;
use crate::precondition::Precondition;
use crate::shape::Shape;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::trace::{Closed, trace};
use crate::tree::{self, Tree};
use crate::{bail, ensure};
use crate::{interrupt, limit};
use smallvec::{SmallVec, smallvec};

pub(crate) fn outs(mut list: Vec<Tensor>) -> Outs<Tensor> {
    match (list.len(), list.pop()) {
        (1, Some(one)) => Outs::One(one),
        (_, Some(last)) => {
            list.push(last);
            Outs::Many(list)
        }
        (_, None) => Outs::Many(list),
    }
}

/// The branch index, clipped to the range.
fn branch(which: &Tensor, count: usize) -> Result<usize> {
    let at = which.item()?.as_i128();
    Ok(at.clamp(0, count as i128 - 1) as usize)
}

impl Cond {
    /// Executes the chosen branch.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
        let Some((which, rest)) = inputs.split_first() else {
            bail!(
                Value,
                "cond: expected the index of a branch as first operand"
            );
        };
        ensure!(
            !self.branches.is_empty(),
            Value,
            "cond: expected at least one branch"
        );
        self.branches[branch(which, self.branches.len())?]
            .call(rest)
            .map(outs)
    }
}

impl While {
    /// Executes the body until the test fails.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
        let consts = self.test_consts + self.body_consts;
        ensure!(inputs.len() >= consts, Value, "while: operands are missing");
        let (test, rest) = inputs.split_at(self.test_consts);
        let (body, start) = rest.split_at(self.body_consts);
        let mut carry: Vec<Tensor> = start.iter().map(|&x| x.clone()).collect();
        loop {
            interrupt::check()?;
            let args: Vec<&Tensor> = test.iter().copied().chain(&carry).collect();
            let go_on = match &self.test.call(&args)?[..] {
                [t] => t.item()?.as_bool(),
                _ => bail!(Internal, "while: the test must have one result"),
            };
            if !go_on {
                return Ok(outs(carry));
            }
            let args: Vec<&Tensor> = body.iter().copied().chain(&carry).collect();
            carry = self.body.call(&args)?;
        }
    }
}

impl Scan {
    /// Executes the body over the leading axis.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
        let fixed = self.consts + self.carries;
        ensure!(inputs.len() >= fixed, Value, "scan: operands are missing");
        let Some(length) = self.length.value() else {
            bail!(
                Trace,
                "scan: length {} is symbolic and not bound",
                self.length
            );
        };
        let length = length as usize;
        let (consts, rest) = inputs.split_at(self.consts);
        let (start, sequences) = rest.split_at(self.carries);
        let mut carry: Vec<Tensor> = start.iter().map(|&x| x.clone()).collect();
        let mut rows: Vec<Vec<Tensor>> = Vec::new();
        for spec in self.body.output_specs().iter().skip(self.carries) {
            // The stacked outputs exist twice at the end: as a list of steps and as one tensor.
            let each = spec.bytes().max(size_of::<Tensor>());
            limit::count::<u8>("scan", "steps", &[length, each])?;
            rows.push(limit::list("scan", "steps", &[length])?);
        }
        for step in 0..length {
            interrupt::check()?;
            let at = if self.reverse {
                length - 1 - step
            } else {
                step
            };
            let items: Vec<Tensor> = sequences
                .iter()
                .map(|x| {
                    ops::reshape(ops::slice_axis(*x, 0, at, at + 1), x.shape().without(&[0])).done()
                })
                .collect::<Result<_>>()?;
            let args: Vec<&Tensor> = consts.iter().copied().chain(&carry).chain(&items).collect();
            let mut out = self.body.call(&args)?;
            for (row, y) in rows.iter_mut().zip(out.split_off(self.carries)) {
                row.push(y);
            }
            carry = out;
        }
        for (i, mut row) in rows.into_iter().enumerate() {
            if self.reverse {
                row.reverse();
            }
            let y = if row.is_empty() {
                let spec = self.body.output_specs().swap_remove(self.carries + i);
                ops::zeros(spec.shape.insert(0, 0usize), spec.dtype).done()?
            } else {
                ops::stack(&row, 0).done()?
            };
            carry.push(y);
        }
        Ok(outs(carry))
    }
}

/// The carry of a loop as a flat list, for callers without a tree of their own.
#[derive(Clone, Debug)]
pub struct Carry(pub Vec<Tensor>);

impl Tree for Carry {
    fn visit(&self, at: &mut tree::Path, f: &mut dyn FnMut(&tree::Path, tree::Role, &Tensor)) {
        self.0.visit(at, f);
    }
    fn visit_mut(
        &mut self,
        at: &mut tree::Path,
        f: &mut dyn FnMut(&tree::Path, tree::Role, &mut Tensor),
    ) {
        self.0.visit_mut(at, f);
    }
}

/// Converts plain numbers to tensors, because a loop body needs a fixed dtype.
fn settled(tree: &impl Tree) -> Result<Vec<Tensor>> {
    tree::leaves(tree).iter().map(ops::materialize).collect()
}

fn specs(xs: &[Tensor]) -> Vec<Spec> {
    xs.iter().map(|x| x.spec().clone()).collect()
}

/// Moves captured tensors to the front: a closed trace has them after its own inputs, loops want them first.
pub(crate) fn captured_first(closed: Closed) -> (Body, Vec<Tensor>) {
    let Closed {
        mut graph,
        captured,
    } = closed;
    let own = graph.inputs.len() - captured.len();
    graph.inputs.rotate_left(own);
    (Body::new(graph), captured)
}

/// Traces a body. Summaries of the values on which it has preconditions are appended to its results.
pub(crate) fn trace_body(
    specs: &[Spec],
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<(Closed, Vec<Precondition>)> {
    let mut kept = Vec::new();
    let closed = trace(specs, |xs| {
        let mut out = f(xs)?;
        for (summary, precondition) in require::summaries()? {
            out.push(summary);
            kept.push(precondition);
        }
        Ok(out)
    })?;
    Ok((closed, kept))
}

/// Removes the summaries from the results and returns an error if one violates its precondition.
fn required(out: &mut Vec<Tensor>, kept: &[Precondition]) -> Result<()> {
    let summaries = out.split_off(out.len().saturating_sub(kept.len()));
    for (summary, &precondition) in summaries.iter().zip(kept) {
        require::require_summary(summary, precondition)?;
    }
    Ok(())
}

/// `then(x)` if the predicate holds, else `otherwise(x)`. Both must return the same structure, shapes and dtypes.
pub fn cond<T: Tree + Clone, O: Tree + Clone>(
    predicate: &Tensor,
    x: &T,
    then: impl FnOnce(&T) -> Result<O>,
    otherwise: impl FnOnce(&T) -> Result<O>,
) -> Result<O> {
    // With a concrete predicate only the chosen branch runs.
    if ops::index::has_values(predicate) {
        return if predicate.item()?.as_bool() {
            then(x)
        } else {
            otherwise(x)
        };
    }
    let leaves = settled(x)?;
    let shapes = specs(&leaves);
    let mut structure = None;
    let (mut yes, mut kept) = trace_body(&shapes, |xs| {
        let out = then(&tree::with_leaves(x, xs)?)?;
        let leaves = settled(&out)?;
        structure = Some(out);
        Ok(leaves)
    })?;
    let (mut no, others) = trace_body(&shapes, |xs| {
        settled(&otherwise(&tree::with_leaves(x, xs)?)?)
    })?;
    // Both branches return the summaries of both; those of the other branch are neutral.
    let own = no.graph.outputs.len() - others.len();
    let results = yes.graph.outputs.len() - kept.len();
    ensure!(
        own == results,
        Shape,
        "cond: expected branches with equally many results, got {results} and {own}"
    );
    add_neutral(&mut no.graph, own, &yes.graph.output_specs()[own..], &kept)?;
    let end = yes.graph.outputs.len();
    let specs_of_others = no.graph.output_specs().split_off(end);
    add_neutral(&mut yes.graph, end, &specs_of_others, &others)?;
    kept.extend(others);
    // Both branches take the captured tensors of both.
    let (yes_extra, no_extra) = (yes.captured.clone(), no.captured.clone());
    let yes = widen(yes, 0, &no_extra);
    let no = widen(no, yes_extra.len(), &yes_extra);
    let index = ops::cast(ops::logical_not(predicate), DType::I32).done()?;
    let mut args: Vec<&Tensor> = vec![&index];
    args.extend(leaves.iter().chain(&yes_extra).chain(&no_extra));
    let mut out = apply(
        &Cond {
            branches: vec![yes, no],
        }
        .into(),
        &args,
    )?
    .into_vec();
    required(&mut out, &kept)?;
    match structure {
        Some(structure) => tree::with_leaves(&structure, &out),
        None => bail!(Internal, "cond: no structure"),
    }
}

/// Inserts neutral summaries into the results of a branch, at index `at`.
fn add_neutral(graph: &mut Graph, at: usize, specs: &[Spec], kept: &[Precondition]) -> Result<()> {
    for (i, (spec, precondition)) in specs.iter().zip(kept).enumerate() {
        let values = precondition.neutral();
        // Numbers stay in the graph; an array would be one more operand of the loop.
        let parts = values.iter().map(|&value| {
            let op = Op::from(Full {
                value: Scalar::from(value).cast(spec.dtype),
                dtype: spec.dtype,
                shape: Shape::from_sizes(&[1]),
            });
            let part = spec.with_shape(Shape::from_sizes(&[1]));
            let made = graph.node(op, smallvec![], std::slice::from_ref(&part), ScopeId(0));
            Arg::Value(ValueId(made.start))
        });
        let parts: SmallVec<[Arg; 3]> = parts.collect();
        let made = graph.node(Op::Concat(0), parts, std::slice::from_ref(spec), ScopeId(0));
        let arg = Arg::Value(ValueId(made.start));
        graph.outputs.insert(at + i, Output { arg, updates: None });
    }
    Ok(())
}

/// Adds unused inputs to a branch, before its own captured inputs or after them.
fn widen(closed: Closed, before: usize, extra: &[Tensor]) -> Body {
    let Closed {
        mut graph,
        captured,
    } = closed;
    let own = graph.inputs.len() - captured.len();
    for t in extra {
        graph.input(t.spec().clone(), crate::graph::Role::Constant, "");
    }
    if before > 0 {
        graph.inputs[own..].rotate_right(extra.len());
    }
    Body::new(graph)
}

/// A branch of `switch`.
pub type Branch<T, O> = dyn Fn(&T) -> Result<O>;

/// Calls the branch that `index` selects, clipped to the range.
pub fn switch<T: Tree + Clone, O: Tree + Clone>(
    index: &Tensor,
    x: &T,
    branches: &[&Branch<T, O>],
) -> Result<O> {
    ensure!(
        !branches.is_empty(),
        Value,
        "switch: expected at least one branch"
    );
    if index.item().is_ok() {
        return branches[branch(index, branches.len())?](x);
    }
    // Nested two-way branches: all but the chosen one are skipped when it runs.
    let Some((first, rest)) = branches.split_first() else {
        bail!(Internal, "switch: no branch");
    };
    if rest.is_empty() {
        return first(x);
    }
    let here = ops::less_equal(index, 0).done()?;
    let next = (ops::maximum(index, 1) - 1).done()?;
    cond(&here, x, |x| first(x), |x| switch(&next, x, rest))
}

/// Runs `body` on the carry while `test` holds.
pub fn while_loop<T: Tree + Clone>(
    start: T,
    test: impl FnOnce(&T) -> Result<Tensor>,
    body: impl FnOnce(&T) -> Result<T>,
) -> Result<T> {
    let carry = settled(&start)?;
    let shapes = specs(&carry);
    let (tested, of_test) = trace_body(&shapes, |xs| {
        Ok(vec![test(&tree::with_leaves(&start, xs)?)?])
    })?;
    let (closed, of_body) = trace_body(&shapes, |xs| {
        settled(&body(&tree::with_leaves(&start, xs)?)?)
    })?;
    let (whole, test_consts) = captured_first(tested);
    let (body, body_consts) = captured_first(closed);
    let parts = Parts {
        test: only_first(&whole),
        test_consts,
        body,
        body_consts,
    };
    if of_test.is_empty() && of_body.is_empty() {
        let out = parts.run(&carry)?;
        return tree::with_leaves(&start, &out);
    }
    let out = guarded_while(parts, carry, &whole, &of_body, &of_test)?;
    tree::with_leaves(&start, &out)
}

/// The graphs of a while loop and the tensors they captured.
struct Parts {
    test: Body,
    test_consts: Vec<Tensor>,
    body: Body,
    body_consts: Vec<Tensor>,
}

impl Parts {
    fn run(self, carry: &[Tensor]) -> Result<Vec<Tensor>> {
        let op = While {
            test: self.test,
            body: self.body,
            test_consts: self.test_consts.len(),
            body_consts: self.body_consts.len(),
        };
        let consts = self.test_consts.iter().chain(&self.body_consts);
        let args: Vec<&Tensor> = consts.chain(carry).collect();
        Ok(apply(&op.into(), &args)?.into_vec())
    }
}

/// The body with only its first result.
fn only_first(body: &Body) -> Body {
    if body.outputs.len() == 1 {
        return body.clone();
    }
    let mut graph = (*body.0).clone();
    graph.outputs.truncate(1);
    Body::new(graph.prune())
}

/// A loop that carries the summaries of its preconditions along; they are checked when it has ended.
fn guarded_while(
    parts: Parts,
    carry: Vec<Tensor>,
    whole_test: &Body,
    of_body: &[Precondition],
    of_test: &[Precondition],
) -> Result<Vec<Tensor>> {
    let n = carry.len();
    let mut found = parts.body.output_specs().split_off(n);
    found.extend(whole_test.output_specs().split_off(1));
    let kept = [of_body, of_test].concat();
    let mut all = carry;
    for (spec, &precondition) in found.iter().zip(&kept) {
        all.push(require::neutral(precondition, spec.dtype)?);
    }
    let carried = specs(&all);
    let wide = |consts: &[&[Tensor]]| -> Vec<Spec> {
        let consts = consts.iter().flat_map(|list| list.iter());
        let consts = consts.map(|x| x.spec().clone());
        consts.chain(carried.iter().cloned()).collect()
    };
    let (a, b) = (parts.test_consts.len(), parts.body_consts.len());
    let test = trace(&wide(&[&parts.test_consts]), |xs| {
        parts.test.call(&xs[..a + n].iter().collect::<Vec<_>>())
    })?;
    let both = [&parts.test_consts[..], &parts.body_consts[..]];
    let body = trace(&wide(&both), |xs| {
        let (consts, own) = xs.split_at(a + b);
        let args: Vec<&Tensor> = consts[a..].iter().chain(&own[..n]).collect();
        let mut out = parts.body.call(&args)?;
        if !of_test.is_empty() {
            let args: Vec<&Tensor> = consts[..a].iter().chain(&own[..n]).collect();
            out.extend(whole_test.call(&args)?.split_off(1));
        }
        for (summary, before) in out[n..].iter_mut().zip(&own[n..]) {
            *summary = ops::minimum(&*summary, before).done()?;
        }
        Ok(out)
    })?;
    let consts = both.concat();
    let guarded = Parts {
        test: Body::new(test.graph),
        test_consts: parts.test_consts.clone(),
        body: Body::new(body.graph),
        body_consts: consts,
    };
    let mut out = guarded.run(&all)?;
    required(&mut out, &kept)?;
    if !of_test.is_empty() {
        // The test ran once more than the body.
        let args: Vec<&Tensor> = parts.test_consts.iter().chain(&out).collect();
        required(&mut whole_test.call(&args)?, of_test)?;
    }
    Ok(out)
}

/// Runs `body` over the leading axis of `xs` with a carry; the outputs of all steps are stacked.
pub fn scan<C: Tree + Clone, X: Tree + Clone, Y: Tree + Clone>(
    start: &C,
    xs: &X,
    length: Option<usize>,
    reverse: bool,
    body: impl FnOnce(&C, &X) -> Result<(C, Y)>,
) -> Result<(C, Y)> {
    let carry = settled(start)?;
    let sequences = settled(xs)?;
    let length = match (sequences.first(), length) {
        (_, Some(length)) => Dim::from(length),
        (Some(x), None) if x.rank() > 0 => x.shape().dims()[0],
        (Some(x), None) => bail!(
            Shape,
            "scan: expected a leading axis to scan over, got {}",
            x.spec()
        ),
        (None, None) => bail!(
            Value,
            "scan: expected a length, since there are no sequences"
        ),
    };
    let mut shapes = specs(&carry);
    for x in &sequences {
        ensure!(
            x.rank() > 0,
            Shape,
            "scan: expected a leading axis to scan over, got {}",
            x.spec()
        );
        shapes.push(x.spec().with_shape(x.shape().without(&[0])));
    }
    let n = carry.len();
    let mut structure = None;
    let (closed, kept) = trace_body(&shapes, |inputs| {
        let (c, y) = body(
            &tree::with_leaves(start, &inputs[..n])?,
            &tree::with_leaves(xs, &inputs[n..])?,
        )?;
        let mut out = settled(&c)?;
        ensure!(
            out.len() == n,
            Value,
            "scan: the body takes {n} carried tensors and returns {}",
            out.len()
        );
        out.extend(settled(&y)?);
        structure = Some((c, y));
        Ok(out)
    })?;
    let Some((c, y)) = structure else {
        bail!(Internal, "scan: no structure");
    };
    let (body, consts) = captured_first(closed);
    let op = Scan {
        body,
        consts: consts.len(),
        carries: n,
        length,
        reverse,
    };
    let args: Vec<&Tensor> = consts.iter().chain(&carry).chain(&sequences).collect();
    let mut out = apply(&op.into(), &args)?.into_vec();
    required(&mut out, &kept)?;
    Ok((
        tree::with_leaves(&c, &out[..n])?,
        tree::with_leaves(&y, &out[n..])?,
    ))
}

/// Runs `f` on each slice along the leading axis and stacks the results.
pub fn map<X: Tree + Clone, Y: Tree + Clone>(xs: &X, f: impl FnOnce(&X) -> Result<Y>) -> Result<Y> {
    let ((), out) = scan(&(), xs, None, false, |(), x| Ok(((), f(x)?)))?;
    Ok(out)
}
