//! How frameworks speak: one plain Python file each, of functions named after the ops.
//!
//! Owns the files as text. It does not run them: the bridge does, and printers of source read them.

/// One Python file of a dialect.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// The module's name, without its package.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// How one framework says the ops.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// The backend's name.
    pub name: &'static str,
    /// The Python package that must be there.
    pub package: &'static str,
    /// What the file of ops imports from its own kind, in the order of loading.
    pub parts: &'static [File],
    /// The ops.
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

/// Every framework, in the order of every page.
pub const DIALECTS: &[Dialect] = &[
    Dialect {
        name: "numpy",
        package: "numpy",
        parts: &[file!("numpy_special"), file!("numpy_plain")],
        ops: file!("numpy"),
    },
    Dialect {
        name: "torch",
        package: "torch",
        parts: &[
            file!("torch_arithmetic"),
            file!("torch_special"),
            file!("torch_plain"),
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
