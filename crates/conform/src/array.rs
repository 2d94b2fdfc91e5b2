//! Plain arrays of exact numbers, on which the reference implementations compute.
//!
//! Integers are i128, everything else a pair of f64, so nothing is shared with the engines' arithmetic. Rounding to a
//! dtype happens in one place, `rounded`.

use clematis_core::host::types::C128;
use clematis_core::{
    Backend, DType, Device, Element, Host, Real, Result, Scalar, Shape, Spec, Tensor, bail,
    with_element,
};

/// A complex number of doubles.
pub type C = C128;

/// A number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Num {
    /// A boolean or an integer.
    Whole(i128),
    /// A real or complex number.
    Inexact(C),
}

impl Num {
    /// A real number.
    pub fn real(x: f64) -> Num {
        Num::Inexact(C::new(x, 0.0))
    }

    /// An integer as a number of this dtype.
    pub fn of(dtype: DType, x: i128) -> Num {
        if dtype.is_inexact() {
            Num::real(x as f64)
        } else {
            Num::Whole(wrap(dtype, x))
        }
    }

    /// As a complex number.
    pub fn c(self) -> C {
        match self {
            Num::Whole(v) => C::new(v as f64, 0.0),
            Num::Inexact(v) => v,
        }
    }

    /// The real part.
    pub fn re(self) -> f64 {
        self.c().re
    }

    /// As an integer; inexact numbers are truncated.
    pub fn i(self) -> i128 {
        match self {
            Num::Whole(v) => v,
            Num::Inexact(v) => v.re as i128,
        }
    }

    /// Whether it is nonzero.
    pub fn truth(self) -> bool {
        match self {
            Num::Whole(v) => v != 0,
            Num::Inexact(v) => v.re != 0.0 || v.im != 0.0,
        }
    }

    fn scalar(self, dtype: DType) -> Scalar {
        match self {
            Num::Whole(v) if dtype == DType::Bool => Scalar::Bool(v != 0),
            Num::Whole(v) => i64::try_from(v).map_or(Scalar::UInt(v as u64), Scalar::Int),
            Num::Inexact(v) => Scalar::Complex(Real(v.re), Real(v.im)),
        }
    }
}

impl From<bool> for Num {
    fn from(value: bool) -> Num {
        Num::Whole(i128::from(value))
    }
}

/// The width of an integer dtype in bits.
pub fn width(dtype: DType) -> u32 {
    dtype.size() as u32 * 8
}

/// Wraps an integer to the width of the dtype.
pub fn wrap(dtype: DType, x: i128) -> i128 {
    if dtype == DType::Bool {
        return i128::from(x != 0);
    }
    let bits = width(dtype);
    let low = x & ((1i128 << bits) - 1);
    if dtype.is_signed_int() && low >> (bits - 1) == 1 {
        low - (1i128 << bits)
    } else {
        low
    }
}

/// The minimum and maximum of an integer dtype.
pub fn extremes(dtype: DType) -> (i128, i128) {
    let bits = width(dtype);
    if dtype == DType::Bool {
        (0, 1)
    } else if dtype.is_signed_int() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    }
}

/// The machine epsilon of a float dtype, or of a complex dtype's parts.
pub fn epsilon(dtype: DType) -> f64 {
    match dtype.real() {
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        DType::F32 => 2f64.powi(-23),
        _ => f64::EPSILON,
    }
}

/// The smallest positive normal number of a float dtype, or of a complex dtype's parts.
pub fn tiny(dtype: DType) -> f64 {
    match dtype.real() {
        DType::F16 => 2f64.powi(-14),
        DType::BF16 | DType::F32 => 2f64.powi(-126),
        _ => f64::MIN_POSITIVE,
    }
}

/// A dense array in row-major order.
#[derive(Clone, Debug)]
pub struct Array {
    /// The dtype that the numbers represent.
    pub dtype: DType,
    /// The shape.
    pub shape: Vec<usize>,
    /// The numbers.
    pub values: Vec<Num>,
}

impl Array {
    /// Wraps numbers with a shape; their number must match.
    pub fn new(dtype: DType, shape: &[usize], values: Vec<Num>) -> Array {
        debug_assert_eq!(shape.iter().product::<usize>(), values.len());
        Array {
            dtype,
            shape: shape.to_vec(),
            values,
        }
    }

    /// An array whose elements are computed from their indices.
    pub fn from_fn(dtype: DType, shape: &[usize], mut f: impl FnMut(&[usize]) -> Num) -> Array {
        let values = places(shape).map(|at| f(&at)).collect();
        Array::new(dtype, shape, values)
    }

    /// An array of integers.
    pub fn whole(dtype: DType, shape: &[usize], values: &[i128]) -> Array {
        Array::new(
            dtype,
            shape,
            values.iter().map(|&v| Num::Whole(v)).collect(),
        )
    }

    /// An array of real numbers.
    pub fn real(dtype: DType, shape: &[usize], values: &[f64]) -> Array {
        Array::new(dtype, shape, values.iter().map(|&v| Num::real(v)).collect())
    }

