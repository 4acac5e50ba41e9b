//! Users, sessions, rosters, presence, routing: what a messaging server does, on actors and
//! records. One file per extension in `modules`.

mod address;
pub mod admin;
mod c2s;
pub mod chaos;
pub mod guard;
mod home;
mod host;
mod iq;
mod journal;
mod limits;
mod message;
pub mod modules;
mod node;
pub mod options;
mod place;
mod portable;
pub mod queues;
mod repeats;
pub mod room;
mod sweep;
mod talkers;
mod trace;
mod user;
mod wake;
pub mod watch;
mod web;

pub use node::{Busy, Node, Sim, StartError};
pub use options::Options;
