//! What connections of the web tell each other: those of requests, and those of the sessions and
//! pages behind them. Plain data.

use net::ConnRef;
use xmpp::bosh::{Condition, Request};

use super::control::Word;

/// An HTTP request: its connection, and which of that connection's it is.
pub(crate) type Ticket = (ConnRef, u32);

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

/// What connections of the web tell each other.
pub(crate) enum Control {
    /// A request of a session over BOSH.
    Request(Incoming),
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
    /// The pipe is there.
    Piped(ConnRef),
    /// What was given to the other end of the pipe is written.
    Written,
    /// Something of the node with which a connection is shared.
    Joined(Word),
}
