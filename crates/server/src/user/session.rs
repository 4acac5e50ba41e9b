//! One session of a user: a resource that is bound (RFC 6120 section 7). State only; the rules are
//! in the files beside this one.

use std::sync::Arc;

use net::ConnRef;
use xml::Frame;

use super::managed::Managed;
use crate::modules::caps::Caps;
use crate::modules::csi::Held;

/// A bound resource. An idle one costs its 88 bytes, its address and its last presence.
pub(crate) struct Session {
    /// Its name among the user's sessions: the connection that it was bound on, which is also where
    /// its stanzas go unless it is managed.
    pub conn: ConnRef,
    /// Its name in the log's inbox; 0 while there is no log.
    pub number: u32,
    /// The full address.
    pub full: Arc<str>,
    /// Offset of the resource in `full`.
    pub resource_at: u16,
    /// Priority of the last presence (RFC 6121 section 4.7.2.3).
    pub priority: i8,
    /// Its connection has written the result of the bind.
    pub started: bool,
    /// It asked for the roster and is told of its changes (RFC 6121 section 2.1.6).
    pub wants_roster: bool,
    /// It asked for the block list and is told of its changes (XEP-0191 section 3.3).
    pub wants_blocklist: bool,
    /// It wants copies of what other sessions send and receive (XEP-0280).
    pub carbons: bool,
    /// Nobody looks at its client (XEP-0352).
    pub is_inactive: bool,
    /// The last available presence, `None` while unavailable.
    pub presence: Option<Frame>,
    /// Who received directed presence and must learn of its end (RFC 6121 section 4.6.3).
    pub directed: Option<Box<Vec<Box<str>>>>,
    /// Its stream management (XEP-0198), if its client enabled it.
    pub managed: Option<Box<Managed>>,
    /// What an inactive client is spared until it matters.
    pub held: Option<Box<Held>>,
    /// What its client can do (XEP-0115), once that is verified; shared with others like it.
    pub caps: Option<Arc<Caps>>,
}

/// An idle user costs one: a field that few need belongs in a box.
const _: () = assert!(size_of::<Session>() <= 88);

impl Session {
    /// A session that has just been bound; `full` is the bare address, a slash and the resource.
    pub(crate) fn new(conn: ConnRef, bare: &str, resource: &str) -> Self {
        Session {
            conn,
            number: 0,
            full: format!("{bare}/{resource}").into(),
            resource_at: bare.len() as u16 + 1,
            priority: 0,
            started: false,
            wants_roster: false,
            wants_blocklist: false,
            carbons: false,
            is_inactive: false,
            presence: None,
            directed: None,
            managed: None,
            held: None,
            caps: None,
        }
    }

    /// The connection that it has at the moment.
    pub(crate) fn link(&self) -> Option<ConnRef> {
        match &self.managed {
            None => Some(self.conn),
            Some(managed) => managed.attached(),
        }
    }

    /// The resource.
    pub(crate) fn resource(&self) -> &str {
        &self.full[usize::from(self.resource_at)..]
    }

    /// An "available resource" of RFC 6121.
    pub(crate) fn is_available(&self) -> bool {
        self.presence.is_some()
    }

    /// Whether messages to the bare address may go to it (RFC 6121 section 8.5.2.1.1).
    pub(crate) fn takes_messages(&self) -> bool {
        self.is_available() && self.priority >= 0
    }
}
