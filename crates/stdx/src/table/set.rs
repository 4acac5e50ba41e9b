//! A set: rows found by their key, in no order.

use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

use super::Table;

/// A shared set of rows, each a key and a value. See the [module](super).
pub type Set<K, V, S = RandomState> = Table<HashTable<(K, V)>, S>;

impl<K: Hash + Eq, V, S: BuildHasher> Set<K, V, S> {
    /// Shows every row as all were at one moment. Writers wait meanwhile.
    pub fn for_each(&self, mut show: impl FnMut(&K, &V)) {
        for inner in self.parts.read_all() {
            inner.rows.iter().for_each(|(key, value)| show(key, value));
        }
    }
}
