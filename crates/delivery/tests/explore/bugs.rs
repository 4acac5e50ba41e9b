//! Whether the exploration finds each bug that is put in on purpose: it is run once more with the
//! bug, and must fail. `make bugs` compiles them in.

use std::process::{Command, Stdio};

use stdx::bugs::AT_BOUNDS;

/// For each bug the world that finds it.
const FOUND_IN: [(&str, &str); AT_BOUNDS.len()] = [
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

/// Explores one world in a process of its own. What it says if it finds something.
fn explore(world: &str, bug: &str) -> Option<String> {
    let own = std::env::current_exe().expect("this test is a program");
    let mut command = Command::new(own);
    command.args([&format!("outbox::{world}"), "--exact"]);
    command.env("ROOST_BUG", bug).stdin(Stdio::null());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("running 1 test"), "no world {world}: {said}");
    (!output.status.success()).then_some(said)
}

#[test]
fn each_bug_is_found() {
    let mut missed = Vec::new();
    for (bug, breaks) in AT_BOUNDS {
        let world = FOUND_IN.iter().find(|(own, _)| *own == bug);
        let (_, world) = world.expect("each bug has a world");
        assert_eq!(explore(world, "none"), None, "{world} without a bug");
        match explore(world, bug) {
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
