//! Convolutions.

use crate::args::integers;
use crate::error::{OrRaise, exception};
use crate::operand::Call;
use clematis_core::ops::Padding;
use clematis_core::{Axes, Kind};
use clematis_nn::functional::conv::{self as slide, Sliding};
use clematis_nn::functional::words;
use pyo3::prelude::*;
use pyo3::types::{PyInt, PyModule, PyString, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// One count for all spatial axes, or one for each; 1 where it is left out.
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
        let n = positive(x.extract()?)?;
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

/// A word, a number for all sides, or a pair for each spatial axis.
pub fn padding(op: &str, x: &Object<'_>, spatial: usize) -> PyResult<Padding> {
    if let Ok(word) = x.cast::<PyString>() {
        return words::padding_word(op, &word.to_string_lossy()).or_raise();
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
        let n = integers(op, "padding", x).map_err(|_| wrong())?;
        let n = legal(n.first().copied().ok_or_else(wrong)?)?;
        return Ok(Padding::Each(vec![(n, n); spatial]));
    }
    let mut pairs = Vec::with_capacity(spatial);
    for pair in x.try_iter().map_err(|_| wrong())? {
        let pair = pair?;
        // A number alone is no pair, whatever number of axes there are.
        if pair.try_iter().is_err() {
            return Err(wrong());
        }
        match integers(op, "padding", &pair).map_err(|_| wrong())?[..] {
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

/// How many spatial axes the general functions have.
fn spatial_axes(op: &str, dims: i64) -> PyResult<usize> {
    match dims {
        1..=3 => Ok(dims as usize),
        _ => Err(exception(
            Kind::Value,
            format!("{op}: dims is 1, 2 or 3, not {dims}"),
        )),
    }
}

fn group_count(op: &str, n: i64) -> PyResult<usize> {
    match usize::try_from(n) {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(exception(
            Kind::Value,
            format!("{op}: feature_group_count is positive, not {n}"),
        )),
    }
}

/// What the convolutions have in common, as Python gives it.
struct Words<'a, 'py> {
    op: &'static str,
    spatial: usize,
    strides: &'a Object<'py>,
    padding: &'a Object<'py>,
    dilations: Maybe<'a, 'py>,
    x_dilations: Maybe<'a, 'py>,
    filter_format: &'a str,
}

impl Words<'_, '_> {
    fn read(&self, channels_first: bool, groups: usize) -> PyResult<Sliding> {
        let (op, n) = (self.op, self.spatial);
        Ok(Sliding {
            op,
            strides: counts(op, "strides", Some(self.strides), n)?,
            padding: padding(op, self.padding, n)?,
            dilations: counts(op, "dilations", self.dilations, n)?,
            x_dilations: counts(op, "x_dilations", self.x_dilations, n)?,
            groups,
            channels_first,
            filter_channels_first: words::channel_word(op, "filter_format", self.filter_format)
                .or_raise()?,
        })
    }
}

/// The sizes that a transposed convolution is to give.
fn output_sizes(op: &str, x: Maybe<'_, '_>) -> PyResult<Option<Vec<i64>>> {
    x.map(|x| integers(op, "output_shape", x)).transpose()
}

macro_rules! convolutions {
    ($($(#[$doc:meta])* $name:ident $spatial:literal $format:literal $text:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, filters, strides, padding, /, *, data_format=$format, filter_format="channel_last",
                x_dilations=None, dilations=None, bias=None),
            text_signature = $text
        )]
        #[allow(clippy::too_many_arguments)]
        fn $name<'py>(
            x: &Object<'py>,
            filters: &Object<'py>,
            strides: &Object<'py>,
            padding: &Object<'py>,
            data_format: &str,
            filter_format: &str,
            x_dilations: Maybe<'_, 'py>,
            dilations: Maybe<'_, 'py>,
            bias: Maybe<'_, 'py>,
        ) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(x.py(), op);
            let (x, w, b) = (call.take(x)?, call.take(filters)?, call.maybe(bias)?);
            let given = Words { op, spatial: $spatial, strides, padding, dilations, x_dilations, filter_format };
            let p = given.read(words::channels_first(op, data_format, $spatial).or_raise()?, 1)?;
            call.one(|| slide::conv(x, w, b.as_ref(), &p))
        }
    )* };
}
convolutions! {
    /// A convolution over one spatial axis; filters are [width, in, out].
    conv1d 1 "NWC" "(x, filters, strides, padding, /, *, data_format=\"NWC\", filter_format=\"channel_last\", x_dilations=1, dilations=1, bias=None)";
    /// A convolution over two spatial axes; filters are [height, width, in, out].
    conv2d 2 "NHWC" "(x, filters, strides, padding, /, *, data_format=\"NHWC\", filter_format=\"channel_last\", x_dilations=1, dilations=1, bias=None)";
    /// A convolution over three spatial axes; filters are [depth, height, width, in, out].
    conv3d 3 "NDHWC" "(x, filters, strides, padding, /, *, data_format=\"NDHWC\", filter_format=\"channel_last\", x_dilations=1, dilations=1, bias=None)";
}

