//! Errors for messages of the user's own sessions that were refused when they were to be accepted.
//! A session whose stanzas are counted (XEP-0198) counts such a message as handled, so that its
//! client never sends it again: its error becomes an entry of the log, in one append with that
//! count. A kill loses both or neither.

use std::mem;

use actor::{Context, Mail};
use net::ConnRef;
use telemetry::Counter;
use xml::Frame;
use xmpp::error::StanzaError;

use super::User;
use super::barrier::{Decided, Effect, Origin};
use super::managed::What;
use crate::message::UserMsg;
use crate::modules::hints;

impl User {
    /// Refuses a message of one of the user's sessions.
    pub(super) fn refuse_message(
        &mut self,
        conn: ConnRef,
        message: &Frame,
        error: &StanzaError,
        cx: &mut Context<'_, UserMsg>,
    ) {
        cx.stats().count(Counter::MessagesRefused);
        match xmpp::error::reply(message, error) {
            Some(reply) if self.is_counted(conn) => self.receive_own_error(reply, cx),
            Some(reply) => self.write_frame(conn, &reply, cx),
            None => {}
        }
    }

    /// Tells a session that the append which its stanza caused was refused.
    pub(super) fn refuse_stanza(
        &mut self,
        conn: ConnRef,
        stanza: &Frame,
        error: &StanzaError,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(reply) = xmpp::error::reply(stanza, error) else {
            return;
        };
        if self.is_owed_an_entry(conn, stanza) {
            self.keep_refusal(reply, cx);
        } else {
            let write = |out: &mut Vec<u8>| out.extend_from_slice(reply.as_bytes());
            self.perform_write(conn, What::Other, cx, write);
        }
    }

    /// An error waits until it can be recorded.
    pub(super) fn keep_refusal(&mut self, error: Frame, cx: &mut Context<'_, UserMsg>) {
        self.log().refusals.push(error);
        self.progress_is_due(cx);
    }

    /// Whether so many errors wait that the user's streams end with the append that failed: what it
    /// was about is not counted as handled then, and comes again.
    pub(super) fn has_too_many_refusals(&self, append: &Decided) -> bool {
        let Origin::Session(conn, _, stanza) = &append.origin else {
            return false;
        };
        let Some(log) = &self.log else { return false };
        let again = append.effects.iter();
        let again = again.filter(|effect| matches!(effect, Effect::NotTold(_)));
        let max = self.home.bounds().refusals_max;
        log.refusals.len() + again.count() >= max && self.is_owed_an_entry(*conn, stanza)
    }

    /// Whether errors wait that are not durable.
    pub(super) fn has_refusals(&self) -> bool {
        let log = self.log.as_ref();
        let is_error = |effect: &Effect| matches!(effect, Effect::Told(_) | Effect::NotTold(_));
        log.is_some_and(|log| !log.refusals.is_empty()) || self.barrier.effects().any(is_error)
    }

    /// What waits becomes entries, in one append with the counts that are recorded next.
    pub(super) fn tell_refusals(&mut self, cx: &mut Context<'_, UserMsg>) {
        let log = self.log.as_mut().filter(|log| !log.refusals.is_empty());
        let Some(log) = log else { return };
        for error in mem::take(&mut log.refusals) {
            self.turn().effects.push(Effect::Told(error.clone()));
            self.receive_own_error(error, cx);
        }
    }

    fn is_counted(&self, conn: ConnRef) -> bool {
        let session = self.sessions.iter().find(|session| session.conn == conn);
        session.is_some_and(|session| session.managed.is_some())
    }

    fn is_owed_an_entry(&self, conn: ConnRef, stanza: &Frame) -> bool {
        let keep = hints::keep(stanza);
        (keep.log || keep.for_room) && self.is_counted(conn)
    }
}
