//! The journal against a real engine of three servers: made, checked, written, killed, taken over,
//! and followed from a snapshot.

#![allow(clippy::disallowed_methods)] // These wait for processes, on the real clock.

mod grow;
mod nodes;
mod secured;
mod servers;

use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::check::{self, Problem};
use cluster::deployment;
use cluster::driver::{Event, Outcome};
use cluster::engine::{self, Access, Engine, EngineError};
use cluster::forget::{self, ForgetError};
use cluster::journal::message::{Author, Body, Entry, Message, Run};
use cluster::journal::writer::Refused;
use cluster::journal::{Answer, Publish};
use cluster::layout::{Layout, StreamId};
use cluster::observe;
use stdx::Level;
use store::{Durability, Faults, FaultyEngine, MemoryEngine, Position, Store};

use nodes::{Node, PATIENCE, record};
use servers::Servers;

const STREAM: StreamId = StreamId(0);
/// Behind the end of its lease, how long a node is cut off in a test.
const CUT_OFF: Duration = Duration::from_secs(15);
/// Within which it has to be back: it looks for a server every 2 s, and renews its lease every
/// 500 ms.
const BACK_WITHIN: Duration = Duration::from_secs(7);

fn layout() -> Layout {
    Layout::new("test", 2).unwrap()
}

/// Goal: an engine that was made here has no problem; one that does not sync, and a stream that
/// forgets, are named with what mends them.
#[test]
fn an_engine_is_checked() {
    let servers = Servers::start(false);
    let layout = layout();
    let found = observe::run(&servers.observe(&layout, false)).unwrap();
    let missing = found.iter().filter(|p| p.mend.contains("--create")).count();
    let unsynced = found
        .iter()
        .filter(|p| p.mend.contains("sync_interval: always"));
    assert_eq!(
        (missing, unsynced.count(), found.len()),
        (4, 3, 7),
        "{found:?}"
    );
    servers.create(&layout);
    let found = observe::run(&servers.observe(&layout, false)).unwrap();
    assert_eq!(found.len(), 3, "{found:?}");
    drop(servers);
    let servers = Servers::start(true);
    servers.create(&layout);
    assert_eq!(observe::run(&servers.observe(&layout, false)).unwrap(), []);
    servers.limit(&layout.stream_name(STREAM), 1 << 20);
    let found = observe::run(&servers.observe(&layout, false)).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].mend.contains("--max-bytes -1"), "{found:?}");
}

/// Goal: an engine that asks for a password is reached with that of the addresses, and who has
/// another one, or none, is told why he is not let in.
#[test]
fn an_engine_may_ask_for_a_password() {
    let servers = Servers::start(true);
    for options in servers.options_of_strangers() {
        let refused = servers::runtime().block_on(Engine::connect(&options, layout()));
        let Err(EngineError::Unreachable(why)) = refused else {
            panic!("he is let in");
        };
        assert!(why.contains("authorization"), "{why}");
    }
    servers.ask(&layout(), async |_| {});
}

/// What somebody has of the files.
type Change<'a> = &'a dyn Fn(&mut Access);

