//! Reads the arguments of convolutions from Python.

use crate::args::integers;
use crate::error::{OrRaise, exception, instead};
use crate::operand::Call;
use clematis_core::ops::Padding;
use clematis_core::{Axes, Kind};
use clematis_nn::functional::conv::{self as slide, ConvConfig};
use clematis_nn::functional::data_format;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// One integer for all spatial axes, or one per axis; 1 by default.
pub fn counts(op: &str, what: &str, x: Maybe<'_, '_>, spatial: usize) -> PyResult<Axes> {
    let Some(x) = x else {
        return Ok(std::iter::repeat_n(1, spatial).collect());
    };
    let positive = |n: i64| match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(exception(
            Kind::Value,
            format!("{op}: {what} are positive, not {n}"),
        )),
    };
    if x.cast_exact::<PyInt>().is_ok() {
        let n = positive(integers(op, what, x)?[0])?;
        return Ok(std::iter::repeat_n(n, spatial).collect());
    }
    let list = integers(op, what, x)?;
    match list[..] {
        [n] => {
            let n = positive(n)?;
            Ok(std::iter::repeat_n(n, spatial).collect())
        }
        _ if list.len() == spatial => list.into_iter().map(positive).collect(),
        _ => Err(exception(
            Kind::Value,
            format!(
                "{op}: {what} are one number or {spatial}, not {}: {list:?}",
                list.len()
            ),
        )),
    }
}

/// Padding: a name, a number for all sides, or a pair per spatial axis.
pub fn padding(op: &str, x: &Object<'_>, spatial: usize) -> PyResult<Padding> {
    if let Ok(word) = x.cast::<PyString>() {
        return data_format::padding_word(op, &word.to_string_lossy()).or_raise();
    }
    let wrong = || {
        let shown = x.repr().map(|r| r.to_string()).unwrap_or_default();
        exception(
            Kind::Value,
            format!(
                "{op}: padding is \"SAME\", \"VALID\", a number or {spatial} pairs of numbers, none negative, not {shown}"
            ),
        )
    };
    let legal = |n: i64| if n >= 0 { Ok(n) } else { Err(wrong()) };
    if x.cast::<PyInt>().is_ok() || x.hasattr("__index__")? && x.try_iter().is_err() {
        let n = integers(op, "padding", x).map_err(|e| instead(x.py(), e, wrong))?;
        let n = legal(n.first().copied().ok_or_else(wrong)?)?;
        return Ok(Padding::Each(vec![(n, n); spatial]));
    }
    let mut pairs = Vec::with_capacity(spatial);
    for pair in x.try_iter().map_err(|e| instead(x.py(), e, wrong))? {
        let pair = pair?;
        // A single number is not a pair, whatever the number of axes.
        if pair.try_iter().is_err() {
            return Err(wrong());
        }
        match integers(op, "padding", &pair).map_err(|e| instead(x.py(), e, wrong))?[..] {
            [low, high] => pairs.push((legal(low)?, legal(high)?)),
            _ => return Err(wrong()),
        }
    }
    if let [one] = pairs[..] {
        pairs = vec![one; spatial];
    }
    if pairs.len() != spatial {
        return Err(wrong());
    }
    Ok(Padding::Each(pairs))
}

/// The number of spatial axes of the general functions.
pub fn spatial_axes(op: &str, dims: i64) -> PyResult<usize> {
    match dims {
        1..=3 => Ok(dims as usize),
        _ => Err(exception(
            Kind::Value,
            format!("{op}: dims is 1, 2 or 3, not {dims}"),
        )),
    }
}

/// The number of channel groups.
pub fn group_count(op: &str, n: i64) -> PyResult<usize> {
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(exception(
            Kind::Value,
            format!("{op}: feature_group_count is positive, not {n}"),
        )),
    }
}

/// The arguments that all convolutions share, as Python passes them.
pub struct Words<'a, 'py> {
    /// The name of the function.
    pub op: &'static str,
    /// The number of spatial axes.
    pub spatial: usize,
    /// Stride: one number, or one per axis.
    pub strides: &'a Object<'py>,
    /// Padding: a name, a number or pairs.
    pub padding: &'a Object<'py>,
    /// Dilation of the filter.
    pub dilations: Maybe<'a, 'py>,
    /// Dilation of the input.
    pub x_dilations: Maybe<'a, 'py>,
    /// Position of the channel axes of the filter.
    pub filter_format: &'a str,
}

impl Words<'_, '_> {
    /// Reads all of them.
    pub fn read(&self, channels_first: bool, groups: usize) -> PyResult<ConvConfig> {
        let (op, n) = (self.op, self.spatial);
        Ok(ConvConfig {
            op,
            strides: counts(op, "strides", Some(self.strides), n)?,
            padding: padding(op, self.padding, n)?,
            dilations: counts(op, "dilations", self.dilations, n)?,
            x_dilations: counts(op, "x_dilations", self.x_dilations, n)?,
            groups,
            channels_first,
            filter_channels_first: data_format::channel_word(
                op,
                "filter_format",
                self.filter_format,
            )
            .or_raise()?,
        })
    }
}

/// The output sizes of a transposed convolution.
pub fn output_sizes(op: &str, x: Maybe<'_, '_>) -> PyResult<Option<Vec<i64>>> {
    x.map(|x| integers(op, "output_shape", x)).transpose()
}

/// The operands and options of a convolution over any number of spatial axes.
pub struct General<'a, 'py> {
    /// Strides, padding and dilation.
    pub words: Words<'a, 'py>,
    /// The input.
    pub x: &'a Object<'py>,
    /// The filters.
    pub filters: &'a Object<'py>,
    /// Added to each channel.
    pub bias: Maybe<'a, 'py>,
    /// Position of the channel axis of the input.
    pub data_format: &'a str,
    /// The number of channel groups.
    pub groups: i64,
    /// The output sizes, if it is transposed.
    pub output: Option<Maybe<'a, 'py>>,
}

impl<'py> General<'_, 'py> {
    /// Computes the convolution.
    pub fn run(self) -> PyResult<Object<'py>> {
        let op = self.words.op;
        let mut call = Call::new(self.x.py(), op);
        let (x, w) = (call.take(self.x)?, call.take(self.filters)?);
        let b = call.maybe(self.bias)?;
        let first = data_format::channel_word(op, "data_format", self.data_format).or_raise()?;
        let p = self.words.read(first, group_count(op, self.groups)?)?;
        match self.output {
            None => call.one(|| slide::conv(x, w, b.as_ref(), &p)),
            Some(sizes) => {
                let sizes = output_sizes(op, sizes)?;
                call.one(|| slide::conv_transpose(x, w, b.as_ref(), sizes.as_deref(), &p))
            }
        }
    }
}
