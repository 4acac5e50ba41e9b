//! The plain values that nodes exchange: names, addresses of processes, reasons.
//!
//! Owns everything that is copied into frames and handed to users. Deliberately not here: groups
//! ([`crate::view`]) and anything that refers to a running node.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The body of a message: bytes that only sender and receiver understand.
pub type Body = bytes::Bytes;

/// What a group, a process or a function is called.
pub type Name = Arc<str>;

/// The longest name of a node, group, process, function or attribute, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// A name that is empty, too long, or has a control character in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to 255 bytes and no control characters")]
pub struct BadName;

/// Checks a name that came from outside.
pub(crate) fn check_name(name: &str) -> Result<(), BadName> {
    let is_good = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    if is_good && !name.chars().any(char::is_control) {
        return Ok(());
    }
    Err(BadName)
}

/// The name of a node. Over TCP it ends in `@HOST:PORT`, which is where others reach it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`BadName`], if it is none.
    pub fn new(name: &str) -> Result<Self, BadName> {
        check_name(name)?;
        Ok(NodeName(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What follows the last `@`: where the node listens.
    pub fn address(&self) -> Option<&str> {
        self.0.rsplit_once('@').map(|(_, address)| address)
    }
}

impl TryFrom<String> for NodeName {
    type Error = BadName;

    fn try_from(name: String) -> Result<Self, BadName> {
        NodeName::new(&name)
    }
}

impl TryFrom<&str> for NodeName {
    type Error = BadName;

    fn try_from(name: &str) -> Result<Self, BadName> {
        NodeName::new(name)
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> String {
        name.0.as_ref().into()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The address of a process. Plain data, never given out again: `life` tells the lives of a node
/// apart, and `id` is used once within a life.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Pid {
    /// Where it runs.
    pub node: NodeName,
    /// Which life of that node; a later one is a larger number.
    pub life: u64,
    /// Which process of that life. The lowest 8 bits are its shard.
    pub id: u64,
}

/// Bits of [`Pid::id`] that number the shard. The lowest ones, so that ids stay short on the wire.
pub(crate) const SHARD_BITS: u32 = 8;

/// The shard of a process's id.
pub(crate) fn shard_of(id: u64) -> u16 {
    (id & ((1 << SHARD_BITS) - 1)) as u16
}

impl Pid {
    /// The shard of the node that the process runs on.
    pub fn shard(&self) -> u16 {
        shard_of(self.id)
    }
}

impl fmt::Debug for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let serial = self.id >> SHARD_BITS;
        write!(f, "<{}/{}.{}.{serial}>", self.node, self.life, self.shard())
    }
}

impl fmt::Display for Pid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why a process ended, or why nothing is known of it any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reason {
    /// It wanted to.
    Normal,
    /// Its supervisor or the end of its node wanted it to.
    Shutdown,
    /// It was told to from outside.
    Killed,
    /// It panicked, with this message.
    Panic(String),
    /// It gave up, saying this; or another process ended it with this reason.
    Failed(String),
    /// It exceeded a bound of the runtime.
    Limit(String),
    /// It was a supervisor whose children kept failing.
    Escalated,
    /// It was gone before anybody looked.
    NoProcess,
    /// Its node cannot be reached. The process may be running there nevertheless.
    NoConnection,
    /// Its registered name clashed when two parts of a network met, and it lost.
    NameClash,
}

impl Reason {
    /// Whether linked processes end with it and supervisors restart transient children for it.
    pub fn is_crash(&self) -> bool {
        !matches!(self, Reason::Normal | Reason::Shutdown)
    }

    /// The reason, with its text cut to the bound of the wire.
    pub(crate) fn bounded(self) -> Self {
        match self {
            Reason::Panic(text) => Reason::Panic(cut(text)),
            Reason::Failed(text) => Reason::Failed(cut(text)),
            Reason::Limit(text) => Reason::Limit(cut(text)),
            other => other,
        }
    }
}

/// The longest text of a reason that crosses a link, in bytes.
const REASON_BYTES_MAX: usize = 1_024;

fn cut(mut text: String) -> String {
    if text.len() > REASON_BYTES_MAX {
        let mut at = REASON_BYTES_MAX;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        text.truncate(at);
    }
    text
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Normal => f.write_str("normal"),
            Reason::Shutdown => f.write_str("shutdown"),
            Reason::Killed => f.write_str("killed"),
            Reason::Panic(text) => write!(f, "panic: {text}"),
            Reason::Failed(text) => write!(f, "failed: {text}"),
            Reason::Limit(text) => write!(f, "exceeded its bound of {text}"),
            Reason::Escalated => f.write_str("its children kept failing"),
            Reason::NoProcess => f.write_str("no such process"),
            Reason::NoConnection => f.write_str("no connection to its node"),
            Reason::NameClash => f.write_str("its name was registered twice"),
        }
    }
}