/// Goal: an engine that speaks TLS, asks for certificates, and knows its users by JWTs keeps
/// streams for who has the files. Who lacks one, or has that of another engine, is told why he is
/// not let in; whoever has given files connects to no server without TLS.
#[test]
fn an_engine_may_ask_for_certificates_and_jwts() {
    let servers = Servers::start_secured();
    servers.create(&layout());
    servers.ask(&layout(), async |engine| {
        assert_eq!(engine.bounds(STREAM).await, Some((0, 0)));
    });
    let files = servers.secured();
    let refused = |change: Change<'_>| {
        let mut options = servers.options();
        change(&mut options.access);
        let connected = servers::runtime().block_on(Engine::connect(&options, layout()));
        match connected {
            Ok(_) => panic!("he is let in"),
            Err(error) => error.to_string(),
        }
    };
    let other = (files.file("other.chain"), files.file("other.key"));
    let cases: [(Change<'_>, &str); 10] = [
        (
            &|own| own.ca = Some(files.file("other.ca")),
            "UnknownIssuer",
        ),
        (&|own| own.ca = None, "UnknownIssuer"),
        (&|own| own.certificate = None, "CertificateRequired"),
        (&|own| own.certificate = Some(other.clone()), "fatal alert"),
        (&|own| own.credentials = None, "authorization"),
        (
            &|own| own.credentials = Some(files.file("other.creds")),
            "authorization",
        ),
        (
            &|own| own.ca = Some(files.file("none")),
            "cluster.engine_ca",
        ),
        (
            &|own| own.ca = Some(files.file("own.key")),
            "no certificate in PEM",
        ),
        (
            &|own| own.credentials = Some(files.file("own.ca")),
            "cluster.engine_credentials",
        ),
        (
            &|own| own.certificate = Some((files.file("own.chain"), files.file("own.chain"))),
            "no private key in PEM",
        ),
    ];
    for (change, expected) in cases {
        let why = refused(change);
        assert!(why.contains(expected), "{expected}: {why}");
    }
    let plain = Servers::start(true);
    for access in [
        Access {
            credentials: None,
            certificate: None,
            ..files.access()
        },
        Access {
            credentials: None,
            ca: None,
            ..files.access()
        },
    ] {
        let options = engine::Options {
            access,
            ..plain.options()
        };
        let connected = servers::runtime().block_on(Engine::connect(&options, layout()));
        assert!(matches!(connected, Err(EngineError::Unreachable(_))));
    }
}

/// Goal: a server that stores nothing is named, and keeps no node from starting while the others
/// do.
#[test]
fn a_server_without_jetstream_is_away() {
    let mut servers = Servers::start(true);
    servers.create(&layout());
    servers.kill(1);
    servers.run_bare(1);
    let options = servers.observe(&layout(), false);
    let finds = |wanted: &[&str]| {
        let Ok(found) = observe::run(&options) else {
            return false;
        };
        let is_so = |(one, what): (&Problem, &&str)| one.what.contains(what);
        found.len() == wanted.len()
            && found.iter().zip(wanted).all(is_so)
            && check::may_start(&found, 3)
    };
    Node::until("it is named, and nothing else", || {
        finds(&["n1 runs without JetStream"])
    });
    servers.kill(1);
    servers.run(1);
    Node::until("nothing is wrong", || finds(&[]));
}

/// Goal: a node knows which servers are away, one that stores nothing included, and how full the
/// others are.
#[test]
fn a_node_knows_how_the_servers_are() {
    let mut servers = Servers::start(true);
    servers.create(&layout());
    let node = Node::watching(&servers, &layout());
    let away = || node.driver().servers().away.len();
    Node::until("all are asked", || {
        node.driver().servers().fullest.is_some()
    });
    let stored = node.driver().servers().fullest.unwrap();
    assert!(stored.bytes < stored.bytes_max, "{stored:?}");
    assert_eq!((node.driver().servers().asked, away()), (3, 0));
    servers.kill(1);
    Node::until("it is away", || away() == 1);
    servers.run_bare(1);
    Node::until("it stores nothing", || {
        let servers = node.driver().servers();
        servers
            .away
            .iter()
            .any(|(_, why)| why.contains("JetStream"))
    });
    servers.kill(1);
    servers.run(1);
    Node::until("it is back", || away() == 0);
}

/// Goal: nodes that come first and all at once agree on what all share.
#[test]
fn nodes_that_come_at_once_are_of_one_deployment() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let join = |key: u8| {
        let options = servers.options();
        std::thread::spawn(move || deployment::join(&options, &layout(), [key; 16]).unwrap())
    };
    let joining: Vec<_> = (1..=6).map(join).collect();
    let joined = joining.into_iter().map(|one| one.join().unwrap());
    let joined: Vec<_> = joined.collect();
    assert!(joined.iter().all(|one| *one == joined[0]), "{joined:?}");
    let late = deployment::join(&servers.options(), &layout(), [9; 16]).unwrap();
    assert_eq!(late, joined[0]);
}

/// Goal: where the entry of a deployment was lost no other one is made over what is in its streams:
/// nobody would find it with another key. Once the entry is there again all is as before.
#[test]
fn no_deployment_is_made_over_messages_of_another() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let join = |key: u8| deployment::join(&servers.options(), &layout(), [key; 16]);
    let first = join(1).unwrap();
    let a = Node::start(&servers, &layout(), "a", 1);
    a.take_over(STREAM, 1);
    assert!(matches!(a.append_patiently(1), Outcome::Committed(_)));
    drop(a);
    servers.delete(&layout(), "deployment");
    let why = join(2).unwrap_err().to_string();
    assert!(
        why.contains("the entry `deployment` of test-map is gone"),
        "{why}"
    );
    servers.put(
        &layout(),
        "deployment",
        &serde_json::to_string(&first).unwrap(),
    );
    assert_eq!(join(3), Ok(first));
}

