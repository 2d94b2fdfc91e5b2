//! The tile interpreter: the registers of a thread, and the execution of instructions on them.

use crate::column_reduction;
use crate::fuse_pairs::PairKernel;
use crate::iteration_domain::Extent;
use crate::program::{BoolInstruction, FloatInstruction, Instruction};
use crate::tile::{BoundProgram, Feed, Prefetch, SinkChunk, TaskOutputs};
use clematis_native::kernel::map::Source;
use clematis_native::kernel::reduce::{Max, Sum, fold_slice, sum_of_products};
use clematis_native::kernel::row_kernels::{bool_to_float, map2_bool, positive_sqrt};
use clematis_native::kernel::select::choose;
use clematis_native::parallel::Column;
use smallvec::SmallVec;
use std::cell::RefCell;

thread_local! {
    pub(crate) static INTERPRETER: RefCell<TileInterpreter> = const { RefCell::new(TileInterpreter::new()) };
}

/// Elements by which the starts of registers are skewed. A tile of floats is as long as a page, and lines at the same
/// offset of all pages compete for the same few sets of L1.
const REGISTER_SKEW: usize = 64;
/// The number of different skews.
const SKEWS: usize = 16;

/// The floats of a register.
#[derive(Clone, Default)]
struct Register {
    data: Vec<f32>,
    start: usize,
}

impl Register {
    /// Allocates memory for a tile.
    fn prepare(&mut self, number: usize, tile: usize) {
        let page = REGISTER_SKEW * SKEWS;
        if self.data.len() < tile + page {
            self.data.resize(tile + page, 0.0);
            let address = self.data.as_ptr().addr() / size_of::<f32>();
            self.start = (number % SKEWS * REGISTER_SKEW + page - address % page) % page;
        }
    }

    fn floats(&self) -> &[f32] {
        &self.data[self.start..]
    }

    fn floats_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.start..]
    }
}

/// The registers of one thread, reused between runs.
pub(crate) struct TileInterpreter {
    /// The run and program whose constants the registers hold.
    pub(crate) owner: Option<(u64, usize)>,
    floats: Vec<Register>,
    bools: Vec<Vec<u8>>,
}

