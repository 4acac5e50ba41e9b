//! The messages of a stream. Owns their format: a version byte, then who wrote it in which epoch,
//! then either nothing more (an epoch record) or appends with where each range of them begins.
//!
//! A kind or a field is added under a new version; a reader that meets a higher one stops.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{Position, RangeId};

use crate::flaw::{self, Flaw};
use crate::journal::{Epoch, Seq};

/// The version that [`Message::encode`] writes.
pub const FORMAT: u8 = 1;

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
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Written by a newer version of this program.
    #[error("a message of format {0}; this program reads {FORMAT}: upgrade it")]
    Newer(u8),
    /// Anything else.
    #[error("an undecodable message: {0}")]
    Malformed(String),
}

impl Message {
    /// The bytes to publish.
    pub fn encode(&self) -> Bytes {
        let bytes = vec![FORMAT];
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
        match bytes.split_first() {
            Some((&FORMAT, body)) => match postcard::take_from_bytes(body) {
                Ok((message, [])) => Ok(message),
                Ok(_) => Err(MessageError::Malformed("more behind its end".to_owned())),
                Err(error) => Err(MessageError::Malformed(error.to_string())),
            },
            Some((&version, _)) if version > FORMAT => Err(MessageError::Newer(version)),
            _ => Err(MessageError::Malformed("no version byte".to_owned())),
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
        assert_eq!(Message::decode(&[2, 0]), Err(MessageError::Newer(2)));
    }
}