/// Goal: a node that comes in the moment in which the map has lost its leader waits for the next
/// one; without a majority it says so, in bounded time; a map that is not there is named at once.
#[test]
fn a_node_that_comes_waits_for_the_maps_leader() {
    let mut servers = Servers::start(true);
    let join = |servers: &Servers| deployment::join(&servers.options(), &layout(), [1; 16]);
    let missing = join(&servers).unwrap_err().to_string();
    assert!(missing.contains("--create"), "{missing}");
    servers.create(&layout());
    let first = join(&servers).unwrap();
    let leader = servers.leader_of_map(&layout());
    servers.kill(leader);
    assert_eq!(join(&servers), Ok(first));
    drop(servers);
    // A leader that is left alone may go on answering questions: the one that stays is none.
    let mut servers = Servers::start(true);
    servers.create(&layout());
    let leader = servers.leader_of_map(&layout());
    servers.kill(leader);
    servers.kill((leader + 1) % 3);
    let asked = Instant::now();
    let alone = join(&servers).unwrap_err().to_string();
    assert!(alone.contains("most of its servers are away"), "{alone}");
    assert!(asked.elapsed() < Duration::from_secs(40), "{alone}");
}

/// Goal: what is acknowledged survives a server that is killed, appends go on without it, and a
/// second node that followed has the same.
#[test]
fn appends_survive_a_killed_server() {
    let mut servers = Servers::start(true);
    servers.create(&layout());
    let a = Node::start(&servers, &layout(), "a", 1);
    let b = Node::start(&servers, &layout(), "b", 1);
    a.take_over(STREAM, 1);
    let mut accepted = 0;
    for n in 0..200 {
        accepted += u64::from(a.append(n) == Outcome::Committed(Position::new(accepted + 1)));
    }
    assert_eq!(accepted, 200);
    let leader = a.leader_of(STREAM);
    servers.kill(leader);
    for n in 200..300 {
        let outcome = a.append_patiently(n);
        assert_eq!(outcome, Outcome::Committed(Position::new(u64::from(n) + 1)));
    }
    servers.run(leader);
    b.catch_up_with(&a, STREAM);
    assert_eq!(a.marks(STREAM), b.marks(STREAM));
}

/// Goal: the server next to its home leads a stream, whichever an election chose, and does so again
/// once it is back after a kill.
#[test]
fn a_leader_moves_next_to_its_home() {
    let mut servers = Servers::start(true);
    servers.create(&layout());
    let nodes: Vec<Node> = (0..3)
        .map(|server| Node::next_to(server, &servers, &layout(), &format!("n{server}")))
        .collect();
    let mut number = 0;
    // Appends go on all the while: it is with them that a leader is asked for.
    let mut until_led_by = |server: usize, node: &Node| {
        let begun = Instant::now();
        while node.leader_if_any(STREAM) != Some(server) {
            number += 1;
            let outcome = node.append_patiently(number);
            assert_eq!(outcome, Outcome::Committed(Position::new(number.into())));
            assert!(begun.elapsed() < PATIENCE, "{server} does not lead");
        }
    };
    for (epoch, server) in (1..).zip([0, 1, 2, 0]) {
        let node = &nodes[server];
        node.take_over(STREAM, epoch);
        until_led_by(server, node);
    }
    Node::until("it is counted", || {
        nodes[0].driver().progress(STREAM).leaders_moved > 0
    });
    servers.kill(0);
    Node::until("another one leads", || {
        nodes[0]
            .leader_if_any(STREAM)
            .is_some_and(|leader| leader != 0)
    });
    servers.run(0);
    until_led_by(0, &nodes[0]);
    nodes[1].catch_up_with(&nodes[0], STREAM);
}

