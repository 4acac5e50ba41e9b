//! What waits for commits: for hours, in doubt, at bounds of one and two; and accounts that are
//! imported while others, or they themselves, are at work.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::held::{World, bodies};
use common::{Client, PANIC, options, start_on};
use server::admin::{Request, Response};
use server::options::Commits;
use store::{Durability, FaultyEngine, Journal as _, MemoryEngine, SlotKey, Store};

const HOURS: Duration = Duration::from_secs(3 * 3600);

/// A client that has waited for hours is given an answer when there is one: until then nothing
/// failed.
#[test]
fn a_commit_that_takes_hours_did_not_fail() {
    let mut world = World::new(|_| {});
    let mut romeo = world.login("romeo");
    let mut juliet = world.online("juliet");
    world.hold();
    romeo.say("juliet", 1);
    world.work();
    world.pass(HOURS);
    assert_eq!(romeo.read(&mut world), "", "nobody knows yet");
    world.let_go();
    assert_eq!(bodies(&juliet.read(&mut world)), [1]);
    romeo.say("juliet", 2);
    assert_eq!(bodies(&juliet.read(&mut world)), [2]);
    assert_eq!(romeo.read(&mut world), "");
}

/// In doubt for hours: its sender hears nothing, others chat on, and then it is there or its
/// sender's stream ends, as the journal says. No other stream ends.
#[test]
fn a_message_in_doubt_is_delivered_or_sent_again_once_the_journal_knows() {
    for survives in [false, true] {
        let mut world = World::new(|_| {});
        let mut romeo = world.login("romeo");
        let mut juliet = world.online("juliet");
        let mut nurse = world.login("nurse");
        world.switches().set_stay_in_doubt(true);
        match survives {
            true => world.switches().doubt(1),
            false => world.switches().lose(1),
        }
        romeo.say("juliet", 1);
        world.work();
        romeo.say("juliet", 2);
        nurse.say("juliet", 9);
        world.pass(HOURS);
        assert_eq!(bodies(&juliet.read(&mut world)), [9]);
        assert_eq!(romeo.read(&mut world), "", "neither accepted nor refused");

        world.switches().set_stay_in_doubt(false);
        world.journal().settle();
        world.pass(Duration::from_secs(10));
        let heard = bodies(&juliet.read(&mut world));
        if survives {
            assert_eq!((&*heard, &*romeo.read(&mut world)), (&[1, 2][..], ""));
        } else {
            assert!(heard.is_empty(), "{heard:?}");
            // His client sends again what was not acknowledged.
            let end = romeo.end(&mut world);
            assert!(end.contains("internal-server-error"), "{end}");
        }
        nurse.say("juliet", 3);
        assert_eq!(bodies(&juliet.read(&mut world)), [3], "and so it goes on");
    }
}

/// The same with the disk itself: the engine has to be opened again.
#[test]
fn a_disk_that_fails_ends_the_streams_whose_changes_failed() {
    for survives in [false, true] {
        let mut world = World::new(|_| {});
        let mut romeo = world.login("romeo");
        let mut juliet = world.online("juliet");
        let mut nurse = world.login("nurse");
        world.disk.faults().fail_heals(u64::MAX);
        world.disk.faults().fail_commits(1, survives);
        romeo.say("juliet", 1);
        world.pass(HOURS);
        assert_eq!(romeo.read(&mut world), "", "nobody knows yet");
        // What comes meanwhile did not happen, and is in no doubt.
        juliet.say("romeo", 8);
        let end = juliet.end(&mut world);
        assert!(end.contains("internal-server-error"), "{end}");

        world.disk.faults().fail_heals(0);
        // The next one heals it.
        nurse.say("juliet", 9);
        world.pass(Duration::from_secs(60));
        let mut juliet = world.login("juliet");
        juliet.send("<presence/>");
        world.pass(Duration::from_secs(60));
        let heard = bodies(&juliet.read(&mut world));
        assert_eq!(heard.contains(&1), survives, "{heard:?}");
        assert!(heard.contains(&9), "{heard:?}");
        if survives {
            assert_eq!(romeo.read(&mut world), "");
        } else {
            let end = romeo.end(&mut world);
            assert!(end.contains("internal-server-error"), "{end}");
        }
    }
}

