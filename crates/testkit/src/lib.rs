//! What the tests of a whole server stand on: conversation scripts, a client that speaks XMPP over
//! real sockets, and a `roost` process with its own data folder.
//!
//! A script is a play: actors, what each sends, what each receives. The client reads XML with
//! `rxml` and not with the server's own framer, so that one mistake cannot hide behind the same
//! mistake on the other side.
//!
//! This crate deliberately does not link the server: everything goes through the binary, its
//! command line and its ports, as it does for a user.
#![allow(clippy::disallowed_methods)] // A driver of real sockets: this crate reads the clock.

pub mod client;
pub mod history;
pub mod nats;
pub mod pair;
pub mod pattern;
pub mod play;
pub mod roost;
pub mod scram;
pub mod script;
pub mod suite;
pub mod transport;
pub mod tree;
mod web;
pub mod wire;
