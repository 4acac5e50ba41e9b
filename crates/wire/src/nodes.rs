//! What homes of contacts say to each other about nodes of accounts (XEP-0163).

use std::sync::Arc;

use xml::Frame;

use crate::codec::{Bad, Reader, Writer};
use crate::limits::{BUT_MAX, NODE_BYTES_MAX, NODES_MAX};

/// A session that wants to hear of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interest {
    /// Its full address.
    pub session: Arc<str>,
    /// The nodes: `NODE` of each `NODE+notify` that its verified capabilities name.
    pub nodes: Arc<[Box<str>]>,
}

impl Interest {
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.address(&self.session, "session");
        out.count(self.nodes.len(), NODES_MAX, "nodes");
        for node in self.nodes.iter() {
            out.bytes(node.as_bytes(), NODE_BYTES_MAX, "node");
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Interest, Bad> {
        let session = from.address("session")?;
        let count = from.count(NODES_MAX, "nodes")?;
        let mut nodes = Vec::with_capacity(count);
        for _ in 0..count {
            nodes.push(from.text(NODE_BYTES_MAX, "node")?.into());
        }
        let nodes = nodes.into();
        Ok(Interest { session, nodes })
    }
}

/// Something that happened at a node, on its way to the homes of contacts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeEvent {
    /// The stanza, without `to`.
    pub frame: Frame,
    /// The node.
    pub node: Arc<str>,
    /// Full addresses that are sent it anyway.
    pub but: Arc<[Arc<str>]>,
}

impl NodeEvent {
    pub(crate) fn write(&self, out: &mut Writer<'_>) {
        out.bytes(self.node.as_bytes(), NODE_BYTES_MAX, "node");
        out.count(self.but.len(), BUT_MAX, "exceptions");
        for address in self.but.iter() {
            out.address(address, "exception");
        }
        out.frame(&self.frame);
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<NodeEvent, Bad> {
        let node = from.text(NODE_BYTES_MAX, "node")?.into();
        let count = from.count(BUT_MAX, "exceptions")?;
        let mut but = Vec::with_capacity(count);
        for _ in 0..count {
            but.push(from.address("exception")?);
        }
        Ok(NodeEvent {
            frame: from.frame()?,
            node,
            but: but.into(),
        })
    }
}
