//! Sessions that are behind (docs/delivery.md, "The queue is full"): what they are owed beyond a
//! bound is left to the log, whose entries note them, and given to them in pages when they follow
//! again. What a session that ended was owed in this way is its estate: it waits for others.

use actor::{Context, Mail};
use net::ConnRef;
use store::{EntryFlags, LogEntry, NumberedEntry, Record, Seq, SessionRecord, Store, StoreError};
use telemetry::Counter;

use super::User;
use super::barrier::Effect;
use super::log::Log;
use super::managed::{ANYBODY, Managed, SHARED, UNNUMBERED, What, place};
use super::session::Session;
use crate::message::UserMsg;
use crate::options::DeliveryLimits;

/// What a session is owed and was not sent.
#[derive(Debug)]
pub(crate) struct Spill {
    /// Every entry above this place that notes the session is owed to it, and is not in memory.
    pub after: Seq,
    /// Entries that do not note it, in order, with their marks: they waited, and were given to
    /// others meanwhile.
    pub late: Vec<u64>,
    /// Bytes of what it was sent, at least since its client acknowledged messages last.
    pub unacked_bytes: usize,
    /// A page has been asked for.
    is_reading: bool,
    /// A page leaves when it is recorded that it does.
    giving: Option<Giving>,
}

/// A read of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpillRead {
    /// The session.
    number: u32,
    /// The place that the next entry of the log got when the page was asked for.
    end: Seq,
    /// How many appends of the user had failed then.
    failures: u32,
}

/// A page on its way.
#[derive(Debug)]
struct Giving {
    /// The session is owed nothing more up to here.
    through: Seq,
    /// If that is all, the place that the next entry of the log had.
    end: Option<Seq>,
    /// Entries of it that note the session, and those that do not, with their marks.
    noted: Vec<u64>,
    late: Vec<u64>,
}

/// Who holds an entry that was given to several sessions and that nobody has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Holders {
    /// Sessions that have it in memory; at least one.
    pub kept: u8,
    /// Sessions that are to get it from the log.
    pub spilled: u8,
}

/// What a session that ended was to get from the log, and perhaps what others were: they are read
/// together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Estate {
    /// The session whose record says so.
    pub number: u32,
    /// It above this place.
    after: Seq,
    /// Further sessions, each above its place.
    joined: Vec<(u32, Seq)>,
}

/// A page of what a session is to get from the log, or of an estate.
pub struct SpillPage {
    /// What was on the session's list and is read by that.
    listed: Vec<Seq>,
    entries: Vec<LogEntry>,
    through: Seq,
    /// If that is all, the place that the next entry of the log had.
    end: Option<Seq>,
}

impl Spill {
    /// Everything after an entry is left to the log.
    pub(super) fn new(after: Seq) -> Self {
        Spill {
            after,
            late: Vec::new(),
            unacked_bytes: 0,
            is_reading: false,
            giving: None,
        }
    }

    /// Whether an entry that notes the session is still to be read for it.
    fn awaits(&self, seq: Seq) -> bool {
        seq > self.left_after()
    }

    /// The place behind which nothing has been read.
    fn left_after(&self) -> Seq {
        let giving = self.giving.as_ref().map(|giving| giving.through);
        giving.unwrap_or(self.after)
    }
}

impl Holders {
    pub(super) fn is_one(self) -> bool {
        self.kept + self.spilled == 1
    }

    /// One of those that have it in memory ended without having acknowledged it. Gives who is left
    /// of those that hold it; nothing if somebody acknowledged it.
    pub(super) fn drop_one(log: &mut Log, seq: Seq) -> Option<Holders> {
        let holders = log.shared.get_mut(&seq)?;
        holders.kept = holders.kept.saturating_sub(1);
        let left = *holders;
        if left.kept == 0 {
            log.shared.remove(&seq);
        }
        Some(left)
    }
}

/// Whether a record is not of a session, but of what one left.
pub(super) fn is_estate(record: &SessionRecord) -> bool {
    record.token.is_empty()
}

