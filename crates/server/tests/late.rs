//! Reads of the store that are done late, in another order than they were asked for, or not at all,
//! as threads do them: an answer must not be taken for that to another question, and who cannot be
//! read holds up nobody else.

mod common;

use std::time::Duration;

use common::PANIC;
use common::occupants::{pair, rest};
use common::world::{World, bodies, message};
use telemetry::Counter;

/// Goal: a page that was asked for before an account was read again is not taken for one of now,
/// although both have the same name. Here it is one of what waits for Juliet alone. Taken for one
/// of all that waits, it would pass over the nurse's message, which nobody else has.
#[test]
fn a_page_of_before_is_not_taken_for_one_of_now() {
    let (to_juliet, to_nurse) = ("juliet@localhost", "nurse@localhost");
    let mut world = World::patient(|options| {
        options.delivery.outbox.window_per_destination = 1;
        options.delivery.limits.loads_max = 0;
    });
    world.register("nurse");
    // She is not loaded any more.
    world.pass(Duration::from_secs(60));
    let (mut romeo, _) = world.login_managed("romeo", "orchard");
    let mut juliet = world.login("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    romeo.say(to_juliet, "0");
    juliet.expect(&mut world, "<body>0</body>");
    romeo.sync(&mut world);
    world.pass(Duration::from_secs(3));
    world.node().set_late_reads(true);
    assert_eq!(world.node().stall_reads(true), 0);

    // Juliet is given one at a time: once she has the first, what else waits for her is read.
    world.hold();
    let all = [(to_juliet, 1), (to_juliet, 2), (to_nurse, 3)];
    let all = all.map(|(to, number)| message(to, number));
    romeo.send(&all.concat());
    world.pass(Duration::ZERO);
    world.let_go();
    juliet.expect(&mut world, "<body>1</body>");
    romeo.sync(&mut world);
    // The reads of the nurse, and of what waits for Juliet.
    assert_eq!(world.node().stall_reads(true), 2);
    // A change is refused, and Romeo is to be read again.
    world.hold();
    romeo.say(to_juliet, "4");
    world.pass(Duration::ZERO);
    world.refuse();
    assert_eq!(world.node().stall_reads(true), 3);
    // Meanwhile the nurse cannot be read: she refuses what she had.
    world.disk.faults().fail_reads(u64::MAX);
    world.read_now(0);
    world.disk.faults().fail_reads(0);
    assert_eq!(world.node().stall_reads(true), 2);
    // Romeo is back, and asks for all that waits, after a pause in which the nurse is tried again.
    // Then comes what he asked for before.
    world.read_now(1);
    world.pass(Duration::from_millis(500));
    assert_eq!(world.node().stall_reads(true), 3);
    world.read_now(0);

    world.node().stall_reads(false);
    for _ in 0..20 {
        world.pass(Duration::from_secs(1));
    }
    world.node().set_late_reads(false);
    romeo.expect(&mut world, "<resource-constraint");
    let seen = juliet.sync(&mut world);
    assert_eq!(bodies(&seen), [2], "{seen}");
    let mut nurse = world.login("nurse", "r");
    nurse.send("<presence/>");
    rest(&mut world);
    let seen = nurse.sync(&mut world);
    assert_eq!(bodies(&seen), [3], "{seen}");
}

/// Goal: a request to an account that is not in use is answered, however late the store is: the
/// account does not leave the memory before.
#[test]
fn a_request_that_is_answered_late_is_answered() {
    let mut world = World::patient(|_| ());
    world.register("nurse");
    // She is not loaded any more.
    world.pass(Duration::from_secs(60));
    let mut juliet = world.login("juliet", "balcony");
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    juliet.send("<iq type='get' id='v' to='nurse@localhost'><vCard xmlns='vcard-temp'/></iq>");
    world.work();
    // She is read, and then her card.
    world.read_now(0);
    assert_eq!(world.node().stall_reads(true), 1, "the card");
    world.pass(Duration::from_secs(60));
    world.node().stall_reads(false);
    juliet.expect(&mut world, "id='v'");
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
    let stats = world.node().stats();
    assert!(stats.counter(Counter::ForwardsRetried) <= 4, "hers alone");
    assert_eq!(stats.counter(Counter::MessagesRepeated), 0);

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

/// Goal: a page of a room's log that a session was to be given before its user's actor failed is
/// not taken for one that it asks for once its client is back. Here it begins behind messages that
/// the client never got.
#[test]
fn a_page_of_a_room_of_before_is_not_taken_for_one_of_now() {
    // Her stream ends with her actor: what it said last is not kept.
    let mut world = World::patient(|options| options.joined.kept_bytes_max = 0);
    let (mut romeo, mut juliet) = pair(&mut world);
    rest(&mut world);
    juliet.acknowledge();
    rest(&mut world);
    juliet.read();
    let has_handled = juliet.handled();
    // Two messages are on their way to her client; what is behind them cannot be recorded.
    for number in [1, 2] {
        romeo.say(number);
        romeo.expect(&mut world, &format!("<body>{number}</body>"));
    }
    world.hold();
    romeo.say(3);
    world.work();
    world.let_one_go();
    world.let_one_go();
    world.refuse();
    // What his messages wait for is read.
    world.pass(Duration::from_millis(500));
    romeo.lose_link();
    let mut again = world.connect("juliet");
    world.node().set_late_reads(true);
    assert_eq!(world.node().stall_reads(true), 0);
    // It is asked for after a pause.
    world.pass(Duration::from_secs(6));
    assert_eq!(world.node().stall_reads(true), 1, "a page of the room");
    juliet.send(&format!("<message to='romeo@localhost'>{PANIC}</message>"));
    world.pass(Duration::ZERO);
    juliet.peer = None;
    world.work();
    assert_eq!(world.node().stall_reads(true), 2, "she is read again");
    world.read_now(1);
    again.resume(&juliet.token, has_handled);
    again.expect(&mut world, "<resumed");
    world.pass(Duration::ZERO);
    assert_eq!(world.node().stall_reads(true), 2, "another page");
    world.read_now(0);
    world.read_now(0);
    world.node().stall_reads(false);
    world.node().set_late_reads(false);
    rest(&mut world);
    let seen = again.sync(&mut world);
    assert_eq!(bodies(&seen), [1, 2, 3], "{seen}");
}
