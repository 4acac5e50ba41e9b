//! Links: what entities of one node say to those of another, as packets over TCP. Owns connections,
//! their bounds and what becomes of packets that no other node took; what is in a packet, and who
//! is at home where, is the caller's business.
//!
//! ```text
//! send ─▶ queue of the peer ─▶ session (positions) ─▶ connection ─▶ peer ─▶ deliver
//!                                  │    ▲ acknowledged ◀───────────────────────┤
//!                                  └────┴──▶ returned ◀── moved, or the peer is gone
//! ```
//!
//! Each node connects to each other one, and sends over its own connection only. A packet stays in
//! its session until the peer has acknowledged it, and is sent again over the next connection; the
//! peer passes over what it has. One task a peer and one a connection: a slow or dead peer is felt
//! by nobody else, and by senders to it as a queue that is full.
//!
//! A session ends when the map says that the peer's process is gone or has another life. Everything
//! in it comes back then, also what that process may have taken: at least once is the promise.
//!
//! Packets of a peer are delivered while the map has the life that sends them, and once whoever
//! watches has heard of the end of every life and session before it. So what they bring about can
//! be answered, and does not end with what was before.
//!
//! With [`Credentials`] both sides prove who they are, by certificates of one CA with the node's
//! name, and everything is encrypted (TLS 1.3). Without them only loopback addresses are listened
//! at, or a Unix socket of this user: everybody who reaches one is believed.

mod credentials;
mod frame;
mod incoming;
mod notes;
mod outgoing;
mod receiver;
mod sender;
mod strangers;
mod stream;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use stdx::{Clock as _, SystemClock};
use tokio::sync::mpsc::{self, channel};
use tokio::sync::{Notify, watch};

use crate::journal::message::Author;
use notes::Notes;
use outgoing::Freed;
use strangers::Strangers;
use stream::Listener;

pub use credentials::{Credentials, CredentialsError, Pem, is_certifiable};
pub use notes::Note;

/// Most nodes that a process ever talked to; more are not talked to.
pub const PEERS_MAX: usize = 4_096;

/// Complaints that wait for whoever asks; later ones are dropped.
const COMPLAINTS_MAX: usize = 16;

/// A node, by a number that its name keeps for the life of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u16);

/// What became of a packet that was delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is in the right hands.
    Yes,
    /// There is no room for it: once more, a moment later. The link waits.
    Later,
    /// Nobody here has it; this packet goes back and says so.
    Moved(Vec<u8>),
    /// It cannot be read here, for it is broken or of a newer version: it goes back too.
    Bad(String),
}

/// Who takes packets. Called by the tasks of links.
pub type Deliver = Arc<dyn Fn(PeerId, &[u8]) -> Taken + Send + Sync>;

/// Where a node listens for others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// At an address.
    Tcp(SocketAddr),
    /// At a socket file, which processes of this user alone may open. One that is there already is
    /// replaced.
    Unix(PathBuf),
}

impl From<SocketAddr> for Listen {
    fn from(address: SocketAddr) -> Listen {
        Listen::Tcp(address)
    }
}

/// Names and bounds of links.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where others connect to.
    pub listen: Listen,
    /// Both sides must be of the same one.
    pub deployment: String,
    /// Packets that wait for one peer before its task has taken them. Default: 8,192.
    pub queue_max: usize,
    /// Packets of a session that are not acknowledged; then its queue waits. Default: 32,768.
    pub unacknowledged_max: usize,
    /// Bytes of packets for one peer, wherever they wait; then no more are taken. Default: 32 MB.
    pub bytes_max: usize,
    /// Answers to one peer's packets that it has not taken; then no more of its packets are.
    /// Default: 65,536.
    pub answers_max: usize,
    /// Proof of who this node is, and whose proofs it accepts. Default: none, and loopback only.
    pub credentials: Option<Credentials>,
    /// Longest wait for a connection, its handshake and its welcome. Default: 3 s.
    pub connect_within: Duration,
    /// Pauses between attempts: the first, and the longest. Default: 50 ms, 1 s.
    pub again_after: (Duration, Duration),
    /// How often a silent connection is looked at, and says something. Default: 1 s.
    pub tick: Duration,
    /// Ticks without a word of the peer after which the connection is given up. Default: 5.
    pub silent_ticks_max: u32,
    /// Connections of others at a time; one more waits to be accepted. Default: 1,024.
    pub connections_max: usize,
    /// Those of them that have not introduced themselves; at one more the oldest ends. Default: 64.
    pub strangers_max: usize,
    /// Longest wait until one has. Default: 5 s.
    pub introduce_within: Duration,
    /// Longest silence of one that sends, which says something at each tick. Default: 10 s.
    pub silence_max: Duration,
    /// Longest wait for one that does not read acknowledgements. Default: 10 s.
    pub write_within: Duration,
    /// Longest wait until a packet can be delivered; then its connection ends, and its sender makes
    /// another. Longer than the sender bears silence. Default: 10 s.
    pub deliver_within: Duration,
}

