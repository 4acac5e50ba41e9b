//! Requests of sessions over BOSH that come to another node than their session
//! (docs/decisions/0148): two nodes in this process with a link between them that a test holds up.
//! What a client sees is what it would see at the session's own node; and what it sees at every
//! bound of that.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

mod common;

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use common::bosh::{Session, post};
use common::two::{EDGE, HOME, Two, message};
use common::{Client, PATIENCE};
use server::Options;
use server::admin::Request;
use server::away::Taken;
use server::guard::List;
use wire::{Arrival, ConnAt, Kind, OfRequest, Packet, Passed, RequestAt};

/// What is certain to happen has happened by then.
const MOMENT: Duration = Duration::from_millis(200);

const GONE: &str = "type='terminate' condition='item-not-found'";

fn two(users: &[&str], change: impl Fn(&mut Options)) -> Two {
    Two::start_with(users, change, net::Limits::default())
}

/// Both nodes, the edge first.
fn both(two: &Two) -> [SocketAddr; 2] {
    [two.edge.web(), two.home.web()]
}

/// A session at the home whose requests go to the edge from now on.
fn alice_afar(two: &Two, asked: &str) -> Session {
    let [edge, home] = both(two);
    let mut alice = Session::login(&[home], "alice", asked);
    alice.nodes = vec![edge];
    alice
}

fn bob(two: &Two) -> Client {
    let mut bob = Client::login(two.home.node().addresses()[0], "bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence from='bob@localhost/b'");
    bob
}

/// The request that waits on its way to the home.
fn under_way(two: &Two) -> Option<RequestAt> {
    let waiting = two.edge.way.waiting();
    let packets = waiting.iter().map(|bytes| Packet::decode(bytes).unwrap());
    let mut requests = packets.filter_map(|packet| match packet {
        Packet::Passed(Passed { request, .. }) => Some(request),
        _ => None,
    });
    requests.next()
}

fn says(to: &str, body: &str) -> String {
    format!("<message xmlns='jabber:client' to='{to}' type='chat'><body>{body}</body></message>")
}

/// Goal: a session whose every request goes to the other node than the one before works as at one:
/// login, restart, messages both ways in order, a pause, the end. At either node's session.
#[test]
fn requests_go_to_any_node_in_turn() {
    let two = two(&["alice", "bob"], |_| {});
    let mut bob = bob(&two);
    let [edge, home] = both(&two);
    for nodes in [[edge, home], [home, edge]] {
        let mut alice = Session::login(&nodes, "alice", "hold='1' wait='5'");
        for n in 0..20 {
            let answer = alice.send("", &says("bob@localhost/b", &format!("to bob {n}")));
            bob.expect(&format!("<body>to bob {n}</body>"));
            bob.send(&message("alice@localhost/web", &format!("to alice {n}")));
            let answer = answer.answer();
            assert!(
                answer.contains(&format!("<body>to alice {n}</body>")),
                "{answer}"
            );
        }
        let paused = alice.ask("pause='60'", "");
        assert!(!paused.contains("terminate"), "{paused}");
        bob.send(&message("alice@localhost/web", "meanwhile"));
        alice.expect("<body>meanwhile</body>");
        let end = alice.ask("type='terminate'", &says("bob@localhost/b", "bye"));
        assert!(
            end.contains("type='terminate'") && !end.contains("condition"),
            "{end}"
        );
        bob.expect("<body>bye</body>");
        for _ in 0..2 {
            assert!(alice.ask("", "").contains(GONE));
        }
    }
}

/// Goal: a request that is made again at another node is the same request: held, it is answered
/// there and not where it was; answered, it is answered the same; nothing of it is done twice.
#[test]
fn a_request_is_made_again_at_another_node() {
    let two = two(&["alice", "bob"], |_| {});
    let mut bob = bob(&two);
    let mut alice = Session::login(&both(&two), "alice", "hold='1' wait='30'");
    for _ in 0..4 {
        let payload = says("bob@localhost/b", "once");
        let first = alice.send("", &payload);
        bob.expect("<body>once</body>");
        let second = alice.again("", &payload);
        first.goes_unanswered();
        bob.send(&message("alice@localhost/web", "to the second"));
        let answer = second.answer();
        assert!(answer.contains("<body>to the second</body>"), "{answer}");
        for _ in 0..2 {
            assert_eq!(alice.again("", &payload).answer(), answer);
        }
        // The turns go on with another node each time.
        alice.turn();
    }
    bob.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert!(!bob.expect("id='p'").contains("<body>once"));
}

