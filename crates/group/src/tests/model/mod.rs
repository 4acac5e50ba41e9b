//! The executable model of groups, and the real nodes that must behave like it.
//!
//! `state` is what groups, links and names are after each command, in a few rules that know nothing
//! of messages. `run` gives the same random commands to it and to 14 normal and 2 hidden nodes over
//! a simulated network, and compares every answer and everything that every node knows. `bugs` are
//! there to be found.

pub(crate) mod bugs;
mod commands;
mod run;
mod state;
