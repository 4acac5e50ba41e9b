//! Bounds of what waits within a node, made small: between shards, for the states of connections,
//! and of what operators and tests ask for. Whoever reaches one is told, or ends: a stream never
//! goes on behind a gap.

mod common;

use std::io::Write as _;

use actor::ShardId;
use common::{Client, Node, name, patient, plain};
use net::{Certificate, ConnRef, Disturbance, Limits, Network, TlsError, TlsSettings};

type Plain = Client<std::net::TcpStream>;

/// Clients of both shards: one of the first, and three of the second.
fn four(node: &Node) -> [(ConnRef, Plain); 4] {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    while first.is_empty() || second.len() < 3 {
        let mut client = node.connect();
        let conn = name(&mut client);
        match conn.shard.index() {
            0 => first.push((conn, client)),
            _ => second.push((conn, client)),
        }
    }
    let one = first.pop().expect("there is one");
    let mut three = second.into_iter();
    let mut next = || three.next().expect("there are three");
    [one, next(), next(), next()]
}

/// What a client heard of lines that are numbers, which end.
fn heard(client: &mut Plain) -> Vec<String> {
    std::iter::from_fn(|| client.try_hear()).collect()
}

/// What one shard says to clients of another finds no room: each of them hears all up to some
/// place, and ends there. It went on behind the gap, as if nothing had been.
#[test]
fn output_that_finds_no_room_between_shards_ends_its_connection() {
    let limits = Limits {
        remote_operations_max: 3,
        ..patient()
    };
    let node = Node::start(2, limits);
    let mut rounds = 0;
    loop {
        let [
            (_, mut from),
            (a, mut first),
            (b, mut second),
            (_, mut witness),
        ] = four(&node);
        let far = |to: ConnRef, text: &str| {
            let (shard, id) = (to.shard.index(), to.id);
            format!("far {shard} {} {} {text}\n", id.index, id.generation)
        };
        let lines: String = (0..4)
            .map(|n| far(a, &n.to_string()) + &far(b, &n.to_string()))
            .collect();
        from.stream.write_all(lines.as_bytes()).expect("write");
        assert_eq!(from.ask("all are said"), "all are said");
        // A shard reads its sockets before it takes what others say: without a turn in between, a
        // client could be gone before the first line comes to it.
        assert_eq!(witness.ask("a turn is over"), "a turn is over");
        // Whoever is still there closes.
        for client in [&mut first, &mut second] {
            // It may be gone.
            let _ = client.stream.write_all(b"quit\n");
        }
        let (first, second) = (heard(&mut first), heard(&mut second));
        let has_all = ["0", "1", "2", "3", "bye"];
        let is_whole = |lines: &[String]| lines == has_all;
        if is_whole(&first) && is_whole(&second) {
            // They were not read at once.
            rounds += 1;
            assert!(rounds < 100, "the bound is not reached");
            continue;
        }
        for lines in [first, second] {
            let is_prefix = lines.iter().zip(has_all).all(|(line, all)| line == all);
            assert!(is_prefix, "{lines:?}");
        }
        break;
    }
}

/// More is told to a connection than may wait: it hears what there was room for, and ends. What was
/// left out was lost, and the connection went on.
#[test]
fn a_connection_that_is_told_too_much_at_once_ends() {
    let limits = Limits {
        controls_max: 2,
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut rounds = 0;
    loop {
        let (mut busy, mut told, mut other) = (node.connect(), node.connect(), node.connect());
        let (conn, of_other) = (name(&mut told), name(&mut other));
        assert_eq!(busy.ask("ready"), "ready");
        busy.say("nap 300");
        std::thread::sleep(std::time::Duration::from_millis(50));
        for number in 0..5 {
            let line = format!("{number}\n").into_bytes();
            node.remote.control(conn, line).expect("it is on its way");
        }
        assert_eq!(busy.ask("awake"), "awake");
        // It may be gone.
        let _ = told.stream.write_all(b"quit\n");
        let lines = heard(&mut told);
        let all = ["0", "1", "2", "3", "4", "bye"];
        if lines == all {
            // The shard woke up in between.
            rounds += 1;
            assert!(rounds < 100, "the bound is not reached");
            continue;
        }
        let is_prefix = lines.iter().zip(all).all(|(line, all)| line == all);
        assert!(is_prefix, "{lines:?}");
        node.remote
            .control(of_other, b"there\n".to_vec())
            .expect("it is on its way");
        assert_eq!(other.hear(), "there", "nobody else notices");
        break;
    }
}

/// What comes for the connections of a shard that is behind waits outside of it: nothing is lost,
/// and everything comes in order.
#[test]
fn what_comes_for_a_shard_that_is_behind_waits() {
    const LINES: usize = 2_000;
    let limits = Limits {
        port_mailbox_max: 1,
        ..patient()
    };
    let node = Node::start(1, limits);
    let (mut busy, mut told) = (node.connect(), node.connect());
    let conn = name(&mut told);
    assert_eq!(busy.ask("ready"), "ready");
    busy.say("nap 300");
    for number in 0..LINES {
        let line = format!("{number}\n").into_bytes();
        node.remote.control(conn, line).expect("there is room");
    }
    assert_eq!(busy.ask("awake"), "awake");
    for number in 0..LINES {
        assert_eq!(told.hear(), number.to_string());
    }
}

#[test]
fn one_connection_too_many_that_is_opened_in_a_turn_is_refused() {
    let limits = Limits {
        openings_max: 3,
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut client = node.connect();
    assert_eq!(client.ask("open 5"), "3");
    node.until("they are there", |node| node.shared.connections() == 4);
    assert_eq!(client.ask("open 2"), "2");
    node.until("they are there", |node| node.shared.connections() == 6);
}

#[test]
fn so_many_disturbances_wait_for_a_shard() {
    let network = Network::<common::Lines>::bind(vec![plain()], 1, None, patient()).expect("bound");
    // Nobody runs it, so that all of them wait.
    let shared = network.shared();
    let disturb = || shared.disturb(ShardId::new(0), Disturbance::DropLinks(0));
    let taken = (0..100).filter(|_| disturb()).count();
    assert_eq!(taken, 64);
}

#[test]
fn so_many_certificates_are_possible() {
    const MAX: usize = 10_000;
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("made");
    let (pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let one = |n: usize| {
        let names = vec![format!("n{n}.localhost")];
        Certificate::from_pem(names, pem.as_bytes(), key.as_bytes()).expect("a certificate")
    };
    let with = |count: usize| TlsSettings::new((0..count).map(one).collect()).build();
    assert!(with(MAX).is_ok());
    assert_eq!(with(MAX + 1).err(), Some(TlsError::Count(MAX + 1)));
    assert_eq!(with(0).err(), Some(TlsError::Count(0)));
}
