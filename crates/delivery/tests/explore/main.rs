//! Every interleaving of small worlds, with the shipped machine and not a model of it: one sender,
//! two recipients, limits of 1 and 2; commits that succeed, fail and are in doubt, refusals of
//! every kind, silence, lost answers, crashes of the sender, of a recipient and of everybody. Owns
//! the worlds that are explored and what is counted; what may happen is `world.rs`, what must hold
//! `rules.rs`.
//!
//! `cargo test -p delivery --test explore` explores the small ones; `make explore` all of them.

#![allow(
    clippy::print_stdout,
    reason = "the numbers of states are what is published"
)]

mod rules;
mod world;

use std::time::Duration;

use delivery::OutboxLimits;
use stateright::{Checker, Model};

use world::{Budget, World};

/// Bounds so small that every one of them is reached. Time stands still: whatever may be due, is.
fn limits(window: usize, per_destination: u32) -> OutboxLimits {
    OutboxLimits {
        entries_max: 2 * per_destination,
        entries_per_destination_max: per_destination,
        window,
        window_per_destination: window,
        page: window as u32,
        answer_timeout: Duration::ZERO,
        retry_min: Duration::ZERO,
        retry_max: Duration::ZERO,
        give_up_after: Duration::from_secs(1),
        give_up_attempts_min: 1,
        recognised_for: Duration::from_secs(2),
        crashes_max: 2,
    }
}

fn explore(name: &str, world: World, sometimes: &[&'static str]) {
    let checker = world.checker().threads(2).spawn_bfs().join();
    println!(
        "{name}: {} states, {} of them distinct, depth {}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth()
    );
    for (rule, path) in checker.discoveries() {
        if rules::ALWAYS.iter().any(|(always, _)| *always == rule) {
            panic!(
                "{name}: {rule}:\n{}",
                path.into_actions()
                    .iter()
                    .map(|a| format!("{a:?}\n"))
                    .collect::<String>()
            );
        }
    }
    let found = checker.discoveries();
    for rule in sometimes {
        assert!(
            found.contains_key(rule),
            "{name}: it never happened that {rule}"
        );
    }
}

#[test]
fn refusals_and_silence() {
    let budget = Budget {
        messages: 2,
        refusals: 1,
        silences: 1,
        ..Budget::default()
    };
    explore(
        "refusals and silence",
        World::new(limits(1, 2), budget),
        &[
            "a destination lags",
            "a destination has caught up",
            "the window is full",
            "an answer came too late",
        ],
    );
}

#[test]
#[ignore = "a minute: make explore"]
fn three_messages_with_refusals_and_silence() {
    let budget = Budget {
        messages: 3,
        refusals: 1,
        silences: 1,
        ..Budget::default()
    };
    explore(
        "three messages with refusals and silence",
        World::new(limits(1, 2), budget),
        &[
            "a destination lags",
            "a destination has caught up",
            "the window is full",
            "an answer came too late",
        ],
    );
}

#[test]
fn refusals_for_good() {
    let budget = Budget {
        messages: 3,
        finals: 1,
        ..Budget::default()
    };
    explore(
        "refusals for good",
        World::new(limits(2, 2), budget),
        &[
            "an entry came back refused",
            "an entry was refused because the one in front was missing",
        ],
    );
}

#[test]
fn lost_answers() {
    let budget = Budget {
        messages: 2,
        finals: 1,
        lost_answers: 2,
        ..Budget::default()
    };
    explore(
        "lost answers",
        World::new(limits(2, 2), budget),
        &["an entry came back refused"],
    );
}

#[test]
fn crashes_of_everybody() {
    let budget = Budget {
        messages: 2,
        kills: 2,
        lost_answers: 1,
        ..Budget::default()
    };
    explore(
        "crashes of everybody",
        World::new(limits(2, 2), budget),
        &["an entry was handed over again after a crash"],
    );
}

#[test]
fn failed_and_doubtful_commits() {
    let budget = Budget {
        messages: 2,
        failed_commits: 1,
        doubtful_commits: 1,
        refusals: 1,
        ..Budget::default()
    };
    explore(
        "failed and doubtful commits",
        World::new(limits(2, 2), budget),
        &["a commit that was reported as failed had happened"],
    );
}

#[test]
fn entries_that_kill_their_recipient() {
    let budget = Budget {
        messages: 3,
        crashes: 3,
        ..Budget::default()
    };
    explore(
        "entries that kill their recipient",
        World::new(limits(1, 1), budget),
        &[
            "an entry came back as poison",
            "the sender's bound was reached",
            "a destination's bound was reached",
        ],
    );
}

#[test]
fn entries_that_grow_old() {
    let budget = Budget {
        messages: 2,
        refusals: 1,
        ages: true,
        kills: 1,
        ..Budget::default()
    };
    explore(
        "entries that grow old",
        World::new(limits(1, 2), budget),
        &[
            "an entry came back expired, not delivered",
            "an entry came back, and may have been delivered",
        ],
    );
}

#[test]
fn operators_drop_and_retry() {
    let budget = Budget {
        messages: 3,
        refusals: 1,
        failed_reads: 1,
        drops: 1,
        ..Budget::default()
    };
    explore(
        "operators drop and retry",
        World::new(limits(2, 2), budget),
        &["an entry came back dropped"],
    );
}

#[test]
#[ignore = "minutes, and gigabytes of memory: make explore"]
fn everything_at_once() {
    let budget = Budget {
        messages: 3,
        refusals: 1,
        finals: 1,
        silences: 1,
        kills: 1,
        doubtful_commits: 1,
        ..Budget::default()
    };
    explore("everything at once", World::new(limits(1, 2), budget), &[]);
}
