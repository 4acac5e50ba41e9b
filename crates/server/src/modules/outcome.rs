//! What an extension sees of an account, and what it returns: a view in, an outcome out. It changes
//! nothing and sends nothing by itself; the account's actor performs what it returns
//! (`user/iq.rs`), so an extension cannot forget a commit, a budget or a counter.

use std::rc::Rc;
use std::sync::Arc;

use stdx::time::Timestamp;
use store::{ArchivePrefs, Store};
use xmpp::error::{Condition, StanzaError};

use crate::iq::{Found, Job};
use crate::options::{Limits, Options};

/// An account as it is now, changes included that are not durable yet: an answer waits for them.
pub struct View<'a> {
    pub(crate) address: &'a Arc<str>,
    pub(crate) now: Timestamp,
    pub(crate) options: &'a Options,
    pub(crate) limits: Rc<Limits>,
    pub(crate) is_available: bool,
    pub(crate) last: Option<&'a (Timestamp, String)>,
    pub(crate) archive_prefs: Option<&'a ArchivePrefs>,
}

impl<'a> View<'a> {
    /// The account's bare address, normalised.
    pub fn address(&self) -> &'a Arc<str> {
        self.address
    }

    /// The time of the request.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// How the node is set up.
    pub fn options(&self) -> &'a Options {
        self.options
    }

    /// Bounds as they are now: they may change while the node runs.
    pub fn limits(&self) -> Rc<Limits> {
        Rc::clone(&self.limits)
    }

    /// Whether a session of the account is available (RFC 6121 section 4).
    pub fn is_available(&self) -> bool {
        self.is_available
    }

    /// When the last session became unavailable, and the status that it left behind. `None` if it
    /// never was there.
    pub fn last_seen(&self) -> Option<(Timestamp, &'a str)> {
        let (at, status) = self.last?;
        Some((*at, status))
    }

    /// What of the account's messages is archived; `None` if it never said so.
    pub fn archive_prefs(&self) -> Option<&'a ArchivePrefs> {
        self.archive_prefs
    }
}

/// A change that an extension asks for. The durable ones are recorded, and the answer waits for
/// the commit.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// The asking session gets copies of messages, or none (XEP-0280).
    Carbons(bool),
    /// What is archived from now on (XEP-0313 section 7). Durable.
    ArchivePrefs(ArchivePrefs),
}

/// The answer of an extension.
pub(crate) enum Reply {
    /// `type='result'` with this payload, empty for none.
    Result(Vec<u8>),
    /// `type='error'`.
    Error(StanzaError),
    /// What the store says, read on a thread of its own.
    Read(Job),
}

/// What an extension returns: changes, which are performed in order, and the answer, which leaves
/// when they are durable.
pub struct Outcome {
    pub(crate) changes: Vec<Change>,
    pub(crate) reply: Reply,
}

impl Outcome {
    fn new(reply: Reply) -> Outcome {
        Outcome {
            changes: Vec::new(),
            reply,
        }
    }

    /// A result with this payload, empty for none.
    pub fn result(payload: Vec<u8>) -> Outcome {
        Outcome::new(Reply::Result(payload))
    }

    /// A result without a payload.
    pub fn done() -> Outcome {
        Outcome::result(Vec::new())
    }

    /// An error by its condition alone.
    pub fn error(condition: Condition) -> Outcome {
        StanzaError::new(condition).into()
    }

    /// The payload that `job` reads. It may block: it runs on a pool, behind every change of the
    /// account that is not durable yet, and within the budgets of docs/limits.md.
    pub fn read(
        job: impl FnOnce(&Store) -> Result<Vec<u8>, StanzaError> + Send + 'static,
    ) -> Outcome {
        Outcome::read_page(|store| job(store).map(|payload| (Vec::new(), payload)))
    }

    /// The same for an answer that other stanzas go before, to the owner's session.
    pub(crate) fn read_page(
        job: impl FnOnce(&Store) -> Result<Found, StanzaError> + Send + 'static,
    ) -> Outcome {
        Outcome::new(Reply::Read(Job::new(job)))
    }

    /// With one more change.
    #[must_use]
    pub fn and(mut self, change: Change) -> Outcome {
        self.changes.push(change);
        self
    }
}

impl From<StanzaError> for Outcome {
    fn from(error: StanzaError) -> Outcome {
        Outcome::new(Reply::Error(error))
    }
}
