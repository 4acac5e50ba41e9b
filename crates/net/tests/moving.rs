//! Connections that move between shards under their name: nothing of what is said in either
//! direction is lost or comes in another order, and whoever has the name notices nothing.

mod common;

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::Duration;

use common::{
    Client, Node, PATIENCE, certificate, client_tls, direct, name, patient, plain, server_tls,
};
use net::{Closed, ConnRef, Limits};

const NAP: Duration = Duration::from_millis(300);

/// A client whose connection has its name of this shard, and is there.
fn named(node: &Node, shard: u16) -> (ConnRef, Client<TcpStream>) {
    let mut client = node.connect();
    client.say(&format!("move {shard}"));
    loop {
        let conn = name_behind(&mut client);
        if conn.shard.index() == shard {
            return (conn, client);
        }
    }
}

/// The name, whether or not the connection says before that it has moved.
fn name_behind(client: &mut Client<TcpStream>) -> ConnRef {
    client.say("here");
    while client.hear() != "here" {}
    name(client)
}

/// The shard on which it is does nothing for a while.
fn nap(node: &Node, shard: u16) -> Client<TcpStream> {
    let (_, mut sleeper) = named(node, shard);
    assert_eq!(sleeper.ask("ready"), "ready");
    sleeper.say(&format!("nap {}", NAP.as_millis()));
    // Not before it sleeps.
    thread::sleep(NAP / 6);
    sleeper
}

#[test]
fn a_connection_that_moves_keeps_its_name() {
    let node = Node::start(3, patient());
    let (conn, mut client) = named(&node, 0);
    for shard in [1, 2, 0, 2, 1, 0, 0, 1] {
        client.say(&format!("hop {shard}"));
        assert_eq!(client.ask("where"), shard.to_string());
        assert_eq!(name(&mut client), conn);
        node.remote.write(conn, b"word\n".to_vec()).expect("room");
        assert_eq!(client.hear(), "word");
        node.remote.control(conn, b"told\n".to_vec()).expect("room");
        assert_eq!(client.hear(), "told");
    }
    let adopted = node.shelf.lock().expect("shelf").adopted;
    assert!(adopted <= 1, "it is not handed over");
    drop(client);
    node.until("it is gone", |node| node.shared.connections() == 0);
}

/// Goal: bytes in both directions, in order, while it moves behind each line: what it says, what
/// another thread says to it, and what a connection of another shard does.
#[test]
fn nothing_is_lost_or_overtaken_in_either_direction() {
    const LINES: usize = 500;
    let node = Node::start(3, patient());
    let (conn, mut client) = named(&node, 0);
    let (_, mut other) = named(&node, 1);
    client.say("wander 3");
    let script: String = (0..LINES).map(|n| format!("said {n}\n")).collect();
    let mut writer = client.stream.try_clone().expect("clone");
    thread::scope(|threads| {
        threads.spawn(|| {
            for part in script.as_bytes().chunks(37) {
                writer.write_all(part).expect("write");
            }
        });
        threads.spawn(|| {
            for n in 0..LINES {
                let line = |word| format!("{word} {n}\n").into_bytes();
                node.remote.control(conn, line("told")).expect("room");
                node.remote.write(conn, line("written")).expect("room");
            }
        });
        threads.spawn(|| {
            let (shard, id) = (conn.shard.index(), conn.id);
            for n in 0..LINES {
                other.say(&format!(
                    "far {shard} {} {} far {n}",
                    id.index, id.generation
                ));
            }
        });
        let kinds = ["said", "told", "written", "far"];
        let mut heard = [0; 4];
        while heard.iter().sum::<usize>() < 4 * LINES {
            let line = client.hear();
            let (word, number) = line.split_once(' ').expect("two words");
            let kind = kinds.iter().position(|kind| *kind == word).expect("a kind");
            assert_eq!(number, heard[kind].to_string(), "{line}");
            heard[kind] += 1;
        }
    });
    node.until("it has moved all the time", |node| {
        node.moved() >= LINES as u64
    });
}

