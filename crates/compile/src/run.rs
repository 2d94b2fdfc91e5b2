//! Runs a plan: values live in slots, are freed after their last use, and are updated in place where nobody else holds
//! them.

use crate::column_reduction;
use crate::matmul;
use crate::plan::{Node, Plan, Step};
use crate::program::{Program, Target};
use crate::skinny_gemm;
use crate::tile::{self, BoundProgram, Feed, Sink};
use clematis_core::graph::{Arg, ValueId};
use clematis_core::op::Dot;
use clematis_core::{
    Executable, Op, Result, Spec, Support, Tensor, bail, dispatch, ensure, interrupt,
};
use clematis_native::parallel::{self, Columns};
use clematis_native::{Buffer, arena, backend, memory};
use clematis_passes::value;

/// Peak bytes from which a plan checks the available memory before it starts.
const CHECKED_BYTES: usize = 1 << 24;
/// Peak bytes from which results are allocated in an arena of their own.
const ARENA_BYTES: usize = 1 << 20;

/// The live values of a running plan.
struct Slots<'a> {
    plan: &'a Plan,
    inputs: &'a mut Vec<Tensor>,
    values: Vec<Option<Tensor>>,
}

impl Slots<'_> {
    fn lookup<'b>(&'b self, arg: &'b Arg) -> Result<&'b Tensor> {
        let v = match arg {
            Arg::Const(x) => return Ok(x),
            Arg::Value(ValueId(v)) => *v as usize,
        };
        if let Some(i) = self.plan.inputs[v] {
            return Ok(&self.inputs[i]);
        }
        match &self.values[v] {
            Some(x) => Ok(x),
            None => bail!(Internal, "compile: %{v} is used before it is defined"),
        }
    }

    /// Takes a value out to overwrite its memory; inputs only if they may be donated.
    fn take(&mut self, v: usize, donates: bool) -> Option<Tensor> {
        match self.plan.inputs[v] {
            Some(i) if donates => Some(std::mem::replace(&mut self.inputs[i], Tensor::number(0.0))),
            Some(_) => None,
            None => self.values[v].take(),
        }
    }

    fn run_op(&mut self, node: &Node) -> Result<()> {
        let args = node.args.iter().map(|a| self.lookup(a));
        let args = args.collect::<Result<Vec<&Tensor>>>()?;
        let engine = backend();
        if node.packed
            && let ([x, y], [out]) = (&args[..], &node.specs[..])
        {
            let made = skinny_gemm::run_packed(x, y, out)?;
            self.values[node.outs[0]] = Some(Tensor::concrete(out.clone(), engine, made.boxed()));
            return Ok(());
        }
        if let (Op::Dot(p), [x, y], [out]) = (&node.op, &args[..], &node.specs[..])
            && let Some(made) = specialized_matmul(p, x, y, out)?
        {
            self.values[node.outs[0]] = Some(Tensor::concrete(out.clone(), engine, made.boxed()));
            return Ok(());
        }
        let outs: Vec<Tensor> = match engine.support(&node.op) {
            Support::Runs => {
                let data = engine.execute(&node.op, &args, &node.specs)?.into_vec();
                let specs = node.specs.iter().cloned();
                specs
                    .zip(data)
                    .map(|(spec, data)| Tensor::concrete(spec, engine, data))
                    .collect()
            }
            _ => dispatch::apply(&node.op, &args)?.into_vec(),
        };
        for (&v, x) in node.outs.iter().zip(outs) {
            self.values[v] = Some(x);
        }
        Ok(())
    }

    /// Runs a compound step (a scan or a batched chain).
    fn run_compound(
        &mut self,
        args: &[Arg],
        outs: &[usize],
        run: impl FnOnce(&[&Tensor]) -> Result<Vec<Tensor>>,
    ) -> Result<()> {
        let args = args.iter().map(|a| self.lookup(a));
        let made = run(&args.collect::<Result<Vec<&Tensor>>>()?)?;
        for (&v, x) in outs.iter().zip(made) {
            self.values[v] = Some(x);
        }
        Ok(())
    }

    /// Runs one step that is not part of the tail.
    fn run_step(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Op(node) => self.run_op(node),
            Step::Fused(program) => self.run_fused(&[program], false),
            Step::Scan(scan, args, outs) => self.run_compound(args, outs, |x| scan.run(x)),
            Step::BatchedChain(chain, args, outs) => {
                self.run_compound(args, outs, |x| chain.run(x))
            }
        }
    }

    /// Runs independent programs in one parallel region. With `donates`, inputs may be overwritten.
    fn run_fused(&mut self, programs: &[&Program], donates: bool) -> Result<()> {
        let mut sums = self.column_sum_buffers(programs)?;
        let mut memory = self.target_buffers(programs, donates)?;
        let mut all = Vec::with_capacity(programs.len());
        for ((program, buffers), sums) in programs.iter().zip(&mut memory).zip(&mut sums) {
            let mut feeds = Vec::with_capacity(program.sources.len());
            for (at, source) in program.sources.iter().enumerate() {
                let reused = program.targets.iter().position(|t| t.reuses == Some(at));
                feeds.push(match reused {
                    Some(sink) if buffers[sink].1 => Feed::InPlace(sink),
                    _ => Feed::new(self.lookup(&source.arg)?, program, at)?,
                });
            }
            let mut sinks = Vec::with_capacity(buffers.len());
            for (target, (buffer, _)) in program.targets.iter().zip(buffers) {
                let Some(bytes) = buffer.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                    bail!(Internal, "compile: the memory of %{} is shared", target.id);
                };
                let value = program.values[target.value as usize];
                let elements = tile::task_elements(program, value.extent);
                sinks.push(match value.is_bool {
                    false => Sink::Floats(Columns::chunks(bytes.as_mut_slice(), elements)),
                    true => Sink::Bools(Columns::chunks(bytes.as_mut_slice(), elements)),
                });
            }
            let column_sums =
                sums.iter_mut()
                    .zip(&program.column_sums)
                    .map(|((_, parts), column_sum)| {
                        Columns::chunks(
                            parts,
                            column_reduction::scratch_len(column_sum.spec.shape.count()),
                        )
                    });
            all.push(BoundProgram {
                program,
                feeds,
                sinks,
                column_sums: column_sums.collect(),
            });
        }
        tile::run(&all);
        drop(all);
        for (program, buffers) in programs.iter().zip(memory) {
            for (target, (buffer, _)) in program.targets.iter().zip(buffers) {
                self.values[target.id] = Some(buffer);
            }
        }
        for (program, sums) in programs.iter().zip(sums) {
            for (column_sum, (mut sum, mut parts)) in program.column_sums.iter().zip(sums) {
                let Some(bytes) = sum.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                    bail!(
                        Internal,
                        "compile: the memory of %{} is shared",
                        column_sum.id
                    );
                };
                column_reduction::collect(bytes.as_mut_slice(), &mut parts);
                self.values[column_sum.id] = Some(sum);
            }
        }
        Ok(())
    }

    /// Memory for all targets, each with whether it is a reused source. After this, nothing can fail once a write has
    /// begun.
    fn target_buffers(
        &mut self,
        programs: &[&Program],
        donates: bool,
    ) -> Result<Vec<Vec<(Tensor, bool)>>> {
        let mut memory: Vec<Vec<(Tensor, bool)>> = Vec::with_capacity(programs.len());
        for program in programs {
            let mut buffers = Vec::with_capacity(program.targets.len());
            for target in &program.targets {
                let buffer = match self.reuse_source(program, target, donates) {
                    Some(x) => Ok((x, true)),
                    None => self
                        .allocate_value(target.id, &target.spec)
                        .map(|x| (x, false)),
                };
                match buffer {
                    Ok(buffer) => buffers.push(buffer),
                    Err(e) => {
                        memory.push(buffers);
                        self.put_back(programs, memory);
                        return Err(e);
                    }
                }
            }
            memory.push(buffers);
        }
        Ok(memory)
    }

    /// Memory for the column sums of programs.
    fn column_sum_buffers(&self, programs: &[&Program]) -> Result<Vec<Vec<ColumnSumBuffers>>> {
        let of = |program: &&Program| {
            let column_sums = program.column_sums.iter().map(|column_sum| {
                let parts = tile::tasks(program)
                    * column_reduction::scratch_len(column_sum.spec.shape.count());
                Ok((
                    self.allocate_value(column_sum.id, &column_sum.spec)?,
                    vec![0.0; parts],
                ))
            });
            column_sums.collect()
        };
        programs.iter().map(of).collect()
    }

    /// Allocates memory for a value.
    fn allocate_value(&self, v: usize, spec: &Spec) -> Result<Tensor> {
        match self.plan.escapes[v] {
            true => arena::outside(|| allocate(spec)),
            false => allocate(spec),
        }
    }

    fn put_back(&mut self, programs: &[&Program], memory: Vec<Vec<(Tensor, bool)>>) {
        for (program, buffers) in programs.iter().zip(memory) {
            for (target, (x, is_reused)) in program.targets.iter().zip(buffers) {
                let reused = target.reuses.and_then(|at| value(&program.sources[at].arg));
                if let (true, Some(v)) = (is_reused, reused) {
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

    /// The memory of a source that nobody else needs or holds.
    fn reuse_source(
        &mut self,
        program: &Program,
        target: &Target,
        donates: bool,
    ) -> Option<Tensor> {
        let v = value(&program.sources[target.reuses?].arg)?;
        let mut x = self.take(v, donates)?;
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

/// The result of a column sum, and the partial sums of the tasks.
type ColumnSumBuffers = (Tensor, Vec<f32>);

/// Runs a matmul by one of this crate's kernels, if one applies.
fn specialized_matmul(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Option<Buffer>> {
    if skinny_gemm::is_skinny(p, x.spec(), y.spec())
        && let Some(made) = skinny_gemm::run(p, x, y, out)?
    {
        return Ok(Some(made));
    }
    match matmul::is_partitioned(p, out, x.spec()) {
        true => matmul::run(p, x, y, out),
        false => Ok(None),
    }
}

/// Allocates memory for a value.
pub(crate) fn allocate(spec: &Spec) -> Result<Tensor> {
    let bytes = memory::alloc("compiled", spec)?;
    Ok(Tensor::concrete(
        spec.clone(),
        backend(),
        Buffer::new(bytes).boxed(),
    ))
}

impl Plan {
    /// Whether any of these values outlives the run.
    fn any_escapes(&self, values: &[usize]) -> bool {
        values.iter().any(|&v| self.escapes[v])
    }
}

impl Executable for Plan {
    fn run(&self, inputs: &mut Vec<Tensor>) -> Result<Vec<Tensor>> {
        let given = self.input_specs.len() - self.captured.len();
        ensure!(
            inputs.len() == given,
            Value,
            "compiled graph: expected {given} inputs, got {}",
            inputs.len()
        );
        // Small plans skip the check; a scan's memory is checked with the whole plan.
        if self.peak_bytes > CHECKED_BYTES {
            memory::check_available("compiled graph", self.peak_bytes)?;
        }
        inputs.extend(self.captured.iter().cloned());
        let in_arena = self.peak_bytes > ARENA_BYTES;
        let _arena = in_arena.then(|| arena::ArenaScope::new(self.peak_bytes));
        let mut slots = Slots {
            plan: self,
            values: vec![None; self.values.len()],
            inputs,
        };
        let step = |slots: &mut Slots<'_>, step: &Step| {
            interrupt::check()?;
            // Values that outlive the run are allocated outside of its arena; fused programs handle this themselves.
            let escapes = match step {
                Step::Op(node) => self.any_escapes(&node.outs),
                Step::Scan(_, _, outs) | Step::BatchedChain(_, _, outs) => self.any_escapes(outs),
                Step::Fused(_) => false,
            };
            match escapes {
                true => arena::outside(|| slots.run_step(step)),
                false => slots.run_step(step),
            }
        };
        parallel::interruptible(|| {
            for (next, dead) in &self.steps[..self.tail] {
                step(&mut slots, next)?;
                for &v in dead {
                    slots.values[v] = None;
                }
            }
            Ok(())
        })?;
        let tail: Vec<&Program> = self.steps[self.tail..]
            .iter()
            .filter_map(|(step, _)| match step {
                Step::Fused(program) => Some(program),
                Step::Op(_) | Step::Scan(..) | Step::BatchedChain(..) => None,
            })
            .collect();
        // The tail may overwrite donated inputs, so it cannot be interrupted.
        parallel::uninterruptible(|| slots.run_fused(&tail, true))?;
        let outputs = self.outputs.iter().map(|o| slots.lookup(o).cloned());
        outputs.collect()
    }

    fn describe(&self) -> String {
        self.report.clone()
    }
}
