//! Mailboxes as lists in an arena that all actors of one message type share.
//!
//! Owns the nodes that messages and timers wait in. An idle mailbox is two empty list heads and
//! owns no memory; a node that was freed last is reused first, while it is still in the cache.
//! Deliberately not here: bounds, and who runs when.

use std::any::Any;

use stdx::wheel::TimerKey;

use crate::types::Signal;

const CHUNK: usize = 64;
pub(crate) const NONE: u32 = u32::MAX;

/// What waits in a mailbox.
pub(crate) enum Item<M> {
    /// Sent by somebody: redelivered if an entity ends before it is handled.
    Msg(M),
    /// A timer or an answer: concerns this incarnation alone.
    Own(M),
    Signal(Box<Signal>),
    /// A blocking actor comes back from its pool.
    Resume(Box<dyn Any + Send>),
}

pub(crate) struct Node<M> {
    item: Option<Item<M>>,
    next: u32,
    previous: u32,
    timer: TimerKey,
}

pub(crate) struct Arena<M> {
    chunks: Vec<Vec<Node<M>>>,
    free: u32,
    used: u32,
    live: u32,
}

impl<M> Arena<M> {
    pub(crate) fn new() -> Self {
        Arena {
            chunks: Vec::new(),
            free: NONE,
            used: 0,
            live: 0,
        }
    }

    fn node(&mut self, index: u32) -> Option<&mut Node<M>> {
        self.chunks
            .get_mut(index as usize / CHUNK)?
            .get_mut(index as usize % CHUNK)
    }

    fn add(&mut self, item: Item<M>) -> u32 {
        self.live += 1;
        let index = self.free;
        if let Some(node) = self.node(index) {
            let next = std::mem::replace(&mut node.next, NONE);
            node.previous = NONE;
            node.item = Some(item);
            self.free = next;
            return index;
        }
        let index = self.used;
        self.used += 1;
        if (index as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let node = Node {
            item: Some(item),
            next: NONE,
            previous: NONE,
            timer: TimerKey::DEAD,
        };
        self.chunks[index as usize / CHUNK].push(node);
        index
    }

    fn release(&mut self, index: u32) -> Option<Item<M>> {
        let free = self.free;
        let node = self.node(index)?;
        let item = node.item.take()?;
        node.next = free;
        self.free = index;
        self.live -= 1;
        Some(item)
    }

    /// Gives memory back after a peak, once nothing waits.
    pub(crate) fn tidy(&mut self) {
        if self.live == 0 && self.chunks.len() > 1 {
            self.chunks.truncate(1);
            self.chunks.shrink_to_fit();
            self.chunks[0].clear();
            (self.free, self.used) = (NONE, 0);
        }
    }

    /// Puts a timer's message into the list of its actor's timers.
    pub(crate) fn add_timer(&mut self, head: &mut u32, item: Item<M>) -> u32 {
        let index = self.add(item);
        let old = std::mem::replace(head, index);
        if let Some(node) = self.node(old) {
            node.previous = index;
        }
        if let Some(node) = self.node(index) {
            node.next = old;
        }
        index
    }

    pub(crate) fn set_timer_key(&mut self, index: u32, key: TimerKey) {
        if let Some(node) = self.node(index) {
            node.timer = key;
        }
    }

    /// Takes a timer's message out of the list of its actor's timers.
    pub(crate) fn take_timer(&mut self, head: &mut u32, index: u32) -> Option<Item<M>> {
        let (next, previous) = self.node(index).map(|node| (node.next, node.previous))?;
        if let Some(node) = self.node(next) {
            node.previous = previous;
        }
        match self.node(previous) {
            Some(node) => node.next = next,
            None => *head = next,
        }
        self.release(index)
    }

    /// Takes any one timer: its key in the wheel and its message.
    pub(crate) fn pop_timer(&mut self, head: &mut u32) -> Option<(TimerKey, Item<M>)> {
        let index = *head;
        let key = self.node(index)?.timer;
        Some((key, self.take_timer(head, index)?))
    }
}

/// A first-in first-out list of items in an [`Arena`].
#[derive(Clone, Copy)]
pub(crate) struct Lane {
    head: u32,
    tail: u32,
    len: u32,
}

impl Lane {
    pub(crate) const EMPTY: Lane = Lane {
        head: NONE,
        tail: NONE,
        len: 0,
    };

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn push<M>(&mut self, arena: &mut Arena<M>, item: Item<M>) {
        let index = arena.add(item);
        match arena.node(self.tail) {
            Some(node) => node.next = index,
            None => self.head = index,
        }
        self.tail = index;
        self.len += 1;
    }

    pub(crate) fn pop<M>(&mut self, arena: &mut Arena<M>) -> Option<Item<M>> {
        let index = self.head;
        self.head = arena.node(index)?.next;
        if self.head == NONE {
            self.tail = NONE;
        }
        self.len -= 1;
        arena.release(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::collections::VecDeque;

    proptest! {
        /// Several lanes in one arena behave as independent queues, and timers as sets.
        #[test]
        fn lanes_agree_with_queues(ops in proptest::collection::vec((0u8..5, 0usize..4), 0..400)) {
            let mut arena = Arena::new();
            let mut lanes = [Lane::EMPTY; 4];
            let mut timers = [NONE; 4];
            let mut model: [VecDeque<u32>; 4] = Default::default();
            let mut waiting: [Vec<(u32, u32)>; 4] = Default::default();
            for (n, (op, which)) in (0u32..).zip(ops) {
                match op {
                    0 | 1 => {
                        lanes[which].push(&mut arena, Item::Msg(n));
                        model[which].push_back(n);
                    }
                    2 => {
                        let popped = match lanes[which].pop(&mut arena) {
                            Some(Item::Msg(n)) => Some(n),
                            _ => None,
                        };
                        prop_assert_eq!(popped, model[which].pop_front());
                    }
                    3 => {
                        let index = arena.add_timer(&mut timers[which], Item::Own(n));
                        waiting[which].push((index, n));
                    }
                    _ => if !waiting[which].is_empty() {
                        let at = n as usize % waiting[which].len();
                        let (index, n) = waiting[which].swap_remove(at);
                        let taken = arena.take_timer(&mut timers[which], index);
                        prop_assert!(matches!(taken, Some(Item::Own(m)) if m == n));
                    },
                }
                prop_assert_eq!(lanes[which].len(), model[which].len());
                let live: usize = model.iter().map(VecDeque::len).sum::<usize>()
                    + waiting.iter().map(Vec::len).sum::<usize>();
                prop_assert_eq!(arena.live as usize, live);
                arena.tidy();
            }
            for which in 0..4 {
                let mut left = Vec::new();
                while let Some((_, Item::Own(n))) = arena.pop_timer(&mut timers[which]) {
                    left.push(n);
                }
                let mut expected: Vec<u32> = waiting[which].iter().map(|(_, n)| *n).collect();
                left.sort_unstable();
                expected.sort_unstable();
                prop_assert_eq!(left, expected);
            }
        }
    }
}
