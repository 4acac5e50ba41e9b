//! What goes from node to node: messages with whom they are for, and answers about them. The head
//! of a packet is read by itself, so that who is not at home of its range reads no more.

use stdx::Level;

use crate::Address;
use crate::adopt::Adopt;
use crate::codec::{Bad, Reader, Writer};
use crate::errand::Errand;
use crate::error::WireError;
use crate::joined::{Join, Joined};
use crate::kind::Kind;
use crate::limits::PACKET_BYTES_MAX;
use crate::message::Message;
use crate::passed::Passed;

/// The newest version that this node knows, of packets that it writes too.
pub const VERSION: u8 = 5;

/// The version that each level writes: kinds that came with a higher one are not for it.
const VERSIONS: [(Level, u8); 2] = [(Level::FIRST, 4), (Level::new(3), VERSION)];

/// The newest version of packets that are written at a level.
pub fn version_at(level: Level) -> u8 {
    level.version(&VERSIONS)
}

/// The oldest version that is still understood.
pub const VERSION_MIN: u8 = 1;

/// Version, kind, range, tenure.
const HEAD_BYTES: usize = 8;

/// Flags of an envelope.
const ACTIVATE: u8 = 1;
const HAS_CREDIT: u8 = 2;
const HAS_CLIENT: u8 = 4;

/// A message and whom it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The recipient's bare address.
    pub to: Address,
    /// Its range.
    pub range: u16,
    /// The tenure of that range's home, as the sender's home knows it.
    pub tenure: u32,
    /// Whether an entity that is not loaded gets it.
    pub activate: bool,
    /// What is owed for it.
    pub credit: Option<Credit>,
    /// What is said.
    pub message: Message,
}

/// The credit of a stanza that was passed on: its connection takes another one when the recipient's
/// home has answered with the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credit {
    /// Names it at the node that wrote the packet.
    pub number: u64,
    /// Where the client is, as one number: questions are counted by it.
    pub client: Option<u64>,
}

/// The answer of a node that is not, or not any more, at home of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The range.
    pub range: u16,
    /// The latest tenure of it that the node knows of, 0 for none.
    pub tenure: u32,
    /// Whom the packet was for.
    pub to: Address,
}

/// Everything that goes from node to node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A message for an entity.
    Message(Envelope),
    /// What was owed for a message has come back ([`Credit::number`]).
    Credited {
        /// The number.
        number: u64,
    },
    /// A message was for somebody who is at home elsewhere: nobody has it.
    Moved(Moved),
    /// A client has come for an account of a range.
    Join(Box<Join>),
    /// Something about a client's connection that two nodes share.
    Joined(Joined),
    /// A connection that outlived its account's home introduces itself to the next one.
    Adopt(Box<Adopt>),
    /// What an operator asks of another node, or its answer.
    Errand(Errand),
    /// Something about a request over HTTP whose session is another node's.
    Passed(Passed),
}

impl Packet {
    /// What it is.
    pub fn kind(&self) -> Kind {
        match self {
            Packet::Message(envelope) => envelope.message.kind(),
            Packet::Credited { .. } => Kind::Credited,
            Packet::Moved(_) => Kind::Moved,
            Packet::Join(_) => Kind::Join,
            Packet::Joined(joined) => joined.kind(),
            Packet::Adopt(adopt) => adopt.kind(),
            Packet::Errand(errand) => errand.kind(),
            Packet::Passed(passed) => passed.kind(),
        }
    }

    fn place(&self) -> (u16, u32) {
        match self {
            Packet::Message(envelope) => (envelope.range, envelope.tenure),
            Packet::Credited { .. } | Packet::Joined(_) | Packet::Errand(_) | Packet::Passed(_) => {
                (0, 0)
            }
            Packet::Moved(moved) => (moved.range, moved.tenure),
            Packet::Join(join) => (join.range, join.tenure),
            Packet::Adopt(adopt) => (adopt.range, adopt.tenure),
        }
    }

    /// Writes it behind what is in `out`, in the form of a level. Whoever makes a packet of a kind
    /// that a level does not have makes others instead.
    ///
    /// # Errors
    /// [`WireError::Level`] for a kind that came later; a field exceeds its bound: nothing was
    /// written.
    pub fn encode_at(&self, level: Level, out: &mut Vec<u8>) -> Result<(), WireError> {
        let kind = self.kind();
        if kind.since() > version_at(level) {
            let kind = kind.name();
            return Err(WireError::Level { kind, level });
        }
        match self {
            Packet::Credited { number } if level.is_next() => {
                next::encode(*number, out);
                Ok(())
            }
            _ => self.encode(out),
        }
    }