/// Goal: its window: a place of it comes back by the connection's name, wherever it is.
#[test]
fn its_window_goes_along() {
    let limits = Limits {
        window_max: 4,
        ..patient()
    };
    let node = Node::start(3, limits);
    let (_, mut client) = named(&node, 0);
    client.say("wander 3");
    for _ in 0..40 {
        client.say("slow");
    }
    for _ in 0..40 {
        assert_eq!(client.hear(), "slow");
    }
    assert_eq!(client.ask("end"), "end");
}

#[test]
fn tls_goes_along() {
    let (certificate, root) = certificate(&["localhost"]);
    let tls = server_tls(vec![certificate]);
    let node = Node::with(vec![direct(), plain()], 3, Some(tls), patient());
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        for is_direct in [true, false] {
            let mut before = node.connect_to(usize::from(!is_direct));
            if !is_direct {
                // Also in the middle of a handshake.
                before.say("wander 3\ntls");
                assert_eq!(before.hear(), "proceed");
            }
            let roots = std::slice::from_ref(&root);
            let mut client = client_tls(before.stream, "localhost", roots, version);
            if is_direct {
                client.say("wander 3");
            }
            assert_eq!(client.hear(), "secure");
            let conn = name(&mut client);
            for n in 0..20 {
                // Records that are complete only with the next read.
                let long = format!("{n}{}", "z".repeat(50_000));
                client.say(&long);
                node.remote.write(conn, b"word\n".to_vec()).expect("room");
                let mut heard = [client.hear(), client.hear()];
                heard.sort_by_key(String::len);
                assert!(heard == ["word".to_owned(), long], "round {n}");
            }
        }
    }
}

#[test]
fn who_closes_one_half_hears_all_that_follows() {
    let node = Node::start(3, patient());
    let (_, mut client) = named(&node, 0);
    let script: String = (0..100).map(|n| format!("line {n}\n")).collect();
    client.say("wander 3");
    client.stream.write_all(script.as_bytes()).expect("write");
    client.stream.shutdown(Shutdown::Write).expect("shutdown");
    let mut all = String::new();
    client.stream.read_to_string(&mut all).expect("read");
    assert_eq!(all, script);
    node.until("closed", |node| node.closed(Closed::ByPeer) == 1);
}

#[test]
fn a_peer_that_resets_while_its_connection_moves_is_gone() {
    let node = Node::start(2, patient());
    let (conn, mut client) = named(&node, 0);
    let mut sleeper = nap(&node, 1);
    client.say("hop 1");
    let socket = socket2::SockRef::from(&client.stream);
    socket.set_linger(Some(Duration::ZERO)).expect("linger");
    thread::sleep(NAP / 6);
    drop(client);
    assert_eq!(sleeper.ask("awake"), "awake");
    node.until("gone", |node| node.shared.connections() == 1);
    // It was told nothing that would be somebody else's now.
    node.remote
        .control(conn, b"word\n".to_vec())
        .expect("nobody knows");
    assert_eq!(sleeper.ask("there"), "there");
}

#[test]
fn what_is_said_while_it_is_on_its_way_arrives_behind_it() {
    let node = Node::start(3, patient());
    let ways = [(0, 1), (2, 1), (1, 0), (1, 2)];
    for ((from, to), is_written) in ways.into_iter().flat_map(|way| [(way, true), (way, false)]) {
        // The name is of shard 0: it goes from there, or over it.
        let (conn, mut client) = named(&node, 0);
        client.say(&format!("hop {from}"));
        assert_eq!(client.ask("where"), from.to_string());
        let mut sleeper = nap(&node, to);
        client.say(&format!("hop {to}\nfirst"));
        thread::sleep(NAP / 6);
        for n in 0..10 {
            let line = format!("{n}\n").into_bytes();
            let told = match is_written {
                true => node.remote.write(conn, line),
                false => node.remote.control(conn, line),
            };
            told.expect("room");
        }
        let mut heard: Vec<String> = (0..11).map(|_| client.hear()).collect();
        let at = heard.iter().position(|line| line == "first");
        heard.remove(at.expect("it said so"));
        let all: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        assert_eq!(heard, all, "from {from} to {to}");
        assert_eq!(client.ask("where"), to.to_string());
        assert_eq!(sleeper.ask("awake"), "awake");
    }
}

