//! Changes not yet committed, laid over a reader: what a group commit is built in. Owns reading its
//! own writes, taking back one append without the others, and merging both layers in a scan.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use byteview::ByteView;
use stdx::Level;

use crate::apply::Txn;
use crate::engine::{Batch, Change, Reader, Space, Visit};
use crate::error::StoreError;
use crate::heads::{Heads, LiveHead};
use crate::log::derive_head;
use crate::slot::SlotKey;

type Changes = BTreeMap<ByteView, Option<ByteView>>;

/// What a key of the current append held before.
type Before = (Space, ByteView, Option<Option<ByteView>>);

/// Bookkeeping cost assumed per change, in bytes, when a group's size is estimated.
const CHANGE_OVERHEAD_BYTES: usize = 64;

/// Pending changes over a base.
pub(crate) struct Overlay<'a> {
    base: &'a dyn Reader,
    changes: [Changes; Space::ALL.len()],
    /// Heads as they follow from `changes` and the base.
    heads: Heads,
    /// What each key of the current append held before, newest last.
    undo: Vec<Before>,
    bytes: usize,
    /// Values are written in its forms.
    level: Level,
}

impl<'a> Overlay<'a> {
    pub(crate) fn new(base: &'a dyn Reader) -> Overlay<'a> {
        Overlay {
            base,
            changes: Default::default(),
            heads: Heads::default(),
            undo: Vec::new(),
            bytes: 0,
            level: Level::default(),
        }
    }

    /// An overlay that starts with `changes`, in order.
    pub(crate) fn over(base: &'a dyn Reader, changes: impl Iterator<Item = Change>) -> Overlay<'a> {
        let mut overlay = Overlay::new(base);
        for change in changes {
            overlay.changes[change.space.index()].insert(change.key, change.value);
        }
        overlay
    }

    /// About how much memory the changes take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps what was changed since the last call.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Takes back what was changed since the last [`Overlay::keep`].
    pub(crate) fn take_back(&mut self) {
        while let Some((space, key, before)) = self.undo.pop() {
            match before {
                Some(before) => self.changes[space.index()].insert(key, before),
                None => self.changes[space.index()].remove(&key),
            };
        }
        // Those that moved with it follow from what is left.
        self.heads.clear();
    }

    /// Starts with heads that are known from earlier groups.
    pub(crate) fn with_heads(mut self, heads: Heads) -> Self {
        self.heads = heads;
        self
    }

    /// Values are written in the forms of this level.
    pub(crate) fn at(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// The heads that are known now.
    pub(crate) fn take_heads(&mut self) -> Heads {
        std::mem::take(&mut self.heads)
    }

    /// All changes as one batch, by space and key.
    pub(crate) fn into_batch(self) -> Batch {
        let mut batch = Batch::with_capacity(self.changes.iter().map(BTreeMap::len).sum());
        for (space, changes) in Space::ALL.into_iter().zip(self.changes) {
            let changed = |(key, value)| Change { space, key, value };
            batch.extend(changes.into_iter().map(changed));
        }
        batch
    }

    fn change(&mut self, space: Space, key: ByteView, value: Option<Vec<u8>>) {
        let value = value.map(ByteView::from);
        self.bytes += key.len() + value.as_deref().map_or(0, <[u8]>::len) + CHANGE_OVERHEAD_BYTES;
        let before = self.changes[space.index()].insert(key.clone(), value);
        self.undo.push((space, key, before));
    }

    /// Scans the base with the changes merged in.
    pub(crate) fn scan_merged(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        if !end.is_empty() && start >= end {
            return Ok(());
        }
        let upper = if end.is_empty() {
            Bound::Unbounded
        } else {
            Bound::Excluded(end)
        };
        let mut changes = self.changes[space.index()]
            .range::<[u8], _>((Bound::Included(start), upper))
            .peekable();
        let mut stopped = false;
        self.base.scan(space, start, end, &mut |key, value| {
            while let Some((changed, new)) = changes.next_if(|(k, _)| ***k < *key) {
                if let Some(new) = new
                    && visit(changed, new).is_break()
                {
                    stopped = true;
                    return ControlFlow::Break(());
                }
            }
            let flow = match changes.next_if(|(k, _)| ***k == *key) {
                Some((_, Some(new))) => visit(key, new),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            };
            stopped = flow.is_break();
            flow
        })?;
        if stopped {
            return Ok(());
        }
        for (key, new) in changes {
            if let Some(new) = new
                && visit(key, new).is_break()
            {
                break;
            }
        }
        Ok(())
    }
}

impl Txn for Overlay<'_> {
    fn level(&self) -> Level {
        self.level
    }

    fn get(&mut self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        match self.changes[space.index()].get(key) {
            Some(changed) => Ok(changed.as_deref().map(<[u8]>::to_vec)),
            None => self.base.get(space, key),
        }
    }

    fn put(&mut self, space: Space, key: impl Into<ByteView>, value: Vec<u8>) {
        self.change(space, key.into(), Some(value));
    }

    fn take_head(
        &mut self,
        slots: &SlotKey,
        user: &str,
        key: &[u8],
    ) -> Result<Option<LiveHead>, StoreError> {
        if let Some(head) = self.heads.take(key) {
            return Ok(Some(head));
        }
        let Some(written) = self.get(Space::Head, key)? else {
            return Ok(None);
        };
        let scan = |start: &[u8], end: &[u8], visit: Visit<'_>| {
            self.scan_merged(Space::Log, start, end, visit)
        };
        let head = derive_head(slots, user, &written, scan)?;
        let tail = Vec::new();
        let peer = None;
        Ok(Some(LiveHead { head, tail, peer }))
    }

    fn put_head(&mut self, key: &[u8], head: LiveHead) {
        self.heads.put(key, head);
    }

    fn delete(&mut self, space: Space, key: Vec<u8>) {
        self.change(space, key.into(), None);
    }

    fn scan(
        &mut self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        self.scan_merged(space, start, end, visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::memory::MemoryEngine;
    use crate::store::Durability;

    fn put(key: &[u8], value: &[u8]) -> Change {
        Change {
            space: Space::Log,
            key: key.into(),
            value: Some(value.into()),
        }
    }

    fn keys(overlay: &Overlay<'_>, start: &[u8], end: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut seen = Vec::new();
        overlay
            .scan_merged(Space::Log, start, end, &mut |key, value| {
                seen.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
        seen
    }

    /// Goal: a scan sees both layers in key order, deletions hidden, replacements once.
    #[test]
    fn scan_merges_base_and_changes() {
        let base = MemoryEngine::new();
        base.commit(
            vec![put(b"b", b"1"), put(b"d", b"1"), put(b"e", b"1")],
            Durability::Memory,
        )
        .unwrap();
        let mut overlay = Overlay::new(&base);
        overlay.put(Space::Log, b"a".to_vec(), b"2".to_vec());
        overlay.put(Space::Log, b"d".to_vec(), b"2".to_vec());
        overlay.delete(Space::Log, b"e".to_vec());
        overlay.put(Space::Log, b"f".to_vec(), b"2".to_vec());
        let pair = |k: &str, v: &str| (k.as_bytes().to_vec(), v.as_bytes().to_vec());
        assert_eq!(
            keys(&overlay, b"", b""),
            [
                pair("a", "2"),
                pair("b", "1"),
                pair("d", "2"),
                pair("f", "2")
            ]
        );
        assert_eq!(keys(&overlay, b"b", b"f"), [pair("b", "1"), pair("d", "2")]);
        assert_eq!(keys(&overlay, b"f", b"a"), []);
    }

    /// Goal: taking back one append restores exactly what the appends before it had made.
    #[test]
    fn take_back_undoes_only_the_current_append() {
        let base = MemoryEngine::new();
        let mut overlay = Overlay::new(&base);
        overlay.put(Space::Head, b"k".to_vec(), b"1".to_vec());
        overlay.keep();
        overlay.put(Space::Head, b"k".to_vec(), b"2".to_vec());
        overlay.delete(Space::Head, b"k".to_vec());
        overlay.put(Space::Head, b"new".to_vec(), b"2".to_vec());
        overlay.take_back();
        let batch = overlay.into_batch();
        assert_eq!(batch.len(), 1);
        assert_eq!(
            (&*batch[0].key, batch[0].value.as_deref()),
            (&b"k"[..], Some(&b"1"[..]))
        );
    }
}
