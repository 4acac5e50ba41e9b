//! Sessions that outlive their connection (XEP-0198 section 5): how one loses its link, is taken up
//! again, and ends. Their records make them outlive the process too (docs/delivery.md).

use std::sync::Arc;
use std::time::Duration;

use actor::{Context, Mail};
use delivery::{Count, Place, SessionNumber};
use net::ConnRef;
use rustc_hash::FxHashMap;
use stdx::time::Moment;
use store::limits::LOG_READ_MAX;
use store::{LogEntry, Seq, StoreError};
use telemetry::{Counter, Gauge};
use xml::Frame;
use xmpp::error::Condition;
use xmpp::sm::{self, Request};

use super::barrier::Effect;
use super::log::Ended;
use super::managed::{Link, Managed, Resuming};
use super::own::OwnMsg;
use super::session::Session;
use super::{User, acts};
use crate::ending::Abort;
use crate::message::UserMsg;
use crate::message::control::Control;

/// What was read to take a session up again.
pub(crate) struct Owed {
    /// The session.
    number: u32,
    /// The connection that asked.
    conn: ConnRef,
    /// Entries that it has not acknowledged.
    entries: Result<Vec<LogEntry>, StoreError>,
}

impl User {
    /// The connection is gone; the session stays for a while, and keeps its presence.
    pub(super) fn detach(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        managed.link = Link::Detached(now);
        managed.out.detached();
        if let Some(rooms) = &mut managed.rooms {
            rooms.detach();
        }
        let number = managed.number;
        self.log().inbox.detach(SessionNumber::new(number));
        // What its client has acknowledged last nobody else knows any more, if the account moves to
        // another home before it is recorded.
        if self.is_registered() {
            self.save_progress(cx);
        }
        self.expires(at, now, cx);
    }

    fn expires(&mut self, at: usize, now: Moment, cx: &mut Context<'_, UserMsg>) {
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let number = managed.number;
        let after = Duration::from_secs(managed.max_seconds.into());
        cx.stats().count(Counter::SessionsDetached);
        // A link that is lost again and again leaves one timer, not one for each time.
        if let Some(before) = managed.expiry.take() {
            cx.cancel(before);
        }
        let expires = UserMsg::Expire { number, since: now };
        managed.expiry = Some(cx.send_after(after, expires));
    }

    /// Whether a session is to be kept although its connection is gone.
    pub(super) fn outlives_its_link(&self, at: usize) -> bool {
        let managed = self.sessions[at].managed.as_ref();
        managed.is_some_and(|managed| managed.max_seconds > 0 && !managed.is_full)
    }

    /// A session has been detached for as long as it may.
    pub(super) fn expire(&mut self, number: u32, since: Moment, cx: &mut Context<'_, UserMsg>) {
        let Some(at) = self.managed_session(number) else {
            return;
        };
        let managed = self.sessions[at].managed.as_ref();
        let link = managed.map(|managed| &managed.link);
        if matches!(link, Some(Link::Detached(lost)) if *lost == since) {
            cx.stats().count(Counter::SessionsExpired);
            self.end_session(at, cx);
        }
    }

    pub(super) fn managed_session(&self, number: u32) -> Option<usize> {
        self.sessions.iter().position(|session| {
            let managed = session.managed.as_ref();
            managed.is_some_and(|managed| managed.number == number)
        })
    }

    /// A session with stream management has ended: what it did not acknowledge is the account's.
    pub(super) fn forget_managed(&mut self, managed: &Managed, cx: &mut Context<'_, UserMsg>) {
        cx.stats().lower(Gauge::ManagedSessions);
        if let Some(expiry) = managed.expiry {
            cx.cancel(expiry);
        }
        let ended_max = self.home.bounds().ended_max.max(1);
        let number = SessionNumber::new(managed.number);
        let log = self.log();
        while log.ended.len() >= ended_max {
            log.ended.pop_front();
        }
        log.ended.push_back(Ended {
            token: managed.token.clone(),
            inbound: managed.inbound,
        });
        let again = log.inbox.in_flight(number) as u64;
        log.inbox.end(number);
        cx.stats().add(Counter::MessagesRequeued, again);
    }

