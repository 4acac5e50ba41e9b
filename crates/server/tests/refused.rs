//! Changes that are refused because the disk is full, under a journal that is let go when the test
//! says so: what clients are given meanwhile, and that whoever waits hears of it.

mod common;

use std::time::Duration;

use common::world::{Peer, RESUME_TIMEOUT, ROSTER_SET, SM, World, bodies, message, stanzas};

/// A page was asked for behind a change that was refused, and another one when the user had been
/// read again: both were given.
#[test]
fn what_waits_is_given_once_although_a_change_in_front_is_refused() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    for number in 0..3 {
        romeo.say("juliet@localhost", &number.to_string());
    }
    romeo.sync(&mut world);
    let mut juliet = world.login("juliet", "balcony");
    world.hold();
    juliet.send(ROSTER_SET);
    juliet.send("<presence/>");
    world.refuse();
    world.pass(Duration::from_secs(2));
    romeo.say("juliet@localhost", "3");
    let seen = juliet.expect(&mut world, "<body>3</body>");
    assert_eq!(bodies(&seen), [0, 1, 2, 3], "{seen}");
    assert!(seen.contains("resource-constraint"), "{seen}");
}

/// It came again before its first copy was decided, and was taken for one that its recipient has:
/// its sender's home forgot it, and nobody had it when the first copy was refused.
#[test]
fn what_comes_again_is_kept_by_its_sender_when_its_first_copy_is_refused() {
    let mut world = World::patient(|_| ());
    let mut romeo = world.login("romeo", "orchard");
    world.hold();
    romeo.say("juliet@localhost", "one");
    while !world.try_one() {}
    // Nobody answers, and it is handed over once more.
    for _ in 0..8 {
        world.pass(Duration::from_secs(1));
    }
    // Hers is the first that waits.
    world.refuse_one();
    world.let_go();
    for _ in 0..8 {
        world.pass(Duration::from_secs(1));
    }
    let mut juliet = world.login("juliet", "balcony");
    let seen = juliet.ask(&mut world, "<presence/>", "<body>one</body>");
    let seen = seen + &juliet.sync(&mut world) + &romeo.sync(&mut world);
    assert_eq!(seen.matches("<body>one</body>").count(), 1, "{seen}");
}

/// The second was taken up before the user had been read again, and what the first was to hear was
/// dropped with the record of the second.
#[test]
fn two_sessions_that_cannot_be_resumed_now_both_hear_so() {
    let mut world = World::new();
    let (first, first_token) = world.login_managed("juliet", "balcony");
    let (second, second_token) = world.login_managed("juliet", "hall");
    drop((first, second));
    let mut first = world.connect("juliet");
    let mut second = world.connect("juliet");
    world.hold();
    first.resume(&first_token, 0);
    world.work();
    second.resume(&second_token, 0);
    world.refuse();
    first.expect(&mut world, "<failed");
    second.expect(&mut world, "<failed");
    first.resume(&first_token, 0);
    first.expect(&mut world, "<resumed");
    second.resume(&second_token, 0);
    second.expect(&mut world, "<resumed");
}

#[test]
fn a_client_that_counts_wrongly_is_told_so_on_a_full_disk_too() {
    let mut world = World::new();
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    world.hold();
    juliet.send(&format!("<a {SM} h='99'/>"));
    world.refuse();
    juliet.expect(&mut world, "handled-count-too-high");
}

/// At the second try nothing was recorded: the counts of before the crash were thought to hold.
#[test]
fn counts_that_could_not_be_recorded_are_recorded_at_the_next_resumption() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let (mut juliet, token) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    // Between the two messages the session is sent something that is in no log.
    romeo.say("juliet@localhost", "one");
    juliet.expect(&mut world, "<body>one</body>");
    juliet.sync(&mut world);
    romeo.say("juliet@localhost", "two");
    juliet.expect(&mut world, "<body>two</body>");
    world.crash();

    let mut juliet = world.connect("juliet");
    world.hold();
    juliet.resume(&token, 0);
    world.refuse();
    juliet.expect(&mut world, "<failed");
    juliet.resume(&token, 0);
    juliet.expect(&mut world, "<resumed");
    juliet.expect(&mut world, "<body>one</body>");
    juliet.expect(&mut world, "<body>two</body>");
    world.crash();

    // It has both.
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, 2);
    juliet.expect(&mut world, "<resumed");
    let seen = juliet.sync(&mut world);
    assert!(!seen.contains("<body>"), "{seen}");
}

