//! Clients that came to a node which is not their account's home: they notice nothing of that, and
//! lose nothing when either node is killed.

use std::thread;
use std::time::{Duration, Instant};

use testkit::client::Got;
use testkit::transport::Kind;
use testkit::tree::Element;

use crate::nodes::Nodes;
use crate::person::{ANSWER, ARCHIVE, Person, deaf, wait_for_word};

/// Goal: two clients at a node that is home of neither chat, speak in a room and read their
/// archives. The home of one is killed: its client goes on through the same node, and so does the
/// other; everything that was accepted is delivered, once and in order.
#[test]
fn clients_of_a_node_that_is_no_home_outlive_a_home() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let homes = nodes.add_at_different_homes("alice", "bob");
    let bobs = &*homes.other_name;
    let third = nodes.other(&[&homes.one, &homes.other]);
    let mut alice = Person::online(&mut nodes, "alice", &third);
    let mut bob = Person::online(&mut nodes, bobs, &third);
    for n in 0..10 {
        alice.say(bobs, &format!("before {n}"));
        bob.say("alice", &format!("answer {n}"));
    }
    alice.await_accepted();
    bob.await_accepted();
    bob.expect_bodies("alice", (0..10).map(|n| format!("before {n}")));
    alice.expect_bodies(bobs, (0..10).map(|n| format!("answer {n}")));
    assert_eq!(alice.archived(ARCHIVE), 20);
    alice.enter("hall");
    alice.open_room("hall");
    bob.enter("hall");
    bob.say_in("hall", "hello");
    bob.await_accepted();
    alice.expect_bodies("hall", ["hello".to_owned()]);
    bob.expect_bodies("hall", ["hello".to_owned()]);
    // Said and not acknowledged by its recipient.
    alice.say(bobs, "the last one");
    alice.await_accepted();
    nodes.node(&homes.other).kill().unwrap();
    for n in 0..10 {
        alice.say(bobs, &format!("meanwhile {n}"));
    }
    alice.await_accepted();
    let missed = (0..10).map(|n| format!("meanwhile {n}"));
    bob.expect_bodies(
        "alice",
        ["the last one".to_owned()].into_iter().chain(missed),
    );
    bob.say("alice", "I am back");
    bob.await_accepted();
    alice.expect_bodies(bobs, ["I am back".to_owned()]);
    bob.say_in("hall", "still here");
    bob.await_accepted();
    alice.expect_bodies("hall", ["still here".to_owned()]);
    bob.expect_bodies("hall", ["still here".to_owned()]);
    assert_eq!(bob.archived(ARCHIVE), 32);
    alice.has_stayed(&nodes.log_of_all());
    bob.has_stayed(&nodes.log_of_all());
}

/// Goal: the node that has the sockets is killed. Its clients resume their sessions at another
/// one, whoever's home that is, without losing what was said meanwhile.
#[test]
fn clients_outlive_the_node_that_they_came_to() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let homes = nodes.add_at_different_homes("alice", "bob");
    let bobs = &*homes.other_name;
    let third = nodes.other(&[&homes.one, &homes.other]);
    let mut alice = Person::online(&mut nodes, "alice", &homes.one);
    let mut bob = Person::online(&mut nodes, bobs, &third);
    alice.say(bobs, "before");
    alice.await_accepted();
    bob.expect_bodies("alice", ["before".to_owned()]);
    nodes.node(&third).kill().unwrap();
    for n in 0..10 {
        alice.say(bobs, &format!("meanwhile {n}"));
    }
    alice.await_accepted();
    // To the home of neither: to that of the other.
    bob.resume(&mut nodes, &homes.one);
    bob.expect_bodies("alice", (0..10).map(|n| format!("meanwhile {n}")));
    bob.say("alice", "I am back");
    bob.await_accepted();
    alice.expect_bodies(bobs, ["I am back".to_owned()]);
    assert_eq!(bob.archived(ARCHIVE), 12);
}