/// Whether a record goes with changes in memory of what sessions are to get from the log, which
/// reading the user again does not undo. [`User::forget_unappended`] undoes those of a message that
/// was not appended, and what a session's own record says holds whatever becomes of it.
pub(super) fn moves_deliveries(record: &Record) -> bool {
    match record {
        Record::LogDelivered { .. }
        | Record::SessionNumbered { .. }
        | Record::SessionRemove { .. }
        | Record::AccountRemove { .. } => true,
        Record::SessionPut { session, .. } => is_estate(session),
        Record::LogAppend { .. }
        | Record::LogTrim { .. }
        | Record::LogProgress { .. }
        | Record::AccountPut { .. }
        | Record::RosterPut { .. }
        | Record::RosterRemove { .. }
        | Record::RosterReplace { .. }
        | Record::BlocklistPut { .. }
        | Record::LastActivity { .. }
        | Record::VCardPut { .. }
        | Record::PrivatePut { .. }
        | Record::AccountLock { .. }
        | Record::KnownAddressesPut { .. }
        | Record::ArchivePrefsPut { .. }
        | Record::LaggingPut { .. }
        | Record::MarksForget { .. }
        | Record::RoomMake { .. }
        | Record::RoomPut { .. }
        | Record::RoomRemove { .. } => false,
    }
}

impl Estate {
    pub(super) fn of(record: &SessionRecord) -> Self {
        let joined = record.numbered.iter();
        Estate {
            number: record.number,
            after: record.void_through,
            joined: joined.map(|part| (part.count, part.seq)).collect(),
        }
    }

    /// Its sessions, and the place above which each was to get what notes it.
    fn parts(&self) -> impl Iterator<Item = (u32, Seq)> {
        std::iter::once((self.number, self.after)).chain(self.joined.iter().copied())
    }

    /// Nothing of it is at this place or in front of it.
    pub(super) fn after(&self) -> Seq {
        let joined = self.joined.iter().map(|(_, after)| *after);
        joined.fold(self.after, Seq::min)
    }

    /// Whether an entry that notes a session is still to be read for it.
    fn awaits(&self, number: u32, seq: Seq) -> bool {
        let mut parts = self.parts();
        parts.any(|(session, after)| session == number && seq > after)
    }

    /// How many of its sessions were to get an entry.
    pub(super) fn holders(&self, entry: &LogEntry) -> u8 {
        let noted = entry.went_to.iter().map(|to| to.session & !UNNUMBERED);
        noted.filter(|to| self.awaits(*to, entry.seq)).count() as u8
    }

    /// Everything up to a place was read for the sessions that were in it then.
    fn advance(&mut self, read: &Estate, through: Seq) {
        self.after = self.after.max(through);
        for (number, after) in &mut self.joined {
            if read.parts().any(|(session, _)| session == *number) {
                *after = (*after).max(through);
            }
        }
    }

    fn joined_list(&self) -> Vec<NumberedEntry> {
        let joined = self.joined.iter();
        joined
            .map(|&(number, seq)| NumberedEntry { count: number, seq })
            .collect()
    }

    pub(super) fn record(&self) -> SessionRecord {
        SessionRecord {
            number: self.number,
            void_through: self.after,
            numbered: self.joined_list(),
            ..SessionRecord::default()
        }
    }
}

impl SpillPage {
    /// Reads what is owed to an estate.
    pub(super) fn read_estate(
        store: &Store,
        user: &str,
        (estate, end): (&Estate, Seq),
        limits: &DeliveryLimits,
    ) -> Result<Self, StoreError> {
        let is_noted = |entry: &LogEntry| estate.holders(entry) > 0;
        SpillPage::read(store, user, (estate.after(), end), &[], limits, is_noted)
    }

