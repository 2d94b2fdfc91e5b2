//! Derivatives of Python functions: grad, value_and_grad, jac, hessian, vjp, jvp, linearize.

mod arguments;
mod custom;
mod mapped;
pub(crate) mod seen;

pub use seen::variable_like;

use arguments::{Which, array_of_numbers, arrays, which};

use crate::error::{OrRaise, exception};
use crate::operand::{number, operand};
use crate::pytree::{Leaves, Structure, called, flatten};
use clematis_core::autodiff::{self, Pullback, Pushforward};
use clematis_core::{Kind, Result, Tensor, backend};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyModule, PyTuple};
use std::cell::RefCell;
use std::ffi::CString;

pub type Object<'py> = Bound<'py, PyAny>;

/// What a differentiated function returns.
#[derive(Clone, Copy, PartialEq)]
enum Wanted {
    Gradient,
    ValueAndGradient,
    Jacobian { reverse: Option<bool> },
    Hessian,
}

/// A derivative of a function, as a Python callable.
#[pyclass(frozen, name = "Derivative", module = "clematis", dict)]
struct Derivative {
    f: Py<PyAny>,
    which: Which,
    aux: bool,
    wanted: Wanted,
}

impl Wanted {
    /// The name of the transform.
    fn name(self) -> &'static str {
        match self {
            Wanted::Gradient => "grad",
            Wanted::ValueAndGradient => "value_and_grad",
            Wanted::Jacobian { .. } => "jac",
            Wanted::Hessian => "hessian",
        }
    }
}

impl Derivative {
    fn op(&self) -> &'static str {
        self.wanted.name()
    }
}

/// Runs on the backend of the leaves.
pub fn on_backend<R>(leaves: &Leaves, f: impl FnOnce() -> R) -> R {
    match leaves.backend() {
        Some(backend) => backend::with(backend, f),
        None => f(),
    }
}

#[pymethods]
impl Derivative {
    #[pyo3(signature = (*args, **kwargs))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        args: &Bound<'py, PyTuple>,
        kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Object<'py>> {
        let (leaves, structure) = flatten(&self.which.pick(self.op(), args)?)?;
        let run = |xs: &Leaves| -> PyResult<Object<'py>> {
            let new = structure.build(py, &xs.tensors, true)?;
            self.f.bind(py).call(self.which.put(args, &new)?, kwargs)
        };
        on_backend(&leaves, || match self.wanted {
            Wanted::Gradient | Wanted::ValueAndGradient => {
                self.gradient(py, &leaves, &structure, run)
            }
            Wanted::Jacobian { reverse } => jacobian(py, &leaves, &structure, reverse, run),
            Wanted::Hessian => hessian_of(py, &leaves, &structure, run),
        })
    }

    #[getter]
    fn __wrapped__(&self, py: Python<'_>) -> Py<PyAny> {
        self.f.clone_ref(py)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "clematis.{}({})",
            self.op(),
            self.f.bind(py).repr()?
        ))
    }

    /// The arguments that rebuild it; it can be pickled if they can.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let (py, own) = (slf.py(), slf.get());
        let make = py.import("clematis._clematis")?.getattr("_derivative")?;
        let argnums = match &own.which {
            Which::One(i) => i.into_pyobject(py)?.into_any(),
            Which::Several(list) => PyTuple::new(py, list)?.into_any(),
        };
        let reverse = match own.wanted {
            Wanted::Jacobian { reverse } => reverse,
            _ => None,
        };
        let how = (own.f.bind(py), argnums, own.op(), own.aux, reverse);
        (make, how, slf.getattr("__dict__")?).into_pyobject(py)
    }
}

/// Rebuilds a derivative from its name; used by pickle.
#[pyfunction]
#[pyo3(signature = (f, argnums, name, has_aux, reverse, /))]
fn _derivative(
    f: &Object<'_>,
    argnums: &Object<'_>,
    name: &str,
    has_aux: bool,
    reverse: Option<bool>,
) -> PyResult<Derivative> {
    let wanted = match name {
        "grad" => Wanted::Gradient,
        "value_and_grad" => Wanted::ValueAndGradient,
        "jac" => Wanted::Jacobian { reverse },
        _ => Wanted::Hessian,
    };
    derivative(f, Some(argnums), has_aux, wanted)
}

