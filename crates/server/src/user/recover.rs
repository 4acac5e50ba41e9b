//! Sessions that outlived the process: what the log owes them, and how they come back, detached,
//! when their user is loaded (docs/delivery.md).

use std::time::Duration;

use actor::{Context, Mail};
use net::ConnRef;
use rustc_hash::{FxHashMap, FxHashSet};
use stdx::slab::Key;
use store::{EntryFlags, LogEntry, Seq, SessionRecord, Store, StoreError, UserState};
use telemetry::Gauge;
use xml::Frame;
use xmpp::stanza;

use super::User;
use super::managed::{ANYBODY, Link, Managed, SHARED, UNNUMBERED, UNSENT, holders_told, place};
use super::session::Session;
use super::spill::{self, Estate, Holders, Spill};
use crate::message::UserMsg;

/// What the store holds of a user, with what its log owes to sessions.
pub struct Stored {
    pub(super) state: UserState,
    owed: Vec<OwedTo>,
    /// Entries that several sessions were given and, as far as is known, none has acknowledged.
    shared: FxHashMap<Seq, Holders>,
    /// Entries that wait for each destination that lags, and all that wait to be handed over.
    outgoing: (Vec<u32>, u32),
}

/// What one session is owed.
#[derive(Default)]
struct OwedTo {
    /// The first entries, in order; each with its count if it was sent.
    entries: Vec<(Option<u32>, u64)>,
    /// Those that its record lists, and by how many sessions they were held as it says.
    listed: FxHashMap<Seq, u8>,
    /// All that it is owed above this place is left to the log.
    spilled: Option<Seq>,
}

impl OwedTo {
    fn is_full(&self, max: usize) -> bool {
        self.spilled.is_some() || self.entries.len() >= max
    }
}

