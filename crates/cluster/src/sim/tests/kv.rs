//! The bucket of the map: compare-and-set against one counter, and a history that watchers read.

use std::collections::BTreeMap;

use stdx::Moment;

use crate::map::Revision;

#[derive(Default)]
pub(super) struct Bucket {
    /// Each with when it was stored.
    entries: BTreeMap<String, (Revision, Moment)>,
    /// Entry `n` has revision `n + 1`.
    pub(super) history: Vec<(String, String)>,
    pub(super) is_down: bool,
}

impl Bucket {
    /// The new revision, if the entry has the expected one.
    pub(super) fn put(
        &mut self,
        now: Moment,
        key: &str,
        expected: Option<Revision>,
        value: String,
    ) -> Option<Revision> {
        let is_there = self.entries.get(key).map_or(0, |(revision, _)| *revision);
        if self.is_down || expected.is_some_and(|expected| expected != is_there) {
            return None;
        }
        self.history.push((key.to_owned(), value));
        let revision = self.history.len() as Revision;
        self.entries.insert(key.to_owned(), (revision, now));
        Some(revision)
    }

    /// When an entry was stored.
    pub(super) fn stored_at(&self, key: &str) -> Option<Moment> {
        self.entries.get(key).map(|(_, at)| *at)
    }
}
