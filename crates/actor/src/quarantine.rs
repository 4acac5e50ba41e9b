//! Remembers which names crashed, and puts those that keep crashing in quarantine.
//!
//! Owns the count per name and its bound. Deliberately not here: what happens to the messages.

use rustc_hash::FxHashMap;
use stdx::time::Moment;

use crate::limits::{CRASH_WINDOW, CRASHES_MAX, CRASHES_REMEMBERED, QUARANTINE};
use crate::types::Name;

/// Only names that crashed are here, so that hashing need not be keyed: to fill it with colliding
/// names one would have to crash them all.
#[derive(Default)]
pub(crate) struct Crashes(FxHashMap<Name, Record>);

struct Record {
    since: Moment,
    count: u32,
    quarantined_until: Option<Moment>,
}

impl Record {
    fn is_stale(&self, now: Moment) -> bool {
        match self.quarantined_until {
            Some(until) => until <= now,
            None => now.saturating_since(self.since) >= CRASH_WINDOW,
        }
    }
}

impl Crashes {
    /// Counts a crash; true if the name is quarantined from now on.
    pub(crate) fn note(&mut self, name: &Name, now: Moment) -> bool {
        if self.0.len() >= CRASHES_REMEMBERED && !self.0.contains_key(name) {
            self.0.retain(|_, record| !record.is_stale(now));
            if self.0.len() >= CRASHES_REMEMBERED {
                let oldest = self
                    .0
                    .iter()
                    .min_by_key(|(name, record)| (record.since, *name));
                if let Some(oldest) = oldest.map(|(name, _)| Name::clone(name)) {
                    self.0.remove(&oldest);
                }
            }
        }
        let fresh = || Record {
            since: now,
            count: 0,
            quarantined_until: None,
        };
        let record = self.0.entry(Name::clone(name)).or_insert_with(fresh);
        if record.is_stale(now) {
            *record = fresh();
        }
        record.count += 1;
        if record.count > CRASHES_MAX {
            record.quarantined_until = Some(now + QUARANTINE);
            return true;
        }
        false
    }

    pub(crate) fn is_quarantined(&mut self, name: &Name, now: Moment) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let until = self.0.get(name).and_then(|record| record.quarantined_until);
        match until {
            Some(until) if until > now => true,
            Some(_) => {
                self.0.remove(name);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn quarantine_begins_after_the_bound_and_ends_by_time() {
        let (mut crashes, name) = (Crashes::default(), Name::from("a"));
        for _ in 0..CRASHES_MAX {
            assert!(!crashes.note(&name, Moment::ZERO));
        }
        assert!(crashes.note(&name, Moment::ZERO));
        assert!(crashes.is_quarantined(&name, Moment::ZERO));
        assert!(!crashes.is_quarantined(&name, Moment::ZERO + QUARANTINE));
        assert!(!crashes.note(&name, Moment::ZERO + QUARANTINE));
    }

    #[test]
    fn slow_crashes_are_forgiven_and_memory_is_bounded() {
        let mut crashes = Crashes::default();
        let mut now = Moment::ZERO;
        for _ in 0..100 {
            assert!(!crashes.note(&Name::from("slow"), now));
            now = now + CRASH_WINDOW / 2 + Duration::from_secs(1);
        }
        for n in 0..CRASHES_REMEMBERED * 2 {
            crashes.note(&Name::from(format!("n{n}")), now);
        }
        assert!(crashes.0.len() <= CRASHES_REMEMBERED);
    }
}
