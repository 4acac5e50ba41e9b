//! Connections of other shards: what waits for them, the messages that carry it, and the actor that
//! receives them on each shard. Output for one shard is collected over a turn and travels as one
//! message.

use std::cell::RefCell;
use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use actor::{Actor, Context, Handle, ShardId};
use stdx::time::Moment;

use crate::address::AddressKey;
use crate::bucket::Bucket;
use crate::core::{Core, IoError, append};
use crate::limits::Limits;
use crate::link::{Busy, Flags};
use crate::passage::Passage;
use crate::record::Tls;
use crate::service::{ConnRef, Service};

/// Something to do to a connection.
#[derive(Debug)]
pub(crate) enum Operation<C> {
    /// Output: so many of the batch's bytes.
    Out(u32),
    Credit(u16),
    Control(C),
    Close,
    /// Something for it found no room.
    Cut,
    /// To the shard of its name: it wants to go on to that shard (see [`crate::roaming`]).
    Leaves(ShardId),
    /// To the shard where it is: it may go, and what was said to it before has come.
    CallBack,
    /// To the shard of its name: it has ended, or has another name.
    Forget,
}

/// Operations in order, with the bytes of all their output behind each other.
pub(crate) struct Batch<C> {
    pub(crate) operations: Vec<(ConnRef, Operation<C>)>,
    pub(crate) bytes: Vec<u8>,
}

