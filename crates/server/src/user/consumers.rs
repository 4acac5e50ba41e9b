//! Carries out what the user's [`delivery::Inbox`] decides: reads pages of the log, has recorded
//! what moved, and writes to sessions what they are given. Owns no decision; the rules are those of
//! `crates/delivery` (docs/delivery.md).

use actor::{Context, Mail};
use delivery::{
    AccountChange, Consumer, Entry, Failure, Given, InboxChanges, InboxEffect as Step, InboxPage,
    Kind, Left, Place, ReadId, SessionNumber, Wanted,
};
use net::ConnRef;
use store::{LogEntry, Progress, Record, Seq, Store, StoreError};
use telemetry::Counter;
use xml::Frame;
use xmpp::error::Condition;

use super::User;
use super::barrier::Effect;
use super::layout::{self, PLAIN};
use super::log::Log;
use super::managed::What;
use super::own::OwnMsg;
use crate::ending::Abort;
use crate::message::UserMsg;
use crate::message::control::Control;
use crate::options::DeliveryLimits;

/// The inbox of one user.
pub(super) type Inbox = delivery::Inbox<ConnRef>;

/// A read that the inbox asked for.
pub(crate) struct ToRead {
    id: ReadId,
    consumer: Consumer,
    wanted: Wanted,
}

/// What was read.
pub(crate) struct ReadPage {
    id: ReadId,
    consumer: Consumer,
    /// How many appends of the user had failed when it was asked for.
    failures: u16,
    found: Result<Found, StoreError>,
}

/// Entries of the log, and what they are to delivery.
struct Found {
    entries: Vec<LogEntry>,
    page: InboxPage,
}

impl Found {
    fn read(
        store: &Store,
        user: &str,
        wanted: &Wanted,
        limits: &DeliveryLimits,
    ) -> Result<Self, StoreError> {
        let mut found = Found {
            entries: Vec::new(),
            page: InboxPage {
                entries: Vec::new(),
                through: Place::START,
            },
        };
        match wanted {
            Wanted::Places(places) => {
                let places: Vec<Seq> = places.iter().map(|place| place.number()).collect();
                for entry in store.log_entries(user, &places)? {
                    found.take(user, entry);
                }
            }
            Wanted::Log {
                after,
                through,
                limit,
                filter,
            } => {
                let read = store.log_read(user, after.number(), limits.read_entries)?;
                let is_all = read.len() < limits.read_entries;
                let mut bytes = 0;
                found.page.through = *after;
                for entry in read {
                    let (place, to) = (Place::new(entry.seq), layout::recipients(&entry));
                    if place > *through {
                        found.page.through = *through;
                        return Ok(found);
                    }
                    if filter.is_wanted(place, &to) {
                        bytes += entry.frame.len();
                        let is_first = found.entries.is_empty();
                        // One goes, whatever its size.
                        if found.entries.len() == *limit || bytes > limits.page_bytes && !is_first {
                            return Ok(found);
                        }
                        found.take(user, entry);
                    }
                    found.page.through = place;
                }
                if is_all {
                    found.page.through = *through;
                }
            }
        }
        Ok(found)
    }

    fn take(&mut self, user: &str, entry: LogEntry) {
        if Frame::parse(&*entry.frame).is_err() {
            return tracing::error!(user, seq = entry.seq, "a stored message is damaged");
        }
        self.page.entries.push(Entry {
            place: Place::new(entry.seq),
            bytes: u32::try_from(entry.frame.len()).unwrap_or(u32::MAX),
            to: layout::recipients(&entry),
        });
        self.entries.push(entry);
    }
}

impl User {
    // ---- Sessions ------------------------------------------------------------------------------

    /// A session that is not managed reads the log as far as it takes messages for the account.
    pub(super) fn enter_inbox(&mut self, at: usize) {
        let Some(log) = &mut self.log else { return };
        let session = &mut self.sessions[at];
        session.number = PLAIN | log.next_plain;
        log.next_plain += 1;
        let number = SessionNumber::new(session.number);
        log.inbox.open(number, Kind::Plain, session.conn);
        log.inbox.set_taker(number, session.takes_messages());
    }

