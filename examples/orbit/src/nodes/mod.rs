//! The orbit over nodes: all to all, or in groups with gateways and sub-masters.
//!
//! Owns how a run is started and what its nodes offer. Deliberately not here: the links between
//! nodes and their groups, which the runtime has.
//!
//! ```text
//!                         master                    a credit goes worker, team, master
//!              ┌────────────┴────────────┐
//!            team 1                    team 2        one a group, on its first node
//!         ┌────┼────┐               ┌────┼────┐
//!       worker … worker           worker … worker    a vertex goes worker to worker, and
//!         gateway ══════════════════ gateway         between groups by way of the gateways
//! ```
//!
//! All to all is one team over all nodes without a gateway. Everybody is linked with his team, so
//! that a worker or node that is lost takes its team along; the master then ends the others and
//! begins anew with the nodes that are left. A node that comes late or back has no part in the run.

mod gateway;
mod master;
mod team;
mod wire;
mod worker;

use std::fmt;
use std::time::Duration;

use group::{Body, CallError, Node, NodeName, Options, Process, SpawnError};

use crate::stats::Outcome;
use crate::worker::Conf;

pub use wire::Job;

/// Adds what a node must offer so that runs may use it. `told` hears of each worker that starts.
#[must_use]
pub fn offer(options: Options, told: impl Fn() + Send + Sync + 'static) -> Options {
    options
        .function(wire::MASTER, |_: &Body| {
            Box::new(master::Master::default()) as Box<dyn Process>
        })
        .function(wire::TEAM, team::make)
        .function(wire::GATEWAY, |_: &Body| {
            Box::new(gateway::Gateway::default()) as Box<dyn Process>
        })
        .function(wire::WORKER, move |args: &Body| {
            told();
            worker::make(args)
        })
}

/// Why a run over nodes has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The master was not started.
    Start(SpawnError),
    /// The master gave no answer.
    Master(CallError),
    /// Nodes were lost too often, or none is left.
    Lost(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Start(why) => write!(f, "the master did not start: {why}"),
            Failed::Master(why) => write!(f, "the master: {why}"),
            Failed::Lost(why) => write!(f, "given up: {why}"),
        }
    }
}

impl std::error::Error for Failed {}

/// How many processes a run may need: a bound for what is typed wrong.
pub const WORKERS_MAX: u32 = 4_096;

impl Job {
    /// All to all over these nodes, each with so many workers.
    pub fn new(conf: Conf, nodes: Vec<NodeName>, workers_each: u32) -> Self {
        Job {
            conf,
            nodes,
            workers_each,
            groups: 0,
            gateways: 1,
            separate: false,
        }
    }
}

/// Runs a job with its master on `node`.
///
/// # Errors
/// Why there is no outcome.
pub fn run(node: &Node, job: &Job, within: Duration) -> Result<Outcome, Failed> {
    let own = node.name().clone();
    let master = node
        .spawn(&own, wire::MASTER, Vec::new(), START)
        .map_err(Failed::Start)?;
    let answer = node.call(&master, wire::encode(job), within);
    let answer = answer.map_err(Failed::Master)?;
    match wire::decode::<Result<Outcome, String>>(&answer) {
        Some(Ok(outcome)) => Ok(outcome),
        Some(Err(why)) => Err(Failed::Lost(why)),
        None => Err(Failed::Master(CallError::Dropped)),
    }
}

/// How long the master may take to start.
const START: Duration = Duration::from_secs(10);
