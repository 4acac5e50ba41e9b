//! Messages for destinations that do not keep up, as operators see them: which senders of a shard
//! have some, where other threads find that, and what may be done about them. A user says so only
//! when that changes; nothing of it is on the message path.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actor::Name;
use serde::{Deserialize, Serialize};

/// The senders of one shard that have some, with how many.
type Senders = BTreeMap<Name, u32>;

/// What other threads see of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Published(Arc<Mutex<Senders>>);

impl Published {
    fn lock(&self) -> MutexGuard<'_, Senders> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that have some now.
    pub(crate) fn read(&self) -> Vec<Name> {
        self.lock().keys().cloned().collect()
    }

    /// How many senders have some, and how many messages those are.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let senders = self.lock();
        let messages = senders.values().map(|messages| u64::from(*messages)).sum();
        (senders.len() as u64, messages)
    }
}

/// What the shard itself knows of them, so that most calls take no lock.
#[derive(Debug)]
pub(crate) struct Queues {
    known: RefCell<Senders>,
    published: Published,
}

impl Queues {
    pub(crate) fn new(published: Published) -> Self {
        Queues {
            known: RefCell::default(),
            published,
        }
    }

    /// How many messages of a sender wait for destinations that lag; `None` if none does.
    pub(crate) fn note(&self, sender: &Name, waiting: Option<u32>) {
        let mut known = self.known.borrow_mut();
        let has_changed = match waiting {
            Some(waiting) => known.insert(Name::clone(sender), waiting) != Some(waiting),
            // Most of the time nobody lags.
            None => !known.is_empty() && known.remove(sender).is_some(),
        };
        if has_changed {
            self.published.lock().clone_from(&known);
        }
    }

    /// Senders of whom that is so are at home on another shard now, which hears of them itself.
    pub(crate) fn forget(&self, has_gone: impl Fn(&str) -> bool) {
        let mut known = self.known.borrow_mut();
        let before = known.len();
        known.retain(|sender, _| !has_gone(sender));
        if known.len() != before {
            self.published.lock().clone_from(&known);
        }
    }
}

/// Messages of one sender that wait for a destination that does not keep up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Who sent them.
    pub sender: String,
    /// Whom they are for.
    pub recipient: String,
    /// How many.
    pub messages: u32,
    /// When the oldest was accepted, in milliseconds since 1970.
    pub oldest_ms: i64,
    /// Its stanza-id in the sender's log, for `roost trace`.
    pub oldest_id: String,
    /// Attempts in a row that failed.
    pub failures: u32,
    /// Why the last one did, in a word; empty if none did.
    pub why: String,
    /// What comes next.
    pub next: String,
}

/// A destination as its sender's actor knows it; the store knows its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stuck {
    pub(crate) peer: u64,
    pub(crate) mark: u64,
    pub(crate) messages: u32,
    pub(crate) failures: u32,
    pub(crate) why: &'static str,
    pub(crate) next: String,
}

impl Stuck {
    pub(crate) fn of(stuck: &delivery::Stuck<u64>) -> Stuck {
        Stuck {
            peer: stuck.dest,
            mark: stuck.mark.number(),
            messages: stuck.pending,
            failures: stuck.failures,
            why: stuck.last.map_or("", delivery::Refusal::as_str),
            next: match stuck.waits {
                delivery::Waits::Retry(pause) => {
                    format!("retried in {:.1} s", pause.as_secs_f64())
                }
                delivery::Waits::Call(pause) => {
                    let seconds = pause.as_secs_f64();
                    format!("retried when it is back, or in {seconds:.0} s")
                }
                delivery::Waits::Read => "the log is read".to_owned(),
                delivery::Waits::Answer => "an answer is awaited".to_owned(),
                delivery::Waits::Return => "one comes back to its sender".to_owned(),
                delivery::Waits::Nothing => "catches up with the others".to_owned(),
            },
        }
    }
}

/// What an administrator does about the queues of one sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueCommand {
    /// Tells about them.
    List,
    /// Tries one, or all of them, at once.
    Retry(Option<u64>),
    /// Returns what waits for one to the sender.
    Drop(u64),
}
