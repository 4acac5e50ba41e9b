//! Reads of a log: pages of the archive by address, time and place, single entries, whom a start
//! has to wake, whose entries are too old. Owns how a page is found; every page costs a bounded
//! number of seeks, however long the log is.

use std::ops::ControlFlow;

use stdx::time::Timestamp;

use crate::delivery::{EntryFlags, LaggingMark, LogEntry};
use crate::engine::{Reader, Space};
use crate::error::StoreError;
use crate::keys;
use crate::limits::{ACCOUNTS_PAGE_MAX, LOG_PAGE_BYTES_MAX, LOG_READ_MAX, LOG_SCAN_MAX, SEQ_MAX};
use crate::log::{parse_entry, parse_entry_by, pinned_seq, read_head, scan_heads};
use crate::record::Seq;
use crate::scan::until;
use crate::slot::SlotKey;
use crate::state::{Head, LogHead, decode, decode_head};
use crate::store::Store;

/// A run of keys, from its start to its end, and what finds the place in the rest of a key.
type KeyRun = (Vec<u8>, Vec<u8>, fn(&[u8]) -> Option<Seq>);

/// Which entries a page is of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageQuery {
    /// Only those with this bare address on the other side.
    pub with: Option<String>,
    /// Only those accepted at this time or later.
    pub start: Option<Timestamp>,
    /// Only those accepted at this time or earlier.
    pub end: Option<Timestamp>,
    /// Only those behind this place.
    pub after: Option<Seq>,
    /// Only those in front of this place.
    pub before: Option<Seq>,
    /// Only those that have all of these flags.
    pub flags: EntryFlags,
    /// At most so many, and never more than [`LOG_READ_MAX`].
    pub limit: usize,
    /// The last ones instead of the first ones. They are given out in the log's order all the same.
    pub backwards: bool,
}

/// Some entries of a log, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The entries. Empty only if there are none, or if none were asked for.
    pub entries: Vec<LogEntry>,
    /// There are no more in the direction of the page.
    pub complete: bool,
    /// How many the log has, if that is known without counting: of a query without address and
    /// time, for all entries or the archived ones. Places do not matter.
    pub count: Option<u64>,
}

impl Page {
    /// The first entry.
    pub fn first(&self) -> Option<Seq> {
        self.entries.first().map(|entry| entry.seq)
    }

    /// The last entry.
    pub fn last(&self) -> Option<Seq> {
        self.entries.last().map(|entry| entry.seq)
    }
}

/// The ends of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// The first archived entry.
    pub first: Seq,
    /// When it was accepted.
    pub first_at: Timestamp,
    /// The last archived entry.
    pub last: Seq,
    /// When it was accepted.
    pub last_at: Timestamp,
}

/// What a look at some accounts, or rooms, found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looked {
    /// Those that were looked for.
    pub found: Vec<String>,
    /// Where the next look goes on; nothing if there are no more.
    pub last: Option<String>,
}

