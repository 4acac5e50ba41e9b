//! The loop over plaintext sockets: echo, windows, slow and silent peers, hand-over, limits, PROXY
//! headers, drain. Each test states what must hold; none uses a fake.

mod common;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use common::{CROWD, CROWD_ROUNDS, Client, Node, PATIENCE, patient, plain};
use net::{Closed, Limits, Rate};

#[test]
fn lines_are_echoed_whatever_their_cut() {
    let node = Node::start(1, patient());
    let mut client = node.connect();
    assert_eq!(client.ask("hello"), "hello");
    // Three items in one segment, then one item in many.
    client.stream.write_all(b"a\nb\nc\n").expect("write");
    assert_eq!(
        [client.hear(), client.hear(), client.hear()],
        ["a", "b", "c"]
    );
    for byte in b"trickled\n" {
        client.stream.write_all(&[*byte]).expect("write");
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(client.hear(), "trickled");
    assert_eq!(client.ask("count"), "6");
    assert_eq!(client.ask("quit"), "bye");
    assert_eq!(client.try_hear(), None);
    node.until("closed", |node| node.closed(Closed::ByUs) == 1);
    drop(node.connect());
    node.until("closed by peer", |node| node.closed(Closed::ByPeer) == 1);
    node.until("nobody left", |node| node.shared.connections() == 0);
}

#[test]
fn large_output_and_input_pass_whole() {
    let node = Node::start(1, patient());
    let mut client = node.connect();
    client.say("big 1500000");
    client.say("end");
    let line = client.hear();
    assert_eq!(line.len(), 1_500_003);
    let long = "y".repeat(300_000);
    assert_eq!(client.ask(&long), long);
}

#[test]
fn endless_incomplete_input_overflows() {
    let limits = Limits {
        incomplete_max: 8 * 1024,
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut client = node.connect();
    let _ = client.stream.write_all(&vec![b'z'; 200_000]);
    node.until("overflow", |node| node.closed(Closed::Overflow) == 1);
}

#[test]
fn a_client_that_never_reads_is_closed_at_the_bound() {
    let limits = Limits {
        backlog_max: 256 * 1024,
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut client = node.connect();
    let mut other = node.connect();
    for _ in 0..200 {
        if client.stream.write_all(b"big 200000\n").is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    node.until("closed or held", |node| {
        node.closed(Closed::Backlog) == 1 || node.shared.connections() == 2
    });
    // Others do not notice.
    assert_eq!(other.ask("still here"), "still here");
    let mut flooder = node.connect();
    flooder.say("big 90000000");
    node.until("backlog", |node| node.closed(Closed::Backlog) >= 1);
}

/// Goal: what waits for connections of one address is bounded together: the one that would make it
/// too much is closed, and neither the other one nor those of other addresses notice.
#[test]
fn clients_of_one_address_that_never_read_share_a_bound() {
    const BIG: usize = 20_000_000;
    let limits = Limits {
        backlog_max: 64 << 20,
        backlog_per_address_max: 30_000_000,
        exempt: Vec::new(),
        ..patient()
    };
    let node = Node::start(2, limits);
    let mut clients = [2, 2, 3].map(|last| node.connect_from(last));
    for client in &mut clients {
        assert_eq!(client.ask("here"), "here");
    }
    let [one, two, of_another] = &mut clients;
    for client in [&mut *one, of_another] {
        client.say(&format!("big {BIG}"));
        // Some of it is here: the rest fills the socket and waits.
        client.stream.read_exact(&mut [0; 1]).expect("read");
    }
    two.say(&format!("big {BIG}"));
    node.until("backlog", |node| node.closed(Closed::Backlog) == 1);
    assert_eq!(node.shared.connections(), 2);
    for client in [one, of_another] {
        let mut all = vec![0; BIG - 1];
        client.stream.read_exact(&mut all).expect("all of it");
    }
    assert_eq!(node.closed(Closed::Backlog), 1);
}

#[test]
fn a_stalled_reader_is_dead_after_its_time() {
    let limits = Limits {
        backlog_max: 64 * 1024 * 1024,
        stall_timeout: Duration::from_millis(300),
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut client = node.connect();
    client.say("big 20000000");
    node.until("stalled", |node| node.closed(Closed::Timeout) == 1);
}

#[test]
fn the_window_pauses_reads_and_credit_resumes_them() {
    let limits = Limits {
        window_max: 4,
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut client = node.connect();
    let many = "slow\n".repeat(50);
    client.stream.write_all(many.as_bytes()).expect("write");
    for _ in 0..50 {
        assert_eq!(client.hear(), "slow");
    }
    assert_eq!(client.ask("count"), "51");
}

#[test]
fn a_rate_slows_input_down() {
    let rate = Rate {
        per_second: 100_000,
        burst: 10_000,
    };
    let limits = Limits {
        rate: Some(rate),
        exempt: Vec::new(),
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut client = node.connect();
    let clock = stdx::time::SystemClock::new();
    let start = stdx::time::Clock::now(&clock);
    let line = "r".repeat(999);
    for _ in 0..60 {
        client.say(&line);
    }
    for _ in 0..60 {
        assert_eq!(client.hear(), line);
    }
    let took = stdx::time::Clock::now(&clock).saturating_since(start);
    assert!(
        took >= Duration::from_millis(300),
        "60 kB at 100 kB/s took {took:?}"
    );
}

#[test]
fn deadlines_fire() {
    let node = Node::start(1, patient());
    let mut client = node.connect();
    client.say("deadline 60000");
    client.say("deadline 50");
    assert_eq!(client.hear(), "late");
    assert_eq!(client.try_hear(), None);
}

#[test]
fn a_panic_ends_one_connection_only() {
    let node = Node::start(1, patient());
    let mut bad = node.connect();
    let mut good = node.connect();
    assert_eq!(good.ask("a"), "a");
    bad.say("panic");
    assert_eq!(bad.try_hear(), None);
    assert_eq!(good.ask("b"), "b");
    node.until("crashed", |node| node.closed(Closed::Crashed) == 1);
}

#[test]
fn hand_over_under_traffic_loses_nothing() {
    let node = Node::start(2, patient());
    let mut client = node.connect();
    let mut script = String::new();
    for number in 0..200 {
        script.push_str(&format!("line {number}\n"));
        if number % 10 == 5 {
            script.push_str(&format!("move {}\n", (number / 10) % 2));
        }
    }
    let mut writer = client.stream.try_clone().expect("clone");
    let sender = std::thread::spawn(move || {
        for part in script.as_bytes().chunks(37) {
            writer.write_all(part).expect("write");
        }
    });
    let mut heard = 0;
    let mut moves = 0;
    while heard < 200 {
        let line = client.hear();
        if line.starts_with("moved ") {
            moves += 1;
        } else {
            assert_eq!(line, format!("line {heard}"));
            heard += 1;
        }
    }
    sender.join().expect("sender");
    assert!(moves >= 19, "{moves} moves");
    assert_eq!(client.ask("count").parse::<u32>().expect("number"), 221);
}

/// More connections at once than an ordinary mailbox holds, for a shard that does not look.
#[test]
fn a_crowd_that_moves_to_a_busy_shard_loses_nobody() {
    net::raise_descriptor_limit();
    const CROWD: usize = 1_300;
    let node = Node::start(2, Limits::default());
    let mut crowd: Vec<_> = (0..CROWD).map(|_| node.connect()).collect();
    let mut sleeper = node.connect();
    // Whoever is there already does not move, and says nothing of it.
    let settle = |client: &mut Client<TcpStream>, shard: usize| {
        client.say(&format!("move {shard}\nhere"));
        while client.hear() != "here" {}
    };
    settle(&mut sleeper, 1);
    for client in &mut crowd {
        settle(client, 0);
    }
    sleeper.say("nap 1000");
    for client in &mut crowd {
        client.say("move 1");
    }
    for client in &mut crowd {
        assert_eq!(client.hear(), "moved 1");
        assert_eq!(client.ask("here"), "here");
    }
    assert_eq!(node.shared.connections(), CROWD as u64 + 1);
}

#[test]
fn connections_of_other_shards_are_reached() {
    let node = Node::start(2, patient());
    let mut a = node.connect();
    let mut b = node.connect();
    a.say("move 0");
    b.say("move 1");
    for client in [&mut a, &mut b] {
        client.say("who");
        let mut line = client.hear();
        if line.starts_with("moved") {
            line = client.hear();
        }
        client.kept = format!("{line}\n").into_bytes();
    }
    let (at_a, at_b) = (a.hear(), b.hear());
    for number in 0..100 {
        a.say(&format!("far {at_b} ping {number}"));
        assert_eq!(b.hear(), format!("ping {number}"));
        b.say(&format!("far {at_a} pong {number}"));
        assert_eq!(a.hear(), format!("pong {number}"));
    }
    let words: Vec<u32> = at_b
        .split(' ')
        .map(|w| w.parse().expect("number"))
        .collect();
    let id = stdx::slab::Key {
        index: words[1],
        generation: words[2],
    };
    let conn = net::ConnRef {
        shard: actor::ShardId::new(words[0] as u16),
        id,
    };
    node.remote
        .control(conn, b"control\n".to_vec())
        .expect("control");
    assert_eq!(b.hear(), "control");
    node.remote.write(conn, b"bytes\n".to_vec()).expect("write");
    assert_eq!(b.hear(), "bytes");
    node.remote.close(conn).expect("close");
    assert_eq!(b.try_hear(), None);
}

#[test]
fn limits_refuse_and_release() {
    let limits = Limits {
        connections_max: 5,
        connections_per_address_max: 3,
        exempt: Vec::new(),
        ..patient()
    };
    let node = Node::start(1, limits.clone());
    let mut clients: Vec<_> = (0..3).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("in"), "in");
    }
    assert_eq!(node.connect().try_hear(), None);
    node.until("refused", |node| node.shared.refused() == 1);
    clients.clear();
    node.until("room again", |node| node.shared.connections() == 0);
    assert_eq!(node.connect().ask("again"), "again");
    // Reloaded limits hold for what comes.
    node.until("empty", |node| node.shared.connections() == 0);
    node.shared.set_limits(Limits {
        connections_per_address_max: 0,
        ..limits
    });
    node.until("the new limits hold", |node| {
        let mut clients: Vec<_> = (0..4).map(|_| node.connect()).collect();
        let is_in = |client: &mut Client<TcpStream>| {
            client.stream.write_all(b"in\n").is_ok() && client.try_hear().is_some()
        };
        let are_in = clients.iter_mut().all(is_in);
        clients.clear();
        node.until("empty again", |node| node.shared.connections() == 0);
        are_in
    });
    let mut clients: Vec<_> = (0..5).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("in"), "in");
    }
    assert_eq!(node.connect().try_hear(), None);
}

#[test]
fn a_storm_is_paced_and_not_refused() {
    let limits = Limits {
        accepts_per_second: 100,
        accept_burst: 10,
        exempt: Vec::new(),
        ..patient()
    };
    let node = Node::start(1, limits);
    let clock = stdx::time::SystemClock::new();
    let start = stdx::time::Clock::now(&clock);
    let mut clients: Vec<_> = (0..60).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("in"), "in");
    }
    let took = stdx::time::Clock::now(&clock).saturating_since(start);
    assert!(
        took >= Duration::from_millis(400),
        "60 at 100/s took {took:?}"
    );
    assert_eq!(node.shared.refused(), 0);
}

#[test]
fn who_floods_with_connections_waits_for_himself() {
    let limits = Limits {
        accepts_per_second: 100,
        accept_burst: 1,
        accepts_waiting_max: 32,
        exempt: Vec::new(),
        ..patient()
    };
    let node = Node::start(1, limits);
    let flood: Vec<_> = (0..200).map(|_| node.connect_from(2)).collect();
    assert_eq!(node.connect_from(3).ask("in"), "in");
    // All places were taken, and the kernel's queue was full of the flood. Without turns 200 would
    // have been admitted first.
    let before = node.shelf.lock().expect("shelf").accepted.len();
    assert!(before < 40, "{before} were admitted first");
    assert!(node.shared.refused() > 100, "{}", node.shared.refused());
    drop(flood);
    assert_eq!(node.connect_from(2).ask("later"), "later");
}

#[test]
fn half_open_hundreds_do_not_disturb() {
    let node = Node::start(2, patient());
    let silent: Vec<_> = (0..600).map(|_| node.connect()).collect();
    let mut client = node.connect();
    for _ in 0..100 {
        assert_eq!(client.ask("x"), "x");
    }
    node.until("all in", |node| node.shared.connections() == 601);
    drop(silent);
    node.until("all out", |node| node.shared.connections() == 1);
}

#[test]
fn proxy_headers_name_the_client() {
    let mut trusted = plain();
    trusted.proxies = vec!["127.0.0.0/8".parse().expect("network")];
    let mut untrusted = plain();
    untrusted.proxies = vec!["192.0.2.0/24".parse().expect("network")];
    let node = Node::with(vec![trusted.clone(), untrusted], 1, None, patient());
    let mut client = node.connect();
    client
        .stream
        .write_all(b"PROXY TCP4 203.0.113.7 192.0.2.1 4321")
        .expect("write");
    std::thread::sleep(Duration::from_millis(20));
    client.stream.write_all(b" 5222\r\nfirst\n").expect("write");
    assert_eq!(client.hear(), "first");
    let mut second = node.connect();
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
    header.extend([198, 51, 100, 9, 192, 0, 2, 1, 0x10, 0x00, 0x14, 0x66]);
    header.extend(b"second\n");
    second.stream.write_all(&header).expect("write");
    assert_eq!(second.hear(), "second");
    {
        let journal = node.shelf.lock().expect("shelf");
        let peers: Vec<String> = journal
            .accepted
            .iter()
            .map(|p| p.address.to_string())
            .collect();
        assert_eq!(peers, ["203.0.113.7:4321", "198.51.100.9:4096"]);
    }
    let mut bad = node.connect();
    bad.say("no header");
    assert_eq!(bad.try_hear(), None);
    assert_eq!(node.connect_to(1).try_hear(), None);
    // The service never heard of the refused ones.
    let heard = |node: &Node| {
        let shelf = node.shelf.lock().expect("shelf");
        (shelf.accepted.len(), shelf.closed.len())
    };
    assert_eq!(heard(&node), (2, 0));
    let limits = Limits {
        proxy_timeout: Duration::from_millis(300),
        ..patient()
    };
    let hasty = Node::with(vec![trusted], 1, None, limits);
    assert_eq!(hasty.connect().try_hear(), None);
    assert_eq!(heard(&hasty), (0, 0));
}

#[test]
fn a_drain_cuts_nothing_off() {
    let node = Node::start(2, patient());
    let mut clients: Vec<_> = (0..300).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("in"), "in");
        client.say("big 100000");
    }
    node.shared.drain_within(Duration::from_secs(60));
    for client in &mut clients {
        let line = client.hear();
        assert!(
            line == "bye" || line.len() == 100_003,
            "{} bytes",
            line.len()
        );
        assert_eq!(client.try_hear(), None);
    }
    node.until("all gone", |node| node.shared.connections() == 0);
    assert!(TcpStream::connect(node.addresses[0]).is_err());
    assert_eq!(node.shelf.lock().expect("shelf").drained, 300);
}

