//! Occupants whom a room comes to know by their numbers late, who come back while it is read, or
//! who are not looking: in a whole node, under a clock and a journal that move when the test says
//! so, each is told and given everything once.

mod common;

use std::time::Duration;

use common::occupants::{
    Client, PERSISTENT, ROOM, TEMPORARY, configure, configures, enter_as, enters, kick, pair, rest,
    there,
};
use common::world::{World, bodies};

/// What she was written before the room knew that she is counted came again; and what it said
/// before it knew, but after she had told it, would not have come at all.
#[test]
fn who_is_counted_once_she_has_entered_is_given_everything_once() {
    for is_between in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = Client::enter(&mut world, "romeo", "romeo");
        configure(&mut world, &mut romeo, PERSISTENT);
        let mut juliet = enter_as(&mut world, "juliet", false);
        juliet.enable(&mut world);
        romeo.say(1);
        romeo.say(2);
        rest(&mut world);
        if is_between {
            world.hold();
            romeo.say(3);
            world.work();
            // It is in his log, and the room's append waits.
            world.let_one_go();
        }
        juliet.send(&format!(
            "<presence to='{ROOM}/juliet'><show>away</show></presence>"
        ));
        world.work();
        world.let_go();
        rest(&mut world);
        for number in if is_between { 4..=4 } else { 3..=4 } {
            romeo.say(number);
        }
        rest(&mut world);
        while juliet.read() {}
        assert_eq!(bodies(&juliet.seen), [1, 2, 3, 4], "{is_between}");
    }
}

/// The room did not know by her number one who had entered before she was counted, and told her
/// that she is not there when she came back, although she was.
#[test]
fn who_is_counted_once_she_has_entered_is_there_when_she_comes_back() {
    for kind in [TEMPORARY, PERSISTENT] {
        let mut world = World::patient(|_| ());
        let mut romeo = enter_as(&mut world, "romeo", false);
        romeo.ask(&mut world, &configures(kind), "id='config'");
        let mut juliet = enter_as(&mut world, "juliet", false);
        let token = juliet.enable(&mut world);
        drop(juliet);
        rest(&mut world);
        // What she missed of presence is not known any more.
        world.node().kill("juliet@localhost");
        let mut juliet = world.connect("juliet");
        juliet.resume(&token, 0);
        rest(&mut world);
        while juliet.read() {}
        assert!(!juliet.seen.contains("unavailable"), "{}", juliet.seen);
        assert!(juliet.seen.contains("code='110'"), "{}", juliet.seen);
        let says = format!("<message type='groupchat' to='{ROOM}'><body>1</body></message>");
        romeo.send(&says);
        rest(&mut world);
        while juliet.read() {}
        assert_eq!(bodies(&juliet.seen), [1], "{}", juliet.seen);
    }
}

/// What a room said of an inactive client itself waited until that was active, unless its stanzas
/// were counted.
#[test]
fn an_inactive_client_hears_at_once_what_becomes_of_it() {
    for is_managed in [false, true] {
        let mut world = World::patient(|_| ());
        let mut romeo = Client::enter(&mut world, "romeo", "romeo");
        configure(&mut world, &mut romeo, PERSISTENT);
        let mut juliet = enter_as(&mut world, "juliet", is_managed);
        juliet.send("<inactive xmlns='urn:xmpp:csi:0'/>");
        world.work();
        kick(&mut world, &mut romeo, "juliet");
        rest(&mut world);
        while juliet.read() {}
        assert!(juliet.seen.contains("code='307'"), "{is_managed}");
    }
}

/// A room that is read asks where its sessions are. One that has just told it that its client is
/// back said so once more, and the client was told everything twice.
#[test]
fn who_comes_back_while_the_room_is_read_is_told_everything_once() {
    for is_lost in [false, true] {
        let mut world = World::patient(|_| ());
        let (_romeo, mut juliet) = pair(&mut world);
        let mut desk = Client::login(&mut world, "romeo", "desk");
        juliet.lose_link();
        world.node().kill("juliet@localhost");
        let mut peer = world.connect("juliet");
        rest(&mut world);
        if is_lost {
            world.hold();
            desk.send(&enters("desk"));
            world.work();
            peer.resume(&juliet.token, juliet.handled());
            world.work();
            // His home has recorded it, and then hers; what the room says waits for a third commit.
            world.let_one_go();
            world.let_one_go();
            peer.expect(&mut world, "<resumed");
            world.node().kill(ROOM);
            world.work();
            world.let_go();
        } else {
            world.node().set_late_reads(true);
            world.node().stall_reads(true);
            world.node().kill(ROOM);
            world.work();
            assert_eq!(world.node().stall_reads(true), 1, "that of the room");
            peer.resume(&juliet.token, juliet.handled());
            peer.expect(&mut world, "<resumed");
            world.node().set_late_reads(false);
            world.node().stall_reads(false);
        }
        rest(&mut world);
        while peer.read() {}
        // What a room that ends has to say and is not of who is there leaves all the same.
        let all = ["/romeo'", "code='110'", "<subject"];
        for once in &all[..if is_lost { 2 } else { 3 }] {
            assert_eq!(peer.seen.matches(once).count(), 1, "{once} {}", peer.seen);
        }
    }
}

/// What a client was told of itself: whether it is there, and so on.
fn told_of_itself(heard: &str) -> Vec<bool> {
    let presences = heard.split("<presence ").skip(1);
    let own = presences.filter(|one| one.contains("code='110'"));
    own.map(|one| !one.contains("type='unavailable'")).collect()
}

/// How often a client was told that it is out after it was told that it is in.
fn put_out(heard: &str) -> usize {
    let told = told_of_itself(heard);
    told.windows(2).filter(|two| two == &[true, false]).count()
}

