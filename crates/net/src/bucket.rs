//! Token buckets for paced accepts and paced input. Owns the arithmetic; deliberately reads no
//! clock.

use std::time::Duration;

use stdx::time::Moment;

/// A sustained rate with room for a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units (bytes, connections) per second, at least 1.
    pub per_second: u32,
    /// Units that may be used at once after a quiet time.
    pub burst: u32,
}

impl Rate {
    /// How long so many units take.
    pub(crate) fn time(self, units: u32) -> Duration {
        let per_second = u64::from(self.per_second.max(1));
        Duration::from_nanos(u64::from(units) * NANOS_PER_SECOND / per_second)
    }
}

/// A bucket that may go into debt: use first, then wait until the debt is paid. 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// The moment at which the bucket would be exactly empty of debt and of credit, kept as
    /// nanoseconds: `filled_at <= now` means credit, later than now means debt.
    filled_at: u64,
}

impl Bucket {
    /// A full bucket.
    pub(crate) fn new() -> Bucket {
        Bucket { filled_at: 0 }
    }

    /// Uses the units of so much `time`, whether or not there is credit for them.
    pub(crate) fn spend(&mut self, rate: Rate, time: Duration, now: Moment) {
        let floor = nanos(now).saturating_sub(as_nanos(rate.time(rate.burst)));
        self.filled_at = self.filled_at.max(floor).saturating_add(as_nanos(time));
    }

    /// How long until the debt is paid; `None` when there is none.
    pub(crate) fn debt(&self, now: Moment) -> Option<Duration> {
        let debt = self.filled_at.saturating_sub(nanos(now));
        (debt > 0).then(|| Duration::from_nanos(debt))
    }
}

const NANOS_PER_SECOND: u64 = 1_000_000_000;

fn as_nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn nanos(now: Moment) -> u64 {
    // Offset by an hour so that a bucket of a young process starts full.
    const START: u64 = 3_600 * NANOS_PER_SECOND;
    now.0.saturating_add(START)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment(ms * 1_000_000)
    }

    #[test]
    fn burst_passes_then_the_rate_holds() {
        let rate = Rate {
            per_second: 1_000,
            burst: 100,
        };
        let mut bucket = Bucket::new();
        for _ in 0..100 {
            assert_eq!(bucket.debt(at(0)), None);
            bucket.spend(rate, rate.time(1), at(0));
        }
        assert_eq!(bucket.debt(at(0)), None);
        bucket.spend(rate, rate.time(10), at(0));
        assert_eq!(bucket.debt(at(0)), Some(Duration::from_millis(10)));
        assert_eq!(bucket.debt(at(10)), None);
    }

    #[test]
    fn a_quiet_time_earns_no_more_than_the_burst() {
        let rate = Rate {
            per_second: 10,
            burst: 5,
        };
        let mut bucket = Bucket::new();
        bucket.spend(rate, rate.time(6), at(3_600_000));
        assert_eq!(bucket.debt(at(3_600_000)), Some(Duration::from_millis(100)));
    }
}
