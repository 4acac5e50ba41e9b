//! Faults on purpose: only where they are allowed, counted, and survived.

use crate::client::Client;
use crate::place::Place;

#[test]
fn faults_are_refused_unless_the_configuration_allows_them() {
    let place = Place::new();
    place.add(&["alice"]);
    let server = place.serve();
    let refused = place.run(&["chaos", "--drop-links", "10ms"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("[chaos]"), "{}", refused.err);
    assert_eq!(place.run(&["chaos"]).code, 64);
    server.stop();
    assert_eq!(place.run(&["chaos", "--drop-links", "10ms"]).code, 1);
}

#[test]
fn a_server_stands_every_fault_and_counts_it() {
    let mut place = Place::new();
    place
        .set("chaos.enabled", "true")
        .set("server.shards", "2")
        .add(&["alice", "bob"]);
    let server = place.serve();
    let _alice = Client::online(server.plain, "alice", "a");
    let said = place.must(&[
        "chaos",
        "--kill-actors=50ms",
        "--panic-shards=400ms",
        "--drop-links=50ms",
        "--stall-reads=100ms",
        "--hang-shards=400ms",
        "--delay-store=10ms",
        "--fail-commits=100ms",
        "--for=2s",
    ]);
    assert!(
        said.contains("the actor of alice@localhost is killed"),
        "{said}"
    );
    for word in ["panics", "reads nothing", "hangs"] {
        assert!(said.contains(word), "{said}");
    }

    // Nothing stays broken. Commits that were to fail, of either kind, may be the next ones.
    for user in ["carol@localhost", "chris@localhost"] {
        place.run(&["user", "add", user, "--password", "x"]);
    }
    place.must(&["user", "add", "dave@localhost", "--password", "x"]);
    let mut alice = Client::online(server.plain, "alice", "a");
    let mut bob = Client::online(server.plain, "bob", "b");
    alice.say("bob", "after the storm");
    bob.expect("after the storm</body>");
    let (status, page) = server.page("/metrics");
    assert_eq!(status, 200);
    for counter in [
        "killed", "panics", "dropped", "stalls", "hangs", "delays", "failures",
    ] {
        let counted = |line: &str| {
            line.starts_with(&format!("roost_chaos_{counter}_total{{")) && !line.ends_with(" 0")
        };
        assert!(page.lines().any(counted), "{counter}: {page}");
    }
    server.kill();
}
