//! Managed sessions in a room (XEP-0198, XEP-0045) in a whole node, under a clock and a journal
//! that move when the test says so: what the room accepted reaches each of them once and in the
//! room's order, whatever links are lost and whenever the node is killed.

mod common;

use std::time::Duration;

use common::PANIC;
use common::occupants::{
    Client, MUC, PERSISTENT, ROOM, TEMPORARY, configure, configures, enter_as, enters, kick, pair,
    pair_in, rest, there,
};
use common::world::{Peer, RESUME_TIMEOUT, SM, World, bodies, stanzas};
use stdx::rand::Rng;

#[test]
fn what_was_said_to_a_lost_link_comes_once() {
    let kinds = [TEMPORARY, PERSISTENT];
    let all = kinds
        .into_iter()
        .flat_map(|kind| [(kind, false), (kind, true)]);
    for (kind, is_killed) in all {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = pair_in(&mut world, kind);
        for number in 1..=3 {
            romeo.say(number);
        }
        juliet.expect(&mut world, "<body>2</body>");
        // What else is under way never arrives.
        juliet.peer = None;
        romeo.expect(&mut world, "<body>3</body>");
        for number in 4..=8 {
            romeo.say(number);
        }
        romeo.expect(&mut world, "<body>8</body>");
        if is_killed {
            romeo.lose_link();
            world.crash();
            romeo.resume(&mut world);
        }
        rest(&mut world);
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        romeo.say(9);
        rest(&mut world);
        juliet.read();
        assert_eq!(
            juliet.said(),
            [1, 2, 3, 4, 5, 6, 7, 8, 9],
            "killed: {is_killed} {kind}"
        );
    }
}

/// Whether the room is there for somebody who asks, and whether the store has it.
fn is_there(world: &mut World) -> (bool, bool) {
    let mut asker = world.login("juliet", "asker");
    let asks = format!(
        "<iq type='get' id='there' to='{ROOM}'>\
         <query xmlns='http://jabber.org/protocol/disco#info'/></iq>"
    );
    let answer = asker.ask(world, &asks, "</iq>");
    let stored = common::store_on(&world.disk).room(ROOM);
    let is_stored = stored.expect("the store is read").is_some();
    (answer.contains("muc_temporary"), is_stored)
}

#[test]
fn a_temporary_room_is_kept_for_as_long_as_managed_sessions_are_in_it() {
    let mut world = World::patient(|_| ());
    let mut plain = world.login("romeo", "plain");
    let enters = enters("plain");
    plain.ask(&mut world, &enters, "<subject");
    let accepts = format!(
        "<iq type='set' id='made' to='{ROOM}'><query xmlns='{MUC}#owner'>\
         <x xmlns='jabber:x:data' type='submit'/></query></iq>"
    );
    plain.ask(&mut world, &accepts, "id='made'");
    assert_eq!(is_there(&mut world), (true, false));
    let mut juliet = Client::enter(&mut world, "juliet", "juliet");
    rest(&mut world);
    assert_eq!(is_there(&mut world), (true, true));
    juliet.lose_link();
    drop(plain);
    world.crash();
    assert_eq!(is_there(&mut world), (true, true));
    juliet.resume(&mut world);
    rest(&mut world);
    let mut plain = world.login("romeo", "plain");
    let seen = plain.ask(&mut world, &enters, "<subject");
    assert!(seen.contains("/juliet'"), "{seen}");
    // The last of them leaves, others stay.
    juliet.send(&format!(
        "<presence type='unavailable' to='{ROOM}/juliet'/>"
    ));
    rest(&mut world);
    assert_eq!(is_there(&mut world), (true, false));
    // And comes back; then the last of all leaves.
    let mut juliet = Client::enter(&mut world, "juliet", "again");
    rest(&mut world);
    assert_eq!(is_there(&mut world), (true, true));
    plain.send(&format!("<presence type='unavailable' to='{ROOM}/plain'/>"));
    juliet.send(&format!("<presence type='unavailable' to='{ROOM}/again'/>"));
    rest(&mut world);
    assert_eq!(is_there(&mut world), (false, false));
}

