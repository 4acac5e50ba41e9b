//! A user with as many sessions as there may be, each with as much as it may have.

mod common;

use common::world::{Peer, ROSTER_SET, SM, World, bodies, stanzas};

/// Sessions of one user that can be managed.
const SESSIONS: usize = 64;

fn world() -> World {
    World::with(|options| options.limits.sessions_per_user = 2 * SESSIONS as u32)
}

/// All sessions that can be managed. They take messages.
fn all(world: &mut World) -> Vec<Peer> {
    let all = (0..SESSIONS).map(|at| {
        let (mut peer, _) = world.login_managed("juliet", &format!("r{at}"));
        peer.ask(world, "<presence/>", "<presence");
        peer
    });
    all.collect()
}

/// An entry names each of them, and all clients without stream management by one name more.
#[test]
fn a_message_reaches_every_session_that_there_may_be() {
    let mut world = world();
    let mut all = all(&mut world);
    let mut plain = world.login("juliet", "plain");
    plain.send(&format!("<enable {SM} resume='true'/>"));
    let failed = plain.expect(&mut world, "</failed>");
    assert!(failed.contains("<resource-constraint"), "{failed}");
    plain.ask(&mut world, "<presence/>", "<presence");
    let mut romeo = world.login("romeo", "orchard");
    for text in ["1", "2"] {
        romeo.say("juliet@localhost", text);
    }
    for peer in all.iter_mut().chain([&mut plain]) {
        let seen = peer.expect(&mut world, "<body>2</body>");
        assert_eq!(bodies(&seen), [1, 2], "{seen}");
    }
}

/// The record of the one that had ended was still there, and that of the next one too many: its
/// change was refused, and all that was under way with it.
#[test]
fn a_session_takes_the_place_of_one_whose_end_could_not_be_recorded() {
    let mut world = world();
    let mut all = all(&mut world);
    let mut next = world.login("juliet", "next");
    let mut last = all.pop().expect("there are some");
    world.hold();
    last.send("</stream:stream>");
    world.refuse();
    next.send(&format!("<enable {SM} resume='true'/>"));
    let answer = next.expect(&mut world, "/>");
    assert!(answer.contains("<enabled"), "{answer}");
    next.ask(&mut world, ROSTER_SET, "id='roster'");
}

/// Sessions with which the records are nearly as large as they may be.
const LARGE: usize = 5;
const STATUS_BYTES: usize = 208_000;

/// Messages of which each then has some, more than there is room for beside all that.
const MESSAGES: usize = 200;

/// The lists counted too, also of what had been acknowledged since: no presence could be recorded.
#[test]
fn what_sessions_were_given_fits_beside_the_largest_records() {
    const { assert!(LARGE * STATUS_BYTES < store::limits::SESSIONS_BYTES_MAX) };
    const {
        let lists = LARGE * MESSAGES * 10;
        assert!(LARGE * STATUS_BYTES + lists > store::limits::SESSIONS_BYTES_MAX);
    };
    let mut world =
        World::with(|options| options.limits.stanza_bytes_max = 2 * STATUS_BYTES as u32);
    let status = "x".repeat(STATUS_BYTES);
    let large = format!("<presence><status>{status}</status></presence>");
    let mut sessions = Vec::new();
    for at in 0..LARGE {
        let (mut peer, token) = world.login_managed("juliet", &format!("r{at}"));
        peer.ask(&mut world, &large, "</presence>");
        sessions.push((peer, token));
    }
    let mut romeo = world.login("romeo", "orchard");
    for number in 0..MESSAGES {
        romeo.say("juliet@localhost", &number.to_string());
    }
    let last = format!("<body>{}</body>", MESSAGES - 1);
    for (peer, _) in &mut sessions {
        peer.expect(&mut world, &last);
    }
    let tokens: Vec<String> = sessions.into_iter().map(|(_, token)| token).collect();
    world.crash();
    let mut all = Vec::new();
    for token in tokens {
        let mut peer = world.connect("juliet");
        peer.resume(&token, 0);
        let mut seen = peer.expect(&mut world, &last);
        assert_eq!(bodies(&seen), (0..MESSAGES).collect::<Vec<_>>());
        seen.push_str(&peer.sync(&mut world));
        peer.send(&format!("<a {SM} h='{}'/>", stanzas(&seen)));
        peer.sync(&mut world);
        all.push(peer);
    }
    let mut last = all.pop().expect("there are some");
    let again = large.replace("<status>", "<show>dnd</show><status>");
    last.send(&again);
    let seen = last.expect(&mut world, "<show>dnd</show>");
    assert!(!seen.contains("type='error'"), "{seen}");
}

/// Messages that a session of an earlier version may be owed: more than one read gives out.
const OWED: usize = 1_050;

/// Of what went beyond one read its client was sent empty stanzas.
#[test]
fn a_session_that_is_resumed_is_sent_all_that_its_record_lists() {
    const { assert!(OWED > store::limits::LOG_READ_MAX) };
    let mut world = World::with(|options| options.archive.max_messages = 2 * OWED as u64);
    let (mut juliet, token) = world.login_managed("juliet", "balcony");
    juliet.ask(&mut world, "<presence/>", "<presence");
    drop(juliet);
    world.work();
    let mut romeo = world.login("romeo", "orchard");
    for number in 0..OWED {
        romeo.say("juliet@localhost", &number.to_string());
        if number % 32 == 0 {
            romeo.sync(&mut world);
        }
    }
    romeo.sync(&mut world);
    drop(romeo);
    world.work();
    world.rewrite(|store| {
        let user = "juliet@localhost".to_owned();
        let entries = (0..OWED as u64 / 256 + 1).scan(0, |after, _| {
            let page = store.log_read(&user, *after, 256).expect("a page");
            *after = page.last().map_or(*after, |last| last.seq);
            Some(page)
        });
        let places: Vec<u64> = entries.flatten().map(|entry| entry.seq).collect();
        assert_eq!(places.len(), OWED);
        let listed = places.iter().zip(1..);
        let numbered = listed.map(|(seq, count)| store::NumberedEntry { count, seq: *seq });
        let record = store::Record::SessionNumbered {
            user,
            number: 0,
            void_through: places[OWED - 1],
            numbered: numbered.collect(),
        };
        store.bulk([record]).expect("recorded");
    });
    let mut juliet = world.connect("juliet");
    juliet.resume(&token, 0);
    let seen = juliet.expect(&mut world, &format!("<body>{}</body>", OWED - 1));
    assert_eq!(bodies(&seen), (0..OWED).collect::<Vec<_>>());
}