/// Goal: what came early is taken in its turn, whichever node it came to; what is outside of the
/// window, has a wrong key, comes too often or cannot be read ends the session, as at its own node.
#[test]
fn the_session_decides_about_order_keys_and_haste() {
    let two = two(&["alice", "bob"], |_| {});
    let mut bob = bob(&two);
    let [edge, home] = both(&two);
    for nodes in [[edge, home], [home, edge]] {
        let other = nodes[1];
        let login = || Session::login(&nodes, "alice", "hold='1' wait='30'");
        let alice = login();
        let (first, second) = (alice.rid + 1, alice.rid + 2);
        let early = alice.body(second, "", &says("bob@localhost/b", "second"));
        let early = post(other, &early);
        thread::sleep(MOMENT);
        let late = alice.body(first, "", &says("bob@localhost/b", "first"));
        let late = post(nodes[0], &late);
        let heard = bob.expect("<body>second</body>");
        assert!(heard.contains("<body>first</body>"), "{heard}");
        assert!(!late.answer().contains("terminate"));
        // Far behind the window.
        let far = post(other, &alice.body(second + 9, "", ""));
        assert!(far.answer().contains(GONE));
        assert!(early.answer().contains("type='terminate'"));
        assert!(
            post(nodes[0], &alice.body(second + 1, "", ""))
                .answer()
                .contains(GONE)
        );
        // Two empty ones at a time, within `polling`.
        let mut alice = login();
        let held = alice.send("", "");
        thread::sleep(MOMENT);
        let hasty = alice.ask("", "");
        assert!(hasty.contains("condition='policy-violation'"), "{hasty}");
        assert!(held.answer().contains("condition='policy-violation'"));
        // What cannot be read.
        let alice = login();
        let broken = format!(
            "<body xmlns='http://jabber.org/protocol/httpbind' rid='1' \
             sid='{}'><a></b></body>",
            alice.sid
        );
        assert!(
            post(other, &broken)
                .answer()
                .contains("condition='bad-request'")
        );
        assert!(
            post(nodes[0], &alice.body(alice.rid + 1, "", ""))
                .answer()
                .contains(GONE)
        );
        // The keys (section 15): of "a" the first one is the hash.
        let key = "newkey='86f7e437faa5a7fce15d1ddcb9eaeaea377667b8'";
        let mut keyed = Session::open(&nodes, &format!("hold='1' wait='1' {key}"));
        keyed.turn();
        let used = keyed.ask(
            "key='a' newkey='86f7e437faa5a7fce15d1ddcb9eaeaea377667b8'",
            "",
        );
        assert!(!used.contains("terminate"), "{used}");
        keyed.turn();
        assert!(keyed.ask("key='b'", "").contains(GONE));
    }
}

/// Goal: a client that is gone is missed at the session's node, although it was another one's: the
/// session counts its silence from then on; what it is owed is there when it asks again.
#[test]
fn a_client_that_is_gone_is_missed() {
    const SILENCE: Duration = Duration::from_secs(3);
    let two = two(&["alice", "bob"], |options| {
        options.web.bosh.inactivity = SILENCE;
    });
    let mut bob = bob(&two);
    let [edge, home] = both(&two);
    for nodes in [[edge, home], [home, edge]] {
        let mut alice = Session::login(&nodes, "alice", "hold='1' wait='60'");
        alice.nodes.remove(0);
        let held = alice.send("", "");
        thread::sleep(MOMENT);
        drop(held);
        thread::sleep(MOMENT);
        bob.send(&message("alice@localhost/web", "still owed"));
        thread::sleep(MOMENT);
        let answer = alice.again("", "").answer();
        assert!(answer.contains("<body>still owed</body>"), "{answer}");
        let held = alice.send("", "");
        thread::sleep(MOMENT);
        drop(held);
        // Much less than the request may be held.
        thread::sleep(SILENCE * 2);
        assert!(alice.again("", "").answer().contains(GONE));
    }
}

