//! The user actor: one per online account. Owns its life (loading, sessions, eviction), the barrier
//! between what it records and what leaves it, and the small verbs that the other files of this
//! folder are written with. The rules of RFC 6121 are in those files.

mod admin;
mod barrier;
mod bind;
pub(crate) mod blocklist;
mod class;
mod client_state;
mod copies;
mod inbound;
pub(crate) mod inbox;
mod log;
mod login;
pub(crate) mod managed;
mod outbound;
mod outbox;
pub(crate) mod presence;
pub(crate) mod recover;
pub(crate) mod resume;
pub(crate) mod roster;
pub(crate) mod session;
pub(crate) mod spill;
mod subscribe;
pub(crate) mod subscription;

use std::mem;
use std::rc::Rc;

use actor::{Actor, Context, Mail, Name};
use net::ConnRef;
use store::{ArchivePrefs, Record};
use telemetry::{Counter, Gauge};
use xml::Frame;

use crate::home::Home;
use crate::limits::{IDLE_EVICTION, LOAD_RETRY, LOADS_MAX};
use crate::message::{AppendError, Delivery, UserMsg};

pub(crate) use barrier::Effect;
use barrier::{Append, Barrier, Decided, Origin};
use blocklist::Blocklist;
pub(crate) use class::Users;
use log::Log;
use login::Login;
use managed::What;
use recover::Stored;
use roster::Roster;
use session::Session;

/// What is known of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The store has been asked; the mailbox is held.
    Loading,
    /// There is no such account.
    Absent,
    /// There is one.
    Registered,
    /// The store could not be read; every question gets an error until the actor is evicted.
    Unreadable,
}

/// One user: account, roster, sessions, and what waits for them.
pub struct User {
    pub(crate) name: Name,
    pub(crate) home: Rc<Home>,
    phase: Phase,
    pub(crate) roster: Roster,
    pub(crate) blocklist: Blocklist,
    pub(crate) sessions: Vec<Session>,
    /// Absent while there never was anything in it.
    log: Option<Box<Log>>,
    login: Login,
    barrier: Barrier,
    /// What came of the message being handled so far; absent between messages.
    turn: Option<Box<Turn>>,
    /// An append failed: the state in memory is ahead of the store and is loaded again.
    stale: bool,
    /// A session cannot be served any further and ends with the message being handled.
    has_full_session: bool,
    /// How often the store could not be read in a row.
    unread: u8,
    /// Appends that failed since the user was loaded.
    failures: u32,
    /// Effects of a decided append that have not left yet: others must not overtake them.
    to_perform: u32,
    /// When the account was made.
    created: stdx::time::Timestamp,
    /// Whether its owner may log in.
    pub(crate) is_locked: bool,
    /// Last activity as the store knows it (XEP-0012).
    pub(crate) last: Option<Box<(stdx::time::Timestamp, String)>>,
    /// Hash of the user's avatar in its vCard (XEP-0153), if there is one.
    pub(crate) photo_hash: Option<Box<String>>,
    /// What is to be archived, if the user said so (XEP-0313).
    pub(crate) archive_prefs: Option<Box<ArchivePrefs>>,
}

/// What comes of one message while it is handled.
#[derive(Default)]
pub(crate) struct Turn {
    /// Appended together when the handler ends.
    records: Vec<Record>,
    /// What leaves with those records, or after earlier ones.
    effects: Vec<Effect>,
    /// Whose stanza it is.
    origin: Origin,
}

/// An idle user costs this and what is on it: a field that few need belongs in a box.
const _: () = assert!(size_of::<User>() <= 192);

impl User {
    /// A user that is about to be loaded.
    pub fn new(name: Name, home: Rc<Home>) -> Self {
        User {
            name,
            home,
            phase: Phase::Loading,
            roster: Roster::default(),
            blocklist: Blocklist::default(),
            sessions: Vec::new(),
            log: None,
            login: Login::default(),
            barrier: Barrier::default(),
            turn: None,
            stale: false,
            has_full_session: false,
            unread: 0,
            failures: 0,
            to_perform: 0,
            created: stdx::time::Timestamp::from_millis(0),
            is_locked: false,
            last: None,
            photo_hash: None,
            archive_prefs: None,
        }
    }

    /// Whether the account exists.
    pub(crate) fn is_registered(&self) -> bool {
        self.phase == Phase::Registered
    }

