//! What the passes have to know of a framework whose compiler gets a program.

/// A target of `legalize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name of the framework.
    pub name: &'static str,
    /// The most nodes that a scan may become when it is unrolled; 0 for targets that compile loops or run them well.
    pub unrolled_nodes: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "numpy",
        unrolled_nodes: 0,
    },
    // torch.compile unrolls loops, and fuses within straight-line code only.
    Target {
        name: "torch",
        unrolled_nodes: 50_000,
    },
    Target {
        name: "jax",
        unrolled_nodes: 0,
    },
    Target {
        name: "tensorflow",
        unrolled_nodes: 0,
    },
];

impl Target {
    /// The target of this name.
    pub fn named(name: &str) -> Option<&'static Target> {
        TARGETS.iter().find(|target| target.name == name)
    }
}