/// The room was brought into the store when the first managed session was in it and had been told
/// so: a kill in between put it out.
#[test]
fn who_is_told_that_she_is_in_a_temporary_room_is_there_after_a_kill() {
    for is_made in [true, false] {
        let mut world = World::patient(|_| ());
        let mut plain = world.login("romeo", "plain");
        if is_made {
            plain.ask(&mut world, &enters("plain"), "<subject");
            let accepts = format!(
                "<iq type='set' id='made' to='{ROOM}'><query xmlns='{MUC}#owner'>\
                 <x xmlns='jabber:x:data' type='submit'/></query></iq>"
            );
            plain.ask(&mut world, &accepts, "id='made'");
        }
        let mut juliet = Client::login(&mut world, "juliet", "juliet");
        world.hold();
        juliet.send(&enters("juliet"));
        let mut commits = 0;
        loop {
            world.work();
            juliet.read();
            if juliet.heard.contains("code='110'") {
                break;
            }
            commits += usize::from(world.try_one());
            std::thread::sleep(Duration::from_millis(1));
        }
        juliet.lose_link();
        drop(plain);
        world.crash();
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        let heard = &juliet.heard;
        assert_eq!(there(&juliet), ["juliet"], "{commits} commits: {heard}");
        assert!(!heard.contains("code='333'"), "{heard}");
        assert_eq!(is_there(&mut world), (true, true));
    }
}

#[test]
fn a_temporary_room_ends_when_the_time_of_those_it_waited_for_is_up() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair_in(&mut world, TEMPORARY);
    romeo.lose_link();
    juliet.lose_link();
    world.crash();
    rest(&mut world);
    assert_eq!(is_there(&mut world), (true, true));
    world.pass(RESUME_TIMEOUT);
    rest(&mut world);
    assert_eq!(is_there(&mut world), (false, false));
}

#[test]
fn a_room_that_becomes_temporary_keeps_what_managed_sessions_have_not_read() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.peer = None;
    rest(&mut world);
    romeo.say(1);
    romeo.expect(&mut world, "<body>1</body>");
    let not = PERSISTENT.replace(">1<", ">0<");
    configure(&mut world, &mut romeo, &not);
    romeo.say(2);
    romeo.expect(&mut world, "<body>2</body>");
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    juliet.resume(&mut world);
    romeo.say(3);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1, 2, 3]);
    assert_eq!(is_there(&mut world), (true, true));
}

#[test]
fn who_does_not_come_back_leaves_when_his_time_is_up() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.lose_link();
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    rest(&mut world);
    romeo.read();
    let gone = |heard: &str| heard.contains("type='unavailable'");
    assert!(!gone(&romeo.heard), "{}", romeo.heard);
    world.pass(RESUME_TIMEOUT);
    rest(&mut world);
    romeo.read();
    assert!(gone(&romeo.heard), "{}", romeo.heard);
    // The room has forgotten her for good.
    romeo.lose_link();
    world.crash();
    rest(&mut world);
    let mut late = Client::enter(&mut world, "juliet", "other");
    late.read();
    assert!(!late.heard.contains("/juliet'"), "{}", late.heard);
}

