//! Homes that are replaced, and homes that die, under people who chat.

use std::thread;
use std::time::{Duration, Instant};

use testkit::transport::Kind;

use crate::nodes::Nodes;
use crate::person::Person;

/// Says and is said something until `is_done`, and a little longer: each body is a number, from
/// `from` on. Gives the next.
pub(crate) fn chat(
    (alice, bob): (&mut Person, &mut Person),
    from: u32,
    mut is_done: impl FnMut() -> bool,
) -> u32 {
    let names = (alice.name().to_owned(), bob.name().to_owned());
    let mut next = from;
    let mut more = 20;
    while more > 0 {
        alice.say(&names.1, &next.to_string());
        bob.say(&names.0, &next.to_string());
        next += 1;
        thread::sleep(Duration::from_millis(10));
        more -= u32::from(is_done());
    }
    next
}

/// Everything that was said is heard, once and in order, and no stream has ended.
pub(crate) fn settle(
    nodes: &Nodes,
    (alice, bob): (&mut Person, &mut Person),
    numbers: std::ops::Range<u32>,
) {
    alice.await_accepted();
    bob.await_accepted();
    let all = || numbers.clone().map(|n| n.to_string());
    bob.expect_bodies(alice.name(), all());
    alice.expect_bodies(bob.name(), all());
    alice.has_stayed(&nodes.log());
    bob.has_stayed(&nodes.log());
}

/// Chats while a command runs; gives what it printed.
pub(crate) fn chat_during(
    nodes: &mut Nodes,
    (alice, bob): (&mut Person, &mut Person),
    (from, arguments): (u32, &[&str]),
) -> (u32, bool, String) {
    let mut child = nodes.node("").begin_to_run(arguments).unwrap();
    let is_done = || child.try_wait().unwrap().is_some();
    let next = chat((alice, bob), from, is_done);
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (next, output.status.success(), printed)
}

/// Goal: a home replaces another one five times, forwards and back between two programs, under
/// people who chat over every transport that has a stream: none ends, and everything that was said
/// is heard once and in order. Each time is told, and was short.
#[test]
fn people_chat_through_five_upgrades() {
    let users = ["tcp", "starttls", "tls", "ws"];
    let mut nodes = Nodes::split(&users);
    let mut people = Vec::new();
    for (user, kind) in users.iter().zip([
        Kind::Tcp,
        Kind::StartTls,
        Kind::DirectTls,
        Kind::WebSocketTls,
    ]) {
        people.push(Person::online_over(&mut nodes, user, ("", kind)));
    }
    let [mut tcp, mut starttls, mut tls, mut ws] =
        <[Person; 4]>::try_from(people).unwrap_or_else(|_| panic!("four people"));
    // The same program at another place is another program.
    let first = nodes.program();
    let second = first.with_file_name(format!("roost-second-{}", std::process::id()));
    std::fs::hard_link(&first, &second)
        .or_else(|_| std::fs::copy(&first, &second).map(|_| ()))
        .unwrap();
    let before = nodes.homes();
    let mut next = 0;
    for n in 0..5 {
        let binary = if n % 2 == 0 { &second } else { &first };
        let binary = binary.to_string_lossy().into_owned();
        let arguments = ["upgrade", "--json", "--binary", &binary];
        let from = next;
        let (till, is_done, printed) =
            chat_during(&mut nodes, (&mut tcp, &mut ws), (next, &arguments));
        assert!(is_done, "{printed}\n{}", nodes.node("").log_tail());
        next = chat((&mut starttls, &mut tls), from, || true);
        settle(&nodes, (&mut tcp, &mut ws), from..till);
        settle(&nodes, (&mut starttls, &mut tls), from..next);
        next = next.max(till);
        let gap = printed.split("\"without_home_ms\":").nth(1).unwrap();
        let gap: u64 = gap.split(',').next().unwrap().parse().unwrap();
        assert!(gap < 10_000, "{printed}");
    }
    std::fs::remove_file(&second).unwrap();
    assert_ne!(nodes.homes(), before);
    assert_eq!(nodes.figure("roost_edge_homes_total"), 6.0);
    assert!(nodes.figure("roost_edge_homes_outlived_total") >= 20.0);
    nodes.node("").stop().unwrap();
}

/// Goal: the home is killed under people who chat: their streams stay, nothing is lost, doubled or
/// out of order, and the edge starts another one by itself.
#[test]
fn people_chat_while_the_home_is_killed() {
    let mut nodes = Nodes::split(&["alice", "bob"]);
    let mut alice = Person::online(&mut nodes, "alice", "");
    let mut bob = Person::online_over(&mut nodes, "bob", ("", Kind::WebSocket));
    let mut next = 0;
    for _ in 0..3 {
        let from = next;
        let started = Instant::now();
        let mut is_killed = false;
        next = chat((&mut alice, &mut bob), next, || {
            if !is_killed && started.elapsed() > Duration::from_millis(300) {
                nodes.kill_home();
                is_killed = true;
            }
            started.elapsed() > Duration::from_secs(3)
        });
        settle(&nodes, (&mut alice, &mut bob), from..next);
    }
    assert_eq!(nodes.figure("roost_edge_homes_total"), 4.0);
    nodes.node("").stop().unwrap();
}

/// Goal: a client that logs in while there is no home is neither refused nor lost: it waits.
#[test]
fn who_logs_in_during_an_upgrade_waits() {
    let mut nodes = Nodes::split(&["alice", "bob"]);
    let mut child = nodes.node("").begin_to_run(&["upgrade"]).unwrap();
    let mut logins = 0;
    while child.try_wait().unwrap().is_none() {
        // It tries once.
        let person = Person::online(&mut nodes, "alice", "");
        drop(person);
        logins += 1;
    }
    assert!(child.wait().unwrap().success() && logins > 0);
    nodes.node("").stop().unwrap();
}
