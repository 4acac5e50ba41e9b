//! What an idle actor costs over its own state, counted by the allocator. A test binary of its own,
//! with one test, because the allocator counts for the whole process.

use std::alloc::System;
use std::sync::Arc;

use actor::{Actor, Context, EntityClass, Mail, Name, Options, ShardId, Waker, system};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use stdx::time::VirtualClock;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

struct NoWaker;

impl Waker for NoWaker {
    fn wake(&self) {}
}

/// Its own state: 64 bytes.
struct Idle([u64; 8]);

impl Actor for Idle {
    type Msg = u64;

    fn handle(&mut self, msg: u64, _: &mut Context<'_, u64>) {
        self.0[0] += msg;
    }
}

struct Class;

impl EntityClass for Class {
    type Msg = u64;
    type Actor = Idle;

    fn activate(&mut self, _: &Name, _: ShardId) -> Idle {
        Idle([0; 8])
    }
}

const ACTORS: usize = 100_000;
const STATE: usize = 64;
const BOUND: usize = 128;

#[test]
fn idle_actor_stays_below_its_bound_over_its_state() {
    let (_, mut seeds) = system(Options::new(1, 1));
    let mut shard = seeds
        .remove(0)
        .build(Arc::new(VirtualClock::new()), Arc::new(NoWaker));
    shard.set_class(Class);
    let names: Vec<Name> = (0..ACTORS)
        .map(|n| format!("user{n}@example.org").into())
        .collect();
    let grown = |region: &Region<'_, System>| {
        let change = region.change();
        change
            .bytes_allocated
            .saturating_sub(change.bytes_deallocated)
    };
    // Each has handled a message, so that it has had a mailbox; a few at a time, because the run
    // queue and the arena keep the memory of their peak.
    let region = Region::new(ALLOCATOR);
    for chunk in names.chunks(100) {
        for _ in chunk {
            let addr = shard.spawn(Idle([0; 8]));
            shard.send(addr, 1).unwrap();
        }
        while shard.turn().more {}
    }
    let anonymous = grown(&region) / ACTORS - STATE;
    let region = Region::new(ALLOCATOR);
    for chunk in names.chunks(100) {
        for name in chunk {
            shard.send_named(ShardId::new(0), name, 1u64).unwrap();
        }
        while shard.turn().more {}
    }
    let named = grown(&region) / ACTORS - STATE;
    assert_eq!(shard.actors(), 2 * ACTORS);
    assert!(anonymous <= BOUND, "{anonymous} bytes per idle actor");
    assert!(named <= BOUND, "{named} bytes per idle named actor");
    assert!(
        anonymous >= 32,
        "{anonymous}: the measurement missed the slots"
    );
}
