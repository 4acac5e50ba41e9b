//! What both kinds of tables do alike: single rows, and many rows at one moment.
//!
//! Deliberately not here: the order of rows ([`super::OrderedSet::range`]).

use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::partitions::Partitions;
use super::rows::{Find, Rows};
use super::{Full, NotInserted, TableOptions};

/// A table that several threads share: a [`Set`](super::Set) or an
/// [`OrderedSet`](super::OrderedSet).
///
/// The default hasher resists keys that an attacker chose; for keys that nobody chooses a faster
/// one ([`Table::with_hasher`]) saves some nanoseconds.
pub struct Table<R, S = RandomState> {
    pub(super) parts: Partitions<R>,
    pub(super) hasher: S,
}

/// A row: its key and its value.
type Row<R> = (<R as Rows>::Key, <R as Rows>::Value);

impl<R, S> fmt::Debug for Table<R, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Table of {} partitions", self.parts.count())
    }
}

impl<R: Rows> Table<R> {
    /// An empty table.
    pub fn new(options: TableOptions) -> Self {
        Self::with_hasher(options, RandomState::new())
    }
}

impl<R: Rows, S: BuildHasher> Table<R, S> {
    /// An empty table with a hasher of the caller's choice.
    pub fn with_hasher(options: TableOptions, hasher: S) -> Self {
        Table {
            parts: Partitions::new(options),
            hasher,
        }
    }

    // ---- One row -------------------------------------------------------------------------------

    /// What `read` makes of the value of a key, without copying it.
    pub fn with<Q, T>(&self, key: &Q, read: impl FnOnce(&R::Value) -> T) -> Option<T>
    where
        R: Find<Q>,
        Q: Hash + ?Sized,
    {
        let (hash, part) = self.parts.place(&self.hasher, key);
        self.parts.read(part).rows.find_value(hash, key).map(read)
    }

    /// A copy of the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<R::Value>
    where
        R: Find<Q>,
        R::Value: Clone,
        Q: Hash + ?Sized,
    {
        self.with(key, R::Value::clone)
    }

    /// Whether there is a row of a key.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        R: Find<Q>,
        Q: Hash + ?Sized,
    {
        self.with(key, |_| ()).is_some()
    }

    /// Changes the value of a key in place; what `change` returns, or `None` without such a row.
    pub fn update<Q, T>(&self, key: &Q, change: impl FnOnce(&mut R::Value) -> T) -> Option<T>
    where
        R: Find<Q>,
        Q: Hash + ?Sized,
    {
        let (hash, part) = self.parts.place(&self.hasher, key);
        let mut inner = self.parts.write(part);
        inner.rows.find_value_mut(hash, key).map(change)
    }

    /// Takes a row out; returns its value.
    pub fn remove<Q>(&self, key: &Q) -> Option<R::Value>
    where
        R: Find<Q>,
        Q: Hash + ?Sized,
    {
        let (hash, part) = self.parts.place(&self.hasher, key);
        let mut inner = self.parts.write(part);
        let value = inner.rows.take(hash, key)?;
        self.parts.release(&mut inner, 1);
        Some(value)
    }

    // ---- The whole table -----------------------------------------------------------------------

    /// The number of rows at one moment.
    pub fn len(&self) -> usize {
        let parts = self.parts.read_all();
        parts.iter().map(|inner| inner.rows.count()).sum()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes every row out at one moment.
    pub fn clear(&self) {
        let all: Vec<usize> = (0..self.parts.count()).collect();
        for mut inner in self.parts.write_some(&all) {
            let rows = inner.rows.count();
            inner.rows.empty();
            self.parts.release(&mut inner, rows);
        }
    }
}

impl<R: Find<<R as Rows>::Key>, S: BuildHasher> Table<R, S> {
    /// Puts a row in; returns the value that the key had.
    ///
    /// # Errors
    /// The row, if the key is new and there is no room.
    pub fn insert(&self, key: R::Key, value: R::Value) -> Result<Option<R::Value>, Full<Row<R>>> {
        let (hash, part) = self.parts.place(&self.hasher, &key);
        let mut inner = self.parts.write(part);
        if !self.parts.reserve(&mut inner, 1) {
            return match inner.rows.find_value_mut(hash, &key) {
                Some(old) => Ok(Some(std::mem::replace(old, value))),
                None => Err(Full((key, value))),
            };
        }
        let old = inner
            .rows
            .put(hash, key, value, |key| self.hasher.hash_one(key));
        if old.is_some() {
            self.parts.release(&mut inner, 1);
        }
        Ok(old)
    }

    /// Puts a row in if its key is new.
    ///
    /// # Errors
    /// The row, if there is one of this key, or no room.
    pub fn insert_new(&self, key: R::Key, value: R::Value) -> Result<(), NotInserted<Row<R>>> {
        let (hash, part) = self.parts.place(&self.hasher, &key);
        let mut inner = self.parts.write(part);
        if inner.rows.find_value(hash, &key).is_some() {
            return Err(NotInserted::Exists((key, value)));
        }
        if !self.parts.reserve(&mut inner, 1) {
            return Err(NotInserted::Full((key, value)));
        }
        inner
            .rows
            .put(hash, key, value, |key| self.hasher.hash_one(key));
        Ok(())
    }

    /// Puts all rows in at one moment; of two with the same key the later stays, and both need room
    /// meanwhile.
    ///
    /// # Errors
    /// All rows, if there is no room for those with new keys; then nothing has changed.
    pub fn insert_all(&self, rows: Vec<Row<R>>) -> Result<(), Full<Vec<Row<R>>>> {
        self.put_all(rows, false).map_err(|error| match error {
            NotInserted::Full(rows) | NotInserted::Exists(rows) => Full(rows),
        })
    }

    /// Puts all rows in at one moment if all their keys are new and different.
    ///
    /// # Errors
    /// All rows, if some key is there or twice among them, or if there is no room; then nothing has
    /// changed.
    pub fn insert_new_all(&self, rows: Vec<Row<R>>) -> Result<(), NotInserted<Vec<Row<R>>>> {
        self.put_all(rows, true)
    }

    fn put_all(&self, rows: Vec<Row<R>>, all_new: bool) -> Result<(), NotInserted<Vec<Row<R>>>> {
        let place = |row: &Row<R>| self.parts.place(&self.hasher, &row.0);
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
            let is_there = guards[at].rows.find_value(*hash, key).is_some();
            if is_there && all_new {
                return Err(NotInserted::Exists(rows));
            }
            new[at] += usize::from(!is_there);
        }
        if all_new && has_twins(&rows, &places) {
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
            let rows = &mut guards[at].rows;
            let old = rows.put(hash, key, value, |key| self.hasher.hash_one(key));
            new[at] -= usize::from(old.is_none());
        }
        for (inner, new) in guards.iter_mut().zip(new) {
            self.parts.release(inner, new);
        }
        Ok(())
    }
}

/// Whether two rows have the same key; `places` begin with the hashes of their keys.
fn has_twins<K: Eq, V>(rows: &[(K, V)], places: &[(u64, usize)]) -> bool {
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
