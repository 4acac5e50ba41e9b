//! What the driver of a shard and the actors on it share: the connections' network sides, what is
//! to be read and flushed next, and what waits for other shards. Owns no protocol state and calls
//! no service, so that it is never borrowed while foreign code runs.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use actor::ShardId;
use stdx::slab::{Key, Slab};
use stdx::time::Moment;
use telemetry::{Counter, Stats};

use crate::address::AddressKey;
use crate::bucket::Rate;
use crate::limits::{self, POOL_MAX, POOLED_BYTES_MAX};
use crate::link::{Busy, Flags, Link};
use crate::port::{Batch, Operation, Remote};
use crate::roaming::Roaming;
use crate::unread::Unread;

/// See the module. `C` is what protocol states are told.
pub(crate) struct Core<C> {
    pub(crate) shard: ShardId,
    pub(crate) links: Slab<Link>,
    /// Connections to read from, at most once each ([`Flags::QUEUED`]).
    pub(crate) ready: VecDeque<Key>,
    /// The same of those that are not held back with the others ([`Flags::APART`]).
    pub(crate) ready_apart: VecDeque<Key>,
    /// Connections to flush, at most once each ([`Flags::DIRTY`]).
    pub(crate) dirty: Vec<Key>,
    /// Messages for protocol states, at most [`limits::Limits::controls_max`].
    pub(crate) controls: VecDeque<(Key, C)>,
    /// Watched connections whose output is written.
    pub(crate) written: Vec<Key>,
    /// One per shard, for connections there.
    pub(crate) remotes: Vec<Remote<C>>,
    /// Connections that are not where their name says.
    pub(crate) roaming: Roaming<C>,
    /// Stanzas that a connection may have under way in this turn.
    pub(crate) window: u16,
    backlog_max: usize,
    /// Input that is kept for the connections of each address of the node, and its bound.
    pub(crate) kept: Arc<Unread>,
    pub(crate) kept_max: u64,
    controls_max: usize,
    pub(crate) stats: Stats,
    /// [`Service::encode`](crate::Service::encode).
    encode: fn(&mut Vec<u8>, usize),
    /// Boxes as connections hold them: moving one in or out copies a pointer.
    #[allow(clippy::vec_box)]
    pool: Vec<Box<Busy>>,
}

/// Why an operation on a connection did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IoError {
    /// The connection is gone or takes no more output.
    #[error("the connection is gone")]
    Gone,
    /// Too much waits for the connection's shard. A connection that was to be written to, told
    /// something or closed ends: what follows would have a gap in front of it.
    #[error("too much waits for the shard of the connection")]
    Full,
}

impl<C> Core<C> {
    pub(crate) fn new(
        (shard, shards): (ShardId, u16),
        limits: &limits::Limits,
        kept: Arc<Unread>,
        encode: fn(&mut Vec<u8>, usize),
    ) -> Core<C> {
        Core {
            shard,
            links: Slab::new(),
            ready: VecDeque::new(),
            ready_apart: VecDeque::new(),
            dirty: Vec::new(),
            controls: VecDeque::new(),
            written: Vec::new(),
            remotes: (0..shards).map(|_| Remote::new(limits)).collect(),
            roaming: Roaming::default(),
            window: limits.window_max,
            backlog_max: limits.backlog_max,
            kept,
            kept_max: limits.kept_per_address_max,
            controls_max: limits.controls_max,
            stats: Stats::new(),
            encode,
            pool: Vec::new(),
        }
    }

    /// New limits are in force.
    pub(crate) fn take_limits(&mut self, limits: &limits::Limits) {
        self.backlog_max = limits.backlog_max;
        self.kept_max = limits.kept_per_address_max;
    }

    /// The busy part of a connection, made if there is none.
    pub(crate) fn busy(&mut self, id: Key) -> Option<&mut Busy> {
        let link = self.links.get_mut(id)?;
        let pool = &mut self.pool;
        Some(
            &mut **link
                .busy
                .get_or_insert_with(|| pool.pop().unwrap_or_default()),
        )
    }

