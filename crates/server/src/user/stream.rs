//! What a client and its session say to each other about stanzas (XEP-0198 sections 3 and 4): how a
//! session is made one that can be resumed, and what each side has handled.

use std::time::Duration;

use actor::{Context, Mail};
use delivery::{Count, Kind, SessionNumber};
use net::ConnRef;
use telemetry::{Counter, Gauge};
use xml::Frame;
use xmpp::error::Condition;
use xmpp::sm::{self, Fault, Request, TooHigh};

use super::User;
use super::acts;
use super::barrier::Effect;
use super::bind::random_text;
use super::managed::{Link, Managed, What};
use super::session::Session;
use crate::ending::Abort;
use crate::limits::SESSION_TOKEN_BYTES;
use crate::message::UserMsg;
use crate::message::control::Control;

impl User {
    /// An element of stream management from one of the user's sessions.
    pub(super) fn stream_management(
        &mut self,
        at: usize,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let conn = self.sessions[at].conn;
        match sm::parse(&frame.as_ref()) {
            Ok(Request::Enable { resume, max }) => self.enable(at, resume, max, cx),
            Ok(Request::AckRequest) => self.acknowledge(at, cx),
            Ok(Request::Ack(h)) => self.acknowledged(at, h, cx),
            Ok(Request::Resume { .. }) => self.sm_failed(conn, Condition::UnexpectedRequest, cx),
            Err(Fault::Failed(condition)) => self.sm_failed(conn, condition, cx),
            Err(Fault::Stream(_)) => self.end_badly(at, Abort::BadAcknowledgement, cx),
        }
    }

    fn sm_failed(&mut self, conn: ConnRef, condition: Condition, cx: &mut Context<'_, UserMsg>) {
        let mut bytes = Vec::new();
        sm::write_failed(condition, None, &mut bytes);
        self.emit(Effect::Nonza(conn, bytes), cx);
    }

    /// Ends a session, and the stream of its connection with a word.
    pub(super) fn end_badly(&mut self, at: usize, why: Abort, cx: &mut Context<'_, UserMsg>) {
        let link = self.sessions[at].link();
        let link = link.or_else(|| self.leave_adopted(at));
        self.end_session(at, cx);
        if let Some(conn) = link {
            self.emit(Effect::Control(conn, Control::Abort(why)), cx);
        }
    }

    /// Section 3. The session is durable before the client hears that it is.
    fn enable(
        &mut self,
        at: usize,
        resume: bool,
        max: Option<Duration>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let delivery = &self.home.options.delivery;
        let (is_on, allowed) = (delivery.stream_management, delivery.resume_timeout);
        let conn = self.sessions[at].conn;
        if !is_on {
            return self.sm_failed(conn, Condition::ServiceUnavailable, cx);
        }
        if self.sessions[at].managed.is_some() {
            return self.sm_failed(conn, Condition::UnexpectedRequest, cx);
        }
        if !self.log().inbox.may_manage() {
            return self.sm_failed(conn, Condition::ResourceConstraint, cx);
        }
        let kept = max.map_or(allowed, |max| max.min(allowed));
        let max_seconds = if resume { kept.as_secs() as u32 } else { 0 };
        let log = self.log();
        let number = log.next_session;
        log.next_session += 1;
        let token = random_text(cx.rng(), SESSION_TOKEN_BYTES);
        let mut bytes = Vec::new();
        let resumable = (max_seconds > 0).then_some((&*token, kept));
        sm::write_enabled(resumable, &mut bytes);
        let mut managed = Managed::new(number, token, max_seconds, Link::Attached(conn));
        let entered = self.rooms_entered(at).into_iter();
        managed.plain_rooms = entered.map(|(room, _)| (room, 0)).collect();
        let session = &mut self.sessions[at];
        let plain = SessionNumber::new(std::mem::replace(&mut session.number, number));
        session.managed = Some(Box::new(managed));
        self.log().inbox.end(plain);
        let number = SessionNumber::new(number);
        self.log().inbox.open(number, Kind::Managed, conn);
        cx.stats().raise(Gauge::ManagedSessions);
        // In front of it: the record of one that ended may still be there, and take its place.
        self.record_inbox();
        self.save_session(at);
        self.note_counting(at);
        self.emit(Effect::Enabled(conn, bytes), cx);
    }