/// With the journal's queue full, a user's next life was read before the appends of the one before
/// were decided: it gave places out that were taken.
#[test]
fn a_user_is_not_read_before_its_earlier_life_is_decided_with_a_full_queue_either() {
    let mut world = World::new(|options| options.commits.backlog_appends_max = 1);
    let mut romeo = world.login("romeo");
    let mut nurse = world.login("nurse");
    let mut juliet = world.online("juliet");
    world.hold();
    romeo.say("juliet", 1);
    world.work();
    nurse.say("juliet", 7);
    world.work();
    nurse.say("juliet", 8);
    world.work();
    assert_eq!(nurse.read(&mut world), "", "behind the one that waits");
    romeo.send(&format!("<message to='nurse@localhost'>{PANIC}</message>"));
    world.work();
    // Somebody wants something of him: he is loaded again.
    let mut romeo = world.connect();
    romeo.authenticate("romeo");
    world.pass(Duration::from_secs(30));
    assert_eq!(romeo.read(&mut world), "", "not before it is known");
    world.let_go();
    world.pass(Duration::from_secs(1));
    let refused = nurse.expect(&mut world, "resource-constraint");
    assert!(refused.contains("id='8'"), "whose it is: {refused}");
    romeo.expect(&mut world, "<success");
    romeo.bind(&mut world);
    // With a queue of one, others may be in front of it.
    while {
        romeo.say("juliet", 2);
        romeo.read(&mut world).contains("resource-constraint")
    } {
        world.pass(Duration::from_secs(1));
    }
    world.pass(Duration::from_secs(30));
    let mut heard = bodies(&juliet.read(&mut world));
    heard.sort_unstable();
    assert_eq!(heard, [1, 2, 7]);
}

/// At the bound of what waits for a user's commits, its stanzas wait at the edge: nothing is
/// refused, dropped or out of order.
#[test]
fn with_a_full_barrier_stanzas_wait() {
    const MANY: usize = usize::MAX;
    for (appends, effects, bytes) in [
        (1, MANY, MANY),
        (2, MANY, MANY),
        (MANY, 1, MANY),
        (MANY, 2, MANY),
        (MANY, MANY, 1),
        (MANY, MANY, 1_000),
    ] {
        let mut world = World::new(|options| {
            options.commits = Commits {
                barrier_appends_max: appends,
                barrier_effects_max: effects,
                barrier_bytes_max: bytes,
                ..Commits::default()
            };
        });
        let mut romeo = world.online("romeo");
        let mut juliet = world.online("juliet");
        world.hold();
        for number in 0..20 {
            romeo.say("juliet", number);
            romeo.send("<iq type='get' id='p'><ping xmlns='urn:xmpp:ping'/></iq>");
        }
        world.work();
        let before = world.journal().stats().committed;
        assert!(world.let_one_go());
        let first = world.journal().stats().committed - before;
        assert!(first as usize <= appends, "{first} at once");
        let mut rounds = 0;
        while world.let_one_go() {
            rounds += 1;
            assert!(rounds < 1_000, "no end");
        }
        assert!(appends > 2 || rounds > 9, "{rounds} rounds at {appends}");
        world.let_go();
        world.pass(Duration::from_secs(5));
        let expected: Vec<u32> = (0..20).collect();
        let bounds = (appends, effects, bytes);
        assert_eq!(bodies(&juliet.read(&mut world)), expected, "{bounds:?}");
        let answers = romeo.read(&mut world);
        assert_eq!(answers.matches("id='p'").count(), 20, "{answers}");
        assert!(!answers.contains("error"), "{answers}");
    }
}

/// A disk whose syncs take as long as it says.
fn slow_store(delay: Duration) -> Store {
    let engine = FaultyEngine::new(MemoryEngine::new());
    engine.faults().set_commit_delay(delay);
    let slots = SlotKey::new([7; 16]);
    Store::with_engine(Arc::new(engine), Durability::Fsync, slots).expect("a store")
}

fn import(admin: &server::admin::Admin, users: &[String]) -> Response {
    let lines = users.iter().flat_map(|user| {
        [
            format!(
                "{{\"type\":\"account\",\"jid\":\"{user}\",\"created\":0,\"locked\":false,\
                 \"scram\":[]}}"
            ),
            format!("{{\"type\":\"roster\",\"jid\":\"{user}\",\"items\":[]}}"),
        ]
    });
    let lines = lines.collect();
    admin.call(Request::Import {
        lines,
        check: false,
        strays: Vec::new(),
    })
}

