//! Sessions over BOSH in front of which no balancer is sticky: their requests come to any node.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use testkit::roost::Settings;

use crate::nodes::{Nodes, PASSWORD};
use crate::person::Person;

/// As long as a machine that has much else to do may take for what must happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is certain to be under way is so by then.
const MOMENT: Duration = Duration::from_millis(300);

const XBOSH: &str = "xmlns:xmpp='urn:xmpp:xbosh'";
const GONE: &str = "condition='item-not-found'";

/// A session whose every request has a connection of its own, to the next of some nodes.
struct Session {
    sid: String,
    rid: u64,
    nodes: Vec<SocketAddr>,
    next: usize,
}

/// The answer to a request; nothing if its connection was closed without.
fn answer(mut socket: TcpStream) -> Option<String> {
    let mut seen = Vec::new();
    // Reset counts as closed; a silence of so long does not.
    match socket.read_to_end(&mut seen) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("no answer"),
        Ok(_) | Err(_) => {}
    }
    let text = String::from_utf8(seen).unwrap();
    let (head, body) = text.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    Some(body.to_owned())
}

impl Session {
    fn login(nodes: &[SocketAddr], user: &str) -> Session {
        let mut session = Session {
            sid: String::new(),
            rid: 1,
            nodes: nodes.to_vec(),
            next: 0,
        };
        let asks = format!("to='localhost' ver='1.11' hold='1' wait='30' {XBOSH}");
        let first = session.ask(&format!("{asks} xmpp:version='1.0'"), "");
        let sid = first.split("sid='").nth(1).expect("a session");
        session.sid = sid.split('\'').next().unwrap().to_owned();
        let token = STANDARD.encode(format!("\0{user}\0{PASSWORD}"));
        let sasl = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'";
        let success = session.ask("", &format!("<auth {sasl}>{token}</auth>"));
        assert!(success.contains("<success"), "{success}");
        session.ask(&format!("to='localhost' {XBOSH} xmpp:restart='true'"), "");
        let bind = "<iq xmlns='jabber:client' type='set' id='b'>\
                    <bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
        let bound = session.ask("", bind);
        assert!(bound.contains("<jid>"), "{bound}");
        session.ask("", "<presence xmlns='jabber:client'/>");
        session
    }

