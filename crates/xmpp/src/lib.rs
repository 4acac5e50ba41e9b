//! XMPP as sans-IO values and machines: addresses, stanzas, errors, SASL, stream management, and
//! the streams of a client, up to its bound resource, and of a component. Nothing here opens a
//! socket, reads a clock or rolls dice.

pub mod addr;
pub mod bosh;
pub mod component;
pub mod error;
pub mod form;
pub mod framing;
pub mod limits;
mod negotiation;
pub mod ns;
pub mod rsm;
pub mod sasl;
pub mod sm;
pub mod stanza;
pub mod stream;

pub use jid::{BareJid, FullJid, Jid};
