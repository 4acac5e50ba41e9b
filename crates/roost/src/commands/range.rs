//! `roost range`: which shard has which ranges, and moves from one shard to another.

use std::collections::BTreeMap;
use std::io;

use super::{print, unexpected};
use crate::cli::{Place, RangeCommand};
use crate::door::{self, Door};
use crate::exit::Failure;
use crate::node::{Request, Response};

pub(super) fn run(command: RangeCommand) -> Result<(), Failure> {
    match command {
        RangeCommand::List { json, place } => list(&place, json),
        RangeCommand::Move {
            range,
            shard,
            place,
        } => move_to(&place, range, shard),
    }
}

/// Only a running server has shards.
fn ask(place: &Place, request: Request) -> Result<Response, Failure> {
    let config = place.source().load()?;
    let data = &config.settings.node.data;
    let Some(client) = door::connect(data)? else {
        return Err(Failure::Failed(format!(
            "no server runs on {}: ranges are placed anew when one starts",
            data.display()
        )));
    };
    Door::Running(Box::new(client)).call(request)
}

fn list(place: &Place, json: bool) -> Result<(), Failure> {
    let Response::Ranges { shards } = ask(place, Request::RangeList)? else {
        return Err(unexpected());
    };
    if json {
        let text = serde_json::to_string(&shards).map_err(io::Error::from)?;
        return print(&format!("{text}\n"));
    }
    let mut by_shard: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for (range, shard) in shards.iter().enumerate() {
        by_shard.entry(*shard).or_default().push(range.to_string());
    }
    let lines = by_shard.iter().map(|(shard, ranges)| {
        let (count, ranges) = (ranges.len(), ranges.join(" "));
        format!("shard {shard}: {count} ranges: {ranges}\n")
    });
    print(&lines.collect::<String>())
}

fn move_to(place: &Place, range: String, shard: u16) -> Result<(), Failure> {
    let request = Request::RangeMove { range, shard };
    let Response::Moved {
        from,
        entities,
        gap_us,
        paused_us,
    } = ask(place, request)?
    else {
        return Err(unexpected());
    };
    if from == shard {
        return print(&format!("it is on shard {shard} already\n"));
    }
    let ms = |micros: u64| micros as f64 / 1_000.0;
    let paused = match paused_us {
        0 => String::new(),
        _ => format!(
            ", and before that it was busy: what was new for it waited for {:.1} ms",
            ms(paused_us)
        ),
    };
    print(&format!(
        "moved from shard {from} to shard {shard} with {entities} of its accounts, rooms and \
         services in memory; nothing of it was handled for {:.1} ms{paused}\n",
        ms(gap_us)
    ))
}
