//! An import into a running server, in the middle of everybody's work.

use std::fmt::Write as _;
use std::thread;

use crate::client::Client;
use crate::place::{Place, Server};

const USERS: usize = 200;
const ACCOUNTS: usize = 2_000;

/// Rounds of messages at least; more while the import takes longer.
const ROUNDS: usize = 3;

/// A session with stream management.
fn managed(server: &Server, user: usize) -> Client {
    let mut client = Client::online(server.plain, &format!("u{user}"), "r");
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    client.expect("<enabled ");
    client
}

/// The lines of accounts that are not there yet.
fn lines() -> String {
    let mut lines = String::new();
    for account in 0..ACCOUNTS {
        let jid = format!("imported{account}@localhost");
        let _ = writeln!(
            lines,
            "{{\"type\":\"account\",\"jid\":\"{jid}\",\"created\":0,\"locked\":false,\
             \"scram\":[]}}"
        );
        let _ = writeln!(
            lines,
            "{{\"type\":\"roster\",\"jid\":\"{jid}\",\"items\":[]}}"
        );
    }
    lines
}

/// 200 users chat, each round trip acknowledged, while 2,000 accounts are imported: nobody is
/// answered with an error, and everything arrives once and in order.
#[test]
fn nobody_notices_an_import() {
    let place = Place::new();
    let users = USERS.to_string();
    place.must(&[
        "provision",
        "--domain",
        "localhost",
        "--users",
        &users,
        "--contacts",
        "0",
        "--password",
        "secret",
        "--quiet",
    ]);
    let server = place.serve();
    let mut clients: Vec<Client> = (0..USERS).map(|user| managed(&server, user)).collect();
    let lines = lines();
    let rounds = thread::scope(|scope| {
        let import = scope.spawn(|| place.run_with(&["import", "-"], &lines));
        let mut round = 0;
        while round < ROUNDS || !import.is_finished() {
            round += 1;
            for (user, client) in clients.iter_mut().enumerate() {
                client.say(&format!("u{}", user ^ 1), &round.to_string());
                client.send("<r xmlns='urn:xmpp:sm:3'/>");
            }
            for client in &mut clients {
                let (accepted, body) = (format!(" h='{round}'"), format!("<body>{round}</body>"));
                let seen = client.expect_all(&[&accepted, &body]);
                assert!(!seen.contains("error"), "{seen}");
                client.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{round}'/>"));
            }
        }
        let outcome = import.join().expect("it ends");
        assert_eq!(outcome.code, 0, "{}", outcome.err);
        round
    });
    for client in &mut clients {
        let rest = client.sync();
        assert!(!rest.contains("<message"), "twice after {rounds}: {rest}");
        assert!(!rest.contains("error"), "{rest}");
    }
    let listed = place.must(&["user", "list"]);
    assert_eq!(listed.matches("imported").count(), ACCOUNTS);
}
