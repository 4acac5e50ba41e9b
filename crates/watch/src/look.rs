//! One look at a server: what its node counts and what the system knows about its process. Owns
//! the sums over shards; it is the same for `/metrics`, for commands and in recordings.

use serde::{Deserialize, Serialize};
use server::watch::{Sample, ShardSample};
use telemetry::{Counter, Gauge};

use super::alarms::Alarm;
use super::cluster::ClusterSample;
use super::process::ProcessSample;

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// What the node counts.
    pub(crate) sample: Sample,
    /// What the system knows about the process.
    #[serde(default)]
    pub(crate) process: ProcessSample,
    /// The cluster, if this is a node of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cluster: Option<ClusterSample>,
    /// The alarms that are raised.
    #[serde(default)]
    pub(crate) alarms: Vec<Alarm>,
}

impl Look {
    /// Events of all shards since the start.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        let shards = self.sample.shards.iter();
        shards.map(|shard| counted(shard, counter)).sum()
    }

    /// The value of all shards together; of the longest mailbox it is that of the longest.
    pub(crate) fn gauge(&self, gauge: Gauge) -> u64 {
        let shards = self.sample.shards.iter();
        let values = shards.map(|shard| measured(shard, gauge));
        match gauge {
            Gauge::ActorQueueMax => values.max().unwrap_or_default(),
            _ => values.sum(),
        }
    }
}

/// Events of one shard; those that never happened are not in the sample.
pub(crate) fn counted(shard: &ShardSample, counter: Counter) -> u64 {
    shard
        .counters
        .get(counter.name())
        .copied()
        .unwrap_or_default()
}

/// The value of one shard.
pub(crate) fn measured(shard: &ShardSample, gauge: Gauge) -> u64 {
    shard.gauges.get(gauge.name()).copied().unwrap_or_default()
}
