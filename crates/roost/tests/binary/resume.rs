//! Sessions that outlive a lost link and a killed server (XEP-0198, docs/delivery.md), with the
//! real process, its files and a real SIGKILL.

use std::ops::Range;

use crate::client::Client;
use crate::place::{Place, Server};
use crate::queue::wait_for_queues;

const SENT: usize = 500;

/// A session that can be resumed, and the token for it.
pub(crate) fn managed(server: &Server, user: &str) -> (Client, String) {
    let mut client = Client::online(server.plain, user, "r");
    let token = enable(&mut client);
    (client, token)
}

/// The same, made before anything that waits can come.
pub(crate) fn managed_at_once(server: &Server, user: &str, resource: &str) -> (Client, String) {
    let mut client = Client::authenticated(server.plain, user);
    client.send(&format!(
        "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
         <resource>{resource}</resource></bind></iq>"
    ));
    client.expect("</jid></bind></iq>");
    let token = enable(&mut client);
    client.send("<presence/>");
    (client, token)
}

pub(crate) fn enable(client: &mut Client) -> String {
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    client.expect("<enabled ");
    let enabled = client.expect("/>");
    let (_, token) = enabled.split_once(" id='").expect("an id");
    let (token, _) = token.split_once('\'').expect("a quote");
    token.to_owned()
}

pub(crate) fn resume(server: &Server, user: &str, token: &str, h: usize) -> Client {
    let mut client = Client::authenticated(server.plain, user);
    client.send(&format!(
        "<resume xmlns='urn:xmpp:sm:3' h='{h}' previd='{token}'/>"
    ));
    let before = client.expect("<resumed ");
    assert!(!before.contains("<failed "), "{before}");
    client
}

impl Client {
    /// Sends Bob messages whose bodies are these numbers.
    fn say_all(&mut self, numbers: Range<usize>) {
        for number in numbers {
            self.say("bob", &number.to_string());
        }
    }

    /// Asks how many stanzas of its session the server has accepted: these.
    pub(crate) fn expect_accepted(&mut self, count: usize) {
        self.send("<r xmlns='urn:xmpp:sm:3'/>");
        self.expect(&format!("h='{count}'"));
    }

    /// Says how many stanzas of its session it has handled.
    pub(crate) fn acknowledge(&mut self, handled: usize) {
        self.send(&format!("<a xmlns='urn:xmpp:sm:3' h='{handled}'/>"));
    }
}

