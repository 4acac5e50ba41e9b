//! Nodes of two versions in one cluster. The previous version is the ordinary program; the next one
//! is the same program with one format level more (`docs/versions.md`), in which a record, a value
//! of the store, a packet and the messages of streams have another form.

use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::roost::Settings;

use crate::drain::{hear_all, say_to_all};
use crate::nodes::{Nodes, STOPS_WITHIN};
use crate::person::Person;

const NAMES: [&str; 3] = ["a", "b", "c"];
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
/// What the previous version says of the level of the next one.
const UPGRADE: &str = "this program knows up to 3: upgrade it";

/// People on all nodes, each of whom talks to the next.
struct Talk {
    people: Vec<Person>,
    names: Vec<String>,
    said: u32,
    heard: u32,
}

impl Talk {
    /// Somebody at each of these nodes, where their accounts are at home.
    fn begin(nodes: &mut Nodes, at: &[&str]) -> Talk {
        let mut people = Vec::new();
        for home in at {
            let name = nodes.add_at(home, &format!("from-{home}-"));
            people.push(Person::online(nodes, &name, home));
        }
        let names = people.iter().map(|one| one.name().to_owned()).collect();
        Talk {
            people,
            names,
            said: 0,
            heard: 0,
        }
    }

    /// Each says something to the next, and it is accepted.
    fn go_on(&mut self) {
        say_to_all(&mut self.people, &self.names, self.said);
        self.said += 1;
    }

    /// Everything came, once and in order.
    fn hear(&mut self) {
        hear_all(&mut self.people, &self.names, self.heard..self.said);
        self.heard = self.said;
    }
}

fn prepare() -> Nodes {
    let patient = ("server.drain_timeout".to_owned(), "\"60s\"".to_owned());
    let mut nodes = Nodes::prepare_with(&NAMES, |_| Settings::from([patient.clone()]));
    nodes.create();
    nodes
}

/// Restarts a node as another version, in order, while people talk.
fn change(nodes: &mut Nodes, talk: &mut Talk, name: &str, is_next: bool) {
    let there = NAMES.iter().position(|one| *one == name).unwrap();
    let refuge = nodes.other(&[&name.to_owned()]);
    // Its client goes first, as after a drain.
    talk.people[there].resume(nodes, &refuge);
    let before = nodes.log_of(name).len();
    nodes.node(name).begin_to_stop().unwrap();
    let began = Instant::now();
    while !nodes.log_of(name)[before..].contains("stopped") {
        assert!(began.elapsed() < STOPS_WITHIN, "{}", nodes.log_of(name));
        talk.go_on();
    }
    // It has ended, and is waited for.
    nodes.node(name).kill().unwrap();
    talk.go_on();
    nodes.node(name).play_next_version(is_next);
    nodes.restart(name);
    talk.people[there].resume(nodes, name);
    (0..3).for_each(|_| talk.go_on());
    talk.hear();
}

/// Waits until `roost level` says this of a node, as its program or another node's sees it.
fn until_level(nodes: &mut Nodes, at: &str, says: &str) {
    let started = Instant::now();
    loop {
        let said = nodes.node(at).run_alike(&["level"]).unwrap();
        if said.contains(says) {
            return;
        }
        assert!(started.elapsed() < PATIENCE, "{said}");
        thread::sleep(PAUSE);
    }
}

