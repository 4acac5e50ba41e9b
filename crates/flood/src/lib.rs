//! The load generator: an XMPP client over real sockets, for any XMPP server.
//!
//! ```text
//! scenario + args ─▶ run (coordinator) ──plans, words──▶ crew: worker threads or processes
//!                      │  samples the server by pid         │ one event loop each:
//!                      ◀──────── ticks, counts ─────────────┘ scan ▶ session ▶ life
//!                      └▶ report ▶ table, JSON, HTML page
//! ```
//!
//! What is promised: everything is scheduled beforehand and timed from the schedule (no coordinated
//! omission), everything sent is accounted for, and a run always ends with its report. What is not:
//! judging a server's XML, or certificates. It shares no code with the server it measures.

mod args;
mod clock;
mod crew;
mod gathering;
mod graph;
mod html;
mod plan;
mod plot;
mod report;
mod ring;
mod run;
mod sample;
mod sasl;
mod scan;
mod scenario;
mod session;
mod tally;
mod websocket;
mod worker;

pub use args::{
    Args, AuthChoice, EXIT_ERROR, EXIT_FAULTS, GraphArgs, TransportChoice, command, graph_command,
};
pub use crew::{WorkerCommand, serve_worker};
pub use gathering::Place;
pub use graph::{GRAPH_LINKS_MAX, GRAPH_USERS_MAX, Graph, GraphOptions};
pub use report::{MemoryPerUser, PhaseReport, Report, Second, TimingReport};
pub use ring::PresenceCheck;
pub use run::{Options, Reporter, USERS_PER_WORKER, run};
pub use sample::{Machine, Sample};
pub use scenario::{
    Amount, Archive, Arrive, Auth, BODY_BYTES_MAX, CONTACTS_MAX, Client, Cut, Enter, LinkLoss,
    Messages, PHASES_MAX, Peer, Phase, PresenceChanges, SHIPPED, Scenario, ScenarioError, Server,
    Sessions, Storm, Transport, USERS_MAX, Users,
};
pub use tally::{Counts, Pairs, Reasons, Timing};

/// The report as one self-contained HTML page.
pub fn page(report: &Report) -> String {
    html::page(report)
}
