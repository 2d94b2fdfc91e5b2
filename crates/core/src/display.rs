//! Formats tensors for people.

use crate::dtype::Scalar;
use crate::host::Host;
use crate::tensor::{Repr, Tensor};
use std::fmt;

/// Above this number of elements only the ends of each axis are shown.
const WHOLE: usize = 1000;
const ENDS: usize = 3;

impl fmt::Display for Tensor {
    /// Values in nested brackets, then dtype and shape; a tracer shows dtype and shape alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = match self.lowest().repr() {
            Repr::Traced { .. } => None,
            _ => self.to_host().ok(),
        };
        let Some(host) = host else {
            return write!(f, "{} (traced)", self.spec());
        };
        let sizes = self.shape().sizes();
        let shown = Shown {
            host: &host,
            sizes: &sizes,
            cut: self.shape().count() > WHOLE,
        };
        let width = shown
            .places(0, 0)
            .iter()
            .map(|&i| shown.text(i).len())
            .max()
            .unwrap_or(0);
        shown.write(f, 0, 0, width)?;
        write!(f, " {}", self.spec())
    }
}

struct Shown<'a> {
    host: &'a Host,
    sizes: &'a [usize],
    cut: bool,
}

impl Shown<'_> {
    /// The indices along an axis that are shown; `None` stands for the ellipsis.
    fn along(&self, axis: usize) -> Vec<Option<usize>> {
        let n = self.sizes[axis];
        if !self.cut || n <= 2 * ENDS {
            return (0..n).map(Some).collect();
        }
        (0..ENDS)
            .map(Some)
            .chain([None])
            .chain((n - ENDS..n).map(Some))
            .collect()
    }

    fn step(&self, axis: usize) -> usize {
        self.sizes[axis + 1..].iter().product()
    }

    /// The row-major positions of all elements shown below one index.
    fn places(&self, axis: usize, start: usize) -> Vec<usize> {
        if axis == self.sizes.len() {
            return vec![start];
        }
        let shown = self.along(axis).into_iter().flatten();
        shown
            .flat_map(|i| self.places(axis + 1, start + i * self.step(axis)))
            .collect()
    }

    fn text(&self, place: usize) -> String {
        match self.host.get(place) {
            Ok(Scalar::Float(v)) => number(v.0),
            Ok(Scalar::Complex(re, im)) => {
                let sign = if im.0.is_sign_negative() { '-' } else { '+' };
                format!("{}{sign}{}i", number(re.0), number(im.0.abs()))
            }
            Ok(other) => other.to_string(),
            Err(_) => "?".into(),
        }
    }

    fn write(
        &self,
        f: &mut fmt::Formatter<'_>,
        axis: usize,
        start: usize,
        width: usize,
    ) -> fmt::Result {
        if axis == self.sizes.len() {
            return write!(f, "{:>width$}", self.text(start));
        }
        f.write_str("[")?;
        let innermost = axis + 1 == self.sizes.len();
        for (n, i) in self.along(axis).into_iter().enumerate() {
            if n > 0 {
                f.write_str(",")?;
                if innermost {
                    f.write_str(" ")?;
                } else {
                    write!(f, "\n{:1$}", "", axis + 1)?;
                }
            }
            match i {
                Some(i) => self.write(f, axis + 1, start + i * self.step(axis), width)?,
                None => f.write_str("…")?,
            }
        }
        f.write_str("]")
    }
}

/// At most six significant digits, in as few characters as possible.
fn number(v: f64) -> String {
    if v == 0.0 || !v.is_finite() {
        return format!("{v:?}");
    }
    let size = v.abs();
    if !(1e-4..1e7).contains(&size) {
        return format!("{v:.5e}");
    }
    let decimals = (5 - size.log10().floor() as i32).max(1) as usize;
    let text = format!("{v:.decimals$}");
    let short = text.trim_end_matches('0');
    if short.ends_with('.') {
        format!("{short}0")
    } else {
        short.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_short() {
        for (v, want) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.333333"),
            (123456.7, "123456.7"),
            (1e-9, "1.00000e-9"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(number(v), want);
        }
    }
}
