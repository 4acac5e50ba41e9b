//! Verification: walks every key, decodes every value, and checks that what is kept twice agrees.
//! Owns the report; changes nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;

use crate::apply::decode_u64;
use crate::backup;
use crate::delivery::{EntryFlags, Recognition, SessionRecord};
use crate::directory::DirectoryEntry;
use crate::engine::{Reader, Space};
use crate::error::{OpenError, StoreError};
use crate::followed::RoomRead;
use crate::follower::StreamMark;
use crate::joined::DeploymentId;
use crate::keys;
use crate::limits::{PART_BYTES_MAX, PARTS_MAX, PROBLEMS_LISTED_MAX, UNCOUNTED_BYTES_MAX};
use crate::log::{derive_head, read_head};
use crate::nodes::item_is_right;
use crate::record::Seq;
use crate::rooms::{ListedRoom, is_made_by};
use crate::slot::{Slot, SlotKey};
use crate::state::{
    BLOB_VERSION, Head, Kind, OlderMark, StoredEntry, decode, decode_borrowed, decode_head,
    decode_profile, decode_version,
};
use crate::store::{Options, Store, blob_body};
use crate::stored::{bytes_of, count_rest};

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Accounts.
    pub accounts: u64,
    /// Rooms.
    pub rooms: u64,
    /// Services.
    pub services: u64,
    /// Heads of removed accounts and rooms.
    pub removed: u64,
    /// Roster items.
    pub roster_items: u64,
    /// Log entries.
    pub log_entries: u64,
    /// vCards, items of private storage, parts of rooms and nodes; items of nodes twice, with what
    /// they are.
    pub blobs: u64,
    /// Users with sessions that can be resumed, or with messages to hand over.
    pub resumable: u64,
    /// Bytes of all keys and values, uncompressed.
    pub bytes: u64,
    /// All problems.
    pub problem_count: u64,
    /// The first [`PROBLEMS_LISTED_MAX`] of them.
    pub problems: Vec<String>,
}

impl Report {
    /// Nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.problem_count == 0
    }

    pub(crate) fn problem(&mut self, what: impl fmt::Display) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED_MAX {
            self.problems.push(what.to_string());
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            accounts,
            rooms,
            services,
            removed,
            roster_items,
            log_entries,
            blobs,
            resumable,
            bytes,
            ..
        } = self;
        write!(
            f,
            "{accounts} accounts, {rooms} rooms, {services} services ({removed} removed), \
             {roster_items} roster items, {log_entries} log entries, {blobs} blobs, {resumable} \
             with sessions or messages to hand over, {bytes} bytes: "
        )?;
        match self.problem_count {
            0 => write!(f, "good"),
            count => {
                write!(f, "{count} problems")?;
                self.problems
                    .iter()
                    .try_for_each(|problem| write!(f, "\n- {problem}"))
            }
        }
    }
}

/// Verifies the store in a folder (which must not be open elsewhere) or a backup file.
///
/// # Errors
/// If it cannot be opened or read at all. Everything else is in the report.
pub fn verify(path: &Path, options: &Options) -> Result<Report, OpenError> {
    if path.is_dir() {
        return Ok(Store::open(path, options)?.verify()?);
    }
    backup::verify_file(path)
}

impl Store {
    /// Verifies this store as it is at this moment, while it is in use.
    ///
    /// # Errors
    /// If reading fails; everything else is in the report.
    pub fn verify(&self) -> Result<Report, StoreError> {
        let snapshot = self.snapshot()?;
        let mut walk = Walk {
            slots: self.slot_key(),
            reader: &*snapshot,
            report: Report::default(),
        };
        let counts = walk.meta()?;
        walk.heads(counts)?;
        walk.states()?;
        walk.logs()?;
        walk.blobs()?;
        walk.sessions()?;
        Ok(walk.report)
    }
}

struct Walk<'a> {
    slots: SlotKey,
    reader: &'a dyn Reader,
    report: Report,
}

