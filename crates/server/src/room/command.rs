//! What an operator asks of a room: to tell about itself, or to end.

use std::sync::Arc;

use actor::{Context, Reply};
use room::{Affiliation, Event, Room};
use serde::{Deserialize, Serialize};

use super::intake::Parked;
use super::temporary::Listing;
use super::{Phase, RoomActor};
use crate::address;
use crate::admin::{Admin, AdminAnswer, AdminCommand, Response, error, unreadable};
use crate::limits::ADMIN_DEADLINE;
use crate::message::UserMsg;

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomCommand {
    /// Tell about itself.
    Show,
    /// Replace these messages of the log by what is left of one that was taken back.
    Erase(Vec<room::Message>),
    /// End, for good.
    Destroy {
        /// Why, for those who are there.
        reason: Option<String>,
    },
}

/// A room as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomSample {
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
    /// Only members may enter.
    pub is_members_only: bool,
    /// A password has to be known.
    pub has_password: bool,
    /// Who has no voice cannot speak.
    pub is_moderated: bool,
    /// Nobody but its creator may enter yet.
    pub is_locked: bool,
    /// Occupants, each nick once.
    pub occupants: u64,
    /// Sessions of all of them.
    pub sessions: u64,
    /// Bare addresses of its owners.
    pub owners: Vec<String>,
    /// Addresses with an affiliation.
    pub affiliations: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
}

impl RoomActor {
    /// Answers an operator.
    pub(super) fn administer(
        &mut self,
        command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if matches!(command, AdminCommand::Leave) {
            let leaves = self.is_idle() && cx.stop_when_idle();
            let busy = AdminAnswer::Unavailable;
            return reply.send(cx, if leaves { AdminAnswer::Done } else { busy });
        }
        let AdminCommand::Room(command) = command else {
            return reply.send(cx, AdminAnswer::Absent);
        };
        if self.phase != Phase::Ready {
            return reply.send(cx, AdminAnswer::Unavailable);
        }
        let Some(sample) = self.sample() else {
            return reply.send(cx, AdminAnswer::Absent);
        };
        match command {
            RoomCommand::Show => reply.send(cx, AdminAnswer::Room(Arc::new(sample))),
            RoomCommand::Erase(messages) => self.change(Event::Erase { messages }, reply, cx),
            RoomCommand::Destroy { reason } => self.change(Event::Destroy { reason }, reply, cx),
        }
    }

    /// An operator's change, in its turn: while the room is busy it waits like a stanza does.
    pub(super) fn change(
        &mut self,
        event: Event,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if self.sample().is_none() {
            return reply.send(cx, AdminAnswer::Absent);
        }
        let is_erasure = matches!(event, Event::Erase { .. });
        // Neither is there while another change is pending.
        if let Err(event) = self.happens(event, None, cx) {
            self.parked = Some(Parked::Operator(event, reply));
            return;
        }
        // Answered once it is durable, or is not. Who erases looks at what became of it.
        match is_erasure {
            true => self.erasing = Some(reply),
            false => self.ending = Some(reply),
        }
    }

    /// An operator who changed the room hears of it: once nothing is pending, as nothing can be
    /// pending behind such a change. Others' changes that waited for it come after this.
    pub(super) fn answer_operators(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.room.as_ref().is_some_and(Room::is_busy) {
            return;
        }
        if let Some(reply) = self.erasing.take() {
            reply.send(cx, AdminAnswer::Done);
        }
        let room = self.room.as_ref();
        let is_there = room.is_some_and(|room| room.state().is_some());
        if let Some(reply) = self.ending.take() {
            let answer = match is_there {
                false => AdminAnswer::Done,
                true => AdminAnswer::Unavailable,
            };
            reply.send(cx, answer);
        }
    }

    fn sample(&self) -> Option<RoomSample> {
        let room = self.room.as_ref()?;
        let state = room.state()?;
        let owners = state.list(Affiliation::Owner);
        Some(RoomSample {
            address: String::from(&*self.name),
            name: state.config.name.clone(),
            creator: self.creator.as_deref().unwrap_or_default().to_owned(),
            is_persistent: state.config.is_persistent,
            is_public: state.config.is_public,
            is_members_only: state.config.is_members_only,
            has_password: !state.config.password.is_empty(),
            is_moderated: state.config.is_moderated,
            is_locked: state.is_locked,
            occupants: Room::occupants(room) as u64,
            sessions: Room::sessions(room) as u64,
            owners: owners.map(|owner| owner.address).collect(),
            affiliations: state.affiliations() as u64,
            created_ms: state.created.as_millis(),
        })
    }
}

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
        let Some(room) = address_of(room, hosts) else {
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

/// The normalised address of a room, if it is at one of the hosts.
pub(crate) fn address_of(room: &str, hosts: &[String]) -> Option<String> {
    let room = xmpp::addr::normalize(room).ok()?;
    let domain = address::domain(&room);
    let is_room = address::local(&room).is_some()
        && !room.contains('/')
        && hosts.iter().any(|host| host == domain);
    is_room.then(|| room.into_owned())
}

fn no_such_room(room: &str) -> Response {
    error("no_such_room", &format!("there is no room {room}"))
}
