//! Nodes over a simulated network, under virtual time.

mod agree;
mod bounds;
mod ends;
mod faults;
mod functions;
mod lab;
mod overlaps;
mod shapes;
