//! How much an account keeps in its private storage (XEP-0049), so that the total has a bound. The
//! sizes are read from the store when the owner first stores something; sets wait for them.

use std::collections::{HashMap, VecDeque};

use actor::{Context, Mail};
use net::ConnRef;
use store::StoreError;
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::acts::private_storage;
use super::barrier::{Effect, Origin, OwnStanza};
use super::own::OwnMsg;
use crate::limits::{PRIVATE_ITEM_OVERHEAD, PRIVATE_SETS_WAITING};
use crate::message::UserMsg;
use crate::message::credit::Debt;

/// Namespace and name of an element.
type Key = (String, String);

/// What is stored, and what waits for that to be known.
#[derive(Default)]
pub(crate) struct Storage {
    sizes: Option<HashMap<Key, u64>>,
    total: u64,
    waiting: VecDeque<WaitingSet>,
}

/// A set that waits until it is known how much is stored.
pub(crate) struct WaitingSet {
    set: Frame,
    /// The session that sent it.
    conn: ConnRef,
    debt: Option<Debt>,
}

/// What is told to whoever wants to store more than [`User::may_store`] allows.
pub(crate) fn full() -> StanzaError {
    StanzaError::new(Condition::ResourceConstraint)
        .with_text("The server has no room for more of this account.")
}

/// Sizes as they were read.
pub(crate) type StorageRead = Result<Vec<(String, String, usize)>, StoreError>;

fn cost(key: &Key, bytes: usize) -> u64 {
    (key.0.len() + key.1.len() + bytes) as u64 + PRIVATE_ITEM_OVERHEAD
}

impl Storage {
    pub(super) fn is_unknown(&self) -> bool {
        self.sizes.is_none() && self.waiting.is_empty()
    }

    /// Whether the sizes are known.
    pub(crate) fn is_known(&self) -> bool {
        self.sizes.is_some()
    }

    fn learn(&mut self, sizes: Vec<(String, String, usize)>) {
        let sizes = sizes.into_iter().map(|(ns, name, bytes)| {
            let key = (ns, name);
            let cost = cost(&key, bytes);
            (key, cost)
        });
        let sizes: HashMap<Key, u64> = sizes.collect();
        self.total = sizes.values().sum();
        self.sizes = Some(sizes);
    }

    /// Notes that these elements take the place of those with their names, if all together stay
    /// within `max`. A set that makes the total smaller is always taken.
    pub(crate) fn replace(&mut self, elements: Vec<(Key, usize)>, max: u64) -> bool {
        let Some(sizes) = &mut self.sizes else {
            return false;
        };
        let mut new: HashMap<Key, u64> = HashMap::new();
        for (key, bytes) in elements {
            let cost = cost(&key, bytes);
            new.insert(key, cost);
        }
        let old: u64 = new.keys().filter_map(|key| sizes.get(key)).sum();
        let total = self.total - old + new.values().sum::<u64>();
        if total > max && total > self.total {
            return false;
        }
        self.total = total;
        sizes.extend(new);
        true
    }
}

impl User {
    /// Whether `bytes` more may be stored for this account. If not, that was counted.
    pub(crate) fn may_store(&self, bytes: usize, cx: &mut Context<'_, UserMsg>) -> bool {
        let own = self.log.as_ref().map_or(0, |log| log.stored_bytes());
        let max = self.home.limits().domain_bytes_max;
        let shares = &self.home.guard.shares;
        if shares.may_store(&self.name, own, bytes as u64, max) {
            return true;
        }
        cx.stats().count(Counter::StorageRefused);
        self.home.brake(&self.name, cx.now());
        false
    }

    /// What is known of the private storage.
    pub(crate) fn storage(&mut self) -> &mut Storage {
        &mut self.requests.get_or_insert_default().storage
    }

