//! What a user remembers of those who wrote to him: more of them than memory has room for, messages
//! that wait for what the store says of their sender, and what is forgotten with time.

mod common;

use std::time::Duration;

use common::held::{Peer, World, bodies};
use common::store_on;

/// More senders than one user's memory tells apart.
const SENDERS: u32 = 2 + store::limits::SEEN_MAX as u32;

/// Messages that wait for the store's word on their sender.
const PARKED: u32 = 64;

const DAY: Duration = Duration::from_secs(24 * 3600);

const ROSTER_SET: &str = "<iq type='set' id='roster'><query xmlns='jabber:iq:roster'>\
     <item jid='nurse@localhost'/></query></iq>";

/// Juliet, and Romeo whose message she had before so many others that she forgot it.
fn world() -> (World, Peer, Peer) {
    // No message stays that would say what was taken.
    let mut world = World::new(|options| options.archive.until_delivered = true);
    let mut juliet = world.online("juliet");
    let mut romeo = world.login("romeo");
    romeo.say("juliet", 0);
    world.work();
    for number in 0..SENDERS {
        let user = format!("u{number}");
        world.register(&user);
        let mut other = world.login(&user);
        other.say("juliet", 1_000);
        world.work();
    }
    let heard = bodies(&juliet.read(&mut world));
    assert_eq!(heard.len() as u32, 1 + SENDERS);
    (world, juliet, romeo)
}

fn marked(world: &World) -> u64 {
    let store = store_on(&world.disk);
    let romeo = store.slot_key().peer("romeo@localhost");
    store.mark_of("juliet@localhost", romeo).expect("readable")
}

/// While the store cannot be asked, 64 messages wait for that; further ones are tried again later.
/// All of them come, once and in order.
#[test]
fn messages_wait_for_what_the_store_says_of_their_sender_and_no_more_than_a_few() {
    let (mut world, mut juliet, mut romeo) = world();
    // Each session has a window of its own.
    let mut again = world.login("romeo");
    // What is read is read behind her change, which is in doubt.
    world.switches().set_stay_in_doubt(true);
    world.switches().doubt(1);
    juliet.send(ROSTER_SET);
    world.work();
    for number in 1..=PARKED {
        romeo.say("juliet", number);
    }
    world.work();
    for number in PARKED + 1..=PARKED + 6 {
        again.say("juliet", number);
    }
    world.work();
    assert!(bodies(&juliet.read(&mut world)).is_empty());
    world.switches().set_stay_in_doubt(false);
    world.journal().settle();
    world.pass(Duration::from_millis(100));
    let first: Vec<u32> = (1..=PARKED).collect();
    assert_eq!(bodies(&juliet.read(&mut world)), first);
    world.pass(Duration::from_secs(10));
    let rest: Vec<u32> = (PARKED + 1..=PARKED + 6).collect();
    assert_eq!(bodies(&juliet.read(&mut world)), rest);
}

/// A mark that is older than anybody hands something over again is forgotten, and none before.
#[test]
fn marks_of_senders_are_forgotten_after_a_week() {
    let (mut world, mut juliet, mut romeo) = world();
    let is_known = marked(&world);
    assert!(is_known > 0);
    for (days, is_kept) in [(6, true), (2, false)] {
        world.leap(days * DAY);
        juliet.send(ROSTER_SET);
        juliet.say("nurse", 1);
        world.pass(Duration::from_secs(10));
        juliet.read(&mut world);
        assert_eq!(marked(&world) > 0, is_kept, "{days} days later");
    }
    // Whoever was forgotten writes on.
    romeo.say("juliet", 5);
    world.pass(Duration::from_secs(10));
    assert_eq!(bodies(&juliet.read(&mut world)), [5]);
}
