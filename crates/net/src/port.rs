//! Connections of other shards: what waits for them, the messages that carry it, and the actor that
//! receives them on each shard. Output for one shard is collected over a turn and travels as one
//! message.

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use actor::{Actor, Context};
use stdx::slab::Key;
use stdx::time::Moment;

use crate::address::AddressKey;
use crate::bucket::Bucket;
use crate::core::{Core, IoError, append};
use crate::limits::{REMOTE_BYTES_MAX, REMOTE_OPERATIONS_MAX};
use crate::link::{Busy, Flags};
use crate::record::Tls;
use crate::service::Service;

/// Something to do to a connection.
#[derive(Debug)]
pub(crate) enum Operation<C> {
    /// Output: so many of the batch's bytes.
    Out(u32),
    Credit(u16),
    Control(C),
    Close,
}

/// Operations in order, with the bytes of all their output behind each other.
pub(crate) struct Batch<C> {
    pub(crate) operations: Vec<(Key, Operation<C>)>,
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
    pub(crate) conn: C,
}

/// What the port of a shard takes.
pub(crate) enum PortMsg<S: Service> {
    Batch(Batch<S::Control>),
    Adopt(Box<Parcel<S::Conn>>),
}

/// What waits in this shard for connections of one other shard.
pub(crate) struct Remote<S: Service> {
    pub(crate) batch: Batch<S::Control>,
    /// Connections to hand over, behind the operations of the same turn.
    pub(crate) parcels: Vec<Box<Parcel<S::Conn>>>,
}

impl<S: Service> Default for Remote<S> {
    fn default() -> Self {
        Remote {
            batch: Batch::default(),
            parcels: Vec::new(),
        }
    }
}

impl<S: Service> Remote<S> {
    pub(crate) fn is_empty(&self) -> bool {
        self.batch.operations.is_empty() && self.parcels.is_empty()
    }

    /// Adds output for a connection there.
    pub(crate) fn write(
        &mut self,
        id: Key,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), IoError> {
        self.check()?;
        let before = self.batch.bytes.len();
        append(&mut self.batch.bytes, write);
        let added = self.batch.bytes.len() - before;
        // A batch is bounded far below 4 GiB; a single closure that wrote more loses its output.
        let Ok(added) = u32::try_from(added) else {
            self.batch.bytes.truncate(before);
            return Err(IoError::Full);
        };
        match self.batch.operations.last_mut() {
            Some((last, Operation::Out(length))) if *last == id => *length += added,
            _ => self.batch.operations.push((id, Operation::Out(added))),
        }
        Ok(())
    }

    /// Adds another operation for a connection there.
    pub(crate) fn push(
        &mut self,
        id: Key,
        operation: Operation<S::Control>,
    ) -> Result<(), IoError> {
        self.check()?;
        self.batch.operations.push((id, operation));
        Ok(())
    }

    fn check(&self) -> Result<(), IoError> {
        let full = self.batch.operations.len() >= REMOTE_OPERATIONS_MAX
            || self.batch.bytes.len() >= REMOTE_BYTES_MAX;
        if full { Err(IoError::Full) } else { Ok(()) }
    }
}

/// The actor that acts on a shard's connections for other shards and threads.
pub(crate) struct Port<S: Service> {
    pub(crate) core: Rc<RefCell<Core<S>>>,
}

impl<S: Service> Actor for Port<S> {
    type Msg = PortMsg<S>;

    fn handle(&mut self, msg: PortMsg<S>, cx: &mut Context<'_, PortMsg<S>>) {
        let mut core = self.core.borrow_mut();
        match msg {
            PortMsg::Adopt(parcel) => core.arrivals.push(parcel),
            PortMsg::Batch(batch) => {
                cx.spend(u32::try_from(batch.operations.len() / 4).unwrap_or(u32::MAX));
                let mut bytes = &batch.bytes[..];
                for (id, operation) in batch.operations {
                    let length = match operation {
                        Operation::Out(length) => (length as usize).min(bytes.len()),
                        _ => 0,
                    };
                    let (part, rest) = bytes.split_at(length);
                    bytes = rest;
                    core.apply(id, operation, part);
                }
            }
        }
    }
}
