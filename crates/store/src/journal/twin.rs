//! The journal's twin: wraps another journal and delays, fences and fails by a seeded plan or by
//! switches, as a replicated stream will one day. What it does to an append is what a cluster can
//! do: a fence comes from another home that takes the range, and a failure leaves it in doubt
//! whether the append survived.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use crate::journal::stats::JournalStats;
use crate::journal::{
    Append, AppendBatch, AppendFailure, Busy, Done, Doubt, Journal, Outcome, Position, Tenure,
    Writer,
};
use crate::limits::JOURNAL_QUEUE_MAX;
use crate::slot::RangeId;

/// How often things go wrong by themselves, in thousandths of all appends. The choice depends on
/// the seed and the count of appends alone, so a run can be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Start of the pseudo-random sequence.
    pub seed: u64,
    /// Another home takes the range first, so that this append is fenced.
    pub fence_per_mille: u16,
    /// The append is in doubt, and lost.
    pub lose_per_mille: u16,
    /// The append is in doubt, and committed.
    pub doubt_per_mille: u16,
}

/// The switches of a [`TwinJournal`].
#[derive(Debug)]
pub struct Switches {
    delay_us: AtomicU64,
    hold: AtomicBool,
    groups: AtomicU16,
    stalled: Mutex<Option<u16>>,
    grow: AtomicBool,
    fence: AtomicU64,
    lose: AtomicU64,
    doubt: AtomicU64,
    full: AtomicBool,
    stay_in_doubt: AtomicBool,
}

impl Switches {
    /// Everything handed over from now on takes this much longer to be decided.
    pub fn set_delay(&self, delay: Duration) {
        self.delay_us
            .store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    /// While set, nothing is decided until [`TwinJournal::release`].
    pub fn set_hold(&self, hold: bool) {
        self.hold.store(hold, Ordering::SeqCst);
    }

    /// Ranges are of so many groups from now on, in turns. For a journal to which nothing was
    /// handed over yet.
    pub fn set_groups(&self, groups: u16) {
        self.groups.store(groups.max(1), Ordering::SeqCst);
    }

    /// Until it is another one, nothing of this group is decided before [`TwinJournal::release`],
    /// with whatever was handed over in one call with it.
    pub fn stall(&self, group: Option<u16>) {
        *lock(&self.stalled) = group;
    }

    /// While set, batches that are held may be added to until they are released.
    pub fn set_grow(&self, grow: bool) {
        self.grow.store(grow, Ordering::SeqCst);
    }

    /// The next `count` appends are fenced.
    pub fn fence(&self, count: u64) {
        self.fence.store(count, Ordering::SeqCst);
    }

    /// The next `count` appends are in doubt, and lost.
    pub fn lose(&self, count: u64) {
        self.lose.store(count, Ordering::SeqCst);
    }

    /// The next `count` appends are in doubt, and committed.
    pub fn doubt(&self, count: u64) {
        self.doubt.store(count, Ordering::SeqCst);
    }

    /// While set, nobody learns what became of appends in doubt.
    pub fn set_stay_in_doubt(&self, stay: bool) {
        self.stay_in_doubt.store(stay, Ordering::SeqCst);
    }

    /// While set, every append fails because the disk is full.
    pub fn set_full(&self, full: bool) {
        self.full.store(full, Ordering::SeqCst);
    }
}

impl Default for Switches {
    fn default() -> Switches {
        Switches {
            delay_us: AtomicU64::default(),
            hold: AtomicBool::default(),
            groups: AtomicU16::new(1),
            stalled: Mutex::default(),
            grow: AtomicBool::default(),
            fence: AtomicU64::default(),
            lose: AtomicU64::default(),
            doubt: AtomicU64::default(),
            full: AtomicBool::default(),
            stay_in_doubt: AtomicBool::default(),
        }
    }
}

fn take_one(count: &AtomicU64) -> bool {
    count
        .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1))
        .is_ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Fence,
    Lose,
    Doubt,
    Full,
    /// An earlier append of its writer met a fault.
    Follow,
}

struct Job {
    batch: AppendBatch,
    done: Done,
    delay: Duration,
}