macro_rules! transposed {
    ($($(#[$doc:meta])* $name:ident $spatial:literal $format:literal $text:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, filters, strides, padding, /, *, output_shape=None, data_format=$format,
                filter_format="channel_last", dilations=None, bias=None),
            text_signature = $text
        )]
        #[allow(clippy::too_many_arguments)]
        fn $name<'py>(
            x: &Object<'py>,
            filters: &Object<'py>,
            strides: &Object<'py>,
            padding: &Object<'py>,
            output_shape: Maybe<'_, 'py>,
            data_format: &str,
            filter_format: &str,
            dilations: Maybe<'_, 'py>,
            bias: Maybe<'_, 'py>,
        ) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(x.py(), op);
            let (x, w, b) = (call.take(x)?, call.take(filters)?, call.maybe(bias)?);
            let given = Words { op, spatial: $spatial, strides, padding, dilations, x_dilations: None, filter_format };
            let p = given.read(words::channels_first(op, data_format, $spatial).or_raise()?, 1)?;
            let sizes = output_sizes(op, output_shape)?;
            call.one(|| slide::conv_transpose(x, w, b.as_ref(), sizes.as_deref(), &p))
        }
    )* };
}
transposed! {
    /// The transpose of a convolution over one spatial axis; filters are [width, in, out].
    conv1d_transpose 1 "NWC" "(x, filters, strides, padding, /, *, output_shape=None, data_format=\"NWC\", filter_format=\"channel_last\", dilations=1, bias=None)";
    /// The transpose of a convolution over two spatial axes; filters are [height, width, in, out].
    conv2d_transpose 2 "NHWC" "(x, filters, strides, padding, /, *, output_shape=None, data_format=\"NHWC\", filter_format=\"channel_last\", dilations=1, bias=None)";
    /// The transpose of a convolution over three spatial axes; filters are [depth, height, width, in, out].
    conv3d_transpose 3 "NDHWC" "(x, filters, strides, padding, /, *, output_shape=None, data_format=\"NDHWC\", filter_format=\"channel_last\", dilations=1, bias=None)";
}

/// A convolution of each channel with a filter of its own; filters are [height, width, channels].
#[pyfunction]
#[pyo3(
    signature = (x, filters, strides, padding, /, *, data_format="NHWC", dilations=None),
    text_signature = "(x, filters, strides, padding, /, *, data_format=\"NHWC\", dilations=1)"
)]
fn depthwise_conv2d<'py>(
    x: &Object<'py>,
    filters: &Object<'py>,
    strides: &Object<'py>,
    padding: &Object<'py>,
    data_format: &str,
    dilations: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "depthwise_conv2d";
    let mut call = Call::new(x.py(), op);
    let (x, w) = (call.take(x)?, call.take(filters)?);
    // Some write a stride for every axis.
    let middle = match strides.extract::<[i64; 4]>() {
        Ok([1, a, b, 1]) => Some(PyTuple::new(strides.py(), [a, b])?.into_any()),
        _ => None,
    };
    let given = Words {
        op,
        spatial: 2,
        strides: middle.as_ref().unwrap_or(strides),
        padding,
        dilations,
        x_dilations: None,
        filter_format: "channel_last",
    };
    let p = given.read(words::channels_first(op, data_format, 2).or_raise()?, 1)?;
    call.one(|| slide::depthwise_conv2d(x, w, &p))
}

