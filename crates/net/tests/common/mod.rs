//! A small line protocol over the real loop, and clients for it. Owns what the tests of this crate
//! share; asserts nothing itself.

#![allow(dead_code, unreachable_pub, missing_docs)] // Each test binary uses a part of it.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use actor::{Actor, Addr, Context, Mail, ShardId};
use net::{
    Certificate, Closed, ConnRef, Cx, Io, Limits, Listener, Network, Opener, Peer, RemoteIo,
    Service, Shared, TlsConfig, TlsInfo, TlsSettings,
};
use rustls::pki_types::{CertificateDer, ServerName};
use stdx::time::{Clock, SystemClock};
use telemetry::Counter;

/// How long anything may take that must happen: generous, because the machine may have much else to
/// do. Only a failing test waits that long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Limits whose times do not pass by themselves.
pub fn patient() -> Limits {
    Limits {
        handshake_timeout: PATIENCE,
        proxy_timeout: PATIENCE,
        stall_timeout: PATIENCE,
        close_timeout: PATIENCE,
        ..Limits::default()
    }
}

/// What happened, for the tests to look at.
#[derive(Default)]
pub struct Journal {
    pub accepted: Vec<Peer>,
    pub closed: Vec<Closed>,
    pub tls: Vec<TlsInfo>,
    pub adopted: u32,
    pub drained: u32,
    /// The moments of the turns in which they were.
    pub told_at: Vec<stdx::time::Moment>,
    /// Connections without a socket that wait for input.
    pub fed: Vec<ConnRef>,
    /// What a crowd of actors has done so far.
    pub rounds: u32,
}

pub type Shelf = Arc<Mutex<Journal>>;

/// Lines in, lines out. `tls`, `move N`, `hop N`, `wander N`, `quit`, `big N`, `panic`, `slow`
/// (through an actor, with the window), `crowd`, `apart`, `together`, `deadline MS`, `who`,
/// `where`; everything else is echoed.
pub struct Lines {
    pub shelf: Shelf,
    pub io: Io<Vec<u8>>,
    pub opener: Opener<Conn>,
    pub slow: Addr<Slow>,
}

pub struct Conn {
    pub lines: u64,
    /// It has no socket, and is fed what it is told.
    pub is_fed: bool,
    /// It moves to the next of so many shards behind each line.
    pub wanders: u16,
}

impl Conn {
    fn new(is_fed: bool) -> Conn {
        Conn {
            lines: 0,
            is_fed,
            wanders: 0,
        }
    }
}

/// Answers lines later, and gives credit then.
pub struct SlowActor {
    pub io: Io<Vec<u8>>,
    waiting: Vec<ConnRef>,
}

pub enum Slow {
    Line(ConnRef),
    Flush,
    /// To be answered at once.
    Now(ConnRef),
}

impl Actor for SlowActor {
    type Msg = Slow;

    fn handle(&mut self, msg: Slow, cx: &mut Context<'_, Slow>) {
        match msg {
            Slow::Line(conn) => {
                if self.waiting.is_empty() {
                    cx.send_after(Duration::from_millis(20), Slow::Flush);
                }
                self.waiting.push(conn);
            }
            Slow::Now(conn) => {
                let write = |out: &mut Vec<u8>| out.extend_from_slice(b"now\n");
                let _ = self.io.with_out(cx, conn, write);
            }
            Slow::Flush => {
                for conn in std::mem::take(&mut self.waiting) {
                    let _ = self
                        .io
                        .with_out(cx, conn, |out| out.extend_from_slice(b"slow\n"));
                    let _ = self.io.credit(cx, conn, 1);
                }
            }
        }
    }
}

/// Actors that a line "crowd" starts, and what each of them does.
pub const CROWD: u32 = 4_000;
pub const CROWD_ROUNDS: u32 = 200;

/// One of many that have something to do for some turns of the shard.
struct Busy(Shelf);

impl Actor for Busy {
    type Msg = u32;

    fn handle(&mut self, left: u32, cx: &mut Context<'_, u32>) {
        self.0.lock().expect("shelf").rounds += 1;
        match left {
            0 => cx.stop(),
            _ => cx.send(cx.myself(), left - 1).expect("room for it"),
        }
    }
}

impl Service for Lines {
    type Conn = Conn;
    type Control = Vec<u8>;

