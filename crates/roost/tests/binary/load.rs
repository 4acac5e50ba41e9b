//! The load generator against a real server: rooms and nodes, whose copies it counts and compares.

use crate::place::{Place, program, run};

const USERS: &str = "20";

/// Plays a shipped scenario; returns what was reported.
fn flood(scenario: &str) -> String {
    let place = Place::new();
    let ring = ["--domain", "localhost", "--users", USERS, "--contacts", "0"];
    place.must(&[&["provision", "--password", "pw"], &ring[..]].concat());
    let server = place.serve();
    let at = server.plain.to_string();
    let load = ["--scenario", scenario, "--server", &at, "--quiet"];
    let short = ["--users", USERS, "--messages", "40", "--seconds", "1"];
    let words = [&["flood"], &load[..], &short[..]].concat();
    let outcome = run(program(&words), "");
    assert_eq!(outcome.code, 0, "{}{}", outcome.out, outcome.err);
    server.stop();
    outcome.out
}

/// The number in front of a word, in a line that begins with another.
fn number(report: &str, line: &str, word: &str) -> u64 {
    let mut lines = report.lines().filter(|one| one.starts_with(line));
    let last = lines.next_back().expect("the line");
    let (before, _) = last.split_once(word).expect("the word");
    let digits = before.trim_end().rsplit(' ').next();
    digits.expect("a number").parse().expect("a number")
}

#[test]
fn copies_of_a_room_and_of_a_node_are_counted_and_compared() {
    for scenario in ["room", "publish"] {
        let report = flood(scenario);
        assert!(report.contains("verdict  all checks held"), "{report}");
        assert!(report.contains("entries  1 ok, 0 failed"), "{report}");
        assert!(report.contains("entries  19 ok, 0 failed"), "{report}");
        let sent = number(&report, "to all", "sent");
        let copies = number(&report, "to all", "copies");
        assert!(sent > 0 && copies == 20 * sent, "{report}");
        assert!(report.contains(" 0 lost, 1 order\n"), "{report}");
        assert!(report.contains("last copy"), "{report}");
    }
}
