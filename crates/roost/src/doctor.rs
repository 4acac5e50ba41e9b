//! `roost doctor`: whether this machine is set up for a number of connections, and the commands
//! that make it so. Changes nothing. Owns what is printed; the settings are in `checks`.

mod checks;
mod machine;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::exit::{self, Failure};
use checks::{CHECKS, Verdict};
use machine::Machine;

/// Columns of the longest name of a setting.
const NAME_COLUMNS: usize = 30;

/// For how many, and where to look.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Connections that the machine is to hold.
    #[arg(long, default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    connections: u64,
    /// Look at the limits of this running process, not at those of this shell.
    #[arg(long)]
    pid: Option<u32>,
    /// Where /proc and /sys are, for a look at another machine's.
    #[arg(long, value_name = "FOLDER", default_value = "/")]
    root: PathBuf,
}

/// Examines the machine and prints what it is like.
///
/// # Errors
/// The process to look at is not there.
pub(crate) fn run(args: DoctorArgs) -> Result<ExitCode, Failure> {
    let process = args.pid.map_or("self".to_owned(), |pid| pid.to_string());
    let machine = Machine::new(args.root, process);
    if let (Some(pid), false) = (args.pid, machine.has_process()) {
        let message = format!("there is no process {pid}, or its limits are not for your eyes");
        return Err(Failure::Failed(message));
    }
    let (text, is_able) = examine(&machine, args.connections);
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(if is_able {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(exit::UNFIT)
    })
}

/// The report, and whether nothing keeps the machine from that many connections.
fn examine(machine: &Machine, connections: u64) -> (String, bool) {
    let mut text = format!("For {connections} connections:\n\n");
    let mut commands = Vec::new();
    let (mut must, mut should) = (0, 0);
    for check in CHECKS {
        let finding = (check.examine)(machine, connections).unwrap_or(checks::Finding {
            verdict: Verdict::Unknown,
            text: "this machine does not say".to_owned(),
            commands: Vec::new(),
        });
        let word = match finding.verdict {
            Verdict::Good => "good   ",
            Verdict::Should => "should ",
            Verdict::Must => "MUST   ",
            Verdict::Unknown => "unknown",
        };
        must += u32::from(finding.verdict == Verdict::Must);
        should += u32::from(finding.verdict == Verdict::Should);
        let name = check.name;
        let _ = writeln!(text, "{word}  {name:<NAME_COLUMNS$}  {}", finding.text);
        commands.extend(finding.commands);
    }
    let _ = match (must, should) {
        (0, 0) => writeln!(text, "\nNothing to change."),
        (0, _) => writeln!(
            text,
            "\nIt will do; {should} to change for speed or memory:\n"
        ),
        _ => writeln!(
            text,
            "\n{must} to change first, {should} for speed or memory:\n"
        ),
    };
    for command in commands {
        let _ = writeln!(text, "  {command}");
    }
    if must + should > 0 {
        text.push_str("\nWhy, how much, and how to keep it over a restart: docs/tuning.md\n");
    }
    (text, must == 0)
}

#[cfg(test)]
mod tests;
