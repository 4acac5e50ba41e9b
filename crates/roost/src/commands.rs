//! The commands except `serve`: each turns its arguments into requests and prints what comes back.
//! Owns the output on standard output; errors are printed by `main`.
#![allow(clippy::print_stderr)] // Progress goes to the terminal.

mod alarm;
mod ban;
mod chaos;
mod cluster;
mod data;
mod drain;
mod import;
mod level;
mod progress;
mod provision;
mod pubsub;
mod queue;
mod range;
mod room;
pub(crate) mod text;
mod upgrade;
mod user;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;

use watch::{Alarm, Watched as _, sar, top};

use crate::cli::{Command, Place};
use crate::config::{self, Config, Source};
use crate::control::Client;
use crate::doctor;
use crate::door::{self, Door};
use crate::exit::Failure;
use crate::node::{BanList, Request, Response, Status};
use crate::remote::Remote;
use crate::serve;
use crate::split;
pub(crate) use chaos::ChaosArgs;
pub(crate) use cluster::ClusterCommand;

/// Runs a command.
///
/// # Errors
/// Why it did not do what it was asked for.
pub(crate) fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Serve(place) => return serve::run(&place),
        Command::Home(place) => return split::run_home(&place),
        Command::Upgrade(args) => return upgrade::run(&args),
        Command::Flood(args) => return Ok(flood::command(&args, &["flood"])),
        Command::Doctor(args) => return doctor::run(args),
        Command::Cluster(command) => return cluster::run(command),
        Command::Graph(args) => return Ok(flood::graph_command(&args)),
        Command::CheckConfig { file } => check_config(file)?,
        Command::Config { markdown: true } => print(&config::markdown())?,
        Command::Config { markdown: false } => print(&config::default_file())?,
        Command::User(command) => user::run(command)?,
        Command::Ban(command) => ban::run(BanList::Ban, command)?,
        Command::Allow(command) => ban::run(BanList::Allow, command)?,
        Command::Status { json, place } => status(&place, json)?,
        Command::Export { output, place } => data::export(&place, &output)?,
        Command::Import { file, quiet, place } => import::run(&place, &file, quiet)?,
        Command::Provision {
            domain,
            users,
            contacts,
            password,
            quiet,
            place,
        } => {
            let population = provision::Population {
                domain,
                users,
                contacts,
            };
            provision::run(&place, population, &password, quiet)?;
        }
        Command::Drain(args) => drain::run(&args)?,
        Command::Level(args) => level::run(&args)?,
        Command::Backup { file, as_is, place } => data::backup(&place, &file, as_is)?,
        Command::Sar { args, place } => sar::run(&args, || watched(&place))?,
        Command::Top { args, place } => top::run(&args, &watched(&place)?)?,
        Command::Chaos { args, place } => chaos::run(&args, &place)?,
        Command::Alarm(command) => alarm::run(command)?,
        Command::Queue(command) => queue::run(command)?,
        Command::Range(command) => range::run(command)?,
        Command::Room(command) => room::run(command)?,
        Command::Pubsub(command) => pubsub::run(command)?,
        Command::Trace { id, by, place } => queue::trace(&place, id, by)?,
        Command::Restore { file, place } => data::restore(&place, &file)?,
        Command::Verify { place } => data::verify(&place)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes what a command has to say. Clients' texts that may have lines go through
/// [`text::in_line`] before.
fn print(output: &str) -> Result<(), Failure> {
    let output = text::safe(output);
    Ok(io::stdout().lock().write_all(output.as_bytes())?)
}

fn check_config(file: Option<PathBuf>) -> Result<(), Failure> {
    let config = Source {
        config: file,
        data: None,
    }
    .load()?;
    let name = match &config.file {
        Some(file) => file.display().to_string(),
        None => "the default configuration".to_owned(),
    };
    let mut out = format!("{name} is valid\n");
    for note in config.notes() {
        out.push_str("note: ");
        out.push_str(&note);
        out.push('\n');
    }
    print(&out)
}

/// The server that somebody wants to watch.
fn watched(place: &Place) -> Result<Remote, Failure> {
    Remote::open(&place.source().load()?.settings.node.data)
}

fn status(place: &Place, json: bool) -> Result<(), Failure> {
    let config = place.source().load()?;
    let status = running_status(&config)?;
    let alarms = Remote::open(&config.settings.node.data)?.alarms()?;
    if json {
        let all = WithAlarms { status, alarms };
        let text = serde_json::to_string(&all).map_err(io::Error::from)?;
        return print(&format!("{text}\n"));
    }
    let uptime = u64::try_from(status.uptime_ms / 1_000).unwrap_or_default();
    print(&format!(
        "roost {}, up {}\n\
         domains      {}\n\
         accounts     {}\n\
         connections  {}\n\
         loaded users {}\n\
         shards       {}\n\
         alarms       {}\n",
        status.version,
        duration(uptime),
        status.domains.join(", "),
        status.accounts,
        status.connections,
        status.actors,
        status.shards,
        lines(&alarms),
    ))
}

/// What `roost status --json` prints.
#[derive(Serialize)]
struct WithAlarms {
    #[serde(flatten)]
    status: Status,
    alarms: Vec<Alarm>,
}

/// Alarms, each on a line of its own under the first.
fn lines(alarms: &[Alarm]) -> String {
    if alarms.is_empty() {
        return "none".to_owned();
    }
    let lines: Vec<String> = alarms.iter().map(ToString::to_string).collect();
    lines.join("\n             ")
}

/// Asks the running server; a stopped one has no status but that.
fn running_status(config: &Config) -> Result<Status, Failure> {
    let data = &config.settings.node.data;
    let client: Option<Client> = door::connect(data)?;
    let Some(client) = client else {
        return Err(Failure::Failed(format!(
            "no server runs on {}",
            data.display()
        )));
    };
    match Door::Running(Box::new(client)).call(Request::Status)? {
        Response::Status { status } => Ok(status),
        _ => Err(unexpected()),
    }
}

/// The answer to another question than the one that was asked.
fn unexpected() -> Failure {
    Failure::Failed("the server's answer is of another version of Roost".to_owned())
}

/// Seconds in the two largest units.
fn duration(seconds: u64) -> String {
    match (
        seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    ) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            (0, "0 s"),
            (61, "1 min 1 s"),
            (3_660, "1 h 1 min"),
            (200_000, "2 d 7 h"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(duration(seconds), expected);
        }
    }
}