    /// The last request, at the next node: its connection.
    fn again(&mut self, more: &str, payload: &str) -> TcpStream {
        let node = self.nodes[self.next % self.nodes.len()];
        self.next += 1;
        let (rid, sid) = (self.rid, &self.sid);
        let sid = match sid.is_empty() {
            true => String::new(),
            false => format!("sid='{sid}'"),
        };
        let body = format!(
            "<body xmlns='http://jabber.org/protocol/httpbind' rid='{rid}' {sid} {more}>\
             {payload}</body>"
        );
        let mut socket = TcpStream::connect(node).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let length = body.len();
        let request = format!(
            "POST /http-bind HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).unwrap();
        socket
    }

    fn send(&mut self, more: &str, payload: &str) -> TcpStream {
        self.rid += 1;
        self.again(more, payload)
    }

    fn ask(&mut self, more: &str, payload: &str) -> String {
        answer(self.send(more, payload)).expect("an answer")
    }

    /// Asks until this has come.
    fn expect(&mut self, wanted: &str) -> String {
        let mut seen = String::new();
        let started = Instant::now();
        while !seen.contains(wanted) {
            assert!(started.elapsed() < PATIENCE, "no {wanted}: {seen}");
            let more = self.ask("", "");
            assert!(!more.contains("terminate"), "no {wanted}: {seen}{more}");
            seen.push_str(&more);
        }
        seen
    }
}

/// A figure of all shards of a node.
fn sum(nodes: &Nodes, name: &str, figure: &str) -> f64 {
    let (_, page) = nodes.page(name, "/metrics").expect("figures");
    let of_shards = page.lines().filter_map(|line| {
        let labels = line.strip_prefix(figure)?.strip_prefix('{')?;
        labels.rsplit_once(' ')?.1.parse::<f64>().ok()
    });
    of_shards.sum()
}

fn says(to: &str, body: &str) -> String {
    let message = "<message xmlns='jabber:client' type='chat'";
    format!("{message} to='{to}@localhost'><body>{body}</body></message>")
}

/// Goal: one session, whose every request goes to the next of three nodes: login, restart, messages
/// both ways, a pause, requests made again at another node, the end. The node of another one is
/// killed while a request waits at another node: that is closed without an answer, made again it is
/// told that there is no such session, and its client comes again, at the nodes that are left.
#[test]
fn requests_of_a_session_come_to_any_node() {
    // Homes that are evened out would end sessions whose stream does not outlive it.
    let settings = |name: &str| {
        let weight = if name == "a" { "100" } else { "0" };
        Settings::from([
            ("auth.plain_without_tls".to_owned(), "true".to_owned()),
            ("cluster.weight".to_owned(), weight.to_owned()),
        ])
    };
    let mut nodes = Nodes::prepare_with(&["a", "b", "c"], settings);
    nodes.create();
    for name in ["a", "b", "c"] {
        nodes.begin(name);
    }
    nodes.await_homes();
    let home = nodes.add("alice");
    let bobs = nodes.add_at(&home, "bob");
    let owner = nodes.other(&[&home]);
    let third = nodes.other(&[&home, &owner]);
    let [at_owner, at_home, at_third] =
        [&owner, &home, &third].map(|name| nodes.node(name).address().web);
    let mut bob = Person::online(&mut nodes, &bobs, &home);

    let mut alice = Session::login(&[at_owner, at_home, at_third], "alice");
    for n in 0..9 {
        let held = alice.send("", &says(&bobs, &format!("to bob {n}")));
        bob.expect_bodies("alice", [format!("to bob {n}")]);
        bob.say("alice", &format!("to alice {n}"));
        bob.await_accepted();
        let mut heard = answer(held).expect("an answer");
        let wanted = format!("<body>to alice {n}</body>");
        assert!(!heard.contains("terminate"), "{heard}");
        if !heard.contains(&wanted) {
            heard.push_str(&alice.expect(&wanted));
        }
        assert_eq!(heard.matches("<body>").count(), 1, "{heard}");
    }
    let paused = alice.ask("pause='30'", "");
    assert!(!paused.contains("terminate"), "{paused}");
    bob.say("alice", "after the pause");
    alice.expect("<body>after the pause</body>");
    // Held at one node, made again at the next one.
    let payload = says(&bobs, "once");
    let first = alice.send("", &payload);
    bob.expect_bodies("alice", ["once".to_owned()]);
    let second = alice.again("", &payload);
    assert_eq!(answer(first), None);
    bob.say("alice", "to the second");
    let heard = answer(second).expect("an answer");
    assert!(heard.contains("<body>to the second</body>"), "{heard}");
    for _ in 0..3 {
        assert_eq!(answer(alice.again("", &payload)).as_ref(), Some(&heard));
    }
    let end = alice.ask("type='terminate'", &says(&bobs, "bye"));
    assert!(end.contains("type='terminate'"), "{end}");
    bob.expect_bodies("alice", ["bye".to_owned()]);
    for _ in 0..3 {
        assert!(alice.ask("", "").contains(GONE));
    }
    for name in [&home, &third] {
        let passed = sum(&nodes, name, "roost_bosh_passed_total");
        assert!(passed > 5.0, "{passed}");
    }

    let mut alice = Session::login(&[at_owner, at_home, at_third], "alice");
    alice.nodes.remove(0);
    let held = alice.send("", "");
    thread::sleep(MOMENT);
    let started = Instant::now();
    nodes.node(&owner).kill().unwrap();
    assert_eq!(answer(held), None);
    let gone = loop {
        if let Some(said) = answer(alice.again("", "")) {
            break said;
        }
        assert!(started.elapsed() < PATIENCE, "nobody says that it is gone");
    };
    assert!(gone.contains(GONE), "{gone}");
    // One of the nodes may say so before the home of its account has ended the session: what came
    // until then was for that session.
    nodes.until("the session has ended at home", |nodes| {
        sum(nodes, &home, "roost_sessions") == 1.0
    });
    bob.say("alice", "while you were away");
    let mut alice = Session::login(&[at_home, at_third], "alice");
    alice.expect("<body>while you were away</body>");
    bob.has_stayed(&nodes.log_of_all());
}