/// The half that both the caller's thread and the delaying thread use.
struct Core {
    inner: Arc<dyn Journal>,
    plan: Plan,
    switches: Arc<Switches>,
    random: AtomicU64,
    held: Mutex<VecDeque<Job>>,
    /// In doubt for as long as the switch says so.
    doubts: Arc<Mutex<Vec<(Doubt, Outcome)>>>,
}

/// Wraps a journal and misbehaves.
pub struct TwinJournal {
    core: Arc<Core>,
    /// With a thread: everything goes through it, in order, so that a delay never reorders.
    queue: Option<SyncSender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl TwinJournal {
    /// Wraps `inner` without a thread: delays are ignored, everything else works. For simulation.
    pub fn inline(inner: Arc<dyn Journal>, plan: Plan) -> TwinJournal {
        let core = Arc::new(Core {
            inner,
            plan,
            switches: Arc::default(),
            random: AtomicU64::new(plan.seed),
            held: Mutex::default(),
            doubts: Arc::default(),
        });
        TwinJournal {
            core,
            queue: None,
            thread: None,
        }
    }

    /// Wraps `inner` with a thread that delays.
    ///
    /// # Errors
    /// The operating system's, if there is no thread to be had.
    pub fn start(inner: Arc<dyn Journal>, plan: Plan) -> std::io::Result<TwinJournal> {
        let mut twin = TwinJournal::inline(inner, plan);
        let (queue, jobs) = sync_channel(JOURNAL_QUEUE_MAX);
        let core = Arc::clone(&twin.core);
        let thread = Builder::new().name("journal-twin".to_owned());
        twin.thread = Some(thread.spawn(move || core.run(&jobs))?);
        twin.queue = Some(queue);
        Ok(twin)
    }

    /// The switches.
    pub fn switches(&self) -> Arc<Switches> {
        Arc::clone(&self.core.switches)
    }

    /// Says what became of the appends in doubt, if the switch lets it.
    pub fn settle(&self) {
        settle(&mut lock(&self.core.doubts), &self.core.switches);
    }

    /// Lets up to `count` held calls go on, oldest first; returns how many there were.
    pub fn release(&self, count: usize) -> usize {
        for released in 0..count {
            let Some(job) = self.core.held().pop_front() else {
                return released;
            };
            self.core.forward(job);
        }
        count
    }
}

impl Core {
    fn held(&self) -> MutexGuard<'_, VecDeque<Job>> {
        lock(&self.held)
    }

    fn run(&self, jobs: &Receiver<Job>) {
        while let Ok(job) = jobs.recv() {
            thread::sleep(job.delay);
            self.forward(job);
        }
    }

    /// A number in `0..1000` (splitmix64).
    fn per_mille(&self) -> u16 {
        let mut x = self
            .random
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::SeqCst);
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % 1_000) as u16
    }

    fn choose(&self) -> Fault {
        let switches = &self.switches;
        if switches.full.load(Ordering::SeqCst) {
            return Fault::Full;
        }
        for (count, fault) in [
            (&switches.fence, Fault::Fence),
            (&switches.lose, Fault::Lose),
            (&switches.doubt, Fault::Doubt),
        ] {
            if take_one(count) {
                return fault;
            }
        }
        let roll = self.per_mille();
        let fence = self.plan.fence_per_mille;
        let lose = fence + self.plan.lose_per_mille;
        match roll {
            _ if roll < fence => Fault::Fence,
            _ if roll < lose => Fault::Lose,
            _ if roll < lose + self.plan.doubt_per_mille => Fault::Doubt,
            _ => Fault::None,
        }
    }

    fn forward(&self, job: Job) {
        let (mut sent, mut faults) = (Vec::new(), Vec::new());
        let mut broken: Vec<Writer> = Vec::new();
        for append in job.batch.close() {
            if append.writer != Writer::NOBODY && broken.contains(&append.writer) {
                faults.push(Fault::Follow);
                continue;
            }
            let fault = self.choose();
            match fault {
                Fault::None => sent.push(append),
                Fault::Doubt => {
                    // What follows it is not sent: it would be committed, or not, with it.
                    broken.push(append.writer);
                    sent.push(append);
                }
                Fault::Fence => {
                    self.inner.take(append.range);
                    sent.push(append);
                }
                Fault::Lose | Fault::Full | Fault::Follow => broken.push(append.writer),
            }
            faults.push(fault);
        }
        let done = job.done;
        let (doubts, switches) = (Arc::clone(&self.doubts), Arc::clone(&self.switches));
        let merge: Done = Box::new(move |outcomes| {
            let mut open = Vec::new();
            done(merge(&faults, outcomes, &mut open));
            let mut all = lock(&doubts);
            all.append(&mut open);
            settle(&mut all, &switches);
        });
        // A full inner queue is waited out: the caller was told that the appends were taken.
        let mut refused = self.inner.append(sent, merge);
        while let Err(Busy { appends, done }) = refused {
            thread::sleep(Duration::from_millis(1));
            refused = self.inner.append(appends, done);
        }
    }
}

