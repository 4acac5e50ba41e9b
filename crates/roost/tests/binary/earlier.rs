//! Data of an earlier version: `data/delivery-0f8860a.tar.gz` is a folder whose server was killed
//! while it owed its users something in every way that there was. A server of today opens a copy of
//! it; everything comes once and in order, and sessions of then are resumed.
//!
//! [`make_the_folder`] is how it was made. A new one, of another version:
//! `ROOST_EARLIER=/path/of/its/roost ROOST_EARLIER_FOLDER=/path/of/new.tar.gz
//! cargo test -p roost --test binary -- --ignored make_the_folder`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use crate::client::Client;
use crate::place::{Place, Server};
use crate::resume::{bodies, enable, follow, managed, managed_at_once, resume, stanzas};

/// The folder, beside this test.
const FOLDER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/data/delivery-0f8860a.tar.gz"
);

/// Unacknowledged messages at which a session was spilled when the folder was made.
const UNACKED_MAX: usize = 10;

/// A user who says this makes its own actor crash.
const PANIC: &str = "panic-of-an-earlier-version";

/// Crashes after which a user is set aside for a while.
const CRASHES: usize = 6;

/// Whose log holds what, and in how many messages, numbered from 0.
const WAITING: (&str, usize) = ("waiting", 5);
const REQUEUED: (&str, usize) = ("requeued", 8);
const LISTED: (&str, usize) = ("listed", 8);
const SPILLED: (&str, usize) = ("spilled", 25);
const LATE: (&str, usize) = ("late", 30);
const ESTATES: (&str, usize) = ("estates", 25);
const SHARED: (&str, usize) = ("shared", 6);
const STUCK: (&str, usize) = ("stuck", 5);

/// Everybody that Alice sends something to, in that order.
const HEARERS: [(&str, usize); 7] = [WAITING, REQUEUED, LISTED, SPILLED, LATE, ESTATES, SHARED];

/// What clients of then remember: by the name of a session, its token, and how many stanzas of it
/// were handled.
#[derive(Default)]
struct Notes(BTreeMap<String, (String, usize)>);

impl Notes {
    fn note(&mut self, session: &str, token: &str, handled: usize) {
        self.0.insert(session.into(), (token.into(), handled));
    }

    fn write(&self, path: &Path) {
        let mut text = String::new();
        for (session, (token, handled)) in &self.0 {
            let _ = writeln!(text, "{session} {token} {handled}");
        }
        fs::write(path, text).expect("notes");
    }

    fn read(path: &Path) -> Notes {
        let text = fs::read_to_string(path).expect("notes");
        let mut notes = Notes::default();
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            notes.note(words[0], words[1], words[2].parse().expect("a number"));
        }
        notes
    }
}

fn tar(arguments: &[&str], place: &Place) {
    let mut command = Command::new("tar");
    command.args(arguments).current_dir(place.path(""));
    assert!(command.status().expect("tar").success(), "{arguments:?}");
}

/// How many stanzas of a session began in what it was sent, some of them with another one inside.
fn copies_in(text: &str) -> usize {
    stanzas(text) - text.matches("<forwarded ").count()
}

fn number(n: usize) -> String {
    format!("<body>{n}</body>")
}

// ---- How it was made ---------------------------------------------------------------------------

/// Alice, who fills all those logs, and what is remembered meanwhile.
struct Maker<'a> {
    server: &'a Server,
    alice: Client,
    sent: usize,
    notes: Notes,
}

