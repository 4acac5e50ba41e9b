//! How actors and other threads reach connections: the same operations whether a connection is on
//! this shard or on another.

use std::cell::RefCell;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Handle, Mail};

use crate::address::AddressKey;
use crate::core::{Core, IoError};
use crate::link::Opening;
use crate::network::Ports;
use crate::port::{Batch, Operation, PortMsg};
use crate::service::{ConnRef, Service};

/// For the actors of one shard; cheap to clone.
///
/// Operations on one connection take effect in the order in which they were made by one actor.
/// Errors tell what is known at once: a connection of another shard may be gone although the
/// operation was taken, and then `Service::closed` there is how its user learns of it.
pub struct Io<S: Service> {
    pub(crate) core: Rc<RefCell<Core<S>>>,
}

impl<S: Service> Clone for Io<S> {
    fn clone(&self) -> Self {
        Io {
            core: Rc::clone(&self.core),
        }
    }
}

impl<S: Service> Io<S> {
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
        remote.ok_or(IoError::Gone)?.write(conn.id, write)
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
    pub fn control(
        &self,
        _mail: &mut impl Mail,
        conn: ConnRef,
        msg: S::Control,
    ) -> Result<(), IoError> {
        self.apply(conn, Operation::Control(msg))
    }

    /// Closes the connection once its output is written.
    ///
    /// # Errors
    /// See [`Io::with_out`].
    pub fn close(&self, _mail: &mut impl Mail, conn: ConnRef) -> Result<(), IoError> {
        self.apply(conn, Operation::Close)
    }

    /// Opens a connection on this shard that nobody made from outside: `socket` is any stream
    /// socket that does not block, or there is none, and then the service takes the output itself
    /// ([`Service::collect`]) and gives the input ([`Cx::feed`](crate::Cx::feed)). It counts as one
    /// of `address`. [`Service::opened`] tells that it is there, in this turn;
    /// [`Service::closed`], under a name that is gone, that a limit refused it.
    ///
    /// # Errors
    /// [`IoError::Full`]: too many are opened at once.
    pub fn open(
        &self,
        socket: Option<OwnedFd>,
        address: Option<IpAddr>,
        conn: S::Conn,
    ) -> Result<(), IoError> {
        let opening = Opening {
            socket,
            address,
            is_half: false,
            conn,
        };
        self.core.borrow_mut().open(opening)
    }

    /// The same without a socket, for the other half of a connection of this node: that one alone
    /// counts as a connection. What is kept of the half's input counts for `address` all the same.
    ///
    /// # Errors
    /// As [`Io::open`].
    pub fn open_half(&self, address: IpAddr, conn: S::Conn) -> Result<(), IoError> {
        let opening = Opening {
            socket: None,
            address: Some(address),
            is_half: true,
            conn,
        };
        self.core.borrow_mut().open(opening)
    }

    /// Has [`Service::written`] told once, as soon as the output of a connection of this shard is
    /// written but for half of the bytes at which its own input pauses.
    pub fn watch(&self, conn: ConnRef) {
        let core = &mut *self.core.borrow_mut();
        if conn.shard == core.shard {
            core.watch(conn.id);
        }
    }

    /// Bytes of output that wait for a connection of this shard; `None` for others.
    pub fn backlog(&self, conn: ConnRef) -> Option<usize> {
        let core = self.core.borrow();
        if conn.shard != core.shard {
            return None;
        }
        let link = core.links.get(conn.id)?;
        Some(link.busy.as_ref().map_or(0, |busy| busy.backlog()))
    }

    /// Says how many bytes the service keeps for the client of a connection of this shard, until it
    /// says otherwise. They count for its address, as input that waits does
    /// ([`Limits::kept_per_address_max`](crate::Limits::kept_per_address_max)). False if there is
    /// no room for so many.
    pub fn holds(&self, conn: ConnRef, bytes: usize) -> bool {
        let core = &mut *self.core.borrow_mut();
        conn.shard != core.shard || core.holds(conn.id, bytes)
    }

    /// Stanzas of a connection of this shard that have not been accepted; `None` for others.
    pub fn in_flight(&self, conn: ConnRef) -> Option<u16> {
        let core = self.core.borrow();
        if conn.shard != core.shard {
            return None;
        }
        Some(core.links.get(conn.id)?.in_flight)
    }

    /// What a connection of this shard is counted by; `None` for others, and if it is not counted.
    pub fn address(&self, conn: ConnRef) -> Option<AddressKey> {
        let core = self.core.borrow();
        if conn.shard != core.shard {
            return None;
        }
        let address = core.links.get(conn.id)?.address;
        (address != AddressKey::EXEMPT).then_some(address)
    }

    fn apply(&self, conn: ConnRef, operation: Operation<S::Control>) -> Result<(), IoError> {
        let core = &mut *self.core.borrow_mut();
        if conn.shard != core.shard {
            let remote = core.remotes.get_mut(usize::from(conn.shard.index()));
            return remote.ok_or(IoError::Gone)?.push(conn.id, operation);
        }
        match operation {
            Operation::Out(_) | Operation::Cut => Ok(()),
            Operation::Credit(stanzas) => core.credit(conn.id, stanzas),
            Operation::Control(msg) => core.control(conn.id, msg),
            Operation::Close => core.close(conn.id),
        }
    }
}

/// For threads that are no shard: pools and administration. Each call is a message of its own.
pub struct RemoteIo<S: Service> {
    pub(crate) handle: Handle,
    pub(crate) ports: Arc<Ports<S>>,
}

impl<S: Service> Clone for RemoteIo<S> {
    fn clone(&self) -> Self {
        RemoteIo {
            handle: self.handle.clone(),
            ports: Arc::clone(&self.ports),
        }
    }
}

impl<S: Service> RemoteIo<S> {
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
    pub fn control(&self, conn: ConnRef, msg: S::Control) -> Result<(), IoError> {
        self.send(conn, Operation::Control(msg), Vec::new())
    }

    /// Closes the connection once its output is written.
    ///
    /// # Errors
    /// See [`RemoteIo::write`].
    pub fn close(&self, conn: ConnRef) -> Result<(), IoError> {
        self.send(conn, Operation::Close, Vec::new())
    }

    fn send(
        &self,
        conn: ConnRef,
        operation: Operation<S::Control>,
        bytes: Vec<u8>,
    ) -> Result<(), IoError> {
        let port = self.ports.of(conn.shard).ok_or(IoError::Gone)?;
        let batch = Batch {
            operations: vec![(conn.id, operation)],
            bytes,
        };
        self.handle
            .send(port, PortMsg::Batch(batch))
            .map_err(|_| IoError::Full)
    }
}
