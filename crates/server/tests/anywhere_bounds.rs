//! Clients that came to another node than their account's home, at the bounds of that
//! ([`server::options::Joined`]), made small: what becomes of them when a fault lasts longer than
//! anybody waits, and when there are more of them than anybody has room for.

mod common;

use std::thread;
use std::time::Duration;

use common::two::{EDGE, HOME, Two, message, rest};
use common::{Client, PATIENCE};
use server::admin::{Request, Response};
use server::chaos::Fault;
use server::options::{Joined, Options};
use store::RangeId;

/// Every time-out of these tests that is to pass.
const SOON: Duration = Duration::from_millis(300);

/// Both nodes, with one shard each.
fn two(users: &[&str], joined: impl Fn(&mut Joined)) -> Two {
    Two::start_with(users, options(joined), net::Limits::default())
}

fn options(joined: impl Fn(&mut Joined)) -> impl Fn(&mut Options) {
    move |options| {
        options.shards = 1;
        options.chaos = true;
        options.limits.sessions_per_user = 50;
        // Whom a home does not let in is told at once.
        options.joined.join_wait_max = Duration::ZERO;
        joined(&mut options.joined);
    }
}

fn at_home(two: &Two, user: &str) -> Client {
    Client::login(two.home.node().addresses()[0], user, "home")
}

/// One that takes messages.
fn listens(client: &mut Client) {
    client.send("<presence/>");
    client.expect("<presence ");
}

fn ping(client: &mut Client) {
    client.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    client.expect("id='p'");
}

/// With stream management; gives the name of the session.
fn manage(client: &mut Client) -> String {
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let enabled = client.expect("/>");
    let id = enabled.split("id='").nth(1).expect("a name");
    id.split('\'').next().expect("its end").to_owned()
}

/// What arrives at the home waits for so long.
fn hang(two: &Two, millis: u64) {
    let fault = Fault::HangShard(millis);
    let response = two.home.node().admin().call(Request::Chaos { fault });
    assert!(matches!(response, Response::Caused { .. }), "{response:?}");
}

/// Goal: a home that says nothing for too long is given up, and its client sent away; what is left
/// of that ends once the home goes on, and the client may come again.
#[test]
fn a_home_that_does_not_answer_is_given_up() {
    let two = two(&["alice"], |joined| joined.answer_max = SOON);
    two.edge.way.hold(true);
    let mut alice = two.connect();
    alice.open();
    alice.authenticate_with("alice", "secret");
    alice.expect("<stream:error><see-other-host ");
    alice.expect("home.example:5222");
    rest(&mut alice);
    two.edge.way.hold(false);
    two.until("nobody is left", |two| {
        two.home.node().connections() + two.edge.node().connections() == 0
    });
    let mut alice = two.login("alice", "a");
    ping(&mut alice);
}

/// Goal: a link that takes nothing of the home for too long ends what it would carry; what was to
/// be sent is not lost.
#[test]
fn a_link_that_takes_nothing_of_the_home_ends_its_connections() {
    let two = two(&["alice", "bob"], |joined| joined.refused_max = SOON);
    let mut bob = two.login("bob", "b");
    let session = manage(&mut bob);
    let mut alice = at_home(&two, "alice");
    two.home.way.refuse(true);
    alice.send(&message("bob@localhost/b", "not lost"));
    two.until("bob's stream is given up", |two| {
        two.home.node().connections() == 1
    });
    two.home.way.refuse(false);
    bob.expect("<stream:error><reset ");
    let mut bob = Client::authenticate(two.edge.node().addresses()[0], "bob");
    bob.send(&format!(
        "<resume xmlns='urn:xmpp:sm:3' h='0' previd='{session}'/>"
    ));
    bob.expect("<resumed ");
    bob.expect("<body>not lost</body>");
}

/// Goal: the end of a stream waits for room at the other node, and everything in front of it
/// arrives; if there is none for too long, the connection ends without.
#[test]
fn the_end_of_a_stream_waits_for_room_for_so_long() {
    // More than a window of them, and less than that more: with so much his input would wait.
    const MESSAGES: usize = 6;
    for is_in_time in [true, false] {
        let two = two(&["alice", "bob"], |joined| {
            joined.end_max = if is_in_time { PATIENCE } else { SOON };
        });
        let mut bob = two.login("bob", "b");
        listens(&mut bob);
        let mut alice = at_home(&two, "alice");
        two.home.way.hold(true);
        let body = "x".repeat(20_000);
        for _ in 0..MESSAGES {
            alice.send(&message("bob@localhost/b", &body));
        }
        ping(&mut alice);
        bob.send("</stream:stream>");
        if is_in_time {
            thread::sleep(SOON);
        } else {
            two.until("it is given up", |two| two.home.node().connections() == 1);
        }
        two.home.way.hold(false);
        let heard = rest(&mut bob);
        assert_eq!(heard.ends_with("</stream:stream>"), is_in_time);
        let whole = heard.matches("</message>").count();
        assert_eq!(whole == MESSAGES, is_in_time, "{whole} arrived");
        two.until("bob is gone", |two| two.home.node().connections() == 1);
    }
}

