//! What operators may see and do of destinations that lag, and what calls them.

use std::fmt::Debug;

use stdx::time::Moment;

use super::{Outbox, Stuck};

impl<D: Copy + Ord + Debug, E> Outbox<D, E> {
    /// Destinations that lag and have not got everything.
    pub fn stuck(&self, now: Moment) -> impl Iterator<Item = Stuck<D>> + '_ {
        let stuck = self.lagging.iter().filter(|(_, own)| !own.keeps_mark());
        stuck.map(move |(dest, lagging)| Stuck {
            dest: *dest,
            pending: lagging.pending,
            mark: lagging.mark,
            failures: lagging.failures,
            last: lagging.last,
            waits: lagging.waits_for(now),
        })
    }

    /// Tries a destination at once. False if it does not wait for a retry.
    pub fn retry_now(&mut self, dest: D) -> bool {
        let waits = self
            .lagging
            .get_mut(&dest)
            .is_some_and(|lagging| lagging.retry_now());
        if waits {
            self.read_for(dest);
        }
        waits
    }

    /// Destinations that were away may be there again: they are tried at once.
    pub fn called(&mut self) {
        let parked = self.lagging.iter().filter(|(_, own)| own.is_parked());
        let parked: Vec<D> = parked.map(|(dest, _)| *dest).collect();
        for dest in parked {
            self.retry_now(dest);
        }
    }

    /// Returns to the sender what waits for a destination now. Returns how many entries that is; 0
    /// if it does not lag.
    pub fn drop_pending(&mut self, dest: D) -> u32 {
        let tail = self.tail;
        let Some(lagging) = self.lagging.get_mut(&dest) else {
            return 0;
        };
        lagging.drop_through = tail;
        let pending = lagging.pending;
        self.retry_now(dest);
        pending
    }
}
