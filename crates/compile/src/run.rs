//! Runs a plan: values in slots, freed as soon as nobody needs them, written over where nobody else holds them.

use crate::code::{Program, Target};
use crate::down;
use crate::narrow;
use crate::plan::{Node, Plan, Step};
use crate::product;
use crate::space::value;
use crate::tile::{self, Feed, Ready, Sink};
use clematis_core::graph::{Arg, ValueId};
use clematis_core::op::Dot;
use clematis_core::{
    Executable, Op, Result, Spec, Support, Tensor, bail, dispatch, ensure, interrupt,
};
use clematis_native::parallel::{self, Columns};
use clematis_native::{Buffer, backend, memory, region};

/// Bytes at once beyond which a plan asks beforehand whether there is room.
const LARGE: usize = 1 << 24;
/// Bytes at once beyond which results lie in a region of their own.
const OWN_REGION: usize = 1 << 20;

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
        if node.packed
            && let ([x, y], [out]) = (&args[..], &node.specs[..])
        {
            let made = narrow::run_packed(x, y, out)?;
            self.values[node.outs[0]] = Some(Tensor::concrete(out.clone(), home, made.boxed()));
            return Ok(());
        }
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

    /// Runs steps that stand for one.
    fn run_all(
        &mut self,
        args: &[Arg],
        outs: &[usize],
        run: impl FnOnce(&[&Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let args = args.iter().map(|a| self.look_up(a));
        let made = run(&args.collect::<Result<Vec<&Tensor>>>()?)?;
        for (&v, x) in outs.iter().zip(made) {
            self.values[v] = Some(x);
        }
        Ok(())
    }

    /// One step but for those at the end, which run together.
    fn run_step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Op(node) => self.run_op(node),
            Step::Fused(program) => self.run_fused(&[program], false),
            Step::Scan(scan, args, outs) => self.run_all(args, outs, |x| scan.run(x)),
            Step::Batch(batch, args, outs) => self.run_all(args, outs, |x| batch.run(x)),
        }
    }

    /// Runs programs side by side. `gives`: inputs may be written over.
    fn run_fused(&mut self, programs: &[&Program], gives: bool) -> Result<()> {
        let mut sums = self.sums(programs)?;
        let mut memory = self.rooms(programs, gives)?;
        let mut all = Vec::with_capacity(programs.len());
        for ((program, rooms), sums) in programs.iter().zip(&mut memory).zip(&mut sums) {
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
                let value = program.values[target.value as usize];
                let share = tile::share(program, value.class);
                sinks.push(match value.truth {
                    false => Sink::Floats(Columns::chunks(bytes.as_mut_slice(), share)),
                    true => Sink::Truths(Columns::chunks(bytes.as_mut_slice(), share)),
                });
            }
            let downs = sums
                .iter_mut()
                .zip(&program.downs)
                .map(|((_, parts), down)| {
                    Columns::chunks(parts, down::room(down.spec.shape.count()))
                });
            all.push(Ready {
                program,
                feeds,
                sinks,
                downs: downs.collect(),
            });
        }
        tile::run(&all);
        drop(all);
        for (program, rooms) in programs.iter().zip(memory) {
            for (target, (room, _)) in program.targets.iter().zip(rooms) {
                self.values[target.id] = Some(room);
            }
        }
        for (program, sums) in programs.iter().zip(sums) {
            for (down, (mut sum, mut parts)) in program.downs.iter().zip(sums) {
                let Some(bytes) = sum.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                    bail!(Internal, "compile: memory of %{} is shared", down.id);
                };
                down::collect(bytes.as_mut_slice(), &mut parts);
                self.values[down.id] = Some(sum);
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
                    None => self.room(target.id, &target.spec).map(|x| (x, false)),
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

    /// Memory for the sums of programs.
    fn sums(&self, programs: &[&Program]) -> Result<Vec<Vec<Sum>>> {
        let of = |program: &&Program| {
            let downs = program.downs.iter().map(|down| {
                let parts = tile::tasks(program) * down::room(down.spec.shape.count());
                Ok((self.room(down.id, &down.spec)?, vec![0.0; parts]))
            });
            downs.collect()
        };
        programs.iter().map(of).collect()
    }

    /// Memory of its own for a value.
    fn room(&self, v: usize, spec: &Spec) -> Result<Tensor> {
        match self.plan.escapes[v] {
            true => region::outside(|| fresh(spec)),
            false => fresh(spec),
        }
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

/// A sum over rows, and room for those of the tasks.
type Sum = (Tensor, Vec<f32>);

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
    Ok(Tensor::concrete(
        spec.clone(),
        backend(),
        Buffer::new(bytes).boxed(),
    ))
}

impl Plan {
    /// Whether any of these outlives a run.
    fn escape(&self, values: &[usize]) -> bool {
        values.iter().any(|&v| self.escapes[v])
    }
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
        // Small ones are not worth the question, and steps of loops are asked for with the loop.
        if self.most > LARGE {
            memory::check_room("compiled graph", self.most)?;
        }
        inputs.extend(self.more.iter().cloned());
        let within = self.most > OWN_REGION;
        let _within = within.then(|| region::Within::new(self.most));
        let mut slots = Slots {
            plan: self,
            values: vec![None; self.values.len()],
            inputs,
        };
        let step = |slots: &mut Slots<'_>, step: &Step| {
            interrupt::check()?;
            // What outlives the run lies outside of its region; groups see to it themselves.
            let escapes = match step {
                Step::Op(node) => self.escape(&node.outs),
                Step::Scan(_, _, outs) | Step::Batch(_, _, outs) => self.escape(outs),
                Step::Fused(_) => false,
            };
            match escapes {
                true => region::outside(|| slots.run_step(step)),
                false => slots.run_step(step),
            }
        };
        parallel::interruptible(|| {
            for (next, dead) in &self.steps[..self.last] {
                step(&mut slots, next)?;
                for &v in dead {
                    slots.values[v] = None;
                }
            }
            Ok(())
        })?;
        let ends: Vec<&Program> = self.steps[self.last..]
            .iter()
            .filter_map(|(step, _)| match step {
                Step::Fused(program) => Some(program),
                Step::Op(_) | Step::Scan(..) | Step::Batch(..) => None,
            })
            .collect();
        // Inputs are written over.
        parallel::uninterruptible(|| slots.run_fused(&ends, true))?;
        let outputs = self.outputs.iter().map(|o| slots.look_up(o).cloned());
        outputs.collect()
    }

    fn describe(&self) -> String {
        self.report.clone()
    }
}
