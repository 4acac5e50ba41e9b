//! What a table needs of the rows in one of its partitions, for hash tables and for trees.
//!
//! Owns the two kinds of rows. Deliberately not here: locks, partitions and the bound.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// The rows of one partition. Every hash given here is the one of the key beside it.
pub trait Rows: Default {
    /// What rows are found by.
    type Key: Hash + Eq;
    /// What they hold.
    type Value;

    /// Puts a row in; returns the value that the key had. `rehash` gives the hash of a key.
    fn put(
        &mut self,
        hash: u64,
        key: Self::Key,
        value: Self::Value,
        rehash: impl Fn(&Self::Key) -> u64,
    ) -> Option<Self::Value>;

    /// The number of rows.
    fn count(&self) -> usize;

    /// Takes every row out.
    fn empty(&mut self);
}

/// Rows that are found by a borrowed form of their key, as `str` for `String`.
pub trait Find<Q: ?Sized>: Rows {
    /// The value of a key.
    fn find_value(&self, hash: u64, key: &Q) -> Option<&Self::Value>;

    /// The value of a key, to change it.
    fn find_value_mut(&mut self, hash: u64, key: &Q) -> Option<&mut Self::Value>;

    /// Takes a row out; returns its value.
    fn take(&mut self, hash: u64, key: &Q) -> Option<Self::Value>;
}

impl<K: Hash + Eq, V> Rows for HashTable<(K, V)> {
    type Key = K;
    type Value = V;

    fn put(&mut self, hash: u64, key: K, value: V, rehash: impl Fn(&K) -> u64) -> Option<V> {
        match self.entry(hash, |(k, _)| *k == key, |(k, _)| rehash(k)) {
            Entry::Occupied(mut entry) => Some(std::mem::replace(&mut entry.get_mut().1, value)),
            Entry::Vacant(entry) => {
                entry.insert((key, value));
                None
            }
        }
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn empty(&mut self) {
        self.clear();
    }
}

impl<K: Hash + Eq + Borrow<Q>, V, Q: Eq + ?Sized> Find<Q> for HashTable<(K, V)> {
    fn find_value(&self, hash: u64, key: &Q) -> Option<&V> {
        let row = self.find(hash, |(k, _)| k.borrow() == key);
        row.map(|(_, value)| value)
    }

    fn find_value_mut(&mut self, hash: u64, key: &Q) -> Option<&mut V> {
        let row = self.find_mut(hash, |(k, _)| k.borrow() == key);
        row.map(|(_, value)| value)
    }

    fn take(&mut self, hash: u64, key: &Q) -> Option<V> {
        let entry = self.find_entry(hash, |(k, _)| k.borrow() == key).ok()?;
        let ((_, value), _) = entry.remove();
        Some(value)
    }
}

impl<K: Hash + Ord, V> Rows for BTreeMap<K, V> {
    type Key = K;
    type Value = V;

    fn put(&mut self, _: u64, key: K, value: V, _: impl Fn(&K) -> u64) -> Option<V> {
        self.insert(key, value)
    }

    fn count(&self) -> usize {
        self.len()
    }

    fn empty(&mut self) {
        self.clear();
    }
}

impl<K: Hash + Ord + Borrow<Q>, V, Q: Ord + ?Sized> Find<Q> for BTreeMap<K, V> {
    fn find_value(&self, _: u64, key: &Q) -> Option<&V> {
        self.get(key)
    }

    fn find_value_mut(&mut self, _: u64, key: &Q) -> Option<&mut V> {
        self.get_mut(key)
    }

    fn take(&mut self, _: u64, key: &Q) -> Option<V> {
        self.remove(key)
    }
}
