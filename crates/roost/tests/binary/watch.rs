//! Watching a server as an operator does: metrics, `sar`, `top`, alarms.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::place::{Place, program};

/// How long a state may take to be seen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that ends with its test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Asks again until the answer has the text in it.
fn until(text: &str, ask: impl Fn() -> String) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = ask();
        if answer.contains(text) {
            return answer;
        }
        assert!(Instant::now() < deadline, "no {text:?} in {answer}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn metrics_tell_of_the_server_and_its_process() {
    let mut place = Place::new();
    place.set("server.shards", "1").add(&["alice"]);
    let server = place.serve();
    let _alice = Client::online(server.plain, "alice", "a");
    let page = || {
        let (status, page) = server.page("/metrics");
        assert_eq!(status, 200);
        page
    };
    let page = until("roost_sessions{shard=\"0\"} 1\n", page);
    for expected in [
        "# TYPE roost_logins_total counter\nroost_logins_total{shard=\"0\"} 1\n",
        "roost_journal_commit_seconds_bucket{le=\"+Inf\"}",
        "\nprocess_resident_memory_bytes ",
        "\nprocess_open_fds ",
        "\nroost_alarm{name=\"changes\"} 0\n",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    server.stop();
}

#[test]
fn what_sar_records_it_prints_again() {
    let place = Place::new();
    place.add(&["alice"]);
    let server = place.serve();
    let _alice = Client::online(server.plain, "alice", "a");
    let file = place.path("night.sar");
    let file = file.to_str().expect("a path");
    let shown = place.must(&["sar", "--interval", "0.2", "--count", "3", "--record", file]);
    let lines: Vec<&str> = shown.lines().filter(|line| line.contains(':')).collect();
    assert_eq!(lines.len(), 3, "{shown}");
    assert_eq!(place.must(&["sar", "--replay", file]), shown);
    let other = place.must(&["sar", "--replay", file, "--columns", "sess", "--count", "1"]);
    let words: Vec<&str> = other.split_whitespace().collect();
    assert_eq!(
        (words[0], words[2], words[4]),
        ("users", "sess", "1"),
        "{other}"
    );
    let averages = place.must(&["sar", "--replay", file, "--averages"]);
    assert!(averages.contains("100s"), "{averages}");
    let again = place.run(&["sar", "--record", file]);
    assert_eq!(again.code, 1, "{}", again.err);
    server.stop();
}

#[test]
fn sar_says_what_is_wrong_with_what_it_was_given() {
    let place = Place::new();
    let config = place.config();
    let config = config.to_str().expect("a path");
    let cases: [(&[&str], i32, &str); 7] = [
        (&["sar"], 1, "no server runs on"),
        (&["sar", "--columns", "nope"], 64, "there is no column"),
        (&["sar", "--interval", "0"], 64, "0.1 to 3600"),
        (&["sar", "--replay", config], 65, "not a recording"),
        (&["sar", "--replay", "/nowhere/x"], 1, "/nowhere/x"),
        (&["top"], 1, "no server runs on"),
        (&["alarm", "list"], 1, "no server runs on"),
    ];
    for (arguments, code, said) in cases {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, code, "{arguments:?}: {}", outcome.err);
        assert!(outcome.err.contains(said), "{arguments:?}: {}", outcome.err);
    }
    assert!(place.must(&["sar", "--explain"]).contains("whose it is"));
}

#[test]
fn sar_goes_on_when_the_server_was_started_again() {
    let place = Place::new();
    let first = place.serve();
    let mut command = program(&["sar", "--interval", "0.2", "--columns", "conn", "--config"]);
    command.arg(place.config()).stdout(Stdio::piped());
    let mut sar = Guard(command.spawn().expect("sar"));
    let mut lines = BufReader::new(sar.0.stdout.take().expect("its output")).lines();
    let mut wait_for = |what: &str| {
        let found = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains(what)));
        assert!(found.is_some(), "sar ended without {what:?}");
    };
    wait_for(" 0");
    first.kill();
    wait_for("the server does not answer");
    let second = place.serve();
    wait_for("the server was started again");
    wait_for(" 0");
    second.stop();
}

#[test]
fn top_prints_one_screen_and_wants_a_terminal_for_more() {
    let place = Place::new();
    place.add(&["alice"]);
    let server = place.serve();
    let _alice = Client::online(server.plain, "alice", "a");
    let screen = until("sessions 1 ", || place.must(&["top", "--once"]));
    for expected in [
        "connections 1 of ",
        "\njournal ",
        "\nshard ",
        "longest mailboxes",
    ] {
        assert!(screen.contains(expected), "{expected}: {screen}");
    }
    assert!(!screen.contains('\x1b'), "{screen:?}");
    let live = place.run(&["top"]);
    assert_eq!(live.code, 1);
    assert!(live.err.contains("there is no terminal"), "{}", live.err);
    server.stop();
}

#[test]
fn alarms_are_raised_shown_acknowledged_and_cleared() {
    let mut place = Place::new();
    place.set("limits.connections_max", "2").add(&["alice"]);
    let mut server = place.serve();
    assert!(!place.must(&["alarm", "list"]).contains("connections"));
    let unknown = place.run(&["alarm", "ack", "nope"]);
    assert_eq!(unknown.code, 1);
    assert!(
        unknown
            .err
            .contains("there are backlog, certificate, changes"),
        "{}",
        unknown.err
    );
    let early = place.run(&["alarm", "ack", "connections"]);
    assert!(early.err.contains("is not raised"), "{}", early.err);
    let one = Client::online(server.plain, "alice", "a");
    let two = Client::online(server.plain, "alice", "b");
    server.wait_for("alarm raised: 2 connections of at most 2");
    let listed = place.must(&["alarm", "list"]);
    assert!(listed.contains("connections: 2 connections of"), "{listed}");
    place.must(&["alarm", "ack", "connections"]);
    let status = place.must(&["status"]);
    assert!(status.contains("UTC (acknowledged)"), "{status}");
    let json = place.must(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let alarms = status["alarms"].as_array().expect("alarms");
    assert!(alarms.iter().any(|alarm| alarm["name"] == "connections"));
    drop((one, two));
    server.wait_for("alarm cleared");
    assert!(!place.must(&["alarm", "list"]).contains("connections"));
    server.stop();
}
