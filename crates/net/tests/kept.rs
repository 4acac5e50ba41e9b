//! Input that waits, of all connections of an address together: whoever makes it too much ends, and
//! nobody else does.

mod common;

use std::io::Write as _;
use std::net::TcpStream;

use common::{Client, Node, certificate, direct, patient, server_tls};
use net::{Closed, Limits};

/// Room for some incomplete lines, of all who come from one address.
fn small() -> Limits {
    Limits {
        kept_per_address_max: 128 * 1024,
        exempt: Vec::new(),
        ..patient()
    }
}

fn send(client: &mut Client<TcpStream>, bytes: usize) {
    client.stream.write_all(&vec![b'z'; bytes]).expect("write");
}

/// What was sent before has been read when this returns: a turn reads 32 KiB of each.
fn read_all(node: &Node) {
    let mut other = node.connect_from(9);
    for _ in 0..16 {
        assert_eq!(other.ask("there"), "there");
    }
}

#[test]
fn incomplete_input_of_one_address_is_bounded_together() {
    let node = Node::start(1, small());
    let mut first = node.connect_from(2);
    send(&mut first, 60_000);
    read_all(&node);
    let mut second = node.connect_from(2);
    // It may be closed before it has written all.
    let _ = second.stream.write_all(&vec![b'z'; 100_000]);
    node.until("overflow", |node| node.closed(Closed::Overflow) == 1);
    let mut other = node.connect_from(3);
    send(&mut other, 100_000);
    read_all(&node);
    assert_eq!(other.ask("").len(), 100_000, "of another address");
    assert_eq!(first.ask("").len(), 60_000, "who had it before");
    let mut third = node.connect_from(2);
    send(&mut third, 100_000);
    assert_eq!(third.ask("").len(), 100_000, "there is room again");
    assert_eq!(node.closed(Closed::Overflow), 1);
}

/// A hundred clients with a little each are nobody's trouble.
#[test]
fn what_one_read_leaves_is_not_counted() {
    let node = Node::start(1, small());
    let mut crowd: Vec<_> = (0..20).map(|_| node.connect_from(2)).collect();
    for client in &mut crowd {
        send(client, 20_000);
    }
    read_all(&node);
    for client in &mut crowd {
        assert_eq!(client.ask("").len(), 20_000);
    }
}

/// A ClientHello that goes on and on, in whole records.
#[test]
fn incomplete_handshakes_of_one_address_are_bounded_together() {
    let (made, _) = certificate(&["localhost"]);
    let limits = Limits {
        kept_per_address_max: 64 * 1024,
        ..small()
    };
    let node = Node::with(vec![direct()], 1, Some(server_tls(vec![made])), limits);
    let mut hello = vec![1, 0, 0xf0, 0];
    hello.resize(16_384, 0);
    let record = |part: &[u8]| [&[22, 3, 1, 0x40, 0][..], part].concat();
    let filler = vec![0; 16_384];
    let bytes = [record(&hello), record(&filler), record(&filler)].concat();
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut client = node.connect_from(2);
        // It may be closed before it has written all.
        let _ = client.stream.write_all(&bytes);
        held.push(client);
    }
    node.until("overflow", |node| node.closed(Closed::Overflow) >= 1);
}

/// A connection without a socket, whose client sends more than it reads.
#[test]
fn what_a_paused_connection_is_fed_is_bounded() {
    let limits = Limits {
        fed_max: 10_000,
        ..small()
    };
    let node = Node::start(1, limits);
    let mut client = node.connect_from(2);
    assert_eq!(client.ask("feeder"), "true");
    node.until("it is there", |node| {
        node.shelf.lock().unwrap().fed.len() == 1
    });
    let fed = node.shelf.lock().unwrap().fed[0];
    let feed = |bytes| node.remote.control(fed, vec![b'x'; bytes]).expect("room");
    feed(6_000);
    assert_eq!(client.ask("there"), "there");
    assert_eq!(node.closed(Closed::Backlog), 0, "there was room");
    feed(6_000);
    node.until("too much", |node| node.closed(Closed::Backlog) == 1);
}

/// The same of its address, before it has too much itself.
#[test]
fn what_is_fed_counts_for_the_address() {
    let node = Node::start(1, small());
    let mut client = node.connect_from(2);
    for _ in 0..2 {
        assert_eq!(client.ask("feeder 127.0.0.2"), "true");
    }
    node.until("they are there", |node| {
        node.shelf.lock().unwrap().fed.len() == 2
    });
    let fed = node.shelf.lock().unwrap().fed.clone();
    for conn in fed {
        node.remote.control(conn, vec![b'x'; 80_000]).expect("room");
    }
    node.until("too much", |node| node.closed(Closed::Backlog) == 1);
    assert_eq!(client.ask("there"), "there");
    assert_eq!(node.closed(Closed::Backlog), 1, "the other has its room");
}

#[test]
fn what_a_service_keeps_counts_for_the_address() {
    let node = Node::start(1, small());
    let (mut first, mut second) = (node.connect_from(2), node.connect_from(2));
    assert_eq!(first.ask("hold 100000"), "true");
    assert_eq!(second.ask("hold 8000"), "true", "a little is not counted");
    assert_eq!(second.ask("hold 40000"), "false");
    assert_eq!(second.ask("hold 16000"), "true");
    assert_eq!(node.connect_from(3).ask("hold 100000"), "true");
    assert_eq!(first.ask("hold 60000"), "true");
    assert_eq!(second.ask("hold 40000"), "true");
    drop(first);
    node.until("it is gone", |node| node.closed(Closed::ByPeer) >= 1);
    assert_eq!(second.ask("hold 120000"), "true");
    assert_eq!(second.ask("hold 0"), "true");
    assert_eq!(
        node.closed(Closed::Backlog) + node.closed(Closed::Overflow),
        0
    );
}

/// A proxy that nobody counts speaks for many clients: each of them counts for its own address,
/// and so does the number of its connections.
#[test]
fn who_comes_through_a_proxy_counts_for_its_own_address() {
    let limits = Limits {
        exempt: vec!["127.0.0.2".parse().expect("an address")],
        connections_per_address_max: 2,
        ..small()
    };
    let node = Node::start(1, limits);
    let through = |address: &str| {
        let mut client = node.connect_from(2);
        assert_eq!(client.ask(&format!("from {address}")), "true");
        client
    };
    let (mut first, mut second) = (through("192.0.2.8"), through("192.0.2.8"));
    let mut third = node.connect_from(2);
    let _ = third.stream.write_all(b"from 192.0.2.8\n");
    node.until("one too many", |node| node.closed(Closed::ByUs) == 1);
    send(&mut first, 60_000);
    read_all(&node);
    // It may be closed before it has written all.
    let _ = second.stream.write_all(&vec![b'z'; 100_000]);
    node.until("overflow", |node| node.closed(Closed::Overflow) == 1);
    let mut other = through("192.0.2.9");
    send(&mut other, 100_000);
    read_all(&node);
    assert_eq!(other.ask("").len(), 100_000, "of another address");
    assert_eq!(first.ask("").len(), 60_000, "who had it before");
}
