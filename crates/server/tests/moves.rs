//! Ranges that move from one shard of a node to another on command, while clients are at work
//! (docs/decisions/0142).

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Client, managed, options, start, start_on, start_with};
use server::admin::{Request, Response};
use server::options::{Balance, Component, Secret};
use server::{Node, Options};
use store::{Durability, FaultyEngine, MemoryEngine, SlotKey, Store};
use telemetry::Gauge;

fn message(to: &str, body: &str) -> String {
    format!("<message to='{to}' type='chat'><body>{body}</body></message>")
}

fn move_to(node: &Node, address: &str, shard: u16) -> Response {
    node.admin().call(Request::RangeMove {
        range: address.to_owned(),
        shard,
    })
}

fn code(response: &Response) -> &str {
    match response {
        Response::Error { code, .. } => code,
        _ => "",
    }
}

/// Goal: who is at both ends of a conversation can be moved again and again: no stream ends, and
/// everything is heard once and in order, also what was sent while a range was on its way.
#[test]
fn streams_go_where_their_accounts_go() {
    let running = start(2, true, &["alice", "bob"]);
    let node = &running.node;
    let (mut alice, mut bob) = (managed(node, "alice"), managed(node, "bob"));
    let mut moved = 0;
    for n in 0..40u16 {
        alice.send(&message("bob@localhost/a", &format!("{n}.")));
        let whose = ["alice@localhost", "bob@localhost"][usize::from(n % 2)];
        let response = move_to(node, whose, n / 2 % 2);
        match &response {
            Response::Moved { from, .. } => moved += u32::from(*from != n / 2 % 2),
            other => panic!("{other:?}"),
        }
        alice.send(&message("bob@localhost/a", &format!("{n}, behind.")));
        let heard = bob.expect(&format!("<body>{n}, behind.</body>"));
        assert_eq!(heard.matches("<body>").count(), 2, "{heard}");
        assert!(!heard.contains("stream:"), "{heard}");
        bob.send("<r xmlns='urn:xmpp:sm:3'/>");
        bob.expect("<a ");
        alice.send("<r xmlns='urn:xmpp:sm:3'/>");
        let answered = alice.expect(&format!("h='{}'/>", 2 * n + 3));
        assert!(!answered.contains("stream:"), "{answered}");
    }
    assert!(moved > 10, "{moved}");
}

/// Goal: a client without stream management would lose its stream: its range stays, an operator is
/// told so, and the client notices nothing.
#[test]
fn a_range_with_a_plain_stream_stays() {
    let running = start(2, true, &["alice", "bob"]);
    let node = &running.node;
    let mut alice = Client::login(node.addresses()[0], "alice", "a");
    alice.send("<presence/>");
    alice.expect("<presence ");
    for shard in 0..2 {
        let response = move_to(node, "alice@localhost", shard);
        match &response {
            Response::Moved { from, .. } => assert_eq!(*from, shard),
            other => assert_eq!(code(other), "busy", "{other:?}"),
        }
    }
    let mut bob = Client::login(node.addresses()[0], "bob", "a");
    bob.send(&message("alice@localhost", "still there"));
    let heard = alice.expect("<body>still there</body>");
    assert!(!heard.contains("stream:"), "{heard}");
}

/// Goal: a client whose socket and account are on two shards does not follow its account, although
/// its stream can be resumed: an operator is told so, and not to try again and again.
#[test]
fn a_range_with_a_stream_on_another_shard_stays() {
    let running = start(2, false, &["alice"]);
    let node = &running.node;
    let mut stayed = 0;
    while stayed < 3 {
        // Which shard accepts it is up to the kernel: where its account is, it follows.
        let mut alice = managed(node, "alice");
        for shard in 0..2 {
            match move_to(node, "alice@localhost", shard) {
                Response::Moved { .. } => {}
                Response::Error { code, message } => {
                    assert_eq!(code, "busy");
                    assert!(message.contains("would end"), "{message}");
                    stayed += 1;
                }
                other => panic!("{other:?}"),
            }
        }
        alice.send("<r xmlns='urn:xmpp:sm:3'/>");
        let heard = alice.expect("h='1'/>");
        assert!(!heard.contains("stream:"), "{heard}");
    }
}

