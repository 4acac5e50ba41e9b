//! The journal of a single node: the local store, written by one thread that commits the appends of
//! all shards in groups; and its form without a thread, for simulation. Owns the queue and its
//! bound.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle};

use stdx::{Clock, SystemClock};

use crate::error::StoreError;
use crate::journal::commit::{Committer, Positions, Tenures};
use crate::journal::pace::Pace;
use crate::journal::stats::{Counters, JournalStats};
use crate::journal::{
    Append, AppendBatch, Busy, Done, Journal, JournalOptions, Outcome, Position, Tenure,
};
use crate::slot::RangeId;
use crate::store::Store;

struct Job {
    batch: AppendBatch,
    done: Done,
}

/// The local journal: while one group is being synced, the next one collects.
pub struct LocalJournal {
    /// Taken on drop, which ends the thread.
    queue: Option<SyncSender<Job>>,
    positions: Arc<Positions>,
    tenures: Arc<Tenures>,
    counters: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl LocalJournal {
    /// Starts the writer thread of `store` with the default bounds.
    ///
    /// # Errors
    /// [`StoreError::HasWriter`] if the store has a writer already; any error of reading the
    /// positions or of starting a thread.
    pub fn start(store: &Store) -> Result<LocalJournal, StoreError> {
        LocalJournal::start_with(store, JournalOptions::default())
    }

    /// The same with bounds of its own.
    ///
    /// # Errors
    /// As [`LocalJournal::start`].
    pub fn start_with(store: &Store, options: JournalOptions) -> Result<LocalJournal, StoreError> {
        let committer = Committer::new(store, options.append_records_max)?;
        let (positions, counters) = (committer.positions(), committer.counters());
        let tenures = committer.tenures();
        let (queue, jobs) = sync_channel(options.queue_max.max(1));
        let thread = Builder::new().name("journal".to_owned());
        let thread = thread.spawn(move || write(committer, &jobs, &options))?;
        Ok(LocalJournal {
            queue: Some(queue),
            positions,
            tenures,
            counters,
            thread: Some(thread),
        })
    }
}

impl Journal for LocalJournal {
    fn append(&self, appends: Vec<Append>, done: Done) -> Result<(), Busy> {
        self.append_batch(AppendBatch::new(appends), done)
    }

    fn append_batch(&self, batch: AppendBatch, done: Done) -> Result<(), Busy> {
        // Invariant: `queue` is there until drop.
        let queue = self.queue.as_ref().expect("the journal is running");
        queue.try_send(Job { batch, done }).map_err(|error| {
            self.counters.busy();
            let (TrySendError::Full(job) | TrySendError::Disconnected(job)) = error;
            Busy {
                appends: job.batch.close(),
                done: job.done,
            }
        })
    }

    fn take(&self, range: RangeId) -> Tenure {
        self.tenures.take(range)
    }

    fn position(&self, range: RangeId) -> Position {
        self.positions.get(range)
    }

    fn stats(&self) -> JournalStats {
        self.counters.snapshot()
    }
}

impl Drop for LocalJournal {
    /// Decides everything in the queue, then ends the thread.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // The thread catches what panics inside it; there is nobody left to tell of anything
            // else.
            let _ = thread.join();
        }
    }
}

fn write(mut committer: Committer, jobs: &Receiver<Job>, options: &JournalOptions) {
    let mut group = Vec::new();
    let mut waiting: Vec<(usize, Done)> = Vec::new();
    let clock = SystemClock::new();
    let mut pace = Pace::new(
        options.commit_interval,
        options.commits_at_once,
        options.commit_gather,
    );
    while let Some(first) = next_job(&mut committer, jobs, options) {
        let wait = pace.wait(clock.now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        let (mut records, mut bytes) = (0, 0);
        let mut next = Some(first);
        while let Some(job) = next {
            let appends = job.batch.close();
            let (more_records, more_bytes) = weight(&appends);
            records += more_records;
            bytes += more_bytes;
            waiting.push((appends.len(), job.done));
            group.extend(appends);
            let room = records < options.group_records_max && bytes < options.group_bytes_max;
            next = if room { jobs.try_recv().ok() } else { None };
        }
        let mut outcomes = committer.decide(&group).into_iter();
        pace.ended(clock.now());
        group.clear();
        for (appends, done) in waiting.drain(..) {
            answer(done, outcomes.by_ref().take(appends).collect());
        }
    }
}

/// Waits for the next job; `None` at the end. While the engine is closed nothing can be read
/// either, so it is healed without anybody having to append.
fn next_job(
    committer: &mut Committer,
    jobs: &Receiver<Job>,
    options: &JournalOptions,
) -> Option<Job> {
    loop {
        if !committer.is_broken() {
            return jobs.recv().ok();
        }
        match jobs.recv_timeout(options.heal_interval) {
            Ok(job) => return Some(job),
            Err(RecvTimeoutError::Timeout) => committer.try_to_heal(),
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

/// Records and about the bytes of some appends.
fn weight(appends: &[Append]) -> (usize, usize) {
    let records = appends.iter().map(|append| append.records.len()).sum();
    (records, appends.iter().map(Append::bytes).sum())
}

fn answer(done: Done, outcomes: Vec<Outcome>) {
    // A receiver that panics hurts its own caller only: the outcomes of the others are decided.
    let _ = panic::catch_unwind(AssertUnwindSafe(|| done(outcomes)));
}

/// The local journal without a thread: an append is decided, and `done` called, before
/// [`Journal::append`] returns. For simulation and tools.
pub struct InlineJournal {
    committer: Mutex<Committer>,
    positions: Arc<Positions>,
    tenures: Arc<Tenures>,
    counters: Arc<Counters>,
}

impl InlineJournal {
    /// Becomes the writer of `store`.
    ///
    /// # Errors
    /// As [`LocalJournal::start`].
    pub fn new(store: &Store) -> Result<InlineJournal, StoreError> {
        let options = JournalOptions::default();
        let committer = Committer::new(store, options.append_records_max)?;
        let (positions, counters) = (committer.positions(), committer.counters());
        let tenures = committer.tenures();
        Ok(InlineJournal {
            committer: Mutex::new(committer),
            positions,
            tenures,
            counters,
        })
    }

    /// Opens the engine again if a commit failed and it is possible now. The journal with a thread
    /// tries that by itself.
    pub fn try_to_heal(&self) {
        self.committer().try_to_heal();
    }

    fn committer(&self) -> MutexGuard<'_, Committer> {
        self.committer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Journal for InlineJournal {
    fn append(&self, appends: Vec<Append>, done: Done) -> Result<(), Busy> {
        let outcomes = self.committer().decide(&appends);
        answer(done, outcomes);
        Ok(())
    }

    fn take(&self, range: RangeId) -> Tenure {
        self.tenures.take(range)
    }

    fn position(&self, range: RangeId) -> Position {
        self.positions.get(range)
    }

    fn stats(&self) -> JournalStats {
        self.counters.snapshot()
    }
}
