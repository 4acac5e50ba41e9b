//! Messages between entities as bytes: what a node does with a packet that comes, who is told that
//! a range has moved, and where the credit of a stanza is meanwhile.

mod common;

use std::sync::Arc;

use common::held::{Peer, World, bodies};
use server::options::Wire;
use telemetry::Counter;
use wire::{Envelope, Message, Moved, Packet, Stanza};
use xml::Frame;

/// Stanzas of a client that may be under way; the 65th is not read.
const WINDOW: u32 = 64;

/// The tenure in which a node is at home of all ranges at first.
const FIRST: u32 = 1;

const PING: &str = "<iq type='get' id='ping'><ping xmlns='urn:xmpp:ping'/></iq>";

fn chat(world: &World, tenure: u32) -> Envelope {
    let frame = "<message type='chat' from='romeo@localhost/a' to='juliet@localhost'>\
                 <body>7</body></message>";
    let to: Arc<str> = "juliet@localhost".into();
    Envelope {
        range: world.sim().range(&to),
        to,
        tenure,
        activate: true,
        credit: None,
        message: Message::Stanza(Stanza::new(None, Frame::parse(frame).unwrap())),
    }
}

fn bytes(packet: Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(&mut bytes).unwrap();
    bytes
}

/// What a node answers to a packet.
fn answer(world: &mut World, packet: Packet) -> Option<Packet> {
    let answer = world.sim().arrives(&bytes(packet)).expect("a packet");
    world.work();
    answer.map(|answer| Packet::decode(&answer).expect("an answer"))
}

/// Accounts that were loaded so far. Shards report that from time to time.
fn loaded(world: &mut World) -> u64 {
    world.pass(std::time::Duration::from_secs(5));
    world.sim().stats().counter(Counter::UsersLoaded)
}

#[test]
fn a_packet_is_heard_at_the_home_of_its_range() {
    let mut world = World::new(|_| {});
    let mut juliet = world.online("juliet");
    let packet = Packet::Message(chat(&world, FIRST));
    assert_eq!(answer(&mut world, packet), None);
    assert_eq!(bodies(&juliet.read(&mut world)), [7]);
}

