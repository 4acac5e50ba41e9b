//! What the table of kinds has of each: what it is called, which addresses lead to it, and where it
//! is counted.

use std::rc::Rc;

use actor::{Actor, Name};
use telemetry::{Counter, Gauge};

use crate::home::Home;
use crate::message::UserMsg;

/// A kind of entity beside accounts, as its folder describes it.
pub(crate) struct Kind {
    /// What one is called.
    pub(crate) name: &'static str,
    /// Whether an address is of this kind.
    pub(crate) has: fn(&Home, &str) -> bool,
    /// Those that are in memory.
    pub(crate) loaded: Gauge,
    /// Those that were read.
    pub(crate) loads: Counter,
}

/// An entity of some kind.
pub(crate) type Other = Box<dyn Actor<Msg = UserMsg>>;

/// A row of the table of kinds.
pub(crate) struct Row {
    /// What the kind is.
    pub(crate) kind: &'static Kind,
    /// Makes the actor of one.
    pub(crate) make: fn(Name, Rc<Home>) -> Other,
}
