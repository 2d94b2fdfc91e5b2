//! A list of layers of one type, with the same paths as in Python.

use clematis_core::Tensor;
use clematis_core::tree::{Path, Role, Tree};
use std::ops::{Deref, DerefMut};

/// A list whose items are named `v0`, `v1`, … or with another prefix.
#[derive(Clone, Debug)]
pub struct Stack<T> {
    /// The prefix of the names.
    prefix: &'static str,
    items: Vec<T>,
}

impl<T> Stack<T> {
    /// Names items `v0`, `v1`, ….
    pub fn new(items: Vec<T>) -> Self {
        Stack { prefix: "v", items }
    }

    /// Names items with another prefix.
    pub fn named(prefix: &'static str, items: Vec<T>) -> Self {
        Stack { prefix, items }
    }
}

impl<T> Deref for Stack<T> {
    type Target = Vec<T>;
    fn deref(&self) -> &Vec<T> {
        &self.items
    }
}

impl<T> DerefMut for Stack<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.items
    }
}

impl<T: Tree> Tree for Stack<T> {
    fn visit(&self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &Tensor)) {
        for (i, x) in self.items.iter().enumerate() {
            at.within(format_args!("{}{i}", self.prefix), |at| x.visit(at, f));
        }
    }

    fn visit_mut(&mut self, at: &mut Path, f: &mut dyn FnMut(&Path, Role, &mut Tensor)) {
        for (i, x) in self.items.iter_mut().enumerate() {
            at.within(format_args!("{}{i}", self.prefix), |at| x.visit_mut(at, f));
        }
    }
}
