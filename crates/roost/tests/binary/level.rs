//! The format level of a single server: another version of the program takes its data up, and gives
//! it back, until an operator raises the level. The next version is played by the same program
//! (`docs/versions.md`).

use crate::client::Client;
use crate::place::{Outcome, Place, Server, run};

const NEXT: (&str, &str) = ("ROOST_NEXT_VERSION", "1");

fn serve_as_next(place: &Place) -> Server {
    let mut command = place.server();
    command.env(NEXT.0, NEXT.1);
    Server::start(command)
}

fn run_as_next(place: &Place, arguments: &[&str]) -> Outcome {
    let mut command = place.command(arguments);
    command.env(NEXT.0, NEXT.1);
    run(command, "")
}

/// What waits for Bob is given to him, and something else waits for him then.
fn give_and_leave(server: &Server, waits: &str, leave: &str) {
    let mut bob = Client::online(server.plain, "bob", "phone");
    bob.expect(waits);
    bob.send("</stream:stream>");
    bob.rest();
    leave_for_bob(server, leave);
}

fn leave_for_bob(server: &Server, leave: &str) {
    let mut alice = Client::online(server.plain, "alice", "desk");
    alice.say("bob", leave);
    alice.sync();
}

/// Goal: the next version takes up the data of the previous one and changes no form of it; the
/// previous one goes on with what the next one wrote. Once the level is raised, by the running
/// server or on a stopped one, the previous one refuses the data, and says what to do.
#[test]
fn data_is_taken_up_and_given_back_until_the_level_is_raised() {
    for is_running in [true, false] {
        let place = Place::new();
        place.add(&["alice", "bob"]);
        let server = place.serve();
        leave_for_bob(&server, "first");
        server.stop();

        let server = serve_as_next(&place);
        give_and_leave(&server, "first", "second");
        let said = run_as_next(&place, &["level"]).out;
        assert!(
            said.contains("format level 3; this program knows up to 4"),
            "{said}"
        );
        server.stop();

        let server = place.serve();
        give_and_leave(&server, "second", "third");
        let said = place.must(&["level", "--raise"]);
        assert!(said.contains("format level 3 is the newest"), "{said}");
        server.stop();

        let server = serve_as_next(&place);
        if !is_running {
            server.stop();
        } else {
            let raised = run_as_next(&place, &["level", "--raise"]);
            assert!(
                raised.out.contains("format level 4, and no longer 3"),
                "{}",
                raised.err
            );
            give_and_leave(&server, "third", "fourth");
            server.stop();
        }
        if !is_running {
            let raised = run_as_next(&place, &["level", "--raise"]);
            assert!(
                raised.out.contains("format level 4, and no longer 3"),
                "{}",
                raised.err
            );
            let server = serve_as_next(&place);
            give_and_leave(&server, "third", "fourth");
            server.stop();
        }

        let refused = place.serve_in_vain();
        assert_ne!(refused.code, 0);
        let why = "the data has schema 6; this version knows up to 5: upgrade the program";
        let said = format!("{}{}", refused.out, refused.err);
        assert!(said.contains(why), "{said}");
        let verified = run_as_next(&place, &["verify"]);
        assert_eq!(verified.code, 0, "{}{}", verified.out, verified.err);
        // A backup is of the level of its store.
        let (backup, other) = (place.path("backup"), Place::new());
        let backup = backup.to_str().unwrap();
        let made = run_as_next(&place, &["backup", backup]);
        assert_eq!(made.code, 0, "{}", made.err);
        let refused = other.run(&["restore", backup]);
        assert!(
            refused.err.contains("upgrade the program"),
            "{}",
            refused.err
        );
        // Nothing was written: the version that knows it can use the same folder.
        let restored = run_as_next(&other, &["restore", backup]);
        assert_eq!(restored.code, 0, "{}", restored.err);
        let server = serve_as_next(&other);
        let mut bob = Client::online(server.plain, "bob", "phone");
        bob.expect("fourth");
        server.stop();
    }
}

/// Goal: data that a version begins is of the newest level that it knows; there is nothing to raise
/// then.
#[test]
fn new_data_begins_at_the_newest_level() {
    let place = Place::new();
    serve_as_next(&place).stop();
    let said = run_as_next(&place, &["level"]).out;
    assert!(said.contains("format level 4, the newest"), "{said}");
    let refused = place.run(&["level"]);
    assert!(
        refused.err.contains("upgrade the program"),
        "{}",
        refused.err
    );
    let wrong = run_as_next(&place, &["level", "--raise", "--without", "a"]);
    assert_eq!(wrong.code, 64, "{}", wrong.err);
}
