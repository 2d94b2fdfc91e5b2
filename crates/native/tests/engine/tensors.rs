//! Tensors to test with: random values with special ones among them, and views of them.

use clematis_core::dispatch::apply;
use clematis_core::op::{Broadcast, Slice};
use clematis_core::{Axes, DType, Element, Host, Op, Scalar, Shape, Tensor, with_element};

/// A small generator: tests need variety, not quality.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() >> 33) as usize % n.max(1)
    }

    /// Between -range and range.
    pub fn real(&mut self, range: f64) -> f64 {
        ((self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.0) * range
    }

    pub fn sizes(&mut self, rank: usize, most: usize) -> Vec<usize> {
        (0..rank).map(|_| self.below(most + 1)).collect()
    }
}

/// One number of a dtype: sometimes a special one.
pub fn number(dice: &mut Dice, dtype: DType, special: bool) -> Scalar {
    let odd = special && dice.below(4) == 0;
    let real = |dice: &mut Dice| {
        if !odd {
            return dice.real(4.0);
        }
        match dice.below(8) {
            0 => 0.0,
            1 => -0.0,
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            4 => f64::NAN,
            5 => 1e-40,
            6 => 3e38,
            _ => -1.0,
        }
    };
    if dtype.is_complex() {
        let (re, im) = (real(dice), real(dice));
        return Scalar::Complex(re.into(), im.into()).cast(dtype);
    }
    if dtype.is_float() {
        return Scalar::from(real(dice)).cast(dtype);
    }
    if odd {
        let extremes = [0, 1, -1, i64::MAX, i64::MIN, 255, 127, -128];
        return Scalar::Int(extremes[dice.below(8)]).cast(dtype);
    }
    Scalar::Int(dice.below(200) as i64 - 100).cast(dtype)
}

/// A dense tensor of numbers.
pub fn tensor(dtype: DType, sizes: &[usize], values: &[Scalar]) -> Tensor {
    with_element!(dtype, E => {
        let values: Vec<E> = values.iter().map(|&v| E::from_scalar(v)).collect();
        of(&values, sizes)
    })
}

/// A dense tensor of Rust values.
pub fn of<E: Element>(values: &[E], sizes: &[usize]) -> Tensor {
    let host = Host::from_slice(values, Shape::from_sizes(sizes)).unwrap();
    let spec = host.spec().clone();
    let b = clematis_native::backend();
    Tensor::concrete(spec, b, b.from_host(host, Default::default()).unwrap())
}

pub fn random(dice: &mut Dice, dtype: DType, sizes: &[usize], special: bool) -> Tensor {
    let count = sizes.iter().product();
    let values: Vec<Scalar> = (0..count).map(|_| number(dice, dtype, special)).collect();
    tensor(dtype, sizes, &values)
}

/// A tensor of these sizes with an unusual layout: transposed, reversed, sliced or broadcast.
pub fn view(dice: &mut Dice, dtype: DType, sizes: &[usize], special: bool) -> Tensor {
    let rank = sizes.len();
    if dice.below(4) == 0 {
        return random(dice, dtype, sizes, special);
    }
    let mut axes: Vec<usize> = (0..rank).collect();
    for i in (1..rank).rev() {
        axes.swap(i, dice.below(i + 1));
    }
    // Axis i of the result is axis axes[i] of the base; the base is larger and is sliced.
    let mut base = vec![0; rank];
    let (mut start, mut limit, mut strides) = (vec![0; rank], vec![0; rank], vec![1; rank]);
    for (i, &axis) in axes.iter().enumerate() {
        let step = 1 + dice.below(2);
        let before = dice.below(2);
        strides[axis] = step;
        start[axis] = before;
        limit[axis] = before
            + if sizes[i] == 0 {
                0
            } else {
                (sizes[i] - 1) * step + 1
            };
        base[axis] = limit[axis] + dice.below(2);
    }
    let x = random(dice, dtype, &base, special);
    let slice = Slice {
        start: start.iter().map(|&s| s.into()).collect(),
        limit: limit.iter().map(|&s| s.into()).collect(),
        strides: Axes::new(&strides),
    };
    let x = one(&slice.into(), &[&x]);
    let back: Vec<usize> = (0..rank).filter(|_| dice.below(3) == 0).collect();
    let x = one(&Op::Reverse(Axes::new(&back)), &[&x]);
    let x = one(&Op::Transpose(Axes::new(&axes)), &[&x]);
    assert_eq!(x.shape(), sizes);
    x
}

