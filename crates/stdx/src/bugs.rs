//! Bugs on purpose. The history checker (docs/reliability.md) must find each of them; that is what
//! shows that it looks where it should. Without the feature `bugs`, which no release has, [`is`] is
//! a constant and the compiler leaves out what hangs on it.

/// Every bug, with what it breaks.
pub const ALL: [(&str, &str); 8] = [
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
];

/// Whether this bug is in force: the one that `ROOST_BUG` names at the start.
#[cfg(feature = "bugs")]
pub fn is(name: &str) -> bool {
    use std::sync::OnceLock;

    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("ROOST_BUG").ok());
    debug_assert!(ALL.iter().any(|(known, _)| *known == name), "{name}");
    chosen.as_deref() == Some(name)
}

/// Whether this bug is in force: never.
#[cfg(not(feature = "bugs"))]
pub const fn is(_name: &str) -> bool {
    false
}