fn loss(op: &str, x: &Object<'_>) -> PyResult<Tensor> {
    // Reported because it is silent otherwise: the gradient of such a function is zero.
    if number(x)?.is_some() {
        let text = format!(
            "{op}: the function returned the plain number {x}, so its gradient is zero; float(x) and x.item() take a value out of the derivative"
        );
        let category = x.py().get_type::<pyo3::exceptions::PyRuntimeWarning>();
        PyErr::warn(x.py(), &category, &CString::new(text)?, 1)?;
    }
    Ok(operand(op, x)?.tensor)
}

impl Derivative {
    fn gradient<'py>(
        &self,
        py: Python<'py>,
        leaves: &Leaves,
        structure: &Structure,
        run: impl Fn(&Leaves) -> PyResult<Object<'py>>,
    ) -> PyResult<Object<'py>> {
        let aux_structure = RefCell::new(None);
        let f = |xs: &Leaves| -> Result<(Tensor, Leaves)> {
            called(
                py,
                (|| {
                    let out = run(xs)?;
                    if !self.aux {
                        return Ok((loss(self.op(), &out)?, Leaves::default()));
                    }
                    let (value, aux): (Object<'py>, Object<'py>) = out.extract().map_err(|_| {
                        let op = self.op();
                        exception(
                            Kind::Value,
                            format!(
                                "{op}: with has_aux=True the function returns a pair (value, aux)"
                            ),
                        )
                    })?;
                    let (aux, shape) = flatten(&aux)?;
                    *aux_structure.borrow_mut() = Some(shape);
                    Ok((loss(self.op(), &value)?, aux))
                })(),
            )
        };
        let ((value, aux), gradient) = autodiff::value_and_grad_aux(f)(leaves).or_raise()?;
        let raw = structure.is_raw();
        let gradient = structure.build(py, &gradient.tensors, false)?;
        let value = crate::operand::give(py, value, raw)?;
        let value = match aux_structure.into_inner() {
            Some(shape) => {
                let aux = shape.results(py, &aux.tensors, raw)?;
                if self.wanted == Wanted::Gradient {
                    return Ok(PyTuple::new(py, [gradient, aux])?.into_any());
                }
                PyTuple::new(py, [value, aux])?.into_any()
            }
            None => value,
        };
        Ok(match self.wanted {
            Wanted::Gradient => gradient,
            _ => PyTuple::new(py, [value, gradient])?.into_any(),
        })
    }
}

/// The structure of the results, recorded while a function runs.
pub type Noted = RefCell<Option<Structure>>;

fn noted<'py>(
    py: Python<'py>,
    out: &Noted,
    run: impl Fn(&Leaves) -> PyResult<Object<'py>>,
) -> impl Fn(&Leaves) -> Result<Leaves> {
    move |xs| {
        called(
            py,
            (|| {
                let (leaves, structure) = flatten(&run(xs)?)?;
                *out.borrow_mut() = Some(structure);
                Ok(leaves)
            })(),
        )
    }
}

/// The recorded structure.
pub fn taken(out: Noted) -> PyResult<Structure> {
    out.into_inner()
        .ok_or_else(|| exception(Kind::Internal, "no structure came out"))
}

/// The output pytree outside, the input pytree inside.
fn jacobian<'py>(
    py: Python<'py>,
    leaves: &Leaves,
    structure: &Structure,
    reverse: Option<bool>,
    run: impl Fn(&Leaves) -> PyResult<Object<'py>>,
) -> PyResult<Object<'py>> {
    let shape = RefCell::new(None);
    let mut rows = autodiff::jac_tree(noted(py, &shape, &run), leaves, reverse);
    if reverse.is_none() && is_one_way(&rows) {
        rows = autodiff::jac_tree(noted(py, &shape, &run), leaves, Some(true));
    }
    let rows = rows.or_raise()?;
    let rows = rows
        .iter()
        .map(|row| structure.build(py, row, false))
        .collect::<PyResult<Vec<_>>>()?;
    taken(shape)?.build_from(py, rows)
}