#[test]
fn an_occupant_without_stream_management_is_gone_after_a_kill() {
    let mut world = World::patient(|_| ());
    let mut romeo = Client::enter(&mut world, "romeo", "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let mut plain = world.login("juliet", "balcony");
    plain.ask(&mut world, &enters("juliet"), "<subject");
    romeo.expect(&mut world, "/juliet'");
    romeo.lose_link();
    drop(plain);
    world.crash();
    let before = romeo.heard.len();
    romeo.resume(&mut world);
    rest(&mut world);
    romeo.read();
    let (_, after) = romeo.heard.split_at(before);
    let juliet = after
        .split("<presence")
        .find(|one| one.contains("/juliet'"));
    assert!(
        juliet.is_some_and(|one| one.contains("type='unavailable'")),
        "{after}"
    );
    assert!(after.contains("code='110'"), "{after}");
}

#[test]
fn a_room_that_crashes_has_its_managed_occupants() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    romeo.say(1);
    juliet.expect(&mut world, "<body>1</body>");
    romeo.send(&format!(
        "<message type='groupchat' to='{ROOM}'><x xmlns='urn:x'/>{PANIC}-in-the-room</message>"
    ));
    for _ in 0..20 {
        rest(&mut world);
    }
    juliet.say(2);
    for _ in 0..5 {
        rest(&mut world);
    }
    for client in [&mut romeo, &mut juliet] {
        client.read();
        let said: Vec<usize> = client.said();
        assert_eq!(said, [1, 2], "{}", client.heard);
    }
}

/// Whatever crashes while she enters, her client is told that she is there, or that she is not.
#[test]
fn who_enters_is_told_so_whatever_crashes() {
    const HOME: &str = "juliet@localhost";
    for killed in [&[HOME][..], &[ROOM], &[HOME, ROOM], &[ROOM, HOME]] {
        for (before, between) in (0..6).flat_map(|n| (0..3).map(move |m| (n, m))) {
            for asks in [false, true] {
                let mut world = World::patient(|_| ());
                let mut romeo = Client::enter(&mut world, "romeo", "romeo");
                configure(&mut world, &mut romeo, PERSISTENT);
                let mut juliet = Client::login(&mut world, "juliet", "juliet");
                rest(&mut world);
                world.hold();
                juliet.send(&enters("juliet"));
                if asks {
                    juliet.send(&format!("<r {SM}/>"));
                }
                world.work();
                for _ in 0..before {
                    world.try_one();
                }
                world.kill_in_turn(killed, between);
                world.let_go();
                rest(&mut world);
                juliet.read();
                let is_told =
                    juliet.heard.contains("code='110'") || juliet.heard.contains("type='error'");
                assert!(
                    is_told,
                    "{killed:?} {before} {between} {asks}: {}",
                    juliet.heard
                );
            }
        }
    }
}

#[test]
fn who_leaves_is_owed_nothing_more() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    romeo.say(1);
    juliet.expect(&mut world, "<body>1</body>");
    juliet.send(&format!(
        "<presence type='unavailable' to='{ROOM}/juliet'/>"
    ));
    juliet.expect(&mut world, "code='110'");
    juliet.expect(&mut world, "</presence>");
    romeo.say(2);
    romeo.expect(&mut world, "<body>2</body>");
    juliet.lose_link();
    romeo.lose_link();
    world.crash();
    juliet.resume(&mut world);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1]);
    // She may come again, and is told of it from there.
    juliet.send(&format!(
        "<presence to='{ROOM}/juliet'><x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>"
    ));
    juliet.expect(&mut world, "<subject");
    romeo.resume(&mut world);
    romeo.say(3);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1, 3]);
}

#[test]
fn who_leaves_and_enters_in_one_breath_is_there() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.send(&format!(
        "<presence type='unavailable' to='{ROOM}/juliet'/>\
         <presence to='{ROOM}/juliet'><x xmlns='{MUC}'/></presence>"
    ));
    juliet.expect(&mut world, "<subject");
    juliet.expect(&mut world, "</message>");
    rest(&mut world);
    juliet.lose_link();
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    rest(&mut world);
    juliet.resume(&mut world);
    romeo.say(1);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1], "{}", juliet.heard);
}

