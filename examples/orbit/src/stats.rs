//! What a run tells about itself.
//!
//! Owns the figures of each worker and their sum. Deliberately not here: measuring; workers and
//! shells fill the figures in.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::table::Fill;

/// One worker's figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerStats {
    /// Its number.
    pub worker: u32,
    /// The node that it ran on; 0 if there is one only.
    pub node: u32,
    /// Messages with vertices that it received.
    pub messages_recvd: u64,
    /// Vertices that it received, known ones included.
    pub vertices_recvd: u64,
    /// How often it returned credit.
    pub credit_retd: u64,
    /// The number of the smallest atomic credit that it returned: 1/2^n of the whole.
    pub min_atomic_credit: u32,
    /// Time until it received its first vertex.
    pub max_init_idle: Duration,
    /// The longest time without work in between.
    pub max_idle: Duration,
    /// Time without work at the end.
    pub max_tail_idle: Duration,
    /// How full its table is.
    pub fill: Fill,
    /// Bytes of its table.
    pub table_bytes: usize,
}

impl WorkerStats {
    /// Nothing yet.
    pub fn new(worker: u32) -> Self {
        WorkerStats {
            worker,
            ..WorkerStats::default()
        }
    }
}

/// The outcome of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Vertices in the orbit.
    pub size: usize,
    /// From the first vertex to the last result.
    pub wall_time: Duration,
    /// Why runs were given up before this one: a node was lost, or taken for lost.
    pub given_up: Vec<String>,
    /// Each worker's figures.
    pub workers: Vec<WorkerStats>,
}

impl Outcome {
    /// Adds the figures of workers up.
    pub fn new(wall_time: Duration, given_up: Vec<String>, mut workers: Vec<WorkerStats>) -> Self {
        workers.sort_by_key(|worker| worker.worker);
        Outcome {
            size: workers.iter().map(|worker| worker.fill.size).sum(),
            wall_time,
            given_up,
            workers,
        }
    }

    /// Bytes of table for each vertex.
    pub fn bytes_per_vertex(&self) -> f64 {
        let bytes: usize = self.workers.iter().map(|worker| worker.table_bytes).sum();
        bytes as f64 / self.size.max(1) as f64
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fill = Fill::default();
        self.workers.iter().for_each(|one| fill.add(&one.fill));
        let sum = |figure: fn(&WorkerStats) -> u64| self.workers.iter().map(figure).sum::<u64>();
        let most = |figure: fn(&WorkerStats) -> Duration| {
            let longest = self.workers.iter().map(figure).max();
            longest.unwrap_or_default().as_micros()
        };
        let credit = self.workers.iter().map(|one| one.min_atomic_credit);
        writeln!(f, "size {}", self.size)?;
        writeln!(f, "wall_time_us {}", self.wall_time.as_micros())?;
        writeln!(f, "workers {}", self.workers.len())?;
        writeln!(f, "restarts {}", self.given_up.len())?;
        for why in &self.given_up {
            writeln!(f, "given_up {why}")?;
        }
        writeln!(f, "messages_recvd {}", sum(|one| one.messages_recvd))?;
        writeln!(f, "vertices_recvd {}", sum(|one| one.vertices_recvd))?;
        writeln!(f, "credit_retd {}", sum(|one| one.credit_retd))?;
        writeln!(f, "min_atomic_credit {}", credit.max().unwrap_or(0))?;
        writeln!(f, "max_init_idle_us {}", most(|one| one.max_init_idle))?;
        writeln!(f, "max_idle_us {}", most(|one| one.max_idle))?;
        writeln!(f, "max_tail_idle_us {}", most(|one| one.max_tail_idle))?;
        writeln!(f, "slots {}", fill.slots)?;
        writeln!(f, "nonempty_slots {}", fill.nonempty_slots)?;
        writeln!(f, "fill_deg {:.4}", fill.fill_deg())?;
        writeln!(f, "max_freq {}", fill.max_freq())?;
        writeln!(f, "avg_freq {:.4}", fill.fill_deg())?;
        writeln!(f, "nonempty_avg_freq {:.4}", fill.nonempty_avg_freq())?;
        writeln!(f, "freq {:?}", fill.freq)?;
        write!(f, "bytes_per_vertex {:.2}", self.bytes_per_vertex())
    }
}
