//! Scans (loops over the leading axis): the body is planned once, and each step writes its outputs straight into the
//! stacked results.

use crate::plan::{Plan, Prepared, prepare};
use crate::run::allocate;
use crate::scan_blocks::{self, RowBlocks};
use crate::skinny_gemm;
use clematis_core::op::Scan;
use clematis_core::{Error, Executable, Result, Shape, Spec, Tensor, bail, ensure};
use clematis_native::buffer::{concrete, contiguous, of};
use clematis_native::parallel::{self, Column, Columns};
use clematis_native::{Buffer, backend};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A planned scan.
pub struct PlannedScan {
    /// The plan of one step.
    pub body: Plan,
    /// The number of steps.
    pub length: usize,
    consts: usize,
    carries: usize,
    reverse: bool,
    /// Results: the carries, then the stacked outputs of the steps.
    outs: Vec<Spec>,
    /// Constants that are packed for skinny GEMM, each with its contracted axis.
    packed: Vec<(usize, usize)>,
    /// Row blocks, if the steps treat all rows of the batch independently.
    pub blocks: Option<RowBlocks>,
}

/// A view of a block of a tensor.
pub(crate) fn block_view(x: &Tensor, start: &[usize], to: &[usize]) -> Result<Tensor> {
    let sizes = x.shape().sizes();
    let buffer = concrete(x)?;
    let ones = vec![1; sizes.len()];
    let layout = buffer.layout().slice(&sizes, start, &ones, to);
    let spec = x.spec().with_shape(Shape::from_sizes(to));
    let data = buffer.with_layout(layout).boxed();
    Ok(Tensor::concrete(spec, backend(), data))
}

/// A view of one step of a sequence, or of some of its rows.
fn step_view(x: &Tensor, at: usize, rows: Option<(usize, usize)>) -> Result<Tensor> {
    let (mut start, mut to) = (vec![0; x.rank()], x.shape().sizes().to_vec());
    (start[0], to[0]) = (at, 1);
    if let Some((first, count)) = rows {
        (start[1], to[1]) = (first, count);
    }
    let row = block_view(x, &start, &to)?;
    let buffer = concrete(&row)?;
    let Some(layout) = buffer.layout().reshape(&to, &to[1..]) else {
        bail!(Internal, "scan: a step of {} is not a view", x.spec());
    };
    let spec = x.spec().with_shape(Shape::from_sizes(&to[1..]));
    let data = buffer.with_layout(layout).boxed();
    Ok(Tensor::concrete(spec, backend(), data))
}

/// A view of some rows of a tensor.
fn row_block(x: &Tensor, first: usize, count: usize) -> Result<Tensor> {
    let (mut start, mut to) = (vec![0; x.rank()], x.shape().sizes().to_vec());
    (start[0], to[0]) = (first, count);
    block_view(x, &start, &to)
}

/// The tensor in row-major order, copied if needed.
fn dense(x: &Tensor) -> Result<Tensor> {
    let buffer = of(x)?;
    if buffer.layout().strides.is_none() {
        return Ok(x.clone());
    }
    let copy = contiguous("scan", &buffer, x.spec())?;
    Ok(Tensor::concrete(x.spec().clone(), backend(), copy.boxed()))
}

/// Operands of a scan, in order.
struct ScanOperands<'a> {
    consts: Vec<Tensor>,
    start: &'a [&'a Tensor],
    sequences: &'a [&'a Tensor],
}

impl PlannedScan {
    /// Plans a scan with static shapes.
    pub fn new(scan: &Scan) -> Result<Self> {
        let Some(length) = scan.length.value() else {
            bail!(Trace, "scan: expected a static length, got {}", scan.length);
        };
        let mut outs = scan.body.output_specs();
        for spec in &mut outs[scan.carries..] {
            *spec = spec.with_shape(spec.shape.insert(0, length as usize));
        }
        let inputs = scan.body.inputs.len();
        let Prepared {
            graph: body,
            captured,
            ..
        } = prepare(&scan.body)?;
        let rows = scan_blocks::split(&body, scan.consts, scan.carries, inputs);
        let mut body = Plan::from_prepared(rows.as_ref().map_or(&body, |r| &r.body), captured)?;
        let packed = match &rows {
            Some(_) => body.pack(scan.consts),
            None => Vec::new(),
        };
        Ok(PlannedScan {
            body,
            length: length as usize,
            consts: scan.consts,
            carries: scan.carries,
            reverse: scan.reverse,
            outs,
            packed,
            blocks: rows,
        })
    }