    /// The session that holds a resource.
    pub(crate) fn session_of(&self, resource: &str) -> Option<&Session> {
        self.sessions
            .iter()
            .find(|session| session.started && session.resource() == resource)
    }

    // ---- Loading and eviction ------------------------------------------------------------------

    fn load(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.phase = Phase::Loading;
        cx.hold();
        cx.stats().count(Counter::UsersLoaded);
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let max = self.home.options.delivery.unacked_max as usize;
        let read = move || Box::new(Stored::read(&store, &name, max));
        if cx
            .blocking(&self.home.reads, read, UserMsg::Loaded)
            .is_err()
        {
            // The readers are overloaded: everybody who waits is told, and the next one tries
            // again.
            self.loaded(Err(overloaded()), cx);
        }
    }

    fn loaded(
        &mut self,
        stored: Result<Option<Stored>, store::StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        match stored {
            Ok(Some(mut stored)) => {
                self.take_log(&mut stored, cx);
                let state = stored.state;
                self.phase = Phase::Registered;
                self.roster = Roster::from_store(&state.roster);
                self.blocklist = Blocklist::new(state.blocked);
                self.last = state.last.map(Box::new);
                self.keep_photo_hash(state.photo_hash);
                self.archive_prefs = state.archive_prefs;
                self.created = state.account.created;
                self.is_locked = state.account.locked;
                self.login.keep(state.account);
            }
            Ok(None) => self.phase = Phase::Absent,
            // The store is being opened again, or too much waits for it.
            Err(_) if self.unread < LOADS_MAX => {
                self.unread += 1;
                cx.send_after(LOAD_RETRY, UserMsg::LoadAgain);
                return;
            }
            Err(error) => {
                tracing::error!(user = %self.name, %error, "cannot read a user");
                self.phase = Phase::Unreadable;
            }
        }
        self.unread = 0;
        cx.release();
        self.go_on(cx);
    }

    pub(crate) fn keep_photo_hash(&mut self, hash: String) {
        self.photo_hash = (!hash.is_empty()).then(|| Box::new(hash));
    }

    /// What comes past the held mailbox while the user is read, or is about to be, must change
    /// nothing that the store is about to take the place of: it waits behind the others. What was
    /// read for the state that goes is asked for anew.
    fn unless_reading(&self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) -> Option<UserMsg> {
        if !self.is_being_read() {
            return Some(msg);
        }
        match msg {
            UserMsg::Page(_) | UserMsg::Outgoing(_) | UserMsg::Oldest(_) => None,
            UserMsg::Owed(_)
            | UserMsg::Spilled(_)
            | UserMsg::Expire { .. }
            | UserMsg::Progress
            | UserMsg::ForwardAgain
            | UserMsg::Closed { .. } => cx
                .send(cx.myself(), msg)
                .err()
                .map(actor::SendError::into_inner),
            other => Some(other),
        }
    }

    /// The state in memory is about to be replaced by what the store has.
    fn is_being_read(&self) -> bool {
        self.phase == Phase::Loading || self.stale
    }

    /// The log as the store has it takes the place of the one in memory.
    fn take_log(&mut self, stored: &mut Stored, cx: &mut Context<'_, UserMsg>) {
        let windows = stored.state.windows.take().map(|windows| *windows);
        let mut head = stored.state.log;
        head.next_seq -= u64::from(head.count > 1 && stdx::bugs::is("id_reuse"));
        let next_session = stored.state.sessions.next_number;
        let is_new = head == self.home.store.first_head() && windows.is_none() && next_session == 0;
        if is_new && self.log.is_none() {
            return;
        }
        let before = self.log.take();
        let mut log = Log::new(head, windows.unwrap_or_default());
        if let Some(before) = before {
            log.take_over(*before);
            // A change was refused: what the next ones would be about would only be refused too.
            log.is_put_off = true;
        }
        log.outbox.restart(&log.head);
        self.log = Some(Box::new(log));
        self.forget_unappended();
        self.recover_sessions(stored, cx);
    }

    /// Takes up what the log says is not done.
    fn go_on(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.phase != Phase::Registered || self.log.is_none() {
            return;
        }
        self.read_outgoing_soon(cx);
        if self.log().is_put_off {
            return self.progress_is_due(cx);
        }
        self.drain_inbox(cx);
        self.give_all_spilled(cx);
        self.end_unresumable_sessions(cx);
    }

