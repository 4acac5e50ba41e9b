//! Orbit: the closure of vertex 0 under a few integer functions, a workload of many small messages
//! with irregular work between them.
//!
//! | module | owns |
//! |---|---|
//! | [`generator`] | the functions and their sets |
//! | [`route`] | which worker owns a vertex |
//! | [`table`] | a worker's vertices |
//! | [`credit`] | how the master learns that all is done |
//! | [`worker`] | a worker as a machine without I/O |
//! | [`sequential`], [`local`], [`nodes`] | one loop; actors over shards; processes over nodes |
//! | [`stats`] | what a run tells about itself |
//!
//! Deliberately not here: anything of messaging. The example shows what the runtime does for a
//! program that has nothing to do with XMPP.

pub mod credit;
pub mod generator;
pub mod local;
pub mod nodes;
pub mod route;
pub mod sequential;
pub mod stats;
pub mod table;
pub mod worker;