/// Goal: ids that name no node, or none that is there, that are broken or are none of its sessions
/// are told what is told everywhere; nobody learns which of it was wrong, and the session whose
/// secret is guessed goes on.
#[test]
fn what_is_no_session_is_not_found() {
    let two = two(&["alice"], |_| {});
    let mut alice = Session::login(&both(&two), "alice", "hold='1' wait='1'");
    let sid = alice.sid.clone();
    let (node, rest) = sid.split_once('.').unwrap();
    assert!(!sid.contains("edge"), "{sid}");
    let (place, secret) = rest.rsplit_once('.').unwrap();
    let shard_of_nobody = format!("{node}.ffff.{}", rest.split_once('.').unwrap().1);
    for wrong in [
        format!("n123.{rest}"),
        format!("nxyz.{rest}"),
        format!("{node}.{place}.{}", secret.to_lowercase()),
        format!("{node}.{place}.{}", "x".repeat(150)),
        format!("{node}.0.fffff.1.{secret}"),
        format!("{node}.{secret}"),
        shard_of_nobody,
        node.to_owned(),
        rest.to_owned(),
    ] {
        for at in both(&two) {
            let body = "<body xmlns='http://jabber.org/protocol/httpbind' rid='1001'";
            let answer = post(at, &format!("{body} sid='{wrong}'/>")).answer();
            assert!(answer.contains(GONE), "{wrong}: {answer}");
        }
    }
    assert!(!alice.ask("", "").contains("terminate"));
    assert!(!alice.ask("", "").contains("terminate"));
}

/// Goal: whoever makes up an id with the place of somebody else's connection neither ends nor
/// disturbs it, however many requests come at once: what finds no room ends the connection that it
/// is for ([`net::Limits::controls_max`]).
#[test]
fn requests_with_made_up_secrets_reach_no_connection() {
    let network = || net::Limits {
        controls_max: 6,
        remote_operations_max: 6,
        ..net::Limits::default()
    };
    let bounds = [network(), network()];
    let two = Two::start_bounded(&["alice", "bob"], |options| options.shards = 2, bounds);
    let mut bob = bob(&two);
    let mut alice = Session::login(&[two.home.web()], "alice", "hold='1' wait='1'");
    let (node, _) = alice.sid.split_once('.').unwrap();
    let mut places = vec![alice.sid.rsplit_once('.').unwrap().0.to_owned()];
    // Bob's is one of these.
    for (shard, index, generation) in (0..2).flat_map(|s| (0..8).map(move |i| (s, i, 1))) {
        places.push(format!("{node}.{shard:x}.{index:x}.{generation:x}"));
        places.push(format!("{node}.{shard:x}.{index:x}.0"));
    }
    for at in both(&two) {
        for place in &places {
            // As many as are read of one connection.
            let body = format!(
                "<body xmlns='http://jabber.org/protocol/httpbind' rid='1001' sid='{place}.guess'/>"
            );
            let all = vec![&*body; 8];
            for answer in pipelined(at, &all) {
                assert!(answer.contains(GONE), "{place}: {answer}");
            }
        }
    }
    bob.send("<message to='alice@localhost/web'><body>there?</body></message>");
    alice.expect("there?");
    alice.ask("", &says("bob@localhost/b", "yes"));
    bob.expect("yes</body>");
}

/// Sends requests together on one connection, and gives the answers that come.
fn pipelined(to: SocketAddr, bodies: &[&str]) -> Vec<String> {
    use std::io::{ErrorKind, Read, Write};
    let mut socket = std::net::TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let all = bodies.iter().enumerate().map(|(number, body)| {
        let closes = match number + 1 == bodies.len() {
            true => "Connection: close\r\n",
            false => "",
        };
        let length = body.len();
        format!(
            "POST /http-bind HTTP/1.1\r\nHost: a\r\n{closes}Content-Length: {length}\r\n\r\n{body}"
        )
    });
    let all: String = all.collect();
    socket.write_all(all.as_bytes()).unwrap();
    let mut seen = Vec::new();
    // It may be reset: more answers at once than a connection may be told end it.
    let read = socket.read_to_end(&mut seen).map_err(|error| error.kind());
    let is_silent = matches!(read, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut));
    assert!(!is_silent, "not all are answered");
    let seen = String::from_utf8(seen).unwrap();
    seen.split("HTTP/1.1 ").skip(1).map(str::to_owned).collect()
}