impl Maker<'_> {
    fn say(&mut self, to: &str, numbers: Range<usize>) {
        self.sent += numbers.len();
        for n in numbers {
            self.alice.say(to, &n.to_string());
        }
        self.alice.expect_accepted(self.sent);
    }

    /// A client reads up to one number, which it says that it has handled when it resumes, and then
    /// the rest; its link is lost.
    fn read(
        &mut self,
        session: &str,
        (mut client, token): (Client, String),
        has: usize,
        to: usize,
    ) {
        let handled = stanzas(&client.expect(&number(has)));
        client.expect(&number(to));
        self.notes.note(session, &token, handled);
    }

    /// What nobody is there for, or nobody has acknowledged.
    fn fill_waiting(&mut self) {
        let (user, all) = WAITING;
        self.say(user, 0..all);

        let (user, all) = REQUEUED;
        let (mut client, _) = managed(self.server, user);
        self.say(user, 0..all - 2);
        client.expect(&number(all - 3));
        client.acknowledge(2);
        client.send("</stream:stream>");
        client.rest();
        self.say(user, all - 2..all);
    }

    /// What sessions were given in pages, after it had waited.
    fn fill_pages(&mut self) {
        let (user, all) = LISTED;
        self.say(user, 0..all);
        let client = managed_at_once(self.server, user, "r");
        self.read(user, client, 3, all - 1);

        let (user, all) = LATE;
        self.say(user, 0..all);
        let client = managed_at_once(self.server, user, "r");
        self.read(user, client, 4, UNACKED_MAX - 1);
    }

    /// What sessions left to the log because they were behind.
    fn fill_spilled(&mut self) {
        let (user, all) = SPILLED;
        let (mut client, token) = managed(self.server, user);
        self.say(user, 0..all);
        let handled = stanzas(&client.expect(&number(6)));
        client.expect(&number(UNACKED_MAX - 1));
        client.acknowledge(4);
        client.sync();
        self.notes.note(user, &token, handled);

        let (user, all) = ESTATES;
        let mut clients = ["one", "two"].map(|resource| {
            let mut client = Client::online(self.server.plain, user, resource);
            enable(&mut client);
            client
        });
        self.say(user, 0..all);
        for client in &mut clients {
            client.expect(&number(UNACKED_MAX - 1));
        }
        for mut client in clients {
            client.send("</stream:stream>");
            client.rest();
        }
    }

    /// What two sessions have, of which one has acknowledged some.
    fn fill_shared(&mut self) {
        let (user, all) = SHARED;
        let mut clients = ["one", "two"].map(|resource| {
            let mut client = Client::online(self.server.plain, user, resource);
            let token = enable(&mut client);
            (client, token, resource)
        });
        self.say(user, 0..all);
        for (client, token, resource) in &mut clients {
            // The first has four, and has acknowledged three.
            let mut handled = stanzas(&client.expect(&number(3)));
            client.expect(&number(all - 1));
            match *resource {
                "one" => client.acknowledge(handled - 1),
                _ => handled = 0,
            }
            client.sync();
            self.notes
                .note(&format!("{user}/{resource}"), token, handled);
        }
    }
}

/// Messages that were accepted and that their recipient's home does not take.
fn fill_stuck(server: &Server, notes: &mut Notes) {
    let (user, all) = STUCK;
    for _ in 0..CRASHES {
        let mut client = Client::online(server.plain, user, "r");
        client.say("alice", PANIC);
        client.rest();
    }
    let (mut frank, token) = managed(server, "frank");
    for n in 0..all {
        frank.say(user, &n.to_string());
    }
    frank.expect_accepted(all);
    notes.note("frank", &token, 0);
}

#[test]
#[ignore = "makes the folder that the others open"]
fn make_the_folder() {
    let binary = std::env::var_os("ROOST_EARLIER").expect("ROOST_EARLIER");
    let target = std::env::var("ROOST_EARLIER_FOLDER").expect("ROOST_EARLIER_FOLDER");
    let mut place = Place::of(binary);
    place.set("delivery.unacked_max", &UNACKED_MAX.to_string());
    place.set("delivery.resume_timeout", "\"1d\"");
    place.set("debug.panic_hook", &format!("{PANIC:?}"));
    place.add(&["alice", "frank", STUCK.0]);
    place.add(&HEARERS.map(|(user, _)| user));
    let server = place.serve();
    let (alice, token) = managed(&server, "alice");
    // Another device of hers gets copies, and is behind with them.
    let mut copies = Client::online(server.plain, "alice", "copies");
    copies.send("<iq type='set' id='c'><enable xmlns='urn:xmpp:carbons:2'/></iq>");
    copies.expect("id='c'");
    let copies_token = enable(&mut copies);
    let mut maker = Maker {
        server: &server,
        alice,
        sent: 0,
        notes: Notes::default(),
    };
    maker.fill_waiting();
    maker.fill_pages();
    maker.fill_spilled();
    maker.fill_shared();
    let Maker {
        mut notes,
        sent,
        alice,
        ..
    } = maker;
    notes.note("alice", &token, 0);
    notes.note("sent", "-", sent);
    let handled = copies_in(&copies.expect(&number(2)));
    notes.note("copies", &copies_token, handled);
    fill_stuck(&server, &mut notes);
    drop((alice, copies));
    // Cursors that moved are recorded within a second or two.
    thread::sleep(Duration::from_secs(4));
    server.kill();
    notes.write(&place.path("notes.txt"));
    // The next server makes keys of its own.
    tar(&["-czf", &target, "notes.txt", "data/store"], &place);
}

// ---- What comes of it --------------------------------------------------------------------------

/// A copy of it, and a server of today there.
fn opened(settings: &[(&str, &str)]) -> (Place, Server, Notes) {
    let mut place = Place::new();
    for (key, value) in settings {
        place.set(key, value);
    }
    tar(&["-xzf", FOLDER], &place);
    let notes = Notes::read(&place.path("notes.txt"));
    let server = place.serve();
    (place, server, notes)
}

/// Clients of users whose logs hold something, each with its session's name, what it got, and how
/// many stanzas of its session it has handled.
struct Reader {
    user: &'static str,
    token: String,
    handled: usize,
}

