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
    /// Discrete Fourier transform (FFT) along an axis.
    fft Forward;
    /// Inverse discrete Fourier transform along an axis.
    ifft Inverse;
    /// FFT of real input: the non-negative half of the spectrum.
    rfft Real;
    /// Inverse FFT of the non-negative half of a spectrum; real output.
    irfft RealInverse;
    /// FFT of a Hermitian signal, given by its non-negative half; real output.
    hfft Hermitian;
    /// Inverse FFT of a real spectrum: the non-negative half of a Hermitian signal.
    ihfft HermitianInverse;
}
transforms_n! {
    /// FFT over several axes.
    fftn Forward;
    /// Inverse FFT over several axes.
    ifftn Inverse;
    /// FFT of real input over several axes: the non-negative half of the spectrum.
    rfftn Real;
    /// Inverse FFT of the non-negative half of a spectrum over several axes; real output.
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
    /// Sample frequencies of `fft`.
    fftfreq false;
    /// Sample frequencies of `rfft`.
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
    /// Shifts the zero frequency to the center of the spectrum.
    fftshift false;
    /// Inverse of `fftshift`: shifts the zero frequency to the front.
    ifftshift true;
}

/// Adds the functions to `fft`.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m; fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn fftfreq rfftfreq fftshift ifftshift);
    Ok(())
}
