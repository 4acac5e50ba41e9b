//! Connections of one shard whose other half is at another node (`crate::join`): with which, and
//! what it takes that they outlive this home ([`Marks`]). Owns what the stream and the account's
//! actor each note of them.

mod marks;

use std::cell::RefCell;

use net::ConnRef;
use rustc_hash::FxHashMap;

use crate::away::NodeId;

pub(crate) use marks::Marks;

/// Connections of one shard that are tied to one at another node.
#[derive(Default)]
pub(crate) struct Lines {
    nodes: RefCell<FxHashMap<ConnRef, NodeId>>,
    /// Of those whose client is at another node: what it takes that they outlive this home.
    marks: RefCell<FxHashMap<ConnRef, Box<Marks>>>,
    /// Those whose bytes a link did not take; they try again together.
    pub(crate) later: RefCell<Vec<ConnRef>>,
}

impl Lines {
    /// One that is tied to a connection at a node.
    pub(crate) fn add(&self, conn: ConnRef, node: NodeId) {
        self.nodes.borrow_mut().insert(conn, node);
    }

    /// One whose client is at another node.
    pub(crate) fn add_far(&self, conn: ConnRef, node: NodeId, marks: Marks) {
        self.add(conn, node);
        self.marks.borrow_mut().insert(conn, Box::new(marks));
    }

    /// It is gone.
    pub(crate) fn remove(&self, conn: ConnRef) {
        self.nodes.borrow_mut().remove(&conn);
        self.marks.borrow_mut().remove(&conn);
    }

    /// Those that are tied to a node.
    pub(crate) fn of(&self, node: NodeId) -> Vec<ConnRef> {
        let nodes = self.nodes.borrow();
        let of_node = nodes.iter().filter(|(_, other)| **other == node);
        of_node.map(|(conn, _)| *conn).collect()
    }
}
