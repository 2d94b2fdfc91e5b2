//! Graphs in the formats of others, in a file of our own, as Python.

pub mod onnx;
pub mod python;
pub mod model;