/// It was no holder of what it and others had been given: that was never given to anybody again,
/// and what another one held was given to that one twice. One that begins to take messages begins
/// with what nobody has acknowledged.
#[test]
fn what_nobody_has_acknowledged_comes_once_although_a_session_could_not_be_ended() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let (mut first, _) = world.login_managed("juliet", "balcony");
    first.ask(&mut world, "<presence/>", "<presence");
    let (mut second, _) = world.login_managed("juliet", "hall");
    second.ask(&mut world, "<presence/>", "<presence");
    romeo.say("juliet@localhost", "one");
    second.expect(&mut world, "<body>one</body>");
    let (mut third, _) = world.login_managed("juliet", "chamber");
    third.ask(&mut world, "<presence/>", "<presence");
    romeo.say("juliet@localhost", "two");
    let mut seen = third.expect(&mut world, "<body>two</body>");
    first.ask(&mut world, "</stream:stream>", "</stream:stream>");
    seen.push_str(&third.sync(&mut world));

    world.hold();
    second.send("</stream:stream>");
    world.refuse();
    world.pass(RESUME_TIMEOUT);
    romeo.say("juliet@localhost", "three");
    seen.push_str(&third.expect(&mut world, "<body>three</body>"));
    for text in ["one", "two"] {
        let body = format!("<body>{text}</body>");
        assert_eq!(seen.matches(&body).count(), 1, "{text}: {seen}");
    }
}

/// What somebody had acknowledged and nobody had recorded came again, when a session that could not
/// be ended at first had ended.
#[test]
fn what_another_one_has_is_not_held_by_a_session_that_could_not_be_ended() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let (mut first, _) = world.login_managed("juliet", "balcony");
    let mut seen = first.ask(&mut world, "<presence/>", "<presence");
    let (mut second, _) = world.login_managed("juliet", "hall");
    second.ask(&mut world, "<presence/>", "<presence");
    let (mut third, _) = world.login_managed("juliet", "chamber");
    third.ask(&mut world, "<presence/>", "<presence");
    for text in ["one", "two"] {
        romeo.say("juliet@localhost", text);
    }
    second.expect(&mut world, "<body>two</body>");
    seen.push_str(&first.expect(&mut world, "<body>one</body>"));
    first.send(&format!("<a {SM} h='{}'/>", stanzas(&seen)));
    first.sync(&mut world);

    world.hold();
    second.send("</stream:stream>");
    world.refuse();
    world.pass(RESUME_TIMEOUT);
    romeo.say("juliet@localhost", "three");
    let seen = first.expect(&mut world, "<body>three</body>");
    assert!(!seen.contains("<body>one</body>"), "{seen}");
}

/// A message that waited and was given to three sessions at once, and what the first of them was
/// sent since it is managed.
fn one_for_three(world: &mut World) -> (Peer, String, String) {
    let mut romeo = world.login("romeo", "orchard");
    romeo.say("juliet@localhost", "one");
    romeo.sync(world);
    let (mut first, token) = world.login_managed("juliet", "balcony");
    let (mut second, _) = world.login_managed("juliet", "hall");
    let (mut third, _) = world.login_managed("juliet", "chamber");
    world.hold();
    for peer in [&mut first, &mut second, &mut third] {
        peer.send("<presence/>");
        world.work();
    }
    world.let_go();
    for peer in [&mut second, &mut third] {
        peer.expect(world, "<body>one</body>");
    }
    let mut seen = first.expect(world, "<body>one</body>");
    seen.push_str(&first.sync(world));
    (first, token, seen)
}

/// Two of the three held it after the crash, and nobody knew that the third had acknowledged it.
#[test]
fn what_one_of_three_has_does_not_come_again_after_a_crash() {
    let mut world = World::new();
    let (mut first, token, seen) = one_for_three(&mut world);
    let handled = stanzas(&seen);
    first.send(&format!("<a {SM} h='{handled}'/>"));
    first.sync(&mut world);
    // Cursors are recorded when entries have taken none along for a while.
    for _ in 0..5 {
        world.pass(Duration::from_secs(1));
    }
    world.crash();

    let mut first = world.connect("juliet");
    first.resume(&token, handled + 1);
    first.expect(&mut world, "<resumed");
    world.pass(RESUME_TIMEOUT);
    let seen = first.sync(&mut world);
    assert!(!seen.contains("<body>one</body>"), "{seen}");
}