/// Goal: what a client said before it went is looked at once the home can; if it cannot for too
/// long, the rest of it is given up, and nothing of it is there twice.
#[test]
fn what_was_said_before_the_end_is_looked_at_for_so_long() {
    const MESSAGES: usize = 4;
    for is_in_time in [true, false] {
        let network = net::Limits {
            window_max: 1,
            ..net::Limits::default()
        };
        let change = options(|joined| joined.end_max = if is_in_time { PATIENCE } else { SOON });
        let two = Two::start_with(&["alice", "bob"], change, network);
        let mut bob = at_home(&two, "bob");
        listens(&mut bob);
        let mut alice = two.login("alice", "a");
        manage(&mut alice);
        // One message is under way at a time, and takes longer than is waited for.
        let faults = two.home.disk.faults();
        faults.set_commit_delay(3 * SOON);
        for turn in 0..MESSAGES {
            alice.send(&message("bob@localhost", &format!("{turn}.")));
        }
        thread::sleep(SOON);
        drop(alice);
        two.until("alice is gone", |two| two.home.node().connections() == 1);
        faults.set_commit_delay(Duration::ZERO);
        let mut alice = at_home(&two, "alice");
        alice.send(&message("bob@localhost", "end."));
        let heard = bob.expect("<body>end.</body>");
        let bodies: Vec<&str> = heard.split("<body>").skip(1).collect();
        let (_, before) = bodies.split_last().expect("the last one");
        assert_eq!(before.len() == MESSAGES, is_in_time, "{heard}");
        for (turn, body) in before.iter().enumerate() {
            assert!(body.starts_with(&format!("{turn}.<")), "{heard}");
        }
    }
}

/// Goal: with more clients than may wait to be let in, one more hears at once that it has to come
/// again, and the others are let in.
#[test]
fn one_comer_too_many_is_told_to_come_again() {
    const COMERS: usize = 6;
    let two = two(&["alice"], |joined| {
        joined.comers_max = 2;
        joined.answer_max = 10 * PATIENCE;
    });
    for round in 0.. {
        assert!(round < 50, "the bound is not reached");
        let mut clients: Vec<Client> = (0..COMERS).map(|_| two.connect()).collect();
        clients.iter_mut().for_each(Client::open);
        hang(&two, 500);
        for client in &mut clients {
            client.authenticate_with("alice", "secret");
        }
        let mut refused = 0;
        for client in &mut clients {
            while !client.seen.contains("<success") && !client.seen.contains("<stream:error>") {
                assert!(client.read_some().expect("it is told") > 0);
            }
            refused += usize::from(client.seen.contains("<see-other-host "));
        }
        assert!(refused <= COMERS - 2, "{refused}");
        if refused > 0 {
            break;
        }
    }
    let mut alice = two.login("alice", "a");
    ping(&mut alice);
}

/// Goal: that a node is gone is heard also where as many clients wait to be let in as may.
#[test]
fn a_node_that_goes_while_its_clients_come_is_noticed() {
    let two = two(&["alice", "bob"], |joined| joined.comers_max = 1);
    let mut alice = two.login("alice", "a");
    let mut others: Vec<Client> = (0..4).map(|_| two.connect()).collect();
    others.iter_mut().for_each(Client::open);
    hang(&two, 1_000);
    for client in &mut others {
        client.authenticate_with("bob", "secret");
    }
    // What they said is on its way.
    thread::sleep(SOON);
    two.home.door.forget_node(EDGE);
    alice.expect("<stream:error><reset ");
}

/// Goal: every connection of a node that is gone ends, at either side, however many are told at a
/// time.
#[test]
fn connections_of_a_lost_node_are_told_some_at_a_time() {
    const CLIENTS: usize = 9;
    let two = two(&["alice"], |joined| joined.told_at_once = 2);
    for which in [HOME, EDGE] {
        let login = |n: usize| two.login("alice", &n.to_string());
        let mut clients: Vec<Client> = (0..CLIENTS).map(login).collect();
        match which == HOME {
            true => two.edge.door.forget_node(HOME),
            false => two.home.door.forget_node(EDGE),
        }
        for client in &mut clients {
            client.expect("<stream:error><reset ");
        }
        two.until("all are gone", |two| two.home.node().connections() == 0);
    }
}

