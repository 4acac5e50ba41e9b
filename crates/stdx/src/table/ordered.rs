//! An ordered set: rows found by their key, and read in the order of their keys.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::{Bound, RangeBounds};

use super::Table;

/// A shared set of rows with ordered keys. See the [module](super).
///
/// Partitions are chosen by hash, not by key, so that keys that grow do not all meet in one. Each
/// is a tree; a range merges them.
pub type OrderedSet<K, V, S = RandomState> = Table<BTreeMap<K, V>, S>;

impl<K: Hash + Ord, V, S: BuildHasher> OrderedSet<K, V, S> {
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
