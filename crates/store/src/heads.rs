//! Heads in memory while records are applied: of users whose logs moved lately, as of their last
//! entry, so that a user in conversation is not read from the engine for every message. Owns their
//! bound. Only ever holds what follows from what is committed or about to be.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use stdx::{Key, Slab};

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
    /// Where each is. The place of one that was taken is kept: it comes back at once.
    map: FxHashMap<Vec<u8>, Key>,
    /// Not in the map itself: each of its places would have the size of a head, and up to half of
    /// them are empty.
    heads: Slab<LiveHead>,
    bytes: usize,
}

impl Heads {
    pub(crate) fn take(&mut self, key: &[u8]) -> Option<LiveHead> {
        let head = self.heads.remove(*self.map.get(key)?)?;
        self.bytes -= head.bytes(key);
        Some(head)
    }

    /// Remembers a head that was taken, and forgets all others if there are too many.
    pub(crate) fn put(&mut self, key: &[u8], head: LiveHead) {
        if self.bytes >= HEADS_CACHED_BYTES_MAX {
            self.clear();
        }
        self.bytes += head.bytes(key);
        let place = self.heads.insert(head);
        match self.map.get_mut(key) {
            Some(old) => *old = place,
            None => drop(self.map.insert(key.to_vec(), place)),
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Heads::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(number: u64) -> LiveHead {
        let mut live = LiveHead::default();
        live.head.log.next_seq = number;
        live
    }

    #[test]
    fn a_head_is_taken_once_and_comes_back_to_its_place() {
        let mut heads = Heads::default();
        assert!(heads.take(b"juliet").is_none());
        heads.put(b"juliet", head(1));
        heads.put(b"romeo", head(2));
        assert_eq!(
            heads.take(b"juliet").map(|live| live.head.log.next_seq),
            Some(1)
        );
        assert!(heads.take(b"juliet").is_none());
        heads.put(b"nurse", head(3));
        heads.put(b"juliet", head(4));
        let mut numbers = ["juliet", "nurse", "romeo"].map(|user| {
            let live = heads.take(user.as_bytes()).expect("it is there");
            live.head.log.next_seq
        });
        numbers.sort_unstable();
        assert_eq!(numbers, [2, 3, 4]);
        assert_eq!((heads.bytes, heads.heads.len()), (0, 0));
    }

    /// Goal: with too many all are forgotten, and none is kept that nobody finds.
    #[test]
    fn too_many_are_forgotten() {
        let mut heads = Heads::default();
        let key = |number: u64| number.to_be_bytes();
        let each = head(0).bytes(&key(0));
        let most = HEADS_CACHED_BYTES_MAX.div_ceil(each) as u64;
        for number in 0..=most {
            heads.put(&key(number), head(number));
            assert_eq!(heads.map.len(), heads.heads.len());
        }
        assert_eq!(heads.heads.len(), 1);
        assert!(heads.take(&key(0)).is_none());
        assert!(heads.take(&key(most)).is_some());
    }
}