#[test]
fn what_none_of_three_has_waits_after_one_ended_and_a_crash() {
    let mut world = World::new();
    let (mut first, _, _) = one_for_three(&mut world);
    first.ask(&mut world, "</stream:stream>", "</stream:stream>");
    world.crash();

    let mut romeo = world.login("romeo", "orchard");
    romeo.sync(&mut world);
    world.pass(RESUME_TIMEOUT);
    let mut juliet = world.login("juliet", "garden");
    juliet.ask(&mut world, "<presence/>", "<body>one</body>");
}

/// It had the resource still, and was given what was for the one that had taken its place.
#[test]
fn a_session_that_could_not_be_ended_has_its_resource_no_more() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let (mut other, _) = world.login_managed("juliet", "hall");
    let (mut old, _) = world.login_managed("juliet", "balcony");
    old.ask(&mut world, "<presence/>", "<presence");
    drop(old);
    world.work();

    let mut juliet = world.connect("juliet");
    world.hold();
    juliet.send(
        "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
         <resource>balcony</resource></bind></iq>",
    );
    world.refuse();
    juliet.expect(&mut world, "</bind></iq>");
    juliet.ask(&mut world, "<presence/>", "<presence");
    // The order of sessions changes when one of them ends.
    other.ask(&mut world, "</stream:stream>", "</stream:stream>");
    romeo.say("juliet@localhost/balcony", "one");
    juliet.expect(&mut world, "<body>one</body>");
}

/// Written is delivered to a client without stream management: what it was given came again after a
/// crash, when the session that had been given it too had ended.
#[test]
fn what_a_plain_client_was_given_does_not_wait_after_a_crash() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let (mut managed, _) = world.login_managed("juliet", "balcony");
    managed.ask(&mut world, "<presence/>", "<presence");
    let mut plain = world.login("juliet", "hall");
    plain.ask(&mut world, "<presence/>", "<presence");
    romeo.say("juliet@localhost", "one");
    plain.expect(&mut world, "<body>one</body>");
    managed.expect(&mut world, "<body>one</body>");
    world.crash();

    let mut romeo = world.login("romeo", "orchard");
    romeo.sync(&mut world);
    world.pass(RESUME_TIMEOUT);
    let mut juliet = world.login("juliet", "garden");
    juliet.ask(&mut world, "<presence/>", "<presence");
    romeo.say("juliet@localhost", "two");
    let seen = juliet.expect(&mut world, "<body>two</body>");
    assert!(!seen.contains("<body>one</body>"), "{seen}");
}

/// Nobody recorded again what a session had become: after a crash it took no messages, so that what
/// it had acknowledged was given to others too.
#[test]
fn what_a_session_became_is_recorded_although_that_was_refused_at_first() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let (mut phone, _) = world.login_managed("juliet", "balcony");
    world.hold();
    phone.send("<presence/>");
    world.refuse();
    romeo.say("juliet@localhost", "1");
    let mut seen = phone.expect(&mut world, "<body>1</body>");
    seen.push_str(&phone.sync(&mut world));
    phone.send(&format!("<a {SM} h='{}'/>", stanzas(&seen)));
    phone.sync(&mut world);
    // Takes along what was acknowledged.
    romeo.say("juliet@localhost", "2");
    phone.expect(&mut world, "<body>2</body>");
    world.crash();

    let mut desk = world.login("juliet", "hall");
    desk.send("<presence/>");
    let seen = desk.expect(&mut world, "<body>2</body>");
    assert_eq!(bodies(&seen), [2], "{seen}");
}

