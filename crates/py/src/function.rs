//! The functions that Python sees, by family. They parse arguments and call the core; nothing is computed here.

pub mod checkpoint;
pub mod conv;
pub mod cost;
pub mod create;
pub mod elementwise;
pub mod fourier;
pub mod index;
pub mod info;
pub mod layer;
pub mod linalg;
pub mod loss;
pub mod network;
pub mod neural;
pub mod optimise;
pub mod pool;
pub mod random;
pub mod reduce;
pub mod shape;
pub mod schedule;
pub mod step;