/// Goal: with room for one command and one event, more appends than that are refused at once or
/// committed, each is answered, and events that nobody took are counted.
#[test]
fn commands_and_events_are_bounded() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let a = Node::bounded(&servers, &layout(), (1, 1));
    for stream in layout().streams() {
        Node::until("taken", || a.driver().take_over(stream, 1));
        Node::until("serving", || a.driver().serving(stream) == 1);
    }
    let lost = |stream| a.driver().progress(stream).events_lost;
    Node::until("an event is lost", || {
        layout().streams().any(|s| lost(s) > 0)
    });
    let begun: Vec<_> = (0..2_000).map(|n| a.begin(n)).collect();
    let outcomes: Vec<Outcome> = begun.into_iter().map(Node::wait).collect();
    let busy = Outcome::Refused(Refused::Busy);
    let committed = |outcome: &&Outcome| matches!(outcome, Outcome::Committed(_));
    let refused = outcomes.iter().filter(|outcome| **outcome == busy).count();
    let committed = outcomes.iter().filter(committed).count();
    assert!(
        refused > 0 && committed > 0,
        "{refused} refused, {committed} committed"
    );
    assert_eq!(refused + committed, outcomes.len());
    assert_eq!(a.driver().progress(STREAM).take_overs, 1);
}

/// Goal: without a majority nobody says whether a stream is there, which is not to say that it is
/// missing: what mends it is another thing, and a node that starts waits for it.
#[test]
fn a_stream_that_does_not_answer_is_not_missing() {
    let mut servers = Servers::start(true);
    servers.create(&layout());
    servers.kill(0);
    servers.kill(1);
    // A leader that is left alone takes some seconds to know it.
    Node::until("both streams are silent, and both buckets", || {
        let found = observe::run(&servers.observe(&layout(), false)).unwrap();
        let about = |what: &str| found.iter().filter(|p| p.what.contains(what)).count();
        assert_eq!(about("is missing"), 0, "{found:?}");
        about("has no leader") == 4
    });
}

