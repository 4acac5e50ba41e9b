//! Instruments: what a server is doing, for programs and for people. Owns the figures that the
//! system has about its process, the alarms, and every form in which all of them are shown; the
//! counting itself is done where things happen.
//!
//! In the server an [`Observer`] looks, at a [`Request`] or for [`metrics`]. In another process
//! [`sar`] and [`top`] ask a [`Watched`] server, in whichever way that one can be reached.

mod alarms;
mod cluster;
mod drain;
mod failure;
mod format;
mod interval;
mod look;
mod mailbox;
pub mod metrics;
mod observer;
mod process;
mod request;
pub mod sar;
pub mod top;
mod watched;

pub use alarms::Alarm;
pub use cluster::{ClusterSample, LinkSample};
pub use failure::Failure;
pub use look::Look;
pub use observer::{Cluster, Observer};
pub use request::{Request, Response};
pub use watched::Watched;
