//! Which senders of a shard have messages for destinations that do not keep up, where other threads
//! find them. A user says so only when that changes; nothing of it is on the message path.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use actor::Name;

/// The senders of one shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published(Arc<Mutex<BTreeSet<Name>>>);

impl Published {
    /// Those that have some now.
    pub(crate) fn read(&self) -> Vec<Name> {
        let senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        senders.iter().cloned().collect()
    }
}

/// What the shard itself knows of them, so that most calls take no lock.
#[derive(Debug)]
pub(crate) struct Queues {
    known: RefCell<BTreeSet<Name>>,
    published: Published,
}

impl Queues {
    pub(crate) fn new(published: Published) -> Self {
        Queues {
            known: RefCell::default(),
            published,
        }
    }

    /// Whether a sender has destinations that lag.
    pub(crate) fn note(&self, sender: &Name, lags: bool) {
        let mut known = self.known.borrow_mut();
        let has_changed = match lags {
            true => known.insert(Name::clone(sender)),
            // Most of the time nobody lags.
            false => !known.is_empty() && known.remove(sender),
        };
        if has_changed {
            let published = &self.published.0;
            let mut published = published.lock().unwrap_or_else(PoisonError::into_inner);
            published.clone_from(&known);
        }
    }
}
