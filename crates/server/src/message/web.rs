//! What connections of the web tell each other: those of requests, and those of the sessions and
//! pages behind them. Plain data.

use std::net::IpAddr;

use net::ConnRef;
use xmpp::bosh::{Condition, Request};

use super::control::Word;
use crate::away::NodeId;

/// An HTTP request: its connection, and which of that connection's it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) at: At,
    pub(crate) conn: ConnRef,
    pub(crate) slot: u32,
}

/// Where a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// To this node.
    Here,
    /// To another one, which gave it this number.
    There(NodeId, u64),
}

impl Ticket {
    /// Of a request that came to this node.
    pub(crate) fn here(conn: ConnRef, slot: u32) -> Ticket {
        let at = At::Here;
        Ticket { at, conn, slot }
    }
}

/// A request on its way to its session.
pub(crate) struct Incoming {
    pub(crate) ticket: Ticket,
    /// Or why it is none: that ends the session too.
    pub(crate) request: Result<Request, Condition>,
    /// The secret part of the session id.
    pub(crate) token: String,
    /// Whether it came under TLS.
    pub(crate) is_secure: bool,
}

/// One that came to another node: nobody has read it yet.
pub(crate) struct FromAfar {
    pub(crate) ticket: Ticket,
    pub(crate) body: Vec<u8>,
    pub(crate) token: String,
    /// Where its client comes from.
    pub(crate) address: IpAddr,
    pub(crate) is_secure: bool,
}

/// What connections of the web tell each other.
pub(crate) enum Control {
    /// A request of a session over BOSH.
    Request(Incoming),
    /// The same from another node.
    FromAfar(FromAfar),
    /// The connection of a request is gone.
    Lost(Ticket),
    /// The answer to one.
    Answer {
        /// Which request of the connection.
        slot: u32,
        /// The body.
        body: Vec<u8>,
        /// Its type, if it is not the usual one.
        content: Option<Box<str>>,
    },
    /// A request was made again elsewhere: it gets no answer.
    Drop(u32),
    /// What another node says of a request that was passed on to it.
    OfPassed {
        /// Which request of the connection.
        slot: u32,
        /// The number that it was given.
        number: u64,
        /// The body and its type; `None`: there is no answer.
        answer: Option<(Vec<u8>, Option<Box<str>>)>,
    },
    /// A process of a node is gone: nothing that was passed on to it is answered.
    Gone(NodeId),
    /// The pipe is there.
    Piped(ConnRef),
    /// What was given to the other end of the pipe is written.
    Written,
    /// Something of the node with which a connection is shared.
    Joined(Word),
}