impl Stored {
    /// Reads it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub(super) fn read(
        store: &Store,
        user: &str,
        unacked_max: usize,
        page: usize,
    ) -> Result<Option<Stored>, StoreError> {
        let Some(state) = store.load_user(user)? else {
            return Ok(None);
        };
        let mut stored = Stored {
            state,
            owed: Vec::new(),
            shared: FxHashMap::default(),
            outgoing: (Vec::new(), 0),
        };
        let lagging = stored.state.windows.as_deref();
        let lagging = lagging.map_or(&[][..], |windows| &windows.lagging);
        if stored.state.log.has_outgoing() || !lagging.is_empty() {
            stored.outgoing = store.count_outgoing(user, &stored.state.log, lagging)?;
        }
        if !stored.state.sessions.records.is_empty() {
            stored.read_owed(store, user, unacked_max, page)?;
        }
        Ok(Some(stored))
    }

    /// How much waits to be handed over.
    pub(super) fn outgoing(&self) -> (&[u32], u32) {
        (&self.outgoing.0, self.outgoing.1)
    }

    fn acked(&self, number: u32) -> Seq {
        let windows = self.state.windows.as_deref();
        let cursor = windows.and_then(|windows| windows.cursor(number));
        cursor.map_or(0, |cursor| cursor.acked)
    }

    fn read_owed(
        &mut self,
        store: &Store,
        user: &str,
        max: usize,
        page_entries: usize,
    ) -> Result<(), StoreError> {
        let records = std::mem::take(&mut self.state.sessions.records);
        for record in &records {
            let acked = self.acked(record.number);
            let mut owed = OwedTo::default();
            for listed in record.numbered.iter().filter(|n| place(n.seq) > acked) {
                let count = (listed.seq & UNSENT == 0).then_some(listed.count);
                let entry = place(listed.seq) | listed.seq & SHARED;
                owed.entries.push((count, entry));
                owed.listed
                    .insert(place(listed.seq), holders_told(listed.seq));
            }
            self.owed.push(owed);
        }
        let is_estate = |record: &&SessionRecord| spill::is_estate(record);
        let estates: Vec<Estate> = records.iter().filter(is_estate).map(Estate::of).collect();
        let sessions = records.iter().filter(|record| !spill::is_estate(record));
        let first = sessions.map(|record| self.acked(record.number)).min();
        let mut after = first.unwrap_or(Seq::MAX);
        loop {
            let page = store.log_read(user, after, page_entries)?;
            for entry in &page {
                self.note(&records, &estates, entry, max);
            }
            match page.last() {
                Some(last) if page.len() == page_entries => after = last.seq,
                _ => break,
            }
        }
        // What comes from the log comes in its order, whether a list or an entry says so.
        for (record, owed) in records.iter().zip(&mut self.owed) {
            let is_from_log =
                |count: Option<u32>, seq| count.is_none() && seq > record.void_through;
            owed.entries.sort_by_key(|(count, entry)| {
                let seq = place(*entry);
                if is_from_log(*count, seq) { seq } else { 0 }
            });
        }
        self.state.sessions.records = records;
        Ok(())
    }

    /// Notes to whom an entry is owed.
    fn note(
        &mut self,
        records: &[SessionRecord],
        estates: &[Estate],
        entry: &LogEntry,
        max: usize,
    ) {
        let mut holders = Holders {
            kept: 0,
            spilled: estates.iter().map(|estate| estate.holders(entry)).sum(),
        };
        let mut has_it = entry.went_to.iter().any(|to| to.session == ANYBODY);
        let mut told = 0;
        for (at, record) in records.iter().enumerate() {
            let noted = entry
                .went_to
                .iter()
                .find(|o| o.session & !UNNUMBERED == record.number);
            let acked = self.acked(record.number).max(record.void_through);
            let owed = &mut self.owed[at];
            if spill::is_estate(record) {
                continue;
            }
            if let Some(listed) = owed.listed.get(&entry.seq) {
                holders.kept += 1;
                told = told.max(*listed);
            } else if let Some(noted) = noted {
                if entry.seq <= acked {
                    has_it = true;
                    continue;
                }
                let count = (noted.session & UNNUMBERED == 0).then_some(noted.count);
                if count.is_none() && owed.is_full(max) {
                    owed.spilled.get_or_insert(entry.seq - 1);
                    holders.spilled += 1;
                } else {
                    owed.entries.push((count, entry.seq));
                    holders.kept += 1;
                }
            }
        }
        if holders.kept == 0 {
            return;
        }
        // Of those whom it was shared with somebody has acknowledged it: if one ends without that,
        // the lists of the others say that they are fewer.
        has_it |= told > holders.kept.saturating_add(holders.spilled);
        let is_alone = holders.is_one() && entry.went_to.len() <= 1 && !has_it;
        if is_alone && !entry.flags.has(EntryFlags::SENT) {
            return;
        }
        for owed in &mut self.owed {
            for (_, seq) in &mut owed.entries {
                if place(*seq) == entry.seq {
                    *seq |= SHARED;
                }
            }
        }
        // Of one whose session is gone nobody knows whether it had it: it is sent again.
        if !has_it && !entry.flags.has(EntryFlags::SENT) {
            self.shared.insert(entry.seq, holders);
        }
    }
}

impl User {
    /// Makes the sessions that outlived the process, all of them detached.
    pub(super) fn recover_sessions(&mut self, stored: &Stored, cx: &mut Context<'_, UserMsg>) {
        let sessions = &stored.state.sessions;
        if sessions.next_number == 0 {
            return;
        }
        let log = self.log();
        log.next_session = log.next_session.max(sessions.next_number);
        log.estates = sessions
            .records
            .iter()
            .filter(|record| spill::is_estate(record))
            .map(Estate::of)
            .collect();
        let acked = self.acked_since(stored);
        let is_read_again = self.log().is_put_off;
        for (record, owed) in sessions.records.iter().zip(&stored.owed) {
            // Otherwise the process did not end: the state was only read again. One that is gone
            // from memory all the same could not be ended.
            let is_new = self.managed_session(record.number).is_none();
            if is_new && !spill::is_estate(record) {
                self.hold_shared(owed, &stored.shared, &acked);
                self.recover_session(record, owed, cx);
                if is_read_again && let Some(session) = self.sessions.last_mut() {
                    retire(session);
                }
            }
        }
    }

