//! The Python extension module; everything is in `clematis-py`.

/// Tensors are many and small; the system's allocator takes twice the time for them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub use clematis_py::_clematis;
