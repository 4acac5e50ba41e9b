//! Administration through any node of what is at home on any other one.

use rustix::process::Signal;

use crate::nodes::Nodes;
use crate::person::{Person, deaf};

/// Goal: whatever is done to an account works through a node that is not its home, and every node
/// says the same of all of them.
#[test]
fn accounts_are_managed_through_any_node() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let user = nodes.add_at("b", "bob");
    let jid = format!("{user}@localhost");
    let mut run = |node: &str, command: &[&str]| {
        let done = nodes.node(node).run(&[command, &[&jid]].concat());
        done.unwrap_or_else(|why| panic!("{command:?}: {why}"))
    };
    assert!(run("a", &["user", "lock"]).starts_with("locked"));
    assert!(run("c", &["user", "unlock"]).starts_with("unlocked"));
    run("a", &["user", "passwd", "--password", "another"]);
    run(
        "a",
        &["user", "passwd", "--password", crate::nodes::PASSWORD],
    );
    let again = nodes
        .node("c")
        .run(&["user", "add", &jid, "--password", "x"]);
    let again = again.unwrap_err();
    assert!(again.contains("already"), "{again}");
    let nobody = nodes.node("a").run(&["user", "kick", "nobody@localhost"]);
    assert!(
        nobody.unwrap_err().contains("no account"),
        "who is not there"
    );
    let mut bob = Person::online(&mut nodes, &user, "c");
    nodes.node("a").run(&["user", "kick", &jid]).unwrap();
    bob.expect_end("policy-violation");
    let mut bob = Person::online(&mut nodes, &user, "c");
    for n in 0..5 {
        bob.say(&user, &format!("secret {n}"));
    }
    bob.await_accepted();
    let erased = nodes.node("a").run(&["user", "erase", &jid]).unwrap();
    assert!(
        erased.starts_with("erased ") && !erased.starts_with("erased 0"),
        "{erased}"
    );
    nodes
        .node("c")
        .run(&["ban", "add", &jid, "--for", "1h"])
        .unwrap();
    bob.expect_end("policy-violation");
    for name in ["a", "b", "c"] {
        let bans = nodes.node(name).run(&["ban", "list"]).unwrap();
        assert!(bans.contains(&jid), "{name}: {bans}");
    }
    nodes.node("b").run(&["ban", "remove", &jid]).unwrap();
    nodes.node("c").run(&["user", "del", &jid]).unwrap();
    let provision = [
        "--domain",
        "localhost",
        "--users",
        "40",
        "--password",
        "x",
        "--quiet",
    ];
    let provision = [&["provision"][..], &provision[..]].concat();
    nodes.node("a").run(&provision).unwrap();
    for name in ["a", "b", "c"] {
        nodes.until("all are listed, and nobody else", |nodes| {
            let listed = nodes.run(name, &["user", "list"]).unwrap();
            listed.lines().count() == 40 && !listed.contains(&user)
        });
    }
}

/// Goal: rooms of any home are listed, shown and ended through any node, also those that are in no
/// store.
#[test]
fn rooms_are_managed_through_any_node() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let user = nodes.add("alice");
    assert!(!user.is_empty());
    let mut alice = Person::online(&mut nodes, "alice", "a");
    let rooms: Vec<String> = (0..6).map(|n| format!("hall{n}")).collect();
    for room in &rooms {
        alice.enter(room);
        alice.open_room(room);
    }
    for name in ["a", "b", "c"] {
        let listed = nodes.node(name).run(&["room", "list"]).unwrap();
        for room in &rooms {
            let count = listed.matches(&format!("{room}@")).count();
            assert_eq!(count, 1, "{name}: {listed}");
        }
        assert_eq!(listed.matches("temporary").count(), rooms.len(), "{listed}");
        let shown = nodes
            .node(name)
            .run(&["room", "show", "hall0@conference.localhost"]);
        assert!(shown.unwrap().contains("1 with 1 sessions"));
    }
    for (room, name) in rooms.iter().zip(["a", "b", "c", "a", "b", "c"]) {
        let room = format!("{room}@conference.localhost");
        nodes.node(name).run(&["room", "destroy", &room]).unwrap();
    }
    let listed = nodes.node("a").run(&["room", "list"]).unwrap();
    assert_eq!(listed, "");
}

/// Goal: an import finds the home of each line, a line that cannot be taken is named by its place
/// in the file, and queues and traces answer on any node.
#[test]
fn an_import_finds_all_homes() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    nodes.add("alice");
    let exported = nodes.node("a").run(&["export"]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.jsonl");
    let file = file.to_str().unwrap();
    let copies = (0..60).map(|n| exported.replace("alice@", &format!("copy{n}@")));
    std::fs::write(file, copies.collect::<String>()).unwrap();
    nodes.node("b").run(&["import", "--quiet", file]).unwrap();
    for name in ["a", "b", "c"] {
        nodes.until("all are there", |nodes| {
            let listed = nodes.run(name, &["user", "list"]).unwrap();
            listed.matches("copy").count() == 60
        });
    }
    let homes: Vec<String> = (0..60).map(|n| format!("copy{n}@localhost")).collect();
    let homes = homes.iter().map(|jid| nodes.home_of(jid));
    let homes: std::collections::BTreeSet<String> = homes.collect();
    assert_eq!(homes.len(), 3, "each home has some");
    let again = nodes
        .node("c")
        .run(&["import", "--quiet", file])
        .unwrap_err();
    assert!(again.contains("copy0@localhost already"), "{again}");
    for name in ["a", "b", "c"] {
        assert_eq!(nodes.node(name).run(&["queue", "list"]).unwrap(), "");
        let tried = nodes.node(name).run(&["queue", "retry"]).unwrap();
        assert_eq!(tried, "0 tried again\n");
        let traced = nodes.node(name).run(&["trace", "0000000000000001"]);
        assert!(
            traced.is_err_and(|why| why.contains("no log has")),
            "{name}"
        );
    }
}

/// Goal: what is about an account whose home is stopped ends with a word and not in silence; once
/// another node has taken over it is done.
#[test]
fn a_home_that_hangs_is_named() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let user = nodes.add_at("c", "carol");
    let jid = format!("{user}@localhost");
    let client = deaf(&mut nodes, &user, "c");
    nodes.node("c").signal(Signal::STOP).unwrap();
    // It is asked, or its lease is over before.
    if let Err(why) = nodes.node("a").run(&["user", "lock", &jid]) {
        assert!(why.contains("node c did not answer"), "{why}");
    }
    nodes.until("another node is the home", |nodes| {
        nodes.run("a", &["user", "lock", &jid]).is_ok()
    });
    drop(client);
    assert_ne!(nodes.home_of(&jid), "c");
    nodes.node("c").signal(Signal::CONT).unwrap();
    nodes.node("b").run(&["user", "unlock", &jid]).unwrap();
}
