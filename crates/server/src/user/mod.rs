//! The user actor: one per online account. Owns its life: loading, eviction, and which file of this
//! folder a message is for. What a message comes to is in `turn.rs`, what leaves in `sending.rs`;
//! the rules of RFC 6121 are in the others.

pub(crate) mod acts;
mod admin;
mod ahead;
mod asked;
mod barrier;
mod bind;
mod caps;
mod client_state;
pub(crate) mod consumers;
mod copies;
mod crowded;
mod early;
mod followed;
mod gate;
mod inbound;
mod inbox;
pub(crate) mod intake;
mod iq;
mod layout;
mod log;
mod login;
pub(crate) mod managed;
pub(crate) mod member;
mod outbound;
pub(crate) mod outbox;
mod owed;
mod own;
pub(crate) mod pep;
pub(crate) mod presence;
pub(crate) mod recover;
mod refusals;
mod rehome;
mod requests;
pub(crate) mod resume;
mod rooms;
pub(crate) mod roster;
mod saved;
mod sending;
pub(crate) mod session;
mod shared;
pub(crate) mod storage;
mod stream;
mod subscribe;
pub(crate) mod subscription;
mod turn;

use std::mem;
use std::rc::Rc;

use actor::{Actor, Context, Leave, Mail, Name};
use delivery::{InboxEffect as Step, Refusal};
use net::ConnRef;
use store::ArchivePrefs;
use telemetry::{Counter, Gauge};
use wire::{Message, NotTaken};

use crate::blocklist::Blocklist;
use crate::ending::Abort;
use crate::entity::overloaded;
use crate::message::control::{Control, Keys};
use crate::message::{Delivery, Own, Said, UserMsg};

use barrier::{Append, Barrier};
use barrier::{Effect, Origin, OwnStanza};
pub(crate) use layout::named_sessions;
use log::Log;
use login::Login;
use own::OwnMsg;
use recover::Stored;
use requests::Requests;
use roster::Roster;
use session::Session;
pub(crate) use shared::Shared;
use turn::Turn;

/// What is known of the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The store has been asked; the mailbox is held.
    Loading,
    /// There is no such account.
    Absent,
    /// There is one.
    Registered,
    /// The store could not be read for a while; every question gets an error until it can be.
    Unreadable,
}

/// One user: account, roster, sessions, and what waits for them.
pub(crate) struct User {
    pub(crate) name: Name,
    pub(crate) home: Rc<Shared>,
    phase: Phase,
    pub(crate) roster: Roster,
    pub(crate) blocklist: Blocklist,
    pub(crate) sessions: Vec<Session>,
    /// Absent while there never was anything in it.
    log: Option<Box<Log>>,
    login: Login,
    /// What the account is being asked; absent while there is nothing.
    requests: Option<Box<Requests>>,
    barrier: Barrier,
    /// What came of the message being handled so far; absent between messages.
    turn: Option<Box<Turn>>,
    /// An append failed: the state in memory is ahead of the store and is loaded again.
    stale: bool,
    /// In a cluster, an append failed or is in doubt: clients go on at the next home, or at this
    /// one.
    is_fenced: bool,
    /// A session cannot be served any further and ends with the message being handled.
    has_full_session: bool,
    /// How often the store could not be read in a row.
    unread: u8,
    /// The user has something to do as soon as it can be read, whether anybody asks for it or not.
    is_woken: bool,
    /// The clock of eviction runs.
    is_watched: bool,
    /// Appends that failed since the user was loaded, modulo 2^16: whether one did meanwhile.
    failures: u16,
    /// Effects of a decided append that have not left yet: others must not overtake them.
    to_perform: u32,
    /// When the account was made.
    created: stdx::time::Timestamp,
    /// Whether its owner may log in.
    pub(crate) is_locked: bool,
    /// The keys of a password that its owner wants to have are being derived: one at a time, for
    /// a derivation takes milliseconds of a pool that logins need too.
    pub(crate) is_changing_password: bool,
    /// Last activity as the store knows it (XEP-0012).
    pub(crate) last: Option<Box<(stdx::time::Timestamp, String)>>,
    /// Hash of the user's avatar in its vCard (XEP-0153), if there is one.
    pub(crate) photo_hash: Option<Box<String>>,
    /// What is to be archived, if the user said so (XEP-0313).
    pub(crate) archive_prefs: Option<Box<ArchivePrefs>>,
}

/// An idle user costs this and what is on it: a field that few need belongs in a box.
const _: () = assert!(size_of::<User>() <= 192);

