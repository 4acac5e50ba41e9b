//! Stream management (XEP-0198 1.6.3) without sockets, clock or storage: its elements, and the
//! queue of what a client has not acknowledged. When a session may be resumed, and what a log owes
//! it, is decided elsewhere.

mod outbound;
mod wire;

pub use outbound::{Behind, Entries, Kept, Limits, Outbound, Pushed, Resumed, TALK_MAX, TooHigh};
pub use wire::{
    FEATURE, Fault, Request, parse, write_ack, write_enabled, write_failed, write_resumed,
    write_too_high,
};

/// Asks the client how many stanzas it has handled (section 4).
pub const REQUEST: &[u8] = b"<r xmlns='urn:xmpp:sm:3'/>";

#[cfg(test)]
mod tests;
