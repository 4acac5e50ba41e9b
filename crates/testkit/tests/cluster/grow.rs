//! A single server grows into a cluster of three nodes with all that it has, and the cluster
//! shrinks to a single server again.

#![allow(clippy::print_stdout)] // Says how long nobody was served, and what was killed.

use std::time::{Duration, Instant};
use std::{fs, thread};

use testkit::roost::{Account, Roost, Settings};

use crate::nodes::{Nodes, PASSWORD};
use crate::person::{ARCHIVE, Person, set_aside};

const CRASH: &str = "CRASH-0123456789";
const PUBSUB: &str = "http://jabber.org/protocol/pubsub";
const GUILD: &str = "guild@conference.localhost";

/// The lines of an export, without what changes while clients acknowledge what they have.
fn sorted(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.contains("\"room_members\""));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
}

fn field(name: &str, value: &str) -> String {
    format!("<field var='{name}'><value>{value}</value></field>")
}

/// A single server with these accounts.
fn single(users: &[&str], more: &[(&str, &str)]) -> Roost {
    let mut settings = Settings::from([("auth.scram_iterations".to_owned(), "4096".to_owned())]);
    let more = more
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    settings.extend(more);
    let account = |user: &&str| Account {
        jid: format!("{user}@localhost"),
        password: PASSWORD.to_owned(),
    };
    let accounts: Vec<Account> = users.iter().map(account).collect();
    Roost::start(&settings, &accounts).unwrap()
}

/// Rosters, block lists, cards, private storage, nodes of an account and of a service.
fn furnish(alice: &mut Person, bob: &mut Person) {
    let own = [
        "<query xmlns='jabber:iq:roster'><item jid='bob@localhost' name='Bob'><group>Friends\
         </group></item></query>",
        "<block xmlns='urn:xmpp:blocking'><item jid='eve@localhost'/></block>",
        "<vCard xmlns='vcard-temp'><FN>Alice</FN></vCard>",
        "<query xmlns='jabber:iq:private'><notes xmlns='urn:notes'>one &amp; two</notes></query>",
        "<pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='urn:tune'><item id='1'>\
         <tune xmlns='urn:tune'>song</tune></item></publish></pubsub>",
    ];
    for payload in own {
        alice.ask("set", "", payload);
    }
    let service = "pubsub.localhost";
    let ask = |person: &mut Person, what: &str| {
        let payload = format!("<pubsub xmlns='{PUBSUB}'>{what}</pubsub>");
        person.ask("set", service, &payload);
    };
    ask(alice, "<create node='news'/>");
    ask(bob, "<subscribe node='news' jid='bob@localhost/phone'/>");
    for n in 0..3 {
        let entry = format!("<item id='{n}'><entry xmlns='urn:x'>{n}</entry></item>");
        ask(alice, &format!("<publish node='news'>{entry}</publish>"));
    }
}

/// A room that delivers to its members, with alice in it and erin as a member who is away.
fn make_room(alice: &mut Person) {
    alice.enter("guild");
    let form = [
        field("FORM_TYPE", "http://jabber.org/protocol/muc#roomconfig"),
        field("muc#roomconfig_persistentroom", "1"),
        field("x-roomconfig_delivertomembers", "1"),
    ];
    let owner = format!(
        "<query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' \
         type='submit'>{}</x></query>",
        form.concat()
    );
    alice.ask("set", GUILD, &owner);
    let member = "<query xmlns='http://jabber.org/protocol/muc#admin'>\
                  <item jid='erin@localhost' affiliation='member'/></query>";
    alice.ask("set", GUILD, member);
    let said = ["guild 0", "guild 1", "guild 2"].map(str::to_owned);
    for body in &said {
        alice.say_in("guild", body);
    }
    alice.await_accepted();
    alice.expect_bodies("guild", said);
}

/// Stops the server whose log has the crashes that the test wanted.
fn stop_single(nodes: &mut Nodes) {
    if let Err(why) = nodes.node("single").stop() {
        assert!(why.contains(CRASH) || why.contains("panicked"), "{why}");
    }
}

