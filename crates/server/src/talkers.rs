//! Who is sent the most bytes, and who reaches budgets most often. One sample is taken for every
//! [`SAMPLE_BYTES`] that a shard writes and given to whom that write was for, so that counting
//! costs a subtraction a write and memory for few users, and whoever gets a large share is found
//! almost surely. Of events each is a sample.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use actor::Name;
use stdx::time::Moment;

/// Bytes between two samples.
const SAMPLE_BYTES: u64 = 4 * 1024;

/// Users that are told apart in one window; a further one takes the place of the last.
const REMEMBERED: usize = 64;

/// Users in the published list.
const TOP: usize = 8;

/// Time that is looked at as one.
const WINDOW: Duration = Duration::from_secs(1);

/// The list of one shard, where other threads find it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published(Arc<Mutex<Window>>);

#[derive(Clone, Debug, Default)]
struct Window {
    ended: Moment,
    /// Users with their bytes, the most first.
    top: Vec<(Name, u64)>,
}

impl Published {
    /// The users with their bytes a second, the most first; nobody if nothing was written lately.
    pub(crate) fn read(&self, now: Moment) -> Vec<(Name, u64)> {
        let window = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_since(window.ended) > 3 * WINDOW {
            return Vec::new();
        }
        window.top.clone()
    }
}

/// Counts the writes of one shard.
#[derive(Debug)]
pub(crate) struct Talkers {
    /// Bytes, or events, between two samples.
    unit: u64,
    until_sample: u64,
    began: Moment,
    samples: Vec<(Name, u64)>,
    published: Published,
}

impl Talkers {
    pub(crate) fn new(published: Published) -> Self {
        Talkers::every(SAMPLE_BYTES, published)
    }

    /// Counts events: each is a sample.
    pub(crate) fn of_events(published: Published) -> Self {
        Talkers::every(1, published)
    }

    fn every(unit: u64, published: Published) -> Self {
        Talkers {
            unit,
            until_sample: unit,
            began: Moment::default(),
            samples: Vec::new(),
            published,
        }
    }

    /// Notes that `bytes` were written for a user.
    #[inline]
    pub(crate) fn note(&mut self, name: &Name, bytes: u64, now: impl FnOnce() -> Moment) {
        if !telemetry::IS_ON {
            return;
        }
        if bytes < self.until_sample {
            self.until_sample -= bytes;
            return;
        }
        let beyond = bytes - self.until_sample;
        self.until_sample = self.unit - beyond % self.unit;
        self.sample(name, 1 + beyond / self.unit, now());
    }

    #[cold]
    fn sample(&mut self, name: &Name, samples: u64, now: Moment) {
        if now.saturating_since(self.began) >= WINDOW {
            self.roll(now);
        }
        match self.samples.iter_mut().find(|(known, _)| known == name) {
            Some((_, count)) => *count += samples,
            None => {
                if self.samples.len() == REMEMBERED {
                    self.samples.pop();
                }
                self.samples.push((Name::clone(name), samples));
            }
        }
    }

    fn roll(&mut self, now: Moment) {
        let seconds = now.saturating_since(self.began).as_secs_f64().max(1.0);
        self.began = now;
        self.samples.sort_by_key(|(_, count)| u64::MAX - count);
        self.samples.truncate(TOP);
        let unit = self.unit;
        let rate = |count| (count as f64 * unit as f64 / seconds).ceil() as u64;
        let top = self.samples.drain(..);
        let top = top.map(|(name, count)| (name, rate(count))).collect();
        let published = &self.published.0;
        *published.lock().unwrap_or_else(PoisonError::into_inner) = Window { ended: now, top };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heaviest_of_many_is_found_with_its_rate() {
        let published = Published::default();
        let mut talkers = Talkers::new(published.clone());
        let heavy = Name::from("heavy@localhost");
        let at = |ms| Moment::default() + Duration::from_millis(ms);
        for ms in 5_000..7_001_u64 {
            for other in 0..20 {
                let name = Name::from(format!("u{}@localhost", ms * 20 + other).as_str());
                talkers.note(&name, 100, || at(ms));
            }
            talkers.note(&heavy, 1_000, || at(ms));
        }
        let top = published.read(at(7_100));
        assert_eq!(top[0].0, heavy);
        // A third of three megabytes a second.
        assert!((800_000..1_200_000).contains(&top[0].1), "{}", top[0].1);
        assert!(top.len() <= TOP);
        assert!(published.read(at(60_000)).is_empty(), "it is long over");
    }

    #[test]
    fn one_large_write_counts_in_full() {
        let published = Published::default();
        let mut talkers = Talkers::new(published.clone());
        let at = |ms| Moment::default() + Duration::from_millis(ms);
        let name = Name::from("heavy@localhost");
        talkers.note(&name, 1_000_000, || at(2_000));
        talkers.note(&name, SAMPLE_BYTES, || at(3_000));
        let bytes = published.read(at(3_000))[0].1;
        assert!((990_000..=1_000_000).contains(&bytes), "{bytes}");
    }
}
