//! `clematis ops`: lists every op with its description, for the terminal or as the page `docs/ops.md`.

use clematis::op::{Binary, Compare, Composite, Gives, Op, Takes, Unary};
use comfy_table::{Table, presets};

use crate::error::Result;
use crate::terminal;

/// The options of `ops`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print a Markdown page
    #[arg(long)]
    markdown: bool,
}

struct Row {
    name: &'static str,
    takes: String,
    meaning: &'static str,
}

struct Section {
    title: &'static str,
    about: &'static str,
    rows: Vec<Row>,
}

fn elementwise(name: &'static str, takes: Takes, gives: Gives, meaning: &'static str) -> Row {
    let gives = match gives {
        Gives::Same => "",
        Gives::Bool => "; gives bool",
        Gives::Real => "; gives the real type",
        Gives::Complex => "; gives the complex type",
    };
    let takes = format!("{}{gives}", takes.describe());
    Row {
        name,
        takes,
        meaning,
    }
}

fn sections() -> Vec<Section> {
    let unary = Unary::ALL
        .iter()
        .map(|u| elementwise(u.name(), u.takes(), u.gives(), u.meaning()));
    let binary = Binary::ALL
        .iter()
        .map(|b| elementwise(b.name(), b.takes(), b.gives(), b.meaning()));
    let compare = Compare::ALL
        .iter()
        .map(|c| elementwise(c.name(), c.takes(), c.gives(), c.meaning()));
    let all = Op::all();
    let families = Unary::ALL.len() + Binary::ALL.len() + Compare::ALL.len();
    let plain = |(name, meaning): &(&'static str, &'static str)| Row {
        name,
        takes: String::new(),
        meaning,
    };
    let structural = all[families..all.len() - Composite::COUNT]
        .iter()
        .map(plain);
    let composites = all[all.len() - Composite::COUNT..].iter().map(plain);
    vec![
        Section {
            title: "Unary",
            about: "Elementwise with one operand.",
            rows: unary.collect(),
        },
        Section {
            title: "Binary",
            about: "Elementwise with two operands of one dtype, which broadcast.",
            rows: binary.collect(),
        },
        Section {
            title: "Comparisons",
            about: "Elementwise comparison of two operands of one dtype, which broadcast.",
            rows: compare.collect(),
        },
        Section {
            title: "Structure",
            about: "All other primitives.",
            rows: structural.collect(),
        },
        Section {
            title: "Composites",
            about: "Ops with an expansion into the ops above; a backend may implement them directly.",
            rows: composites.collect(),
        },
    ]
}

pub fn run(args: &Args) -> Result<()> {
    terminal::print_line(if args.markdown { markdown() } else { text() }.trim_end())
}

fn markdown() -> String {
    let sections = sections();
    let count: usize = sections.iter().map(|s| s.rows.len()).sum();
    let mut out = format!(
        "# Ops\n\nWritten by `cargo xtask docs` from the op tables: {count} ops. How to add one is described in \
         [CONTRIBUTING.md](../CONTRIBUTING.md).\n"
    );
    for section in sections {
        let takes = section.rows.iter().any(|row| !row.takes.is_empty());
        out += &format!("\n## {}\n\n{}\n\n", section.title, section.about);
        out += if takes {
            "| op | meaning | takes |\n|---|---|---|\n"
        } else {
            "| op | meaning |\n|---|---|\n"
        };
        for row in &section.rows {
            let meaning = row.meaning.replace('|', "\\|");
            out += &match takes {
                true => format!("| `{}` | {meaning} | {} |\n", row.name, row.takes),
                false => format!("| `{}` | {meaning} |\n", row.name),
            };
        }
    }
    out
}

fn text() -> String {
    let mut out = String::new();
    for section in sections() {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for row in section.rows {
            table.add_row([row.name, row.meaning]);
        }
        out += &format!(
            "{}: {}\n{}\n\n",
            section.title,
            section.about,
            table.trim_fmt()
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_in_docs_is_fresh() {
        let page = include_str!("../../../docs/ops.md");
        assert!(
            page.trim_end() == markdown().trim_end(),
            "docs/ops.md is stale: run `cargo xtask docs`"
        );
    }

    #[test]
    fn every_op_has_a_row() {
        let page = markdown();
        for (name, _) in Op::all() {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
