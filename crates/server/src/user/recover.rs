//! Sessions that outlived the process: what the log owes them, and how they come back, detached,
//! when their user is loaded (docs/delivery.md).

use std::time::Duration;

use actor::{Context, Mail};
use net::ConnRef;
use rustc_hash::FxHashMap;
use stdx::slab::Key;
use store::{EntryFlags, LogEntry, Seq, SessionRecord, Store, StoreError, UserState};
use telemetry::Gauge;
use xml::Frame;
use xmpp::stanza;

use super::User;
use super::managed::{Link, Managed, SHARED, UNNUMBERED, place};
use super::session::Session;
use crate::limits::LOG_READ;
use crate::message::UserMsg;

/// What the store holds of a user, with what its log owes to sessions.
pub struct Stored {
    pub(super) state: UserState,
    owed: Vec<OwedTo>,
    /// Entries that several sessions were given and, as far as is known, none has acknowledged.
    shared: FxHashMap<Seq, u8>,
}

/// Entries that one session is owed, in order; each with its count if it was sent.
struct OwedTo {
    entries: Vec<(Option<u32>, u64)>,
}

impl Stored {
    /// Reads it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub(super) fn read(store: &Store, user: &str) -> Result<Option<Stored>, StoreError> {
        let Some(state) = store.load_user(user)? else {
            return Ok(None);
        };
        let mut stored = Stored {
            state,
            owed: Vec::new(),
            shared: FxHashMap::default(),
        };
        if !stored.state.sessions.records.is_empty() {
            stored.read_owed(store, user)?;
        }
        Ok(Some(stored))
    }

    fn acked(&self, number: u32) -> Seq {
        let windows = self.state.windows.as_deref();
        let cursor = windows.and_then(|windows| windows.cursor(number));
        cursor.map_or(0, |cursor| cursor.acked)
    }

    fn read_owed(&mut self, store: &Store, user: &str) -> Result<(), StoreError> {
        let records = std::mem::take(&mut self.state.sessions.records);
        for record in &records {
            let acked = self.acked(record.number);
            let numbered = record.numbered.iter();
            let numbered = numbered.filter(|n| place(n.seq) > acked);
            let entries = numbered.map(|n| (Some(n.count), n.seq)).collect();
            self.owed.push(OwedTo { entries });
        }
        let first = records.iter().map(|record| self.acked(record.number)).min();
        let mut after = first.unwrap_or(0);
        loop {
            let page = store.log_read(user, after, LOG_READ)?;
            for entry in &page {
                self.note(&records, entry);
            }
            match page.last() {
                Some(last) if page.len() == LOG_READ => after = last.seq,
                _ => break,
            }
        }
        self.state.sessions.records = records;
        Ok(())
    }

    /// Notes to whom an entry is owed.
    fn note(&mut self, records: &[SessionRecord], entry: &LogEntry) {
        let mut holders = 0u8;
        let mut has_it = false;
        let mut was_shared = false;
        for (at, record) in records.iter().enumerate() {
            let mut listed = self.owed[at].entries.iter();
            let listed = listed.find(|(_, seq)| place(*seq) == entry.seq);
            let noted = entry
                .went_to
                .iter()
                .find(|o| o.session & !UNNUMBERED == record.number);
            if let Some((_, marked)) = listed {
                holders += 1;
                was_shared |= marked & SHARED != 0;
            } else if let Some(noted) = noted {
                if entry.seq <= self.acked(record.number) || entry.seq <= record.void_through {
                    has_it = true;
                    continue;
                }
                holders += 1;
                let count = (noted.session & UNNUMBERED == 0).then_some(noted.count);
                self.owed[at].entries.push((count, entry.seq));
            }
        }
        // The others whom it was shared with have acknowledged it: of those who ended without that,
        // the last one's list says so.
        has_it |= was_shared && holders == 1;
        let is_alone = holders == 1 && entry.went_to.len() <= 1 && !has_it;
        if holders == 0 || is_alone && !entry.flags.has(EntryFlags::SENT) {
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
        let is_first = log.shared.is_empty();
        if is_first {
            log.shared.clone_from(&stored.shared);
        }
        for (record, owed) in sessions.records.iter().zip(&stored.owed) {
            let is_known = self.sessions.iter().any(|session| {
                let managed = session.managed.as_ref();
                managed.is_some_and(|managed| managed.number == record.number)
            });
            // Otherwise the process did not end: the state was only read again.
            if !is_known {
                self.recover_session(record, owed, cx);
            }
        }
    }

    fn recover_session(
        &mut self,
        record: &SessionRecord,
        owed: &OwedTo,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let now = cx.now();
        let windows = self.log().windows.clone();
        let inbound = windows
            .cursor(record.number)
            .map_or(0, |cursor| cursor.inbound);
        let token = String::from_utf8_lossy(&record.token).into_owned().into();
        let link = Link::Detached(now);
        let mut managed = Managed::new(record.number, token, record.max_seconds, link);
        managed.is_enabled = true;
        managed.inbound = inbound;
        managed.inbound_recorded = inbound;
        managed.owed = Some(owed.entries.clone());
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
