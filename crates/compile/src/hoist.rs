//! Loops with less in them: what steps do not need of each other is done for all steps at once.
//!
//! A product of an item of a sequence with something fixed becomes one product of the whole sequence. A sum of products
//! that a loop carries along becomes one product after it. Two loops that carry the same become one.

use crate::turn;
use crate::twin::twins;
use clematis_core::graph::{Arg, Graph, Input, Node, Output, ValueId};
use clematis_core::op::{Binary, Dot, Scan};
use clematis_core::shape::Axes;
use clematis_core::{Body, DType, Op, Result, Role, Shape, Spec, bail};
use smallvec::SmallVec;
use std::collections::HashMap;

/// The graph that is being made.
pub(crate) struct New {
    pub graph: Graph,
    /// What each value of the old graph has become.
    pub known: Vec<Option<Arg>>,
}

impl New {
    pub fn follow(&self, arg: &Arg) -> Result<Arg> {
        match arg {
            Arg::Const(_) => Ok(arg.clone()),
            Arg::Value(id) => match &self.known[id.0 as usize] {
                Some(new) => Ok(new.clone()),
                None => bail!(Internal, "compile: %{} is used before it is made", id.0),
            },
        }
    }

    pub fn add(&mut self, op: Op, args: &[Arg], out: &[Spec], like: &Node) -> Vec<Arg> {
        let args: SmallVec<[Arg; 3]> = args.iter().cloned().collect();
        let made = self.graph.node(op, args, out, like.scope);
        made.map(|v| Arg::Value(ValueId(v))).collect()
    }

    /// The graph with the outputs of the old one.
    pub fn finish(mut self, old: &Graph) -> Result<Graph> {
        for output in &old.outputs {
            let arg = self.follow(&output.arg)?;
            self.graph.outputs.push(Output {
                arg,
                updates: output.updates,
            });
        }
        Ok(self.graph)
    }
}

/// A graph with the inputs of an old one.
pub(crate) fn start(old: &Graph, keep: impl Fn(usize) -> bool) -> New {
    let mut new = New {
        graph: Graph {
            scopes: old.scopes.clone(),
            ..Graph::default()
        },
        known: vec![None; old.values.len()],
    };
    for (_, input) in old.inputs.iter().enumerate().filter(|(i, _)| keep(*i)) {
        let spec = old.spec(input.value).clone();
        let id = new.graph.input(spec, input.role, input.name.clone());
        new.known[input.value.0 as usize] = Some(Arg::Value(id));
    }
    new
}

/// The same graph with lighter loops.
pub fn run(graph: &Graph) -> Result<Graph> {
    let is_loop = |node: &Node| matches!(node.op, Op::Scan(_));
    if !graph.nodes.iter().any(is_loop) {
        return Ok(graph.clone());
    }
    let twins = twins(graph);
    let mut new = start(graph, |_| true);
    for (n, node) in graph.nodes.iter().enumerate() {
        if let Some((_, first)) = twins.iter().find(|(gone, _)| *gone == n) {
            // Made together with its twin, which needs nothing that this one does not have.
            lighter(graph, &graph.nodes[*first], &mut new)?;
            for (old, other) in node.outs.clone().zip(graph.nodes[*first].outs.clone()) {
                new.known[old as usize] = new.known[other as usize].clone();
            }
            continue;
        }
        if twins.iter().any(|(_, made)| *made == n) {
            continue;
        }
        if is_loop(node) {
            lighter(graph, node, &mut new)?;
            continue;
        }
        let args = node.args.iter().map(|a| new.follow(a));
        let args = args.collect::<Result<Vec<Arg>>>()?;
        let outs = node.outs.start as usize..node.outs.end as usize;
        let made = new.add(node.op.clone(), &args, &graph.values[outs.clone()], node);
        for (old, arg) in outs.zip(made) {
            new.known[old] = Some(arg);
        }
    }
    new.finish(graph)
}

/// What a body's values come from.
struct Uses {
    /// The node that makes each.
    maker: Vec<Option<usize>>,
    /// How often each is read.
    count: Vec<usize>,
    /// The input that each is.
    input: Vec<Option<usize>>,
}