    // ---- Resumption ----------------------------------------------------------------------------

    /// A connection that has authenticated wants a session of before (section 5).
    pub(super) fn resume(&mut self, conn: ConnRef, request: &Frame, cx: &mut Context<'_, UserMsg>) {
        let (previd, h) = match sm::parse(&request.as_ref()) {
            Ok(Request::Resume { previd, h }) => (previd, h),
            _ => return self.resume_failed(conn, Condition::BadRequest, cx),
        };
        let found = self.sessions.iter().position(|session| {
            let managed = session.managed.as_ref();
            managed.is_some_and(|managed| managed.max_seconds > 0 && *managed.token == *previd)
        });
        let Some(at) = found else {
            return self.emit(Effect::NoSession { conn, previd }, cx);
        };
        if self.sessions[at].link().is_some() {
            // The server had not noticed that the link was lost.
            cx.stats().count(Counter::SessionsDetached);
        }
        if let Some(old) = self.leave_adopted(at) {
            self.emit(Effect::Control(old, Control::Abort(Abort::Conflict)), cx);
        }
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        managed.out.detached();
        let entries = FxHashMap::default();
        managed.link = Link::Resuming(Box::new(Resuming {
            conn,
            h,
            entries,
            is_adopted: false,
            unanswered: Vec::new(),
        }));
        let number = SessionNumber::new(managed.number);
        self.log().inbox.resume(number, conn);
    }

    /// Gives up that a connection which outlived its home goes on with the session, and returns it:
    /// it has not asked for a resumption, and is to hear of no failed one.
    pub(super) fn leave_adopted(&mut self, at: usize) -> Option<ConnRef> {
        let managed = self.sessions[at].managed.as_ref()?;
        let conn = managed.resuming().filter(|_| managed.is_adopted())?;
        let number = SessionNumber::new(managed.number);
        self.log().inbox.detach(number);
        Some(conn)
    }

    /// The session that a connection may go on to take up, unless that one was answered already:
    /// another one asked for it since, or one of the two is gone.
    fn resumed_by(&self, number: u32, conn: ConnRef) -> Option<usize> {
        let at = self.managed_session(number)?;
        let managed = self.sessions[at].managed.as_ref();
        let resuming = managed.and_then(|managed| managed.resuming());
        (resuming == Some(conn)).then_some(at)
    }

    pub(super) fn resume_failed(
        &mut self,
        conn: ConnRef,
        condition: Condition,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let mut bytes = Vec::new();
        sm::write_failed(condition, None, &mut bytes);
        self.emit(Effect::Nonza(conn, bytes), cx);
        self.emit(Effect::Control(conn, Control::Resumed(None)), cx);
    }

    /// The session that a client wants to resume has ended, and all that came in it is decided:
    /// where it is known what was handled, the client sends again only the rest (section 5).
    pub(super) fn no_session(
        &mut self,
        conn: ConnRef,
        previd: &str,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let log = self.log.as_ref();
        let mut ended = log.into_iter().flat_map(|log| &log.ended);
        let ended = ended.find(|ended| *ended.token == *previd);
        let h = ended.map(|ended| ended.inbound);
        // What was refused counts as handled once its error is durable.
        let h = h.filter(|_| !self.has_refusals());
        self.write_out(conn, cx, |out| {
            sm::write_failed(Condition::ItemNotFound, h, out);
        });
        let _ = self.home.io.control(cx, conn, Control::Resumed(None));
    }

