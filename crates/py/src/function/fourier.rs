//! Fourier transforms.

use crate::args::axes;
use crate::dtype;
use crate::error::OrRaise;
use crate::operand::Call;
use crate::tensor::PyTensor;
use clematis_core::DType;
use clematis_core::ops::{self, Fourier, Norm};
use pyo3::prelude::*;
use pyo3::types::PyModule;

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

fn one<'py>(
    op: &'static str,
    kind: Fourier,
    x: &Object<'py>,
    n: Option<usize>,
    axis: i64,
    norm: &str,
) -> PyResult<Object<'py>> {
    let norm = Norm::from_name(norm, op).or_raise()?;
    let mut call = Call::new(x.py(), op);
    let x = call.take(x)?;
    call.one(|| ops::fourier(kind, x, n.map(|n| vec![n]), Some(vec![axis]), norm))
}

fn several<'py>(
    op: &'static str,
    kind: Fourier,
    x: &Object<'py>,
    s: Option<Vec<usize>>,
    axes_: Maybe<'_, 'py>,
    norm: &str,
) -> PyResult<Object<'py>> {
    let norm = Norm::from_name(norm, op).or_raise()?;
    let mut call = Call::new(x.py(), op);
    let x = call.take(x)?;
    let axes = axes(op, axes_)?;
    call.one(|| ops::fourier(kind, x, s, axes, norm))
}

macro_rules! transforms {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(
            signature = (x, /, *, n=None, axis=-1, norm="backward"),
            text_signature = "(x, /, *, n=None, axis=-1, norm='backward')"
        )]
        fn $name<'py>(x: &Object<'py>, n: Option<usize>, axis: i64, norm: &str) -> PyResult<Object<'py>> {
            one(stringify!($name), Fourier::$kind, x, n, axis, norm)
        }
    )* };
}
macro_rules! transforms_n {
    ($($(#[$doc:meta])* $name:ident $kind:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, s=None, axes=None, norm="backward"))]
        fn $name<'py>(x: &Object<'py>, s: Option<Vec<usize>>, axes: Maybe<'_, 'py>, norm: &str) -> PyResult<Object<'py>> {
            several(stringify!($name), Fourier::$kind, x, s, axes, norm)
        }
    )* };
}
transforms! {
    /// The discrete Fourier transform along an axis.
    fft Forward;
    /// The inverse transform along an axis.
    ifft Inverse;
    /// The non-negative half of the spectrum of real numbers.
    rfft Real;
    /// Real numbers from the non-negative half of their spectrum.
    irfft RealInverse;
    /// The real spectrum of a Hermitian signal, given by its non-negative half.
    hfft Hermitian;
    /// The non-negative half of a Hermitian signal, from its real spectrum.
    ihfft HermitianInverse;
}
transforms_n! {
    /// The transform over several axes.
    fftn Forward;
    /// The inverse transform over several axes.
    ifftn Inverse;
    /// The halved spectrum of real numbers over several axes.
    rfftn Real;
    /// Real numbers from their halved spectrum over several axes.
    irfftn RealInverse;
}

macro_rules! frequencies {
    ($($(#[$doc:meta])* $name:ident $half:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (n, /, *, d=1.0, dtype=None, device=None))]
        fn $name<'py>(py: Python<'py>, n: usize, d: f64, dtype: Maybe<'_, 'py>, device: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
            crate::args::device(stringify!($name), device)?;
            let dtype = dtype::maybe(dtype)?.unwrap_or(DType::FLOAT);
            let out = ops::frequencies(n, d, $half, dtype).done().or_raise()?;
            Ok(PyTensor::bound(py, out)?.into_any())
        }
    )* };
}
frequencies! {
    /// The frequencies of a spectrum.
    fftfreq false;
    /// The frequencies of a halved spectrum.
    rfftfreq true;
}

macro_rules! shifts {
    ($($(#[$doc:meta])* $name:ident $back:literal;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /, *, axes=None))]
        fn $name<'py>(x: &Object<'py>, axes: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            let axes = crate::args::axes(stringify!($name), axes)?;
            call.one(|| ops::shift_frequencies(x, axes, $back))
        }
    )* };
}
shifts! {
    /// The zero frequency moved to the middle.
    fftshift false;
    /// The zero frequency moved back to the front.
    ifftshift true;
}

/// Adds the functions to `fft`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m; fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fftfreq rfftfreq fftshift ifftshift);
    Ok(())
}