fn imported(accounts: u64) -> Response {
    let (rooms, nodes) = (0, 0);
    Response::Imported {
        accounts,
        rooms,
        nodes,
    }
}

/// What is imported goes through the queue of everybody: it moved positions behind the backs of
/// those who had asked for them, and their stanzas were answered with errors.
#[test]
fn an_import_disturbs_nobody() {
    let users: Vec<String> = (0..16).map(|n| format!("user{n}")).collect();
    let names: Vec<&str> = users.iter().map(String::as_str).collect();
    let mut options = options(2, true);
    // The bounds that an import has to wait at, too.
    options.commits.backlog_appends_max = 64;
    options.commits.journal.queue_max = 1;
    options.commits.journal.group_records_max = 4;
    let store = slow_store(Duration::from_micros(500));
    let running = start_on(store, options, net::Limits::default(), &names);
    let mut clients: Vec<Client> = names
        .iter()
        .map(|user| Client::login(running.address, user, "r"))
        .collect();
    let admin = running.node.admin();
    let importer = std::thread::spawn(move || {
        for part in 0..4 {
            let users: Vec<String> = (0..200)
                .map(|n| format!("imported{part}-{n}@localhost"))
                .collect();
            let made = import(&admin, &users);
            assert_eq!(made, imported(200));
        }
    });
    let mut round = 0;
    while round < 5 || !importer.is_finished() {
        for (at, client) in clients.iter_mut().enumerate() {
            client.send(&format!(
                "<message to='user{}@localhost/r' type='chat'><body>{round}</body></message>",
                at ^ 1
            ));
        }
        for client in &mut clients {
            let seen = client.expect(&format!("<body>{round}</body></message>"));
            assert!(!seen.contains("error"), "{seen}");
        }
        round += 1;
    }
    importer.join().expect("imported");
    assert_eq!(running.node.admin().sample().journal.fenced, 0);
    running.node.drain(common::PATIENCE);
}