impl Options {
    /// Defaults.
    pub fn new(listen: impl Into<Listen>, deployment: String) -> Options {
        Options {
            listen: listen.into(),
            deployment,
            queue_max: 8_192,
            unacknowledged_max: 32_768,
            bytes_max: 32 * 1_024 * 1_024,
            answers_max: 65_536,
            credentials: None,
            connect_within: Duration::from_secs(3),
            again_after: (Duration::from_millis(50), Duration::from_secs(1)),
            tick: Duration::from_secs(1),
            silent_ticks_max: 5,
            connections_max: 1_024,
            strangers_max: 64,
            introduce_within: Duration::from_secs(5),
            silence_max: Duration::from_secs(10),
            write_within: Duration::from_secs(10),
            deliver_within: Duration::from_secs(10),
        }
    }
}

/// Where a peer is, as the map says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Where {
    /// The life of its process.
    pub incarnation: u64,
    /// `host:port` of its link, or `unix:` and the path of a socket file.
    pub address: String,
}

/// How an address of a socket file begins ([`Where::address`]).
pub const UNIX: &str = "unix:";

/// How a link stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// The peer's name.
    pub name: String,
    /// Packets can leave now.
    pub is_connected: bool,
    /// For how long at least it has said nothing, or had said nothing when its last connection was
    /// lost. In ticks, of which those that this process slept through are one.
    pub silent: Duration,
    /// The map has it.
    pub is_known: bool,
    /// Packets that wait for it or were not acknowledged by it.
    pub packets: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Connections that were made to it.
    pub connections: u64,
    /// Packets that it has acknowledged.
    pub taken: u64,
    /// Packets that were sent again after a connection was lost.
    pub sent_again: u64,
    /// Packets that came back: moved, or not acknowledged when its process was gone.
    pub returned: u64,
    /// Packets of the peer that could not be read here.
    pub unreadable: u64,
    /// Why the last connection ended, if it did.
    pub last_error: Option<String>,
}

/// What a peer's task and its senders share.
struct Peer {
    name: String,
    queue: mpsc::Sender<Vec<u8>>,
    /// Answers to packets of the peer that no session has yet; past the queue's bound.
    answers: Mutex<VecDeque<Vec<u8>>>,
    has_answers: Notify,
    /// Answers that the peer has not taken. At the bound its packets are not either.
    unanswered: AtomicUsize,
    /// What waits.
    packets: AtomicUsize,
    bytes: AtomicUsize,
    connections: AtomicU64,
    taken: AtomicU64,
    sent_again: AtomicU64,
    returned: AtomicU64,
    unreadable: AtomicU64,
    /// The map has it; otherwise nothing is taken for it.
    is_known: AtomicBool,
    /// The life of it whose session is under way, 0 between two: packets of no other are delivered.
    life: AtomicU64,
    /// Sessions of either side that have ended and of whose end nobody has heard. Until somebody
    /// has, nothing is delivered.
    ends: AtomicUsize,
    is_connected: AtomicBool,
    /// Ticks without a word of it, also of a connection that was lost.
    silent_ticks: AtomicU32,
    /// Where the map has it nobody listens, as of the last attempt to connect.
    is_refusing: AtomicBool,
    last_error: Mutex<Option<String>>,
    place: watch::Sender<Option<Where>>,
}

impl Peer {
    fn new(name: &str, queue: mpsc::Sender<Vec<u8>>) -> Peer {
        Peer {
            name: name.to_owned(),
            queue,
            answers: Mutex::default(),
            has_answers: Notify::new(),
            unanswered: AtomicUsize::new(0),
            packets: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            sent_again: AtomicU64::new(0),
            returned: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            is_known: AtomicBool::new(false),
            life: AtomicU64::new(0),
            ends: AtomicUsize::new(0),
            is_connected: AtomicBool::new(false),
            silent_ticks: AtomicU32::new(0),
            is_refusing: AtomicBool::new(false),
            last_error: Mutex::default(),
            place: watch::Sender::new(None),
        }
    }

    fn hold(&self, packet: &[u8]) {
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(packet.len(), Ordering::Relaxed);
    }