fn uses(body: &Graph) -> Uses {
    let n = body.values.len();
    let mut uses = Uses {
        maker: vec![None; n],
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
            uses.maker[v as usize] = Some(i);
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

/// One axis more in front.
fn later(axes: &Axes) -> Vec<usize> {
    axes.iter().map(|a| a + 1).collect()
}

/// The operands of a product that is added to this carry and nothing else.
fn sum_of_products<'a>(p: &'a Scan, uses: &Uses, carry: usize) -> Option<(&'a Dot, [usize; 2])> {
    let body = &p.body.0;
    let own = body.inputs.get(p.consts + carry)?.value.0 as usize;
    let out = value(&body.outputs.get(carry)?.arg)?;
    let add = &body.nodes[uses.maker[out]?];
    if add.op != Op::Binary(Binary::Add) || uses.count[own] != 1 || uses.count[out] != 1 {
        return None;
    }
    let part = match (value(&add.args[0])?, value(&add.args[1])?) {
        (a, b) if a == own => b,
        (a, b) if b == own => a,
        _ => return None,
    };
    let dot = &body.nodes[uses.maker[part]?];
    let Op::Dot(d) = &dot.op else { return None };
    let fits = uses.count[part] == 1
        && body.values[part].dtype == DType::F32
        && body.values[part].shape == body.values[own].shape;
    let sides = [value(&dot.args[0])?, value(&dot.args[1])?];
    let moves = |v: usize| uses.input[v].is_none_or(|i| i >= p.consts);
    (fits && sides.iter().all(|&v| moves(v))).then_some((d, sides))
}

/// Whether a matrix is read by nothing but products that sum over its last axis, those before the loop aside.
fn read_across(body: &Graph, matrix: ValueId, before: &HashMap<usize, (Spec, Arg)>) -> bool {
    let is_it = |arg: &Arg| matches!(arg, Arg::Value(id) if *id == matrix);
    let across = |node: &Node| match (&node.op, &node.args[..]) {
        (Op::Dot(d), [x, y]) => {
            is_it(y) && !is_it(x) && d.rhs_batch.is_empty() && d.rhs_contract[..] == [1]
        }
        _ => false,
    };
    let inside = |n: &&Node| !before.contains_key(&(n.outs.start as usize));
    let mut readers = body
        .nodes
        .iter()
        .filter(inside)
        .filter(|n| n.args.iter().any(is_it));
    let comes_out = body.outputs.iter().any(|o| is_it(&o.arg));
    let any = body.nodes.iter().any(across);
    any && !comes_out && body.spec(matrix).rank() == 2 && readers.all(across)
}

/// Copies a loop without what need not be in it.
fn lighter(graph: &Graph, node: &Node, new: &mut New) -> Result<()> {
    let Op::Scan(p) = &node.op else {
        bail!(Internal, "compile: {} is no loop", node.op.name());
    };
    let p = &Scan {
        body: Body::new(turn::run(&run(&p.body.0)?).prune()),
        ..(**p).clone()
    };
    let args = node.args.iter().map(|a| new.follow(a));
    let mut args = args.collect::<Result<Vec<Arg>>>()?;
    let (body, uses) = (&p.body.0, uses(&p.body.0));
    let fixed = p.consts + p.carries;
    let long = |spec: &Spec| spec.with_shape(spec.shape.insert(0, p.length));

    // Products of whole sequences come before the loop.
    let mut before: HashMap<usize, (Spec, Arg)> = HashMap::new();
    for inner in &body.nodes {
        let (Op::Dot(d), [x, y]) = (&inner.op, &inner.args[..]) else {
            continue;
        };
        let places = value(x)
            .zip(value(y))
            .map(|(x, y)| (uses.input[x], uses.input[y]));
        let Some((Some(x), Some(y))) = places else {
            continue;
        };
        if x < fixed || y >= p.consts || !d.lhs_batch.is_empty() {
            continue;
        }
        let spec = body.values[inner.outs.start as usize].clone();
        let whole = Dot {
            lhs_contract: Axes::new(&later(&d.lhs_contract)),
            ..(**d).clone()
        };
        let made = new.add(
            whole.into(),
            &[args[x].clone(), args[y].clone()],
            &[long(&spec)],
            node,
        );
        before.insert(inner.outs.start as usize, (spec, made[0].clone()));
    }
    let sums: Vec<Option<(&Dot, [usize; 2])>> = (0..p.carries)
        .map(|i| sum_of_products(p, &uses, i))
        .collect();

    // Matrices that are read across at each step are turned once.
    let across: Vec<usize> = (0..p.consts)
        .filter(|&i| read_across(body, body.inputs[i].value, &before))
        .collect();
    for &i in &across {
        let spec = graph.arg_spec(&node.args[i]);
        let turned = Axes::new(&[1, 0]);
        let [rows, columns] = [spec.shape.dims()[0], spec.shape.dims()[1]];
        let spec = spec.with_shape(Shape::from_dims([columns, rows]));
        args[i] = new.add(Op::Transpose(turned), &[args[i].clone()], &[spec], node)[0].clone();
    }

    // The body: its inputs without those sums, and with the products as sequences.
    let gone = |i: usize| i >= p.consts && i < fixed && sums[i - p.consts].is_some();
    let mut inside = start(body, |i| !gone(i));
    let mut sequences: Vec<Arg> = Vec::new();
    for inner in &body.nodes {
        let out = inner.outs.start as usize;
        if let Some((spec, whole)) = before.get(&out) {
            let id = inside.graph.input(spec.clone(), Role::Input, "");
            inside.known[out] = Some(Arg::Value(id));
            sequences.push(whole.clone());
        }
    }
    for &i in &across {
        let value = body.inputs[i].value;
        let spec = body.spec(value);
        let [rows, columns] = [spec.shape.dims()[0], spec.shape.dims()[1]];
        let turned = spec.with_shape(Shape::from_dims([columns, rows]));
        if let Some(Arg::Value(id)) = &inside.known[value.0 as usize] {
            inside.graph.values[id.0 as usize] = turned;
        }
    }
    for inner in &body.nodes {
        let outs = inner.outs.start as usize..inner.outs.end as usize;
        if before.contains_key(&outs.start) {
            continue;
        }
        // What adds to a sum that is not carried any more is left out.
        let known: Option<Vec<Arg>> = inner.args.iter().map(|a| inside.follow(a).ok()).collect();
        let Some(known) = known else { continue };
        let mut op = inner.op.clone();
        if let (Op::Dot(d), Some(y)) = (&mut op, inner.args.get(1).and_then(value))
            && uses.input[y].is_some_and(|i| across.contains(&i))
        {
            d.rhs_contract = Axes::new(&[0]);
        }
        let made = inside.add(op, &known, &body.values[outs.clone()], inner);
        for (old, arg) in outs.zip(made) {
            inside.known[old] = Some(arg);
        }
    }
    let kept: Vec<usize> = (0..p.carries).filter(|&i| sums[i].is_none()).collect();
    let rows = p.carries..body.outputs.len();
    let mut outputs: Vec<Arg> = Vec::new();
    for i in kept.iter().copied().chain(rows.clone()) {
        outputs.push(inside.follow(&body.outputs[i].arg)?);
    }
    // What the sums are made of comes out of the loop, unless it went in as it is or comes out already.
    let mut wanted: Vec<usize> = Vec::new();
    for v in sums.iter().flatten().flat_map(|(_, sides)| *sides) {
        let went_in = uses.input[v].is_some_and(|i| i >= fixed);
        let comes_out = rows.clone().any(|i| value(&body.outputs[i].arg) == Some(v));
        if !went_in && !comes_out && !wanted.contains(&v) {
            wanted.push(v);
            outputs.push(inside.follow(&Arg::Value(ValueId(v as u32)))?);
        }
    }
    inside.graph.outputs = outputs
        .into_iter()
        .map(|arg| Output { arg, updates: None })
        .collect();

    let mut given: Vec<Arg> = Vec::new();
    for (at, arg) in args.into_iter().enumerate() {
        if gone(at) {
            new.known[node.outs.start as usize + at - p.consts] = Some(arg);
        } else {
            given.push(arg);
        }
    }
    given.extend(sequences);
    let mut specs: Vec<Spec> = Vec::new();
    for i in kept.iter().copied() {
        specs.push(graph.values[node.outs.start as usize + i].clone());
    }
    for i in rows.clone() {
        specs.push(graph.values[node.outs.start as usize + i].clone());
    }
    specs.extend(wanted.iter().map(|&v| long(&body.values[v])));
    let scan = Scan {
        body: Body::new(inside.graph.prune()),
        consts: p.consts,
        carries: kept.len(),
        length: p.length,
        reverse: p.reverse,
    };
    let made = new.add(scan.into(), &given, &specs, node);
    for (at, i) in kept.iter().copied().chain(rows.clone()).enumerate() {
        new.known[node.outs.start as usize + i] = Some(made[at].clone());
    }

    // The sums, after the loop.
    let first = kept.len() + rows.len();
    for (i, sum) in sums.iter().enumerate() {
        let Some((d, sides)) = sum else { continue };
        let side = |v: usize| -> Result<Arg> {
            if let Some(at) = uses.input[v].filter(|&i| i >= fixed) {
                return Ok(given[p.consts + kept.len() + at - fixed].clone());
            }
            let out = rows
                .clone()
                .position(|i| value(&body.outputs[i].arg) == Some(v));
            let at = match (out, wanted.iter().position(|&w| w == v)) {
                (Some(at), _) => kept.len() + at,
                (None, Some(at)) => first + at,
                _ => bail!(Internal, "compile: %{v} did not come out of its loop"),
            };
            Ok(made[at].clone())
        };
        let with_steps = |axes: &Axes| -> Axes {
            let mut all = vec![0];
            all.extend(later(axes));
            Axes::new(&all)
        };
        let whole = Dot {
            lhs_batch: Axes::new(&later(&d.lhs_batch)),
            rhs_batch: Axes::new(&later(&d.rhs_batch)),
            lhs_contract: with_steps(&d.lhs_contract),
            rhs_contract: with_steps(&d.rhs_contract),
        };
        let out = node.outs.start as usize + i;
        let spec = [graph.values[out].clone()];
        let sum = new.add(
            whole.into(),
            &[side(sides[0])?, side(sides[1])?],
            &spec,
            node,
        );
        let begin = new.follow(&Arg::Value(ValueId(out as u32)))?;
        let add = Op::Binary(Binary::Add);
        let made = new.add(add, &[begin, sum[0].clone()], &spec, node);
        new.known[out] = Some(made[0].clone());
    }
    Ok(())
}
