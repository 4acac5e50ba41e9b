//! Every bound of the network layer, with its unit, default and what it costs. Owns the numbers and
//! the descriptor limit of the process; deliberately enforces nothing: the driver does.

use std::time::Duration;

use crate::address::Network;
use crate::bucket::Rate;

/// Bytes of the one read buffer a shard lends to whichever connection is readable.
pub const READ_BUFFER: usize = 64 * 1024;

/// Plaintext bytes encrypted and written in one system call at most.
pub(crate) const WRITE_CHUNK: usize = 48 * 1024;

/// Most bytes that the kernel keeps for a connection beyond what its other side has room for
/// (`TCP_NOTSENT_LOWAT`). The rest stays in our own buffers, which are counted: the kernel would
/// take four megabytes for each client that does not read.
pub(crate) const UNSENT_MAX: u32 = 128 * 1024;

/// Bytes of TLS records kept while a handshake message or a record is incomplete. A record is at
/// most 16 KiB + 2 KiB by RFC 8446 and RFC 5246; handshake messages may span several.
pub(crate) const TLS_INCOMPLETE_MAX: usize = 96 * 1024;

/// Bytes of input that wait in a connection and are not counted for its address: what one read
/// leaves of pipelined stanzas while they wait for their turn.
pub(crate) const KEPT_UNCOUNTED: usize = 32 * 1024;

/// The same of what the service keeps for a client ([`Io::holds`](crate::Io::holds)).
pub(crate) const HELD_UNCOUNTED: usize = 8 * 1024;

/// Events taken from the kernel per loop turn.
pub(crate) const EVENTS_MAX: usize = 1024;

/// While all places to wait under `accepts_per_second` are taken, an address keeps one part in so
/// many of them; what it has beyond that is refused. So floods of up to 16 addresses at once leave
/// places for others.
pub(crate) const WAITING_SHARES: usize = 16;

/// Connections accepted per listener and loop turn; the rest stay in the kernel's queue.
pub(crate) const ACCEPTS_PER_TURN: usize = 64;

/// Connections whose input is processed per loop turn before output and timers have their turn.
pub(crate) const READS_PER_TURN: usize = 1024;

/// The same of connections that stand apart ([`Cx::set_apart`](crate::Cx::set_apart)): whoever
/// makes many of them is not to keep the actors from their work.
pub(crate) const READS_APART_PER_TURN: usize = 32;

/// Actors with something to do beyond which a loop turn reads nothing. They are about a turn's
/// work: to read more would only move what waits from the kernel's buffers into memory here.
pub(crate) const RUNNABLE_MAX: usize = 1024;

/// Idle output boxes a shard keeps for reuse.
pub(crate) const POOL_MAX: usize = 256;

/// Capacity in bytes up to which a pooled buffer is kept as it is.
pub(crate) const POOLED_BYTES_MAX: usize = 16 * 1024;

/// Bytes discarded from a peer that goes on sending after its stream was closed. Clients write the
/// whole of a stanza that is too large before they read why it was refused: beyond this bound the
/// system tears the connection down, and with it the error that is on its way.
pub(crate) const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Pause after the process ran out of descriptors, before the next accept.
pub(crate) const DESCRIPTOR_BACKOFF: Duration = Duration::from_millis(100);

/// Descriptors that are not connections: store, logs, admin socket, poll, listeners.
pub(crate) const DESCRIPTORS_RESERVED: u64 = 256;

// A chunk becomes at most this many records, and the ciphertext buffer must hold all of them.
const _: () = assert!(WRITE_CHUNK.is_multiple_of(16 * 1024));
const _: () = assert!(TLS_INCOMPLETE_MAX > READ_BUFFER);
const _: () = assert!(POOLED_BYTES_MAX < WRITE_CHUNK);

