//! One side of a connection that two nodes share: what was sent and what came, and how much more
//! may be sent. Owns the windows: neither side sends more than the other has room for, so that a
//! client which does not read, or sends without an end, takes no more of a link than that.

use net::ConnRef;
use stdx::slab::Key;
use stdx::time::Moment;
use wire::{ConnAt, Joined, Mark, Packet, Part};

use crate::away::{Away, NodeId};

/// Bytes of a connection that may be under way, or wait at the other node, in each direction. Both
/// nodes hold as much at most beyond what they hold for any connection.
pub(crate) const WINDOW: u32 = 64 * 1024;

/// Bytes of one packet: others have their turn on the link between two.
const CHUNK: usize = 16 * 1024;

/// Room is given back in parts of this size: a packet for as many bytes.
const ROOM_STEP: u32 = WINDOW / 2;

const _: () = assert!(CHUNK <= wire::limits::JOINED_BYTES_MAX);
const _: () = assert!(CHUNK <= ROOM_STEP as usize);

/// A connection of this node, as others name it.
pub(crate) fn at(conn: ConnRef) -> ConnAt {
    ConnAt {
        shard: conn.shard.index(),
        index: conn.id.index,
        generation: conn.id.generation,
    }
}

/// The connection of this node that others name so.
pub(crate) fn conn_ref(at: ConnAt) -> ConnRef {
    ConnRef {
        shard: actor::ShardId::new(at.shard),
        id: Key {
            index: at.index,
            generation: at.generation,
        },
    }
}

/// What was said cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// See the module.
#[derive(Debug)]
pub(crate) struct Line {
    pub(super) node: NodeId,
    pub(super) number: u64,
    /// The other connection, once it has said something.
    pub(super) far: Option<ConnAt>,
    /// Bytes that may be sent.
    room: u32,
    pub(super) sent: u64,
    pub(super) received: u64,
    /// Bytes that came and whose room was not given back.
    untold: u32,
    /// So many more may come than fit into the window.
    beyond: u32,
    /// The other side sends nothing behind so many bytes; whether its stream has ended.
    ends: Option<(u64, bool)>,
    /// What came so far ends with an element.
    pub(super) is_whole: bool,
    /// Since when the link takes nothing.
    pub(super) refused: Option<Moment>,
    /// It is among those that try again.
    pub(super) waits: bool,
}

impl Line {
    /// `room` bytes may be sent before the other side has said anything.
    pub(super) fn new(node: NodeId, number: u64, far: Option<ConnAt>, room: u32) -> Line {
        Line {
            node,
            number,
            far,
            room,
            sent: 0,
            received: 0,
            untold: 0,
            beyond: 0,
            ends: None,
            is_whole: true,
            refused: None,
            waits: false,
        }
    }

    /// The other side may send so many bytes beyond the window.
    pub(super) fn beyond(self, bytes: u32) -> Line {
        Line {
            beyond: bytes,
            ..self
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Sends as much as there is room for; returns how much that is. `refused` says whether the
    /// link took less. With the last of it goes what the other side is to know of its end.
    pub(super) fn send(
        &mut self,
        own: ConnRef,
        (away, now): (&dyn Away, Moment),
        bytes: &[u8],
        mut mark: Option<(Mark, Vec<u32>)>,
    ) -> usize {
        let Some(far) = self.far else { return 0 };
        let mut taken = 0;
        while taken < bytes.len() && self.room > 0 {
            let length = (bytes.len() - taken).min(CHUNK).min(self.room as usize);
            let is_whole = taken + length == bytes.len();
            let (at, end) = (self.sent, self.sent + length as u64);
            let bytes = bytes[taken..taken + length].to_vec();
            let part = match mark.take_if(|_| is_whole) {
                Some((mark, answered)) => Part::Marked {
                    bytes,
                    mark: Mark { at: end, ..mark },
                    answered,
                },
                None => Part::Bytes {
                    at,
                    is_whole,
                    bytes,
                },
            };
            let packet = self.packet(own, far, part);
            if away.send(self.node, packet).is_err() {
                self.refused.get_or_insert(now);
                return taken;
            }
            taken += length;
            self.sent += length as u64;
            self.room -= length as u32;
        }
        self.refused = None;
        taken
    }

    fn packet(&self, own: ConnRef, to: ConnAt, said: Part) -> Vec<u8> {
        let joined = Joined {
            to,
            from: at(own),
            number: self.number,
            said,
        };
        encoded(&Packet::Joined(joined))
    }

    /// The other side may send so many more bytes.
    pub(super) fn more_room(&mut self, bytes: u32) {
        self.room = self.room.saturating_add(bytes);
    }

    /// Bytes came.
    pub(super) fn takes(&mut self, at: u64, length: usize, is_whole: bool) -> Result<(), Broken> {
        let length = u32::try_from(length).map_err(|_| Broken)?;
        if at != self.received
            || self.untold + length > WINDOW + self.beyond
            || self.ends.is_some_and(|(end, _)| at >= end)
        {
            return Err(Broken);
        }
        self.received += u64::from(length);
        self.untold += length;
        self.is_whole = is_whole;
        Ok(())
    }

    /// The other side will have sent so many bytes. Its first word counts: what it is sent once it
    /// is gone is answered with another end, of a connection that nobody there knows, and both may
    /// overtake the bytes that it had sent.
    pub(super) fn ends(&mut self, at: u64, is_orderly: bool) {
        self.ends.get_or_insert((at, is_orderly));
    }

    /// The other side has said that it ends.
    pub(super) fn is_ending(&self) -> bool {
        self.ends.is_some()
    }

    /// Everything has come, and whether the stream has ended.
    pub(super) fn has_ended(&self) -> Option<bool> {
        let (at, is_orderly) = self.ends?;
        (self.received >= at).then_some(is_orderly)
    }

    /// Whether enough came that room for it should be given back, once it is gone.
    pub(super) fn owes_room(&self) -> bool {
        self.untold >= ROOM_STEP
    }

    /// Gives back room for what came: it is in other hands.
    pub(super) fn give_room(&mut self, own: ConnRef, away: &dyn Away) {
        if let Some(far) = self.far {
            let bytes = std::mem::take(&mut self.untold);
            away.answer(self.node, self.packet(own, far, Part::Room(bytes)));
        }
    }

    /// Says that the client's connection is there and what may be sent to it.
    pub(super) fn greet(&self, own: ConnRef, away: &dyn Away) {
        if let Some(far) = self.far {
            away.answer(self.node, self.packet(own, far, Part::Room(WINDOW)));
        }
    }

    /// Says something that takes no room.
    pub(super) fn say(&self, own: ConnRef, away: &dyn Away, said: Part) {
        if let Some(far) = self.far {
            away.answer(self.node, self.packet(own, far, said));
        }
    }

    /// Says that nothing follows.
    pub(super) fn end(&self, own: ConnRef, away: &dyn Away, is_orderly: bool) {
        if let Some(far) = self.far {
            let end = Part::End {
                at: self.sent,
                is_orderly,
            };
            away.answer(self.node, self.packet(own, far, end));
        }
    }
}

/// The bytes of a packet of ours.
pub(super) fn encoded(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = packet.encode(&mut bytes) {
        // Every field was bounded where it came from; whoever reads this refuses it by name.
        tracing::error!(%error, ?packet, "a packet cannot be written");
    }
    bytes
}

#[cfg(test)]
mod tests;