impl Walk<'_> {
    /// Visits all entries of a space; whatever `check` returns is a problem.
    fn each(
        &mut self,
        space: Space,
        mut check: impl FnMut(&[u8], &[u8], &mut Report) -> Result<(), String>,
    ) -> Result<(), StoreError> {
        let report = &mut self.report;
        self.reader.scan(space, &[], &[], &mut |key, value| {
            report.bytes += (key.len() + value.len()) as u64;
            if let Err(problem) = check(key, value, report) {
                report.problem(problem);
            }
            ControlFlow::Continue(())
        })
    }

    fn meta(&mut self) -> Result<BTreeMap<Vec<u8>, u64>, StoreError> {
        let mut counts = BTreeMap::new();
        let (slots, reader) = (self.slots, self.reader);
        self.each(Space::Meta, |key, value, _| {
            match keys::parse_meta(key) {
                Some(keys::Meta::Schema | keys::Meta::SlotKey) => {}
                Some(keys::Meta::Joined) => {
                    if value.len() != size_of::<DeploymentId>() {
                        return Err("id of a deployment".to_owned());
                    }
                }
                Some(keys::Meta::Epoch) => {
                    decode_u64(value, "count of restores").map_err(|e| e.to_string())?;
                }
                Some(keys::Meta::Position(_)) => {
                    decode_u64(value, "position of a range").map_err(|e| e.to_string())?;
                }
                Some(keys::Meta::Hash(_)) => {
                    decode_u64(value, "hash of a range").map_err(|e| e.to_string())?;
                }
                Some(keys::Meta::Stream(_)) => {
                    StreamMark::decode(value).map_err(|e| e.to_string())?;
                }
                Some(keys::Meta::Part(_, at)) => {
                    if at >= PARTS_MAX || value.len() > PART_BYTES_MAX {
                        return Err(format!("part {at} of an append, of {} bytes", value.len()));
                    }
                }
                Some(keys::Meta::Count(..)) => {
                    let count = decode_u64(value, "account count").map_err(|e| e.to_string())?;
                    counts.insert(key.to_vec(), count);
                }
                Some(keys::Meta::Stored(..)) => {
                    let what = "stored bytes of a domain";
                    let bytes = decode_u64(value, what).map_err(|e| e.to_string())?;
                    counts.insert(key.to_vec(), bytes);
                }
                Some(keys::Meta::Room(_, room)) => {
                    let listed: ListedRoom = decode(value, room).map_err(|e| e.to_string())?;
                    match load_head(reader, &slots, room)? {
                        Some(head) if head.live && head.kind == Kind::Room => {}
                        _ => return Err(format!("{room}: listed, and there is no such room")),
                    }
                    let made = keys::made(slots.peer(&listed.creator), room);
                    let made = reader.get(Space::Meta, &made).map_err(|e| e.to_string())?;
                    made.ok_or_else(|| format!("{room}: nobody made it"))?;
                    let public = reader.get(Space::Meta, &keys::public(room));
                    let public = public.map_err(|e| e.to_string())?;
                    if public.as_deref() != listed.is_public().then_some(value) {
                        return Err(format!("{room}: wrong in the list of public rooms"));
                    }
                }
                Some(keys::Meta::Public(room)) => {
                    let listed = reader.get(Space::Meta, &keys::room(&slots, room));
                    listed
                        .map_err(|e| e.to_string())?
                        .ok_or_else(|| format!("{room}: public, and there is no such room"))?;
                }
                Some(keys::Meta::Made(creator, room)) => {
                    is_made_by(reader, &slots, creator, room)?;
                }
                Some(keys::Meta::Directory(_, user)) => {
                    let entry: DirectoryEntry = decode(value, user).map_err(|e| e.to_string())?;
                    entry.check().map_err(|e| format!("{user}: {e}"))?;
                    match load_head(reader, &slots, user)? {
                        Some(head) if head.is_account() => {}
                        _ => return Err(format!("{user}: in the directory, and no account")),
                    }
                }
                None => return Err(format!("unknown key in meta: {key:02x?}")),
            }
            Ok(())
        })?;
        Ok(counts)
    }

    /// Heads against the counts of accounts, and those that claim entries against the log.
    fn heads(&mut self, counts: BTreeMap<Vec<u8>, u64>) -> Result<(), StoreError> {
        let slots = self.slots;
        let reader = self.reader;
        let mut counted: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        self.each(Space::Head, |key, value, report| {
            let (slot, user) = keys::parse_user(key).ok_or("undecodable key in head")?;
            in_slot(&slots, slot, user)?;
            let head = derive_head(&slots, user, value, |start, end, visit| {
                reader.scan(Space::Log, start, end, visit)
            });
            let head = head.map_err(|e| e.to_string())?;
            if !is_consistent(&head) {
                return Err(format!(
                    "{user}: log head {:?} contradicts itself",
                    head.log
                ));
            }
            if let Some(stored) = head.stored.filter(|stored| stored.counted > 0) {
                let total = keys::stored(slot.range(), keys::domain_of(user));
                *counted.entry(total).or_default() += stored.counted;
            }
            match head.kind {
                _ if !head.live => report.removed += 1,
                Kind::Room => {
                    report.rooms += 1;
                    room_is_right(reader, &slots, user, &head)?;
                }
                Kind::Service => {
                    report.services += 1;
                    stored_is_right(reader, &slots, user, &head, 0)?;
                }
                Kind::Account => {
                    report.accounts += 1;
                    let count = keys::count(slot.range(), keys::domain_of(user));
                    *counted.entry(count).or_default() += 1;
                    let profile = reader.get(Space::State, key).map_err(|e| e.to_string())?;
                    let missing = || format!("{user}: the profile is missing");
                    let profile = bytes_of(key, Some(&profile.ok_or_else(missing)?));
                    let listed_key = keys::directory(&slots, user);
                    let listed = reader.get(Space::Meta, &listed_key);
                    let listed = listed.map_err(|e| e.to_string())?;
                    let values = profile + bytes_of(&listed_key, listed.as_deref());
                    stored_is_right(reader, &slots, user, &head, values)?;
                }
            }
            if head.log.count > 0 {
                log_is_there(reader, &slots, user)?;
            }
            if head.has_outgoing() || !head.cursors.is_empty() {
                match reader.get(Space::Session, key) {
                    Ok(Some(_)) => {}
                    Ok(None) => return Err(format!("{user}: the sessions are missing")),
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok(())
        })?;
        if counts != counted {
            let (kept, real) = (counts.values().sum::<u64>(), counted.values().sum::<u64>());
            let what = format!(
                "account counts disagree, or totals of stored bytes: {kept} kept, {real} there"
            );
            self.report.problem(what);
        }
        Ok(())
    }

    fn states(&mut self) -> Result<(), StoreError> {
        let slots = self.slots;
        let reader = self.reader;
        self.each(Space::State, |key, value, report| {
            let (slot, user) = keys::parse_user(key).ok_or("undecodable key in state")?;
            in_slot(&slots, slot, user)?;
            let profile = decode_profile(value, user).map_err(|e| e.to_string())?;
            if load_head(reader, &slots, user)?.is_some_and(|head| head.kind != Kind::Account) {
                return Err(format!("{user}: a profile, and it is no account"));
            }
            report.roster_items += profile.roster.items.len() as u64;
            if !profile.roster.items.is_sorted_by(|a, b| a.jid < b.jid) {
                return Err(format!("{user}: the roster is out of order"));
            }
            owner_is_live(reader, &slots, user)
        })
    }

    /// Entries and the index against the head of their log.
    fn logs(&mut self) -> Result<(), StoreError> {
        let slots = self.slots;
        let reader = self.reader;
        let mut log: Option<Tally> = None;
        self.each(Space::Log, |key, value, report| {
            let (slot, user, rest) = keys::parse_owned(key).ok_or("undecodable key in log")?;
            let what = keys::parse_log(rest).ok_or("undecodable key in log")?;
            if log.as_ref().is_none_or(|log| log.user != user) {
                if let Some(done) = log.take()
                    && let Err(problem) = done.check()
                {
                    report.problem(problem);
                }
                in_slot(&slots, slot, user)?;
                let head = load_head(reader, &slots, user)?;
                let head = head.ok_or_else(|| format!("{user}: a log without a head"))?;
                log = Some(Tally::new(user, head));
            }
            // Invariant: it was just made for this user.
            let log = log.as_mut().expect("a tally");
            match what {
                keys::Log::Entry(seq) => {
                    report.log_entries += 1;
                    let entry = decode_borrowed(value, user).map_err(|e| e.to_string())?;
                    log.entry(seq, &entry, &slots);
                }
                keys::Log::Pinned(seq) => {
                    let entry = decode_borrowed(value, user).map_err(|e| e.to_string())?;
                    log.pinned(seq, &entry, &slots)?;
                }
                keys::Log::Mark(_) => {
                    decode::<OlderMark>(value, user).map_err(|e| e.to_string())?;
                    log.has_marks = true;
                }
                keys::Log::Followed(..) => {
                    decode::<RoomRead>(value, user).map_err(|e| e.to_string())?;
                }
                keys::Log::Recognition => {
                    decode::<Recognition>(value, user).map_err(|e| e.to_string())?;
                }
                keys::Log::Index { peer, last } => {
                    let seqs: Vec<Seq> = decode(value, user).map_err(|e| e.to_string())?;
                    if seqs.last() != Some(&last) || !seqs.is_sorted_by(|a, b| a < b) {
                        return Err(format!("{user}: a chunk of the index is out of order"));
                    }
                    log.index(peer, &seqs);
                }
            }
            Ok(())
        })?;
        if let Some(done) = log
            && let Err(problem) = done.check()
        {
            self.report.problem(problem);
        }
        Ok(())
    }

    fn sessions(&mut self) -> Result<(), StoreError> {
        let slots = self.slots;
        let reader = self.reader;
        self.each(Space::Session, |key, value, report| {
            report.resumable += 1;
            let (slot, user) = keys::parse_user(key).ok_or("undecodable key of sessions")?;
            in_slot(&slots, slot, user)?;
            let records: Vec<SessionRecord> = decode(value, user).map_err(|e| e.to_string())?;
            let head = load_head(reader, &slots, user)?.filter(|head| head.live);
            let head = head.ok_or_else(|| format!("{user}: data without an account"))?;
            let cursors = head.cursors.iter().map(|cursor| cursor.number);
            if !cursors.eq(records.iter().map(|session| session.number)) {
                return Err(format!("{user}: sessions and their cursors disagree"));
            }
            if records.is_empty() && !head.has_outgoing() {
                return Err(format!("{user}: a mark without anything to hand over"));
            }
            Ok(())
        })
    }

    fn blobs(&mut self) -> Result<(), StoreError> {
        let slots = self.slots;
        let reader = self.reader;
        self.each(Space::Blob, |key, value, report| {
            report.blobs += 1;
            let (slot, user, rest) = keys::parse_owned(key).ok_or("undecodable key in blob")?;
            in_slot(&slots, slot, user)?;
            let blob = keys::parse_blob(rest);
            let blob = blob.ok_or_else(|| format!("{user}: undecodable key of a blob"))?;
            blob_body(value).map_err(|error| format!("{user}: {error}"))?;
            item_is_right(reader, (&slots, user), &blob, value)?;
            mark_is_right(user, &blob, value)?;
            owner_is_live(reader, &slots, user)
        })
    }
}

/// What an account says that it has stored, against what is there.
fn stored_is_right(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
    head: &Head,
    values: u64,
) -> Result<(), String> {
    let Some(stored) = head.stored else {
        return Ok(()); // Of before this was counted.
    };
    let rest = count_rest(slots, user, values, |start, end, visit| {
        reader.scan(Space::Blob, start, end, visit)
    });
    let rest = rest.map_err(|error| error.to_string())?;
    let uncounted = head.stored_bytes().abs_diff(stored.counted);
    if rest == stored.rest && uncounted < UNCOUNTED_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "{user}: {rest} bytes are stored beside the log, the head says {}; {uncounted} bytes are \
         in no total",
        stored.rest
    ))
}

