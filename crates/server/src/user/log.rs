//! The user's log as its actor knows it (docs/delivery.md): where it stands, what recognises a
//! message that comes again, and what may be dropped of it. Everything that is appended goes
//! through here; who is given an entry is decided in `inbox.rs`, what is handed over in
//! `outbox.rs`, and what is taken from others in `intake.rs`.

use std::collections::VecDeque;

use actor::{Context, Mail, Name, TimerKey};
use delivery::{Few, Given, Marks, Place, Recipients, SessionNumber};
use stdx::time::Moment;
use stdx::time::Timestamp;
use store::limits::SEEN_MAX;
use store::{
    Before, EntryFlags, LaggingMark, LogEntry, LogHead, Progress, Record, Seq, SharedBytes,
    StoreError, Windows,
};
use xml::Frame;

use super::barrier::Effect;
use super::consumers::Inbox;
use super::layout;
use super::member::Members;
use super::outbox::{self, Outbox};
use super::owed::Owed;
use super::recover;
use super::{Phase, User};
use crate::home::Home;
use crate::message::{Delivery, UserMsg};

/// Absent from users in whose log there never was anything.
#[derive(Debug)]
pub(super) struct Log {
    pub head: LogHead,
    pub windows: Windows,
    /// What is handed over to other homes.
    pub outbox: Outbox,
    /// Credit for messages that are handed over.
    pub owed: Owed,
    /// When [`UserMsg::OutboxDue`] comes next, as far as is known.
    pub outbox_due: Option<(Moment, TimerKey)>,
    /// What the outbox wants is being asked for.
    pub is_at_work: bool,
    /// What other homes handed over.
    pub marks: Marks<u64>,
    /// Messages whose sender the store is asked for.
    pub parked: Vec<(u64, Delivery)>,
    /// When old marks of senders were forgotten last.
    marks_forgotten: Option<Moment>,
    /// What its sessions and the account are owed.
    pub inbox: Inbox,
    /// When [`UserMsg::ReadAgain`] comes next, as far as is known.
    pub inbox_due: Option<Moment>,
    /// Errors for the user's own messages that could not be recorded yet.
    pub refusals: Vec<Frame>,
    /// Rooms may have something to be asked for.
    pub rooms_due: bool,
    /// [`UserMsg::RoomsDue`] is on its way.
    pub rooms_timer: bool,
    /// Rooms that deliver to the account whether it is there or not.
    pub members: Members,
    /// Sessions that ended lately.
    pub ended: VecDeque<Ended>,
    /// How many sessions without stream management there were.
    pub next_plain: u32,
    /// The number that the next session with stream management gets.
    pub next_session: u32,
    /// Cursors are recorded soon, if nothing takes them along before.
    timer: bool,
    /// An entry took them along since the timer was set: the next one may, too.
    is_moving: bool,
    /// Appends since retention was looked at.
    since_retention: u32,
    /// When the oldest entry was accepted, as far as known.
    oldest_at: Option<Timestamp>,
    is_trimming: bool,
    /// It is that of an account which was removed, and that is not known to be durable.
    pub(super) was_removed: bool,
}

/// What is remembered of a session that ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// What its client has to name it by.
    pub token: Box<str>,
    /// How many of its client's stanzas were handled.
    pub inbound: u32,
}

/// An entry in the making.
pub(super) struct Draft {
    pub peer: Name,
    /// [`store::SlotKey::peer`] of that.
    pub peer_hash: u64,
    pub flags: EntryFlags,
    pub frame: SharedBytes,
    pub source: Seq,
    pub origin: u64,
}

/// The bytes of a stanza for an entry, which shares them.
pub(super) fn frame_bytes(frame: &Frame) -> SharedBytes {
    SharedBytes::beginning(frame.buffer(), frame.as_bytes().len())
}

impl Log {
    /// A log as the store has it, with its outbox.
    pub(super) fn new(head: LogHead, windows: Windows, outbox: Outbox, inbox: Inbox) -> Self {
        let seen = windows.recognition.seen.iter();
        let seen = seen.map(|seen| (seen.peer, Place::new(seen.source)));
        Log {
            head,
            marks: Marks::new(seen, SEEN_MAX, windows.has_older_marks),
            windows,
            outbox,
            owed: Owed::default(),
            outbox_due: None,
            is_at_work: false,
            parked: Vec::new(),
            marks_forgotten: None,
            inbox,
            inbox_due: None,
            refusals: Vec::new(),
            rooms_due: false,
            rooms_timer: false,
            members: Members::default(),
            ended: VecDeque::new(),
            next_plain: 0,
            next_session: 0,
            timer: false,
            is_moving: false,
            since_retention: 0,
            oldest_at: None,
            is_trimming: false,
            was_removed: false,
        }
    }