#[test]
fn who_is_closed_while_it_moves_hears_what_was_said_before() {
    let node = Node::start(3, patient());
    let (conn, mut client) = named(&node, 0);
    let mut sleeper = nap(&node, 1);
    client.say("hop 1");
    thread::sleep(NAP / 6);
    node.remote.write(conn, b"last\n".to_vec()).expect("room");
    node.remote.close(conn).expect("room");
    assert_eq!(client.hear(), "last");
    assert_eq!(client.try_hear(), None);
    node.until("closed", |node| node.closed(Closed::ByUs) == 1);
    // The same with one that is about to leave a shard that is not its name's.
    let (_, mut client) = named(&node, 0);
    client.say("hop 2\nquit");
    assert_eq!(client.hear(), "bye");
    assert_eq!(client.try_hear(), None);
    assert_eq!(sleeper.ask("awake"), "awake");
}

#[test]
fn its_deadline_goes_along() {
    let node = Node::start(3, patient());
    let (_, mut client) = named(&node, 0);
    client.say("wander 3\ndeadline 1500");
    for n in 0..10 {
        assert_eq!(client.ask(&n.to_string()), n.to_string());
    }
    assert_eq!(client.hear(), "late");
    assert_eq!(client.try_hear(), None);
    // One that passes while it is on its way.
    let (_, mut client) = named(&node, 0);
    let _sleeper = nap(&node, 1);
    client.say("deadline 100\nhop 1");
    assert_eq!(client.hear(), "late");
    assert_eq!(client.try_hear(), None);
}

/// Goal: output that its peer does not take goes along, and so does the patience with it: it is not
/// given up for what it took in the end.
#[test]
fn what_waits_for_a_slow_reader_goes_along() {
    const BIG: usize = 6_000_000;
    let limits = Limits {
        // It is read on meanwhile.
        backlog_pause: 64 << 20,
        backlog_max: 128 << 20,
        stall_timeout: Duration::from_secs(2),
        ..patient()
    };
    let node = Node::start(3, limits);
    let (_, mut client) = named(&node, 0);
    client.say(&format!("big {BIG}"));
    thread::sleep(NAP);
    client.say("\nwander 3");
    for n in 0..10 {
        client.say(&n.to_string());
    }
    node.until("it has moved", |node| node.moved() >= 10);
    let line = client.hear();
    assert_eq!(line.len(), BIG);
    assert!(line.bytes().all(|byte| byte == b'x'));
    for n in 0..10 {
        assert_eq!(client.hear(), n.to_string());
    }
    thread::sleep(Duration::from_secs(3));
    assert_eq!(client.ask("still"), "still");
    assert_eq!(node.closed(Closed::Timeout), 0);
}

/// Goal: a peer that never reads is given up, wherever its connection is.
#[test]
fn one_that_takes_nothing_is_given_up_elsewhere_too() {
    let limits = Limits {
        backlog_pause: 64 << 20,
        backlog_max: 128 << 20,
        stall_timeout: Duration::from_secs(1),
        ..patient()
    };
    let node = Node::start(2, limits);
    let (_, mut client) = named(&node, 0);
    client.say("big 20000000");
    thread::sleep(NAP);
    client.say("hop 1");
    node.until("given up", |node| node.closed(Closed::Timeout) == 1);
    node.until("gone", |node| node.shared.connections() == 0);
}

/// Goal: the target does not take its mail; everybody comes all the same, and a shard that is not
/// there is no target.
#[test]
fn a_shard_that_is_behind_or_not_there_is_no_obstacle() {
    const CROWD: usize = 50;
    let limits = Limits {
        port_mailbox_max: 1,
        ..patient()
    };
    let node = Node::start(3, limits);
    let mut crowd: Vec<_> = (0..CROWD).map(|n| named(&node, n as u16 % 3)).collect();
    let mut sleeper = nap(&node, 1);
    for (_, client) in &mut crowd {
        client.say("hop 1\nwhere\nhop 2\nwhere");
    }
    for (conn, _) in &crowd {
        node.remote
            .control(*conn, b"word\n".to_vec())
            .expect("room");
    }
    for (conn, client) in &mut crowd {
        let mut heard = [client.hear(), client.hear(), client.hear()];
        heard.sort();
        assert_eq!(heard, ["1", "2", "word"]);
        assert_eq!(name(client), *conn);
        // There is none of that number.
        client.say("hop 9");
        assert_eq!(client.ask("where"), "2");
    }
    assert_eq!(sleeper.ask("awake"), "awake");
}

