//! Up to where an account has had a room's log: what is recorded of it, what is not recorded yet,
//! and what cannot be.

use super::*;

/// What a session in the room was written is recorded once it is so many places ahead: after a kill
/// the rest is given once more, and nothing else.
#[test]
fn a_mark_is_recorded_every_so_many_places() {
    for (every, recorded) in [(1, 6), (4, 4), (32, 0)] {
        let mut world = World::patient(|options| {
            options.delivery.limits.member_mark_every = every;
        });
        let mut romeo = room(&mut world);
        let mut juliet = enter(&mut world, "juliet", "juliet");
        for number in 1..=6 {
            say(&mut world, &mut romeo, [number]);
            juliet.expect(&mut world, &format!("<body>{number}</body>"));
        }
        world.work();
        drop((romeo, juliet));
        world.crash();
        let mut phone = Phone::on(&mut world, false);
        let again = Vec::from_iter(recorded + 1..=6);
        assert_eq!(phone.said(&mut world), again, "every {every}");
    }
}

/// Goal: what a session in the room was written is not given to it again when it leaves, although
/// the account was read again meanwhile and no record says so.
#[test]
fn what_an_occupant_was_written_is_not_forgotten_when_an_append_fails() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    let mut juliet = enter(&mut world, "juliet", "juliet");
    say(&mut world, &mut romeo, 1..=3);
    juliet.expect(&mut world, "<body>3</body>");
    fail_a_change(&mut world, &mut juliet);
    leave_and_hear(&mut world, &mut romeo, &mut juliet);
}

/// Goal: what a session in the room is written does not depend on the record that says so: neither
/// is it lost with that, nor given again.
#[test]
fn what_an_occupant_is_sent_is_written_although_that_is_not_recorded() {
    let mut world = World::patient(|options| {
        options.delivery.limits.member_mark_every = 2;
    });
    let mut romeo = room(&mut world);
    let mut juliet = enter(&mut world, "juliet", "juliet");
    say(&mut world, &mut romeo, [1]);
    juliet.expect(&mut world, "<body>1</body>");
    world.hold();
    romeo.send(&message(2));
    world.work();
    // That it was said; and then that she has it.
    world.let_one_go();
    world.refuse_one();
    world.let_go();
    juliet.expect(&mut world, "<body>2</body>");
    rest(&mut world);
    leave_and_hear(&mut world, &mut romeo, &mut juliet);
}

/// She leaves the room, and is given what is said from then on.
fn leave_and_hear(world: &mut World, romeo: &mut Peer, juliet: &mut Peer) {
    let leaves = format!("<presence type='unavailable' to='{ROOM}/juliet'/><presence/>");
    juliet.ask(world, &leaves, "code='110'");
    rest(world);
    say(world, romeo, [9]);
    assert_eq!(bodies(&juliet.expect(world, "<body>9</body>")), [9]);
}

/// A change of her roster that finds no room.
fn fail_a_change(world: &mut World, juliet: &mut Peer) {
    world.hold();
    juliet.send(
        "<iq type='set' id='change'><query xmlns='jabber:iq:roster'>\
         <item jid='nurse@localhost'/></query></iq>",
    );
    world.work();
    world.refuse_one();
    world.let_go();
    juliet.expect(world, "<resource-constraint");
    rest(world);
}

/// A device whose stanzas are not counted yet, and that is not online.
fn uncounted(world: &mut World) -> Phone {
    Phone {
        peer: Some(world.login("juliet", "phone")),
        token: None,
        heard: String::new(),
    }
}

/// Goal: a session that begins to read while others are about to be given what waits is given it if
/// they are not, because that could not be recorded and they went. It had begun behind it, and
/// nobody was given it.
#[test]
fn a_session_begins_to_read_where_the_account_durably_is() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    say(&mut world, &mut romeo, 1..=3);
    let mut phone = uncounted(&mut world);
    let mut tablet = world.login("juliet", "tablet");
    rest(&mut world);
    world.hold();
    phone.send(&format!("<enable {SM} resume='true'/><presence/>"));
    world.work();
    tablet.send("<presence/>");
    world.work();
    // That they are counted, and that it is online.
    world.let_one_go();
    world.let_one_go();
    // What the other one would be given.
    world.refuse_one();
    drop(tablet);
    world.work();
    world.let_go();
    assert_eq!(phone.said(&mut world), [1, 2, 3]);
    assert!(phone.heard.contains("<enabled"), "{}", phone.heard);
}

/// Goal: a page that was asked for while the session was not counted yet, and that comes when it is
/// about to be, is given to nobody, and does not count as given: after a kill the session would
/// begin behind it.
#[test]
fn a_page_that_comes_too_late_for_a_session_is_given_to_it_all_the_same() {
    let mut world = World::patient(|_| ());
    let mut romeo = room(&mut world);
    say(&mut world, &mut romeo, 1..=3);
    let mut phone = uncounted(&mut world);
    rest(&mut world);
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    phone.send("<presence/>");
    world.work();
    world.hold();
    phone.send(&format!("<enable {SM} resume='true'/>"));
    world.work();
    world.node().stall_reads(false);
    world.work();
    world.node().stall_reads(true);
    world.let_go();
    world.work();
    phone.read();
    let token = phone
        .heard
        .split("id='")
        .nth(1)
        .and_then(|rest| rest.split('\'').next());
    phone.token = Some(token.expect("it is counted").to_owned());
    drop((phone.peer.take(), romeo));
    world.crash();
    phone.heard.clear();
    phone.resume(&mut world);
    assert_eq!(phone.said(&mut world), [1, 2, 3]);
}
