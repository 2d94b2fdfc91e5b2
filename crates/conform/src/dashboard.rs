//! The tables of the support matrix.

use serde::{Deserialize, Serialize};

/// A table of the support matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dashboard {
    /// Layers as functions.
    Layers,
    /// Derivatives of ops.
    Gradients,
    /// Random numbers.
    Random,
    /// Modules with parameters and state.
    Modules,
    /// Importers and exporters.
    Converters,
    /// Functions with a derivative of their own.
    CustomGradients,
    /// Values of ops.
    Ops,
    /// The Array API's own functions.
    ArrayApi,
}

impl Dashboard {
    /// All tables.
    pub const ALL: [Dashboard; 8] = [
        Dashboard::Layers,
        Dashboard::Gradients,
        Dashboard::Random,
        Dashboard::Modules,
        Dashboard::Converters,
        Dashboard::CustomGradients,
        Dashboard::Ops,
        Dashboard::ArrayApi,
    ];

    /// The name in files and file names.
    pub fn name(self) -> &'static str {
        match self {
            Dashboard::Layers => "layers",
            Dashboard::Gradients => "gradients",
            Dashboard::Random => "random",
            Dashboard::Modules => "modules",
            Dashboard::Converters => "converters",
            Dashboard::CustomGradients => "custom-gradients",
            Dashboard::Ops => "ops",
            Dashboard::ArrayApi => "array-api",
        }
    }

    /// The title on pages.
    pub fn title(self) -> &'static str {
        match self {
            Dashboard::Layers => "Layers",
            Dashboard::Gradients => "Gradients",
            Dashboard::Random => "Random numbers",
            Dashboard::Modules => "Modules",
            Dashboard::Converters => "Converters",
            Dashboard::CustomGradients => "Custom gradients",
            Dashboard::Ops => "Ops",
            Dashboard::ArrayApi => "Array API",
        }
    }
}
