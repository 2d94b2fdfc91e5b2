//! Hoists work out of scans: a computation that steps do not need of one another runs once for all steps.
//!
//! A dot of a sequence's element with a constant becomes one dot of the whole sequence before the scan. A carried sum
//! of dots becomes one dot after the scan.

use crate::fold_dot_transpose;
use crate::graph_rewriter::GraphRewriter;
use clematis_core::graph::{Arg, Graph, Input, Node, Output, ValueId};
use clematis_core::op::{Binary, Dot, Scan};
use clematis_core::shape::Axes;
use clematis_core::{Body, DType, Op, Result, Role, Shape, Spec, bail};
use std::collections::HashMap;

/// Optimizes all scans of a graph.
pub fn run(graph: &Graph) -> Result<Graph> {
    let is_loop = |node: &Node| matches!(node.op, Op::Scan(_));
    if !graph.nodes.iter().any(is_loop) {
        return Ok(graph.clone());
    }
    let mut rewriter = GraphRewriter::new(graph, |_| true);
    for node in &graph.nodes {
        if is_loop(node) {
            optimize_scan(graph, node, &mut rewriter)?;
            continue;
        }
        let args = node.args.iter().map(|a| rewriter.lookup(a));
        let args = args.collect::<Result<Vec<Arg>>>()?;
        let outs = node.outs.start as usize..node.outs.end as usize;
        let made = rewriter.add_node(node.op.clone(), &args, &graph.values[outs.clone()], node);
        for (old, arg) in outs.zip(made) {
            rewriter.map[old] = Some(arg);
        }
    }
    rewriter.finish(graph)
}

/// Definitions and uses of the values of a body.
struct Uses {
    /// The node that produces each value.
    producer: Vec<Option<usize>>,
    /// The number of uses of each value.
    count: Vec<usize>,
    /// The input index of each value that is an input.
    input: Vec<Option<usize>>,
}

fn uses(body: &Graph) -> Uses {
    let n = body.values.len();
    let mut uses = Uses {
        producer: vec![None; n],
        count: vec![0; n],
        input: vec![None; n],
    };
    for (i, Input { value, .. }) in body.inputs.iter().enumerate() {
        uses.input[value.0 as usize] = Some(i);
    }
    let outputs = body.outputs.iter().map(|o| &o.arg);
    for arg in body.nodes.iter().flat_map(|n| &n.args).chain(outputs) {
        if let Arg::Value(id) = arg {
            uses.count[id.0 as usize] += 1;
        }
    }
    for (i, node) in body.nodes.iter().enumerate() {
        for v in node.outs.clone() {
            uses.producer[v as usize] = Some(i);
        }
    }
    uses
}

fn value(arg: &Arg) -> Option<usize> {
    match arg {
        Arg::Value(id) => Some(id.0 as usize),
        Arg::Const(_) => None,
    }
}

/// The same axes behind one more leading axis.
fn shifted(axes: &Axes) -> Vec<usize> {
    axes.iter().map(|a| a + 1).collect()
}

/// The dot that is added to this carry, with its operands, if the carry is used for nothing else.
fn accumulated_dot<'a>(p: &'a Scan, uses: &Uses, carry: usize) -> Option<(&'a Dot, [usize; 2])> {
    let body = &p.body.0;
    let own = body.inputs.get(p.consts + carry)?.value.0 as usize;
    let out = value(&body.outputs.get(carry)?.arg)?;
    let add = &body.nodes[uses.producer[out]?];
    if add.op != Op::Binary(Binary::Add) || uses.count[own] != 1 || uses.count[out] != 1 {
        return None;
    }
    let part = match (value(&add.args[0])?, value(&add.args[1])?) {
        (a, b) if a == own => b,
        (a, b) if b == own => a,
        _ => return None,
    };
    let dot = &body.nodes[uses.producer[part]?];
    let Op::Dot(d) = &dot.op else { return None };
    let fits = uses.count[part] == 1
        && body.values[part].dtype == DType::F32
        && body.values[part].shape == body.values[own].shape;
    let sides = [value(&dot.args[0])?, value(&dot.args[1])?];
    let varies = |v: usize| uses.input[v].is_none_or(|i| i >= p.consts);
    (fits && sides.iter().all(|&v| varies(v))).then_some((d, sides))
}

/// Whether a matrix is read only by dots that contract its last axis, except for hoisted dots.
fn only_read_transposed(
    body: &Graph,
    matrix: ValueId,
    hoisted: &HashMap<usize, (Spec, Arg)>,
) -> bool {
    let is_matrix = |arg: &Arg| matches!(arg, Arg::Value(id) if *id == matrix);
    let transposed = |node: &Node| match (&node.op, &node.args[..]) {
        (Op::Dot(d), [x, y]) => {
            is_matrix(y) && !is_matrix(x) && d.rhs_batch.is_empty() && d.rhs_contract[..] == [1]
        }
        _ => false,
    };
    let inside = |n: &&Node| !hoisted.contains_key(&(n.outs.start as usize));
    let mut readers = body
        .nodes
        .iter()
        .filter(inside)
        .filter(|n| n.args.iter().any(is_matrix));
    let is_output = body.outputs.iter().any(|o| is_matrix(&o.arg));
    let any = body.nodes.iter().any(transposed);
    any && !is_output && body.spec(matrix).rank() == 2 && readers.all(transposed)
}

