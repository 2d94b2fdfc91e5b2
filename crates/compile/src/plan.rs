//! A graph as steps over slots: what is run together, what is freed when, what is written over.

use crate::code::{self, Program, Target};
use crate::group::{Unit, group};
use crate::hoist;
use crate::join;
use crate::narrow;
use crate::product;
use crate::scan::Loop;
use crate::space::value;
use crate::tile::{self, Feed, Ready, Sink};
use crate::turn;
use clematis_core::backend::with;
use clematis_core::graph::{self, Arg, Graph, ValueId};
use clematis_core::op::Dot;
use clematis_core::pass::Options;
use clematis_core::{
    Executable, Op, Result, Spec, Support, Tensor, bail, dispatch, ensure, interrupt,
};
use clematis_native::parallel::Parts;
use clematis_native::{Buffer, backend, memory};

/// What is done at once.
enum Step {
    /// An op by the engine's own kernel.
    Op(Node),
    /// Ops that run tile by tile.
    Fused(Program),
    /// A loop over the leading axis.
    Scan(Box<Loop>, Vec<Arg>, Vec<usize>),
}

/// An op with its operands.
struct Node {
    op: Op,
    args: Vec<Arg>,
    outs: Vec<usize>,
    specs: Vec<Spec>,
}

/// A graph made ready.
pub struct Plan {
    steps: Vec<(Step, Vec<usize>)>,
    /// The first of the last steps, which cannot fail and may write over what was given away.
    last: usize,
    values: Vec<Spec>,
    /// The input that each value is, if it is one.
    inputs: Vec<Option<usize>>,
    input_specs: Vec<Spec>,
    /// The values of the last inputs, which came to light when composites were opened.
    more: Vec<Tensor>,
    outputs: Vec<Arg>,
    report: String,
}

/// What makes a whole graph ready; `None` where a size is not known yet.
pub fn compile(graph: &Graph) -> Option<Result<Box<dyn Executable>>> {
    if graph.values.iter().any(|s| s.shape.is_symbolic()) {
        return None;
    }
    Some(Plan::new(graph).map(|plan| Box::new(plan) as Box<dyn Executable>))
}

impl Plan {
    /// Plans a graph whose sizes are all known.
    pub fn new(graph: &Graph) -> Result<Plan> {
        let (graph, more) = prepare(graph)?;
        let graph = &graph;
        let units = group(graph);
        let mut inputs = vec![None; graph.values.len()];
        for (i, input) in graph.inputs.iter().enumerate() {
            inputs[input.value.0 as usize] = Some(i);
        }
        let comes_out = |v: usize| graph.outputs.iter().any(|o| value(&o.arg) == Some(v));
        let mut last_use = vec![None; graph.values.len()];
        for (u, unit) in units.iter().enumerate() {
            for &n in &unit.nodes {
                for v in graph.nodes[n].args.iter().filter_map(value) {
                    last_use[v] = Some(u);
                }
            }
        }
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
        for (u, unit) in units.iter().enumerate() {
            for &n in &unit.nodes {
                for v in graph.nodes[n].args.iter().filter_map(value) {
                    users[v].push(u);
                }
            }
        }
        let mut steps = Vec::with_capacity(units.len());
        for (u, unit) in units.iter().enumerate() {
            let needed = |v: usize| comes_out(v) || users[v].iter().any(|&x| x != u);
            let dies = |v: usize| last_use[v] == Some(u) && !comes_out(v);
            let step = make(graph, unit, &needed, &dies, &inputs)?;
            let mut dead: Vec<usize> = unit
                .nodes
                .iter()
                .flat_map(|&n| graph.nodes[n].args.iter().filter_map(value))
                .filter(|&v| inputs[v].is_none() && dies(v))
                .collect();
            dead.sort_unstable();
            dead.dedup();
            steps.push((step, dead));
        }
        let is_fused = |(step, _): &(Step, Vec<usize>)| matches!(step, Step::Fused(_));
        let ends = steps.iter().rev().take_while(|s| is_fused(s)).count();
        let mut plan = Plan {
            last: steps.len() - ends,
            steps,
            values: graph.values.clone(),
            inputs,
            input_specs: graph.input_specs(),
            more,
            outputs: graph.outputs.iter().map(|o| o.arg.clone()).collect(),
            report: String::new(),
        };
        // The last ones run side by side, so none may need another's result.
        plan.last = plan.independent_end();
        plan.keep_shared();
        plan.report = plan.describe_steps();
        Ok(plan)
    }

