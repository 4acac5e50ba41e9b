//! A whole system on one thread under a virtual clock.
//!
//! Owns the order in which shards have their turns, drawn from a seed: the same seed gives the same
//! run. Used by tests here and by simulations elsewhere; pools should be [`crate::Pool::inline`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stdx::rand::Rng;
use stdx::time::{Clock, Moment, VirtualClock};

use crate::limits::Bounds;
use crate::shard::Shard;
use crate::system::{Handle, Options, system};
use crate::traits::Waker;
use crate::types::ShardId;

#[derive(Default)]
struct Woken(AtomicBool);

impl Waker for Woken {
    fn wake(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

struct Driven {
    shard: Shard,
    woken: Arc<Woken>,
    more: bool,
    next_deadline: Option<Moment>,
}

/// Shards that run when told to.
pub struct Sim {
    clock: VirtualClock,
    handle: Handle,
    shards: Vec<Driven>,
    rng: Rng,
}

impl Sim {
    /// Builds a system of `shards` shards.
    pub fn new(shards: u16, seed: u64) -> Self {
        Sim::bounded(shards, seed, Bounds::default())
    }

    /// The same with bounds of its own.
    pub fn bounded(shards: u16, seed: u64, bounds: Bounds) -> Self {
        let clock = VirtualClock::new();
        let (handle, seeds) = system(Options {
            shards,
            seed,
            bounds,
        });
        let build = |seed: crate::ShardSeed| {
            let woken = Arc::new(Woken::default());
            let waker = Arc::clone(&woken) as Arc<dyn Waker>;
            let shard = seed.build(Arc::new(clock.clone()), waker);
            Driven {
                shard,
                woken,
                more: true,
                next_deadline: None,
            }
        };
        let shards = seeds.into_iter().map(build).collect();
        Sim {
            clock: clock.clone(),
            handle,
            shards,
            rng: Rng::with_seed(seed),
        }
    }

    /// The way in from outside.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The clock that all shards see.
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// A shard, to spawn and send with; it is run afterwards.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn shard(&mut self, id: ShardId) -> &mut Shard {
        let driven = &mut self.shards[usize::from(id.index())];
        driven.more = true;
        driven.shard.begin();
        &mut driven.shard
    }

    /// One turn for every shard that has something to do, in random order; false if none has.
    pub fn step(&mut self) -> bool {
        let mut order: Vec<usize> = (0..self.shards.len()).collect();
        self.rng.shuffle(&mut order);
        let now = self.clock.now();
        let mut ran = false;
        for at in order {
            let driven = &mut self.shards[at];
            let is_due = driven.next_deadline.is_some_and(|deadline| deadline <= now);
            if driven.woken.0.swap(false, Ordering::SeqCst) || driven.more || is_due {
                let turn = driven.shard.turn();
                (driven.more, driven.next_deadline) = (turn.more, turn.next_deadline);
                ran = true;
            }
        }
        ran
    }

    /// Runs until nothing is left to do at this time.
    ///
    /// # Panics
    /// After a million rounds: then the actors keep each other busy for ever.
    pub fn run_until_idle(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the simulation does not come to rest");
    }

    /// Lets time pass, stopping at every deadline on the way.
    pub fn advance(&mut self, by: Duration) {
        let until = self.clock.now() + by;
        self.run_until_idle();
        while let Some(next) = self
            .shards
            .iter()
            .filter_map(|driven| driven.next_deadline)
            .min()
        {
            if next > until {
                break;
            }
            self.clock.set(next);
            self.run_until_idle();
        }
        self.clock.set(until);
        self.run_until_idle();
    }

    /// Shuts every shard down.
    pub fn shut_down(&mut self) {
        for driven in &mut self.shards {
            driven.shard.shut_down();
        }
    }
}