impl Store {
    /// A page of a user's log. Of an account that does not exist it is empty and complete.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn log_page(&self, user: &str, query: &PageQuery) -> Result<Page, StoreError> {
        page_of(&*self.snapshot()?, self.slot_key(), user, query)
    }

    /// Those of the given entries that are there, in the order given; at most [`LOG_READ_MAX`].
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn log_entries(&self, user: &str, seqs: &[Seq]) -> Result<Vec<LogEntry>, StoreError> {
        let snapshot = self.snapshot()?;
        let slots = self.slot_key();
        let mut entries = Vec::new();
        for &seq in seqs.iter().take(LOG_READ_MAX) {
            entries.extend(read_entry(&*snapshot, &slots, user, seq)?);
        }
        Ok(entries)
    }

    /// The ends of a user's archive; `None` if nothing is archived.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn log_metadata(&self, user: &str) -> Result<Option<Metadata>, StoreError> {
        let snapshot = self.snapshot()?;
        let Some(log) = Log::open(&*snapshot, self.slot_key(), user)? else {
            return Ok(None);
        };
        let mut query = PageQuery {
            flags: EntryFlags::ARCHIVED,
            limit: 1,
            ..PageQuery::default()
        };
        let first = log.page(&query)?.entries.pop();
        query.backwards = true;
        let last = log.page(&query)?.entries.pop();
        Ok(first.zip(last).map(|(first, last)| Metadata {
            first: first.seq,
            first_at: first.at,
            last: last.seq,
            last_at: last.at,
        }))
    }

    /// Outgoing entries behind a place, in order, also those that were trimmed and are kept for a
    /// destination that lags: at most `limit`, and only those for `peer` ([`SlotKey::peer`]) if it
    /// is given. With them, up to which place everything was looked at: `end`, or that of the last
    /// one.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn log_outgoing(
        &self,
        user: &str,
        peer: Option<u64>,
        (after, end): (Seq, Seq),
        limit: usize,
    ) -> Result<(Vec<LogEntry>, Seq), StoreError> {
        let slots = self.slot_key();
        let limit = limit.clamp(1, LOG_READ_MAX);
        let first = after.saturating_add(1);
        let mut entries = Vec::new();
        let mut bytes = 0;
        let mut bad = None;
        let mut is_full = false;
        let runs: [KeyRun; 2] = [
            (
                keys::log_pinned(&slots, user, first),
                keys::log_pinned_end(&slots, user),
                pinned_seq,
            ),
            (
                keys::log_entry(&slots, user, first),
                keys::log_entries_end(&slots, user),
                keys::parse_seq,
            ),
        ];
        let snapshot = self.snapshot()?;
        for (start, stop, seq_of) in runs {
            if is_full || bad.is_some() {
                break;
            }
            snapshot.scan(Space::Log, &start, &stop, &mut |key, value| {
                match parse_entry_by(key, value, seq_of) {
                    Ok((seq, _)) if seq > end => return ControlFlow::Break(()),
                    Ok((seq, entry)) => {
                        let is_own = peer.is_none_or(|peer| slots.peer(entry.peer) == peer);
                        if entry.flags.has(EntryFlags::OUTGOING) && is_own {
                            bytes += entry.frame.len();
                            entries.push(entry.into_entry(seq));
                        }
                    }
                    Err(error) => bad = Some(error),
                }
                is_full = entries.len() == limit || bytes >= LOG_PAGE_BYTES_MAX;
                until(is_full || bad.is_some())
            })?;
        }
        if let Some(error) = bad {
            return Err(error);
        }
        let last = entries.last().filter(|_| is_full);
        let through = last.map_or(end.max(after), |last| last.seq);
        Ok((entries, through))
    }

    /// How many outgoing entries are not settled: for each destination that lags, by peer, and in
    /// all. `head` and `lagging` say which those are.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn count_outgoing(
        &self,
        user: &str,
        head: &LogHead,
        lagging: &[LaggingMark],
    ) -> Result<(Vec<u32>, u32), StoreError> {
        let slots = self.slot_key();
        let mut counts = vec![0; lagging.len()];
        let mut all = 0;
        let first = lagging.iter().map(|own| own.mark).min();
        let mut after = first.unwrap_or(head.forwarded).min(head.forwarded);
        loop {
            let places = (after, head.last_outgoing);
            let (page, through) = self.log_outgoing(user, None, places, LOG_READ_MAX)?;
            for entry in &page {
                let peer = slots.peer(&entry.peer);
                match lagging.binary_search_by_key(&peer, |own| own.peer) {
                    Ok(at) if entry.seq > lagging[at].mark => {
                        counts[at] += 1;
                        all += 1;
                    }
                    Ok(_) => {}
                    Err(_) => all += u32::from(entry.seq > head.forwarded),
                }
            }
            if through >= head.last_outgoing {
                return Ok((counts, all));
            }
            after = through;
        }
    }

    /// A page of the users whom a start has to wake: those with sessions that can be resumed, or
    /// with entries to hand over. In the order of slot and address, those that follow `after`;
    /// fewer than asked for means that there are no more.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn awake(&self, after: Option<&str>, limit: usize) -> Result<Vec<String>, StoreError> {
        let limit = limit.min(ACCOUNTS_PAGE_MAX);
        let mut page = Vec::new();
        if limit == 0 {
            return Ok(page);
        }
        let start = keys::behind(&self.slot_key(), after);
        let mut bad = None;
        self.snapshot()?
            .scan(Space::Session, &start, &[], &mut |key, _| {
                match keys::parse_user(key) {
                    Some((_, user)) => page.push(user.to_owned()),
                    None => bad = Some(StoreError::Corrupt("key of sessions".to_owned())),
                }
                if bad.is_some() || page.len() == limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        bad.map_or(Ok(page), Err)
    }

    /// Looks at the next `limit` accounts, never more than [`ACCOUNTS_PAGE_MAX`], in the order of
    /// slot and address, those that follow `after`: which have an entry that was accepted before a
    /// time.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn aged(
        &self,
        after: Option<&str>,
        before: Timestamp,
        limit: usize,
    ) -> Result<Looked, StoreError> {
        let limit = limit.clamp(1, ACCOUNTS_PAGE_MAX);
        let slots = self.slot_key();
        let snapshot = self.snapshot()?;
        let mut heads = Vec::new();
        let start = keys::behind(&slots, after);
        scan_heads(&*snapshot, &start, |user, value| {
            heads.push((user.to_owned(), decode_head(value, user)?));
            Ok(until(heads.len() == limit))
        })?;
        let mut page = Looked {
            last: heads
                .last()
                .filter(|_| heads.len() == limit)
                .map(|(user, _)| user.clone()),
            found: Vec::new(),
        };
        for (user, head) in heads.into_iter().filter(|(_, head)| head.log.count > 0) {
            let first = first_entry_at(&*snapshot, &slots, &user, &head)?;
            if first.is_some_and(|at| at < before) {
                page.found.push(user);
            }
        }
        Ok(page)
    }
}

