//! `roost alarm`: what the server complains about, and who takes care of it.

use std::io;

use watch::Watched as _;

use super::{print, watched};
use crate::cli::AlarmCommand;
use crate::exit::Failure;
use crate::remote::Remote;

pub(super) fn run(command: AlarmCommand) -> Result<(), Failure> {
    match command {
        AlarmCommand::List { json, place } => list(&watched(&place)?, json),
        AlarmCommand::Ack { name, place } => {
            watched(&place)?.acknowledge(&name)?;
            print(&format!("acknowledged {name}\n"))
        }
    }
}

fn list(remote: &Remote, json: bool) -> Result<(), Failure> {
    let alarms = remote.alarms()?;
    if json {
        let text = serde_json::to_string(&alarms).map_err(io::Error::from)?;
        return print(&format!("{text}\n"));
    }
    let lines = alarms.iter().map(|alarm| format!("{alarm}\n"));
    print(&lines.collect::<String>())
}
