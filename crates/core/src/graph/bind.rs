//! Substitutes numbers for the symbolic dimensions of a graph.
//!
//! A body shares the symbolic dimensions of the enclosing graph.

use crate::attr::Attr;
use crate::dim::{Bindings, Dim};
use crate::error::Result;
use crate::graph::text::line;
use crate::graph::{Body, Graph, Node};
use std::collections::BTreeSet;
use std::sync::Arc;

impl Graph {
    /// The names of all symbolic dimensions in the graph, sorted.
    pub fn symbols(&self) -> Vec<Arc<str>> {
        let mut names = BTreeSet::new();
        self.each_size(&mut |dim| names.extend(dim.symbols()));
        names.into_iter().collect()
    }

    /// Whether the graph has a symbolic dimension.
    pub fn is_symbolic(&self) -> bool {
        let mut found = false;
        self.each_size(&mut |dim| found |= dim.is_symbolic());
        found
    }

    fn each_size(&self, see: &mut dyn FnMut(Dim)) {
        let sizes = self.values.iter().flat_map(|spec| spec.shape.dims());
        sizes.for_each(|dim| see(*dim));
        for node in &self.nodes {
            for (_, attr) in node.op.attrs() {
                each_size_of(&attr, see);
            }
        }
    }

    /// Substitutes numbers for all symbolic dimensions; an error names a missing one.
    pub fn bind(&self, bindings: &Bindings) -> Result<Graph> {
        let mut bound = self.clone();
        for (id, spec) in bound.values.iter_mut().enumerate() {
            spec.shape = spec
                .shape
                .bind(bindings)
                .map_err(|e| e.note(format!("in %{id}: {spec}")))?;
        }
        for (node, old) in bound.nodes.iter_mut().zip(&self.nodes) {
            *node = Node {
                op: old
                    .op
                    .bind(bindings)
                    .map_err(|e| e.note(format!("in `{}`", line(self, old))))?,
                ..old.clone()
            };
        }
        Ok(bound)
    }
}

impl Body {
    /// Substitutes numbers for all symbolic dimensions; returns itself if it has none.
    pub fn bind(&self, bindings: &Bindings) -> Result<Body> {
        if self.is_symbolic() {
            Graph::bind(self, bindings).map(Body::new)
        } else {
            Ok(self.clone())
        }
    }
}

fn each_size_of(attr: &Attr, see: &mut dyn FnMut(Dim)) {
    match attr {
        Attr::Dim(dim) => see(*dim),
        Attr::List(list) => list.iter().for_each(|attr| each_size_of(attr, see)),
        Attr::Graph(body) => body.each_size(see),
        Attr::Bool(_)
        | Attr::Int(_)
        | Attr::UInt(_)
        | Attr::Float(_)
        | Attr::Complex(..)
        | Attr::Word(_)
        | Attr::Text(_) => {}
    }
}