/// Goal: with nodes of the level before, and with one that does not know the packets although its
/// level says so, nothing is sent that they cannot read, or it comes back; the session goes on at
/// its own node.
#[test]
fn nodes_of_before_are_asked_nothing() {
    let two = two(&["alice"], |_| {});
    let [edge, home] = both(&two);
    let mut alice = Session::login(&[home], "alice", "hold='1' wait='1'");
    two.edge.way.stay_at_first_level();
    alice.nodes = vec![edge];
    assert!(alice.again("", "").answer().contains(GONE));
    alice.nodes = vec![home];
    assert!(!alice.ask("", "").contains("terminate"));
}

/// See above.
#[test]
fn what_an_older_node_does_not_read_is_not_answered() {
    let two = two(&["alice"], |_| {});
    let [edge, home] = both(&two);
    let mut alice = Session::login(&[home], "alice", "hold='1' wait='1'");
    two.edge.way.leads_to_older();
    alice.nodes = vec![edge];
    alice.send("", "").goes_unanswered();
    alice.nodes = vec![home];
    assert!(!alice.again("", "").answer().contains("terminate"));
}

/// Goal: a link that has no room to spare delays nobody: the request is closed without an answer,
/// and so is one whose answer finds no room. Made again it is answered, and nothing is lost.
#[test]
fn a_link_without_room_to_spare_has_requests_made_again() {
    let two = two(&["alice", "bob"], |_| {});
    let mut bob = bob(&two);
    let mut alice = alice_afar(&two, "hold='1' wait='30'");
    two.edge.way.refuse_offers(true);
    let payload = says("bob@localhost/b", "once");
    alice.send("", &payload).goes_unanswered();
    two.edge.way.refuse_offers(false);
    let held = alice.again("", &payload);
    bob.expect("<body>once</body>");
    two.home.way.refuse_offers(true);
    bob.send(&message("alice@localhost/web", "kept"));
    held.goes_unanswered();
    // Whatever else the nodes say to each other is said.
    let mut carol = two.login("bob", "c");
    carol.send("<presence/>");
    carol.expect("<presence ");
    two.home.way.refuse_offers(false);
    let answer = alice.again("", &payload).answer();
    assert!(answer.contains("<body>kept</body>"), "{answer}");
}

/// Goal: a node that takes nothing for too long, or is slow, is waited for as long as a request may
/// be held and a little; then its client asks again. It is the same request, and taken once.
#[test]
fn a_slow_node_is_waited_for_so_long() {
    let two = two(&["alice", "bob"], |options| {
        options.web.bosh.wait_max = Duration::from_secs(1);
        options.web.anywhere.late_max = MOMENT;
    });
    let mut bob = bob(&two);
    let mut alice = alice_afar(&two, "hold='1'");
    two.edge.way.hold(true);
    let started = Instant::now();
    let payload = says("bob@localhost/b", "once");
    alice.send("", &payload).goes_unanswered();
    let waited = started.elapsed();
    assert!(
        (Duration::from_millis(1_150)..PATIENCE / 3).contains(&waited),
        "{waited:?}"
    );
    two.edge.way.hold(false);
    assert!(!alice.again("", &payload).answer().contains("terminate"));
    alice.ask("", &says("bob@localhost/b", "the end"));
    let heard = bob.expect("<body>the end</body>");
    assert_eq!(heard.matches("<body>once</body>").count(), 1, "{heard}");
}