/// Resumes a session and reads and acknowledges everything up to `end`; begins with `first`.
fn resumes(
    server: &Server,
    notes: &Notes,
    (user, session): (&'static str, &str),
    expected: Range<usize>,
) -> Reader {
    let (token, mut handled) = notes.0.get(session).expect("a note").clone();
    let mut client = resume(server, user, &token, handled);
    let got = read(&mut client, &mut handled, expected.end);
    assert_eq!(got, expected.collect::<Vec<_>>(), "{session}");
    Reader {
        user,
        token,
        handled,
    }
}

/// Logs in and reads and acknowledges everything that waits.
fn logs_in(server: &Server, user: &'static str, expected: Range<usize>) -> Reader {
    let (mut client, token) = managed_at_once(server, user, "new");
    let mut handled = 0;
    let got = read(&mut client, &mut handled, expected.end);
    assert_eq!(got, expected.collect::<Vec<_>>(), "{user}");
    Reader {
        user,
        token,
        handled,
    }
}

/// Reads up to a number, and then what else there is; acknowledges it all.
fn read(client: &mut Client, handled: &mut usize, end: usize) -> Vec<usize> {
    let (mut got, handled_now) = follow(client, *handled, end);
    *handled = handled_now;
    let more = client.sync();
    got.extend(bodies(&more));
    *handled += stanzas(&more);
    // The answer ends behind what was looked for.
    client.acknowledge(*handled);
    client.sync();
    *handled += 1;
    client.acknowledge(*handled);
    got
}

/// Everything that the folder's users were owed, with a server of these settings.
fn everything_comes_once(settings: &[(&str, &str)]) {
    let (place, server, notes) = opened(settings);
    let all = |(user, all): (&'static str, usize)| (user, 0..all);
    let mut readers = Vec::new();
    for (user, expected) in [all(WAITING), all(ESTATES), (REQUEUED.0, 2..REQUEUED.1)] {
        readers.push(logs_in(&server, user, expected));
    }
    for (user, session, expected) in [
        (LISTED.0, LISTED.0, 4..LISTED.1),
        (SPILLED.0, SPILLED.0, 7..SPILLED.1),
        (LATE.0, LATE.0, 5..LATE.1),
        (SHARED.0, "shared/one", 4..SHARED.1),
        (SHARED.0, "shared/two", 0..SHARED.1),
    ] {
        readers.push(resumes(&server, &notes, (user, session), expected));
    }
    owed_nothing(&server, STUCK.0);
    senders_go_on(&server, &notes);
    // What they have now they are not given again.
    server.kill();
    let server = place.serve();
    for reader in readers {
        let mut client = resume(&server, reader.user, &reader.token, reader.handled);
        let text = client.sync();
        assert!(bodies(&text).is_empty(), "{}: {text}", reader.user);
    }
    server.stop();
}

/// Logs in, and nothing waits.
fn owed_nothing(server: &Server, user: &str) {
    let (mut client, _) = managed_at_once(server, user, "new");
    let text = client.sync();
    assert!(bodies(&text).is_empty(), "{user}: {text}");
}

/// Sessions that sent messages hear how many were accepted, and see what others of their user sent.
fn senders_go_on(server: &Server, notes: &Notes) {
    let (_, sent) = notes.0["sent"];
    let (token, handled) = &notes.0["alice"];
    let mut alice = resume(server, "alice", token, *handled);
    alice.expect_accepted(sent);
    let (token, _) = &notes.0["frank"];
    let mut frank = resume(server, "frank", token, 0);
    // The folder is older than messages are handed over (`OutboxLimits::recognised_for`, 6 days):
    // what his recipient did not take comes back.
    for n in 0..STUCK.1 {
        let back = frank.expect("</message>");
        let is_it = back.contains("type='error'") && back.contains(&format!("id='{n}'"));
        assert!(is_it, "{n}: {back}");
    }
    frank.expect_accepted(STUCK.1);

    let (token, handled) = &notes.0["copies"];
    let mut copies = resume(server, "alice", token, *handled);
    let sent = sent_bodies();
    let mut got: Vec<usize> = Vec::new();
    let mut handled = *handled;
    while got.len() < sent.len() - 3 {
        let text = copies.expect("</sent></message>");
        got.extend(bodies(&text));
        handled += copies_in(&text);
        copies.acknowledge(handled);
    }
    assert_eq!(got, sent[3..]);
}

/// The numbers that Alice sent, in order.
fn sent_bodies() -> Vec<usize> {
    // The order of [`Maker`].
    let order = [WAITING, REQUEUED, LISTED, LATE, SPILLED, ESTATES, SHARED];
    order.iter().flat_map(|(_, all)| 0..*all).collect()
}

#[test]
fn everything_of_an_earlier_version_comes_once_and_in_order() {
    everything_comes_once(&[("delivery.unacked_max", "10")]);
}

#[test]
fn it_does_with_other_bounds() {
    everything_comes_once(&[("server.shards", "3")]);
}
