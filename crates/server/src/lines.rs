//! Connections of one shard whose other half is at another node (`crate::join`): with which, and
//! what it takes that they outlive this home ([`Marks`]); and what it takes that those whose client
//! is here outlive a crash of their account's actor ([`Near`]). Owns what the stream and the
//! account's actor each note of them.

mod marks;
mod near;
mod passing;
mod requests;

use std::cell::RefCell;

use net::ConnRef;
use rustc_hash::FxHashMap;

use crate::away::NodeId;
use crate::limits::LineLimits;

pub(crate) use marks::Marks;
pub(crate) use near::{Element, Near};
pub(crate) use passing::Passing;
pub(crate) use requests::{is_own, lost_answer};

/// Connections of one shard that are tied to one at another node, and those that outlive a crash of
/// their account's actor.
#[derive(Default)]
pub(crate) struct Lines {
    limits: LineLimits,
    nodes: RefCell<FxHashMap<ConnRef, NodeId>>,
    /// Of those whose client is at another node: what it takes that they outlive this home.
    marks: RefCell<FxHashMap<ConnRef, Box<Marks>>>,
    /// Of those whose client and account are here: what it takes that they outlive a crash.
    near: RefCell<FxHashMap<ConnRef, Box<Near>>>,
    /// Requests that wait for the answers of other nodes.
    pub(crate) passing: RefCell<Passing>,
    /// Those whose bytes a link did not take; they try again together.
    pub(crate) later: RefCell<Vec<ConnRef>>,
}

impl Lines {
    /// None yet.
    pub(crate) fn new(limits: LineLimits) -> Lines {
        Lines {
            limits,
            ..Lines::default()
        }
    }

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

    /// One whose client and account are here.
    pub(crate) fn add_near(&self, conn: ConnRef) {
        self.near.borrow_mut().insert(conn, Box::default());
    }

    /// It is gone, or goes to another shard.
    pub(crate) fn take_near(&self, conn: ConnRef) -> Option<Box<Near>> {
        self.near.borrow_mut().remove(&conn)
    }

    /// It has come from another shard.
    pub(crate) fn put_near(&self, conn: ConnRef, near: Box<Near>) {
        self.near.borrow_mut().insert(conn, near);
    }

    /// For the stream, of one that was added.
    pub(crate) fn near<R>(&self, conn: ConnRef, act: impl FnOnce(&mut Near) -> R) -> Option<R> {
        let mut near = self.near.borrow_mut();
        if near.is_empty() {
            return None;
        }
        near.get_mut(&conn).map(|near| act(near))
    }

    /// Those that are tied to a node.
    pub(crate) fn of(&self, node: NodeId) -> Vec<ConnRef> {
        let nodes = self.nodes.borrow();
        let of_node = nodes.iter().filter(|(_, other)| **other == node);
        of_node.map(|(conn, _)| *conn).collect()
    }
}
