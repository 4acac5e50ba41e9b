//! What an operator has against abuse: the ban list from the command line, the pattern that
//! fail2ban finds failed logins by, and what a second server on the same data says.

use std::fs;
use std::path::Path;

use crate::client::Client;
use crate::place::{Place, run};

/// The pattern of the log for people, as `packaging/fail2ban` has it.
fn pattern() -> String {
    let filter =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/fail2ban/filter.d/roost.conf");
    let filter = fs::read_to_string(filter).expect("the filter");
    let line = filter
        .lines()
        .find_map(|line| line.strip_prefix("failregex = "));
    line.expect("a pattern").replace("<HOST>", "127.0.0.1")
}

#[test]
fn a_failed_login_is_logged_as_fail2ban_expects_it() {
    let place = Place::new();
    let mut server = place.serve();
    let mut client = Client::connect(server.plain);
    // What a client calls itself must not look like another line.
    client.authenticate("a\"address=192.0.2.1", "wrong");
    client.expect("</failure>");
    client.authenticate("nobody", "wrong");
    client.expect("</failure>");
    let line = server.wait_for("a login failed");
    assert!(line.contains(&pattern()), "{line}");
    assert!(!line.contains("192.0.2.1"), "{line}");
    server.stop();
}

#[test]
fn bans_are_kept_by_a_running_server_and_by_a_stopped_one() {
    let place = Place::new();
    place.must(&["user", "add", "alice@localhost", "--password", "secret"]);
    let ban = [
        "ban",
        "add",
        "ALICE@localhost",
        "--for",
        "1h",
        "--reason",
        "spam",
    ];
    place.must(&ban);
    let server = place.serve();
    let listed = place.must(&["ban", "list"]);
    assert!(listed.starts_with("alice@localhost until "), "{listed}");
    assert!(listed.ends_with(": spam\n"), "{listed}");
    let mut alice = Client::connect(server.plain);
    alice.authenticate("alice", "secret");
    alice.expect("<account-disabled/>");
    place.must(&["ban", "remove", "alice@localhost"]);
    Client::online(server.plain, "alice", "a");
    for (arguments, expected) in [
        (
            &["ban", "add", "nonsense"][..],
            "no address, no network and no account",
        ),
        (&["ban", "remove", "192.0.2.1"], "not on the list"),
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, 1, "{arguments:?}: {}", outcome.err);
        assert!(outcome.err.contains(expected), "{}", outcome.err);
    }
    assert_eq!(
        place
            .run(&["ban", "add", "192.0.2.1", "--for", "soon"])
            .code,
        64
    );
    assert_eq!(place.must(&["allow", "list"]), "");
    server.stop();
}

#[test]
fn a_second_server_on_the_same_data_names_the_process() {
    let mut place = Place::new();
    let server = place.serve();
    let http = format!("[\"{}\"]", server.http);
    place.set("http.listen", &http);
    let second = run(place.server(), "");
    assert_eq!(second.code, 1, "{}", second.err);
    let process = server.id().to_string();
    assert!(second.err.contains(&process), "{}", second.err);
    server.stop();
}