    /// Reads what a session is owed above `after`, as its entries say; and in front of that, what
    /// is on its list `late`. `end` is the place that the next entry gets.
    fn read(
        store: &Store,
        user: &str,
        (after, end): (Seq, Seq),
        late: &[Seq],
        limits: &DeliveryLimits,
        is_noted: impl Fn(&LogEntry) -> bool,
    ) -> Result<Self, StoreError> {
        let mut page = SpillPage {
            listed: Vec::new(),
            entries: Vec::new(),
            through: after,
            end: None,
        };
        let early = late.iter().copied().filter(|seq| *seq <= after);
        page.listed = early.take(limits.page_entries).collect();
        if !page.listed.is_empty() {
            page.entries = store.log_entries(user, &page.listed)?;
            if page.cut(limits.page_bytes)
                && let Some(last) = page.entries.last()
            {
                let at = page.listed.iter().position(|seq| *seq == last.seq);
                page.listed.truncate(at.map_or(0, |at| at + 1));
            }
            return Ok(page);
        }
        let entries = store.log_read(user, after, limits.read_entries)?;
        let mut is_all = entries.len() < limits.read_entries;
        for entry in entries {
            if page.entries.len() == limits.page_entries {
                is_all = false;
                break;
            }
            if entry.seq >= end {
                // What waited in front of it may have come onto the list since.
                is_all = true;
                break;
            }
            page.through = entry.seq;
            if is_noted(&entry) || late.contains(&entry.seq) {
                page.entries.push(entry);
            }
        }
        if is_all {
            page.end = Some(end);
            page.through = page.through.max(end - 1);
        }
        if page.cut(limits.page_bytes)
            && let Some(last) = page.entries.last()
        {
            page.through = last.seq;
            page.end = None;
        }
        Ok(page)
    }

    /// Leaves out what is too much for one page. False if nothing is.
    fn cut(&mut self, bytes_max: usize) -> bool {
        let mut bytes = 0;
        let fits = self.entries.iter().take_while(|entry| {
            bytes += entry.frame.len();
            bytes <= bytes_max
        });
        // One goes, whatever its size.
        let fits = fits.count().max(1);
        let is_cut = fits < self.entries.len();
        self.entries.truncate(fits);
        is_cut
    }
}

impl Managed {
    /// Whether a further entry is not kept in memory for it.
    fn must_spill(&self, max: usize) -> bool {
        if self.spill.is_some() {
            return true;
        }
        let given = match &self.owed {
            Some(owed) => owed.len(),
            None => self.entries as usize,
        };
        // Few of those that wait for a commit are no entries.
        given + self.pending.len() >= max && given + self.pending.iter().flatten().count() >= max
    }

    /// Up to which place [`Managed::numbered`] has all that it is owed, if `last` is the last
    /// entry of the log.
    pub(super) fn listed_through(&self, last: Seq) -> Seq {
        let spill = self.spill.as_ref();
        spill.map_or(last, |spill| spill.left_after())
    }

    fn is_spilled(&self) -> bool {
        self.spill.is_some()
    }
}

impl Managed {
    /// Entries that it has in memory and that wait again if it ends.
    fn held_entries(&self) -> usize {
        let owed = self.owed.as_ref().map_or(0, Vec::len);
        let late = self.spill.as_ref().map_or(0, |spill| spill.late.len());
        let pending = self.pending.iter().flatten().count();
        owed + late + pending + self.entries as usize
    }
}

impl Session {
    /// Whether what it is owed is left to the log.
    pub(super) fn is_spilled(&self) -> bool {
        self.managed.as_deref().is_some_and(Managed::is_spilled)
    }

    /// Whether its client is there and has not acknowledged `pause` messages, those included that
    /// are sent with a commit that is under way.
    pub(super) fn is_behind(&self, pause: u32) -> bool {
        let Some(managed) = &self.managed else {
            return false;
        };
        let given = || managed.entries as usize + managed.pending.iter().flatten().count();
        managed.attached().is_some() && given() >= pause as usize
    }
}

impl User {
    // ---- Into the log --------------------------------------------------------------------------

    /// Leaves what follows to the log if a session is so far behind.
    pub(super) fn spill_if_behind(&mut self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let last = self.log.as_ref().map_or(0, |log| log.head.next_seq - 1);
        let max = match self.has_room_to_requeue() {
            true => self.home.options.delivery.unacked_max as usize,
            false => 1,
        };
        let mut sessions = self.sessions.iter_mut();
        let session = sessions.find(|session| session.conn == conn);
        let managed = session.and_then(|session| session.managed.as_mut());
        if let Some(managed) = managed.filter(|managed| managed.must_spill(max))
            && managed.spill.is_none()
        {
            managed.spill = Some(Box::new(Spill::new(last)));
            cx.stats().count(Counter::SessionsSpilled);
        }
    }