#[test]
fn what_was_said_before_the_room_heard_of_a_client_that_is_back_comes() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    // Nothing was said yet, so that nothing is recorded of how far she has read.
    juliet.lose_link();
    romeo.say(1);
    romeo.expect(&mut world, "<body>1</body>");
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    rest(&mut world);
    world.hold();
    romeo.say(2);
    world.work();
    let mut peer = world.connect("juliet");
    peer.resume(&juliet.token, juliet.handled());
    world.work();
    // The room's commit is over before those of her home are.
    for _ in 0..4 {
        world.let_one_go();
        world.work();
    }
    world.let_go();
    let seen = peer.expect(&mut world, "/>");
    assert!(seen.contains("<resumed"), "{seen}");
    juliet.peer = Some(peer);
    rest(&mut world);
    juliet.read();
    romeo.read();
    assert_eq!(romeo.said(), [1, 2]);
    assert_eq!(juliet.said(), [1, 2], "{}", juliet.heard);
}

#[test]
fn who_was_away_everywhere_is_owed_nothing_of_that_time() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    romeo.say(1);
    juliet.expect(&mut world, "<body>1</body>");
    juliet.send("<presence type='unavailable'/>");
    romeo.expect(&mut world, "type='unavailable'");
    romeo.say(2);
    romeo.expect(&mut world, "<body>2</body>");
    juliet.send(&format!(
        "<presence/>\
         <presence to='{ROOM}/juliet'><x xmlns='{MUC}'><history maxstanzas='0'/></x></presence>"
    ));
    juliet.expect(&mut world, "<subject");
    romeo.say(3);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1, 3], "{}", juliet.heard);
}

#[test]
fn who_is_put_out_after_a_kill_is_told_when_she_is_back() {
    let mut world = World::patient(|options| {
        options.delivery.resume_timeout = Duration::from_secs(1_000);
    });
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.lose_link();
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    rest(&mut world);
    kick(&mut world, &mut romeo, "juliet");
    rest(&mut world);
    let before = juliet.heard.len();
    juliet.resume(&mut world);
    rest(&mut world);
    juliet.read();
    let (_, after) = juliet.heard.split_at(before);
    let is_told = after.contains("code='110'") && after.contains("type='unavailable'");
    assert!(is_told, "{after}");
}

/// A room says that a session was put out, and its client never reads it: the session's home had
/// forgotten the room as soon as it was written, so that after a kill nobody told the client.
#[test]
fn who_was_put_out_and_has_not_read_it_is_told_at_each_resumption() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    kick(&mut world, &mut romeo, "juliet");
    rest(&mut world);
    romeo.lose_link();
    let before = juliet.heard.len();
    for _ in 0..3 {
        // What is on its way never arrives.
        juliet.peer = None;
        juliet.heard.truncate(before);
        world.crash();
        juliet.resume(&mut world);
        rest(&mut world);
        juliet.read();
        let (_, after) = juliet.heard.split_at(before);
        let is_told = after.contains("code='110'") && after.contains("type='unavailable'");
        assert!(is_told, "{after}");
    }
}

/// She is put out while she sends presence again. Her home forgot the room when it heard that,
/// though she had entered since.
#[test]
fn who_enters_before_she_hears_that_she_is_out_is_there() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    romeo.send(&format!(
        "<iq type='set' id='kick' to='{ROOM}'><query xmlns='{MUC}#admin'>\
         <item nick='juliet' role='none'/></query></iq>"
    ));
    juliet.send(&enters("juliet"));
    romeo.expect(&mut world, "id='kick'");
    rest(&mut world);
    juliet.acknowledge();
    rest(&mut world);
    let (_, after) = juliet.heard.split_once("code='307'").expect("she is out");
    assert!(after.contains("code='110'"), "and in again: {after}");
    juliet.lose_link();
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    juliet.resume(&mut world);
    rest(&mut world);
    romeo.say(1);
    rest(&mut world);
    juliet.read();
    assert_eq!(juliet.said(), [1], "{}", juliet.heard);
}

/// A session takes the name of another one while commits are held: the first to come to be are what
/// was under way before, and the end of the other one.
fn take_name(peer: &mut Peer, world: &mut World, resource: &str) {
    peer.send(&format!(
        "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
         <resource>{resource}</resource></bind></iq>"
    ));
    world.work();
    world.let_one_go();
    world.let_one_go();
    peer.expect(world, "</bind></iq>");
}

