//! Packets between edge and home. Owns the two ends' views of the link, and what becomes of packets
//! that come back.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cluster::journal::message::Author;
use cluster::link::{self, Links, Listen, PeerId, Where};
use server::Door;
use server::away::{Away, NodeId};
use stdx::Level;
use stdx::time::Moment;
use store::RangeId;

use super::{DEPLOYMENT, LinkFolder};
use crate::member::{self, Returned};

/// Pause between two looks whether the other side has everything.
const LOOK: Duration = Duration::from_millis(2);

/// The link of this process, and whom it reaches.
pub(super) struct Ways {
    links: Links,
    door: Arc<OnceLock<Door>>,
    /// Peers with the folders of their sockets, which stay open as long as they are known.
    peers: Mutex<BTreeMap<String, (LinkFolder, Where)>>,
    _own: LinkFolder,
}

impl Ways {
    /// Listens in a folder of its own.
    pub(super) fn start(data: &Path, name: String, incarnation: u64) -> io::Result<Ways> {
        let own = LinkFolder::open(data, &name)?;
        let door: Arc<OnceLock<Door>> = Arc::default();
        let listen = Listen::Unix(own.socket());
        let mut options = link::Options::new(listen, DEPLOYMENT.to_owned());
        // All clients are on this one link.
        options.queue_max = 65_536;
        options.unacknowledged_max = 131_072;
        options.again_after = (Duration::from_millis(2), Duration::from_millis(200));
        let author = Author {
            node: name,
            incarnation,
        };
        let links = Links::start(options, author, member::deliver(Arc::clone(&door)))?;
        Ok(Ways {
            links,
            door,
            peers: Mutex::default(),
            _own: own,
        })
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<String, (LinkFolder, Where)>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packets are delivered there from now on.
    pub(super) fn set_door(&self, door: Door) {
        // There is one.
        let _ = self.door.set(door);
    }

    pub(super) fn door(&self) -> Option<&Door> {
        self.door.get()
    }

    /// Somebody is there.
    pub(super) fn meet(&self, data: &Path, name: &str, incarnation: u64) -> io::Result<()> {
        let folder = LinkFolder::open(data, name)?;
        let place = Where {
            incarnation,
            address: folder.address(),
        };
        let mut peers = self.peers();
        peers.insert(name.to_owned(), (folder, place));
        self.set_peers(&peers);
        Ok(())
    }

    /// Somebody is gone.
    pub(super) fn part(&self, name: &str) {
        let mut peers = self.peers();
        peers.remove(name);
        self.set_peers(&peers);
    }

    fn set_peers(&self, peers: &BTreeMap<String, (LinkFolder, Where)>) {
        let places = peers.iter();
        let places = places.map(|(name, (_, place))| (name.clone(), place.clone()));
        self.links.set_peers(&places.collect());
    }

    /// The number of a peer.
    pub(super) fn node(&self, name: &str) -> NodeId {
        NodeId(self.links.peer(name).0)
    }

    /// Sees to what came back, and to who is gone.
    pub(super) fn look(&self, returned: &mut Returned, now: Moment) {
        for note in self.links.take_notes() {
            tracing::debug!("{}", note.text);
        }
        if let Some(door) = self.door.get() {
            member::take_back(&self.links, door, returned, now);
        }
    }

    /// Waits until the other side has everything that was sent; at most for so many looks.
    pub(super) fn flush(&self, within: Duration) {
        let looks = within.as_millis() / LOOK.as_millis();
        for _ in 0..looks {
            let mut links = self.links.status().into_iter();
            if links.all(|link| link.packets == 0 || !link.is_known) {
                return;
            }
            std::thread::sleep(LOOK);
        }
        tracing::warn!("the edge did not take everything");
    }
}

/// The way from an edge to its home, or the other way.
pub(super) struct Way(pub(super) Arc<Ways>);

impl Away for Way {
    fn send(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.0.links.send(PeerId(to.0), packet)
    }

    fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.0.links.keep(packet)
    }

    fn answer(&self, to: NodeId, packet: Vec<u8>) {
        self.0.links.answer(PeerId(to.0), packet);
    }

    /// The edge is not replaced with the home: what is said to it stays as it was.
    fn level(&self) -> Level {
        Level::FIRST
    }

    /// The lock of the store is what keeps two homes apart.
    fn may_act(&self) -> bool {
        true
    }

    fn others(&self) -> Vec<(NodeId, String)> {
        let peers = self.0.peers();
        let names = peers.keys();
        names
            .map(|name| (self.0.node(name), name.clone()))
            .collect()
    }

    fn clients(&self, _range: RangeId) -> Option<String> {
        None
    }
}