    /// What sessions that are there have acknowledged, and the store does not know of.
    fn acked_since(&self, stored: &Stored) -> FxHashSet<Seq> {
        let mut acked = FxHashSet::default();
        let records = &stored.state.sessions.records;
        for (record, owed) in records.iter().zip(&stored.owed) {
            let at = self.managed_session(record.number);
            let managed = at.and_then(|at| self.sessions[at].managed.as_ref());
            let Some(managed) = managed else { continue };
            let entries = managed.unacked_entries().into_iter().map(place);
            let entries: FxHashSet<Seq> = entries.collect();
            let owed = owed.entries.iter().map(|(_, entry)| place(*entry));
            acked.extend(owed.filter(|seq| !entries.contains(seq)));
        }
        acked
    }

    /// A session is one of those that hold what several were given. `known` says what of that
    /// nobody has, as far as the store knows; somebody has `acked`.
    fn hold_shared(
        &mut self,
        owed: &OwedTo,
        known: &FxHashMap<Seq, Holders>,
        acked: &FxHashSet<Seq>,
    ) {
        let shared = &mut self.log().shared;
        for seq in owed.entries.iter().map(|(_, entry)| place(*entry)) {
            let Some(known) = known.get(&seq).filter(|_| !acked.contains(&seq)) else {
                continue;
            };
            let none = Holders { kept: 0, ..*known };
            shared.entry(seq).or_insert(none).kept += 1;
        }
    }

    fn recover_session(
        &mut self,
        record: &SessionRecord,
        owed: &OwedTo,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let now = cx.now();
        let cursor = self.log().windows.cursor(record.number);
        let inbound = cursor.map_or(0, |cursor| cursor.inbound);
        let token = String::from_utf8_lossy(&record.token).into_owned().into();
        let link = Link::Detached(now);
        let mut managed = Managed::new(record.number, token, record.max_seconds, link);
        managed.is_enabled = true;
        managed.inbound = inbound;
        managed.inbound_recorded = inbound;
        managed.owed = Some(owed.entries.clone());
        managed.spill = owed.spilled.map(|after| Box::new(Spill::new(after)));
        managed.presence_lost = true;
        // No connection ever has this name: it only tells the user's sessions apart.
        let conn = ConnRef {
            shard: cx.shard(),
            id: Key {
                index: u32::MAX,
                generation: record.number,
            },
        };
        let mut session = Session::new(conn, &self.name, &record.resource);
        session.started = true;
        session.carbons = record.carbons;
        session.is_inactive = record.inactive;
        session.wants_roster = record.wants_roster;
        session.wants_blocklist = record.wants_blocklist;
        let presence = record.presence.clone();
        session.presence = presence.and_then(|xml| Frame::parse(xml).ok());
        let priority = session.presence.as_ref().map(stanza::presence_priority);
        session.priority = priority.and_then(Result::ok).unwrap_or(0);
        if !record.directed.is_empty() {
            let directed = record.directed.iter().map(|to| to.as_str().into());
            session.directed = Some(Box::new(directed.collect()));
        }
        session.managed = Some(Box::new(managed));
        self.sessions.push(session);
        cx.stats().raise(Gauge::Sessions);
        cx.stats().raise(Gauge::ManagedSessions);
        let after = Duration::from_secs(record.max_seconds.into());
        let number = record.number;
        cx.send_after(after, UserMsg::Expire { number, since: now });
    }
}

/// A session that has ended, as everybody was told, and whose end could not be recorded: another
/// one may have its resource by now. It is given nothing, cannot be resumed, and ends as soon as
/// that can be recorded.
fn retire(session: &mut Session) {
    session.started = false;
    session.carbons = false;
    session.priority = -1;
    if let Some(managed) = &mut session.managed {
        managed.max_seconds = 0;
    }
}
