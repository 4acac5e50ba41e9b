//! Reads of the store that are done in another order than they were asked for, as threads do them:
//! an answer must not be taken for that to another question.

mod common;

use std::time::Duration;

use common::world::{World, bodies};
use telemetry::Counter;

/// Goal: what an account reads to hand over after it was read again is not mixed up with what it
/// read before that: here a page of messages for Juliet alone came in the place of one of all, and
/// the message for the nurse that it passed over was lost.
#[test]
fn a_page_of_before_is_not_taken_for_one_of_now() {
    let mut world = World::patient(|_| ());
    world.register("nurse");
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    // Nobody else is loaded any more.
    world.pass(Duration::from_secs(60));
    romeo.sync(&mut world);
    world.node().set_late_reads(true);
    world.node().stall_reads(true);

    romeo.say("juliet@localhost", "1");
    romeo.sync(&mut world);
    world.pass(Duration::from_secs(4));
    romeo.say("nurse@localhost", "2");
    romeo.sync(&mut world);
    assert_eq!(world.node().stall_reads(true), 2, "both are read");
    // Juliet has not answered in time: what waits for her is read.
    world.pass(Duration::from_millis(1_100));
    world.pass(Duration::from_millis(300));
    assert_eq!(world.node().stall_reads(true), 3);
    // A change is refused: Romeo is read again.
    world.hold();
    romeo.say("juliet@localhost", "3");
    world.pass(Duration::ZERO);
    world.refuse();
    assert_eq!(world.node().stall_reads(true), 4);
    // That is done first, and all that waits is asked for.
    for _ in 0..2 {
        world.node().let_read(3);
    }
    world.work();
    assert_eq!(world.node().stall_reads(true), 4);
    // Then comes what waited for Juliet.
    for at in [2, 3] {
        world.node().let_read(at);
    }
    world.work();

    world.node().stall_reads(false);
    world.pass(Duration::from_secs(2));
    romeo.expect(&mut world, "<resource-constraint");
    for (user, body) in [("juliet", 1), ("nurse", 2)] {
        let mut peer = world.login(user, "r");
        peer.send("<presence/>");
        world.pass(Duration::from_secs(20));
        let seen = peer.expect(&mut world, "</message>");
        assert_eq!(bodies(&seen), [body], "{user}: {seen}");
    }
}

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
