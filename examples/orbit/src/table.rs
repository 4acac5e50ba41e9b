//! The vertices that a worker knows: a hash table of four bytes a slot.
//!
//! Owns membership and the figures about how full the table is. Deliberately not here: which worker
//! a vertex belongs to (see `route`).

use serde::{Deserialize, Serialize};

use crate::route::mix;

const EMPTY: u32 = u32::MAX;

/// A set of vertices.
#[derive(Clone, Debug)]
pub struct Vertices {
    slots: Box<[u32]>,
    count: usize,
}

/// How full a table is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fill {
    /// Vertices.
    pub size: usize,
    /// Slots.
    pub slots: usize,
    /// Slots that at least one vertex hashes to.
    pub nonempty_slots: usize,
    /// `freq[n]` slots have `n` vertices that hash to them.
    pub freq: Vec<usize>,
}

impl Fill {
    /// The most vertices that hash to one slot.
    pub fn max_freq(&self) -> usize {
        self.freq.len().saturating_sub(1)
    }

    /// Vertices for each slot.
    pub fn fill_deg(&self) -> f64 {
        self.size as f64 / self.slots.max(1) as f64
    }

    /// Vertices for each slot that any hashes to.
    pub fn nonempty_avg_freq(&self) -> f64 {
        self.size as f64 / self.nonempty_slots.max(1) as f64
    }

    /// Adds the figures of another table.
    pub fn add(&mut self, other: &Fill) {
        self.size += other.size;
        self.slots += other.slots;
        self.nonempty_slots += other.nonempty_slots;
        if self.freq.len() < other.freq.len() {
            self.freq.resize(other.freq.len(), 0);
        }
        for (sum, more) in self.freq.iter_mut().zip(&other.freq) {
            *sum += more;
        }
    }
}

impl Vertices {
    /// An empty set with `slots` slots; it grows when seven of eight are taken.
    pub fn new(slots: usize) -> Self {
        Vertices {
            slots: vec![EMPTY; slots.max(2)].into_boxed_slice(),
            count: 0,
        }
    }

    /// The slot that a vertex belongs to.
    fn home(&self, x: u32) -> usize {
        // The upper bits: the lower ones chose the worker.
        ((u128::from(mix(x)) * self.slots.len() as u128) >> 64) as usize
    }

    /// Adds a vertex; false if it was known.
    pub fn insert(&mut self, x: u32) -> bool {
        if (self.count + 1) * 8 > self.slots.len() * 7 {
            self.grow();
        }
        let mut at = self.home(x);
        loop {
            match self.slots[at] {
                EMPTY => break,
                known if known == x => return false,
                _ => {
                    at = if at + 1 == self.slots.len() {
                        0
                    } else {
                        at + 1
                    }
                }
            }
        }
        self.slots[at] = x;
        self.count += 1;
        true
    }

    fn grow(&mut self) {
        let mut larger = Vertices::new(self.slots.len() * 2);
        for x in self.iter() {
            larger.insert(x);
        }
        *self = larger;
    }

    /// The vertices, in no order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.slots.iter().copied().filter(|x| *x != EMPTY)
    }

    /// How many vertices there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    /// How full it is. Takes a byte for each slot while it counts.
    pub fn fill(&self) -> Fill {
        let mut counts = vec![0u8; self.slots.len()];
        for x in self.iter() {
            let count = &mut counts[self.home(x)];
            *count = count.saturating_add(1);
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        let mut freq = vec![0; usize::from(most) + 1];
        for count in counts {
            freq[usize::from(count)] += 1;
        }
        Fill {
            size: self.count,
            slots: self.slots.len(),
            nonempty_slots: self.slots.len() - freq[0],
            freq,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn vertices_agree_with_a_set(
            slots in 0usize..20,
            xs in proptest::collection::vec(0u32..60, 0..100),
        ) {
            let (mut table, mut model) = (Vertices::new(slots), BTreeSet::new());
            for x in xs {
                prop_assert_eq!(table.insert(x), model.insert(x));
            }
            prop_assert_eq!(table.len(), model.len());
            prop_assert_eq!(table.iter().collect::<BTreeSet<_>>(), model);
            let fill = table.fill();
            let weighted: usize = fill.freq.iter().enumerate().map(|(n, slots)| n * slots).sum();
            prop_assert_eq!(weighted, fill.size);
            prop_assert_eq!(fill.freq.iter().sum::<usize>(), fill.slots);
        }
    }
}
