//! Sessions that outlive a lost link and a killed server (XEP-0198, docs/delivery.md), with the
//! real process, its files and a real SIGKILL.

use crate::client::Client;
use crate::place::{Place, Server};

const SENT: usize = 500;

/// A session that can be resumed, and the token for it.
fn managed(server: &Server, user: &str) -> (Client, String) {
    let mut client = Client::online(server.plain, user, "r");
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    client.expect("<enabled ");
    let enabled = client.expect("/>");
    let (_, token) = enabled.split_once(" id='").expect("an id");
    let (token, _) = token.split_once('\'').expect("a quote");
    let token = token.to_owned();
    (client, token)
}

fn resume(server: &Server, user: &str, token: &str, h: usize) -> Client {
    let mut client = Client::authenticated(server.plain, user);
    client.send(&format!(
        "<resume xmlns='urn:xmpp:sm:3' h='{h}' previd='{token}'/>"
    ));
    client.expect("<resumed ");
    client
}

/// The bodies in what a client read, which are numbers here.
fn bodies(text: &str) -> Vec<usize> {
    let parts = text.split("<body>").skip(1);
    let bodies = parts.filter_map(|part| part.split_once("</body>"));
    bodies
        .map(|(body, _)| body.parse().expect("a number"))
        .collect()
}

/// Alice sends 500 messages; the link of Bob is cut on the way, and the server is killed as soon as
/// Alice has her last acknowledgement. Bob resumes with the others, in order, none twice.
fn five_hundred_messages_survive(place: &Place) {
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut bob, token) = managed(&server, "bob");
    let (mut alice, _) = managed(&server, "alice");
    for number in 0..SENT / 2 {
        alice.say("bob", &number.to_string());
    }
    let read = bodies(&bob.expect(&format!("<body>{}</body>", SENT / 5)));
    let handled = read.len();
    assert_eq!(read, (0..=SENT / 5).collect::<Vec<_>>());
    drop(bob);
    for number in SENT / 2..SENT {
        alice.say("bob", &number.to_string());
    }
    alice.send("<r xmlns='urn:xmpp:sm:3'/>");
    alice.expect(&format!("h='{SENT}'"));
    server.kill();
    let server = place.serve();
    let mut bob = resume(&server, "bob", &token, handled);
    let text = bob.expect(&format!("<body>{}</body>", SENT - 1)) + &bob.sync();
    assert_eq!(bodies(&text), (handled..SENT).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn five_hundred_messages_survive_a_cut_link_and_a_kill() {
    five_hundred_messages_survive(&Place::new());
}

#[test]
fn they_do_without_an_archive() {
    let mut place = Place::new();
    place.set("archive.enabled", "false");
    five_hundred_messages_survive(&place);
}

#[test]
fn a_session_survives_one_kill_after_another() {
    let place = Place::new();
    place.add(&["alice", "bob"]);
    let mut server = place.serve();
    let (bob, token) = managed(&server, "bob");
    drop(bob);
    for number in 0..3 {
        let (mut alice, _) = managed(&server, "alice");
        alice.say("bob", &number.to_string());
        alice.send("<r xmlns='urn:xmpp:sm:3'/>");
        alice.expect("h='1'");
        server.kill();
        server = place.serve();
    }
    let mut bob = resume(&server, "bob", &token, 0);
    let text = bob.expect("<body>2</body>") + &bob.sync();
    assert_eq!(bodies(&text), [0, 1, 2]);
    // What it has now it is not given again.
    drop(bob);
    server.kill();
    let server = place.serve();
    let mut bob = resume(&server, "bob", &token, 100);
    assert!(bodies(&bob.sync()).is_empty());
    server.stop();
}

#[test]
fn contacts_see_a_detached_session_and_are_shown_again_after_a_kill() {
    let place = Place::new();
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut bob, token) = managed(&server, "bob");
    let mut alice = Client::online(server.plain, "alice", "a");
    alice.send("<presence to='bob@localhost' type='subscribe'/>");
    bob.expect("type='subscribe'");
    bob.send("<presence to='alice@localhost' type='subscribed'/>");
    bob.send("<presence to='alice@localhost' type='subscribe'/>");
    alice.expect("<presence from='bob@localhost/r'");
    alice.send("<presence to='bob@localhost' type='subscribed'/>");
    bob.expect("type='subscribed'");
    bob.sync();
    drop(bob);
    server.kill();
    let server = place.serve();
    // Bob's session waits for him, and is there for others.
    let mut alice = Client::online(server.plain, "alice", "a");
    alice.expect("<presence from='bob@localhost/r'");
    let mut bob = resume(&server, "bob", &token, 100);
    bob.expect("type='unavailable'");
    bob.expect("<presence from='alice@localhost/a'");
    server.stop();
}

#[test]
fn what_everybody_has_goes_if_it_is_not_to_be_kept() {
    let mut place = Place::new();
    place.set("archive.retention", "\"until-delivered\"");
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut bob, _) = managed(&server, "bob");
    let mut alice = Client::online(server.plain, "alice", "a");
    alice.say("bob", "1");
    bob.expect("<body>1</body>");
    bob.send("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    let mut reader = Client::online(server.plain, "bob", "reader");
    loop {
        reader.send("<iq type='set' id='q'><query xmlns='urn:xmpp:mam:2'/></iq>");
        if bodies(&reader.expect("</fin>")).is_empty() {
            break;
        }
    }
    server.stop();
}
