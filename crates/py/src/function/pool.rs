//! Pooling.

use crate::args::integers;
use crate::error::{OrRaise, exception};
use crate::function::conv::{counts, padding as read_padding};
use crate::operand::Call;
use clematis_core::Kind;
use clematis_nn::functional::adaptive::{self, Pool};
use clematis_nn::functional::data_format;
use clematis_nn::functional::norm::channels_second;
use clematis_nn::functional::pool::{self, Pooling};
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// The arguments that all pooling functions share, as Python passes them.
struct Words<'a, 'py> {
    op: &'static str,
    spatial: usize,
    kernel: &'a Object<'py>,
    strides: &'a Object<'py>,
    padding: &'a Object<'py>,
    dilation: Maybe<'a, 'py>,
    ceil_mode: bool,
    data_format: &'a str,
}

impl Words<'_, '_> {
    fn read(&self) -> PyResult<Pooling> {
        let (op, n) = (self.op, self.spatial);
        Ok(Pooling {
            op,
            kernel: counts(op, "kernel sizes", Some(self.kernel), n)?,
            strides: counts(op, "strides", Some(self.strides), n)?,
            padding: read_padding(op, self.padding, n)?,
            dilations: counts(op, "dilations", self.dilation, n)?,
            ceil_mode: self.ceil_mode,
            channels_first: data_format::channels_first(op, self.data_format, n).or_raise()?,
        })
    }
}

macro_rules! largest {
    ($($(#[$doc:meta])* $name:ident $spatial:literal $format:literal $text:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, kernel, strides, padding, /, *, data_format=$format, dilation=None, ceil_mode=false),
            text_signature = $text
        )]
        fn $name<'py>(
            x: &Object<'py>,
            kernel: &Object<'py>,
            strides: &Object<'py>,
            padding: &Object<'py>,
            data_format: &str,
            dilation: Maybe<'_, 'py>,
            ceil_mode: bool,
        ) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(x.py(), op);
            let x = call.take(x)?;
            let p = Words { op, spatial: $spatial, kernel, strides, padding, dilation, ceil_mode, data_format }.read()?;
            call.one(|| pool::max_pool(&x, &p))
        }
    )* };
}
largest! {
    /// 1D max pooling.
    max_pool1d 1 "NWC" "(x, kernel, strides, padding, /, *, data_format=\"NWC\", dilation=1, ceil_mode=False)";
    /// 2D max pooling.
    max_pool2d 2 "NHWC" "(x, kernel, strides, padding, /, *, data_format=\"NHWC\", dilation=1, ceil_mode=False)";
    /// 3D max pooling.
    max_pool3d 3 "NDHWC" "(x, kernel, strides, padding, /, *, data_format=\"NDHWC\", dilation=1, ceil_mode=False)";
}

macro_rules! means {
    ($($(#[$doc:meta])* $name:ident $spatial:literal $format:literal $text:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, kernel, strides, padding, /, *, data_format=$format, count_include_pad=false,
                ceil_mode=false, divisor_override=None),
            text_signature = $text
        )]
        #[allow(clippy::too_many_arguments)]
        fn $name<'py>(
            x: &Object<'py>,
            kernel: &Object<'py>,
            strides: &Object<'py>,
            padding: &Object<'py>,
            data_format: &str,
            count_include_pad: bool,
            ceil_mode: bool,
            divisor_override: Option<f64>,
        ) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(x.py(), op);
            let x = call.take(x)?;
            let p = Words { op, spatial: $spatial, kernel, strides, padding, dilation: None, ceil_mode, data_format }
                .read()?;
            call.one(|| pool::avg_pool(&x, &p, count_include_pad, divisor_override))
        }
    )* };
}
means! {
    /// 1D average pooling. Padding is not counted unless `count_include_pad` is set.
    avg_pool1d 1 "NWC" "(x, kernel, strides, padding, /, *, data_format=\"NWC\", count_include_pad=False, ceil_mode=False, divisor_override=None)";
    /// 2D average pooling. Padding is not counted unless `count_include_pad` is set.
    avg_pool2d 2 "NHWC" "(x, kernel, strides, padding, /, *, data_format=\"NHWC\", count_include_pad=False, ceil_mode=False, divisor_override=None)";
    /// 3D average pooling. Padding is not counted unless `count_include_pad` is set.
    avg_pool3d 3 "NDHWC" "(x, kernel, strides, padding, /, *, data_format=\"NDHWC\", count_include_pad=False, ceil_mode=False, divisor_override=None)";
}