    fn idle(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.login.ease();
        let in_use = !self.sessions.is_empty()
            || self.is_being_read()
            || !self.barrier.is_open()
            || self.login.is_busy()
            || self.log.as_ref().is_some_and(|log| !log.is_at_rest());
        if (in_use || !cx.stop_when_idle()) && self.sessions.is_empty() {
            cx.send_after(IDLE_EVICTION, UserMsg::Idle);
        }
    }

    /// Starts the clock of eviction once the last session has gone.
    pub(super) fn watch_idleness(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.sessions.is_empty() {
            cx.send_after(IDLE_EVICTION, UserMsg::Idle);
        }
    }

    // ---- Recording -----------------------------------------------------------------------------

    /// Makes a change durable together with the others of this message. State in memory changes at
    /// once; whatever leaves the user from now on waits for the commit.
    pub(crate) fn record(&mut self, record: Record) {
        let records = &mut self.turn().records;
        if records.is_empty() {
            // Most messages make one record, and it is large.
            records.reserve_exact(1);
        }
        records.push(record);
    }

    /// Says whose stanza is being handled.
    pub(crate) fn comes_from(&mut self, origin: Origin) {
        self.turn().origin = origin;
    }

    /// What came of the message so far. A shard handles one at a time, so its users share one.
    fn turn(&mut self) -> &mut Turn {
        let home = &self.home;
        self.turn
            .get_or_insert_with(|| home.turn.take().unwrap_or_default())
    }