    /// A set waits until it is known what there is. False if too many wait already.
    pub(crate) fn wait_for_storage(
        &mut self,
        set: Frame,
        conn: ConnRef,
        take_debt: impl FnOnce() -> Option<Debt>,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let storage = self.storage();
        if storage.waiting.len() >= PRIVATE_SETS_WAITING {
            return false;
        }
        let debt = take_debt();
        storage.waiting.push_back(WaitingSet { set, conn, debt });
        if storage.waiting.len() == 1 {
            self.read_storage(cx);
        }
        true
    }

    fn read_storage(&mut self, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let read = move || store.private_sizes(&name);
        let map = |read| OwnMsg::StorageRead(read).into();
        if cx.blocking(&self.home.reads, read, map).is_err() {
            let overloaded = Err(StoreError::Unavailable("too many reads wait".to_owned()));
            self.storage_read(overloaded, cx);
        }
    }

    /// It is known what there is: the sets that waited are carried out, or refused if it could not
    /// be read.
    pub(super) fn storage_read(&mut self, read: StorageRead, cx: &mut Context<'_, UserMsg>) {
        let Some(requests) = &mut self.requests else {
            return;
        };
        let waiting = std::mem::take(&mut requests.storage.waiting);
        if let Ok(sizes) = read {
            self.storage().learn(sizes);
        }
        // Each by itself: if it cannot be made durable, its own client is told so.
        for set in waiting {
            let again = OwnMsg::SetAgain(set).into();
            if let Err(error) = cx.send_priority(cx.myself(), again)
                && let UserMsg::Own(own) = error.into_inner()
                && let Some(OwnMsg::SetAgain(set)) = own.take()
            {
                self.set_again(set, cx);
            }
        }
    }

    /// A set that waited is carried out, as if it came now.
    pub(super) fn set_again(&mut self, waited: WaitingSet, cx: &mut Context<'_, UserMsg>) {
        let WaitingSet {
            set,
            conn,
            mut debt,
        } = waited;
        let Some(session) = self.sessions.iter().find(|one| one.conn == conn) else {
            return;
        };
        if !self.is_registered() {
            return;
        }
        let link = session.link().unwrap_or(conn);
        let is_counted = session.managed.is_some();
        self.comes_from(Origin::Session(OwnStanza {
            conn,
            link,
            is_counted,
            frame: set.clone(),
        }));
        let answer = private_storage::set_now(self, (&set, conn), || debt.take(), cx);
        if let Some(reply) = crate::iq::reply_of(&set, answer) {
            self.write_frame(conn, &reply, cx);
        }
        if let Some(debt) = debt {
            // It comes back as that of every stanza does.
            debt.forgive();
            self.emit(Effect::Credit(link), cx);
        }
    }

    /// The state in memory was replaced by what the store has.
    pub(super) fn forget_storage(&mut self) {
        if let Some(requests) = &mut self.requests {
            requests.storage.sizes = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ("urn:x".to_owned(), name.to_owned())
    }

    #[test]
    fn the_total_is_bounded_and_less_is_always_taken() {
        let mut storage = Storage::default();
        assert!(!storage.replace(vec![(key("a"), 1)], 1_000), "not known");
        storage.learn(vec![("urn:x".to_owned(), "a".to_owned(), 100)]);
        let of_a = cost(&key("a"), 100);
        assert_eq!(storage.total, of_a);
        let max = 2 * of_a;
        assert!(storage.replace(vec![(key("b"), 100)], max));
        assert!(!storage.replace(vec![(key("c"), 1)], max));
        assert_eq!(storage.total, max);
        assert!(storage.replace(vec![(key("b"), 50)], max));
        assert!(!storage.replace(vec![(key("b"), 50), (key("a"), 151)], max));
        assert!(storage.replace(vec![(key("b"), 50), (key("a"), 150)], max));
        assert!(storage.replace(vec![(key("a"), 149)], 0), "a lowered bound");
        assert_eq!(storage.total, max - 1);
        let twice = vec![(key("d"), 1), (key("d"), 2)];
        assert!(storage.replace(twice, 10 * max));
        assert_eq!(storage.total, max - 1 + cost(&key("d"), 2), "one element");
    }
}
