//! A bounded first-in first-out queue.
//!
//! Owns the bound: a full ring hands the value back instead of growing. It allocates on demand, so
//! an unused ring costs nothing. Deliberately not here: sharing between threads.

use std::collections::VecDeque;

/// A queue that never holds more than its bound.
#[derive(Debug)]
pub struct Ring<T> {
    items: VecDeque<T>,
    bound: usize,
}

impl<T> Ring<T> {
    /// An empty ring for at most `bound` items.
    pub const fn new(bound: usize) -> Self {
        Ring {
            items: VecDeque::new(),
            bound,
        }
    }

    /// Appends `item`.
    ///
    /// # Errors
    /// Gives the item back when the ring is full.
    pub fn try_push(&mut self, item: T) -> Result<(), T> {
        if self.items.len() >= self.bound {
            return Err(item);
        }
        self.items.push_back(item);
        Ok(())
    }

    /// Appends `item`, making room by dropping the oldest, which is returned.
    pub fn push_evicting(&mut self, item: T) -> Option<T> {
        if self.bound == 0 {
            return Some(item);
        }
        let evicted = if self.is_full() {
            self.items.pop_front()
        } else {
            None
        };
        self.items.push_back(item);
        evicted
    }

    /// Takes the oldest item.
    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }

    /// The oldest item.
    pub fn front(&self) -> Option<&T> {
        self.items.front()
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether the bound is reached.
    pub fn is_full(&self) -> bool {
        self.items.len() >= self.bound
    }

    /// The most items it will hold.
    pub fn bound(&self) -> usize {
        self.bound
    }

    /// Items from oldest to newest.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_ring_hands_the_item_back() {
        let mut ring = Ring::new(2);
        assert_eq!(ring.try_push(1), Ok(()));
        assert_eq!(ring.try_push(2), Ok(()));
        assert_eq!(ring.try_push(3), Err(3));
        assert_eq!(ring.push_evicting(4), Some(1));
        assert_eq!(
            (ring.pop(), ring.pop(), ring.pop()),
            (Some(2), Some(4), None)
        );
    }
}
