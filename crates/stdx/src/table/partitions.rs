//! The partitions of a table: their locks, and the room that they share.
//!
//! Owns the order of locks and the bound on rows. Deliberately not here: rows.

use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::TableOptions;

/// The share of the room of a table that partitions may hold unused.
const SLACK: usize = 16;

/// One partition, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Part<T>(RwLock<Inner<T>>);

#[derive(Debug)]
pub(super) struct Inner<T> {
    pub(super) rows: T,
    /// New rows that this partition may take without asking.
    allowance: usize,
}

#[derive(Debug)]
pub(super) struct Partitions<T> {
    parts: Box<[Part<T>]>,
    /// Room that no partition holds.
    room: AtomicUsize,
    /// Rows' room that a partition takes at once.
    portion: usize,
}

impl<T: Default> Partitions<T> {
    pub(super) fn new(options: TableOptions) -> Self {
        let count = options.partitions.clamp(1, 1 << 16).next_power_of_two();
        let part = |_| {
            Part(RwLock::new(Inner {
                rows: T::default(),
                allowance: 0,
            }))
        };
        Partitions {
            parts: (0..count).map(part).collect(),
            room: AtomicUsize::new(options.rows_max),
            portion: (options.rows_max / (count * SLACK)).max(1),
        }
    }
}

impl<T> Partitions<T> {
    pub(super) fn count(&self) -> usize {
        self.parts.len()
    }

    /// The hash of a key and its partition.
    pub(super) fn place<K: Hash + ?Sized>(
        &self,
        hasher: &impl BuildHasher,
        key: &K,
    ) -> (u64, usize) {
        let hash = hasher.hash_one(key);
        // Hash tables use the lowest and the highest bits.
        (hash, (hash >> 32) as usize & (self.parts.len() - 1))
    }

    pub(super) fn read(&self, part: usize) -> RwLockReadGuard<'_, Inner<T>> {
        let lock = &self.parts[part].0;
        lock.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self, part: usize) -> RwLockWriteGuard<'_, Inner<T>> {
        let lock = &self.parts[part].0;
        lock.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// All partitions as they are at one moment.
    pub(super) fn read_all(&self) -> Vec<RwLockReadGuard<'_, Inner<T>>> {
        (0..self.count()).map(|part| self.read(part)).collect()
    }

    /// These partitions, in ascending order and each once: the order of every call.
    pub(super) fn write_some(&self, sorted: &[usize]) -> Vec<RwLockWriteGuard<'_, Inner<T>>> {
        sorted.iter().map(|part| self.write(*part)).collect()
    }

    /// Makes room for new rows in a partition; false if there is not enough.
    pub(super) fn reserve(&self, inner: &mut Inner<T>, rows: usize) -> bool {
        if inner.allowance >= rows {
            inner.allowance -= rows;
            return true;
        }
        let missing = rows - inner.allowance;
        let wanted = missing.max(self.portion);
        let mut taken = 0;
        let take = |room: usize| {
            taken = room.min(wanted);
            (taken >= missing).then(|| room - taken)
        };
        let order = Ordering::Relaxed;
        if self.room.fetch_update(order, order, take).is_err() {
            return false;
        }
        inner.allowance = inner.allowance + taken - rows;
        true
    }

    /// Gives room of removed rows back.
    pub(super) fn release(&self, inner: &mut Inner<T>, rows: usize) {
        inner.allowance += rows;
        if inner.allowance >= 2 * self.portion {
            let surplus = inner.allowance - self.portion;
            inner.allowance = self.portion;
            self.room.fetch_add(surplus, Ordering::Relaxed);
        }
    }
}
