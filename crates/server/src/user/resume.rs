//! Sessions that outlive their connection (XEP-0198): how one is made resumable, acknowledges,
//! loses its link, is taken up again, and ends. Their records make them outlive the process too
//! (docs/delivery.md).

use std::sync::Arc;
use std::time::Duration;

use actor::{Context, Mail};
use net::ConnRef;
use stdx::time::Moment;
use store::{LogEntry, Record, Seq, SessionRecord, StoreError};
use telemetry::{Counter, Gauge};
use xml::Frame;
use xmpp::error::Condition;
use xmpp::sm::{self, Fault, Kept, Request, TooHigh};

use super::User;
use super::barrier::Effect;
use super::bind::random_text;
use super::log::{Ended, Log};
use super::managed::{Link, Managed, Resuming, SHARED, What, place};
use super::session::Session;
use super::spill::{Holders, Spill};
use crate::c2s::{Abort, Control};
use crate::limits::SESSION_TOKEN_BYTES;
use crate::message::UserMsg;

/// What was read to take a session up again.
pub struct Owed {
    /// The session.
    number: u32,
    /// The connection that asked.
    conn: ConnRef,
    /// Entries that it has not acknowledged.
    entries: Result<Vec<LogEntry>, StoreError>,
    /// From this one on they were not read: they are too much to be sent at once.
    first_unread: Option<Seq>,
}