/// A tensor that broadcasts to these sizes.
pub fn operand(dice: &mut Dice, dtype: DType, sizes: &[usize], special: bool) -> Tensor {
    match dice.below(5) {
        0 => {
            let value = number(dice, dtype, special);
            Tensor::scalar(value, dtype)
        }
        1 | 2 => {
            let cut = dice.below(sizes.len() + 1);
            let sizes: Vec<usize> = sizes[cut..]
                .iter()
                .map(|&s| if dice.below(2) == 0 { 1 } else { s })
                .collect();
            view(dice, dtype, &sizes, special)
        }
        _ => view(dice, dtype, sizes, special),
    }
}

/// Runs an op that has one result.
pub fn one(op: &Op, inputs: &[&Tensor]) -> Tensor {
    many(op, inputs).pop().unwrap()
}

pub fn many(op: &Op, inputs: &[&Tensor]) -> Vec<Tensor> {
    match apply(op, inputs) {
        Ok(out) => out.into_vec(),
        Err(e) => panic!("{}: {e:?}", op.name()),
    }
}

/// Every element, in row-major order.
pub fn values(x: &Tensor) -> Vec<Scalar> {
    let host = x.to_host().unwrap();
    (0..x.shape().count())
        .map(|i| host.get(i).unwrap())
        .collect()
}

/// The elements of a tensor, broadcast to some sizes.
pub fn broadcast_values(x: &Tensor, sizes: &[usize]) -> Vec<Scalar> {
    let from = x.shape().sizes();
    let all = values(x);
    let lead = sizes.len() - from.len();
    indices(sizes)
        .map(|index| {
            let at = from.iter().enumerate().fold(0, |at, (i, &size)| {
                at * size + if size == 1 { 0 } else { index[lead + i] }
            });
            all[at]
        })
        .collect()
}

/// All indices of these sizes in row-major order.
pub fn indices(sizes: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let sizes = sizes.to_vec();
    let count: usize = sizes.iter().product();
    (0..count).map(move |mut i| {
        let mut index = vec![0; sizes.len()];
        for axis in (0..sizes.len()).rev() {
            index[axis] = i % sizes[axis];
            i /= sizes[axis];
        }
        index
    })
}

/// Row-major offset of an index.
pub fn place(sizes: &[usize], index: &[usize]) -> usize {
    sizes
        .iter()
        .zip(index)
        .fold(0, |at, (&size, &i)| at * size + i)
}

/// Whether two numbers agree: equal, both NaN, or within `tolerance` times the larger.
pub fn near(a: f64, b: f64, tolerance: f64) -> bool {
    a == b
        || a.is_nan() && b.is_nan()
        || (a - b).abs() <= tolerance * (1e-30 + a.abs().max(b.abs()))
}

/// A few units in the last place of a dtype, relative.
pub fn tolerance(dtype: DType) -> f64 {
    match dtype.real() {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F32 => 4e-6,
        _ => 1e-13,
    }
}

#[track_caller]
pub fn assert_near(found: &Tensor, expected: &[(f64, f64)], tolerance: f64, what: &str) {
    let found = found.to_host().unwrap().to_complex();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!(
            near(f.0, e.0, tolerance) && near(f.1, e.1, tolerance),
            "{what}: element {i} is {f:?}, not {e:?}"
        );
    }
}

#[track_caller]
pub fn assert_same(found: &Tensor, expected: &[Scalar], what: &str) {
    let found = values(found);
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let ((a, b), (c, d)) = (f.as_complex(), e.as_complex());
        let same = f == e || near(a, c, 0.0) && near(b, d, 0.0) && f.as_i128() == e.as_i128();
        assert!(same, "{what}: element {i} is {f}, not {e}");
    }
}

/// A broadcast to these sizes, new axes in front.
pub fn broadcast(x: &Tensor, sizes: &[usize]) -> Tensor {
    let lead = sizes.len() - x.rank();
    let op = Broadcast {
        shape: Shape::from_sizes(sizes),
        axes: (lead..sizes.len()).collect(),
    };
    one(&op.into(), &[x])
}
