//! Automatic differentiation of functions over trees: VJP, JVP, gradients, Jacobians and Hessians.
//!
//! A function is recorded once, with values, one trace level above its inputs. A sweep over the recording then
//! computes cotangents (reverse mode) or tangents (forward mode). Sweeps run ordinary ops, so higher derivatives need
//! no further machinery. The derivative rule of each op is in `rule`.

pub mod rule;

mod composite;
mod control;
mod cotangent;
mod index;
mod linalg;
mod linear;
mod pointwise;
mod reduce;
mod scan;
mod structural;
mod sweep;
mod window;

pub use rule::Rule;
pub use sweep::{Mode, Recorded};

use crate::batch::vmap_along;
use crate::dtype::DType;
use crate::error::{Kind, Result};
use crate::expr::IntoExpr;
use crate::op::{Custom, CustomOp};
use crate::ops::{self};
use crate::shape::Shape;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::tree::{self, Role, Tree};
use crate::{bail, ensure};
use std::marker::PhantomData;
use std::sync::Arc;

/// Which leaves are differentiated: parameters, not state.
fn trained(tree: &impl Tree) -> Vec<bool> {
    tree::entries(tree)
        .iter()
        .map(|(_, role, _)| *role == Role::Param)
        .collect()
}

fn check_inputs(op: &str, x: &impl Tree) -> Result<Vec<Tensor>> {
    let mut leaves = Vec::new();
    for (path, role, leaf) in tree::entries(x) {
        ensure!(
            role != Role::Param || leaf.dtype().is_inexact(),
            DType,
            "{op}: expected floats or complex numbers to differentiate, {} is {}",
            match path.to_string() {
                alone if alone.is_empty() => "the argument".to_string(),
                path => format!("`{path}`"),
            },
            leaf.spec()
        );
        leaves.push(ops::materialize(&leaf)?);
    }
    Ok(leaves)
}

/// Records a function of a tree for sweeps of one mode.
fn record<T: Tree + Clone, O: Tree + Clone>(
    mode: Mode,
    op: &str,
    f: impl FnOnce(&T) -> Result<O>,
    x: &T,
) -> Result<(Recorded, O)> {
    let leaves = check_inputs(op, x)?;
    let mut structure = None;
    let recorded = Recorded::new(mode, &leaves, |xs| {
        let out = f(&tree::with_leaves(x, xs)?)?;
        let leaves = tree::leaves(&out);
        structure = Some(out);
        Ok(leaves)
    })?;
    let Some(structure) = structure else {
        bail!(Internal, "{op}: no structure");
    };
    let out = tree::with_leaves(&structure, recorded.outputs())?;
    Ok((recorded, out))
}

/// Replaces absent cotangents and tangents by zeros.
fn filled(parts: Vec<Option<Tensor>>, like: &[Tensor]) -> Result<Vec<Tensor>> {
    parts
        .into_iter()
        .zip(like)
        .map(|(part, x)| match part {
            Some(part) => Ok(part),
            None => ops::zeros_like(x).done(),
        })
        .collect()
}

/// A linear map from cotangents of the outputs to cotangents of the inputs.
pub struct Pullback<T, O> {
    recorded: Recorded,
    input: T,
    // The tree of cotangents has the output's type.
    output: PhantomData<fn(O)>,
}

impl<T: Tree + Clone, O: Tree + Clone> Pullback<T, O> {
    /// Computes the cotangent of the input. Can be called any number of times.
    pub fn call(&self, ct: &O) -> Result<T> {
        let cts = tree::leaves(ct);
        let specs: Vec<Spec> = self
            .recorded
            .outputs()
            .iter()
            .map(|y| y.spec().clone())
            .collect();
        ensure!(
            cts.len() == specs.len(),
            Value,
            "vjp: got {} cotangents for {} outputs",
            cts.len(),
            specs.len()
        );
        for (ct, spec) in cts.iter().zip(&specs) {
            ensure!(
                ct.shape() == &spec.shape,
                Shape,
                "vjp: got a cotangent of {} for an output of {spec}",
                ct.spec()
            );
        }
        let cts = cts.into_iter().map(Some).collect();
        let back = self.recorded.backward(cts)?;
        tree::with_leaves(&self.input, &filled(back, self.recorded.inputs())?)
    }
}

/// Returns the value of `f` at `x` and its pullback, the map from output cotangents to input cotangents.
pub fn vjp<T: Tree + Clone, O: Tree + Clone>(
    f: impl FnOnce(&T) -> Result<O>,
    x: &T,
) -> Result<(O, Pullback<T, O>)> {
    let (recorded, out) = record(Mode::Reverse, "vjp", f, x)?;
    Ok((
        out,
        Pullback {
            recorded,
            input: x.clone(),
            output: PhantomData,
        },
    ))
}

