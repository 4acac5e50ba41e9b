//! Counts that were recorded ahead for the next messages of a room (`delivery::Followed`): what
//! else is written to the session takes them back first, and nothing is guessed after an append
//! that was refused.

use net::ConnRef;

use super::User;
use super::barrier::{Decided, Effect, Origin};
use super::managed::What;
use super::session::Session;

impl User {
    /// A stanza that is no copy is about to be written to a session: if its count was said ahead of
    /// a room's next message, it leaves behind a record that takes that back. Without a link
    /// nothing is written, and what was said ahead is taken back at the resumption.
    pub(super) fn takes_count(&mut self, conn: ConnRef) {
        let mut sessions = self.sessions.iter();
        let Some(at) = sessions.position(|own| own.conn == conn && own.managed.is_some()) else {
            return;
        };
        let managed = self.sessions[at].managed.as_mut();
        let managed = managed.filter(|managed| managed.attached().is_some());
        let rooms = managed.and_then(|managed| managed.rooms.as_mut());
        if let Some(room) = rooms.and_then(|rooms| rooms.cut()) {
            self.record_room(at, &room);
        }
    }

    /// All appends are decided, and this one was not refused.
    pub(super) fn rooms_settled(&mut self) {
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            if let Some(rooms) = &mut managed.rooms {
                rooms.settled();
            }
        }
    }

    /// An append was refused, and what is written now might have counts that a record has for a
    /// room's messages, by what was said ahead: the user begins anew, from what is recorded.
    pub(super) fn contradicts_rooms(&self, refused: &Decided) -> bool {
        let first = match &refused.origin {
            Origin::Session(own) => Some(own),
            Origin::Nobody | Origin::Other(_) => None,
        };
        let answered = first.into_iter().chain(&refused.again);
        let answered = answered.filter(|own| !own.is_owed_an_entry());
        let is_answered = |conn: ConnRef| answered.clone().any(|own| own.conn == conn);
        self.sessions.iter().any(|session| {
            let managed = session.managed.as_ref();
            let rooms = managed.and_then(|managed| managed.rooms.as_ref());
            rooms.is_some_and(|rooms| {
                rooms.is_unsure() || rooms.is_ahead() && is_answered(session.conn)
            })
        })
    }

    /// An append was refused: of the copies that waited behind it those are left whose counts an
    /// earlier record has.
    pub(super) fn keep_founded(&self, effects: &mut Vec<Effect>) {
        let founded = |session: &Session| {
            let managed = session.managed.as_ref();
            let rooms = managed.and_then(|managed| managed.rooms.as_ref());
            (session.conn, rooms.map_or(0, |rooms| rooms.founded()))
        };
        let mut founded: Vec<(ConnRef, usize)> = self.sessions.iter().map(founded).collect();
        effects.retain(|effect| {
            let Effect::Write(conn, What::Elsewhere, _) = effect else {
                return true;
            };
            let left = founded.iter_mut().find(|(own, _)| own == conn);
            left.is_some_and(|(_, left)| {
                let is_founded = *left > 0;
                *left = left.saturating_sub(1);
                is_founded
            })
        });
    }
}
