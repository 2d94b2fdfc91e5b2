//! The core of Clematis: one differentiable op set, with everything that is derived from it.
//!
//! Owns types, ops, shape inference, tracing, derivatives and random numbers. Contains no kernels, names no
//! framework, does no I/O. Modules are listed in the order of their dependencies; `op`, `attr`, `tensor`, `backend`,
//! `graph`, `infer`, `trace` and `dispatch` refer to each other, because a loop holds a graph, a graph holds
//! constants and a tensor refers to its backend.

pub mod error;
pub mod interrupt;
pub mod limit;
mod lex;
pub mod dtype;
pub mod dim;
pub mod shape;
pub mod spec;
pub mod host;
pub mod precondition;
pub mod outs;
pub mod attr;
pub mod op;
pub mod tensor;
pub mod backend;
pub mod graph;
pub mod infer;
pub mod trace;
mod display;
pub mod dispatch;
pub mod expr;
pub mod ops;
pub mod tree;
pub mod composite;
pub mod interpret;
pub mod pass;
pub mod control;
pub mod random;
pub mod batch;
pub mod autodiff;
pub mod jit;

pub use backend::{Backend, Device, Executable, Support};
pub use dim::{Bindings, Dim};
pub use dtype::{Category, DType, Real, Scalar};
pub use error::{Error, Kind, Result};
pub use graph::{Body, Graph, Role};
pub use host::{Element, Host};
pub use op::{Composite, Op};
pub use outs::Outs;
pub use shape::{Axes, IntoShape, Shape};
pub use spec::Spec;
pub use tensor::{Repr, Tensor};
