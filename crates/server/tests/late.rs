//! Reads of the store that are done in another order than they were asked for, as threads do them:
//! an answer must not be taken for that to another question.

mod common;

use std::time::Duration;

use common::PANIC;
use common::world::{World, bodies};
use telemetry::Counter;

/// Goal: what an account reads to hand over after it was read again is not mixed up with what it
/// read before that. Here a page for Juliet with nothing in it would come in the place of one for
/// the nurse, and say that there is nothing for her either.
#[test]
fn a_page_of_before_is_not_taken_for_one_of_now() {
    let mut world = World::patient(|_| ());
    world.register("nurse");
    // Juliet is not loaded any more, and the nurse is set aside.
    world.pass(Duration::from_secs(60));
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    for _ in 0..6 {
        let mut nurse = world.login("nurse", "r");
        nurse.send(&format!("<message to='romeo@localhost'>{PANIC}</message>"));
        world.pass(Duration::ZERO);
        world.pass(Duration::ZERO);
    }
    romeo.sync(&mut world);
    world.node().set_late_reads(true);
    world.node().stall_reads(true);

    // What waits for the nurse is read, and that she does not keep up is recorded.
    romeo.say("nurse@localhost", "1");
    romeo.sync(&mut world);
    for _ in 0..3 {
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(world.node().stall_reads(true), 1);
    // Juliet takes hers only after the time-out; what else is for her is read.
    romeo.say("juliet@localhost", "2");
    romeo.sync(&mut world);
    assert_eq!(world.node().stall_reads(true), 2);
    world.pass(Duration::from_millis(5_100));
    for _ in 0..2 {
        world.node().let_read(1);
    }
    world.work();
    assert_eq!(world.node().stall_reads(true), 2);
    // A change is refused: Romeo is read again, and that is done first.
    world.hold();
    romeo.say("juliet@localhost", "3");
    world.pass(Duration::ZERO);
    world.refuse();
    assert_eq!(world.node().stall_reads(true), 3);
    for _ in 0..2 {
        world.node().let_read(2);
    }
    world.work();
    assert!(world.node().stall_reads(true) >= 4, "what waits is read");
    // Then comes what there was for Juliet.
    let last = world.node().stall_reads(true);
    for at in [1, last - 1] {
        world.node().let_read(at);
    }
    world.work();

    world.node().stall_reads(false);
    for _ in 0..60 {
        world.pass(Duration::from_secs(2));
    }
    romeo.expect(&mut world, "<resource-constraint");
    for (user, body) in [("juliet", 2), ("nurse", 1)] {
        let mut peer = world.login(user, "r");
        peer.send("<presence/>");
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