    /// Everything written to the session so far is in its queue: reads what the log owes it.
    pub(super) fn read_owed(&mut self, number: u32, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let Some(at) = self.resumed_by(number, conn) else {
            return;
        };
        let places = self.owed_to(at).map(|(_, place)| place.number());
        let places: Vec<Seq> = places.collect();
        let owed = move |entries| Owed {
            number,
            conn,
            entries,
        };
        if places.is_empty() {
            let nothing = OwnMsg::Owed(owed(Ok(Vec::new()))).into();
            // While the user is read again, not before that is done.
            if let Some(UserMsg::Own(own)) = self.unless_reading(nothing, cx)
                && let Some(OwnMsg::Owed(nothing)) = own.take()
            {
                self.owed_read(nothing, cx);
            }
            return;
        }
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let read = move || {
            let parts = places.chunks(LOG_READ_MAX);
            let parts: Result<Vec<_>, _> = parts.map(|own| store.log_entries(&name, own)).collect();
            owed(parts.map(|parts| parts.concat()))
        };
        let map = |owed| OwnMsg::Owed(owed).into();
        if cx.blocking(&self.home.reads, read, map).is_err() {
            self.owed_read(owed(Err(super::overloaded())), cx);
        }
    }

    /// What a session that is resumed is sent again of the log, with the counts of before.
    fn owed_to(&self, at: usize) -> impl Iterator<Item = (Option<Count>, Place)> {
        let managed = self.sessions[at].managed.as_ref();
        let resuming = managed.and_then(|managed| match &managed.link {
            Link::Resuming(resuming) => Some((managed.number, resuming.h)),
            Link::Attached(_) | Link::Detached(_) => None,
        });
        let log = self.log.as_ref();
        let owed = resuming.zip(log).map(|((number, h), log)| {
            let h = h.wrapping_sub(u32::from(stdx::bugs::is("double_after_resume")));
            let number = SessionNumber::new(number);
            log.inbox.unacknowledged(number, Count::new(h))
        });
        owed.into_iter().flatten()
    }

