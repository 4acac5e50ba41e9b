//! Records: the durable changes that nodes are made of, with their versioned encoding. How a record
//! changes state is `state`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::access::{Affiliation, SubscriptionState};
use crate::config::Config;

/// The encoding version that [`Record::encode`] writes, its leading byte.
pub const RECORD_VERSION: u8 = 1;

/// One durable change of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Makes a node, with its creator as its owner.
    Created {
        /// Its name.
        node: String,
        /// Above the number of every node that the service has.
        number: u64,
        /// When, in milliseconds since 1970.
        at: i64,
        /// The creator's bare address.
        creator: String,
        /// How it behaves.
        config: Box<Config>,
    },
    /// Replaces the configuration.
    Configured {
        /// The node.
        node: String,
        /// How it behaves.
        config: Box<Config>,
    },
    /// Removes a node with everything in it.
    Deleted {
        /// The node.
        node: String,
        /// Where to go instead.
        moved_to: Option<String>,
    },
    /// Replaces the affiliation of a bare address; nothing is kept of it if it is none.
    Affiliated {
        /// The node.
        node: String,
        /// The bare address.
        address: String,
        /// The relation.
        affiliation: Affiliation,
    },
    /// Replaces the subscription of an address, bare or full; nothing is kept of it if its state is
    /// none.
    Subscribed {
        /// The node.
        node: String,
        /// The address that is told.
        address: String,
        /// What it has.
        subscription: Subscription,
    },
    /// Adds an item, or replaces the one with its id; it is the newest.
    Published {
        /// The node.
        node: String,
        /// The item.
        item: Item,
    },
    /// Removes items.
    Retracted {
        /// The node.
        node: String,
        /// Their ids.
        items: Vec<String>,
    },
    /// Removes all items.
    Purged {
        /// The node.
        node: String,
    },
}

/// A subscription of one address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    /// How far it has come.
    pub state: SubscriptionState,
    /// It is told of nothing while this is set (`pubsub#deliver`).
    pub is_silent: bool,
    /// When it ends, in milliseconds since 1970 (section 12.19).
    pub expires: Option<i64>,
    /// Milliseconds between two digests of what it is told, 0 for single notifications
    /// (`pubsub#digest`). Subscriptions that were made before there was this end in front of it.
    #[serde(deserialize_with = "or_zero")]
    pub digest_ms: u32,
}

/// Reads a number that may be missing at the end.
fn or_zero<'a, D: Deserializer<'a>>(from: D) -> Result<u32, D::Error> {
    Ok(u32::deserialize(from).unwrap_or(0))
}

/// What was published under one id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// Unique within the node.
    pub id: String,
    /// Its place among the items of the service: later ones have higher numbers.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The publisher's bare address.
    pub publisher: String,
    /// The payload, an element that declares what it needs; empty if there is none.
    pub payload: Arc<[u8]>,
}

/// Why bytes are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The encoding is of a newer version.
    #[error("record of version {0}; this program reads up to {RECORD_VERSION}")]
    Version(u8),
    /// The bytes are no record.
    #[error("undecodable record: {0}")]
    Encoding(String),
}

impl Record {
    /// The node that it changes.
    pub fn node(&self) -> &str {
        match self {
            Record::Created { node, .. }
            | Record::Configured { node, .. }
            | Record::Deleted { node, .. }
            | Record::Affiliated { node, .. }
            | Record::Subscribed { node, .. }
            | Record::Published { node, .. }
            | Record::Retracted { node, .. }
            | Record::Purged { node } => node,
        }
    }

    /// Bytes for a journal: a version byte, then postcard.
    pub fn encode(&self) -> Vec<u8> {
        // Invariant: a record has no map with unknown length and no type that refuses to be
        // written; memory is what it is written to.
        postcard::to_extend(self, vec![RECORD_VERSION]).expect("a record is written to memory")
    }

    /// The inverse of [`Record::encode`].
    ///
    /// # Errors
    /// [`RecordError::Version`] for a newer version, [`RecordError::Encoding`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Record, RecordError> {
        decode(bytes)
    }

    /// Several of them as one value.
    pub fn encode_all(records: &[Record]) -> Vec<u8> {
        // Invariant: as in [`Record::encode`].
        postcard::to_extend(records, vec![RECORD_VERSION]).expect("records are written to memory")
    }

    /// The inverse of [`Record::encode_all`].
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode_all(bytes: &[u8]) -> Result<Vec<Record>, RecordError> {
        decode(bytes)
    }
}

fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, RecordError> {
    match bytes.split_first() {
        Some((&RECORD_VERSION, body)) => {
            postcard::from_bytes(body).map_err(|e| RecordError::Encoding(e.to_string()))
        }
        Some((&version, _)) if version > RECORD_VERSION => Err(RecordError::Version(version)),
        _ => Err(RecordError::Encoding("no version byte".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let node = || "n".to_owned();
        for record in [
            Record::Created {
                node: node(),
                number: 3,
                at: -1,
                creator: "a@b".to_owned(),
                config: Box::default(),
            },
            Record::Configured {
                node: node(),
                config: Box::default(),
            },
            Record::Deleted {
                node: node(),
                moved_to: Some("xmpp:x".to_owned()),
            },
            Record::Affiliated {
                node: node(),
                address: "a@b".to_owned(),
                affiliation: Affiliation::PublishOnly,
            },
            Record::Subscribed {
                node: node(),
                address: "a@b/c".to_owned(),
                subscription: Subscription {
                    digest_ms: 60_000,
                    ..Subscription::default()
                },
            },
            Record::Published {
                node: node(),
                item: Item::default(),
            },
            Record::Retracted {
                node: node(),
                items: vec!["i".to_owned()],
            },
            Record::Purged { node: node() },
        ] {
            assert_eq!(record.node(), "n");
            assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
            let both = [record.clone(), record];
            let decoded = Record::decode_all(&Record::encode_all(&both));
            assert_eq!(decoded.as_deref(), Ok(&both[..]));
        }
    }

    /// Without digests: node, address, state, whether it is silent, and no end.
    #[test]
    fn a_subscription_of_before_is_read() {
        let record = Record::Subscribed {
            node: "n".to_owned(),
            address: "a@b".to_owned(),
            subscription: Subscription {
                state: SubscriptionState::Subscribed,
                ..Subscription::default()
            },
        };
        let bytes = record.encode();
        let before = bytes.strip_suffix(&[0]).expect("no digest is 0");
        assert_eq!(before, b"\x01\x04\x01n\x03a@b\x03\x00\x00");
        assert_eq!(Record::decode(before), Ok(record));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert_eq!(Record::decode(&[2, 0]), Err(RecordError::Version(2)));
        for bytes in [&[][..], &[0], &[1], &[1, 200]] {
            let decoded = Record::decode(bytes);
            assert!(matches!(decoded, Err(RecordError::Encoding(_))));
        }
    }
}