    fn accept(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> Conn {
        let _ = cx;
        self.shelf.lock().expect("shelf").accepted.push(*peer);
        Conn::new(false)
    }

    fn opened(&mut self, cx: &mut Cx<'_>, conn: &mut Conn) {
        if conn.is_fed {
            cx.set_paused(true);
            self.shelf.lock().expect("shelf").fed.push(cx.id());
        }
    }

    fn receive(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, input: &[u8]) -> usize {
        let mut used = 0;
        while !cx.is_ending() && cx.has_window() {
            let Some(end) = input[used..].iter().position(|byte| *byte == b'\n') else {
                break;
            };
            let line = &input[used..used + end];
            used += end + 1;
            conn.lines += 1;
            self.line(cx, conn, &String::from_utf8_lossy(line));
            if conn.wanders > 0 {
                cx.move_to(ShardId::new((cx.shard().index() + 1) % conn.wanders));
            }
        }
        used
    }

    fn tls_established(&mut self, cx: &mut Cx<'_>, _conn: &mut Conn, tls: &TlsInfo) {
        cx.out().extend_from_slice(b"secure\n");
        self.shelf.lock().expect("shelf").tls.push(tls.clone());
    }

    fn control(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, msg: Vec<u8>) {
        if conn.is_fed {
            return cx.feed(&msg);
        }
        if msg == b"retell" {
            let id = cx.id();
            let _ = self.io.control(cx.mail(), id, b"retold\n".to_vec());
            return;
        }
        cx.out().extend_from_slice(&msg);
    }

    fn deadline(&mut self, cx: &mut Cx<'_>, _conn: &mut Conn) {
        cx.out().extend_from_slice(b"late\n");
        cx.close_after_flush();
    }

    fn adopted(&mut self, cx: &mut Cx<'_>, _conn: &mut Conn) {
        let line = format!("moved {}\n", cx.id().shard.index());
        cx.out().extend_from_slice(line.as_bytes());
        self.shelf.lock().expect("shelf").adopted += 1;
    }

    fn drain(&mut self, cx: &mut Cx<'_>, _conn: &mut Conn) {
        cx.out().extend_from_slice(b"bye\n");
        cx.close_after_flush();
        let mut shelf = self.shelf.lock().expect("shelf");
        shelf.drained += 1;
        shelf.told_at.push(cx.now());
    }

    fn closed(&mut self, _shard: &mut actor::Shard, _id: ConnRef, _conn: Conn, why: Closed) {
        self.shelf.lock().expect("shelf").closed.push(why);
    }
}

impl Lines {
    fn line(&mut self, cx: &mut Cx<'_>, conn: &mut Conn, line: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = rest.parse::<usize>().unwrap_or(0);
        match word {
            "tls" => {
                cx.out().extend_from_slice(b"proceed\n");
                cx.start_tls();
            }
            "move" => cx.hand_over(ShardId::new(number as u16)),
            "hop" => cx.move_to(ShardId::new(number as u16)),
            "wander" => conn.wanders = number as u16,
            "where" => {
                let line = format!("{}\n", cx.shard().index());
                cx.out().extend_from_slice(line.as_bytes());
            }
            // Something is said to it while it is handed over: by an actor, or by itself.
            "now" => {
                let (id, slow) = (cx.id(), self.slow);
                let _ = cx.mail().send(slow, Slow::Now(id));
                cx.hand_over(ShardId::new(number as u16));
            }
            "retell" => {
                let id = cx.id();
                let _ = self.io.control(cx.mail(), id, b"retell".to_vec());
                cx.hand_over(ShardId::new(number as u16));
            }
            "quit" => {
                cx.out().extend_from_slice(b"bye\n");
                cx.close_after_flush();
            }
            "big" => cx.out().extend(std::iter::repeat_n(b'x', number)),
            // The whole shard stands still for so many milliseconds.
            "nap" => std::thread::sleep(Duration::from_millis(number as u64)),
            "panic" => panic!("asked to"),
            "slow" => {
                cx.sent_on();
                let id = cx.id();
                let slow = self.slow;
                let _ = cx.mail().send(slow, Slow::Line(id));
            }
            "crowd" => {
                for _ in 0..CROWD {
                    let busy = cx.mail().spawn(Busy(Arc::clone(&self.shelf)));
                    let _ = cx.mail().send(busy, CROWD_ROUNDS - 1);
                }
            }
            "apart" | "together" => {
                cx.set_apart(word == "apart");
                cx.out().extend_from_slice(format!("{word}\n").as_bytes());
            }
            "deadline" => {
                let at = cx.now() + Duration::from_millis(number as u64);
                cx.set_deadline(Some(at));
            }
            "far" => {
                // To the connection named by shard, index and generation.
                let mut words = rest.splitn(4, ' ');
                let mut next = || {
                    words
                        .next()
                        .and_then(|w| w.parse::<u32>().ok())
                        .unwrap_or(0)
                };
                let shard = ShardId::new(next() as u16);
                let id = stdx::slab::Key {
                    index: next(),
                    generation: next(),
                };
                let text = format!("{}\n", words.next().unwrap_or(""));
                let io = self.io.clone();
                let to = ConnRef { shard, id };
                let _ = io.with_out(cx.mail(), to, |out| out.extend_from_slice(text.as_bytes()));
            }
            "open" => {
                // So many connections without a socket, and how many there was room for.
                let new = (0..number).map(|_| Conn::new(false));
                let opened = new.filter_map(|conn| self.opener.open(None, None, conn).ok());
                let line = format!("{}\n", opened.count());
                cx.out().extend_from_slice(line.as_bytes());
            }
            "feeder" => {
                // One without a socket, of this client's address, that reads nothing.
                let conn = Conn::new(true);
                let address = rest.parse().ok();
                let said = self.opener.open(None, address, conn).is_ok();
                cx.out().extend_from_slice(format!("{said}\n").as_bytes());
            }
            "from" => {
                if let Ok(address) = rest.parse() {
                    cx.comes_from(address);
                }
                cx.out().extend_from_slice(b"true\n");
            }
            "hold" => {
                let said = self.io.holds(cx.id(), number);
                cx.out().extend_from_slice(format!("{said}\n").as_bytes());
            }
            "who" => {
                let id = cx.id();
                let line = format!(
                    "{} {} {}\n",
                    id.shard.index(),
                    id.id.index,
                    id.id.generation
                );
                cx.out().extend_from_slice(line.as_bytes());
            }
            "count" => {
                let line = format!("{}\n", conn.lines);
                cx.out().extend_from_slice(line.as_bytes());
            }
            _ => {
                cx.out().extend_from_slice(line.as_bytes());
                cx.out().push(b'\n');
            }
        }
    }
}

/// A running node of the line protocol.
pub struct Node {
    pub addresses: Vec<SocketAddr>,
    pub shared: Arc<Shared>,
    pub remote: RemoteIo<Vec<u8>>,
    pub shelf: Shelf,
    threads: Vec<JoinHandle<()>>,
}

impl Node {
    pub fn start(shards: u16, limits: Limits) -> Node {
        Node::with(vec![plain()], shards, None, limits)
    }

