//! Nodes over a simulated network, under virtual time.

mod faults;
mod functions;
mod lab;