    /// The log as the store has it takes the place of this one: keeps what only memory has.
    pub(super) fn again(
        mut self,
        head: LogHead,
        windows: Windows,
        outbox: Outbox,
        now: Moment,
    ) -> Log {
        let account = recover::account(&head, &windows);
        self.inbox.failed(recover::tail(&head), account, now);
        Log {
            refusals: self.refusals,
            ended: self.ended,
            inbox_due: self.inbox_due,
            next_plain: self.next_plain,
            next_session: self.next_session,
            timer: self.timer,
            rooms_due: true,
            members: self.members,
            rooms_timer: self.rooms_timer,
            outbox_due: self.outbox_due,
            owed: self.owed,
            ..Log::new(head, windows, outbox, self.inbox)
        }
    }

    /// The log of an account that is removed: what must not be given out again stays, messages that
    /// are under way leave, and timers are still set.
    pub(super) fn without_account(self, home: &Home) -> Log {
        let next_seq = self.head.next_seq;
        let head = LogHead {
            next_seq,
            trimmed_through: next_seq - 1,
            forwarded: next_seq - 1,
            delivered_through: next_seq - 1,
            ..LogHead::default()
        };
        let windows = Windows::default();
        let inbox = recover::inbox_without_sessions(home, &head, &windows);
        Log {
            next_plain: self.next_plain,
            next_session: self.next_session,
            timer: self.timer,
            rooms_timer: self.rooms_timer,
            is_trimming: self.is_trimming,
            inbox_due: self.inbox_due,
            outbox_due: self.outbox_due,
            was_removed: true,
            ..Log::new(head, windows, self.outbox, inbox)
        }
    }

    /// Bytes of the log in the store, as the store counts them.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.head.bytes + self.head.count * store::limits::ENTRY_OVERHEAD_BYTES
    }

    /// Whether its numbers stand to each other as they must: a bug otherwise.
    pub(super) fn is_consistent(&self) -> bool {
        self.outbox.is_consistent() && self.inbox.is_consistent()
    }

    /// Whether nothing of it needs the user's actor.
    pub(super) fn is_at_rest(&self) -> bool {
        let waits = !self.parked.is_empty() || !self.refusals.is_empty();
        self.outbox.is_at_rest() && !waits && !self.timer
    }
}

impl User {
    /// Asked for again and again while a message is handled.
    #[inline]
    pub(super) fn log(&mut self) -> &mut Log {
        if self.log.is_none() {
            self.make_log();
        }
        // Invariant: it was made above.
        self.log.as_mut().expect("there is a log")
    }

    #[cold]
    fn make_log(&mut self) {
        // Otherwise what the store has would be taken for what it has by now.
        debug_assert_eq!(self.phase, Phase::Registered, "it was read");
        let home = &self.home;
        let (head, windows) = (home.store.first_head(), Windows::default());
        let outbox = outbox::recover(home, &head, &windows, (&[], 0));
        let inbox = recover::inbox_without_sessions(home, &head, &windows);
        self.log = Some(Box::new(Log::new(head, windows, outbox, inbox)));
        for at in 0..self.sessions.len() {
            self.enter_inbox(at);
        }
    }

    /// How many messages wait, and their bytes.
    pub(super) fn waiting(&self) -> (u64, u64) {
        self.log.as_ref().map_or((0, 0), |log| log.waiting())
    }

