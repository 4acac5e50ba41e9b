//! Protocol extensions, one file each. A file declares in one table what it is, what it announces
//! and what it answers; this file only puts the tables together.

pub mod archive;
pub(crate) mod avatar;
pub mod blocking;
pub(crate) mod bookmarks;
pub(crate) mod caps;
pub(crate) mod carbons;
pub(crate) mod csi;
pub(crate) mod directory;
pub mod disco;
pub(crate) mod hints;
pub(crate) mod inbox;
pub mod last_activity;
pub(crate) mod mam;
pub mod offline;
pub mod outcome;
pub mod ping;
pub mod private_storage;
pub mod pubsub;
pub mod register;
pub mod rooms;
pub mod roster;
pub mod service;
pub(crate) mod session;
pub(crate) mod stanza_ids;
pub mod switches;
pub mod time;
pub mod vcard;
pub mod version;

use stdx::time::Timestamp;
use xml::{Child, Frame};

use crate::options::{Options, Switches};

pub use crate::iq::{Answer, Request};
pub use outcome::{Change, Outcome, View};
use service::Service;
pub use switches::{NotSwitched, Switch};

/// An extension as `docs/xeps.md` lists it.
#[derive(Clone, Copy, Debug)]
pub struct Xep {
    /// Number in the XSF's series; 0 for an RFC.
    pub number: u16,
    /// Name as its document has it.
    pub name: &'static str,
    /// The version that this code follows.
    pub version: &'static str,
    /// What is there and what is not.
    pub note: &'static str,
}

/// Answers an IQ to an account.
#[derive(Clone, Copy, Debug)]
pub enum AccountHandler {
    /// Reads a view of the account and returns what is to be done.
    Reads(fn(&View<'_>, &Request<'_>) -> Outcome),
    /// Is a part of the account's actor (`user/acts/`), because what it does is: rosters, presence,
    /// nodes.
    Acts(Act),
}

/// What the account's actor answers itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// What the account is (XEP-0030).
    AccountInfo,
    /// Which nodes it has.
    AccountItems,
    /// Blocks addresses (XEP-0191).
    Block,
    /// The blocked addresses.
    Blocklist,
    /// A request to nodes (XEP-0060, XEP-0163).
    Nodes,
    /// Elements that the owner stores (XEP-0049).
    PrivateStorage,
    /// A new password, or the end of the account (XEP-0077).
    Register,
    /// The roster (RFC 6121 section 2).
    Roster,
    /// Frees addresses (XEP-0191).
    Unblock,
    /// The vCard (XEP-0054).
    VCard,
}

/// A question to the domain.
pub struct HostRequest<'a> {
    /// How the node is set up.
    pub options: &'a Options,
    /// When the node started.
    pub started: Timestamp,
    /// Small services.
    pub services: &'static [&'static Service],
    /// The whole stanza.
    pub frame: &'a Frame,
    /// Its one child.
    pub payload: Child<'a>,
    /// `type='set'` rather than `get`.
    pub is_set: bool,
    /// The time of the question.
    pub now: Timestamp,
}

/// Answers an IQ to a domain.
pub type HostHandler = fn(&HostRequest<'_>) -> Answer;

/// What one file declares.
#[derive(Debug)]
pub struct Module {
    /// What it is called in section `[modules]` of the configuration: the name of its file.
    pub name: &'static str,
    /// Whether an operator may turn it off.
    pub switch: Switch,
    /// Names of the extensions without which it is off.
    pub needs: &'static [&'static str],
    /// The extensions that it implements.
    pub xeps: &'static [Xep],
    /// Features that the domain announces (XEP-0030).
    pub host_features: &'static [&'static str],
    /// Features that an account announces.
    pub account_features: &'static [&'static str],
    /// Payloads (element name, namespace) that an account answers.
    pub account: &'static [(&'static str, &'static str, AccountHandler)],
    /// Payloads that a domain answers.
    pub host: &'static [(&'static str, &'static str, HostHandler)],
}

/// Every module.
pub const MODULES: &[&Module] = &[
    &archive::MODULE,
    &avatar::MODULE,
    &blocking::MODULE,
    &bookmarks::MODULE,
    &carbons::MODULE,
    &csi::MODULE,
    &directory::MODULE,
    &disco::MODULE,
    &hints::MODULE,
    &inbox::MODULE,
    &last_activity::MODULE,
    &offline::MODULE,
    &ping::MODULE,
    &private_storage::MODULE,
    &pubsub::MODULE,
    &register::MODULE,
    &rooms::MODULE,
    &roster::MODULE,
    &session::MODULE,
    &stanza_ids::MODULE,
    &time::MODULE,
    &vcard::MODULE,
    &version::MODULE,
];

