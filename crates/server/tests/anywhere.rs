//! Two nodes in this process with a link between them that a test holds up: everything is at home
//! on the one, and clients come to the other. What such a client is held to, and what becomes of it
//! when the link, or either node, does not go on.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use common::Client;
use common::two::{EDGE, HOME, Two, WINDOW, message, rest};
use server::Options;
use server::admin::{Request, Response};
use server::away::Taken;
use store::RangeId;

/// Goal: clients of a node that is nobody's home chat in order, and what is at home elsewhere is
/// not loaded there; a client that goes is gone at the home too, behind what it said last.
#[test]
fn clients_of_an_edge_chat_and_go() {
    let two = Two::start(&["alice", "bob"]);
    let loaded = two.edge.node().accounts_loaded();
    let mut alice = two.login("alice", "a");
    let mut bob = two.login("bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    for turn in 0..100 {
        alice.send(&message("bob@localhost", &turn.to_string()));
    }
    for turn in 0..100 {
        bob.expect(&format!("<body>{turn}</body></message>"));
    }
    two.until("nobody is loaded at the edge", |two| {
        two.edge.node().accounts_loaded() == loaded
    });
    assert_eq!(two.home.node().connections(), 2);
    alice.send(&message("bob@localhost", "the last"));
    drop(alice);
    bob.expect("<body>the last</body>");
    two.until("alice is gone", |two| two.home.node().connections() == 1);
    bob.send("</stream:stream>");
    assert!(rest(&mut bob).ends_with("</stream:stream>"));
    two.until("bob is gone", |two| {
        two.home.node().connections() + two.edge.node().connections() == 0
    });
}

/// Goal: whoever may not come in at the home does not through another node, at any step of a login:
/// a wrong password, a lock between login and session, more sessions than an account may have, more
/// connections than an address may have.
#[test]
fn the_home_decides_who_comes_in() {
    let network = net::Limits {
        exempt: Vec::new(),
        connections_per_address_max: 3,
        ..net::Limits::default()
    };
    let change = |options: &mut Options| options.limits.sessions_per_user = 1;
    let two = Two::start_with(&["alice", "bob"], change, network);
    let mut stranger = two.connect();
    stranger.open();
    stranger.authenticate_with("alice", "wrong");
    stranger.expect("<not-authorized/>");
    // The same stream goes on, and may still succeed.
    stranger.authenticate_with("alice", "secret");
    stranger.expect("<success");
    stranger.open();
    two.administer(Request::UserLock {
        jid: "alice@localhost".into(),
        locked: true,
    });
    stranger.bind("a");
    let refused = rest(&mut stranger);
    assert!(!refused.contains("<jid>"), "{refused}");
    let _first = two.login("bob", "1");
    let mut second = two.connect();
    second.open();
    second.authenticate_with("bob", "secret");
    second.expect("<success");
    second.open();
    second.bind("2");
    second.expect("<resource-constraint");
    let _third = two.login("bob", "1");
    two.until("one of them is replaced", |two| {
        two.home.node().connections() == 2
    });
    let mut fourth = two.connect();
    fourth.open();
    fourth.authenticate_with("bob", "secret");
    fourth.expect("<success");
    // The address has three now.
    let mut fifth = two.connect();
    fifth.open();
    fifth.authenticate_with("bob", "secret");
    fifth.expect("<stream:error>");
}

/// Goal: an operator of a node that is nobody's home is served by the home, and hears the same as
/// there; what all nodes do together is done by both; a home that takes nothing is named.
#[test]
fn an_operator_of_an_edge_reaches_the_home() {
    let two = Two::start(&["alice"]);
    let ask = |request| two.edge.node().admin().call(request);
    let jid = || "alice@localhost".to_owned();
    let code = |response| match response {
        Response::Error { code, message } => (code, message),
        other => panic!("{other:?}"),
    };
    let lock = |locked| Request::UserLock { jid: jid(), locked };
    let mut alice = two.login("alice", "a");
    assert_eq!(ask(lock(true)), Response::Ok);
    assert!(rest(&mut alice).contains("<not-authorized"));
    assert_eq!(ask(lock(false)), Response::Ok);
    let password = "another".to_owned();
    let add = Request::UserAdd {
        jid: jid(),
        password,
    };
    assert_eq!(code(ask(add)).0, "user_exists");
    let nobody = "nobody@localhost".to_owned();
    assert_eq!(
        code(ask(Request::UserKick { jid: nobody })).0,
        "no_such_user"
    );
    let wrong = "a@b@c".to_owned();
    assert_eq!(code(ask(Request::UserKick { jid: wrong })).0, "bad_address");
    let inspected = ask(Request::UserInspect { jid: jid() });
    assert!(matches!(inspected, Response::User { .. }), "{inspected:?}");
    let queues = ask(Request::QueueList { sender: None });
    assert_eq!(queues, Response::Queues { queues: Vec::new() });
    let provision = Request::Provision {
        domain: "localhost".to_owned(),
        users: 30,
        contacts: 2,
        password: "x".to_owned(),
        first: 0,
        count: 30,
    };
    assert_eq!(ask(provision), Response::Made { accounts: 30 });
    two.edge.way.refuse(true);
    let (code, message) = code(ask(lock(true)));
    assert_eq!(code, "busy");
    assert!(message.contains("node other"), "{message}");
}

