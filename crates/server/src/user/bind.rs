//! Sessions come and go: resource binding with its conflict policy (RFC 6120 section 7.7) and the
//! end of a connection.

use actor::{Context, Mail};
use delivery::SessionNumber;
use net::ConnRef;
use telemetry::{Counter, Gauge};
use xmpp::error::{Condition, StanzaError};

use super::managed::Link;
use super::session::Session;
use super::{Effect, Phase, User};
use crate::ending::Abort;
use crate::limits::RESOURCE_BYTES;
use crate::message::UserMsg;
use crate::message::control::Control;

impl User {
    /// A connection that has authenticated asks for a resource. A resource that is taken goes to
    /// the newcomer and the older stream ends with `conflict`: after a lost link the newcomer is
    /// the same device (section 7.7.2.2, first way).
    pub(super) fn bind(
        &mut self,
        conn: ConnRef,
        resource: Option<Box<str>>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let answer = match self.phase {
            Phase::Registered => self.take_resource(conn, resource, cx),
            // Removed between the login and now.
            Phase::Absent => Err(StanzaError::new(Condition::NotAllowed)),
            Phase::Loading | Phase::Unreadable => {
                Err(StanzaError::new(Condition::InternalServerError))
            }
        };
        let user = cx.myself();
        let answer = answer.map(|()| (self.sessions[self.sessions.len() - 1].full.clone(), user));
        self.emit(Effect::Control(conn, Control::Bound(Box::new(answer))), cx);
    }

    fn take_resource(
        &mut self,
        conn: ConnRef,
        resource: Option<Box<str>>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        let resource = resource.unwrap_or_else(|| random_text(cx.rng(), RESOURCE_BYTES));
        let held = self
            .sessions
            .iter()
            .position(|session| session.resource() == &*resource);
        if let Some(held) = held {
            self.end_badly(held, Abort::Conflict, cx);
        } else if self.sessions.len() >= self.home.limits().sessions_per_user as usize
            && !self.end_waiting_session(cx)
        {
            return Err(StanzaError::new(Condition::ResourceConstraint)
                .with_text("This account has as many sessions as it may."));
        }
        self.sessions
            .push(Session::new(conn, &self.name, &resource));
        self.sessions.shrink_to_fit();
        self.enter_inbox(self.sessions.len() - 1);
        cx.stats().count(Counter::Logins);
        cx.stats().raise(Gauge::Sessions);
        self.login.forget_account();
        Ok(())
    }

    /// Ends the session that has waited the longest for its client to come back; false if none
    /// does. A client that lost its link and its name must not be kept out by what it left behind.
    fn end_waiting_session(&mut self, cx: &mut Context<'_, UserMsg>) -> bool {
        let since = |session: &Session| match session.managed.as_ref()?.link {
            Link::Detached(since) => Some(since),
            Link::Attached(_) | Link::Resuming(_) => None,
        };
        let waiting = (0..self.sessions.len()).filter(|at| since(&self.sessions[*at]).is_some());
        match waiting.min_by_key(|at| since(&self.sessions[*at])) {
            Some(at) => {
                self.end_badly(at, Abort::Conflict, cx);
                true
            }
            None => false,
        }
    }

    pub(super) fn session_started(&mut self, conn: ConnRef) {
        if let Some(session) = self
            .sessions
            .iter_mut()
            .find(|session| session.conn == conn)
        {
            session.started = true;
        }
    }

    /// A connection is gone. A session that cannot be resumed, and whose client did not say
    /// goodbye, says it now.
    pub(super) fn session_closed(
        &mut self,
        conn: ConnRef,
        is_lost: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(at) = self.session_at(conn) else {
            return;
        };
        if is_lost && self.outlives_its_link(at) {
            self.detach(at, cx);
        } else {
            self.end_session(at, cx);
        }
    }

    /// The session that has a connection, or is about to have it.
    pub(super) fn session_at(&self, conn: ConnRef) -> Option<usize> {
        self.sessions
            .iter()
            .position(|session| match &session.managed {
                None => session.conn == conn,
                Some(managed) => managed.has_link(conn),
            })
    }

    pub(super) fn end_session(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        // Its own connection is not written to any more.
        self.sessions[at].started = false;
        self.ends_as_member(at);
        self.forget_asked(self.sessions[at].conn);
        let mut session = self.sessions.swap_remove(at);
        let number = session.number_for_rooms();
        cx.stats().lower(Gauge::Sessions);
        if let Some(managed) = session.managed.take() {
            self.forget_managed(&managed, cx);
        } else if let Some(log) = &mut self.log {
            log.inbox.end(SessionNumber::new(session.number));
        }
        if session.is_available() || session.directed.is_some() {
            let gone = session.presence.take().is_some();
            self.announce_end((&session, number), gone, cx);
        }
        self.watch_idleness(cx);
    }

    /// Ends every session with the same word.
    pub(super) fn end_all_sessions(&mut self, abort: Abort, cx: &mut Context<'_, UserMsg>) {
        while !self.sessions.is_empty() {
            self.end_badly(0, abort, cx);
        }
    }
}

pub(super) fn random_text(rng: &mut fastrand::Rng, characters: usize) -> Box<str> {
    (0..characters)
        .map(|_| rng.alphanumeric())
        .collect::<String>()
        .into()
}
