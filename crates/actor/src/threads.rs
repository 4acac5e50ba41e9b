//! A thread per shard, for systems without sockets: tests and benchmarks.
//!
//! Owns the simplest driver there is, which parks its thread when a shard has nothing to do. Shards
//! with sockets are driven by a poll loop elsewhere.

use std::sync::Arc;
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;
use std::{hint, io, panic};

use stdx::time::{Clock, Moment};

use crate::shard::{Shard, ShardSeed};
use crate::stats::Stage;
use crate::traits::Waker;

struct Unpark(Thread);

impl Waker for Unpark {
    fn wake(&self) {
        self.0.unpark();
    }
}

/// Longest sleep, so that a shard notices a request to shut down even without a wake-up.
const LONGEST_PARK: Duration = Duration::from_millis(500);

/// How long a shard without work looks out for mail before it parks: about what waking a parked
/// thread takes, so that two shards in conversation do not pay for a wake-up with each message.
const LOOK_OUT: Duration = Duration::from_micros(20);

/// Shards that run on threads of their own until [`crate::Handle::shut_down`].
#[derive(Debug)]
pub struct Threads(Vec<JoinHandle<()>>);

/// Starts a thread per seed. `setup` runs on each before its shard's first turn.
///
/// # Errors
/// The operating system's, if it gives no thread.
pub fn run_threads(
    seeds: Vec<ShardSeed>,
    clock: Arc<dyn Clock>,
    setup: impl Fn(&mut Shard) + Clone + Send + 'static,
) -> io::Result<Threads> {
    let mut threads = Vec::with_capacity(seeds.len());
    for seed in seeds {
        let (clock, setup) = (Arc::clone(&clock), setup.clone());
        let name = format!("shard-{}", seed.id().index());
        let thread = thread::Builder::new().name(name).spawn(move || {
            let waker = Arc::new(Unpark(thread::current()));
            let mut shard = seed.build(Arc::clone(&clock), waker);
            setup(&mut shard);
            drive(&mut shard, &*clock);
        });
        threads.push(thread?);
    }
    Ok(Threads(threads))
}

fn drive(shard: &mut Shard, clock: &dyn Clock) {
    let mut before = clock.now();
    while !shard.is_shutdown_requested() {
        let turn = shard.turn();
        let worked = clock.now();
        shard.note_time(Stage::Working, worked.saturating_since(before));
        before = worked;
        if turn.more {
            continue;
        }
        let until = turn
            .next_deadline
            .map(|deadline| deadline.saturating_since(worked));
        if until.is_none_or(|until| until > LOOK_OUT) && has_mail_soon(shard, clock, worked) {
            before = clock.now();
            shard.note_time(Stage::Idle, before.saturating_since(worked));
            continue;
        }
        thread::park_timeout(until.unwrap_or(LONGEST_PARK).min(LONGEST_PARK));
        before = clock.now();
        shard.note_time(Stage::Idle, before.saturating_since(worked));
    }
    shard.shut_down();
}

/// Whether mail comes while the shard looks out for it.
fn has_mail_soon(shard: &Shard, clock: &dyn Clock, since: Moment) -> bool {
    while !shard.is_woken() {
        if clock.now().saturating_since(since) >= LOOK_OUT {
            return false;
        }
        hint::spin_loop();
    }
    true
}

impl Threads {
    /// Waits for the end of every shard.
    ///
    /// # Panics
    /// If a shard panicked outside its actors.
    pub fn join(self) {
        for thread in self.0 {
            if let Err(payload) = thread.join() {
                panic::resume_unwind(payload);
            }
        }
    }
}