/// A linear map from tangents of the inputs to tangents of the outputs.
pub struct Pushforward<T, O> {
    recorded: Recorded,
    // The tree of tangents has the input's type.
    input: PhantomData<fn(T)>,
    output: O,
}

impl<T: Tree + Clone, O: Tree + Clone> Pushforward<T, O> {
    /// Computes the tangent of the output. Can be called any number of times.
    pub fn call(&self, dx: &T) -> Result<O> {
        let tangents = tree::leaves(dx);
        let inputs = self.recorded.inputs();
        ensure!(
            tangents.len() == inputs.len(),
            Value,
            "jvp: got {} tangents for {} inputs",
            tangents.len(),
            inputs.len()
        );
        for (d, x) in tangents.iter().zip(inputs) {
            ensure!(
                d.shape() == x.shape(),
                Shape,
                "jvp: got a tangent of {} for an input of {}",
                d.spec(),
                x.spec()
            );
        }
        let tangents = tangents
            .iter()
            .zip(inputs)
            .map(|(d, x)| {
                if x.dtype().is_inexact() {
                    ops::cast(d, x.dtype()).done().map(Some)
                } else {
                    Ok(None)
                }
            })
            .collect::<Result<_>>()?;
        let out = self.recorded.forward(tangents)?;
        tree::with_leaves(&self.output, &filled(out, self.recorded.outputs())?)
    }
}

/// Returns the value of `f` at `x` and its pushforward, the map from input tangents to output tangents.
pub fn linearize<T: Tree + Clone, O: Tree + Clone>(
    f: impl FnOnce(&T) -> Result<O>,
    x: &T,
) -> Result<(O, Pushforward<T, O>)> {
    let (recorded, out) = record(Mode::Forward, "linearize", f, x)?;
    Ok((
        out.clone(),
        Pushforward {
            recorded,
            input: PhantomData,
            output: out,
        },
    ))
}

/// Returns the value of `f` at `x` and its directional derivative along `dx`.
pub fn jvp<T: Tree + Clone, O: Tree + Clone>(
    f: impl FnOnce(&T) -> Result<O>,
    x: &T,
    dx: &T,
) -> Result<(O, O)> {
    let (out, push) = linearize(f, x)?;
    let change = push.call(dx)?;
    Ok((out, change))
}

/// Checks that the loss is one element of a real float dtype.
fn check_loss(op: &str, loss: &Tensor) -> Result<()> {
    ensure!(
        loss.shape().count_dim() == 1usize,
        Shape,
        "{op}: expected a result of one element, got {}; sum it, or use jac",
        loss.spec()
    );
    ensure!(
        loss.dtype().is_float(),
        DType,
        "{op}: expected a real float result, got {}",
        loss.spec()
    );
    Ok(())
}

/// Returns the value and the gradient: `value_and_grad(|w| loss(w))(&w)?`.
pub fn value_and_grad<T: Tree + Clone, R: IntoExpr>(
    f: impl Fn(&T) -> R,
) -> impl Fn(&T) -> Result<(Tensor, T)> {
    move |x| {
        let (value, (), gradient) = value_aux_grad(|x| Ok((f(x).into_expr().done()?, ())), x)?;
        Ok((value, gradient))
    }
}

/// Returns the value, the auxiliary output of the function, and the gradient of the value.
pub fn value_and_grad_aux<T: Tree + Clone, A: Tree + Clone>(
    f: impl Fn(&T) -> Result<(Tensor, A)>,
) -> impl Fn(&T) -> Result<((Tensor, A), T)> {
    move |x| {
        let (value, aux, gradient) = value_aux_grad(&f, x)?;
        Ok(((value, aux), gradient))
    }
}

fn value_aux_grad<T: Tree + Clone, A: Tree + Clone>(
    f: impl FnOnce(&T) -> Result<(Tensor, A)>,
    x: &T,
) -> Result<(Tensor, A, T)> {
    let (recorded, (value, aux)) = record(Mode::Reverse, "grad", f, x)?;
    check_loss("grad", &value)?;
    let mut cts = vec![None; recorded.outputs().len()];
    cts[0] = Some(ops::ones_like(&value).done()?);
    let mut parts = recorded.backward(cts)?;
    // State is not a parameter: its gradient is zero, whatever reaches it.
    for (part, trained) in parts.iter_mut().zip(trained(x)) {
        if !trained {
            *part = None;
        }
    }
    let gradient = tree::with_leaves(x, &filled(parts, recorded.inputs())?)?;
    Ok((value, aux, gradient))
}