/// What an account has had of a room as its member is a place of a log.
fn mark_is_right(user: &str, blob: &keys::Blob<'_>, value: &[u8]) -> Result<(), String> {
    let keys::Blob::Member(room) = blob else {
        return Ok(());
    };
    let place: Result<Seq, _> = decode_version(BLOB_VERSION, value, user);
    match place {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("the mark of {user} in {room}: {error}")),
    }
}

/// A room is in the list of rooms, and says rightly what it has stored.
fn room_is_right(
    reader: &dyn Reader,
    slots: &SlotKey,
    user: &str,
    head: &Head,
) -> Result<(), String> {
    stored_is_right(reader, slots, user, head, 0)?;
    match reader.get(Space::Meta, &keys::room(slots, user)) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(format!("{user}: a room that is not listed")),
        Err(error) => Err(error.to_string()),
    }
}

/// What no head contradicts.
fn is_consistent(head: &Head) -> bool {
    let log = &head.log;
    let is_within = |seq: Seq| (log.trimmed_through..log.next_seq).contains(&seq);
    log.next_seq > 0
        && is_within(log.trimmed_through)
        && is_within(log.forwarded)
        && is_within(log.delivered_through)
        && is_within(head.folded.max(log.trimmed_through))
        && log.last_outgoing < log.next_seq
        && log.archived_count <= log.count
        && head.lagging.is_sorted_by(|a, b| a.peer < b.peer)
        && head.lagging.iter().all(|own| own.mark < log.next_seq)
        && head.requeued.is_sorted_by(|a, b| a < b)
        && head.cursors.is_sorted_by(|a, b| a.number < b.number)
        && head.cursors.iter().all(|cursor| is_within(cursor.acked))
}

