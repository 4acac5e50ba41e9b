//! Upgrades to programs that do not serve: undone, and nobody's stream ends.

use std::time::Duration;

use testkit::roost::Settings;

use crate::nodes::Nodes;
use crate::person::Person;
use crate::upgrade::{chat, chat_during, settle};

/// A program that fails is refused, or undone: `touched` says which. Streams stay.
fn is_undone(nodes: &mut Nodes, (lines, says, touched): (&str, &str, bool)) {
    let mut alice = Person::online(nodes, "alice", "");
    let mut bob = Person::online(nodes, "bob", "");
    let binary = nodes.script("other-roost", lines);
    let arguments = ["upgrade", "--within", "2s", "--binary", &binary];
    let homes = nodes.homes();
    let (next, is_done, printed) = chat_during(nodes, (&mut alice, &mut bob), (0, &arguments));
    assert!(!is_done, "{printed}");
    assert!(printed.contains(says), "{printed}");
    assert_eq!(printed.starts_with("undone: "), touched, "{printed}");
    assert_eq!(
        printed.starts_with("not begun, nothing was touched: "),
        !touched,
        "{printed}"
    );
    let next = chat((&mut alice, &mut bob), next, || true);
    settle(nodes, (&mut alice, &mut bob), 0..next);
    assert_eq!(nodes.homes() == homes, !touched);
    nodes.node("").stop().unwrap();
}

/// Goal: what is no program, fails at once, is no Roost, hangs, or is too old for this, is refused
/// before anything is touched.
#[test]
fn what_does_not_start_touches_nothing() {
    for (lines, says) in [
        ("exit 1", "is no Roost"),
        ("echo something else", "is no Roost"),
        ("sleep 60", "does not say its version within 5s"),
        (
            "[ $1 = --version ] && echo roost 9 || exit 64",
            "it ended: exit status: 64",
        ),
    ] {
        let mut nodes = Nodes::split(&["alice", "bob"]);
        is_undone(&mut nodes, (lines, says, false));
    }
    let nodes = Nodes::split(&[]);
    let refused = nodes
        .run(&["upgrade", "--binary", "/nonexistent"])
        .unwrap_err();
    assert!(refused.contains("/nonexistent"), "{refused}");
}

/// Goal: a program that takes over and then hangs is undone once the time for it is over.
#[test]
fn what_hangs_with_the_store_is_undone() {
    let mut nodes = Nodes::split(&["alice", "bob"]);
    // It says that it is there, as a home does, and then nothing more.
    let lines = "[ $1 = --version ] && echo roost 9 && exit\n\
                 echo '{\"report\":\"here\",\"version\":1,\"program\":\"9\",\"format\":4}' >&0\n\
                 sleep 60";
    is_undone(&mut nodes, (lines, "does not serve within 2s", true));
}

/// Goal: a program that serves and dies a moment later is undone: what it accepted in between is
/// there.
#[test]
fn what_dies_after_taking_over_is_undone() {
    let mut nodes = Nodes::split(&["alice", "bob"]);
    let program = nodes.program();
    // The real one, which is killed when it has served for a moment. A shell gives what it starts
    // in the background another standard input.
    let socket = nodes.node("").data().join("split/home-1/control.sock");
    let lines = format!(
        "[ $1 = --version ] && echo roost 9 && exit\n\
         exec 3<&0; {} \"$@\" <&3 & home=$!\n\
         until [ -S {} ]; do sleep 0.05; done; sleep 0.7; kill -9 $home; wait $home",
        program.display(),
        socket.display()
    );
    is_undone(&mut nodes, (&lines, "it served, and then", true));
}

/// Goal: without two processes there is nothing to upgrade, and the command says what to do.
#[test]
fn a_server_that_is_one_process_is_not_upgraded() {
    let nodes = Nodes::split_with(
        &[],
        Settings::from([("server.split".to_owned(), "false".to_owned())]),
    );
    let refused = nodes.run(&["upgrade"]).unwrap_err();
    assert!(refused.contains("server.split = true"), "{refused}");
}

/// Goal: a home that dies as soon as it serves, again and again, ends no stream as long as one
/// serves within half a minute.
#[test]
fn a_home_that_dies_again_and_again_is_brought_back() {
    let mut nodes = Nodes::split(&["alice", "bob"]);
    let mut alice = Person::online(&mut nodes, "alice", "");
    let mut bob = Person::online(&mut nodes, "bob", "");
    let mut next = 0;
    for _ in 0..4 {
        nodes.until("a home", |nodes| nodes.homes().len() == 1);
        nodes.kill_home();
        next = chat((&mut alice, &mut bob), next, || true);
        std::thread::sleep(Duration::from_millis(200));
    }
    settle(&nodes, (&mut alice, &mut bob), 0..next);
    nodes.node("").stop().unwrap();
}