/// The parts of the targets that a tile writes.
#[derive(Default)]
struct TileOutputs<'a> {
    floats: SmallVec<[&'a mut [f32]; 8]>,
    bools: SmallVec<[&'a mut [u8]; 4]>,
}

/// The elements that a tile covers, for full and for per-row values.
#[derive(Clone, Copy)]
struct Span {
    from: usize,
    len: usize,
    row: usize,
    rows: usize,
    columns: usize,
}

impl Span {
    fn of(&self, extent: Extent) -> (usize, usize) {
        match extent {
            Extent::Full => (self.from, self.len),
            Extent::Row => (self.row, self.rows),
        }
    }
}

/// Elements that a task owns, by their position in the whole.
fn chunk<'a, T>(own: &'a mut Column<'_, T>, start: usize, count: usize) -> &'a mut [T] {
    let first = own.first();
    own.slice(0, start.saturating_sub(first), count)
}

impl TileInterpreter {
    const fn new() -> Self {
        TileInterpreter {
            owner: None,
            floats: Vec::new(),
            bools: Vec::new(),
        }
    }

    pub(crate) fn prepare(&mut self, bound: &BoundProgram<'_>, tile: usize) {
        let [floats, bools] = bound.program.registers;
        let larger = |have: usize, want: usize| have.max(want);
        self.floats
            .resize(larger(self.floats.len(), floats), Register::default());
        self.bools
            .resize(larger(self.bools.len(), bools), Vec::new());
        for (number, register) in self.floats[..floats].iter_mut().enumerate() {
            register.prepare(number, tile);
        }
        for buffer in &mut self.bools[..bools] {
            buffer.resize(larger(buffer.len(), tile), 0);
        }
        for (feed, value) in bound.feeds.iter().zip(&bound.program.values) {
            match feed {
                Feed::Floats(Source::Constant(x)) => {
                    self.floats[value.register as usize].floats_mut()[..tile].fill(*x);
                }
                Feed::Bools(Source::Constant(x)) => self.bools[value.register as usize].fill(*x),
                Feed::RepeatedRow(view) => {
                    let register = &mut self.floats[value.register as usize];
                    view.read(0, &mut register.floats_mut()[..tile]);
                }
                _ => {}
            }
        }
    }

    /// Runs one tile of a task.
    pub(crate) fn run_tile(
        &mut self,
        bound: &BoundProgram<'_>,
        own: &mut TaskOutputs<'_>,
        task: usize,
        from: usize,
        len: usize,
    ) {
        let program = bound.program;
        let columns = program.domain.columns().max(1);
        let span = Span {
            from,
            len,
            row: from / columns,
            rows: len / columns,
            columns,
        };
        for (feed, value) in bound.feeds.iter().zip(&program.values) {
            let register = value.register as usize;
            let (start, count) = span.of(value.extent);
            match feed {
                Feed::Floats(Source::Strided(view)) => {
                    view.read(start, &mut self.floats[register].floats_mut()[..count]);
                }
                Feed::Bools(Source::Strided(view)) => {
                    view.read(start, &mut self.bools[register][..count]);
                }
                Feed::InPlace(sink) => match &mut own.sinks[*sink] {
                    SinkChunk::Floats(own) => self.floats[register].floats_mut()[..count]
                        .copy_from_slice(chunk(own, start, count)),
                    SinkChunk::Bools(own) => {
                        self.bools[register][..count].copy_from_slice(chunk(own, start, count))
                    }
                },
                _ => {}
            }
        }
        // All in-place reads are in registers now, so each sink may be written as soon as its value is computed.
        let mut out = TileOutputs::default();
        for (target, own) in program.targets.iter().zip(&mut own.sinks) {
            let (start, count) = span.of(program.values[target.value as usize].extent);
            match own {
                SinkChunk::Floats(own) => out.floats.push(chunk(own, start, count)),
                SinkChunk::Bools(own) => out.bools.push(chunk(own, start, count)),
            }
        }
        let first = program.sources.len();
        let prefetch = Prefetch::of(bound, (from, len));
        for (i, instruction) in program.instructions.iter().enumerate() {
            if let Some(prefetch) = &prefetch {
                prefetch.issue(bound, i);
            }
            self.run_instruction(bound, &mut out, instruction, first + i, span);
        }
        for (column_sum, own) in program.column_sums.iter().zip(&mut own.column_sums) {
            let rows = self.floats(bound, &out, column_sum.value, span);
            let done = span.row - task * column_reduction::rows_per_task(&program.domain);
            column_reduction::add_rows(own.row(0), rows, done);
        }
        // Values without an instruction are copied from their source.
        for (at, value) in program.copies.iter() {
            match program.values[*value as usize].is_bool {
                false => {
                    let buffer = std::mem::take(&mut out.floats[*at]);
                    buffer.copy_from_slice(self.floats(bound, &out, *value, span));
                    out.floats[*at] = buffer;
                }
                true => {
                    let buffer = std::mem::take(&mut out.bools[*at]);
                    buffer.copy_from_slice(self.bools(bound, &out, *value, span));
                    out.bools[*at] = buffer;
                }
            }
        }
    }

    fn floats<'a>(
        &'a self,
        bound: &'a BoundProgram<'_>,
        out: &'a TileOutputs<'_>,
        at: u16,
        span: Span,
    ) -> &'a [f32] {
        let value = bound.program.values[at as usize];
        let (start, count) = span.of(value.extent);
        match (bound.feeds.get(at as usize), value.sink) {
            (Some(Feed::Floats(Source::Dense(all))), _) => &all[start..start + count],
            (None, Some(sink)) => &*out.floats[sink as usize],
            _ => &self.floats[value.register as usize].floats()[..count],
        }
    }

    fn bools<'a>(
        &'a self,
        bound: &'a BoundProgram<'_>,
        out: &'a TileOutputs<'_>,
        at: u16,
        span: Span,
    ) -> &'a [u8] {
        let value = bound.program.values[at as usize];
        let (start, count) = span.of(value.extent);
        match (bound.feeds.get(at as usize), value.sink) {
            (Some(Feed::Bools(Source::Dense(all))), _) => &all[start..start + count],
            (None, Some(sink)) => &*out.bools[sink as usize],
            _ => &self.bools[value.register as usize][..count],
        }
    }

    fn run_instruction(
        &mut self,
        bound: &BoundProgram<'_>,
        outs: &mut TileOutputs<'_>,
        instruction: &Instruction,
        to: usize,
        span: Span,
    ) {
        let value = bound.program.values[to];
        let register = value.register as usize;
        let (_, count) = span.of(value.extent);
        // The destination is taken out of the registers while the operands are borrowed.
        match (instruction, value.sink) {
            (Instruction::Bool(instruction), Some(sink)) => {
                let buffer = std::mem::take(&mut outs.bools[sink as usize]);
                self.run_bool(bound, outs, instruction, buffer, span);
                outs.bools[sink as usize] = buffer;
            }
            (Instruction::Bool(instruction), None) => {
                let mut buffer = std::mem::take(&mut self.bools[register]);
                self.run_bool(bound, outs, instruction, &mut buffer[..count], span);
                self.bools[register] = buffer;
            }
            (Instruction::Float(instruction), Some(sink)) => {
                let buffer = std::mem::take(&mut outs.floats[sink as usize]);
                self.run_float(bound, outs, instruction, buffer, span);
                outs.floats[sink as usize] = buffer;
            }
            (Instruction::Float(instruction), None) => {
                let mut buffer = std::mem::take(&mut self.floats[register]);
                self.run_float(
                    bound,
                    outs,
                    instruction,
                    &mut buffer.floats_mut()[..count],
                    span,
                );
                self.floats[register] = buffer;
            }
        }
    }

    fn run_bool(
        &self,
        bound: &BoundProgram<'_>,
        outs: &TileOutputs<'_>,
        instruction: &BoolInstruction,
        out: &mut [u8],
        span: Span,
    ) {
        let f = |at| self.floats(bound, outs, at, span);
        let t = |at| self.bools(bound, outs, at, span);
        match *instruction {
            BoolInstruction::Unary(row, a) => row(out, f(a)),
            BoolInstruction::Compare(row, a, b) => row(out, f(a), f(b)),
            BoolInstruction::Not(a) => map2_bool(out, t(a), t(a), |x, _| x ^ 1),
            BoolInstruction::And(a, b) => map2_bool(out, t(a), t(b), |x, y| x & y),
            BoolInstruction::Or(a, b) => map2_bool(out, t(a), t(b), |x, y| x | y),
        }
    }

    fn run_float(
        &self,
        bound: &BoundProgram<'_>,
        outs: &TileOutputs<'_>,
        instruction: &FloatInstruction,
        out: &mut [f32],
        span: Span,
    ) {
        let f = |at| self.floats(bound, outs, at, span);
        let t = |at| self.bools(bound, outs, at, span);
        let rows = |at| f(at).chunks_exact(span.columns);
        let is_scalar = |at| bound.program.is_scalar(at);
        match *instruction {
            FloatInstruction::Unary(row, a) => row(out, f(a)),
            FloatInstruction::Binary(_, row, a, b) => row(out, f(a), f(b)),
            FloatInstruction::BinaryScalar(_, _, row, a, b) if is_scalar(b) => {
                row(out, f(a), f(b)[0])
            }
            FloatInstruction::BinaryScalar(_, _, row, a, b) => {
                for ((out, x), &y) in out.chunks_exact_mut(span.columns).zip(rows(a)).zip(f(b)) {
                    row(out, x, y);
                }
            }
            FloatInstruction::FusedPair(PairKernel::ScalarSecond(row), a, b, c) if is_scalar(b) => {
                row(out, f(a), f(b)[0], f(c));
            }
            FloatInstruction::FusedPair(PairKernel::ScalarThird(row), a, b, c) if is_scalar(c) => {
                row(out, f(a), f(b), f(c)[0]);
            }
            FloatInstruction::FusedPair(PairKernel::ScalarBoth(row), a, b, c)
                if is_scalar(b) && is_scalar(c) =>
            {
                row(out, f(a), f(b)[0], f(c)[0]);
            }
            FloatInstruction::FusedPair(PairKernel::Vectors(row), a, b, c) => {
                row(out, f(a), f(b), f(c))
            }
            FloatInstruction::FusedPair(PairKernel::ScalarSecond(row), a, b, c) => {
                let operands = rows(a).zip(f(b)).zip(rows(c));
                for (out, ((x, &y), z)) in out.chunks_exact_mut(span.columns).zip(operands) {
                    row(out, x, y, z);
                }
            }
            FloatInstruction::FusedPair(PairKernel::ScalarThird(row), a, b, c) => {
                let operands = rows(a).zip(rows(b)).zip(f(c));
                for (out, ((x, y), &z)) in out.chunks_exact_mut(span.columns).zip(operands) {
                    row(out, x, y, z);
                }
            }
            FloatInstruction::FusedPair(PairKernel::ScalarBoth(row), a, b, c) => {
                let operands = rows(a).zip(f(b)).zip(f(c));
                for (out, ((x, &y), &z)) in out.chunks_exact_mut(span.columns).zip(operands) {
                    row(out, x, y, z);
                }
            }
            FloatInstruction::Select(c, a, b) => choose(out, t(c), f(a), f(b)),
            FloatInstruction::ToFloat(a) => bool_to_float(out, t(a)),
            FloatInstruction::PositiveSqrt(a) => positive_sqrt(out, f(a)),
            FloatInstruction::Sum(a) => {
                for (out, row) in out.iter_mut().zip(rows(a)) {
                    *out = fold_slice(row, Sum);
                }
            }
            FloatInstruction::RowDot(a, b) => {
                for (out, (x, y)) in out.iter_mut().zip(rows(a).zip(rows(b))) {
                    *out = sum_of_products(x, y);
                }
            }
            FloatInstruction::Max(a) => {
                for (out, row) in out.iter_mut().zip(rows(a)) {
                    *out = fold_slice(row, Max);
                }
            }
            FloatInstruction::Broadcast(a) => {
                for (row, &x) in out.chunks_exact_mut(span.columns).zip(f(a)) {
                    row.fill(x);
                }
            }
        }
    }
}
