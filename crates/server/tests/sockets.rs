//! Clients whose connections move to the next shard behind each stanza (docs/decisions/0151): they
//! notice nothing, and neither does anybody else.

mod common;

use std::time::Duration;

use common::held::{Peer, World, bodies};
use telemetry::{Counter, Gauge};

/// What shards have counted is known that long after.
const REPORT: Duration = Duration::from_millis(200);

const ENABLE: &str = "<enable xmlns='urn:xmpp:sm:3' resume='true'/>";

fn world() -> World {
    World::new(|options| {
        options.shards = 3;
        options.hand_over = true;
        options.debug_move_sockets = true;
    })
}

fn moved(world: &mut World) -> u64 {
    world.pass(REPORT);
    world.sim().stats().counter(Counter::NetMoved)
}

/// A client with stream management, and what names its session.
fn managed(world: &mut World, user: &str) -> (Peer, String) {
    let mut peer = world.login(user);
    let enabled = peer.ask(world, ENABLE, "<enabled ");
    let id = enabled
        .split("id='")
        .nth(1)
        .and_then(|rest| rest.split('\'').next());
    let id = id.expect("it may be resumed").to_owned();
    peer.ask(world, "<presence/>", "<presence");
    (peer, id)
}

/// Goal: what two clients say to each other, many stanzas at a time, comes once and in order.
#[test]
fn clients_chat_while_their_connections_move() {
    const ROUNDS: u32 = 10;
    const AT_ONCE: u32 = 7;
    for is_managed in [false, true] {
        let mut world = world();
        let [mut romeo, mut juliet] = ["romeo", "juliet"].map(|user| match is_managed {
            true => managed(&mut world, user).0,
            false => world.online(user),
        });
        let before = moved(&mut world);
        for round in 0..ROUNDS {
            let all: Vec<u32> = (0..AT_ONCE).map(|n| round * AT_ONCE + n).collect();
            for n in &all {
                romeo.say("juliet", n);
                juliet.say("romeo", n);
            }
            assert_eq!(bodies(&juliet.read(&mut world)), all);
            assert_eq!(bodies(&romeo.read(&mut world)), all);
        }
        let moves = moved(&mut world) - before;
        assert!(moves >= u64::from(2 * ROUNDS * AT_ONCE), "{moves} moves");
        if is_managed {
            let counted = format!("h='{}'", 1 + ROUNDS * AT_ONCE);
            romeo.ask(&mut world, "<r xmlns='urn:xmpp:sm:3'/>", &counted);
        }
    }
}

/// Goal: a session is resumed by another connection, which moves as the first did; each message
/// comes once.
#[test]
fn a_session_is_resumed_while_its_connections_move() {
    let mut world = world();
    let mut juliet = world.online("juliet");
    let (mut romeo, id) = managed(&mut world, "romeo");
    romeo.say("juliet", 1);
    juliet.say("romeo", 2);
    assert_eq!(bodies(&juliet.read(&mut world)), [1]);
    assert_eq!(bodies(&romeo.read(&mut world)), [2]);
    drop(romeo);
    juliet.say("romeo", 3);
    juliet.read(&mut world);
    let mut romeo = world.connect();
    romeo.authenticate("romeo");
    romeo.expect(&mut world, "<success");
    let open = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
         xmlns:stream='http://etherx.jabber.org/streams'>";
    romeo.ask(&mut world, open, "</stream:features>");
    // He has acknowledged nothing: his own presence, and what Juliet said.
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' previd='{id}' h='1'/>");
    let resumed = romeo.ask(&mut world, &resume, "<resumed ");
    assert!(resumed.contains("h='2'"), "{resumed}");
    assert_eq!(bodies(&resumed), [2, 3]);
    for n in 4..10 {
        romeo.say("juliet", n);
        juliet.say("romeo", n);
    }
    let all: Vec<u32> = (4..10).collect();
    assert_eq!(bodies(&juliet.read(&mut world)), all);
    assert_eq!(bodies(&romeo.read(&mut world)), all);
}

/// Goal: an incomplete stanza moves nobody: nothing of it is used, and it would be looked at again
/// on each shard, without end.
#[test]
fn an_incomplete_stanza_moves_nobody() {
    let mut world = world();
    let (mut romeo, mut juliet) = (world.online("romeo"), world.online("juliet"));
    let long = "x".repeat(40_000);
    let stanza = format!(
        "<message type='chat' to='juliet@localhost'><body>7</body><x xmlns='a'>{long}</x></message>"
    );
    let before = moved(&mut world);
    for part in stanza.as_bytes().chunks(stanza.len() / 4) {
        romeo.send(std::str::from_utf8(part).expect("ASCII"));
        romeo.read(&mut world);
    }
    let moves = moved(&mut world) - before;
    assert!(moves <= 5, "{moves} moves");
    assert_eq!(bodies(&juliet.read(&mut world)), [7]);
}

/// Goal: what ends a stream finds its connection: the crash of its account's actor, which is on
/// another shard.
#[test]
fn a_stream_is_ended_wherever_its_connection_is() {
    for is_managed in [false, true] {
        let mut world = world();
        let mut peers: Vec<Peer> = Vec::new();
        for stanzas in 0..3 {
            let mut romeo = match is_managed {
                true => managed(&mut world, "romeo").0,
                false => world.online("romeo"),
            };
            for n in 0..stanzas {
                romeo.say("juliet", n);
            }
            peers.push(romeo);
        }
        world.work();
        world.sim().kill("romeo@localhost");
        for romeo in peers {
            let end = romeo.end(&mut world);
            assert!(end.ends_with("</stream:stream>"), "{end}");
            assert!(end.contains("<internal-server-error"), "{end}");
        }
        // The account itself goes on.
        world.online("romeo");
    }
}

/// Goal: the range of an account whose connections move stays where it is, and they do not mind.
#[test]
fn its_range_stays_with_who_is_online() {
    let mut world = world();
    let (mut romeo, _) = managed(&mut world, "romeo");
    let mut juliet = world.online("juliet");
    world.pass(Duration::from_secs(10));
    let before = world.sim().shard("romeo@localhost");
    assert!(world.sim().move_range("romeo@localhost"));
    for n in 0..30 {
        world.pass(Duration::from_millis(100));
        romeo.say("juliet", n);
        assert_eq!(bodies(&juliet.read(&mut world)), [n]);
    }
    assert_eq!(world.sim().shard("romeo@localhost"), before);
    assert_eq!(world.sim().stats().gauge(Gauge::ManagedSessions), 1);
    // Without him it goes, and he comes again.
    romeo.send("</stream:stream>");
    romeo.end(&mut world);
    world.pass(Duration::from_secs(10));
    assert!(world.sim().move_range("romeo@localhost"));
    world.pass(Duration::from_secs(1));
    assert_ne!(world.sim().shard("romeo@localhost"), before);
    let mut romeo = world.online("romeo");
    romeo.say("juliet", 31);
    assert_eq!(bodies(&juliet.read(&mut world)), [31]);
}
