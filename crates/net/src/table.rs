//! The connections of one shard, reachable by its driver and, through [`crate::Io`], by its actors.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use actor::{Addr, ShardId};
use mio::net::TcpStream;
use stdx::slab::{Key, Slab};
use stdx::wheel::TimerKey;

use crate::address::AddressKey;
use crate::bucket::Bucket;
use crate::port::PortMsg;
use crate::service::{Closed, Service};
use crate::session::Session;

/// One connection. What most have not is boxed or empty.
pub(crate) struct Entry<S: Service> {
    pub(crate) socket: TcpStream,
    pub(crate) conn: Option<S::Conn>,
    pub(crate) tls: Option<Session>,
    /// Plaintext of this turn.
    pub(crate) out: Vec<u8>,
    /// Bytes on their way to the socket, the first `sent` of them gone.
    pub(crate) wire: Vec<u8>,
    pub(crate) sent: usize,
    /// Plaintext that makes no complete item yet, or that waits because reading is paused.
    pub(crate) kept: Vec<u8>,
    pub(crate) timer: Option<TimerKey>,
    pub(crate) address: AddressKey,
    pub(crate) bucket: Bucket,
    pub(crate) in_flight: u16,
    pub(crate) flags: Flags,
    pub(crate) closing: Option<Closed>,
}

/// What a connection is in the middle of.
#[derive(Clone, Copy, Default)]
pub(crate) struct Flags {
    /// It is in the list of those with output.
    pub(crate) dirty: bool,
    /// The service stopped reading.
    pub(crate) paused: bool,
    /// The socket may have more bytes that no event will tell of.
    pub(crate) readable: bool,
    /// It is in the list of those to be read again.
    pub(crate) queued: bool,
    /// The peer must name its proxy's client first.
    pub(crate) wants_proxy: bool,
    /// TLS starts once the output is written.
    pub(crate) starts_tls: bool,
    /// The socket did not take all bytes; an event will tell when it does.
    pub(crate) blocked: bool,
    /// It closes once the output is written.
    pub(crate) ending: bool,
    /// Which listener it came from.
    pub(crate) listener: u8,
}

/// A connection between two shards.
pub(crate) struct Moved<S: Service>(pub(crate) Entry<S>);

/// Something for the driver to do after the actors' turn.
pub(crate) enum Todo<S: Service> {
    Control(Key, S::Control),
    Adopt(Box<Moved<S>>),
    /// Reading may go on.
    Resume(Key),
    Close(Key, Closed),
}

/// What driver and actors of one shard share.
pub(crate) struct Table<S: Service> {
    pub(crate) shard: ShardId,
    pub(crate) entries: RefCell<Slab<Entry<S>>>,
    pub(crate) dirty: RefCell<Vec<Key>>,
    pub(crate) todo: RefCell<VecDeque<Todo<S>>>,
    pub(crate) ports: Arc<Ports<S>>,
}

/// Where the shards' port actors are; set once by each driver before connections come.
pub(crate) struct Ports<S: Service>(pub(crate) Vec<OnceLock<Addr<PortMsg<S>>>>);

impl<S: Service> Ports<S> {
    pub(crate) fn of(&self, shard: ShardId) -> Option<Addr<PortMsg<S>>> {
        self.0.get(usize::from(shard.index())).and_then(|port| port.get().copied())
    }
}

impl<S: Service> Table<S> {
    /// Appends to a connection's output. `false` if there is no such connection.
    pub(crate) fn write(&self, id: Key, backlog_max: usize, f: impl FnOnce(&mut Vec<u8>)) -> bool {
        let mut entries = self.entries.borrow_mut();
        let Some(entry) = entries.get_mut(id) else { return false };
        if entry.closing.is_some() || entry.flags.ending {
            return false;
        }
        f(&mut entry.out);
        if entry.out.len() + entry.wire.len() - entry.sent > backlog_max {
            self.todo.borrow_mut().push_back(Todo::Close(id, Closed::Backlog));
            entry.closing = Some(Closed::Backlog);
        }
        if !std::mem::replace(&mut entry.flags.dirty, true) {
            self.dirty.borrow_mut().push(id);
        }
        true
    }

    /// Gives room in a window back.
    pub(crate) fn credit(&self, id: Key, stanzas: u16) {
        let mut entries = self.entries.borrow_mut();
        let Some(entry) = entries.get_mut(id) else { return };
        entry.in_flight = entry.in_flight.saturating_sub(stanzas);
        let waits = !entry.kept.is_empty() || entry.flags.readable;
        if waits && !entry.flags.queued {
            entry.flags.queued = true;
            self.todo.borrow_mut().push_back(Todo::Resume(id));
        }
    }
}
