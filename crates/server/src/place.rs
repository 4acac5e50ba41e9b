//! Where an entity lives: address → slot → range → shard. The one place that decides it, so that a
//! cluster can later put a range map behind the same function.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use actor::ShardId;
use store::{RangeId, SlotKey};

/// The placement of one node: every range is at home on one of its shards.
#[derive(Clone, Debug)]
pub struct Place {
    key: SlotKey,
    shards: u16,
    has_woken: Arc<AtomicBool>,
}

impl Place {
    /// `key` is the one stored with the data; `shards` is at least 1.
    pub fn new(key: SlotKey, shards: u16) -> Self {
        assert!(shards > 0, "a node has at least one shard");
        Place {
            key,
            shards,
            has_woken: Arc::default(),
        }
    }

    /// Whether everybody whose sessions outlived the last process is there. Before, who is not
    /// loaded may be online all the same.
    pub fn has_woken(&self) -> bool {
        self.has_woken.load(Ordering::Acquire)
    }

    /// Everybody is.
    pub(crate) fn set_woken(&self) {
        self.has_woken.store(true, Ordering::Release);
    }

    /// The keyed hash.
    pub fn slots(&self) -> SlotKey {
        self.key
    }

    /// The range that holds a bare address.
    pub fn range(&self, bare: &str) -> RangeId {
        self.key.slot(bare).range()
    }

    /// The shard where a range is at home.
    pub fn home_of(&self, range: RangeId) -> ShardId {
        ShardId::new(range.index() % self.shards)
    }

    /// The shard where a bare address is at home.
    pub fn shard(&self, bare: &str) -> ShardId {
        self.home_of(self.range(bare))
    }
}
