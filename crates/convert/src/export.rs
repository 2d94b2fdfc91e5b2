//! Exports graphs: to ONNX, to a safetensors file with the program, and to Python.

pub mod onnx;
pub mod python;
pub mod model;
