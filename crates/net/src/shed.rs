//! Clients that are asked to go, a few at a time, while the loop goes on and accepts others. Owns
//! the pace; whom to ask and how is the service's.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use stdx::slab::Key;
use stdx::time::Moment;

use crate::driver::Driver;
use crate::service::Service;

/// How often clients are counted.
const COUNT_EVERY: Duration = Duration::from_millis(500);

/// What was said of clients that should go.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shed {
    /// Each time it is said anew.
    round: u64,
    /// Over how long those that are there are asked; nobody is without.
    within: Option<Duration>,
}

impl Shed {
    pub(crate) fn next(self, within: Option<Duration>) -> Shed {
        let round = self.round + 1;
        Shed { round, within }
    }
}

/// What other threads see of one shard.
#[derive(Default)]
pub(crate) struct ShedCount {
    clients: AtomicU64,
    unasked: AtomicU64,
}

impl ShedCount {
    pub(crate) fn read(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.clients), read(&self.unasked))
    }
}

/// How far a shard is.
#[derive(Default)]
pub(crate) struct Shedding {
    round: u64,
    /// Clients that have not been asked yet.
    left: VecDeque<Key>,
    /// Those that there were.
    all: usize,
    began: Moment,
    within: Duration,
    /// Somebody looks at how many are left.
    is_counted: bool,
    count_at: Moment,
}

impl Shedding {
    /// When the next one is asked, or counted.
    pub(crate) fn wake_at(&self) -> Option<Moment> {
        let count = self.is_counted.then_some(self.count_at);
        let asked = self.all - self.left.len();
        let next = (!self.left.is_empty()).then(|| self.due(asked + 1));
        count.into_iter().chain(next).min()
    }

    /// When so many should have been asked.
    fn due(&self, count: usize) -> Moment {
        let share = self.within.as_secs_f64() * count as f64 / self.all.max(1) as f64;
        self.began + Duration::from_secs_f64(share)
    }
}

impl<S: Service> Driver<S> {
    /// Begins anew if something else was said.
    pub(crate) fn notice_shed(&mut self) {
        let said = self.settings.shed;
        if said.round == self.shedding.round {
            return;
        }
        let mut left = VecDeque::new();
        if said.within.is_some() {
            let keys = self.core.borrow().links.keys();
            left.extend(keys.into_iter().filter(|id| self.is_client(*id)));
        }
        self.shedding = Shedding {
            round: said.round,
            all: left.len(),
            left,
            began: self.now,
            within: said.within.unwrap_or_default(),
            is_counted: said.within.is_some(),
            count_at: self.now,
        };
        self.count_clients();
    }

    /// Asks those whose turn has come.
    pub(crate) fn shed_some(&mut self) {
        for _ in 0..self.settings.limits.told_per_turn {
            let asked = self.shedding.all - self.shedding.left.len();
            if self.shedding.due(asked + 1) > self.now {
                break;
            }
            let Some(id) = self.shedding.left.pop_front() else {
                break;
            };
            self.call(id, |service, cx, conn| service.shed(cx, conn));
        }
        if self.shedding.is_counted && self.now >= self.shedding.count_at {
            self.count_clients();
        }
    }

    fn is_client(&self, id: Key) -> bool {
        let conn = self.conns.get(id.index as usize).and_then(Option::as_deref);
        conn.is_some_and(S::is_client)
    }

    fn count_clients(&mut self) {
        self.shedding.count_at = self.now + COUNT_EVERY;
        let clients = self
            .conns
            .iter()
            .flatten()
            .filter(|conn| S::is_client(conn));
        if let Some(shown) = self.shared.shed.get(usize::from(self.shard.id().index())) {
            shown
                .clients
                .store(clients.count() as u64, Ordering::Relaxed);
            let unasked = self.shedding.left.len() as u64;
            shown.unasked.store(unasked, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: those who are there are asked evenly over the time, the last one at its end.
    #[test]
    fn the_time_is_shared_evenly() {
        let second = |n: u64| Moment::ZERO + Duration::from_secs(n);
        let mut shedding = Shedding {
            left: (0..10).map(|_| Key::DEAD).collect(),
            all: 10,
            began: second(5),
            within: Duration::from_secs(20),
            ..Shedding::default()
        };
        assert_eq!(shedding.wake_at(), Some(second(7)));
        shedding.left.truncate(5);
        assert_eq!(shedding.wake_at(), Some(second(17)));
        shedding.left.truncate(1);
        assert_eq!(shedding.wake_at(), Some(second(25)));
        shedding.left.clear();
        assert_eq!(shedding.wake_at(), None);
    }
}
