//! People of these tests: a client with stream management (XEP-0198) that is served by the node it
//! came to, whoever's home that is, and comes back after a lost link, at any node.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use testkit::client::{Address, Client, Got, Identity};
use testkit::scram::Login;
use testkit::transport::Kind;
use testkit::tree::Element;

use crate::nodes::{Nodes, PASSWORD};

const SM: &str = "urn:xmpp:sm:3";
const STREAMS: &str = "http://etherx.jabber.org/streams";
const MAM: &str = "urn:xmpp:mam:2";
const RSM: &str = "http://jabber.org/protocol/rsm";
/// A page of the archive that has all of it.
pub(crate) const ARCHIVE: usize = 200;
/// As long as a machine that has much else to do may take for a take-over.
const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const ANSWER: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Person {
    name: String,
    client: Client,
    session: String,
    /// Stanzas of ours that were not acknowledged, the oldest first, and how many were.
    unacked: VecDeque<String>,
    acked: u32,
    /// Stanzas that we have.
    handled: u32,
    /// Bodies of messages, by sender, that nobody looked at.
    heard: VecDeque<(String, String)>,
    last_id: u32,
    /// Results of the archive that came, and the request that was answered last.
    results: usize,
    answered: String,
    answer: String,
    /// Where to come back to if the stream ends, as it does when the account's home moves.
    refuge: Address,
    kind: Kind,
    /// How the stream ended each time that the session was taken up again.
    ends: Vec<String>,
}

/// A client without stream management that is online and reads nothing.
pub(crate) fn deaf(nodes: &mut Nodes, name: &str, node: &str) -> Client {
    let at = (nodes.node(node).address(), Kind::Tcp);
    let mut client = patiently(name, || {
        let mut client = authenticated(name, at)?;
        client.bind(Some("phone"))?;
        Ok(client)
    });
    client.send(b"<presence/>").unwrap();
    client.sync().unwrap();
    client
}

/// Has the actor of an account crash so often that it is set aside, by what its own clients say.
pub(crate) fn set_aside(nodes: &mut Nodes, name: &str, node: &str, crash: &str) {
    let at = (nodes.node(node).address(), Kind::Tcp);
    for _ in 0..6 {
        let mut client = patiently(name, || authenticated(name, at));
        let said = format!(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>\
             <message to='nobody@localhost'><body>{crash}</body></message>"
        );
        client.send(said.as_bytes()).unwrap();
        while client
            .next(ANSWER)
            .is_ok_and(|got| matches!(got, Got::Element(_)))
        {}
    }
}

/// A stream on which the client has authenticated, at the node that it came to.
fn authenticated(name: &str, (at, kind): (Address, Kind)) -> Result<Client, String> {
    let identity = Identity {
        login: Login {
            user: name.to_owned(),
            password: PASSWORD.to_owned(),
            authzid: None,
        },
        domain: "localhost".to_owned(),
        resource: Some("phone".to_owned()),
        mechanism: Some("SCRAM-SHA-256".to_owned()),
    };
    let mut client = Client::open(at, kind, "localhost", ANSWER)?;
    let features = client.open_stream(kind, "localhost")?;
    client.authenticate(&identity, &features)??;
    client.send_header("localhost")?;
    client.expect_features()?;
    Ok(client)
}

/// How long a client waits at a node, as soon as that listens, until it is authenticated and its
/// stream has begun anew, or it is told why not.
pub(crate) fn wait_for_word(name: &str, at: Address) -> Duration {
    let begun = Instant::now();
    loop {
        let started = Instant::now();
        match authenticated(name, (at, Kind::Tcp)) {
            Err(why) if why.contains("refused") && begun.elapsed() < PATIENCE => {
                thread::sleep(Duration::from_millis(5));
            }
            // Whatever it is: it may come again.
            _ => return started.elapsed(),
        }
    }
}

/// Tries until it is so.
fn patiently<T>(what: &str, mut attempt: impl FnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(why) => assert!(started.elapsed() < PATIENCE, "{what}: {why}"),
        }
        thread::sleep(PAUSE);
    }
}

impl Person {
    /// Logs in at a node and goes online.
    pub(crate) fn online(nodes: &mut Nodes, name: &str, node: &str) -> Person {
        Person::online_over(nodes, name, (node, Kind::Tcp))
    }

