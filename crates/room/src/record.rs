//! Records: the durable changes that a room's state is made of, with their versioned encoding. How
//! a record changes state is `state`.

use serde::{Deserialize, Serialize};

use crate::affiliation::Affiliation;
use crate::config::Config;

/// The encoding version that [`Record::encode`] writes, its leading byte.
pub const RECORD_VERSION: u8 = 1;

/// One durable change of one room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// Makes the room, locked until it is configured, and forgets what was before.
    Created {
        /// When, in milliseconds since 1970.
        at: i64,
        /// What occupant ids are made with (XEP-0421). Never leaves the room.
        secret: [u8; 16],
        /// The number of the first message, above all that the address has given out.
        first: u64,
    },
    /// Replaces the configuration.
    Configured(Box<Config>),
    /// The room may be entered by others than its creator.
    Unlocked,
    /// Replaces what relates an address to the room; nothing of it is kept if it is none.
    Affiliated(Affiliated),
    /// Replaces the subject.
    Subject(Subject),
    /// Adds a message to the room's log.
    Message(Message),
    /// Removes the room with everything in it.
    Destroyed,
}

/// What relates an address to the room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Affiliated {
    /// A bare address, or a domain alone.
    pub address: String,
    /// The relation.
    pub affiliation: Affiliation,
    /// The nick that nobody else may use.
    pub nick: Option<String>,
    /// Why, in the words of who decided it.
    pub reason: Option<String>,
}

impl Affiliated {
    /// Bytes of its texts.
    pub(crate) fn bytes(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        self.address.len() + of(&self.nick) + of(&self.reason)
    }
}

/// What the room talks about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The message without `to`, from the occupant who set it.
    pub xml: Vec<u8>,
    /// When, in milliseconds since 1970.
    pub at: i64,
}

/// A message of the room's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its place, which makes its id. Never given out twice.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The sender's real bare address. Never leaves the room.
    pub sender: String,
    /// The message without `to`, as every occupant is sent it.
    pub xml: Vec<u8>,
}

/// What a list of rooms says about a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name for people.
    pub name: String,
    /// Whether anybody may know of it.
    pub is_public: bool,
}

impl Listed {
    /// Bytes for a store: a version byte, then postcard.
    pub fn encode(&self) -> Vec<u8> {
        // Invariant: as in `Record::encode`.
        postcard::to_extend(self, vec![RECORD_VERSION]).expect("it is written to memory")
    }

    /// The inverse of [`Listed::encode`].
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Listed, RecordError> {
        decode(bytes)
    }
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, RecordError> {
    match bytes.split_first() {
        Some((&RECORD_VERSION, body)) => {
            postcard::from_bytes(body).map_err(|e| RecordError::Encoding(e.to_string()))
        }
        Some((&version, _)) if version > RECORD_VERSION => Err(RecordError::Version(version)),
        _ => Err(RecordError::Encoding("no version byte".to_owned())),
    }
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        for record in [
            Record::Created {
                at: -1,
                secret: [7; 16],
                first: 9,
            },
            Record::Configured(Box::default()),
            Record::Unlocked,
            Record::Affiliated(Affiliated {
                address: "a@b".to_owned(),
                affiliation: Affiliation::Owner,
                nick: Some("n".to_owned()),
                reason: None,
            }),
            Record::Subject(Subject::default()),
            Record::Message(Message {
                seq: 3,
                ..Message::default()
            }),
            Record::Destroyed,
        ] {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn what_lists_say_is_read_back() {
        let listed = Listed {
            name: "A room".to_owned(),
            is_public: true,
        };
        assert_eq!(Listed::decode(&listed.encode()), Ok(listed));
        assert_eq!(Listed::decode(&[2]), Err(RecordError::Version(2)));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert_eq!(Record::decode(&[2, 0]), Err(RecordError::Version(2)));
        for bytes in [&[][..], &[0], &[1], &[1, 200]] {
            assert!(matches!(
                Record::decode(bytes),
                Err(RecordError::Encoding(_))
            ));
        }
    }
}
