//! The `clematis` command line, as a function that any front can call.
//!
//! Owns the verbs and their options. One file per verb; exit code 0 for success,
//! 1 for a failure, 2 for a command line that was not understood.

mod backends;
mod check;
mod convert;
mod demo;
mod error;
mod folder;
mod inspect;
mod model;
mod npy;
mod ops;
mod run;
mod terminal;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Result;

/// Reads an array in numpy's file format, as `clematis run` does.
///
/// # Errors
/// What is wrong with the bytes, as a message.
pub fn parse_npy(bytes: &[u8]) -> std::result::Result<clematis::Host, String> {
    npy::parsed(Path::new("array"), bytes, bytes.len() as u64).map_err(|e| e.to_string())
}

/// Machine learning with a pure-Rust core.
///
/// Without a verb, `clematis` runs the demo.
#[derive(Debug, Parser)]
#[command(name = "clematis", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Train a small network on handwritten digits and write a page about it
    Demo(demo::Args),
    /// Check every op on every backend, and write the table of what works where
    Check(check::Args),
    /// Show what a safetensors file or an ONNX model holds
    Inspect(inspect::Args),
    /// Write a model in another format
    Convert(convert::Args),
    /// Run a model on numpy files
    Run(run::Args),
    /// List the backends that tensors can live on
    Backends,
    /// List every op with its meaning
    Ops(ops::Args),
}

/// Runs one command line. The first argument is the program's name, as in [`std::env::args_os`].
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run_code(args))
}

/// The same, with the exit code as a number, for fronts that are no process of their own.
pub fn run_code(args: impl IntoIterator<Item = OsString>) -> u8 {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.is_empty() {
        args.push("clematis".into());
    }
    if args.len() == 1 {
        args.push("demo".into());
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way as well. If not even the message can be printed, the code still tells.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match cli.verb.run() {
        Ok(()) => 0,
        Err(error) => {
            terminal::complain(&error.to_string());
            1
        }
    }
}

impl Verb {
    fn run(&self) -> Result<()> {
        match self {
            Verb::Demo(args) => demo::run(args),
            Verb::Check(args) => check::run(args),
            Verb::Inspect(args) => inspect::run(args),
            Verb::Convert(args) => convert::run(args),
            Verb::Run(args) => run::run(args),
            Verb::Backends => backends::run(),
            Verb::Ops(args) => ops::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        super::Cli::command().debug_assert();
    }
}
