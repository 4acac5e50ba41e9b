//! People of these tests: a client with stream management (XEP-0198) that goes where it is sent
//! (`see-other-host`, RFC 6120 section 4.9.3.19), and comes back after a lost link, at any node.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use testkit::client::{Address, Client, Got, Identity};
use testkit::scram::Login;
use testkit::transport::Kind;
use testkit::tree::Element;

use crate::nodes::{Nodes, PASSWORD};

const SM: &str = "urn:xmpp:sm:3";
const MAM: &str = "urn:xmpp:mam:2";
const RSM: &str = "http://jabber.org/protocol/rsm";
/// A page of the archive that has all of it.
pub(crate) const ARCHIVE: usize = 200;
/// As long as a machine that has much else to do may take for a take-over.
const PATIENCE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(20);
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
    /// Where to come back to if the stream ends, as it does when the account's home moves.
    refuge: SocketAddr,
}

/// Where a refusal sends a client.
fn other_host(refusal: &str) -> Option<SocketAddr> {
    let (_, rest) = refusal.split_once("see-other-host")?;
    let at = rest.find("127.0.0.1:")?;
    let address: String = rest[at..]
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ':'))
        .collect();
    address.parse().ok()
}

fn place(address: SocketAddr) -> Address {
    Address {
        plain: address,
        tls: address,
        web: address,
        web_tls: address,
    }
}

/// A stream on which the client has authenticated, at whatever node that is.
fn authenticated(name: &str, mut at: SocketAddr) -> Result<Client, String> {
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
    for _ in 0..3 {
        let mut client = Client::open(place(at), Kind::Tcp, "localhost", ANSWER)?;
        let features = client.open_stream(Kind::Tcp, "localhost")?;
        match client.authenticate(&identity, &features) {
            Ok(Ok(())) => {
                client.send_header("localhost")?;
                client.expect_features()?;
                return Ok(client);
            }
            Ok(Err(condition)) => return Err(condition),
            Err(refusal) => at = other_host(&refusal).ok_or(refusal)?,
        }
    }
    Err("sent on and on".to_owned())
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
    /// Logs in at a node, or where that sends, and goes online.
    pub(crate) fn online(nodes: &mut Nodes, name: &str, node: &str) -> Person {
        let at = nodes.clients(node);
        let (mut client, session) = patiently(name, || {
            let mut client = authenticated(name, at)?;
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
            refuge: at,
        };
        person.await_accepted();
        person
    }

    /// Comes back to its session, at this node or where that sends, and sends again what was not
    /// acknowledged.
    pub(crate) fn resume(&mut self, nodes: &mut Nodes, node: &str) {
        // What came before the link was lost.
        while self
            .take_next(Duration::from_millis(100))
            .is_ok_and(|came| came)
        {}
        self.refuge = nodes.clients(node);
        self.come_back();
        self.await_accepted();
    }

    fn come_back(&mut self) {
        self.client.drop_link();
        let at = self.refuge;
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
        self.take_next(wait).unwrap_or_else(|_| {
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
        if element.is(SM, "a") {
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
        while self.listen(Duration::from_millis(300)) {}
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
