//! Whether the exploration finds each bug that is put in on purpose: it is run once more with the
//! bug, and must fail. `make bugs` compiles them in.

use std::process::{Command, Stdio};

use delivery::bugs::OF_INBOX;
use stdx::bugs::AT_BOUNDS;

/// For each bug of the inbox the world that finds it.
const INBOX_FOUND_IN: [(&str, &str); OF_INBOX.len()] = [
    ("full_window_is_passed", "waiting_and_windows"),
    ("bytes_take_one_more", "a_window_of_bytes"),
    ("session_page_is_all", "waiting_and_windows"),
    ("list_takes_one_more", "a_list_that_is_full"),
    (
        "sessions_take_one_more",
        "a_full_address_of_a_session_that_ends",
    ),
    ("far_mark_is_not_recorded", "a_mark_that_is_far_ahead"),
    ("far_mark_is_the_end", "a_mark_that_is_far_ahead"),
    ("overtaken_resumption_counts", "links_that_break"),
    (
        "renumbered_is_not_recorded",
        "what_is_given_up_at_a_resumption",
    ),
];

/// For each bug of the outbox the world that finds it.
const OUTBOX_FOUND_IN: [(&str, &str); AT_BOUNDS.len()] = [
    ("window_full_is_settled", "refusals_and_silence"),
    ("page_full_is_all", "entries_that_kill_their_recipient"),
    ("common_page_is_all", "crashes_with_small_pages"),
    (
        "answers_have_no_attempt",
        "refusals_for_good_that_come_late",
    ),
    ("copies_have_no_attempt", "copies_that_wait_on_their_way"),
    ("order_is_not_checked", "failed_and_doubtful_commits"),
    ("return_is_not_awaited", "crashes_while_an_entry_comes_back"),
    (
        "returned_shares_at_once",
        "crashes_after_an_entry_came_back",
    ),
    ("lagging_is_not_recorded", "entries_that_grow_old"),
    (
        "silence_is_no_doubt",
        "entries_that_grow_old_without_an_answer",
    ),
    ("outbox_takes_one_more", "entries_that_kill_their_recipient"),
    ("settled_counts_on", "refusals_and_silence"),
    ("no_retry_timer", "refusals_and_silence"),
];

/// Bugs that walks through the worlds of two users find too. The others need a bound or a
/// check that only a world of one machine has, or a row of events that walks do not come to.
const FOUND_BY_WALKS: [&str; 17] = [
    "window_full_is_settled",
    "page_full_is_all",
    "common_page_is_all",
    "answers_have_no_attempt",
    "copies_have_no_attempt",
    "order_is_not_checked",
    "return_is_not_awaited",
    "lagging_is_not_recorded",
    "silence_is_no_doubt",
    "outbox_takes_one_more",
    "settled_counts_on",
    "no_retry_timer",
    "full_window_is_passed",
    "session_page_is_all",
    "sessions_take_one_more",
    "far_mark_is_the_end",
    "overtaken_resumption_counts",
];

/// Explores one world of a machine in a process of its own. What it says if it finds something.
fn explore(machine: &str, world: &str, bug: &str) -> Option<String> {
    let own = std::env::current_exe().expect("this test is a program");
    let mut command = Command::new(own);
    command.args([&format!("{machine}::{world}"), "--exact"]);
    command.env("ROOST_BUG", bug).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("running 1 test"), "no world {world}: {said}");
    (!output.status.success()).then_some(said)
}

fn find_each(machine: &str, bugs: &[(&str, &str)], found_in: &[(&str, &str)]) {
    let mut missed = Vec::new();
    for (bug, breaks) in bugs {
        let world = found_in.iter().find(|(own, _)| own == bug);
        let (_, world) = world.expect("each bug has a world");
        let finding = explore(machine, world, "none");
        assert_eq!(finding, None, "{world} without a bug");
        match explore(machine, world, bug) {
            Some(said) => {
                let rule = said
                    .lines()
                    .find(|line| line.starts_with(&world.replace('_', " ")));
                println!("{bug}: found in {world}: {}", rule.unwrap_or_default());
            }
            None => missed.push(format!("{bug} ({breaks}) in {world}")),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

/// All bugs are tried; those of the list must be found.
#[test]
fn each_bug_is_found_by_walks() {
    let all = AT_BOUNDS.iter().chain(&OF_INBOX);
    let mut missed = Vec::new();
    for (bug, _) in all {
        let found = explore("composed", "walks_of_everything", bug);
        let rule = found.as_deref().and_then(|said| {
            let mut lines = said.lines();
            let is_rule = |line: &&str| line.contains(": walk ");
            lines.find(is_rule)
        });
        println!("{bug}: {}", rule.unwrap_or("not found by walks"));
        if rule.is_none() && FOUND_BY_WALKS.contains(bug) {
            missed.push(*bug);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:#?}");
}

#[test]
fn each_bug_is_found() {
    find_each("outbox", &AT_BOUNDS, &OUTBOX_FOUND_IN);
    find_each("inbox", &OF_INBOX, &INBOX_FOUND_IN);
}
