//! Shards in trouble: what is done to one on purpose, and how one starts over after its loop has
//! panicked. Owns the bound on restarts.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use actor::Mail as _;
use stdx::time::Moment;
use telemetry::Counter;

use crate::driver::Driver;
use crate::network::Disturbance;
use crate::service::{Closed, Service};

/// A shard that panics more often than so many times within [`RESTARTS_WITHIN`] ends for good.
const RESTARTS_MAX: usize = 10;
const RESTARTS_WITHIN: Duration = Duration::from_secs(10);

/// What a shard keeps for bad times.
#[derive(Default)]
pub(crate) struct Trouble {
    /// Nothing is read before.
    pub(crate) stalled_until: Moment,
    /// When it started over lately.
    restarts: VecDeque<Moment>,
}

impl<S: Service> Driver<S> {
    /// Does what waits to be done to this shard.
    pub(crate) fn disturb(&mut self) {
        for disturbance in self.shared.take_disturbances(self.shard.id()) {
            match disturbance {
                Disturbance::DropLinks(count) => self.drop_links(count),
                Disturbance::StallReads(time) => self.trouble.stalled_until = self.now + time,
                Disturbance::Panic => panic!("a shard was told to panic"),
            }
        }
    }

    fn drop_links(&mut self, count: usize) {
        let mut left = self.core.borrow().links.keys();
        for _ in 0..count.min(left.len()) {
            let at = self.shard.rng().usize(..left.len());
            let id = left.swap_remove(at);
            self.finish(id, Closed::Broken);
        }
    }

    /// Starts over after the loop has panicked. Everything that was going on here is given up: all
    /// connections are dropped and all entities end, to be loaded again from what is durable. What
    /// the runtime serves others with lives on, so that no address is ever given out twice and no
    /// commit under way is forgotten.
    ///
    /// # Errors
    /// It happens too often: the shard ends.
    pub(crate) fn start_over(&mut self) -> io::Result<()> {
        let restarts = &mut self.trouble.restarts;
        while restarts
            .front()
            .is_some_and(|at| self.now.saturating_since(*at) > RESTARTS_WITHIN)
        {
            restarts.pop_front();
        }
        if restarts.len() >= RESTARTS_MAX {
            return Err(io::Error::other("a shard panics again and again"));
        }
        restarts.push_back(self.now);
        let left = self.core.borrow().links.keys();
        for id in left {
            self.finish(id, Closed::Crashed);
        }
        self.shard.core().end_entities();
        self.core.borrow_mut().stats.count(Counter::ShardRestarts);
        Ok(())
    }
}