/// The bodies in what a client read, which are numbers here.
pub(crate) fn bodies(text: &str) -> Vec<usize> {
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
    alice.say_all(0..SENT / 2);
    let read = bodies(&bob.expect(&format!("<body>{}</body>", SENT / 5)));
    let handled = read.len();
    assert_eq!(read, (0..=SENT / 5).collect::<Vec<_>>());
    drop(bob);
    alice.say_all(SENT / 2..SENT);
    alice.expect_accepted(SENT);
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
        alice.expect_accepted(1);
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

/// How many stanzas begin in what a client read.
pub(crate) fn stanzas(text: &str) -> usize {
    let names = ["<message ", "<presence ", "<iq "];
    names.iter().map(|name| text.matches(name).count()).sum()
}

/// What a client that is behind is sent in all, and how much of that at once.
const LOTS: usize = 3_000;
const AT_ONCE: usize = 1_000;

/// Bob has a phone that acknowledges nothing and a desk that has it all at once.
struct Behind {
    server: Server,
    alice: Client,
    phone: Client,
    token: String,
    desk: Client,
}

impl Behind {
    fn new(place: &Place) -> Behind {
        place.add(&["alice", "bob"]);
        let server = place.serve();
        let (phone, token) = managed(&server, "bob");
        let desk = Client::online(server.plain, "bob", "desk");
        let (alice, _) = managed(&server, "alice");
        Behind {
            server,
            alice,
            phone,
            token,
            desk,
        }
    }

    /// Alice sends messages, which the desk has at once, and the server has accepted.
    fn say(&mut self, numbers: Range<usize>) {
        let last = numbers.end;
        self.alice.say_all(numbers.clone());
        let text = self.desk.expect(&format!("<body>{}</body>", last - 1));
        assert_eq!(bodies(&text), numbers.collect::<Vec<_>>());
        self.alice.expect_accepted(last);
    }

    /// The phone gets the rest.
    fn follow(&mut self, handled: usize, numbers: Range<usize>) {
        let (got, _) = follow(&mut self.phone, handled, numbers.end);
        assert_eq!(got, numbers.collect::<Vec<_>>());
    }
}

/// Acknowledges what comes until the last message has come. Gives all that came, and how many
/// stanzas were handled then.
pub(crate) fn follow(client: &mut Client, mut handled: usize, end: usize) -> (Vec<usize>, usize) {
    let mut got = Vec::new();
    while got.last() != Some(&(end - 1)) {
        let text = client.expect("</message>");
        handled += stanzas(&text);
        got.extend(bodies(&text));
        if got.len().is_multiple_of(5) || got.last() == Some(&(end - 1)) {
            client.acknowledge(handled);
        }
    }
    (got, handled)
}

#[test]
fn a_client_that_is_behind_gets_the_rest_when_it_follows() {
    let place = Place::new();
    let mut all = Behind::new(&place);
    all.say(0..LOTS);
    let text = all.phone.sync();
    assert_eq!(bodies(&text), (0..AT_ONCE).collect::<Vec<_>>());
    let handled = stanzas(&text);
    all.phone.acknowledge(handled);
    all.follow(handled, AT_ONCE..LOTS);
    // From here on it has everything at once again.
    all.say(LOTS..LOTS + 3);
    let text = all.phone.expect(&format!("<body>{}</body>", LOTS + 2));
    assert_eq!(bodies(&text), [LOTS, LOTS + 1, LOTS + 2]);
    all.server.stop();
}

#[test]
fn a_client_that_was_behind_and_lost_its_link_gets_the_rest() {
    let place = Place::new();
    let mut all = Behind::new(&place);
    all.say(0..LOTS / 2);
    let text = all
        .phone
        .expect(&format!("<body>{}</body>", AT_ONCE / 2 - 1));
    assert_eq!(bodies(&text), (0..AT_ONCE / 2).collect::<Vec<_>>());
    let handled = stanzas(&text);
    all.phone = Client::connect(all.server.plain);
    all.say(LOTS / 2..LOTS);
    all.phone = resume(&all.server, "bob", &all.token, handled);
    all.follow(handled, AT_ONCE / 2..LOTS);
    all.server.stop();
}

#[test]
fn a_client_that_is_behind_gets_the_rest_after_kills() {
    let place = Place::new();
    let mut all = Behind::new(&place);
    all.say(0..LOTS);
    let text = all.phone.sync();
    let mut handled = stanzas(&text);
    all.phone.acknowledge(handled);
    let Behind {
        mut server,
        mut phone,
        token,
        ..
    } = all;
    // Each time in the middle of what comes from the log.
    let mut end = AT_ONCE;
    for _ in 0..3 {
        end += 120;
        let text = phone.expect(&format!("<body>{}</body>", end - 1));
        assert_eq!(bodies(&text), (end - 120..end).collect::<Vec<_>>());
        handled += stanzas(&text);
        phone.acknowledge(handled);
        server.kill();
        server = place.serve();
        phone = resume(&server, "bob", &token, handled);
    }
    let (got, _) = follow(&mut phone, handled, LOTS);
    assert_eq!(got, (end..LOTS).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn what_a_session_that_ended_was_behind_with_waits_for_the_next_one() {
    let place = Place::new();
    place.add(&["alice", "bob"]);
    let server = place.serve();
    let (mut phone, _) = managed(&server, "bob");
    let (mut alice, _) = managed(&server, "alice");
    alice.say_all(0..LOTS);
    alice.expect_accepted(LOTS);
    wait_for_queues(&place, str::is_empty);
    phone.expect(&format!("<body>{}</body>", AT_ONCE - 1));
    phone.send("</stream:stream>");
    phone.rest();
    let (mut desk, token) = managed_at_once(&server, "bob", "desk");
    // What the phone was sent comes first, then what it was not; killed in the middle of that.
    let (mut got, mut handled) = (Vec::new(), 0);
    while got.len() < AT_ONCE + 500 {
        let text = desk.expect("</message>");
        handled += stanzas(&text);
        got.extend(bodies(&text));
        desk.acknowledge(handled);
    }
    server.kill();
    let server = place.serve();
    let mut desk = resume(&server, "bob", &token, handled);
    got.extend(follow(&mut desk, handled, LOTS).0);
    assert_eq!(got, (0..LOTS).collect::<Vec<_>>());
    server.stop();
}

/// What waits for Bob, and how much of that a client gets that acknowledges nothing.
const WAITING: usize = 600;
const AT_FIRST: usize = 200;

/// Bob's phone takes a window of what waits and acknowledges nothing of it. His desk has all of it
/// at once, acknowledges it, and has what comes then. What the desk acknowledged of what waited is
/// over: the phone goes on with what came since both were there.
fn a_phone_that_is_behind_holds_back_no_desk(is_killed: bool) {
    let mut place = Place::new();
    place.set("delivery.unacked_max", &AT_FIRST.to_string());
    place.add(&["alice", "bob"]);
    let mut server = place.serve();
    let (mut alice, _) = managed(&server, "alice");
    alice.say_all(0..WAITING);
    alice.expect_accepted(WAITING);
    let (mut phone, token) = managed_at_once(&server, "bob", "phone");
    let mut text = phone.expect(&format!("<body>{}</body>", AT_FIRST - 1));
    text.push_str(&phone.sync());

    let (mut desk, _) = managed_at_once(&server, "bob", "desk");
    let begun = desk.expect(&format!("<body>{}</body>", AT_FIRST - 1));
    let mut got = bodies(&begun);
    desk.acknowledge(stanzas(&begun));
    got.extend(follow(&mut desk, stanzas(&begun), WAITING).0);
    assert_eq!(got, (0..WAITING).collect::<Vec<_>>());
    alice.say_all(WAITING..WAITING + 3);
    let live = desk.expect(&format!("<body>{}</body>", WAITING + 2));
    assert_eq!(bodies(&live), [WAITING, WAITING + 1, WAITING + 2]);

    text.push_str(&phone.sync());
    let mut got = bodies(&text);
    assert!(got.len() < WAITING, "it acknowledged nothing");
    let handled = stanzas(&text);
    if is_killed {
        server.kill();
        server = place.serve();
        phone = resume(&server, "bob", &token, handled);
    } else {
        phone.acknowledge(handled);
    }
    got.extend(follow(&mut phone, handled, WAITING + 3).0);
    let rest = got.split_off(AT_FIRST);
    assert_eq!(got, (0..AT_FIRST).collect::<Vec<_>>());
    // A kill may forget the desk's last acknowledgements: what they were for comes too.
    let begin = if is_killed { rest[0] } else { WAITING };
    assert!(
        AT_FIRST < begin && begin <= WAITING,
        "it begins with {begin}"
    );
    assert_eq!(rest, (begin..WAITING + 3).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn who_is_behind_with_what_waits_holds_back_nobody() {
    a_phone_that_is_behind_holds_back_no_desk(false);
}

#[test]
fn it_goes_on_with_what_is_new_after_a_kill_too() {
    a_phone_that_is_behind_holds_back_no_desk(true);
}

/// More than a connection takes at once.
const LARGE: usize = 60;

/// Bob's link is lost, and Alice sends three megabytes. He resumes and gets it all, in pages that
/// he acknowledges.
fn three_megabytes_come_in_pages(is_killed: bool) {
    let place = Place::new();
    place.add(&["alice", "bob"]);
    let mut server = place.serve();
    let (mut bob, token) = managed(&server, "bob");
    let (mut alice, _) = managed(&server, "alice");
    alice.say("bob", "0");
    // All of this is acknowledged by what it says when it resumes.
    let text = bob.expect("</message>");
    let handled = stanzas(&text);
    drop(bob);
    let padding = "x".repeat(50_000);
    for number in 1..LARGE {
        alice.send(&format!(
            "<message type='chat' to='bob@localhost'><subject>{padding}</subject>\
             <body>{number}</body></message>"
        ));
    }
    alice.expect_accepted(LARGE);
    if is_killed {
        server.kill();
        server = place.serve();
    }
    let mut bob = resume(&server, "bob", &token, handled);
    // What comes meanwhile goes behind it.
    let (mut alice, _) = managed(&server, "alice");
    alice.say("bob", &LARGE.to_string());
    let (got, _) = follow(&mut bob, handled, LARGE + 1);
    assert_eq!(got, (1..=LARGE).collect::<Vec<_>>());
    server.stop();
}

#[test]
fn more_than_a_connection_takes_at_once_comes_in_pages() {
    three_megabytes_come_in_pages(false);
}

#[test]
fn it_does_after_a_kill() {
    three_megabytes_come_in_pages(true);
}