impl User {
    /// A user that is about to be loaded.
    pub(crate) fn new(name: Name, home: Rc<Shared>) -> Self {
        User {
            name,
            home,
            phase: Phase::Loading,
            roster: Roster::default(),
            blocklist: Blocklist::default(),
            sessions: Vec::new(),
            log: None,
            login: Login::default(),
            requests: None,
            barrier: Barrier::default(),
            turn: None,
            stale: false,
            is_fenced: false,
            has_full_session: false,
            unread: 0,
            is_woken: false,
            is_watched: false,
            failures: 0,
            to_perform: 0,
            created: stdx::time::Timestamp::from_millis(0),
            is_locked: false,
            is_changing_password: false,
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

    /// Where among the sessions the one that holds a resource is.
    pub(super) fn place_of_session(&self, resource: &str) -> Option<usize> {
        let mut sessions = self.sessions.iter();
        sessions.position(|session| session.started && session.resource() == resource)
    }

    pub(super) fn range(&self) -> store::RangeId {
        let known = self.barrier.range;
        known.unwrap_or_else(|| self.home.place.range(&self.name))
    }

    // ---- Loading and eviction ------------------------------------------------------------------

    /// Reads the user once nothing that an earlier life of it appended is undecided: until then,
    /// what is read could lack a change that is there afterwards.
    fn begin(&mut self, cx: &mut Context<'_, UserMsg>) {
        let range = self.range();
        if self.home.journal.is_settled(range) {
            return self.load(cx);
        }
        self.phase = Phase::Loading;
        cx.hold();
        self.stale = true;
        let ticket = self.home.journal.next_ticket();
        let asked = Append::new(ticket, Origin::Nobody, Vec::new());
        self.barrier.push(asked, &self.home.spares);
        self.home.journal.await_settled(cx, range, ticket);
    }

    fn load_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        match self.phase {
            Phase::Loading | Phase::Unreadable => self.begin(cx),
            Phase::Absent | Phase::Registered => {}
        }
    }

    fn load(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.phase = Phase::Loading;
        cx.hold();
        cx.stats().count(Counter::UsersLoaded);
        // Before it is read: what another home appends from here on is noticed.
        let range = self.range();
        self.barrier.range = Some(range);
        self.barrier.tenure = self.home.journal.tenure(range);
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let page = self.home.bounds().read_entries;
        let is_first = self.log.is_none();
        let read = move || Stored::read(&store, &name, is_first, page);
        let map = |stored| OwnMsg::Loaded(stored).into();
        if cx.blocking(&self.home.reads, read, map).is_err() {
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
                self.forget_storage();
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
            Err(error) => return self.not_loaded(&error, cx),
        }
        self.unread = 0;
        self.is_woken = false;
        cx.release();
        self.read_nodes_again(cx);
        self.go_on(cx);
        self.give_put_off(cx);
    }

    /// The store is being opened again, or too much waits for it, and the mailbox is held for a
    /// while; or for longer, and whoever asks is told. It is tried for as long as the user is
    /// loaded, which it stays if it has something to do.
    fn not_loaded(&mut self, error: &store::StoreError, cx: &mut Context<'_, UserMsg>) {
        let bounds = self.home.bounds();
        if self.unread < bounds.loads_max {
            self.unread += 1;
            cx.send_after(bounds.load_retry, UserMsg::LoadAgain);
            return;
        }
        let longer = self.unread - bounds.loads_max;
        if longer == 0 {
            tracing::error!(user = %self.name, %error, "cannot read a user");
        }
        if self.log.is_some() || !self.sessions.is_empty() {
            // What is in memory is not what the store has: streams end, and the next life of this
            // user goes on trying.
            return self.start_over(Vec::new(), cx);
        }
        cx.send_after(bounds.read_retry(longer), UserMsg::LoadAgain);
        self.unread = self.unread.saturating_add(1);
        self.phase = Phase::Unreadable;
        cx.release();
        self.give_put_off(cx);
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
        let is_of_nodes =
            |message: &Message| matches!(message, Message::Interest(_) | Message::NodeEvent(_));
        let own = |own: &Own, is: fn(&OwnMsg) -> bool| own.get::<OwnMsg>().is_none_or(is);
        match msg {
            UserMsg::Own(ref word) if own(word, OwnMsg::is_of_reading) => Some(msg),
            UserMsg::Own(ref word) if own(word, OwnMsg::is_read_anew) => None,
            UserMsg::Oldest(_) | UserMsg::Leaves | UserMsg::CameBack(_) => None,
            UserMsg::Said(ref said) if !is_of_nodes(&said.message) => Some(msg),
            UserMsg::Said(_)
            | UserMsg::Own(_)
            | UserMsg::NewPassword(_)
            | UserMsg::KnownAddresses(_)
            | UserMsg::NextLogin
            | UserMsg::Expire { .. }
            | UserMsg::Progress
            | UserMsg::ReadAgain
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

    /// Once an append has failed, entries behind it have counts as if everything in front of them
    /// were written, until the log is read again and they are taken back.
    fn check_marks(&self) {
        let log = self.log.as_ref().filter(|_| !self.is_being_read());
        debug_assert!(
            log.is_none_or(|log| log.is_consistent()),
            "{:?}",
            log.map(|log| &log.inbox)
        );
    }

    /// The log as the store has it takes the place of the one in memory.
    fn take_log(&mut self, stored: &mut Stored, cx: &mut Context<'_, UserMsg>) {
        let windows = stored.state.windows.take().map(|windows| *windows);
        let mut head = stored.state.log;
        head.next_seq -= u64::from(head.count > 1 && stdx::bugs::is("id_reuse"));
        let next_session = stored.state.sessions.next_number;
        let is_first = head == self.home.store.first_head();
        let is_new = is_first && windows.is_none() && next_session == 0 && !stored.is_member();
        if is_new && self.log.is_none() {
            return;
        }
        let before = self.log.take();
        let windows = windows.unwrap_or_default();
        let mut outbox = outbox::recover(&self.home, &head, &windows, stored.outgoing());
        let Some(mut before) = before else {
            let inbox = stored.inbox(&self.home, &windows);
            let next_session = stored.state.sessions.next_number;
            let mut log = Log::new(head, windows, outbox, inbox);
            log.next_session = next_session;
            log.members.renew(stored);
            self.log = Some(Box::new(log));
            for at in 0..self.sessions.len() {
                self.enter_inbox(at);
            }
            return self.recover_sessions(stored, cx);
        };
        // All is decided: what of rooms was not written by now never will be.
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            if let Some(rooms) = &mut managed.rooms {
                rooms.failed(cx.now());
            }
        }
        outbox.rest(&before.outbox, cx.now());
        let parked = mem::take(&mut before.parked);
        let mut log = before.again(head, windows, outbox, cx.now());
        log.members.failed(cx.now());
        log.members.renew(stored);
        let owes_marks = log.members.owes();
        self.log = Some(Box::new(log));
        if owes_marks {
            self.progress_is_due(cx);
        }
        self.refuse_parked(parked, cx);
    }

    /// Takes up what the log says is not done.
    fn go_on(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.phase != Phase::Registered || self.log.is_none() {
            return;
        }
        self.work_on_outbox(cx);
        self.end_unresumable_sessions(cx);
    }

    fn idle(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.is_watched = false;
        self.login.ease();
        let in_use = !self.sessions.is_empty()
            || self.is_being_read()
            || self.is_woken
            || !self.barrier.is_open()
            || self.login.is_busy()
            || self.has_busy_nodes()
            || self.requests.as_deref().is_some_and(Requests::is_under_way)
            || self.log.as_ref().is_some_and(|log| !log.is_at_rest());
        if in_use || !cx.stop_when_idle() {
            self.watch_idleness(cx);
        }
    }

    /// Starts the clock of eviction, if nobody is there and it does not run: one timer, however
    /// often the last session goes.
    pub(super) fn watch_idleness(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.sessions.is_empty() && !self.is_watched {
            self.is_watched = true;
            cx.send_after(self.home.bounds().idle_eviction, UserMsg::Idle);
        }
    }
}

impl User {
    /// What the user told itself.
    fn own_msg(&mut self, msg: OwnMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            OwnMsg::Loaded(state) => self.loaded(state, cx),
            OwnMsg::Page(page) => self.page_read(page, cx),
            OwnMsg::ReadLater(read) => self.read_page(read, cx),
            OwnMsg::Outgoing(page) => self.outgoing_read(page, cx),
            OwnMsg::Returning(read) => self.returning_read(read, cx),
            OwnMsg::MarkRead(read) => self.mark_read(read, cx),
            OwnMsg::Owed(owed) => self.owed_read(owed, cx),
            OwnMsg::RoomsMade(read) => self.rooms_made(read, cx),
            OwnMsg::StorageRead(read) => self.storage_read(read, cx),
            OwnMsg::SetAgain(set) => self.set_again(set, cx),
            OwnMsg::Pep(msg) => self.pep_msg(msg, cx),
        }
    }

    /// What another entity says.
    fn said(&mut self, said: Said, cx: &mut Context<'_, UserMsg>) {
        let Said { message, debt } = said;
        match message {
            Message::Stanza(stanza) => self.stanza_of_other(Delivery { stanza, debt }, cx),
            Message::Copy(copy) => self.shared_copy(&copy, cx),
            Message::Probe { from } => self.probed(&from, cx),
            Message::Taken { by, seq } => self.taken(by, seq, cx),
            Message::NotTaken(answer) => self.refused(*answer, cx),
            Message::OfRoom(said) => self.room_says(*said, cx),
            Message::Interest(interest) => self.interested(&interest, cx),
            Message::NodeEvent(event) => self.node_event(&event, cx),
            // What rooms are told.
            Message::ToRoom(_) => {}
        }
    }

    pub(super) fn stanza_of_other(
        &mut self,
        mut delivery: Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.comes_from(Origin::Other(delivery.frame.clone()));
        let mut debt = delivery.debt.take();
        let has_credit = debt.is_some();
        let answer = debt
            .as_mut()
            .and_then(|debt| Some((debt.take_charge()?, delivery.resource.clone()?)));
        if has_credit {
            self.turn().asked = debt;
        }
        self.deliver(delivery, cx);
        if let Some((charge, resource)) = answer {
            self.note_answer(&resource, charge, cx);
        }
        if let Some(debt) = has_credit.then(|| self.take_asked()).flatten() {
            debt.settle(&self.home, cx);
        }
    }

    /// Ends the streams that wait for what this actor was about to do.
    fn end_all_waiting(&mut self, cx: &mut Context<'_, UserMsg>) {
        let now = self.turn.iter().flat_map(|turn| &turn.effects);
        let effects = self.barrier.effects().chain(now);
        let mut waiting: Vec<ConnRef> = effects.filter_map(Effect::awaited_by).collect();
        let managed = self.sessions.iter().filter_map(|s| s.managed.as_ref());
        waiting.extend(managed.filter_map(|managed| managed.resuming()));
        // Nobody was told of this yet if the user is being read.
        let log = &mut self.log;
        let steps = std::iter::from_fn(|| log.as_mut()?.inbox.poll_effect());
        waiting.extend(steps.filter_map(|step| match step {
            Step::Fail { link, .. } | Step::Cut(link) => Some(link),
            Step::Read { .. } | Step::ReadAgain { .. } => None,
        }));
        for conn in waiting {
            self.end_waiting(conn, cx);
        }
    }
}

impl Actor for User {
    type Msg = UserMsg;

