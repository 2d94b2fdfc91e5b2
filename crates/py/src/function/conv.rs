//! Convolutions.

mod given;

pub use given::{counts, padding};

use crate::error::{OrRaise, exception};
use crate::operand::Call;
use clematis_core::Kind;
use clematis_nn::functional::conv as slide;
use clematis_nn::functional::data_format as formats;
use given::{General, Words, output_sizes, spatial_axes};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

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
            let p = given.read(formats::channels_first(op, data_format, $spatial).or_raise()?, 1)?;
            call.one(|| slide::conv(x, w, b.as_ref(), &p))
        }
    )* };
}
convolutions! {
    /// 1D convolution; filters are [width, in, out].
    conv1d 1 "NWC" "(x, filters, strides, padding, /, *, data_format=\"NWC\", filter_format=\"channel_last\", x_dilations=1, dilations=1, bias=None)";
    /// 2D convolution; filters are [height, width, in, out].
    conv2d 2 "NHWC" "(x, filters, strides, padding, /, *, data_format=\"NHWC\", filter_format=\"channel_last\", x_dilations=1, dilations=1, bias=None)";
    /// 3D convolution; filters are [depth, height, width, in, out].
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
            let p = given.read(formats::channels_first(op, data_format, $spatial).or_raise()?, 1)?;
            let sizes = output_sizes(op, output_shape)?;
            call.one(|| slide::conv_transpose(x, w, b.as_ref(), sizes.as_deref(), &p))
        }
    )* };
}
transposed! {
    /// 1D transposed convolution; filters are [width, in, out].
    conv1d_transpose 1 "NWC" "(x, filters, strides, padding, /, *, output_shape=None, data_format=\"NWC\", filter_format=\"channel_last\", dilations=1, bias=None)";
    /// 2D transposed convolution; filters are [height, width, in, out].
    conv2d_transpose 2 "NHWC" "(x, filters, strides, padding, /, *, output_shape=None, data_format=\"NHWC\", filter_format=\"channel_last\", dilations=1, bias=None)";
    /// 3D transposed convolution; filters are [depth, height, width, in, out].
    conv3d_transpose 3 "NDHWC" "(x, filters, strides, padding, /, *, output_shape=None, data_format=\"NDHWC\", filter_format=\"channel_last\", dilations=1, bias=None)";
}

/// 2D depthwise convolution: one filter per channel; filters are [height, width, channels].
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
    // Some callers pass a stride for every axis, as TensorFlow does.
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
    let p = given.read(formats::channels_first(op, data_format, 2).or_raise()?, 1)?;
    call.one(|| slide::depthwise_conv2d(x, w, &p))
}

/// Convolution over one, two or three spatial axes, with groups, filter dilation and input dilation.
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
    let words = Words {
        op,
        spatial: spatial_axes(op, dims)?,
        strides,
        padding,
        dilations,
        x_dilations,
        filter_format,
    };
    General {
        words,
        x,
        filters,
        bias,
        data_format,
        groups: feature_group_count,
        output: None,
    }
    .run()
}

/// Transposed convolution over one, two or three spatial axes, with groups.
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
    let words = Words {
        op,
        spatial: spatial_axes(op, dims)?,
        strides,
        padding,
        dilations,
        x_dilations: None,
        filter_format,
    };
    General {
        words,
        x,
        filters,
        bias,
        data_format,
        groups: feature_group_count,
        output: Some(output_shape),
    }
    .run()
}

/// Convolution or transposed convolution over one, two or three spatial axes.
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
    if let (false, Some(sizes)) = (transpose, output_shape) {
        return Err(exception(
            Kind::Value,
            format!("conv: output_shape {sizes} goes with transpose=True"),
        ));
    }
    let words = Words {
        op,
        spatial: spatial_axes(op, dims)?,
        strides,
        padding,
        dilations,
        x_dilations,
        filter_format,
    };
    General {
        words,
        x,
        filters,
        bias,
        data_format,
        groups: feature_group_count,
        output: transpose.then_some(output_shape),
    }
    .run()
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        conv1d conv2d conv3d conv1d_transpose conv2d_transpose conv3d_transpose depthwise_conv2d conv_general_dilated
        conv_general_transpose conv);
    Ok(())
}