/// A copy is on its way to a session while another one takes its name. That one was given it,
/// though it had not entered, and what follows was counted from there.
#[test]
fn a_session_is_given_nothing_of_one_that_had_its_name() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.lose_link();
    let mut peer = world.connect("juliet");
    world.hold();
    romeo.say(1);
    world.work();
    // What he says is handed over to the room, whose commit comes behind that of her old session.
    take_name(&mut peer, &mut world, "juliet");
    peer.send(&format!("<enable {SM} resume='true'/>"));
    world.work();
    world.let_go();
    peer.expect(&mut world, "<enabled");
    rest(&mut world);
    romeo.read();
    assert_eq!(romeo.said(), [1]);
    while peer.read() {}
    assert!(!peer.seen.contains("<body>1"), "{}", peer.seen);
}

/// A session enters, and another one takes its name before the room has said so. That one was told
/// that it is there, and believed it for good if the process was killed before the room had heard
/// that the first one has ended.
#[test]
fn a_session_is_not_told_that_it_is_where_one_was_that_had_its_name() {
    let mut world = World::patient(|_| ());
    let (mut romeo, _juliet) = pair(&mut world);
    let (mut old, _) = world.login_managed("romeo", "desk");
    let mut peer = world.connect("romeo");
    world.hold();
    old.send(&enters("desk"));
    world.work();
    // The room's commit comes behind that of the old session's end.
    take_name(&mut peer, &mut world, "desk");
    world.work();
    world.let_go();
    rest(&mut world);
    while peer.read() {}
    for presence in peer.seen.split("<presence ").skip(1) {
        assert!(presence.contains("type='unavailable'"), "{}", peer.seen);
    }
    romeo.read();
    assert_eq!(there(&romeo), ["juliet", "romeo"], "{}", romeo.heard);
}

/// The same, and the new session enters before the room has answered the first one: it took for its
/// own that the first one was there, and that it has left.
#[test]
fn a_session_is_not_told_what_became_of_one_that_had_its_name() {
    let mut world = World::patient(|_| ());
    let (mut romeo, _juliet) = pair(&mut world);
    let (mut old, _) = world.login_managed("romeo", "desk");
    let mut peer = world.connect("romeo");
    let enters = enters("desk");
    world.hold();
    old.send(&enters);
    world.work();
    // The room's commit comes behind that of the old session's end.
    take_name(&mut peer, &mut world, "desk");
    peer.send(&format!("<enable {SM} resume='true'/>{enters}"));
    world.work();
    world.let_go();
    rest(&mut world);
    while peer.read() {}
    let own = peer
        .seen
        .split("<presence ")
        .filter(|one| one.contains("code='110'"));
    let own: Vec<&str> = own.collect();
    assert_eq!(own.len(), 1, "{}", peer.seen);
    assert!(!own[0].contains("type='unavailable'"), "{}", peer.seen);
    romeo.read();
    assert_eq!(
        there(&romeo),
        ["desk", "juliet", "romeo"],
        "{}",
        romeo.heard
    );
}

/// A session enters, and enables stream management only then: the room does not know that it is
/// managed, and it hears what is said all the same.
#[test]
fn who_has_entered_before_her_stanzas_are_counted_hears_what_is_said() {
    let mut world = World::patient(|_| ());
    let mut romeo = Client::enter(&mut world, "romeo", "romeo");
    configure(&mut world, &mut romeo, PERSISTENT);
    let mut juliet = enter_as(&mut world, "juliet", false);
    juliet.enable(&mut world);
    for number in 1..=2 {
        romeo.say(number);
    }
    juliet.expect(&mut world, "<body>2</body>");
    // From here on the room knows.
    juliet.ask(&mut world, &enters("juliet"), "<subject");
    romeo.say(3);
    juliet.expect(&mut world, "<body>3</body>");
}