/// However many there are and however little time, each is told; only so many in one turn.
#[test]
fn a_drain_tells_everybody_a_few_at_a_time() {
    for time in [Duration::ZERO, PATIENCE] {
        let limits = Limits {
            told_per_turn: 2,
            ..patient()
        };
        let node = Node::start(1, limits);
        let mut clients: Vec<_> = (0..9).map(|_| node.connect()).collect();
        for client in &mut clients {
            assert_eq!(client.ask("hello"), "hello");
        }
        node.shared.drain_within(time);
        for client in &mut clients {
            assert_eq!(client.try_hear().as_deref(), Some("bye"), "{time:?}");
            assert_eq!(client.try_hear(), None, "{time:?}");
        }
        let turns = told_in_turns(&node);
        assert_eq!(turns.iter().sum::<usize>(), 9);
        assert!(turns.iter().all(|told| *told <= 2), "{turns:?}");
    }
}

/// All that are asked to go at once are asked, only so many in one turn.
#[test]
fn clients_are_asked_to_go_a_few_at_a_time() {
    let limits = Limits {
        told_per_turn: 2,
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut clients: Vec<_> = (0..9).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("hello"), "hello");
    }
    node.shared.shed_within(Duration::ZERO);
    for client in &mut clients {
        assert_eq!(client.try_hear().as_deref(), Some("bye"));
    }
    let turns = told_in_turns(&node);
    assert_eq!(turns.iter().sum::<usize>(), 9);
    assert!(turns.iter().all(|told| *told <= 2), "{turns:?}");
}