    pub fn with(
        listeners: Vec<Listener>,
        shards: u16,
        tls: Option<TlsConfig>,
        limits: Limits,
    ) -> Node {
        let shelf = Shelf::default();
        let mut network = Network::<Lines>::bind(listeners, shards, tls, limits).expect("bind");
        let (handle, seeds) = actor::system(actor::Options::new(shards, 1));
        let clock = SystemClock::new();
        let mut threads = Vec::new();
        for (index, seed) in seeds.into_iter().enumerate() {
            let driver = network.seed(index);
            let shelf = Arc::clone(&shelf);
            let clock: Arc<dyn Clock> = Arc::new(clock);
            let run = move || {
                let make = |shard: &mut actor::Shard, io: Io<Vec<u8>>, opener| {
                    let slow = shard.spawn(SlowActor {
                        io: io.clone(),
                        waiting: Vec::new(),
                    });
                    Lines {
                        shelf,
                        io,
                        opener,
                        slow,
                    }
                };
                driver
                    .build(seed, clock, make)
                    .expect("build")
                    .run()
                    .expect("run");
            };
            threads.push(std::thread::spawn(run));
        }
        Node {
            addresses: network.addresses().to_vec(),
            shared: network.shared(),
            remote: network.remote(&handle),
            shelf,
            threads,
        }
    }

    pub fn connect(&self) -> Client<TcpStream> {
        self.connect_to(0)
    }

    pub fn connect_to(&self, listener: usize) -> Client<TcpStream> {
        Node::client(TcpStream::connect(self.addresses[listener]).expect("connect"))
    }

