//! A third journal: a log of each range in memory, which several nodes of this process follow into
//! stores of their own. Owns who may append to a log, and how a node comes to have what is in it;
//! what is on a node's disk is the business of [`store::Follower`], as in a cluster.
//!
//! | a range | by |
//! |---|---|
//! | is taken from whoever had it | [`LogJournal::take_over`]: later appends of theirs are refused |
//! | is replayed from a position | [`LogJournal::catch_up`], up to its last append |
//! | is saved, and its log cut | [`LogJournal::snapshot`] |
//! | is loaded | [`LogJournal::catch_up`], if what follows its position was cut |

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use store::{
    Append, AppendFailure, Busy, Done, Follower, Journal, JournalStats, Outcome, Position, RANGES,
    RangeId, Record, Store, StreamMark, Tenure, Writer,
};

/// One append, as whoever has another store gets it.
struct Entry {
    epoch: u32,
    records: Vec<Vec<u8>>,
}

/// What happened to one range, in order.
#[derive(Default)]
struct Log {
    /// Only whoever took it over in this epoch appends.
    epoch: u32,
    /// So many appends were cut: they are in the snapshot.
    cut: u64,
    entries: Vec<Entry>,
    snapshot: Option<PathBuf>,
}

impl Log {
    fn end(&self) -> u64 {
        self.cut + self.entries.len() as u64
    }
}

/// All logs: what outlives nodes.
pub(crate) struct Logs {
    ranges: Vec<Mutex<Log>>,
    folder: tempfile::TempDir,
    saved: AtomicU64,
    /// Snapshots that were loaded, and appends that were replayed.
    pub(crate) loaded: AtomicU64,
    pub(crate) replayed: AtomicU64,
}

impl Logs {
    /// Empty ones, whose first epoch is `first`.
    pub(crate) fn new(first: u32) -> Arc<Logs> {
        let log = || Log {
            epoch: first - 1,
            ..Log::default()
        };
        Arc::new(Logs {
            ranges: (0..RANGES).map(|_| Mutex::new(log())).collect(),
            folder: tempfile::tempdir().unwrap(),
            saved: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
        })
    }

    fn log(&self, range: RangeId) -> MutexGuard<'_, Log> {
        self.ranges[usize::from(range.index())].lock().unwrap()
    }

    /// The epoch of each append that is in a range's log, with its records.
    pub(crate) fn appends(&self, range: RangeId) -> Vec<(u32, Vec<Record>)> {
        let log = self.log(range);
        let entries = log.entries.iter();
        entries
            .map(|entry| (entry.epoch, decode(&entry.records)))
            .collect()
    }
}

fn decode(records: &[Vec<u8>]) -> Vec<Record> {
    let decoded = records.iter().map(|bytes| Record::decode(bytes).unwrap());
    decoded.collect()
}

/// A node's journal over the logs.
pub(crate) struct LogJournal {
    logs: Arc<Logs>,
    store: Store,
    follower: Mutex<Follower>,
    /// By range: the tenure that holds on this node, and the epoch in which it took the range over,
    /// 0 if it has none.
    held: Vec<(AtomicU32, AtomicU32)>,
    fenced: AtomicU64,
}

impl LogJournal {
    pub(crate) fn new(logs: &Arc<Logs>, store: &Store) -> Arc<LogJournal> {
        Arc::new(LogJournal {
            logs: Arc::clone(logs),
            store: store.clone(),
            follower: Mutex::new(Follower::new(store).unwrap()),
            held: (0..RANGES).map(|_| Default::default()).collect(),
            fenced: AtomicU64::new(0),
        })
    }

    fn held(&self, range: RangeId) -> &(AtomicU32, AtomicU32) {
        &self.held[usize::from(range.index())]
    }

    /// This node may append to the range from now on, and has all that is in it; nobody else may.
    /// Returns the epoch.
    pub(crate) fn take_over(&self, range: RangeId) -> u32 {
        let epoch = {
            let mut log = self.logs.log(range);
            log.epoch += 1;
            log.epoch
        };
        self.catch_up(range);
        self.held(range).1.store(epoch, Ordering::SeqCst);
        epoch
    }

    /// The epoch in which this node has a range.
    pub(crate) fn epoch(&self, range: RangeId) -> u32 {
        self.held(range).1.load(Ordering::SeqCst)
    }

    /// This node appends to the range no more.
    pub(crate) fn give_up(&self, range: RangeId) {
        self.held(range).1.store(0, Ordering::SeqCst);
    }