/// Goal: the place of one that has moved is somebody else's: each hears what is said to its own
/// name, and what is said to one that has ended, nobody hears.
#[test]
fn nobody_gets_the_name_of_one_that_has_moved() {
    let node = Node::start(2, patient());
    let (conn, mut client) = named(&node, 0);
    client.say("hop 1");
    assert_eq!(client.ask("where"), "1");
    let (others, mut crowd): (Vec<_>, Vec<_>) = (0..20).map(|_| named(&node, 0)).unzip();
    assert!(others.iter().any(|other| other.id.index == conn.id.index));
    assert!(!others.contains(&conn));
    for (n, other) in others.iter().enumerate() {
        let line = format!("{n}\n").into_bytes();
        node.remote.control(*other, line).expect("room");
    }
    node.remote.control(conn, b"own\n".to_vec()).expect("room");
    assert_eq!(client.hear(), "own");
    drop(client);
    node.until("it is gone", |node| node.closed(Closed::ByPeer) == 1);
    for _ in 0..3 {
        node.remote
            .control(conn, b"nobody's\n".to_vec())
            .expect("nobody knows");
        thread::sleep(Duration::from_millis(20));
    }
    for (n, other) in crowd.iter_mut().enumerate() {
        assert_eq!(other.hear(), n.to_string());
        assert_eq!(other.ask("end"), "end");
    }
}

#[test]
fn a_handler_that_panics_elsewhere_ends_its_connection_alone() {
    let node = Node::start(2, patient());
    let (conn, mut client) = named(&node, 0);
    let (_, mut other) = named(&node, 1);
    client.say("hop 1\npanic");
    assert_eq!(client.try_hear(), None);
    node.until("crashed", |node| node.closed(Closed::Crashed) == 1);
    node.remote
        .control(conn, b"word\n".to_vec())
        .expect("nobody knows");
    assert_eq!(other.ask("still"), "still");
    node.until("gone", |node| node.shared.connections() == 1);
}

/// Goal: it may be handed over, wherever it is: also to the shard where it is, and on its way.
#[test]
fn one_that_has_moved_is_handed_over() {
    let node = Node::start(3, patient());
    for (at, to) in [(1, 1), (1, 2), (0, 2), (2, 1)] {
        let (conn, mut client) = named(&node, 0);
        client.say(&format!("hop {at}\nmove {to}"));
        assert_eq!(client.hear(), format!("moved {to}"));
        let new = name(&mut client);
        assert_ne!(new, conn);
        assert_eq!(new.shard.index(), to);
        assert_eq!(client.ask("where"), to.to_string());
        node.remote
            .control(conn, b"old\n".to_vec())
            .expect("nobody knows");
        node.remote.control(new, b"new\n".to_vec()).expect("room");
        assert_eq!(client.hear(), "new");
    }
}

/// What was said to a connection in the turn in which it was handed over was lost.
#[test]
fn what_is_said_in_the_turn_of_a_hand_over_goes_along() {
    let node = Node::start(2, patient());
    let (_, mut client) = named(&node, 0);
    for round in 0..20 {
        let to = (round + 1) % 2;
        client.say(&format!("now {to}"));
        assert_eq!(client.hear(), "now");
        assert_eq!(client.hear(), format!("moved {to}"));
    }
    for round in 0..20 {
        let to = (round + 1) % 2;
        client.say(&format!("retell {to}"));
        assert_eq!(client.hear(), "retold");
        assert_eq!(client.hear(), format!("moved {to}"));
    }
}

#[test]
fn a_drain_reaches_those_who_move() {
    let node = Node::start(3, patient());
    let mut crowd: Vec<_> = (0..60).map(|n| named(&node, n % 3).1).collect();
    for client in &mut crowd {
        client.say("wander 3");
        for n in 0..50 {
            client.say(&n.to_string());
        }
    }
    node.shared.drain_within(PATIENCE);
    for client in &mut crowd {
        let mut last = String::new();
        while let Some(line) = client.try_hear() {
            last = line;
        }
        assert_eq!(last, "bye");
    }
    assert_eq!(node.shelf.lock().expect("shelf").drained, 60);
    node.until("all gone", |node| node.shared.connections() == 0);
}
