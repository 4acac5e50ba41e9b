//! Blocks of values: plain for the shard that counts, atomic for everybody who looks.
//!
//! Owns the split that keeps atomics off the counting path: a shard counts in its own [`Stats`] and
//! now and then copies the block into the [`SharedStats`] it shares with readers. Deliberately not
//! here: when to publish (the shard decides, about ten times a second).

use crate::catalogue::{Counter, Gauge};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters and gauges of one shard; no atomics.
#[derive(Clone, Debug)]
pub struct Stats {
    counters: Box<[u64; Counter::COUNT]>,
    gauges: Box<[u64; Gauge::COUNT]>,
}

impl Default for Stats {
    fn default() -> Self {
        Self::new()
    }
}

impl Stats {
    /// All zero.
    pub fn new() -> Self {
        Stats {
            counters: Box::new([0; Counter::COUNT]),
            gauges: Box::new([0; Gauge::COUNT]),
        }
    }

    /// Counts one event.
    #[inline]
    pub fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    /// Counts `n` events.
    #[inline]
    pub fn add(&mut self, counter: Counter, n: u64) {
        if !crate::IS_ON {
            return;
        }
        let value = &mut self.counters[counter.index()];
        *value = value.wrapping_add(n);
    }

    /// Events counted so far.
    #[inline]
    pub fn get(&self, counter: Counter) -> u64 {
        self.counters[counter.index()]
    }

    /// Sets a gauge.
    #[inline]
    pub fn set(&mut self, gauge: Gauge, value: u64) {
        if !crate::IS_ON {
            return;
        }
        self.gauges[gauge.index()] = value;
    }

    /// Moves a gauge up by one.
    #[inline]
    pub fn raise(&mut self, gauge: Gauge) {
        if !crate::IS_ON {
            return;
        }
        self.gauges[gauge.index()] += 1;
    }

    /// Moves a gauge down by one.
    #[inline]
    pub fn lower(&mut self, gauge: Gauge) {
        if !crate::IS_ON {
            return;
        }
        let value = &mut self.gauges[gauge.index()];
        *value = value.saturating_sub(1);
    }

    /// One of those that share a gauge has another value than before.
    #[inline]
    pub fn shift(&mut self, gauge: Gauge, before: u64, now: u64) {
        if !crate::IS_ON {
            return;
        }
        let value = &mut self.gauges[gauge.index()];
        *value = (*value + now).saturating_sub(before);
    }

    /// The last value of a gauge.
    #[inline]
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.gauges[gauge.index()]
    }
}

/// The published copy of one shard's [`Stats`], or a block for threads that belong to no shard.
#[derive(Debug)]
pub struct SharedStats {
    counters: [AtomicU64; Counter::COUNT],
    gauges: [AtomicU64; Gauge::COUNT],
}

impl Default for SharedStats {
    fn default() -> Self {
        Self::new()
    }
}

impl SharedStats {
    /// All zero.
    pub const fn new() -> Self {
        SharedStats {
            counters: [const { AtomicU64::new(0) }; Counter::COUNT],
            gauges: [const { AtomicU64::new(0) }; Gauge::COUNT],
        }
    }

    /// Replaces everything by `stats`. Readers may see a mix of two publications.
    pub fn publish(&self, stats: &Stats) {
        for (shared, value) in self.counters.iter().zip(stats.counters.iter()) {
            shared.store(*value, Ordering::Relaxed);
        }
        for (shared, value) in self.gauges.iter().zip(stats.gauges.iter()) {
            shared.store(*value, Ordering::Relaxed);
        }
    }

    /// Counts `n` events directly; for threads without a [`Stats`] of their own.
    pub fn add(&self, counter: Counter, n: u64) {
        self.counters[counter.index()].fetch_add(n, Ordering::Relaxed);
    }

    /// Copies everything out.
    pub fn snapshot(&self) -> Snapshot {
        let mut stats = Stats::new();
        for (value, shared) in stats.counters.iter_mut().zip(&self.counters) {
            *value = shared.load(Ordering::Relaxed);
        }
        for (value, shared) in stats.gauges.iter_mut().zip(&self.gauges) {
            *value = shared.load(Ordering::Relaxed);
        }
        Snapshot { stats }
    }
}

/// Values read from one or several [`SharedStats`].
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    stats: Stats,
}

impl Snapshot {
    /// Events counted.
    pub fn counter(&self, counter: Counter) -> u64 {
        self.stats.get(counter)
    }

    /// Value of a gauge.
    pub fn gauge(&self, gauge: Gauge) -> u64 {
        self.stats.gauge(gauge)
    }

    /// Adds another shard's values; [`Gauge::ActorQueueMax`] takes the larger one.
    pub fn merge(&mut self, other: &Snapshot) {
        for counter in Counter::ALL {
            self.stats.add(*counter, other.counter(*counter));
        }
        for gauge in Gauge::ALL {
            let (mine, theirs) = (self.gauge(*gauge), other.gauge(*gauge));
            let merged = if *gauge == Gauge::ActorQueueMax {
                mine.max(theirs)
            } else {
                mine + theirs
            };
            self.stats.set(*gauge, merged);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values_arrive_and_merge() {
        let (mut stats, shared) = (Stats::new(), SharedStats::new());
        stats.add(Counter::ActorMessages, 3);
        stats.set(Gauge::ActorQueueMax, 9);
        stats.set(Gauge::ActorsAlive, 5);
        shared.publish(&stats);
        let mut sum = shared.snapshot();
        stats.set(Gauge::ActorQueueMax, 4);
        shared.publish(&stats);
        sum.merge(&shared.snapshot());
        assert_eq!(sum.counter(Counter::ActorMessages), 6);
        assert_eq!(sum.gauge(Gauge::ActorQueueMax), 9);
        assert_eq!(sum.gauge(Gauge::ActorsAlive), 10);
    }
}
