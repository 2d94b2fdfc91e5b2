//! Loops over the leading axis: the body is planned once, and what its steps give is written where it belongs.

use crate::plan::Plan;
use crate::run::fresh;
use clematis_core::op::Scan;
use clematis_core::{Executable, Result, Shape, Spec, Tensor, bail, ensure};
use clematis_native::buffer::{concrete, contiguous, of};
use clematis_native::{Buffer, backend};

/// A loop made ready.
pub struct Loop {
    /// What each step does.
    pub body: Plan,
    /// How many steps.
    pub length: usize,
    consts: usize,
    carries: usize,
    reverse: bool,
    /// What each step gives beside the carries.
    rows: Vec<Spec>,
}

/// One element of a sequence, where it lies.
fn item(x: &Tensor, at: usize) -> Result<Tensor> {
    let sizes = x.shape().sizes();
    let buffer = concrete(x)?;
    let (mut start, mut to) = (vec![0; sizes.len()], sizes.to_vec());
    start[0] = at;
    to[0] = 1;
    let ones = vec![1; sizes.len()];
    let row = buffer.layout().slice(&sizes, &start, &ones, &to);
    let Some(row) = row.reshape(&to, &sizes[1..]) else {
        bail!(Internal, "scan: a step of {} takes a copy", x.spec());
    };
    let spec = x.spec().with_shape(x.shape().without(&[0]));
    Ok(Tensor::concrete(
        spec,
        backend(),
        buffer.with_layout(row).boxed(),
    ))
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

impl Loop {
    /// Plans a loop whose sizes are all known.
    pub fn new(scan: &Scan) -> Result<Self> {
        let Some(length) = scan.length.value() else {
            bail!(Trace, "scan: length {} is not known yet", scan.length);
        };
        let body = Plan::new(&scan.body)?;
        let rows = scan.body.output_specs().split_off(scan.carries);
        Ok(Loop {
            body,
            length: length as usize,
            consts: scan.consts,
            carries: scan.carries,
            reverse: scan.reverse,
            rows,
        })
    }

    /// The last carries, then what the steps gave, one after the other.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let fixed = self.consts + self.carries;
        ensure!(inputs.len() >= fixed, Value, "scan: operands are missing");
        let (consts, rest) = inputs.split_at(self.consts);
        // Read at every step: once in order is soon worth it.
        let consts = consts.iter().map(|x| dense(x));
        let consts = consts.collect::<Result<Vec<Tensor>>>()?;
        let (start, sequences) = rest.split_at(self.carries);
        let mut carry: Vec<Tensor> = start.iter().map(|&x| x.clone()).collect();
        let mut all = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let shape: Shape = row.shape.insert(0, self.length);
            all.push(fresh(&row.with_shape(shape))?);
        }
        let mut given = Vec::with_capacity(inputs.len());
        for step in 0..self.length {
            let at = if self.reverse {
                self.length - 1 - step
            } else {
                step
            };
            given.clear();
            given.extend(consts.iter().cloned());
            given.append(&mut carry);
            for x in sequences {
                given.push(item(x, at)?);
            }
            let mut out = self.body.run(&mut given)?;
            for (row, all) in out.drain(self.carries..).zip(&mut all) {
                write(all, at, &row)?;
            }
            carry = out;
        }
        carry.append(&mut all);
        Ok(carry)
    }
}

/// Puts one step's value among all.
fn write(all: &mut Tensor, at: usize, row: &Tensor) -> Result<()> {
    let from = contiguous("scan", &*of(row)?, row.spec())?;
    let Some(bytes) = all.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
        bail!(Internal, "scan: its memory is shared");
    };
    let size = row.spec().bytes();
    let start = from.layout().offset * row.dtype().size();
    bytes.as_mut_slice::<u8>()[at * size..(at + 1) * size]
        .copy_from_slice(&from.bytes().as_slice::<u8>()[start..start + size]);
    Ok(())
}
