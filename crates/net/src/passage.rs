//! Connections that are not made from outside: those that the service opens itself, and those on
//! their way between shards. Owns what waits of both; `C` is their protocol state, which nothing
//! else that actors reach has to know.

use std::cell::RefCell;
use std::mem;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use actor::ShardId;

use crate::core::IoError;
use crate::limits::Limits;
use crate::link::Opening;
use crate::port::Parcel;

/// See the module.
pub(crate) struct Passage<C> {
    /// Connections that the service wants to open.
    openings: Vec<Opening<C>>,
    openings_max: usize,
    /// Connections that came from other shards in this turn.
    arrivals: Vec<Box<Parcel<C>>>,
    /// By shard: connections to hand over, in front of what waits for that shard: some of it may
    /// be said to them.
    leaving: Vec<Vec<Box<Parcel<C>>>>,
}

impl<C> Passage<C> {
    pub(crate) fn new(shards: u16, limits: &Limits) -> Passage<C> {
        Passage {
            openings: Vec::new(),
            openings_max: limits.openings_max,
            arrivals: Vec::new(),
            leaving: (0..shards).map(|_| Vec::new()).collect(),
        }
    }

    /// Whether nothing waits.
    pub(crate) fn is_settled(&self) -> bool {
        self.arrivals.is_empty() && self.openings.is_empty() && !self.has_leaving()
    }

    pub(crate) fn has_openings(&self) -> bool {
        !self.openings.is_empty()
    }

    pub(crate) fn take_openings(&mut self) -> Vec<Opening<C>> {
        mem::take(&mut self.openings)
    }

    /// A connection has come from another shard.
    pub(crate) fn arrives(&mut self, parcel: Box<Parcel<C>>) {
        self.arrivals.push(parcel);
    }

    pub(crate) fn take_arrivals(&mut self) -> Vec<Box<Parcel<C>>> {
        mem::take(&mut self.arrivals)
    }

    /// A connection goes to another shard, or stays if there is none of that number.
    pub(crate) fn leaves(&mut self, shard: ShardId, parcel: Box<Parcel<C>>) {
        match self.leaving.get_mut(usize::from(shard.index())) {
            Some(leaving) => leaving.push(parcel),
            None => self.arrivals.push(parcel),
        }
    }

    /// Whether connections wait for any shard.
    pub(crate) fn has_leaving(&self) -> bool {
        self.leaving.iter().any(|leaving| !leaving.is_empty())
    }

    /// Whether some wait for the shard of this number.
    pub(crate) fn is_leaving_for(&self, shard: usize) -> bool {
        let leaving = self.leaving.get(shard);
        leaving.is_some_and(|leaving| !leaving.is_empty())
    }

    pub(crate) fn take_leaving(&mut self, shard: usize) -> Vec<Box<Parcel<C>>> {
        self.leaving
            .get_mut(shard)
            .map(mem::take)
            .unwrap_or_default()
    }

    fn open(&mut self, new: Opening<C>) -> Result<(), IoError> {
        if self.openings.len() >= self.openings_max {
            return Err(IoError::Full);
        }
        self.openings.push(new);
        Ok(())
    }
}

/// Opens connections on the shard of its service; cheap to clone.
pub struct Opener<C> {
    passage: Rc<RefCell<Passage<C>>>,
}

impl<C> Clone for Opener<C> {
    fn clone(&self) -> Self {
        Opener::new(&self.passage)
    }
}

impl<C> Opener<C> {
    pub(crate) fn new(passage: &Rc<RefCell<Passage<C>>>) -> Opener<C> {
        Opener {
            passage: Rc::clone(passage),
        }
    }

    /// Opens a connection that nobody made from outside: `socket` is any stream socket that does
    /// not block, or there is none, and then the service takes the output itself
    /// ([`Service::collect`](crate::Service::collect)) and gives the input
    /// ([`Cx::feed`](crate::Cx::feed)). It counts as one of `address`.
    /// [`Service::opened`](crate::Service::opened) tells that it is there, in this turn;
    /// [`Service::closed`](crate::Service::closed), under a name that is gone, that a limit refused
    /// it.
    ///
    /// # Errors
    /// [`IoError::Full`]: too many are opened at once.
    pub fn open(
        &self,
        socket: Option<OwnedFd>,
        address: Option<IpAddr>,
        conn: C,
    ) -> Result<(), IoError> {
        let is_half = false;
        let opening = Opening {
            socket,
            address,
            is_half,
            conn,
        };
        self.passage.borrow_mut().open(opening)
    }

    /// The same without a socket, for the other half of a connection of this node: that one alone
    /// counts as a connection. What is kept of the half's input counts for `address` all the same.
    ///
    /// # Errors
    /// As [`Opener::open`].
    pub fn open_half(&self, address: IpAddr, conn: C) -> Result<(), IoError> {
        let opening = Opening {
            socket: None,
            address: Some(address),
            is_half: true,
            conn,
        };
        self.passage.borrow_mut().open(opening)
    }
}
