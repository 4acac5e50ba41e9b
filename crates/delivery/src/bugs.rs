//! Bugs on purpose of the inbox, each of which shows only at one of its bounds or at a resumption.
//! The exploration must find each of them (`tests/explore/bugs.rs`). Without the feature `bugs`,
//! which no release has, `is` is a constant and the compiler leaves out what hangs on it. Bugs
//! that are found elsewhere too, and those of the outbox, are in [`stdx::bugs`].

/// Every bug of the inbox, with what it breaks.
pub const OF_INBOX: [(&str, &str); 9] = [
    (
        "full_window_is_passed",
        "what comes while a session's window is full counts as given to it",
    ),
    (
        "bytes_take_one_more",
        "a session whose window is full of bytes is given one entry more",
    ),
    (
        "session_page_is_all",
        "behind a full page of a session that lags, nothing more is read",
    ),
    (
        "list_takes_one_more",
        "the account's list has one place more than its bound",
    ),
    (
        "sessions_take_one_more",
        "one session more than the bound is managed",
    ),
    (
        "far_mark_is_not_recorded",
        "the account's mark is not recorded when it is `mark_every` places ahead",
    ),
    (
        "far_mark_is_the_end",
        "an account's mark that is recorded because it is far ahead is where the log ends",
    ),
    (
        "overtaken_resumption_counts",
        "the answer for a connection whose resumption was overtaken counts for the later one",
    ),
    (
        "renumbered_is_not_recorded",
        "counts that a resumption gives out anew are not recorded",
    ),
];

/// Whether this bug is in force: the one that `ROOST_BUG` names at the start.
#[cfg(feature = "bugs")]
pub(crate) fn is(name: &str) -> bool {
    use std::sync::OnceLock;

    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("ROOST_BUG").ok());
    debug_assert!(OF_INBOX.iter().any(|(known, _)| *known == name), "{name}");
    chosen.as_deref() == Some(name)
}

/// Whether this bug is in force: never.
#[cfg(not(feature = "bugs"))]
pub(crate) const fn is(_name: &str) -> bool {
    false
}
