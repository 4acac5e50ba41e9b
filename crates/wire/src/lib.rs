//! What entities say to each other: accounts, rooms and services, by name, wherever they are at
//! home. Plain data without handles; and its bytes, for homes on other nodes.
//!
//! ```text
//! here:  Message ──────────────── moved ───────────────▶ mailbox
//! away:  Message ─▶ Packet ─▶ bytes ─▶ Arrival ─▶ home of the range? ─▶ Message ─▶ mailbox
//!                                         └──────── no: Moved, and nothing is loaded
//! ```
//!
//! This crate knows neither actors nor sockets nor the store, so a message cannot have an address
//! of an actor, a connection or a page of a log in it. What a message owes besides travels as a
//! number ([`Credit`]), which the recipient's node answers ([`Packet::Credited`]).
//!
//! # Versions
//!
//! A packet begins with a version and a kind. The form of a kind never changes: another form is
//! another kind, with the version in which it came. A packet is written with the version of its
//! kind and not with that of the writer, so an older node understands all of a newer one but what
//! it cannot know; that it refuses by name ([`WireError::Version`], [`WireError::Kind`]). Kinds of
//! a version are sent from the format level on that has it ([`Packet::encode_at`]): all nodes know
//! it then.
//!
//! # Bounds
//!
//! Every field has a bound in [`limits`]. Reading looks at nothing behind the end of the bytes,
//! never panics, and allocates in proportion to the bytes that are there and not to what they
//! claim.

mod adopt;
mod answers;
mod codec;
mod errand;
mod error;
mod joined;
mod kind;
pub mod limits;
mod message;
mod nodes;
mod packet;
mod passed;
mod rooms;
mod stanza;

pub use adopt::{Adopt, Counts, Mark};
pub use answers::NotTaken;
pub use errand::Errand;
pub use error::WireError;
pub use joined::{Carrier, ConnAt, Join, Joined, Part};
pub use kind::Kind;
pub use message::Message;
pub use nodes::{Interest, NodeEvent};
pub use packet::{Arrival, Credit, Envelope, Moved, Packet, VERSION, VERSION_MIN, version_at};
pub use passed::{OfRequest, Passed, RequestAt};
pub use rooms::{Membership, OfRoom, Pulled, Sitting, ToRoom};
pub use stanza::{SharedCopy, Source, Stanza};

/// A place in an entity's log.
pub type Seq = u64;

/// A bare or full address, normalised. Of the same type as an entity's name.
pub type Address = std::sync::Arc<str>;
