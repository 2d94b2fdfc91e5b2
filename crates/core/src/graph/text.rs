//! The text form of graphs. Printing and parsing round-trip.
//!
//! ```text
//! graph {
//!   input %0: f32[b,64] input "x"
//!   input %1: f32[64,10] param "w"
//!   %2: f32[b,10] = dot_general(%0, %1) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}
//!   %3: f32[b,10] = maximum(%2, 0.0:f32) @ "layers.0"
//!   return %3
//! }
//! ```
//!
//! `@` names the module of a node, `return %5 -> 1` means that the result is the new value of input 1, and a loop
//! body or branch is a graph in parameter position. Numbers carry their dtype; NaN loses sign and payload. Other
//! constant tensors (`const<f32[3]>`) and custom ops are printed for the reader only.

mod parse;
mod print;
mod value;

pub(crate) use print::line;
