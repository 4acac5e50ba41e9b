//! The map as one node sees it, for whoever sends to other nodes: homes with their tenures, and
//! nodes with where they are reached. Owns no decision; it only says where to ask.

use std::collections::BTreeMap;

use crate::journal::Epoch;

/// The map as a node sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapView {
    /// The home of each stream, in order: its node and tenure.
    pub homes: Vec<Option<(String, Epoch)>>,
    /// The nodes, by name.
    pub nodes: BTreeMap<String, NodeView>,
}

/// A node of the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeView {
    /// The life of its process.
    pub incarnation: u64,
    /// Where other nodes reach its link.
    pub link: Option<String>,
    /// Where clients reach it.
    pub clients: Option<String>,
    /// Its lease has not ended and does not seem to have lapsed.
    pub is_alive: bool,
    /// It may be given homes.
    pub takes_homes: bool,
    /// By stream: the tenure in which it says that it serves; 0: it does not.
    pub serving: Vec<Epoch>,
}
