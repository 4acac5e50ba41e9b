//! A recipient that cannot be read for long, because reads of the store are not done: what others
//! have taken meanwhile does not come again after a kill.

mod common;

use std::time::Duration;

use common::world::{World, bodies};
use telemetry::Counter;

/// Goal: a kill while one recipient cannot be reached repeats nothing to the others: what they have
/// taken is recorded, however long that recipient's message waits in front of theirs.
#[test]
fn a_kill_while_a_recipient_is_stuck_repeats_nothing_to_others() {
    let mut world = World::patient(|_| ());
    world.register("nurse");
    // She is not loaded any more, and cannot be read from here on.
    world.pass(Duration::from_secs(60));
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let mut juliet = world.login("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    romeo.say("nurse@localhost", "1");
    for number in 2..=20 {
        romeo.say("juliet@localhost", &number.to_string());
    }
    let seen = juliet.expect(&mut world, "<body>20</body>");
    assert_eq!(bodies(&seen), (2..=20).collect::<Vec<_>>());
    for _ in 0..4 {
        world.pass(Duration::from_secs(3));
    }

    world.crash();
    let mut nurse = world.login("nurse", "r");
    nurse.send("<presence/>");
    let seen = nurse.expect(&mut world, "</message>");
    assert_eq!(bodies(&seen), [1], "{seen}");
    world.pass(Duration::from_secs(60));
    let stats = world.node().stats();
    assert_eq!(stats.counter(Counter::MessagesRepeated), 0);
    let mut juliet = world.login("juliet", "balcony");
    juliet.send("<presence/>");
    let seen = juliet.sync(&mut world);
    assert_eq!(bodies(&seen), [0; 0], "{seen}");
}