    /// The same over another transport.
    pub(crate) fn online_over(nodes: &mut Nodes, name: &str, (node, kind): (&str, Kind)) -> Person {
        let at = nodes.node(node).address();
        let (mut client, session) = patiently(name, || {
            let mut client = authenticated(name, (at, kind))?;
            client.bind(Some("phone"))?;
            client.send(format!("<enable xmlns='{SM}' resume='true'/>").as_bytes())?;
            let enabled = client.expect_element()?;
            let session = enabled.attr("id").ok_or("no id")?.to_owned();
            Ok((client, session))
        });
        client.send(b"<presence/>").unwrap();
        let mut person = Person {
            name: name.to_owned(),
            client,
            session,
            unacked: VecDeque::from(["<presence/>".to_owned()]),
            acked: 0,
            handled: 0,
            heard: VecDeque::new(),
            last_id: 0,
            results: 0,
            answered: String::new(),
            answer: String::new(),
            refuge: at,
            kind,
            ends: Vec::new(),
        };
        person.await_accepted();
        person
    }

    /// Comes back to its session at this node, and sends again what was not acknowledged.
    pub(crate) fn resume(&mut self, nodes: &mut Nodes, node: &str) {
        // What came before the link was lost.
        let began = Instant::now();
        while self
            .take_next(Duration::from_millis(100))
            .is_ok_and(|came| came)
        {
            assert!(began.elapsed() < PATIENCE, "it hears more and more");
        }
        self.refuge = nodes.node(node).address();
        self.come_back();
        self.await_accepted();
    }

    /// Its stream never ended. If it did, what the servers wrote says why.
    pub(crate) fn has_stayed(&self, log: &str) {
        let ends = self.ends.join("\n\n");
        assert!(ends.is_empty(), "a stream ended: {ends}\n\n{log}");
    }

    fn come_back(&mut self) {
        self.client.drop_link();
        let at = (self.refuge, self.kind);
        let (name, session, handled) = (self.name.clone(), self.session.clone(), self.handled);
        let resume = format!("<resume xmlns='{SM}' previd='{session}' h='{handled}'/>");
        let (client, answer) = patiently("resumption", || {
            let mut client = authenticated(&name, at)?;
            client.send(resume.as_bytes())?;
            let answer = client.expect_element()?;
            match answer.is(SM, "resumed") {
                true => Ok((client, answer)),
                false => Err(format!("{answer}")),
            }
        });
        self.client = client;
        self.acknowledged(&answer);
        for stanza in self.unacked.clone() {
            self.client.send(stanza.as_bytes()).unwrap();
        }
    }

    fn acknowledged(&mut self, answer: &Element) {
        let h: u32 = answer.attr("h").unwrap().parse().unwrap();
        while self.acked < h {
            self.unacked
                .pop_front()
                .expect("more is acknowledged than was sent");
            self.acked += 1;
        }
    }

    fn send(&mut self, stanza: String) {
        self.client.send(stanza.as_bytes()).unwrap();
        self.unacked.push_back(stanza);
    }

