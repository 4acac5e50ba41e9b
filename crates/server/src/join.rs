//! Clients of any node: the node that a client came to, its *edge*, keeps the socket with its TLS
//! and passes what goes over it to the account's home and back. At the home a connection without a
//! socket stands for it, which is authenticated, bound and served like any other. Owns how the two
//! are tied together and how they end; bytes and windows are `line`, both sides have a file of
//! their own.
//!
//! ```text
//! client ── socket, TLS ─▶ edge ── bytes, room ─▶ link ─▶ home: a connection without a socket
//!                           ▲                      │              │  c2s, the account's actor
//!                           └──── bytes, room ◀────┴──────────────┘
//! ```
//!
//! | event | edge | home |
//! |---|---|---|
//! | a client says whose it is | sends what it said so far | says that to itself, and goes on |
//! | its stream ends | writes what came, then closes | says that nothing follows |
//! | its socket is gone | says so | the session waits to be resumed, or ends |
//! | the other node or its link is gone | finds the next home, or `reset` | as if the socket were |
//! | the account's home moves | as above | says so, or ends the stream with `reset` |
//!
//! A connection outlives its home if its session is counted and can be resumed (XEP-0198), and it
//! is certain what its client was written and has said: the home marks both (`marks`), the edge
//! keeps what is behind the last mark (`kept`), waits for a home and introduces it there
//! (`outlive`).
//!
//! A client whose socket and account are at one node, and on one shard, outlives a crash of the
//! account's actor without any of that
//! (`crate::lines::Near`).
//!
//! The home alone decides who may come in: it is told what a client said, not who it is. A node
//! that lies can pretend an address, and nothing else.

mod edge;
mod home;
mod joining;
mod keeper;
mod kept;
mod line;
mod outlive;

use wire::{Adopt, Join};

use crate::away::NodeId;

pub(crate) use edge::Edge;
pub(crate) use home::Far;
pub(crate) use joining::Joining;
pub(crate) use keeper::{Keeper, KeeperMsg};
pub(crate) use line::{Line, at, conn_ref};

/// This node, for itself. No other node has the number.
pub(crate) const HERE: NodeId = NodeId(u16::MAX);

/// A client that comes from another node.
pub(crate) struct Comer {
    pub(crate) node: NodeId,
    pub(crate) from: Origin,
}

/// How it comes.
pub(crate) enum Origin {
    /// It has said whose it is.
    Stream(Box<Join>),
    /// With a session, from a home before this one.
    Home(Box<Adopt>),
}

impl Comer {
    /// Its connection at the other node, and the number of that.
    pub(crate) fn line(&self) -> (wire::ConnAt, u64) {
        match &self.from {
            Origin::Stream(join) => (join.from, join.number),
            Origin::Home(adopt) => (adopt.from, adopt.number),
        }
    }

    /// Where the client comes from.
    fn address(&self) -> std::net::IpAddr {
        match &self.from {
            Origin::Stream(join) => join.address,
            Origin::Home(adopt) => adopt.address,
        }
    }
}

/// What a client has said since its stream began: with it another node can go on.
#[derive(Default)]
pub(crate) struct Prelude {
    pub(crate) header: Vec<u8>,
    pub(crate) elements: Vec<Vec<u8>>,
}

impl Prelude {
    /// The stream begins, or begins anew.
    pub(crate) fn opens(&mut self, header: &[u8]) {
        self.header = header.to_vec();
        self.elements.clear();
    }

    /// An element came. Only a response needs what was before it.
    pub(crate) fn says(&mut self, name: &str, element: &[u8]) {
        if name != "response" || self.elements.len() >= wire::limits::JOIN_ELEMENTS_MAX {
            self.elements.clear();
        }
        self.elements.push(element.to_vec());
    }
}