/// What a session's end brings about was dropped with its record: contacts and her other devices
/// took her for available for good.
#[test]
fn everybody_hears_of_an_end_that_could_not_be_recorded() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    let mut hall = world.login("juliet", "hall");
    hall.ask(&mut world, "<presence/>", "<presence");
    romeo.ask(&mut world, "<presence/>", "<presence");
    romeo.send("<presence type='subscribe' to='juliet@localhost'/>");
    hall.expect(&mut world, "type='subscribe'");
    hall.send("<presence type='subscribed' to='romeo@localhost'/>");
    romeo.expect(&mut world, "<presence from='juliet@localhost/hall'");
    let (mut balcony, _) = world.login_managed("juliet", "balcony");
    balcony.ask(&mut world, "<presence/>", "<presence");
    romeo.expect(&mut world, "juliet@localhost/balcony'");
    hall.expect(&mut world, "juliet@localhost/balcony'");
    world.hold();
    balcony.send("</stream:stream>");
    world.refuse();
    for peer in [&mut romeo, &mut hall] {
        let seen = peer.expect(&mut world, "type='unavailable'");
        assert!(seen.contains("juliet@localhost/balcony'"), "{seen}");
    }
    // The last one.
    world.hold();
    hall.send("</stream:stream>");
    world.refuse();
    let seen = romeo.expect(&mut world, "type='unavailable'");
    assert!(seen.contains("juliet@localhost/hall'"), "{seen}");
}

/// Sets of private storage that wait for its total to be read: when the disk was full then, nobody
/// told their client, which waited for ever.
#[test]
fn sets_that_waited_for_the_total_are_answered_when_the_disk_is_full() {
    let mut world = World::new();
    let (mut managed, _) = world.login_managed("juliet", "balcony");
    let mut plain = world.login("juliet", "hall");
    let set = |id: &str| {
        format!(
            "<iq type='set' id='{id}'><query xmlns='jabber:iq:private'>\
             <e xmlns='urn:example:{id}'/></query></iq>"
        )
    };
    world.hold();
    for peer in [&mut managed, &mut plain] {
        peer.send(&format!("{}{}", set("a"), set("b")));
    }
    for _ in 0..20 {
        world.work();
        std::thread::sleep(Duration::from_millis(1));
    }
    world.refuse();
    for peer in [&mut managed, &mut plain] {
        let mut seen = peer.expect(&mut world, "id='b'");
        seen.push_str(&peer.expect(&mut world, "</iq>"));
        assert!(seen.contains("id='a'"), "{seen}");
        assert_eq!(seen.matches("type='error'").count(), 2, "{seen}");
    }
    // Windows are as they were, and there is room again.
    for number in 0..100 {
        let id = format!("c{number}");
        plain.ask(&mut world, &set(&id), &format!("id='{id}'"));
    }
}

/// Pages came half a minute late, because of changes that had been refused long ago.
#[test]
fn a_disk_that_was_full_for_a_while_delays_no_page_later() {
    let mut world = World::with(|options| options.delivery.unacked_max = 1);
    let mut romeo = world.login("romeo", "orchard");
    let (mut juliet, _) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut handled = 1;
    for number in 0..10 {
        let set = |name: &str| ROSTER_SET.replace("jid=", &format!("name='{name}{number}' jid="));
        world.hold();
        juliet.send(&set("refused"));
        world.refuse();
        handled += stanzas(&juliet.expect(&mut world, "</iq>"));
        handled += stanzas(&juliet.ask(&mut world, &set("taken"), "id='roster'"));
    }
    romeo.say("juliet@localhost", "0");
    romeo.say("juliet@localhost", "1");
    handled += stanzas(&juliet.expect(&mut world, "</message>"));
    // What is behind it is given as soon as it is acknowledged: no time passes.
    juliet.send(&format!("<a {SM} h='{handled}'/>"));
    juliet.expect(&mut world, "<body>1</body>");
}

/// Messages that are handed over before the first of them is taken, half of which may be left when
/// more are read from the log.
const WINDOW: usize = 256;

/// More than half a window, and what several sessions send before one of them waits for room.
const GROUP: usize = 150;
const PEERS: usize = 3;

/// Some messages of each session, numbered from `first`.
fn say_group(world: &mut World, peers: &mut [Peer], first: usize) {
    for (at, peer) in peers.iter_mut().enumerate() {
        let first = first + at * GROUP / PEERS;
        let numbers = first..first + GROUP / PEERS;
        let messages: String = numbers.map(|n| message("juliet@localhost", n)).collect();
        peer.send(&messages);
    }
    world.work();
}

