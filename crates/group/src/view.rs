//! Groups as values: which nodes belong together, in which version.
//!
//! Owns identity and order of views. Deliberately not here: how a node comes to have one
//! (`node::groups`).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{Name, NodeName};

/// Names that no group may have: they stand for the name space and the connections of free nodes.
pub(crate) const RESERVED: [&str; 2] = ["undefined", "no_group"];

/// One group for ever. Two groups of one name, made where neither knew the other, differ in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GroupId {
    /// What it is called.
    pub name: Name,
    /// The node that made it; empty if the configuration did.
    pub by: Name,
    /// Which one of that node, over all its lives.
    pub at: u64,
}

impl GroupId {
    /// The group that the configuration calls `name`.
    pub(crate) fn configured(name: &Name) -> Self {
        GroupId {
            name: Name::clone(name),
            by: Name::from(""),
            at: 0,
        }
    }
}

impl fmt::Debug for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.name, self.by, self.at)
    }
}

/// What a group consists of. Views of one group are ordered; the later one holds everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Which group.
    pub id: GroupId,
    /// How often its members were changed.
    pub version: u64,
    /// Who made this version: decides between two of one number, made while a network was split.
    pub by: Name,
    /// Its members. A group without members is deleted.
    pub members: BTreeSet<NodeName>,
}

impl View {
    /// What decides between two views of one group.
    pub fn rank(&self) -> (u64, &Name) {
        (self.version, &self.by)
    }

    /// Whether `node` is a member.
    pub fn has(&self, node: &NodeName) -> bool {
        self.members.contains(node)
    }
}

/// A set of nodes with one name space: a group, or the free nodes that are linked with each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) enum Space {
    /// The free nodes.
    Free,
    /// The members of a group.
    Group(GroupId),
}