/// One size for all axes or one per axis; `None` keeps the size of an axis.
fn output_size(op: &str, x: &Object<'_>, spatial: usize) -> PyResult<Vec<Option<usize>>> {
    let size = |x: &Object<'_>| -> PyResult<Option<usize>> {
        if x.is_none() {
            return Ok(None);
        }
        match integers(op, "output_size", x)?[..] {
            [n] if n > 0 => Ok(Some(n as usize)),
            _ => Err(exception(
                Kind::Value,
                format!("{op}: output_size is positive, not {x}"),
            )),
        }
    };
    let Ok(items) = x.try_iter() else {
        return Ok(vec![size(x)?; spatial]);
    };
    let sizes = items.map(|x| size(&x?)).collect::<PyResult<Vec<_>>>()?;
    match sizes.len() {
        1 => Ok(vec![sizes[0]; spatial]),
        n if n == spatial => Ok(sizes),
        n => Err(exception(
            Kind::Value,
            format!("{op}: output_size has {n} sizes, not {spatial}"),
        )),
    }
}

/// Whether the channels are the last axis; by default they precede the spatial axes.
fn is_channels_last(op: &str, data_format: Option<&str>, spatial: usize) -> PyResult<bool> {
    match data_format {
        Some(word) => Ok(!data_format::channels_first(op, word, spatial).or_raise()?),
        None => Ok(false),
    }
}

macro_rules! adaptive {
    ($($(#[$doc:meta])* $name:ident $spatial:literal $kind:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (input, output_size, *, data_format=None))]
        fn $name<'py>(
            input: &Object<'py>,
            output_size: &Object<'py>,
            data_format: Option<&str>,
        ) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(input.py(), op);
            let x = call.take(input)?;
            let sizes = self::output_size(op, output_size, $spatial)?;
            let last = is_channels_last(op, data_format, $spatial)?;
            call.one(|| adaptive::adaptive_pool(op, &x, Pool::$kind, &sizes, last))
        }
    )* };
}
adaptive! {
    /// 1D adaptive average pooling to a given output size. Channels precede the spatial axis unless `data_format` says
    /// otherwise.
    adaptive_avg_pool1d 1 Mean;
    /// 2D adaptive average pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
    /// otherwise.
    adaptive_avg_pool2d 2 Mean;
    /// 3D adaptive average pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
    /// otherwise.
    adaptive_avg_pool3d 3 Mean;
    /// 1D adaptive max pooling to a given output size. Channels precede the spatial axis unless `data_format` says
    /// otherwise.
    adaptive_max_pool1d 1 Largest;
    /// 2D adaptive max pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
    /// otherwise.
    adaptive_max_pool2d 2 Largest;
    /// 3D adaptive max pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
    /// otherwise.
    adaptive_max_pool3d 3 Largest;
}

macro_rules! global {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, data_format="NSC", keepdims=false))]
        fn $name<'py>(x: &Object<'py>, data_format: &str, keepdims: bool) -> PyResult<Object<'py>> {
            let op = stringify!($name);
            let mut call = Call::new(x.py(), op);
            let x = call.take(x)?;
            let second = channels_second(op, data_format).or_raise()?;
            call.one(|| adaptive::global_pool(op, &x, Pool::$kind, second, keepdims))
        }
    )* };
}
global! {
    /// Global average pooling: the mean over all spatial axes.
    global_avg_pool Mean;
    /// Global max pooling: the maximum over all spatial axes.
    global_max_pool Largest;
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m;
        max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d global_avg_pool global_max_pool);
    Ok(())
}
