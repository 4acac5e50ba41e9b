//! When the credit of a stanza comes back that is passed on to another account, and what happens
//! to who reaches the budget of an address.

mod common;

use std::time::Duration;

use common::held::{Peer, World, bodies};

/// Stanzas of a client that may be under way; the 65th is not read.
const WINDOW: u32 = 64;

const ROSTER_SET: &str = "<iq type='set' id='roster'><query xmlns='jabber:iq:roster'>\
     <item jid='nurse@localhost'/></query></iq>";

const PING: &str = "<iq type='get' id='ping'><ping xmlns='urn:xmpp:ping'/></iq>";

/// Romeo, and Juliet whose home takes nothing until [`let_go`].
fn held() -> (World, Peer, Peer) {
    let mut world = World::new(|options| options.commits.barrier_appends_max = 1);
    let romeo = world.login("romeo");
    let mut juliet = world.online("juliet");
    world.switches().set_stay_in_doubt(true);
    world.switches().doubt(1);
    juliet.send(ROSTER_SET);
    world.work();
    (world, romeo, juliet)
}

fn let_go(world: &mut World) {
    world.switches().set_stay_in_doubt(false);
    world.journal().settle();
    world.pass(Duration::from_secs(1));
}

/// Everything that can happen: with one change at a time that is more than a few turns.
fn work_long(world: &mut World) {
    for _ in 0..100 {
        world.work();
    }
}

#[test]
fn the_credit_of_a_message_comes_back_when_its_recipients_home_has_it() {
    let (mut world, mut romeo, mut juliet) = held();
    for number in 0..2 * WINDOW {
        romeo.say("juliet", number);
    }
    romeo.send(PING);
    work_long(&mut world);
    assert_eq!(romeo.read(&mut world), "", "his window is full");
    let_go(&mut world);
    work_long(&mut world);
    romeo.expect(&mut world, "id='ping'");
    let all: Vec<u32> = (0..2 * WINDOW).collect();
    assert_eq!(bodies(&juliet.read(&mut world)), all);
}

/// A recipient's home that says nothing for long does not keep the sender from others: what it is
/// to have is left to the sender's log, and counts as what waits there.
#[test]
fn the_credit_comes_back_when_a_message_is_left_to_the_log() {
    let (mut world, mut romeo, mut juliet) = held();
    for number in 0..WINDOW {
        romeo.say("juliet", number);
    }
    romeo.send(PING);
    work_long(&mut world);
    world.pass(Duration::from_secs(4));
    assert_eq!(romeo.read(&mut world), "");
    world.pass(Duration::from_secs(2));
    romeo.expect(&mut world, "id='ping'");
    let_go(&mut world);
    world.pass(Duration::from_secs(30));
    work_long(&mut world);
    let all: Vec<u32> = (0..WINDOW).collect();
    assert_eq!(bodies(&juliet.read(&mut world)), all);
}

/// Whatever is in no log takes its credit along: headlines, presence, questions.
#[test]
fn the_credit_of_what_is_in_no_log_comes_back_when_it_is_handled() {
    for stanza in [
        "<message type='headline' to='juliet@localhost'><body>7</body></message>",
        "<presence to='juliet@localhost'/>",
        "<presence type='subscribe' to='juliet@localhost'/>",
        "<iq type='get' id='v' to='juliet@localhost'><vCard xmlns='vcard-temp'/></iq>",
        "<iq type='get' id='v' to='juliet@localhost/none'><ping xmlns='urn:xmpp:ping'/></iq>",
    ] {
        let (mut world, mut romeo, juliet) = held();
        for _ in 0..2 * WINDOW {
            romeo.send(stanza);
        }
        romeo.send(PING);
        work_long(&mut world);
        let seen = romeo.read(&mut world);
        assert!(!seen.contains("id='ping'"), "{stanza}: {seen}");
        let_go(&mut world);
        work_long(&mut world);
        romeo.expect(&mut world, "id='ping'");
        drop(juliet);
    }
}

/// Who waits until each of his stanzas has left has no more under way than about two windows.
#[test]
fn one_stanza_after_the_other_fills_the_window_too() {
    let (mut world, mut romeo, juliet) = held();
    for _ in 0..2 * WINDOW {
        romeo.send("<message type='headline' to='juliet@localhost'><body>7</body></message>");
        work_long(&mut world);
    }
    romeo.send(PING);
    work_long(&mut world);
    assert_eq!(romeo.read(&mut world), "");
    let_go(&mut world);
    work_long(&mut world);
    romeo.expect(&mut world, "id='ping'");
    drop(juliet);
}

/// A change that is refused gives the credit back once, whatever else became of it.
#[test]
fn the_credit_of_what_is_refused_comes_back() {
    let mut world = World::new(|_| {});
    let mut romeo = world.login("romeo");
    world.switches().set_full(true);
    for number in 0..2 * WINDOW {
        romeo.say("juliet", number);
    }
    world.pass(Duration::from_secs(5));
    let seen = romeo.read(&mut world);
    let refused = seen.matches("type='error'").count();
    world.switches().set_full(false);
    world.pass(Duration::from_secs(5));
    romeo.ask(&mut world, PING, "id='ping'");
    assert_eq!(refused, 2 * WINDOW as usize, "{seen}");
}