    fn started(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.watch_idleness(cx);
        self.begin(cx);
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        let Some(msg) = self.unless_reading(msg, cx) else {
            return;
        };
        match msg {
            UserMsg::Stanza { conn, frame } => self.stanza(conn, frame, cx),
            UserMsg::Refused { conn, answer } => self.stanza_refused(conn, answer, cx),
            UserMsg::LostAnswer { conn, answer } => self.answer_was_lost(conn, answer, cx),
            UserMsg::Said(said) => self.said(said, cx),
            UserMsg::RoomsDue => self.rooms_may_be_asked(cx),
            UserMsg::Own(own) => {
                if let Some(msg) = own.take() {
                    self.own_msg(msg, cx);
                }
            }
            UserMsg::GoOn => {}
            UserMsg::Credentials { conn, from } => self.credentials_wanted(conn, from, cx),
            UserMsg::LoginEnded { conn, end } => self.login_ended(conn, end, cx),
            UserMsg::KnownAddresses(known) => self.known_read(*known, cx),
            UserMsg::Keys { conn, keys, begun } => self.keys_read(conn, *keys, begun, cx),
            UserMsg::NewPassword(password) => self.password_derived(*password, cx),
            UserMsg::NextLogin => self.next_login(cx),
            UserMsg::Bind {
                conn,
                resource,
                begun,
            } => {
                if self.may_enter(conn, begun, cx) {
                    self.bind(conn, resource, cx);
                }
            }
            UserMsg::Resume {
                conn,
                request,
                begun,
            } => {
                if self.may_enter(conn, begun, cx) {
                    self.resume(conn, &request, cx);
                }
            }
            UserMsg::Introduced(introduced) => self.introduced(&introduced, cx),
            UserMsg::Started { conn } => self.session_started(conn),
            UserMsg::Closed { conn, is_lost } => self.session_closed(conn, is_lost, cx),
            UserMsg::LoadAgain => self.load_again(cx),
            UserMsg::ReadAgain => self.read_again(cx),
            UserMsg::Decided { ticket, result } => self.decided(ticket, result, cx),
            UserMsg::Oldest(page) => self.trim(*page, cx),
            UserMsg::OutboxDue => self.outbox_is_due(cx),
            UserMsg::CameBack(back) => self.came_back(*back, cx),
            UserMsg::Progress => self.record_progress(cx),
            UserMsg::Leaves => self.record_all(cx),
            UserMsg::Expire { number, since } => self.expire(number, since, cx),
            UserMsg::Wake => self.is_woken = self.phase == Phase::Unreadable,
            UserMsg::Called(reply) => self.is_called(reply, cx),
            UserMsg::Aged => self.look_at_age(cx),
            UserMsg::Answer(answer) => self.answered(answer.map(|answer| *answer), cx),
            UserMsg::AskAgain => self.ask_again(cx),
            UserMsg::Admin { command, reply } => self.administer(*command, reply, cx),
            UserMsg::Idle => self.idle(cx),
        }
        if self.has_full_session {
            self.end_full_sessions(cx);
        }
        self.work_on_inbox(cx);
        self.work_on_rooms(cx);
        self.settle(cx);
        self.check_marks();
    }

