//! Which worker a vertex belongs to.
//!
//! Owns the hash in two levels: first the group, then the worker inside. With one group it is the
//! plain hash over all workers. Deliberately not here: where a worker runs.

use serde::{Deserialize, Serialize};

/// Scatters the bits of a vertex (the finalizer of splitmix64).
pub(crate) fn mix(x: u32) -> u64 {
    let mut z = u64::from(x).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// How the space is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The first worker of each group, and the number of all workers at the end.
    bounds: Vec<u32>,
}

impl Layout {
    /// Groups with so many workers each.
    ///
    /// # Panics
    /// Without a group, or with an empty one.
    pub fn new(groups: &[u32]) -> Self {
        assert!(!groups.is_empty(), "there is at least one group");
        assert!(groups.iter().all(|size| *size > 0), "no group is empty");
        let mut bounds = vec![0];
        for size in groups {
            bounds.push(bounds[bounds.len() - 1] + size);
        }
        Layout { bounds }
    }

    /// The number of workers.
    pub fn workers(&self) -> u32 {
        self.bounds[self.bounds.len() - 1]
    }

    /// The number of groups.
    pub fn groups(&self) -> u32 {
        self.bounds.len() as u32 - 1
    }

    /// The group of a worker.
    pub fn group_of(&self, worker: u32) -> u32 {
        self.bounds.partition_point(|first| *first <= worker) as u32 - 1
    }

    /// The first worker of a group, or the number of workers if there is no such group.
    pub fn first_of(&self, group: u32) -> u32 {
        let first = self.bounds.get(group as usize);
        first.copied().unwrap_or(self.workers())
    }

    /// The worker that owns a vertex.
    pub fn owner(&self, x: u32) -> u32 {
        let hash = mix(x) as u32;
        // Groups have shares of the space as large as their numbers of workers, so that both levels
        // at once are one remainder.
        hash % self.workers()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_has_its_share() {
        let layout = Layout::new(&[3, 1, 4]);
        assert_eq!((layout.workers(), layout.groups()), (8, 3));
        let groups: Vec<u32> = (0..8).map(|worker| layout.group_of(worker)).collect();
        assert_eq!(groups, [0, 0, 0, 1, 2, 2, 2, 2]);
        let mut counts = [0u32; 8];
        (0..80_000).for_each(|x| counts[layout.owner(x) as usize] += 1);
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)));
    }
}
