//! What an operator asks of one entity, and what it answers: plain data. How he reaches it is
//! `admin`; what becomes of it is the entity's.

use std::sync::Arc;

use pubsub::{Act, Event};
use serde::{Deserialize, Serialize};
use store::{Record, Seq};

use crate::queues::{QueueCommand, Stuck};
use crate::watch::UserSample;

/// What an administrator tells one entity.
#[derive(Debug)]
pub enum AdminCommand {
    /// Make the account.
    Create(store::Account),
    /// Take a record that an import makes of it.
    Import(Box<Record>),
    /// Leave the memory for an import, if nothing is under way.
    Leave,
    /// Remove it.
    Remove,
    /// Give it new keys.
    SetKeys(Vec<store::ScramKeys>),
    /// Lock or unlock it.
    Lock {
        /// Locked from now on, or not.
        locked: bool,
    },
    /// End its sessions.
    Kick,
    /// Replace entries of its log by what is left of them.
    Erase(Vec<ErasedEntry>),
    /// Tell about itself.
    Inspect,
    /// Do something about messages that wait for recipients who do not keep up.
    Queue(QueueCommand),
    /// Do something that rooms do.
    Room(RoomCommand),
    /// Do something to one of its nodes.
    Nodes(NodesCommand),
}

/// What the entity answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAnswer {
    /// Done, and durable.
    Done,
    /// What it is doing.
    Inspected(Arc<UserSample>),
    /// Recipients who do not keep up.
    Stuck(Vec<Stuck>),
    /// How many that concerned.
    Counted(u64),
    /// What the room is.
    Room(Arc<RoomSample>),
    /// There is no such account.
    Absent,
    /// There is one already.
    Exists,
    /// The store could not be read or written.
    Unavailable,
}

/// An entry of an account's log that is to be erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasedEntry {
    /// Its place.
    pub seq: Seq,
    /// To whom it is handed over ([`store::SlotKey::peer`]), if it is.
    pub dest: Option<u64>,
    /// Bytes of the stanza that is there.
    pub bytes: u64,
    /// What is left.
    pub frame: Vec<u8>,
}

/// What a room is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RoomCommand {
    /// Tell about itself.
    Show,
    /// Replace these messages of the log by what is left of one that was taken back.
    Erase(Vec<room::Message>),
    /// End, for good.
    Destroy {
        /// Why, for those who are there.
        reason: Option<String>,
    },
}

/// A room as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomSample {
    /// Its address.
    pub address: String,
    /// Its name for people.
    pub name: String,
    /// Who made it.
    pub creator: String,
    /// It survives its last occupant, and the process.
    pub is_persistent: bool,
    /// Everybody may know of it.
    pub is_public: bool,
    /// Only members may enter.
    pub is_members_only: bool,
    /// A password has to be known.
    pub has_password: bool,
    /// Who has no voice cannot speak.
    pub is_moderated: bool,
    /// Nobody but its creator may enter yet.
    pub is_locked: bool,
    /// Occupants, each nick once.
    pub occupants: u64,
    /// Sessions of all of them.
    pub sessions: u64,
    /// Bare addresses of its owners.
    pub owners: Vec<String>,
    /// Addresses with an affiliation.
    pub affiliations: u64,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
}

/// What to do with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesCommand {
    /// Its name.
    pub node: String,
    /// What.
    pub act: NodesAct,
}

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NodesAct {
    /// Its items go.
    Purge,
    /// It ends.
    Delete,
}

impl NodesCommand {
    /// As the machine of the nodes takes it.
    pub(crate) fn event(self) -> Event {
        let act = match self.act {
            NodesAct::Purge => Act::Purge,
            NodesAct::Delete => Act::Delete,
        };
        Event::Operate {
            node: self.node,
            act,
        }
    }
}
