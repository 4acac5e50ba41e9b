//! Ant colonies that look for the order of jobs on one machine with the least weighted tardiness: a
//! workload of much computation, few messages, and trees of actors that are killed while they work.
//!
//! | module | owns |
//! |---|---|
//! | [`instance`] | the problem |
//! | [`params`], [`options`] | what a run is told, and the words for it |
//! | [`ant`], [`search`], [`colony`] | the algorithm, without actors |
//! | [`plan`] | the tree of a run: two levels or more |
//! | [`member`] | branches, colonies and ants as actors |
//! | [`local`] | a run over the shards of one process |
//! | [`nodes`] | a run over nodes, with registered names, recovery and groups |
//!
//! Work that is done again is done in the same way, because every ant's randomness is made of its
//! colony, round, iteration and number: with or without kills, the result is the same.

pub mod ant;
pub mod colony;
pub mod instance;
pub mod local;
pub mod member;
pub mod nodes;
pub mod options;
pub mod params;
pub mod plan;
pub mod search;
