//! Accepted connections that wait under the rate of new connections. Addresses take turns, so that
//! one that floods waits for itself. Owns the order; deliberately knows no sockets.

use std::collections::{HashMap, VecDeque};

use crate::address::AddressKey;

/// What waits, by address. An address that has none waiting costs nothing.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    by_address: HashMap<AddressKey, VecDeque<T>>,
    /// Every address of `by_address` once, in the order of their turns.
    order: VecDeque<AddressKey>,
    len: usize,
}

impl<T> Turns<T> {
    pub(crate) fn new() -> Turns<T> {
        Turns {
            by_address: HashMap::new(),
            order: VecDeque::new(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn clear(&mut self) {
        *self = Turns::new();
    }

    /// Puts one behind the others of its address.
    pub(crate) fn push(&mut self, address: AddressKey, new: T) {
        let of_address = self.by_address.entry(address).or_default();
        if of_address.is_empty() {
            self.order.push_back(address);
        }
        of_address.push_back(new);
        self.len += 1;
    }

    /// The oldest of the address whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let address = self.order.pop_front()?;
        let of_address = self.by_address.get_mut(&address)?;
        let oldest = of_address.pop_front();
        if of_address.is_empty() {
            self.by_address.remove(&address);
        } else {
            self.order.push_back(address);
        }
        self.len -= usize::from(oldest.is_some());
        oldest
    }

    /// Takes the newest of the address that has the most, if that has more than `share`.
    pub(crate) fn take_from_longest(&mut self, share: usize) -> Option<T> {
        let (_, longest) = self.by_address.iter_mut().max_by_key(|(_, of)| of.len())?;
        if longest.len() <= share.max(1) {
            return None;
        }
        self.len -= 1;
        longest.pop_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> AddressKey {
        AddressKey::of([192, 0, 2, last].into())
    }

    #[test]
    fn addresses_take_turns_and_each_is_first_in_first_out() {
        let mut turns = Turns::new();
        for n in 0..4 {
            turns.push(address(1), n);
        }
        turns.push(address(2), 20);
        turns.push(address(2), 21);
        let order: Vec<i32> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, [0, 20, 1, 21, 2, 3]);
        assert!(turns.is_empty() && turns.by_address.is_empty() && turns.order.is_empty());
    }

    #[test]
    fn the_longest_gives_its_newest_and_keeps_its_share() {
        let mut turns = Turns::new();
        for n in 0..4 {
            turns.push(address(1), n);
        }
        turns.push(address(2), 20);
        assert_eq!(turns.take_from_longest(2), Some(3));
        assert_eq!(turns.take_from_longest(2), Some(2));
        assert_eq!(turns.take_from_longest(2), None);
        assert_eq!(turns.len(), 3);
        // One keeps a place, whatever the share is said to be.
        assert_eq!(turns.take_from_longest(0), Some(1));
        assert_eq!(turns.take_from_longest(0), None);
        let order: Vec<i32> = std::iter::from_fn(|| turns.pop()).collect();
        assert_eq!(order, [0, 20]);
    }
}
