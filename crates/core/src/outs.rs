//! One or several results. Nearly every op has one, and that case does not allocate.

/// One or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outs<T> {
    /// The common case.
    One(T),
    /// Any other number.
    Many(Vec<T>),
}

impl<T> Outs<T> {
    /// All results.
    pub fn as_slice(&self) -> &[T] {
        match self {
            Outs::One(t) => std::slice::from_ref(t),
            Outs::Many(v) => v,
        }
    }

    /// All results, owned.
    pub fn into_vec(self) -> Vec<T> {
        match self {
            Outs::One(t) => vec![t],
            Outs::Many(v) => v,
        }
    }

    /// The number of results.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The only result; `None` if there is not exactly one.
    pub fn one(self) -> Option<T> {
        match self {
            Outs::One(t) => Some(t),
            Outs::Many(mut v) if v.len() == 1 => v.pop(),
            Outs::Many(_) => None,
        }
    }

    /// Drops all results but the first `count`.
    pub fn truncate(&mut self, count: usize) {
        if let Outs::Many(v) = self {
            v.truncate(count);
        }
    }

    /// Maps each result.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Outs<U> {
        match self {
            Outs::One(t) => Outs::One(f(t)),
            Outs::Many(v) => Outs::Many(v.into_iter().map(f).collect()),
        }
    }
}

impl<T> FromIterator<T> for Outs<T> {
    fn from_iter<I: IntoIterator<Item = T>>(iter: I) -> Self {
        Outs::Many(iter.into_iter().collect())
    }
}
