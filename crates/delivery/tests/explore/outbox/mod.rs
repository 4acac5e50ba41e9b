//! Worlds of handing over: one sender, two recipients; commits that succeed, fail and are in doubt,
//! refusals of every kind, silence, lost answers, crashes of the sender, of a recipient and of
//! everybody. What there is is `world.rs`, what may happen `steps.rs`, what must hold `rules.rs`.

pub(crate) mod rules;
pub(crate) mod steps;
pub(crate) mod world;

use std::time::Duration;

use delivery::OutboxLimits;

use crate::worlds;
use world::{Budget, Seen, World};

/// Bounds so small that every one of them is reached. Time stands still: whatever may be due, is.
pub(crate) fn limits(window: usize, per_destination: u32) -> OutboxLimits {
    OutboxLimits {
        entries_max: 2 * per_destination,
        entries_per_destination_max: per_destination,
        window,
        window_per_destination: window,
        page: window as u32,
        reads_max: 1,
        answer_timeout: Duration::ZERO,
        retry_min: Duration::ZERO,
        retry_max: Duration::ZERO,
        give_up_after: Duration::from_secs(1),
        give_up_attempts_min: 1,
        recognised_for: Duration::from_secs(2),
        crashes_max: 2,
        returned_max: 1,
    }
}

worlds! {
    all of Seen::NAMES;

    refusals_and_silence: World::new(limits(1, 2), Budget {
        messages: 2,
        refusals: 1,
        silences: 1,
        ..Budget::default()
    }), [
            "a destination lags",
            "a destination has caught up",
            "the window is full",
            "an answer came too late",
        ];

    #[ignore = "a minute: make explore"]
    three_messages_with_refusals_and_silence: World::new(limits(1, 2), Budget {
        messages: 3,
        refusals: 1,
        silences: 1,
        ..Budget::default()
    }), [
            "a destination lags",
            "a destination has caught up",
            "the window is full",
            "an answer came too late",
        ];

    refusals_for_good: World::new(limits(2, 2), Budget {
        messages: 3,
        finals: 1,
        ..Budget::default()
    }), [
            "an entry came back refused",
            "an entry was refused because the one in front was missing",
        ];

    lost_answers: World::new(limits(2, 2), Budget {
        messages: 2,
        finals: 1,
        lost_answers: 2,
        ..Budget::default()
    }), ["an entry came back refused"];

    crashes_of_everybody: World::new(limits(2, 2), Budget {
        messages: 2,
        kills: 2,
        lost_answers: 1,
        ..Budget::default()
    }), ["an entry was handed over again after a crash"];

    failed_and_doubtful_commits: World::new(limits(2, 2), Budget {
        messages: 2,
        failed_commits: 1,
        doubtful_commits: 1,
        refusals: 1,
        ..Budget::default()
    }), ["a commit that was reported as failed had happened"];

    entries_that_kill_their_recipient: World::new(limits(1, 1), Budget {
        messages: 3,
        crashes: 3,
        ..Budget::default()
    }), [
            "an entry came back as poison",
            "the sender's bound was reached",
            "a destination's bound was reached",
        ];

    entries_that_grow_old: World::new(limits(1, 2), Budget {
        messages: 2,
        refusals: 1,
        ages: true,
        kills: 1,
        ..Budget::default()
    }), [
            "an entry came back expired, not delivered",
            "an entry came back, and may have been delivered",
        ];

    entries_that_grow_old_without_an_answer: World::new(limits(1, 2), Budget {
        messages: 1,
        silences: 2,
        refusals: 1,
        ages: true,
        ..Budget::default()
    }), ["an entry came back, and may have been delivered"];

    refusals_for_good_that_come_late: World::new(limits(1, 2), Budget {
        messages: 1,
        finals: 1,
        silences: 1,
        ..Budget::default()
    }), ["an entry came back refused", "an answer came too late"];

    copies_that_wait_on_their_way: World::new(limits(1, 2), Budget {
        messages: 1,
        finals: 1,
        refusals: 1,
        silences: 2,
        waits: 2,
        ..Budget::default()
    }), [
            "an entry came back refused",
            "a copy that had waited went on",
            "a copy of an earlier attempt was dropped",
        ];

    copies_that_wait_while_others_go_on: World::new(limits(2, 2), Budget {
        messages: 2,
        finals: 1,
        silences: 2,
        waits: 1,
        ..Budget::default()
    }), [
            "an entry was refused because the one in front was missing",
            "a copy that had waited went on",
            "a copy of an earlier attempt was dropped",
        ];

    copies_that_outlive_their_sender: World::new(limits(1, 2), Budget {
        messages: 1,
        finals: 1,
        kills: 1,
        waits: 1,
        ages: true,
        ..Budget::default()
    }), ["an entry came back refused", "a copy of an earlier attempt was dropped"];

    crashes_while_an_entry_comes_back: World::new(limits(1, 2), Budget {
        messages: 2,
        finals: 1,
        kills: 1,
        ..Budget::default()
    }), ["an entry came back refused", "an entry was handed over again after a crash"];

    crashes_after_an_entry_came_back: World::new(limits(2, 2), Budget {
        messages: 2,
        finals: 1,
        kills: 1,
        ..Budget::default()
    }), ["an entry came back refused", "an entry was handed over again after a crash"];

    crashes_while_nobody_may_wait_for_the_mark: World::new(
        OutboxLimits { returned_max: 0, ..limits(2, 2) },
        Budget {
            messages: 2,
            finals: 2,
            kills: 1,
            ..Budget::default()
        },
    ), ["an entry came back refused", "a destination lags"];

    crashes_with_small_pages: World::new(limits(1, 2), Budget {
        messages: 3,
        kills: 1,
        ..Budget::default()
    }), ["an entry was handed over again after a crash"];

    operators_drop_and_retry: World::new(limits(2, 2), Budget {
        messages: 3,
        refusals: 1,
        failed_reads: 1,
        drops: 1,
        ..Budget::default()
    }), ["an entry came back dropped", "a read waits for another one"];

    #[ignore = "minutes, and gigabytes of memory: make explore"]
    everything_at_once: World::new(limits(1, 2), Budget {
        messages: 2,
        refusals: 1,
        finals: 1,
        silences: 1,
        kills: 1,
        doubtful_commits: 1,
        ..Budget::default()
    }), [];
}
