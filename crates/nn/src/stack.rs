//! Equal layers in order, under the names that Python gives them.

use clematis_core::Tensor;
use clematis_core::tree::{Path, Role, Tree};
use std::ops::{Deref, DerefMut};

/// A list whose places are called `v0`, `v1`, … or by another word and a number.
#[derive(Clone, Debug)]
pub struct Stack<T> {
    /// What stands before the number.
    prefix: &'static str,
    items: Vec<T>,
}

impl<T> Stack<T> {
    /// Places `v0`, `v1`, ….
    pub fn new(items: Vec<T>) -> Self {
        Stack { prefix: "v", items }
    }

    /// Places with another word before the number.
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
