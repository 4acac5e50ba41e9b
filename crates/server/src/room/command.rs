//! What an operator asks of a room: to tell about itself, or to end.

use std::sync::Arc;

use actor::{Context, Reply};
use room::{Affiliation, Event, Room};

use super::RoomActor;
use super::intake::Parked;
use crate::entity::life::Phase;
use crate::message::UserMsg;
use crate::operator::{AdminAnswer, AdminCommand, RoomCommand, RoomSample};

impl RoomActor {
    /// Answers an operator.
    pub(super) fn operate(
        &mut self,
        command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let AdminCommand::Room(command) = command else {
            return reply.send(cx, AdminAnswer::Absent);
        };
        if self.life.phase != Phase::Ready {
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
            address: String::from(&*self.life.name),
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
