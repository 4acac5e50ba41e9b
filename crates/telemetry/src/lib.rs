//! The catalogue of counters, histograms and decaying rates.
//!
//! Owns the names of everything Roost counts ([`Counter`], [`Gauge`]), the plain per-shard block
//! they are counted in ([`Stats`]), the shared copy that other threads read ([`SharedStats`]), and
//! two small instruments: [`Rate`] and [`Histogram`]. Deliberately not here: any exporter, any
//! HTTP, any lock on the counting path.

mod catalogue;
pub mod histogram;
pub mod rate;
pub mod stats;

pub use catalogue::{Counter, Gauge};
pub use histogram::Histogram;
pub use rate::{Rate, Rates};
pub use stats::{SharedStats, Snapshot, Stats};

/// Whether anything is counted. Always, but for the feature `off`, which is there to measure what
/// counting costs.
pub const IS_ON: bool = !cfg!(feature = "off");
