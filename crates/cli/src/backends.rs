//! `clematis backends`: where tensors can live.

use comfy_table::{Table, presets};

use crate::error::Result;
use crate::terminal;

/// The names that `--backend` takes, and what each is.
pub const BACKENDS: &[(&str, &str)] = &[("native", "the built-in CPU engine, pure Rust")];

pub fn run() -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for (name, about) in BACKENDS {
        table.add_row([*name, *about]);
    }
    terminal::say(&table.trim_fmt())
}