/// Goal: a request that a link held up for so long that its client made it again elsewhere, and
/// many after it, ends nothing when it arrives. Whoever asks for what was answered long ago is told
/// that there is no such request.
#[test]
fn what_arrives_long_after_its_turn_does_no_harm() {
    let two = two(&["alice", "bob"], |_| {});
    let mut bob = bob(&two);
    let [edge, home] = both(&two);
    let mut alice = alice_afar(&two, "hold='1' wait='30'");
    two.edge.way.hold(true);
    let late = alice.send("", &says("bob@localhost/b", "once"));
    two.until("it is under way", |two| under_way(two).is_some());
    let rid = alice.rid;
    alice.nodes = vec![home];
    let mut held = alice.again("", &says("bob@localhost/b", "once"));
    for n in 0..6 {
        let next = alice.send("", &says("bob@localhost/b", &format!("number {n}")));
        held.answer();
        held = next;
    }
    two.edge.way.hold(false);
    assert!(late.answer().contains(GONE));
    let again = post(edge, &alice.body(rid, "", "")).answer();
    assert!(again.contains(GONE), "{again}");
    bob.send(&message("alice@localhost/web", "still there"));
    let answer = held.answer();
    assert!(answer.contains("<body>still there</body>"), "{answer}");
    alice.nodes = vec![edge];
    alice.ask("", &says("bob@localhost/b", "the end"));
    let heard = bob.expect("<body>the end</body>");
    assert_eq!(heard.matches("<body>once</body>").count(), 1, "{heard}");
    // At its own node it is the end of the session, as it is without other nodes.
    assert!(post(home, &alice.body(rid, "", "")).answer().contains(GONE));
    assert!(alice.ask("", "").contains(GONE));
}

/// Goal: if nobody tells the session's node that a client is gone, for its node died or the word
/// was lost, a request is held for as long as any; the silence counts from then on.
#[test]
fn a_client_that_nobody_misses_is_held_for_no_longer_than_others() {
    const SILENCE: Duration = Duration::from_secs(2);
    let two = two(&["alice", "bob"], |options| {
        options.web.bosh.inactivity = SILENCE;
    });
    let mut alice = alice_afar(&two, "hold='1' wait='3'");
    let lose = |alice: &mut Session| {
        let held = alice.send("", "");
        thread::sleep(MOMENT);
        two.edge.way.cut();
        drop(held);
        thread::sleep(MOMENT);
        two.edge.way.mend();
        two.home.door.forget_node(EDGE);
    };
    lose(&mut alice);
    thread::sleep(SILENCE + MOMENT);
    let answer = alice.again("", "").answer();
    assert!(!answer.contains("terminate"), "{answer}");
    lose(&mut alice);
    thread::sleep(SILENCE + Duration::from_secs(3) + MOMENT);
    assert!(alice.again("", "").answer().contains(GONE));
}

/// Goal: of one node so many requests are waited for, and no more; when one is answered, or its
/// client is gone, another one may wait.
#[test]
fn so_many_requests_wait_for_a_node() {
    let two = two(&["alice", "bob"], |options| {
        options.shards = 1;
        options.web.anywhere.requests_max = 1;
    });
    let [edge, home] = both(&two);
    let login = |user| Session::login(&[home], user, "hold='1' wait='60'");
    let (mut one, mut other) = (login("alice"), login("bob"));
    one.nodes = vec![edge];
    other.nodes = vec![edge];
    let held = one.send("", "");
    thread::sleep(MOMENT);
    other.send("", "").goes_unanswered();
    drop(held);
    two.until("the place is free", |_| {
        let again = other.body(other.rid, "pause='1'", "");
        post(edge, &again).whole().is_some()
    });
}

/// Goal: requests for a shard that has no room hold up nothing that is behind them on the link:
/// each is answered, or given back to be made again.
#[test]
fn a_shard_without_room_holds_up_no_link() {
    // More than wait outside of a shard (`actor::limits::INBOX_BATCHES_MAX`).
    const MANY: usize = 10_000;
    let network = || net::Limits {
        port_mailbox_max: 4,
        ..net::Limits::default()
    };
    let bounds = [network(), net::Limits::default()];
    let two = Two::start_bounded(&["alice"], |options| options.shards = 1, bounds);
    two.home.way.hold(true);
    // What is of no session is refused at once; this has to be read first, and comes too late.
    let alice = Session::open(&[two.home.web()], "hold='1' wait='60'");
    let mut place = alice.sid.split('.').skip(1);
    let mut number = || u32::from_str_radix(place.next().unwrap(), 16).unwrap();
    let conn = ConnAt {
        shard: number() as u16,
        index: number(),
        generation: number(),
    };
    let token = alice.sid.splitn(5, '.').nth(4).unwrap();
    let many = format!("<a>{}</a>", "<b/>".repeat(1_000));
    let body = alice.body(1, "", &many.repeat(10));
    for number in 0..MANY {
        let request = RequestAt {
            conn,
            slot: 0,
            number: number as u64,
        };
        let said = OfRequest::Came {
            session: conn,
            token: token.into(),
            address: "127.0.0.1".parse().unwrap(),
            is_secure: false,
            body: body.as_bytes().to_vec(),
        };
        let mut bytes = Vec::new();
        let packet = Packet::Passed(Passed { request, said });
        packet.encode(&mut bytes).unwrap();
        assert_eq!(two.home.door.receive(EDGE, &bytes), Taken::Yes);
    }
    let count = |two: &Two, kind| {
        let waiting = two.home.way.waiting();
        let kinds = waiting.iter().map(|it| Arrival::read(it).unwrap().kind());
        kinds.filter(|it| *it == kind).count()
    };
    two.until("each is answered or given back", |two| {
        count(two, Kind::RequestAnswered) + count(two, Kind::RequestDropped) == MANY
    });
    assert!(count(&two, Kind::RequestAnswered) > 0);
    assert!(count(&two, Kind::RequestDropped) > 0);
}