/// Presence of another device waits for a commit since before a client was back, and other presence
/// behind it: only the latter was counted as waiting, so that a message of the room was recorded
/// with a count that a stanza in front of it has. The client had handled that one, and so the
/// message counted as arrived.
#[test]
fn what_waited_since_before_a_client_was_back_is_counted() {
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    juliet.send("<presence/>");
    juliet.expect(&mut world, "<presence");
    rest(&mut world);
    juliet.lose_link();
    romeo.say(1);
    romeo.expect(&mut world, "<body>1</body>");
    romeo.lose_link();
    world.crash();
    romeo.resume(&mut world);
    let mut hall = world.login("juliet", "hall");
    let mut peer = world.connect("juliet");
    rest(&mut world);
    let mut record = |world: &mut World, then: &str, number: usize| {
        hall.send(&format!(
            "<iq type='set' id='roster'><query xmlns='jabber:iq:roster'>\
             <item jid='n{number}@localhost'/></query></iq>"
        ));
        world.work();
        hall.send(then);
        world.work();
    };
    world.hold();
    record(&mut world, "", 1);
    // It is taken up behind the first record.
    peer.resume(&juliet.token, juliet.handled());
    world.work();
    record(&mut world, "<presence/>", 2);
    world.let_one_go();
    record(&mut world, "<presence><show>away</show></presence>", 3);
    // Her old presence, then the word that her session goes on; behind that the room is asked.
    while !peer.seen.contains("<resumed") {
        world.let_one_go();
        while peer.read() {}
    }
    rest(&mut world);
    world.let_go();
    rest(&mut world);
    juliet.peer = Some(peer);
    juliet.read();
    let (_, seen) = juliet.heard.split_once("<resumed").expect("it goes on");
    let (before, _) = seen.split_once("<body>1").expect("it comes");
    let before = &before[..before.rfind("<message").expect("its beginning")];
    let handled = stanzas(&juliet.heard) - stanzas(seen) + stanzas(before);
    // She has not got the message.
    juliet.peer = None;
    let mut peer = world.connect("juliet");
    peer.resume(&juliet.token, handled);
    peer.expect(&mut world, "<body>1</body>");
}

/// A session that has sent presence to as many addresses as it may could not send any to another
/// one, although a room of them had put it out.
#[test]
fn a_room_that_has_put_her_out_makes_way_for_another_address() {
    const ADDRESSES_MAX: usize = 1_000;
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = pair(&mut world);
    kick(&mut world, &mut romeo, "juliet");
    juliet.expect(&mut world, "code='307'");
    let peer = juliet.peer.as_mut().expect("it has a link");
    let mut seen = String::new();
    for number in 1..=ADDRESSES_MAX {
        peer.send(&format!("<presence to='n{number}@localhost'/>"));
        if number.is_multiple_of(50) {
            seen.push_str(&peer.sync(&mut world));
        }
    }
    assert!(!seen.contains("resource-constraint"), "{seen}");
    peer.send("<presence to='more@localhost'/>");
    peer.expect(&mut world, "resource-constraint");
}

/// Others had been told of a new nick although the disk was full. After a kill the old one was
/// there again, and nobody took back the new one.
#[test]
fn nobody_is_told_of_a_nick_that_a_kill_takes_back() {
    for is_killed in [true, false] {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = pair(&mut world);
        world.hold();
        juliet.send(&format!("<presence to='{ROOM}/capulet'/>"));
        world.work();
        // Her home has recorded it, and the room cannot.
        world.let_one_go();
        world.refuse();
        if is_killed {
            romeo.lose_link();
            juliet.lose_link();
            world.crash();
            romeo.resume(&mut world);
            juliet.resume(&mut world);
        }
        rest(&mut world);
        romeo.read();
        juliet.read();
        let expected = if is_killed { "juliet" } else { "capulet" };
        assert_eq!(there(&romeo), [expected, "romeo"], "{}", romeo.heard);
        assert_eq!(there(&juliet), [expected, "romeo"], "{}", juliet.heard);
    }
}

