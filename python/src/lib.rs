//! The Python extension module; everything is in `clematis-py`.

mod allocator;

/// Tensors are many and small; the system's allocator takes twice the time for them.
#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

pub use clematis_py::_clematis;
