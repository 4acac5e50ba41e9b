//! Clients whose streams outlive the home of their account: it moves, it is stopped, it is killed,
//! and they stay at the node that they came to.

use std::thread;
use std::time::{Duration, Instant};

use testkit::transport::Kind;

use crate::nodes::Nodes;
use crate::person::Person;

/// Says and is said something for so long: each body is a number, from `from` on. Gives the next.
fn chat(alice: &mut Person, bob: &mut Person, from: u32, time: Duration) -> u32 {
    let (names, started) = (
        (alice.name().to_owned(), bob.name().to_owned()),
        Instant::now(),
    );
    let mut next = from;
    while started.elapsed() < time {
        alice.say(&names.1, &next.to_string());
        bob.say(&names.0, &next.to_string());
        next += 1;
        thread::sleep(Duration::from_millis(20));
    }
    next
}

/// Connections of a node that went on at another home, by the figures of its shards.
fn outlived(nodes: &Nodes, name: &str) -> f64 {
    let (_, page) = nodes.page(name, "/metrics").expect("figures");
    let figures = page
        .lines()
        .filter(|line| line.starts_with("roost_homes_outlived_total{"));
    let values = figures.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.sum()
}

/// Everything that was said is heard, once and in order, and no stream has ended.
fn settle(nodes: &Nodes, (alice, bob): (&mut Person, &mut Person), numbers: std::ops::Range<u32>) {
    alice.await_accepted();
    bob.await_accepted();
    let all = || numbers.clone().map(|n| n.to_string());
    bob.expect_bodies(alice.name(), all());
    alice.expect_bodies(bob.name(), all());
    alice.has_stayed(&nodes.log_of_all());
    bob.has_stayed(&nodes.log_of_all());
}

/// Goal: the home is killed in the middle of a conversation; with two nodes the next one is the
/// node of the sockets itself. Then that home moves away again, to the node that came back.
#[test]
fn streams_outlive_a_home_that_is_killed() {
    let mut nodes = Nodes::start(&["a", "b"]);
    let home = nodes.add("alice");
    let bobs = nodes.add_at(&home, "bob");
    let edge = nodes.other(&[&home]);
    let mut alice = Person::online(&mut nodes, "alice", &edge);
    let mut bob = Person::online_over(&mut nodes, &bobs, (&edge, Kind::WebSocket));
    let mut next = chat(&mut alice, &mut bob, 0, Duration::from_secs(1));
    nodes.node(&home).kill().unwrap();
    next = chat(&mut alice, &mut bob, next, Duration::from_secs(6));
    settle(&nodes, (&mut alice, &mut bob), 0..next);
    assert_eq!(nodes.home_of("alice@localhost"), edge);
    assert_eq!(outlived(&nodes, &edge), 2.0);
    // Homes are evened out, which may move theirs; then nobody takes any but the other one.
    nodes.restart(&home);
    let from = next;
    next = chat(&mut alice, &mut bob, next, Duration::from_secs(2));
    let drain = nodes
        .node(&edge)
        .begin_to_run(&["drain", "--within", "60s"])
        .unwrap();
    nodes.until("homes are gone", |nodes| {
        nodes.figure(&edge, "roost_cluster_homes_served") == 0.0
    });
    next = chat(&mut alice, &mut bob, next, Duration::from_secs(2));
    settle(&nodes, (&mut alice, &mut bob), from..next);
    assert_eq!(nodes.home_of("alice@localhost"), home);
    assert!(outlived(&nodes, &edge) >= 4.0);
    nodes.run(&edge, &["drain", "--undo"]).unwrap();
    drain.wait_with_output().unwrap();
}

/// Goal: the home is stopped in order, and killed the moment after: streams at a third node stay
/// through both moves.
#[test]
fn streams_outlive_homes_that_are_stopped() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let home = nodes.add("alice");
    let bobs = nodes.add_at(&home, "bob");
    let edge = nodes.other(&[&home]);
    let mut alice = Person::online(&mut nodes, "alice", &edge);
    let mut bob = Person::online(&mut nodes, &bobs, &edge);
    let mut next = chat(&mut alice, &mut bob, 0, Duration::from_secs(1));
    nodes.node(&home).begin_to_stop().unwrap();
    next = chat(&mut alice, &mut bob, next, Duration::from_secs(3));
    nodes.node(&home).kill().unwrap();
    let second = nodes.home_of("alice@localhost");
    assert_ne!(second, home);
    if second != edge {
        nodes.restart(&home);
        nodes.node(&second).kill().unwrap();
        next = chat(&mut alice, &mut bob, next, Duration::from_secs(6));
    }
    settle(&nodes, (&mut alice, &mut bob), 0..next);
}