/// Returns the gradient: `grad(|w| loss(w))(&w)?`.
pub fn grad<T: Tree + Clone, R: IntoExpr>(f: impl Fn(&T) -> R) -> impl Fn(&T) -> Result<T> {
    let both = value_and_grad(f);
    move |x| Ok(both(x)?.1)
}

/// One-hot tensors like `x`, stacked along a new first axis, for `count` elements from `first` on.
fn directions(x: &Tensor, first: usize, count: usize) -> Result<Tensor> {
    let n = x.shape().known_count("jac")?;
    let table = Shape::from_sizes(&[count, n]);
    let rows = ops::create::iota_like(x, &table, 0, DType::I64).done()?;
    let columns = ops::create::iota_like(x, &table, 1, DType::I64).done()?;
    let here = ops::cast(ops::equal(rows + first as i64, columns), x.dtype());
    ops::reshape(here, x.shape().insert(0, count)).done()
}

/// Maximum number of one-hot directions per sweep. More would only use more memory.
const MAX_DIRECTIONS: usize = 256;

/// Sweeps all one-hot directions of one leaf: for each leaf on the other side, the results stacked along a new first
/// axis.
fn sweep_directions(
    x: &Tensor,
    across: &[Tensor],
    sweep: impl Fn(Tensor) -> Result<Vec<Option<Tensor>>>,
) -> Result<Vec<Vec<Tensor>>> {
    let n = x.shape().known_count("jac")?;
    let mut columns = vec![Vec::new(); across.len()];
    let mut first = 0;
    while first < n {
        let count = MAX_DIRECTIONS.min(n - first);
        let all = directions(x, first, count)?;
        let one = |seed: &Tensor| filled(sweep(seed.clone())?, across);
        let parts = match vmap_along(one, &all, &[Some(0)], 0) {
            // A custom rule that reads values does not support batches: it gets one direction at a time.
            Err(e) if matches!(e.kind(), Kind::Trace | Kind::Unsupported) => {
                let each = (0..count).map(|i| {
                    let seed = ops::squeeze(ops::slice_axis(&all, 0, i, i + 1), 0).done()?;
                    one(&seed)
                });
                let rows = each.collect::<Result<Vec<_>>>()?;
                let column = |j: usize| {
                    let parts: Vec<&Tensor> = rows.iter().map(|row| &row[j]).collect();
                    ops::stack(&parts, 0).done()
                };
                (0..across.len()).map(column).collect::<Result<Vec<_>>>()?
            }
            parts => parts?,
        };
        for (column, part) in columns.iter_mut().zip(parts) {
            column.push(part);
        }
        first += count;
    }
    Ok(columns)
}

/// The Jacobian by reverse mode: `[output axes…, input axes…]`.
pub fn jac_reverse<R: IntoExpr>(f: impl Fn(&Tensor) -> R) -> impl Fn(&Tensor) -> Result<Tensor> {
    move |x| jac_by(&f, x, Some(true))
}

/// The Jacobian by forward mode: `[output axes…, input axes…]`.
pub fn jac_forward<R: IntoExpr>(f: impl Fn(&Tensor) -> R) -> impl Fn(&Tensor) -> Result<Tensor> {
    move |x| jac_by(&f, x, Some(false))
}

/// The Jacobian, by whichever mode needs fewer sweeps.
pub fn jac<R: IntoExpr>(f: impl Fn(&Tensor) -> R) -> impl Fn(&Tensor) -> Result<Tensor> {
    move |x| jac_by(&f, x, None)
}

fn jac_by<R: IntoExpr>(
    f: impl Fn(&Tensor) -> R,
    x: &Tensor,
    reverse: Option<bool>,
) -> Result<Tensor> {
    let rows = jac_tree(|x: &Tensor| f(x).into_expr().done(), x, reverse)?;
    match rows.into_iter().flatten().next() {
        Some(matrix) => Ok(matrix),
        None => bail!(Internal, "jac: no output"),
    }
}

