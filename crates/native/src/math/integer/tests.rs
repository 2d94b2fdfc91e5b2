use super::Integer;
use proptest::prelude::*;

#[test]
fn division_by_zero_is_zero() {
    assert_eq!(7i32.floor_divide(0), 0);
    assert_eq!(7i32.remainder(0), 0);
    assert_eq!((-7i64).trunc_divide(0), 0);
    assert_eq!(7u8.fmod(0), 0);
    assert_eq!(7u64.remainder(0), 0);
}

#[test]
fn the_one_overflowing_quotient_wraps() {
    assert_eq!(i8::MIN.floor_divide(-1), i8::MIN);
    assert_eq!(i64::MIN.floor_divide(-1), i64::MIN);
    assert_eq!(i32::MIN.remainder(-1), 0);
    assert_eq!(i32::MIN.fmod(-1), 0);
    assert_eq!(i16::MIN.absolute(), i16::MIN);
    assert_eq!(i16::MIN.negative(), i16::MIN);
    assert_eq!(3u8.negative(), 253);
}

#[test]
fn quotients_round_down_and_remainders_follow_the_divisor() {
    let rows = [
        (7, 2, 3, 1),
        (-7, 2, -4, 1),
        (7, -2, -4, -1),
        (-7, -2, 3, -1),
        (6, -3, -2, 0),
    ];
    for (a, b, quotient, remainder) in rows {
        assert_eq!(Integer::floor_divide(a as i16, b), quotient);
        assert_eq!(Integer::remainder(a as i16, b), remainder);
    }
    assert_eq!((-7i32).fmod(2), -1);
    assert_eq!((-7i32).trunc_divide(2), -3);
}

#[test]
fn powers_wrap_and_negative_exponents_vanish() {
    assert_eq!(3i32.power(4), 81);
    assert_eq!(0i32.power(0), 1);
    assert_eq!(2u8.power(8), 0);
    assert_eq!(3u8.power(5), 243);
    assert_eq!(3u8.power(6), 217);
    assert_eq!((-2i8).power(7), -128);
    assert_eq!(2i32.power(-1), 0);
    assert_eq!(0i32.power(-1), 0);
    assert_eq!(1i32.power(-5), 1);
    assert_eq!((-1i32).power(-5), -1);
    assert_eq!((-1i32).power(-4), 1);
}

#[test]
fn shifts_past_the_width_shift_everything_out() {
    assert_eq!(1i8.shift_left(7), i8::MIN);
    assert_eq!(1i8.shift_left(8), 0);
    assert_eq!(1i8.shift_left(-1), 0);
    assert_eq!((-8i8).shift_right(1), -4);
    assert_eq!((-8i8).shift_right(8), -1);
    assert_eq!((-8i8).shift_right(127), -1);
    assert_eq!(8i8.shift_right(100), 0);
    assert_eq!((-8i8).shift_right(-1), 0);
    assert_eq!(128u8.shift_right(7), 1);
    assert_eq!(128u8.shift_right(8), 0);
    assert_eq!(1u64.shift_left(63), 1 << 63);
    assert_eq!(1u64.shift_left(64), 0);
    assert_eq!(1u64.shift_left(1 << 32), 0);
    assert_eq!(i64::MIN.shift_right(i64::MAX), -1);
}

#[test]
fn signs() {
    assert_eq!((-5i8).sign(), -1);
    assert_eq!(0i8.sign(), 0);
    assert_eq!(200u8.sign(), 1);
    assert_eq!(0u8.sign(), 0);
}

proptest! {
    #[test]
    fn agrees_with_wide_arithmetic(a: i32, b: i32, n: u8) {
        let (wide_a, wide_b) = (a as i64, b as i64);
        if b != 0 {
            let quotient = (wide_a as f64 / wide_b as f64).floor() as i64;
            prop_assert_eq!(a.floor_divide(b), quotient as i32);
            prop_assert_eq!(a.remainder(b), (wide_a - quotient * wide_b) as i32);
        }
        prop_assert_eq!(a.power(n as i32), a.wrapping_pow(n as u32));
        prop_assert_eq!((a as u32).power(n as u32), (a as u32).wrapping_pow(n as u32));
        let wide_shift = if n < 32 { (wide_a << n) as i32 } else { 0 };
        prop_assert_eq!(a.shift_left(n as i32), wide_shift);
        prop_assert_eq!(a.shift_right(n as i32), (wide_a >> n.min(63)) as i32);
    }

    #[test]
    fn nothing_panics(a: i8, b: i8, c: u16, d: u16) {
        let _ = (a.floor_divide(b), a.remainder(b), a.fmod(b), a.power(b), a.shift_left(b), a.shift_right(b));
        let _ = (c.floor_divide(d), c.remainder(d), c.fmod(d), c.power(d), c.shift_left(d), c.shift_right(d));
    }
}