/// Whether a function with a custom reverse-mode rule was called, which has no forward-mode rule.
fn is_one_way<T>(out: &Result<T>) -> bool {
    out.as_ref().is_err_and(|e| e.kind() == Kind::Diff)
}

fn hessian_of<'py>(
    py: Python<'py>,
    leaves: &Leaves,
    structure: &Structure,
    run: impl Fn(&Leaves) -> PyResult<Object<'py>>,
) -> PyResult<Object<'py>> {
    let value = |xs: &Leaves| -> Result<Tensor> {
        called(py, run(xs).and_then(|out| loss("hessian", &out)))
    };
    let mut rows = autodiff::jac_tree(autodiff::grad(&value), leaves, Some(false));
    if is_one_way(&rows) {
        rows = autodiff::jac_tree(autodiff::grad(&value), leaves, Some(true));
    }
    let rows = rows.or_raise()?;
    let rows = rows
        .iter()
        .map(|row| structure.build(py, row, false))
        .collect::<PyResult<Vec<_>>>()?;
    structure.build_from(py, rows)
}

fn derivative(
    f: &Object<'_>,
    argnums: Option<&Object<'_>>,
    aux: bool,
    wanted: Wanted,
) -> PyResult<Derivative> {
    if !f.is_callable() {
        return Err(exception(
            Kind::DType,
            format!(
                "{}: a function was expected, not {}",
                wanted.name(),
                f.get_type().name()?
            ),
        ));
    }
    Ok(Derivative {
        f: f.clone().unbind(),
        which: which(argnums)?,
        aux,
        wanted,
    })
}

/// Gradient of a function with one real result, with respect to one argument (the first) or several.
///
/// Control flow may depend on values (`if x > 0`), but a number that `float(x)` or `x.item()` returns is a constant:
/// nothing is differentiated through it. Arguments that the result does not depend on have zero gradients. A list of
/// numbers is an array.
#[pyfunction]
#[pyo3(signature = (f, /, argnums=None, *, has_aux=false))]
fn grad(f: &Object<'_>, argnums: Option<&Object<'_>>, has_aux: bool) -> PyResult<Derivative> {
    derivative(f, argnums, has_aux, Wanted::Gradient)
}

/// Value and gradient of a function with one real result.
#[pyfunction]
#[pyo3(signature = (f, /, argnums=None, *, has_aux=false))]
fn value_and_grad(
    f: &Object<'_>,
    argnums: Option<&Object<'_>>,
    has_aux: bool,
) -> PyResult<Derivative> {
    derivative(f, argnums, has_aux, Wanted::ValueAndGradient)
}

/// Jacobian: the output pytree outside, the input pytree inside. The mode is `forward`, `reverse` or None.
#[pyfunction]
#[pyo3(signature = (f, /, argnums=None, *, mode=None))]
fn jac(f: &Object<'_>, argnums: Option<&Object<'_>>, mode: Option<&str>) -> PyResult<Derivative> {
    let reverse = match mode {
        None => None,
        Some("reverse") => Some(true),
        Some("forward") => Some(false),
        Some(other) => {
            return Err(exception(
                Kind::Value,
                format!("jac: mode is `forward` or `reverse`, not `{other}`"),
            ));
        }
    };
    derivative(f, argnums, false, Wanted::Jacobian { reverse })
}

/// Hessian: the matrix of second derivatives of a function with one real result.
#[pyfunction]
#[pyo3(signature = (f, /, argnums=None))]
fn hessian(f: &Object<'_>, argnums: Option<&Object<'_>>) -> PyResult<Derivative> {
    derivative(f, argnums, false, Wanted::Hessian)
}

/// VJP function: maps cotangents of the output to cotangents of the inputs.
#[pyclass(frozen, name = "Pullback", module = "clematis")]
struct PyPullback {
    pullback: Pullback<Leaves, Leaves>,
    inputs: Structure,
}

