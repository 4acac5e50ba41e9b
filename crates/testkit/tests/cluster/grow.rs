//! A single server's data is taken into a cluster.

use std::thread;
use std::time::Duration;

use testkit::roost::{Account, Roost, Settings};

use crate::nodes::{Nodes, PASSWORD};
use crate::person::Person;

/// The lines of an export, without what changes while clients acknowledge what they have.
fn sorted(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.contains("\"room_members\""));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    lines
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
        within += Duration::from_millis(40);
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