    fn has_records(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| !turn.records.is_empty())
    }

    fn take_effects(&mut self) -> Vec<Effect> {
        let turn = self.turn.as_mut();
        turn.map_or_else(Vec::new, |turn| mem::take(&mut turn.effects))
    }

    /// Ends the handling of a message: hands its records over and puts its effects behind them.
    fn settle(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(mut turn) = self.turn.take() else {
            return;
        };
        let origin = mem::take(&mut turn.origin);
        let records = mem::take(&mut turn.records);
        if records.is_empty() {
            if !turn.effects.is_empty() {
                self.barrier.follow(&mut turn.effects);
            }
            self.home.turn.set(Some(turn));
            return;
        }
        let effects = mem::take(&mut turn.effects);
        self.home.turn.set(Some(turn));
        let ticket = self.barrier.next_ticket();
        let range = self.home.place.range(&self.name);
        let moves_deliveries = records.iter().any(spill::moves_deliveries);
        match self.home.journal.append(cx, range, records, ticket) {
            Ok(()) => {
                self.barrier.push(Append {
                    ticket,
                    origin,
                    moves_deliveries,
                    effects,
                });
                if self.barrier.is_full() {
                    cx.hold();
                }
            }
            Err(error) => {
                let effects: Vec<_> = effects.into_iter().filter_map(Effect::of_failure).collect();
                self.count_pending_again(&effects);
                if self.must_start_over(error, moves_deliveries) {
                    self.note_failure(error, cx);
                    return self.start_over(effects, cx);
                }
                self.append_failed(origin, error, cx);
                self.perform_in_order(effects, cx);
            }
        }
    }

    fn decided(
        &mut self,
        ticket: crate::journal::Ticket,
        result: Result<(), AppendError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let was_full = self.barrier.is_full();
        let decided = self.barrier.decide(ticket, result.is_ok());
        let Some(Decided {
            effects,
            origin,
            moves_deliveries,
        }) = decided
        else {
            return;
        };
        if let Err(error) = result {
            self.count_pending_again(&effects);
            if self.must_start_over(error, moves_deliveries) {
                // No answer: it may have been done, and what clients are sent is counted.
                self.note_failure(error, cx);
                return self.start_over(effects, cx);
            }
            self.append_failed(origin, error, cx);
        }
        self.perform_in_order(effects, cx);
        if self.stale && self.barrier.is_open() {
            self.stale = false;
            self.load(cx);
        } else if was_full && !self.stale {
            cx.release();
        }
    }

    /// Design rule 6: what was not saved is dropped and the state comes back from the store. The
    /// mailbox is held from here until it is loaded, so that nobody sees the difference.
    fn append_failed(&mut self, origin: Origin, error: AppendError, cx: &mut Context<'_, UserMsg>) {
        self.note_failure(error, cx);
        cx.hold();
        self.stale = true;
        self.failures += 1;
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            managed.not_recorded();
        }
        let error = error.to_stanza_error();
        match origin {
            Origin::Nobody => {}
            Origin::Session(conn, link, frame) => {
                if let Some(reply) = xmpp::error::reply(&frame, &error) {
                    let write = |out: &mut Vec<u8>| out.extend_from_slice(reply.as_bytes());
                    self.perform_write(conn, What::Other, cx, write);
                }
                let _ = self.home.io.credit(cx, link, 1);
            }
            Origin::Other(frame) => self.home.return_error(cx, &frame, &error),
        }
        if self.barrier.is_open() {
            self.stale = false;
            self.load(cx);
        }
    }

    fn note_failure(&self, error: AppendError, cx: &mut Context<'_, UserMsg>) {
        if let Some(more) = self.home.failed_changes.borrow_mut().due(cx.now()) {
            let user = &self.name;
            tracing::warn!(%user, ?error, more, "a change could not be made durable");
        }
        cx.stats().count(Counter::ChangesFailed);
    }

    /// Whether reading the state again is not enough: nobody knows whether an append survived, or
    /// it moved deliveries while a session is to get some from the log: it remembers which.
    fn must_start_over(&self, error: AppendError, moves_deliveries: bool) -> bool {
        let is_spilled = || self.sessions.iter().any(Session::is_spilled);
        let is_doubtful = error == AppendError::Failed || moves_deliveries && is_spilled();
        self.log.is_some() && is_doubtful
    }

    /// Nobody knows whether an append survived: what clients were given and what the log says may
    /// differ. As after a crash, connections end, and everything comes from the store.
    fn start_over(&mut self, effects: Vec<Effect>, cx: &mut Context<'_, UserMsg>) {
        for effect in effects {
            if let Some(conn) = effect.awaited_by() {
                self.end_waiting(conn, cx);
            } else if matches!(effect, Effect::Answer(..)) {
                self.perform(effect, cx);
            }
        }
        cx.stop_with(actor::Reason::Killed);
    }

    /// Ends a connection that waits for an answer of this user: it would wait for ever.
    fn end_waiting(&self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let control = crate::c2s::Control::Abort(crate::c2s::Abort::Crash);
        let _ = self.home.io.control(cx, conn, control);
    }

    // ---- Sending -------------------------------------------------------------------------------

    fn may_leave(&self) -> bool {
        !self.has_records() && self.to_perform == 0 && self.barrier.is_open()
    }

    /// Lets an effect leave, after everything that it depends on is durable.
    pub(crate) fn emit(&mut self, effect: Effect, cx: &mut Context<'_, UserMsg>) {
        let is_ack = matches!(effect, Effect::Acknowledge { .. });
        if self.may_leave() || is_ack && stdx::bugs::is("ack_before_commit") {
            self.perform(effect, cx);
        } else {
            self.turn().effects.push(effect);
        }
    }

    /// Lets effects leave whose append was decided, and behind them what they bring about.
    fn perform_in_order(&mut self, effects: Vec<Effect>, cx: &mut Context<'_, UserMsg>) {
        let mut next = effects;
        while !next.is_empty() {
            self.to_perform = next.len() as u32;
            for effect in next {
                self.to_perform -= 1;
                self.perform(effect, cx);
            }
            next = if self.may_leave() {
                self.take_effects()
            } else {
                Vec::new()
            };
        }
    }

    fn perform(&mut self, effect: Effect, cx: &mut Context<'_, UserMsg>) {
        match effect {
            Effect::Write(conn, what, bytes) => {
                let mut sessions = self.sessions.iter_mut();
                let session = sessions.find(|session| session.conn == conn);
                let managed = session.and_then(|session| session.managed.as_mut());
                if let Some(managed) = managed.filter(|managed| managed.is_enabled) {
                    managed.pending.pop_front();
                }
                self.perform_bytes(conn, what, bytes, cx);
            }
            Effect::Nonza(conn, bytes) => {
                if let Some(link) = self.link_of(conn) {
                    self.write_out(link, cx, |out| out.extend_from_slice(&bytes));
                }
            }
            Effect::Enabled(conn, bytes) => self.enabled(conn, &bytes, cx),
            Effect::NotEnabled(conn) => self.not_enabled(conn, cx),
            Effect::Acknowledge { conn, h, failures } => {
                if failures == self.failures
                    && let Some(link) = self.link_of(conn)
                {
                    self.write_out(link, cx, |out| xmpp::sm::write_ack(h, out));
                }
            }
            Effect::Control(conn, control) => {
                let _ = self.home.io.control(cx, conn, control);
            }
            Effect::Forward {
                to,
                delivery,
                activate,
            } => {
                if delivery.source.seq == 0 || self.is_under_way(delivery.source.seq) {
                    self.send_on(&to, delivery, activate, cx);
                }
            }
            Effect::Probe { to, from } => {
                // After a restart a contact may be online and not be loaded yet.
                let activate = !self.home.place.has_woken();
                self.home.send(cx, &to, UserMsg::Probe { from }, activate);
            }
            Effect::Answer(reply, answer) => reply.send(cx, answer),
            Effect::Credit(conn) => {
                let _ = self.home.io.credit(cx, conn, 1);
            }
            Effect::Ask(question) => self.ask_now(*question, cx),
            Effect::ReadPage => self.read_page(cx),
            Effect::ReadSpill(read) => self.read_spill(read, cx),
            Effect::SpillGiven(number) => self.spill_given(number, cx),
            Effect::SpillNotGiven(number) => self.spill_not_given(number),
            Effect::ReadOutgoing => self.read_outgoing(cx),
            Effect::Taken { to, seq } => {
                // Lost, it is asked for again.
                self.home.send_to(cx, &to, UserMsg::Taken { seq }, false);
            }
            Effect::NotTaken { to } => {
                self.home.send_to(cx, &to, UserMsg::NotTaken, false);
            }
            Effect::Resume { number, conn, h } => self.read_owed(number, conn, h, cx),
            Effect::Resumed {
                number,
                conn,
                was_recovered,
            } => self.resumed(number, conn, was_recovered, cx),
            Effect::NotResumed { number, conn } => self.not_resumed(number, conn, cx),
        }
    }

    /// The connection of a session, or `conn` itself if no session has that name.
    fn link_of(&self, conn: ConnRef) -> Option<ConnRef> {
        let session = self.sessions.iter().find(|session| session.conn == conn);
        session.map_or(Some(conn), Session::link)
    }

    fn perform_write(
        &mut self,
        conn: ConnRef,
        what: What,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if let Some(at) = self.counted_session(conn) {
            let mut bytes = Vec::new();
            write(&mut bytes);
            return self.write_managed(at, what, bytes, cx);
        }
        self.write_out(conn, cx, write);
    }

    /// The same for bytes that waited.
    fn perform_bytes(
        &mut self,
        conn: ConnRef,
        what: What,
        bytes: Vec<u8>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        match self.counted_session(conn) {
            Some(at) => self.write_managed(at, what, bytes, cx),
            None => self.write_out(conn, cx, |out| out.extend_from_slice(&bytes)),
        }
    }

    /// The session of that name, if what it is sent is counted (XEP-0198).
    fn counted_session(&self, conn: ConnRef) -> Option<usize> {
        self.sessions.iter().position(|session| {
            let managed = session.managed.as_ref();
            session.conn == conn && managed.is_some_and(|managed| managed.is_enabled)
        })
    }

    /// Writes bytes to a connection.
    fn write_out(
        &mut self,
        conn: ConnRef,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut bytes = 0;
        let write = |out: &mut Vec<u8>| {
            let before = out.len();
            write(out);
            bytes = out.len() - before;
        };
        // A connection that is gone has said so already or is about to: its session ends then.
        let _ = self.home.io.with_out(cx, conn, write);
        let mut talkers = self.home.talkers.borrow_mut();
        talkers.note(&self.name, bytes as u64, || cx.now());
    }

    /// Writes a stanza to one of the user's sessions, behind what it was spared so far.
    pub(crate) fn write(
        &mut self,
        conn: ConnRef,
        what: What,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.flush_held(conn, cx);
        self.write_now(conn, what, cx, write);
    }

    fn write_now(
        &mut self,
        conn: ConnRef,
        what: What,
        cx: &mut Context<'_, UserMsg>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.may_leave() {
            return self.perform_write(conn, what, cx, write);
        }
        let mut bytes = Vec::new();
        write(&mut bytes);
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.conn == conn);
        if let Some(managed) = session.and_then(|session| session.managed.as_mut()) {
            managed.pending.push_back(what.entry());
        }
        self.turn().effects.push(Effect::Write(conn, what, bytes));
    }

    /// What waits behind commits has changed: counts of what will be written are taken anew.
    fn count_pending_again(&mut self, first: &[Effect]) {
        for session in &mut self.sessions {
            let Some(managed) = &mut session.managed else {
                continue;
            };
            let now = self.turn.iter().flat_map(|turn| &turn.effects);
            let behind = self.barrier.effects().chain(now);
            let pending = first
                .iter()
                .chain(behind)
                .filter_map(|effect| match effect {
                    Effect::Write(conn, what, _) if *conn == session.conn => Some(what.entry()),
                    _ => None,
                });
            managed.pending = pending.collect();
        }
    }

    /// Writes a stanza to one of the user's connections as it is.
    pub(crate) fn write_frame(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.write(conn, What::Other, cx, |out| {
            out.extend_from_slice(frame.as_bytes());
        });
    }

    /// Writes presence; what was broadcast gets this user's address as its `to` only here, so that
    /// one frame serves every contact.
    pub(super) fn write_presence(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if !self.hold(conn, frame) {
            self.write_presence_now(conn, frame, cx);
        }
    }

    fn write_presence_now(&mut self, conn: ConnRef, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(Counter::PresencesOut);
        let is_addressed = frame.attr_raw("to").is_some();
        let name = Name::clone(&self.name);
        self.write_now(conn, What::Presence, cx, |out| {
            if is_addressed {
                out.extend_from_slice(frame.as_bytes());
            } else {
                frame.write_readdressed(out, None, Some(&name));
            }
        });
    }

    /// Sends a stanza to another account of this server. Without `activate`, an account that is not
    /// loaded does not get it.
    pub(super) fn forward(
        &mut self,
        bare: &str,
        delivery: Delivery,
        activate: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.forward_to(Name::from(bare), delivery, activate, cx);
    }

    pub(super) fn forward_to(
        &mut self,
        to: Name,
        delivery: Delivery,
        activate: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if self.may_leave() {
            self.send_on(&to, delivery, activate, cx);
        } else {
            self.turn().effects.push(Effect::Forward {
                to,
                delivery,
                activate,
            });
        }
    }

    fn send_on(
        &mut self,
        to: &Name,
        delivery: Delivery,
        activate: bool,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let refused = self
            .home
            .send_to(cx, to, UserMsg::Deliver(delivery), activate);
        if let Some(UserMsg::Deliver(delivery)) = refused {
            if delivery.source.seq == 0 {
                self.overloaded(&delivery.frame, cx);
            } else {
                self.not_taken(cx);
            }
        }
    }

    /// The recipient's mailbox is full: the sender is told to try again (design section 5).
    fn overloaded(&mut self, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        let error = AppendError::Busy.to_stanza_error();
        if xmpp::error::reply(frame, &error).is_none() {
            return cx.stats().count(Counter::ActorDropped);
        }
        self.bounce_with(frame, &error, cx);
    }
}

