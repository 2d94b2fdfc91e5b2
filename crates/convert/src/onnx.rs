//! ONNX files as data: reading and writing the messages, tensors in them, and what they say as a program.
//!
//! What ONNX's ops mean is said in `import::onnx`; what becomes of ours in `export::onnx`.

pub mod wire;
pub mod proto;
pub mod narrow;
pub mod tensor;
pub mod program;
