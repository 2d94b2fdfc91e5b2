//! The registers of a thread, and what instructions do with them.

use crate::code::{BoolCode, Code, FloatCode};
use crate::down;
use crate::pair::Triple;
use crate::space::Class;
use crate::tile::{Ahead, Feed, Own, Owned, Ready};
use clematis_native::kernel::map::Source;
use clematis_native::kernel::reduce::{Max, Sum, fold_slice, sum_of_products};
use clematis_native::kernel::rows::{bool_to_float, map2_bool, positive_root};
use clematis_native::kernel::select::choose;
use clematis_native::parallel::Column;
use smallvec::SmallVec;
use std::cell::RefCell;

thread_local! {
    pub(crate) static ROOM: RefCell<Room> = const { RefCell::new(Room::new()) };
}

/// Elements by which registers are moved against each other: a tile of floats is as long as a page, and lines at the same place
/// of all pages share a few places in the first cache.
const MOVED: usize = 64;
/// Registers after which the first move comes again.
const MOVES: usize = 16;

/// The floats of a register.
#[derive(Clone, Default)]
struct Register {
    room: Vec<f32>,
    start: usize,
}

impl Register {
    /// Makes room for so many elements.
    fn prepare(&mut self, number: usize, tile: usize) {
        let page = MOVED * MOVES;
        if self.room.len() < tile + page {
            self.room.resize(tile + page, 0.0);
            let place = self.room.as_ptr().addr() / size_of::<f32>();
            self.start = (number % MOVES * MOVED + page - place % page) % page;
        }
    }

    fn floats(&self) -> &[f32] {
        &self.room[self.start..]
    }

    fn floats_mut(&mut self) -> &mut [f32] {
        &mut self.room[self.start..]
    }
}

/// The registers of one thread, which it keeps.
pub(crate) struct Room {
    /// Whose numbers the registers hold.
    pub(crate) owner: Option<(u64, usize)>,
    floats: Vec<Register>,
    truths: Vec<Vec<u8>>,
}