/// Goal: what is larger than a request may be is refused where it comes, and nothing of it reaches
/// the session's node; what may be is taken; an answer that is too large for the way ends its
/// session.
#[test]
fn large_bodies_are_bounded() {
    let two = two(&["alice", "bob"], |options| {
        options.web.anywhere.answer_bytes_max = 20_000;
    });
    let mut bob = bob(&two);
    let edge = two.edge.web();
    let mut alice = alice_afar(&two, "hold='1' wait='1'");
    let large = "x".repeat(60_000);
    alice.ask("", &says("bob@localhost/b", &large));
    bob.expect(&format!("{large}</body>"));
    two.edge.way.hold(true);
    let huge = alice.body(alice.rid + 1, "", &"x".repeat(90_000));
    let (head, _) = post(edge, &huge).whole().unwrap();
    assert!(head.starts_with("HTTP/1.1 413 "), "{head}");
    let is_request =
        |packet: &Vec<u8>| Arrival::read(packet).is_ok_and(|it| it.kind() == Kind::Request);
    assert!(!two.edge.way.waiting().iter().any(is_request));
    two.edge.way.hold(false);
    let held = alice.send("", "");
    thread::sleep(MOMENT);
    bob.send(&message("alice@localhost/web", &"x".repeat(30_000)));
    let answer = held.answer();
    assert!(
        answer.contains("condition='internal-server-error'"),
        "{answer}"
    );
    assert!(alice.ask("", "").contains(GONE));
}

/// Goal: when the process of the session's node is gone, or the link begins anew, whoever waits is
/// closed without an answer; the request made again finds the session if it is still there, and is
/// told that there is none if the node is not.
#[test]
fn a_node_that_is_gone_leaves_nobody_waiting() {
    let two = two(&["alice", "bob"], |_| {});
    let mut bob = bob(&two);
    let [edge, home] = both(&two);
    let mut alice = alice_afar(&two, "hold='1' wait='60'");
    let held = alice.send("", "");
    thread::sleep(MOMENT);
    two.edge.door.forget_node(HOME);
    held.goes_unanswered();
    let held = alice.again("", "");
    thread::sleep(MOMENT);
    bob.send(&message("alice@localhost/web", "here again"));
    let answer = held.answer();
    assert!(answer.contains("<body>here again</body>"), "{answer}");
    // The node that the requests came to is gone: the next one may come to any other.
    let held = alice.send("", "");
    thread::sleep(MOMENT);
    two.home.door.forget_node(EDGE);
    alice.nodes = vec![home];
    let again = alice.again("", "");
    thread::sleep(MOMENT);
    bob.send(&message("alice@localhost/web", "at another"));
    assert!(again.answer().contains("<body>at another</body>"));
    held.goes_unanswered();
    alice.nodes = vec![edge];
    two.edge.way.lead_nowhere(true);
    assert!(alice.ask("", "").contains(GONE));
    two.edge.way.lead_nowhere(false);
    assert!(!alice.again("pause='1'", "").answer().contains("terminate"));
}

