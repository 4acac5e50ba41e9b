//! What two nodes say to each other, and its encoding.
//!
//! Owns the frames, their length prefix and their limits. A frame is four bytes of length, most
//! significant first, and a body: before both sides have proved who they are a [`Greeting`], after
//! that a [`Frame`], in `postcard` encoding. Deliberately not here: when what is sent (`node`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::attributes::Value;
use crate::node::claims::Stamp;
use crate::types::{Body, CallError, Name, NodeName, Pid, Reason, Refusal, SpawnError};
use crate::view::{GroupId, Space, View};

/// The oldest version of the protocol that is spoken here.
pub(crate) const VERSION_MIN: u16 = 1;
/// The newest.
pub(crate) const VERSION_MAX: u16 = 1;

const MAGIC: [u8; 4] = *b"RGRP";
const PREFIX: usize = 4;

/// How a connection begins, on both sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) name: NodeName,
    /// Who was dialled; the answer says nothing here.
    pub(crate) to: Option<NodeName>,
    pub(crate) life: u64,
    pub(crate) hidden: bool,
    pub(crate) nonce: [u8; 16],
}

/// What is said before both sides have proved who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Greeting {
    Hello {
        version_min: u16,
        version_max: u16,
        /// Nothing, if it could not be read: another version may say it in another way.
        hello: Option<Hello>,
    },
    Proof([u8; 32]),
    Refuse(Refusal),
}

/// What linked nodes say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Frame {
    /// To a process of the receiver, from one of the sender's.
    Send {
        to: u64,
        from: Option<u64>,
        body: Body,
    },
    /// Such a message was not taken.
    Refused {
        to: u64,
        from: u64,
        full: bool,
    },
    Alive,
    /// The link ends, for this reason.
    Bye(Refusal),
    Link {
        from: u64,
        to: u64,
    },
    Unlink {
        from: u64,
        to: u64,
    },
    /// `from` ended, or told `to` to (`kill`).
    Exit {
        from: u64,
        to: u64,
        reason: Reason,
        told: bool,
    },
    Monitor {
        monitor: u64,
        who: u64,
    },
    Demonitor {
        monitor: u64,
    },
    Down {
        monitor: u64,
        reason: Reason,
    },
    Ask {
        ask: u64,
        question: Question,
    },
    Tell {
        ask: u64,
        answer: Tell,
    },
    /// What the sender is now.
    Status(Status),
    /// A group's view that the receiver seems not to have.
    View(View),
    /// The sender has no group that the receiver thinks it is in, and asks for it.
    Want(GroupId),
    /// Everything that the sender keeps in a name space of the names after one (from the first)
    /// and up to one (to the last); `want` asks for the receiver's.
    Keep {
        space: Space,
        after: Option<Name>,
        upto: Option<Name>,
        entries: Vec<Entry>,
        want: bool,
    },
    /// The sender keeps this from now on, in the place of what it kept of this name. With a number
    /// it is told when that was read, as if it had asked.
    Kept {
        space: Space,
        entry: Entry,
        ask: Option<u64>,
    },
    /// The sender keeps a name no longer.
    Withdrawn {
        space: Space,
        name: Name,
        ask: Option<u64>,
    },
    /// Free nodes that the sender is linked with.
    FreePeers(Vec<NodeName>),
}

/// What a node is, as told to each linked node at first and after each change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The sender is about to join a group: it takes no new free peers.
    pub(crate) is_joining: bool,
    pub(crate) groups: Vec<Advert>,
}

/// A group of the sender. Members know them, so that only others are told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Advert {
    pub(crate) id: GroupId,
    pub(crate) version: u64,
    pub(crate) by: Name,
    /// Nothing, if the receiver is a member.
    pub(crate) members: Option<Vec<NodeName>>,
}

/// A registered name, as its keeper tells it: a claim whose keeper is the sender, in this life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    pub(crate) pid: Pid,
    pub(crate) number: u64,
    pub(crate) over: Vec<Stamp>,
}

impl Entry {
    /// Its bytes on the wire, at most.
    pub(crate) fn bytes_max(&self) -> usize {
        // Ten bytes for each number and for each length.
        let over = self
            .over
            .iter()
            .map(|stamp| stamp.keeper.as_str().len() + 30);
        self.name.len() + self.pid.node.as_str().len() + 60 + over.sum::<usize>()
    }
}

/// A change of a name space or of its group, ordered by the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Change {
    Register {
        name: Name,
        pid: Pid,
        keeper: NodeName,
        replace: bool,
    },
    Unregister(Name),
    Add(Vec<NodeName>),
    Remove(Vec<NodeName>),
    Delete,
}

/// What the coordinator orders a keeper to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// To claim a name for a process, in the place of these claims.
    Claim {
        name: Name,
        pid: Pid,
        over: Vec<Stamp>,
    },
    /// To withdraw one of its claims.
    Withdraw { name: Name, number: u64 },
}