    /// Leaves to the log what waits for sessions that are behind: others can be given it.
    pub(super) fn spill_those_behind(&mut self, cx: &mut Context<'_, UserMsg>) {
        let last = self.log.as_ref().map_or(0, |log| log.head.next_seq - 1);
        let pause = self.unacked_pause();
        let takers = self.sessions.iter_mut().filter(|s| s.takes_waiting());
        for session in takers.filter(|session| session.is_behind(pause)) {
            if let Some(managed) = &mut session.managed {
                managed.spill = Some(Box::new(Spill::new(last)));
                cx.stats().count(Counter::SessionsSpilled);
            }
        }
    }

    /// Whether a further page of what waits could be too much for the list of a session that is
    /// there: it is waited for rather than ended.
    pub(super) fn has_full_list(&self) -> bool {
        let bounds = self.home.bounds();
        let page = bounds.page_entries + bounds.page_entries / 2;
        let managed = self.sessions.iter().filter_map(|s| s.managed.as_ref());
        let mut there = managed.filter(|managed| managed.attached().is_some());
        there.any(|managed| {
            let spill = managed.spill.as_ref();
            spill.is_some_and(|spill| spill.late.len() + page > bounds.late_entries_max)
        })
    }

    /// Notes in an entry that sessions are owed that it was written to clients that acknowledge
    /// nothing: it waits for nobody else, after a crash either.
    pub(super) fn note_anybody(
        &self,
        went_to: &mut store::Few<store::Outbound>,
        given: &[&[ConnRef]],
    ) {
        let is_noted = !went_to.is_empty();
        let is_plain = |session: &Session| session.managed.is_none();
        let mut plain = self.sessions.iter().filter(|session| is_plain(session));
        if is_noted && plain.any(|session| given.iter().any(|all| all.contains(&session.conn))) {
            went_to.push(store::Outbound {
                session: ANYBODY,
                count: 0,
            });
        }
    }

    /// Leaves out sessions that get an entry from the log.
    pub(super) fn leave_out_spilled(&self, conns: &mut Vec<ConnRef>) {
        if self.sessions.iter().any(Session::is_spilled) {
            conns.retain(|conn| !self.is_spilled(*conn));
        }
    }

    pub(super) fn is_spilled(&self, conn: ConnRef) -> bool {
        let mut sessions = self.sessions.iter();
        sessions.any(|session| session.conn == conn && session.is_spilled())
    }

    /// Keeps the place of an entry that waited for those that are behind, and leaves them out.
    pub(super) fn keep_late(
        &mut self,
        marked: u64,
        conns: &mut Vec<ConnRef>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        for &conn in &*conns {
            self.spill_if_behind(conn, cx);
        }
        let late_max = self.home.bounds().late_entries_max;
        for session in self.sessions.iter_mut().filter(|s| conns.contains(&s.conn)) {
            let Some(managed) = &mut session.managed else {
                continue;
            };
            if let Some(spill) = &mut managed.spill {
                if spill.late.len() < late_max {
                    spill.late.push(marked);
                } else {
                    managed.is_full = true;
                    self.has_full_session = true;
                }
            }
        }
        self.leave_out_spilled(conns);
    }

    // ---- Out of the log ------------------------------------------------------------------------

    /// Unacknowledged messages of a session at which it is given no further page of what waits.
    pub(super) fn unacked_pause(&self) -> u32 {
        if !self.has_room_to_requeue() {
            return 1;
        }
        let half = self.home.options.delivery.unacked_max / 2;
        self.home.bounds().unacked_entries_pause.min(half).max(1)
    }

    /// Whether all that sessions have in memory finds room on the list of what waits again, should
    /// they end.
    pub(super) fn has_room_to_requeue(&self) -> bool {
        let bounds = self.home.bounds();
        let requeued = self
            .log
            .as_ref()
            .map_or(0, |log| log.windows.requeued.len());
        let of_one = bounds.resent_entries_max + bounds.late_entries_max;
        // Nearly always so few wait that what sessions have need not be counted.
        if requeued + self.sessions.len() * of_one < bounds.requeued_max {
            return true;
        }
        let managed = self.sessions.iter().filter_map(|s| s.managed.as_ref());
        let held: usize = managed.map(|managed| managed.held_entries()).sum();
        requeued + held < bounds.requeued_max
    }

