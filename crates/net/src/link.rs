//! The network side of one connection. Owns its socket, its flags and what it has waiting; the
//! protocol state above it belongs to the driver, which keeps it in a table of its own.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use mio::net::TcpStream;
use stdx::time::Moment;
use stdx::wheel::TimerKey;

use crate::address::AddressKey;
use crate::bucket::Bucket;
use crate::record::Tls;
use crate::unread::Counted;

/// Conditions of a connection, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u32);

impl Flags {
    /// The kernel may have input: set by an edge, cleared by a short read.
    pub(crate) const READABLE: Flags = Flags(1);
    /// The kernel took less than offered: cleared by the next edge.
    pub(crate) const BLOCKED: Flags = Flags(1 << 1);
    /// The peer closed its side: a short read does not mean that the end has been seen.
    pub(crate) const READ_CLOSED: Flags = Flags(1 << 2);
    /// Present in the shard's queue of connections to read from.
    pub(crate) const QUEUED: Flags = Flags(1 << 3);
    /// Present in the shard's list of connections to flush.
    pub(crate) const DIRTY: Flags = Flags(1 << 4);
    /// Reads pause: the service wants it.
    pub(crate) const PAUSED_SERVICE: Flags = Flags(1 << 5);
    /// Reads pause: the window of stanzas not yet accepted is full.
    pub(crate) const PAUSED_WINDOW: Flags = Flags(1 << 6);
    /// Reads pause: more came than the rate allows.
    pub(crate) const PAUSED_RATE: Flags = Flags(1 << 7);
    /// Reads pause: the peer does not take its output.
    pub(crate) const PAUSED_BACKLOG: Flags = Flags(1 << 8);
    /// Kept bytes may hold complete items: they are received before the socket is read.
    pub(crate) const TO_RECEIVE: Flags = Flags(1 << 9);
    /// Waiting for the header of a balancer; the service does not know the connection yet.
    pub(crate) const PROXY: Flags = Flags(1 << 10);
    /// In the middle of a TLS handshake.
    pub(crate) const HANDSHAKE: Flags = Flags(1 << 11);
    /// On its way to another shard.
    pub(crate) const LEAVING: Flags = Flags(1 << 12);
    /// Closes when its output is written.
    pub(crate) const CLOSING: Flags = Flags(1 << 13);
    /// Our side is closed; only the peer's end is waited for.
    pub(crate) const LINGERING: Flags = Flags(1 << 14);
    /// Closes at once.
    pub(crate) const ABORT: Flags = Flags(1 << 15);
    /// Its output exceeded every bound, or something for it found no room.
    pub(crate) const FLOODED: Flags = Flags(1 << 16);
    /// The deadline of the busy part is the one of a peer that takes no output.
    pub(crate) const STALLED: Flags = Flags(1 << 17);
    /// What is written to it is encoded by the service first ([`Service::encode`]).
    ///
    /// [`Service::encode`]: crate::Service::encode
    pub(crate) const ENCODED: Flags = Flags(1 << 18);
    /// Somebody waits for its output to be written ([`Io::watch`](crate::Io::watch)).
    pub(crate) const WATCHED: Flags = Flags(1 << 19);
    /// All has been written; it closes when the service has taken that.
    pub(crate) const ENDED: Flags = Flags(1 << 20);
    /// The other half of a connection of this node, which alone counts as one.
    pub(crate) const HALF: Flags = Flags(1 << 21);
    /// It is read also while actors have too much to do ([`Cx::set_apart`](crate::Cx::set_apart)).
    pub(crate) const APART: Flags = Flags(1 << 22);

    /// Any state in which more follows from it that all output is written.
    pub(crate) const AWAITS_WRITTEN: Flags = Flags(
        Self::CLOSING.0
            | Self::FLOODED.0
            | Self::STALLED.0
            | Self::PAUSED_BACKLOG.0
            | Self::WATCHED.0,
    );
    /// Any reason for which reads pause.
    pub(crate) const PAUSED: Flags = Flags(
        Self::PAUSED_SERVICE.0
            | Self::PAUSED_WINDOW.0
            | Self::PAUSED_RATE.0
            | Self::PAUSED_BACKLOG.0,
    );
    /// Any state in which the connection is about to end.
    pub(crate) const ENDING: Flags =
        Flags(Self::CLOSING.0 | Self::LINGERING.0 | Self::ABORT.0 | Self::FLOODED.0);
    /// Any state in which the service gets no more input here.
    pub(crate) const DEAF: Flags = Flags(Self::LEAVING.0 | Self::ENDING.0);
    /// Any state in which actors can write no more.
    pub(crate) const MUTE: Flags = Flags(Self::ENDING.0 | Self::ENDED.0);

    pub(crate) fn has(self, any: Flags) -> bool {
        self.0 & any.0 != 0
    }

    pub(crate) fn set(&mut self, flags: Flags) {
        self.0 |= flags.0;
    }

    pub(crate) fn clear(&mut self, flags: Flags) {
        self.0 &= !flags.0;
    }
}

