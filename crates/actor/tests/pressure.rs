//! What a driver goes by when it takes in more: how much waits between shards, and how much of it
//! one turn takes.

mod common;

use actor::sim::Sim;
use actor::{Actor, Addr, Context, Mail, Pressure};
use common::{HERE, THERE};

struct Sink;

impl Actor for Sink {
    type Msg = u32;

    fn handle(&mut self, _: u32, _: &mut Context<'_, u32>) {}
}

fn send(sim: &mut Sim, to: Addr<u32>, count: usize) {
    let mut sent = 0;
    while sent < count {
        // A turn of the sender alone: the other shard does not keep up.
        let shard = sim.shard(HERE);
        for _ in 0..256.min(count - sent) {
            shard.send(to, 0).unwrap();
            sent += 1;
        }
        shard.turn();
    }
}

#[test]
fn a_shard_that_does_not_keep_up_is_noticed_everywhere() {
    use actor::limits::{PRESSURE_FULL, PRESSURE_HIGH, RECEIVE_MAX};
    let mut sim = Sim::new(2, 1);
    sim.shard(THERE).set_mailbox_max::<u32>(usize::MAX);
    let sink = sim.shard(THERE).spawn(Sink);
    assert_eq!(sim.shard(HERE).pressure(), Pressure::Low);
    send(&mut sim, sink, PRESSURE_HIGH);
    assert_eq!(sim.shard(HERE).pressure(), Pressure::High);
    send(&mut sim, sink, PRESSURE_FULL - PRESSURE_HIGH);
    assert_eq!(sim.shard(HERE).pressure(), Pressure::Full);
    assert_eq!(sim.shard(THERE).pressure(), Pressure::Full);
    // One turn takes a part of it, so that sockets have their turn in between.
    sim.shard(THERE).turn();
    let taken = sim
        .shard(THERE)
        .counter(telemetry::Counter::ActorRemoteReceived);
    assert!(
        (RECEIVE_MAX..RECEIVE_MAX + 256).contains(&(taken as usize)),
        "{taken}"
    );
    sim.run_until_idle();
    assert_eq!(sim.shard(HERE).pressure(), Pressure::Low);
    let handled = sim.shard(THERE).counter(telemetry::Counter::ActorMessages);
    assert_eq!(handled, PRESSURE_FULL as u64);
}

#[test]
fn a_full_mailbox_is_pressure_for_as_long_as_it_refuses() {
    let mut sim = Sim::new(2, 1);
    sim.shard(THERE).set_mailbox_max::<u32>(10);
    let sink = sim.shard(THERE).spawn(Sink);
    send(&mut sim, sink, 11);
    assert_eq!(sim.shard(HERE).pressure(), Pressure::Low);
    sim.shard(THERE).turn();
    assert_eq!(sim.shard(HERE).pressure(), Pressure::High);
    sim.shard(THERE).turn();
    assert_eq!(sim.shard(HERE).pressure(), Pressure::Low);
}