    /// Reads the next page for every session that follows again.
    pub(super) fn give_all_spilled(&mut self, cx: &mut Context<'_, UserMsg>) {
        for at in 0..self.sessions.len() {
            self.give_spilled(at, cx);
        }
    }

    /// Reads the next page of what a session is owed, if it follows again.
    pub(super) fn give_spilled(&mut self, at: usize, cx: &mut Context<'_, UserMsg>) {
        let next_seq = self.log.as_ref().map_or(0, |log| log.head.next_seq);
        let pause = self.unacked_pause();
        let bytes_pause = self.home.bounds().unacked_bytes_pause;
        let (failures, is_stale) = (self.failures, self.stale);
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let is_here = managed.attached().is_some() && managed.owed.is_none() && !managed.is_full;
        let given = managed.entries + managed.pending.len() as u32;
        let Some(spill) = &mut managed.spill else {
            return;
        };
        if given == 0 {
            spill.unacked_bytes = 0;
        }
        let is_busy = spill.is_reading || spill.giving.is_some();
        let follows = given < pause && spill.unacked_bytes < bytes_pause;
        if is_here && !is_stale && !is_busy && follows {
            spill.is_reading = true;
            let read = SpillRead {
                number: managed.number,
                end: next_seq,
                failures,
            };
            // Behind the commits that are under way: only then the store has it all.
            self.emit(Effect::ReadSpill(read), cx);
        }
    }

    pub(super) fn read_spill(&mut self, read: SpillRead, cx: &mut Context<'_, UserMsg>) {
        let Some(spill) = self.spill_of(read.number) else {
            return;
        };
        let late: Vec<Seq> = spill.late.iter().copied().map(place).collect();
        let places = (spill.after, read.end);
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let limits = *self.home.bounds();
        let job = move || {
            let noted = read.number | UNNUMBERED;
            let is_noted = |entry: &LogEntry| entry.went_to.iter().any(|to| to.session == noted);
            let page = SpillPage::read(&store, &name, places, &late, &limits, is_noted);
            Box::new((read, page))
        };
        if cx
            .blocking(&self.home.reads, job, UserMsg::Spilled)
            .is_err()
        {
            self.spill_read(read, Err(super::overloaded()), cx);
        }
    }

    fn spill_of(&mut self, number: u32) -> Option<&mut Spill> {
        let at = self.managed_session(number)?;
        self.sessions[at].managed.as_mut()?.spill.as_deref_mut()
    }

    /// Gives a page of them their counts, has those recorded, and sends it.
    pub(super) fn spill_read(
        &mut self,
        read: SpillRead,
        page: Result<SpillPage, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let number = read.number;
        let Some(at) = self.managed_session(number) else {
            return;
        };
        let conn = self.sessions[at].conn;
        let is_current = read.failures == self.failures && !self.stale;
        let is_here = self.sessions[at].link().is_some();
        let Some(spill) = self.spill_of(number) else {
            return;
        };
        spill.is_reading = false;
        let page = match page {
            Ok(page) if is_here && is_current => page,
            // What was not appended has no place; and a resumption reads it again.
            Ok(_) => return self.give_spilled(at, cx),
            Err(error) => {
                tracing::warn!(user = %self.name, %error, "cannot read what a session is owed");
                return self.read_again_later(cx);
            }
        };
        self.log().reads_failed = 0;
        let mut giving = Giving {
            through: page.through,
            end: page.end,
            noted: Vec::new(),
            late: Vec::new(),
        };
        let has_entries = !page.entries.is_empty();
        // What the session was spared goes first, and has counts of its own.
        self.flush_held(conn, cx);
        for entry in &page.entries {
            let late = self.take_late(at, entry.seq);
            let marked = match late {
                Some(marked) => marked,
                None => self.take_up(number, entry),
            };
            if late.is_some() {
                giving.late.push(marked);
            } else {
                giving.noted.push(marked);
            }
            let bytes = self.entry_for(&self.sessions[at], entry, true);
            if !bytes.is_empty()
                && let Some(managed) = &mut self.sessions[at].managed
            {
                cx.stats().count(Counter::MessagesOut);
                managed.pending.push_back(Some(marked));
                if let Some(spill) = &mut managed.spill {
                    spill.unacked_bytes += bytes.len();
                }
                let write = Effect::Write(conn, What::Entry(marked), bytes);
                self.turn().effects.push(write);
            }
        }
        if let Some(spill) = self.spill_of(number) {
            spill
                .late
                .retain(|marked| !page.listed.contains(&place(*marked)));
            spill.giving = Some(giving);
        }
        if has_entries {
            self.record_numbered(conn);
            self.turn().effects.push(Effect::SpillGiven(number));
        } else {
            self.spill_given(number, cx);
        }
    }

