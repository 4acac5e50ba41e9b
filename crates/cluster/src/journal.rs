//! The journal on one stream, as machines: bytes, answers and time in, effects out. Owns how a
//! change becomes one message of the stream, who may write, and what became of what is in doubt.
//! Nothing here knows a socket, a thread or the engine's client.

pub mod member;
pub mod message;
pub mod replica;
pub mod take_over;
pub mod writer;

use bytes::Bytes;

/// Sequence of a message in its stream: 1 for the first.
pub type Seq = u64;

/// One tenure of a stream. The map gives each out once; the highest in the stream may write.
pub type Epoch = u64;

/// A publish, which is only ever repeated identically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// Names it within its process.
    pub number: u64,
    /// `Nats-Expected-Last-Sequence`: if it is stored, then right behind this.
    pub expected: Seq,
    /// `Nats-Msg-Id`: never used for anything else, in this process or another.
    pub id: String,
    /// The message.
    pub payload: Bytes,
}

/// What the engine answered to a publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Stored by a majority, at this sequence; now or when it was sent before.
    Stored(Seq),
    /// `10071`: the stream's leader expects another sequence. It may think of proposals that never
    /// come to be, the publish itself among them.
    WrongSequence,
    /// No answer, none that decides anything (`10158`: in process), or nobody who could answer.
    Silence,
    /// Any other refusal.
    Refused(String),
}

/// What the stream's leader has at a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This message.
    Message(Bytes),
    /// Nothing that is committed, as far as it knows.
    Absent,
    /// No answer.
    Silence,
}