    fn free(&self, freed: Freed) {
        self.packets.fetch_sub(freed.packets, Ordering::Relaxed);
        self.bytes.fetch_sub(freed.bytes, Ordering::Relaxed);
        self.unanswered.fetch_sub(freed.answers, Ordering::Relaxed);
    }

    /// Whether what this life of it sends may be delivered now.
    fn may_be_heard(&self, life: u64, options: &Options) -> bool {
        self.life.load(Ordering::Acquire) == life
            && self.ends.load(Ordering::Acquire) == 0
            && !self.owes_too_much(options)
    }

    /// The peer has not taken as many answers as may wait for it.
    fn owes_too_much(&self, options: &Options) -> bool {
        self.unanswered.load(Ordering::Relaxed) >= options.answers_max.max(1)
    }

    fn status(&self, options: &Options) -> LinkStatus {
        LinkStatus {
            name: self.name.clone(),
            is_connected: self.is_connected.load(Ordering::Relaxed),
            silent: options.tick * self.silent_ticks.load(Ordering::Relaxed).saturating_sub(1),
            is_known: self.is_known.load(Ordering::Relaxed),
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            connections: self.connections.load(Ordering::Relaxed),
            taken: self.taken.load(Ordering::Relaxed),
            sent_again: self.sent_again.load(Ordering::Relaxed),
            returned: self.returned.load(Ordering::Relaxed),
            unreadable: self.unreadable.load(Ordering::Relaxed),
            last_error: lock(&self.last_error).clone(),
        }
    }
}

/// Packets that came back, and those that were for nobody's home, since somebody took them.
#[derive(Default)]
struct Returned {
    packets: VecDeque<Vec<u8>>,
    /// Of the latter.
    kept: usize,
    kept_bytes: usize,
}

