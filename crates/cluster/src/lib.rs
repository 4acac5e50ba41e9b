//! The journal of a cluster over NATS JetStream.
//!
//! Owns how a range's changes become messages of a replicated stream, who may write one, how nodes
//! follow it into their local stores, and the map of homes. The decisions are machines without
//! input or output ([`journal`], [`map`], [`check`]); [`engine`] is the client and [`driver`] runs
//! the machines against it. Deliberately knows nothing of XMPP, entities or sessions.
//! `docs/cluster.md` says what there is and what there is not yet.

pub mod check;
pub mod commits;
pub mod deployment;
pub mod driver;
pub mod engine;
mod flaw;
pub mod forget;
pub mod grow;
pub mod journal;
pub mod layout;
pub mod level;
pub mod link;
pub mod map;
pub mod observe;
#[cfg(test)]
mod sim;
pub mod status;
