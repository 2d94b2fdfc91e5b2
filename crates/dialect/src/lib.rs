//! The dialects: how each framework implements the ops, as one plain Python file of functions named after the ops.
//!
//! Owns the files as text. It does not run them: the bridge does, and the source exporters read them.

/// A Python file of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The module name, without its package.
    pub name: &'static str,
    /// The source text.
    pub text: &'static str,
}

/// The dialect of one framework.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The name of the backend.
    pub name: &'static str,
    /// The Python package that must be installed.
    pub package: &'static str,
    /// The modules that the file of ops imports, in loading order.
    pub parts: &'static [File],
    /// The file of ops.
    pub ops: File,
}

macro_rules! file {
    ($name:literal) => {
        File {
            name: $name,
            text: include_str!(concat!("../dialects/", $name, ".py")),
        }
    };
}

/// All frameworks, in the order used on all pages.
pub const DIALECTS: &[Dialect] = &[
    Dialect {
        name: "numpy",
        package: "numpy",
        parts: &[file!("numpy_special"), file!("numpy_fast_path")],
        ops: file!("numpy"),
    },
    Dialect {
        name: "torch",
        package: "torch",
        parts: &[
            file!("torch_arithmetic"),
            file!("torch_special"),
            file!("torch_fast_path"),
        ],
        ops: file!("torch"),
    },
    Dialect {
        name: "jax",
        package: "jax",
        parts: &[file!("jax_special")],
        ops: file!("jax"),
    },
    Dialect {
        name: "tensorflow",
        package: "tensorflow",
        parts: &[
            file!("tensorflow_special"),
            file!("tensorflow_complex"),
            file!("tensorflow_indexing"),
            file!("tensorflow_kernels"),
            file!("tensorflow_control"),
        ],
        ops: file!("tensorflow"),
    },
];
