//! The ONNX file format: protobuf messages, tensor data, and models as captured programs.
//!
//! Operators are imported in `import::onnx` and exported in `export::onnx`.

pub mod wire;
pub mod proto;
pub mod low_precision;
pub mod tensor;
pub mod program;
