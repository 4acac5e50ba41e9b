//! How records change a log, its cursors and the sessions that read it. Part of `apply`: the same
//! rules bind. Owns when entries are folded into what recognises and finds them.
//!
//! What an entry does to the head follows from the entry ([`Head::append`]). So an append writes
//! the entry alone, and who reads the head adds the entries behind it ([`read_head`]): cursors are
//! exact after any crash. The head is written with the first entry of a tail, so that one without a
//! tail says that there is nothing to add; with the last one; and with every other change. The
//! [`Recognition`] and the index of addresses are written once for [`TAIL_ENTRIES_MAX`] entries,
//! and before entries that they do not hold go.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use stdx::time::Timestamp;

use crate::apply::{Entity, Txn};
use crate::delivery::{
    Delivered, EntryFlags, LaggingMark, LogEntry, NumberedEntry, Progress, Recognition,
    SessionCursor, SessionRecord, Sessions, advance,
};
use crate::engine::{Reader, Space, Visit};
use crate::error::StoreError;
use crate::heads::TailEntry;
use crate::keys;
use crate::limits::{NUMBERED_MARK_BITS, TAIL_ENTRIES_MAX};
use crate::record::Seq;
use crate::scan::{self, until};
use crate::slot::SlotKey;
use crate::state::{
    Head, LogHead, OlderMark, StoredEntry, VALUE_VERSION, decode, decode_borrowed, decode_head,
    encode,
};