#[pymethods]
impl PyPullback {
    fn __call__<'py>(&self, py: Python<'py>, ct: &Object<'py>) -> PyResult<Object<'py>> {
        let (leaves, _) = flatten(&array_of_numbers(ct.clone())?)?;
        let back = on_backend(&leaves, || self.pullback.call(&leaves)).or_raise()?;
        self.inputs.build(py, &back.tensors, false)
    }
}

/// JVP function: maps tangents of the inputs to tangents of the output.
#[pyclass(frozen, name = "Pushforward", module = "clematis")]
struct PyPushforward {
    push: Pushforward<Leaves, Leaves>,
    outputs: Structure,
    raw: bool,
}

#[pymethods]
impl PyPushforward {
    #[pyo3(signature = (*tangents))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        tangents: &Bound<'py, PyTuple>,
    ) -> PyResult<Object<'py>> {
        let (leaves, _) = flatten(arrays(tangents)?.as_any())?;
        let out = on_backend(&leaves, || self.push.call(&leaves)).or_raise()?;
        self.outputs.results(py, &out.tensors, self.raw)
    }
}

/// Vector-Jacobian product (VJP): the value of f, and the function from cotangents of its output to a tuple of cotangents
/// of its arguments.
#[pyfunction]
#[pyo3(signature = (f, /, *primals))]
fn vjp<'py>(f: &Object<'py>, primals: &Bound<'py, PyTuple>) -> PyResult<(Object<'py>, PyPullback)> {
    let py = f.py();
    let primals = &arrays(primals)?;
    let (leaves, inputs) = flatten(primals.as_any())?;
    let shape = RefCell::new(None);
    let run = |xs: &Leaves| {
        f.call1(
            inputs
                .build(py, &xs.tensors, true)?
                .cast_into::<PyTuple>()?,
        )
    };
    let recorded = on_backend(&leaves, || autodiff::vjp(noted(py, &shape, run), &leaves));
    let (out, pullback) = recorded.or_raise()?;
    let value = taken(shape)?.results(py, &out.tensors, inputs.is_raw())?;
    Ok((value, PyPullback { pullback, inputs }))
}

/// Linearizes f: the value of f, and its JVP at this point as a function of the tangents.
#[pyfunction]
#[pyo3(signature = (f, /, *primals))]
fn linearize<'py>(
    f: &Object<'py>,
    primals: &Bound<'py, PyTuple>,
) -> PyResult<(Object<'py>, PyPushforward)> {
    let py = f.py();
    let primals = &arrays(primals)?;
    let (leaves, inputs) = flatten(primals.as_any())?;
    let shape = RefCell::new(None);
    let run = |xs: &Leaves| {
        f.call1(
            inputs
                .build(py, &xs.tensors, true)?
                .cast_into::<PyTuple>()?,
        )
    };
    let recorded = on_backend(&leaves, || {
        autodiff::linearize(noted(py, &shape, run), &leaves)
    });
    let (out, push) = recorded.or_raise()?;
    let outputs = taken(shape)?;
    let raw = inputs.is_raw();
    let value = outputs.results(py, &out.tensors, raw)?;
    Ok((value, PyPushforward { push, outputs, raw }))
}

/// Jacobian-vector product (JVP): the value of f and the tangent of its output along tangents of the arguments.
#[pyfunction]
#[pyo3(signature = (f, primals, tangents, /))]
fn jvp<'py>(
    f: &Object<'py>,
    primals: &Bound<'py, PyTuple>,
    tangents: &Bound<'py, PyTuple>,
) -> PyResult<(Object<'py>, Object<'py>)> {
    let py = f.py();
    let (value, push) = linearize(f, primals)?;
    let change = push.__call__(py, tangents)?;
    Ok((value, change))
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; grad value_and_grad jac hessian vjp jvp linearize);
    m.add_function(wrap_pyfunction!(crate::method::_method, m)?)?;
    m.add_function(wrap_pyfunction!(_derivative, m)?)?;
    mapped::install(m)?;
    custom::install(m)
}
