//! Sessions that outlive their connection, where something else happens at the same time: under a
//! clock and a journal that move when the test says so.

mod common;

use common::world::{RESUME_TIMEOUT, ROSTER_SET, World};

#[test]
fn of_two_connections_that_resume_at_once_one_has_the_session() {
    let mut world = World::new();
    let (lost, token) = world.login_managed("juliet", "balcony");
    drop(lost);
    world.work();
    let mut first = world.connect("juliet");
    let mut second = world.connect("juliet");
    // Something is recorded meanwhile, so that neither is answered at once.
    let mut other = world.login("juliet", "hall");
    world.hold();
    other.send(ROSTER_SET);
    world.work();
    first.resume(&token, 0);
    world.work();
    second.resume(&token, 0);
    world.work();
    world.let_go();
    second.expect(&mut world, "<resumed");
    first.expect(&mut world, "<failed");
    assert!(!first.seen.contains("<resumed"), "{}", first.seen);
    // It may still have a session of its own.
    first.bind(&mut world, "orchard");
    let mut romeo = world.login("romeo", "orchard");
    for peer in [&mut first, &mut second] {
        peer.ask(&mut world, "<presence/>", "<presence");
    }
    romeo.say("juliet@localhost", "one");
    for peer in [&mut first, &mut second] {
        peer.expect(&mut world, "<body>one</body>");
    }
}

/// The same while the first waits for its own change to be recorded: both heard that it goes on.
#[test]
fn a_connection_whose_resumption_is_overtaken_hears_so() {
    let mut world = World::new();
    let (mut lost, token) = world.login_managed("juliet", "balcony");
    lost.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "1");
    lost.expect(&mut world, "<body>1</body>");
    drop(lost);
    world.crash();
    let mut first = world.connect("juliet");
    let mut second = world.connect("juliet");
    world.hold();
    first.resume(&token, 0);
    // What it is owed was counted anew, and that is to be recorded.
    world.work();
    second.resume(&token, 0);
    world.work();
    world.let_go();
    let seen = second.expect(&mut world, "<body>1</body>");
    assert!(seen.contains("<resumed"), "{seen}");
    first.expect(&mut world, "<failed");
    assert!(!first.seen.contains("<resumed"), "{}", first.seen);
}

/// Its session was attached to a connection that was gone, for as long as nothing was sent to it.
#[test]
fn a_connection_that_goes_before_its_resumption_is_answered_holds_no_session() {
    let mut world = World::with(|options| options.limits.login_timeout = RESUME_TIMEOUT / 2);
    let (lost, token) = world.login_managed("juliet", "balcony");
    drop(lost);
    world.work();
    let mut other = world.login("juliet", "hall");
    let mut first = world.connect("juliet");
    world.hold();
    other.send(ROSTER_SET);
    world.work();
    first.resume(&token, 0);
    world.work();
    world.pass(RESUME_TIMEOUT / 2);
    first.expect(&mut world, "<connection-timeout");
    world.let_go();
    world.work();
    for _ in 0..2 {
        world.pass(RESUME_TIMEOUT);
    }
    // It has expired.
    let mut late = world.connect("juliet");
    late.resume(&token, 0);
    late.expect(&mut world, "<failed");
}