/// How many connections were told to say goodbye in each turn of the only shard.
fn told_in_turns(node: &Node) -> Vec<usize> {
    let told = node.shelf.lock().expect("shelf").told_at.clone();
    let mut turns: BTreeMap<_, usize> = BTreeMap::new();
    for at in told {
        *turns.entry(at).or_default() += 1;
    }
    turns.into_values().collect()
}

#[test]
fn a_drain_ends_at_its_deadline() {
    let limits = Limits {
        backlog_max: 64 << 20,
        close_timeout: Duration::from_secs(60),
        ..patient()
    };
    let node = Node::start(1, limits);
    let mut stuck = node.connect();
    stuck.say("big 20000000");
    // Some of it is here: the rest fills the socket and waits.
    stuck.stream.read_exact(&mut [0; 1]).expect("read");
    node.shared.drain_within(Duration::from_millis(200));
    node.until("all gone", |node| node.shared.connections() == 0);
    node.until("cut", |node| node.closed(Closed::Shutdown) == 1);
}

/// Goal: clients are asked to go over the time, one after the other, and not those that come
/// meanwhile; nobody is asked once that is undone; a node that does not accept goes on with those
/// that are there.
#[test]
fn clients_are_asked_to_go_over_time() {
    let drained = |node: &Node| node.shelf.lock().expect("shelf").drained;
    let node = Node::start(2, patient());
    let mut clients: Vec<_> = (0..40).map(|_| node.connect()).collect();
    for client in &mut clients {
        assert_eq!(client.ask("in"), "in");
    }
    assert_eq!(node.shared.shed(), (0, 0), "nobody counts");
    node.shared.shed_within(Duration::from_secs(4));
    node.until("counted", |node| node.shared.shed().0 == 40);
    let mut later = node.connect();
    assert_eq!(later.ask("in"), "in");
    node.until("half are asked", |node| drained(node) >= 20);
    assert!(drained(&node) < 40, "all at once");
    node.until("all are asked", |node| drained(node) == 40);
    for client in &mut clients {
        assert_eq!(client.hear(), "bye");
        assert_eq!(client.try_hear(), None);
    }
    node.until("one is left", |node| node.shared.shed() == (1, 0));
    assert_eq!(later.ask("still"), "still");
    // The same is said again, and undone.
    node.shared.shed_within(Duration::from_secs(3_600));
    node.until("nobody is asked yet", |node| node.shared.shed() == (1, 1));
    node.shared.keep();
    node.until("forgotten", |node| node.shared.shed() == (1, 0));
    node.shared.stop_accepting();
    node.until("closed", |node| {
        TcpStream::connect(node.addresses[0]).is_err()
    });
    assert_eq!(later.ask("here"), "here");
    assert_eq!(drained(&node), 40);
}

