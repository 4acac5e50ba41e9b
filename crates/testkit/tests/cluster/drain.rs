//! Nodes that are emptied, and stopped in order, under people who chat.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use testkit::roost::Settings;

use crate::nodes::{Nodes, STOPS_WITHIN};
use crate::person::Person;

fn served(nodes: &Nodes, name: &str) -> f64 {
    nodes.figure(name, "roost_cluster_homes_served")
}

/// Goal: a drained node is not ready at once, has no homes when the command returns, has asked
/// those who were there to go, and gets nothing back until that is undone. What was said meanwhile
/// arrives, once and in order.
#[test]
fn a_node_is_drained() {
    let mut nodes = Nodes::start(&["a", "b", "c"]);
    let homes = nodes.add_at_different_homes("alice", "bob");
    let (drained, other, bobs) = (homes.one.clone(), homes.other.clone(), &*homes.other_name);
    // Alice's home moves, her socket does not; bob's socket is where it is drained.
    let mut alice = Person::online(&mut nodes, "alice", &other);
    let mut bob = Person::online(&mut nodes, bobs, &drained);
    let draining = ["drain", "--within", "8s"];
    let command = nodes.node(&drained).begin_to_run(&draining).unwrap();
    nodes.until("not ready", |nodes| {
        nodes.page(&drained, "/readyz") == Some((503, "draining".to_owned()))
    });
    for n in 0..30 {
        alice.say(bobs, &format!("{n}"));
        bob.say("alice", &format!("{n}"));
    }
    alice.await_accepted();
    nodes.until("homes are gone", |nodes| {
        let others = nodes.names().filter(|name| **name != drained);
        let others: f64 = others.map(|name| served(nodes, name)).sum();
        served(nodes, &drained) == 0.0 && others == 4.0
    });
    alice.has_stayed(&nodes.log_of_all());
    bob.expect_end("system-shutdown");
    bob.resume(&mut nodes, &other);
    bob.expect_bodies("alice", (0..30).map(|n| n.to_string()));
    alice.expect_bodies(bobs, (0..30).map(|n| n.to_string()));
    let output = command.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!("node {drained} is empty")), "{said}");
    let status = nodes.node(&other).run(&["cluster", "status"]).unwrap();
    assert!(status.contains("draining"), "{status}");
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(served(&nodes, &drained), 0.0, "nothing comes back");
    // Others drain too, until nobody is left who takes homes.
    let third = nodes.other(&[&drained, &other]);
    nodes
        .node(&third)
        .run(&["drain", "--within", "2s"])
        .unwrap();
    let last = nodes.node(&other).run(&["drain", "--within", "1s"]);
    let last = last.unwrap_err();
    assert!(
        last.contains("no other node lives and takes homes"),
        "{last}"
    );
    assert_eq!(served(&nodes, &other), 4.0);
    for name in [&drained, &third, &other] {
        nodes.node(name).run(&["drain", "--undo"]).unwrap();
    }
    nodes.until("homes come back", |nodes| {
        served(nodes, &drained) > 0.0 && nodes.page(&drained, "/readyz").unwrap().0 == 200
    });
    alice.say(bobs, "and on");
    alice.await_accepted();
    bob.expect_bodies("alice", ["and on".to_owned()]);
}

/// Goal: one node after the other is restarted while people chat: nothing is lost, doubled or out
/// of order, homes go before the process does and not when a lease lapses, and nobody whose socket
/// is at another node has to go there again for more than that.
#[test]
#[allow(clippy::print_stdout)] // Says how long streams had no home.
fn nodes_are_restarted_one_after_the_other() {
    let names = ["a", "b", "c"];
    // A machine that is busy with much else takes its time.
    let patient = ("server.drain_timeout".to_owned(), "\"60s\"".to_owned());
    let mut nodes = Nodes::prepare_with(&names, |_| Settings::from([patient.clone()]));
    nodes.create();
    names.iter().for_each(|name| nodes.begin(name));
    nodes.await_homes();
    let mut people = Vec::new();
    for home in names {
        let name = nodes.add_at(home, &format!("from-{home}-"));
        people.push(Person::online(&mut nodes, &name, home));
    }
    let names_of: Vec<String> = people.iter().map(|one| one.name().to_owned()).collect();
    let mut said = 0;
    let mut longest = Duration::ZERO;
    for stopped in names {
        let refuge = nodes.other(&[&stopped.to_owned()]);
        let there = names.iter().position(|name| *name == stopped).unwrap();
        // Its client goes first, as after a drain.
        people[there].resume(&mut nodes, &refuge);
        let from = said;
        nodes.node(stopped).begin_to_stop().unwrap();
        let began = Instant::now();
        while said < from + 20 || !nodes.log(stopped).contains("stopped") {
            assert!(began.elapsed() < STOPS_WITHIN, "{}", nodes.log(stopped));
            longest = longest.max(say_to_all(&mut people, &names_of, said));
            said += 1;
        }
        let log = nodes.log(stopped);
        assert!(log.contains("homes went to other nodes"), "{log}");
        // It has ended, and is waited for.
        nodes.node(stopped).kill().unwrap();
        for _ in 0..5 {
            longest = longest.max(say_to_all(&mut people, &names_of, said));
            said += 1;
        }
        hear_all(&mut people, &names_of, from..said);
        nodes.restart(stopped);
        people[there].resume(&mut nodes, stopped);
        nodes.until("it has homes again", |nodes| served(nodes, stopped) > 0.0);
    }
    let gaps = gaps(&nodes.logs());
    println!("{said} messages of each; the longest was accepted after {longest:?}");
    println!("streams had no home for, in ms: {gaps:?}");
    assert!(gaps.values().flatten().count() >= 3, "{gaps:?}");
}

