//! Every command on a running server and on a stopped one.

use std::fs;

use crate::client::Client;
use crate::place::{Place, Server, program, run};

/// Runs the same commands on a server that runs, and on none.
fn both(test: impl Fn(&Place, Option<&Server>)) {
    let place = Place::new();
    place.add(&["first"]);
    test(&place, None);
    let place = Place::new();
    let server = place.serve();
    place.add(&["first"]);
    test(&place, Some(&server));
    server.stop();
}

/// Whether a user may log in, on the server that runs or on one that is started for it.
fn logs_in(place: &Place, server: Option<&Server>, user: &str, password: &str) -> bool {
    let Some(server) = server else {
        let server = place.serve();
        let may = logs_in(place, Some(&server), user, password);
        server.stop();
        return may;
    };
    let mut client = Client::connect(server.plain);
    client.authenticate(user, password);
    let answer = client.expect(">");
    if !answer.contains("<success") {
        assert!(answer.contains("<failure"), "{answer}");
        return false;
    }
    true
}

#[test]
fn accounts_are_made_changed_and_removed() {
    both(|place, server| {
        let alice = "alice@localhost";
        let added = place.run_with(&["user", "add", alice, "--password-file", "-"], "one\n");
        assert_eq!((added.code, added.out.trim()), (0, "added alice@localhost"));
        let again = place.run(&["user", "add", alice, "--password", "x"]);
        assert_eq!(again.code, 1);
        assert!(again.err.contains(alice), "{}", again.err);
        let mut listed: Vec<String> = Vec::new();
        listed.extend(place.must(&["user", "list"]).lines().map(str::to_owned));
        listed.sort();
        assert_eq!(listed, ["alice@localhost", "first@localhost"]);
        assert_eq!(place.must(&["user", "list", "--domain", "example.org"]), "");

        assert!(logs_in(place, server, "alice", "one"));
        assert!(!logs_in(place, server, "alice", "two"));
        let file = place.path("password");
        fs::write(&file, "two\r\nnot this\n").expect("a file");
        place.must(&[
            "user",
            "passwd",
            alice,
            "--password-file",
            file.to_str().expect("text"),
        ]);
        assert!(!logs_in(place, server, "alice", "one"));
        assert!(logs_in(place, server, "alice", "two"));
        place.must(&["user", "lock", alice]);
        assert!(!logs_in(place, server, "alice", "two"));
        place.must(&["user", "unlock", alice]);
        assert!(logs_in(place, server, "alice", "two"));
        place.must(&["user", "kick", alice]);
        place.must(&["user", "del", alice]);
        assert!(!logs_in(place, server, "alice", "two"));
        assert_eq!(place.must(&["user", "list"]), "first@localhost\n");
    });
}

#[test]
fn what_cannot_be_done_to_an_account_is_said() {
    both(|place, _| {
        for (arguments, expected) in [
            (
                &["user", "del", "nobody@localhost"][..],
                "no account nobody@localhost",
            ),
            (
                &["user", "lock", "nobody@localhost"],
                "no account nobody@localhost",
            ),
            (
                &["user", "kick", "nobody@localhost"],
                "no account nobody@localhost",
            ),
            (
                &["user", "add", "a@example.org", "--password", "x"],
                "example.org",
            ),
            (
                &["user", "add", "a b@localhost", "--password", "x"],
                "is not an address",
            ),
            (
                &["user", "passwd", "first@localhost", "--password", ""],
                "password",
            ),
            (
                &["user", "add", "b@localhost", "--password-file", "/no/file"],
                "/no/file",
            ),
            (&["import", "/no/file"], "/no/file"),
            (
                &["export", "--output", "/no/folder/file"],
                "/no/folder/file",
            ),
            (&["backup", "/no/folder/file"], "/no/folder/file"),
            (&["restore", "/no/file"], ""),
        ] {
            let outcome = place.run(arguments);
            assert_eq!(outcome.code, 1, "{arguments:?}: {}", outcome.err);
            assert!(
                outcome.err.contains(expected),
                "{arguments:?}: {}",
                outcome.err
            );
            assert!(outcome.err.starts_with("roost: "), "{}", outcome.err);
        }
        assert_eq!(place.must(&["user", "list"]), "first@localhost\n");
    });
}

#[test]
fn commands_end_the_sessions_of_a_running_server() {
    let place = Place::new();
    let server = place.serve();
    place.add(&["alice"]);
    for (arguments, expected) in [
        (
            &["user", "kick", "alice@localhost"][..],
            "<policy-violation",
        ),
        (
            &["user", "passwd", "alice@localhost", "--password", "secret"],
            "<reset",
        ),
        (&["user", "lock", "alice@localhost"], "<not-authorized"),
        (&["user", "unlock", "alice@localhost"], ""),
        (&["user", "del", "alice@localhost"], "<not-authorized"),
    ] {
        let session = match expected {
            "" => None,
            _ => Some(Client::online(server.plain, "alice", "a")),
        };
        place.must(arguments);
        if let Some(session) = session {
            let rest = session.rest();
            assert!(rest.contains(expected), "{arguments:?}: {rest}");
            assert!(rest.ends_with("</stream:stream>"), "{arguments:?}: {rest}");
        }
    }
    server.stop();
}