impl User {
    // ---- What clients say ----------------------------------------------------------------------

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
        let conn = self.sessions[at].conn;
        if !delivery.stream_management {
            return self.sm_failed(conn, Condition::ServiceUnavailable, cx);
        }
        if self.sessions[at].managed.is_some() {
            return self.sm_failed(conn, Condition::UnexpectedRequest, cx);
        }
        if !self.has_room_for_estate() {
            return self.sm_failed(conn, Condition::ResourceConstraint, cx);
        }
        let allowed = delivery.resume_timeout;
        let kept = max.map_or(allowed, |max| max.min(allowed));
        let max_seconds = if resume { kept.as_secs() as u32 } else { 0 };
        let log = self.log();
        let number = log.next_session;
        log.next_session += 1;
        let token = random_text(cx.rng(), SESSION_TOKEN_BYTES);
        let mut bytes = Vec::new();
        let resumable = (max_seconds > 0).then_some((&*token, kept));
        sm::write_enabled(resumable, &mut bytes);
        let managed = Managed::new(number, token, max_seconds, Link::Attached(conn));
        self.sessions[at].managed = Some(Box::new(managed));
        cx.stats().raise(Gauge::ManagedSessions);
        self.save_session(at);
        self.emit(Effect::Enabled(conn, bytes), cx);
    }

    /// The client hears that its session is managed: from here on stanzas are counted.
    pub(super) fn enabled(&mut self, conn: ConnRef, bytes: &[u8], cx: &mut Context<'_, UserMsg>) {
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.conn == conn);
        if let Some(managed) = session.and_then(|session| session.managed.as_mut()) {
            managed.is_enabled = true;
        }
        self.write_out(conn, cx, |out| out.extend_from_slice(bytes));
    }

    /// The session could not be made durable: it goes on as it was.
    pub(super) fn not_enabled(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let mut sessions = self.sessions.iter_mut();
        if let Some(session) = sessions.find(|session| session.conn == conn) {
            session.managed = None;
            cx.stats().lower(Gauge::ManagedSessions);
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
            self.save_progress();
        }
        let failures = self.failures;
        self.emit(Effect::Acknowledge { conn, h, failures }, cx);
    }

    fn acknowledged(&mut self, at: usize, h: u32, cx: &mut Context<'_, UserMsg>) {
        let conn = self.sessions[at].conn;
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        match managed.out.ack(h) {
            Ok(entries) => self.has_acknowledged(at, &entries, cx),
            Err(error) => {
                let link = managed.attached();
                self.too_high(at, link, error, cx);
            }
        }
        self.give_all_spilled(cx);
        self.drain_inbox(cx);
        self.ask_for_the_rest(conn, cx);
    }

    /// A client that has acknowledged only a part of what it was sent, while a page waits for it to
    /// acknowledge more, is asked again at once: pages follow acknowledgements, not a timer.
    fn ask_for_the_rest(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let has_waiting = self.log.as_ref().is_some_and(|log| log.has_waiting());
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.conn == conn);
        let Some(managed) = session.and_then(|session| session.managed.as_mut()) else {
            return;
        };
        let is_waited_for = has_waiting || managed.spill.is_some();
        if is_waited_for && managed.entries > 0 && managed.out.should_ask(1) {
            managed.out.asked(now);
            self.emit(Effect::Nonza(conn, sm::REQUEST.to_vec()), cx);
            self.progress_is_due(cx);
        }
    }

    fn too_high(
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

    /// A client has entries of the log.
    fn has_acknowledged(&mut self, at: usize, entries: &[u64], cx: &mut Context<'_, UserMsg>) {
        if entries.is_empty() {
            return;
        }
        self.forget_shared(entries);
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.entries = managed.entries.saturating_sub(entries.len() as u32);
            if let Some(spill) = &mut managed.spill {
                spill.unacked_bytes = 0;
            }
            managed.acked_since = true;
        }
        self.may_trim(cx);
    }

    /// Somebody has these entries: they need not wait for another session.
    fn forget_shared(&mut self, entries: &[u64]) {
        let log = self.log();
        for entry in entries.iter().filter(|entry| **entry & SHARED != 0) {
            log.shared.remove(&place(*entry));
        }
    }

    /// Asks clients that were sent messages what they have; gives up on links that do not answer.
    pub(super) fn ask_acknowledgements(&mut self, cx: &mut Context<'_, UserMsg>) {
        let timeout = self.home.options.delivery.ack_timeout;
        let now = cx.now();
        let mut goes_on = false;
        for at in 0..self.sessions.len() {
            let conn = self.sessions[at].conn;
            let Some(managed) = &mut self.sessions[at].managed else {
                continue;
            };
            let Some(link) = managed.attached() else {
                continue;
            };
            if managed.out.is_overdue(now, timeout) {
                cx.stats().count(Counter::LinksSilent);
                self.detach(at, cx);
                let _ = self
                    .home
                    .io
                    .control(cx, link, Control::Abort(Abort::Silent));
                continue;
            }
            let is_new = managed.entries > 0 && managed.out.should_ask(1);
            if is_new {
                managed.out.asked(now);
            }
            if is_new || managed.out.asked_since().is_some_and(|since| since < now) {
                self.emit(Effect::Nonza(conn, sm::REQUEST.to_vec()), cx);
                goes_on = true;
            }
        }
        if goes_on {
            self.progress_is_due(cx);
        }
    }

    // ---- Writing -------------------------------------------------------------------------------

    /// Sends a stanza to a session with stream management, or keeps it until there is a link.
    pub(super) fn write_managed(
        &mut self,
        at: usize,
        what: What,
        bytes: Vec<u8>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let now = cx.now();
        let bounds = self.home.bounds();
        let (ask_every, again_every) = (bounds.ask_every, bounds.ask_again_every);
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        if !managed.push(what, &bytes, bounds.unlogged) {
            self.has_full_session |= managed.is_full;
        }
        match &mut managed.link {
            Link::Attached(conn) if !managed.is_full => {
                let conn = *conn;
                // A client that has not answered is asked again after a while.
                let unacked = managed.out.sent().wrapping_sub(managed.out.acked());
                // Nobody should be given again what he has, because he was not asked.
                let every = if what.entry().is_some() { 1 } else { ask_every };
                let is_asked = managed.out.should_ask(every);
                let ask = is_asked || unacked.is_multiple_of(again_every);
                if is_asked {
                    managed.out.asked(now);
                }
                self.write_out(conn, cx, |out| {
                    out.extend_from_slice(&bytes);
                    if ask {
                        out.extend_from_slice(sm::REQUEST);
                    }
                });
                if ask {
                    self.progress_is_due(cx);
                }
            }
            Link::Resuming(resuming) => {
                if let What::Entry(entry) = what {
                    resuming.entries.insert(place(entry), bytes);
                }
            }
            Link::Attached(_) | Link::Detached(_) => {}
        }
    }

    /// Ends sessions that cannot be served any further. What they have not acknowledged waits.
    pub(super) fn end_full_sessions(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.has_full_session = false;
        let is_full = |session: &Session| session.managed.as_ref().is_some_and(|m| m.is_full);
        while let Some(at) = self.sessions.iter().position(is_full) {
            cx.stats().count(Counter::SessionsOverflowed);
            self.end_badly(at, Abort::Overflow, cx);
            self.watch_idleness(cx);
        }
    }

    // ---- Records -------------------------------------------------------------------------------

    /// Records what a session must not forget when the process ends.
    pub(super) fn save_session(&mut self, at: usize) {
        let last = self.log.as_ref().map_or(0, |log| log.head.next_seq - 1);
        let session = &mut self.sessions[at];
        let Some(managed) = &mut session.managed else {
            return;
        };
        if managed.owed.is_some() {
            return; // Nothing changes until its client is back.
        }
        if !self.has_room_for_records() {
            return self.give_up(at);
        }
        let session = &mut self.sessions[at];
        let Some(managed) = &mut session.managed else {
            return;
        };
        let mut numbered = Vec::new();
        if managed.void_through > 0 {
            managed.void_through = managed.listed_through(last);
            numbered = managed.numbered(|seq| holders_of(self.log.as_deref(), seq));
        }
        let session = &self.sessions[at];
        let Some(managed) = &session.managed else {
            return;
        };
        let directed = session.directed.as_deref();
        let record = SessionRecord {
            number: managed.number,
            token: managed.token.as_bytes().to_vec(),
            resource: session.resource().to_owned(),
            max_seconds: managed.max_seconds,
            detached: None,
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
            void_through: managed.void_through,
            numbered,
        };
        self.record(Record::SessionPut {
            user: String::from(&*self.name),
            session: Box::new(record),
        });
    }

    /// Whether what is recorded of the user's sessions is not too much for one value.
    fn has_room_for_records(&self) -> bool {
        let bounds = self.home.bounds();
        let listed = 10 * (bounds.resent_entries_max + bounds.late_entries_max);
        let size = |session: &Session| {
            let managed = session.managed.as_ref()?;
            let directed = session.directed.as_deref().into_iter().flatten();
            let directed: usize = directed.map(|to| to.len() + 3).sum();
            let presence = session.presence.as_ref().map_or(0, |p| p.as_bytes().len());
            let list = if managed.void_through > 0 { listed } else { 0 };
            Some(managed.token.len() + session.resource().len() + directed + presence + list)
        };
        let sizes: usize = self.sessions.iter().filter_map(size).sum();
        let estates = self.log.iter().flat_map(|log| &log.estates);
        let estates: usize = estates.map(|estate| estate.record().size()).sum();
        sizes + estates <= bounds.records_bytes_max
    }

    /// A session ends with the message that is being handled.
    fn give_up(&mut self, at: usize) {
        if let Some(managed) = &mut self.sessions[at].managed {
            managed.is_full = true;
            self.has_full_session = true;
        }
    }

    /// Changes what a session wants, and records that if it has changed.
    pub(crate) fn change_session(
        &mut self,
        conn: Option<ConnRef>,
        change: impl FnOnce(&mut Session) -> bool,
    ) {
        let mut sessions = self.sessions.iter();
        let Some(at) = sessions.position(|session| Some(session.conn) == conn) else {
            return;
        };
        if change(&mut self.sessions[at]) {
            self.save_session(at);
        }
    }

    /// Records which entries a session was given, with their counts, in place of what entries say.
    pub(super) fn record_numbered(&mut self, conn: ConnRef) {
        let last = self.log().head.next_seq - 1;
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.conn == conn);
        let Some(managed) = session.and_then(|session| session.managed.as_mut()) else {
            return;
        };
        let void_through = managed.listed_through(last);
        managed.void_through = void_through;
        let numbered = managed.numbered(|seq| holders_of(self.log.as_deref(), seq));
        let number = managed.number;
        self.record(Record::SessionNumbered {
            user: String::from(&*self.name),
            number,
            void_through,
            numbered,
        });
    }

    /// The same for all sessions.
    pub(super) fn record_all_numbered(&mut self) {
        for at in 0..self.sessions.len() {
            self.record_numbered(self.sessions[at].conn);
        }
    }

    // ---- A lost link ---------------------------------------------------------------------------

    /// The connection is gone; the session stays for a while, and keeps its presence.
    pub(super) fn detach(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        managed.link = Link::Detached(now);
        managed.out.detached();
        let number = managed.number;
        let after = Duration::from_secs(managed.max_seconds.into());
        cx.stats().count(Counter::SessionsDetached);
        cx.send_after(after, UserMsg::Expire { number, since: now });
        if self.sessions.iter().any(|session| session.link().is_some()) {
            // It holds nobody back any more.
            self.drain_inbox(cx);
        }
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
            self.watch_idleness(cx);
            self.drain_inbox(cx);
        }
    }

    pub(super) fn managed_session(&self, number: u32) -> Option<usize> {
        self.sessions.iter().position(|session| {
            let managed = session.managed.as_ref();
            managed.is_some_and(|managed| managed.number == number)
        })
    }

    /// A session with stream management has ended: what it was given and nobody has acknowledged
    /// waits for the next one.
    pub(super) fn forget_managed(&mut self, managed: &Managed, cx: &mut Context<'_, UserMsg>) {
        cx.stats().lower(Gauge::ManagedSessions);
        self.save_progress();
        let entries = managed.unacked_entries();
        let bounds = self.home.bounds();
        let (ended_max, joined_max) = (bounds.ended_max, bounds.joined_max);
        let is_spilled = managed.spill.is_some() || self.sessions.iter().any(Session::is_spilled);
        let log = self.log();
        // While somebody is to get from the log what others were given, it matters what those had.
        let keeps_more = is_spilled || !log.estates.is_empty();
        let kept = ended_max.max(1) + if keeps_more { joined_max } else { 0 };
        while log.ended.len() >= kept {
            log.ended.pop_front();
        }
        // Of those beyond it need not be exact.
        if let Some(at) = log.ended.len().checked_sub(ended_max.max(1)) {
            log.ended[at].unacked = None;
        }
        let has_through = managed.oldest_unacked().map_or(Seq::MAX, |seq| seq - 1);
        let mut unacked: Vec<Seq> = entries.iter().copied().map(place).collect();
        unacked.sort_unstable();
        log.ended.push_back(Ended {
            number: managed.number,
            token: managed.token.clone(),
            inbound: managed.inbound,
            has_through,
            unacked: Some(unacked.into()),
        });
        let mut again: Vec<Seq> = Vec::new();
        let mut is_held_by_fewer = false;
        for entry in entries {
            let seq = place(entry);
            if entry & SHARED == 0 {
                again.push(seq);
            } else if let Some(left) = Holders::drop_one(log, seq) {
                is_held_by_fewer |= left.kept > 0;
                if left == Holders::default() {
                    again.push(seq);
                }
            }
        }
        self.leave_estate(managed);
        if is_held_by_fewer {
            self.record_all_numbered();
        }
        if again.is_empty() {
            return;
        }
        cx.stats()
            .add(Counter::MessagesRequeued, again.len() as u64);
        let log = self.log();
        // An entry behind the ones given out so far would be read twice.
        let last = again.iter().max().copied().unwrap_or(0);
        if log.head.waiting_count == 0 {
            log.head.delivered_through = log.head.delivered_through.max(last);
        }
        log.head.waiting_count += again.len() as u64;
        log.windows.requeued.extend(again);
        log.windows.requeued.sort_unstable();
        log.windows.requeued.dedup();
        let surplus = log
            .windows
            .requeued
            .len()
            .saturating_sub(store::limits::REQUEUED_MAX);
        if surplus > 0 {
            // Never: sessions have in memory only what finds room ([`User::has_room_to_requeue`]).
            let user = &self.name;
            tracing::error!(%user, surplus, "too many wait again; the newest are only archived");
            self.log()
                .windows
                .requeued
                .truncate(store::limits::REQUEUED_MAX);
        }
        self.record_delivered();
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
            let ended = self.log.as_ref().map(|log| &log.ended);
            let ended = ended.and_then(|ended| ended.iter().find(|ended| ended.token == previd));
            let h = ended.map(|ended| ended.inbound);
            return self.resume_failed_at(conn, Condition::ItemNotFound, h, cx);
        };
        if let Some(old) = self.sessions[at].link() {
            // The server had not noticed that the link was lost.
            self.detach(at, cx);
            self.emit(Effect::Control(old, Control::Abort(Abort::Conflict)), cx);
        }
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        // From here on the session is this connection's. One that asked before and was not answered
        // yet hears so when its turn comes: each request has exactly one answer.
        managed.link = Link::Resuming(Box::new(Resuming::new(conn, h)));
        let number = managed.number;
        self.emit(Effect::Resume { number, conn, h }, cx);
    }

    /// The session that a connection may go on to take up. If another one has asked for it since,
    /// or the connection or the session is gone, the connection hears that it failed.
    fn still_resumed_by(
        &mut self,
        number: u32,
        conn: ConnRef,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<usize> {
        let Some(at) = self.managed_session(number) else {
            self.resume_failed(conn, Condition::ItemNotFound, cx);
            return None;
        };
        let managed = self.sessions[at].managed.as_ref();
        if managed.and_then(|managed| managed.resuming()) != Some(conn) {
            self.resume_failed(conn, Condition::Conflict, cx);
            return None;
        }
        Some(at)
    }

    pub(super) fn resume_failed(
        &mut self,
        conn: ConnRef,
        condition: Condition,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.resume_failed_at(conn, condition, None, cx);
    }

    /// The same with the count of what was handled, where it is known: its client sends again only
    /// the rest (section 5).
    fn resume_failed_at(
        &mut self,
        conn: ConnRef,
        condition: Condition,
        h: Option<u32>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let mut bytes = Vec::new();
        sm::write_failed(condition, h, &mut bytes);
        self.emit(Effect::Nonza(conn, bytes), cx);
        self.emit(Effect::Control(conn, Control::Resumed(None)), cx);
    }

    /// Everything written to the session so far is in its queue: reads what the log owes it.
    pub(super) fn read_owed(
        &mut self,
        number: u32,
        conn: ConnRef,
        h: u32,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(at) = self.still_resumed_by(number, conn, cx) else {
            return;
        };
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        // The same one reads again what has changed since.
        managed.link = Link::Resuming(Box::new(Resuming::new(conn, h)));
        let places = managed.given_beyond(h);
        let owed = move |entries| Owed {
            number,
            conn,
            entries,
            first_unread: None,
        };
        if places.is_empty() {
            let nothing = UserMsg::Owed(Box::new(owed(Ok(Vec::new()))));
            // While the user is read again, not before that is done.
            if let Some(UserMsg::Owed(nothing)) = self.unless_reading(nothing, cx) {
                self.owed_read(*nothing, cx);
            }
            return;
        }
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let bounds = self.home.bounds();
        let (page, bytes_max) = (bounds.page_entries, bounds.resent_bytes_max);
        let read = move || {
            let mut entries: Vec<LogEntry> = Vec::new();
            let (mut bytes, mut first_unread) = (0, None);
            for places in places.chunks(page) {
                if bytes > bytes_max {
                    first_unread = places.first().copied();
                    break;
                }
                match store.log_entries(&name, places) {
                    Ok(read) => {
                        bytes += read.iter().map(|entry| entry.frame.len()).sum::<usize>();
                        entries.extend(read);
                    }
                    Err(error) => return Box::new(owed(Err(error))),
                }
            }
            Box::new(Owed {
                first_unread,
                ..owed(Ok(entries))
            })
        };
        if cx.blocking(&self.home.reads, read, UserMsg::Owed).is_err() {
            self.owed_read(owed(Err(super::overloaded())), cx);
        }
    }

    /// Counts anew what the client has not got, and has that recorded before it is sent.
    pub(super) fn owed_read(&mut self, owed: Owed, cx: &mut Context<'_, UserMsg>) {
        let conn = owed.conn;
        let Some(at) = self.still_resumed_by(owed.number, conn, cx) else {
            return;
        };
        let entries = match owed.entries {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(user = %self.name, %error, "cannot read what a session is owed");
                return self.give_up_resumption(at, conn, cx);
            }
        };
        let session = &self.sessions[at];
        let frames = entries.iter();
        let frames = frames.map(|entry| (entry.seq, self.entry_for(session, entry, false)));
        let frames: Vec<(Seq, Vec<u8>)> = frames.collect();
        let identity = self.sessions[at].conn;
        let last = self.log().head.next_seq - 1;
        let bounds = self.home.bounds();
        let (entries_max, bytes_max) = (bounds.resent_entries_max, bounds.resent_bytes_max);
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let Link::Resuming(resuming) = &mut managed.link else {
            return;
        };
        for (seq, bytes) in frames {
            resuming.entries.entry(seq).or_insert(bytes);
        }
        resuming.first_unread = owed.first_unread;
        let h = resuming
            .h
            .wrapping_sub(u32::from(stdx::bugs::is("double_after_resume")));
        let beyond = managed.given_beyond(h);
        let is_too_much = managed.fitting(&beyond, bytes_max) < beyond.len();
        if is_too_much && managed.pending.iter().any(Option::is_some) {
            // The rest is left to the log, and what comes from now on is behind it. What is on its
            // way to the queue already is waited for, to keep its place there.
            let spill = || Box::new(Spill::new(last));
            managed.spill.get_or_insert_with(spill);
            let number = owed.number;
            return self.emit(Effect::Resume { number, conn, h }, cx);
        }
        let was_recovered = managed.owed.is_some();
        let mut resumed = match managed.resume(h, last, entries_max) {
            Ok(resumed) => resumed,
            Err(error) => {
                managed.link = Link::Detached(cx.now());
                return self.too_high(at, Some(conn), error, cx);
            }
        };
        if managed.leave_surplus(bytes_max, last) {
            resumed.is_renumbered = true;
            cx.stats().count(Counter::SessionsSpilled);
        }
        self.forget_shared(&resumed.acked);
        if resumed.is_renumbered {
            self.record_numbered(identity);
        }
        self.save_progress();
        let number = owed.number;
        self.emit(
            Effect::Resumed {
                number,
                conn,
                was_recovered,
            },
            cx,
        );
    }

    /// What was to be recorded for a resumption could not be.
    pub(super) fn not_resumed(
        &mut self,
        number: u32,
        conn: ConnRef,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if let Some(at) = self.managed_session(number)
            && let Some(managed) = &mut self.sessions[at].managed
        {
            managed.is_list_lost = true;
        }
        if let Some(at) = self.still_resumed_by(number, conn, cx) {
            self.give_up_resumption(at, conn, cx);
        }
    }

    /// Sessions that cannot be resumed do not outlive the process: what they were owed waits.
    pub(super) fn end_unresumable_sessions(&mut self, cx: &mut Context<'_, UserMsg>) {
        let is_over = |session: &Session| {
            let managed = session.managed.as_ref();
            managed.is_some_and(|managed| managed.max_seconds == 0 && managed.owed.is_some())
        };
        while let Some(at) = self.sessions.iter().position(is_over) {
            self.end_session(at, cx);
        }
    }

    fn give_up_resumption(&mut self, at: usize, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        self.detach(at, cx);
        self.resume_failed(conn, Condition::ResourceConstraint, cx);
    }

    /// Nothing stands in the way any more: the client hears that its session goes on, and gets what
    /// it has not got.
    pub(super) fn resumed(
        &mut self,
        number: u32,
        conn: ConnRef,
        was_recovered: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let now = cx.now();
        let Some(at) = self.still_resumed_by(number, conn, cx) else {
            return;
        };
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let link = std::mem::replace(&mut managed.link, Link::Attached(conn));
        let Link::Resuming(resuming) = link else {
            return;
        };
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
            match kept {
                Kept::Entry(entry) => {
                    let frame = resuming.entries.get(&place(*entry));
                    // One that is damaged has a count all the same.
                    let frame = frame.filter(|frame| !frame.is_empty());
                    bytes.extend_from_slice(frame.map_or(b"<message/>", |frame| frame));
                }
                Kept::Presence(stanza) | Kept::Other(stanza) => bytes.extend_from_slice(stanza),
            }
        }
        if resent > 0 {
            managed.out.asked(now);
            bytes.extend_from_slice(sm::REQUEST);
        }
        if let Some(spill) = &mut managed.spill {
            spill.unacked_bytes = bytes.len();
        }
        let presence_lost = std::mem::take(&mut managed.presence_lost);
        cx.stats().count(Counter::SessionsResumed);
        cx.stats().add(Counter::StanzasResent, resent);
        let session = (Arc::clone(&self.sessions[at].full), cx.myself());
        self.write_out(conn, cx, |out| out.extend_from_slice(&bytes));
        let control = Control::Resumed(Some(Box::new(session)));
        let _ = self.home.io.control(cx, conn, control);
        self.progress_is_due(cx);
        if was_recovered || presence_lost {
            self.show_everything(at, was_recovered, cx);
        }
        self.give_spilled(at, cx);
        self.drain_inbox(cx);
    }

    /// Tells a session what it may have missed that is in no log.
    fn show_everything(&mut self, at: usize, was_recovered: bool, cx: &mut Context<'_, UserMsg>) {
        if was_recovered {
            crate::modules::roster::push_all(self, at, cx);
        }
        if self.sessions[at].is_available() {
            self.show_contacts_again(at, cx);
        }
    }
}

/// How many sessions hold an entry that they were given together, if nobody has acknowledged it.
fn holders_of(log: Option<&Log>, seq: Seq) -> Option<u8> {
    let holders = log?.shared.get(&seq)?;
    Some(holders.kept.saturating_add(holders.spilled))
}
