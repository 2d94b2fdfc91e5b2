use super::{NextAfter, double, nextafter, single};
use half::{bf16, f16};
use proptest::prelude::*;

#[test]
fn remainders_take_the_sign_of_the_divisor() {
    let inf = f64::INFINITY;
    let rows = [
        (7.0, 3.0, 1.0),
        (-7.0, 3.0, 2.0),
        (7.0, -3.0, -2.0),
        (-7.0, -3.0, -1.0),
        (5.5, 2.0, 1.5),
        (1.0, inf, 1.0),
        (-1.0, inf, inf),
        (1.0, -inf, -inf),
        (-1.0, -inf, -1.0),
    ];
    for (x, y, want) in rows {
        assert_eq!(double::remainder(x, y), want, "{x} % {y}");
        assert_eq!(single::remainder(x as f32, y as f32), want as f32);
    }
    for (x, y) in [(1.0, 0.0), (inf, 2.0), (f64::NAN, 1.0), (1.0, f64::NAN)] {
        assert!(double::remainder(x, y).is_nan());
    }
    assert_eq!(double::remainder(6.0, -3.0).to_bits(), (-0.0f64).to_bits());
    assert_eq!(double::remainder(-0.0, 3.0).to_bits(), 0.0f64.to_bits());
}

#[test]
fn quotients_round_down() {
    let inf = f64::INFINITY;
    let rows = [
        (7.0, 2.0, 3.0),
        (-7.0, 2.0, -4.0),
        (7.0, -2.0, -4.0),
        (1.0, 0.1, 9.0), // 0.1 is a little more than a tenth
        (1.0, 0.0, inf),
        (-1.0, 0.0, -inf),
        (1.0, inf, 0.0),
        (-1.0, inf, -1.0),
        (1.0, -inf, -1.0),
    ];
    for (x, y, want) in rows {
        assert_eq!(double::floor_divide(x, y), want, "{x} // {y}");
    }
    assert!(double::floor_divide(0.0, 0.0).is_nan());
    assert!(double::floor_divide(inf, 2.0).is_nan());
    assert_eq!(
        double::floor_divide(-0.0, 2.0).to_bits(),
        (-0.0f64).to_bits()
    );
    assert_eq!(single::fmod(-7.0, 3.0), -1.0);
}

#[test]
fn rounding_and_signs() {
    let rows = [
        (0.5, 0.0),
        (1.5, 2.0),
        (2.5, 2.0),
        (-0.5, -0.0),
        (-2.5, -2.0),
        (1e300, 1e300),
    ];
    for (x, want) in rows {
        assert_eq!(double::round(x).to_bits(), f64::to_bits(want));
    }
    assert_eq!(single::round(3.5), 4.0);
    assert_eq!(double::trunc(-1.9), -1.0);
    assert_eq!(
        (double::sign(-3.0), double::sign(-0.0), double::sign(9.0)),
        (-1.0, 0.0, 1.0)
    );
    assert!(single::sign(f32::NAN).is_nan());
    assert_eq!(double::copysign(1.0, -0.0), -1.0);
}

#[test]
fn neighbours_of_the_special_values() {
    assert_eq!(nextafter(0.0f32, 1.0), f32::from_bits(1));
    assert_eq!(nextafter(0.0f32, -1.0), -f32::from_bits(1));
    assert_eq!(nextafter(-0.0f64, 1.0), 5e-324);
    assert_eq!(nextafter(0.0f32, -0.0).to_bits(), (-0.0f32).to_bits());
    assert_eq!(nextafter(f32::MAX, f32::INFINITY), f32::INFINITY);
    assert_eq!(nextafter(f32::INFINITY, 0.0), f32::MAX);
    assert_eq!(nextafter(f32::from_bits(1), -1.0), 0.0);
    assert!(nextafter(f64::NAN, 1.0).is_nan() && nextafter(1.0, f64::NAN).is_nan());
    assert_eq!(
        nextafter(f16::ONE, f16::INFINITY).to_bits(),
        f16::ONE.to_bits() + 1
    );
    assert_eq!(nextafter(f16::MAX, f16::INFINITY), f16::INFINITY);
    assert_eq!(
        nextafter(bf16::ONE, bf16::ZERO).to_bits(),
        bf16::ONE.to_bits() - 1
    );
    assert_eq!(nextafter(bf16::ZERO, bf16::NEG_ONE).to_bits(), 0x8001);
}

proptest! {
    #[test]
    fn a_neighbour_is_adjacent(x in -1e30f32..1e30, y in -1e30f32..1e30) {
        let next = x.next_after(y);
        if x < y {
            prop_assert!(next > x && next == x.next_up());
        } else if x > y {
            prop_assert!(next < x && next == x.next_down());
        }
    }

    #[test]
    fn quotient_and_remainder_belong_together(x in -1e6f64..1e6, y in -1e3f64..1e3) {
        prop_assume!(y != 0.0);
        let (q, r) = (double::floor_divide(x, y), double::remainder(x, y));
        prop_assert_eq!(q, q.floor());
        prop_assert!((q * y + r - x).abs() <= 1e-9 * (1.0 + x.abs()));
        prop_assert!(r.abs() <= y.abs() && (r == 0.0 || (r < 0.0) == (y < 0.0)));
    }
}
