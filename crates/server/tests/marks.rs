//! What a user remembers of those who wrote to him: more of them than memory has room for, messages
//! that wait for what the store says of their sender, and what is forgotten with time.

mod common;

use std::time::Duration;

use common::held::{Peer, World, bodies};
use common::store_on;
use server::Options;

/// More senders than one user's memory tells apart.
const SENDERS: u32 = 2 + store::limits::SEEN_MAX as u32;

/// Messages that wait for the store's word on their sender.
const PARKED: u32 = 64;

const DAY: Duration = Duration::from_secs(24 * 3600);

const ROSTER_SET: &str = "<iq type='set' id='roster'><query xmlns='jabber:iq:roster'>\
     <item jid='nurse@localhost'/></query></iq>";

/// Juliet, and Romeo whose message she had before so many others that she forgot it.
fn world(set: impl FnOnce(&mut Options)) -> (World, Peer, Peer) {
    let mut world = World::new(|options| {
        // No message stays that would say what was taken.
        options.archive.until_delivered = true;
        set(options);
    });
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

/// While the store cannot be asked, 64 messages, or as many as is said, wait for that; further ones
/// are tried again later. All of them come, once and in order.
#[test]
fn messages_wait_for_what_the_store_says_of_their_sender_and_no_more_than_a_few() {
    for parked in [PARKED, 2] {
        let (mut world, mut juliet, mut romeo) = world(|options| {
            options.delivery.limits.parked_max = parked as usize;
        });
        // Each session has a window of its own.
        let mut again = world.login("romeo");
        // What is read is read behind her change, which is in doubt.
        world.switches().set_stay_in_doubt(true);
        world.switches().doubt(1);
        juliet.send(ROSTER_SET);
        world.work();
        for number in 1..=parked {
            romeo.say("juliet", number);
        }
        world.work();
        for number in parked + 1..=parked + 6 {
            again.say("juliet", number);
        }
        world.work();
        assert!(bodies(&juliet.read(&mut world)).is_empty());
        world.switches().set_stay_in_doubt(false);
        world.journal().settle();
        world.pass(Duration::from_millis(100));
        let first: Vec<u32> = (1..=parked).collect();
        assert_eq!(bodies(&juliet.read(&mut world)), first);
        world.pass(Duration::from_secs(10));
        let rest: Vec<u32> = (parked + 1..=parked + 6).collect();
        assert_eq!(bodies(&juliet.read(&mut world)), rest);
    }
}

/// A mark that is older than anybody hands something over again is forgotten, and none before. They
/// are looked at once an hour, or as often as is said.
#[test]
fn marks_of_senders_are_forgotten_after_a_week() {
    const MINUTE: Duration = Duration::from_secs(60);
    let hour = 60 * MINUTE;
    for (kept, every) in [(7 * DAY, hour), (2 * DAY, MINUTE)] {
        let (mut world, mut juliet, mut romeo) = world(|options| {
            options.delivery.outbox.recognised_for = kept - DAY;
            options.delivery.limits.marks_kept = kept;
            options.delivery.limits.marks_forgotten_every = every;
        });
        let is_known = marked(&world);
        assert!(is_known > 0);
        let mut is_kept_after = |time: Duration| {
            world.leap(time);
            juliet.send(ROSTER_SET);
            juliet.say("nurse", 1);
            world.pass(Duration::from_secs(10));
            juliet.read(&mut world);
            marked(&world) > 0
        };
        assert!(is_kept_after(kept - every / 4));
        // It is time, but they were looked at just now.
        assert!(is_kept_after(every / 2));
        assert!(!is_kept_after(every));
        // Whoever was forgotten writes on.
        romeo.say("juliet", 5);
        world.pass(Duration::from_secs(10));
        assert_eq!(bodies(&juliet.read(&mut world)), [5]);
    }
}