/// Goal: what a node of an earlier version says is taken, each kind of it; what a later one says is
/// refused, and both are followed by what is said next.
#[test]
fn what_other_versions_say_does_not_stop_a_node() {
    let two = Two::start(&["alice", "bob"]);
    let range = two.home.door.range("juliet@capulet.lit").index();
    let fixtures = [
        include_str!("../../wire/tests/fixtures/v1.txt"),
        include_str!("../../wire/tests/fixtures/v2.txt"),
        include_str!("../../wire/tests/fixtures/v4.txt"),
        include_str!("../../wire/tests/fixtures/v5.txt"),
    ];
    let mut count = 0;
    for line in fixtures.iter().flat_map(|text| text.lines()) {
        let (name, hex) = line.split_once(' ').unwrap();
        let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let mut packet: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
        let is_placed = packet[2..8] != [0; 6];
        if is_placed {
            packet[2..4].copy_from_slice(&range.to_le_bytes());
            packet[4..8].copy_from_slice(&5u32.to_le_bytes());
        }
        // These nodes have two shards: of a connection that nobody has.
        let shard = match name {
            "join" | "adopt" | "adopt-answered" => Some(28),
            _ => name.starts_with("joined-").then_some(8),
        };
        if let Some(at) = shard {
            packet[at..at + 2].copy_from_slice(&0u16.to_le_bytes());
        }
        let taken = two.home.door.receive(EDGE, &packet);
        assert_eq!(taken, Taken::Yes, "{name}");
        packet[0] = u8::MAX;
        let later = two.home.door.receive(EDGE, &packet);
        assert!(matches!(later, Taken::Bad(why) if why.contains("version 255")));
        count += 1;
    }
    assert!(count > 20, "{count}");
    let mut alice = two.login("alice", "a");
    let mut bob = two.login("bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    alice.send(&message("bob@localhost", "and on"));
    bob.expect("<body>and on</body>");
}

/// Goal: an account can be made, and used, through a node that is not its home.
#[test]
fn an_account_is_made_through_an_edge() {
    let two = Two::start_with(
        &[],
        |options| options.registration_enabled = true,
        net::Limits::default(),
    );
    let mut new = two.connect();
    new.open();
    new.send(
        "<iq type='set' id='r'><query xmlns='jabber:iq:register'><username>carol</username>\
         <password>secret</password></query></iq>",
    );
    new.expect("type='result'");
    new.authenticate_with("carol", "secret");
    new.expect("<success");
    new.open();
    new.bind("c");
    new.expect("carol@localhost/c</jid>");
}

/// Goal: while the home takes nothing, a client that sends without an end has a window of it under
/// way and no more; what waits arrives in order when the home goes on.
#[test]
fn a_client_that_floods_has_a_window_under_way() {
    const MESSAGES: usize = 200;
    // On a busy machine bob may read slowly. What is in no log he is shown however much waits.
    let change = |options: &mut Options| {
        options.delivery.limits.others_backlog_max = usize::MAX;
    };
    let two = Two::start_with(&["alice", "bob"], change, net::Limits::default());
    let mut bob = two.login("bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    let mut alice = two.login("alice", "a");
    two.edge.way.hold(true);
    two.edge.way.most.store(0, Ordering::Relaxed);
    let body = "x".repeat(4_000);
    let flood = thread::spawn(move || {
        for turn in 0..MESSAGES {
            alice.send(&message("bob@localhost/b", &format!("{turn} {body}")));
        }
        alice
    });
    thread::sleep(Duration::from_secs(1));
    let most = two.edge.way.most.load(Ordering::Relaxed);
    assert!((WINDOW / 2..WINDOW + 4_096).contains(&most), "{most}");
    two.edge.way.hold(false);
    for turn in 0..MESSAGES {
        bob.expect(&format!("<body>{turn} "));
    }
    drop(flood.join().unwrap());
}

/// Goal: for a client that takes nothing a window is under way, `backlog_max` waits at the home as
/// it does for a client of its own, and then its stream ends at both.
#[test]
fn what_a_client_does_not_take_is_bounded_at_the_home() {
    let network = net::Limits {
        backlog_max: 256 * 1024,
        ..net::Limits::default()
    };
    let two = Two::start_with(&["alice", "bob"], |_| {}, network);
    let mut bob = two.login("bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    let mut alice = Client::login(two.home.node().addresses()[0], "alice", "a");
    two.home.way.hold(true);
    two.home.way.most.store(0, Ordering::Relaxed);
    let body = "x".repeat(20_000);
    for _ in 0..10 {
        alice.send(&message("bob@localhost/b", &body));
    }
    alice.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='p'");
    assert_eq!(two.home.node().connections(), 2);
    for _ in 0..20 {
        alice.send(&message("bob@localhost/b", &body));
    }
    two.until("the stream ends", |two| two.home.node().connections() == 1);
    let most = two.home.way.most.load(Ordering::Relaxed);
    assert!(most < WINDOW + 4_096, "{most}");
    two.home.way.hold(false);
    // An element was cut: nothing can be said behind it.
    assert!(!rest(&mut bob).contains("stream:error"));
}

/// Goal: a link that is full for a while delays, and loses nothing, in either direction.
#[test]
fn a_link_that_is_full_for_a_while_loses_nothing() {
    let two = Two::start(&["alice", "bob"]);
    let mut bob = two.login("bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    let mut alice = two.login("alice", "a");
    for way in [&two.edge.way, &two.home.way] {
        way.refuse(true);
        for turn in 0..10 {
            alice.send(&message("bob@localhost/b", &turn.to_string()));
        }
        thread::sleep(Duration::from_millis(300));
        way.refuse(false);
        for turn in 0..10 {
            bob.expect(&format!("<body>{turn}</body>"));
        }
    }
}

/// Goal: a client hears why its stream ended although it goes on sending, and what the home answers
/// to that overtakes what it had said.
#[test]
fn the_reason_of_an_end_arrives_whatever_overtakes_it() {
    let two = Two::start(&["alice"]);
    let mut alice = two.login("alice", "a");
    two.home.way.delay_sends(true);
    alice.send("<!-- no comments -->");
    two.until("her stream has ended at the home", |two| {
        two.home.node().connections() == 0
    });
    alice.send("<presence/>");
    // The home answers that it has no such connection.
    thread::sleep(Duration::from_millis(300));
    two.home.way.delay_sends(false);
    let heard = rest(&mut alice);
    assert!(heard.contains("<restricted-xml "), "{heard}");
    assert!(!heard.contains("<reset "), "{heard}");
}

/// Goal: what a client said right before it went arrives, although what its home had for it comes
/// to a connection that is gone, and the answer to that overtakes what the client said.
#[test]
fn what_was_said_last_arrives_whatever_overtakes_it() {
    let two = Two::start(&["alice", "bob"]);
    let mut alice = two.login("alice", "a");
    let mut bob = two.login("bob", "b");
    for client in [&mut alice, &mut bob] {
        client.send("<presence/>");
        client.expect("<presence");
    }
    two.home.way.hold(true);
    bob.send(&message("alice@localhost/a", "for alice"));
    two.until("it is on its way to her", |two| {
        !two.home.way.waiting().is_empty()
    });
    two.edge.way.delay_sends(true);
    alice.send(&message("bob@localhost/b", "the last"));
    thread::sleep(Duration::from_millis(100));
    drop(alice);
    two.until("she is gone at the edge", |two| {
        two.edge.node().connections() == 1
    });
    two.home.way.hold(false);
    thread::sleep(Duration::from_millis(300));
    two.edge.way.delay_sends(false);
    bob.expect("<body>the last</body>");
}

/// Goal: a link that takes nothing for too long ends what it would carry, and the client comes
/// again.
#[test]
fn a_link_that_takes_nothing_ends_its_connections() {
    let two = Two::start(&["alice"]);
    let mut alice = two.login("alice", "a");
    two.edge.way.refuse(true);
    alice.send("<presence/>");
    alice.expect("<stream:error><reset ");
    two.until("the home knows", |two| two.home.node().connections() == 0);
}

/// Goal: when the home is gone, streams end with an error after which clients come again; when the
/// edge is gone, its clients' sessions wait to be resumed by way of any other node.
#[test]
fn either_node_may_go() {
    let two = Two::start(&["alice", "bob"]);
    let mut alice = two.login("alice", "a");
    alice.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let enabled = alice.expect("/>");
    let id = enabled.split("id='").nth(1).unwrap();
    let id = id.split('\'').next().unwrap().to_owned();
    two.edge.door.forget_node(HOME);
    alice.expect("<stream:error><reset ");
    two.until("the home knows", |two| two.home.node().connections() == 0);
    // What comes meanwhile waits.
    let mut bob = two.login("bob", "b");
    bob.send(&message("alice@localhost/a", "while you are away"));
    let address = two.edge.node().addresses()[0];
    let resume = format!("<resume xmlns='urn:xmpp:sm:3' h='0' previd='{id}'/>");
    let mut alice = Client::authenticate(address, "alice");
    alice.send(&resume);
    alice.expect("<resumed ");
    alice.expect("<body>while you are away</body>");
    two.home.door.forget_node(EDGE);
    two.until("all are gone", |two| two.home.node().connections() == 0);
    bob.expect("<stream:error><reset ");
    let mut alice = Client::authenticate(two.home.node().addresses()[0], "alice");
    alice.send(&resume);
    alice.expect("<resumed ");
}

/// Goal: a client that was told that it is authenticated waits for a header: it is told one in
/// front of the error with which its stream ends (RFC 6120 sections 4.9.1.2 and 6.3.2).
#[test]
fn a_stream_that_ends_where_it_begins_anew_has_a_header() {
    let two = Two::start(&["alice"]);
    let mut alice = two.connect();
    alice.open();
    alice.authenticate_with("alice", "secret");
    alice.expect("<success xmlns='urn:ietf:params:xml:ns:xmpp-sasl'/>");
    two.edge.door.forget_node(HOME);
    let end = rest(&mut alice);
    let header = end.find("<stream:stream ");
    let error = end.find("<stream:error><reset ");
    assert!(header.is_some() && header < error, "{end}");
}

/// Goal: a client that comes while its account has no home, or one that dies before it answers,
/// waits and goes on at the next one: it need not come again.
#[test]
fn a_client_waits_for_the_next_home() {
    let two = Two::start(&["alice", "bob"]);
    let ranges: Vec<RangeId> = RangeId::all().collect();
    let mut clients = ["alice", "bob"].map(|user| {
        let mut client = two.connect();
        client.open();
        (user, client)
    });
    two.edge.way.hold(true);
    let (user, alice) = &mut clients[0];
    alice.authenticate_with(user, "secret");
    two.until("what she said is on its way", |two| {
        two.edge.way.most.load(Ordering::Relaxed) > 0
    });
    two.home.door.lose(&ranges);
    for range in &ranges {
        two.edge.door.set_away(*range, None);
    }
    two.edge.way.give_back();
    two.edge.door.forget_node(HOME);
    let (user, bob) = &mut clients[1];
    bob.authenticate_with(user, "secret");
    // Both look for a home more than once.
    thread::sleep(Duration::from_millis(250));
    two.edge.way.hold(false);
    two.home.door.gain(&ranges, 6);
    for range in ranges {
        two.edge.door.set_away(range, Some((HOME, 6)));
    }
    for (_, client) in &mut clients {
        client.expect("<success");
        client.open();
        client.bind("a");
        let bound = client.expect("<jid>");
        assert!(!bound.contains("<stream:error>"), "{bound}");
    }
}

/// Goal: what somebody says to an account whose home is on its way to another node is not refused:
/// it waits, and the next home answers. While nothing more can wait it is refused at once.
#[test]
fn what_is_said_to_an_account_waits_while_its_home_moves() {
    let two = Two::start(&["alice", "bob"]);
    let mut alice = Client::login(two.home.node().addresses()[0], "alice", "a");
    let range = two.home.door.range("bob@localhost");
    let ask = |id: &str| {
        format!("<iq type='get' id='{id}' to='bob@localhost'><vCard xmlns='vcard-temp'/></iq>")
    };
    assert_ne!(range, two.home.door.range("alice@localhost"));
    two.home.door.lose(&[range]);
    alice.send(&ask("waits"));
    alice.send("<iq type='get' id='between' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    let between = alice.expect("id='between'");
    assert!(!between.contains("id='waits'"), "{between}");
    two.edge.door.gain(&[range], 6);
    two.home.door.set_away(range, Some((EDGE, 6)));
    let answer = alice.expect("id='waits'");
    assert!(!answer.contains("resource-constraint"), "{answer}");
    two.edge.door.lose(&[range]);
    two.home.door.set_away(range, None);
    two.home.way.refuse(true);
    alice.send(&ask("refused"));
    alice.expect("resource-constraint");
}

/// Goal: what comes to the next home before that serves goes there again. It waited for a home of
/// yet another tenure, and was refused after ten seconds.
#[test]
fn what_comes_before_a_home_serves_goes_there_again() {
    let two = Two::start(&["alice", "bob"]);
    two.home.way.waits_for_homes();
    let mut alice = Client::login(two.home.node().addresses()[0], "alice", "a");
    let range = two.home.door.range("bob@localhost");
    two.home.door.lose(&[range]);
    two.home.door.set_away(range, Some((EDGE, 6)));
    alice.send("<iq type='get' id='early' to='bob@localhost'><vCard xmlns='vcard-temp'/></iq>");
    // It comes back more than once.
    thread::sleep(Duration::from_millis(250));
    two.edge.door.gain(&[range], 6);
    let answer = alice.expect("id='early'");
    assert!(!answer.contains("resource-constraint"), "{answer}");
}

/// Goal: a home that has served nothing for ten seconds is not tried any more, also if it serves
/// then; what waits goes to the next tenure.
#[test]
fn what_a_home_never_took_goes_to_its_successor() {
    let two = Two::start(&["alice", "bob"]);
    two.home.way.waits_for_homes();
    let mut alice = Client::login(two.home.node().addresses()[0], "alice", "a");
    let range = two.home.door.range("bob@localhost");
    two.home.door.lose(&[range]);
    two.home.door.set_away(range, Some((EDGE, 6)));
    alice.send("<iq type='get' id='long' to='bob@localhost'><vCard xmlns='vcard-temp'/></iq>");
    // `node/tried.rs` has the time.
    thread::sleep(Duration::from_secs(11));
    two.edge.door.gain(&[range], 6);
    thread::sleep(Duration::from_secs(2));
    alice.send("<iq type='get' id='between' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    let between = alice.expect("id='between'");
    assert!(!between.contains("id='long'"), "{between}");
    two.edge.door.gain(&[range], 7);
    two.home.door.set_away(range, Some((EDGE, 7)));
    let answer = alice.expect("id='long'");
    assert!(!answer.contains("resource-constraint"), "{answer}");
}

/// Goal: a range that moves ends its streams, those of its own clients and of others; who comes
/// again while there is no home for too long, or one that does not answer, is told so.
#[test]
fn a_home_that_moves_ends_its_streams() {
    let soon = |options: &mut Options| options.joined.join_wait_max = Duration::from_millis(300);
    let two = Two::start_with(&["alice"], soon, net::Limits::default());
    let mut far = two.login("alice", "far");
    let mut near = Client::login(two.home.node().addresses()[0], "alice", "near");
    let mut later = two.connect();
    later.open();
    let ranges: Vec<RangeId> = RangeId::all().collect();
    two.home.door.lose(&ranges);
    far.expect("<stream:error><reset ");
    near.expect("<stream:error><reset ");
    // It goes to a home of before, and comes back.
    later.authenticate_with("alice", "secret");
    later.expect("<stream:error><see-other-host ");
    later.expect("home.example:5222");
    for range in ranges {
        two.edge.door.set_away(range, None);
    }
    let mut last = two.connect();
    last.open();
    last.authenticate_with("alice", "secret");
    last.expect("<stream:error>");
}

/// Goal: a home that stops says goodbye to clients of other nodes, and so does an edge to its own.
#[test]
fn nodes_that_stop_say_goodbye() {
    for which in [HOME, EDGE] {
        let mut two = Two::start(&["alice"]);
        let mut alice = two.login("alice", "a");
        let one = match which {
            HOME => &mut two.home,
            _ => &mut two.edge,
        };
        let node = one.node.take().unwrap();
        node.drain(Duration::from_secs(5));
        assert!(rest(&mut alice).contains("<stream:error><system-shutdown "));
    }
}
