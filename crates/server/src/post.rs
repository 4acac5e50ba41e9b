//! Messages between entities as packets ([`wire`]): how they are written and addressed, and what a
//! home does with one that comes. What is owed for a stanza stays at the node that it left, under a
//! number; whoever answers with the number brings it back, and if nobody does any more, it comes
//! back too: with the packet if that comes back, or with the end of the node that had it.
//!
//! | a packet comes | what happens |
//! |---|---|
//! | for a range that is at home here, in the tenure that it names | its recipient hears it |
//! | for another range, or another tenure | it is answered with `moved`, and nothing is loaded |
//! | with a credit's number | the connection of the credit takes another stanza |
//! | of a newer version, an unknown kind, or broken | refused, by name |

use std::cell::RefCell;
use std::sync::Arc;

use actor::Name;
use net::{AddressKey, RemoteIo};
use store::RangeId;
use wire::{Adopt, Arrival, Envelope, Errand, Join, Joined, Moved, Packet, Passed, WireError};

use crate::away::{Cluster, NodeId};
use crate::message::Said;
use crate::message::control::Control;
use crate::message::credit::{Credits, Debt};
use crate::place::Place;

/// What a packet that came is.
pub(crate) enum Received {
    /// Somebody here is told something.
    Said {
        /// Who.
        to: Name,
        /// What.
        said: Said,
        /// Whether it is told although it is not loaded.
        activate: bool,
    },
    /// A client came to another node, whose account is at home here.
    Comes(Box<Join>),
    /// One comes whose account was at home elsewhere before.
    Adopts(Box<Adopt>),
    /// Something about a connection that is shared with another node.
    Joined(Joined),
    /// Something about a request over HTTP whose session is at another node.
    Passed(Passed),
    /// An operator of another node asks something, or is answered.
    Errand(Errand),
    /// The node that it came from is told that its recipient is elsewhere.
    Moved(Moved),
    /// It was for the node itself.
    Done,
}

/// Why a packet is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReceived {
    /// Its bytes are wrong.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// Its recipient does not belong to the range that it names, or there is no such range.
    #[error("a packet for {0} names another range")]
    Range(String),
}

/// Where packets of one shard are written and read.
pub(crate) struct Post {
    credits: Arc<Credits>,
    remote: RemoteIo<Control>,
    /// Messages that stay here go through their bytes too.
    through_bytes: bool,
    buffer: RefCell<Vec<u8>>,
}

/// Bytes of a buffer that is kept.
const BUFFER_KEPT: usize = 65_536;

impl Post {
    pub(crate) fn new(
        credits: Arc<Credits>,
        remote: RemoteIo<Control>,
        through_bytes: bool,
    ) -> Post {
        Post {
            credits,
            remote,
            through_bytes,
            buffer: RefCell::default(),
        }
    }

    /// A message leaves for its recipient, wherever that is at home. Comes back to be heard here if
    /// that is this node.
    ///
    /// # Errors
    /// It cannot go there, for now: what is returned has not left.
    pub(crate) fn pass(
        &self,
        (place, to): (&Place, &Name),
        said: Said,
        activate: bool,
    ) -> Result<Option<Said>, Said> {
        match &self.credits.cluster {
            Some(cluster) if !place.is_here(place.range(to)) => self
                .send_away(cluster, (place, to), said, activate)
                .map(|()| None),
            _ if self.through_bytes => self.through((place, to), said, activate).map(Some),
            _ => Ok(Some(said)),
        }
    }

    /// Hands a message to the link of its recipient's home. While nobody knows a home, it waits for
    /// one: a range that moves from here has none for a moment.
    fn send_away(
        &self,
        cluster: &Cluster,
        (place, to): (&Place, &Name),
        said: Said,
        activate: bool,
    ) -> Result<(), Said> {
        let range = place.range(to);
        let (node, tenure) = place.away(range).unzip();
        let Said { message, debt } = said;
        let credit = debt.and_then(|debt| self.credits.keep(debt, node));
        let envelope = Envelope {
            to: Name::clone(to),
            range: range.index(),
            // None has that number.
            tenure: tenure.unwrap_or(0),
            activate,
            credit,
            message,
        };
        let mut bytes = Vec::new();
        let packet = Packet::Message(envelope);
        let sent = match (packet.encode(&mut bytes), node) {
            (Ok(()), Some(node)) => cluster.away.send(node, bytes).is_ok(),
            (Ok(()), None) => cluster.away.keep(bytes).is_ok(),
            (Err(why), _) => {
                tracing::error!(%to, %why, "a message has no form as bytes");
                false
            }
        };
        if sent {
            return Ok(());
        }
        // Invariant: it was made above.
        let Packet::Message(Envelope { message, .. }) = packet else {
            unreachable!("a packet of a message is one");
        };
        let debt = credit.and_then(|credit| self.credits.take(credit.number));
        Err(Said { message, debt })
    }

