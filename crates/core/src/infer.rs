//! Shape and dtype inference of every op, the same for every backend.
//!
//! Owns the checks of operands: number, dtypes, shapes, parameters. All operands of an op have the same dtype: the
//! functions in `ops` have promoted them. Symbolic dimensions are propagated; where a rule needs two sizes to be
//! equal, they must be the same expression.

mod control;
mod index;
mod linalg;
mod linear;
mod reduce;
mod shape;
mod window;

pub use window::{dilated, window_output};

use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Composite, Op};
use crate::outs::Outs;
use crate::spec::Spec;
use crate::{bail, ensure};
use rustc_hash::FxHashMap;
use std::sync::Mutex;

/// Infers the specs of the results of an op.
pub fn infer(op: &Op, inputs: &[&Spec]) -> Result<Outs<Spec>> {
    if let Some(arity) = op.arity() {
        ensure!(
            inputs.len() == arity,
            Value,
            "{}: takes {arity} operands, not {}",
            op.name(),
            inputs.len()
        );
    }
    let one = |spec: Result<Spec>| spec.map(Outs::One);
    match op {
        Op::Unary(u) => {
            let x = inputs[0];
            if !u.takes().includes(x.dtype) {
                takes(op.name(), false, u.takes().describe(), x)?;
            }
            Ok(Outs::One(x.with_dtype(u.gives().dtype(x.dtype))))
        }
        Op::Binary(b) => {
            let (x, y) = (inputs[0], inputs[1]);
            if !b.takes().includes(x.dtype) {
                takes(op.name(), false, b.takes().describe(), x)?;
            }
            if b.gives() == crate::op::Gives::Complex {
                ensure!(
                    matches!(x.dtype, DType::F32 | DType::F64),
                    DType,
                    "complex: expected parts of f32 or f64, got {x}"
                );
            }
            pointwise(op, x, y, b.gives().dtype(x.dtype))
        }
        Op::Compare(c) => {
            let (x, y) = (inputs[0], inputs[1]);
            // Booleans are ordered too: false before true.
            let fine = c.takes().includes(x.dtype) || x.dtype == DType::Bool;
            takes(op.name(), fine, c.takes().describe(), x)?;
            pointwise(op, x, y, DType::Bool)
        }
        Op::Select => {
            let (cond, x, y) = (inputs[0], inputs[1], inputs[2]);
            ensure!(
                cond.dtype == DType::Bool,
                DType,
                "select: expected a bool condition, got {cond}"
            );
            same_dtype("select", x, y)?;
            let shape = x.shape.broadcast_with(&y.shape, "select")?;
            one(cond
                .shape
                .broadcast_with(&shape, "select")
                .map(|s| Spec::new(x.dtype, s)))
        }
        Op::Clamp => {
            let (low, x, high) = (inputs[0], inputs[1], inputs[2]);
            takes("clamp", !x.dtype.is_complex(), "real numbers", x)?;
            same_dtype("clamp", low, x)?;
            same_dtype("clamp", x, high)?;
            let shape = low.shape.broadcast_with(&x.shape, "clamp")?;
            one(high
                .shape
                .broadcast_with(&shape, "clamp")
                .map(|s| Spec::new(x.dtype, s)))
        }
        Op::StopGradient => Ok(Outs::One(inputs[0].clone())),
        Op::Cast(dtype) => Ok(Outs::One(inputs[0].with_dtype(*dtype))),
        Op::Bitcast(dtype) => {
            let x = inputs[0];
            ensure!(
                x.dtype.size() == dtype.size(),
                DType,
                "bitcast: {} has {} bytes, {dtype} has {}",
                x.dtype,
                x.dtype.size(),
                dtype.size()
            );
            Ok(Outs::One(x.with_dtype(*dtype)))
        }
        Op::Full(p) => {
            p.shape.check("full")?;
            Ok(Outs::One(Spec::new(p.dtype, p.shape.clone())))
        }
        Op::Iota(p) => one(shape::iota(p)),
        Op::Reshape(to) => one(shape::reshape(inputs[0], to)),
        Op::Transpose(axes) => one(shape::transpose(inputs[0], axes)),
        Op::Broadcast(p) => one(shape::broadcast(inputs[0], p)),
        Op::Slice(p) => one(shape::slice(inputs[0], p)),
        Op::Pad(p) => one(shape::pad(inputs[0], inputs[1], p)),
        Op::Concat(axis) => one(shape::concat(inputs, *axis)),
        Op::Reverse(axes) => {
            legal_axes("reverse", axes, inputs[0].rank())?;
            Ok(Outs::One(inputs[0].clone()))
        }
        Op::DynamicSlice(sizes) => one(index::dynamic_slice(inputs[0], inputs[1], sizes)),
        Op::DynamicUpdate => one(index::dynamic_update(inputs[0], inputs[1], inputs[2])),
        Op::Gather(p) => one(index::gather(inputs[0], inputs[1], p)),
        Op::Scatter(p) => one(index::scatter(
            op.name(),
            inputs[0],
            inputs[1],
            inputs[2],
            p,
        )),
        Op::NonZero(size) => {
            let rank = inputs[0].rank();
            let shape = crate::Shape::from_dims([*size, rank.into()]);
            shape.check("nonzero")?;
            Ok(Outs::One(Spec::new(DType::INDEX, shape)))
        }
        Op::SearchSorted(_) => one(index::searchsorted(inputs[0], inputs[1])),
        Op::Reduce(p) => one(reduce::reduce(op.name(), inputs[0], p)),
        Op::ArgReduce(p) => one(reduce::arg_reduce(op.name(), inputs[0], p.axis)),
        Op::Cumulative(p) => one(reduce::cumulative(op.name(), inputs[0], p)),
        Op::Sort(p) => reduce::sort(inputs, p),
        Op::TopK(k) => reduce::top_k(inputs[0], *k),
        Op::Dot(p) => one(linear::dot(inputs[0], inputs[1], p)),
        Op::Conv(p) => one(linear::conv(inputs[0], inputs[1], p)),
        Op::Window(p) => one(window::reduce(op.name(), inputs[0], p)),
        Op::WindowScatter(p) => one(window::select(op.name(), inputs[0], inputs[1], p, true)),
        Op::WindowGather(p) => {
            let p = crate::op::WindowScatter::from((**p).clone());
            one(window::select(op.name(), inputs[0], inputs[1], &p, false))
        }
        Op::Cholesky(_) => one(linalg::square("cholesky", inputs[0]).map(|_| inputs[0].clone())),
        Op::Qr(p) => linalg::qr(inputs[0], p),
        Op::Svd(p) => linalg::svd(inputs[0], p),
        Op::Eigh(p) => linalg::eigh(inputs[0], p),
        Op::Eig(p) => linalg::eig(inputs[0], p),
        Op::Lu => linalg::lu(inputs[0]),
        Op::TriangularSolve(p) => one(linalg::triangular_solve(inputs[0], inputs[1], p)),
        Op::Fft(p) => one(linalg::fft(op.name(), inputs[0], p)),
        Op::Cond(p) => control::cond(inputs, p),
        Op::While(p) => control::while_(inputs, p),
        Op::Scan(p) => control::scan(inputs, p),
        Op::Collective(p) => bail!(
            Unsupported,
            "{}: group `{}` has no devices in this version",
            op.name(),
            p.group
        ),
        Op::Call(c) => composite(c, inputs),
        Op::Custom(c) => c.0.infer(inputs).map(Outs::Many),
    }
}