    fn independent_end(&self) -> usize {
        let mut made: Vec<usize> = Vec::new();
        let mut last = self.last;
        for (at, (step, _)) in self.steps.iter().enumerate().skip(self.last) {
            if let Step::Fused(program) = step {
                let mut reads = program.sources.iter().filter_map(|s| value(&s.arg));
                if reads.any(|v| made.contains(&v)) {
                    made.clear();
                    last = at;
                }
                made.extend(program.targets.iter().map(|t| t.id));
            }
        }
        last
    }

    /// What two of the last programs read is not written over: they run at the same time.
    fn keep_shared(&mut self) {
        let mut reads: Vec<usize> = Vec::new();
        for (step, _) in &self.steps[self.last..] {
            if let Step::Fused(program) = step {
                reads.extend(program.sources.iter().filter_map(|s| value(&s.arg)));
            }
        }
        for (step, _) in &mut self.steps[self.last..] {
            if let Step::Fused(program) = step {
                let sources = &program.sources;
                let shared = |at: usize| {
                    value(&sources[at].arg)
                        .is_some_and(|v| reads.iter().filter(|r| **r == v).count() > 1)
                };
                for target in &mut program.targets {
                    target.over = target.over.filter(|&at| !shared(at));
                }
            }
        }
    }

    fn describe_steps(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let mut bytes = 0;
        for (at, (step, _)) in self.steps.iter().enumerate() {
            let _ = match step {
                Step::Op(node) => {
                    bytes += node.specs.iter().map(Spec::bytes).sum::<usize>();
                    let specs: Vec<String> = node.specs.iter().map(Spec::to_string).collect();
                    writeln!(text, "{at:4} {} -> {}", node.op.name(), specs.join(", "))
                }
                Step::Scan(scan, ..) => {
                    writeln!(text, "{at:4} scan of {} steps, each:", scan.length).and_then(|()| {
                        let body = scan.body.describe();
                        body.lines().try_for_each(|l| writeln!(text, "     {l}"))
                    })
                }
                Step::Fused(p) => {
                    bytes += p.targets.iter().map(|t| t.spec.bytes()).sum::<usize>();
                    let outs: Vec<String> = p.targets.iter().map(|t| t.spec.to_string()).collect();
                    let end = if at >= self.last { " at the end" } else { "" };
                    writeln!(
                        text,
                        "{at:4} fused{end} over {} ({} in, {}+{} registers): {} -> {}",
                        p.space.shape,
                        p.sources.len(),
                        p.registers[0],
                        p.registers[1],
                        p.ops.join(" "),
                        outs.join(", ")
                    )
                }
            };
        }
        let _ = writeln!(text, "{} steps, {bytes} bytes written", self.steps.len());
        text
    }
}

/// The graph that is planned: composites without a kernel are opened, loops made lighter, results turned in place.
fn prepare(graph: &Graph) -> Result<(Graph, Vec<Tensor>)> {
    let opens = |node: &graph::Node| {
        let is_call = matches!(node.op, Op::Call(_));
        Ok(is_call && backend().support(&node.op) == Support::Expands)
    };
    let (mut graph, mut more) = (graph.clone(), Vec::new());
    // What comes out of a composite may be one again.
    while graph.nodes.iter().any(|n| opens(n).is_ok_and(|o| o)) {
        let (opened, found) = with(backend(), || graph.opened(opens))?;
        graph = opened;
        more.extend(found);
    }
    let graph = hoist::run(&graph.optimise(Options::default())?)?;
    Ok((join::run(&turn::run(&graph)).prune(), more))
}

fn make(
    graph: &Graph,
    unit: &Unit,
    needed: &dyn Fn(usize) -> bool,
    dies: &dyn Fn(usize) -> bool,
    inputs: &[Option<usize>],
) -> Result<Step> {
    if let ([n], None) = (&unit.nodes[..], &unit.space) {
        let node = &graph.nodes[*n];
        let outs: Vec<usize> = node.outs.clone().map(|v| v as usize).collect();
        if let Op::Scan(scan) = &node.op {
            let made = Loop::new(scan)?;
            return Ok(Step::Scan(Box::new(made), node.args.to_vec(), outs));
        }
        return Ok(Step::Op(Node {
            op: node.op.clone(),
            args: node.args.to_vec(),
            specs: outs.iter().map(|&v| graph.values[v].clone()).collect(),
            outs,
        }));
    }
    let mut program = code::lower(graph, unit, needed)?;
    // A target takes the place of a source of its own kind that nobody needs any more, each source once.
    let mut taken: Vec<usize> = Vec::new();
    let sources: Vec<Option<usize>> = program.sources.iter().map(|s| value(&s.arg)).collect();
    let shapes: Vec<_> = program.sources.iter().map(|s| s.shape.clone()).collect();
    for target in &mut program.targets {
        let fits = |(at, v): &(usize, &Option<usize>)| match v {
            Some(v) => {
                let once = sources.iter().filter(|o| **o == Some(*v)).count() == 1;
                let free = once && !taken.contains(at) && dies(*v);
                // A value that is repeated is read at other places than its own.
                free && graph.values[*v] == target.spec && shapes[*at] == target.spec.shape
            }
            None => false,
        };
        // Rather what was given away: its new value is to be there.
        let mut found: Vec<usize> = sources.iter().enumerate().filter(fits).map(|x| x.0).collect();
        found.sort_by_key(|&at| sources[at].is_none_or(|v| inputs[v].is_none()));
        if let Some(&at) = found.first() {
            target.over = Some(at);
            taken.push(at);
        }
    }
    Ok(Step::Fused(program))
}

