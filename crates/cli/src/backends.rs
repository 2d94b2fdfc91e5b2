//! `clematis backends`: lists the backends.

use comfy_table::{Table, presets};

use crate::error::Result;
use crate::terminal;

/// The valid values of `--backend`.
pub fn names() -> Vec<&'static str> {
    clematis::backend::all()
        .iter()
        .map(|backend| backend.name())
        .collect()
}

pub fn run() -> Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for backend in clematis::backend::all() {
        table.add_row([
            backend.name().to_string(),
            backend.version(),
            backend.about(),
        ]);
    }
    terminal::print_line(&table.trim_fmt())
}