/// A room ended before it was certain that a client had entered, and told it so. It had sent its
/// entry once more before it heard that. The next life of the room let it in, and put it out again
/// when its home said that it is not there: that was about its first entry.
#[test]
fn who_has_entered_again_is_not_put_out_for_her_first_entry() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    let mut desk = Client::login(&mut world, "romeo", "desk");
    world.hold();
    desk.send(&enters("desk"));
    world.work();
    // His home has recorded it, and the room has not.
    world.let_one_go();
    desk.send(&enters("desk"));
    world.work();
    world.node().set_late_reads(true);
    world.node().stall_reads(true);
    world.node().kill(ROOM);
    world.work();
    world.let_go();
    world.work();
    // What he sent last waits for the room, which is being read.
    assert_eq!(world.node().stall_reads(true), 1, "that of the room");
    world.node().set_late_reads(false);
    world.node().stall_reads(false);
    rest(&mut world);
    desk.read();
    let told = told_of_itself(&desk.heard);
    assert_eq!(told.first(), Some(&false), "{}", desk.heard);
    assert_eq!(put_out(&desk.heard), 0, "{}", desk.heard);
    romeo.say(1);
    rest(&mut world);
    for client in [&mut romeo, &mut juliet, &mut desk] {
        client.read();
        let all = ["desk", "juliet", "romeo"];
        assert_eq!(there(client), all, "{}", client.heard);
        assert_eq!(client.said(), [1], "{}", client.heard);
    }
}

/// A field of the configuration.
const NAMED: &str = "<field var='muc#roomconfig_roomname'><value>Coven</value></field>";

/// A room that ended while it was busy told a client that nobody knows whether it has entered,
/// which was there and had sent its entry once more; and put it out for that.
#[test]
fn who_is_there_and_enters_once_more_is_there_whatever_becomes_of_that() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    rest(&mut world);
    world.hold();
    juliet.send(&enters("juliet"));
    world.work();
    romeo.send(&configures(&format!("{PERSISTENT}{NAMED}")));
    world.work();
    // Her home has recorded it, and the room waits for the commit of its configuration.
    world.let_one_go();
    world.node().kill(ROOM);
    world.work();
    world.let_go();
    rest(&mut world);
    juliet.read();
    assert!(!juliet.heard.contains("type='error'"), "{}", juliet.heard);
    assert_eq!(put_out(&juliet.heard), 0, "{}", juliet.heard);
    romeo.say(1);
    rest(&mut world);
    for client in [&mut romeo, &mut juliet] {
        client.read();
        assert_eq!(there(client), ["juliet", "romeo"], "{}", client.heard);
        assert_eq!(client.said(), [1], "{}", client.heard);
    }
}

/// Whatever crashes while a client enters, and sends its entry again, and again whenever it hears
/// that it is out: once it was told that it is in, it is.
#[test]
fn who_was_told_that_he_has_entered_is_not_told_otherwise_whatever_crashes() {
    const HOME: &str = "romeo@localhost";
    for killed in [&[ROOM][..], &[HOME], &[HOME, ROOM], &[ROOM, HOME]] {
        for (before, between) in (0..4).flat_map(|n| (0..4).map(move |m| (n, m))) {
            for (loses_link, is_late) in [(false, false), (false, true), (true, false)] {
                let mut world = World::patient(|_| ());
                let (mut romeo, mut juliet) = pair(&mut world);
                let mut desk = Client::login(&mut world, "romeo", "desk");
                rest(&mut world);
                world.hold();
                desk.send(&enters("desk"));
                world.work();
                for _ in 0..before {
                    world.try_one();
                }
                desk.send(&enters("desk"));
                world.work();
                if loses_link {
                    desk.lose_link();
                }
                world.node().set_late_reads(is_late);
                world.node().stall_reads(is_late);
                world.kill_in_turn(killed, between);
                world.let_go();
                world.work();
                world.node().set_late_reads(false);
                world.node().stall_reads(false);
                if loses_link {
                    // What was not handled is sent again, as clients do; here it may have been.
                    desk.resume(&mut world);
                    desk.send(&enters("desk"));
                }
                let mut heard = 0;
                for _ in 0..40 {
                    world.pass(Duration::from_millis(300));
                    desk.read();
                    let told = told_of_itself(&desk.heard);
                    if told.len() > heard && told.last() == Some(&false) {
                        desk.send(&enters("desk"));
                    }
                    heard = told.len();
                }
                let case = format!("{killed:?} {before} {between} {loses_link} {is_late}");
                assert_eq!(put_out(&desk.heard), 0, "{case}: {}", desk.heard);
                for client in [&mut romeo, &mut juliet, &mut desk] {
                    client.read();
                    let all = ["desk", "juliet", "romeo"];
                    assert_eq!(there(client), all, "{case}: {}", client.heard);
                }
            }
        }
    }
}

/// A room that crashed, and then could not be read for a while, came back when somebody said
/// something to it, and those in it waited until then. So it did if it was killed meanwhile.
#[test]
fn a_room_that_crashes_and_cannot_be_read_for_a_while_comes_back() {
    let mut world = World::patient(|_| ());
    let (_romeo, mut juliet) = pair(&mut world);
    rest(&mut world);
    juliet.read();
    let before = told_of_itself(&juliet.heard).len();
    world.disk.faults().fail_reads(u64::MAX);
    for _ in 0..2 {
        world.node().kill(ROOM);
        for _ in 0..20 {
            rest(&mut world);
        }
    }
    world.disk.faults().fail_reads(0);
    for _ in 0..20 {
        rest(&mut world);
    }
    juliet.read();
    let after = told_of_itself(&juliet.heard);
    assert_eq!(after[before..], [true], "{}", juliet.heard);
}