    /// Takes an entry off a session's list.
    fn take_late(&mut self, at: usize, seq: Seq) -> Option<u64> {
        let managed = self.sessions[at].managed.as_mut();
        let late = &mut managed?.spill.as_mut()?.late;
        let found = late.iter().position(|marked| place(*marked) == seq)?;
        Some(late.remove(found))
    }

    /// An entry comes into the memory of a session that it was noted for. Gives its place, with its
    /// mark.
    fn take_up(&mut self, number: u32, entry: &LogEntry) -> u64 {
        let marked = entry.seq | SHARED;
        if entry.flags.has(EntryFlags::SENT) {
            return marked;
        }
        if let Some(holders) = self.log().shared.get_mut(&entry.seq) {
            holders.kept += 1;
            holders.spilled = holders.spilled.saturating_sub(1);
            return marked;
        }
        match self.others(entry, |other| other == number) {
            Some(0) => entry.seq,
            Some(spilled) => {
                let holders = Holders { kept: 1, spilled };
                self.log().shared.insert(entry.seq, holders);
                marked
            }
            None => marked,
        }
    }

    /// How many sessions other than those that this is about are to get an entry from the log;
    /// `None` if somebody has it.
    fn others(&self, entry: &LogEntry, is_meant: impl Fn(u32) -> bool) -> Option<u8> {
        let log = self.log.as_ref()?;
        let others = entry.went_to.iter().map(|to| to.session & !UNNUMBERED);
        let mut spilled = 0;
        for other in others.filter(|other| !is_meant(*other)) {
            let session = self.managed_session(other);
            let managed = session.and_then(|at| self.sessions[at].managed.as_ref());
            let awaits = match managed {
                Some(managed) => managed.spill.as_ref().map(|s| s.awaits(entry.seq)),
                None if other == ANYBODY => Some(false),
                None => {
                    let mut estates = log.estates.iter();
                    let is_left = estates.any(|estate| estate.awaits(other, entry.seq));
                    let mut ended = log.ended.iter();
                    let ended = ended.find(|ended| ended.number == other);
                    let has_it = ended.is_some_and(|ended| ended.has(entry.seq));
                    // Of one that is forgotten nobody knows what it had: it is sent again.
                    match (is_left, has_it) {
                        (true, _) => Some(true),
                        (false, true) => Some(false),
                        (false, false) => continue,
                    }
                }
            };
            match awaits {
                Some(true) => spilled += 1,
                // What a session was given and still holds is in `shared`.
                Some(false) | None => return None,
            }
        }
        Some(spilled)
    }

    /// A page has been given: the next one may follow, or what comes is sent at once again.
    pub(super) fn spill_given(&mut self, number: u32, cx: &mut Context<'_, UserMsg>) {
        let next_seq = self.log().head.next_seq;
        let Some(at) = self.managed_session(number) else {
            return;
        };
        let Some(managed) = &mut self.sessions[at].managed else {
            return;
        };
        let Some(spill) = &mut managed.spill else {
            return;
        };
        let Some(giving) = spill.giving.take() else {
            return;
        };
        spill.after = spill.after.max(giving.through);
        if giving.end == Some(next_seq) && spill.late.is_empty() {
            managed.spill = None;
        } else {
            self.give_spilled(at, cx);
        }
        // Its list has room again, or it takes part again.
        self.drain_inbox(cx);
        self.may_trim(cx);
    }

