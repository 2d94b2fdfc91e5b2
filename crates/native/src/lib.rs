//! The CPU engine: every op in pure Rust, for any CPU.
//!
//! Owns kernels, memory, strides and threads. Knows nothing of derivatives, traces or other backends.

pub mod engine;
mod prefetch;
mod pool;
pub mod parallel;
pub mod simd;
pub mod element;
pub mod layout;
pub mod math;
pub mod memory;
pub mod buffer;
pub mod kernel;
pub(crate) mod call;

pub use buffer::Buffer;
pub use engine::{Native, backend};
pub use memory::{arena, memory_limit, memory_used, set_memory_limit};
pub use parallel::{set_thread_limit, threads};

use clematis_core::backend::{Executable, LINKED};
use clematis_core::tensor::Data;
use clematis_core::{
    Backend, Composite, Device, Graph, Host, Op, Outs, Result, Spec, Support, Tensor, bail,
    interrupt,
};

#[linkme::distributed_slice(LINKED)]
static LINK: fn() -> &'static dyn Backend = backend;

/// Compiles a whole graph; `None` leaves it to op-by-op execution.
pub type Compiler = fn(&Graph) -> Option<Result<Box<dyn Executable>>>;

/// Linked compilers; the first one that accepts a graph compiles it.
#[linkme::distributed_slice]
pub static COMPILERS: [Compiler];

impl Backend for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn about(&self) -> String {
        format!(
            "the built-in CPU engine: {} threads, {} vectors",
            parallel::threads(),
            simd::level().name()
        )
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
        parallel::interruptible(|| execute(op, inputs, out))
    }

    fn compile(&self, graph: &Graph) -> Option<Result<Box<dyn Executable>>> {
        COMPILERS.iter().find_map(|compiler| compiler(graph))
    }

    fn from_host(&self, host: Host, device: Device) -> Result<Data> {
        match device {
            Device::Cpu => Ok(Buffer::new(host.bytes().clone()).boxed()),
            Device::Gpu(n) => bail!(Unsupported, "native: runs in main memory, not on gpu {n}"),
        }
    }

    fn to_host(&self, x: &Tensor) -> Result<Host> {
        parallel::interruptible(|| buffer::of(x)?.to_host(x.spec()))
    }
}

/// Composites with a kernel of their own.
fn composite_support(c: &Composite) -> Support {
    match c {
        Composite::Relu {}
        | Composite::Gelu { .. }
        | Composite::Sigmoid {}
        | Composite::Silu {}
        | Composite::Softmax { .. }
        | Composite::LogSoftmax { .. }
        | Composite::LogSumExp { .. }
        | Composite::LayerNorm { .. }
        | Composite::LayerNormGrad { .. }
        | Composite::RmsNorm { .. }
        | Composite::RandomBits { .. } => Support::Runs,
        _ => Support::Expands,
    }
}

/// Runs an op. Long ops release the caller's interpreter lock, so that its other threads can run.
fn execute(op: &Op, x: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
    match takes_long(op, x, out) {
        true => interrupt::released(|| run(op, x, out)),
        false => run(op, x, out),
    }
}

/// Whether an op counts as long: estimated from the number of elements of its operands and results, by cost class.
fn takes_long(op: &Op, x: &[&Tensor], out: &[Spec]) -> bool {
    let least: usize = match op {
        Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast(_) | Op::Slice(_) | Op::StopGradient => {
            return false;
        }
        Op::Cholesky(_)
        | Op::Qr(_)
        | Op::Svd(_)
        | Op::Eigh(_)
        | Op::Eig(_)
        | Op::Lu
        | Op::TriangularSolve(_) => 1 << 10,
        Op::Dot(_) | Op::Conv(_) => 1 << 12,
        _ => 1 << 15,
    };
    let is_large = |spec: &Spec| !spec.shape.is_symbolic() && spec.shape.count() > least;
    out.iter().any(is_large) || x.iter().any(|x| is_large(x.spec()))
}