/// Goal: with more connections that wait for a link than a shard has room to tell at once, all of
/// them go on. Those beyond the bound waited for ever.
#[test]
fn all_who_wait_for_a_link_go_on_however_many_they_are() {
    const CLIENTS: usize = 40;
    let change = options(|joined| joined.told_at_once = 8);
    let small = net::Limits {
        controls_max: 16,
        ..net::Limits::default()
    };
    let two = Two::start_bounded(&["alice", "bob"], change, [net::Limits::default(), small]);
    let mut bob = at_home(&two, "bob");
    listens(&mut bob);
    let login = |n: usize| two.login("alice", &n.to_string());
    let mut clients: Vec<Client> = (0..CLIENTS).map(login).collect();
    two.edge.way.refuse(true);
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&message("bob@localhost", &format!("{n}.")));
    }
    // All of them have tried, and some have tried again.
    thread::sleep(SOON);
    two.edge.way.refuse(false);
    let said: Vec<String> = (0..CLIENTS).map(|n| format!("<body>{n}.</body>")).collect();
    while !said.iter().all(|body| bob.seen.contains(body)) {
        let read = bob.read_some();
        assert!(read.is_ok_and(|read| read > 0), "{}", bob.seen);
    }
    assert_eq!(two.edge.node().connections(), CLIENTS as u64);
    drop(clients);
}

/// An import of one account.
fn import(jid: &str) -> Request {
    let line = format!(
        "{{\"type\":\"account\",\"jid\":\"{jid}\",\"created\":0,\"locked\":false,\"scram\":[]}}"
    );
    Request::Import {
        lines: vec![line],
        check: false,
        strays: Vec::new(),
    }
}

/// No node is the home of anything, as far as the edge knows; or all is at home again.
fn is_homeless(two: &Two, is_so: bool) {
    for range in RangeId::all() {
        let home = (!is_so).then_some((HOME, 5));
        two.edge.door.set_away(range, home);
    }
}

/// Goal: an operator is told that something has no home for longer than it is looked for, and
/// nothing was done; a home that is there in time is found.
#[test]
fn a_home_is_looked_for_for_so_long() {
    let requests = || {
        let jid = "alice@localhost".to_owned();
        [Request::UserKick { jid }, import("new@localhost")]
    };
    let lost = two(&["alice"], |joined| joined.home_max = SOON);
    is_homeless(&lost, true);
    for request in requests() {
        match lost.edge.node().admin().call(request) {
            Response::Error { code, message } => {
                assert_eq!(code, "busy");
                assert!(message.contains("no node serves"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    is_homeless(&lost, false);
    for request in requests() {
        let done = lost.edge.node().admin().call(request);
        let is_done = matches!(done, Response::Ok | Response::Imported { accounts: 1, .. });
        assert!(is_done, "{done:?}");
    }
    let two = two(&["alice"], |joined| joined.home_max = PATIENCE);
    for request in requests() {
        is_homeless(&two, true);
        let admin = two.edge.node().admin();
        let asking = thread::spawn(move || admin.call(request));
        thread::sleep(SOON);
        is_homeless(&two, false);
        let done = asking.join().expect("it is answered");
        let is_done = matches!(done, Response::Ok | Response::Imported { accounts: 1, .. });
        assert!(is_done, "{done:?}");
    }
}

/// Goal: an operator waits for another node's answer for so long, and hears then that nobody knows
/// whether it was done; for what writes much he waits longer. An answer that comes later is
/// nobody's.
#[test]
fn another_nodes_answer_is_waited_for_so_long() {
    let kick = || Request::UserKick {
        jid: "alice@localhost".to_owned(),
    };
    let make = |first| Request::Provision {
        domain: "localhost".to_owned(),
        users: 20,
        contacts: 0,
        password: "secret".to_owned(),
        first,
        count: 10,
    };
    let is_unknown = |response: Response, rest: &str| match response {
        Response::Error { code, message } => {
            assert_eq!(code, "no_answer");
            assert!(message.contains("node other did not answer"), "{message}");
            assert!(message.contains(rest), "{message}");
        }
        other => panic!("{other:?}"),
    };
    let hurried = two(&["alice"], |joined| {
        (joined.errand_max, joined.written_max) = (SOON, SOON);
    });
    let call = |request| hurried.edge.node().admin().call(request);
    hurried.edge.way.hold(true);
    is_unknown(call(kick()), "is not known");
    is_unknown(call(make(0)), "it was done on the others");
    hurried.edge.way.hold(false);
    // What was asked is done all the same, and its answers come too late.
    hurried.until("the accounts are made", |two| {
        let jid = "u9@localhost".to_owned();
        let asked = two.home.node().admin().call(Request::UserInspect { jid });
        !matches!(asked, Response::Error { .. })
    });
    assert_eq!(call(kick()), Response::Ok);
    let patient = two(&["alice"], |joined| {
        (joined.errand_max, joined.written_max) = (SOON, PATIENCE);
    });
    patient.edge.way.hold(true);
    let admin = patient.edge.node().admin();
    let making = thread::spawn(move || admin.call(make(10)));
    is_unknown(patient.edge.node().admin().call(kick()), "is not known");
    thread::sleep(SOON);
    patient.edge.way.hold(false);
    let made = making.join().expect("it is answered");
    assert_eq!(made, Response::Made { accounts: 10 });
}
