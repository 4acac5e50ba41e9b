//! A server as two processes: whatever becomes of its home, streams stay open at the edge, and what
//! was accepted is delivered once and in order.

#![allow(clippy::disallowed_methods)] // These wait for processes, on the real clock.

mod failing;
mod nodes;
#[path = "../cluster/person.rs"]
#[allow(dead_code)] // Those of clusters do more.
mod person;
mod process;
mod upgrade;
