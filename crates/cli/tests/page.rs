//! Tests the page of `clematis check` in headless Chromium.
//!
//! Skipped with a message if Chromium is not installed. A copy of the page gets a script that clicks and inspects;
//! its findings are read from the document that the browser prints.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clematis::op::Unary;
use clematis::tensor::Data;
use clematis::{Backend, Device, Host, Op, Outs, Result, Spec, Support, Tensor};

/// The engine under another name, with a fault.
struct Odd;

impl Backend for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }
    fn support(&self, op: &Op) -> Support {
        clematis::native::backend().support(op)
    }
    fn execute(&self, op: &Op, inputs: &[&Tensor], out: &[Spec]) -> Result<Outs<Data>> {
        let op = match op {
            Op::Unary(Unary::Sinh) => &Op::Unary(Unary::Tan),
            other => other,
        };
        clematis::native::backend().execute(op, inputs, out)
    }
    fn from_host(&self, host: Host, device: Device) -> Result<Data> {
        clematis::native::backend().from_host(host, device)
    }
    fn to_host(&self, x: &Tensor) -> Result<Host> {
        clematis::native::backend().to_host(x)
    }
    fn version(&self) -> String {
        "9.8.7".into()
    }
}

/// Runs `clematis check` in this process, which has one more backend than the binary.
fn check(out: &Path, args: &[&str]) -> ExitCode {
    let out = out.to_string_lossy();
    let words = ["clematis", "check", "--out", &out];
    clematis_cli::run(words.iter().chain(args).map(Into::into))
}

fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let places = folders
        .iter()
        .flat_map(|folder| names.map(|name| folder.join(name)));
    places.into_iter().find(|place| place.is_file())
}

const CLICKS: &str = include_str!("page.js");

#[test]
fn a_browser_clicks_through_the_page() {
    let Some(chromium) = chromium() else {
        println!("no chromium is installed: the page was not clicked through");
        return;
    };
    clematis::backend::register(Odd).expect("a new name");
    let folder = tempfile::tempdir().expect("a folder");
    let rows = folder.path().join("rows.jsonl");
    let line = r#"{"dashboard":"layers","row":"test_conv2d","backend":"odd","state":"passed"}"#;
    std::fs::write(&rows, line).expect("written");
    check(folder.path(), &["tanh"]);
    let code = check(folder.path(), &["sinh", "--rows", &rows.to_string_lossy()]);
    assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::FAILURE));

    let page = std::fs::read_to_string(folder.path().join("index.html")).expect("a page");
    let clicked = folder.path().join("clicked.html");
    let text = page.replacen("</body>", &format!("<script>{CLICKS}</script></body>"), 1);
    std::fs::write(&clicked, text).expect("written");
    for size in ["1400,1000", "400,900"] {
        let out = Command::new(&chromium)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--virtual-time-budget=5000",
                "--dump-dom",
            ])
            .arg(format!("--window-size={size}"))
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .arg(format!("file://{}", clicked.display()))
            .output()
            .expect("it runs");
        let document = String::from_utf8_lossy(&out.stdout);
        let title = document
            .split_once("<title>")
            .and_then(|(_, rest)| rest.split_once("</title>"));
        let title = title.map_or("no title", |(title, _)| title);
        assert_eq!(
            title,
            "ALL FINE",
            "at {size}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}