    /// From an address of its own: 127.0.0.`last`.
    pub fn connect_from(&self, last: u8) -> Client<TcpStream> {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("socket");
        let source = SocketAddr::from(([127, 0, 0, last], 0));
        socket.bind(&source.into()).expect("bind");
        socket.connect(&self.addresses[0].into()).expect("connect");
        Node::client(socket.into())
    }

    fn client(stream: TcpStream) -> Client<TcpStream> {
        stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
        stream.set_nodelay(true).expect("nodelay");
        Client {
            stream,
            kept: Vec::new(),
        }
    }

    /// Waits until `check` holds.
    pub fn until(&self, what: &str, check: impl Fn(&Node) -> bool) {
        let clock = SystemClock::new();
        let end = clock.now() + PATIENCE;
        while !check(self) {
            assert!(clock.now() < end, "never happened: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// How often connections were sent on under their name.
    pub fn moved(&self) -> u64 {
        let shards = (0..self.threads.len()).map(|shard| ShardId::new(shard as u16));
        let stats = shards.filter_map(|shard| self.shared.stats(shard));
        stats.map(|stats| stats.counter(Counter::NetMoved)).sum()
    }

    pub fn closed(&self, why: Closed) -> usize {
        self.shelf
            .lock()
            .expect("shelf")
            .closed
            .iter()
            .filter(|w| **w == why)
            .count()
    }

    pub fn stop(&mut self) {
        self.shared.stop();
        for thread in self.threads.drain(..) {
            thread.join().expect("the loop ends without a panic");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.stop();
        }
    }
}

pub fn plain() -> Listener {
    Listener::new("127.0.0.1:0".parse().expect("address"))
}

pub fn direct() -> Listener {
    Listener::direct_tls("127.0.0.1:0".parse().expect("address"))
}

/// A client that reads lines.
pub struct Client<T> {
    pub stream: T,
    pub kept: Vec<u8>,
}

impl<T: Read + Write> Client<T> {
    pub fn say(&mut self, line: &str) {
        self.stream.write_all(line.as_bytes()).expect("write");
        self.stream.write_all(b"\n").expect("write");
        self.stream.flush().expect("flush");
    }

    pub fn hear(&mut self) -> String {
        self.try_hear().expect("a line")
    }

    /// A line, or `None` when the connection has ended. Silence is neither.
    pub fn try_hear(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.kept.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.kept.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let mut buffer = [0; 16 * 1024];
            match self.stream.read(&mut buffer) {
                Err(why) if why.kind() == ErrorKind::WouldBlock => panic!("neither line nor end"),
                Ok(0) | Err(_) => return None,
                Ok(length) => self.kept.extend_from_slice(&buffer[..length]),
            }
        }
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }
}

/// The name of a connection.
pub fn name<T: Read + Write>(client: &mut Client<T>) -> ConnRef {
    let who = client.ask("who");
    let words: Vec<u32> = who
        .split(' ')
        .map(|word| word.parse().expect("a number"))
        .collect();
    ConnRef {
        shard: ShardId::new(words[0] as u16),
        id: stdx::slab::Key {
            index: words[1],
            generation: words[2],
        },
    }
}

/// A certificate and what a client must trust for it.
pub fn certificate(names: &[&str]) -> (Certificate, CertificateDer<'static>) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names.clone()).expect("certificate");
    let pem = made.cert.pem();
    let key = made.signing_key.serialize_pem();
    let der = made.cert.der().clone();
    (
        Certificate::from_pem(names, pem.as_bytes(), key.as_bytes()).expect("pem"),
        der,
    )
}

pub fn server_tls(certificates: Vec<Certificate>) -> TlsConfig {
    TlsSettings::new(certificates).build().expect("settings")
}

pub type TlsStream = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// A TLS client that trusts `roots` and speaks only `version`.
pub fn client_tls(
    stream: TcpStream,
    name: &str,
    roots: &[CertificateDer<'static>],
    version: &'static rustls::SupportedProtocolVersion,
) -> Client<TlsStream> {
    let mut store = rustls::RootCertStore::empty();
    for root in roots {
        store.add(root.clone()).expect("root");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .expect("version")
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![net::ALPN_CLIENT.to_vec()];
    let name = ServerName::try_from(name.to_owned()).expect("name");
    let connection = rustls::ClientConnection::new(Arc::new(config), name).expect("client");
    Client {
        stream: rustls::StreamOwned::new(connection, stream),
        kept: Vec::new(),
    }
}
