//! What the clients of each address have under way on the whole node: questions that the store is
//! asked for them, and bytes of answers that their connections have not taken. Touched by such
//! questions alone, never by a message, so that striped locks are cheap enough. Whoever asks acts
//! on the answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use net::AddressKey;

use crate::limits::ARCHIVE_PAGE_BYTES;

const STRIPES: usize = 64;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    questions: u32,
    /// Of answers that have been given.
    bytes: u64,
}

impl Used {
    /// Whether one more question may be asked. Each counts as the largest page while it has no
    /// answer, so that answers cannot exceed the bound together.
    fn has_room(self, (questions_max, bytes_max): (u32, u64)) -> bool {
        let expected = u64::from(self.questions) * ARCHIVE_PAGE_BYTES as u64;
        self.questions < questions_max && self.bytes.saturating_add(expected) < bytes_max
    }
}

/// See the module. Holds those addresses alone that have something under way: no more than there
/// are connections.
#[derive(Debug)]
pub(crate) struct Budgets {
    stripes: Vec<Mutex<HashMap<AddressKey, Used>>>,
}

impl Default for Budgets {
    fn default() -> Self {
        Budgets {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Budgets {
    fn with<T>(&self, key: AddressKey, act: impl FnOnce(&mut Used) -> T) -> T {
        let at = key.to_bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        let stripe = &self.stripes[at as usize % STRIPES];
        let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
        let used = stripe.entry(key).or_default();
        let result = act(used);
        if *used == Used::default() {
            stripe.remove(&key);
        }
        result
    }

    /// A client at an address is about to have a question asked; without an address nothing is
    /// counted. `max` is of questions and of bytes. `None` if the address has reached its budget.
    pub(crate) fn ask(
        self: &Arc<Self>,
        from: Option<AddressKey>,
        max: (u32, u64),
    ) -> Option<Charge> {
        let Some(key) = from else {
            return Some(Charge(None));
        };
        let may = self.with(key, |used| {
            let may = used.has_room(max);
            used.questions += u32::from(may);
            may
        });
        may.then(|| {
            Charge(Some(Charged {
                budgets: Arc::clone(self),
                key,
                is_question: true,
                bytes: 0,
            }))
        })
    }
}

/// What is counted for one question of an address, until this is dropped.
#[derive(Debug)]
pub(crate) struct Charge(Option<Charged>);

#[derive(Debug)]
struct Charged {
    budgets: Arc<Budgets>,
    key: AddressKey,
    is_question: bool,
    bytes: u64,
}

impl Charge {
    /// The question was answered with so many bytes, which its connection has not taken.
    pub(crate) fn answered(&mut self, bytes: u64) {
        self.set(false, bytes);
    }

    /// At most so many of them are left; those that are.
    pub(crate) fn left(&mut self, bytes: u64) -> u64 {
        let Some(charged) = &self.0 else { return 0 };
        let left = charged.bytes.min(bytes);
        if left < charged.bytes {
            self.set(false, left);
        }
        left
    }

    /// Whether anything is left of it.
    pub(crate) fn is_owed(&self) -> bool {
        let charged = self.0.as_ref();
        charged.is_some_and(|charged| charged.is_question || charged.bytes > 0)
    }

    fn set(&mut self, is_question: bool, bytes: u64) {
        let Some(charged) = &mut self.0 else { return };
        let (had_question, had_bytes) = (charged.is_question, charged.bytes);
        (charged.is_question, charged.bytes) = (is_question, bytes);
        charged.budgets.with(charged.key, |used| {
            used.questions = used.questions + u32::from(is_question) - u32::from(had_question);
            used.bytes = used.bytes + bytes - had_bytes;
        });
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(false, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Budgets {
        fn is_empty(&self) -> bool {
            let mut stripes = self.stripes.iter();
            stripes.all(|stripe| stripe.lock().unwrap().is_empty())
        }
    }

    const PAGE: u64 = ARCHIVE_PAGE_BYTES as u64;

    fn key(n: u32) -> Option<AddressKey> {
        Some(AddressKey::of(std::net::Ipv4Addr::from_bits(n + 1).into()))
    }

    #[test]
    fn an_address_has_so_many_questions_under_way_and_others_have_theirs() {
        let (budgets, max) = (Arc::new(Budgets::default()), (2, u64::MAX));
        let first = budgets.ask(key(1), max).expect("room");
        let second = budgets.ask(key(1), max);
        assert!(second.is_some() && budgets.ask(key(1), max).is_none());
        assert!(budgets.ask(key(2), max).is_some(), "another address");
        assert!(budgets.ask(None, max).is_some(), "one that is not counted");
        drop(first);
        assert!(budgets.ask(key(1), max).is_some(), "and gone again");
        drop(second);
        assert!(budgets.is_empty());
    }

    #[test]
    fn answers_count_until_they_are_taken() {
        let (budgets, max) = (Arc::new(Budgets::default()), (9, 2 * PAGE));
        let mut first = budgets.ask(key(1), max).expect("room");
        let second = budgets.ask(key(1), max).expect("room");
        assert!(budgets.ask(key(1), max).is_none(), "two pages are expected");
        first.answered(2 * PAGE);
        drop(second);
        assert!(budgets.ask(key(1), max).is_none(), "nothing was taken");
        assert_eq!(first.left(u64::MAX), 2 * PAGE);
        assert_eq!(first.left(PAGE), PAGE);
        assert!(budgets.ask(key(1), max).is_some());
        assert_eq!(first.left(0), 0);
        assert!(budgets.is_empty());
    }
}
