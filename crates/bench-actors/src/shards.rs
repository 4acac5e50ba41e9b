//! Shards for one workload: started, filled with actors, stopped.
//!
//! Owns what every workload needs. Deliberately not here: any workload.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use actor::threads::{Threads, run_threads};
use actor::{Actor, Addr, Context, Handle, Mail, Options, Shard, ShardId, system};
use stdx::time::{Clock, Moment, SystemClock};

/// Longer than any workload takes.
pub(crate) const WITHIN: Duration = Duration::from_secs(600);

/// A system of shards with a thread each.
pub(crate) struct Shards {
    pub(crate) handle: Handle,
    pub(crate) clock: SystemClock,
    threads: Threads,
}

/// By which actors tell that they are done.
pub(crate) struct Latch {
    sender: SyncSender<u64>,
    receiver: Receiver<u64>,
    wanted: usize,
}

impl Latch {
    /// Waits for so many.
    pub(crate) fn new(wanted: usize) -> Self {
        let (sender, receiver) = sync_channel(wanted);
        Latch {
            sender,
            receiver,
            wanted,
        }
    }

    pub(crate) fn sender(&self) -> SyncSender<u64> {
        self.sender.clone()
    }

    /// Waits for all; the sum of what they told.
    pub(crate) fn wait(self) -> Result<u64, String> {
        let mut sum = 0u64;
        for _ in 0..self.wanted {
            let told = self.receiver.recv_timeout(WITHIN);
            sum = sum.wrapping_add(told.map_err(|_| "not done in time")?);
        }
        Ok(sum)
    }
}

impl Shards {
    pub(crate) fn start(
        count: u16,
        setup: impl Fn(&mut Shard) + Clone + Send + 'static,
    ) -> Result<Self, String> {
        let clock = SystemClock::new();
        let (handle, seeds) = system(Options::new(count, 1));
        let threads = run_threads(seeds, Arc::new(clock), setup);
        Ok(Shards {
            handle,
            clock,
            threads: threads.map_err(|error| error.to_string())?,
        })
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Microseconds since a moment.
    pub(crate) fn micros_since(&self, began: Moment) -> f64 {
        self.now().saturating_since(began).as_nanos() as f64 / 1e3
    }

    /// Starts so many actors, one after the other on the shards in turn.
    pub(crate) fn spawn_many<A: Actor>(
        &self,
        count: usize,
        make: impl Fn(usize) -> A + Clone + Send + 'static,
    ) -> Result<Vec<Addr<A::Msg>>, String> {
        let shards = usize::from(self.handle.shards());
        let mut ways = Vec::new();
        for shard in 0..shards {
            let (sender, receiver) = sync_channel(1);
            let make = make.clone();
            let taken = self.handle.run_on(ShardId::new(shard as u16), move |core| {
                let mine = (shard..count).step_by(shards);
                let addrs: Vec<_> = mine.map(|number| core.spawn(make(number))).collect();
                let _ = sender.try_send(addrs);
            });
            if !taken {
                return Err("a shard is full".into());
            }
            ways.push(receiver);
        }
        let mut lists = Vec::new();
        for way in ways {
            let list = way.recv_timeout(WITHIN).map_err(|_| "a shard hangs")?;
            lists.push(list.into_iter());
        }
        let mut all = Vec::with_capacity(count);
        while all.len() < count {
            let next = lists[all.len() % shards].next();
            all.push(next.ok_or("an actor was not started")?);
        }
        Ok(all)
    }

    /// Sends to each from its own shard, so that a large number is no burst between threads.
    pub(crate) fn tell_all<M: Send + 'static>(
        &self,
        addrs: &[Addr<M>],
        msg: impl Fn(usize) -> M + Clone + Send + 'static,
    ) -> Result<(), String> {
        let all: Arc<[Addr<M>]> = addrs.into();
        for shard in 0..self.handle.shards() {
            let (all, msg) = (Arc::clone(&all), msg.clone());
            let shard = ShardId::new(shard);
            let taken = self.handle.run_on(shard, move |core| {
                for (number, addr) in all.iter().enumerate() {
                    if addr.shard() == shard {
                        let _ = core.send_priority(*addr, msg(number));
                    }
                }
            });
            if !taken {
                return Err("a shard is full".into());
            }
        }
        Ok(())
    }

    /// Waits until every shard has done what it was told before.
    pub(crate) fn settle(&self) -> Result<(), String> {
        let count = usize::from(self.handle.shards());
        self.spawn_many(count, |_| Nobody).map(drop)
    }

    pub(crate) fn stop(self) {
        self.handle.shut_down();
        self.threads.join();
    }
}

/// Stands for a round trip to a shard.
struct Nobody;

impl Actor for Nobody {
    type Msg = ();

    fn handle(&mut self, (): (), _: &mut Context<'_, ()>) {}
}