/// Two nodes, of which the first gives a range to the second one.
#[test]
fn who_is_not_at_home_of_a_range_says_so_and_loads_nothing() {
    let (mut first, mut second) = (World::new(|_| {}), World::new(|_| {}));
    let juliet = "juliet@localhost";
    first.sim().set_tenure(juliet, 0);
    second.sim().set_tenure(juliet, 2);
    let before = (loaded(&mut first), loaded(&mut second));
    let stale = chat(&first, FIRST);
    let moved = |tenure| {
        Some(Packet::Moved(Moved {
            range: stale.range,
            tenure,
            to: juliet.into(),
        }))
    };
    let packet = Packet::Message(stale.clone());
    // The old home knows of no tenure, the new one of its own.
    assert_eq!(answer(&mut first, packet.clone()), moved(0));
    assert_eq!(answer(&mut second, packet), moved(2));
    assert_eq!((loaded(&mut first), loaded(&mut second)), before);
    // A home whose tenure is over, and has not heard of it, is not asked for the next one.
    first.sim().set_tenure(juliet, FIRST);
    let next = Packet::Message(chat(&first, 2));
    assert_eq!(answer(&mut first, next.clone()), moved(FIRST));
    assert_eq!(loaded(&mut first), before.0);
    assert_eq!(answer(&mut second, next), None);
    assert_eq!(loaded(&mut second), before.1 + 1);
    let mut juliet = second.login("juliet");
    juliet.send("<presence/>");
    let mut seen = String::new();
    // It is read from the store meanwhile.
    for _ in 0..1_000 {
        seen += &juliet.read(&mut second);
        if seen.contains("</body>") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(bodies(&seen), [7]);
}

#[test]
fn a_packet_for_another_range_than_its_recipients_is_refused() {
    let world = World::new(|_| {});
    let mut envelope = chat(&world, FIRST);
    envelope.range = (envelope.range + 1) % store::RANGES;
    let refused = world.sim().arrives(&bytes(Packet::Message(envelope)));
    let why = "a packet for juliet@localhost names another range";
    assert_eq!(refused, Err(why.to_owned()));
    // There are not so many ranges: nobody is at home there.
    let mut envelope = chat(&world, FIRST);
    envelope.range = u16::MAX;
    let answer = world.sim().arrives(&bytes(Packet::Message(envelope)));
    let answer = answer.unwrap().map(|answer| Packet::decode(&answer));
    assert!(matches!(
        answer,
        Some(Ok(Packet::Moved(Moved { tenure: 0, .. })))
    ));
}

#[test]
fn what_is_not_known_is_refused_by_name() {
    let world = World::new(|_| {});
    let mut packet = bytes(Packet::Message(chat(&world, FIRST)));
    packet[0] = wire::VERSION + 1;
    let refused = world.sim().arrives(&packet).unwrap_err();
    let (later, known) = (wire::VERSION + 1, wire::VERSION);
    assert_eq!(
        refused,
        format!(
            "a packet of kind 1 is of version {later}; this node knows up to {known}: upgrade it"
        )
    );
}

fn romeo_and_juliet(set: impl FnOnce(&mut Wire)) -> (World, Peer, Peer) {
    let mut world = World::new(|options| {
        options.wire.through_bytes = true;
        set(&mut options.wire);
        options.commits.barrier_appends_max = 1;
    });
    let romeo = world.login("romeo");
    let juliet = world.online("juliet");
    (world, romeo, juliet)
}

/// Juliet's home takes nothing until [`let_go`].
fn hold(world: &mut World, juliet: &mut Peer) {
    world.switches().set_stay_in_doubt(true);
    world.switches().doubt(1);
    juliet.send(
        "<iq type='set' id='roster'><query xmlns='jabber:iq:roster'>\
         <item jid='nurse@localhost'/></query></iq>",
    );
    world.work();
}

fn let_go(world: &mut World) {
    world.switches().set_stay_in_doubt(false);
    world.journal().settle();
    world.pass(std::time::Duration::from_secs(1));
}

fn work_long(world: &mut World) {
    for _ in 0..100 {
        world.work();
    }
}

const HEADLINE: &str = "<message type='headline' to='juliet@localhost'><body>7</body></message>";

/// The credit of what left as bytes is kept under its number until the recipient's home answers.
#[test]
fn a_credit_comes_back_as_bytes() {
    let (mut world, mut romeo, mut juliet) = romeo_and_juliet(|_| {});
    hold(&mut world, &mut juliet);
    for _ in 0..2 * WINDOW {
        romeo.send(HEADLINE);
    }
    romeo.send(PING);
    work_long(&mut world);
    assert_eq!(romeo.read(&mut world), "", "his window is full");
    let_go(&mut world);
    work_long(&mut world);
    romeo.expect(&mut world, "id='ping'");
    assert_eq!(bodies(&juliet.read(&mut world)).len(), 2 * WINDOW as usize);
}

/// With too many credits away, the next ones come back at once: nobody's window stays closed.
#[test]
fn a_credit_that_finds_no_room_comes_back_at_once() {
    let (mut world, mut romeo, mut juliet) = romeo_and_juliet(|wire| wire.credits_max = 8);
    hold(&mut world, &mut juliet);
    for _ in 0..2 * WINDOW {
        romeo.send(HEADLINE);
    }
    romeo.send(PING);
    work_long(&mut world);
    romeo.expect(&mut world, "id='ping'");
    let_go(&mut world);
    work_long(&mut world);
    assert_eq!(bodies(&juliet.read(&mut world)).len(), 2 * WINDOW as usize);
}

/// A range that has gone takes nothing any more: a message of a log waits for its new home.
#[test]
fn a_message_for_a_range_that_has_gone_is_kept_and_tried_again() {
    let (mut world, mut romeo, mut juliet) = romeo_and_juliet(|_| {});
    world.sim().set_tenure("juliet@localhost", 0);
    romeo.say("juliet", 1);
    work_long(&mut world);
    assert_eq!(juliet.read(&mut world), "");
    world.sim().set_tenure("juliet@localhost", 2);
    world.pass(std::time::Duration::from_secs(60));
    work_long(&mut world);
    assert_eq!(bodies(&juliet.read(&mut world)), [1]);
    assert!(!romeo.read(&mut world).contains("error"));
}
