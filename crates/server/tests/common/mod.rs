//! A whole node in this process and clients of it, spoken to over real sockets.
#![allow(dead_code, reason = "each test program needs a part of it")]

pub(crate) mod bosh;
pub(crate) mod bystanders;
pub(crate) mod held;
pub(crate) mod logs;
pub(crate) mod occupants;
pub(crate) mod two;
pub(crate) mod world;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use server::Node;
use server::admin::{Request, Response};
use server::modules::Extensions;
use server::options::{Archive, Delivery, DeliveryLimits, Limits, Options, Web};
use store::{Durability, FaultyEngine, MemoryEngine, SlotKey, Store};

/// How long anything may take that must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A message with it makes the actor of its sender panic.
pub(crate) const PANIC: &str = "<panic xmlns='urn:example:0123456789'/>";

pub(crate) fn options(shards: u16, hand_over: bool) -> Options {
    Options {
        domains: vec!["localhost".into()],
        shards,
        moves: server::options::Moves::default(),
        balance: server::options::Balance::default(),
        hand_over,
        mechanisms: vec!["SCRAM-SHA-1".into(), "PLAIN".into()],
        require_tls: false,
        plain_without_tls: true,
        scram_iterations: 4096,
        registration_enabled: false,
        registrations_per_hour: 10,
        delivery: Delivery {
            stream_management: true,
            resume_timeout: PATIENCE,
            ack_timeout: PATIENCE,
            unacked_max: 1_000,
            outbox: delivery::OutboxLimits::default(),
            limits: DeliveryLimits::default(),
        },
        inbox: server::options::InboxBounds::default(),
        archive: Archive {
            enabled: false,
            until_delivered: false,
            max_age: Duration::from_secs(86_400),
            max_messages: 1_000,
            max_bytes: 1 << 20,
            searched_max: 10_000,
        },
        directory: server::options::Directory::default(),
        rooms: server::options::Rooms {
            hosts: vec!["conference.localhost".into()],
            search_hosts: vec!["search.localhost".into()],
            ..server::options::Rooms::default()
        },
        pep: server::options::Pep::default(),
        components: server::options::Components::default(),
        pubsub: server::options::Pubsub {
            hosts: vec!["pubsub.localhost".into()],
            ..server::options::Pubsub::default()
        },
        modules: server::options::Switches::default(),
        limits: Limits {
            stanza_bytes_max: 65_536,
            sessions_per_user: 10,
            roster_items_max: 100,
            offline_messages_max: 100,
            offline_bytes_max: 1 << 20,
            private_bytes_max: 4096,
            private_total_bytes_max: 16_384,
            domain_bytes_max: u64::MAX,
            vcard_bytes_max: 4096,
            questions_per_address_max: 64,
            answer_bytes_per_address_max: 24 << 20,
            login_timeout: PATIENCE,
            idle_ping: Duration::from_secs(60),
            ping_timeout: Duration::from_secs(10),
        },
        bans: None,
        bans_are_anothers: false,
        commits: server::options::Commits::default(),
        traced_max: server::options::TRACED_MAX,
        web: Web::default(),
        mailboxes: server::options::Mailboxes::default(),
        waking: server::options::Waking::default(),
        wire: server::options::Wire::default(),
        cluster: None,
        joined: server::options::Joined::default(),
        actors: server::options::ActorBounds::default(),
        chaos: false,
        debug_commit_delay: Duration::ZERO,
        debug_move_sockets: false,
        debug_panic_hook: Some(PANIC.into()),
    }
}

/// Those of a node under a virtual clock, whose logins cost little.
pub(crate) fn sim_options(shards: u16, hand_over: bool) -> Options {
    let mut options = options(shards, hand_over);
    options.mechanisms = vec!["PLAIN".into()];
    options.scram_iterations = 1;
    options.archive.enabled = true;
    options
}

/// A disk that survives the nodes of a test, and what goes wrong with it.
pub(crate) type Disk = Arc<FaultyEngine<MemoryEngine>>;

pub(crate) fn new_disk() -> Disk {
    Arc::new(FaultyEngine::new(MemoryEngine::new()))
}