/// A room that ended dropped what waited behind a commit and was about others than that commit: who
/// was refused waited for ever, and who is not there was never told.
#[test]
fn who_is_not_there_is_told_so_though_the_room_ends_before_a_commit() {
    let mut world = World::patient(|_| ());
    let (_romeo, _juliet) = pair(&mut world);
    let mut desk = Client::login(&mut world, "romeo", "desk");
    let mut phone = world.login("juliet", "phone");
    world.hold();
    desk.send(&enters("desk"));
    world.work();
    // His home has recorded it, and the room has not.
    world.let_one_go();
    world.work();
    phone.send(&enters("romeo"));
    world.work();
    world.node().kill(ROOM);
    world.work();
    world.let_go();
    rest(&mut world);
    while phone.read() {}
    assert!(phone.seen.contains("<conflict "), "{}", phone.seen);
}

/// The room had told others of one who entered, although nobody knew whether that was durable. What
/// is lost for certain is tried again.
#[test]
fn nobody_is_told_of_an_entry_that_is_in_doubt() {
    for is_in_doubt in [false, true] {
        let mut world = World::patient(|_| ());
        let (mut romeo, mut juliet) = pair(&mut world);
        let mut desk = Client::login(&mut world, "romeo", "desk");
        let enter = enters("desk");
        world.hold();
        desk.send(&enter);
        world.work();
        // His home has recorded it.
        world.let_one_go();
        match is_in_doubt {
            true => world.switches().fence(1),
            false => world.switches().lose(1),
        }
        world.release_one();
        world.switches().fence(0);
        world.let_go();
        world.settle();
        rest(&mut world);
        if is_in_doubt {
            for client in [&mut romeo, &mut juliet] {
                client.read();
                assert_eq!(there(client), ["juliet", "romeo"], "{}", client.heard);
                assert!(!client.heard.contains("/desk'"), "{}", client.heard);
            }
            // He is told so, and may enter again.
            desk.read();
            assert!(desk.heard.contains("code='333'"), "{}", desk.heard);
            assert_eq!(there(&desk), [""; 0], "{}", desk.heard);
            desk.send(&enter);
            rest(&mut world);
        }
        for client in [&mut romeo, &mut juliet, &mut desk] {
            client.read();
            let all = ["desk", "juliet", "romeo"];
            assert_eq!(there(client), all, "{}", client.heard);
        }
    }
}

