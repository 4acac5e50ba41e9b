//! Servers that are nodes of a cluster, as processes, over an engine of three real servers: what is
//! accepted outlives any of them, and clients go on at another node.

#![allow(clippy::disallowed_methods)] // These wait for processes, on the real clock.

mod anywhere;
mod bosh;
mod drain;
mod grow;
mod large;
mod links;
mod nodes;
mod operators;
mod outlive;
mod person;
mod ready;
mod slow;
mod snapshot;
mod versions;

use nodes::Nodes;
use person::{ARCHIVE, Person};

/// Goal: a node refuses an engine that is not ready, and says which command mends it; with that
/// done it serves.
#[test]
fn a_node_refuses_an_engine_that_is_not_ready() {
    let mut nodes = Nodes::prepare(&["a"]);
    // Until the servers have found each other something else is wrong with them.
    let refused = nodes.refused("a", "the stream roost-0 is missing");
    assert!(
        refused.contains("the stream roost-0 is missing"),
        "{refused}"
    );
    assert!(
        refused.contains("roost cluster check --create"),
        "{refused}"
    );
    nodes.create();
    nodes.restart("a");
    let refused = nodes.node("a").run(&["restore", "nothing"]).unwrap_err();
    assert!(refused.contains("a server runs"), "{refused}");
    nodes.node("a").stop().unwrap();
    let refused = nodes.node("a").run(&["user", "list"]).unwrap_err();
    assert!(refused.contains("a node of a cluster"), "{refused}");
    // The same folder without [cluster] would go on by itself, and differ from the streams.
    let alone = nodes.alone("a");
    assert!(alone.contains("of a node of a cluster"), "{alone}");
}

/// Goal: one node in a cluster does what a server that stands alone does, and a kill loses nothing
/// that was accepted: accounts, rosters, messages that wait, archives, sessions.
#[test]
fn a_single_node_survives_a_kill() {
    let mut nodes = Nodes::start(&["a"]);
    for user in ["alice", "bob", "carol"] {
        nodes.add(user);
    }
    let mut alice = Person::online(&mut nodes, "alice", "a");
    let mut bob = Person::online(&mut nodes, "bob", "a");
    for n in 0..20 {
        alice.say("bob", &format!("to bob {n}"));
        alice.say("carol", &format!("to carol {n}"));
    }
    alice.await_accepted();
    bob.expect_bodies("alice", (0..20).map(|n| format!("to bob {n}")));
    // Sent and accepted, and not acknowledged by bob.
    alice.say("bob", "the last one");
    alice.await_accepted();
    nodes.node("a").kill().unwrap();
    nodes.restart("a");
    bob.resume(&mut nodes, "a");
    bob.expect_bodies("alice", ["the last one".to_owned()]);
    alice.resume(&mut nodes, "a");
    alice.say("bob", "and on");
    alice.await_accepted();
    bob.expect_bodies("alice", ["and on".to_owned()]);
    let mut carol = Person::online(&mut nodes, "carol", "a");
    carol.expect_bodies("alice", (0..20).map(|n| format!("to carol {n}")));
    assert_eq!(alice.archived(ARCHIVE), 42);
    nodes.node("a").stop().unwrap();
}

/// Goal: a node that is killed together with a server of the engine comes back while that server is
/// away: the loss of one is what the others are for.
#[test]
fn a_node_starts_while_a_server_of_the_engine_is_away() {
    let mut nodes = Nodes::start(&["a"]);
    nodes.add("alice");
    let mut alice = Person::online(&mut nodes, "alice", "a");
    alice.say("alice", "before");
    alice.await_accepted();
    alice.expect_bodies("alice", ["before".to_owned()]);
    nodes.node("a").kill().unwrap();
    nodes.kill_server(0);
    nodes.restart("a");
    alice.resume(&mut nodes, "a");
    alice.say("alice", "and on");
    alice.await_accepted();
    alice.expect_bodies("alice", ["and on".to_owned()]);
}

/// Goal: two clients whose accounts are at home on different nodes chat, whichever nodes they came
/// to. The home of one is killed: both go on, and everything that was accepted is delivered, once
/// and in order.
#[test]
fn two_clients_go_on_when_the_home_of_one_is_killed() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let homes = nodes.add_at_different_homes("alice", "bob");
    let (alice_at, bob_at, bobs) = (homes.one, homes.other, &*homes.other_name);
    let third = nodes.other(&[&alice_at, &bob_at]);
    // Each comes to a node that is not the home.
    let mut alice = Person::online(&mut nodes, "alice", &third);
    let mut bob = Person::online(&mut nodes, bobs, &alice_at);
    for n in 0..10 {
        alice.say(bobs, &format!("before {n}"));
        bob.say("alice", &format!("answer {n}"));
    }
    alice.await_accepted();
    bob.await_accepted();
    bob.expect_bodies("alice", (0..10).map(|n| format!("before {n}")));
    alice.expect_bodies(bobs, (0..10).map(|n| format!("answer {n}")));
    nodes.node(&bob_at).kill().unwrap();
    // Alice's account has its home, and what she says is accepted.
    for n in 0..10 {
        alice.say(bobs, &format!("meanwhile {n}"));
    }
    alice.await_accepted();
    bob.resume(&mut nodes, &third);
    bob.expect_bodies("alice", (0..10).map(|n| format!("meanwhile {n}")));
    bob.say("alice", "I am back");
    bob.await_accepted();
    alice.expect_bodies(bobs, ["I am back".to_owned()]);
    assert_eq!(alice.archived(ARCHIVE), 31);
    assert_eq!(bob.archived(ARCHIVE), 31);
    // The node that was killed comes back, and has a share of the homes again.
    nodes.restart(&bob_at);
    // Their accounts' homes may be moved to it: then they come back.
    alice.say(bobs, "and on");
    alice.await_accepted();
    bob.expect_bodies("alice", ["and on".to_owned()]);
}