impl Order {
    pub(crate) fn name(&self) -> &Name {
        match self {
            Order::Claim { name, .. } | Order::Withdraw { name, .. } => name,
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Done,
    /// The members that were added.
    Added(Vec<NodeName>),
    /// The name is taken, or the process has one.
    Taken,
    /// The receiver is not, or no longer, a member.
    NotMember,
    /// The receiver does not coordinate this group: the sender looks again.
    Elsewhere,
    /// A bound is reached.
    Busy,
    /// Not answered in time; it may have happened.
    Unknown,
}

/// A question with exactly one answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Question {
    Spawn {
        function: String,
        args: Body,
        link: Option<u64>,
        monitor: Option<u64>,
    },
    Call {
        to: u64,
        from: Option<u64>,
        body: Body,
    },
    Invite(GroupId),
    Submit {
        space: Space,
        change: Change,
        attempt: u32,
        /// Stands for the linked members that the sender sees.
        seen: u64,
    },
    /// The members of a group are these now.
    Apply(View),
    Order {
        space: Space,
        order: Order,
        /// Stands for the linked members that the coordinator sees; nothing, if the receiver need
        /// not see the same.
        seen: Option<u64>,
    },
    /// Does the receiver keep this claim, and is its process alive?
    Confirm {
        space: Space,
        name: Name,
        number: u64,
    },
    /// Is this process alive?
    Alive(u64),
    Whereis {
        group: Name,
        name: Name,
    },
    /// Who is in the group of this name?
    Find(Name),
    Names,
    Attributes(Vec<Name>),
    SetAttributes(Vec<(Name, Value)>),
    DropAttributes(Vec<Name>),
}

/// The answer to a [`Question`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Tell {
    Spawned(Result<u64, SpawnError>),
    Called(Result<Body, CallError>),
    Invited(bool),
    Outcome(Outcome),
    Applied,
    Found(Option<Pid>),
    Group(Option<Vec<NodeName>>),
    Names(Vec<(Name, Name)>),
    Attributes(BTreeMap<Name, Value>),
    Done(bool),
}

/// Why bytes are not what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    TooLarge,
    NoFrame,
}

/// Appends a frame with its prefix. A frame that is too large is left out.
///
/// # Errors
/// [`Malformed::TooLarge`], if its body has more than `max` bytes.
pub(crate) fn write(frame: &Frame, max: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    let written = postcard::to_io(frame, &mut *out).is_ok();
    let len = out.len() - start - PREFIX;
    match u32::try_from(len) {
        Ok(prefix) if written && len <= max => {
            out[start..start + PREFIX].copy_from_slice(&prefix.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(Malformed::TooLarge)
        }
    }
}

/// Reads the body of a frame.
///
/// # Errors
/// [`Malformed::NoFrame`], if it is none, or has anything behind it.
pub(crate) fn read(body: &[u8]) -> Result<Frame, Malformed> {
    match postcard::take_from_bytes(body) {
        Ok((frame, [])) => Ok(frame),
        _ => Err(Malformed::NoFrame),
    }
}

/// Appends a greeting with its prefix.
pub(crate) fn write_greeting(greeting: &Greeting, out: &mut Vec<u8>) {
    let mut body = Vec::new();
    match greeting {
        Greeting::Hello {
            version_min,
            version_max,
            hello,
        } => {
            body.push(0);
            body.extend_from_slice(&MAGIC);
            body.extend_from_slice(&version_min.to_be_bytes());
            body.extend_from_slice(&version_max.to_be_bytes());
            append(hello, &mut body);
        }
        Greeting::Proof(proof) => {
            body.push(1);
            body.extend_from_slice(proof);
        }
        Greeting::Refuse(refusal) => {
            body.push(2);
            append(refusal, &mut body);
        }
    }
    out.extend_from_slice(&(body.len() as u32).to_be_bytes());
    out.append(&mut body);
}

fn append<T: Serialize>(value: &T, out: &mut Vec<u8>) {
    // Writing plain values to memory does not fail; a reader would refuse what is cut off.
    let _ = postcard::to_io(value, out);
}

/// Reads the body of a greeting.
///
/// # Errors
/// [`Malformed::NoFrame`], if it is none.
pub(crate) fn read_greeting(body: &[u8]) -> Result<Greeting, Malformed> {
    match body {
        [0, a, b, c, d, v1, v2, w1, w2, rest @ ..] if [*a, *b, *c, *d] == MAGIC => {
            let hello = match postcard::take_from_bytes::<Option<Hello>>(rest) {
                Ok((hello, [])) => hello,
                _ => None,
            };
            Ok(Greeting::Hello {
                version_min: u16::from_be_bytes([*v1, *v2]),
                version_max: u16::from_be_bytes([*w1, *w2]),
                hello,
            })
        }
        [1, proof @ ..] => match proof.try_into() {
            Ok(proof) => Ok(Greeting::Proof(proof)),
            Err(_) => Err(Malformed::NoFrame),
        },
        [2, rest @ ..] => match postcard::take_from_bytes(rest) {
            Ok((refusal, [])) => Ok(Greeting::Refuse(refusal)),
            _ => Err(Malformed::NoFrame),
        },
        _ => Err(Malformed::NoFrame),
    }
}

/// Cuts received bytes into bodies of frames.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    kept: Vec<u8>,
    /// Bytes of `kept` that are used up.
    used: usize,
}

impl Inbound {
    /// Takes what was received.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.used > 0 {
            self.kept.drain(..self.used);
            self.used = 0;
        }
        self.kept.extend_from_slice(bytes);
    }

    /// The next complete body.
    ///
    /// # Errors
    /// [`Malformed::TooLarge`], as soon as a prefix announces more than `max` bytes.
    pub(crate) fn next(&mut self, max: usize) -> Result<Option<&[u8]>, Malformed> {
        let rest = &self.kept[self.used..];
        let Some((prefix, rest)) = rest.split_first_chunk::<PREFIX>() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > max {
            return Err(Malformed::TooLarge);
        }
        if rest.len() < len {
            return Ok(None);
        }
        let start = self.used + PREFIX;
        self.used = start + len;
        Ok(Some(&self.kept[start..start + len]))
    }
}

#[cfg(test)]
mod tests;