/// Goal: an account that nobody uses moves, and is served where it is from then on.
#[test]
fn who_is_not_there_moves_too() {
    let running = start(2, true, &["alice", "bob"]);
    let node = &running.node;
    for shard in [0, 1, 0] {
        let moved = move_to(node, "bob@localhost", shard);
        assert!(matches!(moved, Response::Moved { .. }), "{moved:?}");
    }
    let mut alice = managed(node, "alice");
    alice.send(&message("bob@localhost", "for later"));
    alice.send("<r xmlns='urn:xmpp:sm:3'/>");
    alice.expect("h='2'/>");
    for shard in [1, 0, 1] {
        let moved = move_to(node, "bob@localhost", shard);
        assert!(matches!(moved, Response::Moved { .. }), "{moved:?}");
    }
    let mut bob = Client::login(node.addresses()[0], "bob", "a");
    bob.send("<presence/>");
    let heard = bob.expect("<body>for later</body>");
    assert_eq!(heard.matches("<body>").count(), 1, "{heard}");
}

/// Goal: an operator still sees what waits for a domain that is away, when its sender, who is not
/// loaded, has moved.
#[test]
fn what_waits_for_somebody_is_listed_where_its_sender_is() {
    const AWAY: &str = "bot.localhost";
    let mut options = options(2, true);
    options.delivery.limits.idle_eviction = Duration::from_millis(10);
    options.components.served = vec![Component {
        domain: AWAY.into(),
        secret: Secret::new("a secret of some length".to_owned()),
        port: 0,
    }];
    let running = start_with(options, net::Limits::default(), &["alice"]);
    let node = &running.node;
    let admin = node.admin();
    let mut alice = managed(node, "alice");
    alice.send(&message(AWAY, "for later"));
    alice.send("<r xmlns='urn:xmpp:sm:3'/></stream:stream>");
    alice.expect("</stream:stream>");
    let waits = || {
        let queues = match admin.call(Request::QueueList { sender: None }) {
            Response::Queues { queues } => queues.len(),
            other => panic!("{other:?}"),
        };
        let senders = admin.sample().shards.into_iter().map(|shard| {
            let found = shard.gauges.into_iter();
            let found = found.filter(|(name, _)| name == Gauge::QueueSenders.name());
            found.map(|(_, value)| value).sum::<u64>()
        });
        (queues, senders.collect::<Vec<_>>())
    };
    let until = Instant::now() + Duration::from_secs(60);
    while waits().0 == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(200));
    for shard in [0, 1, 0] {
        let moved = move_to(node, "alice@localhost", shard);
        assert!(matches!(moved, Response::Moved { .. }), "{moved:?}");
        let senders = [vec![1, 0], vec![0, 1]][usize::from(shard)].clone();
        assert_eq!(waits(), (1, senders));
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn shards(node: &Node) -> Vec<u16> {
    match node.admin().call(Request::RangeList) {
        Response::Ranges { shards } => shards,
        other => panic!("{other:?}"),
    }
}

/// Goal: where one shard has everything to do, ranges leave it by themselves, and those who are at
/// work notice nothing; and then it is over.
#[test]
fn ranges_leave_a_busy_shard_by_themselves() {
    let options = Options {
        balance: Balance {
            is_on: true,
            every: Duration::from_millis(300),
            looks: 2,
            busy_min: 0.01,
            gap_min: 0.005,
            gain_min: 0.001,
            ..Balance::default()
        },
        ..options(2, true)
    };
    let users = ["alice", "bob", "carol", "dave"];
    let running = start_with(options, net::Limits::default(), &users);
    let node = &running.node;
    for user in users {
        let moved = move_to(node, &format!("{user}@localhost"), 0);
        assert!(matches!(moved, Response::Moved { .. }), "{moved:?}");
    }
    let before = shards(node);
    let mut clients = users.map(|user| managed(node, user));
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut n = 0;
    while shards(node) == before {
        assert!(Instant::now() < deadline, "nothing moves");
        for from in 0..users.len() {
            let to = from ^ 1;
            let bare = format!("{}@localhost/a", users[to]);
            clients[from].send(&message(&bare, &format!("{n}.")));
            let heard = clients[to].expect(&format!("<body>{n}.</body>"));
            assert_eq!(heard.matches("<body>").count(), 1, "{heard}");
            assert!(!heard.contains("stream:"), "{heard}");
        }
        for client in &mut clients {
            client.send("<r xmlns='urn:xmpp:sm:3'/>");
            // Enabled, presence, and a message each round.
            let heard = client.expect(&format!("h='{}'/>", n + 2));
            assert!(!heard.contains("stream:"), "{heard}");
        }
        n += 1;
    }
}

fn room(jid: &str) -> [String; 2] {
    [
        format!(
            "{{\"type\":\"room\",\"jid\":\"{jid}\",\"creator\":\"alice@localhost\",\"created\":0,\
             \"first\":1,\"secret\":\"AAAAAAAAAAAAAAAAAAAAAA==\",\
             \"config\":{{\"muc#roomconfig_persistentroom\":[\"1\"]}}}}"
        ),
        format!("{{\"type\":\"room_open\",\"jid\":\"{jid}\"}}"),
    ]
}

/// Goal: rooms are imported where they are at home, also if the range of one of them moves while
/// others are made durable.
#[test]
fn an_import_goes_where_its_rooms_go() {
    let engine = FaultyEngine::new(MemoryEngine::new());
    let faults = engine.faults();
    let slots = SlotKey::new([7; 16]);
    let store = Store::with_engine(Arc::new(engine), Durability::Fsync, slots);
    let mut options = options(2, true);
    options.commits.import_attempts = 20;
    let running = start_on(
        store.expect("a store"),
        options,
        net::Limits::default(),
        &["alice"],
    );
    let node = &running.node;
    let rooms: Vec<String> = (0..20)
        .map(|n| format!("room{n}@conference.localhost"))
        .collect();
    let range = |room: &&String| slots.slot(room).range();
    let (first, mut others) = (&rooms[0], rooms.iter());
    let other = others.find(|room| range(room) != range(&first));
    let other = other.expect("one of another range");
    for (room, shard) in [(first, 0), (other, 1)] {
        let moved = move_to(node, room, shard);
        assert!(matches!(moved, Response::Moved { .. }), "{moved:?}");
    }
    // Long enough for a move between the first shard's commit and the other's.
    faults.set_commit_delay(Duration::from_millis(600));
    let admin = node.admin();
    let lines = [first, other].into_iter().flat_map(|jid| room(jid));
    let lines: Vec<String> = lines.collect();
    let import = std::thread::spawn(move || {
        admin.call(Request::Import {
            lines,
            check: false,
            strays: Vec::new(),
        })
    });
    std::thread::sleep(Duration::from_millis(200));
    let moved = move_to(node, other, 0);
    assert!(
        matches!(moved, Response::Moved { from: 1, .. }),
        "{moved:?}"
    );
    let made = Response::Imported {
        accounts: 0,
        rooms: 2,
        nodes: 0,
    };
    assert_eq!(import.join().expect("it ends"), made);
}

/// Goal: what cannot be done is said.
#[test]
fn an_operator_is_told_why_not() {
    let running = start(2, true, &["alice"]);
    let node = &running.node;
    assert_eq!(code(&move_to(node, "alice@localhost", 2)), "bad_request");
    assert_eq!(code(&move_to(node, "128", 0)), "bad_request");
    assert_eq!(code(&move_to(node, "alice@elsewhere", 0)), "foreign_domain");
    let Response::Ranges { shards } = node.admin().call(Request::RangeList) else {
        panic!("no list");
    };
    assert_eq!(shards.len(), usize::from(store::RANGES));
}