/// The journal takes nothing for as long as an import waits for it: the administrator is told, and
/// nothing was made.
#[test]
fn an_import_that_finds_no_room_is_told_so() {
    let mut options = options(2, false);
    options.commits.backlog_appends_max = 0;
    options.commits.import_attempts = 3;
    let running = common::start_with(options, net::Limits::default(), &[]);
    let admin = running.node.admin();
    match import(&admin, &["one@localhost".to_owned()]) {
        Response::Error { code, message } => {
            assert_eq!(code, "busy");
            assert!(message.contains("try again"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let none = admin.call(Request::UserList {
        domain: None,
        after: None,
        limit: 10,
    });
    assert!(
        matches!(&none, Response::Users { jids } if jids.is_empty()),
        "{none:?}"
    );
}

/// A service is in use for longer than an import waits for it: the administrator is told which one,
/// and nothing was made. Once it is idle it leaves the memory, and has what was imported.
#[test]
fn an_import_for_a_service_that_is_in_use_is_told_so() {
    const SERVICE: &str = "pubsub.localhost";
    let engine = Arc::new(FaultyEngine::new(MemoryEngine::new()));
    let slots = SlotKey::new([7; 16]);
    let disk = Arc::clone(&engine);
    let store = Store::with_engine(disk, Durability::Fsync, slots);
    let mut options = options(1, false);
    options.commits.import_attempts = 3;
    let store = store.expect("a store");
    let running = start_on(store, options, net::Limits::default(), &["romeo"]);
    let mut romeo = Client::login(running.address, "romeo", "r");
    let make = |node: &str| {
        format!(
            "<iq type='set' id='{node}' to='{SERVICE}'>\
             <pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='{node}'/></pubsub></iq>"
        )
    };
    romeo.send(&make("first"));
    romeo.expect("id='first'");
    let admin = running.node.admin();
    let bring = || {
        let line = format!(
            "{{\"type\":\"node\",\"jid\":\"{SERVICE}\",\"node\":\"brought\",\"number\":1000,\
             \"creator\":\"romeo@localhost\",\"created\":0,\"config\":{{}}}}"
        );
        admin.call(Request::Import {
            lines: vec![line],
            check: false,
            strays: Vec::new(),
        })
    };
    let nodes = || -> Vec<String> {
        let listed = admin.call(Request::NodeList {
            address: Some(SERVICE.to_owned()),
            after: None,
            limit: 10,
        });
        match listed {
            Response::Nodes { nodes } => nodes.into_iter().map(|node| node.node).collect(),
            other => panic!("{other:?}"),
        }
    };
    // Far longer than three attempts take.
    engine.faults().set_commit_delay(Duration::from_secs(3));
    romeo.send(&make("second"));
    romeo.send("<iq type='get' id='sync'><ping xmlns='urn:xmpp:ping'/></iq>");
    romeo.expect("id='sync'");
    match bring() {
        Response::Error { code, message } => {
            assert_eq!(code, "busy");
            assert!(
                message.starts_with("pubsub.localhost is in use"),
                "{message}"
            );
        }
        other => panic!("{other:?}"),
    }
    romeo.expect("id='second'");
    engine.faults().set_commit_delay(Duration::ZERO);
    assert_eq!(nodes(), ["first", "second"]);
    let made = Response::Imported {
        accounts: 0,
        rooms: 0,
        nodes: 1,
    };
    assert_eq!(bring(), made);
    romeo.send(&make("third"));
    romeo.expect("id='third'");
    assert_eq!(nodes(), ["brought", "first", "second", "third"]);
    running.node.drain(common::PATIENCE);
}

/// Somebody wrote to an address before the account was imported: the actor that knew of no account
/// knows of it afterwards. And an account that is there is refused, loaded or not.
#[test]
fn an_account_is_imported_although_its_actor_is_loaded() {
    let running = common::start(2, true, &["romeo", "juliet"]);
    let mut romeo = Client::login(running.address, "romeo", "r");
    let ghost = "ghost@localhost";
    romeo.send(&format!(
        "<message to='{ghost}' id='early'><body>boo</body></message>"
    ));
    let refused = romeo.expect("id='early'");
    assert!(refused.contains("error"), "{refused}");
    let admin = running.node.admin();
    let made = import(&admin, &[ghost.to_owned(), "other@localhost".to_owned()]);
    assert_eq!(made, imported(2));
    romeo.send(&format!(
        "<message to='{ghost}' id='late' type='chat'><body>boo</body></message>"
    ));
    romeo.send("<iq type='get' id='sync'><ping xmlns='urn:xmpp:ping'/></iq>");
    let seen = romeo.expect("id='sync'");
    assert!(!seen.contains("id='late'"), "{seen}");
    for there in [ghost, "juliet@localhost", "romeo@localhost"] {
        let refused = import(&admin, &[there.to_owned()]);
        let is_named = matches!(&refused, Response::Refused { code, .. } if code == "user_exists");
        assert!(is_named, "{there}: {refused:?}");
    }
    running.node.drain(common::PATIENCE);
}

/// Who has an account made waits for its commit. The threads that derive keys do not: others log in
/// meanwhile.
#[test]
fn registrations_that_wait_are_in_nobodys_way() {
    let engine = FaultyEngine::new(MemoryEngine::new());
    let faults = engine.faults();
    let slots = SlotKey::new([7; 16]);
    let store = Store::with_engine(Arc::new(engine), Durability::Fsync, slots).expect("a store");
    let mut options = options(2, true);
    options.registration_enabled = true;
    let running = start_on(store, options, net::Limits::default(), &["alice"]);
    drop(Client::authenticate(running.address, "alice"));
    faults.set_commit_delay(Duration::from_secs(4));
    let mut new: Vec<Client> = (0..8)
        .map(|n| {
            let mut client = Client::connect(running.address);
            client.open();
            client.send(&format!(
                "<iq type='set' id='r'><query xmlns='jabber:iq:register'>\
                 <username>new{n}</username><password>pw</password></query></iq>"
            ));
            client
        })
        .collect();
    drop(Client::authenticate(running.address, "alice"));
    for client in &mut new {
        let timeout = Some(Duration::from_millis(1));
        client.socket.set_read_timeout(timeout).expect("an option");
        assert!(
            client.read_some().is_err(),
            "answered before: {}",
            client.seen
        );
    }
    faults.set_commit_delay(Duration::ZERO);
    for client in &mut new {
        let timeout = Some(common::PATIENCE);
        client.socket.set_read_timeout(timeout).expect("an option");
        client.expect("<iq type='result' id='r'");
    }
    running.node.drain(common::PATIENCE);
}
