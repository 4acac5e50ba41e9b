//! The nodes of one address as a sans-IO machine: a publish-subscribe service (XEP-0060), or the
//! one that every account is (XEP-0163). Events in, effects out; time and randomness are arguments,
//! and so is what the host knows of contacts. It knows neither actors nor sockets nor the store.
//!
//! ```text
//! stanza, available, decided ──▶ Service::handle ──▶ Append ──▶ (journal) ──▶ Decided
//!                                      │
//!                                      ├──▶ Fetch    payloads, by id ──▶ (store) ──▶ Fetched
//!                                      ├──▶ Send     one frame to many, each copy with its `to`
//!                                      └──▶ Deliver  one stanza
//! ```
//!
//! What nodes are made of is records ([`Record`]); [`State`] is what they make, and changes only
//! when they are committed. So a change that fails has changed nothing, and what depends on it has
//! not left. Payloads stay in the store: memory has who may what, who is told, and which items
//! there are.
//!
//! Every bound is a field of [`PubsubLimits`], so that a test can make it 1, 2 or 4.

mod access;
mod authorize;
#[cfg(test)]
mod bugs;
mod change;
mod config;
mod digest;
mod disco;
mod error;
mod event;
mod limits;
mod lists;
#[cfg(test)]
mod model;
mod notify;
mod operator;
mod options;
mod owner;
mod publish;
mod read;
mod record;
mod rosters;
mod service;
mod state;
mod subscribe;
#[cfg(test)]
mod tests;
mod well_known;

pub use access::{AccessModel, Affiliation, Contacts, PublishModel, SendLast, SubscriptionState};
pub use authorize::is_decision;
pub use change::{Change, Changes};
pub use config::Config;
pub use disco::features;
pub use event::{Act, Audience, Effect, Event};
pub use limits::PubsubLimits;
pub use options::{Options, Owner};
pub use record::{Item, RECORD_VERSION, Record, RecordError, Subscription};
pub use rosters::{Admitted, Wanted};
pub use service::Service;
pub use state::{Meta, Node, State};
pub use well_known::account_defaults;
