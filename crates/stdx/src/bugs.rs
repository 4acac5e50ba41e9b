//! Bugs on purpose. The history checker (docs/reliability.md) must find each of them; that is what
//! shows that it looks where it should. Without the feature `bugs`, which no release has, [`is`] is
//! a constant and the compiler leaves out what hangs on it.

/// Every bug, with what it breaks.
pub const ALL: [(&str, &str); 10] = [
    ("no_fsync", "a commit does not wait for the disk"),
    (
        "ack_before_commit",
        "a message is acknowledged before it is durable",
    ),
    (
        "counter_off_by_one",
        "a resumed session counts one stanza too many",
    ),
    (
        "id_reuse",
        "after a restart the last ids are given out again",
    ),
    (
        "dedup_off",
        "a message that is sent again is taken for a new one",
    ),
    ("reorder", "messages are handed over in the wrong order"),
    (
        "resend_queue_lost",
        "a resumed session does not get what it was owed",
    ),
    (
        "double_after_resume",
        "a resumed session gets again what it has",
    ),
    (
        "member_begins_late",
        "a session of a room's member begins one message behind what his account has had",
    ),
    (
        "member_mark_stays",
        "what a room's member has acknowledged does not count for his next session",
    ),
];

/// Bugs that show only at a bound of what is handed over. The exploration of `crates/delivery` must
/// find each of them.
pub const AT_BOUNDS: [(&str, &str); 12] = [
    (
        "window_full_is_settled",
        "what a destination was handed over when it begins to lag counts as settled",
    ),
    (
        "page_full_is_all",
        "behind a full page of a destination that lags, nothing more is read",
    ),
    (
        "common_page_is_all",
        "behind the first page after a restart, nothing more is read",
    ),
    (
        "answers_have_no_attempt",
        "a late answer to an earlier attempt counts for the latest",
    ),
    (
        "order_is_not_checked",
        "an entry is taken although the one in front of it was not",
    ),
    (
        "returned_shares_at_once",
        "the mark that says that something came back goes before the common one has passed it",
    ),
    (
        "return_is_not_awaited",
        "what is behind a returned entry is handed over before the error is durable",
    ),
    (
        "lagging_is_not_recorded",
        "the marks of destinations that lag are not recorded",
    ),
    (
        "silence_is_no_doubt",
        "after an answer that did not come in time, nothing may have been delivered",
    ),
    (
        "outbox_takes_one_more",
        "a sender has one entry more than its bound",
    ),
    (
        "settled_counts_on",
        "what a destination that lags has taken still counts against the bound",
    ),
    (
        "no_retry_timer",
        "a destination that lags is not tried again by itself",
    ),
];

/// Bugs that a cluster is played with, over its nodes: some of the above, and its own.
pub const IN_CLUSTERS: [(&str, &str); 7] = [
    ALL[1],
    ALL[3],
    ALL[4],
    ALL[6],
    (
        "time_out_decides",
        "what a stream does not acknowledge within a second counts as failed",
    ),
    (
        "serves_early",
        "a new home serves before it has read what the one before wrote",
    ),
    (
        "forgets_records",
        "a node leaves some records out when it follows a stream",
    ),
];

/// Whether this bug is in force: the one that `ROOST_BUG` names at the start.
#[cfg(feature = "bugs")]
pub fn is(name: &str) -> bool {
    use std::sync::OnceLock;

    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("ROOST_BUG").ok());
    let mut known = ALL.iter().chain(&AT_BOUNDS).chain(&IN_CLUSTERS);
    debug_assert!(known.any(|(known, _)| *known == name), "{name}");
    chosen.as_deref() == Some(name)
}

/// Whether this bug is in force: never.
#[cfg(not(feature = "bugs"))]
pub const fn is(_name: &str) -> bool {
    false
}