/// Goal: everything that a single server has is there when it has become three nodes, also when the
/// one that was it is killed: accounts, rosters, archives, messages that wait, rooms and what their
/// members are owed, nodes, queues, bans; sessions are resumed across the move, at any node. From
/// the last node's backup the cluster becomes a single server again, with the same content.
#[test]
fn a_single_server_grows_to_three_nodes_and_shrinks_again() {
    let mut nodes = Nodes::prepare(&["a", "b", "c"]);
    let hook = format!("\"{CRASH}\"");
    let users = ["alice", "bob", "carol", "dave", "erin", "eve"];
    let more = [("debug.panic_hook", &*hook), ("server.shards", "1")];
    nodes.add_single("single", single(&users, &more));
    let mut alice = Person::online(&mut nodes, "alice", "single");
    let mut bob = Person::online(&mut nodes, "bob", "single");
    furnish(&mut alice, &mut bob);
    make_room(&mut alice);
    for n in 0..10 {
        alice.say("bob", &format!("to bob {n}"));
        alice.say("carol", &format!("to carol {n}"));
    }
    alice.await_accepted();
    bob.expect_bodies("alice", (0..10).map(|n| format!("to bob {n}")));
    set_aside(&mut nodes, "dave", "single", CRASH);
    alice.say("dave", "for later");
    alice.say("bob", "unread");
    alice.await_accepted();
    nodes.until("a message waits for who is set aside", |nodes| {
        let queues = nodes.run("single", &["queue", "list"]).unwrap();
        queues.contains("alice@localhost -> dave@localhost: 1 messages")
    });
    for what in ["192.0.2.0/24", "eve@localhost"] {
        nodes.run("single", &["ban", "add", what]).unwrap();
    }
    let before = sorted(&nodes.run("single", &["export"]).unwrap());
    nodes.create();

    // What the operator does.
    stop_single(&mut nodes);
    let stopped = Instant::now();
    nodes.give("single", "a");
    let grown = nodes.run("a", &["cluster", "grow"]).unwrap();
    assert!(grown.contains("the data of 6 accounts"), "{grown}");
    nodes.restart("a");
    alice.resume(&mut nodes, "a");
    println!("not served for {:?}; {grown}", stopped.elapsed());
    assert_eq!(sorted(&nodes.run("a", &["export"]).unwrap()), before);
    let stored = nodes.run("a", &["cluster", "snapshot"]).unwrap();
    assert!(stored.contains("4 of 4 stored from node a"), "{stored}");
    nodes.restart("b");
    nodes.restart("c");

    bob.resume(&mut nodes, "b");
    bob.expect_bodies("alice", ["unread".to_owned()]);
    // The first is killed once the others have all that it has.
    nodes.until("nobody lags", |nodes| {
        ["b", "c"].iter().all(|name| {
            let lines = nodes.run(name, &["export"]).unwrap();
            sorted(&lines) == before
        })
    });
    nodes.node("a").kill().unwrap();
    alice.resume(&mut nodes, "c");
    alice.say("bob", "a is dead");
    alice.await_accepted();
    bob.expect_bodies("alice", ["a is dead".to_owned()]);
    is_whole(&mut nodes, &before, (&mut alice, &mut bob));
    shrink(&mut nodes, (alice, bob));
}

/// What the single server had, at the nodes that are left.
fn is_whole(nodes: &mut Nodes, before: &[String], (alice, bob): (&mut Person, &mut Person)) {
    assert_eq!(sorted(&nodes.run("c", &["export"]).unwrap()), before);
    let mut carol = Person::online(nodes, "carol", "b");
    carol.expect_bodies("alice", (0..10).map(|n| format!("to carol {n}")));
    let mut dave = Person::online(nodes, "dave", "c");
    dave.expect_bodies("alice", ["for later".to_owned()]);
    let mut erin = Person::online(nodes, "erin", "c");
    erin.expect_bodies("guild", (0..3).map(|n| format!("guild {n}")));
    alice.say_in("guild", "still here");
    alice.await_accepted();
    alice.expect_bodies("guild", ["still here".to_owned()]);
    erin.expect_bodies("guild", ["still here".to_owned()]);
    assert_eq!(alice.archived(ARCHIVE), 23);
    assert_eq!(bob.archived(ARCHIVE), 12);
    for name in ["b", "c"] {
        nodes.until("bans are in force on each node", |nodes| {
            let bans = nodes.run(name, &["ban", "list"]).unwrap();
            bans.contains("192.0.2.0/24") && bans.contains("eve@localhost")
        });
    }
}