impl<C> Default for Batch<C> {
    fn default() -> Self {
        Batch {
            operations: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

/// Where operations on connections of any shard are sent, from threads that are no shard.
pub(crate) trait Batches<C>: Send + Sync {
    fn send(&self, handle: &Handle, shard: ShardId, batch: Batch<C>) -> Result<(), IoError>;
}

/// A connection on its way between shards.
pub(crate) struct Parcel<C> {
    pub(crate) socket: OwnedFd,
    pub(crate) flags: Flags,
    pub(crate) in_flight: u16,
    pub(crate) listener: u16,
    pub(crate) address: AddressKey,
    pub(crate) busy: Option<Box<Busy>>,
    pub(crate) tls: Option<Box<Tls>>,
    pub(crate) deadline: Moment,
    pub(crate) bucket: Bucket,
    /// The name that it keeps; none if it gets one where it arrives.
    pub(crate) name: Option<ConnRef>,
    pub(crate) conn: C,
}

/// What the port of a shard takes.
pub(crate) enum PortMsg<S: Service> {
    Batch(Batch<S::Control>),
    Adopt(Box<Parcel<S::Conn>>),
}

/// What waits in this shard for connections of one other shard.
pub(crate) struct Remote<C> {
    pub(crate) batch: Batch<C>,
    /// Connections for which something found no room. They end, and hear nothing more: a stream
    /// that goes on behind a gap has lost something that nobody knows of.
    cut: HashSet<ConnRef>,
    operations_max: usize,
    bytes_max: usize,
}

impl<C> Remote<C> {
    pub(crate) fn new(limits: &Limits) -> Self {
        Remote {
            batch: Batch::default(),
            cut: HashSet::new(),
            operations_max: limits.remote_operations_max,
            bytes_max: limits.remote_bytes_max,
        }
    }

    /// An empty one with the same bounds.
    pub(crate) fn alike(&self) -> Self {
        Remote {
            batch: Batch::default(),
            cut: HashSet::new(),
            ..*self
        }
    }

    pub(crate) fn has_batch(&self) -> bool {
        !self.batch.operations.is_empty() || !self.cut.is_empty()
    }

    /// All that waits, and behind it who ends.
    pub(crate) fn take_batch(&mut self) -> Batch<C> {
        let mut batch = std::mem::take(&mut self.batch);
        let cut = self.cut.iter().map(|id| (*id, Operation::Cut));
        batch.operations.extend(cut);
        batch
    }

    /// The other shard did not take it: it keeps its place.
    pub(crate) fn put_back(&mut self, mut batch: Batch<C>) {
        let left = batch.operations.len() - self.cut.len();
        batch.operations.truncate(left);
        self.batch = batch;
    }

    /// The other shard has taken it.
    pub(crate) fn taken(&mut self) {
        self.cut.clear();
    }

    /// Adds output for a connection there.
    pub(crate) fn write(
        &mut self,
        id: ConnRef,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), IoError> {
        self.check(id)?;
        let before = self.batch.bytes.len();
        append(&mut self.batch.bytes, write);
        let added = self.batch.bytes.len() - before;
        // A batch is bounded far below 4 GiB; a single closure that wrote more loses its output.
        let Ok(added) = u32::try_from(added) else {
            self.batch.bytes.truncate(before);
            self.cut.insert(id);
            return Err(IoError::Full);
        };
        match self.batch.operations.last_mut() {
            Some((last, Operation::Out(length))) if *last == id => *length += added,
            _ => self.batch.operations.push((id, Operation::Out(added))),
        }
        Ok(())
    }

    /// Adds another operation for a connection there.
    pub(crate) fn push(&mut self, id: ConnRef, operation: Operation<C>) -> Result<(), IoError> {
        // No more is given back to a window than it has, and a connection goes one way at a time:
        // these are bounded by the connections.
        let is_bounded = matches!(
            operation,
            Operation::Credit(_) | Operation::Leaves(_) | Operation::CallBack | Operation::Forget
        );
        if !is_bounded {
            self.check(id)?;
        }
        self.batch.operations.push((id, operation));
        Ok(())
    }

    fn check(&mut self, id: ConnRef) -> Result<(), IoError> {
        if self.cut.contains(&id) {
            return Err(IoError::Gone);
        }
        let is_full = self.batch.operations.len() >= self.operations_max
            || self.batch.bytes.len() >= self.bytes_max;
        if is_full {
            self.cut.insert(id);
            return Err(IoError::Full);
        }
        Ok(())
    }
}

/// The actor that acts on a shard's connections for other shards and threads.
pub(crate) struct Port<S: Service> {
    pub(crate) core: Rc<RefCell<Core<S::Control>>>,
    pub(crate) passage: Rc<RefCell<Passage<S::Conn>>>,
}

impl<S: Service> Actor for Port<S> {
    type Msg = PortMsg<S>;

    fn handle(&mut self, msg: PortMsg<S>, cx: &mut Context<'_, PortMsg<S>>) {
        match msg {
            PortMsg::Adopt(parcel) => {
                if let Some(name) = parcel.name {
                    self.core.borrow_mut().comes(name);
                }
                self.passage.borrow_mut().arrives(parcel);
            }
            PortMsg::Batch(batch) => {
                let mut core = self.core.borrow_mut();
                cx.spend(u32::try_from(batch.operations.len() / 4).unwrap_or(u32::MAX));
                core.apply_all(batch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stdx::slab::Key;

    use super::*;

    const fn key(index: u32) -> ConnRef {
        let id = Key {
            index,
            generation: 1,
        };
        let shard = ShardId::new(0);
        ConnRef { shard, id }
    }

    fn remote(operations_max: usize, bytes_max: usize) -> Remote<u32> {
        Remote::new(&Limits {
            remote_operations_max: operations_max,
            remote_bytes_max: bytes_max,
            ..Limits::default()
        })
    }

    fn said(batch: &Batch<u32>) -> Vec<String> {
        let each = batch.operations.iter();
        each.map(|(id, what)| format!("{} {what:?}", id.id.index))
            .collect()
    }

    #[test]
    fn what_finds_no_room_ends_its_connection_and_no_other() {
        let mut remote = remote(2, 1_000);
        let (a, b, c) = (key(1), key(2), key(3));
        assert_eq!(remote.write(a, |out| out.extend(b"one")), Ok(()));
        assert_eq!(remote.push(b, Operation::Control(7)), Ok(()));
        // Nothing that is behind the gap is said.
        assert_eq!(remote.push(a, Operation::Control(8)), Err(IoError::Full));
        assert_eq!(
            remote.write(a, |out| out.extend(b"two")),
            Err(IoError::Gone)
        );
        assert_eq!(remote.push(a, Operation::Close), Err(IoError::Gone));
        // Of room for its window nothing is lost, whoever else has none.
        for _ in 0..3 {
            assert_eq!(remote.push(c, Operation::Credit(1)), Ok(()));
        }
        let all = [
            "1 Out(3)",
            "2 Control(7)",
            "3 Credit(1)",
            "3 Credit(1)",
            "3 Credit(1)",
            "1 Cut",
        ];
        // The other shard takes it the third time.
        for _ in 0..2 {
            let batch = remote.take_batch();
            assert_eq!(said(&batch), all);
            remote.put_back(batch);
            assert_eq!(remote.push(a, Operation::Close), Err(IoError::Gone));
            assert!(remote.has_batch());
        }
        let batch = remote.take_batch();
        remote.taken();
        assert_eq!(
            (said(&batch).len(), batch.bytes),
            (all.len(), b"one".to_vec())
        );
        assert!(!remote.has_batch());
        assert_eq!(remote.push(b, Operation::Control(9)), Ok(()));
    }

    #[test]
    fn bytes_have_a_bound_of_their_own() {
        let mut remote = remote(100, 4);
        let (a, b) = (key(1), key(2));
        assert_eq!(remote.write(a, |out| out.extend(b"a few")), Ok(()));
        assert_eq!(
            remote.write(b, |out| out.extend(b"more")),
            Err(IoError::Full)
        );
        assert_eq!(said(&remote.take_batch()), ["1 Out(5)", "2 Cut"]);
    }
}
