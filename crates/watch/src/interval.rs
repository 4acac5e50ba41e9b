//! What happened between two looks. Owns the arithmetic of rates, shares and quantiles; a figure
//! that one of the looks lacks is absent.

use telemetry::{Counter, Gauge};

use super::look::{Look, counted};
use super::mailbox::Mailbox;

/// Two looks at the same server, the later one last.
#[derive(Clone, Copy)]
pub(crate) struct Interval<'a> {
    /// The earlier one.
    pub(crate) before: &'a Look,
    /// The later one.
    pub(crate) now: &'a Look,
}

impl Interval<'_> {
    /// Whether another process, or the same one anew, answered the second time.
    pub(crate) fn is_restart(&self) -> bool {
        let (before, now) = (&self.before.sample, &self.now.sample);
        before.pid != now.pid || now.uptime_ms < before.uptime_ms
    }

    /// Its length; `None` if the clock was set back meanwhile.
    pub(crate) fn seconds(&self) -> Option<f64> {
        let ms = self.now.sample.at_ms - self.before.sample.at_ms;
        (ms > 0).then(|| ms as f64 / 1e3)
    }

    /// Events in a second.
    pub(crate) fn rate(&self, counter: Counter) -> Option<f64> {
        self.per_second(self.before.counter(counter), self.now.counter(counter))
    }

    /// The growth of a total in a second.
    pub(crate) fn per_second(&self, before: u64, now: u64) -> Option<f64> {
        Some(now.saturating_sub(before) as f64 / self.seconds()?)
    }

    /// The growth of what the system may or may not tell.
    pub(crate) fn per_second_of(&self, of: impl Fn(&Look) -> Option<u64>) -> Option<f64> {
        self.per_second(of(self.before)?, of(self.now)?)
    }

    /// The present value of all shards.
    pub(crate) fn gauge(&self, gauge: Gauge) -> f64 {
        self.now.gauge(gauge) as f64
    }

    /// The share of all shards' time that a counter of nanoseconds accounts for.
    pub(crate) fn share(&self, counter: Counter) -> Option<f64> {
        self.share_by(counter, Look::counter)
    }

    /// The same for one shard.
    pub(crate) fn share_of_shard(&self, shard: usize, counter: Counter) -> Option<f64> {
        self.share_by(counter, |look, counter| {
            let shard = look.sample.shards.get(shard);
            shard.map_or(0, |shard| counted(shard, counter))
        })
    }

    fn share_by(&self, counter: Counter, total: impl Fn(&Look, Counter) -> u64) -> Option<f64> {
        let all = [
            Counter::ShardWorkingNanos,
            Counter::ShardPollingNanos,
            Counter::ShardIdleNanos,
        ];
        let spent = |counter: Counter| {
            let before = total(self.before, counter);
            total(self.now, counter).saturating_sub(before)
        };
        let whole: u64 = all.iter().map(|counter| spent(*counter)).sum();
        (whole > 0).then(|| spent(counter) as f64 / whole as f64)
    }

    /// CPU time for time; 2.0 is two cores.
    pub(crate) fn cpu(&self) -> Option<f64> {
        self.per_second_of(|look| look.process.cpu_us)
            .map(|us| us / 1e6)
    }

    /// Group commits in a second.
    pub(crate) fn commits(&self) -> Option<f64> {
        let commits = |look: &Look| look.sample.journal.groups;
        self.per_second(commits(self.before), commits(self.now))
    }

    /// Records committed in a second.
    pub(crate) fn records(&self) -> Option<f64> {
        let records = |look: &Look| look.sample.journal.records;
        self.per_second(records(self.before), records(self.now))
    }

    /// The microseconds that a share of the interval's commits did not exceed.
    pub(crate) fn commit_us(&self, quantile: f64) -> Option<f64> {
        let before = &self.before.sample.journal.commit_us;
        let now = &self.now.sample.journal.commit_us;
        let counts = now.iter().enumerate().map(|(index, now)| {
            let before = before.get(index).copied().unwrap_or_default();
            now.saturating_sub(before)
        });
        quantile_of(&counts.collect::<Vec<_>>(), quantile)
    }

    /// The longest mailbox, if one had 8 messages or more.
    pub(crate) fn longest(&self) -> Option<Mailbox<'_>> {
        let shards = self.now.sample.shards.iter().enumerate();
        let tops = shards.flat_map(|(n, shard)| shard.top_queue.iter().map(move |top| (n, top)));
        let (shard, longest) = tops.max_by_key(|(_, top)| top.value)?;
        Some(Mailbox::between(self, shard, longest))
    }
}