/// The cluster becomes a single server again.
fn shrink(nodes: &mut Nodes, (mut alice, mut bob): (Person, Person)) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("last");
    let file = file.to_str().unwrap();
    nodes.node("b").stop().unwrap();
    let early = nodes.run("b", &["backup", file]).unwrap_err();
    assert!(early.contains("other nodes run (c)"), "{early}");
    let live = folder.path().join("live");
    nodes.run("c", &["backup", live.to_str().unwrap()]).unwrap();
    alice.resume(nodes, "c");
    alice.say("bob", "the last in the cluster");
    alice.await_accepted();
    let before = sorted(&nodes.run("c", &["export"]).unwrap());
    nodes.node("c").stop().unwrap();
    // The node that was stopped before does not have the last word.
    let late = nodes.run("b", &["backup", file]).unwrap_err();
    assert!(late.contains("and this node has"), "{late}");
    let wrote = nodes.run("c", &["backup", file]).unwrap();
    assert!(wrote.contains("entries"), "{wrote}");
    let as_is = folder.path().join("as-is");
    let as_is = as_is.to_str().unwrap();
    nodes.run("b", &["backup", "--as-is", as_is]).unwrap();

    let settings = Settings::from([("auth.scram_iterations".to_owned(), "4096".to_owned())]);
    let alone = Roost::prepare(&settings, &[]).unwrap();
    alone.run(&["restore", file]).unwrap();
    let bans = nodes.node("c").data().join("bans");
    fs::copy(bans, alone.data().join("bans")).unwrap();
    assert!(alone.run(&["verify"]).unwrap().contains(": good"));
    nodes.add_single("alone", alone);
    nodes.node("alone").start_again().unwrap();
    assert_eq!(sorted(&nodes.run("alone", &["export"]).unwrap()), before);
    bob.resume(nodes, "alone");
    bob.expect_bodies("alice", ["the last in the cluster".to_owned()]);
    alice.resume(nodes, "alone");
    bob.say("alice", "alone again");
    bob.await_accepted();
    alice.expect_bodies("bob", ["alone again".to_owned()]);
    assert_eq!(alice.archived(ARCHIVE), 25);
    assert_eq!(bob.archived(ARCHIVE), 14);
    let bans = nodes.run("alone", &["ban", "list"]).unwrap();
    assert!(bans.contains("eve@localhost"), "{bans}");
    nodes.node("alone").stop().unwrap();
}

