//! One chat room (XEP-0045) as a sans-IO machine: events in, effects out; time and randomness are
//! arguments. It knows neither actors nor sockets nor the store.
//!
//! ```text
//! stanza, session gone, decided ──▶ Room::handle ──▶ Append ──▶ (journal) ──▶ Decided
//!                                        │
//!                                        ├──▶ Keep      who is there: in front of what leaves
//!                                        ├──▶ Send      one frame to many, each copy with its `to`
//!                                        ├──▶ Deliver   one stanza
//!                                        ├──▶ Refuse    an error for who sent it
//!                                        ├──▶ Members   who gets it without being there
//!                                        └──▶ Ended     nobody is there, nothing is left
//! ```
//!
//! What a persistent room is made of is records ([`Record`]); [`State`] is what they make, and
//! changes only when they are committed. So a change that fails has changed nothing, and what
//! depends on it has not left. Of who is there, a persistent room keeps managed sessions
//! (XEP-0198), and whom their clients were told of ([`Present`]).
//!
//! Every bound is a field of [`RoomLimits`], so that a test can make it 1, 2 or 4.

mod admin;
mod affiliation;
mod approve;
mod broadcast;
#[cfg(test)]
mod bugs;
mod card;
mod command;
mod config;
mod enter;
mod hats;
mod info;
mod invite;
mod limits;
mod members;
mod message;
#[cfg(test)]
mod model;
mod nick;
mod occupants;
mod owner;
mod present;
mod private;
mod record;
mod register;
mod retract;
mod room;
mod state;
#[cfg(test)]
mod tests;
pub mod told;

use xmpp::form;

pub use affiliation::{Affiliation, Role};
pub use card::Card;
pub use config::{AllowPm, Config, Roles, Whois};
pub use hats::{Hat, Hats};
pub use info::FEATURES;
pub use limits::RoomLimits;
pub use message::stanza_id;
pub use nick::is_same_nick;
pub use occupants::{Audience, write_copy};
pub use present::{Present, PresentSession};
pub use record::{Affiliated, Listed, Message, RECORD_VERSION, Record, RecordError, Subject};
pub use retract::is_tombstone;
pub use room::{Effect, Event, Options, Placed, Room};
pub use state::{Kept, State, late};