    /// What was to be recorded for a page could not be: it is read again.
    pub(super) fn spill_not_given(&mut self, number: u32) {
        let Some(spill) = self.spill_of(number) else {
            return;
        };
        let Some(giving) = spill.giving.take() else {
            return;
        };
        spill.late.splice(0..0, giving.late);
        let log = self.log();
        for seq in giving.noted.into_iter().map(place) {
            if let Some(holders) = log.shared.get_mut(&seq) {
                holders.kept = holders.kept.saturating_sub(1);
                holders.spilled += 1;
                if holders.kept == 0 {
                    log.shared.remove(&seq);
                }
            }
        }
    }

    /// The log was read again: entries that were not appended have no place, and nobody holds them.
    pub(super) fn forget_unappended(&mut self) {
        let log = self.log();
        let last = log.head.next_seq - 1;
        log.shared.retain(|seq, _| *seq <= last);
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            if let Some(spill) = &mut managed.spill {
                spill.after = spill.after.min(last);
            }
        }
    }

    /// The log holds more than it may because of a session that is behind: that one is given up.
    pub(super) fn give_up_spilled(&mut self, floor: Seq) {
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            if managed.is_spilled() && managed.oldest_unacked() == Some(floor) {
                managed.is_full = true;
                self.has_full_session = true;
            }
        }
    }

    // ---- Estates -------------------------------------------------------------------------------

    /// What a session that has ended was to get from the log waits for others; or its record goes.
    pub(super) fn leave_estate(&mut self, managed: &Managed) {
        let last = self.log().head.next_seq - 1;
        let after = managed.listed_through(last);
        let estates_max = self.home.bounds().estates_max;
        let (user, number) = (self.name.to_string(), managed.number);
        if after >= last {
            return self.record(Record::SessionRemove { user, number });
        }
        let estates = &mut self.log().estates;
        if estates.len() < estates_max {
            estates.push(Estate {
                number,
                after,
                joined: Vec::new(),
            });
            return self.record_last_estate();
        }
        // The record of another one has both.
        if let Some(estate) = estates.last_mut() {
            estate.joined.push((number, after));
        }
        self.record_last_estate();
        self.record(Record::SessionRemove { user, number });
    }

    fn record_last_estate(&mut self) {
        let Some(estate) = self.log().estates.last() else {
            return;
        };
        let session = Box::new(estate.record());
        let user = self.name.to_string();
        self.record(Record::SessionPut { user, session });
    }

    /// Whether one more session may be managed: each that is has a place for what it may leave, so
    /// that nothing is dropped when it ends.
    pub(super) fn has_room_for_estate(&self) -> bool {
        let bounds = self.home.bounds();
        let estates = self.log.iter().flat_map(|log| &log.estates);
        let parts: usize = estates.map(|estate| estate.parts().count()).sum();
        let records = self.log.as_ref().map_or(0, |log| log.estates.len());
        let managed = self.sessions.iter().filter(|s| s.managed.is_some()).count();
        parts + managed < bounds.estates_max + bounds.joined_max
            && records + managed < store::limits::SESSIONS_MAX
    }

    /// A page of an estate was read: what of it nobody else has or is going to get.
    pub(super) fn inherit(&mut self, read: &Estate, page: SpillPage) -> Vec<LogEntry> {
        let mut inherited = Vec::new();
        for entry in page.entries {
            let held = read.holders(&entry);
            let is_meant = |other| read.awaits(other, entry.seq);
            if let Some(holders) = self.log().shared.get_mut(&entry.seq) {
                holders.spilled = holders.spilled.saturating_sub(held);
            } else if !entry.flags.has(EntryFlags::SENT) && self.others(&entry, is_meant) == Some(0)
            {
                inherited.push(entry);
            }
        }
        let (user, number) = (self.name.to_string(), read.number);
        let estates = &mut self.log().estates;
        let Some(at) = estates.iter().position(|estate| estate.number == number) else {
            return inherited;
        };
        estates[at].advance(read, page.through);
        // A session that ended meanwhile has its place in it still.
        let is_done = page.end.is_some() && estates[at].joined.len() == read.joined.len();
        let record = if is_done {
            estates.remove(at);
            Record::SessionRemove { user, number }
        } else {
            Record::SessionNumbered {
                user,
                number,
                void_through: estates[at].after,
                numbered: estates[at].joined_list(),
            }
        };
        self.record(record);
        inherited
    }
}
