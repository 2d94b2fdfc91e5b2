//! Arguments of random functions: distribution parameters, shape, dtype.

use super::{drawn, source};
use crate::args;
use crate::dtype;
use crate::error::OrRaise;
use crate::operand::Call;
use clematis_core::expr::Expr;
use clematis_core::random::Key;
use clematis_core::{DType, Shape, Tensor};
use clematis_nn::functional::random;
use pyo3::prelude::*;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// An optional shape.
pub fn maybe_shape(op: &str, x: Maybe<'_, '_>) -> PyResult<Option<Shape>> {
    x.map(|x| args::new_shape(op, x)).transpose()
}

/// The arguments of a distribution with two parameters, which are numbers or arrays of one shape.
pub struct Opened<'py> {
    op: &'static str,
    call: Call<'py>,
    /// The first parameter.
    pub first: Tensor,
    /// The second.
    pub second: Tensor,
    shape: Shape,
    /// The dtype of the result.
    pub dtype: DType,
    /// The float dtype to draw in.
    wide: DType,
}

impl<'py> Opened<'py> {
    /// Reads two parameters by name and default, then shape, device and dtype.
    pub fn new(
        py: Python<'py>,
        op: &'static str,
        parameters: [(&str, Maybe<'_, 'py>, f64); 2],
        [shape, device, dtype]: [Maybe<'_, 'py>; 3],
    ) -> PyResult<Self> {
        let mut call = Call::new(py, op);
        let [first, second] = parameters.map(|(_, x, other)| {
            let given = call.maybe(x)?;
            PyResult::Ok(given.unwrap_or_else(|| Tensor::number(other)))
        });
        let (first, second) = (first?, second?);
        args::device(op, device)?;
        let shape = maybe_shape(op, shape)?;
        let names = parameters.map(|(name, ..)| name);
        let shape = random::shape_of(op, names, &first, &second, shape).or_raise()?;
        let dtype = random::float_dtype(&[&first, &second], dtype::maybe(dtype)?);
        let wide = random::draw_dtype(op, dtype).or_raise()?;
        Ok(Opened {
            op,
            call,
            first,
            second,
            shape,
            dtype,
            wide,
        })
    }

    /// Draws standard samples, then shifts and scales them: on the device of the draw if the parameters are numbers, else
    /// where the parameters live, so that gradients reach them.
    pub fn moved(
        self,
        py: Python<'py>,
        key: Maybe<'_, 'py>,
        seed: Maybe<'_, 'py>,
        standard: fn(&Key, &Shape, DType) -> Expr,
        moved: fn(&Tensor, &Tensor, &Tensor, DType) -> Expr,
    ) -> PyResult<Object<'py>> {
        let key = source(self.op, key, seed)?;
        let (a, b, dtype) = (self.first, self.second, self.dtype);
        let whole = a.as_number().is_some() && b.as_number().is_some();
        let out = drawn(py, &self.call, &key, &self.shape, &[], |key, _| {
            let drawn = standard(key, &self.shape, self.wide);
            match whole {
                true => drawn.then(|x| moved(&x, &a, &b, dtype)),
                false => drawn,
            }
        })?;
        match whole {
            true => self.call.give(out),
            false => self.call.one(|| moved(&out, &a, &b, dtype)),
        }
    }
}

/// A draw with parameters that may be arrays and broadcast to the shape.
///
/// The key is read last, after all checks.
pub fn by_parameters<'py>(
    py: Python<'py>,
    op: &'static str,
    key: impl FnOnce() -> PyResult<Key>,
    parameters: &[&Object<'py>],
    asked: (Maybe<'_, 'py>, Maybe<'_, 'py>),
    f: impl FnOnce(&Key, &Shape, &[Tensor], DType) -> Expr + Send,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(py, op);
    let found = parameters.iter().map(|x| call.take(x));
    let found = found.collect::<PyResult<Vec<_>>>()?;
    let found: Vec<&Tensor> = found.iter().collect();
    let shape = random::broadcast_shape(op, &found, maybe_shape(op, asked.0)?).or_raise()?;
    let dtype = random::float_dtype(&found, dtype::maybe(asked.1)?);
    let out = drawn(py, &call, &key()?, &shape, &found, |key, p| {
        f(key, &shape, p, dtype)
    })?;
    call.give(out)
}
