//! A set: rows found by their key, in no order.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::partitions::{Inner, Partitions};
use super::{Full, NotInserted, TableOptions};

type Rows<K, V> = HashTable<(K, V)>;

/// A shared set of rows, each a key and a value. See the [module](super).
///
/// The default hasher resists keys that an attacker chose; for keys that nobody chooses a faster
/// one ([`Set::with_hasher`]) saves some nanoseconds.
pub struct Set<K, V, S = RandomState> {
    parts: Partitions<Rows<K, V>>,
    hasher: S,
}

impl<K, V, S> fmt::Debug for Set<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Set of {} partitions", self.parts.count())
    }
}

impl<K: Hash + Eq, V> Set<K, V> {
    /// An empty set.
    pub fn new(options: TableOptions) -> Self {
        Self::with_hasher(options, RandomState::new())
    }
}

impl<K: Hash + Eq, V, S: BuildHasher> Set<K, V, S> {
    /// An empty set with a hasher of the caller's choice.
    pub fn with_hasher(options: TableOptions, hasher: S) -> Self {
        Set {
            parts: Partitions::new(options),
            hasher,
        }
    }

    // ---- One row -------------------------------------------------------------------------------

    /// What `read` makes of the value of a key, without copying it.
    pub fn with<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (hash, part) = self.parts.place(&self.hasher, key);
        let inner = self.parts.read(part);
        let row = inner.rows.find(hash, |(k, _)| k.borrow() == key);
        row.map(|(_, value)| read(value))
    }

    /// A copy of the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
        V: Clone,
    {
        self.with(key, V::clone)
    }

    /// Whether there is a row of a key.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.with(key, |_| ()).is_some()
    }

    /// Puts a row in; returns the value that the key had.
    ///
    /// # Errors
    /// The row, if the key is new and there is no room.
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Full<(K, V)>> {
        let (hash, part) = self.parts.place(&self.hasher, &key);
        let mut inner = self.parts.write(part);
        if let Some(row) = inner.rows.find_mut(hash, |(k, _)| *k == key) {
            return Ok(Some(std::mem::replace(&mut row.1, value)));
        }
        if !self.parts.reserve(&mut inner, 1) {
            return Err(Full((key, value)));
        }
        let hasher = &self.hasher;
        let rehash = |(k, _): &(K, V)| hasher.hash_one(k);
        inner.rows.insert_unique(hash, (key, value), rehash);
        Ok(None)
    }

    /// Puts a row in if its key is new.
    ///
    /// # Errors
    /// The row, if there is one of this key, or no room.
    pub fn insert_new(&self, key: K, value: V) -> Result<(), NotInserted<(K, V)>> {
        let (hash, part) = self.parts.place(&self.hasher, &key);
        let mut inner = self.parts.write(part);
        if inner.rows.find(hash, |(k, _)| *k == key).is_some() {
            return Err(NotInserted::Exists((key, value)));
        }
        if !self.parts.reserve(&mut inner, 1) {
            return Err(NotInserted::Full((key, value)));
        }
        let hasher = &self.hasher;
        let rehash = |(k, _): &(K, V)| hasher.hash_one(k);
        inner.rows.insert_unique(hash, (key, value), rehash);
        Ok(())
    }

    /// Changes the value of a key in place; what `change` returns, or `None` without such a row.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (hash, part) = self.parts.place(&self.hasher, key);
        let mut inner = self.parts.write(part);
        let row = inner.rows.find_mut(hash, |(k, _)| k.borrow() == key);
        row.map(|(_, value)| change(value))
    }

    /// Takes a row out; returns its value.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let (hash, part) = self.parts.place(&self.hasher, key);
        let mut inner = self.parts.write(part);
        let entry = inner.rows.find_entry(hash, |(k, _)| k.borrow() == key);
        let ((_, value), _) = entry.ok()?.remove();
        self.parts.release(&mut inner, 1);
        Some(value)
    }

    // ---- Many rows at once ---------------------------------------------------------------------

    /// Puts all rows in at one moment; of two with the same key the later stays, and both need room
    /// meanwhile.
    ///
    /// # Errors
    /// All rows, if there is no room for those with new keys; then nothing has changed.
    pub fn insert_all(&self, rows: Vec<(K, V)>) -> Result<(), Full<Vec<(K, V)>>> {
        self.put_all(rows, false).map_err(|error| match error {
            NotInserted::Full(rows) | NotInserted::Exists(rows) => Full(rows),
        })
    }

    /// Puts all rows in at one moment if all their keys are new and different.
    ///
    /// # Errors
    /// All rows, if some key is there or twice among them, or if there is no room; then nothing has
    /// changed.
    pub fn insert_new_all(&self, rows: Vec<(K, V)>) -> Result<(), NotInserted<Vec<(K, V)>>> {
        self.put_all(rows, true)
    }

    fn put_all(&self, rows: Vec<(K, V)>, all_new: bool) -> Result<(), NotInserted<Vec<(K, V)>>> {
        let place = |row: &(K, V)| self.parts.place(&self.hasher, &row.0);
        let places: Vec<(u64, usize)> = rows.iter().map(place).collect();
        let mut sorted: Vec<usize> = places.iter().map(|(_, part)| *part).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut guards = self.parts.write_some(&sorted);
        // Room is made before the first row goes in. A key that is twice among the rows counts
        // twice here; what was too much is given back below.
        let mut new = vec![0; sorted.len()];
        for ((hash, part), (key, _)) in places.iter().zip(&rows) {
            let at = sorted.partition_point(|other| other < part);
            let is_there = guards[at].rows.find(*hash, |(k, _)| k == key).is_some();
            if is_there && all_new {
                return Err(NotInserted::Exists(rows));
            }
            new[at] += usize::from(!is_there);
        }
        if all_new && self.has_twins(&rows, &places) {
            return Err(NotInserted::Exists(rows));
        }
        for at in 0..guards.len() {
            if !self.parts.reserve(&mut guards[at], new[at]) {
                for (inner, new) in guards.iter_mut().zip(&new[..at]) {
                    self.parts.release(inner, *new);
                }
                return Err(NotInserted::Full(rows));
            }
        }
        for ((hash, part), (key, value)) in places.into_iter().zip(rows) {
            let at = sorted.partition_point(|other| *other < part);
            new[at] -= usize::from(self.put(&mut guards[at], hash, key, value));
        }
        for (inner, new) in guards.iter_mut().zip(new) {
            self.parts.release(inner, new);
        }
        Ok(())
    }

    /// Whether two rows have the same key.
    fn has_twins(&self, rows: &[(K, V)], places: &[(u64, usize)]) -> bool {
        let mut seen: HashTable<usize> = HashTable::with_capacity(rows.len());
        for (at, (hash, _)) in places.iter().enumerate() {
            let is_it = |other: &usize| rows[*other].0 == rows[at].0;
            match seen.entry(*hash, is_it, |other| places[*other].0) {
                Entry::Occupied(_) => return true,
                Entry::Vacant(entry) => entry.insert(at),
            };
        }
        false
    }

    /// Puts a row where there is room; true if its key is new.
    fn put(&self, inner: &mut Inner<Rows<K, V>>, hash: u64, key: K, value: V) -> bool {
        let hasher = &self.hasher;
        let rehash = |(k, _): &(K, V)| hasher.hash_one(k);
        match inner.rows.entry(hash, |(k, _)| *k == key, rehash) {
            Entry::Occupied(mut entry) => {
                entry.get_mut().1 = value;
                false
            }
            Entry::Vacant(entry) => {
                entry.insert((key, value));
                true
            }
        }
    }

    /// Shows every row as all were at one moment. Writers wait meanwhile.
    pub fn for_each(&self, mut show: impl FnMut(&K, &V)) {
        for inner in self.parts.read_all() {
            inner.rows.iter().for_each(|(key, value)| show(key, value));
        }
    }

    /// The number of rows at one moment.
    pub fn len(&self) -> usize {
        let parts = self.parts.read_all();
        parts.iter().map(|inner| inner.rows.len()).sum()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes every row out at one moment.
    pub fn clear(&self) {
        let all: Vec<usize> = (0..self.parts.count()).collect();
        for mut inner in self.parts.write_some(&all) {
            let rows = inner.rows.len();
            inner.rows.clear();
            self.parts.release(&mut inner, rows);
        }
    }
}
