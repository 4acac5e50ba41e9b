//! What `roost trace` says became of a message.

mod common;

use std::time::Duration;

use common::world::stanzas;
use common::{Client, PATIENCE, Running, managed, options, start_with};
use server::Options;
use server::admin::{Request, Response};
use stdx::{Clock as _, SystemClock};

const DEADLINE: Duration = Duration::from_secs(5);
const ROOM: &str = "court@conference.localhost";
const BOB: &str = "bob@localhost";

fn start(change: impl FnOnce(&mut Options)) -> Running {
    let mut options = options(1, true);
    options.archive.enabled = true;
    change(&mut options);
    start_with(options, net::Limits::default(), &["alice", "bob"])
}

fn trace(running: &Running, id: &str, by: Option<&str>) -> String {
    let (id, by) = (id.to_owned(), by.map(str::to_owned));
    match running.node.admin().call(Request::Trace { id, by }) {
        Response::Traced { lines } => lines.join("\n"),
        other => format!("{other:?}"),
    }
}

/// Waits until it says so.
fn says(running: &Running, id: &str, by: Option<&str>, wanted: &str) -> String {
    let clock = SystemClock::new();
    let until = clock.now() + PATIENCE;
    loop {
        let told = trace(running, id, by);
        if told.contains(wanted) {
            return told;
        }
        assert!(clock.now() < until, "{wanted}: {told}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Stanza-ids (XEP-0359) in what a client saw.
fn ids(seen: &str) -> Vec<String> {
    let ids = seen.split("<stanza-id ").skip(1);
    let ids = ids.filter_map(|one| one.split_once(" id='").map(|(_, id)| id[..16].to_owned()));
    ids.collect()
}

/// Those in her log, the oldest first.
fn archived(client: &mut Client) -> Vec<String> {
    client.send("<iq type='set' id='all'><query xmlns='urn:xmpp:mam:2'/></iq>");
    let seen = client.expect("<fin ");
    let results = seen.split("<result ").skip(1);
    let ids = results.map(|one| one.split_once("id='").expect("an id").1[..16].to_owned());
    ids.collect()
}

/// A trace looks at so many entries of a log, and says so if it did not find the message there. It
/// said that the recipient's log did not have it any more.
#[test]
fn a_trace_says_that_it_has_not_looked_at_all_entries() {
    for (max, is_found) in [(5, true), (4, false)] {
        let running = start(|options| options.traced_max = max);
        let mut alice = Client::login(running.address, "alice", "a");
        for number in 0..5 {
            alice.send(&format!(
                "<message to='bob@localhost' type='chat' id='m{number}'><body>{number}</body>\
                 </message>"
            ));
        }
        let ids = archived(&mut alice);
        let by = Some("alice@localhost");
        says(&running, &ids[max - 1], by, "in the log of bob@localhost");
        let told = trace(&running, &ids[4], by);
        assert_eq!(told.contains("in the log of bob"), is_found, "{told}");
        if !is_found {
            assert!(
                told.contains("in the first 4 entries of each log only"),
                "{told}"
            );
            assert!(!told.contains("does not have it"), "{told}");
        }
        running.node.drain(DEADLINE);
    }
}

/// A trace names the sessions that were given a message, and no others: a client without stream
/// management has no number.
#[test]
fn a_trace_names_sessions_that_there_are() {
    let running = start(|_| ());
    let mut plain = Client::login(running.address, "bob", "plain");
    let mut managed = Client::login(running.address, "bob", "managed");
    managed.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    managed.expect("<enabled ");
    for client in [&mut plain, &mut managed] {
        client.send("<presence/>");
        client.expect("<presence ");
    }
    let mut alice = Client::login(running.address, "alice", "a");
    alice.send("<message to='bob@localhost' type='chat'><body>1</body></message>");
    let seen = plain.expect("</message>");
    managed.expect("</message>");
    let told = trace(&running, &ids(&seen)[0], Some(BOB));
    assert!(told.contains("given to bob@localhost/managed"), "{told}");
    assert!(!told.contains("for session"), "{told}");
    running.node.drain(DEADLINE);
}

/// Goal: of a message that came back it says so, and where its error is.
#[test]
fn a_trace_names_the_error_that_a_message_came_back_with() {
    let running = start(|options| options.limits.offline_messages_max = 1);
    let mut alice = managed(&running.node, "alice");
    for number in 0..2 {
        alice.send(&format!(
            "<message to='{BOB}' type='chat' id='m{number}'><body>{number}</body></message>"
        ));
    }
    alice.expect("type='error'");
    let sent = archived(&mut alice);
    let told = says(&running, &sent[1], None, "came back to alice@localhost");
    assert!(told.contains("accepted from alice@localhost for bob@localhost"));
    assert!(told.contains("in the log of alice@localhost"), "{told}");
    assert!(!told.contains("in the log of bob@localhost"), "{told}");
    says(
        &running,
        &sent[0],
        None,
        "waits for a session of bob@localhost",
    );
    running.node.drain(DEADLINE);
}

/// Goal: a message that its recipient's log keeps no longer was taken all the same; an id that no
/// log has is named as such, and what is no id is refused.
#[test]
fn a_trace_knows_what_is_not_there_any_more() {
    let running = start(|options| {
        options.archive.max_messages = 2;
        options.delivery.limits.retention_every = 1;
    });
    let mut bob = Client::login(running.address, "bob", "b");
    bob.send("<presence/>");
    bob.expect("<presence ");
    let mut alice = managed(&running.node, "alice");
    let said = format!("<message to='{BOB}' type='chat' id='m'><body>first</body></message>");
    alice.send(&said);
    bob.expect("</message>");
    let first = archived(&mut alice)[0].clone();
    says(
        &running,
        &first,
        Some("alice@localhost"),
        "in the log of bob",
    );
    // Others push it out of his log, and nothing pushes it out of hers.
    let mut other = Client::login(running.address, "bob", "other");
    for number in 0..8 {
        other.send(&format!(
            "<message to='{BOB}' type='chat' id='o{number}'><body>{number}</body></message>"
        ));
    }
    let gone = "taken over by bob@localhost, whose log does not have it any more";
    says(&running, &first, Some("alice@localhost"), gone);
    for (id, wanted) in [
        ("7000000000000001", "no_such_message"),
        ("17", "bad_id"),
        ("zzzzzzzzzzzzzzzz", "bad_id"),
    ] {
        let told = trace(&running, id, None);
        assert!(told.contains(wanted), "{told}");
    }
    running.node.drain(DEADLINE);
}

/// Goal: a room's message is followed through the room's log: to whom of its sessions and its
/// members it is owed.
#[test]
fn a_trace_follows_a_message_through_a_room() {
    let running = start(|options| {
        options.delivery.limits.mark_every = 1;
        options.delivery.limits.progress_delay = Duration::from_millis(10);
    });
    let mut alice = managed(&running.node, "alice");
    let muc = "http://jabber.org/protocol/muc";
    alice.send(&format!(
        "<presence to='{ROOM}/alice'><x xmlns='{muc}'/></presence>"
    ));
    alice.expect("code='201'");
    let field = |name: &str| format!("<field var='{name}'><value>1</value></field>");
    alice.send(&format!(
        "<iq type='set' id='config' to='{ROOM}'><query xmlns='{muc}#owner'>\
         <x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>\
         <value>{muc}#roomconfig</value></field>{}{}</x></query></iq>\
         <iq type='set' id='member' to='{ROOM}'><query xmlns='{muc}#admin'>\
         <item affiliation='member' jid='carol@localhost'/></query></iq>",
        field("muc#roomconfig_persistentroom"),
        field("x-roomconfig_delivertomembers"),
    ));
    alice.expect("id='member'");
    let mut bob = Client::login(running.address, "bob", "a");
    bob.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    bob.expect("<enabled ");
    bob.send(&format!(
        "<presence to='{ROOM}/bob'><x xmlns='{muc}'/></presence>"
    ));
    let mut heard = bob.expect("<subject") + &bob.expect("</message>");
    alice.expect("/bob'");
    alice.send(&format!(
        "<message to='{ROOM}' type='groupchat'><body>hear, hear</body></message>"
    ));
    heard += &bob.expect("</message>");
    let id = ids(&heard).pop().expect("an id");
    let told = says(
        &running,
        &id,
        Some(ROOM),
        "given to bob@localhost/a, not acknowledged",
    );
    for wanted in [
        "accepted from alice@localhost for court@conference.localhost",
        "in the log of court@conference.localhost",
        "of 2 sessions with stream management there",
        "of 2 members' accounts",
        "the home of carol@localhost does not know of the room",
        "of sessions without stream management nothing is recorded",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    // Whose id it is need not be known, and in its sender's log it has another one.
    assert!(trace(&running, &id, None).contains("given to bob@localhost/a"));
    let (_, sent) = told.split_once(&format!("for {ROOM}, as ")).expect("an id");
    let told = trace(&running, &sent[..16], Some("alice@localhost"));
    assert!(told.contains("given to bob@localhost/a"), "{told}");
    // What a client acknowledges is recorded with the next one that it is given.
    let h = stanzas(&heard);
    bob.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{h}'/>"));
    alice.send(&format!(
        "<message to='{ROOM}' type='groupchat'><body>go on</body></message>"
    ));
    let told = says(&running, &id, Some(ROOM), "owed to 1 of 2 sessions");
    assert!(!told.contains("bob@localhost/a"), "{told}");
    running.node.drain(DEADLINE);
}
