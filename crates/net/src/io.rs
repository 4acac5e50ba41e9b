//! How actors and other threads reach connections: the same operations whether a connection is on
//! this shard or on another.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Handle, Mail};

use crate::address::AddressKey;
use crate::core::{Core, IoError};
use crate::port::{Batch, Batches, Operation};
use crate::service::ConnRef;

/// For the actors of one shard; cheap to clone. `C` is what protocol states are told: what else a
/// connection is to its service, nobody needs to know here.
///
/// Operations on one connection take effect in the order in which they were made by one actor.
/// Errors tell what is known at once: a connection of another shard may be gone although the
/// operation was taken, and then `Service::closed` there is how its user learns of it.
pub struct Io<C> {
    pub(crate) core: Rc<RefCell<Core<C>>>,
}

impl<C> Clone for Io<C> {
    fn clone(&self) -> Self {
        Io {
            core: Rc::clone(&self.core),
        }
    }
}

impl<C> Io<C> {
    /// Lets `write` append to the connection's output, which is written at the end of this turn.
    /// `write` must not use this handle.
    ///
    /// # Errors
    /// [`IoError::Gone`]: the connection is gone, closing, or its output has reached its bound.
    /// [`IoError::Full`]: too much waits for its shard. Nothing is written then, and it ends.
    pub fn with_out(
        &self,
        _mail: &mut impl Mail,
        conn: ConnRef,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), IoError> {
        let core = &mut *self.core.borrow_mut();
        if conn.shard == core.shard {
            return core.write(conn.id, write);
        }
        let remote = core.remotes.get_mut(usize::from(conn.shard.index()));
        remote.ok_or(IoError::Gone)?.write(conn, write)
    }

    /// Gives back room for `stanzas` in the connection's window: they were accepted. There is
    /// always a place for that.
    ///
    /// # Errors
    /// [`IoError::Gone`]: the connection is gone.
    pub fn credit(
        &self,
        _mail: &mut impl Mail,
        conn: ConnRef,
        stanzas: u16,
    ) -> Result<(), IoError> {
        self.apply(conn, Operation::Credit(stanzas))
    }

    /// Sends a message to the connection's protocol state, which receives it in this turn if it is
    /// on this shard.
    ///
    /// # Errors
    /// See [`Io::with_out`]; [`IoError::Full`] also when too many messages wait on this shard.
    pub fn control(&self, _mail: &mut impl Mail, conn: ConnRef, msg: C) -> Result<(), IoError> {
        self.apply(conn, Operation::Control(msg))
    }

    /// Closes the connection once its output is written.
    ///
    /// # Errors
    /// See [`Io::with_out`].
    pub fn close(&self, _mail: &mut impl Mail, conn: ConnRef) -> Result<(), IoError> {
        self.apply(conn, Operation::Close)
    }

    /// Has [`Service::written`](crate::Service::written) told once, as soon as the output of a
    /// connection of this shard is written but for half of the bytes at which its own input pauses.
    pub fn watch(&self, conn: ConnRef) {
        let core = &mut *self.core.borrow_mut();
        if let Some(id) = core.local(conn) {
            core.watch(id);
        }
    }

    /// Bytes of output that wait for a connection of this shard; `None` for others.
    pub fn backlog(&self, conn: ConnRef) -> Option<usize> {
        let core = self.core.borrow();
        let link = core.links.get(core.local(conn)?)?;
        Some(link.busy.as_ref().map_or(0, |busy| busy.backlog()))
    }

    /// Says how many bytes the service keeps for the client of a connection of this shard, until it
    /// says otherwise. They count for its address, as input that waits does
    /// ([`Limits::kept_per_address_max`](crate::Limits::kept_per_address_max)). False if there is
    /// no room for so many.
    pub fn holds(&self, conn: ConnRef, bytes: usize) -> bool {
        let core = &mut *self.core.borrow_mut();
        let local = core.local(conn);
        local.is_none_or(|id| core.holds(id, bytes))
    }

    /// Stanzas of a connection of this shard that have not been accepted; `None` for others.
    pub fn in_flight(&self, conn: ConnRef) -> Option<u16> {
        let core = self.core.borrow();
        Some(core.links.get(core.local(conn)?)?.in_flight)
    }

    /// What a connection of this shard is counted by; `None` for others, and if it is not counted.
    pub fn address(&self, conn: ConnRef) -> Option<AddressKey> {
        let core = self.core.borrow();
        let address = core.links.get(core.local(conn)?)?.address;
        (address != AddressKey::EXEMPT).then_some(address)
    }

    fn apply(&self, conn: ConnRef, operation: Operation<C>) -> Result<(), IoError> {
        let core = &mut *self.core.borrow_mut();
        if conn.shard != core.shard {
            let remote = core.remotes.get_mut(usize::from(conn.shard.index()));
            return remote.ok_or(IoError::Gone)?.push(conn, operation);
        }
        match operation {
            Operation::Credit(stanzas) => core.credit(conn.id, stanzas),
            Operation::Control(msg) => core.control(conn.id, msg),
            Operation::Close => core.close(conn.id),
            // What actors do not ask for in this way.
            Operation::Out(_)
            | Operation::Cut
            | Operation::Leaves(_)
            | Operation::CallBack
            | Operation::Forget => Ok(()),
        }
    }
}

/// For threads that are no shard: pools and administration. Each call is a message of its own.
pub struct RemoteIo<C> {
    pub(crate) handle: Handle,
    pub(crate) ports: Arc<dyn Batches<C>>,
}

impl<C> Clone for RemoteIo<C> {
    fn clone(&self) -> Self {
        RemoteIo {
            handle: self.handle.clone(),
            ports: Arc::clone(&self.ports),
        }
    }
}

impl<C> RemoteIo<C> {
    /// Appends to the connection's output.
    ///
    /// # Errors
    /// [`IoError::Full`] when its shard does not take its mail, [`IoError::Gone`] when the shard
    /// does not run. Whether the connection still exists is not known here.
    pub fn write(&self, conn: ConnRef, bytes: Vec<u8>) -> Result<(), IoError> {
        let length = u32::try_from(bytes.len()).map_err(|_| IoError::Full)?;
        self.send(conn, Operation::Out(length), bytes)
    }

    /// Gives back room in the connection's window.
    ///
    /// # Errors
    /// See [`RemoteIo::write`].
    pub fn credit(&self, conn: ConnRef, stanzas: u16) -> Result<(), IoError> {
        self.send(conn, Operation::Credit(stanzas), Vec::new())
    }

    /// Sends a message to the connection's protocol state.
    ///
    /// # Errors
    /// See [`RemoteIo::write`].
    pub fn control(&self, conn: ConnRef, msg: C) -> Result<(), IoError> {
        self.send(conn, Operation::Control(msg), Vec::new())
    }

    /// Closes the connection once its output is written.
    ///
    /// # Errors
    /// See [`RemoteIo::write`].
    pub fn close(&self, conn: ConnRef) -> Result<(), IoError> {
        self.send(conn, Operation::Close, Vec::new())
    }

    fn send(&self, conn: ConnRef, operation: Operation<C>, bytes: Vec<u8>) -> Result<(), IoError> {
        let batch = Batch {
            operations: vec![(conn, operation)],
            bytes,
        };
        self.ports.send(&self.handle, conn.shard, batch)
    }
}
