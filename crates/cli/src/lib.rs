//! The `clematis` command line as a library function.
//!
//! Owns the subcommands and their options, one file each. Exit code 0 for success, 1 for a failure, 2 for an invalid
//! command line.

mod error;
mod terminal;
mod folder;
mod backends;
mod model;
mod npy;
mod convert;
mod inspect;
mod ops;
mod run;
mod check;
mod demo;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::error::Result;

/// Parses an array in numpy's file format, as `clematis run` does.
///
/// # Errors
/// A description of what is wrong with the bytes.
pub fn parse_npy(bytes: &[u8]) -> std::result::Result<clematis::Host, String> {
    npy::parsed(Path::new("array"), bytes, bytes.len() as u64).map_err(|e| e.to_string())
}

/// Machine learning with a pure-Rust core.
///
/// Without a subcommand, `clematis` runs the demo.
#[derive(Debug, Parser)]
#[command(name = "clematis", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Train a small network on handwritten digits and write a page about it
    Demo(demo::Args),
    /// Check every op on every backend, and write the support matrix
    Check(check::Args),
    /// Show the contents of a safetensors file or an ONNX model
    Inspect(inspect::Args),
    /// Write a model in another format
    Convert(convert::Args),
    /// Run a model on numpy files
    Run(run::Args),
    /// List the backends
    Backends,
    /// List every op with its description
    Ops(ops::Args),
}

/// Runs one command line. The first argument is the program's name, as in [`std::env::args_os`].
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run_code(args))
}

/// The same, with the exit code as a number, for callers that are not the process itself.
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
            // Help and version are reported this way too. If the message cannot be printed, the exit code remains.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match cli.command.run() {
        Ok(()) => 0,
        Err(error) => {
            terminal::print_error(&error.to_string());
            1
        }
    }
}

impl Command {
    fn run(&self) -> Result<()> {
        match self {
            Command::Demo(args) => demo::run(args),
            Command::Check(args) => check::run(args),
            Command::Inspect(args) => inspect::run(args),
            Command::Convert(args) => convert::run(args),
            Command::Run(args) => run::run(args),
            Command::Backends => backends::run(),
            Command::Ops(args) => ops::run(args),
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