    /// The client hears that its session is managed: from here on stanzas are counted.
    pub(super) fn enabled(&mut self, conn: ConnRef, bytes: &[u8], cx: &mut Context<'_, UserMsg>) {
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.conn == conn);
        if let Some(managed) = session.and_then(|session| session.managed.as_mut()) {
            managed.is_enabled = true;
        }
        // It may have sent its presence before: from here on it reads as a member.
        self.members_may_change();
        self.write_out(conn, cx, |out| out.extend_from_slice(bytes));
    }

    /// The session could not be made durable: it goes on as it was.
    pub(super) fn not_enabled(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let sessions = self.sessions.iter();
        let at = sessions.clone().position(|session| session.conn == conn);
        if let Some(at) = at
            && let Some(managed) = self.sessions[at].managed.take()
        {
            cx.stats().lower(Gauge::ManagedSessions);
            self.log().inbox.end(SessionNumber::new(managed.number));
            self.home.lines.begins_not(conn);
            self.enter_inbox(at);
        }
        self.sm_failed(conn, Condition::ResourceConstraint, cx);
    }

    /// Section 4: the count is durable before the client hears it.
    fn acknowledge(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        let session = &self.sessions[at];
        let conn = session.conn;
        let Some(managed) = &session.managed else {
            return self.sm_failed(conn, Condition::UnexpectedRequest, cx);
        };
        let h = managed.inbound;
        if h != managed.inbound_recorded {
            self.save_progress(cx);
        }
        let failures = self.failures;
        self.emit(Effect::Acknowledge { conn, h, failures }, cx);
    }

    fn acknowledged(&mut self, at: usize, h: u32, cx: &mut Context<'_, UserMsg>) {
        let conn = self.sessions[at].conn;
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let number = SessionNumber::new(managed.number);
        match managed.out.ack(h) {
            Ok(entries) => {
                if let Some(link) = managed.attached() {
                    self.home.lines.acknowledged(link, h);
                }
                let rooms = managed.rooms.as_mut();
                let has_room = rooms.is_some_and(|rooms| rooms.acknowledge(Count::new(h)));
                let log = self.log();
                log.rooms_due |= has_room;
                let has = log.inbox.acknowledge(number, Count::new(h));
                debug_assert!(has.is_ok(), "both count alike");
                if !entries.is_empty() {
                    self.may_trim(cx);
                }
                acts::roster::push_owed(self, at, cx);
            }
            Err(error) => {
                let link = managed.attached();
                self.too_high(at, link, error, cx);
            }
        }
        self.ask_for_the_rest(conn, cx);
    }

    /// A client that has acknowledged only a part of what it was sent, while a page waits for it to
    /// acknowledge more, is asked again at once: pages follow acknowledgements, not a timer. If it
    /// was sent nothing since it was asked, its answer would be the same: it has a moment first.
    fn ask_for_the_rest(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let named = |session: &Session| session.conn == conn;
        let Some(at) = self.sessions.iter().position(named) else {
            return;
        };
        if !self.is_waited_for(at) {
            return;
        }
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        if managed.out.should_ask(1) {
            managed.out.asked(now);
            self.emit(Effect::Nonza(conn, sm::REQUEST.to_vec()), cx);
        }
        self.progress_is_due(cx);
    }

    /// Whether a session is given no more until its client acknowledges some of what it has.
    fn is_waited_for(&self, at: usize) -> bool {
        let Some((managed, log)) = self.sessions[at].managed.as_ref().zip(self.log.as_ref()) else {
            return false;
        };
        let number = SessionNumber::new(managed.number);
        let rooms = managed.rooms.as_ref();
        !log.inbox.has_caught_up(number) && log.inbox.in_flight(number) > 0
            || managed.roster_owed.is_some()
            || rooms.is_some_and(|rooms| rooms.waits_for_client())
    }

    pub(super) fn too_high(
        &mut self,
        at: usize,
        conn: Option<ConnRef>,
        error: TooHigh,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.end_session(at, cx);
        if let Some(conn) = conn {
            let mut bytes = Vec::new();
            sm::write_too_high(error, &mut bytes);
            self.emit(Effect::Nonza(conn, bytes), cx);
            self.emit(Effect::Control(conn, Control::Close), cx);
        }
    }

    /// Asks clients that were sent messages what they have; gives up on links that do not answer.
    /// Who owes an answer is asked once more, and besides only with what else he is sent.
    pub(super) fn ask_acknowledgements(&mut self, cx: &mut Context<'_, UserMsg>) {
        let timeout = self.home.options.delivery.ack_timeout;
        let now = cx.now();
        let mut goes_on = false;
        for at in 0..self.sessions.len() {
            let conn = self.sessions[at].conn;
            let is_waited_for = self.is_waited_for(at);
            let is_silent = self.is_silent(at, cx);
            let Some(managed) = &mut self.sessions[at].managed else {
                continue;
            };
            let Some(link) = managed.attached() else {
                continue;
            };
            if is_silent {
                cx.stats().count(Counter::LinksSilent);
                self.detach(at, cx);
                let _ = self
                    .home
                    .io
                    .control(cx, link, Control::Abort(Abort::Silent));
                continue;
            }
            let number = SessionNumber::new(managed.number);
            let log = self.log.as_ref();
            let has_some = log.is_some_and(|log| log.inbox.in_flight(number) > 0);
            let rooms = managed.rooms.as_ref();
            let has_some = has_some || rooms.is_some_and(|rooms| rooms.has_in_flight());
            let is_new =
                has_some && managed.out.should_ask(1) || is_waited_for && managed.out.should_ask(0);
            let is_again = managed.out.should_ask_again(now, timeout);
            if is_new {
                managed.out.asked(now);
            } else if is_again {
                managed.out.asked_again();
            }
            // Its time is looked at until it is over.
            goes_on |= managed.out.asked_since().is_some();
            if is_new || is_again {
                self.emit(Effect::Nonza(conn, sm::REQUEST.to_vec()), cx);
            }
        }
        if goes_on {
            self.progress_is_due(cx);
        }
    }

    /// Whether the client of a session has owed an answer for too long. Nobody is silent while what
    /// he says waits in a mailbox that is held, or for a pause of the range, or is about to be
    /// handled.
    fn is_silent(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) -> bool {
        let (timeout, now) = (self.home.options.delivery.ack_timeout, cx.now());
        let managed = self.sessions[at].managed.as_mut();
        let overdue = managed.filter(|own| own.out.is_overdue(now, timeout));
        let Some(managed) = overdue else { return false };
        let range = self.home.place.range(&self.name);
        if cx.is_held() || cx.core().is_paused::<UserMsg>(range.index()) {
            managed.out.was_held_up(now);
            return false;
        }
        cx.waiting() == 0
    }

    // ---- Writing -------------------------------------------------------------------------------

    /// After how many stanzas the client of a session is asked what it has, if `what` is written to
    /// it now. Nobody should be given again what he has because he was not asked: what is owed is
    /// asked for at once. A message of a room's log comes again only at a resumption, and then the
    /// client says itself what it has. So where much is said, clients are asked once for several of
    /// them: [`User::ask_acknowledgements`] sees to the last ones, and a window that fills is asked
    /// for in time. Members are asked each time: their marks follow what is acknowledged.
    fn asks_every(&self, at: usize, what: What) -> u32 {
        let bounds = self.home.bounds();
        let managed = self.sessions[at].managed.as_ref();
        let rooms = managed.and_then(|managed| managed.rooms.as_ref());
        match what {
            What::Entry(_) => 1,
            What::Elsewhere => {
                let may_wait = self.is_progress_due()
                    && !self.is_any_member()
                    && rooms.is_some_and(|rooms| !rooms.should_ask());
                if may_wait {
                    bounds.ask_every_of_rooms
                } else {
                    1
                }
            }
            // More of it is pushed once the client has acknowledged some.
            What::Other if managed.is_some_and(|one| one.roster_owed.is_some()) => 1,
            What::Presence | What::Gone | What::Copy | What::Other => bounds.ask_every,
        }
    }

    /// Sends a stanza to a session with stream management, or keeps it until there is a link.
    pub(super) fn write_managed(
        &mut self,
        at: usize,
        what: What,
        bytes: Vec<u8>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let now = cx.now();
        let every = self.asks_every(at, what);
        let bounds = self.home.bounds();
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let is_kept = managed.push(what, &bytes, bounds.unlogged);
        self.has_full_session |= managed.is_full;
        let is_passed_over = managed.is_recovered;
        if (is_kept || is_passed_over)
            && let Some(log) = &mut self.log
        {
            let number = SessionNumber::new(managed.number);
            let count = log.inbox.wrote(number, what.is_entry());
            if let (What::Elsewhere, Some(rooms)) = (what, &mut managed.rooms) {
                rooms.sent();
            }
            let sent = is_kept.then(|| Count::new(managed.out.sent()));
            debug_assert_eq!(count, sent, "both count alike");
            let rooms = managed.rooms.as_ref().zip(sent);
            debug_assert!(
                !matches!(managed.link, Link::Attached(_))
                    || rooms.is_none_or(|(rooms, sent)| !rooms.has_said(sent)),
                "only a room's message has a count that was said ahead of it"
            );
        }
        if is_passed_over && !what.is_entry() {
            return self.keep_early(at, what, bytes);
        }
        match &mut managed.link {
            Link::Attached(conn) if !managed.is_full => {
                let conn = *conn;
                // A client that has not answered is asked again after a while.
                let unacked = managed.out.sent().wrapping_sub(managed.out.acked());
                let is_asked = managed.out.should_ask(every);
                let ask = is_asked || unacked.is_multiple_of(bounds.ask_again_every);
                if is_asked {
                    managed.out.asked(now);
                }
                let (sent, acked) = (managed.out.sent(), managed.out.acked());
                self.write_out(conn, cx, |out| {
                    out.extend_from_slice(&bytes);
                    if ask {
                        out.extend_from_slice(sm::REQUEST);
                    }
                });
                self.home.lines.wrote(conn, sent, acked);
                if what == What::Other {
                    self.home.lines.answered(conn, &bytes);
                }
                if ask {
                    self.progress_is_due(cx);
                }
            }
            Link::Resuming(resuming) => {
                if let What::Entry(seq) = what {
                    resuming.entries.insert(seq, bytes);
                }
            }
            Link::Detached(_) => managed.has_unsent |= matches!(what, What::Copy | What::Other),
            Link::Attached(_) => {}
        }
    }

    /// Ends sessions that cannot be served any further. What they have not acknowledged waits.
    pub(super) fn end_full_sessions(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.has_full_session = false;
        let is_full = |session: &Session| session.managed.as_ref().is_some_and(|m| m.is_full);
        while let Some(at) = self.sessions.iter().position(is_full) {
            cx.stats().count(Counter::SessionsOverflowed);
            self.end_badly(at, Abort::Overflow, cx);
        }
    }
}