/// The readers' queue is full.
fn overloaded() -> store::StoreError {
    store::StoreError::Unavailable("too many reads wait".to_owned())
}

impl Actor for User {
    type Msg = UserMsg;

    fn started(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.send_after(IDLE_EVICTION, UserMsg::Idle);
        if self
            .home
            .journal
            .is_settled(self.home.place.range(&self.name))
        {
            self.load(cx);
        } else {
            // An earlier life of this user may have appended something that is not decided yet:
            // an empty append behind it tells when the store is up to date.
            cx.hold();
            self.stale = true;
            let (ticket, range) = (
                self.barrier.next_ticket(),
                self.home.place.range(&self.name),
            );
            match self.home.journal.append(cx, range, Vec::new(), ticket) {
                Ok(()) => self.barrier.push(Append {
                    ticket,
                    ..Append::default()
                }),
                Err(_) => self.loaded(Err(overloaded()), cx),
            }
        }
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        let Some(msg) = self.unless_reading(msg, cx) else {
            return;
        };
        match msg {
            UserMsg::Stanza { conn, frame } => self.stanza(conn, frame, cx),
            UserMsg::Refused { conn, answer } => self.stanza_refused(conn, answer, cx),
            UserMsg::Deliver(delivery) => {
                self.comes_from(Origin::Other(delivery.frame.clone()));
                self.deliver(delivery, cx);
            }
            UserMsg::Probe { from } => self.probed(&from, cx),
            UserMsg::Credentials { conn } => self.credentials_wanted(conn, cx),
            UserMsg::LoginEnded { ok } => {
                if !ok {
                    cx.stats().count(Counter::LoginsFailed);
                }
                self.login.ended(ok);
            }
            UserMsg::Keys { conn, keys } => self.keys_read(conn, *keys, cx),
            UserMsg::NewPassword { frame, conn, scram } => {
                self.password_derived(&frame, conn, scram, cx);
            }
            UserMsg::NextLogin => self.next_login(cx),
            UserMsg::Bind { conn, resource } => self.bind(conn, resource, cx),
            UserMsg::Resume { conn, request } => self.resume(conn, &request, cx),
            UserMsg::Started { conn } => self.session_started(conn),
            UserMsg::Closed { conn, is_lost } => self.session_closed(conn, is_lost, cx),
            UserMsg::Loaded(state) => self.loaded(*state, cx),
            UserMsg::LoadAgain if self.phase == Phase::Loading => self.load(cx),
            UserMsg::LoadAgain => {}
            UserMsg::Decided { ticket, result } => self.decided(ticket, result, cx),
            UserMsg::Page(page) => self.page_read(page.0, page.1, cx),
            UserMsg::Spilled(read) => self.spill_read(read.0, read.1, cx),
            UserMsg::Outgoing(page) => self.outgoing_read(page.0, page.1, cx),
            UserMsg::Oldest(page) => self.trim(*page, cx),
            UserMsg::Owed(owed) => self.owed_read(*owed, cx),
            UserMsg::Taken { seq } => self.taken(seq, cx),
            UserMsg::NotTaken => self.not_taken(cx),
            UserMsg::ForwardAgain => self.forward_again(cx),
            UserMsg::Progress => self.record_progress(cx),
            UserMsg::Expire { number, since } => self.expire(number, since, cx),
            UserMsg::Wake => {}
            UserMsg::Aged => self.look_at_age(cx),
            UserMsg::Answer(answer) => self.late_answer(*answer, cx),
            UserMsg::Admin { command, reply } => self.administer(*command, reply, cx),
            UserMsg::Idle => self.idle(cx),
        }
        if self.has_full_session {
            self.end_full_sessions(cx);
        }
        self.settle(cx);
    }