/// What a program adds to the extensions of this crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extensions {
    /// They answer for accounts beside [`MODULES`].
    pub modules: &'static [&'static Module],
    /// Small services. Clients find them by discovery: without that there are none.
    pub services: &'static [&'static Service],
}

impl Extensions {
    /// Those that there are with these switches.
    pub(crate) fn with(self, switches: &Switches) -> Extensions {
        match switches.has(&disco::MODULE) {
            true => self,
            false => Extensions {
                services: &[],
                ..self
            },
        }
    }
}

impl From<&'static [&'static Module]> for Extensions {
    fn from(modules: &'static [&'static Module]) -> Extensions {
        Extensions {
            modules,
            ..Extensions::default()
        }
    }
}

/// Extensions that live below this crate, in the stream or in the connection.
pub const BELOW: &[Xep] = &[
    Xep {
        number: 114,
        name: "Jabber Component Protocol",
        version: "1.6",
        note: "A component for each domain in `[[components]]` (docs/components.md).",
    },
    Xep {
        number: 124,
        name: "Bidirectional-streams Over Synchronous HTTP (BOSH)",
        version: "1.11.2",
        note: "Without multiple streams (section 16), which are optional (docs/web.md).",
    },
    Xep {
        number: 156,
        name: "Discovering Alternative XMPP Connection Methods",
        version: "1.4.0",
        note: "host-meta in XML and JSON; the lookup over HTTPS is the operator's to route.",
    },
    Xep {
        number: 198,
        name: "Stream Management",
        version: "1.6.3",
        note: "Resumption also after the server was killed (docs/delivery.md).",
    },
    Xep {
        number: 206,
        name: "XMPP Over BOSH",
        version: "1.4",
        note: "With stream management and resumption over it.",
    },
    Xep {
        number: 368,
        name: "SRV records for XMPP over TLS",
        version: "1.1.0",
        note: "Direct TLS (`listen_tls`), ALPN `xmpp-client`; the records are the operator's.",
    },
    Xep {
        number: 440,
        name: "SASL Channel-Binding Type Capability",
        version: "0.4.0",
        note: "`tls-exporter` (RFC 9266), over TLS 1.3.",
    },
];

/// The handler of an IQ to an account, if an extension that is on has one.
pub fn for_account(switches: &Switches, name: &str, ns: &str) -> Option<AccountHandler> {
    handler_among(switches.modules(), name, ns)
}

/// The same of some modules.
pub(crate) fn handler_among<'a>(
    modules: impl IntoIterator<Item = &'a Module>,
    name: &str,
    ns: &str,
) -> Option<AccountHandler> {
    let mut entries = modules.into_iter().flat_map(|module| module.account);
    entries
        .find(|entry| entry.0 == name && entry.1 == ns)
        .map(|entry| entry.2)
}

/// The handler of a request of somebody who may not see the account's presence. What is not here is
/// answered as if nobody had the name (RFC 6121 section 11.1, XEP-0030 section 8).
///
/// Nodes may be open to everybody; what a stranger may not see is answered likewise.
pub fn for_stranger(
    switches: &Switches,
    name: &str,
    ns: &str,
    is_set: bool,
) -> Option<AccountHandler> {
    match (name, ns) {
        ("vCard", vcard::NS) | ("query", disco::NS_ITEMS) if !is_set => {
            for_account(switches, name, ns)
        }
        ("pubsub", pubsub::NS | pubsub::NS_OWNER) => for_account(switches, name, ns),
        _ => None,
    }
}

/// The handler of an IQ to a domain, if an extension that is on has one.
pub fn for_host(switches: &Switches, name: &str, ns: &str) -> Option<HostHandler> {
    let mut entries = switches.modules().flat_map(|module| module.host);
    entries
        .find(|entry| entry.0 == name && entry.1 == ns)
        .map(|entry| entry.2)
}

/// Every extension by number, with its module unless it lives below this crate: what
/// `docs/xeps.md` is generated from.
pub fn xeps() -> Vec<(Option<&'static Module>, Xep)> {
    let of = |module: &'static Module| module.xeps.iter().map(move |xep| (Some(module), *xep));
    let below = BELOW.iter().map(|xep| (None, *xep));
    let mut all: Vec<_> = MODULES.iter().copied().flat_map(of).chain(below).collect();
    all.sort_by_key(|(_, xep)| xep.number);
    all
}
