//! An ordered set: rows found by their key, and read in the order of their keys.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::{Bound, RangeBounds};

use super::partitions::Partitions;
use super::{Full, NotInserted, TableOptions};

/// A shared set of rows with ordered keys. See the [module](super).
///
/// Partitions are chosen by hash, not by key, so that keys that grow do not all meet in one. Each
/// is a tree; a range merges them.
pub struct OrderedSet<K, V, S = RandomState> {
    parts: Partitions<BTreeMap<K, V>>,
    hasher: S,
}

impl<K, V, S> fmt::Debug for OrderedSet<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OrderedSet of {} partitions", self.parts.count())
    }
}

impl<K: Hash + Ord, V> OrderedSet<K, V> {
    /// An empty set.
    pub fn new(options: TableOptions) -> Self {
        Self::with_hasher(options, RandomState::new())
    }
}

impl<K: Hash + Ord, V, S: BuildHasher> OrderedSet<K, V, S> {
    /// An empty set with a hasher of the caller's choice.
    pub fn with_hasher(options: TableOptions, hasher: S) -> Self {
        OrderedSet {
            parts: Partitions::new(options),
            hasher,
        }
    }

    fn part<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        self.parts.place(&self.hasher, key).1
    }

    // ---- One row -------------------------------------------------------------------------------

    /// What `read` makes of the value of a key, without copying it.
    pub fn with<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Ord + ?Sized,
    {
        self.parts.read(self.part(key)).rows.get(key).map(read)
    }

    /// A copy of the value of a key.
    pub fn get<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Ord + ?Sized,
        V: Clone,
    {
        self.with(key, V::clone)
    }

    /// Whether there is a row of a key.
    pub fn contains<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Ord + ?Sized,
    {
        self.with(key, |_| ()).is_some()
    }

    /// Puts a row in; returns the value that the key had.
    ///
    /// # Errors
    /// The row, if the key is new and there is no room.
    pub fn insert(&self, key: K, value: V) -> Result<Option<V>, Full<(K, V)>> {
        let mut inner = self.parts.write(self.part(&key));
        if !self.parts.reserve(&mut inner, 1) {
            return match inner.rows.get_mut(&key) {
                Some(old) => Ok(Some(std::mem::replace(old, value))),
                None => Err(Full((key, value))),
            };
        }
        let old = inner.rows.insert(key, value);
        if old.is_some() {
            self.parts.release(&mut inner, 1);
        }
        Ok(old)
    }

    /// Puts a row in if its key is new.
    ///
    /// # Errors
    /// The row, if there is one of this key, or no room.
    pub fn insert_new(&self, key: K, value: V) -> Result<(), NotInserted<(K, V)>> {
        let mut inner = self.parts.write(self.part(&key));
        if inner.rows.contains_key(&key) {
            return Err(NotInserted::Exists((key, value)));
        }
        if !self.parts.reserve(&mut inner, 1) {
            return Err(NotInserted::Full((key, value)));
        }
        inner.rows.insert(key, value);
        Ok(())
    }

    /// Changes the value of a key in place; what `change` returns, or `None` without such a row.
    pub fn update<Q, R>(&self, key: &Q, change: impl FnOnce(&mut V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Ord + ?Sized,
    {
        let mut inner = self.parts.write(self.part(key));
        inner.rows.get_mut(key).map(change)
    }

    /// Takes a row out; returns its value.
    pub fn remove<Q>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Ord + ?Sized,
    {
        let mut inner = self.parts.write(self.part(key));
        let value = inner.rows.remove(key)?;
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
        let places: Vec<usize> = rows.iter().map(|(key, _)| self.part(key)).collect();
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let mut guards = self.parts.write_some(&sorted);
        // As in `Set::put_all`.
        let mut new = vec![0; sorted.len()];
        for (part, (key, _)) in places.iter().zip(&rows) {
            let at = sorted.partition_point(|other| other < part);
            let is_there = guards[at].rows.contains_key(key);
            if is_there && all_new {
                return Err(NotInserted::Exists(rows));
            }
            new[at] += usize::from(!is_there);
        }
        if all_new {
            let mut seen = BTreeSet::new();
            if !rows.iter().all(|(key, _)| seen.insert(key)) {
                return Err(NotInserted::Exists(rows));
            }
        }
        for at in 0..guards.len() {
            if !self.parts.reserve(&mut guards[at], new[at]) {
                for (inner, new) in guards.iter_mut().zip(&new[..at]) {
                    self.parts.release(inner, *new);
                }
                return Err(NotInserted::Full(rows));
            }
        }
        for (part, (key, value)) in places.into_iter().zip(rows) {
            let at = sorted.partition_point(|other| *other < part);
            new[at] -= usize::from(guards[at].rows.insert(key, value).is_none());
        }
        for (inner, new) in guards.iter_mut().zip(new) {
            self.parts.release(inner, new);
        }
        Ok(())
    }

    // ---- In order ------------------------------------------------------------------------------

    /// The first `limit` rows of a range, in order, as all were at one moment. The next page begins
    /// behind the last key of this one.
    pub fn range(&self, range: impl RangeBounds<K>, limit: usize) -> Vec<(K, V)>
    where
        K: Clone,
        V: Clone,
    {
        let mut found = Vec::new();
        self.visit(range, limit, |key, value| {
            found.push((key.clone(), value.clone()));
        });
        found
    }

    /// As [`OrderedSet::range`], without copies. Writers wait meanwhile.
    pub fn visit(&self, range: impl RangeBounds<K>, limit: usize, mut show: impl FnMut(&K, &V)) {
        if is_empty_range(&range) {
            return;
        }
        let guards = self.parts.read_all();
        let bounds = || (range.start_bound(), range.end_bound());
        let mut ways: Vec<_> = guards
            .iter()
            .map(|inner| inner.rows.range::<K, _>(bounds()).peekable())
            .collect();
        for _ in 0..limit {
            let mut first: Option<(usize, &K)> = None;
            for (at, way) in ways.iter_mut().enumerate() {
                if let Some((key, _)) = way.peek()
                    && first.is_none_or(|(_, least)| *key < least)
                {
                    first = Some((at, key));
                }
            }
            let Some((key, value)) = first.and_then(|(at, _)| ways[at].next()) else {
                return;
            };
            show(key, value);
        }
    }

    /// The first row.
    pub fn first(&self) -> Option<(K, V)>
    where
        K: Clone,
        V: Clone,
    {
        self.range(.., 1).pop()
    }

    /// The last row.
    pub fn last(&self) -> Option<(K, V)>
    where
        K: Clone,
        V: Clone,
    {
        let guards = self.parts.read_all();
        let lasts = guards
            .iter()
            .filter_map(|inner| inner.rows.last_key_value());
        let (key, value) = lasts.max_by(|a, b| a.0.cmp(b.0))?;
        Some((key.clone(), value.clone()))
    }

    /// The first row behind a key.
    pub fn next(&self, key: &K) -> Option<(K, V)>
    where
        K: Clone,
        V: Clone,
    {
        self.range((Bound::Excluded(key.clone()), Bound::Unbounded), 1)
            .pop()
    }

    /// The last row before a key.
    pub fn prev(&self, key: &K) -> Option<(K, V)>
    where
        K: Clone,
        V: Clone,
    {
        let guards = self.parts.read_all();
        let before = |inner: &super::partitions::Inner<BTreeMap<K, V>>| {
            let last = inner.rows.range(..key).next_back();
            last.map(|(key, value)| (key.clone(), value.clone()))
        };
        let lasts = guards.iter().filter_map(|inner| before(inner));
        lasts.max_by(|a, b| a.0.cmp(&b.0))
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

/// Whether a range holds no key whatever is there; trees refuse those.
fn is_empty_range<K: Ord>(range: &impl RangeBounds<K>) -> bool {
    use Bound::{Excluded, Included};
    match (range.start_bound(), range.end_bound()) {
        (Included(a), Included(b)) => a > b,
        (Included(a), Excluded(b)) | (Excluded(a), Included(b) | Excluded(b)) => a >= b,
        _ => false,
    }
}
