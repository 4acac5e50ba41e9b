//! Tables that threads share, in the mixes of the `ets` benchmarks. KIND is 0 for a set, 1 for an
//! ordered set, 2 for a set whose hasher resists chosen keys. As many threads as shards.
//!
//! | workload | numbers |
//! |---|---|
//! | `ets_test` | WRITERS READERS KEYS: each writes or reads every key twice |
//! | `ets_bench` | KIND PHASE KEYS OPERATIONS: phase 0 inserts, 1 to 3 look up and update 0, 1, 10 %, 4 deletes |
//! | `ets_random_ops` | KIND OPERATIONS RANGE INSERT DELETE LOOKUP NOTHING, in percent |
//! | `ets_bulk` | KIND ROWS BATCH: inserts batches, each at one moment |
//! | `ets_range` | ROWS PAGE: reads an ordered set from its first row to its last |

use std::hash::RandomState;
use std::sync::Barrier;
use std::thread;

use rustc_hash::FxBuildHasher;
use stdx::rand::Rng;
use stdx::table::{OrderedSet, Set, TableOptions};
use stdx::time::{Clock, Moment, SystemClock};

use super::Args;

/// What the mixes need of a table.
trait Table: Sync {
    fn insert(&self, key: u64, value: u64);
    fn insert_all(&self, rows: Vec<(u64, u64)>);
    fn lookup(&self, key: u64) -> Option<u64>;
    fn delete(&self, key: u64);
}

macro_rules! is_table {
    ($kind:ty) => {
        impl Table for $kind {
            fn insert(&self, key: u64, value: u64) {
                // The bound is far beyond what a workload inserts.
                let _ = self.insert(key, value);
            }

            fn insert_all(&self, rows: Vec<(u64, u64)>) {
                let _ = self.insert_all(rows);
            }

            fn lookup(&self, key: u64) -> Option<u64> {
                self.get(&key)
            }

            fn delete(&self, key: u64) {
                self.remove(&key);
            }
        }
    };
}

is_table!(Set<u64, u64, FxBuildHasher>);
is_table!(Set<u64, u64, RandomState>);
is_table!(OrderedSet<u64, u64, FxBuildHasher>);

fn table(kind: usize) -> Result<Box<dyn Table + Send>, String> {
    let options = TableOptions::default();
    match kind {
        0 => Ok(Box::new(Set::with_hasher(options, FxBuildHasher))),
        1 => Ok(Box::new(OrderedSet::with_hasher(options, FxBuildHasher))),
        2 => Ok(Box::new(Set::<u64, u64>::new(options))),
        _ => Err("KIND is 0, 1 or 2".into()),
    }
}

/// Runs `work` on each thread at the same time; microseconds from the first that begins to the last
/// that ends. The threads read the clock themselves: whoever waits for them may be late.
fn all_threads(args: &Args, work: impl Fn(usize, usize) + Sync) -> f64 {
    let threads = usize::from(args.shards);
    let barrier = Barrier::new(threads);
    let clock = SystemClock::new();
    let times: Vec<(Moment, Moment)> = thread::scope(|scope| {
        let start = |number| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                let began = clock.now();
                work(number, threads);
                (began, clock.now())
            })
        };
        let handles: Vec<_> = (0..threads).map(start).collect();
        let ended = handles.into_iter().map(|handle| handle.join());
        // A thread that panicked leaves no time, and the run no figure.
        ended.flatten().collect()
    });
    let began = times.iter().map(|time| time.0).min().unwrap_or_default();
    let ended = times.iter().map(|time| time.1).max().unwrap_or_default();
    ended.saturating_since(began).as_nanos() as f64 / 1e3
}

pub(super) fn test(args: &Args) -> Result<f64, String> {
    let (writers, readers, keys) = (args.number(0)?, args.number(1)?, args.number(2)?);
    let table = table(0)?;
    Ok(all_threads(args, |number, threads| {
        for who in (number..writers + readers).step_by(threads) {
            for key in (0..2).flat_map(|_| 0..keys as u64) {
                if who < writers {
                    table.insert(key, who as u64);
                } else {
                    std::hint::black_box(table.lookup(key));
                }
            }
        }
    }))
}

fn fill(table: &dyn Table, keys: usize) {
    (0..keys as u64).for_each(|key| table.insert(key, key));
}

pub(super) fn bench(args: &Args) -> Result<f64, String> {
    let table = table(args.number(0)?)?;
    let (phase, keys, operations) = (args.number(1)?, args.number(2)?, args.number(3)?);
    if phase > 0 {
        fill(&*table, keys);
    }
    let updates = [0, 0, 1, 10, 0][phase.min(4)];
    Ok(all_threads(args, |number, threads| {
        let mut rng = Rng::with_seed(number as u64);
        for _ in 0..operations / threads {
            let key = rng.u64(..keys as u64);
            match phase {
                0 => table.insert(key, key),
                4 => table.delete(key),
                _ if rng.u64(..100) < updates => table.insert(key, key + 1),
                _ => {
                    std::hint::black_box(table.lookup(key));
                }
            }
        }
    }))
}

pub(super) fn random_ops(args: &Args) -> Result<f64, String> {
    let table = table(args.number(0)?)?;
    let (operations, range) = (args.number(1)?, args.number(2)?);
    let (insert, delete, lookup) = (args.number(3)?, args.number(4)?, args.number(5)?);
    Ok(all_threads(args, |number, threads| {
        let mut rng = Rng::with_seed(number as u64);
        for _ in 0..operations / threads {
            let (key, what) = (rng.u64(..range as u64), rng.usize(..100));
            if what < insert {
                table.insert(key, key);
            } else if what < insert + delete {
                table.delete(key);
            } else if what < insert + delete + lookup {
                std::hint::black_box(table.lookup(key));
            }
        }
    }))
}

pub(super) fn bulk(args: &Args) -> Result<f64, String> {
    let table = table(args.number(0)?)?;
    let (rows, batch) = (args.number(1)?, args.number(2)?.max(1));
    Ok(all_threads(args, |number, threads| {
        let mut rng = Rng::with_seed(number as u64);
        for _ in 0..rows / batch / threads {
            let row = |_| (rng.u64(..rows as u64), 0);
            table.insert_all((0..batch).map(row).collect());
        }
    }))
}

pub(super) fn range(args: &Args) -> Result<f64, String> {
    let (rows, page) = (args.number(0)?, args.number(1)?.max(1));
    let table = OrderedSet::with_hasher(TableOptions::default(), FxBuildHasher);
    (0..rows as u64).for_each(|key| Table::insert(&table, key, key));
    let clock = SystemClock::new();
    let (began, mut next, mut seen) = (clock.now(), 0, 0);
    while seen < rows {
        let found = table.range(next.., page);
        let Some((last, _)) = found.last() else { break };
        next = last + 1;
        seen += found.len();
    }
    if seen != rows {
        return Err(format!("{seen} rows were seen"));
    }
    Ok(clock.now().saturating_since(began).as_nanos() as f64 / 1e3)
}