    fn stopped(&mut self, reason: &actor::Reason, cx: &mut Context<'_, UserMsg>) {
        let is_over = matches!(reason, actor::Reason::Normal | actor::Reason::Shutdown);
        let has_managed = self
            .sessions
            .iter()
            .any(|session| session.managed.is_some());
        let is_at_rest = self.log.as_ref().is_none_or(|log| log.is_at_rest());
        if !is_over && (has_managed || !is_at_rest) {
            // Sessions that can be resumed, and messages on their way, need it again.
            let (shard, name) = (cx.shard(), Name::clone(&self.name));
            let _ = cx.send_named(shard, &name, UserMsg::Wake);
        }
        for conn in self.login.take_waiting() {
            let unavailable = crate::c2s::Control::Keys(crate::c2s::Keys::Unavailable);
            let _ = self.home.io.control(cx, conn, unavailable);
        }
        let now = self.turn.iter().flat_map(|turn| &turn.effects);
        let effects = self.barrier.effects().chain(now);
        let mut waiting: Vec<ConnRef> = effects.filter_map(Effect::awaited_by).collect();
        let managed = self.sessions.iter().filter_map(|s| s.managed.as_ref());
        waiting.extend(managed.filter_map(|managed| managed.resuming()));
        for conn in waiting {
            self.end_waiting(conn, cx);
        }
        // A crash ends this user's streams and nobody else's (design rule 8).
        for session in mem::take(&mut self.sessions) {
            let control = crate::c2s::Control::Abort(match reason {
                actor::Reason::Normal | actor::Reason::Shutdown => crate::c2s::Abort::Shutdown,
                _ => crate::c2s::Abort::Crash,
            });
            if let Some(link) = session.link() {
                let _ = self.home.io.control(cx, link, control);
            }
            cx.stats().lower(Gauge::Sessions);
            if session.managed.is_some() {
                cx.stats().lower(Gauge::ManagedSessions);
            }
        }
    }
}
