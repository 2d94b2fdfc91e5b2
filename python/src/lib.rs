//! The Python extension module; everything is in `clematis-py`.

pub use clematis_py::_clematis;
