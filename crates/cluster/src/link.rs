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
//! Nothing is encrypted and nobody proves who he is: links belong on a loopback interface.

mod frame;
mod incoming;
mod outgoing;
mod receiver;
mod sender;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};

use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, channel};
use tokio::sync::{Notify, watch};

use crate::journal::message::Author;

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
    /// It is broken: nobody will have it.
    Bad(String),
}

/// Who takes packets. Called by the tasks of links.
pub type Deliver = Arc<dyn Fn(PeerId, &[u8]) -> Taken + Send + Sync>;

/// Names and bounds of links.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where others connect to.
    pub listen: SocketAddr,
    /// Both sides must be of the same one.
    pub deployment: String,
    /// Packets that wait for one peer before its task has taken them. Default: 8,192.
    pub queue_max: usize,
    /// Packets of a session that are not acknowledged; then its queue waits. Default: 32,768.
    pub unacknowledged_max: usize,
    /// Bytes of packets for one peer, wherever they wait; then no more are taken. Default: 32 MB.
    pub bytes_max: usize,
}

impl Options {
    /// Defaults.
    pub fn new(listen: SocketAddr, deployment: String) -> Options {
        Options {
            listen,
            deployment,
            queue_max: 8_192,
            unacknowledged_max: 32_768,
            bytes_max: 32 * 1_024 * 1_024,
        }
    }
}

/// Where a peer is, as the map says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Where {
    /// The life of its process.
    pub incarnation: u64,
    /// `host:port` of its link.
    pub address: String,
}

/// How a link stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStatus {
    /// The peer's name.
    pub name: String,
    /// Packets can leave now.
    pub is_connected: bool,
    /// The map has it.
    pub is_known: bool,
    /// Bytes that wait for it or were not acknowledged by it.
    pub bytes: usize,
    /// Why the last connection ended, if it did.
    pub last_error: Option<String>,
}

/// What a peer's task and its senders share.
struct Peer {
    name: String,
    queue: mpsc::Sender<Vec<u8>>,
    /// Answers to packets of the peer, which are bounded by these; past the queue's bound.
    answers: Mutex<VecDeque<Vec<u8>>>,
    has_answers: Notify,
    /// Bytes of what waits, but for answers.
    bytes: AtomicUsize,
    /// The map has it; otherwise nothing is taken for it.
    is_known: AtomicBool,
    is_connected: AtomicBool,
    last_error: Mutex<Option<String>>,
    place: watch::Sender<Option<Where>>,
}

/// What all tasks share.
struct Shared {
    options: Options,
    author: Author,
    deliver: Deliver,
    /// The number of each name that was ever asked for.
    names: Mutex<BTreeMap<String, PeerId>>,
    /// By number. Read by every sender, without a lock.
    peers: Box<[OnceLock<Arc<Peer>>]>,
    /// Packets that came back.
    returned: Mutex<VecDeque<Vec<u8>>>,
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
    /// The address is taken, or there is no thread.
    pub fn start(options: Options, author: Author, deliver: Deliver) -> io::Result<Links> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = runtime.block_on(TcpListener::bind(options.listen))?;
        let shared = Arc::new(Shared {
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
        peer.bytes.fetch_add(bytes, Ordering::Relaxed);
        peer.queue.try_send(packet).map_err(|refused| {
            peer.bytes.fetch_sub(bytes, Ordering::Relaxed);
            refused.into_inner()
        })
    }

    /// Hands over the answer to a packet that came from a peer: it is always taken, and lost with
    /// the peer.
    pub fn answer(&self, to: PeerId, packet: Vec<u8>) {
        if let Some(peer) = self.shared.by_id(to)
            && peer.is_known.load(Ordering::Acquire)
        {
            lock(&peer.answers).push_back(packet);
            peer.has_answers.notify_one();
        }
    }

    /// Packets that came back since this was asked last.
    pub fn take_returned(&self) -> VecDeque<Vec<u8>> {
        std::mem::take(&mut lock(&self.shared.returned))
    }

    /// Peers whose process has gone since this was asked last.
    pub fn take_gone(&self) -> Vec<PeerId> {
        std::mem::take(&mut lock(&self.shared.gone))
    }

    /// What was wrong with packets that came since this was asked last, each with its sender.
    pub fn take_complaints(&self) -> VecDeque<String> {
        std::mem::take(&mut lock(&self.shared.complaints))
    }

    /// How every link stands.
    pub fn status(&self) -> Vec<LinkStatus> {
        let status = |peer: &Arc<Peer>| LinkStatus {
            name: peer.name.clone(),
            is_connected: peer.is_connected.load(Ordering::Relaxed),
            is_known: peer.is_known.load(Ordering::Relaxed),
            bytes: peer.bytes.load(Ordering::Relaxed),
            last_error: lock(&peer.last_error).clone(),
        };
        let peers = self.shared.peers.iter();
        peers.map_while(OnceLock::get).map(status).collect()
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
        let peer = Arc::new(Peer {
            name: name.to_owned(),
            queue,
            answers: Mutex::default(),
            has_answers: Notify::new(),
            bytes: AtomicUsize::new(0),
            is_known: AtomicBool::new(false),
            is_connected: AtomicBool::new(false),
            last_error: Mutex::default(),
            place: watch::Sender::new(None),
        });
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

    /// A packet was none. The latest few are kept.
    fn complain(&self, from: &str, why: &str) {
        let mut complaints = lock(&self.complaints);
        if complaints.len() < COMPLAINTS_MAX {
            complaints.push_back(format!("{from}: {why}"));
        }
    }

    /// Packets that nobody took.
    fn give_back(&self, peer: &Peer, packets: impl IntoIterator<Item = Vec<u8>>) {
        let mut returned = lock(&self.returned);
        for packet in packets {
            peer.bytes.fetch_sub(packet.len(), Ordering::Relaxed);
            returned.push_back(packet);
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
