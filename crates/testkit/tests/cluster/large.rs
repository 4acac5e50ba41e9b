//! Changes that are larger than one message of a stream: they are written in pieces, and applied
//! with the last one.

use testkit::roost::Settings;

use crate::nodes::Nodes;
use crate::person::Person;

const CONTACTS: usize = 600;
/// Of each contact's name.
const NAME_BYTES: usize = 1_000;
const BODY_BYTES: usize = 1_200_000;

/// Goal: a roster of 600 KB that is imported and messages of more than a megabyte are taken, reach
/// everybody once, and outlive the home that took them. The copies of all nodes are in order.
#[test]
fn large_changes_are_written_in_pieces() {
    let limits = [
        ("limits.stanza_bytes_max", "3_000_000"),
        ("limits.backlog_bytes_max", "8_000_000"),
    ];
    let limits = limits.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut nodes = Nodes::prepare_with(&["a", "b", "c"], |_| Settings::from(limits.clone()));
    nodes.create();
    ["a", "b", "c"].iter().for_each(|name| nodes.begin(name));
    nodes.await_homes();
    let homes = nodes.add_at_different_homes("alice", "bob");
    let (alice_at, bob_at, bobs) = (homes.one, homes.other, &*homes.other_name);
    let third = nodes.other(&[&alice_at, &bob_at]);

    let exported = nodes.node("a").run(&["export"]).unwrap();
    let of_alice = exported.lines().find(|line| line.contains("alice@"));
    let account = of_alice.unwrap().replace("alice@", "carol@");
    let contact = |n: usize| {
        let name = "n".repeat(NAME_BYTES);
        format!("{{\"jid\":\"c{n}@localhost\",\"subscription\":\"both\",\"name\":\"{name}\"}}")
    };
    let items: Vec<String> = (0..CONTACTS).map(contact).collect();
    let items = items.join(",");
    let roster = format!("{{\"type\":\"roster\",\"jid\":\"carol@localhost\",\"items\":[{items}]}}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("carol.jsonl");
    std::fs::write(&file, format!("{account}\n{roster}\n")).unwrap();
    let file = file.to_str().unwrap();
    nodes
        .node(&third)
        .run(&["import", "--quiet", file])
        .unwrap();

    let mut alice = Person::online(&mut nodes, "alice", &third);
    let mut bob = Person::online(&mut nodes, bobs, &third);
    let large = |n: usize| format!("{n} {}", "x".repeat(BODY_BYTES));
    for n in 0..3 {
        alice.say(bobs, &large(n));
        alice.say(bobs, &format!("and {n}"));
    }
    alice.await_accepted();
    let all = (0..3).flat_map(|n| [large(n), format!("and {n}")]);
    bob.expect_bodies("alice", all);
    nodes.node(&bob_at).kill().unwrap();
    alice.say(bobs, &large(3));
    alice.await_accepted();
    bob.resume(&mut nodes, &third);
    bob.expect_bodies("alice", [large(3)]);
    let mut carol = Person::online(&mut nodes, "carol", &alice_at);
    let roster = carol.ask("get", "", "<query xmlns='jabber:iq:roster'/>");
    assert_eq!(roster.matches("<item ").count(), CONTACTS);
    nodes.restart(&bob_at);
    for name in ["a", "b", "c"] {
        let verified = nodes.run(name, &["verify"]).unwrap();
        assert!(verified.contains(": good"), "{name}: {verified}");
    }
}