/// What a log really holds.
struct Tally {
    user: String,
    head: Head,
    first: Option<Seq>,
    last: Seq,
    count: u64,
    bytes: u64,
    archived_count: u64,
    tail_count: u64,
    pinned: u32,
    has_marks: bool,
    last_at: i64,
    is_out_of_time: bool,
    /// Sums over what the entries say of the index, and what the index has: equal if they agree.
    expected: u64,
    indexed: u64,
}

/// Stands for one entry of the index in a sum.
fn mark(peer: u64, seq: Seq) -> u64 {
    let mixed =
        (peer ^ seq.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}

impl Tally {
    fn new(user: &str, head: Head) -> Tally {
        Tally {
            user: user.to_owned(),
            head,
            first: None,
            last: 0,
            count: 0,
            bytes: 0,
            archived_count: 0,
            tail_count: 0,
            pinned: 0,
            has_marks: false,
            last_at: i64::MIN,
            is_out_of_time: false,
            expected: 0,
            indexed: 0,
        }
    }

    fn entry(&mut self, seq: Seq, entry: &StoredEntry<'_>, slots: &SlotKey) {
        self.first.get_or_insert(seq);
        self.last = seq;
        self.count += 1;
        self.bytes += entry.frame.len() as u64;
        self.is_out_of_time |= entry.at < self.last_at;
        self.last_at = entry.at;
        self.tail_count += u64::from(seq > self.head.folded);
        if entry.flags.has(EntryFlags::ARCHIVED) {
            self.archived_count += 1;
            if seq <= self.head.folded {
                let mark = mark(slots.peer(entry.peer), seq);
                self.expected = self.expected.wrapping_add(mark);
            }
        }
    }

    /// An entry that is kept for a destination that lags.
    fn pinned(&mut self, seq: Seq, entry: &StoredEntry<'_>, slots: &SlotKey) -> Result<(), String> {
        self.pinned += 1;
        let is_trimmed = seq <= self.head.log.trimmed_through;
        if is_trimmed && self.head.is_pinned(slots.peer(entry.peer), seq) {
            return Ok(());
        }
        let user = &self.user;
        Err(format!(
            "{user}: entry {seq} is kept, and nobody lags behind it"
        ))
    }

    fn index(&mut self, peer: u64, seqs: &[Seq]) {
        let trimmed = self.head.log.trimmed_through;
        for &seq in seqs.iter().filter(|&&seq| seq > trimmed) {
            self.indexed = self.indexed.wrapping_add(mark(peer, seq));
        }
    }

    fn check(&self) -> Result<(), String> {
        let user = &self.user;
        let log = &self.head.log;
        if self.is_out_of_time {
            return Err(format!("{user}: times of the log run backwards"));
        }
        if self.first.is_some_and(|first| first <= log.trimmed_through) || self.last >= log.next_seq
        {
            return Err(format!(
                "{user}: entries outside of the log that the head describes"
            ));
        }
        if self.pinned != self.head.pinned || self.has_marks && !self.head.has_older_marks {
            return Err(format!(
                "{user}: {} entries are kept for destinations that lag, the head says {}; marks of \
                 senders: {}, the head says {}",
                self.pinned, self.head.pinned, self.has_marks, self.head.has_older_marks
            ));
        }
        let there = (self.count, self.bytes, self.archived_count, self.tail_count);
        let tail_count = u64::from(self.head.tail_count);
        let said = (log.count, log.bytes, log.archived_count, tail_count);
        if there != said {
            return Err(format!(
                "{user}: entries, bytes, archived and not folded: {there:?} are there, the head \
                 says {said:?}"
            ));
        }
        if self.expected != self.indexed {
            return Err(format!(
                "{user}: the index of addresses disagrees with the log"
            ));
        }
        Ok(())
    }
}

fn in_slot(slots: &SlotKey, slot: Slot, user: &str) -> Result<(), String> {
    if slots.slot(user) == slot {
        Ok(())
    } else {
        Err(format!("{user}: in a foreign slot"))
    }
}

fn load_head(reader: &dyn Reader, slots: &SlotKey, user: &str) -> Result<Option<Head>, String> {
    read_head(reader, slots, user).map_err(|error| error.to_string())
}

fn owner_is_live(reader: &dyn Reader, slots: &SlotKey, user: &str) -> Result<(), String> {
    match load_head(reader, slots, user)? {
        Some(head) if head.live => Ok(()),
        _ => Err(format!("{user}: data without an account")),
    }
}

fn log_is_there(reader: &dyn Reader, slots: &SlotKey, user: &str) -> Result<(), String> {
    let (start, _) = keys::owned_run(slots, user);
    let end = keys::log_entries_end(slots, user);
    let mut there = false;
    let scanned = reader.scan(Space::Log, &start, &end, &mut |_, _| {
        there = true;
        ControlFlow::Break(())
    });
    scanned.map_err(|error| error.to_string())?;
    if there {
        Ok(())
    } else {
        Err(format!("{user}: the log that the head describes is empty"))
    }
}

/// Decodes one entry by itself: all that can be said of it without the rest.
pub(crate) fn check_entry(space: Space, key: &[u8], value: &[u8]) -> Result<(), String> {
    let bad_key = || format!("undecodable key in {space:?}");
    let text = |error: StoreError| error.to_string();
    match space {
        Space::Meta => keys::parse_meta(key).map(drop).ok_or_else(bad_key),
        Space::Head => {
            let (_, user) = keys::parse_user(key).ok_or_else(bad_key)?;
            decode_head(value, user).map(drop).map_err(text)
        }
        Space::State => {
            let (_, user) = keys::parse_user(key).ok_or_else(bad_key)?;
            decode_profile(value, user).map(drop).map_err(text)
        }
        Space::Log => {
            let (_, user, rest) = keys::parse_owned(key).ok_or_else(bad_key)?;
            match keys::parse_log(rest).ok_or_else(bad_key)? {
                keys::Log::Entry(_) | keys::Log::Pinned(_) => {
                    decode_borrowed::<StoredEntry<'_>>(value, user).map(drop)
                }
                keys::Log::Mark(_) => decode::<OlderMark>(value, user).map(drop),
                keys::Log::Followed(..) => decode::<RoomRead>(value, user).map(drop),
                keys::Log::Recognition => decode::<Recognition>(value, user).map(drop),
                keys::Log::Index { .. } => decode::<Vec<Seq>>(value, user).map(drop),
            }
            .map_err(text)
        }
        Space::Session => {
            let (_, user) = keys::parse_user(key).ok_or_else(bad_key)?;
            decode::<Vec<SessionRecord>>(value, user)
                .map(drop)
                .map_err(text)
        }
        Space::Blob => {
            let (_, _, rest) = keys::parse_owned(key).ok_or_else(bad_key)?;
            keys::parse_blob(rest).ok_or_else(bad_key)?;
            blob_body(value).map(drop).map_err(text)
        }
    }
}

/// Whether a key in `Log` is that of an entry.
pub(crate) fn is_log_entry(key: &[u8]) -> bool {
    let what = keys::parse_owned(key).and_then(|(_, _, rest)| keys::parse_log(rest));
    matches!(what, Some(keys::Log::Entry(_)))
}
