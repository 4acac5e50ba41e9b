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
use super::barrier::{Decided, Effect, Origin, OwnStanza};
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
        self.reply_error(conn, message, error, cx);
    }

    /// Answers a session's own stanza with an error. It counts as handled if it was counted, so the
    /// error of a message that is worth keeping must be there after a kill too.
    pub(crate) fn reply_error(
        &mut self,
        conn: ConnRef,
        stanza: &Frame,
        error: &StanzaError,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(reply) = xmpp::error::reply(stanza, error) else {
            return;
        };
        match is_worth_keeping(stanza) && self.is_counted(conn) {
            true => self.receive_own_error(reply, None, cx),
            false => self.write_frame(conn, &reply, cx),
        }
    }

    /// What tells a session that the append which its stanza caused was refused; nothing if an
    /// entry of the log will. If the session has ended since, its client may all the same hear that
    /// the stanza was handled, when it wants to resume it.
    pub(super) fn refusal_of(
        &mut self,
        own: OwnStanza,
        error: &StanzaError,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<Effect> {
        let reply = xmpp::error::reply(&own.frame, error)?;
        if own.is_owed_an_entry() {
            self.keep_refusal(reply, cx);
            return None;
        }
        let bytes = reply.as_bytes().to_vec();
        Some(Effect::Write(own.conn, What::Other, bytes))
    }

    /// An error waits until it can be recorded.
    pub(super) fn keep_refusal(&mut self, error: Frame, cx: &mut Context<'_, UserMsg>) {
        self.log().refusals.push(error);
        self.progress_is_due(cx);
    }

    /// Whether so many errors wait that the user's streams end with the append that failed: what it
    /// was about is not counted as handled then, and comes again.
    pub(super) fn has_too_many_refusals(&self, append: &Decided) -> bool {
        let Some(log) = &self.log else { return false };
        let first = match &append.origin {
            Origin::Session(own) => Some(own),
            Origin::Nobody | Origin::Other(_) => None,
        };
        let new = first.into_iter().chain(&append.again);
        let new = new.filter(|own| own.is_owed_an_entry()).count();
        let again = append.effects.iter();
        let again = again.filter(|effect| matches!(effect, Effect::NotTold(_)));
        let max = self.home.bounds().refusals_max;
        new > 0 && log.refusals.len() + again.count() + new > max
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
            self.receive_own_error(error, None, cx);
        }
    }

    fn is_counted(&self, conn: ConnRef) -> bool {
        let session = self.sessions.iter().find(|session| session.conn == conn);
        session.is_some_and(|session| session.managed.is_some())
    }
}

impl OwnStanza {
    /// Whether its sender is told by an entry of the log.
    pub(super) fn is_owed_an_entry(&self) -> bool {
        self.is_counted && is_worth_keeping(&self.frame)
    }
}

fn is_worth_keeping(stanza: &Frame) -> bool {
    let keep = hints::keep(stanza);
    keep.log || keep.for_room
}