/// Whoever asks how many of his stanzas were handled is told when that is recorded. While nothing
/// could be, each such question was one less that he could say, until he could say nothing.
#[test]
fn the_credit_of_questions_that_cannot_be_recorded_comes_back() {
    const SM: &str = "xmlns='urn:xmpp:sm:3'";
    let mut world = World::new(|_| {});
    let mut romeo = world.login("romeo");
    romeo.ask(&mut world, &format!("<enable {SM}/>"), "<enabled");
    world.switches().set_full(true);
    for _ in 0..2 * WINDOW {
        romeo.send(&format!("<r {SM}/>"));
    }
    romeo.send(PING);
    world.pass(Duration::from_secs(5));
    world.switches().set_full(false);
    world.pass(Duration::from_secs(5));
    romeo.expect(&mut world, "id='ping'");
}

/// Romeo and the nurse, who share an address with room for one answer that was not read.
fn of_one_address() -> (World, Peer, Peer) {
    let network = net::Limits {
        exempt: Vec::new(),
        ..net::Limits::default()
    };
    let mut world = World::with_network(network, |options| {
        options.limits.answer_bytes_per_address_max = 1;
    });
    let romeo = world.login("romeo");
    let nurse = world.login("nurse");
    (world, romeo, nurse)
}

/// What comes within 20 s to who reads on.
fn read_all(peer: &mut Peer, world: &mut World) -> String {
    let mut seen = String::new();
    for _ in 0..200 {
        seen += &peer.read(world);
        world.pass(Duration::from_millis(100));
    }
    seen
}

/// He does not read what he asked for, and she waits.
#[test]
fn an_address_that_does_not_read_is_asked_for_nothing_more() {
    let (mut world, mut romeo, mut nurse) = of_one_address();
    let body = "x".repeat(20_000);
    for number in 0..30 {
        romeo.say("juliet", format!("{number}{body}"));
        world.work();
    }
    let card = "<iq type='get' id='card'><vCard xmlns='vcard-temp'/></iq>";
    nurse.ask(&mut world, card, "id='card'");
    world.pass(Duration::from_secs(1));
    for _ in 0..4 {
        romeo.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
        world.work();
    }
    nurse.send(card);
    world.pass(Duration::from_secs(5));
    assert_eq!(nurse.read(&mut world), "", "she waits for him");
    let seen = read_all(&mut romeo, &mut world);
    assert_eq!(seen.matches("<fin ").count(), 4, "{}", seen.len());
    nurse.expect(&mut world, "id='card'");
}

/// Changes of subscriptions use up what a client may send, however short they are. Nothing is
/// refused: he has to wait.
#[test]
fn who_subscribes_without_end_is_slowed_down() {
    let per_second = 1024 * 1024;
    let network = net::Limits {
        exempt: Vec::new(),
        rate: Some(net::Rate {
            per_second,
            burst: per_second,
        }),
        ..net::Limits::default()
    };
    let mut world = World::with_network(network, |_| {});
    let mut romeo = world.login("romeo");
    let mut juliet = world.online("juliet");
    for _ in 0..100 {
        romeo.send("<presence to='juliet@localhost' type='subscribe'/>");
        romeo.send("<presence to='juliet@localhost' type='unsubscribe'/>");
    }
    romeo.send(PING);
    work_long(&mut world);
    let at_once = juliet.read(&mut world).matches("type='subscribe'").count();
    assert!((16..=33).contains(&at_once), "{at_once} of them at once");
    // 200 of them cost 6 s, of which he had one.
    let pass_tenths = |world: &mut World, tenths| {
        (0..tenths).for_each(|_| world.pass(Duration::from_millis(100)));
    };
    pass_tenths(&mut world, 45);
    assert_eq!(romeo.read(&mut world), "", "he waits");
    pass_tenths(&mut world, 10);
    romeo.expect(&mut world, "id='ping'");
    let later = juliet.read(&mut world).matches("type='subscribe'").count();
    assert_eq!(at_once + later, 100);
}

/// What he does not read of a room's archive counts as well; the room says so to who is there too.
#[test]
fn an_address_that_does_not_read_is_given_no_more_of_rooms() {
    let (mut world, mut romeo, mut nurse) = of_one_address();
    let room = "garden@conference.localhost";
    romeo.send(&format!(
        "<presence to='{room}/romeo'><x xmlns='http://jabber.org/protocol/muc'/></presence>"
    ));
    world.pass(Duration::from_secs(1));
    romeo.send(&format!(
        "<iq type='set' id='form' to='{room}'><query xmlns='http://jabber.org/protocol/muc#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>http://jabber.org/protocol/muc#roomconfig</value></field>\
         <field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>"
    ));
    romeo.expect(&mut world, "id='form'");
    let body = "x".repeat(20_000);
    for _ in 0..30 {
        romeo.send(&format!(
            "<message type='groupchat' to='{room}'><body>{body}</body></message>"
        ));
        world.pass(Duration::from_secs(1));
        romeo.read(&mut world);
    }
    let page = format!("<iq type='set' id='q' to='{room}'><query xmlns='urn:xmpp:mam:2'/></iq>");
    for _ in 0..4 {
        romeo.send(&page);
        world.pass(Duration::from_secs(1));
    }
    nurse.send(&page);
    nurse.expect(&mut world, "resource-constraint");
    let seen = read_all(&mut romeo, &mut world);
    let given = seen.matches("<fin ").count();
    assert!((1..4).contains(&given), "{given} pages");
    nurse.send(&page);
    let seen = read_all(&mut nurse, &mut world);
    assert_eq!(seen.matches("<fin ").count(), 1, "{}", seen.len());
}
