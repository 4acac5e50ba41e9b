//! Bugs on purpose. The history checker (docs/reliability.md) must find each of them; that is what
//! shows that it looks where it should. Without the feature `bugs`, which no release has, [`is`] is
//! a constant and the compiler leaves out what hangs on it.

/// Every bug, with what it breaks.
pub const ALL: [(&str, &str); 14] = [
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
    (
        "room_takes_twice",
        "a room takes a message again that is handed over again",
    ),
    (
        "room_page_gap",
        "of a page of a room's log the last message is left out",
    ),
    (
        "room_given_lost",
        "what a lost link had of a room is not given again",
    ),
    (
        "room_forgets_who_is_there",
        "after a kill a room does not know who was in it",
    ),
];

/// Bugs that show only at a bound of what is handed over. The exploration of `crates/delivery` must
/// find each of them.
pub const AT_BOUNDS: [(&str, &str); 13] = [
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
        "copies_have_no_attempt",
        "a copy that waited on its way goes on although a later attempt has been made",
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

/// Rules of the specifications that are broken one at a time, with the section that has each. The
/// scripts that name the section must notice (`tests/rules`).
pub const RULES: [(&str, &str, &str); 17] = [
    (
        "subject_before_history",
        "XEP-0045 7.1",
        "the subject comes first",
    ),
    (
        "reserved_nick_is_free",
        "XEP-0045 7.2.8",
        "anybody enters with a reserved nick",
    ),
    (
        "logging_is_not_said",
        "XEP-0045 7.2.12",
        "who enters a logged room is not warned",
    ),
    (
        "since_is_ignored",
        "XEP-0045 7.2.14",
        "older messages than asked for are sent",
    ),
    (
        "rename_without_code",
        "XEP-0045 7.6",
        "a change of a nick looks like leaving",
    ),
    (
        "kick_without_code",
        "XEP-0045 8.2",
        "a kick has no status code",
    ),
    (
        "moderators_lose_voice",
        "XEP-0045 8.4",
        "a moderator takes an admin's voice",
    ),
    (
        "ban_without_code",
        "XEP-0045 9.1",
        "a ban has no status code",
    ),
    (
        "admins_ban_admins",
        "XEP-0045 9.2",
        "an admin bans an owner",
    ),
    (
        "loss_without_code",
        "XEP-0045 9.4",
        "who is no member any more goes without a code",
    ),
    (
        "privacy_change_is_not_said",
        "XEP-0045 10.2.1",
        "nobody hears who sees addresses",
    ),
    (
        "destroy_without_venue",
        "XEP-0045 10.9",
        "occupants do not hear where to go",
    ),
    (
        "oldest_items_first",
        "XEP-0060 6.5.5",
        "the oldest items are given for the newest",
    ),
    (
        "publisher_is_not_named",
        "XEP-0060 7.1.2.3",
        "a notification does not name the publisher",
    ),
    (
        "options_do_not_count",
        "XEP-0060 7.1.5",
        "options are no preconditions",
    ),
    (
        "retract_is_silent",
        "XEP-0060 7.2.2.1",
        "subscribers do not hear of a retraction",
    ),
    (
        "delete_without_redirect",
        "XEP-0060 8.4.1",
        "subscribers do not hear where a node is",
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
    let known = ALL.iter().chain(&AT_BOUNDS).chain(&IN_CLUSTERS);
    let known = known.map(|(known, _)| known);
    let mut known = known.chain(RULES.iter().map(|(known, ..)| known));
    debug_assert!(known.any(|known| *known == name), "{name}");
    chosen.as_deref() == Some(name)
}

/// Whether this bug is in force: never.
#[cfg(not(feature = "bugs"))]
pub const fn is(_name: &str) -> bool {
    false
}

/// A status code, unless this bug is in force.
pub fn code(name: &str, code: u16) -> Vec<u16> {
    if is(name) { Vec::new() } else { vec![code] }
}
