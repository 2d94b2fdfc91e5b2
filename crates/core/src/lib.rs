//! The core of Clematis: one differentiable op set, and what is read from it.
//!
//! Owns types, ops, shape inference, tracing, derivatives and random numbers. Holds no kernel, names no framework,
//! does no I/O. Modules stand in the order of their dependencies; `op`, `attr`, `tensor`, `backend`, `graph` and
//! `trace` know each other, because a loop holds a graph, a graph holds constants and a tensor knows its home.

pub mod attr;
pub mod autodiff;
pub mod backend;
pub mod composite;
pub mod control;
pub mod dim;
pub mod dispatch;
pub mod dtype;
pub mod error;
pub mod expr;
pub mod graph;
pub mod host;
pub mod infer;
pub mod interpret;
pub mod op;
pub mod ops;
pub mod outs;
pub mod random;
pub mod shape;
pub mod spec;
pub mod tensor;
pub mod trace;
pub mod tree;

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
