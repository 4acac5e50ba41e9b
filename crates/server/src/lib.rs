//! Users, sessions, rosters, presence, routing: what a messaging server does, on actors and
//! records. One file per extension in `modules`.

mod address;
pub mod admin;
pub mod away;
mod blocklist;
mod c2s;
pub mod chaos;
mod component;
mod component_stream;
mod elsewhere;
mod ending;
mod entity;
mod errands;
pub mod guard;
mod home;
mod host;
mod iq;
mod join;
mod journal;
mod keys;
mod kinds;
mod leaving;
mod limits;
mod lines;
mod listing;
mod message;
pub mod modules;
mod moves;
mod node;
pub mod nodes;
pub mod operator;
pub mod options;
mod pace;
mod place;
mod post;
pub mod queues;
mod repeats;
pub mod room;
mod search;
mod set_aside;
mod stored;
mod sweep;
mod talkers;
mod user;
mod wake;
pub mod watch;
mod web;

/// What services with nodes are made with.
pub use pubsub::Options as NodesMachine;

pub use node::{Busy, Door, Node, Sim, StartError};
pub use options::Options;