    pub(crate) fn say(&mut self, to: &str, body: &str) {
        self.last_id += 1;
        let id = self.last_id;
        self.send(format!(
            "<message to='{to}@localhost' type='chat' id='m{id}'><body>{body}</body></message>"
        ));
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Enters a room, which it makes if there is none.
    pub(crate) fn enter(&mut self, room: &str) {
        let nick = self.name.clone();
        self.send(format!(
            "<presence to='{room}@conference.localhost/{nick}'>\
             <x xmlns='http://jabber.org/protocol/muc'/></presence>"
        ));
        self.await_accepted();
    }

    /// Lets others into a room that it made.
    pub(crate) fn open_room(&mut self, room: &str) {
        let form = "<query xmlns='http://jabber.org/protocol/muc#owner'>\
                    <x xmlns='jabber:x:data' type='submit'/></query>";
        self.ask("set", &format!("{room}@conference.localhost"), form);
    }

    /// Asks somebody, or the server for its own account. The answer as it came.
    pub(crate) fn ask(&mut self, kind: &str, to: &str, payload: &str) -> String {
        self.last_id += 1;
        let id = format!("q{}", self.last_id);
        let to = match to.is_empty() {
            true => String::new(),
            false => format!(" to='{to}'"),
        };
        self.send(format!("<iq type='{kind}' id='{id}'{to}>{payload}</iq>"));
        let started = Instant::now();
        while self.answered != id {
            self.listen(PAUSE);
            assert!(started.elapsed() < PATIENCE, "no answer to {payload}");
        }
        self.await_accepted();
        self.answer.clone()
    }

    /// Says something long to one device that nobody keeps.
    pub(crate) fn shout(&mut self, to: &str, bytes: usize) {
        let body = "x".repeat(bytes);
        self.send(format!(
            "<message to='{to}@localhost/phone' type='headline'><body>{body}</body></message>"
        ));
    }

    /// Says something to everybody in a room.
    pub(crate) fn say_in(&mut self, room: &str, body: &str) {
        self.last_id += 1;
        let id = self.last_id;
        self.send(format!(
            "<message to='{room}@conference.localhost' type='groupchat' id='m{id}'>\
             <body>{body}</body></message>"
        ));
    }

    /// The stream ends with this error: it does not come back by itself.
    pub(crate) fn expect_end(&mut self, error: &str) {
        let started = Instant::now();
        loop {
            match self.take_next(Duration::from_millis(500)) {
                Ok(_) => assert!(started.elapsed() < PATIENCE, "the stream goes on"),
                Err(why) => {
                    assert!(why.contains(error), "{why}");
                    return;
                }
            }
        }
    }

    /// Waits until the server has accepted everything that was said.
    pub(crate) fn await_accepted(&mut self) {
        let started = Instant::now();
        while !self.unacked.is_empty() {
            // A link that is gone is noticed by who listens.
            let _ = self.client.send(format!("<r xmlns='{SM}'/>").as_bytes());
            self.listen(Duration::from_millis(500));
            assert!(
                started.elapsed() < PATIENCE,
                "not accepted: {:?}\n{}",
                self.unacked,
                self.client.transcript()
            );
        }
    }

    /// Takes what comes, for a while. Whether something did. A stream that ends is taken up again.
    fn listen(&mut self, wait: Duration) -> bool {
        self.take_next(wait).unwrap_or_else(|why| {
            self.ends.push(why);
            self.come_back();
            true
        })
    }

    fn take_next(&mut self, wait: Duration) -> Result<bool, String> {
        match self.client.next(wait)? {
            Got::Element(element) => {
                self.take(&element)?;
                Ok(true)
            }
            Got::Nothing => Ok(false),
            other => Err(format!("{other:?}\n{}", self.client.transcript())),
        }
    }

    fn take(&mut self, element: &Element) -> Result<(), String> {
        if element.is(STREAMS, "error") {
            // No stanza: what follows is the end.
        } else if element.is(SM, "a") {
            self.acknowledged(element);
        } else if element.is(SM, "r") {
            let answer = format!("<a xmlns='{SM}' h='{}'/>", self.handled);
            self.client.send(answer.as_bytes())?;
        } else {
            self.handled += 1;
            let body = element.children().find(|child| child.name == "body");
            let from = element.attr("from").unwrap_or_default();
            assert!(
                element.attr("type") != Some("error"),
                "an error came\n{element}"
            );
            self.results += usize::from(element.child(MAM, "result").is_some());
            if element.name == "iq" {
                element
                    .attr("id")
                    .unwrap_or_default()
                    .clone_into(&mut self.answered);
                self.answer = element.to_string();
            }
            if let Some(body) = body {
                let from = from.split('@').next().unwrap_or_default().to_owned();
                self.heard.push_back((from, body.text()));
            }
        }
        Ok(())
    }

    /// Hears exactly this, in order, and nothing else for a moment.
    pub(crate) fn expect_bodies(&mut self, from: &str, bodies: impl IntoIterator<Item = String>) {
        let expected: Vec<(String, String)> = bodies
            .into_iter()
            .map(|body| (from.to_owned(), body))
            .collect();
        let started = Instant::now();
        while self.heard.len() < expected.len() {
            self.listen(Duration::from_millis(500));
            assert!(
                started.elapsed() < PATIENCE,
                "{} heard only {:?}\n{}",
                self.name,
                self.heard,
                self.client.transcript()
            );
        }
        while self.listen(Duration::from_millis(300)) {
            assert!(started.elapsed() < 2 * PATIENCE, "it hears more and more");
        }
        let heard: Vec<_> = self.heard.drain(..).collect();
        assert_eq!(heard, expected, "{}", self.client.transcript());
    }

    /// Messages in its archive, of which a page of at most so many is read.
    pub(crate) fn archived(&mut self, max: usize) -> usize {
        self.last_id += 1;
        let id = format!("archive{}", self.last_id);
        self.send(format!(
            "<iq type='set' id='{id}'><query xmlns='{MAM}'><set xmlns='{RSM}'><max>{max}</max>\
             </set></query></iq>"
        ));
        self.results = 0;
        let started = Instant::now();
        while self.answered != id {
            self.listen(PAUSE);
            assert!(started.elapsed() < PATIENCE, "no archive");
        }
        self.await_accepted();
        self.results
    }
}
