//! Faults that an operator puts into a running node on purpose, to see that it stands them. Owns
//! what each fault does, its log line and its count; when which one comes is up to whoever asks.
//! Every fault ends by itself: nothing stays broken because somebody forgot to switch it off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use actor::{Handle, Mail as _, Pool, ShardId};
use net::Disturbance;
use serde::{Deserialize, Serialize};
use store::Switches;
use telemetry::Counter;

use crate::limits::{ADMIN_DEADLINE, READ_THREADS};

/// The longest that one fault lasts.
pub const FAULT_TIME_MAX: Duration = Duration::from_secs(10);

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The actor of an account that is loaded, drawn at random, is killed.
    KillActor,
    /// The loop of a shard panics.
    PanicShard,
    /// So many connections of a shard lose their link.
    DropLinks(usize),
    /// A shard reads from no connection for so many milliseconds.
    StallReads(u64),
    /// A shard does nothing at all for so many milliseconds.
    HangShard(u64),
    /// For a second, commits and reads of the store take so many milliseconds longer.
    DelayStore(u64),
    /// The next commit fails.
    FailCommit,
}

/// What faults are made with.
#[derive(Clone)]
pub(crate) struct Chaos {
    pub(crate) handle: Handle,
    pub(crate) network: Arc<net::Shared>,
    pub(crate) commits: Arc<Switches>,
    /// The delay of commits without any fault.
    pub(crate) commit_delay: Duration,
    pub(crate) reads: Pool,
    pub(crate) turn: Arc<AtomicU64>,
}

/// For how long a delay of the store lasts.
const DELAY_TIME: Duration = Duration::from_secs(1);

impl Chaos {
    /// Makes a fault happen; says what it was, or why there was none. Blocks while it lasts if it
    /// has to be taken back.
    pub(crate) fn cause(&self, fault: Fault) -> Result<String, String> {
        let shard = self.any_shard();
        let (what, counter) = match fault {
            Fault::KillActor => (self.kill(shard)?, Counter::ChaosKilled),
            Fault::PanicShard => {
                self.disturb(shard, Disturbance::Panic)?;
                let what = format!("shard {} panics", shard.index());
                (what, Counter::ChaosPanics)
            }
            Fault::DropLinks(count) => {
                self.disturb(shard, Disturbance::DropLinks(count))?;
                let what = format!("shard {} drops {count} links", shard.index());
                (what, Counter::ChaosDropped)
            }
            Fault::StallReads(ms) => {
                let time = Duration::from_millis(ms).min(FAULT_TIME_MAX);
                self.disturb(shard, Disturbance::StallReads(time))?;
                let what = format!("shard {} reads nothing for {time:?}", shard.index());
                (what, Counter::ChaosStalls)
            }
            Fault::HangShard(ms) => {
                let time = Duration::from_millis(ms).min(FAULT_TIME_MAX);
                (self.hang(shard, time)?, Counter::ChaosHangs)
            }
            Fault::DelayStore(ms) => {
                let delay = Duration::from_millis(ms).min(FAULT_TIME_MAX);
                (self.delay(delay), Counter::ChaosDelays)
            }
            Fault::FailCommit => (self.fail(), Counter::ChaosFailures),
        };
        let amount = match fault {
            Fault::DropLinks(count) => count as u64,
            _ => 1,
        };
        tracing::warn!("chaos: {what}");
        self.handle
            .run_on(shard, move |core| core.stats().add(counter, amount));
        Ok(what)
    }

    /// Shards take turns, so that every one is met.
    fn any_shard(&self) -> ShardId {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        ShardId::new((turn % u64::from(self.handle.shards())) as u16)
    }

    fn disturb(&self, shard: ShardId, what: Disturbance) -> Result<(), String> {
        if self.network.disturb(shard, what) {
            return Ok(());
        }
        Err("too many faults wait for their turn".to_owned())
    }

    fn hang(&self, shard: ShardId, time: Duration) -> Result<String, String> {
        if self.handle.run_on(shard, move |_| thread::sleep(time)) {
            return Ok(format!("shard {} hangs for {time:?}", shard.index()));
        }
        Err("the way to the shard is full".to_owned())
    }

    fn kill(&self, first: ShardId) -> Result<String, String> {
        for index in 0..self.handle.shards() {
            let shard = ShardId::new((first.index() + index) % self.handle.shards());
            let (sender, receiver) = sync_channel(1);
            let asked = self.handle.run_on(shard, move |core| {
                let found = core.any_entity().map(|(who, name)| {
                    core.kill(who);
                    name
                });
                // Whoever asked may have given up.
                let _ = sender.try_send(found);
            });
            if !asked {
                continue;
            }
            if let Ok(Some(name)) = receiver.recv_timeout(ADMIN_DEADLINE) {
                return Ok(format!("the actor of {name} is killed"));
            }
        }
        Err("no account is loaded".to_owned())
    }

    fn delay(&self, delay: Duration) -> String {
        self.commits.set_delay(self.commit_delay + delay);
        for _ in 0..READ_THREADS {
            // A pool that is full reads slowly enough already.
            let _ = self.reads.run(move || thread::sleep(delay));
        }
        thread::sleep(DELAY_TIME);
        self.commits.set_delay(self.commit_delay);
        format!("the store was {delay:?} slower for {DELAY_TIME:?}")
    }

    /// Half of the failed commits have happened all the same, as with a disk that fails late.
    fn fail(&self) -> String {
        if self.turn.load(Ordering::Relaxed).is_multiple_of(2) {
            self.commits.lose(1);
            return "the next commit fails".to_owned();
        }
        self.commits.doubt(1);
        "the next commit happens and is reported as failed".to_owned()
    }
}
