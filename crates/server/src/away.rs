//! Other nodes of a cluster, as the shards of this one see them. Owns what a shard asks of whoever
//! carries packets, and nothing of how they are carried; which node a range is at home on is in
//! `place.rs`, what is in a packet in `post.rs`.

use std::fmt;
use std::sync::Arc;

use stdx::Level;
use store::{Journal, RangeId};

/// A node, by a number that its name keeps for the life of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

/// Who carries packets to other nodes. Called by shards: it never waits.
pub trait Away: Send + Sync {
    /// Hands a packet to a node's link, which keeps it until that node has taken it.
    ///
    /// # Errors
    /// The packet, if too much waits for that node.
    fn send(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>>;

    /// The same for what can be done without for now: refused as soon as half of what may wait for
    /// that node does, so that everything else finds room.
    ///
    /// # Errors
    /// The packet.
    fn offer(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.send(to, packet)
    }

    /// Keeps a packet for somebody whose home nobody knows, as while it moves, until one is known
    /// or the time for it is up: `Door::take_back` is asked.
    ///
    /// # Errors
    /// The packet, if too much is kept.
    fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>>;

    /// The answer to a packet that came: there are no more of them than packets.
    fn answer(&self, to: NodeId, packet: Vec<u8>);

    /// The format level of what other nodes are sent: all of them know it.
    fn level(&self) -> Level;

    /// Whether what needs no commit may leave this node now. Asked at the beginning of each turn.
    fn may_act(&self) -> bool;

    /// The other nodes that live, with their names.
    fn others(&self) -> Vec<(NodeId, String)> {
        Vec::new()
    }

    /// The name of this node, if the others know one.
    fn name(&self) -> Option<String> {
        None
    }

    /// Whether packets for a node may arrive: it lives, or answers all the same.
    fn reaches(&self, node: NodeId) -> bool {
        self.others().iter().any(|(other, _)| *other == node)
    }

    /// Where clients reach the home of a range, as `host:port`, if it says so.
    fn clients(&self, range: RangeId) -> Option<String>;
}

/// What a node that belongs to a cluster is given.
#[derive(Clone)]
pub struct Cluster {
    /// Where appends go. The store is written by whoever applies what the journal commits.
    pub journal: Arc<dyn Journal>,
    /// The way to other nodes.
    pub away: Arc<dyn Away>,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cluster")
    }
}

/// What became of a packet that came from another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Its recipient has it, or it was for the node itself.
    Yes,
    /// The way to its recipient is full: once more, a moment later.
    Later,
    /// Its recipient is at home elsewhere, or was in another tenure. This packet says so.
    Moved(Vec<u8>),
    /// It is none that this node understands. Nobody hears of it.
    Bad(String),
}
