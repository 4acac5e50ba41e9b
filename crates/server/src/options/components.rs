//! Domains that other programs serve, over streams of components (XEP-0114).

use std::fmt;
use std::time::Duration;

use crate::limits::{
    COMPONENT_ANSWER, COMPONENT_CALL_AGAIN, COMPONENT_CALL_PAUSE, COMPONENT_CALLS_MAX,
    COMPONENT_HANDSHAKE, COMPONENT_LISTED_MAX, COMPONENT_PAIRS_MAX, COMPONENT_SENT_BYTES_MAX,
    COMPONENT_SENT_MAX, COMPONENT_STRANGERS_EACH_MAX, COMPONENT_STRANGERS_MAX,
};

/// Domains that other programs serve, and what their streams may take.
#[derive(Clone, Debug)]
pub struct Components {
    /// Each of them.
    pub served: Vec<Component>,
    /// From the connection of a component to its handshake; then it is closed.
    pub handshake_timeout: Duration,
    /// Connections of one shard that have not shaken hands. With one more, the address that has the
    /// most loses its oldest.
    pub strangers_max: usize,
    /// Those of one address (IPv6: of a /64). With one more it loses its oldest, so that nobody who
    /// only waits keeps the component out.
    pub strangers_per_address_max: usize,
    /// Stanzas that a component was sent and has not shown to have read. With so many, what else
    /// there is for it waits in the mailbox of its domain.
    pub sent_max: usize,
    /// Their bytes, at which likewise; one more stanza goes on top.
    pub sent_bytes_max: usize,
    /// Pairs of a sender and a recipient of which is known how far messages were taken; of more the
    /// first are forgotten, and a copy of a message that still waits may be taken again.
    pub pairs_max: usize,
    /// Time that a component has to answer a ping; then its stream ends.
    pub answer_timeout: Duration,
    /// Senders on the list of a domain whose component is away, which are called when it is there.
    /// Others try again by themselves, with pauses that double.
    pub listed_max: usize,
    /// Senders of a list that are called at a time.
    pub calls_max: usize,
    /// Pause between two times that senders are called.
    pub call_pause: Duration,
    /// How often all of a list are called while the component is away, so that what waits for too
    /// long comes back although its sender is not loaded.
    pub call_again: Duration,
}

impl Default for Components {
    fn default() -> Components {
        Components {
            served: Vec::new(),
            handshake_timeout: COMPONENT_HANDSHAKE,
            strangers_max: COMPONENT_STRANGERS_MAX,
            strangers_per_address_max: COMPONENT_STRANGERS_EACH_MAX,
            sent_max: COMPONENT_SENT_MAX,
            sent_bytes_max: COMPONENT_SENT_BYTES_MAX,
            pairs_max: COMPONENT_PAIRS_MAX,
            answer_timeout: COMPONENT_ANSWER,
            listed_max: COMPONENT_LISTED_MAX,
            calls_max: COMPONENT_CALLS_MAX,
            call_pause: COMPONENT_CALL_PAUSE,
            call_again: COMPONENT_CALL_AGAIN,
        }
    }
}

/// A domain that another program serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// The domain, normalised.
    pub domain: String,
    /// What the program proves that it is the right one with.
    pub secret: Secret,
    /// The number of its listener ([`net::Speaks::Component`]).
    pub port: u16,
}

/// A text that `Debug` does not show.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes over a text.
    pub fn new(text: String) -> Secret {
        Secret(text)
    }

    /// The text itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