/// A page of a log in one snapshot.
pub(crate) fn page_of(
    reader: &dyn Reader,
    slots: SlotKey,
    user: &str,
    query: &PageQuery,
) -> Result<Page, StoreError> {
    match Log::open(reader, slots, user)? {
        Some(log) => log.page(query),
        None => Ok(Page {
            complete: true,
            ..Page::default()
        }),
    }
}

/// When the oldest entry of a log was accepted.
fn first_entry_at(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
    head: &Head,
) -> Result<Option<Timestamp>, StoreError> {
    let start = keys::log_entry(slots, user, head.log.trimmed_through + 1);
    let end = keys::log_entries_end(slots, user);
    let mut first = None;
    reader.scan(Space::Log, &start, &end, &mut |key, value| {
        first = Some(parse_entry(key, value).map(|(_, entry)| entry.at));
        ControlFlow::Break(())
    })?;
    Ok(first.transpose()?.map(Timestamp::from_millis))
}

fn read_entry(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
    seq: Seq,
) -> Result<Option<LogEntry>, StoreError> {
    if seq > SEQ_MAX {
        return Ok(None);
    }
    let key = keys::log_entry(slots, user, seq);
    let Some(value) = reader.get(Space::Log, &key)? else {
        return Ok(None);
    };
    let (seq, entry) = parse_entry(&key, &value)?;
    Ok(Some(entry.into_entry(seq)))
}

/// One log in one snapshot.
struct Log<'a> {
    reader: &'a dyn Reader,
    slots: SlotKey,
    user: &'a str,
    head: Head,
}

/// A run of places: the first one, and the one behind the last one.
#[derive(Clone, Copy)]
struct Run {
    low: Seq,
    high: Seq,
}

