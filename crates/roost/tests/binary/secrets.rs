//! What must not be in a log is not, at the most talkative level either.

use crate::client::Client;
use crate::place::Place;

#[test]
fn passwords_keys_and_bodies_are_not_logged() {
    const RIGHT: &str = "correct-horse-battery";
    const WRONG: &str = "wrong-horse-battery";
    const LATER: &str = "later-horse-battery";
    const BODY: &str = "for-bob-alone";
    let mut place = Place::new();
    place.set("log.level", "\"trace\"");
    let server = place.serve();
    let mut said = String::new();
    let mut run = |arguments: &[&str], input: &str| {
        let outcome = place.run_with(arguments, input);
        said.push_str(&outcome.err);
        outcome.out
    };
    run(&["user", "add", "alice@localhost", "--password", RIGHT], "");
    run(&["user", "add", "alice@localhost", "--password", RIGHT], "");
    run(
        &["user", "add", "bob@localhost", "--password-file", "-"],
        RIGHT,
    );
    let exported = run(&["export"], "");
    run(&["import", "-"], &exported);
    let domain = [
        "provision",
        "--domain",
        "localhost",
        "--users",
        "3",
        "--password",
    ];
    run(&[&domain[..], &[RIGHT]].concat(), "");

    for password in [WRONG, RIGHT] {
        let mut client = Client::connect(server.plain);
        client.authenticate("alice", password);
        client.expect(if password == RIGHT {
            "<success"
        } else {
            "<failure"
        });
    }
    run(
        &["user", "passwd", "bob@localhost", "--password", "secret"],
        "",
    );
    let mut bob = Client::online(server.plain, "bob", "b");
    bob.say("bob", BODY);
    bob.expect(&format!("<body>{BODY}</body>"));
    bob.say("alice", BODY);
    bob.send("<iq type='set' id='pw'><query xmlns='jabber:iq:register'>");
    bob.send(&format!(
        "<username>bob</username><password>{LATER}</password></query></iq>"
    ));
    bob.expect("id='pw'");
    bob.send(&format!("<not-xml {LATER}"));
    bob.send("<<></not-xml>");
    bob.rest();
    let log = server.stop();
    assert!(
        log.contains("TRACE") || log.contains("DEBUG"),
        "a talkative log: {log}"
    );

    let mut secrets: Vec<String> = [RIGHT, WRONG, LATER, BODY].map(str::to_owned).into();
    for (user, password) in [("alice", RIGHT), ("alice", WRONG), ("bob", "secret")] {
        secrets.push(xmpp::sasl::encode(&format!("\0{user}\0{password}")));
    }
    for line in exported.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
        for keys in value["scram"].as_array().into_iter().flatten() {
            for key in ["stored_key", "server_key", "salt"] {
                secrets.push(keys[key].as_str().expect("a key").to_owned());
            }
        }
    }
    assert!(secrets.len() > 10, "keys were exported");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log");
        assert!(!said.contains(&secret), "{secret} was said by a command");
    }
}