    /// The same in the form that every level has.
    ///
    /// # Errors
    /// A field exceeds its bound: nothing was written.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let (start, kind) = (out.len(), self.kind());
        let mut writer = Writer::new(out);
        writer.u8(kind.since());
        writer.u8(kind.number());
        let (range, tenure) = self.place();
        writer.u16(range);
        writer.u32(tenure);
        match self {
            Packet::Message(envelope) => envelope.write(&mut writer),
            Packet::Credited { number } => writer.u64(*number),
            Packet::Moved(moved) => writer.address(&moved.to, "recipient"),
            Packet::Join(join) => join.write(&mut writer),
            Packet::Joined(joined) => joined.write(&mut writer),
            Packet::Adopt(adopt) => adopt.write(&mut writer),
            Packet::Errand(errand) => errand.write(&mut writer),
            Packet::Passed(passed) => passed.write(&mut writer),
        }
        let written = writer.finish().map_err(|bad| wrong(kind, bad));
        let bytes = out.len() - start;
        let written = match bytes <= PACKET_BYTES_MAX {
            true => written,
            false => Err(WireError::Size { bytes }),
        };
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// Reads one, which is all of `bytes`.
    ///
    /// # Errors
    /// [`WireError`].
    pub fn decode(bytes: &[u8]) -> Result<Packet, WireError> {
        Arrival::read(bytes)?.packet()
    }
}

impl Envelope {
    fn write(&self, out: &mut Writer<'_>) {
        let client = self.credit.and_then(|credit| credit.client);
        let mut flags = 0;
        flags |= if self.activate { ACTIVATE } else { 0 };
        flags |= self.credit.map_or(0, |_| HAS_CREDIT);
        flags |= client.map_or(0, |_| HAS_CLIENT);
        out.u8(flags);
        out.address(&self.to, "recipient");
        if let Some(credit) = self.credit {
            out.number(credit.number);
        }
        if let Some(client) = client {
            out.u64(client);
        }
        self.message.write(out);
    }
}

/// A packet of which the head was read.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    kind: Kind,
    range: u16,
    tenure: u32,
    body: &'a [u8],
}