    /// Takes a message through its bytes, as if its recipient were at home on another node.
    fn through(
        &self,
        (place, to): (&Place, &Name),
        said: Said,
        activate: bool,
    ) -> Result<Said, Said> {
        let mut buffer = self.buffer.borrow_mut();
        buffer.clear();
        let Said { message, debt } = said;
        let credit = debt.and_then(|debt| self.credits.keep(debt, None));
        let range = place.range(to);
        let packet = Packet::Message(Envelope {
            to: Name::clone(to),
            range: range.index(),
            tenure: place.tenure(range),
            activate,
            credit,
            message,
        });
        let received = match packet.encode(&mut buffer) {
            Ok(()) => self.receive(place, &buffer),
            Err(error) => Err(error.into()),
        };
        if buffer.capacity() > BUFFER_KEPT {
            *buffer = Vec::new();
        }
        match received {
            Ok(Received::Said { said, .. }) => Ok(said),
            other => {
                let why = other.err();
                tracing::error!(%to, ?why, "a message does not pass through its bytes");
                // Invariant: it was made above.
                let Packet::Message(Envelope { message, .. }) = packet else {
                    unreachable!("a packet of a message is one");
                };
                let debt = credit.and_then(|credit| self.credits.take(credit.number));
                Err(Said { message, debt })
            }
        }
    }

    /// A packet comes through this node's own bytes.
    ///
    /// # Errors
    /// As [`receive`].
    pub(crate) fn receive(&self, place: &Place, bytes: &[u8]) -> Result<Received, NotReceived> {
        receive(&self.credits, &self.remote, place, (None, bytes))
    }
}

/// A packet comes from another node, or through this one's own bytes. Of one for somebody who is
/// not at home here only the head is read.
///
/// # Errors
/// [`NotReceived`]: nobody hears of it.
pub(crate) fn receive(
    credits: &Arc<Credits>,
    remote: &RemoteIo<Control>,
    place: &Place,
    (node, bytes): (Option<NodeId>, &[u8]),
) -> Result<Received, NotReceived> {
    let arrival = Arrival::read(bytes)?;
    let range = arrival.place().map(|(range, tenure)| {
        let range = RangeId::from_index(range);
        (range, range.is_some_and(|one| place.is_home(one, tenure)))
    });
    if let Some((range, false)) = range {
        let tenure = range.map_or(0, |range| place.tenure(range));
        return Ok(Received::Moved(arrival.moved(tenure)?));
    }
    let envelope = match arrival.packet()? {
        Packet::Message(envelope) => envelope,
        Packet::Credited { number } => {
            drop(credits.take(number));
            return Ok(Received::Done);
        }
        // Where a range has gone the map says; what was for it comes back by its link.
        Packet::Moved(_) => return Ok(Received::Done),
        Packet::Join(join) => {
            return match place.range(&join.user).index() == join.range {
                true => Ok(Received::Comes(join)),
                false => Err(NotReceived::Range(join.user.to_string())),
            };
        }
        Packet::Adopt(adopt) => {
            return match place.range(&adopt.user).index() == adopt.range {
                true => Ok(Received::Adopts(adopt)),
                false => Err(NotReceived::Range(adopt.user.to_string())),
            };
        }
        Packet::Joined(joined) => return Ok(Received::Joined(joined)),
        Packet::Passed(passed) => return Ok(Received::Passed(passed)),
        Packet::Errand(errand) => return Ok(Received::Errand(errand)),
    };
    if place.range(&envelope.to).index() != envelope.range {
        return Err(NotReceived::Range(envelope.to.to_string()));
    }
    let debt = envelope.credit.map(|credit| {
        let from = credit.client.map(AddressKey::from_bits);
        let credits = Arc::clone(credits);
        let number = (node, credit.number);
        Box::new(Debt::away(remote.clone(), credits, number, from))
    });
    Ok(Received::Said {
        to: envelope.to,
        said: Said {
            message: envelope.message,
            debt,
        },
        activate: envelope.activate,
    })
}

/// A packet of this node that no other one took: what it said, with its credit.
pub(crate) fn returned(credits: &Credits, bytes: &[u8]) -> Option<(Name, Said, bool)> {
    let Ok(Packet::Message(envelope)) = Packet::decode(bytes) else {
        // An answer, whose node is gone.
        return None;
    };
    let debt = envelope
        .credit
        .and_then(|credit| credits.take(credit.number));
    let message = envelope.message;
    Some((envelope.to, Said { message, debt }, envelope.activate))
}
