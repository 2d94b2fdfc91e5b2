//! The CPU engine: every op in pure Rust, on any processor.
//!
//! Owns kernels, memory, strides and threads. Knows nothing of derivatives, traces or other backends.

pub mod buffer;
pub mod element;
pub mod kernel;
pub mod layout;
pub mod math;
pub mod memory;
pub mod parallel;
pub mod simd;

pub use buffer::Buffer;
pub use memory::{memory_limit, memory_used, set_memory_limit};
pub use parallel::{set_thread_limit, threads};

use clematis_core::backend::LINKED;
use clematis_core::tensor::Data;
use clematis_core::{
    Backend, Composite, Device, Host, Op, Outs, Result, Spec, Support, Tensor, bail,
};

/// The engine.
pub struct Native;

static NATIVE: Native = Native;

#[linkme::distributed_slice(LINKED)]
static LINK: fn() -> &'static dyn Backend = backend;

/// The engine, as tensors know it.
pub fn backend() -> &'static dyn Backend {
    &NATIVE
}

impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn support(&self, op: &Op) -> Support {
        match op {
            Op::Call(c) => composite_support(c),
            Op::Cond(_) | Op::While(_) | Op::Scan(_) | Op::Custom(_) => Support::Expands,
            Op::Collective(_) => Support::Missing,
            _ => Support::Runs,
        }
    }

    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
        execute(op, inputs, out)
    }

    fn from_host(&self, host: Host, device: Device) -> Result<Data> {
        match device {
            Device::Cpu => Ok(Buffer::new(host.bytes().clone()).boxed()),
            Device::Gpu(n) => bail!(Unsupported, "native: runs in main memory, not on gpu {n}"),
        }
    }

    fn to_host(&self, x: &Tensor) -> Result<Host> {
        buffer::of(x)?.to_host(x.spec())
    }
}

fn composite_support(c: &Composite) -> Support {
    match c {
        Composite::Relu {}
        | Composite::Gelu { .. }
        | Composite::Sigmoid {}
        | Composite::Silu {} => Support::Runs,
        _ => Support::Expands,
    }
}

fn execute(op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
    use kernel::{binary, cast, create, reduce, select, shape, unary};
    let one = match (op, inputs) {
        (Op::Unary(u), [x]) => unary::run(*u, x, &out[0])?,
        (Op::Binary(b), [x, y]) => binary::run(*b, x, y, &out[0])?,
        (Op::Compare(c), [x, y]) => binary::compare(*c, x, y, &out[0])?,
        (Op::Select, [c, x, y]) => select::select(c, x, y, &out[0])?,
        (Op::Clamp, [low, x, high]) => select::clamp(low, x, high, &out[0])?,
        (Op::StopGradient, [x]) => buffer::of(x)?.into_owned(),
        (Op::Cast(_), [x]) => cast::cast(x, &out[0])?,
        (Op::Bitcast(_), [x]) => cast::bitcast(x, &out[0])?,
        (Op::Full(p), []) => create::fill("full", p.value, &out[0])?,
        (Op::Iota(p), []) => create::iota(p, &out[0])?,
        (Op::Reshape(to), [x]) => shape::reshape(x, to)?,
        (Op::Transpose(axes), [x]) => shape::transpose(x, axes)?,
        (Op::Broadcast(p), [x]) => shape::broadcast(x, p)?,
        (Op::Slice(p), [x]) => shape::slice(x, p, &out[0])?,
        (Op::Pad(p), [x, v]) => shape::pad(x, v, p, &out[0])?,
        (Op::Concat(axis), all) => shape::concat(all, *axis, &out[0])?,
        (Op::Reverse(axes), [x]) => shape::reverse(x, axes)?,
        (Op::DynamicSlice(_), [x, at]) => shape::dynamic_slice(x, at, &out[0])?,
        (Op::DynamicUpdate, [x, u, at]) => shape::dynamic_update(x, u, at, &out[0])?,
        (Op::NonZero(_), [x]) => shape::nonzero(x, &out[0])?,
        (Op::Reduce(p), [x]) => reduce::run(op.name(), p, x, &out[0])?,
        (Op::Call(c), [x]) => match &**c {
            Composite::Relu {} => unary::relu(op.name(), x, &out[0])?,
            Composite::Sigmoid {} => unary::sigmoid(op.name(), x, &out[0])?,
            Composite::Silu {} => unary::silu(op.name(), x, &out[0])?,
            Composite::Gelu { approximate: false } => unary::gelu(op.name(), x, &out[0])?,
            Composite::Gelu { approximate: true } => unary::gelu_tanh(op.name(), x, &out[0])?,
            _ => bail!(
                Internal,
                "{}: the engine leaves it to its expansion",
                op.name()
            ),
        },
        _ => bail!(Internal, "{}: not in the engine yet", op.name()),
    };
    Ok(Outs::One(one.boxed()))
}