impl<'a> Arrival<'a> {
    /// Reads the head of a packet.
    ///
    /// # Errors
    /// [`WireError::Version`] and [`WireError::Kind`] name what this node does not know;
    /// [`WireError::Size`].
    pub fn read(bytes: &'a [u8]) -> Result<Arrival<'a>, WireError> {
        let known = version_at(Level::known());
        if let Some(arrival) = next::read(bytes, known) {
            return Ok(arrival);
        }
        Arrival::read_as(bytes, known)
    }

    /// As a node reads it that knows versions up to `newest`: for tests of older nodes.
    ///
    /// # Errors
    /// As [`Arrival::read`].
    pub fn read_as(bytes: &'a [u8], newest: u8) -> Result<Arrival<'a>, WireError> {
        let size = || WireError::Size { bytes: bytes.len() };
        let (head, body) = bytes.split_first_chunk::<HEAD_BYTES>().ok_or_else(size)?;
        let [version, kind, range @ .., t0, t1, t2, t3] = *head;
        if version > newest {
            return Err(WireError::Version { version, kind });
        }
        let known = Kind::of(kind, version).filter(|_| version >= VERSION_MIN);
        let kind = known.ok_or(WireError::Kind { version, kind })?;
        if bytes.len() > PACKET_BYTES_MAX {
            return Err(size());
        }
        Ok(Arrival {
            kind,
            range: u16::from_le_bytes(range),
            tenure: u32::from_le_bytes([t0, t1, t2, t3]),
            body,
        })
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The range that it is for, and the tenure of its home; `None` if it is for the node itself.
    pub fn place(&self) -> Option<(u16, u32)> {
        match self.kind {
            Kind::Credited
            | Kind::Moved
            | Kind::JoinedBytes
            | Kind::JoinedRoom
            | Kind::JoinedEnd
            | Kind::JoinedKeeps
            | Kind::JoinedSession
            | Kind::JoinedMark
            | Kind::JoinedMarked
            | Kind::JoinedMarkedAnswers
            | Kind::JoinedLeft
            | Kind::JoinedAdopted
            | Kind::Asked
            | Kind::Answered
            | Kind::Request
            | Kind::RequestLost
            | Kind::RequestAnswered
            | Kind::RequestDropped => None,
            _ => Some((self.range, self.tenure)),
        }
    }

    /// The answer of a node that is not at home of its range: whose latest tenure that it knows of
    /// is `tenure`.
    ///
    /// # Errors
    /// The recipient's address is none.
    pub fn moved(&self, tenure: u32) -> Result<Moved, WireError> {
        let mut from = Reader::new(self.body);
        let to = from.u8("flags").and_then(|_| from.address("recipient"));
        Ok(Moved {
            range: self.range,
            tenure,
            to: to.map_err(|bad| wrong(self.kind, bad))?,
        })
    }

    /// Reads the rest.
    ///
    /// # Errors
    /// [`WireError::Field`], [`WireError::Trailing`].
    pub fn packet(&self) -> Result<Packet, WireError> {
        let mut from = Reader::new(self.body);
        let packet = self.body(&mut from).map_err(|bad| wrong(self.kind, bad))?;
        match from.left() {
            0 => Ok(packet),
            bytes => Err(WireError::Trailing {
                kind: self.kind.name(),
                bytes,
            }),
        }
    }

    fn body(&self, from: &mut Reader<'_>) -> Result<Packet, Bad> {
        match self.kind {
            Kind::Credited if (self.range, self.tenure) == (0, 0) => {
                return Ok(Packet::Credited {
                    number: from.u64("number")?,
                });
            }
            Kind::Credited => return Err(Bad("range")),
            Kind::Asked | Kind::Answered if (self.range, self.tenure) == (0, 0) => {
                let errand = Errand::read(self.kind == Kind::Answered, from)?;
                return Ok(Packet::Errand(errand));
            }
            Kind::Asked | Kind::Answered => return Err(Bad("range")),
            Kind::Moved => {
                return Ok(Packet::Moved(Moved {
                    range: self.range,
                    tenure: self.tenure,
                    to: from.address("recipient")?,
                }));
            }
            Kind::Join => {
                let join = Join::read((self.range, self.tenure), from)?;
                return Ok(Packet::Join(Box::new(join)));
            }
            kind @ (Kind::Adopt | Kind::AdoptAnswered) => {
                let adopt = Adopt::read(kind, (self.range, self.tenure), from)?;
                return Ok(Packet::Adopt(Box::new(adopt)));
            }
            kind => {
                let for_node = match Joined::read(kind, from)? {
                    Some(joined) => Some(Packet::Joined(joined)),
                    None => Passed::read(kind, from)?.map(Packet::Passed),
                };
                if let Some(packet) = for_node {
                    return match (self.range, self.tenure) {
                        (0, 0) => Ok(packet),
                        _ => Err(Bad("range")),
                    };
                }
            }
        }
        let flags = from.u8("flags")?;
        let has = |flag| flags & flag != 0;
        let is_known = flags & !(ACTIVATE | HAS_CREDIT | HAS_CLIENT) == 0;
        if !is_known || has(HAS_CLIENT) && !has(HAS_CREDIT) {
            return Err(Bad("flags"));
        }
        let to = from.address("recipient")?;
        let credit = match has(HAS_CREDIT) {
            true => Some(Credit {
                number: from.number("credit")?,
                client: has(HAS_CLIENT).then(|| from.u64("client")).transpose()?,
            }),
            false => None,
        };
        // Invariant: all other kinds are those of messages.
        let message = Message::read(self.kind, from)?.ok_or(Bad("kind"))?;
        Ok(Packet::Message(Envelope {
            to,
            range: self.range,
            tenure: self.tenure,
            activate: has(ACTIVATE),
            credit,
            message,
        }))
    }
}

/// The one packet that the next version has, as tests play it: what is owed has come back, in
/// another form than [`Kind::Credited`].
mod next {
    use super::{Arrival, HEAD_BYTES, Kind, VERSION};

    const NEXT: u8 = VERSION + 1;
    /// A number that no kind has.
    const KIND: u8 = u8::MAX;
    const MARK: u8 = 0xed;

    pub(super) fn encode(number: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&[NEXT, KIND, 0, 0, 0, 0, 0, 0, MARK]);
        out.extend_from_slice(&number.to_le_bytes());
    }

    pub(super) fn read(bytes: &[u8], known: u8) -> Option<Arrival<'_>> {
        if known != NEXT {
            return None;
        }
        let (head, body) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let body = body.strip_prefix(&[MARK])?;
        let is_one = *head == [NEXT, KIND, 0, 0, 0, 0, 0, 0];
        is_one.then_some(Arrival {
            kind: Kind::Credited,
            range: 0,
            tenure: 0,
            body,
        })
    }
}

fn wrong(kind: Kind, Bad(field): Bad) -> WireError {
    WireError::Field {
        kind: kind.name(),
        field,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe() -> Vec<u8> {
        let probe = Packet::Message(Envelope {
            to: "b@x".into(),
            range: 5,
            tenure: 9,
            activate: false,
            credit: None,
            message: Message::Probe {
                from: "a@x/1".into(),
            },
        });
        let mut bytes = Vec::new();
        probe.encode(&mut bytes).unwrap();
        bytes
    }

    /// What a newer node writes of kinds that came before is of their version: an older one reads
    /// it, and a newer one reads what an older one writes.
    #[test]
    fn a_newer_version_changes_nothing_of_older_kinds() {
        let bytes = probe();
        assert_eq!(bytes[0], Kind::Probe.since());
        let older = Arrival::read_as(&bytes, VERSION).and_then(|arrival| arrival.packet());
        let newer = Arrival::read_as(&bytes, VERSION + 1).and_then(|arrival| arrival.packet());
        assert_eq!(older, newer);
        assert!(older.is_ok());
    }

    #[test]
    fn what_is_not_known_is_refused_by_name() {
        let mut bytes = probe();
        bytes[0] = VERSION + 1;
        let refused = Packet::decode(&bytes).unwrap_err();
        assert_eq!(
            refused.to_string(),
            format!(
                "a packet of kind 3 is of version {}; this node knows up to {VERSION}: upgrade it",
                VERSION + 1
            )
        );
        // A node of that version knows that no such kind came with it.
        let newer = Arrival::read_as(&bytes, VERSION + 1).err();
        let (version, kind) = (VERSION + 1, Kind::Probe.number());
        assert_eq!(newer, Some(WireError::Kind { version, kind }));
        bytes[..2].copy_from_slice(&[1, 200]);
        let refused = Packet::decode(&bytes).unwrap_err();
        assert_eq!(refused.to_string(), "version 1 has no packet of kind 200");
        bytes[0] = 0;
        let refused = WireError::Kind {
            version: 0,
            kind: 200,
        };
        assert_eq!(Packet::decode(&bytes), Err(refused));
    }

    /// Goal: the packet of the next version is written at its level alone, is read by whoever knows
    /// it, and is refused by its version by whoever does not; what it stands for is written as
    /// before at the levels of before.
    #[test]
    fn a_packet_of_the_next_level_is_for_those_who_know_it() {
        let next = Level::new(Level::NEWEST.number() + 1);
        let packet = Packet::Credited {
            number: 0x0102_0304_0506,
        };
        let (mut old, mut new) = (Vec::new(), Vec::new());
        packet.encode_at(Level::NEWEST, &mut old).unwrap();
        packet.encode_at(next, &mut new).unwrap();
        assert_eq!(Packet::decode(&old), Ok(packet.clone()));
        let read = next::read(&new, version_at(next)).unwrap();
        assert_eq!(read.packet(), Ok(packet));
        let refused = Packet::decode(&new).unwrap_err();
        assert!(refused.to_string().contains("upgrade"), "{refused}");
        for end in 0..new.len() {
            let cut = next::read(&new[..end], version_at(next));
            assert!(cut.is_none_or(|cut| cut.packet().is_err()));
        }
    }

    /// Goal: a kind of now is not written at a level whose versions end before it.
    #[test]
    fn a_packet_of_a_later_level_is_not_written_at_one_of_before() {
        let request = crate::RequestAt {
            conn: crate::ConnAt {
                shard: 1,
                index: 2,
                generation: 3,
            },
            slot: 4,
            number: 5,
        };
        let said = crate::OfRequest::Dropped;
        let packet = Packet::Passed(Passed { request, said });
        for level in [Level::FIRST, Level::new(2)] {
            let mut out = b"before".to_vec();
            let kind = packet.kind().name();
            let refused = WireError::Level { kind, level };
            assert_eq!(packet.encode_at(level, &mut out), Err(refused));
            assert_eq!(out, b"before");
        }
        let mut out = Vec::new();
        packet.encode_at(Level::new(3), &mut out).unwrap();
        assert_eq!(Packet::decode(&out), Ok(packet));
        assert_eq!(version_at(Level::NEWEST), VERSION);
    }

    #[test]
    fn a_head_is_enough_to_say_that_a_range_is_elsewhere() {
        let mut bytes = probe();
        // Nothing of the message is looked at.
        bytes.truncate(HEAD_BYTES + 1 + 4);
        let arrival = Arrival::read(&bytes).unwrap();
        assert_eq!(arrival.place(), Some((5, 9)));
        let moved = arrival.moved(12).unwrap();
        assert_eq!((moved.range, moved.tenure, &*moved.to), (5, 12, "b@x"));
        assert!(arrival.packet().is_err());
    }
}
