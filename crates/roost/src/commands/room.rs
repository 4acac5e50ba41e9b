//! `roost room`: what rooms there are, what one is, and the end of one.

use std::io;

use super::text::in_line;
use super::{print, unexpected};
use crate::cli::{Place, RoomCommand};
use crate::door::{Absent, Door};
use crate::exit::Failure;
use crate::node::{Request, Response};

/// Rooms that are asked for at a time.
const PAGE: usize = 1_000;

pub(super) fn run(command: RoomCommand) -> Result<(), Failure> {
    match command {
        RoomCommand::List { json, place } => list(&place, json),
        RoomCommand::Show { room, json, place } => show(&place, room, json),
        RoomCommand::Destroy {
            room,
            reason,
            place,
        } => match open(&place)?.call(Request::RoomDestroy { room, reason })? {
            Response::Ok => Ok(()),
            _ => Err(unexpected()),
        },
    }
}

/// On a stopped server only rooms of the store are there.
fn open(place: &Place) -> Result<Door, Failure> {
    Door::open(&place.source().load()?, Absent::Refuse)
}

fn list(place: &Place, json: bool) -> Result<(), Failure> {
    let mut door = open(place)?;
    let mut after = None;
    loop {
        let request = Request::RoomList { after, limit: PAGE };
        let Response::Rooms { rooms } = door.call(request)? else {
            return Err(unexpected());
        };
        for room in &rooms {
            if json {
                let text = serde_json::to_string(room).map_err(io::Error::from)?;
                print(&format!("{text}\n"))?;
                continue;
            }
            let pick = |holds: bool, yes, no| if holds { yes } else { no };
            print(&format!(
                "{} {} {} made by {} {:?}\n",
                room.address,
                pick(room.is_persistent, "persistent", "temporary"),
                pick(room.is_public, "public", "hidden"),
                room.creator,
                room.name,
            ))?;
        }
        if rooms.len() < PAGE {
            return Ok(());
        }
        after = rooms.last().map(|room| room.address.clone());
    }
}

fn show(place: &Place, room: String, json: bool) -> Result<(), Failure> {
    let Response::Room { room } = open(place)?.call(Request::RoomShow { room })? else {
        return Err(unexpected());
    };
    if json {
        let text = serde_json::to_string(&room).map_err(io::Error::from)?;
        return print(&format!("{text}\n"));
    }
    let yes = |holds: bool| if holds { "yes" } else { "no" };
    print(&format!(
        "room          {}\n\
         name          {}\n\
         made by       {}\n\
         made          {}\n\
         persistent    {}\n\
         public        {}\n\
         members only  {}\n\
         password      {}\n\
         moderated     {}\n\
         locked        {}\n\
         occupants     {} with {} sessions\n\
         affiliations  {}\n\
         owners        {}\n",
        room.address,
        in_line(&room.name),
        room.creator,
        stdx::time::Timestamp::from_millis(room.created_ms),
        yes(room.is_persistent),
        yes(room.is_public),
        yes(room.is_members_only),
        yes(room.has_password),
        yes(room.is_moderated),
        yes(room.is_locked),
        room.occupants,
        room.sessions,
        room.affiliations,
        room.owners.join(", "),
    ))
}
