//! What an operator asks of rooms: lists of them, what one is, and to end one.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Admin, Response, error, unreadable};
use crate::address;
use crate::limits::ADMIN_DEADLINE;
use crate::listing::Listing;
use crate::message::UserMsg;
use crate::operator::{AdminAnswer, AdminCommand, RoomCommand};

/// A room in a list for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomLine {
    /// Its address.
    pub address: String,
    /// Its name for people.
    pub name: String,
    /// Who made it.
    pub creator: String,
    /// It survives its last occupant, and the process.
    pub is_persistent: bool,
    /// Everybody may know of it.
    pub is_public: bool,
}

impl Admin {
    /// A page of rooms.
    pub(crate) fn list_rooms(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Response, Response> {
        let listing = Listing {
            store: self.store.clone(),
            rooms: Arc::clone(&self.rooms),
        };
        let mut rooms = Vec::new();
        if limit > 0 {
            let visited = listing.visit(after, |entry| {
                rooms.push(RoomLine {
                    address: String::from(&*entry.room),
                    name: entry.listed.name,
                    creator: entry.creator,
                    is_persistent: entry.is_persistent,
                    is_public: entry.listed.is_public,
                });
                rooms.len() < limit
            });
            visited.map_err(unreadable)?;
        }
        Ok(Response::Rooms { rooms })
    }

    /// Figures of one room.
    pub(crate) fn show_room(&self, room: &str) -> Result<Response, Response> {
        match self.ask_room(room, RoomCommand::Show)? {
            AdminAnswer::Room(sample) => Ok(Response::Room {
                room: Box::new(Arc::unwrap_or_clone(sample)),
            }),
            AdminAnswer::Absent => Err(no_such_room(room)),
            _ => Err(error("no_answer", &format!("{room} did not answer"))),
        }
    }

    /// Ends a room; its occupants are told.
    pub(crate) fn destroy_room(
        &self,
        room: &str,
        reason: Option<&str>,
    ) -> Result<Response, Response> {
        let reason = reason.map(str::to_owned);
        match self.ask_room(room, RoomCommand::Destroy { reason })? {
            AdminAnswer::Done => Ok(Response::Ok),
            AdminAnswer::Absent => Err(no_such_room(room)),
            _ => Err(error(
                "busy",
                &format!("{room} is busy with a change, or could not keep this one: try again"),
            )),
        }
    }

    pub(crate) fn ask_room(
        &self,
        room: &str,
        command: RoomCommand,
    ) -> Result<AdminAnswer, Response> {
        let hosts = &self.options.rooms.hosts;
        let Some(room) = address::of_room(room, hosts) else {
            let hosts = hosts.join(", ");
            let message = format!("{room} is no address of a room here: rooms are at {hosts}");
            return Err(error("bad_address", &message));
        };
        self.must_be_here(&room)?;
        let name = actor::Name::from(&*room);
        let question = |reply| UserMsg::Admin {
            command: Box::new(AdminCommand::Room(command)),
            reply,
        };
        let shard = self.place.shard(&name);
        let answer = self
            .handle
            .ask_named(shard, &name, question, ADMIN_DEADLINE);
        answer.map_err(|_| error("no_answer", &format!("{room} did not answer")))
    }
}

fn no_such_room(room: &str) -> Response {
    error("no_such_room", &format!("there is no room {room}"))
}