#[test]
fn status_tells_of_a_running_server() {
    let place = Place::new();
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let _alice = Client::online(server.plain, "alice", "a");
    let said = place.must(&["status"]);
    for expected in [
        "domains      localhost",
        "accounts     2",
        "connections  1",
        "up ",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let json = place.must(&["status", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["connections"], 1);
    assert_eq!(value["accounts"], 2);
    server.kill();
    let stopped = place.run(&["status"]);
    assert_eq!(stopped.code, 1);
    assert!(stopped.err.contains("no server runs on"), "{}", stopped.err);
}

#[test]
fn data_moves_by_export_and_import_and_by_backup_and_restore() {
    both(|place, server| {
        let provisioned = place.must(&[
            "provision",
            "--domain",
            "localhost",
            "--users",
            "20",
            "--contacts",
            "4",
            "--password",
            "ring",
            "--quiet",
        ]);
        assert!(provisioned.contains("made 20 accounts"), "{provisioned}");
        let (file, copy) = (place.path("all.jsonl"), place.path("all.backup"));
        let (file, copy) = (file.to_str().expect("text"), copy.to_str().expect("text"));
        let exported = place.must(&["export", "--output", file]);
        assert!(exported.contains("exported 21 accounts"), "{exported}");
        let mut lines: Vec<_> = fs::read_to_string(file)
            .expect("lines")
            .lines()
            .map(str::to_owned)
            .collect();
        let printed = place.must(&["export"]);
        lines.sort();
        let mut printed: Vec<_> = printed.lines().map(str::to_owned).collect();
        printed.sort();
        assert_eq!(lines, printed);
        assert_eq!(
            place.run(&["export", "--output", file]).code,
            1,
            "nothing is overwritten"
        );
        place.must(&["backup", copy]);
        assert_eq!(
            place.run(&["backup", copy]).code,
            1,
            "nothing is overwritten"
        );
        let refused = place.run(&["restore", copy]);
        assert_eq!(refused.code, 1, "a store is there: {}", refused.err);
        let runs = refused.err.contains("stop it first");
        assert_eq!(runs, server.is_some(), "{}", refused.err);

        for arguments in [["import", file], ["restore", copy]] {
            let other = Place::new();
            other.must(&arguments);
            let moved = other.must(&["export"]);
            let mut moved: Vec<_> = moved.lines().map(str::to_owned).collect();
            moved.sort();
            assert_eq!(moved, lines, "{arguments:?}");
            assert!(logs_in(&other, None, "u7", "ring"));
            let verified = other.run(&["verify"]);
            assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
        }
        let again = place.run(&["import", file]);
        assert_eq!(again.code, 1, "{}", again.err);
        assert!(again.err.contains("line 1: there is"), "{}", again.err);
        let bad = place.run_with(&["import", "-"], "{\"type\":\"account\"}\n");
        assert_eq!(bad.code, 65, "{}", bad.err);
        let verified = place.must(&["verify"]);
        assert!(verified.contains("21 accounts"), "{verified}");
        assert!(verified.contains(": good"), "{verified}");
    });
}

#[test]
fn commands_that_need_no_data_work_anywhere() {
    let place = Place::new();
    let valid = place.config();
    let checked = program(&["check-config", valid.to_str().expect("text")]);
    let checked = run(checked, "");
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.out.contains("is valid"), "{}", checked.out);
    let printed = run(program(&["config"]), "");
    let file = place.path("printed.toml");
    fs::write(&file, &printed.out).expect("written");
    let again = program(&["check-config", file.to_str().expect("text")]);
    let again = run(again, "");
    assert_eq!(again.code, 0, "{}", again.err);
    let graph = [
        "graph",
        "--users",
        "50",
        "--links",
        "3",
        "--domain",
        "localhost",
        "--output",
        "-",
    ];
    let lines = run(
        program(&[&graph[..], &["--password", "secret"]].concat()),
        "",
    );
    assert_eq!(lines.code, 0, "{}", lines.err);
    let imported = place.run_with(&["import", "-"], &lines.out);
    assert_eq!(imported.out, "imported 50 accounts\n", "{}", imported.err);
    assert!(logs_in(&place, None, "u49", "secret"));
}

#[test]
fn the_doctor_looks_at_this_machine_and_at_a_process() {
    let fit = run(program(&["doctor", "--connections", "1"]), "");
    assert_eq!(fit.code, 0, "{}{}", fit.out, fit.err);
    let unfit = run(program(&["doctor", "--connections", "90000000"]), "");
    assert_eq!(unfit.code, 1, "{}", unfit.out);
    assert!(unfit.out.contains("ulimit -n 90000256"), "{}", unfit.out);
    let pid = std::process::id().to_string();
    let other = run(
        program(&["doctor", "--connections", "1", "--pid", &pid]),
        "",
    );
    assert_eq!(other.code, 0, "{}", other.out);
    let nobody = run(program(&["doctor", "--pid", "4294967295"]), "");
    assert_eq!(nobody.code, 1);
    assert!(
        nobody.err.contains("no process 4294967295"),
        "{}",
        nobody.err
    );
}