/// A convolution over one, two or three spatial axes, in groups, with gaps in input and filter.
#[pyfunction]
#[pyo3(
    signature = (x, filters, strides, padding, /, *, dims=2, data_format="channel_last",
        filter_format="channel_last", feature_group_count=1, x_dilations=None, dilations=None, bias=None),
    text_signature = "(x, filters, strides, padding, /, *, dims=2, data_format=\"channel_last\", filter_format=\"channel_last\", feature_group_count=1, x_dilations=1, dilations=1, bias=None)"
)]
#[allow(clippy::too_many_arguments)]
fn conv_general_dilated<'py>(
    x: &Object<'py>,
    filters: &Object<'py>,
    strides: &Object<'py>,
    padding: &Object<'py>,
    dims: i64,
    data_format: &str,
    filter_format: &str,
    feature_group_count: i64,
    x_dilations: Maybe<'_, 'py>,
    dilations: Maybe<'_, 'py>,
    bias: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "conv_general_dilated";
    let mut call = Call::new(x.py(), op);
    let (x, w, b) = (call.take(x)?, call.take(filters)?, call.maybe(bias)?);
    let given = Words {
        op,
        spatial: spatial_axes(op, dims)?,
        strides,
        padding,
        dilations,
        x_dilations,
        filter_format,
    };
    let first = words::channel_word(op, "data_format", data_format).or_raise()?;
    let p = given.read(first, group_count(op, feature_group_count)?)?;
    call.one(|| slide::conv(x, w, b.as_ref(), &p))
}

/// The transpose of a convolution over one, two or three spatial axes, in groups.
#[pyfunction]
#[pyo3(
    signature = (x, filters, strides, padding, /, *, dims=2, output_shape=None, data_format="channel_last",
        filter_format="channel_last", dilations=None, feature_group_count=1, bias=None),
    text_signature = "(x, filters, strides, padding, /, *, dims=2, output_shape=None, data_format=\"channel_last\", filter_format=\"channel_last\", dilations=1, feature_group_count=1, bias=None)"
)]
#[allow(clippy::too_many_arguments)]
fn conv_general_transpose<'py>(
    x: &Object<'py>,
    filters: &Object<'py>,
    strides: &Object<'py>,
    padding: &Object<'py>,
    dims: i64,
    output_shape: Maybe<'_, 'py>,
    data_format: &str,
    filter_format: &str,
    dilations: Maybe<'_, 'py>,
    feature_group_count: i64,
    bias: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "conv_general_transpose";
    let mut call = Call::new(x.py(), op);
    let (x, w, b) = (call.take(x)?, call.take(filters)?, call.maybe(bias)?);
    let given = Words {
        op,
        spatial: spatial_axes(op, dims)?,
        strides,
        padding,
        dilations,
        x_dilations: None,
        filter_format,
    };
    let first = words::channel_word(op, "data_format", data_format).or_raise()?;
    let p = given.read(first, group_count(op, feature_group_count)?)?;
    let sizes = output_sizes(op, output_shape)?;
    call.one(|| slide::conv_transpose(x, w, b.as_ref(), sizes.as_deref(), &p))
}

/// A convolution over one, two or three spatial axes, or its transpose.
#[pyfunction]
#[pyo3(
    signature = (x, filters, strides, padding, /, *, transpose=false, dims=2, output_shape=None,
        data_format="channel_last", filter_format="channel_last", feature_group_count=1, x_dilations=None,
        dilations=None, bias=None),
    text_signature = "(x, filters, strides, padding, /, *, transpose=False, dims=2, output_shape=None, data_format=\"channel_last\", filter_format=\"channel_last\", feature_group_count=1, x_dilations=1, dilations=1, bias=None)"
)]
#[allow(clippy::too_many_arguments)]
fn conv<'py>(
    x: &Object<'py>,
    filters: &Object<'py>,
    strides: &Object<'py>,
    padding: &Object<'py>,
    transpose: bool,
    dims: i64,
    output_shape: Maybe<'_, 'py>,
    data_format: &str,
    filter_format: &str,
    feature_group_count: i64,
    x_dilations: Maybe<'_, 'py>,
    dilations: Maybe<'_, 'py>,
    bias: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let op = "conv";
    let mut call = Call::new(x.py(), op);
    let (x, w, b) = (call.take(x)?, call.take(filters)?, call.maybe(bias)?);
    let given = Words {
        op,
        spatial: spatial_axes(op, dims)?,
        strides,
        padding,
        dilations,
        x_dilations,
        filter_format,
    };
    let first = words::channel_word(op, "data_format", data_format).or_raise()?;
    let p = given.read(first, group_count(op, feature_group_count)?)?;
    let sizes = output_sizes(op, output_shape)?;
    if let (false, Some(sizes)) = (transpose, &sizes) {
        return Err(exception(
            Kind::Value,
            format!("conv: output_shape {sizes:?} goes with transpose=True"),
        ));
    }
    match transpose {
        true => call.one(|| slide::conv_transpose(x, w, b.as_ref(), sizes.as_deref(), &p)),
        false => call.one(|| slide::conv(x, w, b.as_ref(), &p)),
    }
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        conv1d conv2d conv3d conv1d_transpose conv2d_transpose conv3d_transpose depthwise_conv2d conv_general_dilated
        conv_general_transpose conv);
    Ok(())
}
