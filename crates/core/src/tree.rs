//! Trees (pytrees): values that contain tensors at named paths.
//!
//! Owns paths, roles of leaves and traversal. `#[derive(Tree)]` implements the traversal for structs and enums.

use crate::error::Result;
pub use crate::graph::Role;
use crate::tensor::Tensor;
use crate::{bail, ensure};
use std::collections::BTreeMap;
use std::fmt;

/// The path of a leaf: names from the root inwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Vec<String>);

impl Path {
    /// Runs `f` with one more name on the path.
    pub fn within<R>(&mut self, name: impl ToString, f: impl FnOnce(&mut Self) -> R) -> R {
        self.0.push(name.to_string());
        let out = f(self);
        self.0.pop();
        out
    }

    /// The names.
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// A value that contains tensors at named paths. Both traversals visit the leaves in the same order.
pub trait Tree {
    /// Visits every leaf.
    fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor));
    /// Visits every leaf mutably.
    fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor));
}

impl Tree for Tensor {
    fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor)) {
        f(at, Role::Param, self);
    }
    fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
        f(at, Role::Param, self);
    }
}

/// A leaf that is saved but not trained, such as running statistics.
#[derive(Clone, Debug)]
pub struct State(pub Tensor);

impl Tree for State {
    fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor)) {
        f(at, Role::State, &self.0);
    }
    fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
        f(at, Role::State, &mut self.0);
    }
}

macro_rules! walks {
    ($self:ident, $at:ident, $f:ident, $shared:expr, $unique:expr) => {
        fn visit(&$self, $at: &mut Path, $f: &mut dyn FnMut(&Path, Role, &Tensor)) {
            $shared
        }
        fn visit_mut(&mut $self, $at: &mut Path, $f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
            $unique
        }
    };
}

impl Tree for () {
    walks!(self, _at, _f, {}, {});
}
impl<T: Tree> Tree for Option<T> {
    walks!(
        self,
        at,
        f,
        self.iter().for_each(|x| x.visit(at, f)),
        self.iter_mut().for_each(|x| x.visit_mut(at, f))
    );
}
impl<T: Tree> Tree for Box<T> {
    walks!(
        self,
        at,
        f,
        (**self).visit(at, f),
        (**self).visit_mut(at, f)
    );
}
impl<T: Tree> Tree for Vec<T> {
    walks!(
        self,
        at,
        f,
        for (i, x) in self.iter().enumerate() {
            at.within(i, |at| x.visit(at, f));
        },
        for (i, x) in self.iter_mut().enumerate() {
            at.within(i, |at| x.visit_mut(at, f));
        }
    );
}
impl<T: Tree, const N: usize> Tree for [T; N] {
    walks!(
        self,
        at,
        f,
        for (i, x) in self.iter().enumerate() {
            at.within(i, |at| x.visit(at, f));
        },
        for (i, x) in self.iter_mut().enumerate() {
            at.within(i, |at| x.visit_mut(at, f));
        }
    );
}
impl<T: Tree> Tree for BTreeMap<String, T> {
    walks!(
        self,
        at,
        f,
        for (name, x) in self {
            at.within(name, |at| x.visit(at, f));
        },
        for (name, x) in self {
            at.within(name, |at| x.visit_mut(at, f));
        }
    );
}
macro_rules! tuples {
    ($(($($name:ident $index:tt),+))*) => { $(
        impl<$($name: Tree),+> Tree for ($($name,)+) {
            walks!(self, at, f,
                { $(at.within($index, |at| self.$index.visit(at, f));)+ },
                { $(at.within($index, |at| self.$index.visit_mut(at, f));)+ }
            );
        }
    )* };
}
tuples! { (A 0) (A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3) (A 0, B 1, C 2, D 3, E 4) (A 0, B 1, C 2, D 3, E 4, F 5) }

/// All leaves with path and role, in order.
pub fn entries(tree: &(impl Tree + ?Sized)) -> Vec<(String, Role, Tensor)> {
    let mut out = Vec::new();
    tree.visit(&mut Path::default(), &mut |at, role, x| {
        out.push((at.to_string(), role, x.clone()))
    });
    out
}

/// All leaves, in order.
pub fn leaves(tree: &(impl Tree + ?Sized)) -> Vec<Tensor> {
    let mut out = Vec::new();
    tree.visit(&mut Path::default(), &mut |_, _, x| out.push(x.clone()));
    out
}

/// All paths, in order.
pub fn paths(tree: &(impl Tree + ?Sized)) -> Vec<String> {
    let mut out = Vec::new();
    tree.visit(&mut Path::default(), &mut |at, _, _| {
        out.push(at.to_string())
    });
    out
}

/// Replaces the leaves of a tree; an error if their number differs.
pub fn replace(tree: &mut (impl Tree + ?Sized), leaves: &[Tensor]) -> Result<()> {
    let count = self::leaves(tree).len();
    ensure!(
        count == leaves.len(),
        Value,
        "tree: expected {count} leaves, got {}",
        leaves.len()
    );
    let mut next = leaves.iter();
    tree.visit_mut(&mut Path::default(), &mut |_, _, x| {
        if let Some(new) = next.next() {
            *x = new.clone();
        }
    });
    Ok(())
}

/// A tree of the same structure with other leaves.
pub fn with_leaves<T: Tree + Clone>(tree: &T, leaves: &[Tensor]) -> Result<T> {
    let mut out = tree.clone();
    replace(&mut out, leaves)?;
    Ok(out)
}

/// Maps each leaf; an error names the leaf's path.
pub fn map<T: Tree + Clone>(tree: &T, mut f: impl FnMut(&Tensor) -> Result<Tensor>) -> Result<T> {
    let mut out = tree.clone();
    let mut failed = None;
    out.visit_mut(&mut Path::default(), &mut |at, _, x| {
        if failed.is_some() {
            return;
        }
        match f(x) {
            Ok(new) => *x = new,
            Err(e) => failed = Some(e.note(format!("at {at}"))),
        }
    });
    failed.map_or(Ok(out), Err)
}

/// Maps pairs of leaves of two trees; an error if their structures differ.
pub fn map2<T: Tree + Clone>(
    a: &T,
    b: &T,
    mut f: impl FnMut(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<T> {
    let (left, right) = (paths(a), paths(b));
    if left != right {
        let odd = left.iter().zip(&right).find(|(x, y)| x != y);
        match odd {
            Some((x, y)) => bail!(Value, "tree: structures differ at `{x}` and `{y}`"),
            None => bail!(
                Value,
                "tree: expected structures with equally many leaves, got {} and {}",
                left.len(),
                right.len()
            ),
        }
    }
    let right = leaves(b);
    let mut next = right.iter();
    map(a, |x| match next.next() {
        Some(y) => f(x, y),
        None => bail!(Internal, "tree: a leaf is missing"),
    })
}
