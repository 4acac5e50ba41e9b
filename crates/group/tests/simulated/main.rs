//! Nodes over a simulated network, under virtual time.

mod ends;
mod faults;
mod functions;
mod lab;
mod shapes;
