//! Small complex matrices, for the identities that factorisations satisfy.

use crate::array::{Array, C, epsilon};

/// A matrix in row-major order.
#[derive(Clone, Debug)]
pub struct Matrix {
    pub rows: usize,
    pub columns: usize,
    pub values: Vec<C>,
}

impl Matrix {
    pub fn from_fn(rows: usize, columns: usize, mut f: impl FnMut(usize, usize) -> C) -> Matrix {
        let mut values = Vec::with_capacity(rows * columns);
        for i in 0..rows {
            for j in 0..columns {
                values.push(f(i, j));
            }
        }
        Matrix {
            rows,
            columns,
            values,
        }
    }

    pub fn identity(n: usize) -> Matrix {
        Matrix::from_fn(n, n, |i, j| C::new(f64::from(u8::from(i == j)), 0.0))
    }

    pub fn diagonal(values: &[C], rows: usize, columns: usize) -> Matrix {
        Matrix::from_fn(rows, columns, |i, j| {
            if i == j { values[i] } else { C::new(0.0, 0.0) }
        })
    }

    pub fn at(&self, i: usize, j: usize) -> C {
        self.values[i * self.columns + j]
    }

    pub fn times(&self, other: &Matrix) -> Matrix {
        Matrix::from_fn(self.rows, other.columns, |i, j| {
            (0..self.columns)
                .map(|k| self.at(i, k) * other.at(k, j))
                .sum()
        })
    }

    pub fn adjoint(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |i, j| self.at(j, i).conj())
    }

    pub fn transposed(&self) -> Matrix {
        Matrix::from_fn(self.columns, self.rows, |i, j| self.at(j, i))
    }

    /// Elements on and below the k-th diagonal.
    pub fn lower(&self, k: i64) -> Matrix {
        Matrix::from_fn(self.rows, self.columns, |i, j| {
            if j as i64 - i as i64 <= k {
                self.at(i, j)
            } else {
                C::new(0.0, 0.0)
            }
        })
    }

    /// The Hermitian matrix given by a lower triangle.
    pub fn hermitian(&self) -> Matrix {
        Matrix::from_fn(self.rows, self.columns, |i, j| match i.cmp(&j) {
            std::cmp::Ordering::Greater => self.at(i, j),
            std::cmp::Ordering::Less => self.at(j, i).conj(),
            std::cmp::Ordering::Equal => C::new(self.at(i, i).re, 0.0),
        })
    }

    pub fn trace(&self) -> C {
        (0..self.rows.min(self.columns))
            .map(|i| self.at(i, i))
            .sum()
    }

    pub fn norm(&self) -> f64 {
        self.values.iter().map(|v| v.norm_sqr()).sum::<f64>().sqrt()
    }

    /// The determinant, by expansion along the first row.
    pub fn determinant(&self) -> C {
        if self.rows == 0 {
            return C::new(1.0, 0.0);
        }
        (0..self.columns)
            .map(|j| {
                let minor = Matrix::from_fn(self.rows - 1, self.columns - 1, |i, k| {
                    self.at(i + 1, if k < j { k } else { k + 1 })
                });
                let sign = if j % 2 == 0 { 1.0 } else { -1.0 };
                self.at(0, j) * minor.determinant() * sign
            })
            .sum()
    }

    /// The distance to another matrix, relative to its own size or 1.
    pub fn distance(&self, other: &Matrix) -> f64 {
        if (self.rows, self.columns) != (other.rows, other.columns) {
            return f64::INFINITY;
        }
        let gap = Matrix::from_fn(self.rows, self.columns, |i, j| {
            self.at(i, j) - other.at(i, j)
        });
        gap.norm() / other.norm().max(1.0)
    }
}

/// The matrices on the last two axes.
pub fn matrices(x: &Array) -> Vec<Matrix> {
    let (m, n) = (x.shape[x.rank() - 2], x.shape[x.rank() - 1]);
    let count: usize = x.shape[..x.rank() - 2].iter().product();
    (0..count)
        .map(|b| Matrix {
            rows: m,
            columns: n,
            values: x.values[b * m * n..(b + 1) * m * n]
                .iter()
                .map(|v| v.c())
                .collect(),
        })
        .collect()
}

/// The vectors on the last axis.
pub fn vectors(x: &Array) -> Vec<Vec<C>> {
    let n = x.shape[x.rank() - 1];
    let count: usize = x.shape[..x.rank() - 1].iter().product();
    (0..count)
        .map(|b| x.values[b * n..(b + 1) * n].iter().map(|v| v.c()).collect())
        .collect()
}

/// The maximum of errors in units of an array's precision; NaN counts as infinite.
pub fn worst(like: &Array, errors: impl IntoIterator<Item = f64>) -> f64 {
    errors
        .into_iter()
        .map(|e| if e.is_nan() { f64::INFINITY } else { e })
        .fold(0.0, f64::max)
        / epsilon(like.dtype)
}
