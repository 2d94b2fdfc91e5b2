//! Loops over the leading axis: the body is planned once, and what its steps give is written where it belongs.

use crate::narrow;
use crate::plan::{Plan, prepare};
use crate::rows::{self, Rows};
use crate::run::fresh;
use clematis_core::op::Scan;
use clematis_core::{Error, Executable, Result, Shape, Spec, Tensor, bail, ensure};
use clematis_native::buffer::{concrete, contiguous, of};
use clematis_native::parallel::{self, Column, Columns};
use clematis_native::{Buffer, backend};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A loop made ready.
pub struct Loop {
    /// What each step does.
    pub body: Plan,
    /// How many steps.
    pub length: usize,
    consts: usize,
    carries: usize,
    reverse: bool,
    /// What comes out: carries, then what each step gives beside them.
    outs: Vec<Spec>,
    /// Fixed operands that are packed, and the axis that products sum over.
    packed: Vec<(usize, usize)>,
    /// Blocks of rows, where steps treat rows alike.
    pub rows: Option<Rows>,
}

/// A block of a tensor, where it lies.
pub(crate) fn part(x: &Tensor, start: &[usize], to: &[usize]) -> Result<Tensor> {
    let sizes = x.shape().sizes();
    let buffer = concrete(x)?;
    let ones = vec![1; sizes.len()];
    let layout = buffer.layout().slice(&sizes, start, &ones, to);
    let spec = x.spec().with_shape(Shape::from_sizes(to));
    let data = buffer.with_layout(layout).boxed();
    Ok(Tensor::concrete(spec, backend(), data))
}

/// One element of a sequence, where it lies; some of its rows.
fn item(x: &Tensor, at: usize, rows: Option<(usize, usize)>) -> Result<Tensor> {
    let (mut start, mut to) = (vec![0; x.rank()], x.shape().sizes().to_vec());
    (start[0], to[0]) = (at, 1);
    if let Some((first, count)) = rows {
        (start[1], to[1]) = (first, count);
    }
    let row = part(x, &start, &to)?;
    let buffer = concrete(&row)?;
    let Some(layout) = buffer.layout().reshape(&to, &to[1..]) else {
        bail!(Internal, "scan: a step of {} takes a copy", x.spec());
    };
    let spec = x.spec().with_shape(Shape::from_sizes(&to[1..]));
    let data = buffer.with_layout(layout).boxed();
    Ok(Tensor::concrete(spec, backend(), data))
}

/// Some rows of a tensor, where they lie.
fn block(x: &Tensor, first: usize, count: usize) -> Result<Tensor> {
    let (mut start, mut to) = (vec![0; x.rank()], x.shape().sizes().to_vec());
    (start[0], to[0]) = (first, count);
    part(x, &start, &to)
}

/// The same in row-major order.
fn dense(x: &Tensor) -> Result<Tensor> {
    let buffer = of(x)?;
    if buffer.layout().strides.is_none() {
        return Ok(x.clone());
    }
    let copy = contiguous("scan", &buffer, x.spec())?;
    Ok(Tensor::concrete(x.spec().clone(), backend(), copy.boxed()))
}

/// What goes in, in order.
struct Given<'a> {
    consts: Vec<Tensor>,
    start: &'a [&'a Tensor],
    sequences: &'a [&'a Tensor],
}

impl Loop {
    /// Plans a loop whose sizes are all known.
    pub fn new(scan: &Scan) -> Result<Self> {
        let Some(length) = scan.length.value() else {
            bail!(Trace, "scan: length {} is not known yet", scan.length);
        };
        let mut outs = scan.body.output_specs();
        for spec in &mut outs[scan.carries..] {
            *spec = spec.with_shape(spec.shape.insert(0, length as usize));
        }
        let given = scan.body.inputs.len();
        let (body, more) = prepare(&scan.body)?;
        let rows = rows::split(&body, scan.consts, scan.carries, given);
        let mut body = Plan::of(rows.as_ref().map_or(&body, |r| &r.body), more)?;
        let packed = match &rows {
            Some(_) => body.pack(scan.consts),
            None => Vec::new(),
        };
        Ok(Loop {
            body,
            length: length as usize,
            consts: scan.consts,
            carries: scan.carries,
            reverse: scan.reverse,
            outs,
            packed,
            rows,
        })
    }