#[test]
fn a_peer_that_resets_is_noticed_while_paused() {
    let node = Node::start(1, patient());
    let client = node.connect();
    let socket = socket2::SockRef::from(&client.stream);
    socket.set_linger(Some(Duration::ZERO)).expect("linger");
    drop(client);
    node.until("gone", |node| node.shared.connections() == 0);
    // A peer that shuts down its sending side still gets the answer to what it sent.
    let mut half = node.connect();
    half.say("last words");
    half.stream
        .shutdown(std::net::Shutdown::Write)
        .expect("shutdown");
    let mut all = String::new();
    half.stream.read_to_string(&mut all).expect("read");
    assert_eq!(all, "last words\n");
}

#[test]
fn nothing_is_read_while_the_actors_have_enough_to_do() {
    let node = Node::start(1, patient());
    let (mut one, mut other) = (node.connect(), node.connect());
    assert_eq!(other.ask("hello"), "hello");
    let rounds = || node.shelf.lock().expect("shelf").rounds;
    one.say("crowd");
    node.until("they have begun", |_| rounds() > 0);
    // It waits in the socket until so many have ended that the others are less than a turn's work.
    assert_eq!(other.ask("and now?"), "and now?");
    assert!(rounds() > CROWD * CROWD_ROUNDS / 2, "{}", rounds());
    node.until("all have ended", |_| rounds() == CROWD * CROWD_ROUNDS);
}

/// More of them than are read in one turn; and who does so no more waits with the others.
#[test]
fn who_stands_apart_is_read_although_the_actors_have_enough_to_do() {
    const APART: usize = 100;
    let node = Node::start(1, patient());
    let mut apart: Vec<_> = (0..APART).map(|_| node.connect()).collect();
    for client in &mut apart {
        assert_eq!(client.ask("apart"), "apart");
    }
    let (mut one, mut other) = (node.connect(), node.connect());
    assert_eq!(other.ask("apart"), "apart");
    assert_eq!(other.ask("together"), "together");
    let rounds = || node.shelf.lock().expect("shelf").rounds;
    one.say("crowd");
    node.until("they have begun", |_| rounds() > 0);
    for client in &mut apart {
        client.say("and now?");
    }
    other.say("and I?");
    for client in &mut apart {
        assert_eq!(client.hear(), "and now?");
    }
    assert!(rounds() < CROWD * CROWD_ROUNDS / 2, "{}", rounds());
    assert_eq!(other.hear(), "and I?");
    assert!(rounds() > CROWD * CROWD_ROUNDS / 2, "{}", rounds());
    node.until("all have ended", |_| rounds() == CROWD * CROWD_ROUNDS);
}
