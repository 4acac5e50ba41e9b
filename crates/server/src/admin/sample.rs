//! How a sample of a node is taken, for those who watch it.

use std::time::Duration;

use actor::{Handle, Report, ShardId, TopActor};
use stdx::time::Clock as _;
use telemetry::{Counter, Gauge, Rates, Snapshot};

use super::Admin;
use crate::talkers::Published;
use crate::watch::{Averages, Sample, ShardSample, Top};

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
            domains: self.guard.shares.sample(),
        }
    }

    fn shard_sample(&self, shard: ShardId) -> ShardSample {
        let mut counted = self.handle.stats(shard);
        if let Some(net) = self.network.as_ref().and_then(|net| net.stats(shard)) {
            counted.merge(&net);
        }
        let mut sample = shard_sample(&self.handle, shard, &counted);
        sample.top_bytes = self.top(&self.talkers, shard);
        sample.top_budgets = self.top(&self.braked, shard);
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

    fn top(&self, lists: &[Published], shard: ShardId) -> Vec<Top> {
        let list = lists.get(usize::from(shard.index()));
        let list = list.map_or_else(Vec::new, |list| list.read(self.clock.now()));
        let top = list.into_iter().map(|(name, value)| Top {
            who: name.to_string(),
            value,
        });
        top.collect()
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
        top_budgets: Vec::new(),
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