/// Says what became of appends in doubt, unless the switch keeps it.
fn settle(doubts: &mut Vec<(Doubt, Outcome)>, switches: &Switches) {
    if !switches.stay_in_doubt.load(Ordering::SeqCst) {
        for (doubt, outcome) in doubts.drain(..) {
            doubt.resolve(outcome);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the caller is told. Appends in doubt come to `open`, with what became of them.
fn merge(
    faults: &[Fault],
    outcomes: Vec<Outcome>,
    open: &mut Vec<(Doubt, Outcome)>,
) -> Vec<Outcome> {
    let mut outcomes = outcomes.into_iter();
    let unavailable = |why: &str| Outcome::Failed(AppendFailure::Unavailable(why.to_owned()));
    let mut next = || outcomes.next().unwrap_or_else(|| unavailable("no outcome"));
    let mut doubt = |outcome| {
        let doubt = Doubt::open("injected");
        open.push((doubt.clone(), outcome));
        Outcome::InDoubt(doubt)
    };
    let mut merged = Vec::with_capacity(faults.len());
    for fault in faults {
        merged.push(match fault {
            Fault::None | Fault::Fence => next(),
            Fault::Follow => Outcome::Failed(AppendFailure::Follows),
            Fault::Lose => doubt(unavailable("injected")),
            Fault::Full => Outcome::Failed(AppendFailure::Full),
            Fault::Doubt => match next() {
                committed @ Outcome::Committed(_) => doubt(committed),
                refused => refused,
            },
        });
    }
    merged
}

impl Journal for TwinJournal {
    fn append(&self, appends: Vec<Append>, done: Done) -> Result<(), Busy> {
        self.append_batch(AppendBatch::new(appends), done)
    }

    fn append_batch(&self, batch: AppendBatch, done: Done) -> Result<(), Busy> {
        let switches = &self.core.switches;
        let delay = Duration::from_micros(switches.delay_us.load(Ordering::SeqCst));
        let mut is_held = switches.hold.load(Ordering::SeqCst);
        let batch = match switches.grow.load(Ordering::SeqCst) {
            true => batch,
            false => {
                let stalled = *lock(&switches.stalled);
                let appends = batch.close();
                let is_stalled = |append: &Append| Some(self.group(append.range)) == stalled;
                is_held |= appends.iter().any(is_stalled);
                AppendBatch::new(appends)
            }
        };
        let job = Job { batch, done, delay };
        if is_held {
            let mut held = self.core.held();
            if held.len() >= JOURNAL_QUEUE_MAX {
                return Err(Busy {
                    appends: job.batch.close(),
                    done: job.done,
                });
            }
            held.push_back(job);
            return Ok(());
        }
        match &self.queue {
            None => self.core.forward(job),
            Some(queue) => {
                if let Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) =
                    queue.try_send(job)
                {
                    return Err(Busy {
                        appends: job.batch.close(),
                        done: job.done,
                    });
                }
            }
        }
        Ok(())
    }

    fn take(&self, range: RangeId) -> Tenure {
        self.core.inner.take(range)
    }

    fn group(&self, range: RangeId) -> u16 {
        range.index() % self.core.switches.groups.load(Ordering::SeqCst)
    }

    fn position(&self, range: RangeId) -> Position {
        self.core.inner.position(range)
    }

    fn stats(&self) -> JournalStats {
        self.core.inner.stats()
    }
}

impl Drop for TwinJournal {
    /// Whatever waits is decided first: `done` is called exactly once.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.release(usize::MAX);
    }
}