/// Dispatches an op to its kernel. `infer` has checked number, dtypes and shapes of the operands.
fn run(op: &Op, x: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
    use call::linalg;
    use kernel::{binary, cast, create, gather, reduce, scan, scatter, select, shape, sort, unary};
    let one = match op {
        Op::Unary(u) => unary::run(*u, x[0], &out[0])?,
        Op::Binary(b) => binary::run(*b, x[0], x[1], &out[0])?,
        Op::Compare(c) => binary::compare(*c, x[0], x[1], &out[0])?,
        Op::Select => select::select(x[0], x[1], x[2], &out[0])?,
        Op::Clamp => select::clamp(x[0], x[1], x[2], &out[0])?,
        Op::StopGradient => buffer::of(x[0])?.into_owned(),
        Op::Cast(_) => cast::cast(x[0], &out[0])?,
        Op::Bitcast(_) => cast::bitcast(x[0], &out[0])?,
        Op::Full(p) => create::fill("full", p.value, &out[0])?,
        Op::Iota(p) => create::iota(p, &out[0])?,
        Op::Reshape(to) => shape::reshape(x[0], to)?,
        Op::Transpose(axes) => shape::transpose(x[0], axes)?,
        Op::Broadcast(p) => shape::broadcast(x[0], p)?,
        Op::Slice(p) => shape::slice(x[0], p, &out[0])?,
        Op::Pad(p) => shape::pad(x[0], x[1], p, &out[0])?,
        Op::Concat(axis) => shape::concat(x, *axis, &out[0])?,
        Op::Reverse(axes) => shape::reverse(x[0], axes)?,
        Op::DynamicSlice(_) => shape::dynamic_slice(x[0], x[1], &out[0])?,
        Op::DynamicUpdate => shape::dynamic_update(x[0], x[1], x[2], &out[0])?,
        Op::Gather(p) => gather::gather(p, x[0], x[1], &out[0])?,
        Op::Scatter(p) => scatter::scatter(op.name(), p, [x[0], x[1], x[2]], &out[0])?,
        Op::NonZero(_) => shape::nonzero(x[0], &out[0])?,
        Op::SearchSorted(right) => sort::search_sorted(x[0], x[1], *right, &out[0])?,
        Op::Reduce(p) => reduce::run(op.name(), p, x[0], &out[0])?,
        Op::ArgReduce(p) => scan::arg_reduce(p, x[0], &out[0])?,
        Op::Cumulative(p) => scan::cumulative(op.name(), p, x[0], &out[0])?,
        Op::Sort(p) => return Ok(many(sort::sort(p, x, out)?)),
        Op::TopK(_) => return Ok(many(sort::top_k(x[0], out)?)),
        Op::Dot(p) => call::dot::run(p, x[0], x[1], &out[0])?,
        Op::Conv(p) => call::conv::run(p, x[0], x[1], &out[0])?,
        Op::Window(p) => call::window::reduce(op.name(), p, x[0], &out[0])?,
        Op::WindowScatter(p) => call::window::scatter(op.name(), p, x[0], x[1], &out[0])?,
        Op::WindowGather(p) => call::window::gather(op.name(), p, x[0], x[1], &out[0])?,
        Op::Cholesky(p) => return Ok(many(linalg::cholesky(p, x[0], out)?)),
        Op::Qr(p) => return Ok(many(linalg::qr(p, x[0], out)?)),
        Op::Svd(p) => return Ok(many(linalg::svd(p, x[0], out)?)),
        Op::Eigh(p) => return Ok(many(linalg::eigh(p, x[0], out)?)),
        Op::Eig(p) => return Ok(many(linalg::eig(p, x[0], out)?)),
        Op::Lu => return Ok(many(linalg::lu(x[0], out)?)),
        Op::TriangularSolve(p) => {
            return Ok(many(linalg::triangular_solve(p, x[0], x[1], out)?));
        }
        Op::Fft(p) => call::fft::run(op.name(), p, x[0], &out[0])?,
        Op::Call(c) => match &**c {
            Composite::LayerNormGrad { axis, epsilon } => {
                return Ok(many(kernel::layer_norm_grad::run(
                    c.name(),
                    x,
                    *axis,
                    epsilon.0,
                    out,
                )?));
            }
            c => composite(c, x, &out[0])?,
        },
        Op::Cond(_) | Op::While(_) | Op::Scan(_) | Op::Collective(_) | Op::Custom(_) => {
            bail!(Internal, "{}: the engine does not run it", op.name())
        }
    };
    Ok(Outs::One(one.boxed()))
}

fn many(buffers: Vec<Buffer>) -> Outs<Data> {
    let mut all: Vec<Data> = buffers.into_iter().map(Buffer::boxed).collect();
    match (all.len(), all.pop()) {
        (1, Some(only)) => Outs::One(only),
        (_, last) => {
            all.extend(last);
            Outs::Many(all)
        }
    }
}

fn composite(c: &Composite, x: &[&Tensor], out: &Spec) -> Result<Buffer> {
    use kernel::norm::{Centre, log_sum_exp, norm, softmax};
    use kernel::{random, unary};
    let op = c.name();
    match c {
        Composite::Relu {} => unary::relu(op, x[0], out),
        Composite::Sigmoid {} => unary::sigmoid(op, x[0], out),
        Composite::Silu {} => unary::silu(op, x[0], out),
        Composite::Gelu { approximate: false } => unary::gelu(op, x[0], out),
        Composite::Gelu { approximate: true } => unary::gelu_tanh(op, x[0], out),
        Composite::Softmax { axis } => softmax(op, x[0], *axis, false, out),
        Composite::LogSoftmax { axis } => softmax(op, x[0], *axis, true, out),
        Composite::LogSumExp { axes } => log_sum_exp(op, x[0], axes, out),
        Composite::LayerNorm { axis, epsilon } => norm(op, x, *axis, epsilon.0, Centre::Mean, out),
        Composite::RmsNorm { axis, epsilon } => norm(op, x, *axis, epsilon.0, Centre::Zero, out),
        Composite::RandomBits { .. } => random::random_bits(x[0], out),
        _ => bail!(Internal, "{op}: the engine leaves it to its expansion"),
    }
}
