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
//! | a client says whose it is | sends what it has said so far | says it again to itself, and goes on |
//! | its stream ends | writes what came, then closes | says that nothing follows |
//! | its socket is gone | says so | the session waits to be resumed, or ends |
//! | the other node, or its link, is gone | ends the stream with `reset` | as if the socket were gone |
//! | the account's home moves | as above | ends the stream with `reset` |
//!
//! The home alone decides who may come in: it is told what a client said, not who it is. A node
//! that lies can pretend an address, and nothing else.

mod edge;
mod home;
mod keeper;
mod line;

use std::cell::RefCell;

use net::ConnRef;
use rustc_hash::FxHashMap;
use wire::{Join, Joined};

use crate::away::NodeId;

pub(crate) use edge::Edge;
pub(crate) use home::Far;
pub(crate) use keeper::{Keeper, KeeperMsg};
pub(crate) use line::{Line, at, conn_ref};

/// Connections of one shard that are tied to one at another node.
#[derive(Default)]
pub(crate) struct Lines {
    nodes: RefCell<FxHashMap<ConnRef, NodeId>>,
    /// Those whose bytes a link did not take; they try again together.
    later: RefCell<Vec<ConnRef>>,
}

impl Lines {
    fn add(&self, conn: ConnRef, node: NodeId) {
        self.nodes.borrow_mut().insert(conn, node);
    }

    fn remove(&self, conn: ConnRef) {
        self.nodes.borrow_mut().remove(&conn);
    }

    fn of(&self, node: NodeId) -> Vec<ConnRef> {
        let nodes = self.nodes.borrow();
        let of_node = nodes.iter().filter(|(_, other)| **other == node);
        of_node.map(|(conn, _)| *conn).collect()
    }
}

/// What a connection hears of the one that it is tied to.
pub enum Word {
    /// What the other node says of it.
    Said(NodeId, Joined),
    /// The other node is gone, or took nothing of it.
    Lost,
    /// A link that took nothing may take something now.
    TryAgain,
}

/// A client that comes from another node.
pub struct Comer {
    pub(crate) node: NodeId,
    pub(crate) join: Box<Join>,
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