/// The values at hand while a plan runs.
struct Slots<'a> {
    plan: &'a Plan,
    inputs: &'a mut Vec<Tensor>,
    values: Vec<Option<Tensor>>,
}

impl Slots<'_> {
    fn look_up<'b>(&'b self, arg: &'b Arg) -> Result<&'b Tensor> {
        let v = match arg {
            Arg::Const(x) => return Ok(x),
            Arg::Value(ValueId(v)) => *v as usize,
        };
        if let Some(i) = self.plan.inputs[v] {
            return Ok(&self.inputs[i]);
        }
        match &self.values[v] {
            Some(x) => Ok(x),
            None => bail!(Internal, "compile: %{v} is used before it is made"),
        }
    }

    /// Takes a value out, to write over it; inputs only where they may be given away.
    fn take(&mut self, v: usize, gives: bool) -> Option<Tensor> {
        match self.plan.inputs[v] {
            Some(i) if gives => Some(std::mem::replace(&mut self.inputs[i], Tensor::number(0.0))),
            Some(_) => None,
            None => self.values[v].take(),
        }
    }

    fn run_op(&mut self, node: &Node) -> Result<()> {
        let args = node.args.iter().map(|a| self.look_up(a));
        let args = args.collect::<Result<Vec<&Tensor>>>()?;
        let home = backend();
        if let (Op::Dot(p), [x, y], [out]) = (&node.op, &args[..], &node.specs[..])
            && let Some(made) = multiply(p, x, y, out)?
        {
            self.values[node.outs[0]] = Some(Tensor::concrete(out.clone(), home, made.boxed()));
            return Ok(());
        }
        let outs: Vec<Tensor> = match home.support(&node.op) {
            Support::Runs => {
                let data = home.execute(&node.op, &args, &node.specs)?.into_vec();
                let specs = node.specs.iter().cloned();
                specs
                    .zip(data)
                    .map(|(spec, data)| Tensor::concrete(spec, home, data))
                    .collect()
            }
            _ => dispatch::apply(&node.op, &args)?.into_vec(),
        };
        for (&v, x) in node.outs.iter().zip(outs) {
            self.values[v] = Some(x);
        }
        Ok(())
    }

    fn run_scan(&mut self, scan: &Loop, args: &[Arg], outs: &[usize]) -> Result<()> {
        let args = args.iter().map(|a| self.look_up(a));
        let made = scan.run(&args.collect::<Result<Vec<&Tensor>>>()?)?;
        for (&v, x) in outs.iter().zip(made) {
            self.values[v] = Some(x);
        }
        Ok(())
    }

    /// Runs programs side by side. `gives`: inputs may be written over.
    fn run_fused(&mut self, programs: &[&Program], gives: bool) -> Result<()> {
        let mut memory = self.rooms(programs, gives)?;
        let mut all = Vec::with_capacity(programs.len());
        for (program, rooms) in programs.iter().zip(&mut memory) {
            let mut feeds = Vec::with_capacity(program.sources.len());
            for (at, source) in program.sources.iter().enumerate() {
                let over = program.targets.iter().position(|t| t.over == Some(at));
                feeds.push(match over {
                    Some(sink) if rooms[sink].1 => Feed::Over(sink),
                    _ => Feed::new(self.look_up(&source.arg)?, program, at)?,
                });
            }
            let mut sinks = Vec::with_capacity(rooms.len());
            for (target, (room, _)) in program.targets.iter().zip(rooms) {
                let Some(bytes) = room.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                    bail!(Internal, "compile: memory of %{} is shared", target.id);
                };
                sinks.push(match program.values[target.value as usize].truth {
                    false => Sink::Floats(Parts::new(bytes.as_mut_slice())),
                    true => Sink::Truths(Parts::new(bytes.as_mut_slice())),
                });
            }
            all.push(Ready {
                program,
                feeds,
                sinks,
            });
        }
        tile::run(&all);
        drop(all);
        for (program, rooms) in programs.iter().zip(memory) {
            for (target, (room, _)) in program.targets.iter().zip(rooms) {
                self.values[target.id] = Some(room);
            }
        }
        Ok(())
    }

    /// Memory for all targets, and whether it is that of a source. Nothing can fail once something is written.
    fn rooms(&mut self, programs: &[&Program], gives: bool) -> Result<Vec<Vec<(Tensor, bool)>>> {
        let mut memory: Vec<Vec<(Tensor, bool)>> = Vec::with_capacity(programs.len());
        for program in programs {
            let mut rooms = Vec::with_capacity(program.targets.len());
            for target in &program.targets {
                let room = match self.over(program, target, gives) {
                    Some(x) => Ok((x, true)),
                    None => fresh(&target.spec).map(|x| (x, false)),
                };
                match room {
                    Ok(room) => rooms.push(room),
                    Err(e) => {
                        memory.push(rooms);
                        self.put_back(programs, memory);
                        return Err(e);
                    }
                }
            }
            memory.push(rooms);
        }
        Ok(memory)
    }

    fn put_back(&mut self, programs: &[&Program], memory: Vec<Vec<(Tensor, bool)>>) {
        for (program, rooms) in programs.iter().zip(memory) {
            for (target, (x, is_over)) in program.targets.iter().zip(rooms) {
                let over = target.over.and_then(|at| value(&program.sources[at].arg));
                if let (true, Some(v)) = (is_over, over) {
                    self.put(v, x);
                }
            }
        }
    }

    fn put(&mut self, v: usize, x: Tensor) {
        match self.plan.inputs[v] {
            Some(i) => self.inputs[i] = x,
            None => self.values[v] = Some(x),
        }
    }

    /// The memory of a source that nobody needs or holds any more.
    fn over(&mut self, program: &Program, target: &Target, gives: bool) -> Option<Tensor> {
        let v = value(&program.sources[target.over?].arg)?;
        let mut x = self.take(v, gives)?;
        let whole = x.spec() == &target.spec;
        let own = x.data_mut::<Buffer>().is_some_and(|b| {
            b.layout().strides.is_none()
                && b.layout().offset == 0
                && b.bytes().len() == target.spec.bytes()
                && b.bytes_mut().is_some()
        });
        if whole && own {
            return Some(x);
        }
        self.put(v, x);
        None
    }
}