/// What a page finds: one more than asked for, to know whether there are more.
struct Found {
    entries: Vec<LogEntry>,
    bytes: usize,
    limit: usize,
    is_cut: bool,
}

impl Found {
    fn is_full(&self) -> bool {
        self.is_cut || self.entries.len() > self.limit
    }

    fn add(&mut self, entry: LogEntry) {
        self.bytes += entry.frame.len();
        if self.bytes > LOG_PAGE_BYTES_MAX && !self.entries.is_empty() {
            self.is_cut = true;
        } else {
            self.entries.push(entry);
        }
    }
}

impl<'a> Log<'a> {
    fn open(
        reader: &'a dyn Reader,
        slots: SlotKey,
        user: &'a str,
    ) -> Result<Option<Log<'a>>, StoreError> {
        let Some(head) = read_head(reader, &slots, user)? else {
            return Ok(None);
        };
        Ok(head.live.then_some(Log {
            reader,
            slots,
            user,
            head,
        }))
    }

    fn page(&self, query: &PageQuery) -> Result<Page, StoreError> {
        let log = &self.head.log;
        let mut found = Found {
            entries: Vec::new(),
            bytes: 0,
            limit: query.limit.min(LOG_READ_MAX),
            is_cut: false,
        };
        let is_archive = query.flags == EntryFlags::ARCHIVED;
        let all = if is_archive {
            log.archived_count
        } else {
            log.count
        };
        let is_counted = query.with.is_none()
            && query.start.is_none()
            && query.end.is_none()
            && (is_archive || query.flags == EntryFlags::default());
        if all > 0 {
            let run = self.run(query)?;
            match &query.with {
                Some(peer) if is_archive => self.find_peer(query, peer, run, &mut found)?,
                _ => self.find(query, run, &mut found)?,
            }
        }
        let complete = !found.is_full();
        found.entries.truncate(found.limit);
        if query.backwards {
            found.entries.reverse();
        }
        Ok(Page {
            entries: found.entries,
            complete,
            count: is_counted.then_some(all),
        })
    }

    /// Where the entries of a query are, as far as place and time say.
    fn run(&self, query: &PageQuery) -> Result<Run, StoreError> {
        let log = &self.head.log;
        let mut run = Run {
            low: log.trimmed_through + 1,
            high: log.next_seq,
        };
        if let Some(after) = query.after {
            run.low = run.low.max(after.saturating_add(1));
        }
        if let Some(before) = query.before {
            run.high = run.high.min(before);
        }
        if let Some(start) = query.start {
            run.low = self.seek_time(run, |at| at < start.as_millis())?;
        }
        if let Some(end) = query.end {
            run.high = self.seek_time(run, |at| at <= end.as_millis())?;
        }
        Ok(run)
    }

    /// The first place in the run of which `is_before` does not hold: times do not decrease.
    fn seek_time(&self, run: Run, is_before: impl Fn(i64) -> bool) -> Result<Seq, StoreError> {
        let Run { mut low, mut high } = run;
        while low < high {
            let middle = low + (high - low) / 2;
            let mut first = None;
            self.scan(Run { low: middle, high }, false, |seq, entry| {
                first = Some((seq, entry.at));
                ControlFlow::Break(())
            })?;
            match first {
                Some((seq, at)) if is_before(at) => low = seq + 1,
                _ => high = middle,
            }
        }
        Ok(low)
    }

    /// Visits the entries of a run from either end.
    fn scan(
        &self,
        run: Run,
        backwards: bool,
        mut visit: impl FnMut(Seq, crate::state::StoredEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        if run.low >= run.high {
            return Ok(());
        }
        let start = keys::log_entry(&self.slots, self.user, run.low);
        let end = keys::log_entry(&self.slots, self.user, run.high);
        let mut bad = None;
        let mut each = |key: &[u8], value: &[u8]| match parse_entry(key, value) {
            Ok((seq, entry)) => visit(seq, entry),
            Err(error) => {
                bad = Some(error);
                ControlFlow::Break(())
            }
        };
        if backwards {
            self.reader.scan_back(Space::Log, &start, &end, &mut each)?;
        } else {
            self.reader.scan(Space::Log, &start, &end, &mut each)?;
        }
        bad.map_or(Ok(()), Err)
    }

    /// Looks at every entry of the run until there are enough.
    fn find(&self, query: &PageQuery, run: Run, found: &mut Found) -> Result<(), StoreError> {
        let mut looked_at = 0;
        self.scan(run, query.backwards, |seq, entry| {
            let is_with = query.with.as_deref().is_none_or(|with| with == entry.peer);
            if is_with && entry.flags.has(query.flags) {
                found.add(entry.into_entry(seq));
            }
            looked_at += 1;
            if looked_at >= LOG_SCAN_MAX && !found.entries.is_empty() {
                found.is_cut = true;
            }
            if found.is_full() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
    }

    /// Archived entries with one address: those that are folded from the index, the others from
    /// the tail.
    fn find_peer(
        &self,
        query: &PageQuery,
        peer: &str,
        run: Run,
        found: &mut Found,
    ) -> Result<(), StoreError> {
        let folded = self.head.folded + 1;
        let indexed = Run {
            low: run.low,
            high: run.high.min(folded),
        };
        let tail = Run {
            low: run.low.max(folded),
            high: run.high,
        };
        if query.backwards {
            self.find(query, tail, found)?;
        }
        if !found.is_full() {
            let wanted = found.limit + 1 - found.entries.len();
            for seq in self.indexed(peer, indexed, query.backwards, wanted)? {
                let entry = read_entry(self.reader, &self.slots, self.user, seq)?;
                let entry = entry.ok_or_else(|| {
                    StoreError::Corrupt(format!("{}: no entry {seq} of the index", self.user))
                })?;
                // Two addresses may share a hash.
                if *entry.peer == *peer {
                    found.add(entry);
                }
                if found.is_full() {
                    break;
                }
            }
        }
        if !query.backwards && !found.is_full() {
            self.find(query, tail, found)?;
        }
        Ok(())
    }

    /// Places of archived entries with `peer` in the run, as the index has them, from either end.
    fn indexed(
        &self,
        peer: &str,
        run: Run,
        backwards: bool,
        wanted: usize,
    ) -> Result<Vec<Seq>, StoreError> {
        let mut seqs: Vec<Seq> = Vec::new();
        if run.low >= run.high {
            return Ok(seqs);
        }
        let hash = self.slots.peer(peer);
        let chunk = |last| keys::log_index(&self.slots, self.user, hash, last);
        // The chunk that holds the last place of the run ends at or behind it.
        let mut end = chunk(run.high);
        self.reader.scan(
            Space::Log,
            &chunk(run.high - 1),
            &chunk(SEQ_MAX + 1),
            &mut |key, _| {
                end = key.to_vec();
                end.push(0);
                ControlFlow::Break(())
            },
        )?;
        let mut bad = None;
        let mut each = |_: &[u8], value: &[u8]| {
            match decode::<Vec<Seq>>(value, "index of addresses") {
                Ok(mut chunk) => {
                    if backwards {
                        chunk.reverse();
                    }
                    let there = chunk
                        .iter()
                        .filter(|seq| (run.low..run.high).contains(*seq));
                    seqs.extend(there.take(wanted - seqs.len()));
                }
                Err(error) => bad = Some(error),
            }
            if bad.is_some() || seqs.len() == wanted {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let start = chunk(run.low);
        if backwards {
            self.reader.scan_back(Space::Log, &start, &end, &mut each)?;
        } else {
            self.reader.scan(Space::Log, &start, &end, &mut each)?;
        }
        bad.map_or(Ok(seqs), Err)
    }
}