impl From<&actor::Reason> for Reason {
    fn from(reason: &actor::Reason) -> Self {
        match reason {
            actor::Reason::Normal => Reason::Normal,
            actor::Reason::Shutdown => Reason::Shutdown,
            actor::Reason::Killed => Reason::Killed,
            actor::Reason::Panic(text) => Reason::Panic(text.as_ref().into()),
            actor::Reason::Failed(text) => Reason::Failed(text.as_ref().into()),
            actor::Reason::Limit(text) => Reason::Limit((*text).into()),
            actor::Reason::Escalated => Reason::Escalated,
            actor::Reason::NoActor => Reason::NoProcess,
        }
    }
}

/// Identifies one monitor of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MonitorRef(pub(crate) u64);

/// Why a process was not started. A function that panics makes a process that ends at once, with
/// [`Reason::Panic`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum SpawnError {
    /// The node has no function of this name.
    #[error("no function of this name is registered there")]
    NoFunction,
    /// The node has as many processes as it may have.
    #[error("the node has too many processes")]
    Full,
    /// The node cannot be reached.
    #[error("no connection to the node")]
    NoConnection,
    /// No answer came in time; the process may have been started.
    #[error("no answer in time")]
    Timeout,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum CallError {
    /// There is no such process.
    #[error("no such process")]
    NoProcess,
    /// Its mailbox is full.
    #[error("its mailbox is full")]
    Full,
    /// Its node cannot be reached, or was lost while the answer was waited for.
    #[error("no connection to its node")]
    NoConnection,
    /// The deadline has passed. An answer that comes later is dropped.
    #[error("no answer in time")]
    Timeout,
    /// The process ended, or dropped the question.
    #[error("the question was dropped")]
    Dropped,
}

/// Why a link was refused or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// No version of the protocol that both sides speak.
    #[error("no common version of the protocol")]
    Version,
    /// The other side does not know the shared secret.
    #[error("the shared secret differs")]
    Cookie,
    /// The node that was reached has another name than the one that was dialled.
    #[error("the node has another name")]
    OtherName,
    /// A node does not link with itself, nor with another node of its own name.
    #[error("a node of the same name")]
    SameName,
    /// There is a link already, or one is being made in the other direction.
    #[error("there is a link already")]
    Duplicate,
    /// An earlier life of a node that is linked by a later one.
    #[error("an earlier life of the node")]
    OldLife,
    /// The node has as many links as it may have.
    #[error("too many links")]
    Full,
    /// Something arrived that is no frame, or not at this point.
    #[error("a malformed frame")]
    Malformed,
    /// A frame was larger than allowed.
    #[error("a frame larger than allowed")]
    TooLarge,
    /// Nothing was heard for too long.
    #[error("nothing was heard in time")]
    Silent,
    /// The other side takes too little of what is sent to it.
    #[error("its backlog reached the bound")]
    Backlog,
    /// The nodes have no group in common any more.
    #[error("no group in common any more")]
    Left,
    /// Asked for by a command.
    #[error("disconnected on request")]
    Asked,
    /// The connection could not be made, or broke.
    #[error("the connection broke")]
    Broken,
    /// The node stops.
    #[error("the node stops")]
    Stopped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        assert!(NodeName::new("a@127.0.0.1:4501").is_ok());
        assert_eq!(NodeName::new(""), Err(BadName));
        assert_eq!(NodeName::new("a\nb"), Err(BadName));
        assert_eq!(NodeName::new(&"x".repeat(256)), Err(BadName));
        let name = NodeName::new("a@b@h:1").unwrap();
        assert_eq!(name.address(), Some("h:1"));
        assert_eq!(NodeName::new("a").unwrap().address(), None);
    }

    #[test]
    fn long_texts_of_reasons_are_cut_at_a_character() {
        let long = "ä".repeat(1_000);
        let Reason::Panic(text) = Reason::Panic(format!("x{long}")).bounded() else {
            panic!("another reason");
        };
        assert_eq!(text.len(), REASON_BYTES_MAX - 1);
    }
}
