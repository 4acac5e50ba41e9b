//! The load generator as a program of its own; `roost flood` is the same command.

use std::process::ExitCode;

use clap::Parser;

/// A load generator for XMPP servers.
#[derive(Parser)]
#[command(name = "flood", version, args_conflicts_with_subcommands = true)]
struct Command {
    #[command(flatten)]
    args: flood::Args,
    #[command(subcommand)]
    other: Option<Other>,
}

/// What else the program does.
#[derive(clap::Subcommand)]
enum Other {
    /// Make a friend graph like real ones, for `roost import`.
    Graph(flood::GraphArgs),
}

fn main() -> ExitCode {
    let command = Command::parse();
    match &command.other {
        Some(Other::Graph(args)) => flood::graph_command(args),
        None => flood::command(&command.args, &[]),
    }
}