fn takes(op: &str, fine: bool, what: &str, x: &Spec) -> Result<()> {
    ensure!(fine, DType, "{op}: takes {what}, not {x}");
    Ok(())
}

fn same_dtype(op: &str, x: &Spec, y: &Spec) -> Result<()> {
    ensure!(
        x.dtype == y.dtype,
        DType,
        "{op}: expected operands of one dtype, got {x} and {y}"
    );
    Ok(())
}

fn pointwise(op: &Op, x: &Spec, y: &Spec, dtype: DType) -> Result<Outs<Spec>> {
    if x.dtype != y.dtype {
        same_dtype(op.name(), x, y)?;
    }
    // Equal shapes are the common case, and a copy is cheaper than comparing axis by axis.
    let shape = if x.shape == y.shape {
        x.shape.clone()
    } else {
        x.shape.broadcast_with(&y.shape, op.name())?
    };
    Ok(Outs::One(Spec::new(dtype, shape)))
}

/// Checks that axes are in range and distinct.
pub(crate) fn legal_axes(op: &str, axes: &[usize], rank: usize) -> Result<()> {
    for (i, &axis) in axes.iter().enumerate() {
        ensure!(
            axis < rank,
            Index,
            "{op}: axis {axis} is out of range for {rank} axes"
        );
        ensure!(
            !axes[..i].contains(&axis),
            Index,
            "{op}: axis {axis} occurs twice in {axes:?}"
        );
    }
    Ok(())
}

fn index_dtype(op: &str, x: &Spec) -> Result<()> {
    ensure!(
        x.dtype.is_int(),
        DType,
        "{op}: expected integer indices, got {x}"
    );
    Ok(())
}

/// Cache of inferred composites.
type Known = FxHashMap<(Composite, Vec<Spec>), Outs<Spec>>;
static KNOWN: Mutex<Option<Known>> = Mutex::new(None);
/// Enough for any model; the cache is cleared when it is full.
const KNOWN_LIMIT: usize = 4096;

/// Infers a composite by tracing its expansion, unless the spec is simply the operand's.
#[allow(clippy::mutable_key_type)] // a body is hashed by its address, which nothing inside can change
fn composite(c: &Composite, inputs: &[&Spec]) -> Result<Outs<Spec>> {
    c.check(inputs.first().copied())?;
    if let (
        Composite::Relu {} | Composite::Sigmoid {} | Composite::Silu {} | Composite::Gelu { .. },
        [x],
    ) = (c, inputs)
    {
        return Ok(Outs::One((*x).clone()));
    }
    if let (Composite::Softmax { axis } | Composite::LogSoftmax { axis }, [x]) = (c, inputs) {
        legal_axes(c.name(), &[*axis], x.rank())?;
        return Ok(Outs::One((*x).clone()));
    }
    let key = (
        c.clone(),
        inputs.iter().map(|s| (*s).clone()).collect::<Vec<_>>(),
    );
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    if let Some(out) = known.get_or_insert_default().get(&key) {
        return Ok(out.clone());
    }
    drop(known);
    let op = Op::from(c.clone());
    let closed = crate::trace::trace(&key.1, |xs| {
        let xs: Vec<&crate::Tensor> = xs.iter().collect();
        Ok(op.expand(&xs)?.into_vec())
    })?;
    let mut specs = closed.graph.output_specs();
    let out = match (specs.len(), specs.pop()) {
        (1, Some(spec)) => Outs::One(spec),
        (_, Some(last)) => {
            specs.push(last);
            Outs::Many(specs)
        }
        (_, None) => Outs::Many(specs),
    };
    let mut known = KNOWN.lock().unwrap_or_else(|e| e.into_inner());
    let known = known.get_or_insert_default();
    if known.len() >= KNOWN_LIMIT {
        known.clear();
    }
    known.insert(key, out.clone());
    Ok(out)
}