    /// An array filled with one number.
    pub fn filled(dtype: DType, shape: &[usize], value: Num) -> Array {
        Array::new(dtype, shape, vec![value; shape.iter().product()])
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The element at an index.
    pub fn at(&self, place: &[usize]) -> Num {
        self.values[offset(&self.shape, place)]
    }

    /// The element that broadcasts to an index of a larger shape.
    pub fn spread(&self, place: &[usize]) -> Num {
        let tail = &place[place.len() - self.rank()..];
        let own: Vec<usize> = tail
            .iter()
            .zip(&self.shape)
            .map(|(&i, &n)| if n == 1 { 0 } else { i })
            .collect();
        self.at(&own)
    }

    /// Maps every element.
    pub fn map(&self, dtype: DType, f: impl Fn(Num) -> Num) -> Array {
        Array::new(
            dtype,
            &self.shape,
            self.values.iter().map(|&v| f(v)).collect(),
        )
    }

    /// Combines two arrays elementwise, with broadcasting.
    pub fn zip(&self, other: &Array, dtype: DType, f: impl Fn(Num, Num) -> Num) -> Array {
        let shape = broadcast(&self.shape, &other.shape);
        Array::from_fn(dtype, &shape, |at| f(self.spread(at), other.spread(at)))
    }

    /// Dtype and shape.
    pub fn spec(&self) -> Spec {
        Spec::new(self.dtype, Shape::from_sizes(&self.shape))
    }

    /// Copies to host memory in the dtype's representation.
    pub fn to_host(&self) -> Result<Host> {
        with_element!(self.dtype, T => {
            let values: Vec<T> = self.values.iter().map(|v| T::from_scalar(v.scalar(self.dtype))).collect();
            Host::from_slice(&values, Shape::from_sizes(&self.shape))
        })
    }

    /// Copies from host memory.
    pub fn from_host(host: &Host) -> Result<Array> {
        let spec = host.spec();
        let values: Vec<Num> = if spec.dtype.is_inexact() {
            host.to_complex()
                .into_iter()
                .map(|(re, im)| Num::Inexact(C::new(re, im)))
                .collect()
        } else {
            (0..spec.shape.count())
                .map(|i| host.get(i).map(|v| Num::Whole(v.as_i128())))
                .collect::<Result<_>>()?
        };
        Ok(Array::new(spec.dtype, &spec.shape.sizes(), values))
    }

    /// The values of a tensor.
    pub fn from_tensor(x: &Tensor) -> Result<Array> {
        let host = x.to_host()?;
        if host.spec() != x.spec() {
            bail!(Internal, "expected {1}, got {0}", host.spec(), x.spec());
        }
        Array::from_host(&host)
    }

    /// Rounds to the dtype.
    pub fn rounded(&self) -> Result<Array> {
        Array::from_host(&self.to_host()?)
    }

    /// Permutes axes: axis `i` of the result is axis `axes[i]`.
    pub fn transposed(&self, axes: &[usize]) -> Array {
        let shape: Vec<usize> = axes.iter().map(|&a| self.shape[a]).collect();
        Array::from_fn(self.dtype, &shape, |at| {
            let mut place = vec![0; self.rank()];
            for (i, &a) in axes.iter().enumerate() {
                place[a] = at[i];
            }
            self.at(&place)
        })
    }
}

/// The broadcast shape of two compatible shapes.
pub fn broadcast(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let at = |s: &[usize], i: usize| {
        let gap = rank - s.len();
        if i < gap { 1 } else { s[i - gap] }
    };
    (0..rank)
        .map(|i| if at(a, i) == 1 { at(b, i) } else { at(a, i) })
        .collect()
}

/// The row-major offset of an index.
pub fn offset(shape: &[usize], place: &[usize]) -> usize {
    shape.iter().zip(place).fold(0, |at, (&n, &i)| at * n + i)
}

/// All indices of a shape in row-major order.
pub fn places(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let shape = shape.to_vec();
    let count = shape.iter().product::<usize>();
    (0..count).map(move |n| {
        let mut rest = n;
        let mut place = vec![0; shape.len()];
        for (i, &size) in shape.iter().enumerate().rev() {
            place[i] = rest % size;
            rest /= size;
        }
        place
    })
}

/// Uploads an array.
pub fn upload(backend: &'static dyn Backend, x: &Array) -> Result<Tensor> {
    let host = x.to_host()?;
    let spec = host.spec().clone();
    let data = backend.from_host(host, Device::Cpu)?;
    Ok(Tensor::concrete(spec, backend, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_keep_their_low_bits() {
        assert_eq!(wrap(DType::I8, 128), -128);
        assert_eq!(wrap(DType::U8, -1), 255);
        assert_eq!(wrap(DType::U64, -1), u64::MAX.into());
        assert_eq!(wrap(DType::I64, 1 << 63), i64::MIN.into());
    }

    #[test]
    fn numbers_round_trip_through_host_memory() {
        for dtype in DType::ALL {
            let (low, high) = if dtype.is_inexact() {
                (-3, 5)
            } else {
                extremes(dtype)
            };
            let x = Array::new(
                dtype,
                &[2, 1],
                vec![Num::of(dtype, low), Num::of(dtype, high)],
            );
            assert_eq!(x.rounded().unwrap().values, x.values, "{dtype}");
        }
    }

    #[test]
    fn places_go_row_by_row() {
        let all: Vec<_> = places(&[2, 2]).collect();
        assert_eq!(all, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(places(&[]).count(), 1);
        assert_eq!(places(&[2, 0]).count(), 0);
        assert_eq!(broadcast(&[2, 1], &[3]), [2, 3]);
        assert_eq!(broadcast(&[0, 3], &[1, 3]), [0, 3]);
    }
}
