//! A complete backend in 150 lines.
//!
//! It stores f64 numbers in a `Vec`, implements a handful of ops and leaves every composite to its expansion. The
//! core does the rest: shapes, dtypes, errors, derivatives.

use clematis_core::op::{Binary, ReduceKind, Unary};
use clematis_core::ops::{self, Ops};
use clematis_core::tensor::Data;
use clematis_core::{
    Backend, DType, Device, Host, Op, Outs, Repr, Result, Shape, Spec, Support, Tensor, autodiff,
    backend, bail, ensure,
};

/// The backend; it has no state.
struct Tiny;

/// The data of its tensors: all elements in row-major order.
struct Numbers(Vec<f64>);

impl Backend for Tiny {
    fn name(&self) -> &'static str {
        "tiny"
    }

    fn support(&self, op: &Op) -> Support {
        match op {
            Op::Unary(Unary::Neg | Unary::Exp | Unary::Log | Unary::Tanh | Unary::Square)
            | Op::Binary(Binary::Add | Binary::Sub | Binary::Mul | Binary::Div)
            | Op::Full(_)
            | Op::Reshape(_)
            | Op::Broadcast(_) => Support::Runs,
            Op::Reduce(p) if p.kind == ReduceKind::Sum => Support::Runs,
            Op::Call(_) => Support::Expands,
            _ => Support::Missing,
        }
    }

    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
        ensure!(
            out[0].dtype == DType::F64,
            Unsupported,
            "{}: tiny knows f64, not {}",
            op.name(),
            out[0]
        );
        let to = &out[0].shape;
        let values = match op {
            Op::Unary(u) => {
                let f: fn(f64) -> f64 = match u {
                    Unary::Neg => |x| -x,
                    Unary::Exp => f64::exp,
                    Unary::Log => f64::ln,
                    Unary::Tanh => f64::tanh,
                    _ => |x| x * x,
                };
                read(inputs[0])?.into_iter().map(f).collect()
            }
            Op::Binary(b) => {
                let f: fn(f64, f64) -> f64 = match b {
                    Binary::Add => |x, y| x + y,
                    Binary::Sub => |x, y| x - y,
                    Binary::Mul => |x, y| x * y,
                    _ => |x, y| x / y,
                };
                let (x, y) = (spread(inputs[0], to)?, spread(inputs[1], to)?);
                x.into_iter().zip(y).map(|(x, y)| f(x, y)).collect()
            }
            Op::Full(p) => vec![p.value.as_f64(); to.count()],
            Op::Reshape(_) => read(inputs[0])?,
            Op::Broadcast(p) => repeat(&read(inputs[0])?, inputs[0].shape(), to, &p.axes),
            Op::Reduce(p) => {
                let from = inputs[0].shape().sizes();
                let mut sums = vec![0.0; to.count()];
                for (i, x) in read(inputs[0])?.into_iter().enumerate() {
                    let (mut rest, mut at, mut step) = (i, 0, 1);
                    for axis in (0..from.len()).rev() {
                        if !p.axes.contains(&axis) {
                            at += rest % from[axis] * step;
                            step *= from[axis];
                        }
                        rest /= from[axis];
                    }
                    sums[at] += x;
                }
                sums
            }
            other => bail!(Unsupported, "{}: tiny has no such op", other.name()),
        };
        Ok(Outs::One(Data::new(Numbers(values))))
    }

    fn from_host(&self, host: Host, _: Device) -> Result<Data> {
        Ok(Data::new(Numbers(host.to_vec()?)))
    }

    fn to_host(&self, x: &Tensor) -> Result<Host> {
        Host::from_slice(&read(x)?, x.shape())
    }
}

/// The elements of an operand, which may be a number without a backend.
fn read(x: &Tensor) -> Result<Vec<f64>> {
    match (x.repr(), x.data::<Numbers>()) {
        (Repr::Scalar { value, .. }, _) => Ok(vec![value.as_f64()]),
        (_, Some(numbers)) => Ok(numbers.0.clone()),
        _ => bail!(Internal, "tiny: {x:?} is not one of ours"),
    }
}

fn spread(x: &Tensor, to: &Shape) -> Result<Vec<f64>> {
    let axes: Vec<usize> = (to.rank() - x.rank()..to.rank()).collect();
    Ok(repeat(&read(x)?, x.shape(), to, &axes))
}

/// Axis i of `from` is axis `axes[i]` of `to`; axes of size 1 and new axes are repeated.
fn repeat(x: &[f64], from: &Shape, to: &Shape, axes: &[usize]) -> Vec<f64> {
    let (from, sizes) = (from.sizes(), to.sizes());
    let place = |mut i: usize| {
        let mut index = vec![0; sizes.len()];
        for axis in (0..sizes.len()).rev() {
            index[axis] = i % sizes[axis];
            i /= sizes[axis];
        }
        axes.iter().zip(&from).fold(0, |at, (&axis, &n)| {
            at * n + if n == 1 { 0 } else { index[axis] }
        })
    };
    (0..to.count()).map(|i| x[place(i)]).collect()
}

fn main() -> Result<()> {
    let tiny = backend::register(Tiny)?;
    backend::with(tiny, || {
        let x = ops::tensor([[0.5f64, -1.0], [2.0, 0.25]])?;
        let sum = (x.exp() * 2.0).sum(1).done()?;
        println!("2 Σ exp(x) = {:?}", sum.to_vec::<f64>()?);

        // Derivatives are the core's: the sigmoid is expanded into ops that this backend implements.
        let gradient = autodiff::grad(|x: &Tensor| ops::sum(ops::sigmoid(x), ..))(&x)?;
        println!("d Σ sigmoid(x) = {:?}", gradient.to_vec::<f64>()?);
        for (x, got) in x
            .to_vec::<f64>()?
            .into_iter()
            .zip(gradient.to_vec::<f64>()?)
        {
            let s = 1.0 / (1.0 + (-x).exp());
            ensure!(
                (got - s * (1.0 - s)).abs() < 1e-12,
                Internal,
                "{got} is not the gradient at {x}"
            );
        }

        let missing = ops::sin(&x).done();
        println!(
            "and what it lacks is said: {}",
            missing.err().map_or_else(String::new, |e| e.to_string())
        );
        Ok(())
    })
}
