//! Loop-invariant code motion out of scans: a computation that steps do not need of one another runs once for all steps:
//! `scan {f(dot(x[i], w))} → y = dot(x, w); scan {f(y[i])}`.
//!
//! A dot of a sequence's element with a constant becomes one dot of the whole sequence before the scan. A carried sum
//! of dots becomes one dot after the scan.

use crate::graph_view::{GraphView, value};
use crate::rewriter::Rewriter;
use crate::{fold_dot_transpose, relu_mask};
use clematis_core::graph::{Arg, Graph, Node, Output, ValueId};
use clematis_core::op::{Binary, Dot, Scan};
use clematis_core::pass::Options;
use clematis_core::shape::Axes;
use clematis_core::{Body, DType, Op, Result, Role, Shape, Spec, bail};
use rustc_hash::FxHashMap;

/// Optimizes all scans of a graph.
pub fn run(graph: &Graph, options: Options) -> Result<Option<Graph>> {
    let is_loop = |node: &Node| matches!(node.op, Op::Scan(_));
    if !graph.nodes.iter().any(is_loop) || graph.is_symbolic() {
        return Ok(None);
    }
    let mut rewriter = Rewriter::new(graph);
    for node in &graph.nodes {
        if is_loop(node) {
            optimize_scan(graph, node, &mut rewriter, options)?;
        } else {
            rewriter.copy(graph, node)?;
        }
    }
    rewriter.finish(graph).map(Some)
}

/// A body in which inner scans and transposes are optimized, so that more of it can be hoisted.
fn optimized_body(body: &Graph, options: Options) -> Result<Graph> {
    let mut body = body.clone();
    for pass in [run, relu_mask::run, fold_dot_transpose::run] {
        if let Some(new) = pass(&body, options)? {
            body = new;
        }
    }
    Ok(body.prune())
}

/// The same axes behind one more leading axis.
fn shifted(axes: &Axes) -> Vec<usize> {
    axes.iter().map(|a| a + 1).collect()
}

/// The dot that is added to this carry, with its operands, if the carry is used for nothing else.
fn accumulated_dot<'a>(
    p: &Scan,
    view: &GraphView<'a>,
    carry: usize,
) -> Option<(&'a Dot, [usize; 2])> {
    let body = view.graph();
    let own = body.inputs.get(p.consts + carry)?.value.0 as usize;
    let out = value(&body.outputs.get(carry)?.arg)?;
    let add = &body.nodes[view.producer(out)?];
    if add.op != Op::Binary(Binary::Add) || view.uses(own) != 1 || view.uses(out) != 1 {
        return None;
    }
    let part = match (value(&add.args[0])?, value(&add.args[1])?) {
        (a, b) if a == own => b,
        (a, b) if b == own => a,
        _ => return None,
    };
    let dot = &body.nodes[view.producer(part)?];
    let Op::Dot(d) = &dot.op else { return None };
    let fits = view.uses(part) == 1
        && body.values[part].dtype == DType::F32
        && body.values[part].shape == body.values[own].shape;
    let sides = [value(&dot.args[0])?, value(&dot.args[1])?];
    let varies = |v: usize| view.input(v).is_none_or(|i| i >= p.consts);
    (fits && sides.iter().all(|&v| varies(v))).then_some((d, sides))
}

/// Whether a matrix is read only by dots that contract its last axis, except for hoisted dots.
fn only_read_transposed(
    view: &GraphView<'_>,
    matrix: ValueId,
    hoisted: &FxHashMap<usize, (Spec, Arg)>,
) -> bool {
    let is_matrix = |arg: &Arg| matches!(arg, Arg::Value(id) if *id == matrix);
    let transposed = |node: &Node| match (&node.op, &node.args[..]) {
        (Op::Dot(d), [x, y]) => {
            is_matrix(y) && !is_matrix(x) && d.rhs_batch.is_empty() && d.rhs_contract[..] == [1]
        }
        _ => false,
    };
    let (body, v) = (view.graph(), matrix.0 as usize);
    let mut readers = view.users(v).map(|n| &body.nodes[n]);
    let mut inside = readers
        .clone()
        .filter(|n| !hoisted.contains_key(&(n.outs.start as usize)));
    readers.any(transposed)
        && !view.is_output(v)
        && body.spec(matrix).rank() == 2
        && inside.all(transposed)
}

