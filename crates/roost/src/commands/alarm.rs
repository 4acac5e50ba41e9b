//! `roost alarm`: what the server complains about, and who takes care of it.

use std::io;

use super::print;
use crate::cli::{AlarmCommand, Place};
use crate::exit::Failure;
use crate::watch::Remote;

pub(super) fn run(command: AlarmCommand) -> Result<(), Failure> {
    match command {
        AlarmCommand::List { json, place } => list(&open(&place)?, json),
        AlarmCommand::Ack { name, place } => {
            open(&place)?.acknowledge(&name)?;
            print(&format!("acknowledged {name}\n"))
        }
    }
}

fn open(place: &Place) -> Result<Remote, Failure> {
    Remote::open(&place.source().load()?.settings.node.data)
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