/// What connections may use. One value per process; changed at run time by
/// [`Shared::set_limits`](crate::Shared::set_limits), and then valid for what follows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections of the whole node. Default: what the descriptor limit allows.
    pub connections_max: usize,
    /// Connections per address of the whole node (IPv6: per /64). Default 1,024. 0 switches it off.
    pub connections_per_address_max: u32,
    /// New connections per second and node. Faster arrivals wait, addresses in turns. Default
    /// 4,000. 0 switches it off.
    pub accepts_per_second: u32,
    /// New connections admitted at once after a quiet time, per node. Default 4,000.
    pub accept_burst: u32,
    /// Accepted connections per shard that wait for their turn under `accepts_per_second`. Once all
    /// places are taken, an address that has more than a sixteenth of them loses its newest; if
    /// none has, the others stay in the kernel's queue. Default 1,024. Costs one descriptor each.
    pub accepts_waiting_max: usize,
    /// Addresses exempt from `connections_per_address_max`, `accepts_per_second` and `rate`.
    /// Default: loopback.
    pub exempt: Vec<Network>,
    /// Stanzas per connection that were taken in but not yet accepted by their actor; reads pause
    /// at this many. Default 64.
    pub window_max: u16,
    /// Bytes of output waiting per connection; a connection that reaches it is closed. Default
    /// 2 MiB. This is also the memory a reader that never reads can cost.
    pub backlog_max: usize,
    /// Bytes of output waiting for all connections of an address (IPv6: per /64) that have more
    /// than `backlog_pause` each, on the whole node; the connection that adds to it then is closed.
    /// Default 24 MiB.
    pub backlog_per_address_max: u64,
    /// Bytes of output waiting at which the connection's own input pauses, so that nobody piles up
    /// answers. Default 64 KiB.
    pub backlog_pause: usize,
    /// Bytes of input kept per connection while an item is incomplete. Default 320 KiB: the largest
    /// stanza and a little.
    pub incomplete_max: usize,
    /// Bytes of input that the service may feed to a connection without a socket while they wait,
    /// because it is paused for example; with more it ends. Default 640 KiB.
    pub fed_max: usize,
    /// Bytes of input kept for all connections of an address (IPv6: per /64) that keep more than 32
    /// KiB each, on the whole node: of incomplete items, of TLS records, and what the service says
    /// that it keeps. The connection that adds to it then is closed. Default 24 MiB.
    pub kept_per_address_max: u64,
    /// Bytes read per connection and loop turn, at most [`READ_BUFFER`]. Default 32 KiB.
    pub read_per_turn: usize,
    /// Input per connection; beyond it reads pause. Default none.
    pub rate: Option<Rate>,
    /// From accept or `<proceed/>` to the end of the TLS handshake. Default 60 s: the client may be
    /// waiting for somebody who reads a certificate that it does not know.
    pub handshake_timeout: Duration,
    /// TLS handshake steps per shard and loop turn; one costs up to a millisecond with RSA keys.
    /// Default 8.
    pub handshakes_per_turn: usize,
    /// Connections of one shard that are told in one turn that the node ends, or that they should
    /// go elsewhere; the others follow. Default 256.
    pub told_per_turn: usize,
    /// From accept to the end of the PROXY header. Default 3 s.
    pub proxy_timeout: Duration,
    /// For the last output of a closing connection to be written. Default 5 s.
    pub close_timeout: Duration,
    /// For the peer to close its side after we closed ours. Default 2 s.
    pub linger: Duration,
    /// A connection with output waiting whose peer takes none of it for this long is dead. Default
    /// 60 s.
    pub stall_timeout: Duration,
    /// Messages that wait for the protocol states of one shard's connections; the connection that
    /// one more is for ends. Default 65,536. In force from the start of a shard, as the next three.
    pub controls_max: usize,
    /// Connections that the service of one shard opens in one turn; one more is refused. Default
    /// 4,096.
    pub openings_max: usize,
    /// Operations that wait in one shard for connections of another, while that one does not take
    /// its mail; the connection that one more is for ends. Room that is given back to a window
    /// always finds a place: there is no more of it than was taken. Default 65,536.
    pub remote_operations_max: usize,
    /// Bytes of output among them; likewise. Default 32 MiB.
    pub remote_bytes_max: usize,
    /// Messages that wait in one shard for its connections and came from other shards and threads:
    /// each is a connection on its way, or what one turn of another shard wrote. With as many, all
    /// further mail waits outside: one that found no room would be a connection lost without a
    /// word, or the output of many users. Default 65,536.
    pub port_mailbox_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections_max: connections_allowed(descriptor_limit()),
            connections_per_address_max: 1_024,
            accepts_per_second: 4_000,
            accept_burst: 4_000,
            accepts_waiting_max: 1_024,
            exempt: Network::loopback(),
            window_max: 64,
            backlog_max: 2 * 1024 * 1024,
            backlog_per_address_max: 24 * 1024 * 1024,
            backlog_pause: 64 * 1024,
            incomplete_max: 320 * 1024,
            fed_max: 640 * 1024,
            kept_per_address_max: 24 * 1024 * 1024,
            read_per_turn: 32 * 1024,
            rate: None,
            handshake_timeout: Duration::from_secs(60),
            handshakes_per_turn: 8,
            told_per_turn: 256,
            proxy_timeout: Duration::from_secs(3),
            close_timeout: Duration::from_secs(5),
            linger: Duration::from_secs(2),
            stall_timeout: Duration::from_secs(60),
            controls_max: 65_536,
            openings_max: 4_096,
            remote_operations_max: 65_536,
            remote_bytes_max: 32 * 1024 * 1024,
            port_mailbox_max: 65_536,
        }
    }
}

impl Limits {
    /// The same limits with every value inside the bounds the driver relies on.
    pub(crate) fn bounded(mut self) -> Limits {
        self.read_per_turn = self.read_per_turn.clamp(1024, READ_BUFFER);
        self.handshakes_per_turn = self.handshakes_per_turn.max(1);
        self.told_per_turn = self.told_per_turn.max(1);
        self.window_max = self.window_max.max(1);
        self.connections_max = self.connections_max.max(1);
        self.backlog_max = self.backlog_max.max(4096);
        self.incomplete_max = self.incomplete_max.max(1024);
        self
    }
}

/// The soft limit of open descriptors of this process.
pub fn descriptor_limit() -> u64 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current.unwrap_or(u64::MAX)
}

/// Raises the soft descriptor limit to the hard one and returns the limit now in force.
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // A refusal leaves the soft limit as it was, and that is what the caller is told.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    descriptor_limit()
}

/// Connections that a descriptor limit leaves room for.
pub fn connections_allowed(descriptors: u64) -> usize {
    let reserve = DESCRIPTORS_RESERVED.min(descriptors / 4);
    usize::try_from(descriptors - reserve).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptor_limit_leaves_a_reserve() {
        assert_eq!(connections_allowed(1024), 768);
        assert_eq!(connections_allowed(20_000), 19_744);
        assert_eq!(connections_allowed(4), 3);
        assert!(raise_descriptor_limit() >= 256);
    }

    #[test]
    fn out_of_bounds_values_are_pulled_in() {
        let limits = Limits {
            read_per_turn: 0,
            window_max: 0,
            ..Limits::default()
        }
        .bounded();
        assert_eq!(limits.read_per_turn, 1024);
        assert_eq!(limits.window_max, 1);
    }
}
