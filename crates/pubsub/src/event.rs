//! What goes into the machine, and what comes out of it.

use std::sync::Arc;

use xml::Frame;

use crate::change::Changes;
use crate::record::{Item, Record};

/// Something that happens to a service.
#[derive(Clone, Debug)]
pub enum Event {
    /// A stanza to the service, `from` authenticated, `from` and `to` in normal form.
    Stanza {
        /// The stanza.
        frame: Frame,
        /// Its sender may make nodes. Of an account, only the account itself may anyway.
        may_create: bool,
    },
    /// A session has become available with a priority that is not negative, or its verified
    /// capabilities have become known, for the first time since it was unavailable.
    Available {
        /// Its full address.
        session: Arc<str>,
        /// The nodes of which they name `NODE+notify`. For a service that belongs to no account,
        /// which has no capabilities, the session's subscriptions count instead.
        interests: Vec<Box<str>>,
    },
    /// A contact's presence subscription or roster groups are no longer what they were.
    Related {
        /// The contact's bare address.
        bare: Arc<str>,
    },
    /// The rosters that decide about a node of a service that belongs to no account are known.
    Reviewed {
        /// The node.
        node: Arc<str>,
    },
    /// The host keeps items of an account's node in another form too: it is shown them all, and
    /// says what becomes of them.
    Change {
        /// The node, which is made if it is not there.
        node: String,
        /// What is answered when that is done.
        request: Frame,
        /// What becomes of them.
        changes: Changes,
    },
    /// Whoever runs the service does something to a node, whoever owns it. Of a node that is not
    /// there nothing comes.
    Operate {
        /// The node.
        node: String,
        /// What.
        act: Act,
    },
    /// What [`crate::Service::due`] named has come.
    Due,
    /// Time has passed: leases that are over and items that are too old can go.
    Sweep,
    /// What [`Effect::Fetch`] asked for.
    Fetched {
        /// The number of the question.
        ticket: u64,
        /// The items that are there, in any order. `None` if they cannot be read now.
        items: Option<Vec<Item>>,
    },
    /// The first append that was not decided yet has been.
    Decided {
        /// It is durable. Otherwise it is certain that it never will be.
        is_committed: bool,
    },
}

/// What is done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It ends.
    Delete,
    /// Its items go.
    Purge,
}

/// Full and bare addresses that one frame goes to.
pub type Audience = Arc<[Arc<str>]>;

/// Everybody who is to hear of an event at a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Full and bare addresses.
    pub(crate) to: Audience,
    /// Bare addresses of contacts of whose sessions only their homes know which are interested.
    pub(crate) contacts: Audience,
}

impl Told {
    pub(crate) fn is_empty(&self) -> bool {
        self.to.is_empty() && self.contacts.is_empty()
    }
}

/// What a service wants to be done, in this order.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Make these records durable together, and answer with [`Event::Decided`].
    Append(Vec<Record>),
    /// Write one frame to many: it has no `to`, each copy gets its own.
    Send {
        /// The frame.
        frame: Frame,
        /// Who gets it.
        to: Audience,
    },
    /// Give one frame to the homes of contacts: each writes it to those of the contact's sessions
    /// that are interested in the node, each copy with the session's `to`.
    Notify {
        /// The frame; it has no `to`.
        frame: Frame,
        /// The node.
        node: Arc<str>,
        /// Bare addresses of the contacts.
        contacts: Audience,
        /// Full addresses that get a copy anyway, because they are subscribed.
        but: Audience,
    },
    /// Deliver a stanza that has its `to`.
    Deliver(Frame),
    /// Read these items of a node as they are committed, and answer with [`Event::Fetched`].
    Fetch {
        /// The number of the question.
        ticket: u64,
        /// The node.
        node: Arc<str>,
        /// Ids and places.
        items: Vec<(Box<str>, u64)>,
    },
}
