//! Counters of a journal: how many appends, how large the groups, how long the syncs. Written by
//! the journal's thread alone, read by anyone as a snapshot.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::journal::{Append, Outcome};

/// Buckets of a histogram: bucket `n` counts values in `2^(n-1)+1 ..= 2^n`, bucket 0 counts 0 and
/// 1, the last one everything above.
pub const BUCKETS: usize = 24;

/// A histogram by powers of two.
pub type Histogram = [u64; BUCKETS];

#[derive(Default)]
pub(crate) struct Counters {
    groups: AtomicU64,
    committed: AtomicU64,
    fenced: AtomicU64,
    failed: AtomicU64,
    busy: AtomicU64,
    records: AtomicU64,
    commits_failed: AtomicU64,
    healed: AtomicU64,
    group_records: [AtomicU64; BUCKETS],
    commit_us: [AtomicU64; BUCKETS],
    commit_us_sum: AtomicU64,
}

/// What a journal has done since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct JournalStats {
    /// Group commits.
    pub groups: u64,
    /// Appends committed.
    pub committed: u64,
    /// Appends fenced.
    pub fenced: u64,
    /// Appends failed.
    pub failed: u64,
    /// Calls refused because the queue was full.
    pub busy: u64,
    /// Records committed.
    pub records: u64,
    /// Group commits that failed as a whole.
    pub commits_failed: u64,
    /// How often the engine was healed after one.
    pub healed: u64,
    /// Records per group.
    pub group_records: Histogram,
    /// Microseconds per commit, the sync included.
    pub commit_us: Histogram,
    /// Microseconds of all commits together.
    pub commit_us_sum: u64,
}

impl JournalStats {
    /// A call was answered that took so long; `records` are those of each append. For whoever
    /// implements [`crate::Journal`].
    pub fn decided(&mut self, records: &[usize], outcomes: &[Outcome], took: Duration) {
        let mut committed = 0;
        for (records, outcome) in records.iter().zip(outcomes) {
            match outcome {
                Outcome::Committed(_) => {
                    self.committed += 1;
                    committed += *records as u64;
                }
                Outcome::Fenced => self.fenced += 1,
                Outcome::Failed(_) | Outcome::InDoubt(_) => self.failed += 1,
            }
        }
        self.groups += 1;
        self.records += committed;
        self.group_records[bucket(committed)] += 1;
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commit_us[bucket(took_us)] += 1;
        self.commit_us_sum += took_us;
    }
}

fn bucket(value: u64) -> usize {
    let bucket = (u64::BITS - value.saturating_sub(1).leading_zeros()) as usize;
    bucket.min(BUCKETS - 1)
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

fn observe(histogram: &[AtomicU64; BUCKETS], value: u64) {
    add(&histogram[bucket(value)], 1);
}

impl Counters {
    pub(crate) fn decided(&self, group: &[Append], outcomes: &[Outcome]) {
        let mut records = 0;
        for (append, outcome) in group.iter().zip(outcomes) {
            match outcome {
                Outcome::Committed(_) => {
                    add(&self.committed, 1);
                    records += append.records.len() as u64;
                }
                Outcome::Fenced => add(&self.fenced, 1),
                // Of one in doubt it counts that it was not acknowledged in time.
                Outcome::Failed(_) | Outcome::InDoubt(_) => add(&self.failed, 1),
            }
        }
        add(&self.groups, 1);
        add(&self.records, records);
        observe(&self.group_records, records);
    }

    pub(crate) fn busy(&self) {
        add(&self.busy, 1);
    }

    pub(crate) fn failed_commit(&self) {
        add(&self.commits_failed, 1);
    }

    pub(crate) fn healed(&self) {
        add(&self.healed, 1);
    }

    /// Runs a commit and notes how long it took.
    // The duration is for operators only: nothing depends on it.
    #[allow(clippy::disallowed_methods)]
    pub(crate) fn time<R>(&self, commit: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let result = commit();
        let took: Duration = start.elapsed();
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        observe(&self.commit_us, took_us);
        add(&self.commit_us_sum, took_us);
        result
    }

    pub(crate) fn snapshot(&self) -> JournalStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        JournalStats {
            groups: load(&self.groups),
            committed: load(&self.committed),
            fenced: load(&self.fenced),
            failed: load(&self.failed),
            busy: load(&self.busy),
            records: load(&self.records),
            commits_failed: load(&self.commits_failed),
            healed: load(&self.healed),
            group_records: std::array::from_fn(|n| load(&self.group_records[n])),
            commit_us: std::array::from_fn(|n| load(&self.commit_us[n])),
            commit_us_sum: load(&self.commit_us_sum),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_commits_is_that_of_their_times() {
        let counters = Counters::default();
        let pause = Duration::from_millis(2);
        counters.time(|| std::thread::sleep(pause));
        counters.time(|| std::thread::sleep(pause));
        let stats = counters.snapshot();
        assert_eq!(stats.commit_us.iter().sum::<u64>(), 2);
        assert!(stats.commit_us_sum >= 4_000, "{}", stats.commit_us_sum);
    }

    #[test]
    fn buckets_are_powers_of_two() {
        let histogram: [AtomicU64; BUCKETS] = Default::default();
        for value in [0, 1, 2, 3, 4, 5, 1_024, u64::MAX] {
            observe(&histogram, value);
        }
        let counts: Vec<u64> = histogram
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
            .collect();
        assert_eq!(counts[..4], [2, 1, 2, 1]);
        assert_eq!((counts[10], counts[BUCKETS - 1]), (1, 1));
    }
}
