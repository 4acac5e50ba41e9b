//! Exit codes and what is said with them: wrong arguments, wrong configurations, failed starts.

use std::fs::File;
use std::net::TcpListener;

use crate::place::{Place, Server, program, run};

#[test]
fn a_wrong_command_line_exits_with_64_and_says_what_is_wrong() {
    for (arguments, expected) in [
        (&["fly"][..], "unrecognized subcommand 'fly'"),
        (&[], "Usage:"),
        (&["serve", "--prot", "1"], "unexpected argument '--prot'"),
        (&["user", "add"], "<JID>"),
        (
            &[
                "user",
                "add",
                "a@b",
                "--password",
                "x",
                "--password-file",
                "y",
            ],
            "cannot be used with",
        ),
        (
            &[
                "provision",
                "--domain",
                "d",
                "--users",
                "0",
                "--password",
                "x",
            ],
            "0 is not in 1..",
        ),
        (&["provision", "--users", "5"], "--domain"),
        (&["backup"], "<FILE>"),
        (&["status", "--config"], "a value is required"),
    ] {
        let outcome = run(program(arguments), "");
        assert_eq!(outcome.code, 64, "{arguments:?}: {}", outcome.err);
        assert!(
            outcome.err.contains(expected),
            "{arguments:?}: {}",
            outcome.err
        );
    }
    let help = run(program(&["--help"]), "");
    assert_eq!(help.code, 0);
    assert!(help.out.contains("78  wrong configuration"), "{}", help.out);
}

#[test]
fn a_wrong_configuration_exits_with_78_and_names_every_mistake() {
    let mut place = Place::new();
    place.set("c2s.listn", "[]").set("limits.window_max", "0");
    for arguments in [&["serve"][..], &["status"], &["user", "list"]] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, 78, "{arguments:?}: {}", outcome.err);
        for expected in ["c2s.listn", "listen", "limits.window_max", "1 to 10000"] {
            let said = outcome.err.replace(['_', ','], "");
            let expected = expected.replace('_', "");
            assert!(said.contains(&expected), "{expected}: {}", outcome.err);
        }
    }
    let absent = run(program(&["check-config", "/no/such/file.toml"]), "");
    assert_eq!(absent.code, 78, "{}", absent.err);
    assert!(absent.err.contains("/no/such/file.toml"), "{}", absent.err);
}

#[test]
fn a_start_that_fails_exits_with_1_and_names_the_reason() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let list = format!("[\"{address}\"]");
    for (key, value, expected) in [
        ("c2s.listen", list.as_str(), address.as_str()),
        ("http.listen", &list, &address),
        ("tls.certificate", "\"/no/such.pem\"", "/no/such.pem"),
    ] {
        let mut place = Place::new();
        place.set(key, value);
        if key == "tls.certificate" {
            place.set("tls.key", value);
        }
        let outcome = place.serve_in_vain();
        assert_eq!(outcome.code, 1, "{key}: {}", outcome.err);
        assert!(outcome.err.contains(expected), "{key}: {}", outcome.err);
    }
}

#[test]
fn a_crash_exits_with_70() {
    let mut place = Place::new();
    place.set("debug.crash_after", "\"10ms\"");
    let server = place.serve();
    let (code, log) = server.end();
    assert_eq!(code, 70, "{log}");
    assert!(log.contains("a shard has ended: stopping"), "{log}");
}

#[test]
fn a_server_whose_output_nobody_takes_runs_all_the_same() {
    let place = Place::new();
    let mut command = place.server();
    let full = File::options().write(true).open("/dev/full");
    command.stdout(full.expect("full"));
    let server = Server::start(command);
    place.must(&["status"]);
    server.stop();
}

#[test]
fn a_server_tells_people_what_to_do_next_and_programs_in_json() {
    let place = Place::new();
    let mut server = place.serve();
    let said = server.said();
    let add = format!(
        "user add alice@localhost --config {}",
        place.config().display()
    );
    for expected in [&server.plain.to_string(), &server.tls.to_string(), &add] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let mut place = Place::new();
    place.set("log.format", "\"json\"");
    place.set("debug.crash_after", "\"1ms\"");
    let outcome = place.serve_in_vain();
    assert_eq!(outcome.out, "");
    let mut messages = Vec::new();
    for line in outcome.err.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect(line);
        messages.push(value["message"].as_str().expect("a message").to_owned());
    }
    assert!(messages.contains(&"ready".to_owned()), "{messages:?}");
}

#[test]
fn a_default_port_for_health_checks_that_is_taken_stops_no_server() {
    // If it is taken already, that is as good.
    let _taken = TcpListener::bind("127.0.0.1:5280");
    let mut place = Place::new();
    place.unset("http.listen");
    let log = place.serve().stop();
    assert!(log.contains("no health checks: set http.listen"), "{log}");
}

#[test]
fn commands_on_nothing_say_that_there_is_nothing() {
    let place = Place::new();
    for arguments in [
        &["user", "list"][..],
        &["user", "del", "a@localhost"],
        &["export"],
        &["backup", "somewhere"],
        &["verify"],
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, 1, "{arguments:?}");
        assert!(
            outcome.err.contains("there is no data in"),
            "{}",
            outcome.err
        );
    }
    let status = place.run(&["status"]);
    assert_eq!(status.code, 1);
    assert!(status.err.contains("no server runs on"), "{}", status.err);
    assert!(!place.data().exists(), "nothing was made");
}

#[test]
fn a_command_without_a_password_or_a_terminal_says_how_to_give_one() {
    let place = Place::new();
    let mut command = program(&["user", "add", "a@localhost", "--config"]);
    command.arg(place.config());
    let outcome = run(detached(command), "");
    assert_eq!(outcome.code, 64, "{}", outcome.err);
    assert!(outcome.err.contains("--password-file"), "{}", outcome.err);
}

/// Without a terminal, even if the tests have one.
fn detached(command: std::process::Command) -> std::process::Command {
    let mut setsid = std::process::Command::new("setsid");
    setsid.arg("--wait").arg(command.get_program());
    setsid.args(command.get_args());
    setsid
}