/// Goal: whatever the moment in which the take-in is killed, no node starts with half of it, no
/// server goes on alone with a store that may be in a cluster, and the same command finishes it, or
/// takes it back.
#[test]
fn a_take_in_that_is_killed_is_finished_or_taken_back() {
    let mut nodes = Nodes::prepare(&["a", "b"]);
    nodes.add_single("single", single(&["alice", "bob"], &[]));
    let mut alice = Person::online(&mut nodes, "alice", "single");
    alice.say("bob", "before");
    alice.await_accepted();
    let before = sorted(&nodes.run("single", &["export"]).unwrap());
    nodes.create();
    nodes.give("single", "a");
    let running = nodes.run("single", &["cluster", "grow"]).unwrap_err();
    assert!(running.contains("[cluster]"), "{running}");
    nodes.node("single").stop().unwrap();
    nodes.give("single", "a");
    let nothing = nodes.run("a", &["cluster", "grow", "--undo"]).unwrap_err();
    assert!(nothing.contains("nothing to take back"), "{nothing}");
    let empty = nodes.run("b", &["cluster", "grow"]).unwrap_err();
    assert!(empty.contains("there is no data"), "{empty}");

    // How long a whole one takes, and one that is taken back before it is done.
    let (mut killed, mut refused, mut undone) = (0, 0, 0);
    let mut within = Duration::from_millis(40);
    let finished = loop {
        let mut growing = nodes.node("a").begin_to_run(&["cluster", "grow"]).unwrap();
        thread::sleep(within);
        // On a slow machine each attempt takes longer, and few of them are to take minutes.
        within += (within / 5).max(Duration::from_millis(40));
        if let Some(status) = growing.try_wait().unwrap() {
            assert!(status.success());
            break true;
        }
        growing.kill().unwrap();
        growing.wait().unwrap();
        killed += 1;
        let alone = nodes.node("a").copy(&Settings::new()).unwrap();
        let alone = alone.run(&["user", "list"]);
        if let Err(why) = &alone {
            assert!(why.contains("roost cluster grow --undo"), "{why}");
            refused += 1;
        }
        match killed % 3 {
            0 => match nodes.run("a", &["cluster", "grow", "--undo"]) {
                Ok(_) => {
                    undone += 1;
                    nodes.create();
                    let alone = nodes.node("a").copy(&Settings::new()).unwrap();
                    assert_eq!(alone.run(&["user", "list"]).unwrap().lines().count(), 2);
                }
                Err(why) if why.contains("nothing to take back") => {}
                // It was killed when all was done.
                Err(why) if why.contains("the cluster has begun") => break false,
                Err(why) => panic!("{why}"),
            },
            // No node starts with half of it.
            1 if alone.is_err() => {
                if let Err(why) = nodes.node("b").start_again() {
                    let is_told = why.contains("is being taken into the cluster")
                        || why.contains("has not stored all snapshots yet");
                    assert!(is_told, "{why}");
                } else {
                    return another_cluster_began(&mut nodes);
                }
            }
            _ => {}
        }
    };
    println!(
        "killed {killed} times, {refused} of them with a store that had begun, {undone} undone"
    );
    let again = nodes.run("a", &["cluster", "grow"]).unwrap();
    assert!(
        again.contains("in the cluster already"),
        "{again} {finished}"
    );
    let undo = nodes.run("a", &["cluster", "grow", "--undo"]).unwrap_err();
    assert!(undo.contains("the cluster has begun"), "{undo}");
    let early = nodes.node("b").start_again().unwrap_err();
    assert!(
        early.contains("node a has not stored all snapshots"),
        "{early}"
    );
    // Somebody else's data does not come into a cluster that is there.
    nodes.give("single", "b");
    let other = nodes.run("b", &["cluster", "grow"]).unwrap_err();
    assert!(other.contains("belong to another cluster"), "{other}");
    let other = nodes.node("b").start_again().unwrap_err();
    assert!(other.contains("of another deployment"), "{other}");
    nodes.restart("a");
    assert_eq!(sorted(&nodes.run("a", &["export"]).unwrap()), before);
    alice.resume(&mut nodes, "a");
    let mut bob = Person::online(&mut nodes, "bob", "a");
    bob.expect_bodies("alice", ["before".to_owned()]);
    let served = nodes.node("a").stop();
    served.unwrap();
    let undo = nodes.run("a", &["cluster", "grow", "--undo"]).unwrap_err();
    assert!(undo.contains("has served its cluster"), "{undo}");
}

/// The store said whose it is, and the engine did not yet, when a node was started that should not
/// have been: its cluster is empty, and the server can go on alone.
fn another_cluster_began(nodes: &mut Nodes) {
    println!("killed before the engine knew of it");
    let other = nodes.run("a", &["cluster", "grow"]).unwrap_err();
    assert!(other.contains("belong to another cluster"), "{other}");
    assert!(other.contains("--undo"), "{other}");
    nodes.run("a", &["cluster", "grow", "--undo"]).unwrap();
    let alone = nodes.node("a").copy(&Settings::new()).unwrap();
    assert_eq!(alone.run(&["user", "list"]).unwrap().lines().count(), 2);
}