/// Goal: what carries a stream makes no difference: over WebSocket and BOSH, too, a client is
/// served by a node that is not its home, and goes on at the same node when the home is killed,
/// over WebSocket on the same stream.
#[test]
fn clients_of_the_web_are_served_by_any_node() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let homes = nodes.add_at_different_homes("alice", "bob");
    let bobs = &*homes.other_name;
    let third = nodes.other(&[&homes.one, &homes.other]);
    let mut alice = Person::online_over(&mut nodes, "alice", (&third, Kind::WebSocket));
    let mut bob = Person::online_over(&mut nodes, bobs, (&third, Kind::Bosh));
    for n in 0..10 {
        alice.say(bobs, &format!("{n}"));
        bob.say("alice", &format!("{n}"));
    }
    alice.await_accepted();
    bob.await_accepted();
    bob.expect_bodies("alice", (0..10).map(|n| n.to_string()));
    alice.expect_bodies(bobs, (0..10).map(|n| n.to_string()));
    nodes.node(&homes.one).kill().unwrap();
    bob.say("alice", "while you have no home");
    bob.await_accepted();
    alice.expect_bodies(bobs, ["while you have no home".to_owned()]);
    alice.say(bobs, "and on");
    alice.await_accepted();
    bob.expect_bodies("alice", ["and on".to_owned()]);
    alice.has_stayed(&nodes.log_of_all());
    bob.has_stayed(&nodes.log_of_all());
    // Requests are cut anew where they come: a stream over BOSH ends with its home.
    let bobs_home = nodes.home_of(&format!("{bobs}@localhost"));
    if bobs_home != third {
        nodes.restart(&homes.one);
        nodes.node(&bobs_home).kill().unwrap();
        bob.expect_end("reset");
        bob.resume(&mut nodes, &third);
        alice.say(bobs, "and back");
        alice.await_accepted();
        bob.expect_bodies("alice", ["and back".to_owned()]);
    }
}

/// Goal: who comes to a node that has only just started, whose links to others begin meanwhile, is
/// served, or told to come again; nobody is left without a word.
#[test]
fn who_comes_to_a_node_that_has_just_started_is_answered() {
    const COME: u32 = 100;
    const LEASE: Duration = Duration::from_secs(2);
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let homes = nodes.add_at_different_homes("alice", "bob");
    let third = nodes.other(&[&homes.one, &homes.other]);
    nodes.node(&third).kill().unwrap();
    // The others have no life of it any more.
    thread::sleep(LEASE * 2);
    let at = nodes.node(&third).address();
    nodes.node(&third).begin_to_start().unwrap();
    thread::scope(|all| {
        for n in 0..COME {
            let name = ["alice", &homes.other_name][n as usize % 2];
            all.spawn(move || {
                thread::sleep(Duration::from_millis(10) * n);
                let waited = wait_for_word(name, at);
                assert!(waited < ANSWER, "{n}, {name}: nothing for {waited:?}");
            });
        }
    });
    Person::online(&mut nodes, "alice", &third);
}

fn is_from(said: &Element, name: &str) -> bool {
    let from = said.attr("from");
    from.is_some_and(|from| from.starts_with(&format!("{name}@")))
}

/// Whether it is the error with which a stream ends whose home is another one now.
fn is_reset(said: &Element) -> bool {
    said.name == "error" && said.children().any(|condition| condition.name == "reset")
}

/// Goal: neither a client that sends as fast as it can nor one that reads nothing holds up others
/// of the same two nodes; who reads nothing is spared what is in no log, as at its home itself, and
/// is served once it reads.
#[test]
fn clients_of_one_link_do_not_feel_each_other() {
    const SHOUTS: usize = 2_000;
    const BYTES: usize = 20_000;
    let mut nodes = Nodes::start(&["a", "b"]);
    let home = nodes.add("alice");
    let bob = nodes.add_at(&home, "bob");
    let (carol, dave) = (nodes.add_at(&home, "carol"), nodes.add_at(&home, "dave"));
    let edge = nodes.other(&[&home]);
    let mut reads_nothing = deaf(&mut nodes, &bob, &edge);
    let mut alice = Person::online(&mut nodes, "alice", &edge);
    let mut carol = Person::online(&mut nodes, &carol, &edge);
    let mut other = Person::online(&mut nodes, &dave, &edge);
    let started = Instant::now();
    for n in 0..SHOUTS {
        alice.shout(&bob, BYTES);
        if n % 100 == 0 {
            let body = format!("still here {n}");
            carol.say(&dave, &body);
            carol.await_accepted();
            other.expect_bodies(carol.name(), [body]);
        }
    }
    alice.await_accepted();
    carol.say(&bob, "are you awake?");
    carol.await_accepted();
    let (mut came, mut last) = (0, None);
    loop {
        match reads_nothing.next(ANSWER).unwrap() {
            Got::Element(said) if is_from(&said, carol.name()) => break,
            Got::Element(said) => last = Some(said),
            // Its home has moved, and it has no session that could go on there.
            Got::StreamEnd | Got::LinkEnd if last.as_ref().is_some_and(is_reset) => break,
            other => panic!("{other:?} after {came}, {:?}", started.elapsed()),
        }
        came += 1;
    }
    assert!(came < SHOUTS, "everything was kept");
    nodes.node(&edge).stop().unwrap();
    nodes.node(&home).stop().unwrap();
}
