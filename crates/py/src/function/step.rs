//! Optimizer steps over all parameters, and gradient clipping and scaling, for `cm.optim` and `cm.Trainer`.

use crate::error::{OrRaise, exception};
use crate::operand::{LARGE, give, try_operand};
use crate::pytree::{Leaves, Structure, flatten};
use crate::tensor::PyTensor;
use clematis_core::host::Bytes;
use clematis_core::{Host, Kind, Result, Tensor, backend, ops};
use clematis_nn::LossScale;
use clematis_nn::functional::optimizer_rule::{Rule, Step, clip};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;

/// Reads an optimizer by class name and hyperparameters.
fn rule(name: &str, settings: &Bound<'_, PyDict>) -> PyResult<Rule> {
    let find = |what: &str| -> PyResult<Object<'_>> {
        let missing = || exception(Kind::Internal, format!("{name}: `{what}` is missing"));
        settings.get_item(what)?.ok_or_else(missing)
    };
    let number = |what: &str| -> PyResult<f64> {
        let x = find(what)?;
        x.extract().map_err(|_| {
            let shown = x.repr().map(|r| r.to_string()).unwrap_or_default();
            let message = format!("{name}: {what} is a number, not {shown}");
            exception(Kind::Value, message)
        })
    };
    let truth = |what: &str| -> PyResult<bool> { find(what)?.is_truthy() };
    let made = match name {
        "SGD" => Rule::Sgd {
            momentum: number("momentum")?,
            nesterov: truth("nesterov")?,
            weight_decay: number("weight_decay")?,
        },
        "Adam" | "AdamW" => Rule::Adam {
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            epsilon: number("epsilon")?,
            weight_decay: number("weight_decay")?,
            decoupled: name == "AdamW",
        },
        "LARS" => Rule::Lars {
            momentum: number("momentum")?,
            weight_decay: number("decay_lambda")?,
            trust: number("trust")?,
        },
        "LAMB" => Rule::Lamb {
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            epsilon: number("epsilon")?,
            weight_decay: number("decay_lambda")?,
            most: number("max_trust_ratio")?,
        },
        "RMSprop" => Rule::RmsProp {
            alpha: number("alpha")?,
            epsilon: number("epsilon")?,
            momentum: number("momentum")?,
            centered: truth("centered")?,
            weight_decay: number("weight_decay")?,
        },
        "Adagrad" => Rule::Adagrad {
            epsilon: number("epsilon")?,
            weight_decay: number("weight_decay")?,
        },
        "Lion" => Rule::Lion {
            beta1: number("beta1")?,
            beta2: number("beta2")?,
            weight_decay: number("weight_decay")?,
        },
        _ => {
            let message = format!("there is no optimiser `{name}`");
            return Err(exception(Kind::Value, message));
        }
    };
    made.check().or_raise()?;
    Ok(made)
}

/// The names of the optimizer state (moments) of a parameter; checks the hyperparameters.
#[pyfunction]
#[pyo3(signature = (name, settings, /))]
fn _optim_slots(name: &str, settings: &Bound<'_, PyDict>) -> PyResult<Vec<&'static str>> {
    Ok(rule(name, settings)?.slots().to_vec())
}

/// The scalar inputs of an update step, which a compiled step takes at each call.
#[pyfunction]
#[pyo3(signature = (name, settings, lr, count, wide, backend, /))]
fn _optim_numbers<'py>(
    name: &str,
    settings: &Bound<'py, PyDict>,
    lr: f64,
    count: u64,
    wide: bool,
    backend: &str,
) -> PyResult<Object<'py>> {
    let numbers = rule(name, settings)?.numbers(lr, count);
    let made = backend::with(backend::find(backend).or_raise()?, || match wide {
        true => ops::from_slice(&numbers, [numbers.len()]),
        false => ops::from_slice(&numbers.map(|x| x as f32), [numbers.len()]),
    });
    give(settings.py(), made.or_raise()?, false)
}

