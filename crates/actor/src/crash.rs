//! Remembers which names crashed, and puts those that keep crashing in quarantine.

use rustc_hash::FxHashMap;
use stdx::time::Moment;

use crate::limits::{CRASH_WINDOW, CRASHES_MAX, CRASHES_REMEMBERED, QUARANTINE};
use crate::types::Name;

#[derive(Default)]
pub(crate) struct Crashes(FxHashMap<Name, Record>);

struct Record {
    since: Moment,
    count: u32,
    quarantined_until: Option<Moment>,
}

impl Crashes {
    /// Counts a crash; true if the name is quarantined from now on.
    pub(crate) fn note(&mut self, name: &Name, now: Moment) -> bool {
        if self.0.len() >= CRASHES_REMEMBERED {
            self.0.retain(|_, record| {
                now.saturating_since(record.since) < CRASH_WINDOW
                    || record.quarantined_until.is_some_and(|until| until > now)
            });
        }
        let fresh = || Record {
            since: now,
            count: 0,
            quarantined_until: None,
        };
        let record = self.0.entry(Name::clone(name)).or_insert_with(fresh);
        if now.saturating_since(record.since) >= CRASH_WINDOW {
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
        let Some(record) = self.0.get(name) else {
            return false;
        };
        match record.quarantined_until {
            Some(until) if until > now => true,
            Some(_) => {
                self.0.remove(name);
                false
            }
            None => false,
        }
    }
}
