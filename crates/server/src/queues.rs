//! Messages for destinations that do not keep up, as operators see them: which senders of a shard
//! have some, where other threads find that, and what may be done about them. A user says so only
//! when that changes; nothing of it is on the message path.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actor::Name;
use serde::{Deserialize, Serialize};

/// The senders of one shard that have some, with how many. Other threads look, and the mover of a
/// shard takes what goes on elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queues(Arc<Known>);

#[derive(Debug, Default)]
struct Known {
    senders: Mutex<BTreeMap<Name, u32>>,
    /// How many senders that are: most of the time none, and then a shard takes no lock.
    count: AtomicUsize,
}

impl Queues {
    /// How many messages of a sender wait for destinations that lag; `None` if none does.
    pub(crate) fn note(&self, sender: &Name, waiting: Option<u32>) {
        if waiting.is_none() && self.0.count.load(Relaxed) == 0 {
            return;
        }
        self.change(|senders| match waiting {
            Some(waiting) => drop(senders.insert(Name::clone(sender), waiting)),
            None => drop(senders.remove(sender)),
        });
    }

    /// The senders of whom that is so are this shard's no more: they are another one's, before they
    /// say anything there, or another node's.
    pub(crate) fn leave(&self, to: Option<&Queues>, has_gone: impl Fn(&str) -> bool) {
        if self.0.count.load(Relaxed) == 0 {
            return;
        }
        let gone = self.change(|senders| {
            let gone = senders.extract_if(.., |sender, _| has_gone(sender));
            gone.collect::<Vec<_>>()
        });
        if let Some(to) = to.filter(|_| !gone.is_empty()) {
            to.change(|senders| senders.extend(gone));
        }
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

    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<Name, u32>) -> T) -> T {
        let mut senders = self.lock();
        let changed = change(&mut senders);
        self.0.count.store(senders.len(), Relaxed);
        changed
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Name, u32>> {
        self.0
            .senders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