/// A product by a way of our own, if there is a better one.
fn multiply(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Option<Buffer>> {
    if narrow::is_narrow(p, x.spec(), y.spec())
        && let Some(made) = narrow::run(p, x, y, out)?
    {
        return Ok(Some(made));
    }
    match product::is_divided(p, out, x.spec()) {
        true => product::run(p, x, y, out),
        false => Ok(None),
    }
}

/// Memory of our own for a value.
pub(crate) fn fresh(spec: &Spec) -> Result<Tensor> {
    let bytes = memory::alloc("compiled", spec)?;
    Ok(Tensor::concrete(spec.clone(), backend(), Buffer::new(bytes).boxed()))
}

impl Executable for Plan {
    fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>> {
        let given = self.input_specs.len() - self.more.len();
        ensure!(
            inputs.len() == given,
            Value,
            "compiled graph: takes {given} inputs, not {}",
            inputs.len()
        );
        inputs.extend(self.more.iter().cloned());
        let mut slots = Slots {
            plan: self,
            values: vec![None; self.values.len()],
            inputs,
        };
        for (step, dead) in &self.steps[..self.last] {
            interrupt::check()?;
            match step {
                Step::Op(node) => slots.run_op(node)?,
                Step::Fused(program) => slots.run_fused(&[program], false)?,
                Step::Scan(scan, args, outs) => slots.run_scan(scan, args, outs)?,
            }
            for &v in dead {
                slots.values[v] = None;
            }
        }
        let ends: Vec<&Program> = self.steps[self.last..]
            .iter()
            .filter_map(|(step, _)| match step {
                Step::Fused(program) => Some(program),
                Step::Op(_) | Step::Scan(..) => None,
            })
            .collect();
        slots.run_fused(&ends, true)?;
        let outputs = self.outputs.iter().map(|o| slots.look_up(o).cloned());
        outputs.collect()
    }

    fn describe(&self) -> String {
        self.report.clone()
    }
}