/// Goal: a node that has no time to give its homes away, or whose engine says nothing for longer
/// than it waits, ends all the same, and says what stays of it; nothing that was accepted is lost.
#[test]
fn a_node_stops_in_time_whatever_keeps_its_homes() {
    for is_silent in [false, true] {
        let none = ("server.drain_timeout".to_owned(), "\"0s\"".to_owned());
        let mut nodes = Nodes::prepare_with(&["a", "b"], |_| Settings::from([none.clone()]));
        nodes.create();
        ["a", "b"].iter().for_each(|name| nodes.begin(name));
        nodes.await_homes();
        let homes = nodes.add_at_different_homes("alice", "bob");
        let (stopped, stays, bobs) = (homes.one, homes.other, homes.other_name);
        // Her home ends, her socket stays.
        let mut alice = Person::online(&mut nodes, "alice", &stays);
        let mut bob = Person::online(&mut nodes, &bobs, &stays);
        alice.say(&bobs, "before");
        alice.await_accepted();
        if is_silent {
            (0..3).for_each(|one| nodes.engine().signal(one, Signal::STOP).unwrap());
        }
        nodes.node(&stopped).begin_to_stop().unwrap();
        nodes.until("it ends", |nodes| nodes.log(&stopped).contains("stopped"));
        if is_silent {
            (0..3).for_each(|one| nodes.engine().signal(one, Signal::CONT).unwrap());
        }
        let log = nodes.log(&stopped);
        assert!(
            log.contains("homes stay until the lease of this node ends"),
            "{log}"
        );
        let silence = "the engine does not answer: others wait until the lease lapses";
        assert_eq!(log.contains(silence), is_silent, "{log}");
        // It has ended, and is waited for.
        nodes.node(&stopped).kill().unwrap();
        nodes.until("the other is home of all", |nodes| {
            served(nodes, &stays) == 4.0
        });
        alice.say(&bobs, "after");
        alice.await_accepted();
        bob.expect_bodies("alice", ["before", "after"].map(str::to_owned));
    }
}

/// Each says something to the next, and it is accepted. How long the longest took.
pub(crate) fn say_to_all(people: &mut [Person], names: &[String], number: u32) -> Duration {
    let mut longest = Duration::ZERO;
    for (at, person) in people.iter_mut().enumerate() {
        let begun = Instant::now();
        person.say(&names[(at + 1) % names.len()], &number.to_string());
        person.await_accepted();
        longest = longest.max(begun.elapsed());
    }
    longest
}

pub(crate) fn hear_all(people: &mut [Person], names: &[String], numbers: std::ops::Range<u32>) {
    for (at, person) in people.iter_mut().enumerate() {
        let from = &names[(at + names.len() - 1) % names.len()];
        person.expect_bodies(from, numbers.clone().map(|n| n.to_string()));
    }
}

/// By stream, for how many milliseconds no node served it when its home moved, as logs say.
fn gaps(logs: &[String]) -> BTreeMap<u64, Vec<u64>> {
    let mut events = Vec::new();
    for line in logs.iter().flat_map(|log| log.lines()) {
        let is_end = line.contains("a stream is not at home here any more");
        if !is_end && !line.contains("this node is the home of a stream") {
            continue;
        }
        let stream = line.split("stream=").nth(1).and_then(number);
        if let (Some(at), Some(stream)) = (millis(line), stream) {
            events.push((at, stream, is_end));
        }
    }
    events.sort_unstable();
    let (mut ended, mut gaps) = (BTreeMap::new(), BTreeMap::<u64, Vec<u64>>::new());
    for (at, stream, is_end) in events {
        match is_end {
            true => drop(ended.insert(stream, at)),
            false => {
                if let Some(since) = ended.remove(&stream) {
                    gaps.entry(stream).or_default().push(at - since);
                }
            }
        }
    }
    gaps
}

fn number(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// Milliseconds of the day of a line that begins with `2026-01-02T03:04:05.678`.
fn millis(line: &str) -> Option<u64> {
    let time = line.split('T').nth(1)?;
    let mut parts = time.split([':', '.']);
    let mut next = || parts.next().and_then(number);
    let (hours, minutes, seconds) = (next()?, next()?, next()?);
    let fraction = time.split('.').nth(1)?;
    let fraction: u64 = fraction.get(..3)?.parse().ok()?;
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000 + fraction)
}
