//! Worlds of two users: what one sends, from his home's journal to the other's devices. What
//! there is is `world.rs`, what a home does as a whole `home.rs`, what may happen `steps.rs`, what
//! comes of it `perform.rs`, what must hold `rules.rs`; worlds too large to be explored are walked
//! through at random by `walks.rs`, and `grown.rs` shows how far each may grow.

mod grown;
mod home;
mod perform;
mod rules;
mod steps;
mod walks;
mod world;

use crate::inbox::world::Budget as In;
use crate::outbox::limits;
use crate::outbox::world::Budget as Out;
use crate::worlds;
use world::{Part, World};

/// One user writes, to another one with so many devices, who are there from the beginning.
fn one_way(out: Out, sender: In, (recipient, devices): (In, usize)) -> World {
    let parts: [Part; 2] = [(out, sender, 0), (Out::default(), recipient, devices)];
    World::new(limits(1, 2), 1, parts)
}

/// Two users write to each other, with two devices each: three messages of each, a home that is
/// killed and one that crashes, a commit in doubt, and everything else that may happen.
fn everything(entries_max: u32, window: usize) -> World {
    let out = Out {
        messages: 3,
        refusals: 1,
        finals: 1,
        silences: 1,
        lost_answers: 1,
        crashes: 1,
        failed_reads: 1,
        waits: 1,
        ages: true,
        drops: 1,
        ..Out::default()
    };
    let own = In {
        addressed: 1,
        logins: 1,
        lost_links: 2,
        second_resumptions: 1,
        ends: 1,
        kills: 1,
        crashes: 1,
        failed_commits: 1,
        doubtful_commits: 1,
        failed_reads: 1,
        unlogged: 1,
        ..In::default()
    };
    World::new(
        limits(window, entries_max),
        window,
        [(out, own, 2), (out, own, 2)],
    )
}

/// Messages and nothing else.
fn messages(messages: u8) -> Out {
    Out {
        messages,
        ..Out::default()
    }
}

/// Nothing happens at a home that fails or ends.
fn quiet() -> In {
    In::default()
}

worlds! {
    a_message_for_two_devices: one_way(messages(1), quiet(), (quiet(), 2)),
        ["the account's mark moves"];

    two_messages_for_two_devices: one_way(messages(2), quiet(), (quiet(), 2)), [
        "a window is full of messages",
        "a page is read",
        "the window is full",
        "a destination lags",
    ];

    a_message_and_links_that_break: one_way(messages(1), quiet(), (In {
        lost_links: 1,
        second_resumptions: 1,
        ..quiet()
    }, 2)), ["a session is resumed", "a link is cut by a resumption"];

    a_message_and_a_home_that_is_killed: one_way(messages(1), quiet(), (In {
        kills: 1,
        ..quiet()
    }, 2)), ["a session is resumed", "an entry was handed over again after a crash"];

    a_message_and_a_home_that_crashes: one_way(messages(1), quiet(), (In {
        crashes: 1,
        ..quiet()
    }, 2)), ["a session is adopted", "an entry was handed over again after a crash"];

    a_message_and_a_commit_in_doubt: one_way(messages(1), quiet(), (In {
        doubtful_commits: 1,
        ..quiet()
    }, 2)), ["a commit is in doubt", "an entry was handed over again after a crash"];

    a_message_and_commits_that_fail: one_way(messages(1), In {
        failed_commits: 1,
        ..quiet()
    }, (In {
        failed_commits: 1,
        ..quiet()
    }, 2)), ["the account's mark moves"];

    a_message_that_comes_back: one_way(Out {
        finals: 1,
        ages: true,
        ..messages(1)
    }, In {
        kills: 1,
        ..quiet()
    }, (quiet(), 1)), ["an entry came back refused"];

    two_messages_with_a_refusal_and_silence: one_way(Out {
        refusals: 1,
        silences: 1,
        ..messages(2)
    }, quiet(), (quiet(), 1)), ["a destination has caught up"];

    three_messages_for_a_device: one_way(messages(3), quiet(), (quiet(), 1)), ["a page is read"];

    two_kills_and_a_commit_in_doubt: one_way(messages(1), quiet(), (In {
        kills: 2,
        doubtful_commits: 1,
        ..quiet()
    }, 1)), ["a commit is in doubt", "an entry was handed over again after a crash"];

    each_writes_to_the_other: World::new(limits(1, 2), 1, [(messages(1), quiet(), 1); 2]),
        ["the account's mark moves"];

    #[ignore = "a minute: make explore"]
    each_writes_to_two_devices: World::new(limits(1, 2), 1, [(messages(1), quiet(), 2); 2]),
        ["the account's mark moves"];

    #[ignore = "a minute: make explore"]
    two_messages_and_kills_of_both_homes: one_way(messages(2), In {
        kills: 1,
        ..quiet()
    }, (In {
        kills: 1,
        ..quiet()
    }, 1)), ["an entry was handed over again after a crash"];

    #[ignore = "a minute: make explore"]
    a_message_a_kill_and_links_that_break: one_way(messages(1), quiet(), (In {
        kills: 1,
        lost_links: 1,
        ..quiet()
    }, 2)), ["a session is resumed"];
}

/// Steps of independent homes are put off, and all else is as in the full exploration.
#[test]
fn two_messages_with_steps_put_off() {
    let world = one_way(messages(2), quiet(), (quiet(), 1)).reduced();
    let reached = world.reached.clone();
    let sometimes = [
        "a window is full of messages",
        "a page is read",
        "a destination lags",
    ];
    crate::explore(
        "two messages with steps put off",
        world,
        &reached,
        &sometimes,
    );
}

#[test]
fn walks_of_everything() {
    let sometimes = [
        "a destination lags",
        "a destination has caught up",
        "the sender's bound was reached",
        "a destination's bound was reached",
        "an entry was refused because the one in front was missing",
        "an entry was handed over again after a crash",
        "an entry came back refused",
        "an entry came back, and may have been delivered",
        "a copy of an earlier attempt was dropped",
        "a window is full of messages",
        "a session is resumed",
        "a session is adopted",
        "a session is counted anew",
        "a link is cut by a resumption",
        "a resumption is overtaken by another",
        "an entry is put on the list",
        "a page fails to be recorded",
        "a commit is in doubt",
    ];
    let worlds = [everything(1, 1), everything(2, 1), everything(2, 2)];
    walks::through("walks of everything", &worlds, 2_000, &sometimes);
}
