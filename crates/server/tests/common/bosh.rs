//! A client over BOSH (XEP-0124) whose every request has a connection of its own, to whichever node
//! is its turn.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::PATIENCE;

/// A new stream (XEP-0206 section 5).
const RESTART: &str = "to='localhost' xmlns:xmpp='urn:xmpp:xbosh' xmpp:restart='true'";

/// A request that was sent.
pub(crate) struct Post(TcpStream);

/// Sends a request.
pub(crate) fn post(to: SocketAddr, body: &str) -> Post {
    let mut socket = TcpStream::connect(to).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!("POST /http-bind HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all((head + body).as_bytes()).unwrap();
    Post(socket)
}

impl Post {
    /// The head and the body of its answer; nothing if the connection was closed without.
    pub(crate) fn whole(&mut self) -> Option<(String, String)> {
        let mut seen = String::new();
        let mut buffer = [0; 65_536];
        loop {
            if let Some((head, body)) = seen.split_once("\r\n\r\n") {
                let length = head.split("Content-Length: ").nth(1).unwrap();
                let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
                if body.len() >= length {
                    return Some((head.to_owned(), body.to_owned()));
                }
            }
            match self.0.read(&mut buffer) {
                Ok(0) | Err(_) if seen.is_empty() => return None,
                Ok(0) => panic!("closed in the middle of {seen}"),
                Ok(read) => seen.push_str(&String::from_utf8_lossy(&buffer[..read])),
                Err(error) => panic!("{error} after {seen}"),
            }
        }
    }

    /// The body of its answer.
    pub(crate) fn answer(mut self) -> String {
        self.whole().expect("an answer").1
    }

    /// The connection is closed without an answer.
    pub(crate) fn goes_unanswered(mut self) {
        let socket = &mut self.0;
        let read = socket.read(&mut [0; 1]);
        // Closed, or reset; but not silent.
        let is_closed = match &read {
            Ok(read) => *read == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(is_closed, "{read:?}");
    }
}

/// A session.
pub(crate) struct Session {
    pub(crate) sid: String,
    pub(crate) rid: u64,
    /// Where its requests go, in turn.
    pub(crate) nodes: Vec<SocketAddr>,
    next: usize,
}

impl Session {
    /// Asks for one at the first of the nodes.
    pub(crate) fn open(nodes: &[SocketAddr], more: &str) -> Session {
        let mut session = Session {
            sid: String::new(),
            rid: 1_000,
            nodes: nodes.to_vec(),
            next: 0,
        };
        let body = format!(
            "<body xmlns='http://jabber.org/protocol/httpbind' rid='1000' to='localhost' \
             ver='1.11' xmlns:xmpp='urn:xmpp:xbosh' xmpp:version='1.0' {more}/>"
        );
        let answer = post(session.turn(), &body).answer();
        assert!(answer.contains("<mechanisms"), "{answer}");
        session.sid = between(&answer, "sid='", "'");
        session
    }

    /// One that is bound, and available.
    pub(crate) fn login(nodes: &[SocketAddr], user: &str, more: &str) -> Session {
        let mut session = Session::open(nodes, more);
        session.log_in(user);
        session
    }

    pub(crate) fn log_in(&mut self, user: &str) {
        let auth = super::auth((user, "secret"));
        assert!(self.ask("", &auth).contains("<success"));
        let features = self.ask(RESTART, "");
        assert!(features.contains("<bind "), "{features}");
        let bind = "<iq type='set' id='bind' xmlns='jabber:client'>\
             <bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'><resource>web</resource></bind></iq>";
        let bound = self.ask("", bind);
        assert!(
            bound.contains(&format!("{user}@localhost/web</jid>")),
            "{bound}"
        );
        let there = self.ask("", "<presence xmlns='jabber:client'/>");
        assert!(there.contains("<presence "), "{there}");
    }

    /// Whose turn it is.
    pub(crate) fn turn(&mut self) -> SocketAddr {
        let node = self.nodes[self.next % self.nodes.len()];
        self.next += 1;
        node
    }

    /// The body of a request.
    pub(crate) fn body(&self, rid: u64, more: &str, payload: &str) -> String {
        let sid = &self.sid;
        format!(
            "<body xmlns='http://jabber.org/protocol/httpbind' rid='{rid}' sid='{sid}' {more}>\
             {payload}</body>"
        )
    }

    /// The next request, to the node whose turn it is.
    pub(crate) fn send(&mut self, more: &str, payload: &str) -> Post {
        self.rid += 1;
        let body = self.body(self.rid, more, payload);
        post(self.turn(), &body)
    }

    /// The last request once more, to the node whose turn it is.
    pub(crate) fn again(&mut self, more: &str, payload: &str) -> Post {
        let body = self.body(self.rid, more, payload);
        post(self.turn(), &body)
    }

    /// The next request, and its answer.
    pub(crate) fn ask(&mut self, more: &str, payload: &str) -> String {
        self.send(more, payload).answer()
    }

    /// Asks for nothing until this has come.
    pub(crate) fn expect(&mut self, wanted: &str) -> String {
        let mut seen = String::new();
        let started = Instant::now();
        while !seen.contains(wanted) {
            assert!(started.elapsed() < PATIENCE, "no {wanted} in {seen}");
            let answer = self.ask("", "");
            assert!(
                !answer.contains("terminate"),
                "no {wanted} in {seen}{answer}"
            );
            seen.push_str(&answer);
        }
        seen
    }
}

/// What stands between two words.
pub(crate) fn between(text: &str, before: &str, after: &str) -> String {
    let rest = text.split(before).nth(1);
    let rest = rest.unwrap_or_else(|| panic!("no {before} in {text}"));
    rest.split(after).next().unwrap().to_owned()
}