/// Goal: what could not be sent is not sent later. A node that is cut off repeats its publishes, of
/// up to 512 KB, twice a second: all of them together would come as the engine is back.
#[test]
fn publishes_do_not_wait_for_a_connection() {
    let mut servers = Servers::start(true);
    servers.create(&layout());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let engine = runtime
        .block_on(Engine::connect(&servers.options(), layout()))
        .unwrap();
    (0..3).for_each(|server| servers.kill(server));
    let publish = |number: u64| Publish {
        number,
        expected: 0,
        id: format!("id{number}"),
        payload: "never".into(),
    };
    // One may leave for a server that is dead.
    for number in 0..5 {
        std::thread::sleep(Duration::from_millis(200));
        let answer = runtime.block_on(engine.publish(STREAM, &publish(number)));
        assert_eq!(answer, Answer::Silence);
    }
    (0..3).for_each(|server| servers.run(server));
    let last = |within: Duration| {
        let started = Instant::now();
        loop {
            let bounds = runtime.block_on(engine.bounds(STREAM));
            match bounds {
                Some((_, last)) => return last,
                None => assert!(started.elapsed() < within, "no leader"),
            }
            // Without a connection it answers at once.
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    assert_eq!(last(Duration::from_secs(40)), 0);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(last(Duration::from_secs(40)), 0);
}

/// Goal: a node whose server of the engine is stopped, which closes no connection, goes on with
/// another one, as long as elections take and not until TCP gives up.
#[test]
fn appends_survive_a_stopped_server() {
    const ENOUGH: Duration = Duration::from_secs(20);
    let servers = Servers::start(true);
    servers.create(&layout());
    let a = Node::start_at(0, &servers, &layout(), "a");
    a.take_over(STREAM, 1);
    assert_eq!(a.append(0), Outcome::Committed(Position::new(1)));
    servers.signal(0, "-STOP");
    let stopped = Instant::now();
    assert_eq!(a.append_patiently(1), Outcome::Committed(Position::new(2)));
    let took = stopped.elapsed();
    servers.signal(0, "-CONT");
    assert!(took < ENOUGH, "{took:?}");
}

/// Goal: without a majority nothing is decided and new appends are refused; the one that was under
/// way is committed once the majority is back, and counts once.
#[test]
fn a_lost_quorum_decides_nothing() {
    let mut servers = Servers::start(true);
    servers.create(&layout());
    let a = Node::start(&servers, &layout(), "a", 1);
    a.take_over(STREAM, 1);
    assert_eq!(a.append(0), Outcome::Committed(Position::new(1)));
    servers.kill(0);
    servers.kill(1);
    let in_doubt = a.begin(1);
    a.expect(Duration::from_secs(20), |e| {
        *e == Event::Quorum(STREAM, false)
    });
    assert_eq!(a.append(2), Outcome::Refused(Refused::NoQuorum));
    let shown = a.driver().progress(STREAM);
    assert!(shown.lacks_quorum && shown.doubts >= 1, "{shown:?}");
    servers.run(0);
    servers.run(1);
    assert_eq!(Node::wait(in_doubt), Outcome::Committed(Position::new(2)));
    assert_eq!(a.append_patiently(3), Outcome::Committed(Position::new(3)));
    assert!(!a.driver().progress(STREAM).lacks_quorum);
}

/// Goal: a take-over fences. The deposed home's next append is refused, ten appends that a rival
/// had prepared count nowhere though the engine acknowledges nine of them, and the new home goes
/// on.
#[test]
fn a_take_over_fences_a_rival_with_prepared_appends() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let a = Node::start(&servers, &layout(), "a", 1);
    let b = Node::start(&servers, &layout(), "b", 1);
    a.take_over(STREAM, 1);
    for n in 0..20 {
        assert_eq!(
            a.append(n),
            Outcome::Committed(Position::new(u64::from(n) + 1))
        );
    }
    b.take_over(STREAM, 2);
    // The first is where b's record is, wherever a busy engine has put that.
    let bounds = b.block_on(async |engine: Engine| engine.bounds(STREAM).await);
    let (_, taken_over) = bounds.expect("a leader");
    let acknowledged = rival(&a, taken_over - 1);
    assert_eq!(acknowledged, 9);
    let fenced = a.append(20);
    let is_fenced = matches!(fenced, Outcome::Fenced | Outcome::Refused(Refused::NotHome));
    assert!(is_fenced, "{fenced:?}");
    // The rival's messages are where b's next one should have been, unless it had read them.
    let mut outcome = b.append_patiently(21);
    for epoch in 3..10 {
        if matches!(outcome, Outcome::Committed(_)) {
            break;
        }
        b.take_over(STREAM, epoch);
        outcome = b.append_patiently(21);
    }
    assert_eq!(outcome, Outcome::Committed(Position::new(21)));
    a.catch_up_with(&b, STREAM);
    assert_eq!(a.marks(STREAM), b.marks(STREAM));
    // What a driver shows is as of its task's last look.
    Node::until("nine count nowhere", || {
        b.driver().progress(STREAM).stats.void == 9
    });
}

/// Ten publishes of epoch 1, all at once, the first behind `last`. How many are acknowledged.
fn rival(node: &Node, last: u64) -> usize {
    let range = layout().ranges(STREAM)[0];
    let publish = |ahead: u64| {
        let message = Message {
            author: Author {
                node: "rival".to_owned(),
                incarnation: 9,
            },
            number: ahead,
            epoch: 1,
            body: Body::Appends {
                runs: vec![Run::new(range, Position::new(last + ahead), 1)],
                check: None,
                entries: vec![Entry::new(
                    range,
                    store::appended::encode(Level::FIRST, &[record(900)]).into(),
                )],
            },
            level: Level::FIRST,
        };
        Publish {
            number: ahead,
            expected: last + ahead,
            id: message.id(),
            payload: message.encode(),
        }
    };
    node.block_on(async |engine: Engine| {
        let mut acknowledged = 0;
        for ahead in 0..10 {
            // Of a busy engine the answer may be late; it knows the id.
            let mut answer = Answer::Silence;
            for _ in 0..10 {
                answer = engine.publish(STREAM, &publish(ahead)).await;
                if answer != Answer::Silence {
                    break;
                }
            }
            acknowledged += usize::from(matches!(answer, Answer::Stored(_)));
        }
        acknowledged
    })
}

/// The engine, and a node that is the home of a stream with something to store.
fn home_with_entries() -> (Servers, Node) {
    let servers = Servers::start(true);
    servers.create(&layout());
    let a = Node::start(&servers, &layout(), "a", 1);
    a.take_over(STREAM, 1);
    for n in 0..30 {
        assert!(matches!(a.append(n), Outcome::Committed(_)));
    }
    (servers, a)
}

/// Goal: a bucket that has no room for a snapshot is said by name, nothing is purged then, and with
/// room again a snapshot is stored.
#[test]
fn a_bucket_that_is_full_is_named() {
    let (servers, a) = home_with_entries();
    servers.limit("OBJ_test-snapshots", 200);
    let why = Node::wait(a.driver().snapshot(STREAM)).unwrap_err();
    assert!(
        why.contains("the bucket test-snapshots of the engine is full"),
        "{why}"
    );
    assert!(why.contains("OBJ_test-snapshots"), "{why}");
    let bounds = a.block_on(async |engine: Engine| engine.bounds(STREAM).await);
    assert!(
        bounds.is_some_and(|(first, last)| first == 1 && last >= 31),
        "{bounds:?}"
    );
    servers.limit("OBJ_test-snapshots", -1);
    let stored = Node::wait(a.driver().snapshot(STREAM)).unwrap();
    assert!(stored.mark.seq >= 31, "{stored:?}");
}

/// Goal: what a snapshot that found no room has left in the engine is removed once nobody can be
/// storing it any more, and nothing of others.
#[test]
fn parts_of_snapshots_that_were_not_stored_are_removed() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: usize| {
        let path = folder.path().join(name);
        std::fs::write(&path, vec![7; bytes]).unwrap();
        path
    };
    let (small, large) = (file("small", 1_000), file("large", 600_000));
    servers.limit("OBJ_test-snapshots", 400_000);
    servers.ask(&layout(), async |engine: Engine| {
        engine.put_snapshot(STREAM, 5, &small).await.unwrap();
        let full = engine.put_snapshot(STREAM, 9, &large).await.unwrap_err();
        assert!(matches!(full, EngineError::Full { .. }), "{full:?}");
        let minute = Duration::from_secs(60);
        assert_eq!(engine.forget_parts(minute).await, Ok(0), "it may go on");
        assert_eq!(engine.forget_parts(Duration::ZERO).await, Ok(1));
        assert_eq!(engine.forget_parts(Duration::ZERO).await, Ok(0));
        assert_eq!(engine.snapshots(STREAM).await, Ok(vec![5]));
        let back = folder.path().join("back");
        engine.load_snapshot(STREAM, 5, &back).await.unwrap();
        assert_eq!(std::fs::read(back).unwrap().len(), 1_000);
    });
}