    /// Appends an entry for `to`. State in memory moves as it will when the record is applied.
    /// Gives its place, for whom it is, and what each session gets of it.
    pub(super) fn append(
        &mut self,
        draft: Draft,
        to: Recipients,
        cx: &mut Context<'_, UserMsg>,
    ) -> (Seq, Recipients, Few<(SessionNumber, Given)>) {
        self.tell_refusals(cx);
        let progress = self.progress();
        let (seq, at) = self.next_place(cx);
        let bytes = draft.frame.len() as u64;
        let peer = draft.peer_hash;
        let log = self.log();
        log.is_moving = true;
        let stanza = u32::try_from(bytes).unwrap_or(u32::MAX);
        let (to, given) = log.inbox.append(Place::new(seq), to, stanza);
        let is_sent = draft.flags.has(EntryFlags::SENT);
        let flags = match to.is_for_account {
            true => draft.flags.and(EntryFlags::WAITING),
            false => draft.flags,
        };
        let head = &mut log.head;
        head.count += 1;
        head.bytes += bytes;
        if flags.has(EntryFlags::ARCHIVED) {
            head.archived_count += 1;
        }
        if flags.has(EntryFlags::OUTGOING) {
            head.last_outgoing = seq;
        }
        let entry = LogEntry {
            seq,
            at,
            peer: draft.peer,
            flags,
            frame: draft.frame,
            source: draft.source,
            origin: draft.origin,
            went_to: layout::went_to(&to, &given, is_sent),
            progress,
        };
        let left_out = log.windows.recognition.remember(peer, &entry);
        log.windows.has_older_marks |= left_out.is_some();
        if entry.source != 0 {
            log.marks.learn(peer, Place::new(entry.source));
        }
        self.record(Record::LogAppend {
            user: Name::clone(&self.name),
            entry,
        });
        self.look_at_retention(at, cx);
        (seq, to, given)
    }

    /// The place of the next entry, and its time: never before that of the entry in front of it.
    fn next_place(&mut self, cx: &mut Context<'_, UserMsg>) -> (Seq, Timestamp) {
        let now = cx.wall();
        let head = &mut self.log().head;
        let seq = head.next_seq;
        head.next_seq += 1;
        head.last_at = head.last_at.max(now);
        (seq, head.last_at)
    }

    /// What became of this message if the user sent it before (XEP-0359), as far as that is
    /// remembered.
    pub(super) fn sent_before(&self, origin: u64, now: Timestamp) -> Option<Before> {
        let not_before = now.as_millis() - self.home.bounds().origin_window.as_millis() as i64;
        let is_off = stdx::bugs::is("dedup_off");
        let log = self.log.as_ref().filter(|_| !is_off)?;
        let recognition = &log.windows.recognition;
        recognition.find_origin(origin, Timestamp::from_millis(not_before))
    }

    // ---- Cursors -------------------------------------------------------------------------------

