//! What the table of kinds has of each: what it is called, which addresses lead to it, and where it
//! is counted.

use std::rc::Rc;

use actor::{Actor, Name};
use telemetry::{Counter, Gauge};

use crate::address;
use crate::home::Home;
use crate::message::UserMsg;
use crate::options::Options;

/// A kind of entity beside accounts, as its folder describes it.
pub(crate) struct Kind {
    /// What one is called.
    pub(crate) name: &'static str,
    /// Which addresses are of this kind.
    pub(crate) at: At,
    /// Those that are in memory.
    pub(crate) loaded: Gauge,
    /// Those that were read.
    pub(crate) loads: Counter,
}

/// Which addresses are of a kind.
pub(crate) enum At {
    /// Every address of these domains, and the domains.
    Domains(fn(&Options) -> &[String]),
    /// These alone.
    Hosts(fn(&Options) -> &[String]),
}

impl Kind {
    /// Whether an address is of this kind.
    pub(crate) fn has(&self, options: &Options, bare: &str) -> bool {
        let (hosts, wanted) = match self.at {
            At::Domains(hosts) => (hosts, address::domain(bare)),
            At::Hosts(hosts) => (hosts, bare),
        };
        hosts(options).iter().any(|host| host == wanted)
    }
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