/// What all tasks share.
struct Shared {
    options: Options,
    /// Those in force. A change makes every connection anew.
    credentials: watch::Sender<Option<Credentials>>,
    clock: SystemClock,
    strangers: Mutex<Strangers>,
    /// Connections of others that were refused.
    refused: AtomicU64,
    /// Of links to peers, and of connections of others.
    notes: [Mutex<Notes>; 2],
    author: Author,
    deliver: Deliver,
    /// The number of each name that was ever asked for.
    names: Mutex<BTreeMap<String, PeerId>>,
    /// By number. Read by every sender, without a lock.
    peers: Box<[OnceLock<Arc<Peer>>]>,
    returned: Mutex<Returned>,
    /// Peers whose process is gone.
    gone: Mutex<Vec<PeerId>>,
    incoming: Mutex<HashMap<String, Arc<Mutex<incoming::Incoming>>>>,
    handle: tokio::runtime::Handle,
    /// What was wrong with packets, since somebody asked.
    complaints: Mutex<VecDeque<String>>,
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // A task that panicked while it held one left it whole.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The links of one node.
pub struct Links {
    shared: Arc<Shared>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Listens.
    ///
    /// # Errors
    /// The address is taken, or open to everybody without credentials, or there is no thread.
    pub fn start(options: Options, author: Author, deliver: Deliver) -> io::Result<Links> {
        if let Listen::Tcp(address) = options.listen
            && options.credentials.is_none()
            && !address.ip().is_loopback()
        {
            let why = "without cluster.certificate only a loopback address";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = runtime.block_on(Listener::bind(&options.listen))?;
        let shared = Arc::new(Shared {
            credentials: watch::Sender::new(options.credentials.clone()),
            clock: SystemClock::new(),
            strangers: Mutex::default(),
            refused: AtomicU64::new(0),
            notes: [Mutex::new(Notes::new()), Mutex::new(Notes::new())],
            options,
            author,
            deliver,
            names: Mutex::default(),
            peers: (0..PEERS_MAX).map(|_| OnceLock::new()).collect(),
            returned: Mutex::default(),
            gone: Mutex::default(),
            incoming: Mutex::default(),
            handle: runtime.handle().clone(),
            complaints: Mutex::default(),
        });
        let (end, mut ended) = watch::channel(false);
        let accepting = receiver::accept(listener, Arc::clone(&shared));
        let thread = thread::Builder::new().name("links".to_owned());
        let thread = thread.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accepting => {}
                    // The sender is dropped with the links.
                    _ = ended.changed() => {}
                }
            });
            runtime.shutdown_background();
        })?;
        Ok(Links {
            shared,
            end,
            thread: Some(thread),
        })
    }

    /// The number of a name. A peer of which the map knows nothing takes nothing.
    pub fn peer(&self, name: &str) -> PeerId {
        self.shared.peer(name)
    }

    /// Whether there is a connection to a node now that it answers on.
    pub fn is_connected(&self, name: &str) -> bool {
        let peer = self.shared.by_id(self.peer(name));
        peer.is_some_and(|peer| peer.is_connected.load(Ordering::Relaxed))
    }

    /// Nodes of the cluster at whose addresses nobody listens, as of the last attempts.
    pub fn refusing(&self) -> Vec<String> {
        let peers = self.shared.peers.iter().map_while(OnceLock::get);
        let refusing = peers.filter(|peer| peer.is_refusing.load(Ordering::Relaxed));
        refusing.map(|peer| peer.name.clone()).collect()
    }

    /// The nodes that belong to the cluster now, but for this one.
    pub fn set_peers(&self, peers: &BTreeMap<String, Where>) {
        for (name, place) in peers {
            let id = self.peer(name);
            self.shared.place(id, Some(place.clone()));
        }
        let all = lock(&self.shared.names).clone();
        for (name, id) in all {
            if !peers.contains_key(&name) {
                self.shared.place(id, None);
            }
        }
    }

    /// Hands over a packet for a peer.
    ///
    /// # Errors
    /// The packet: too much waits for it, or it does not belong to the cluster now.
    pub fn send(&self, to: PeerId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        let Some(peer) = self.shared.by_id(to) else {
            return Err(packet);
        };
        let (bytes, max) = (packet.len(), self.shared.options.bytes_max);
        let is_full = peer.bytes.load(Ordering::Relaxed) + bytes > max;
        if is_full || !peer.is_known.load(Ordering::Acquire) {
            return Err(packet);
        }
        peer.hold(&packet);
        peer.queue.try_send(packet).map_err(|refused| {
            peer.free(Freed::one(bytes));
            refused.into_inner()
        })
    }

    /// The same for a packet that its sender can do without for now: it is not taken once half of
    /// what may wait does.
    ///
    /// # Errors
    /// As [`Links::send`].
    pub fn offer(&self, to: PeerId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        let is_half_full = self.shared.by_id(to).is_none_or(|peer| {
            let (free, all) = (peer.queue.capacity(), peer.queue.max_capacity());
            peer.bytes.load(Ordering::Relaxed) > self.shared.options.bytes_max / 2
                || free < all.div_ceil(2)
        });
        match is_half_full {
            true => Err(packet),
            false => self.send(to, packet),
        }
    }

    /// Whether packets for a peer are taken at all: the map has it.
    pub fn takes(&self, to: PeerId) -> bool {
        let peer = self.shared.by_id(to);
        peer.is_some_and(|peer| peer.is_known.load(Ordering::Acquire))
    }

    /// Hands over the answer to a packet that came from a peer: it is always taken, and lost with
    /// the peer. While [`Options::answers_max`] of them wait, the peer's packets are not delivered.
    pub fn answer(&self, to: PeerId, packet: Vec<u8>) {
        if let Some(peer) = self.shared.by_id(to)
            && peer.is_known.load(Ordering::Acquire)
        {
            peer.hold(&packet);
            peer.unanswered.fetch_add(1, Ordering::Relaxed);
            lock(&peer.answers).push_back(packet);
            peer.has_answers.notify_one();
        }
    }

    /// Keeps a packet for somebody whose home nobody knows with those that came back.
    ///
    /// # Errors
    /// The packet: as many are kept as may wait for a peer.
    pub fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        let mut returned = lock(&self.shared.returned);
        let bytes = returned.kept_bytes + packet.len();
        let options = &self.shared.options;
        if returned.kept >= options.queue_max || bytes > options.bytes_max {
            return Err(packet);
        }
        returned.kept += 1;
        returned.kept_bytes = bytes;
        returned.packets.push_back(packet);
        Ok(())
    }

    /// Packets that came back or were kept since this was asked last.
    pub fn take_returned(&self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut *lock(&self.shared.returned)).packets
    }

    /// Tells of each peer whose process has gone, or whose session has ended, since this was asked
    /// last. Nothing more of it is delivered before.
    pub fn tell_gone(&self, mut tell: impl FnMut(PeerId)) {
        let gone = std::mem::take(&mut *lock(&self.shared.gone));
        for id in gone {
            tell(id);
            if let Some(peer) = self.shared.by_id(id) {
                peer.ends.fetch_sub(1, Ordering::Release);
            }
        }
    }

    /// What was wrong with packets that came since this was asked last, each with its sender.
    pub fn take_complaints(&self) -> VecDeque<String> {
        std::mem::take(&mut lock(&self.shared.complaints))
    }

    /// What an operator should read, since this was asked last.
    pub fn take_notes(&self) -> Vec<Note> {
        let notes = self.shared.notes.iter();
        notes.flat_map(|notes| lock(notes).take()).collect()
    }

    /// Puts other certificates in force: every connection is made anew with them, and what was not
    /// acknowledged is sent again. Whether there was a change.
    ///
    /// # Errors
    /// Whether links are encrypted cannot change while they run.
    pub fn set_credentials(&self, new: Option<Credentials>) -> Result<bool, String> {
        let in_force = &self.shared.credentials;
        if in_force.borrow().is_some() != new.is_some() {
            let why = "whether links are encrypted (cluster.certificate) takes a restart";
            return Err(why.to_owned());
        }
        Ok(in_force.send_if_modified(|old| {
            let has_changed = *old != new;
            *old = new;
            has_changed
        }))
    }

    /// When this node's certificate expires, in seconds since 1970, if it has one.
    pub fn expires(&self) -> Option<u64> {
        let in_force = self.shared.credentials.borrow();
        in_force.as_ref().map(Credentials::expires)
    }

    /// Bytes that may wait for one peer.
    pub fn bytes_max(&self) -> usize {
        self.shared.options.bytes_max
    }

    /// Connections of others that were refused.
    pub fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// How every link stands.
    pub fn status(&self) -> Vec<LinkStatus> {
        let peers = self.shared.peers.iter().map_while(OnceLock::get);
        let options = &self.shared.options;
        peers.map(|peer| peer.status(options)).collect()
    }
}