/// A page of what is to be handed over was asked for, behind what was under way, before the user
/// was read again, and came after that. It was taken for the page that began with what had been
/// under way and was refused: that was never handed over.
#[test]
fn what_was_under_way_is_handed_over_again_although_a_page_behind_it_was_asked_for() {
    const { assert!(1 + 2 * GROUP > WINDOW && 1 + GROUP > WINDOW / 2) };
    let mut world = World::new();
    // A group is one batch, whoever appends.
    world.options.commits.batch_appends = usize::MAX;
    world.crash();
    let mut juliet = world.login("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    let mut login = |at: usize| world.login("romeo", &format!("street{at}"));
    let mut early: Vec<Peer> = (0..PEERS).map(&mut login).collect();
    let mut late: Vec<Peer> = (PEERS..2 * PEERS).map(&mut login).collect();

    world.hold();
    romeo.say("juliet@localhost", "0");
    world.work();
    // Each in a commit of its own: what goes to Juliet of the first and of the second too.
    say_group(&mut world, &mut early, 1);
    world.let_one_go();
    say_group(&mut world, &mut late, 1 + GROUP);
    world.let_one_go();
    world.let_one_go();
    // Juliet takes the first group, and the page is asked for behind this change, which is refused
    // like the part of the second group that is under way.
    romeo.send(ROSTER_SET);
    world.work();
    world.let_one_go();
    world.switches().set_full(true);
    world.switches().set_hold(false);
    world.release_one();
    world.switches().set_full(false);
    romeo.expect(&mut world, "resource-constraint");

    for _ in 0..10 {
        world.pass(Duration::from_secs(1));
    }
    let last = 2 * GROUP + 1;
    romeo.say("juliet@localhost", &last.to_string());
    let mut got = bodies(&juliet.expect(&mut world, &format!("<body>{last}</body>")));
    got.sort_unstable();
    assert_eq!(got, (0..=last).collect::<Vec<_>>());
}

/// What a session may have unacknowledged, and more than that.
const UNACKED_MAX: u32 = 4;
const BEHIND: usize = 10;

/// All streams of a user ended with any change that was refused while one session was behind.
#[test]
fn a_refused_change_ends_no_stream_although_a_session_is_behind() {
    let mut world = World::new();
    world.options.delivery.unacked_max = UNACKED_MAX;
    world.crash();
    let (mut phone, _) = world.login_managed("juliet", "balcony");
    let mut phone_seen = phone.ask(&mut world, "<presence/>", "<presence");
    let mut desk = world.login("juliet", "hall");
    desk.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    for number in 0..BEHIND {
        romeo.say("juliet@localhost", &number.to_string());
    }
    desk.expect(&mut world, &format!("<body>{}</body>", BEHIND - 1));

    world.hold();
    desk.send(ROSTER_SET);
    world.refuse();
    let refused = desk.expect(&mut world, "</iq>");
    assert!(refused.contains("type='wait'"), "{refused}");
    assert!(refused.contains("resource-constraint"), "{refused}");

    // A message that its recipient cannot take comes again.
    world.hold();
    romeo.say("juliet@localhost", &BEHIND.to_string());
    world.work();
    world.let_one_go();
    world.refuse();
    world.pass(Duration::from_secs(2));
    desk.expect(&mut world, &format!("<body>{BEHIND}</body>"));

    phone_seen.push_str(&phone.sync(&mut world));
    let spilled = format!("<body>{UNACKED_MAX}</body>");
    assert!(!phone_seen.contains(&spilled), "{phone_seen}");
    // It has as many at a time as it may leave unacknowledged.
    for _ in 0..BEHIND / UNACKED_MAX as usize {
        phone.send(&format!("<a {SM} h='{}'/>", stanzas(&phone_seen)));
        world.pass(Duration::from_secs(2));
        phone_seen.push_str(&phone.sync(&mut world));
    }
    assert_eq!(
        bodies(&phone_seen),
        (0..=BEHIND).collect::<Vec<_>>(),
        "{phone_seen}"
    );
}

/// What waits for an account is still there when its removal was refused.
#[test]
fn a_removal_that_is_refused_takes_no_messages_along() {
    let mut world = World::new();
    let mut romeo = world.login("romeo", "orchard");
    // She takes no messages yet.
    let mut juliet = world.login("juliet", "balcony");
    for number in 0..3 {
        romeo.say("juliet@localhost", &number.to_string());
    }
    romeo.sync(&mut world);
    world.hold();
    juliet
        .send("<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>");
    world.refuse();
    world.pass(Duration::from_secs(5));
    drop(juliet);
    let mut juliet = world.login("juliet", "hall");
    juliet.send("<presence/>");
    let seen = juliet.expect(&mut world, "<body>2</body>");
    assert_eq!(bodies(&seen), [0, 1, 2], "{seen}");
}