/// Goal: a snapshot of which the engine has lost a part is an error, and not waited for for ever.
#[test]
fn a_snapshot_without_its_parts_is_an_error() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    std::fs::write(&path, vec![7; 300_000]).unwrap();
    servers.ask(&layout(), async |engine: Engine| {
        engine.put_snapshot(STREAM, 5, &path).await.unwrap();
    });
    servers.purge("OBJ_test-snapshots", "$O.test-snapshots.C.>");
    servers.ask(&layout(), async |engine: Engine| {
        let began = Instant::now();
        let back = folder.path().join("back");
        let lost = engine.load_snapshot(STREAM, 5, &back).await.unwrap_err();
        assert!(lost.to_string().contains("does not come"), "{lost}");
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "{:?}",
            began.elapsed()
        );
    });
}

/// Goal: a snapshot is verified before the stream is purged behind it, and a node that begins with
/// nothing loads it, reads the tail, and is equal.
#[test]
fn a_new_node_begins_with_a_snapshot() {
    let (servers, a) = home_with_entries();
    let stored = Node::wait(a.driver().snapshot(STREAM)).unwrap();
    let seq = stored.mark.seq;
    assert!(seq >= 31, "{seq}");
    assert!(stored.entries > 5 && stored.bytes > 200, "{stored:?}");
    let bounds = a.block_on(async |engine: Engine| engine.bounds(STREAM).await);
    assert_eq!(bounds, Some((seq + 1, seq)));
    for n in 30..40 {
        assert!(matches!(a.append(n), Outcome::Committed(_)));
    }
    let b = Node::start(&servers, &layout(), "b", 1);
    // Until it has everything it is no candidate for homes.
    Node::until("it has everything", || {
        let progress = b.driver().progress(STREAM);
        let is_warm = progress.lag_ms < 1_000;
        assert!(!is_warm || progress.mark.seq >= seq + 10, "{progress:?}");
        is_warm
    });
    b.expect(Duration::from_secs(30), |e| {
        *e == Event::Loaded(STREAM, seq)
    });
    b.catch_up_with(&a, STREAM);
    assert_eq!(a.marks(STREAM), b.marks(STREAM));
    b.take_over(STREAM, 2);
    assert_eq!(
        b.append_patiently(41),
        Outcome::Committed(Position::new(41))
    );
}

