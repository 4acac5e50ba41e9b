//! Heads in memory while records are applied: of users whose logs moved lately, as of their last
//! entry, so that a user in conversation is not read from the engine for every message. Owns their
//! bound. Only ever holds what follows from what is committed or about to be.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::limits::HEADS_CACHED_BYTES_MAX;
use crate::record::Seq;
use crate::state::Head;

/// A head as of the last entry, with what folding its tail needs.
#[derive(Debug, Default)]
pub struct LiveHead {
    pub(crate) head: Head,
    /// The entries that are not folded; too few if they were not seen being appended.
    pub(crate) tail: Vec<TailEntry>,
    /// The other side of the last entry, with its hash: mostly that of the next one, too.
    pub(crate) peer: Option<(Arc<str>, u64)>,
}

/// What recognises and finds an entry.
#[derive(Debug)]
pub(crate) struct TailEntry {
    /// [`crate::SlotKey::peer`] of the other side.
    pub(crate) peer: u64,
    pub(crate) source: Seq,
    pub(crate) origin: u64,
    pub(crate) seq: Seq,
    pub(crate) at: i64,
    pub(crate) is_archived: bool,
}

/// Bytes assumed for a place in the map and its allocations.
const OVERHEAD_BYTES: usize = 64;

impl LiveHead {
    fn bytes(&self, key: &[u8]) -> usize {
        let head = &self.head;
        let status = head.last.as_ref().map_or(0, |(_, status)| status.len());
        let lists = size_of_val(&*head.requeued)
            + size_of_val(&*head.cursors)
            + size_of_val(&*head.lagging);
        let tail = self.tail.capacity() * size_of::<TailEntry>();
        size_of::<LiveHead>() + key.len() + status + lists + tail + OVERHEAD_BYTES
    }
}

/// Heads by their keys.
#[derive(Default)]
pub(crate) struct Heads {
    /// The place of one that was taken is kept: it comes back at once.
    map: FxHashMap<Vec<u8>, Option<LiveHead>>,
    bytes: usize,
}

impl Heads {
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<LiveHead> {
        let head = self.map.get_mut(key)?.take()?;
        self.bytes -= head.bytes(key);
        Some(head)
    }

    /// Remembers a head that was taken, and forgets all others if there are too many.
    pub(crate) fn put(&mut self, key: &[u8], head: LiveHead) {
        if self.bytes >= HEADS_CACHED_BYTES_MAX {
            self.clear();
        }
        self.bytes += head.bytes(key);
        match self.map.get_mut(key) {
            Some(place) => *place = Some(head),
            None => drop(self.map.insert(key.to_vec(), Some(head))),
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Heads::default();
    }
}
