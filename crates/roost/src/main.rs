//! The roost binary: command line, configuration, process life. Owns the exit code; everything that
//! has to do with messages is in the crates below.

mod certs;
mod cli;
mod commands;
mod config;
mod control;
mod doctor;
mod door;
mod exit;
mod heap;
mod http;
mod logs;
mod member;
mod node;
mod notify;
mod pages;
mod password;
mod remote;
mod secret;
mod serve;
mod split;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser as _;
use clap::error::ErrorKind;

use cli::Cli;
use exit::Failure;

fn main() -> ExitCode {
    let command = match Cli::try_parse() {
        Ok(cli) => cli.command,
        Err(error) => {
            // Help goes to standard output, complaints to standard error; if that is gone, so is
            // whoever could be told.
            let _ = error.print();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => Failure::Usage(String::new()).code(),
            };
        }
    };
    // Whatever a panic leaves behind is not looked at again: the process ends.
    match catch_unwind(AssertUnwindSafe(|| commands::run(command))) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => {
            complain(&failure);
            failure.code()
        }
        Err(_) => ExitCode::from(exit::CRASH),
    }
}

#[allow(clippy::print_stderr)] // The one place where errors are told to people.
fn complain(failure: &Failure) {
    if !matches!(failure, Failure::NoReader) {
        let message = format!("roost: {failure}");
        eprintln!("{}", commands::text::safe(&message));
    }
}