    /// Takes the cursors that moved since the last record: they go along with the next one.
    pub(super) fn progress(&mut self) -> Progress {
        self.save_sessions_again();
        self.record_marks_again();
        let mut progress = Progress::default();
        let Some(log) = &mut self.log else {
            return progress;
        };
        let mut told = Vec::new();
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            if managed.inbound != managed.inbound_recorded {
                managed.inbound_recorded = managed.inbound;
                progress.inbound.push((managed.number, managed.inbound));
                let far = managed
                    .attached()
                    .filter(|link| self.home.lines.is_marked(*link));
                told.extend(far.map(|link| Effect::Recorded(link, managed.inbound)));
            }
        }
        let changes = log.inbox.take_changes();
        if let Some(changes) = log.outbox.take_changes() {
            progress.forwarded = changes.mark.number();
            log.head.forwarded = changes.mark.number();
            if let Some(lagging) = changes.lagging {
                // In front of whatever moves the common mark past entries of one of them.
                let lagging = lagging.into_iter().map(|(peer, mark)| LaggingMark {
                    peer,
                    mark: mark.number(),
                });
                let (user, lagging) = (String::from(&*self.name), lagging.collect());
                self.record(Record::LaggingPut { user, lagging });
            }
        }
        if let Some(changes) = changes {
            progress.acked = self.record_changes(&changes);
        }
        if !told.is_empty() {
            self.turn().effects.append(&mut told);
        }
        progress
    }

    /// Cursors moved: they are recorded soon, if nothing takes them along before. While entries
    /// do, they wait for the next one.
    pub(super) fn progress_is_due(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !std::mem::replace(&mut self.log().timer, true) {
            cx.send_after(self.home.bounds().progress_delay, UserMsg::Progress);
        }
    }

    /// Whether [`User::record_progress`] comes soon.
    pub(super) fn is_progress_due(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.timer)
    }

    pub(super) fn record_progress(&mut self, cx: &mut Context<'_, UserMsg>) {
        // The timer may be of a life before this one, which has not read the account.
        let Some(log) = &mut self.log else { return };
        log.timer = false;
        match self.phase {
            Phase::Registered => {}
            Phase::Absent => {
                // Of an account that is gone nothing is handed over again.
                let (head, windows) = (log.head, Windows::default());
                log.outbox = outbox::recover(&self.home, &head, &windows, (&[], 0));
                return;
            }
            // What is to be recorded is so once the account can be read.
            Phase::Loading | Phase::Unreadable => return self.progress_is_due(cx),
        }
        let log = self.log();
        if std::mem::take(&mut log.is_moving) {
            self.progress_is_due(cx);
        } else {
            // Nothing takes it along: whoever looks at the store sees what waits.
            log.inbox.record_mark();
            self.save_progress(cx);
        }
        self.ask_acknowledgements(cx);
        self.forget_old_marks(cx);
        if self.drops_what_is_read() && self.log().since_retention > 0 {
            self.trim_soon(cx);
        }
    }

    /// The account is about to go on on another shard: what is recorded late, because little would
    /// be lost with it, is recorded now.
    pub(super) fn record_all(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !self.is_registered() || self.log.is_none() {
            return;
        }
        let log = self.log();
        (log.timer, log.is_moving) = (false, false);
        log.inbox.record_mark();
        self.save_progress(cx);
        self.record_member_marks();
    }

    /// Records the cursors that moved, if any did.
    pub(super) fn save_progress(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.tell_refusals(cx);
        let progress = self.progress();
        if !progress.is_empty() {
            self.record(Record::LogProgress {
                user: String::from(&*self.name),
                progress,
            });
        }
    }

    /// Marks of senders that are older than anybody needs them go.
    fn forget_old_marks(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (now, wall) = (cx.now(), cx.wall().as_millis());
        let bounds = self.home.bounds();
        let (kept, every) = (bounds.marks_kept, bounds.marks_forgotten_every);
        let log = self.log();
        let is_recent = |at: Moment| now.saturating_since(at) < every;
        if !log.windows.has_older_marks || log.marks_forgotten.is_some_and(is_recent) {
            return;
        }
        log.marks_forgotten = Some(now);
        self.record(Record::MarksForget {
            user: String::from(&*self.name),
            before: wall - kept.as_millis() as i64,
        });
    }

    /// The oldest entries are looked at once more, if they could not be read.
    pub(super) fn trim_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        let is_due = self.log().since_retention >= self.home.bounds().retention_every;
        if self.is_registered() && is_due {
            self.trim_soon(cx);
        }
    }

    // ---- Retention -----------------------------------------------------------------------------

    fn look_at_retention(&mut self, now: Timestamp, cx: &mut Context<'_, UserMsg>) {
        let drops = self.drops_what_is_read();
        let archive = &self.home.options.archive;
        let (max_age, max_messages, max_bytes) = (
            archive.max_age.as_millis() as i64,
            archive.max_messages,
            archive.max_bytes,
        );
        let retention_every = self.home.bounds().retention_every;
        let log = self.log();
        log.since_retention += 1;
        // Messages that are kept for their time are looked at when the oldest one's is over.
        let is_due = match log.oldest_at {
            Some(oldest) if !drops => now.as_millis() - oldest.as_millis() > max_age,
            _ => log.since_retention >= retention_every,
        };
        let is_due = is_due || log.head.count > max_messages || log.head.bytes > max_bytes;
        if is_due {
            self.trim_soon(cx);
        }
        self.progress_is_due(cx);
    }

    /// The oldest entry may have become too old without anything having happened to the user.
    pub(super) fn look_at_age(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.is_registered() && self.log.is_some() {
            self.trim_soon(cx);
        }
    }

    /// Whether a message goes as soon as nobody is owed it.
    fn drops_what_is_read(&self) -> bool {
        let archive = &self.home.options.archive;
        !archive.enabled || archive.until_delivered
    }

    /// Somebody is owed less than before: what nobody is owed any more may go soon.
    pub(super) fn may_trim(&mut self, cx: &mut Context<'_, UserMsg>) {
        if self.drops_what_is_read() {
            let log = self.log();
            log.since_retention = log.since_retention.max(1);
        }
        self.progress_is_due(cx);
    }

    /// How many of the oldest entries are read to see which may go. Of a log that is kept for its
    /// time, the first look only wants to know how old the first entry is.
    fn oldest_wanted(&mut self) -> usize {
        if self.drops_what_is_read() || self.log().oldest_at.is_some() {
            self.home.bounds().read_entries
        } else {
            1
        }
    }

    /// Reads the oldest entries to see which may go.
    fn trim_soon(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let limit = self.oldest_wanted();
        let log = self.log();
        log.since_retention = 0;
        let after = log.head.trimmed_through;
        if std::mem::replace(&mut log.is_trimming, true) {
            return;
        }
        let read = move || Box::new(store.log_read(&name, after, limit));
        if cx
            .blocking(&self.home.reads, read, UserMsg::Oldest)
            .is_err()
        {
            // The next look tries again.
            self.log().is_trimming = false;
        }
    }

    /// The oldest entries have been read: drops those that nobody needs any more.
    pub(super) fn trim(
        &mut self,
        oldest: Result<Vec<LogEntry>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.log().is_trimming = false;
        let wanted = self.oldest_wanted();
        let entries = match oldest {
            Ok(entries) => entries,
            Err(error) => {
                tracing::warn!(user = %self.name, %error, "cannot read the log");
                let retention_every = self.home.bounds().retention_every;
                self.log().since_retention = retention_every;
                let pause = self.home.bounds().read_retry_max;
                cx.send_after(pause, UserMsg::ReadAgain);
                return;
            }
        };
        let trimmed = self.log().head.trimmed_through;
        if entries.first().is_some_and(|first| first.seq <= trimmed) {
            return; // Read for a look of before the user was read again: what it found is gone.
        }
        let floor = self.floor();
        let archive = &self.home.options.archive;
        let (keep_read, max_age) = (!archive.until_delivered, archive.max_age.as_millis() as i64);
        let (max_messages, max_bytes) = (archive.max_messages, archive.max_bytes);
        let now = cx.wall().as_millis();
        let head = self.log().head;
        let (mut count, mut bytes, mut archived) = (head.count, head.bytes, head.archived_count);
        let mut through = 0;
        let mut left = 0;
        for (at, entry) in entries.iter().enumerate() {
            let is_kept = keep_read
                && entry.flags.has(EntryFlags::ARCHIVED)
                && now - entry.at.as_millis() <= max_age
                && count <= max_messages
                && bytes <= max_bytes;
            self.log().oldest_at = Some(entry.at);
            if is_kept || entry.seq >= floor || entry.seq <= head.trimmed_through {
                left = entries.len() - at;
                break;
            }
            count = count.saturating_sub(1);
            bytes = bytes.saturating_sub(entry.frame.len() as u64);
            archived -= u64::from(entry.flags.has(EntryFlags::ARCHIVED)).min(archived);
            through = entry.seq;
        }
        if through == 0 {
            if head.count > max_messages || head.bytes > max_bytes {
                self.give_up_behind(floor);
            }
            return;
        }
        // What is kept of it for destinations that lag is decided by the marks that are recorded.
        self.save_progress(cx);
        let log = self.log();
        log.head.trimmed_through = through;
        log.head.count = count;
        log.head.bytes = bytes;
        log.head.archived_count = archived;
        self.record(Record::LogTrim {
            user: String::from(&*self.name),
            through,
        });
        if left == 0 && entries.len() == wanted {
            self.trim_soon(cx);
        }
    }

    /// The oldest entry that somebody is still owed, and everything behind it: none of it may go.
    fn floor(&mut self) -> Seq {
        let log = self.log();
        let owed = log.inbox.floor().number() + 1;
        let mark = log.outbox.mark().number();
        let outgoing = (log.head.last_outgoing > mark).then_some(mark + 1);
        outgoing.map_or(owed, |outgoing| owed.min(outgoing))
    }

    /// The log holds more than it may because of sessions that are behind: those are given up.
    fn give_up_behind(&mut self, floor: Seq) {
        let Some(log) = &mut self.log else { return };
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            let number = SessionNumber::new(managed.number);
            let is_first = log.inbox.acked_through(number) == Some(Place::new(floor).before());
            if is_first && !log.inbox.has_caught_up(number) {
                managed.is_full = true;
                self.has_full_session = true;
            }
        }
    }
}