/// A moment before the first step; concrete also while a step is traced.
#[pyfunction]
#[pyo3(signature = (param, /))]
fn _moment_zeros<'py>(param: &Object<'py>) -> PyResult<Object<'py>> {
    let (x, _) = array(param, "the parameter", "")?;
    let spec = x.spec().with_dtype(x.dtype().accumulator());
    let host = Host::new(spec.clone(), Bytes::zeroed(spec.bytes()).or_raise()?).or_raise()?;
    give(param.py(), ops::from_host(host).or_raise()?, false)
}

/// The inputs of the update of one parameter.
struct Leaf {
    path: String,
    param: Tensor,
    grad: Tensor,
    slots: Vec<Option<Tensor>>,
    group: usize,
    count: u64,
    /// The scalars in place of the step count, where a compiled step takes them at each call.
    numbers: Option<Tensor>,
    raw: bool,
}

fn array(x: &Object<'_>, what: &str, path: &str) -> PyResult<(Tensor, bool)> {
    match try_operand(x)? {
        Some(found) => Ok((found.tensor, found.raw)),
        None => {
            let class = x.get_type();
            let message = format!("step: {what} `{path}` is {}, no array", class.name()?);
            Err(exception(Kind::Structure, message))
        }
    }
}

/// A moment on the device of its parameter: it may have been loaded from a file, or the parameter may have been moved.
fn beside(slot: Tensor, param: &Tensor) -> Result<Tensor> {
    match (slot.backend(), param.backend()) {
        (Some(a), Some(b)) if a.name() != b.name() => {
            let host = slot.to_host()?;
            backend::with(b, || ops::from_host(host))
        }
        _ => Ok(slot),
    }
}

/// Updates many parameters: returns the new parameters and moments. If one update fails, none is applied.
///
/// `groups` are pairs of a learning rate and a dict of hyperparameters. `leaves` are tuples of a path, a parameter, its
/// gradient, a list of moments or None, the index of its group, and the step count, from 1, or a vector of the scalars
/// derived from it.
#[pyfunction]
#[pyo3(signature = (name, groups, leaves, stop, /))]
fn _optim_step<'py>(
    py: Python<'py>,
    name: &str,
    groups: Vec<(f64, Bound<'py, PyDict>)>,
    leaves: &Bound<'py, PyList>,
    stop: bool,
) -> PyResult<(Vec<Object<'py>>, Vec<Bound<'py, PyList>>)> {
    let groups = groups
        .iter()
        .map(|(lr, settings)| Ok((*lr, rule(name, settings)?)))
        .collect::<PyResult<Vec<_>>>()?;
    let mut all = Vec::with_capacity(leaves.len());
    for entry in leaves.iter() {
        let entry = entry.cast_into::<PyTuple>()?;
        let path: String = entry.get_item(0)?.extract()?;
        let (param, raw) = array(&entry.get_item(1)?, "the parameter", &path)?;
        let (grad, _) = array(&entry.get_item(2)?, "the gradient of", &path)?;
        let (group, last): (usize, _) = (entry.get_item(4)?.extract()?, entry.get_item(5)?);
        let (count, numbers) = match last.cast::<PyTensor>() {
            Ok(vector) => (0, Some(PyTensor::of(vector))),
            Err(_) => (last.extract::<u64>()?, None),
        };
        let known = entry.get_item(3)?;
        let (_, rule) = groups
            .get(group)
            .ok_or_else(|| exception(Kind::Internal, "step: a group is missing"))?;
        let slots = if known.is_none() {
            vec![None; rule.slots().len()]
        } else {
            let take = |x: PyResult<Object<'py>>| -> PyResult<Option<Tensor>> {
                let (x, _) = array(&x?, "a moment of", &path)?;
                beside(x, &param).or_raise().map(Some)
            };
            known.try_iter()?.map(take).collect::<PyResult<_>>()?
        };
        all.push(Leaf {
            path,
            param,
            grad,
            slots,
            group,
            count,
            numbers,
            raw,
        });
    }
    let compute = || -> Result<Vec<(Tensor, Vec<Tensor>)>> {
        let each = all.iter().map(|leaf| {
            let (lr, rule) = groups[leaf.group];
            rule.step(Step {
                path: &leaf.path,
                param: &leaf.param,
                grad: &leaf.grad,
                slots: &leaf.slots,
                lr,
                count: leaf.count,
                numbers: leaf.numbers.as_ref(),
                stop,
            })
        });
        each.collect()
    };
    let is_native = |x: &Tensor| x.backend().is_some_and(|b| b.name() == "native");
    let is_large = |x: &Tensor| !x.shape().is_symbolic() && x.shape().count() > LARGE;
    let alone = all.iter().all(|leaf| is_native(&leaf.param));
    let out = if alone && all.iter().any(|leaf| is_large(&leaf.param)) {
        crate::backend::detached(py, compute)
    } else {
        compute()
    };
    let (mut params, mut moments) = (Vec::new(), Vec::new());
    for ((param, slots), leaf) in out.or_raise()?.into_iter().zip(&all) {
        params.push(give(py, param, leaf.raw)?);
        let slots = slots.into_iter().map(|x| give(py, x, false));
        moments.push(PyList::new(py, slots.collect::<PyResult<Vec<_>>>()?)?);
    }
    Ok((params, moments))
}