    /// Counts anew what the client has not got, and has that recorded before it is sent.
    pub(super) fn owed_read(&mut self, owed: Owed, cx: &mut Context<'_, UserMsg>) {
        let (number, conn) = (owed.number, owed.conn);
        let Some(at) = self.resumed_by(number, conn) else {
            return;
        };
        let entries = match owed.entries {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(user = %self.name, %error, "cannot read what a session is owed");
                return self.not_resumed(number, conn, cx);
            }
        };
        let session = &self.sessions[at];
        let frames = entries.iter();
        let frames = frames.map(|entry| (entry.seq, self.entry_for(session, entry, false)));
        let frames: FxHashMap<Seq, Vec<u8>> = frames.collect();
        let owed: Vec<Seq> = self.owed_to(at).map(|(_, place)| place.number()).collect();
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let Link::Resuming(resuming) = &mut managed.link else {
            return;
        };
        resuming.entries.extend(frames);
        if resuming.is_adopted {
            // What was recorded before may have been refused since. Without it the client would be
            // written stanzas under counts that a record has for other ones.
            self.record_void_rooms(at);
            self.save_session(at);
            self.save_progress(cx);
            return self.emit(Effect::Resumed { number, conn }, cx);
        }
        let h = resuming
            .h
            .wrapping_sub(u32::from(stdx::bugs::is("double_after_resume")));
        if let Err(error) = managed.resume(h, owed) {
            managed.link = Link::Detached(cx.now());
            self.log().inbox.detach(SessionNumber::new(number));
            return self.too_high(at, Some(conn), error, cx);
        }
        self.give_early(at, false);
        self.resume_rooms(at, h);
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let sent = Count::new(managed.out.sent());
        let unacked = managed.out.unacked();
        let counts = unacked.filter_map(|(count, kept)| kept.entry().map(|_| Count::new(count)));
        let Some(log) = &mut self.log else { return };
        let session = SessionNumber::new(number);
        let is_its_own = log
            .inbox
            .handle_resent(session, conn, (Count::new(h), sent), counts);
        debug_assert_eq!(is_its_own, Ok(true), "both count alike");
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.resumptions = managed.resumptions.wrapping_add(1);
        }
        // Before the client is written anything: from then on connections of before know less.
        self.save_session(at);
        self.save_progress(cx);
        self.emit(Effect::Resumed { number, conn }, cx);
    }

    /// What a session is owed could not be read, or not recorded that it is counted anew.
    pub(super) fn not_resumed(
        &mut self,
        number: u32,
        conn: ConnRef,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(at) = self.resumed_by(number, conn) else {
            return;
        };
        let now = cx.now();
        if let Some(managed) = &mut self.sessions[at].managed {
            if managed.is_adopted() {
                // What was counted anew is in no record. Its connection asks the next life of this
                // user, which knows nothing of that either.
                return self.start_over(Vec::new(), cx);
            }
            managed.link = Link::Detached(now);
        }
        self.log()
            .inbox
            .not_resumed(SessionNumber::new(number), conn);
        self.expires(at, now, cx);
    }

    /// Sessions that cannot be resumed do not outlive the process: what they were owed waits.
    pub(super) fn end_unresumable_sessions(&mut self, cx: &mut Context<'_, UserMsg>) {
        let is_over = |session: &Session| {
            let managed = session.managed.as_ref();
            managed.is_some_and(|managed| managed.max_seconds == 0 && managed.is_recovered)
        };
        while let Some(at) = self.sessions.iter().position(is_over) {
            self.end_session(at, cx);
        }
    }

    /// Nothing stands in the way any more: the client hears that its session goes on, and gets what
    /// it has not got.
    pub(super) fn resumed(&mut self, number: u32, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(at) = self.resumed_by(number, conn) else {
            return;
        };
        let Some(log) = &mut self.log else { return };
        if !log.inbox.resumed(SessionNumber::new(number), conn) {
            return;
        }
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        managed.has_unsent = false;
        let link = std::mem::replace(&mut managed.link, Link::Attached(conn));
        let Link::Resuming(resuming) = link else {
            return;
        };
        if resuming.is_adopted {
            return self.taken_over(at, &resuming, cx);
        }
        let mut bytes = Vec::new();
        let more = u32::from(stdx::bugs::is("counter_off_by_one"));
        sm::write_resumed(
            &managed.token,
            managed.inbound.wrapping_add(more),
            &mut bytes,
        );
        let mut resent = 0u64;
        let is_lost = stdx::bugs::is("resend_queue_lost");
        for (_, kept) in managed.out.unacked().filter(|_| !is_lost) {
            resent += 1;
            resuming.write(kept, &mut bytes);
        }
        if resent > 0 {
            managed.out.asked(now);
            bytes.extend_from_slice(sm::REQUEST);
        }
        cx.stats().count(Counter::SessionsResumed);
        cx.stats().add(Counter::StanzasResent, resent);
        let session = (Arc::clone(&self.sessions[at].full), cx.myself());
        self.write_out(conn, cx, |out| out.extend_from_slice(&bytes));
        let control = Control::Resumed(Some(Box::new(session)));
        let _ = self.home.io.control(cx, conn, control);
        self.note_counting(at);
        self.progress_is_due(cx);
        self.tell_what_was_missed(at, cx);
    }

    /// A session goes on with another connection, or at another home.
    pub(super) fn tell_what_was_missed(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        // Not before: a resumption that is not completed has told its client nothing.
        let presence_lost = std::mem::take(&mut managed.presence_lost);
        let is_first = managed.roster_owed.as_deref() == Some("");
        // What it may have missed that is in no log.
        acts::roster::push_owed(self, at, cx);
        if is_first {
            self.tell_of_closed_rooms(at, cx);
        }
        if presence_lost && self.sessions[at].is_available() {
            self.show_contacts_again(at, cx);
            // With events of nodes it is the same: it gets last items.
            self.sessions[at].caps = None;
        }
        if self.sessions[at].caps.is_none() {
            self.look_at_caps(at, 0, cx);
        }
        self.rooms_resumed(at, presence_lost, cx);
    }
}