/// Goal: nodes with a map find homes by themselves; when one that is a home ends, another one is
/// after its lease, and a node that begins again gets homes.
#[test]
fn nodes_with_a_map_find_homes() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let a = Node::with_map(&servers, &layout(), "a", 1);
    let b = Node::with_map(&servers, &layout(), "b", 1);
    let homes = |nodes: &[&Node]| -> Vec<usize> {
        let count = |stream| nodes.iter().filter(|n| n.is_home(stream)).count();
        layout().streams().map(count).collect()
    };
    Node::until("each stream has a home", || homes(&[&a, &b]) == [1, 1]);
    let (home, other) = match a.is_home(STREAM) {
        true => (a, b),
        false => (b, a),
    };
    Node::until("it may act", || home.driver().may_act());
    assert_eq!(
        home.append_patiently(1),
        Outcome::Committed(Position::new(1))
    );
    drop(home);
    Node::until("the other took all", || homes(&[&other]) == [1, 1]);
    assert_eq!(
        other.append_patiently(2),
        Outcome::Committed(Position::new(2))
    );
    let again = Node::with_map(&servers, &layout(), "c", 1);
    Node::until("the new one has a share", || {
        homes(&[&other, &again]) == [1, 1] && layout().streams().any(|s| again.is_home(s))
    });
}

/// Goal: an entry that an operator deleted is none: a node that lives makes its own again. One that
/// has gone is forgotten, and only such a one; it may come back under its name.
#[test]
fn an_entry_that_was_deleted_is_none() {
    let servers = Servers::start(true);
    servers.create(&layout());
    let life = |wall| deployment::life(&servers.options(), &layout(), ("b", wall)).unwrap();
    assert_eq!(life(7), 7, "the map knows of none");
    let a = Node::with_map(&servers, &layout(), "a", 1);
    let b = Node::with_map(&servers, &layout(), "b", 50);
    let has_share = |node: &Node| layout().streams().any(|stream| node.is_home(stream));
    Node::until("both have a share", || has_share(&a) && has_share(&b));
    assert_eq!(life(7), 51, "its clock was set back");
    assert_eq!(life(70), 70);
    let ended = || -> u64 {
        let ended = |stream| b.driver().progress(stream).tenures_ended;
        layout().streams().map(ended).sum()
    };
    let before = ended();
    servers.delete(&layout(), "node.b");
    Node::until("its tenures end", || ended() > before);
    Node::until("its entry is there again", || life(7) == 51);
    Node::until("it takes part again", || has_share(&a) && has_share(&b));
    drop(b);
    Node::until("it is gone", || {
        layout().streams().all(|stream| a.is_home(stream))
    });
    // It may have been the home of nothing by the map already: its lease has to lapse also then.
    Node::until("it has ended and is forgotten", || {
        match forget::run(&servers.options(), &layout(), "b") {
            Ok(()) => true,
            Err(ForgetError::Lives(_)) => false,
            Err(other) => panic!("{other}"),
        }
    });
    Node::until("nobody knows it", || {
        !a.driver().map().nodes.contains_key("b")
    });
    Node::until("nor does the map", || life(7) == 7);
    let again = forget::run(&servers.options(), &layout(), "b");
    assert!(
        matches!(again, Err(ForgetError::Unknown { .. })),
        "{again:?}"
    );
    let alive = forget::run(&servers.options(), &layout(), "a");
    assert_eq!(alive, Err(ForgetError::Lives("a".to_owned())));
    let b = Node::with_map(&servers, &layout(), "b", 51);
    Node::until("it is back", || has_share(&a) && has_share(&b));
}