/// The store of the next node on a disk.
pub(crate) fn store_on(disk: &Disk) -> Store {
    let slots = SlotKey::new([7; 16]);
    let engine = Arc::clone(disk);
    Store::with_engine(engine, Durability::Fsync, slots).expect("a store")
}

pub(crate) struct Running {
    pub(crate) node: Node,
    pub(crate) address: SocketAddr,
}

/// A node whose users have the password "secret".
pub(crate) fn start(shards: u16, hand_over: bool, users: &[&str]) -> Running {
    start_with(options(shards, hand_over), net::Limits::default(), users)
}

/// The same with bounds of its own.
pub(crate) fn start_with(options: Options, network: net::Limits, users: &[&str]) -> Running {
    start_on(Store::in_memory(), options, network, users)
}

/// The same with a store of its own.
pub(crate) fn start_on(
    store: Store,
    options: Options,
    network: net::Limits,
    users: &[&str],
) -> Running {
    let node = Node::start(options, vec![listener()], network, None, store).unwrap();
    with_users(node, users)
}

/// The same with extensions that only the test has.
pub(crate) fn start_extended(
    extensions: impl Into<Extensions>,
    options: Options,
    network: net::Limits,
    users: &[&str],
) -> Running {
    let (listeners, store) = (vec![listener()], Store::in_memory());
    let node = Node::start_with(extensions, options, listeners, network, None, store).unwrap();
    with_users(node, users)
}

fn listener() -> net::Listener {
    net::Listener::new("127.0.0.1:0".parse().unwrap())
}

fn with_users(node: Node, users: &[&str]) -> Running {
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

pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    pub(crate) seen: String,
}

/// What a client says that logs in.
pub(crate) fn auth((user, password): (&str, &str)) -> String {
    let token = xmpp::sasl::encode(&format!("\0{user}\0{password}"));
    format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{token}</auth>")
}

/// A client with stream management, which is available.
pub(crate) fn managed(node: &Node, user: &str) -> Client {
    let mut client = Client::login(node.addresses()[0], user, "a");
    client.send("<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    client.expect("<enabled ");
    client.send("<presence/>");
    client.expect("<presence ");
    client.send("<r xmlns='urn:xmpp:sm:3'/>");
    client.expect("<a xmlns='urn:xmpp:sm:3' h='1'/>");
    client
}

impl Client {
    pub(crate) fn login(address: SocketAddr, user: &str, resource: &str) -> Self {
        let mut client = Client::authenticate(address, user);
        client.bind(resource);
        client.expect(&format!("{user}@localhost/{resource}</jid></bind></iq>"));
        client
    }

    pub(crate) fn authenticate(address: SocketAddr, user: &str) -> Self {
        let mut client = Client::connect(address);
        client.open();
        client.authenticate_with(user, "secret");
        client.expect("<success");
        client.open();
        client
    }

    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Client {
            socket,
            seen: String::new(),
        }
    }

    pub(crate) fn authenticate_with(&mut self, user: &str, password: &str) {
        self.send(&auth((user, password)));
    }

    pub(crate) fn bind(&mut self, resource: &str) {
        self.send(&format!(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        ));
    }

    pub(crate) fn open(&mut self) {
        self.send(
            "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
             xmlns:stream='http://etherx.jabber.org/streams'>",
        );
        self.expect("</stream:features>");
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).unwrap();
    }

    /// Reads until `wanted` has come; everything up to its end is forgotten, and returned.
    pub(crate) fn expect(&mut self, wanted: &str) -> String {
        while !self.seen.contains(wanted) {
            let read = self.read_some();
            let read = read.unwrap_or_else(|e| panic!("{wanted:?}: {e}; seen {:?}", self.seen));
            assert!(read > 0, "closed before {wanted:?}; seen {:?}", self.seen);
        }
        let end = self.seen.find(wanted).unwrap() + wanted.len();
        self.seen.drain(..end).collect()
    }

    /// Reads what has come, or waits for it.
    pub(crate) fn read_some(&mut self) -> std::io::Result<usize> {
        let mut buffer = [0; 4096];
        let read = loop {
            match self.socket.read(&mut buffer) {
                // The process was paused for a moment.
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        self.seen
            .push_str(&String::from_utf8_lossy(&buffer[..read]));
        Ok(read)
    }
}
