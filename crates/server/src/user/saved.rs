//! What is recorded of a session itself, so that it outlives the process: its name, its resource,
//! what it wants. What it is owed is recorded as `consumers.rs` says.

use actor::Context;
use delivery::SessionNumber;
use net::ConnRef;
use store::{Record, SessionRecord};

use super::User;
use super::barrier::Effect;
use super::layout;
use super::session::Session;
use crate::message::UserMsg;

impl User {
    /// Records what a session must not forget when the process ends.
    pub(super) fn save_session(&mut self, at: usize) {
        let takes_otherwise = self.note_taking(at);
        if self.sessions[at].managed.is_none() {
            return;
        }
        if !self.has_room_for_records() {
            return self.give_up(at);
        }
        let has_list = self.record_session(at);
        // From where on it takes messages is where the account is; and what it is not listed with
        // any more it has acknowledged.
        if takes_otherwise || has_list {
            self.record_inbox();
        }
    }

    /// Records a session; gives whether with a list of what it was given.
    fn record_session(&mut self, at: usize) -> bool {
        let session = &self.sessions[at];
        let Some(managed) = &session.managed else {
            return false;
        };
        let log = self.log.as_ref();
        let number = SessionNumber::new(managed.number);
        let list = log.and_then(|log| log.inbox.list_of(number));
        let void_through = list.as_ref().map_or(0, |list| list.void_through.number());
        let directed = session.directed.as_deref();
        let record = SessionRecord {
            number: managed.number,
            token: managed.token.as_bytes().to_vec(),
            resource: session.resource().to_owned(),
            max_seconds: managed.max_seconds,
            resumptions: Some(managed.resumptions.into()),
            presence: session
                .presence
                .as_ref()
                .map(|frame| frame.as_bytes().to_vec()),
            directed: directed
                .into_iter()
                .flatten()
                .map(|to| to.to_string())
                .collect(),
            carbons: session.carbons,
            inactive: session.is_inactive,
            wants_roster: session.wants_roster,
            wants_blocklist: session.wants_blocklist,
            void_through,
            numbered: list.as_ref().map_or_else(Vec::new, layout::numbered),
        };
        let number = managed.number;
        self.record(Record::SessionPut {
            user: String::from(&*self.name),
            session: Box::new(record),
        });
        self.turn().effects.push(Effect::Saved(number));
        list.is_some()
    }

    /// The record of a session was refused: what it says is true all the same, and others may
    /// depend on it after a restart. It goes along with what is recorded next.
    pub(super) fn not_saved(&mut self, number: u32, cx: &mut Context<'_, UserMsg>) {
        let Some(at) = self.managed_session(number) else {
            return;
        };
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.is_unsaved = true;
        }
        self.progress_is_due(cx);
    }

    /// Records the sessions anew whose records were refused.
    pub(super) fn save_sessions_again(&mut self) {
        for at in 0..self.sessions.len() {
            let managed = self.sessions[at].managed.as_mut();
            if managed.is_some_and(|managed| std::mem::take(&mut managed.is_unsaved)) {
                self.record_session(at);
            }
        }
    }

    /// Whether what is recorded of the user's sessions is not too much for one value. What they
    /// were given has bounds of its own ([`store::limits::NUMBERED_MAX`]).
    fn has_room_for_records(&self) -> bool {
        let bounds = self.home.bounds();
        let size = |session: &Session| {
            let managed = session.managed.as_ref()?;
            let directed = session.directed.as_deref().into_iter().flatten();
            let directed: usize = directed.map(|to| to.len() + 3).sum();
            let presence = session.presence.as_ref().map_or(0, |p| p.as_bytes().len());
            Some(managed.token.len() + session.resource().len() + directed + presence)
        };
        let sizes: usize = self.sessions.iter().filter_map(size).sum();
        sizes <= bounds.records_bytes_max
    }

    /// A session ends with the message that is being handled.
    fn give_up(&mut self, at: usize) {
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.is_full = true;
            self.has_full_session = true;
        }
    }

    /// Whether what a session says of itself is in no record yet: that was refused, or is not
    /// decided.
    fn is_unsaved(&self, at: usize) -> bool {
        self.sessions[at].managed.as_ref().is_some_and(|managed| {
            let is_it = |effect: &Effect| {
                matches!(effect, Effect::Saved(number) if *number == managed.number)
            };
            managed.is_unsaved || self.barrier.effects().any(is_it)
        })
    }

    /// Changes what a session wants, and records that if it has changed; also if it has not, but is
    /// not recorded yet: its client is about to hear that it is done.
    pub(crate) fn change_session(
        &mut self,
        conn: Option<ConnRef>,
        change: impl FnOnce(&mut Session) -> bool,
    ) {
        let mut sessions = self.sessions.iter();
        let Some(at) = sessions.position(|session| Some(session.conn) == conn) else {
            return;
        };
        if change(&mut self.sessions[at]) || self.is_unsaved(at) {
            self.save_session(at);
        }
    }
}
