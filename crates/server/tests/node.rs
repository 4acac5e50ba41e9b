//! A whole node in this process, spoken to over real sockets: the shortest way from a fault in the
//! domain to a failing test. The rules of the protocol are tested by the conversation scripts.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use server::Node;
use server::admin::{Request, Response};
use server::options::{Limits, Options};

const SECRET: &str = "<panic xmlns='urn:example:0123456789'/>";

fn options(shards: u16, hand_over: bool) -> Options {
    Options {
        domains: vec!["localhost".into()],
        shards,
        hand_over,
        mechanisms: vec!["SCRAM-SHA-1".into(), "PLAIN".into()],
        require_tls: false,
        plain_without_tls: true,
        scram_iterations: 4096,
        registration_enabled: false,
        registrations_per_hour: 10,
        limits: Limits {
            stanza_bytes_max: 65_536,
            sessions_per_user: 10,
            roster_items_max: 100,
            offline_messages_max: 100,
            offline_bytes_max: 1 << 20,
            private_bytes_max: 4096,
            vcard_bytes_max: 4096,
            login_timeout: Duration::from_secs(60),
            idle_ping: Duration::from_secs(60),
            ping_timeout: Duration::from_secs(10),
        },
        debug_commit_delay: Duration::ZERO,
        debug_panic_hook: Some(SECRET.into()),
    }
}

struct Running {
    node: Node,
    address: SocketAddr,
}

fn start(shards: u16, hand_over: bool, users: &[&str]) -> Running {
    let listener = net::Listener::new("127.0.0.1:0".parse().unwrap());
    let store = store::Store::in_memory();
    let limits = net::Limits::default();
    let node = Node::start(
        options(shards, hand_over),
        vec![listener],
        limits,
        None,
        store,
    )
    .unwrap();
    for user in users {
        let jid = format!("{user}@localhost");
        let added = node.admin().call(Request::UserAdd {
            jid,
            password: "secret".into(),
        });
        assert_eq!(added, Response::Ok);
    }
    let address = node.addresses()[0];
    Running { node, address }
}

struct Client {
    socket: TcpStream,
    seen: String,
}

impl Client {
    fn login(address: SocketAddr, user: &str, resource: &str) -> Self {
        let mut client = Client::authenticate(address, user);
        client.bind(resource);
        client.expect(&format!("{user}@localhost/{resource}</jid></bind></iq>"));
        client
    }

    fn authenticate(address: SocketAddr, user: &str) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut client = Client {
            socket,
            seen: String::new(),
        };
        client.open();
        let token = xmpp::sasl::encode(&format!("\0{user}\0secret"));
        client.send(&format!(
            "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{token}</auth>"
        ));
        client.expect("<success");
        client.open();
        client
    }

    fn bind(&mut self, resource: &str) {
        self.send(&format!(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        ));
    }

    fn open(&mut self) {
        self.send(
            "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
             xmlns:stream='http://etherx.jabber.org/streams'>",
        );
        self.expect("</stream:features>");
    }

    fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until `wanted` has come and forgets everything up to its end.
    fn expect(&mut self, wanted: &str) {
        let mut buffer = [0; 4096];
        while !self.seen.contains(wanted) {
            let read = self.socket.read(&mut buffer);
            let read = read.unwrap_or_else(|e| panic!("{wanted:?}: {e}; seen {:?}", self.seen));
            assert!(read > 0, "closed before {wanted:?}; seen {:?}", self.seen);
            self.seen
                .push_str(&String::from_utf8_lossy(&buffer[..read]));
        }
        let end = self.seen.find(wanted).unwrap() + wanted.len();
        self.seen.drain(..end);
    }
}

#[test]
fn two_clients_chat_on_one_shard_and_on_many() {
    for (shards, hand_over) in [(1, true), (4, true), (4, false)] {
        let running = start(shards, hand_over, &["alice", "bob"]);
        let mut alice = Client::login(running.address, "alice", "a");
        let mut bob = Client::login(running.address, "bob", "b");
        bob.send("<presence/>");
        bob.expect("<presence from='bob@localhost/b'");
        for turn in 0..100 {
            alice.send(&format!(
                "<message to='bob@localhost' type='chat'><body>{turn}</body></message>"
            ));
        }
        for turn in 0..100 {
            bob.expect(&format!("<body>{turn}</body></message>"));
        }
        bob.send("<message to='alice@localhost/a'><body>back</body></message>");
        alice.expect("<body>back</body>");
        running.node.drain(Duration::from_secs(5));
        alice.expect("<system-shutdown ");
    }
}

