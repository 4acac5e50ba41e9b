//! What a user of the shard loop implements, and how it names connections.

use std::net::SocketAddr;

use actor::{Shard, ShardId};
use stdx::slab::Key;

use crate::cx::Cx;
use crate::listen::Speaks;

/// A connection of whatever shard. Plain data; a hand-over gives the connection a new one, and one
/// that moves keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConnRef {
    /// Where it got its name, and its socket is polled unless it has moved ([`Cx::move_to`]).
    pub shard: ShardId,
    /// Which one it is there.
    pub id: Key,
}

/// Who has connected.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The client's address; the one that a trusted proxy names, if the listener has any.
    pub address: SocketAddr,
    /// Index of the listener.
    pub listener: usize,
    /// Whether TLS began with the first byte.
    pub direct_tls: bool,
    /// What the listener's connections speak.
    pub speaks: Speaks,
}

/// What a TLS handshake agreed on.
#[derive(Clone, Debug)]
pub struct TlsInfo {
    /// The name that the client asked for.
    pub sni: Option<Box<str>>,
    /// The application protocol (ALPN), if one was negotiated.
    pub alpn: Option<Vec<u8>>,
    /// Channel binding data of type `tls-exporter` (RFC 9266), over TLS 1.3.
    pub exporter: Option<[u8; 32]>,
    /// The version of the protocol.
    pub version: TlsVersion,
}

/// Versions of TLS that are spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Closed {
    /// The peer closed it.
    ByPeer,
    /// The service closed it.
    ByUs,
    /// The link broke.
    Broken,
    /// The peer does not read: its output reached the bound. Or something for it found no room
    /// within the node.
    Backlog,
    /// The peer sent more than may be kept without making sense.
    Overflow,
    /// TLS failed.
    Tls,
    /// It took too long.
    Timeout,
    /// The node stops.
    Shutdown,
    /// The service panicked in one of this connection's events.
    Crashed,
}

/// The protocol above the sockets of one shard.
pub trait Service: Sized + 'static {
    /// Protocol state of one connection; moves with it at a hand-over.
    type Conn: Send + 'static;
    /// What actors and pools tell that state.
    type Control: Send + 'static;

    /// A turn of the shard begins: nothing of it has happened, and what it writes leaves at its
    /// end.
    fn turn_begins(&mut self, shard: &mut Shard) {
        let _ = shard;
    }

    /// A connection has come.
    fn accept(&mut self, cx: &mut Cx<'_>, peer: &Peer) -> Self::Conn;

    /// Bytes have come, after TLS. Returns how many were used; the rest comes again with what
    /// follows, or once reading goes on.
    fn receive(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn, input: &[u8]) -> usize;

    /// The handshake is done.
    fn tls_established(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn, tls: &TlsInfo);

    /// A message for the connection.
    fn control(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn, msg: Self::Control);

    /// A message found its connection gone.
    fn undelivered(&mut self, shard: &mut Shard, msg: Self::Control) {
        let _ = (shard, msg);
    }

    /// The time set by [`Cx::set_deadline`] has come.
    fn deadline(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn);

    /// Rewrites what was appended to a connection's output from `from` on, for connections with
    /// [`Cx::encode_from_here`]. It must not panic, and gets only what was written whole.
    fn encode(out: &mut Vec<u8>, from: usize) {
        let _ = (out, from);
    }

    /// A connection opened by an [`Opener`](crate::Opener) is there.
    fn opened(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn) {
        let _ = (cx, conn);
    }

    /// Output waits for a connection without a socket: what is taken out of `out` is sent, as far
    /// as this crate is concerned; what is left comes again with the next that is written.
    fn collect(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn, out: &mut Vec<u8>) {
        let _ = (cx, conn);
        out.clear();
    }

    /// The output of a connection that is watched ([`Io::watch`](crate::Io::watch)) is written
    /// but for a little.
    fn written(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn) {
        let _ = (cx, conn);
    }

    /// The connection was handed over to this shard, and has a new name.
    fn adopted(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn);

    /// The node stops: say goodbye.
    fn drain(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn);

    /// Whether it is a client's, who may be asked to go to another node.
    fn is_client(conn: &Self::Conn) -> bool {
        let _ = conn;
        true
    }

    /// The node goes on, but its clients should go: say goodbye to this one.
    fn shed(&mut self, cx: &mut Cx<'_>, conn: &mut Self::Conn) {
        self.drain(cx, conn);
    }

    /// The connection is gone. Called exactly once.
    fn closed(&mut self, shard: &mut Shard, id: ConnRef, conn: Self::Conn, why: Closed);
}
