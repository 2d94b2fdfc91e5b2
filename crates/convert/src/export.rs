//! Graphs in the formats of others.

pub mod onnx;
