//! The messages of a stream. Owns their format: a version byte, then who wrote it in which epoch,
//! then either nothing more (an epoch record) or appends with where each range of them begins.
//!
//! A kind or a field is added under a new version; a reader that meets a higher one stops. The
//! version says at which level the message was written ([`stdx::level`]): replicas write what it
//! changes in the forms of that level, so that their copies are equal.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use stdx::Level;
use store::{Position, RangeId};

use crate::flaw::{self, Flaw};
use crate::journal::{Epoch, Seq};

/// The version of levels 1 and 2. That of a higher level is its number.
pub const FORMAT: u8 = 1;

const FORMAT_LEVEL: Level = Level::new(2);

fn format_of(level: Level) -> u8 {
    match level > FORMAT_LEVEL {
        // There will never be so many.
        true => u8::try_from(level.number()).unwrap_or(u8::MAX),
        false => FORMAT,
    }
}

fn level_of(format: u8) -> Option<Level> {
    match format {
        FORMAT => Some(FORMAT_LEVEL),
        _ => Some(Level::new(format.into())).filter(|level| *level > FORMAT_LEVEL),
    }
}

/// One life of one node's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Author {
    /// The node's name.
    pub node: String,
    /// Differs in each life of the process.
    pub incarnation: u64,
}

/// The appends of one range in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    range: u16,
    /// Position of the first of them.
    pub first: u64,
    /// How many.
    pub count: u32,
}

impl Run {
    /// `count` appends of a range from `first` on.
    pub fn new(range: RangeId, first: Position, count: u32) -> Run {
        let (range, first) = (range.index(), first.value());
        Run {
            range,
            first,
            count,
        }
    }

    /// The range, if there is one with this number.
    pub fn range(&self) -> Option<RangeId> {
        RangeId::from_index(self.range)
    }
}

/// The rolling hashes of a replica at one message, for the others to compare with theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// At this message, applied.
    pub seq: Seq,
    /// One for each range of the stream, in order.
    pub hashes: Vec<u64>,
}

/// One append in a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    range: u16,
    /// The append's bytes.
    pub bytes: Bytes,
}

impl Entry {
    /// An append of a range.
    pub fn new(range: RangeId, bytes: Bytes) -> Entry {
        let range = range.index();
        Entry { range, bytes }
    }

    /// The range, if there is one with this number.
    pub fn range(&self) -> Option<RangeId> {
        RangeId::from_index(self.range)
    }
}

/// What a message does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Body {
    /// Begins the epoch: what an older one writes behind this is void.
    Epoch,
    /// Changes ranges.
    Appends {
        /// Each range once.
        runs: Vec<Run>,
        /// What the home's replica had at an earlier message.
        check: Option<Check>,
        /// In order.
        entries: Vec<Entry>,
    },
}

/// One message of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Whoever wrote it.
    pub author: Author,
    /// Differs in each message of an author.
    pub number: u64,
    /// The epoch in which it was written.
    pub epoch: Epoch,
    /// What it does.
    pub body: Body,
    /// At which level it is written: the version byte says it.
    #[serde(skip)]
    pub level: Level,
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Written by a newer version of this program.
    #[error("a message of format level {0}; this program knows up to {known}: upgrade it",
        known = Level::known())]
    Newer(Level),
    /// Anything else.
    #[error("an undecodable message: {0}")]
    Malformed(String),
}

impl Message {
    /// The bytes to publish.
    pub fn encode(&self) -> Bytes {
        let bytes = vec![format_of(self.level)];
        // Invariant: the message has no type that postcard refuses.
        let bytes = postcard::to_extend(self, bytes).expect("postcard encodes a message");
        bytes.into()
    }

    /// The inverse of [`Message::encode`].
    ///
    /// # Errors
    /// [`MessageError::Newer`], or [`MessageError::Malformed`] for anything that is no message,
    /// bytes behind its end included.
    pub fn decode(bytes: &[u8]) -> Result<Message, MessageError> {
        Message::decode_as(bytes, Level::known())
    }

