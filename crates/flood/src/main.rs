//! The load generator as a program of its own; `roost flood` is the same command.

use std::process::ExitCode;

use clap::Parser;

/// A load generator for XMPP servers.
#[derive(Parser)]
#[command(name = "flood", version)]
struct Command {
    #[command(flatten)]
    args: flood::Args,
}

fn main() -> ExitCode {
    flood::command(&Command::parse().args, &[])
}
