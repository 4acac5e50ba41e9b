//! Instruments: what the process and its node are doing, for programs and for people. Owns the
//! figures that the system has about the process and every form in which all of them are shown;
//! the counting itself is done where things happen.

mod alarms;
mod cluster;
mod drain;
mod format;
mod interval;
mod look;
mod mailbox;
pub(crate) mod metrics;
mod observer;
mod process;
mod remote;
mod request;
pub(crate) mod sar;
pub(crate) mod top;

pub(crate) use self::cluster::{ClusterSample, LinkSample};
pub(crate) use alarms::Alarm;
pub(crate) use observer::Observer;
pub(crate) use remote::Remote;
pub(crate) use request::{Request, Response};