    /// Takes the busy part back if nothing waits in it.
    pub(crate) fn release(&mut self, id: Key) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        if link.busy.as_ref().is_some_and(|busy| busy.is_idle())
            && let Some(busy) = link.busy.take()
        {
            self.recycle(busy);
        }
    }

    pub(crate) fn recycle(&mut self, mut busy: Box<Busy>) {
        if self.pool.len() < POOL_MAX {
            busy.reset(POOLED_BYTES_MAX);
            self.pool.push(busy);
        }
    }

    /// Puts the connection on the list of those to flush.
    pub(crate) fn mark_dirty(&mut self, id: Key) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        if !link.flags.has(Flags::DIRTY) {
            link.flags.set(Flags::DIRTY);
            self.dirty.push(id);
        }
    }

    /// Puts the connection into the queue of those to read from, if there is anything to be had
    /// and nothing against it. What resumes a paused connection comes here: the kernel will not
    /// report again what it reported once.
    pub(crate) fn enqueue(&mut self, id: Key) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        let flags = &mut link.flags;
        let wanted = flags.has(Flags::READABLE | Flags::TO_RECEIVE);
        let paused = flags.has(Flags::PAUSED) && !flags.has(Flags::LINGERING);
        if wanted && !paused && !flags.has(Flags::QUEUED) {
            flags.set(Flags::QUEUED);
            match flags.has(Flags::APART) {
                true => self.ready_apart.push_back(id),
                false => self.ready.push_back(id),
            }
        }
    }

    /// Lifts a pause.
    pub(crate) fn resume(&mut self, id: Key, reason: Flags) {
        if let Some(link) = self.links.get_mut(id)
            && link.flags.has(reason)
        {
            link.flags.clear(reason);
            self.enqueue(id);
        }
    }

    /// Lets `write` append to the output of a local connection.
    pub(crate) fn write(
        &mut self,
        id: Key,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), IoError> {
        let Some(link) = self.links.get_mut(id) else {
            return self.write_elsewhere(self.own(id), write);
        };
        // What is written to one that leaves goes along with it.
        if link.flags.has(Flags::MUTE) {
            return Err(IoError::Gone);
        }
        // An eighth more can only be exceeded within one turn, before the flush that decides.
        let hard_max = self.backlog_max.saturating_add(self.backlog_max / 8);
        let pool = &mut self.pool;
        let busy = link
            .busy
            .get_or_insert_with(|| pool.pop().unwrap_or_default());
        let from = busy.out.len();
        append(&mut busy.out, write);
        if link.flags.has(Flags::ENCODED) {
            (self.encode)(&mut busy.out, from);
        }
        let flooded = busy.backlog() > hard_max;
        if !link.flags.has(Flags::DIRTY) {
            link.flags.set(Flags::DIRTY);
            self.dirty.push(id);
        }
        if flooded {
            link.flags.set(Flags::FLOODED);
            return Err(IoError::Gone);
        }
        Ok(())
    }

    /// Whether neither protocol states nor other shards are owed anything.
    pub(crate) fn is_settled(&self) -> bool {
        self.controls.is_empty()
            && self.written.is_empty()
            && self.roaming.called_back.is_empty()
            && !self.remotes.iter().any(Remote::has_batch)
    }

    /// Notes who wants to be told once the output of a local connection is written.
    pub(crate) fn watch(&mut self, id: Key) {
        if let Some(link) = self.links.get_mut(id) {
            link.flags.set(Flags::WATCHED);
        }
    }

    /// The output of a connection is written but for a little.
    pub(crate) fn note_written(&mut self, id: Key) {
        if let Some(link) = self.links.get_mut(id)
            && link.flags.has(Flags::WATCHED)
        {
            link.flags.clear(Flags::WATCHED);
            self.written.push(id);
        }
    }

    /// Takes so much time from what the connection may send, and lets it pause for as long as it
    /// has used more than there was.
    pub(crate) fn charge(&mut self, id: Key, time: Duration, rate: Option<Rate>, now: Moment) {
        let (Some(rate), Some(link)) = (rate, self.links.get_mut(id)) else {
            return;
        };
        if link.address == AddressKey::EXEMPT {
            return;
        }
        link.bucket.spend(rate, time, now);
        let Some(debt) = link.bucket.debt(now) else {
            return;
        };
        link.flags.set(Flags::PAUSED_RATE);
        self.stats.count(Counter::NetThrottled);
        if let Some(busy) = self.busy(id) {
            busy.resume_at = now + debt;
        }
    }

    /// Gives back room in the window of a local connection.
    pub(crate) fn credit(&mut self, id: Key, stanzas: u16) -> Result<(), IoError> {
        let window = self.window;
        let Some(link) = self.links.get_mut(id) else {
            return self.pass_on(self.own(id), Operation::Credit(stanzas));
        };
        link.in_flight = link.in_flight.saturating_sub(stanzas);
        if link.in_flight < window {
            self.resume(id, Flags::PAUSED_WINDOW);
        }
        Ok(())
    }

    /// Queues a message for the protocol state of a local connection.
    pub(crate) fn control(&mut self, id: Key, msg: C) -> Result<(), IoError> {
        if !self.links.contains(id) {
            return self.pass_on(self.own(id), Operation::Control(msg));
        }
        self.push_control(id, msg)
    }

    pub(crate) fn push_control(&mut self, id: Key, msg: C) -> Result<(), IoError> {
        if self.controls.len() >= self.controls_max {
            self.stats.count(Counter::NetControlsFull);
            self.cut(id);
            return Err(IoError::Full);
        }
        self.controls.push_back((id, msg));
        Ok(())
    }

    /// Ends a local connection for which something found no room: what waits to be written is, and
    /// nothing behind it.
    fn cut(&mut self, id: Key) {
        if let Some(link) = self.links.get_mut(id) {
            link.flags.set(Flags::FLOODED);
            self.mark_dirty(id);
        }
    }

    /// Closes a local connection after its output is written.
    pub(crate) fn close(&mut self, id: Key) -> Result<(), IoError> {
        let Some(link) = self.links.get_mut(id) else {
            return self.pass_on(self.own(id), Operation::Close);
        };
        link.flags.set(Flags::CLOSING);
        self.mark_dirty(id);
        Ok(())
    }

    /// Applies what another shard or thread wants of connections here.
    pub(crate) fn apply_all(&mut self, batch: Batch<C>) {
        let mut bytes = &batch.bytes[..];
        for (conn, operation) in batch.operations {
            let length = match operation {
                Operation::Out(length) => (length as usize).min(bytes.len()),
                _ => 0,
            };
            let (part, rest) = bytes.split_at(length);
            bytes = rest;
            match self.local(conn) {
                Some(id) => self.apply(id, operation, part),
                None => self.apply_elsewhere(conn, operation, part),
            }
        }
    }

    pub(crate) fn apply(&mut self, id: Key, operation: Operation<C>, bytes: &[u8]) {
        // The other side learns of a lost connection by `Service::closed`, not here.
        let _ = match operation {
            Operation::Out(_) => self.write(id, |out| out.extend_from_slice(bytes)),
            Operation::Credit(stanzas) => self.credit(id, stanzas),
            Operation::Control(msg) => self.push_control(id, msg),
            Operation::Close => self.close(id),
            Operation::Cut => {
                self.cut(id);
                Ok(())
            }
            Operation::CallBack => {
                self.roaming.called_back.push(id);
                Ok(())
            }
            // Said of connections that are elsewhere.
            Operation::Leaves(_) | Operation::Forget => Ok(()),
        };
    }
}

/// Appends all of what `write` writes, or nothing if it panics: half a stanza would spoil the
/// stream for everything behind it.
pub(crate) fn append(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    struct Whole<'a> {
        out: &'a mut Vec<u8>,
        length: usize,
    }
    impl Drop for Whole<'_> {
        fn drop(&mut self) {
            self.out.truncate(self.length);
        }
    }
    let length = out.len();
    let mut whole = Whole { out, length };
    write(whole.out);
    whole.length = whole.out.len();
}