    fn may_move(&self) -> Leave {
        let mut sessions = self.sessions.iter();
        match sessions.all(|session| self.can_ever_follow(session)) {
            false => Leave::Never,
            true if self.is_at_rest() && self.can_all_follow() => Leave::Now,
            true => Leave::Soon,
        }
    }

    fn stopped(&mut self, reason: &actor::Reason, cx: &mut Context<'_, UserMsg>) {
        // To another shard, which loads it again.
        let goes_on = self.home.place.shard(&self.name) != cx.shard();
        let is_over = !goes_on && matches!(reason, actor::Reason::Normal | actor::Reason::Shutdown);
        let has_managed = self
            .sessions
            .iter()
            .any(|session| session.managed.is_some());
        let is_at_rest = self.log.as_ref().is_none_or(|log| log.is_at_rest());
        let has_moved = self.home.is_elsewhere(&self.name);
        let is_needed = has_managed || !is_at_rest || self.is_woken;
        if !is_over && !goes_on && !has_moved && is_needed {
            // Sessions that can be resumed, and messages on their way, need it again.
            let (shard, name) = (cx.shard(), Name::clone(&self.name));
            let _ = cx.send_named(shard, &name, UserMsg::Wake);
        }
        // What waits for who is away is there although he is not loaded.
        if !is_over {
            self.home.queues.note(&self.name, None);
        }
        self.home.journal.forget(cx.myself());
        self.answer_the_rest(cx);
        let taking = self.turn.as_mut().and_then(|turn| turn.taking.take());
        if let Some((to, _, source)) = taking {
            // It was being taken: its sender's home counts how often that happens.
            let answer = Box::new(NotTaken {
                by: self.own_peer(),
                source,
                why: match has_moved {
                    true => Refusal::Full,
                    false => Refusal::Crashed,
                },
                error: None,
            });
            self.home.say(cx, &to, Message::NotTaken(answer), false);
        }
        for conn in self.login.take_waiting() {
            let begun = self.current_generation();
            let unavailable = Control::Keys(Keys::Unavailable, begun);
            let _ = self.home.io.control(cx, conn, unavailable);
        }
        self.end_all_waiting(cx);
        // A crash ends at most this user's streams and nobody else's (design rule 8).
        let is_panic = matches!(reason, actor::Reason::Panic(_));
        let at_whose = self.turn.as_ref().map(|turn| &turn.origin);
        let at_whose = match at_whose {
            Some(Origin::Session(own)) if is_panic => Some(own.link),
            _ => None,
        };
        for session in mem::take(&mut self.sessions) {
            let why = match reason {
                _ if has_moved || goes_on => Abort::Moved,
                actor::Reason::Normal | actor::Reason::Shutdown => Abort::Shutdown,
                _ => self.why_it_ends(),
            };
            let control = self.word_of_the_end(&session, why);
            if let Some(link) = session.link() {
                if !is_over {
                    self.home.lines.crashed(link, at_whose == Some(link));
                }
                let _ = self.home.io.control(cx, link, control);
            }
            cx.stats().lower(Gauge::Sessions);
            if session.managed.is_some() {
                cx.stats().lower(Gauge::ManagedSessions);
            }
        }
    }
}