/// Copies a scan without the work that can be hoisted.
fn optimize_scan(
    graph: &Graph,
    node: &Node,
    rewriter: &mut Rewriter,
    options: Options,
) -> Result<()> {
    let Op::Scan(p) = &node.op else {
        bail!(Internal, "hoist: expected a scan, got {}", node.op.name());
    };
    let p = &Scan {
        body: Body::new(optimized_body(&p.body.0, options)?),
        ..(**p).clone()
    };
    let mut args = rewriter.operands(node)?;
    let (body, view) = (&*p.body.0, GraphView::new(&p.body.0));
    let fixed = p.consts + p.carries;
    let stacked = |spec: &Spec| spec.with_shape(spec.shape.insert(0, p.length));

    // Dots of whole sequences move before the scan.
    let mut hoisted: FxHashMap<usize, (Spec, Arg)> = FxHashMap::default();
    for inner in &body.nodes {
        let (Op::Dot(d), [x, y]) = (&inner.op, &inner.args[..]) else {
            continue;
        };
        let inputs = value(x)
            .zip(value(y))
            .map(|(x, y)| (view.input(x), view.input(y)));
        let Some((Some(x), Some(y))) = inputs else {
            continue;
        };
        if x < fixed || y >= p.consts || !d.lhs_batch.is_empty() {
            continue;
        }
        let spec = body.values[inner.outs.start as usize].clone();
        let whole = Dot {
            lhs_contract: Axes::new(&shifted(&d.lhs_contract)),
            ..(**d).clone()
        };
        let operands = [args[x].clone(), args[y].clone()];
        let specs = [stacked(&spec)];
        let made = rewriter.add(whole.into(), &operands[..], &specs, node.scope);
        hoisted.insert(inner.outs.start as usize, (spec, made[0].clone()));
    }
    let sums: Vec<Option<(&Dot, [usize; 2])>> = (0..p.carries)
        .map(|i| accumulated_dot(p, &view, i))
        .collect();

    // Matrices that every step reads transposed are transposed once.
    let transposed: Vec<usize> = (0..p.consts)
        .filter(|&i| only_read_transposed(&view, body.inputs[i].value, &hoisted))
        .collect();
    for &i in &transposed {
        let spec = graph.arg_spec(&node.args[i]);
        let swapped = Axes::new(&[1, 0]);
        let [rows, columns] = [spec.shape.dims()[0], spec.shape.dims()[1]];
        let spec = spec.with_shape(Shape::from_dims([columns, rows]));
        let made = rewriter.add(Op::Transpose(swapped), &args[i..=i], &[spec], node.scope);
        args[i] = made[0].clone();
    }

    // The new body: its inputs without the hoisted sums, plus the hoisted dots as sequences.
    let removed = |i: usize| i >= p.consts && i < fixed && sums[i - p.consts].is_some();
    let mut inside = Rewriter::with_inputs(body, |i| !removed(i));
    let mut sequences: Vec<Arg> = Vec::new();
    for inner in &body.nodes {
        let out = inner.outs.start as usize;
        if let Some((spec, whole)) = hoisted.get(&out) {
            let id = inside.graph.input(spec.clone(), Role::Input, "");
            inside.map[out] = Some(Arg::Value(id));
            sequences.push(whole.clone());
        }
    }
    for &i in &transposed {
        let value = body.inputs[i].value;
        let spec = body.spec(value);
        let [rows, columns] = [spec.shape.dims()[0], spec.shape.dims()[1]];
        let swapped = spec.with_shape(Shape::from_dims([columns, rows]));
        if let Some(Arg::Value(id)) = &inside.map[value.0 as usize] {
            inside.graph.values[id.0 as usize] = swapped;
        }
    }
    for inner in &body.nodes {
        if hoisted.contains_key(&(inner.outs.start as usize)) {
            continue;
        }
        // Skips the additions to a sum that is no longer carried.
        let Ok(known) = inside.operands(inner) else {
            continue;
        };
        let mut op = inner.op.clone();
        if let (Op::Dot(d), Some(y)) = (&mut op, inner.args.get(1).and_then(value))
            && view.input(y).is_some_and(|i| transposed.contains(&i))
        {
            d.rhs_contract = Axes::new(&[0]);
        }
        inside.copy_with(body, inner, op, known);
    }
    let carried: Vec<usize> = (0..p.carries).filter(|&i| sums[i].is_none()).collect();
    let rows = p.carries..body.outputs.len();
    let mut outputs: Vec<Arg> = Vec::new();
    for i in carried.iter().copied().chain(rows.clone()) {
        outputs.push(inside.lookup(&body.outputs[i].arg)?);
    }
    // The operands of hoisted sums become outputs of the scan, unless they are sequences or outputs already.
    let mut extra_outputs: Vec<usize> = Vec::new();
    for v in sums.iter().flatten().flat_map(|(_, sides)| *sides) {
        let is_input = view.input(v).is_some_and(|i| i >= fixed);
        let is_output = rows.clone().any(|i| value(&body.outputs[i].arg) == Some(v));
        if !is_input && !is_output && !extra_outputs.contains(&v) {
            extra_outputs.push(v);
            outputs.push(inside.lookup(&Arg::Value(ValueId(v as u32)))?);
        }
    }
    inside.graph.outputs = outputs
        .into_iter()
        .map(|arg| Output { arg, updates: None })
        .collect();

    let mut operands: Vec<Arg> = Vec::new();
    for (at, arg) in args.into_iter().enumerate() {
        if removed(at) {
            rewriter.map[node.outs.start as usize + at - p.consts] = Some(arg);
        } else {
            operands.push(arg);
        }
    }
    operands.extend(sequences);
    let mut specs: Vec<Spec> = Vec::new();
    for i in carried.iter().copied() {
        specs.push(graph.values[node.outs.start as usize + i].clone());
    }
    for i in rows.clone() {
        specs.push(graph.values[node.outs.start as usize + i].clone());
    }
    specs.extend(extra_outputs.iter().map(|&v| stacked(&body.values[v])));
    let scan = Scan {
        body: Body::new(inside.graph.prune()),
        consts: p.consts,
        carries: carried.len(),
        length: p.length,
        reverse: p.reverse,
    };
    let made = rewriter.add(scan.into(), operands.as_slice(), &specs, node.scope);
    for (at, i) in carried.iter().copied().chain(rows.clone()).enumerate() {
        rewriter.map[node.outs.start as usize + i] = Some(made[at].clone());
    }

    // The hoisted sums, after the scan.
    let first = carried.len() + rows.len();
    for (i, sum) in sums.iter().enumerate() {
        let Some((d, sides)) = sum else { continue };
        let side = |v: usize| -> Result<Arg> {
            if let Some(at) = view.input(v).filter(|&i| i >= fixed) {
                return Ok(operands[p.consts + carried.len() + at - fixed].clone());
            }
            let out = rows
                .clone()
                .position(|i| value(&body.outputs[i].arg) == Some(v));
            let at = match (out, extra_outputs.iter().position(|&w| w == v)) {
                (Some(at), _) => carried.len() + at,
                (None, Some(at)) => first + at,
                _ => bail!(Internal, "hoist: %{v} is not an output of its scan"),
            };
            Ok(made[at].clone())
        };
        let with_step_axis = |axes: &Axes| -> Axes {
            let mut all = vec![0];
            all.extend(shifted(axes));
            Axes::new(&all)
        };
        let whole = Dot {
            lhs_batch: Axes::new(&shifted(&d.lhs_batch)),
            rhs_batch: Axes::new(&shifted(&d.rhs_batch)),
            lhs_contract: with_step_axis(&d.lhs_contract),
            rhs_contract: with_step_axis(&d.rhs_contract),
        };
        let out = node.outs.start as usize + i;
        let spec = [graph.values[out].clone()];
        let operands = [side(sides[0])?, side(sides[1])?];
        let sum = rewriter.add(whole.into(), &operands[..], &spec, node.scope);
        let initial = rewriter.lookup(&Arg::Value(ValueId(out as u32)))?;
        let add = Op::Binary(Binary::Add);
        let made = rewriter.add(add, &[initial, sum[0].clone()][..], &spec, node.scope);
        rewriter.map[out] = Some(made[0].clone());
    }
    Ok(())
}