/// Goal: three nodes are upgraded one by one while people talk, and rolled back: what either
/// version writes the other one reads, on the wire, in the streams and in its own store. Nothing is
/// written that the previous version does not know before an operator raises the level, which is
/// refused while a node does not know it. After that it is written, and a node of the previous
/// version does not start, nor does its program open the store: both say *upgrade*.
#[test]
fn a_cluster_is_upgraded_rolled_back_and_raised() {
    let mut nodes = prepare();
    NAMES.iter().for_each(|name| nodes.begin(name));
    nodes.await_homes();
    let mut talk = Talk::begin(&mut nodes, &NAMES);
    for name in NAMES {
        change(&mut nodes, &mut talk, name, true);
        until_level(
            &mut nodes,
            "a",
            &format!("node {name} (alive) knows up to 4"),
        );
    }
    for name in ["b", "a", "c"] {
        change(&mut nodes, &mut talk, name, false);
        until_level(
            &mut nodes,
            "a",
            &format!("node {name} (alive) knows up to 3"),
        );
        if name == "b" {
            // Two know the level, and one does not.
            let refused = nodes
                .node("a")
                .run_alike(&["level", "--raise"])
                .unwrap_err();
            assert!(refused.contains("the format level stays at 3"), "{refused}");
            assert!(refused.contains("node b knows format levels up to 3: upgrade it first"));
        }
    }
    for name in NAMES {
        change(&mut nodes, &mut talk, name, true);
    }
    until_level(
        &mut nodes,
        "a",
        "format level 3; this program knows up to 4",
    );
    let raised = nodes.node("a").run_alike(&["level", "--raise"]).unwrap();
    assert!(
        raised.contains("format level 4, and no longer 3"),
        "{raised}"
    );
    until_level(&mut nodes, "b", "format level 4, the newest");
    (0..20).for_each(|_| talk.go_on());
    talk.hear();
    // A restart at the new level, by the version that knows it.
    change(&mut nodes, &mut talk, "b", true);
    for log in nodes.logs() {
        assert!(!log.contains("cannot be read"), "{log}");
        assert!(
            !log.contains("copies differ") && !log.contains("another's differ"),
            "{log}"
        );
    }
    talk.people[2].resume(&mut nodes, "a");
    nodes.node("c").stop().unwrap();
    nodes.node("c").play_next_version(false);
    let refused = nodes.refused("c", UPGRADE);
    assert!(
        refused.contains("the deployment has format level 4"),
        "{refused}"
    );
    let refused = nodes.run("c", &["verify"]).unwrap_err();
    assert!(refused.contains("schema 6"), "{refused}");
    assert!(refused.contains("upgrade the program"), "{refused}");
    // The store is good, and says so to whoever knows it.
    nodes.node("c").play_next_version(true);
    let verified = nodes.node("c").run_alike(&["verify"]);
    assert!(verified.is_ok(), "{verified:?}");
    talk.go_on();
    talk.hear();
}

/// Goal: an operator does not have to wait for a node that is gone, and says which. When it comes
/// back, it reads no message that it does not know, says *upgrade* and ends by itself; nobody at
/// the other nodes notices. Upgraded, it goes on with the store that it has.
#[test]
fn a_node_that_missed_the_raise_says_upgrade_and_ends() {
    let mut nodes = prepare();
    for name in NAMES {
        nodes.begin(name);
    }
    nodes.await_homes();
    let mut talk = Talk::begin(&mut nodes, &["a", "b"]);
    for name in ["a", "b"] {
        change(&mut nodes, &mut talk, name, true);
    }
    nodes.node("c").signal(Signal::STOP).unwrap();
    let gone = "node c knows format levels up to 3 and does not live";
    let started = Instant::now();
    loop {
        let refused = nodes.node("a").run_alike(&["level", "--raise"]);
        let refused = refused.unwrap_err();
        if refused.contains(gone) {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{refused}");
    }
    let raise = ["level", "--raise", "--without", "c"];
    let raised = nodes.node("a").run_alike(&raise).unwrap();
    assert!(raised.contains("format level 4"), "{raised}");
    until_level(&mut nodes, "b", "format level 4, the newest");
    (0..10).for_each(|_| talk.go_on());
    talk.hear();
    let before = nodes.log_of("c").len();
    nodes.node("c").signal(Signal::CONT).unwrap();
    let started = Instant::now();
    let status = loop {
        talk.go_on();
        if let Some(status) = nodes.node("c").has_ended().unwrap() {
            break status;
        }
        assert!(started.elapsed() < PATIENCE, "{}", nodes.log("c"));
    };
    assert_eq!(status.code(), Some(1), "{}", nodes.log("c"));
    let said = nodes.log_of("c")[before..].to_owned();
    assert!(
        said.contains(&format!("the deployment has format level 4, {UPGRADE}")),
        "{said}"
    );
    // Nothing of that level was applied to its store.
    let verified = nodes.run("c", &["verify"]);
    assert!(verified.is_ok(), "{verified:?}");
    talk.hear();
    nodes.node("c").play_next_version(true);
    nodes.restart("c");
    nodes.until("it has homes again", |nodes| {
        nodes.figure("c", "roost_cluster_homes_served") > 0.0
    });
    talk.go_on();
    talk.hear();
}