    /// As a program reads it that knows levels up to `known`: for tests of other versions.
    ///
    /// # Errors
    /// As [`Message::decode`].
    pub fn decode_as(bytes: &[u8], known: Level) -> Result<Message, MessageError> {
        let malformed = |why: &str| MessageError::Malformed(why.to_owned());
        let (&format, body) = bytes.split_first().ok_or_else(|| malformed("empty"))?;
        let level = level_of(format).ok_or_else(|| malformed("no version byte"))?;
        if level > known {
            return Err(MessageError::Newer(level));
        }
        match postcard::take_from_bytes::<Message>(body) {
            Ok((message, [])) => Ok(Message { level, ..message }),
            Ok(_) => Err(malformed("more behind its end")),
            Err(error) => Err(malformed(&error.to_string())),
        }
    }

    /// The id under which the engine knows it.
    pub fn id(&self) -> String {
        let Author { node, incarnation } = &self.author;
        match flaw::is(Flaw::IdWithoutIncarnation) || flaw::is(Flaw::AnyAcknowledgement) {
            true => format!("{node}.{}", self.number),
            false => format!("{node}.{incarnation:x}.{}", self.number),
        }
    }

    /// Whether it was written by the same process at the same time as the other.
    pub fn is_same(&self, other: &Message) -> bool {
        (self.number, &self.author) == (other.number, &other.author)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let range = RangeId::from_index(3).unwrap();
        Message {
            author: Author {
                node: "a".to_owned(),
                incarnation: 7,
            },
            number: 9,
            epoch: 2,
            body: Body::Appends {
                runs: vec![Run::new(range, Position::new(5), 1)],
                check: Some(Check {
                    seq: 4,
                    hashes: vec![1, 2],
                }),
                entries: vec![Entry::new(range, Bytes::from_static(b"xyz"))],
            },
            level: FORMAT_LEVEL,
        }
    }

    /// Goal: the bytes of the first format never change; a running cluster reads them.
    #[test]
    fn the_first_format_is_stable() {
        let bytes = message().encode();
        assert_eq!(
            bytes[..],
            [
                1, 1, b'a', 7, 9, 2, 1, 1, 3, 5, 1, 1, 4, 2, 1, 2, 1, 3, 3, b'x', b'y', b'z'
            ]
        );
        assert_eq!(Message::decode(&bytes), Ok(message()));
        assert_eq!(message().id(), "a.7.9");
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let bytes = message().encode();
        for end in 0..bytes.len() {
            assert!(matches!(
                Message::decode(&bytes[..end]),
                Err(MessageError::Malformed(_))
            ));
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(
            Message::decode(&longer),
            Err(MessageError::Malformed(_))
        ));
        for none in [0, 2] {
            let refused = Message::decode(&[none, 0]);
            assert!(matches!(refused, Err(MessageError::Malformed(_))));
        }
    }

    /// Goal: a program reads the levels that it knows, and refuses the next one by its number, with
    /// what to do.
    #[test]
    fn a_message_of_the_next_level_is_refused_by_name() {
        let next = Level::new(Level::NEWEST.number() + 1);
        let message = Message {
            level: next,
            ..message()
        };
        let bytes = message.encode();
        assert_eq!(Message::decode_as(&bytes, next), Ok(message));
        let refused = Message::decode(&bytes).unwrap_err();
        assert_eq!(refused, MessageError::Newer(next));
        let said = format!(
            "a message of format level {next}; this program knows up to {}: upgrade it",
            Level::NEWEST
        );
        assert_eq!(refused.to_string(), said);
        // What is written at a level of before is read by whoever knows more.
        let bytes = self::message().encode();
        assert_eq!(Message::decode_as(&bytes, next), Ok(self::message()));
    }
}