    /// The last carries, then what the steps gave, one after the other.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let fixed = self.consts + self.carries;
        ensure!(inputs.len() >= fixed, Value, "scan: operands are missing");
        let (consts, rest) = inputs.split_at(self.consts);
        let (start, sequences) = rest.split_at(self.carries);
        // Read at every step: once in order is soon worth it.
        let consts = consts.iter().enumerate().map(|(i, x)| {
            let packed = self.packed.iter().find(|(at, _)| *at == i);
            packed.map_or_else(|| dense(x), |&(_, axis)| narrow::pack(x, axis))
        });
        let given = Given {
            consts: consts.collect::<Result<_>>()?,
            start,
            sequences,
        };
        // Carries come out whole where all rows go together.
        let apart = match self.rows {
            Some(_) => 0,
            None => self.carries,
        };
        let mut outs = Vec::with_capacity(self.outs.len() - apart);
        for spec in &self.outs[apart..] {
            outs.push(fresh(spec)?);
        }
        let mut parts = Vec::with_capacity(outs.len());
        let blocks = self.rows.as_ref().map_or(1, |rows| rows.blocks);
        for (i, out) in outs.iter_mut().enumerate() {
            let Some(bytes) = out.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                bail!(Internal, "scan: its memory is shared");
            };
            // Carries are written once, all else at each step.
            let times = match i + apart < self.carries {
                true => 1,
                false => self.length.max(1),
            };
            let row = bytes.len() / times;
            parts.push(Columns::new(bytes.as_mut_slice::<u8>(), row, row / blocks));
        }
        let Some(rows) = &self.rows else {
            let mut own: Vec<_> = parts.iter().map(|all| all.take(0)).collect();
            let mut carry = self.steps(&given, None, &mut own, &AtomicBool::new(false))?;
            drop(own);
            drop(parts);
            carry.append(&mut outs);
            return Ok(carry);
        };
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        // Set by the first block that fails, or that sees that the user wants an end: all others end, too.
        let stopped = AtomicBool::new(false);
        parallel::for_tasks(rows.blocks, |task| {
            let run = || {
                let first = (task * rows.rows, rows.rows);
                let mut own: Vec<_> = parts.iter().map(|all| all.take(task)).collect();
                let (carries, rest) = own.split_at_mut(self.carries);
                let last = self.steps(&given, Some((rows, first)), rest, &stopped)?;
                for (own, x) in carries.iter_mut().zip(&last) {
                    write(own, 0, x)?;
                }
                Ok(())
            };
            if let Err(e) = run() {
                // Before the others are told to end: what they end with is no reason.
                let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                failed.get_or_insert(e);
                stopped.store(true, Ordering::Relaxed);
            }
        });
        drop(parts);
        match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(e) => Err(e),
            None => Ok(outs),
        }
    }

    /// All steps, of all rows or of a block of them; gives the last carries.
    fn steps(
        &self,
        given: &Given<'_>,
        rows: Option<(&Rows, (usize, usize))>,
        all: &mut [Column<'_, u8>],
        stopped: &AtomicBool,
    ) -> Result<Vec<Tensor>> {
        let has_rows = |i: usize| rows.and_then(|(r, first)| r.inputs[i].then_some(first));
        let mut carry = Vec::with_capacity(self.carries);
        for (i, &x) in given.start.iter().enumerate() {
            carry.push(match has_rows(self.consts + i) {
                Some((first, count)) => block(x, first, count)?,
                None => x.clone(),
            });
        }
        let fixed = self.consts + self.carries;
        let mut inputs = Vec::with_capacity(fixed + given.sequences.len());
        for step in 0..self.length {
            ensure!(
                !stopped.load(Ordering::Relaxed),
                Internal,
                "scan: another block of rows has failed"
            );
            let at = if self.reverse {
                self.length - 1 - step
            } else {
                step
            };
            inputs.clear();
            inputs.extend(given.consts.iter().cloned());
            inputs.append(&mut carry);
            for (i, x) in given.sequences.iter().enumerate() {
                inputs.push(item(x, at, has_rows(fixed + i))?);
            }
            let mut out = self.body.run(&mut inputs)?;
            for (row, own) in out.drain(self.carries..).zip(&mut *all) {
                write(own, at, &row)?;
            }
            carry = out;
        }
        Ok(carry)
    }
}

/// Puts the value of a step, or its block of rows, where it belongs: in row `at` of what the task owns.
pub(crate) fn write(own: &mut Column<'_, u8>, at: usize, row: &Tensor) -> Result<()> {
    let from = contiguous("scan", &*of(row)?, row.spec())?;
    let size = row.spec().bytes();
    let start = from.layout().offset * row.dtype().size();
    if size == 0 {
        return Ok(());
    }
    ensure!(
        own.width() == size,
        Internal,
        "scan: a step gives {size} bytes where there are {}",
        own.width()
    );
    let bytes = &from.bytes().as_slice::<u8>()[start..start + size];
    own.row(at).copy_from_slice(bytes);
    Ok(())
}
