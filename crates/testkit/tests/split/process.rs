//! What operators see of a server as two processes: commands, signals, health and figures.

use std::thread;

use rustix::process::Signal;
use testkit::roost::Settings;

use crate::nodes::Nodes;
use crate::person::Person;

/// Goal: commands reach the home through the edge, and bans both; figures are of both.
#[test]
fn operators_reach_the_home_through_the_edge() {
    let mut nodes = Nodes::split(&["alice"]);
    let mut alice = Person::online(&mut nodes, "alice", "");
    nodes
        .run(&["user", "add", "bob@localhost", "--password", "pencil"])
        .unwrap();
    let listed = nodes.run(&["user", "list"]).unwrap();
    assert!(
        listed.contains("alice@localhost") && listed.contains("bob@localhost"),
        "{listed}"
    );
    let status = nodes.run(&["status"]).unwrap();
    assert!(status.contains("connections  1"), "{status}");
    nodes.run(&["ban", "add", "192.0.2.7"]).unwrap();
    assert!(nodes.run(&["ban", "list"]).unwrap().contains("192.0.2.7"));
    assert_eq!(nodes.page("/healthz").unwrap().0, 200);
    assert_eq!(nodes.page("/readyz").unwrap().0, 200);
    // Shards say their figures once in a while.
    nodes.until("the session is counted", |nodes| {
        nodes.figure("roost_sessions") == 1.0
    });
    assert_eq!(nodes.figure("roost_edge_sessions"), 0.0);
    assert!(nodes.figure("roost_edge_net_connections") >= 1.0);
    nodes.run(&["user", "kick", "alice@localhost"]).unwrap();
    alice.expect_end("policy-violation");
    nodes.node("").stop().unwrap();
    assert!(nodes.homes_are_gone());
}

/// Goal: SIGHUP is for both processes, and a second server on the same data is refused.
#[test]
fn signals_are_for_both_processes() {
    let mut nodes = Nodes::split(&["alice"]);
    nodes.node("").reload().unwrap();
    nodes.until("both reloaded", |nodes| {
        let log = nodes.log();
        log.contains("home reloaded") && log.matches("reloaded").count() >= 2
    });
    let second = nodes.run(&["serve"]).unwrap_err();
    assert!(second.contains("another server runs there"), "{second}");
    let mut alice = Person::online(&mut nodes, "alice", "");
    nodes.node("").begin_to_stop().unwrap();
    alice.expect_end("system-shutdown");
}

/// Goal: a supervisor and a terminal send signals to every process of a service: the home leaves
/// them to the edge, which has it end in order behind everybody's goodbye.
#[test]
fn signals_for_all_processes_end_the_home_behind_its_edge() {
    let mut nodes = Nodes::split(&["alice", "bob"]);
    let mut alice = Person::online(&mut nodes, "alice", "");
    let home = nodes.homes();
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        nodes.signal_home(signal);
    }
    alice.say("bob", "still there");
    alice.await_accepted();
    assert_eq!(nodes.homes(), home);
    nodes.signal_home(Signal::TERM);
    nodes.node("").begin_to_stop().unwrap();
    alice.expect_end("system-shutdown");
    nodes.until("it ends in order", |nodes| {
        nodes.log().contains("home ends")
    });
    assert!(!nodes.log().contains("another one is started"));
}

/// Goal: bans that are made at the same time are all kept, by both processes and in their file.
#[test]
fn bans_at_the_same_time_are_all_kept() {
    const EACH: usize = 12;
    let mut nodes = Nodes::split(&[]);
    thread::scope(|scope| {
        for network in 0..4 {
            let nodes = &nodes;
            scope.spawn(move || {
                for n in 0..EACH {
                    let address = format!("192.0.{network}.{n}");
                    nodes.run(&["ban", "add", &address]).unwrap();
                }
            });
        }
    });
    assert_eq!(nodes.file("bans").lines().count(), 4 * EACH);
    nodes.run(&["ban", "remove", "192.0.3.7"]).unwrap();
    nodes.node("").stop().unwrap();
    nodes.node("").start_again().unwrap();
    let listed = nodes.run(&["ban", "list"]).unwrap();
    assert_eq!(listed.matches("192.0.").count(), 4 * EACH - 1, "{listed}");
    nodes.node("").stop().unwrap();
}

/// Goal: an edge that is killed leaves no home behind, and the server starts again on the data.
#[test]
fn a_home_ends_with_its_edge() {
    let mut nodes = Nodes::split(&["alice", "bob"]);
    let mut alice = Person::online(&mut nodes, "alice", "");
    alice.say("bob", "before");
    alice.await_accepted();
    nodes.node("").kill().unwrap();
    nodes.node("").start_again().unwrap();
    alice.resume(&mut nodes, "");
    let mut bob = Person::online(&mut nodes, "bob", "");
    bob.expect_bodies("alice", ["before".to_owned()]);
    nodes.node("").stop().unwrap();
}

/// Goal: a server that was one process goes on as two, and back.
#[test]
fn data_is_the_same_for_one_process_and_for_two() {
    let split = |is: bool| Settings::from([("server.split".to_owned(), is.to_string())]);
    let mut nodes = Nodes::split_with(&["alice", "bob"], split(false));
    for is_split in [true, false] {
        let mut alice = Person::online(&mut nodes, "alice", "");
        alice.say("bob", "kept");
        alice.await_accepted();
        nodes.node("").stop().unwrap();
        nodes.node("").set("server.split", &is_split.to_string());
        nodes.node("").start_again().unwrap();
        let mut bob = Person::online(&mut nodes, "bob", "");
        bob.expect_bodies("alice", ["kept".to_owned()]);
    }
    nodes.node("").stop().unwrap();
}