impl Shared {
    /// The number of a name, whose task is started with it.
    fn peer(self: &Arc<Self>, name: &str) -> PeerId {
        let mut names = lock(&self.names);
        if let Some(id) = names.get(name) {
            return *id;
        }
        let Some(place) = self.peers.get(names.len()) else {
            // Nothing is ever sent to it.
            return PeerId(u16::MAX);
        };
        let id = PeerId(names.len() as u16);
        let (queue, receiver) = channel(self.options.queue_max.max(1));
        let peer = Arc::new(Peer::new(name, queue));
        // Under the lock of the names, which nobody else fills places without.
        let _ = place.set(Arc::clone(&peer));
        names.insert(name.to_owned(), id);
        self.handle
            .spawn(sender::run(id, peer, receiver, Arc::clone(self)));
        id
    }

    fn by_id(&self, id: PeerId) -> Option<&Arc<Peer>> {
        self.peers.get(usize::from(id.0))?.get()
    }

    fn place(&self, id: PeerId, place: Option<Where>) {
        if let Some(peer) = self.by_id(id) {
            peer.is_known.store(place.is_some(), Ordering::Release);
            peer.place.send_if_modified(|known| {
                let has_changed = *known != place;
                *known = place;
                has_changed
            });
        }
    }

    /// A session with a peer is over.
    fn is_gone(&self, id: PeerId) {
        if let Some(peer) = self.by_id(id) {
            peer.ends.fetch_add(1, Ordering::Release);
            lock(&self.gone).push(id);
        }
    }

    /// A packet could not be read. All are counted, and a few kept until somebody asks.
    fn complain(&self, peer: PeerId, from: &str, why: &str) {
        if let Some(peer) = self.by_id(peer) {
            peer.unreadable.fetch_add(1, Ordering::Relaxed);
        }
        let mut complaints = lock(&self.complaints);
        if complaints.len() < COMPLAINTS_MAX {
            complaints.push_back(format!("{from}: {why}"));
        }
    }

    /// Something happened to the link to a peer.
    fn note(&self, is_good: bool, text: String) {
        lock(&self.notes[0]).say(self.clock.now(), is_good, text);
    }

    /// A connection of somebody was refused.
    fn refuse(&self, text: String) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        lock(&self.notes[1]).say(self.clock.now(), false, text);
    }

    /// Packets that nobody took.
    fn give_back(&self, peer: &Peer, packets: impl IntoIterator<Item = Vec<u8>>) {
        let mut returned = lock(&self.returned);
        for packet in packets {
            peer.free(Freed::one(packet.len()));
            peer.returned.fetch_add(1, Ordering::Relaxed);
            returned.packets.push_back(packet);
        }
    }
}

impl Drop for Links {
    /// Ends all connections. What was not acknowledged is lost with the process.
    fn drop(&mut self) {
        // The thread may have ended by itself.
        let _ = self.end.send(true);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
