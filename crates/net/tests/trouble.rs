//! Shards in trouble: what is done to one on purpose, and one that panics and starts over.

mod common;

use std::io::Read;
use std::time::Duration;

use actor::ShardId;
use common::{Node, patient};
use net::{Closed, Disturbance};

const FIRST: ShardId = ShardId::new(0);

#[test]
fn a_shard_that_panics_drops_its_connections_and_starts_over() {
    let node = Node::start(1, patient());
    let mut clients: Vec<_> = (0..3).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("hello"), "hello");
    }
    for times in 1..=3 {
        assert!(node.shared.disturb(FIRST, Disturbance::Panic));
        for client in &mut clients {
            assert_eq!(client.try_hear(), None, "its link ends");
        }
        node.until("all are closed", |node| {
            node.closed(Closed::Crashed) == 3 * times
        });
        clients = (0..3).map(|_| node.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.ask("again"), "again");
        }
    }
    drop(clients);
    node.until("nobody left", |node| node.shared.connections() == 0);
}

#[test]
fn a_shard_that_panics_leaves_others_alone() {
    let node = Node::start(2, patient());
    let mut clients: Vec<_> = (0..16).map(|_| node.connect()).collect();
    let shard_of = |who: String| who.split(' ').next().unwrap_or("").to_owned();
    let shards: Vec<String> = clients.iter_mut().map(|c| shard_of(c.ask("who"))).collect();
    assert!(shards.contains(&"0".to_owned()) && shards.contains(&"1".to_owned()));
    assert!(node.shared.disturb(FIRST, Disturbance::Panic));
    for (client, shard) in clients.iter_mut().zip(&shards) {
        if shard == "0" {
            assert_eq!(client.try_hear(), None);
        } else {
            assert_eq!(client.ask("still here"), "still here");
        }
    }
}

#[test]
fn links_are_dropped_and_reads_stall_when_told() {
    let node = Node::start(1, patient());
    let mut clients: Vec<_> = (0..4).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("hello"), "hello");
    }
    assert!(node.shared.disturb(FIRST, Disturbance::DropLinks(3)));
    node.until("three are gone", |node| node.closed(Closed::Broken) == 3);
    node.until("one is left", |node| node.shared.connections() == 1);

    let mut client = node.connect();
    assert_eq!(client.ask("hello"), "hello");
    let stall = Duration::from_secs(2);
    assert!(node.shared.disturb(FIRST, Disturbance::StallReads(stall)));
    std::thread::sleep(Duration::from_millis(200));
    client.say("late");
    let timeout = Some(Duration::from_millis(300));
    client.stream.set_read_timeout(timeout).expect("a timeout");
    let mut byte = [0];
    assert!(client.stream.read(&mut byte).is_err(), "nothing is read");
    client
        .stream
        .set_read_timeout(Some(common::PATIENCE))
        .expect("a timeout");
    assert_eq!(client.hear(), "late");
}