impl std::ops::BitOr for Flags {
    type Output = Flags;

    fn bitor(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }
}

/// One connection, small while nothing happens.
pub(crate) struct Link {
    /// `None` for a connection that has no socket of its own ([`Opener`](crate::Opener)).
    pub(crate) socket: Option<TcpStream>,
    pub(crate) flags: Flags,
    /// Stanzas on their way to actors that have not answered by credit.
    pub(crate) in_flight: u16,
    pub(crate) listener: u16,
    pub(crate) address: AddressKey,
    /// Present only while something waits.
    pub(crate) busy: Option<Box<Busy>>,
    pub(crate) tls: Option<Box<Tls>>,
    /// The service's deadline; [`Moment::FAR`] for none.
    pub(crate) deadline: Moment,
    /// The connection's one entry in the wheel. It may be early: then it is filed again.
    pub(crate) timer: TimerKey,
    /// When the entry fires; [`Moment::FAR`] when there is none.
    pub(crate) timer_at: Moment,
    pub(crate) bucket: Bucket,
}

/// What a connection has only while something waits in it.
#[derive(Debug)]
pub(crate) struct Busy {
    /// Plaintext for the peer.
    pub(crate) out: Vec<u8>,
    /// Bytes of `out` that are written already.
    pub(crate) out_sent: usize,
    /// Bytes that go out as they are, before `out`: ciphertext, and what preceded STARTTLS.
    pub(crate) wire: Vec<u8>,
    /// Bytes of `wire` that are written already.
    pub(crate) wire_sent: usize,
    /// Plaintext input of an incomplete item, or behind a pause.
    pub(crate) kept: Vec<u8>,
    /// Deadline of the network layer itself: header, handshake, stall, close or linger.
    pub(crate) deadline: Moment,
    /// When a read paused by its rate goes on.
    pub(crate) resume_at: Moment,
    /// Bytes discarded while lingering.
    pub(crate) discarded: usize,
    /// What is counted of its output for its address, if that is much.
    pub(crate) unread: Option<Box<Counted>>,
    /// The same of its input.
    pub(crate) counted: Option<Box<Counted>>,
}

impl Default for Busy {
    fn default() -> Busy {
        Busy {
            out: Vec::new(),
            out_sent: 0,
            wire: Vec::new(),
            wire_sent: 0,
            kept: Vec::new(),
            deadline: Moment::FAR,
            resume_at: Moment::FAR,
            discarded: 0,
            unread: None,
            counted: None,
        }
    }
}

impl Busy {
    /// Output bytes not yet written.
    pub(crate) fn backlog(&self) -> usize {
        self.out.len() - self.out_sent + self.wire.len() - self.wire_sent
    }

    /// Nothing waits, so that the box can serve another connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.backlog() == 0
            && self.kept.is_empty()
            && self.counted.is_none()
            && self.deadline == Moment::FAR
            && self.resume_at == Moment::FAR
    }

    /// Makes an idle box as good as new; large buffers are given back.
    pub(crate) fn reset(&mut self, keep_max: usize) {
        for buffer in [&mut self.out, &mut self.wire, &mut self.kept] {
            buffer.clear();
            if buffer.capacity() > keep_max {
                *buffer = Vec::new();
            }
        }
        self.out_sent = 0;
        self.wire_sent = 0;
        self.discarded = 0;
        self.unread = None;
        self.counted = None;
        self.deadline = Moment::FAR;
        self.resume_at = Moment::FAR;
    }
}

/// A connection that the service opens.
pub(crate) struct Opening<C> {
    /// Any stream socket that does not block; `None` for a connection without one.
    pub(crate) socket: Option<OwnedFd>,
    /// Whose it is counted as; `None` for one of the server's own.
    pub(crate) address: Option<IpAddr>,
    /// It is the other half of a connection that counts already.
    pub(crate) is_half: bool,
    pub(crate) conn: C,
}

impl Link {
    /// One in which nothing waits.
    pub(crate) fn new(
        socket: Option<TcpStream>,
        flags: Flags,
        listener: u16,
        address: AddressKey,
    ) -> Link {
        Link {
            socket,
            flags,
            in_flight: 0,
            listener,
            address,
            busy: None,
            tls: None,
            deadline: Moment::FAR,
            timer: TimerKey::DEAD,
            timer_at: Moment::FAR,
            bucket: Bucket::new(),
        }
    }

    /// The next moment at which something is to be done for this connection.
    pub(crate) fn due(&self) -> Moment {
        let busy = match &self.busy {
            Some(busy) => busy.deadline.min(busy.resume_at),
            None => Moment::FAR,
        };
        self.deadline.min(busy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_connection_is_small() {
        // The budget of an idle user counts this once per connection; see `benches/idle.rs`.
        assert!(size_of::<Link>() <= 96, "{} bytes", size_of::<Link>());
        assert!(size_of::<Busy>() <= 128, "{} bytes", size_of::<Busy>());
        let busy = Busy::default();
        assert!(busy.is_idle());
        assert_eq!(busy.backlog(), 0);
    }
}
