//! What waits for the clients of each address, on the whole node: output that they have not read,
//! and in a table of its own input that is kept for them. Touched only for connections with much of
//! it, and by steps, so that one lock is cheap enough. Whoever counts acts on the sum.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::address::AddressKey;

/// Bytes are counted in steps of so many.
const STEP: u64 = 16 * 1024;

/// Bytes for each address that has any.
#[derive(Debug, Default)]
pub(crate) struct Unread(Mutex<HashMap<AddressKey, u64>>);

impl Unread {
    /// Changes what is counted for an address; gives the sum.
    fn change(&self, key: AddressKey, before: u64, after: u64) -> u64 {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = table.entry(key).or_default();
        *bytes = *bytes + after - before;
        let sum = *bytes;
        if sum == 0 {
            table.remove(&key);
        }
        sum
    }
}

/// What is counted for one connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    table: Arc<Unread>,
    key: AddressKey,
    bytes: u64,
    /// What somebody else keeps, and the caller of [`Counted::set`] does not see.
    pub(crate) elsewhere: usize,
}

impl Counted {
    pub(crate) fn new(table: Arc<Unread>, key: AddressKey) -> Counted {
        Counted {
            table,
            key,
            bytes: 0,
            elsewhere: 0,
        }
    }

    /// The connection has so many unread bytes now. False if they have become more, and its address
    /// has more than `max` with them.
    pub(crate) fn set(&mut self, bytes: usize, max: u64) -> bool {
        let bytes = (bytes as u64).div_ceil(STEP) * STEP;
        if bytes == self.bytes {
            return true;
        }
        let grows = bytes > self.bytes;
        let sum = self.table.change(self.key, self.bytes, bytes);
        self.bytes = bytes;
        !grows || sum <= max
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.table.change(self.key, self.bytes, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn connections_of_one_address_are_counted_together_until_they_end() {
        let table = Arc::new(Unread::default());
        let of = |n: u32| AddressKey::of(Ipv4Addr::from_bits(n).into());
        let counted = |n: u32| Counted::new(Arc::clone(&table), of(n));
        let (mut one, mut two, mut other) = (counted(1), counted(1), counted(2));
        let max = 4 * STEP;
        assert!(one.set(2 * STEP as usize, max));
        assert!(two.set(STEP as usize + 1, max), "two steps");
        assert!(
            !two.set(2 * STEP as usize + 1, max),
            "one more than there may be"
        );
        assert!(
            two.set(STEP as usize, max),
            "what becomes less is never refused"
        );
        assert!(other.set(4 * STEP as usize, max));
        drop(one);
        assert!(two.set(4 * STEP as usize, max));
        drop((two, other));
        assert!(table.0.lock().unwrap().is_empty());
    }
}
