//! Ranges that move between the shards of a node at moments that a test chooses, under a clock that
//! moves when it says so (docs/decisions/0142).

mod common;

use std::time::Duration;

use actor::ShardId;
use common::held::{Peer, World, bodies};
use server::Options;
use telemetry::{Counter, Gauge};

const ROMEO: &str = "romeo@localhost";

/// What shards have counted is known that long after.
const REPORT: Duration = Duration::from_millis(100);

fn world(shards: u16, change: impl FnOnce(&mut Options)) -> World {
    // Nobody's input waits for its turn.
    let limits = net::Limits {
        window_max: 1_000,
        ..net::Limits::default()
    };
    World::with_network(limits, |options| {
        options.shards = shards;
        options.hand_over = true;
        change(options);
    })
}

/// With stream management.
fn managed(world: &mut World, user: &str) -> Peer {
    let mut peer = world.online(user);
    let resumable = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";
    peer.ask(world, resumable, "<enabled ");
    peer
}

fn home(world: &World) -> ShardId {
    world.sim().shard(ROMEO)
}

/// Time passes in steps that are short for whoever tries to move a range.
fn pass_in_steps(world: &mut World, time: Duration) {
    const STEP: Duration = Duration::from_millis(5);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        world.pass(STEP);
    }
}

/// The range of Romeo's account is to go to the next shard, and is asked at once.
fn begin_move(world: &mut World) {
    assert!(world.sim().move_range(ROMEO));
    world.work();
}

fn count(world: &mut World, counter: Counter) -> u64 {
    world.pass(REPORT);
    world.sim().stats().counter(counter)
}

/// Goal: what a client says right before it closes its stream is handled, although its range is to
/// move before its account's actor comes to it.
#[test]
fn what_a_client_says_at_last_is_handled_before_its_range_moves() {
    let mut world = world(2, |_| {});
    let mut romeo = managed(&mut world, "romeo");
    world.pass(Duration::from_secs(10));
    romeo.read(&mut world);
    let before = home(&world);
    assert!(world.sim().move_range(ROMEO));
    // The actor's first run ends in front of the message, and the range is to go before the next.
    for _ in 0..RUN {
        romeo.send("<r xmlns='urn:xmpp:sm:3'/>");
    }
    romeo.say("juliet", 7);
    romeo.send("</stream:stream>");
    world.work();
    assert_eq!(home(&world), before, "there is mail");
    pass_in_steps(&mut world, Duration::from_millis(200));
    assert_ne!(home(&world), before);
    let mut juliet = world.login("juliet");
    let heard = juliet.ask(&mut world, "<presence/>", "<presence");
    assert_eq!(bodies(&heard), [7]);
    // It has ended, and did not only lose its link.
    assert_eq!(world.sim().stats().gauge(Gauge::ManagedSessions), 0);
}

/// Messages that an actor handles in one run.
const RUN: u32 = actor::limits::ACTOR_BUDGET;

/// Goal: a range of which something is under way is tried for so long, and goes as soon as it can;
/// then it stays.
#[test]
fn a_busy_range_is_tried_for_a_while() {
    const PATIENCE: Duration = Duration::from_millis(500);
    for is_in_time in [true, false] {
        let mut world = world(2, |options| options.moves.patience = PATIENCE);
        let (mut romeo, mut juliet) = (managed(&mut world, "romeo"), world.online("juliet"));
        world.pass(Duration::from_secs(10));
        world.hold();
        romeo.say("juliet", 1);
        world.work();
        let before = home(&world);
        begin_move(&mut world);
        pass_in_steps(&mut world, PATIENCE / 2);
        assert_eq!(home(&world), before, "it is busy");
        if is_in_time {
            world.let_go();
        }
        pass_in_steps(&mut world, PATIENCE);
        assert_eq!(home(&world) != before, is_in_time);
        assert_eq!(
            count(&mut world, Counter::RangesMoved),
            u64::from(is_in_time)
        );
        assert_eq!(
            count(&mut world, Counter::RangesStayed),
            u64::from(!is_in_time)
        );
        world.let_go();
        pass_in_steps(&mut world, PATIENCE);
        assert_eq!(home(&world) != before, is_in_time, "nobody asked again");
        romeo.say("juliet", 2);
        assert_eq!(bodies(&juliet.read(&mut world)), [1, 2]);
    }
}

/// Goal: while a shard hangs that has to let go of a range, and only then, operators are warned.
#[test]
fn a_range_that_does_not_arrive_is_noticed() {
    let mut world = world(3, |_| {});
    let from = home(&world);
    let other = ShardId::new((from.index() + 2) % 3);
    world.sim_mut().stall(Some(other));
    begin_move(&mut world);
    let late = |world: &mut World, time| {
        world.pass(time);
        world.pass(REPORT);
        world.sim().stats().gauge(Gauge::RangesLate)
    };
    let second = Duration::from_secs(1);
    assert_eq!(late(&mut world, 9 * second), 0);
    assert_eq!(late(&mut world, second), 1);
    assert_eq!(late(&mut world, 60 * second), 1);
    world.sim_mut().stall(None);
    assert_eq!(late(&mut world, 10 * second), 0);
    assert_eq!(count(&mut world, Counter::RangesMoved), 1);
    assert_ne!(home(&world), from);
    // One that arrives at once is none.
    begin_move(&mut world);
    assert_eq!(late(&mut world, 60 * second), 0);
    assert_eq!(count(&mut world, Counter::RangesMoved), 2);
}