/// Runs a function on the leaves of a pytree, on their backend.
fn on<R: Send>(
    py: Python<'_>,
    leaves: &Leaves,
    f: impl FnOnce(&[Tensor]) -> Result<R> + Send,
) -> PyResult<R> {
    let backend = leaves.backend();
    let tensors = &leaves.tensors;
    let inside = || match backend {
        Some(backend) => backend::with(backend, || f(tensors)),
        None => f(tensors),
    };
    let is_large = |x: &Tensor| !x.shape().is_symbolic() && x.shape().count() > LARGE;
    if tensors.iter().any(is_large) && backend.is_none_or(|h| h.name() == "native") {
        crate::backend::detached(py, inside).or_raise()
    } else {
        inside().or_raise()
    }
}

fn same_kind<'py>(py: Python<'py>, out: Tensor, structure: &Structure) -> PyResult<Object<'py>> {
    give(py, out, structure.is_raw())
}

/// Global norm of a pytree: the square root of the sum of squares of all leaves.
///
///     >>> cm.tree.global_norm({"w": cm.asarray([3.0, 0.0]), "b": cm.asarray(4.0)})
///     Tensor(5.0, float32, native)
#[pyfunction]
#[pyo3(signature = (tree, /))]
fn global_norm<'py>(tree: &Object<'py>) -> PyResult<Object<'py>> {
    let (leaves, structure) = flatten(tree)?;
    let out = on(tree.py(), &leaves, clip::global_norm)?;
    same_kind(tree.py(), out, &structure)
}

/// Clips a pytree by its global norm: scales all leaves by one factor so that the norm is at most `max_norm`.
///
/// If the norm is infinite or NaN, the leaves are returned unchanged.
///
///     >>> cm.tree.clip_by_global_norm({"w": cm.asarray([3.0, 0.0]), "b": cm.asarray(4.0)}, 1.0)
///     {'w': Tensor([0.6, 0.0], float32, native), 'b': Tensor(0.8, float32, native)}
#[pyfunction]
#[pyo3(signature = (tree, max_norm, /))]
fn clip_by_global_norm<'py>(tree: &Object<'py>, max_norm: f64) -> PyResult<Object<'py>> {
    let (leaves, structure) = flatten(tree)?;
    let clipped = |all: &[Tensor]| clip::clip_by_global_norm(all, max_norm).map(|(out, _)| out);
    let out = on(tree.py(), &leaves, clipped)?;
    structure.build(tree.py(), &out, false)
}