/// Goal: a node that the engine did not answer for long takes part again as soon as it does, and
/// has what was said meanwhile: map and streams are followed anew then, and not after the pauses of
/// the engine's client, which are 10 s by that time.
#[test]
fn a_node_that_was_cut_off_takes_part_at_once() {
    let servers = Servers::start_untold();
    servers.create(&layout());
    let a = Node::with_map_at(0, &servers, &layout(), "a");
    let b = Node::with_map_at(1, &servers, &layout(), "b");
    let is_alive = |name: &str| {
        let view = a.driver().map();
        view.nodes.get(name).is_some_and(|node| node.is_alive)
    };
    Node::until("both take part", || is_alive("a") && is_alive("b"));
    servers.signal(1, "-STOP");
    Node::until("one is cut off", || !is_alive("b"));
    Node::until("the other is the home of all", || a.is_home(STREAM));
    a.append_patiently(1);
    std::thread::sleep(CUT_OFF);
    servers.signal(1, "-CONT");
    // On a busy machine the server takes its time to be one of three again.
    servers.await_answers(1, &layout());
    let since = Instant::now();
    Node::until("it takes part again", || is_alive("b"));
    b.catch_up_with(&a, STREAM);
    let took = since.elapsed();
    assert!(took < BACK_WITHIN, "it took {took:?}");
}

/// Goal: a home whose store refuses a write, so that its own copy never gets on, loses the stream
/// to a node whose copy does, which has what was acknowledged meanwhile. Once its store takes
/// writes again its copy goes on by itself.
#[test]
fn a_home_whose_store_refuses_a_write_loses_the_stream() {
    let full = |faults: &Faults, is_full| faults.set_disk_full(is_full);
    lose_the_stream(full, |_| {});
}

/// Goal: the same if what the copy lacks was purged meanwhile: it goes on with the snapshot, which
/// its store takes only once its engine was opened again.
#[test]
fn a_store_that_failed_is_healed_before_a_snapshot_is_loaded() {
    let damaged = |faults: &Faults, is_damaged: bool| {
        faults.fail_commits(u64::from(is_damaged), false);
        faults.fail_heals(if is_damaged { u64::MAX } else { 0 });
    };
    lose_the_stream(damaged, |home| {
        let stored = Node::wait(home.driver().snapshot(STREAM)).expect("a snapshot");
        let mark = home.driver().progress(STREAM).mark;
        assert!(stored.mark.seq >= mark.seq, "all of it is purged");
    });
}

/// A home loses its stream by a fault of its store, which is over behind something that the next
/// home does.
fn lose_the_stream(set: impl Fn(&Faults, bool), meanwhile: impl FnOnce(&Node)) {
    let servers = Servers::start_untold();
    servers.create(&layout());
    let disks = ["a", "b"].map(|_| Arc::new(FaultyEngine::new(MemoryEngine::new())));
    let nodes: Vec<Node> = (disks.iter().zip(["a", "b"]))
        .map(|(disk, name)| {
            let slots = Store::in_memory().slot_key();
            let engine: Arc<FaultyEngine<MemoryEngine>> = Arc::clone(disk);
            let store = Store::with_engine(engine, Durability::Memory, slots).unwrap();
            Node::with_map_over(store, &servers, &layout(), name)
        })
        .collect();
    let home = || nodes.iter().position(|node| node.is_home(STREAM));
    let has_share = |node: &Node| layout().streams().any(|stream| node.is_home(stream));
    Node::until("each has a share", || {
        nodes.iter().all(has_share) && home().is_some()
    });
    let (old, new) = match home() {
        Some(0) => (0, 1),
        _ => (1, 0),
    };
    assert!(matches!(
        nodes[old].append_patiently(1),
        Outcome::Committed(_)
    ));
    nodes[new].catch_up_with(&nodes[old], STREAM);
    set(&disks[old].faults(), true);
    // Nobody decides it here any more.
    let _undecided = nodes[old].begin(2);
    Node::until("its copy is stuck", || {
        nodes[old].driver().progress(STREAM).is_stuck
    });
    Node::until("the other one has it", || nodes[new].is_home(STREAM));
    let mark = nodes[new].driver().progress(STREAM).mark.seq;
    assert!(mark > nodes[old].driver().progress(STREAM).mark.seq);
    assert!(matches!(
        nodes[new].append_patiently(3),
        Outcome::Committed(_)
    ));
    meanwhile(&nodes[new]);
    set(&disks[old].faults(), false);
    nodes[old].catch_up_with(&nodes[new], STREAM);
    assert!(!nodes[old].driver().progress(STREAM).is_stuck);
}
