//! Snapshots that an operator asks for, and what is said if they cannot be had.

use std::io::{BufRead as _, BufReader, Read as _};

use rustix::process::Signal;

use crate::nodes::Nodes;
use crate::person::Person;

/// Goal: the command stores snapshots of all streams or of one, says what they cover, and a node
/// that begins with nothing begins with them.
#[test]
fn snapshots_are_stored_when_asked_for() {
    let mut nodes = Nodes::prepare(&["a", "b"]);
    nodes.create();
    nodes.restart("a");
    for user in ["alice", "bob"] {
        nodes.add(user);
    }
    let mut alice = Person::online(&mut nodes, "alice", "a");
    for n in 0..20 {
        alice.say("bob", &format!("{n}"));
    }
    alice.await_accepted();
    let all = nodes.run("a", &["cluster", "snapshot"]).unwrap();
    assert_eq!(all.lines().count(), 6, "{all}");
    assert!(all.contains("4 of 4 stored from node a's copy"), "{all}");
    let one = nodes
        .run("a", &["cluster", "snapshot", "--stream", "2"])
        .unwrap();
    assert!(one.contains("1 of 1 stored"), "{one}");
    let json = nodes.run("a", &["cluster", "snapshot", "--json"]).unwrap();
    assert!(
        json.contains("\"left\":[]") && !json.contains("why"),
        "{json}"
    );
    assert_eq!(json.matches("\"bytes\":").count(), 4, "{json}");
    let wrong = nodes.run("a", &["cluster", "snapshot", "--stream", "4"]);
    assert!(wrong.unwrap_err().contains("they are 0 to 3"));
    let stopped = nodes.run("b", &["cluster", "snapshot"]).unwrap_err();
    assert!(stopped.contains("no server runs"), "{stopped}");
    let alone = testkit::roost::Roost::start(&testkit::roost::Settings::new(), &[]).unwrap();
    let alone = alone.run(&["cluster", "snapshot"]).unwrap_err();
    assert!(alone.contains("is no node of a cluster"), "{alone}");
    nodes.restart("b");
    assert!(nodes.log("b").contains("loaded a snapshot"));
    alice.resume(&mut nodes, "b");
    let mut bob = Person::online(&mut nodes, "bob", "b");
    bob.expect_bodies("alice", (0..20).map(|n| format!("{n}")));
}

/// Goal: without an engine each stream is said not to be stored, and why; meanwhile another
/// operator is told that snapshots are under way. With the engine back all goes on.
#[test]
fn without_an_engine_it_is_said_that_nothing_was_stored() {
    let mut nodes = Nodes::start(&["a"]);
    for server in 0..3 {
        nodes.engine().signal(server, Signal::STOP).unwrap();
    }
    let mut first = nodes
        .node("a")
        .begin_to_run(&["cluster", "snapshot"])
        .unwrap();
    let mut out = BufReader::new(first.stdout.take().unwrap());
    let mut said = String::new();
    // Its first line comes when it was accepted.
    out.read_line(&mut said).unwrap();
    let second = nodes.run("a", &["cluster", "snapshot", "--stream", "0"]);
    let second = second.unwrap_err();
    assert!(
        second.contains("exit status: 75") && second.contains("under way"),
        "{second}"
    );
    out.read_to_string(&mut said).unwrap();
    assert_eq!(first.wait().unwrap().code(), Some(1), "{said}");
    let streams = said
        .lines()
        .filter(|line| line.starts_with(' ') && line.contains("not stored: "));
    assert_eq!(streams.count(), 4, "{said}");
    assert!(said.contains("\n4 not stored: "), "{said}");
    for server in 0..3 {
        nodes.engine().signal(server, Signal::CONT).unwrap();
    }
    nodes.until("they are stored again", |nodes| {
        nodes.run("a", &["cluster", "snapshot"]).is_ok()
    });
}
