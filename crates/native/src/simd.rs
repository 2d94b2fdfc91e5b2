//! Vector instructions, chosen at run time.
//!
//! Owns the detection of what the processor can do and the macro that compiles one plain loop
//! several times, once per instruction set. Nothing else in the crate names a processor.
//! The register-tiled kernel under matrix-shaped work is in [`tile`].
//!
//! The level is found once and kept. `CLEMATIS_SIMD=base|avx2|avx512` lowers it, which lets a test
//! on a new machine run the code of an old one; it never raises it beyond what is there.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, Ordering};

/// An instruction set that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// What every processor of the target has: SSE2 on x86-64, NEON on aarch64.
    Base = 1,
    /// 256-bit vectors with fused multiply-add.
    Avx2 = 2,
    /// 512-bit vectors.
    Avx512 = 3,
}

impl Level {
    /// The name that `CLEMATIS_SIMD` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Base => "base",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    fn parse(text: &str) -> Option<Level> {
        [Level::Base, Level::Avx2, Level::Avx512]
            .into_iter()
            .find(|level| level.name() == text)
    }

    /// What this processor has, whatever the environment asks for.
    pub fn detected() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            // The same lists as in the `target_feature` attributes below: a feature enabled there
            // and not tested here would be undefined behaviour on some processor.
            let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2");
            let avx512 = has!("avx512f")
                && has!("avx512bw")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512cd");
            if avx2 && avx512 {
                return Level::Avx512;
            }
            if avx2 {
                return Level::Avx2;
            }
        }
        Level::Base
    }
}

/// 0 until the first call of [`level`].
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level that loops run at on this machine.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        3 => Level::Avx512,
        2 => Level::Avx2,
        1 => Level::Base,
        _ => find_level(),
    }
}

#[cold]
fn find_level() -> Level {
    let asked = std::env::var("CLEMATIS_SIMD")
        .ok()
        .and_then(|text| Level::parse(text.trim()));
    let detected = Level::detected();
    let level = asked.map_or(detected, |asked| asked.min(detected));
    // Two threads may both get here; they store the same value.
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// Compiles a loop for each [`Level`] and calls the best one at run time.
///
/// The function is written as usual, but its generic parameters stand in brackets and a `where`
/// clause in `where [..]`. The body is plain safe Rust that the compiler vectorises by itself, so
/// write it as it likes it: slices cut to one common length, no early exit, closures passed as
/// generic parameters. Everything the body calls must be small or `#[inline(always)]`, since only
/// inlined code is compiled with the wider instructions. Arguments are plain names (no patterns,
/// no `mut`, no `self`), and generic parameters must follow from the arguments.
///
/// A call costs about two nanoseconds, so put the macro around a loop over a row or more, not
/// around the work on one element. `a * b + c` stays two roundings at every level; `mul_add` is one
/// instruction from [`Level::Avx2`] on but a slow library call below it.
///
/// ```ignore
/// multiversion! {
///     /// `out[i] = f(x[i], y[i])`
///     pub(crate) fn zip[T: Copy, F: Fn(T, T) -> T](out: &mut [T], x: &[T], y: &[T], f: F) {
///         for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
///             *out = f(x, y);
///         }
///     }
/// }
/// zip(&mut out, &x, &y, |x, y| x + y);
/// ```
macro_rules! multiversion {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $([$($gen:tt)*])? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)?
        $(where [$($bound:tt)*])?
        $body:block
    )+) => {$(
        $(#[$meta])*
        #[inline]
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? {
            #[inline(always)]
            fn body $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
            fn avx512 $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi2")]
            fn avx2 $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? {
                body($($arg),*)
            }

            match $crate::simd::level() {
                // SAFETY: `level` returns `Avx512` only where the processor has these features.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above, for `Avx2`.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    )+};
}
pub(crate) use multiversion;

#[cfg(test)]
mod tests {
    use super::*;

    multiversion! {
        fn zip[T: Copy, F: Fn(T, T) -> T](out: &mut [T], x: &[T], y: &[T], f: F) {
            for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                *out = f(x, y);
            }
        }

        fn total(x: &[f32]) -> f32 {
            let mut lanes = [0f32; 16];
            let chunks = x.chunks_exact(16);
            let rest: f32 = chunks.remainder().iter().sum();
            for chunk in chunks {
                for (lane, x) in lanes.iter_mut().zip(chunk) {
                    *lane += x;
                }
            }
            rest + lanes.iter().sum::<f32>()
        }

        fn largest[T](x: &[T]) -> Option<T> where [T: Copy + PartialOrd] {
            x.iter().copied().reduce(|a, b| if b > a { b } else { a })
        }
    }

    #[test]
    fn a_multiversioned_loop_gives_what_the_plain_loop_gives() {
        let x: Vec<f32> = (0..1000).map(|i| i as f32 * 0.5).collect();
        let y: Vec<f32> = (0..1000).map(|i| 1.0 - i as f32).collect();
        let mut out = vec![0.0; 1000];
        zip(&mut out, &x, &y, |x, y| x * y);
        assert!((0..1000).all(|i| out[i] == x[i] * y[i]));
        assert_eq!(total(&x), 999.0 * 1000.0 / 4.0);
        assert_eq!(largest(&y), Some(1.0));
        assert_eq!(largest::<i8>(&[]), None);
    }

    #[test]
    fn a_level_is_parsed_by_its_name_and_never_exceeds_the_processor() {
        for level in [Level::Base, Level::Avx2, Level::Avx512] {
            assert_eq!(Level::parse(level.name()), Some(level));
        }
        assert_eq!(Level::parse("sse9"), None);
        assert!(level() <= Level::detected());
    }
}