/// For each output leaf, the Jacobian with respect to each input leaf: `[output axes…, input axes…]`.
///
/// Uses reverse mode, forward mode, or whichever needs fewer sweeps; the function is recorded once.
pub fn jac_tree<T: Tree + Clone, O: Tree + Clone>(
    f: impl FnOnce(&T) -> Result<O>,
    x: &T,
    reverse: Option<bool>,
) -> Result<Vec<Vec<Tensor>>> {
    let mode = match reverse {
        Some(false) => Mode::Forward,
        Some(true) | None => Mode::Reverse,
    };
    let (recorded, _) = record(mode, "jac", f, x)?;
    let (inputs, outputs) = (recorded.inputs(), recorded.outputs());
    for y in outputs {
        ensure!(
            y.dtype().is_inexact(),
            DType,
            "jac: expected floats or complex numbers as result, got {}",
            y.spec()
        );
    }
    let count = |all: &[Tensor]| -> Result<usize> {
        all.iter().map(|t| t.shape().known_count("jac")).sum()
    };
    let reverse = match reverse {
        Some(reverse) => reverse,
        None => count(outputs)? < count(inputs)?,
    };
    // All elements of this side are swept together; each sweep gives a matrix for every leaf of the other side.
    let (sides, across) = if reverse {
        (outputs, inputs)
    } else {
        (inputs, outputs)
    };
    let mut slices: Vec<Vec<Vec<Tensor>>> = Vec::with_capacity(sides.len());
    for (i, leaf) in sides.iter().enumerate() {
        slices.push(sweep_directions(leaf, across, |direction| {
            let mut seeds = vec![None; sides.len()];
            seeds[i] = Some(direction);
            if reverse {
                recorded.backward(seeds)
            } else {
                recorded.forward(seeds)
            }
        })?);
    }
    let matrix = |i: usize, j: usize| -> Result<Tensor> {
        let (y, x) = (&outputs[i], &inputs[j]);
        let shape = y.shape().join(x.shape());
        let rows = if reverse {
            &slices[i][j]
        } else {
            &slices[j][i]
        };
        if rows.is_empty() {
            let empty = || ops::zeros(&shape, x.dtype()).done();
            return match y.backend() {
                Some(backend) => crate::backend::with(backend, empty),
                None => empty(),
            };
        }
        let rows = ops::concat(rows, 0).done()?;
        let rows = if reverse {
            rows
        } else {
            ops::move_axis(&rows, 0, -1).done()?
        };
        ops::reshape(&rows, &shape).done()
    };
    (0..outputs.len())
        .map(|i| (0..inputs.len()).map(|j| matrix(i, j)).collect())
        .collect()
}

/// The Hessian: `[input axes…, input axes…]`.
pub fn hessian<R: IntoExpr>(f: impl Fn(&Tensor) -> R) -> impl Fn(&Tensor) -> Result<Tensor> {
    jac_forward(grad(f))
}

/// Wraps a function with a custom VJP.
///
/// `forward` computes the outputs; `backward(inputs, outputs, cotangents)` returns one cotangent per input, or `None`
/// for zero.
pub fn custom_vjp<F, B>(
    name: &str,
    forward: F,
    backward: B,
) -> impl Fn(&[&Tensor]) -> Result<Vec<Tensor>>
where
    F: Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync + 'static,
    B: Fn(&[&Tensor], &[&Tensor], &[Tensor]) -> Result<Vec<Option<Tensor>>> + Send + Sync + 'static,
{
    struct WithRule<F, B> {
        name: String,
        forward: F,
        backward: B,
    }
    impl<F, B> CustomOp for WithRule<F, B>
    where
        F: Fn(&[&Tensor]) -> Result<Vec<Tensor>> + Send + Sync,
        B: Fn(&[&Tensor], &[&Tensor], &[Tensor]) -> Result<Vec<Option<Tensor>>> + Send + Sync,
    {
        fn name(&self) -> &str {
            &self.name
        }
        fn infer(&self, inputs: &[&Spec]) -> Result<Vec<Spec>> {
            let specs: Vec<Spec> = inputs.iter().map(|&s| s.clone()).collect();
            let closed =
                crate::trace::trace(&specs, |xs| (self.forward)(&xs.iter().collect::<Vec<_>>()))?;
            Ok(closed.graph.output_specs())
        }
        fn expand(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
            (self.forward)(inputs)
        }
        fn vjp(
            &self,
            inputs: &[&Tensor],
            outputs: &[&Tensor],
            cts: &[Tensor],
        ) -> Option<Result<Vec<Option<Tensor>>>> {
            Some((self.backward)(inputs, outputs, cts))
        }
        fn has_vjp(&self) -> bool {
            true
        }
    }
    let op = Custom(Arc::new(WithRule {
        name: name.to_string(),
        forward,
        backward,
    }));
    move |inputs| Ok(crate::dispatch::apply(&crate::op::Op::Custom(op.clone()), inputs)?.into_vec())
}