/// Copies a scan without the work that can be hoisted.
fn optimize_scan(graph: &Graph, node: &Node, rewriter: &mut GraphRewriter) -> Result<()> {
    let Op::Scan(p) = &node.op else {
        bail!(Internal, "compile: expected a scan, got {}", node.op.name());
    };
    let p = &Scan {
        body: Body::new(fold_dot_transpose::run(&run(&p.body.0)?).prune()),
        ..(**p).clone()
    };
    let args = node.args.iter().map(|a| rewriter.lookup(a));
    let mut args = args.collect::<Result<Vec<Arg>>>()?;
    let (body, uses) = (&p.body.0, uses(&p.body.0));
    let fixed = p.consts + p.carries;
    let stacked = |spec: &Spec| spec.with_shape(spec.shape.insert(0, p.length));

    // Dots of whole sequences move before the scan.
    let mut hoisted: HashMap<usize, (Spec, Arg)> = HashMap::new();
    for inner in &body.nodes {
        let (Op::Dot(d), [x, y]) = (&inner.op, &inner.args[..]) else {
            continue;
        };
        let inputs = value(x)
            .zip(value(y))
            .map(|(x, y)| (uses.input[x], uses.input[y]));
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
        let made = rewriter.add_node(
            whole.into(),
            &[args[x].clone(), args[y].clone()],
            &[stacked(&spec)],
            node,
        );
        hoisted.insert(inner.outs.start as usize, (spec, made[0].clone()));
    }
    let sums: Vec<Option<(&Dot, [usize; 2])>> = (0..p.carries)
        .map(|i| accumulated_dot(p, &uses, i))
        .collect();

    // Matrices that every step reads transposed are transposed once.
    let transposed: Vec<usize> = (0..p.consts)
        .filter(|&i| only_read_transposed(body, body.inputs[i].value, &hoisted))
        .collect();
    for &i in &transposed {
        let spec = graph.arg_spec(&node.args[i]);
        let swapped = Axes::new(&[1, 0]);
        let [rows, columns] = [spec.shape.dims()[0], spec.shape.dims()[1]];
        let spec = spec.with_shape(Shape::from_dims([columns, rows]));
        args[i] =
            rewriter.add_node(Op::Transpose(swapped), &[args[i].clone()], &[spec], node)[0].clone();
    }

    // The new body: its inputs without the hoisted sums, plus the hoisted dots as sequences.
    let removed = |i: usize| i >= p.consts && i < fixed && sums[i - p.consts].is_some();
    let mut inside = GraphRewriter::new(body, |i| !removed(i));
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
        let outs = inner.outs.start as usize..inner.outs.end as usize;
        if hoisted.contains_key(&outs.start) {
            continue;
        }
        // Skips the additions to a sum that is no longer carried.
        let known: Option<Vec<Arg>> = inner.args.iter().map(|a| inside.lookup(a).ok()).collect();
        let Some(known) = known else { continue };
        let mut op = inner.op.clone();
        if let (Op::Dot(d), Some(y)) = (&mut op, inner.args.get(1).and_then(value))
            && uses.input[y].is_some_and(|i| transposed.contains(&i))
        {
            d.rhs_contract = Axes::new(&[0]);
        }
        let made = inside.add_node(op, &known, &body.values[outs.clone()], inner);
        for (old, arg) in outs.zip(made) {
            inside.map[old] = Some(arg);
        }
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
        let is_input = uses.input[v].is_some_and(|i| i >= fixed);
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
    let made = rewriter.add_node(scan.into(), &operands, &specs, node);
    for (at, i) in carried.iter().copied().chain(rows.clone()).enumerate() {
        rewriter.map[node.outs.start as usize + i] = Some(made[at].clone());
    }

    // The hoisted sums, after the scan.
    let first = carried.len() + rows.len();
    for (i, sum) in sums.iter().enumerate() {
        let Some((d, sides)) = sum else { continue };
        let side = |v: usize| -> Result<Arg> {
            if let Some(at) = uses.input[v].filter(|&i| i >= fixed) {
                return Ok(operands[p.consts + carried.len() + at - fixed].clone());
            }
            let out = rows
                .clone()
                .position(|i| value(&body.outputs[i].arg) == Some(v));
            let at = match (out, extra_outputs.iter().position(|&w| w == v)) {
                (Some(at), _) => carried.len() + at,
                (None, Some(at)) => first + at,
                _ => bail!(Internal, "compile: %{v} is not an output of its scan"),
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
        let sum = rewriter.add_node(
            whole.into(),
            &[side(sides[0])?, side(sides[1])?],
            &spec,
            node,
        );
        let initial = rewriter.lookup(&Arg::Value(ValueId(out as u32)))?;
        let add = Op::Binary(Binary::Add);
        let made = rewriter.add_node(add, &[initial, sum[0].clone()], &spec, node);
        rewriter.map[out] = Some(made[0].clone());
    }
    Ok(())
}
