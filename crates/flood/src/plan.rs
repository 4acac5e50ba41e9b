//! What one worker is to do, and the words that a worker and the coordinator exchange.
//!
//! Everything here is plain data: workers are threads or processes.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::ring::View;
use crate::scenario::Scenario;
use crate::tally::{Counts, Pairs, Reasons, Timing};

/// A worker's share of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) scenario: Scenario,
    /// Where plaintext and STARTTLS connections go; never empty.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where direct TLS connections go.
    pub(crate) tls_address: SocketAddr,
    pub(crate) web_address: SocketAddr,
    /// Local addresses to connect from, used in turn; empty: the system chooses.
    pub(crate) sources: Vec<IpAddr>,
    /// Number of this worker, from 0.
    pub(crate) worker: u32,
    /// Number of all workers.
    pub(crate) workers: u32,
    /// First user of this worker.
    pub(crate) first: u32,
    /// Users of this worker.
    pub(crate) count: u32,
    /// Seed of every random choice.
    pub(crate) seed: u64,
}

impl Plan {
    /// Where plaintext and STARTTLS connections of a user go.
    pub(crate) fn address(&self, user: u32) -> SocketAddr {
        self.addresses[user as usize % self.addresses.len()]
    }

    /// This worker's part of `total` users who are to do something: by its share of all users.
    pub(crate) fn part(&self, total: u32) -> u32 {
        let users = u64::from(self.scenario.users.count.max(1));
        let cut = |user: u32| (u64::from(total) * u64::from(user) / users) as u32;
        cut(self.first + self.count) - cut(self.first)
    }

    /// When the `index`-th of this worker's arrivals is due, in nanoseconds after the start, if
    /// all workers together make `rate` per second. A fixed schedule: a server that falls behind
    /// does not slow it down, and latencies count from it (no coordinated omission).
    pub(crate) fn due(&self, index: u32, rate: Option<f64>) -> u64 {
        let Some(rate) = rate else { return 0 };
        let place = u64::from(index) * u64::from(self.workers) + u64::from(self.worker);
        crate::clock::nanos(place as f64 / rate)
    }
}

/// From the coordinator to a worker. `step` comes back in ticks, so that an old tick is not taken
/// for an answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Down {
    /// Begin the arrivals, departures or storm of a phase at a moment of the clock.
    Begin { phase: usize, at: u64, step: u32 },
    /// Everyone has arrived: begin the activity of the phase.
    Hold { at: u64, step: u32 },
    /// Stop the activity and let things settle.
    Calm { step: u32 },
    /// Hand over what was counted in this phase.
    Collect,
    /// The run is over.
    Finish,
}

/// From a worker to the coordinator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Up {
    /// Several times a second.
    Tick(Box<Tick>),
    /// The answer to [`Down::Collect`].
    Phase(Box<PhasePart>),
    /// The worker cannot go on, and why.
    Failed(String),
}

/// What a worker says of itself several times a second. Counts and timings are those since the
/// tick before.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Tick {
    pub(crate) step: u32,
    pub(crate) online: u32,
    /// Users whose arrival is awaited in this phase.
    pub(crate) pending: u32,
    /// Users who are logging in or due to come back.
    pub(crate) coming: u32,
    /// Milliseconds since anything was received.
    pub(crate) quiet_ms: u64,
    pub(crate) counts: Counts,
    pub(crate) timings: Vec<(Timing, Pairs)>,
    /// CPU time used by this process so far, nanoseconds.
    pub(crate) cpu: u64,
}

/// What a worker counted in a phase.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PhasePart {
    pub(crate) counts: Counts,
    pub(crate) timings: Vec<(Timing, Pairs)>,
    pub(crate) reasons: Reasons,
    /// Moment of the last completed login or resumption; 0 if there was none.
    pub(crate) last_ready: u64,
    /// Users in the room and at the node.
    pub(crate) inside: [u32; 2],
    /// The orders in which users inside got copies in this phase, some of those that differ.
    pub(crate) orders: Vec<u64>,
    /// For the presence check, where the phase asks for it.
    pub(crate) view: Option<View>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(worker: u32, workers: u32) -> Plan {
        let scenario = Scenario::shipped("idle").unwrap().unwrap();
        let share = scenario.users.count / workers;
        Plan {
            scenario,
            addresses: vec![SocketAddr::from(([127, 0, 0, 1], 5222))],
            tls_address: SocketAddr::from(([127, 0, 0, 1], 5223)),
            web_address: SocketAddr::from(([127, 0, 0, 1], 5280)),
            sources: Vec::new(),
            worker,
            workers,
            first: worker * share,
            count: share,
            seed: 1,
        }
    }

    /// Goal: workers together make the rate asked for, at even distances.
    #[test]
    fn arrivals_of_all_workers_make_one_even_schedule() {
        let workers = 3;
        let total = 100;
        let mut due = Vec::new();
        for worker in 0..workers {
            let plan = plan(worker, workers);
            due.extend((0..plan.part(total)).map(|index| plan.due(index, Some(50.0))));
        }
        due.sort_unstable();
        assert_eq!(due.len(), total as usize);
        for (place, moment) in due.iter().take(99).enumerate() {
            assert_eq!(*moment, place as u64 * 20_000_000);
        }
        assert_eq!(plan(2, 3).due(1_000, None), 0, "a burst is due at once");
    }
}