/// A quantile of counts by powers of two: bucket `n` has what is over `2^(n-1)` and at most `2^n`.
/// Inside a bucket values are taken to be spread evenly.
fn quantile_of(counts: &[u64], quantile: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    let rank = quantile.clamp(0.0, 1.0) * total as f64;
    let mut below = 0.0;
    for (power, count) in counts.iter().enumerate() {
        let count = *count as f64;
        if count > 0.0 && below + count >= rank {
            let upper = (1_u64 << power.min(63)) as f64;
            let lower = if power == 0 { 0.0 } else { upper / 2.0 };
            // The last bucket has no upper end.
            let is_last = power + 1 == counts.len();
            let part = (rank - below) / count;
            return Some(if is_last {
                lower
            } else {
                lower + (upper - lower) * part
            });
        }
        below += count;
    }
    None
}

#[cfg(test)]
mod tests {
    use server::watch::{ShardSample, Top};

    use super::*;

    fn look(at_ms: i64, logins: u64) -> Look {
        let mut look = Look::default();
        look.sample.at_ms = at_ms;
        look.sample.uptime_ms = at_ms;
        let shard = |queue: u64, who: &str| ShardSample {
            counters: [
                (Counter::Logins.name().to_owned(), logins),
                (Counter::ShardWorkingNanos.name().to_owned(), 3 * logins),
                (Counter::ShardIdleNanos.name().to_owned(), logins),
            ]
            .into(),
            top_queue: vec![Top {
                who: who.to_owned(),
                value: queue,
            }],
            ..ShardSample::default()
        };
        look.sample.shards = vec![shard(8, "a@b"), shard(9, "c@d")];
        look
    }

    #[test]
    fn rates_and_shares_are_those_of_the_interval() {
        let (before, now) = (look(1_000, 100), look(3_000, 150));
        let interval = Interval {
            before: &before,
            now: &now,
        };
        assert_eq!(interval.rate(Counter::Logins), Some(50.0));
        assert_eq!(interval.share(Counter::ShardWorkingNanos), Some(0.75));
        let shard = interval.share_of_shard(1, Counter::ShardIdleNanos);
        assert_eq!(shard, Some(0.25));
        let longest = interval.longest().expect("a mailbox");
        assert_eq!((longest.who, longest.length), ("c@d", 9));
        assert_eq!(interval.cpu(), None);
        assert_eq!(interval.commit_us(0.5), None);
        assert!(!interval.is_restart());
        let back = Interval {
            before: &now,
            now: &before,
        };
        assert!(back.is_restart());
        assert_eq!(back.rate(Counter::Logins), None);
    }

    #[test]
    fn quantiles_lie_in_their_bucket() {
        let mut counts = vec![0; 24];
        assert_eq!(quantile_of(&counts, 0.5), None);
        counts[7] = 98;
        counts[10] = 2;
        let median = quantile_of(&counts, 0.5).expect("values");
        assert!(median > 64.0 && median <= 128.0, "{median}");
        let p99 = quantile_of(&counts, 0.99).expect("values");
        assert_eq!(p99, 768.0);
        counts[23] = 100_000;
        assert_eq!(quantile_of(&counts, 0.99), Some(f64::from(1 << 22)));
    }
}