/// What a tile writes of each target.
#[derive(Default)]
struct Out<'a> {
    floats: SmallVec<[&'a mut [f32]; 8]>,
    truths: SmallVec<[&'a mut [u8]; 4]>,
}

/// Which elements a tile covers, for whole values and for rows.
#[derive(Clone, Copy)]
struct Span {
    from: usize,
    len: usize,
    row: usize,
    rows: usize,
    columns: usize,
}

impl Span {
    fn of(&self, class: Class) -> (usize, usize) {
        match class {
            Class::Full => (self.from, self.len),
            Class::Row => (self.row, self.rows),
        }
    }
}

/// Elements that a task owns, by their place in the whole.
fn chunk<'a, T>(own: &'a mut Column<'_, T>, start: usize, count: usize) -> &'a mut [T] {
    let first = own.first();
    own.slice(0, start.saturating_sub(first), count)
}

impl Room {
    const fn new() -> Self {
        Room {
            owner: None,
            floats: Vec::new(),
            truths: Vec::new(),
        }
    }

    pub(crate) fn prepare(&mut self, ready: &Ready<'_>, tile: usize) {
        let [floats, truths] = ready.program.registers;
        let most = |have: usize, want: usize| have.max(want);
        self.floats
            .resize(most(self.floats.len(), floats), Register::default());
        self.truths
            .resize(most(self.truths.len(), truths), Vec::new());
        for (number, register) in self.floats[..floats].iter_mut().enumerate() {
            register.prepare(number, tile);
        }
        for room in &mut self.truths[..truths] {
            room.resize(most(room.len(), tile), 0);
        }
        for (feed, value) in ready.feeds.iter().zip(&ready.program.values) {
            match feed {
                Feed::Floats(Source::Constant(x)) => {
                    self.floats[value.register as usize].floats_mut()[..tile].fill(*x);
                }
                Feed::Truths(Source::Constant(x)) => self.truths[value.register as usize].fill(*x),
                Feed::Repeated(view) => {
                    let register = &mut self.floats[value.register as usize];
                    view.read(0, &mut register.floats_mut()[..tile]);
                }
                _ => {}
            }
        }
    }

    /// One tile of a task, the `piece`-th of its program.
    pub(crate) fn tile(
        &mut self,
        ready: &Ready<'_>,
        own: &mut Owned<'_>,
        piece: usize,
        from: usize,
        len: usize,
    ) {
        let program = ready.program;
        let columns = program.space.columns().max(1);
        let span = Span {
            from,
            len,
            row: from / columns,
            rows: len / columns,
            columns,
        };
        for (feed, value) in ready.feeds.iter().zip(&program.values) {
            let register = value.register as usize;
            let (start, count) = span.of(value.class);
            match feed {
                Feed::Floats(Source::Strided(view)) => {
                    view.read(start, &mut self.floats[register].floats_mut()[..count]);
                }
                Feed::Truths(Source::Strided(view)) => {
                    view.read(start, &mut self.truths[register][..count]);
                }
                Feed::Over(sink) => match &mut own.sinks[*sink] {
                    Own::Floats(own) => self.floats[register].floats_mut()[..count]
                        .copy_from_slice(chunk(own, start, count)),
                    Own::Truths(own) => {
                        self.truths[register][..count].copy_from_slice(chunk(own, start, count))
                    }
                },
                _ => {}
            }
        }
        // What was read from a sink is in registers now, so each sink may be written as soon as its value is there.
        let mut out = Out::default();
        for (target, own) in program.targets.iter().zip(&mut own.sinks) {
            let (start, count) = span.of(program.values[target.value as usize].class);
            match own {
                Own::Floats(own) => out.floats.push(chunk(own, start, count)),
                Own::Truths(own) => out.truths.push(chunk(own, start, count)),
            }
        }
        let first = program.sources.len();
        let ahead = Ahead::of(ready, (from, len));
        for (i, code) in program.codes.iter().enumerate() {
            if let Some(ahead) = &ahead {
                ahead.ask(ready, i);
            }
            self.step(ready, &mut out, code, first + i, span);
        }
        for (down, own) in program.downs.iter().zip(&mut own.downs) {
            let rows = self.floats(ready, &out, down.value, span);
            let done = span.row - piece * down::rows_of_task(&program.space);
            down::add_rows(own.row(0), rows, done);
        }
        // Values that no instruction made go out as they came in.
        for (at, value) in program.copies.iter() {
            match program.values[*value as usize].truth {
                false => {
                    let room = std::mem::take(&mut out.floats[*at]);
                    room.copy_from_slice(self.floats(ready, &out, *value, span));
                    out.floats[*at] = room;
                }
                true => {
                    let room = std::mem::take(&mut out.truths[*at]);
                    room.copy_from_slice(self.truths(ready, &out, *value, span));
                    out.truths[*at] = room;
                }
            }
        }
    }

    fn floats<'a>(
        &'a self,
        ready: &'a Ready<'_>,
        out: &'a Out<'_>,
        at: u16,
        span: Span,
    ) -> &'a [f32] {
        let value = ready.program.values[at as usize];
        let (start, count) = span.of(value.class);
        match (ready.feeds.get(at as usize), value.sink) {
            (Some(Feed::Floats(Source::Dense(all))), _) => &all[start..start + count],
            (None, Some(sink)) => &*out.floats[sink as usize],
            _ => &self.floats[value.register as usize].floats()[..count],
        }
    }

    fn truths<'a>(
        &'a self,
        ready: &'a Ready<'_>,
        out: &'a Out<'_>,
        at: u16,
        span: Span,
    ) -> &'a [u8] {
        let value = ready.program.values[at as usize];
        let (start, count) = span.of(value.class);
        match (ready.feeds.get(at as usize), value.sink) {
            (Some(Feed::Truths(Source::Dense(all))), _) => &all[start..start + count],
            (None, Some(sink)) => &*out.truths[sink as usize],
            _ => &self.truths[value.register as usize][..count],
        }
    }

    fn step(&mut self, ready: &Ready<'_>, outs: &mut Out<'_>, code: &Code, to: usize, span: Span) {
        let value = ready.program.values[to];
        let register = value.register as usize;
        let (_, count) = span.of(value.class);
        // The place of the result is taken out while the operands are looked at.
        match (code, value.sink) {
            (Code::Bool(code), Some(sink)) => {
                let room = std::mem::take(&mut outs.truths[sink as usize]);
                self.truth_code(ready, outs, code, room, span);
                outs.truths[sink as usize] = room;
            }
            (Code::Bool(code), None) => {
                let mut room = std::mem::take(&mut self.truths[register]);
                self.truth_code(ready, outs, code, &mut room[..count], span);
                self.truths[register] = room;
            }
            (Code::Float(code), Some(sink)) => {
                let room = std::mem::take(&mut outs.floats[sink as usize]);
                self.float_code(ready, outs, code, room, span);
                outs.floats[sink as usize] = room;
            }
            (Code::Float(code), None) => {
                let mut room = std::mem::take(&mut self.floats[register]);
                self.float_code(ready, outs, code, &mut room.floats_mut()[..count], span);
                self.floats[register] = room;
            }
        }
    }

    fn truth_code(
        &self,
        ready: &Ready<'_>,
        outs: &Out<'_>,
        code: &BoolCode,
        out: &mut [u8],
        span: Span,
    ) {
        let f = |at| self.floats(ready, outs, at, span);
        let t = |at| self.truths(ready, outs, at, span);
        match *code {
            BoolCode::Unary(row, a) => row(out, f(a)),
            BoolCode::Compare(row, a, b) => row(out, f(a), f(b)),
            BoolCode::Not(a) => map2_bool(out, t(a), t(a), |x, _| x ^ 1),
            BoolCode::And(a, b) => map2_bool(out, t(a), t(b), |x, y| x & y),
            BoolCode::Or(a, b) => map2_bool(out, t(a), t(b), |x, y| x | y),
        }
    }

    fn float_code(
        &self,
        ready: &Ready<'_>,
        outs: &Out<'_>,
        code: &FloatCode,
        out: &mut [f32],
        span: Span,
    ) {
        let f = |at| self.floats(ready, outs, at, span);
        let t = |at| self.truths(ready, outs, at, span);
        let rows = |at| f(at).chunks_exact(span.columns);
        let number = |at| ready.program.is_number(at);
        match *code {
            FloatCode::Unary(row, a) => row(out, f(a)),
            FloatCode::Binary(_, row, a, b) => row(out, f(a), f(b)),
            FloatCode::ByRow(_, _, row, a, b) if number(b) => row(out, f(a), f(b)[0]),
            FloatCode::ByRow(_, _, row, a, b) => {
                for ((out, x), &y) in out.chunks_exact_mut(span.columns).zip(rows(a)).zip(f(b)) {
                    row(out, x, y);
                }
            }
            FloatCode::Pair(Triple::SecondRow(row), a, b, c) if number(b) => {
                row(out, f(a), f(b)[0], f(c));
            }
            FloatCode::Pair(Triple::ThirdRow(row), a, b, c) if number(c) => {
                row(out, f(a), f(b), f(c)[0]);
            }
            FloatCode::Pair(Triple::BothRows(row), a, b, c) if number(b) && number(c) => {
                row(out, f(a), f(b)[0], f(c)[0]);
            }
            FloatCode::Pair(Triple::Full(row), a, b, c) => row(out, f(a), f(b), f(c)),
            FloatCode::Pair(Triple::SecondRow(row), a, b, c) => {
                let operands = rows(a).zip(f(b)).zip(rows(c));
                for (out, ((x, &y), z)) in out.chunks_exact_mut(span.columns).zip(operands) {
                    row(out, x, y, z);
                }
            }
            FloatCode::Pair(Triple::ThirdRow(row), a, b, c) => {
                let operands = rows(a).zip(rows(b)).zip(f(c));
                for (out, ((x, y), &z)) in out.chunks_exact_mut(span.columns).zip(operands) {
                    row(out, x, y, z);
                }
            }
            FloatCode::Pair(Triple::BothRows(row), a, b, c) => {
                let operands = rows(a).zip(f(b)).zip(f(c));
                for (out, ((x, &y), &z)) in out.chunks_exact_mut(span.columns).zip(operands) {
                    row(out, x, y, z);
                }
            }
            FloatCode::Select(c, a, b) => choose(out, t(c), f(a), f(b)),
            FloatCode::ToFloat(a) => bool_to_float(out, t(a)),
            FloatCode::Root(a) => positive_root(out, f(a)),
            FloatCode::Sum(a) => {
                for (out, row) in out.iter_mut().zip(rows(a)) {
                    *out = fold_slice(row, Sum);
                }
            }
            FloatCode::SumOfProducts(a, b) => {
                for (out, (x, y)) in out.iter_mut().zip(rows(a).zip(rows(b))) {
                    *out = sum_of_products(x, y);
                }
            }
            FloatCode::Max(a) => {
                for (out, row) in out.iter_mut().zip(rows(a)) {
                    *out = fold_slice(row, Max);
                }
            }
            FloatCode::Spread(a) => {
                for (row, &x) in out.chunks_exact_mut(span.columns).zip(f(a)) {
                    row.fill(x);
                }
            }
        }
    }
}