    /// Replays what this node has not, from the position of its copy; what was cut of that it
    /// loads.
    pub(crate) fn catch_up(&self, range: RangeId) {
        let log = self.logs.log(range);
        let mut follower = self.follower.lock().unwrap();
        let stream = range.index();
        let mut at = follower.stream(stream).unwrap().seq;
        if at < log.cut {
            let file = log.snapshot.as_ref().unwrap();
            let loaded = follower.load_snapshot(stream, &[range], file).unwrap();
            at = loaded.seq;
            self.logs.loaded.fetch_add(1, Ordering::SeqCst);
        }
        for entry in &log.entries[(at - log.cut) as usize..] {
            at += 1;
            let refused = self.apply(&mut follower, range, (at, entry));
            assert_eq!(refused, 0, "it was checked before it was written");
            self.logs.replayed.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Saves this node's copy of a range, and cuts the range's log up to there.
    pub(crate) fn snapshot(&self, range: RangeId) {
        let mut log = self.logs.log(range);
        let number = self.logs.saved.fetch_add(1, Ordering::SeqCst);
        let file = self.logs.folder.path().join(number.to_string());
        let saved = self.store.snapshot_stream(range.index(), &[range], &file);
        let seq = saved.unwrap().0.seq;
        let cut = seq - log.cut;
        log.entries.drain(..cut as usize);
        log.cut = seq;
        log.snapshot = Some(file);
    }

    /// Appends that were refused because somebody else had taken the range over.
    pub(crate) fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::SeqCst)
    }

    fn apply(&self, follower: &mut Follower, range: RangeId, (seq, entry): (u64, &Entry)) -> u64 {
        let mark = StreamMark {
            seq,
            epoch: u64::from(entry.epoch),
        };
        let appends = [(range, decode(&entry.records))];
        let level = self.store.level();
        follower
            .apply(range.index(), mark, level, &appends)
            .unwrap()
    }

    fn append_one(&self, append: &Append) -> Outcome {
        let range = append.range;
        let (tenure, epoch) = self.held(range);
        let mut log = self.logs.log(range);
        let holds = Tenure::new(tenure.load(Ordering::SeqCst)) == append.tenure;
        let epoch = epoch.load(Ordering::SeqCst);
        if !holds || append.tenure == Tenure::NONE || epoch != log.epoch {
            self.fenced.fetch_add(1, Ordering::SeqCst);
            return Outcome::Fenced;
        }
        let is_foreign =
            |record: &Record| self.store.slot_key().slot(record.user()).range() != range;
        let wrong = append
            .records
            .iter()
            .find_map(|record| match record.check() {
                Err(why) => Some(why.to_string()),
                Ok(()) => is_foreign(record).then(|| "of another range".to_owned()),
            });
        if let Some(why) = wrong {
            return Outcome::Failed(AppendFailure::Invalid(why));
        }
        let level = self.store.level();
        let encoded = append.records.iter().map(|record| record.encode(level));
        let entry = Entry {
            epoch,
            records: encoded.collect(),
        };
        let seq = log.end() + 1;
        self.apply(&mut self.follower.lock().unwrap(), range, (seq, &entry));
        log.entries.push(entry);
        Outcome::Committed(Position::new(seq))
    }
}

impl Journal for LogJournal {
    fn append(&self, appends: Vec<Append>, done: Done) -> Result<(), Busy> {
        let mut broken: Vec<Writer> = Vec::new();
        let mut outcomes = Vec::with_capacity(appends.len());
        for append in &appends {
            let outcome = match broken.contains(&append.writer) {
                true => Outcome::Failed(AppendFailure::Follows),
                false => self.append_one(append),
            };
            let is_there = matches!(outcome, Outcome::Committed(_));
            if !is_there && append.writer != Writer::NOBODY {
                broken.push(append.writer);
            }
            outcomes.push(outcome);
        }
        done(outcomes);
        Ok(())
    }

    fn take(&self, range: RangeId) -> Tenure {
        let (tenure, epoch) = self.held(range);
        match epoch.load(Ordering::SeqCst) {
            0 => Tenure::NONE,
            _ => Tenure::new(tenure.fetch_add(1, Ordering::SeqCst) + 1),
        }
    }

    fn group(&self, range: RangeId) -> u16 {
        range.index()
    }

    fn position(&self, range: RangeId) -> Position {
        self.store.range_mark(range).unwrap().position
    }

    fn stats(&self) -> JournalStats {
        JournalStats::default()
    }
}
