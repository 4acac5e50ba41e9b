//! What a node tells those who watch it: one sample of everything that is counted, as plain data
//! that goes over the control socket. Rates over time are the watcher's to make; names are those of
//! the catalogue in `telemetry` and stay what they are.

use std::collections::BTreeMap;
use std::time::Duration;

use actor::{Handle, Report, ShardId, TopActor};
use serde::{Deserialize, Serialize};
use stdx::time::Clock as _;
use store::{EngineStats, JournalStats};
use telemetry::{Counter, Gauge, Rates, Snapshot};

use crate::admin::Admin;

/// One look at a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Since the node started.
    pub uptime_ms: i64,
    /// The process, whose memory and CPU time the system knows.
    pub pid: u32,
    /// Connections that the node takes.
    pub connections_max: u64,
    /// Each shard.
    pub shards: Vec<ShardSample>,
    /// The journal.
    pub journal: JournalStats,
    /// The storage engine.
    pub store: EngineStats,
}

/// One shard.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardSample {
    /// By the name of the counter, since the start. Zeroes are left out.
    pub counters: BTreeMap<String, u64>,
    /// By the name of the gauge. Zeroes are left out.
    pub gauges: BTreeMap<String, u64>,
    /// Messages handled by actors, per second.
    pub messages: Averages,
    /// Longest mailboxes, in messages.
    pub top_queue: Vec<Top>,
    /// Most messages handled in a second.
    pub top_rate: Vec<Top>,
    /// Highest cost in a second; a message costs 1, one that makes others costs more.
    pub top_cost: Vec<Top>,
    /// Users who are sent the most, in bytes a second.
    pub top_bytes: Vec<Top>,
}

/// Averages that decay over 1, 10 and 100 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Averages(pub f64, pub f64, pub f64);

/// One of the busiest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Top {
    /// The account's address, or what kind of actor it is.
    pub who: String,
    /// How much.
    pub value: u64,
}

/// One account, looked into.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserSample {
    /// Its shard.
    pub shard: u16,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: i64,
    /// May not log in.
    pub locked: bool,
    /// Its sessions.
    pub sessions: Vec<SessionSample>,
    /// Contacts, with those who only asked.
    pub roster_items: usize,
    /// Bytes that they take in memory.
    pub roster_bytes: usize,
    /// Blocked addresses.
    pub blocked: usize,
    /// Messages that wait for it.
    pub pending_messages: u64,
    /// Their bytes.
    pub pending_bytes: u64,
    /// Messages in its mailbox.
    pub mailbox: usize,
    /// Changes that are not durable yet.
    pub commits_waiting: usize,
}

/// One session of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionSample {
    /// Its resource.
    pub resource: String,
    /// Is available.
    pub available: bool,
    /// Its priority.
    pub priority: i8,
    /// Entities that directed presence went to.
    pub directed: usize,
    /// Bytes that its client has not read; none if its connection is on another shard.
    pub backlog_bytes: Option<usize>,
}

impl Admin {
    /// Whether every shard takes a turn within a time. For threads of their own.
    pub fn is_turning(&self, within: Duration) -> bool {
        let mut shards = (0..self.handle.shards()).map(ShardId::new);
        shards.all(|shard| self.handle.is_turning(shard, within))
    }

    /// A sample of now.
    pub fn sample(&self) -> Sample {
        let shards = (0..self.handle.shards()).map(ShardId::new);
        Sample {
            at_ms: self.clock.wall().as_millis(),
            uptime_ms: self.clock.wall().as_millis() - self.started.as_millis(),
            pid: std::process::id(),
            connections_max: self
                .network
                .as_ref()
                .map_or(0, |network| network.limits().connections_max as u64),
            shards: shards.map(|shard| self.shard_sample(shard)).collect(),
            journal: self.journal.stats(),
            store: self.store.stats(),
        }
    }

    fn shard_sample(&self, shard: ShardId) -> ShardSample {
        let mut counted = self.handle.stats(shard);
        if let Some(net) = self.network.as_ref().and_then(|net| net.stats(shard)) {
            counted.merge(&net);
        }
        let talkers = self.talkers.get(usize::from(shard.index()));
        let talkers = talkers.map_or_else(Vec::new, |list| list.read(self.clock.now()));
        let bytes = talkers.into_iter().map(|(name, value)| Top {
            who: name.to_string(),
            value,
        });
        let mut sample = shard_sample(&self.handle, shard, &counted);
        sample.top_bytes = bytes.collect();
        if let Some(queues) = self.queues.get(usize::from(shard.index())) {
            let (senders, messages) = queues.totals();
            let found = [
                (Gauge::QueueSenders, senders),
                (Gauge::QueueMessages, messages),
            ];
            let found = found.into_iter().filter(|(_, value)| *value > 0);
            let named = found.map(|(gauge, value)| (gauge.name().to_owned(), value));
            sample.gauges.extend(named);
        }
        sample
    }
}

fn shard_sample(handle: &Handle, shard: ShardId, counted: &Snapshot) -> ShardSample {
    let counters = Counter::ALL
        .iter()
        .map(|counter| (counter.name().to_owned(), counted.counter(*counter)));
    let gauges = Gauge::ALL
        .iter()
        .map(|gauge| (gauge.name().to_owned(), counted.gauge(*gauge)));
    let report: &Report = &handle.report(shard);
    ShardSample {
        counters: counters.filter(|(_, value)| *value > 0).collect(),
        gauges: gauges.filter(|(_, value)| *value > 0).collect(),
        messages: report.messages.into(),
        top_queue: tops(&report.top_queue),
        top_rate: tops(&report.top_rate),
        top_cost: tops(&report.top_cost),
        top_bytes: Vec::new(),
    }
}

fn tops(actors: &[TopActor]) -> Vec<Top> {
    let tops = actors.iter().map(|actor| Top {
        who: match &actor.name {
            Some(name) => name.to_string(),
            None => kind_of(actor.takes),
        },
        value: u64::from(actor.value),
    });
    tops.collect()
}

/// What an actor without a name is for, by the type of its messages. The brackets tell it from an
/// address.
fn kind_of(takes: &str) -> String {
    // Without the parameters of a generic type.
    let path = takes.split('<').next().unwrap_or(takes);
    let kind = match path {
        "net::port::PortMsg" => "connections from other shards",
        "server::journal::port::PortMsg" => "journal",
        "server::journal::keeper::KeeperMsg" => "journal keeper",
        "server::home::SetLimits" => "limits",
        _ => path.rsplit("::").next().unwrap_or(path),
    };
    format!("({kind})")
}

impl From<Rates> for Averages {
    fn from(rates: Rates) -> Self {
        Averages(rates.over_1s, rates.over_10s, rates.over_100s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actors_without_a_name_are_called_by_their_purpose() {
        assert_eq!(
            kind_of(std::any::type_name::<crate::journal::PortMsg>()),
            "(journal)"
        );
        assert_eq!(
            kind_of(std::any::type_name::<crate::home::SetLimits>()),
            "(limits)"
        );
        assert_eq!(
            kind_of("net::port::PortMsg<server::c2s::C2sService>"),
            "(connections from other shards)"
        );
        assert_eq!(kind_of("some::Other"), "(Other)");
    }
}
