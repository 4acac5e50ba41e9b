//! `roost ban` and `roost allow`: who may not be here, and who may whatever is banned.

use std::fmt::Write as _;
use std::io;

use stdx::time::Timestamp;

use super::{print, unexpected};
use crate::cli::{BanCommand, Place};
use crate::door::{Absent, Door};
use crate::exit::Failure;
use crate::node::{BanEntry, BanList, Request, Response};

pub(super) fn run(list: BanList, command: BanCommand) -> Result<(), Failure> {
    match command {
        BanCommand::Add {
            what,
            time,
            reason,
            place,
        } => {
            let for_ms = time.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
            let request = Request::BanPut {
                list,
                what,
                for_ms,
                reason,
            };
            match call(&place, request)? {
                Response::Bans { entries } => {
                    let verb = match list {
                        BanList::Ban => "banned",
                        BanList::Allow => "allowed",
                    };
                    let lines = entries
                        .iter()
                        .map(|entry| format!("{verb} {}\n", line(entry)));
                    print(&lines.collect::<String>())
                }
                _ => Err(unexpected()),
            }
        }
        BanCommand::Remove { what, place } => {
            let request = Request::BanRemove {
                list,
                what: what.clone(),
            };
            call(&place, request)?;
            print(&format!("removed {}\n", what.escape_debug()))
        }
        BanCommand::List { json, place } => match call(&place, Request::BanList)? {
            Response::Bans { mut entries } => {
                entries.retain(|entry| entry.list == list);
                if json {
                    let text = serde_json::to_string(&entries).map_err(io::Error::from)?;
                    return print(&format!("{text}\n"));
                }
                let lines = entries.iter().map(|entry| line(entry) + "\n");
                print(&lines.collect::<String>())
            }
            _ => Err(unexpected()),
        },
    }
}

fn call(place: &Place, request: Request) -> Result<Response, Failure> {
    Door::open(&place.source().load()?, Absent::Refuse)?.call(request)
}

fn line(entry: &BanEntry) -> String {
    let mut line = entry.what.clone();
    if let Some(until) = entry.until_ms {
        let _ = write!(line, " until {}", Timestamp::from_millis(until));
    }
    if !entry.reason.is_empty() {
        let _ = write!(line, ": {}", entry.reason);
    }
    line
}
