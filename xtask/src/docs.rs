//! Builds the API documentation and the generated pages.

use crate::{Outcome, shell};

/// A page under `docs/` and the `clematis` arguments that print it.
struct Page {
    path: &'static str,
    args: &'static [&'static str],
}

/// Generated pages; a test of the command line fails when one is stale.
const PAGES: &[Page] = &[Page {
    path: "docs/ops.md",
    args: &["ops", "--markdown"],
}];

pub fn run() -> Outcome {
    let mut doc = shell::cargo(&["doc", "--workspace", "--no-deps"]);
    // Broken links in the documentation are errors.
    doc.env("RUSTDOCFLAGS", "-D warnings");
    shell::run(doc)?;
    for page in PAGES {
        write(page)?;
    }
    println!("docs: target/doc, and {} generated pages", PAGES.len());
    Ok(())
}

fn write(page: &Page) -> Result<(), String> {
    let mut args = vec![
        "run",
        "--quiet",
        "-p",
        "clematis-cli",
        "--bin",
        "clematis",
        "--",
    ];
    args.extend(page.args);
    let text = shell::output(shell::cargo(&args))?;
    let path = shell::root().join(page.path);
    std::fs::write(&path, text).map_err(|error| format!("{} cannot be written: {error}", page.path))
}