/// A schedule of a room with three managed clients of two users.
fn play(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let window = [1, 2, 4, 256][rng.usize(..4)];
    let page = [1, 2, 4, 50][rng.usize(..4)];
    let mut world = World::patient(|options| {
        options.shards = rng.u16(1..=2);
        options.delivery.resume_timeout = Duration::from_secs(100_000);
        options.delivery.limits.rooms.window = window;
        options.delivery.limits.rooms.page = page;
        options.rooms.copies_per_turn = [1, 2, 256][rng.usize(..3)];
        options.rooms.waits_max = [1, 2, 64][rng.usize(..3)];
        options.rooms.kept_records_max = [1, 2, 1_000][rng.usize(..3)];
        options.delivery.limits.rooms.answer_timeout =
            Duration::from_millis([1, 300, 5_000][rng.usize(..3)]);
    });
    let mut first = Client::enter(&mut world, "romeo", "first");
    configure(
        &mut world,
        &mut first,
        [TEMPORARY, PERSISTENT][rng.usize(..2)],
    );
    let second = Client::enter(&mut world, "juliet", "second");
    let third = Client::enter(&mut world, "romeo", "third");
    let mut clients = [first, second, third];
    // By a refusal, if a count was recorded ahead for what was not written.
    clients.iter_mut().for_each(Client::may_end);
    rest(&mut world);
    let mut number = 0;
    for _ in 0..80 {
        let at = rng.usize(..clients.len());
        let client = &mut clients[at];
        match rng.u8(..20) {
            0..=6 => {
                number += 1;
                if client.peer.is_some() {
                    client.say(number);
                }
                world.work();
            }
            7..=9 => world.pass(Duration::from_millis(rng.u64(..2_000))),
            10..=11 => client.acknowledge(),
            12 if rng.bool() => client.lose_link(),
            // What is on its way never arrives.
            12 => client.peer = None,
            13..=14 => {
                world.let_go();
                client.resume(&mut world);
                client.may_end();
            }
            15 => world.hold(),
            16 => world.let_go(),
            17 => {
                world.hold();
                world.try_one();
            }
            18 if rng.u8(..3) > 0 => client.read(),
            // The disk is full.
            18 => world.refuse(),
            _ if rng.u8(..3) == 0 => {
                for client in &mut clients {
                    match rng.bool() {
                        true => client.lose_link(),
                        false => client.peer = None,
                    }
                }
                world.crash();
            }
            _ => world.work(),
        }
    }
    world.let_go();
    let settle = |world: &mut World, clients: &mut [Client; 3]| {
        for client in clients {
            client.resume(world);
            client.acknowledge();
        }
        world.pass(Duration::from_millis(500));
    };
    // What was accepted reaches the room.
    for _ in 0..40 {
        settle(&mut world, &mut clients);
    }
    let mut reader = world.login("juliet", "reader");
    let presence = enters("reader");
    let seen = reader.ask(&mut world, &presence, "<subject");
    let kept = bodies(&seen);
    // Everybody gets the same. With a window of one, that takes a while.
    for _ in 0..400 {
        let has_all = |client: &Client| client.said().last() == kept.last();
        if clients.iter().all(has_all) {
            break;
        }
        settle(&mut world, &mut clients);
        std::thread::sleep(Duration::from_millis(1));
    }
    for client in &clients {
        let said = client.said();
        // Of a room with more than it tells those who enter, the last ones.
        let last = &said[said.len().saturating_sub(kept.len())..];
        assert_eq!(
            last, kept,
            "schedule {seed}: {} heard {said:?}",
            client.nick
        );
        assert_eq!(said, clients[0].said(), "schedule {seed}: one order");
        let mut once = said.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), said.len(), "schedule {seed}: {said:?}");
        let nicks: Vec<&str> = vec!["first", "second", "third"];
        for nick in nicks {
            assert!(
                seen.contains(&format!("/{nick}'")),
                "schedule {seed}: {nick} is not there"
            );
        }
    }
}

/// How many, unless the environment says otherwise.
const SCHEDULES: u64 = 60;

#[test]
fn no_schedule_loses_or_doubles_what_was_said() {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    let first = number("ROOM_SCHEDULE").unwrap_or(1);
    let count = number("ROOM_SCHEDULES").unwrap_or(SCHEDULES);
    for seed in first..first + count {
        play(seed);
    }
}

/// Rooms are told a few at a time that a client is back; all of them are.
#[test]
fn who_is_in_many_rooms_hears_of_each_when_she_is_back() {
    const ROOMS: usize = 30;
    let mut world = World::patient(|_| ());
    let (mut romeo, mut juliet) = (
        world.login("romeo", "romeo"),
        world.login("juliet", "juliet"),
    );
    let token = juliet.enable(&mut world);
    let room = |number: usize| format!("r{number}@conference.localhost");
    for number in 0..ROOMS {
        let there = |text: &str| text.replace(ROOM, &room(number));
        romeo.ask(&mut world, &there(&enters("romeo")), "<subject");
        romeo.ask(&mut world, &there(&configures(PERSISTENT)), "id='config'");
        juliet.ask(&mut world, &there(&enters("juliet")), "<subject");
    }
    drop((romeo, juliet));
    world.crash();
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, 0);
    juliet.expect(&mut world, "<resumed");
    let mut heard = Vec::new();
    for _ in 0..ROOMS {
        let seen = juliet.expect_patiently(&mut world, "<status code='110'/>");
        let from = seen.rsplit("from='").next().expect("an address");
        heard.push(from.split('/').next().expect("a room").to_owned());
    }
    heard.sort();
    let mut all: Vec<String> = (0..ROOMS).map(room).collect();
    all.sort();
    assert_eq!(heard, all);
}