    /// A session takes messages for the account, or does not any more. True if that is news.
    pub(super) fn note_taking(&mut self, at: usize) -> bool {
        let Some(log) = &mut self.log else {
            return false;
        };
        let session = &self.sessions[at];
        let number = SessionNumber::new(session.number);
        log.inbox.set_taker(number, session.takes_messages())
    }

    pub(super) fn session_numbered(&self, session: SessionNumber) -> Option<usize> {
        let number = session.number();
        let mut sessions = self.sessions.iter();
        sessions.position(|session| session.number == number)
    }

    // ---- What it asks for ----------------------------------------------------------------------

    /// Carries out what the inbox has decided since, and has recorded what cannot wait.
    pub(super) fn work_on_inbox(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.log.is_none() || self.is_being_read() {
            return;
        }
        self.perform_inbox(cx);
        if !self.is_registered() {
            return;
        }
        if self.log().inbox.is_due() {
            self.record_inbox();
        }
        if self.log().inbox.has_changes() {
            self.progress_is_due(cx);
        }
        let now = cx.now();
        let log = self.log();
        if let Some(due) = log.inbox.deadline()
            && log.inbox_due.is_none_or(|armed| due < armed)
        {
            log.inbox_due = Some(due);
            cx.send_after(due.saturating_since(now), UserMsg::ReadAgain);
        }
    }

    pub(super) fn perform_inbox(&mut self, cx: &mut Context<'_, UserMsg>) {
        while let Some(step) = self.log.as_mut().and_then(|log| log.inbox.poll_effect()) {
            match step {
                Step::Read {
                    id,
                    consumer,
                    wanted,
                } => {
                    // Behind the commits that are under way: only then the store has it all.
                    let read = ToRead {
                        id,
                        consumer,
                        wanted,
                    };
                    self.emit(Effect::Read(Box::new(read)), cx);
                }
                Step::ReadAgain { session, link } => {
                    let number = session.number();
                    self.emit(Effect::Resume { number, conn: link }, cx);
                }
                Step::Fail { link, why } => {
                    let condition = match why {
                        Failure::Unknown => Condition::ItemNotFound,
                        Failure::Conflict => Condition::Conflict,
                        Failure::Unread => Condition::ResourceConstraint,
                    };
                    self.resume_failed(link, condition, cx);
                }
                Step::Cut(old) => {
                    self.emit(Effect::Control(old, Control::Abort(Abort::Conflict)), cx);
                }
            }
        }
    }

