//! Records: the durable changes that a room's state is made of, with their versioned encoding. How
//! a record changes state is `state`.

use serde::{Deserialize, Serialize};

use crate::affiliation::Affiliation;
use crate::card::Card;
use crate::config::{Config, Whois};
use crate::hats::Hats;

/// The encoding version that [`Record::encode`] writes, its leading byte.
pub const RECORD_VERSION: u8 = 1;

/// The encoding version that [`Listed::encode`] writes.
const LISTED_VERSION: u8 = 3;

/// That of before, of a persistent room: its name, and whether anybody may know of it.
const LISTED_PERSISTENT: u8 = 1;

/// The same of a temporary one.
const LISTED_TEMPORARY: u8 = 2;

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
    /// Whether managed sessions (XEP-0198) are in it: until they have left, a temporary room is as
    /// durable as a persistent one.
    Followed(bool),
    /// Replaces a message of the room's log by what is left of it.
    Retracted {
        /// Its place.
        seq: u64,
        /// The tombstone, without `to`.
        xml: Vec<u8>,
    },
    /// Replaces all hats and whose they are.
    Hats(Box<Hats>),
    /// Replaces the room's card.
    Card(Box<Card>),
    /// Homes of new members may not know yet that what is said behind this place of the log is owed
    /// to these ([`crate::Effect::Members`]).
    Owed(u64),
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
    /// Whether it ends with its last occupant.
    pub is_temporary: bool,
    /// What it is for.
    pub description: String,
    /// The language of its discussions, empty if it has none.
    pub lang: String,
    /// Whether anybody may enter, without a password and without being a member.
    pub is_open: bool,
    /// Who is shown real addresses.
    pub whois: Whois,
}

impl Listed {
    /// What a list says of a room with this configuration. Of a room that its creator has not
    /// configured yet others know nothing.
    pub fn of(config: &Config, is_locked: bool) -> Listed {
        Listed {
            name: config.name.clone(),
            is_public: config.is_public && !is_locked,
            is_temporary: !config.is_persistent,
            description: config.description.clone(),
            lang: config.lang.clone(),
            is_open: config.is_open(),
            whois: config.whois,
        }
    }

    /// Whether [`Listed::of`] is this, without making it.
    pub(crate) fn is_of(&self, config: &Config, is_locked: bool) -> bool {
        let Listed {
            name,
            is_public,
            is_temporary,
            description,
            lang,
            is_open,
            whois,
        } = self;
        config.name == *name
            && (config.is_public && !is_locked) == *is_public
            && config.is_persistent != *is_temporary
            && config.description == *description
            && config.lang == *lang
            && config.is_open() == *is_open
            && config.whois == *whois
    }

    /// Bytes for a store: a version byte, then postcard.
    pub fn encode(&self) -> Vec<u8> {
        // Invariant: as in `Record::encode`.
        postcard::to_extend(self, vec![LISTED_VERSION]).expect("it is written to memory")
    }

    /// The inverse of [`Listed::encode`]. What versions before 3 did not say is as if it were
    /// empty.
    ///
    /// # Errors
    /// As [`Record::decode`].
    pub fn decode(bytes: &[u8]) -> Result<Listed, RecordError> {
        match bytes.split_first() {
            Some((&version @ (LISTED_PERSISTENT | LISTED_TEMPORARY), _)) => {
                let (name, is_public) = decode_of(bytes, version)?;
                Ok(Listed {
                    name,
                    is_public,
                    is_temporary: version == LISTED_TEMPORARY,
                    ..Listed::default()
                })
            }
            _ => decode_of(bytes, LISTED_VERSION),
        }
    }
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, RecordError> {
    decode_of(bytes, RECORD_VERSION)
}

fn decode_of<'a, T: Deserialize<'a>>(bytes: &'a [u8], own: u8) -> Result<T, RecordError> {
    match bytes.split_first() {
        Some((&version, body)) if version == own => {
            postcard::from_bytes(body).map_err(|e| RecordError::Encoding(e.to_string()))
        }
        Some((&version, _)) if version > own => Err(RecordError::Version(version)),
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
            Record::Followed(true),
            Record::Retracted {
                seq: 3,
                xml: b"<message/>".to_vec(),
            },
            Record::Hats(Box::default()),
            Record::Card(Box::new(Card {
                xml: b"<vCard/>".to_vec(),
                hashes: vec!["a".to_owned()],
            })),
            Record::Owed(9),
        ] {
            assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn what_lists_say_is_read_back() {
        for is_temporary in [false, true] {
            let listed = Listed {
                name: "A room".to_owned(),
                is_public: true,
                is_temporary,
                description: "Of some use".to_owned(),
                lang: "en".to_owned(),
                is_open: true,
                whois: Whois::Anyone,
            };
            assert_eq!(Listed::decode(&listed.encode()), Ok(listed));
        }
        assert_eq!(Listed::decode(&[4]), Err(RecordError::Version(4)));
        let broken = Listed::decode(&[3, 200]);
        assert!(matches!(broken, Err(RecordError::Encoding(_))));
    }

    /// Rooms of before version 3 are in lists as they were.
    #[test]
    fn what_lists_said_before_is_read() {
        for version in [1, 2] {
            let before = [version, 6, b'A', b' ', b'r', b'o', b'o', b'm', 1];
            let expected = Listed {
                name: "A room".to_owned(),
                is_public: true,
                is_temporary: version == 2,
                ..Listed::default()
            };
            assert_eq!(Listed::decode(&before), Ok(expected));
            assert!(Listed::decode(&before[..4]).is_err());
        }
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