#[test]
fn messages_to_an_absent_user_wait_in_order() {
    let running = start(2, true, &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    for turn in 0..120 {
        alice.send(&format!(
            "<message to='bob@localhost' type='chat'><body>{turn}.</body></message>"
        ));
    }
    alice.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.expect("id='p'");
    // The hundredth is the last that fits; those behind it come back.
    alice.expect("<resource-constraint ");
    let mut bob = Client::login(running.address, "bob", "b");
    bob.send("<presence/>");
    for turn in 0..100 {
        bob.expect(&format!("<body>{turn}.</body>"));
        bob.expect("<delay xmlns='urn:xmpp:delay' from='localhost'");
    }
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn contacts_see_each_other_come_and_go() {
    let running = start(2, true, &["alice", "bob"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut bob = Client::login(running.address, "bob", "b");
    alice.send("<presence/>");
    bob.send("<presence/>");
    bob.expect("from='bob@localhost/b'");
    alice.send("<presence type='subscribe' to='bob@localhost'/>");
    bob.expect("type='subscribe'");
    bob.send("<presence type='subscribed' to='alice@localhost'/>");
    alice.expect("type='subscribed'");
    alice.expect("from='bob@localhost/b'");
    drop(bob);
    alice.expect("type='unavailable'");
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn a_wrong_password_is_refused_and_a_removed_account_ends_its_sessions() {
    let running = start(1, true, &["alice"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut other = Client {
        socket: TcpStream::connect(running.address).unwrap(),
        seen: String::new(),
    };
    other.open();
    let token = xmpp::sasl::encode("\0alice\0wrong");
    other.send(&format!(
        "<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{token}</auth>"
    ));
    other.expect("<not-authorized/>");
    let removed = running.node.admin().call(Request::UserDel {
        jid: "alice@localhost".into(),
    });
    assert_eq!(removed, Response::Ok);
    alice.expect("<not-authorized ");
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn a_crash_ends_the_streams_of_its_own_user_only() {
    let running = start(2, true, &["alice", "bob", "carol"]);
    let mut alice = Client::login(running.address, "alice", "a");
    let mut other = Client::login(running.address, "alice", "b");
    let mut bob = Client::login(running.address, "bob", "b");
    let mut carol = Client::login(running.address, "carol", "c");
    alice.send(&format!("<message to='bob@localhost/b'>{SECRET}</message>"));
    for stream in [&mut alice, &mut other] {
        stream.expect("<internal-server-error ");
        stream.expect("</stream:stream>");
    }
    carol.send("<message to='bob@localhost/b'><body>still here</body></message>");
    bob.expect("<body>still here</body>");
    let mut alice = Client::login(running.address, "alice", "a");
    alice.send("<message to='bob@localhost/b'><body>back again</body></message>");
    bob.expect("<body>back again</body>");
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn a_thousand_others_chat_on_while_one_user_crashes() {
    const PAIRS: usize = 500;
    const ROUNDS: usize = 4;
    net::raise_descriptor_limit();
    let running = start(2, true, &["alice"]);
    let made = running.node.admin().call(Request::Provision {
        domain: "localhost".into(),
        users: 2 * PAIRS as u64,
        contacts: 0,
        password: "secret".into(),
        first: 0,
        count: 2 * PAIRS as u64,
    });
    assert_eq!(
        made,
        Response::Made {
            accounts: 2 * PAIRS as u64
        }
    );
    let others = (0..2 * PAIRS).map(|n| Client::login(running.address, &format!("u{n}"), "r"));
    let mut others: Vec<Client> = others.collect();
    for round in 0..ROUNDS {
        let mut alice = Client::login(running.address, "alice", "a");
        for (n, sender) in others.iter_mut().enumerate() {
            let to = n ^ 1;
            let body = format!("round {round} from {n}");
            sender.send(&format!(
                "<message to='u{to}@localhost/r' type='chat'><body>{body}</body></message>"
            ));
            if n == PAIRS {
                alice.send(&format!("<message to='u0@localhost/r'>{SECRET}</message>"));
            }
        }
        alice.expect("<internal-server-error ");
        for (n, recipient) in others.iter_mut().enumerate() {
            let from = n ^ 1;
            recipient.expect(&format!("<body>round {round} from {from}</body>"));
        }
    }
    running.node.drain(Duration::from_secs(5));
}

#[test]
fn new_limits_act_on_a_running_node() {
    let running = start(2, true, &["alice"]);
    let _alice = Client::login(running.address, "alice", "a");
    let mut second = Client::authenticate(running.address, "alice");
    for (sessions_per_user, expected) in [(1, "<resource-constraint "), (2, "alice@localhost/b")] {
        let limits = Limits {
            sessions_per_user,
            ..options(2, true).limits
        };
        let network = net::Limits::default();
        running.node.set_limits(&limits, network).expect("told");
        second.bind("b");
        second.expect(expected);
        if sessions_per_user == 1 {
            second.expect("</iq>");
        }
    }
    running.node.drain(Duration::from_secs(5));
}
