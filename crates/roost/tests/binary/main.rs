//! Tests of the program as an operator meets it: processes with folders and ports of their own,
//! commands, signals, exit codes, log lines. Every wait is for a state that the server tells.
#![allow(clippy::disallowed_methods)] // A driver of real processes: deadlines need the clock.

mod chaos;
mod client;
mod commands;
mod disk;
mod earlier;
mod exits;
mod guard;
mod hardened;
mod import;
mod level;
mod life;
mod load;
mod moving;
mod place;
mod queue;
mod resume;
mod secrets;
mod watch;
mod web;
