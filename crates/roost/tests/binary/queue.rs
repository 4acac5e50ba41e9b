//! Messages whose recipient cannot be given them: nobody else waits, nothing is lost, and operators
//! see and mend it (docs/delivery.md, "A destination that does not keep up").

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::place::{Place, Server};
use crate::resume::{bodies, managed, managed_at_once, resume, stanzas};

/// How long anything may take that must happen.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until the list of queues is as wanted.
pub(crate) fn wait_for_queues(place: &Place, is_it: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + PATIENCE;
    loop {
        let list = place.must(&["queue", "list"]);
        if is_it(&list) {
            return list;
        }
        assert!(Instant::now() < end, "queues: {list:?}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A user's actor crashes until the user is set aside.
fn set_aside(server: &Server, user: &str) {
    for _ in 0..6 {
        let mut client = Client::authenticated(server.plain, user);
        client.send(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>\
             <message to='nobody@localhost'><body>CRASH-0123456789</body></message>",
        );
        client.rest();
    }
}

fn place_that_crashes() -> Place {
    let mut place = Place::new();
    place.set("debug.panic_hook", "\"CRASH-0123456789\"");
    place.set("server.shards", "1");
    place
}

/// Bob's actor is set aside; Alice writes to Bob, then to Carol, and both are acknowledged. Carol
/// has hers at once, and Bob has his as soon as his actor may run again.
#[test]
fn a_recipient_that_is_set_aside_gets_everything_and_delays_nobody() {
    let place = place_that_crashes();
    place.add(&["alice", "bob", "carol"]);
    let server = place.serve();
    let mut carol = Client::online(server.plain, "carol", "r");
    let (mut alice, _) = managed(&server, "alice");
    set_aside(&server, "bob");
    alice.say("bob", "1");
    alice.say("carol", "2");
    alice.expect_accepted(2);
    carol.expect("<body>2</body>");
    let list = wait_for_queues(&place, |list| list.contains("set aside"));
    assert!(
        list.contains("alice@localhost -> bob@localhost: 1 messages"),
        "{list}"
    );
    let id = list.split("the oldest ").nth(1).expect("an id");
    let id = &id[..16];
    let (_, metrics) = server.page("/metrics");
    for gauge in ["roost_queue_senders", "roost_queue_messages"] {
        let line = format!("{gauge}{{shard=\"0\"}} 1\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let trace = place.must(&["trace", id, "--by", "alice@localhost"]);
    assert!(trace.contains("waits for bob@localhost"), "{trace}");
    // More for others goes on meanwhile, in order.
    alice.say("bob", "3");
    alice.say("carol", "4");
    carol.expect("<body>4</body>");
    wait_for_queues(&place, |list| {
        place.must(&["queue", "retry", "--recipient", "bob@localhost"]);
        list.is_empty()
    });
    let mut bob = Client::online(server.plain, "bob", "r");
    let text = bob.expect("<body>3</body>") + &bob.sync();
    assert_eq!(bodies(&text), [1, 3]);
    let trace = place.must(&["trace", id]);
    assert!(trace.contains("in the log of bob@localhost"), "{trace}");
    // Its log tells of the crashes.
    server.kill();
}

/// One recipient is set aside, others have theirs, and the server is killed before the sender's
/// marks say so: nothing is given to the others again.
#[test]
fn a_kill_while_a_recipient_is_stuck_repeats_nothing_to_others() {
    let place = place_that_crashes();
    place.add(&["alice", "bob", "carol"]);
    let server = place.serve();
    let (mut carol, of_carol) = managed_at_once(&server, "carol", "r");
    let (mut alice, token) = managed(&server, "alice");
    set_aside(&server, "bob");
    alice.say("bob", "1");
    (2..=20).for_each(|number| alice.say("carol", &number.to_string()));
    alice.expect_accepted(20);
    let text = carol.expect("<body>20</body>");
    assert_eq!(bodies(&text), (2..=20).collect::<Vec<_>>());
    let handled = stanzas(&text);
    // At once: the sender's home need not have recorded that hers has them.
    server.kill();
    let server = place.serve();
    let mut bob = Client::online(server.plain, "bob", "r");
    let text = bob.expect("</message>") + &bob.sync();
    assert_eq!(bodies(&text), [1]);
    let mut alice = resume(&server, "alice", &token, 0);
    // Behind whatever would come again.
    alice.say("carol", "21");
    let mut carol = resume(&server, "carol", &of_carol, handled);
    let text = carol.expect("<body>21</body>") + &carol.sync();
    assert_eq!(bodies(&text), [21]);
    server.stop();
}

/// A recipient who is set aside for longer than messages wait: the sender's come back, for good and
/// once, and the recipient does not get them later.
#[test]
fn what_waits_too_long_comes_back_once() {
    let mut place = place_that_crashes();
    place.set("delivery.return_after", "\"2s\"");
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut alice, token) = managed(&server, "alice");
    set_aside(&server, "bob");
    alice.say("bob", "1");
    alice.say("bob", "2");
    alice.expect_accepted(2);
    drop(alice);
    wait_for_queues(&place, |list| list.contains(": 2 messages"));
    wait_for_queues(&place, str::is_empty);
    server.kill();
    let server = place.serve();
    let mut alice = resume(&server, "alice", &token, 0);
    let text = alice.expect("id='2'") + &alice.sync();
    assert_eq!(text.matches("type='error'").count(), 2, "{text}");
    let mut bob = Client::online(server.plain, "bob", "r");
    alice.say("bob", "3");
    let text = bob.expect("<body>3</body>") + &bob.sync();
    assert_eq!(bodies(&text), [3]);
    let text = alice.sync();
    assert!(!text.contains("type='error'"), "{text}");
    server.stop();
}

/// What an operator drops comes back to its sender, also if nobody is there to be told just then.
#[test]
fn what_is_dropped_comes_back_to_its_sender() {
    let place = place_that_crashes();
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut alice, token) = managed(&server, "alice");
    set_aside(&server, "bob");
    alice.say("bob", "1");
    alice.say("bob", "2");
    alice.expect_accepted(2);
    wait_for_queues(&place, |list| list.contains(": 2 messages"));
    drop(alice);
    let dropped = place.must(&["queue", "drop", "alice@localhost", "bob@localhost"]);
    assert!(dropped.starts_with("2 messages"), "{dropped}");
    wait_for_queues(&place, str::is_empty);
    server.kill();
    let server = place.serve();
    let mut alice = resume(&server, "alice", &token, 0);
    let text = alice.expect("id='2'") + &alice.sync();
    assert_eq!(text.matches("type='error'").count(), 2, "{text}");
    let nothing = place.run(&["queue", "drop", "alice@localhost", "bob@localhost"]);
    assert!(
        nothing.err.contains("no message of alice@localhost"),
        "{}",
        nothing.err
    );
    server.kill();
}

/// A message at which its recipient's actor crashes comes back; the recipient is not set aside for
/// everybody, and what follows arrives.
#[test]
fn a_message_that_kills_its_recipient_comes_back_first() {
    let place = place_that_crashes();
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut alice, _) = managed(&server, "alice");
    alice.say("bob", "CRASH-0123456789-on-delivery");
    alice.say("bob", "2");
    alice.expect("id='CRASH-0123456789-on-delivery'");
    alice.expect("internal-server-error");
    let mut bob = Client::online(server.plain, "bob", "r");
    bob.expect("<body>2</body>");
    wait_for_queues(&place, str::is_empty);
    // Its log tells of the crashes.
    server.kill();
}

/// The recipient's inbox is full and the server is killed: each message that was acknowledged is in
/// the inbox or comes back, and never both.
#[test]
fn a_refusal_of_an_accepted_message_survives_a_kill() {
    let mut place = Place::new();
    place.set("limits.offline_messages_max", "10");
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut alice, token) = managed(&server, "alice");
    for number in 0..64 {
        alice.say("bob", &number.to_string());
    }
    alice.expect_accepted(64);
    server.kill();
    let server = place.serve();
    let mut alice = resume(&server, "alice", &token, 0);
    let returned = |alice: &mut Client, seen: &mut String| {
        *seen += &alice.sync();
        let errors = seen
            .split("<message ")
            .filter(|stanza| stanza.contains("type='error'"));
        let ids = errors.filter_map(|stanza| stanza.split(" id='").nth(1)?.split('\'').next());
        let ids: BTreeSet<usize> = ids.filter_map(|id| id.parse().ok()).collect();
        ids
    };
    let (end, mut seen) = (Instant::now() + PATIENCE, String::new());
    while returned(&mut alice, &mut seen).len() < 54 {
        assert!(
            Instant::now() < end,
            "{:?} came back",
            returned(&mut alice, &mut seen)
        );
        thread::sleep(Duration::from_millis(100));
    }
    let returned = returned(&mut alice, &mut seen);
    let (mut bob, _) = managed_at_once(&server, "bob", "r");
    let text = bob.expect("</message>") + &bob.sync() + &bob.sync();
    let delivered = bodies(&text);
    assert!(delivered.is_sorted_by(|a, b| a < b), "{delivered:?}");
    let all: BTreeSet<usize> = delivered.iter().copied().chain(returned.clone()).collect();
    assert_eq!(all.len(), 64, "{delivered:?} and {returned:?}");
    assert_eq!(
        delivered.len() + returned.len(),
        64,
        "{delivered:?} and {returned:?}"
    );
    server.stop();
}

/// Far more senders than a recipient remembers at a time, and a kill before any of them has noted
/// that its message was taken: each message is there once.
#[test]
fn a_hundred_and_sixty_senders_are_recognised() {
    const SENDERS: usize = 160;
    let mut place = Place::new();
    place.set("archive.enabled", "true");
    place.add(&["bob"]);
    place.must(&[
        "provision",
        "--domain",
        "localhost",
        "--users",
        "160",
        "--password",
        "secret",
        "--quiet",
    ]);
    let server = place.serve();
    let mut senders: Vec<Client> = Vec::new();
    for number in 0..SENDERS {
        let mut client = Client::online(server.plain, &format!("u{number}"), "r");
        client.say("bob", &number.to_string());
        senders.push(client);
    }
    for client in &mut senders {
        client.sync();
    }
    let mut bob = Client::online(server.plain, "bob", "r");
    let mut got = Vec::new();
    while got.len() < SENDERS {
        got.extend(bodies(&bob.expect("</message>")));
    }
    server.kill();
    let server = place.serve();
    // Handing over again is over when nothing waits; a marker behind it shows what came twice.
    let mut bob = Client::online(server.plain, "bob", "r");
    for number in 0..SENDERS {
        let mut client = Client::online(server.plain, &format!("u{number}"), "r");
        client.say("bob", &(SENDERS + number).to_string());
        client.sync();
    }
    while got.len() < 2 * SENDERS {
        got.extend(bodies(&bob.expect("</message>")));
    }
    let text = bob.sync();
    got.extend(bodies(&text));
    got.sort_unstable();
    assert_eq!(got, (0..2 * SENDERS).collect::<Vec<_>>());
    server.stop();
}