    /// What could not be read is read again, and recorded what could not be.
    pub(super) fn read_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        let now = cx.now();
        let Some(log) = &mut self.log else { return };
        log.inbox_due = None;
        log.inbox.handle_timeout(now);
        self.trim_again(cx);
    }

    /// Reads a page. To a client without stream management written is delivered: one that does not
    /// read what it was written is not written more of it, for with its connection all that it has
    /// not read would be lost.
    pub(super) fn read_page(&mut self, read: ToRead, cx: &mut Context<'_, UserMsg>) {
        if let Consumer::Session(session) = read.consumer
            && let Some(at) = self.session_numbered(session)
            && self.sessions[at].managed.is_none()
            && !self.follows(&self.sessions[at])
        {
            let later = OwnMsg::ReadLater(read);
            cx.send_after(self.home.bounds().page_pause, later.into());
            return;
        }
        let ToRead {
            id,
            consumer,
            wanted,
        } = read;
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let (limits, failures) = (*self.home.bounds(), self.failures);
        let page = move |found| ReadPage {
            id,
            consumer,
            failures,
            found,
        };
        let job = move || page(Found::read(&store, &name, &wanted, &limits));
        let map = |page| OwnMsg::Page(page).into();
        if cx.blocking(&self.home.reads, job, map).is_err() {
            self.page_read(page(Err(super::overloaded())), cx);
        }
    }

    // ---- What it is given ----------------------------------------------------------------------

    pub(super) fn page_read(&mut self, read: ReadPage, cx: &mut Context<'_, UserMsg>) {
        if read.failures != self.failures {
            return; // The inbox knows, and has asked for another one.
        }
        let now = cx.now();
        let mut found = match read.found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(user = %self.name, %error, "cannot read what waits");
                self.log()
                    .inbox
                    .handle_page(read.id, read.consumer, None, now);
                return;
            }
        };
        if stdx::bugs::is("reorder") {
            found.entries.reverse();
            found.page.entries.reverse();
        }
        if let Consumer::Session(session) = read.consumer
            && let Some(at) = self.session_numbered(session)
        {
            // What the session was spared goes first, and has counts of its own.
            self.flush_held(self.sessions[at].conn, cx);
        }
        let inbox = &mut self.log().inbox;
        let Some(given) = inbox.handle_page(read.id, read.consumer, Some(&found.page), now) else {
            return;
        };
        if let Consumer::Session(session) = read.consumer {
            self.give(session, &found.entries, &given, cx);
        }
        self.record_inbox();
        self.turn().effects.push(Effect::PageGiven(read.consumer));
    }

    /// Writes entries to a session that were read for it.
    fn give(
        &mut self,
        session: SessionNumber,
        entries: &[LogEntry],
        given: &[(usize, Given)],
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(at) = self.session_numbered(session) else {
            return;
        };
        let conn = self.sessions[at].conn;
        if !given.is_empty() {
            self.takes_count(conn);
        }
        for entry in given.iter().map(|(at, _)| &entries[*at]) {
            let bytes = self.entry_for(&self.sessions[at], entry, true);
            cx.stats().count(Counter::MessagesOut);
            let write = Effect::Write(conn, What::Entry(entry.seq), bytes);
            self.turn().effects.push(write);
        }
    }

    // ---- What is recorded ----------------------------------------------------------------------

    /// Records all that moved; what sessions acknowledged too.
    pub(super) fn record_inbox(&mut self) {
        let changes = self.log.as_mut().and_then(|log| log.inbox.take_changes());
        let acked = changes.map(|changes| self.record_changes(&changes));
        let progress = Progress {
            acked: acked.unwrap_or_default(),
            ..Progress::default()
        };
        if !progress.is_empty() {
            self.record(Record::LogProgress {
                user: String::from(&*self.name),
                progress,
            });
        }
    }

    /// Records what moved but for the acknowledgements, which it gives: they go along with what
    /// else moved.
    pub(super) fn record_changes(&mut self, changes: &InboxChanges) -> store::Few<(u32, Seq)> {
        if let Some(account) = &changes.account {
            self.record_account(account);
        }
        let user = || String::from(&*self.name);
        let mut records = Vec::new();
        for change in &changes.sessions {
            records.push(Record::SessionNumbered {
                user: user(),
                number: change.session.number(),
                void_through: change.void_through.number(),
                numbered: layout::numbered(change),
            });
        }
        if let Some(left) = &changes.left {
            let session = self.left_records(left).into_iter();
            records.extend(session.map(|session| Record::SessionPut {
                user: user(),
                session: Box::new(session),
            }));
        }
        for number in changes.removed.iter().map(|session| session.number()) {
            let user = user();
            records.push(Record::SessionRemove { user, number });
        }
        for record in records {
            self.record(record);
        }
        if !changes.removed.is_empty() {
            self.turn().effects.push(Effect::ChangesCommitted);
        }
        layout::acked(changes)
    }

    fn record_account(&mut self, account: &AccountChange) {
        let listed: Vec<Seq> = account.listed.iter().map(|place| place.number()).collect();
        let (count, bytes) = account.waiting;
        let delivered = store::Delivered {
            through: account.mark.number(),
            waiting_count: count + listed.len() as u64,
            waiting_bytes: bytes,
            requeued: listed,
        };
        self.record(Record::LogDelivered {
            user: String::from(&*self.name),
            delivered,
        });
    }

    fn left_records(&self, left: &[Left]) -> Vec<store::SessionRecord> {
        let managed = self.sessions.iter().filter(|s| s.managed.is_some());
        let room = store::limits::SESSIONS_MAX.saturating_sub(managed.count());
        layout::left_records(left, room)
    }
}

impl Log {
    /// How many entries wait for somebody, and their bytes.
    pub(super) fn waiting(&self) -> (u64, u64) {
        self.inbox.waiting()
    }
}