/// Clips every element of a pytree to an interval.
///
///     >>> cm.tree.clip_by_value({"w": cm.asarray([3.0, -7.0])}, -5.0, 1.0)
///     {'w': Tensor([ 1.0, -5.0], float32, native)}
#[pyfunction]
#[pyo3(signature = (tree, low, high, /))]
fn clip_by_value<'py>(tree: &Object<'py>, low: f64, high: f64) -> PyResult<Object<'py>> {
    let (leaves, structure) = flatten(tree)?;
    let out = on(tree.py(), &leaves, |all| {
        clip::clip_by_value(all, low, high)
    })?;
    structure.build(tree.py(), &out, false)
}

/// Tests whether all elements of a pytree are finite.
///
///     >>> cm.tree.all_finite({"w": cm.asarray([1.0, cm.inf])})
///     False
#[pyfunction]
#[pyo3(signature = (tree, /))]
fn all_finite(tree: &Object<'_>) -> PyResult<bool> {
    let (leaves, _) = flatten(tree)?;
    on(tree.py(), &leaves, clip::all_finite)
}

/// Scales every leaf by a number; half precision is promoted to f32.
#[pyfunction]
#[pyo3(signature = (tree, factor, /))]
fn _scaled<'py>(tree: &Object<'py>, factor: f64) -> PyResult<Object<'py>> {
    let (leaves, structure) = flatten(tree)?;
    let out = on(tree.py(), &leaves, |all| clip::scaled(all, factor))?;
    structure.build(tree.py(), &out, false)
}

/// Adds leaves of the same path; half precision is promoted to f32.
#[pyfunction]
#[pyo3(signature = (one, two, /))]
fn _summed<'py>(one: &Object<'py>, two: &Object<'py>) -> PyResult<Object<'py>> {
    let (leaves, structure) = flatten(one)?;
    let (more, _) = flatten(two)?;
    for (i, path) in leaves.paths().iter().enumerate() {
        let other = more.paths().get(i);
        let (x, y) = (&leaves.tensors[i], more.tensors.get(i));
        let told = match (other, y) {
            (Some(other), Some(y)) if other == path && x.shape() == y.shape() => continue,
            (Some(other), Some(y)) => format!("`{other}` {}", y.spec()),
            _ => "nothing".into(),
        };
        let message = format!("Accumulate: gradient `{path}` {} meets {told}", x.spec());
        return Err(exception(Kind::Structure, message));
    }
    if let Some(path) = more.paths().get(leaves.paths().len()) {
        let message = format!("Accumulate: gradient `{path}` was not there before");
        return Err(exception(Kind::Structure, message));
    }
    let out = on(one.py(), &leaves, |all| clip::summed(all, &more.tensors))?;
    structure.build(one.py(), &out, false)
}

/// Dynamic loss scaling: the new loss scale and the number of consecutive finite steps, after a step with finite
/// gradients or not.
#[pyfunction]
#[pyo3(signature = (scale, growth, backoff, every, good, finite, /))]
fn _next_scale(
    scale: f64,
    growth: f64,
    backoff: f64,
    every: u64,
    good: u64,
    finite: bool,
) -> PyResult<(f64, u64)> {
    let now = LossScale {
        scale,
        growth,
        backoff,
        every,
        good,
    };
    now.check().or_raise()?;
    let next = now.next(finite);
    Ok((next.scale, next.good))
}

/// Adds the private functions to the module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(_optim_slots, m)?)?;
    m.add_function(wrap_pyfunction!(_optim_step, m)?)?;
    m.add_function(wrap_pyfunction!(_optim_numbers, m)?)?;
    m.add_function(wrap_pyfunction!(_moment_zeros, m)?)?;
    m.add_function(wrap_pyfunction!(_scaled, m)?)?;
    m.add_function(wrap_pyfunction!(_summed, m)?)?;
    m.add_function(wrap_pyfunction!(_next_scale, m)?)
}

/// Adds the functions of `cm.tree`.
pub fn install_tree(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add_function(wrap_pyfunction!(global_norm, m)?)?;
    m.add_function(wrap_pyfunction!(clip_by_global_norm, m)?)?;
    m.add_function(wrap_pyfunction!(clip_by_value, m)?)?;
    m.add_function(wrap_pyfunction!(all_finite, m)?)
}