impl<T: Txn> Entity<'_, T> {
    pub(crate) fn log_append(&mut self, entry: &LogEntry) -> Result<(), StoreError> {
        if entry.seq < self.head.log.next_seq && !stdx::bugs::is("id_reuse") {
            return Ok(());
        }
        let had_outgoing = self.head.has_outgoing();
        let mut stored = StoredEntry::new(entry);
        // Entries are found by their time: it does not run backwards, whatever the clock did.
        stored.at = stored.at.max(self.head.log.last_at.as_millis());
        self.head.append(entry.seq, &stored);
        let peer = self.hash_of(&entry.peer);
        self.tail.push(TailEntry::new(peer, entry.seq, &stored));
        let key = keys::log_entry_of(&self.key, entry.seq);
        self.txn.put(Space::Log, &key[..], stored.encode());
        self.mark(had_outgoing);
        match self.head.tail_count {
            1 => self.save_head(),
            TAIL_ENTRIES_MAX.. => {
                self.fold()?;
                self.save_head();
            }
            // The head follows from the entries.
            _ => {}
        }
        Ok(())
    }

    /// Nothing else of the entry changes: whatever finds it, still does.
    pub(crate) fn log_replace(&mut self, seq: Seq, frame: &[u8]) -> Result<(), StoreError> {
        let key = keys::log_entry_of(&self.key, seq);
        let Some(value) = self.txn.get(Space::Log, &key)? else {
            return Ok(());
        };
        let (_, mut entry) = parse_entry(&key, &value)?;
        let before = entry.frame.len() as u64;
        entry.frame = frame;
        let bytes = (self.head.log.bytes + frame.len() as u64).checked_sub(before);
        self.head.log.bytes = bytes.ok_or_else(|| {
            StoreError::Corrupt(format!("{}: log head counts too little", self.user))
        })?;
        self.txn.put(Space::Log, &key[..], entry.encode());
        self.save_head();
        Ok(())
    }

    /// [`SlotKey::peer`] of the other side of an entry.
    fn hash_of(&mut self, peer: &Arc<str>) -> u64 {
        match &self.peer {
            Some((last, hash)) if **last == **peer => *hash,
            _ => {
                let hash = self.slots.peer(peer);
                self.peer = Some((Arc::clone(peer), hash));
                hash
            }
        }
    }

    pub(crate) fn log_progress(&mut self, progress: &Progress) {
        let had_outgoing = self.head.has_outgoing();
        self.head.advance(progress);
        self.mark(had_outgoing);
        self.save_head();
    }

    pub(crate) fn log_delivered(&mut self, delivered: &Delivered) {
        let log = &mut self.head.log;
        let through = delivered.through.min(log.next_seq - 1);
        log.delivered_through = through.max(log.trimmed_through);
        log.waiting_count = delivered.waiting_count;
        log.waiting_bytes = delivered.waiting_bytes;
        // A message that was never marked as waiting may wait again behind others that do wait.
        let there = log.trimmed_through + 1..log.next_seq;
        let requeued = &mut self.head.requeued;
        requeued.clone_from(&delivered.requeued);
        requeued.retain(|seq| there.contains(seq));
        requeued.sort_unstable();
        requeued.dedup();
        self.save_head();
    }

    pub(crate) fn log_trim(&mut self, through: Seq) -> Result<(), StoreError> {
        let through = through.min(self.head.log.next_seq - 1);
        if through <= self.head.log.trimmed_through {
            return Ok(());
        }
        if through > self.head.folded {
            self.fold()?;
        }
        let had_outgoing = self.head.has_outgoing();
        let gone = self.entries_gone(through)?;
        for (key, value) in gone.pinned {
            self.head.pinned += 1;
            self.txn.put(Space::Log, key, value);
        }
        for &peer in &gone.archived_peers {
            self.trim_index(peer, through)?;
        }
        for key in gone.keys {
            self.txn.delete(Space::Log, key);
        }
        let log = &mut self.head.log;
        let rest = |have: u64, gone: u64| {
            have.checked_sub(gone).ok_or_else(|| {
                StoreError::Corrupt(format!("{}: log head counts too little", self.user))
            })
        };
        log.count = rest(log.count, gone.count)?;
        log.bytes = rest(log.bytes, gone.bytes)?;
        log.archived_count = rest(log.archived_count, gone.archived_count)?;
        // What waits is counted by the actor too, which says it anew with each delivery.
        log.waiting_count = log.waiting_count.saturating_sub(gone.waiting_count);
        log.waiting_bytes = log.waiting_bytes.saturating_sub(gone.waiting_bytes);
        log.trimmed_through = through;
        log.forwarded = log.forwarded.max(through);
        log.delivered_through = log.delivered_through.max(through);
        self.head.requeued.retain(|&seq| seq > through);
        for cursor in &mut self.head.cursors {
            cursor.acked = cursor.acked.max(through);
        }
        self.mark(had_outgoing);
        self.save_head();
        Ok(())
    }

    /// What goes with a trim. Everything of it is folded.
    fn entries_gone(&mut self, through: Seq) -> Result<Gone, StoreError> {
        let start = keys::log_entry(self.slots, self.user, self.head.log.trimmed_through + 1);
        let end = keys::log_entry(self.slots, self.user, through + 1);
        let (head, slots, user) = (&self.head, self.slots, self.user);
        let mut gone = Gone::default();
        scan_entries(self.txn, (&start, &end), |key, seq, entry| {
            let bytes = entry.frame.len() as u64;
            if entry.flags.has(EntryFlags::OUTGOING) && head.is_pinned(slots.peer(entry.peer), seq)
            {
                let key = keys::log_pinned(slots, user, seq);
                gone.pinned.push((key, entry.encode()));
            }
            gone.keys.push(key.to_vec());
            gone.count += 1;
            gone.bytes += bytes;
            if entry.is_waiting(seq, head) {
                gone.waiting_count += 1;
                gone.waiting_bytes += bytes;
            }
            if entry.flags.has(EntryFlags::ARCHIVED) {
                gone.archived_count += 1;
                gone.archived_peers.push(slots.peer(entry.peer));
            }
        })?;
        gone.archived_peers.sort_unstable();
        gone.archived_peers.dedup();
        Ok(gone)
    }

    /// Chunks of the index that hold nothing but what goes. One that holds more stays as it is:
    /// readers know what is trimmed.
    fn trim_index(&mut self, peer: u64, through: Seq) -> Result<(), StoreError> {
        let start = keys::log_index(self.slots, self.user, peer, 0);
        let end = keys::log_index(self.slots, self.user, peer, through + 1);
        let mut chunks = Vec::new();
        self.txn.scan(Space::Log, &start, &end, &mut |key, _| {
            chunks.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in chunks {
            self.txn.delete(Space::Log, key);
        }
        Ok(())
    }

    /// Adds the tail to what recognises and finds entries.
    fn fold(&mut self) -> Result<(), StoreError> {
        if self.head.tail_count == 0 {
            return Ok(());
        }
        let mut recognition = None;
        let key = keys::log_recognition(self.slots, self.user);
        if self.head.is_recognising
            && let Some(value) = self.txn.get(Space::Log, &key)?
        {
            recognition = Some(decode::<Recognition>(&value, self.user)?);
        }
        let mut recognition = recognition.unwrap_or_default();
        let mut recognises_more = false;
        let mut chunks: BTreeMap<u64, Vec<Seq>> = BTreeMap::new();
        let mut tail = self.take_tail()?;
        for entry in tail.drain(..) {
            let TailEntry {
                peer,
                source,
                origin,
                seq,
                at,
                is_archived,
            } = entry;
            recognises_more |= source != 0 || origin != 0;
            if let Some(seen) = recognition.remember_parts(peer, source, origin, seq, at) {
                let key = keys::log_mark(self.slots, self.user, seen.peer);
                let mark = OlderMark {
                    source: seen.source,
                    at,
                };
                self.txn.put(Space::Log, key, encode(VALUE_VERSION, &mark));
                self.head.has_older_marks = true;
            }
            if is_archived {
                chunks.entry(peer).or_default().push(seq);
            }
        }
        for (peer, seqs) in chunks {
            let Some(&last) = seqs.last() else { continue };
            let key = keys::log_index(self.slots, self.user, peer, last);
            self.txn.put(Space::Log, key, encode(VALUE_VERSION, &seqs));
        }
        if recognises_more {
            self.txn
                .put(Space::Log, key, encode(VALUE_VERSION, &recognition));
            self.head.is_recognising = true;
        }
        self.head.folded = self.head.log.next_seq - 1;
        self.head.tail_count = 0;
        // Empty, and large enough for the next one.
        self.tail = tail;
        Ok(())
    }

    /// The entries that are not folded, from memory or from the log.
    fn take_tail(&mut self) -> Result<Vec<TailEntry>, StoreError> {
        let mut known = std::mem::take(&mut self.tail);
        if known.len() == self.head.tail_count as usize {
            return Ok(known);
        }
        known.clear();
        let (start, end) = tail(self.slots, self.user, &self.head);
        let slots = self.slots;
        scan_entries(self.txn, (&start, &end), |_, seq, entry| {
            known.push(TailEntry::new(slots.peer(entry.peer), seq, &entry));
        })?;
        Ok(known)
    }

    /// Destinations lag from other marks on: what was kept for one that has moved on goes.
    pub(crate) fn lagging_put(&mut self, lagging: &[LaggingMark]) -> Result<(), StoreError> {
        let had_outgoing = self.head.has_outgoing();
        let mut lagging = lagging.to_vec();
        lagging.sort_unstable_by_key(|own| own.peer);
        lagging.dedup_by_key(|own| own.peer);
        self.head.lagging = lagging;
        if self.head.pinned > 0 {
            let start = keys::log_pinned(self.slots, self.user, 0);
            let end = keys::log_pinned_end(self.slots, self.user);
            let (head, slots) = (&self.head, self.slots);
            let mut gone = Vec::new();
            scan_run(self.txn, (&start, &end), pinned_seq, |key, seq, entry| {
                if !head.is_pinned(slots.peer(entry.peer), seq) {
                    gone.push(key.to_vec());
                }
            })?;
            self.head.pinned = self.head.pinned.saturating_sub(gone.len() as u32);
            for key in gone {
                self.txn.delete(Space::Log, key);
            }
        }
        self.mark(had_outgoing);
        self.save_head();
        Ok(())
    }

    /// Marks of senders that were not heard of since a time go.
    pub(crate) fn marks_forget(&mut self, before: i64) -> Result<(), StoreError> {
        let (start, end) = keys::log_marks(self.slots, self.user);
        let (mut gone, mut kept, mut bad) = (Vec::new(), 0, None);
        self.txn.scan(Space::Log, &start, &end, &mut |key, value| {
            match decode::<OlderMark>(value, "mark of a sender") {
                Ok(mark) if mark.at < before => gone.push(key.to_vec()),
                Ok(_) => kept += 1,
                Err(error) => bad = Some(error),
            }
            until(bad.is_some())
        })?;
        if let Some(error) = bad {
            return Err(error);
        }
        for key in gone {
            self.txn.delete(Space::Log, key);
        }
        if kept == 0 && self.head.has_older_marks {
            self.head.has_older_marks = false;
            self.save_head();
        }
        Ok(())
    }

    /// The account goes: what stays is what must not be given out again.
    pub(crate) fn log_forget(&mut self) {
        let (next_seq, next_session) = (self.head.log.next_seq, self.head.next_session);
        let log = LogHead {
            next_seq,
            trimmed_through: next_seq - 1,
            forwarded: next_seq - 1,
            delivered_through: next_seq - 1,
            ..LogHead::default()
        };
        self.head = Head {
            log,
            next_session,
            folded: next_seq - 1,
            ..Head::default()
        };
        self.tail.clear();
    }

    /// Keeps the mark of a user whom a start must wake for outgoing entries. Sessions are a mark by
    /// themselves.
    fn mark(&mut self, had_outgoing: bool) {
        let has_outgoing = self.head.has_outgoing();
        if !self.head.cursors.is_empty() || has_outgoing == had_outgoing {
            return;
        }
        if has_outgoing {
            self.save_sessions(&[]);
        } else {
            self.txn.delete(Space::Session, self.key.clone());
        }
    }

    fn save_sessions(&mut self, records: &[SessionRecord]) {
        if records.is_empty() && !self.head.has_outgoing() {
            return self.txn.delete(Space::Session, self.key.clone());
        }
        let value = encode(VALUE_VERSION, &records);
        self.txn.put(Space::Session, self.key.clone(), value);
    }

    fn load_sessions(&mut self) -> Result<Sessions, StoreError> {
        let mut sessions = Sessions {
            next_number: self.head.next_session,
            records: Vec::new(),
        };
        if !self.head.cursors.is_empty()
            && let Some(value) = self.txn.get(Space::Session, &self.key)?
        {
            sessions.records = decode(&value, self.user)?;
        }
        Ok(sessions)
    }

    pub(crate) fn session_put(&mut self, session: &SessionRecord) -> Result<(), StoreError> {
        let mut sessions = self.load_sessions()?;
        sessions.put(session)?;
        let cursors = &mut self.head.cursors;
        let at = cursors.binary_search_by_key(&session.number, |have| have.number);
        if let Err(at) = at {
            let cursor = SessionCursor {
                number: session.number,
                inbound: 0,
                acked: self.head.log.next_seq - 1,
            };
            cursors.insert(at, cursor);
            self.head.next_session = sessions.next_number;
            self.save_head();
        }
        self.save_sessions(&sessions.records);
        Ok(())
    }

    pub(crate) fn session_remove(&mut self, number: u32) -> Result<(), StoreError> {
        let mut sessions = self.load_sessions()?;
        if sessions.find(number).is_none() {
            return Ok(());
        }
        sessions.records.retain(|have| have.number != number);
        self.head.cursors.retain(|have| have.number != number);
        self.save_sessions(&sessions.records);
        self.save_head();
        self.session_rooms_remove(number)
    }

    pub(crate) fn session_numbered(
        &mut self,
        number: u32,
        void_through: Seq,
        numbered: &[NumberedEntry],
    ) -> Result<(), StoreError> {
        let mut sessions = self.load_sessions()?;
        let found = sessions.records.iter_mut().find(|s| s.number == number);
        if let Some(session) = found {
            session.void_through = void_through;
            session.numbered = numbered.to_vec();
            self.save_sessions(&sessions.records);
            self.owe_again(number, numbered);
        }
        Ok(())
    }

    /// Entries that waited may be older than the last one that a session had acknowledged.
    fn owe_again(&mut self, number: u32, numbered: &[NumberedEntry]) {
        let Some(first) = numbered
            .iter()
            .map(|entry| entry.seq & (Seq::MAX >> NUMBERED_MARK_BITS))
            .min()
        else {
            return;
        };
        let trimmed = self.head.log.trimmed_through;
        let mut cursors = self.head.cursors.iter_mut();
        if let Some(cursor) = cursors.find(|cursor| cursor.number == number)
            && cursor.acked >= first
        {
            cursor.acked = first.saturating_sub(1).max(trimmed);
            self.save_head();
        }
    }
}

impl TailEntry {
    fn new(peer: u64, seq: Seq, entry: &StoredEntry<'_>) -> TailEntry {
        TailEntry {
            peer,
            source: entry.source,
            origin: entry.origin,
            seq,
            at: entry.at,
            is_archived: entry.flags.has(EntryFlags::ARCHIVED),
        }
    }
}

impl Head {
    /// What an entry does to the head. Depends on nothing but both.
    fn append(&mut self, seq: Seq, entry: &StoredEntry<'_>) {
        let bytes = entry.frame.len() as u64;
        let log = &mut self.log;
        log.last_at = Timestamp::from_millis(entry.at);
        log.next_seq = seq + 1;
        log.count += 1;
        log.bytes += bytes;
        log.archived_count += u64::from(entry.flags.has(EntryFlags::ARCHIVED));
        if entry.flags.has(EntryFlags::OUTGOING) {
            log.last_outgoing = seq;
        }
        if entry.flags.has(EntryFlags::WAITING) {
            log.waiting_count += 1;
            log.waiting_bytes += bytes;
        }
        self.tail_count += 1;
        self.advance(&entry.progress);
    }

    fn advance(&mut self, progress: &Progress) {
        let log = &mut self.log;
        // No cursor stands where there is no entry yet.
        advance(&mut self.cursors, progress, log.next_seq - 1);
        let forwarded = progress.forwarded.min(log.next_seq - 1);
        log.forwarded = log.forwarded.max(forwarded);
    }
}

/// The head of a user as of the last entry.
pub(crate) fn read_head(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
) -> Result<Option<Head>, StoreError> {
    let Some(value) = reader.get(Space::Head, &keys::user(slots, user))? else {
        return Ok(None);
    };
    let scan =
        |start: &[u8], end: &[u8], visit: Visit<'_>| reader.scan(Space::Log, start, end, visit);
    derive_head(slots, user, &value, scan).map(Some)
}

/// Visits the heads of accounts from a key on, as they are written.
pub(crate) fn scan_heads(
    reader: &dyn Reader,
    start: &[u8],
    mut visit: impl FnMut(&str, &[u8]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    scan::visit(reader, Space::Head, (start, &[]), |key, value| {
        let key = keys::parse_user(key);
        let (_, user) = key.ok_or_else(|| StoreError::Corrupt("key of a head".to_owned()))?;
        visit(user, value)
    })
}

/// The head as it is written, with the entries behind it, which `scan` visits.
pub(crate) fn derive_head(
    slots: &SlotKey,
    user: &str,
    written: &[u8],
    scan: impl FnOnce(&[u8], &[u8], Visit<'_>) -> Result<(), StoreError>,
) -> Result<Head, StoreError> {
    let mut head = decode_head(written, user)?;
    if head.tail_count == 0 {
        return Ok(head);
    }
    let start = keys::log_entry(slots, user, head.log.next_seq);
    let end = keys::log_entries_end(slots, user);
    let mut bad = None;
    scan(
        &start,
        &end,
        &mut |key, value| match parse_entry(key, value) {
            Ok((seq, entry)) => {
                head.append(seq, &entry);
                ControlFlow::Continue(())
            }
            Err(error) => {
                bad = Some(error);
                ControlFlow::Break(())
            }
        },
    )?;
    bad.map_or(Ok(head), Err)
}

/// What a trim takes away.
#[derive(Default)]
struct Gone {
    keys: Vec<Vec<u8>>,
    /// Kept under another key.
    pinned: Vec<(Vec<u8>, Vec<u8>)>,
    count: u64,
    bytes: u64,
    waiting_count: u64,
    waiting_bytes: u64,
    archived_count: u64,
    archived_peers: Vec<u64>,
}

/// The run of keys of the entries that are not folded yet.
pub(crate) fn tail(slots: &SlotKey, user: &str, head: &Head) -> (Vec<u8>, Vec<u8>) {
    let start = keys::log_entry(slots, user, head.folded + 1);
    (start, keys::log_entries_end(slots, user))
}

/// Visits the entries of a run of keys.
fn scan_entries<T: Txn>(
    txn: &mut T,
    run: (&[u8], &[u8]),
    visit: impl FnMut(&[u8], Seq, StoredEntry<'_>),
) -> Result<(), StoreError> {
    scan_run(txn, run, keys::parse_seq, visit)
}

/// The same for any run of entries; `seq_of` finds the place in the rest of a key.
fn scan_run<T: Txn>(
    txn: &mut T,
    (start, end): (&[u8], &[u8]),
    seq_of: fn(&[u8]) -> Option<Seq>,
    mut visit: impl FnMut(&[u8], Seq, StoredEntry<'_>),
) -> Result<(), StoreError> {
    let mut bad = None;
    txn.scan(Space::Log, start, end, &mut |key, value| {
        match parse_entry_by(key, value, seq_of) {
            Ok((seq, entry)) => visit(key, seq, entry),
            Err(error) => bad = Some(error),
        }
        until(bad.is_some())
    })?;
    bad.map_or(Ok(()), Err)
}

/// The place in the rest of the key of an entry that was trimmed and is kept.
pub(crate) fn pinned_seq(rest: &[u8]) -> Option<Seq> {
    match keys::parse_log(rest) {
        Some(keys::Log::Pinned(seq)) => Some(seq),
        _ => None,
    }
}

/// The entry of a key and its value.
pub(crate) fn parse_entry<'a>(
    key: &[u8],
    value: &'a [u8],
) -> Result<(Seq, StoredEntry<'a>), StoreError> {
    parse_entry_by(key, value, keys::parse_seq)
}

/// The same for any key; `seq_of` finds the place in its rest.
pub(crate) fn parse_entry_by<'a>(
    key: &[u8],
    value: &'a [u8],
    seq_of: fn(&[u8]) -> Option<Seq>,
) -> Result<(Seq, StoredEntry<'a>), StoreError> {
    let seq = keys::parse_owned(key).and_then(|(_, _, rest)| seq_of(rest));
    let seq = seq.ok_or_else(|| StoreError::Corrupt("key of a log entry".to_owned()))?;
    Ok((seq, decode_borrowed(value, "log entry")?))
}