    /// Returns the final carries, then the stacked outputs of the steps.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let fixed = self.consts + self.carries;
        ensure!(
            inputs.len() >= fixed,
            Value,
            "scan: expected at least {fixed} operands, got {}",
            inputs.len()
        );
        let (consts, rest) = inputs.split_at(self.consts);
        let (start, sequences) = rest.split_at(self.carries);
        // Constants are read at every step: one copy to row-major order soon pays.
        let consts = consts.iter().enumerate().map(|(i, x)| {
            let packed = self.packed.iter().find(|(at, _)| *at == i);
            packed.map_or_else(|| dense(x), |&(_, axis)| skinny_gemm::pack(x, axis))
        });
        let operands = ScanOperands {
            consts: consts.collect::<Result<_>>()?,
            start,
            sequences,
        };
        // Without row blocks, carries are returned as whole tensors and need no output buffer.
        let skipped = match self.blocks {
            Some(_) => 0,
            None => self.carries,
        };
        let mut outs = Vec::with_capacity(self.outs.len() - skipped);
        for spec in &self.outs[skipped..] {
            outs.push(allocate(spec)?);
        }
        let mut parts = Vec::with_capacity(outs.len());
        let blocks = self.blocks.as_ref().map_or(1, |rows| rows.blocks);
        for (i, out) in outs.iter_mut().enumerate() {
            let Some(bytes) = out.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                bail!(Internal, "scan: the memory of an output is shared");
            };
            // Carries are written once, all other outputs at each step.
            let writes = match i + skipped < self.carries {
                true => 1,
                false => self.length.max(1),
            };
            let row = bytes.len() / writes;
            parts.push(Columns::new(bytes.as_mut_slice::<u8>(), row, row / blocks));
        }
        let Some(rows) = &self.blocks else {
            let mut own: Vec<_> = parts.iter().map(|all| all.take(0)).collect();
            let mut carry = self.steps(&operands, None, &mut own, &AtomicBool::new(false))?;
            drop(own);
            drop(parts);
            carry.append(&mut outs);
            return Ok(carry);
        };
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        // Set by the first block that fails or is interrupted; all other blocks then stop.
        let cancelled = AtomicBool::new(false);
        parallel::for_tasks(rows.blocks, |task| {
            let run = || {
                let first = (task * rows.rows, rows.rows);
                let mut own: Vec<_> = parts.iter().map(|all| all.take(task)).collect();
                let (carries, rest) = own.split_at_mut(self.carries);
                let last = self.steps(&operands, Some((rows, first)), rest, &cancelled)?;
                for (own, x) in carries.iter_mut().zip(&last) {
                    write_row(own, 0, x)?;
                }
                Ok(())
            };
            if let Err(e) = run() {
                // Store the error before cancelling: errors of cancelled blocks are not the cause.
                let mut failed = failed.lock().unwrap_or_else(|e| e.into_inner());
                failed.get_or_insert(e);
                cancelled.store(true, Ordering::Relaxed);
            }
        });
        drop(parts);
        match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(e) => Err(e),
            None => Ok(outs),
        }
    }

    /// Runs all steps, for all rows or for one block of rows; returns the final carries.
    fn steps(
        &self,
        operands: &ScanOperands<'_>,
        rows: Option<(&RowBlocks, (usize, usize))>,
        all: &mut [Column<'_, u8>],
        cancelled: &AtomicBool,
    ) -> Result<Vec<Tensor>> {
        let has_rows = |i: usize| rows.and_then(|(r, first)| r.inputs[i].then_some(first));
        let mut carry = Vec::with_capacity(self.carries);
        for (i, &x) in operands.start.iter().enumerate() {
            carry.push(match has_rows(self.consts + i) {
                Some((first, count)) => row_block(x, first, count)?,
                None => x.clone(),
            });
        }
        let fixed = self.consts + self.carries;
        let mut inputs = Vec::with_capacity(fixed + operands.sequences.len());
        for step in 0..self.length {
            ensure!(
                !cancelled.load(Ordering::Relaxed),
                Internal,
                "scan: cancelled, because another row block failed"
            );
            let at = if self.reverse {
                self.length - 1 - step
            } else {
                step
            };
            inputs.clear();
            inputs.extend(operands.consts.iter().cloned());
            inputs.append(&mut carry);
            for (i, x) in operands.sequences.iter().enumerate() {
                inputs.push(step_view(x, at, has_rows(fixed + i))?);
            }
            let mut out = self.body.run(&mut inputs)?;
            for (row, own) in out.drain(self.carries..).zip(&mut *all) {
                write_row(own, at, &row)?;
            }
            carry = out;
        }
        Ok(carry)
    }
}

/// Writes the output of a step, or of its block of rows, to row `at` of the task's part of the stacked result.
pub(crate) fn write_row(own: &mut Column<'_, u8>, at: usize, row: &Tensor) -> Result<()> {
    let from = contiguous("scan", &*of(row)?, row.spec())?;
    let size = row.spec().bytes();
    let start = from.layout().offset * row.dtype().size();
    if size == 0 {
        return Ok(());
    }
    ensure!(
        own.width() == size,
        Internal,
        "scan: expected {} bytes per step, got {size}",
        own.width()
    );
    let bytes = &from.bytes().as_slice::<u8>()[start..start + size];
    own.row(at).copy_from_slice(bytes);
    Ok(())
}
