//! Bounds of a journal, as values: production's by default, tiny in tests.

use std::time::Duration;

use crate::limits::{
    APPEND_RECORDS_MAX, COMMIT_GATHER, COMMIT_INTERVAL, COMMITS_AT_ONCE, GROUP_BYTES_MAX,
    GROUP_RECORDS_MAX, HEAL_INTERVAL, JOURNAL_QUEUE_MAX,
};

/// Bounds of a [`crate::LocalJournal`] or [`crate::InlineJournal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// Calls that wait for the writer, at least 1; one more is handed back ([`crate::Busy`]).
    /// Default [`JOURNAL_QUEUE_MAX`].
    pub queue_max: usize,
    /// Records in one append; an append with more is invalid. Default [`APPEND_RECORDS_MAX`].
    pub append_records_max: usize,
    /// Records at which the writer stops collecting a group. Default [`GROUP_RECORDS_MAX`].
    pub group_records_max: usize,
    /// Bytes at which it stops, by its own estimate. Default [`GROUP_BYTES_MAX`].
    pub group_bytes_max: usize,
    /// Time from the begin of one commit to that of the next on average, while more than
    /// [`JournalOptions::commits_at_once`] come without a pause; zero for none. They begin in
    /// pairs. Default [`COMMIT_INTERVAL`].
    pub commit_interval: Duration,
    /// Commits that may begin as they come before the next one keeps to the interval. Default
    /// [`COMMITS_AT_ONCE`].
    pub commits_at_once: u32,
    /// Time from the end of the first commit of a pair to the begin of the second, which takes
    /// along what the first one has brought about. Default [`COMMIT_GATHER`].
    pub commit_gather: Duration,
    /// Pause between attempts to heal the engine after a failed commit, while nobody appends.
    /// Default [`HEAL_INTERVAL`].
    pub heal_interval: Duration,
}

impl Default for JournalOptions {
    fn default() -> JournalOptions {
        JournalOptions {
            queue_max: JOURNAL_QUEUE_MAX,
            append_records_max: APPEND_RECORDS_MAX,
            group_records_max: GROUP_RECORDS_MAX,
            group_bytes_max: GROUP_BYTES_MAX,
            commit_interval: COMMIT_INTERVAL,
            commits_at_once: COMMITS_AT_ONCE,
            commit_gather: COMMIT_GATHER,
            heal_interval: HEAL_INTERVAL,
        }
    }
}