/// Goal: a node that stops does not wait for what others hold: its clients go on at another node.
#[test]
fn a_node_that_stops_lets_requests_go() {
    let mut two = two(&["alice", "bob"], |_| {});
    let mut bob = bob(&two);
    let home = two.home.web();
    let mut alice = alice_afar(&two, "hold='1' wait='60'");
    let held = alice.send("", "");
    thread::sleep(MOMENT);
    let started = Instant::now();
    two.edge.node.take().unwrap().drain(PATIENCE);
    assert!(started.elapsed() < PATIENCE / 3, "{:?}", started.elapsed());
    held.goes_unanswered();
    alice.nodes = vec![home];
    let held = alice.again("", "");
    thread::sleep(MOMENT);
    bob.send(&message("alice@localhost/web", "go on"));
    assert!(held.answer().contains("<body>go on</body>"));
}

/// Goal: an answer that names another number than the request was given is nobody's: whoever has
/// its place on a connection now hears nothing of it. What its type would do to a head is not
/// taken either.
#[test]
fn an_answer_for_somebody_else_is_not_given() {
    let two = two(&["alice"], |_| {});
    let mut alice = alice_afar(&two, "hold='1' wait='60'");
    two.edge.way.hold(true);
    let mut held = alice.send("", "");
    two.until("it is under way", |two| under_way(two).is_some());
    let request = under_way(&two).unwrap();
    let answers = |number: u64, body: &str| {
        let mut bytes = Vec::new();
        let said = OfRequest::Answered {
            content: Some("text/plain\r\nX: y".into()),
            body: body.as_bytes().to_vec(),
        };
        let request = RequestAt { number, ..request };
        let answer = Packet::Passed(Passed { request, said });
        answer.encode(&mut bytes).unwrap();
        assert_eq!(two.edge.door.receive(HOME, &bytes), Taken::Yes);
    };
    answers(request.number.wrapping_add(1), "<wrong/>");
    answers(request.number, "<right/>");
    let (head, body) = held.whole().unwrap();
    assert_eq!(body, "<right/>");
    assert!(
        !head.contains("X: y") && head.contains("text/xml"),
        "{head}"
    );
    // Once.
    answers(request.number, "<more/>");
    two.edge.way.hold(false);
}

/// Goal: a client whose address is banned at the session's node is served by no other one.
#[test]
fn who_is_banned_at_the_session_is_not_served_elsewhere() {
    let two = two(&["alice"], |_| {});
    let mut alice = alice_afar(&two, "hold='1' wait='1'");
    assert!(!alice.ask("", "").contains("terminate"));
    // The edge does not hear of it.
    two.home.way.refuse(true);
    let ban = Request::BanPut {
        list: List::Ban,
        what: "127.0.0.0/8".to_owned(),
        for_ms: None,
        reason: String::new(),
    };
    two.home.node().admin().call(ban);
    two.home.way.refuse(false);
    let answer = alice.ask("", "");
    assert!(answer.contains("condition='policy-violation'"), "{answer}");
}

/// Goal: the bytes of requests that wait for other nodes count for their client's address.
#[test]
fn requests_that_wait_count_for_their_address() {
    const USERS: [&str; 3] = ["alice", "bob", "carol"];
    let network = || net::Limits {
        exempt: Vec::new(),
        kept_per_address_max: 150_000,
        ..net::Limits::default()
    };
    let two = Two::start_bounded(&USERS, |_| {}, [net::Limits::default(), network()]);
    let [edge, home] = both(&two);
    let login = |user| Session::login(&[home], user, "hold='1' wait='1'");
    let mut sessions: Vec<Session> = USERS.into_iter().map(login).collect();
    two.edge.way.hold(true);
    let large = says("bob@localhost", &"x".repeat(60_000));
    let mut held = Vec::new();
    for session in &mut sessions {
        session.nodes = vec![edge];
        held.push(session.send("", &large));
        thread::sleep(MOMENT);
    }
    held.pop().unwrap().goes_unanswered();
    two.edge.way.hold(false);
    for held in held {
        let answer = held.answer();
        assert!(!answer.contains("terminate"), "{answer}");
    }
    // The edge does not let that address in again at once.
    let last = sessions.last_mut().unwrap();
    last.nodes = vec![home];
    let answer = last.again("", &large).answer();
    assert!(!answer.contains("terminate"), "{answer}");
}
