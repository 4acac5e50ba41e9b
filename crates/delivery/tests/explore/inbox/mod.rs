//! Worlds of one user's sessions: two devices; commits that succeed, fail and are in doubt, links
//! that break, resumptions, two of them at once, sessions that end, a server that is killed. What
//! there is is `world.rs`, what may happen `steps.rs`, what must hold `rules.rs`.

mod clients;
mod commits;
pub(crate) mod rules;
mod server;
mod steps;
pub(crate) mod world;

use std::sync::Arc;
use std::time::Duration;

use delivery::InboxLimits;

use crate::reached::Reached;
use crate::worlds;
use world::{Budget, ENTRY_BYTES, Seen, World};

/// Bounds so small that every one of them is reached, but for that of bytes, which
/// [`a_window_of_bytes`] alone reaches: it would hide that of messages. Time stands still: whatever
/// may be due, is.
pub(crate) fn limits(window: usize) -> InboxLimits {
    InboxLimits {
        window,
        window_bytes: 1_000,
        page: window,
        mark_every: 2,
        listed_max: 1,
        sessions_max: 2,
        retry_min: Duration::ZERO,
        retry_max: Duration::ZERO,
    }
}

pub(crate) fn world(window: usize, budget: Budget) -> World {
    let limits = limits(window);
    assert!(limits.is_sound());
    World {
        limits: Arc::new(limits),
        devices: 2,
        first_is_plain: false,
        has_copies: false,
        gives_up: false,
        budget,
        reached: Reached::new(Seen::NAMES),
    }
}

worlds! {
    all of Seen::NAMES;

    waiting_and_windows: world(1, Budget {
        messages: 3,
        logins: 1,
        failed_reads: 1,
        ..Budget::default()
    }), [
        "a window is full of messages",
        "a page is read",
        "a page is full",
        "a session is given what waited",
        "a page cannot be read",
        "the account's mark moves",
    ];

    a_window_of_bytes: World {
        limits: Arc::new(InboxLimits {
            window: 3,
            window_bytes: ENTRY_BYTES as usize,
            page: 2,
            ..limits(1)
        }),
        ..world(1, Budget {
            messages: 4,
            logins: 1,
            failed_reads: 1,
            ..Budget::default()
        })
    }, ["a window is full of bytes", "a page is read", "a page is full"];

    a_mark_that_is_far_ahead: world(1, Budget {
        messages: 3,
        logins: 1,
        ends: 1,
        ..Budget::default()
    }), ["the account's mark is far ahead of what is recorded"];

    links_that_break: world(1, Budget {
        messages: 2,
        unlogged: 1,
        logins: 1,
        lost_links: 2,
        second_resumptions: 1,
        ..Budget::default()
    }), [
        "a session is resumed",
        "a link is cut by a resumption",
        "a resumption is overtaken by another",
    ];

    what_is_given_up_at_a_resumption: World {
        gives_up: true,
        ..world(2, Budget {
            messages: 2,
            unlogged: 1,
            logins: 1,
            lost_links: 1,
            kills: 1,
            ..Budget::default()
        })
    }, ["a session is resumed", "a session is counted anew"];

    two_devices: world(1, Budget {
        messages: 2,
        logins: 2,
        lost_links: 1,
        ..Budget::default()
    }), ["a session is given what waited", "a session is resumed"];

    a_full_address_of_a_session_that_ends: world(1, Budget {
        addressed: 1,
        logins: 3,
        ends: 2,
        ..Budget::default()
    }), ["an entry is put on the list", "an entry of the list is given", "a session finds no room"];

    a_list_that_is_full: world(1, Budget {
        addressed: 2,
        logins: 2,
        ends: 1,
        ..Budget::default()
    }), ["what ended sessions left is read", "the list is full", "an entry of the list is given"];

    #[ignore = "half a minute: make explore"]
    full_addresses_of_sessions_that_end: world(1, Budget {
        addressed: 2,
        logins: 3,
        ends: 2,
        ..Budget::default()
    }), [
        "an entry is put on the list",
        "the list is full",
        "an entry of the list is given",
        "a session finds no room",
    ];

    a_copy: World {
        has_copies: true,
        ..world(1, Budget {
            addressed: 1,
            logins: 2,
            ends: 1,
            ..Budget::default()
        })
    }, ["an ended session leaves what another has a copy of"];

    #[ignore = "ten seconds: make explore"]
    copies: World {
        has_copies: true,
        ..world(2, Budget {
            addressed: 2,
            logins: 2,
            ends: 2,
            ..Budget::default()
        })
    }, ["an ended session leaves what another has a copy of"];

    #[ignore = "ten seconds: make explore"]
    copies_before_a_kill: World {
        has_copies: true,
        ..world(1, Budget {
            addressed: 1,
            logins: 2,
            ends: 1,
            kills: 1,
            ..Budget::default()
        })
    }, ["an entry is put on the list"];

    kills: world(1, Budget {
        messages: 3,
        logins: 1,
        lost_links: 1,
        kills: 2,
        ..Budget::default()
    }), ["a session is counted anew"];

    a_kill_of_two_devices: world(2, Budget {
        messages: 1,
        addressed: 1,
        logins: 2,
        kills: 1,
        ..Budget::default()
    }), ["a session is counted anew"];

    #[ignore = "half a minute: make explore"]
    kills_of_two_devices: world(2, Budget {
        messages: 1,
        addressed: 1,
        logins: 2,
        kills: 2,
        ..Budget::default()
    }), ["a session is counted anew"];

    a_kill_and_a_session_that_ends: world(1, Budget {
        addressed: 1,
        logins: 2,
        ends: 1,
        kills: 1,
        ..Budget::default()
    }), ["an entry is put on the list"];

    #[ignore = "half a minute: make explore"]
    kills_and_sessions_that_end: world(1, Budget {
        addressed: 2,
        logins: 2,
        ends: 1,
        kills: 1,
        ..Budget::default()
    }), ["an entry is put on the list"];

    commits_that_fail: world(1, Budget {
        messages: 2,
        addressed: 1,
        unlogged: 1,
        logins: 1,
        failed_commits: 2,
        ..Budget::default()
    }), ["a page fails to be recorded"];

    #[ignore = "ten seconds: make explore"]
    commits_that_fail_when_sessions_end: world(1, Budget {
        addressed: 2,
        logins: 2,
        ends: 1,
        failed_commits: 1,
        ..Budget::default()
    }), ["an entry is put on the list"];

    commits_in_doubt: world(1, Budget {
        messages: 3,
        logins: 1,
        lost_links: 1,
        kills: 1,
        doubtful_commits: 1,
        ..Budget::default()
    }), ["a commit is in doubt", "a session is counted anew"];

    resumptions_that_fail: world(1, Budget {
        messages: 1,
        logins: 1,
        lost_links: 1,
        kills: 1,
        failed_reads: 1,
        failed_commits: 1,
        second_resumptions: 1,
        ..Budget::default()
    }), ["a resumption fails"];

    actors_that_crash: world(1, Budget {
        messages: 2,
        unlogged: 1,
        logins: 1,
        crashes: 2,
        ..Budget::default()
    }), ["a session is adopted", "a session is adopted that was not written everything"];

    an_actor_that_crashes_and_links_that_break: world(1, Budget {
        messages: 2,
        logins: 1,
        lost_links: 1,
        second_resumptions: 1,
        crashes: 1,
        ..Budget::default()
    }), ["a session is adopted", "a session is resumed", "an adoption fails"];

    an_actor_that_crashes_before_a_kill: world(1, Budget {
        messages: 2,
        logins: 1,
        crashes: 1,
        kills: 1,
        ..Budget::default()
    }), ["a session is adopted", "a session is counted anew"];

    adoptions_that_fail: world(1, Budget {
        messages: 2,
        logins: 1,
        crashes: 1,
        failed_reads: 1,
        failed_commits: 1,
        ..Budget::default()
    }), ["a session is adopted", "an adoption fails"];

    an_actor_of_two_devices_that_crashes: world(1, Budget {
        messages: 1,
        addressed: 1,
        logins: 2,
        crashes: 1,
        ..Budget::default()
    }), ["a session is adopted", "a session is adopted that was not written everything"];

    minds_that_change: world(1, Budget {
        messages: 2,
        logins: 2,
        changes_of_mind: 2,
        ..Budget::default()
    }), ["a session is given what waited"];

    minds_that_change_amid_pages: world(1, Budget {
        messages: 1,
        addressed: 2,
        logins: 1,
        lost_links: 1,
        changes_of_mind: 3,
        ..Budget::default()
    }), ["a session is given what waited"];

    a_link_that_breaks_amid_the_list: world(1, Budget {
        addressed: 1,
        logins: 3,
        ends: 1,
        lost_links: 1,
        ..Budget::default()
    }), ["an entry is put on the list", "a session that is gone is resumed"];

    a_list_for_two_devices: world(1, Budget {
        addressed: 1,
        logins: 3,
        ends: 1,
        failed_commits: 1,
        kills: 1,
        ..Budget::default()
    }), ["an entry is put on the list"];

    minds_that_change_before_a_kill: world(1, Budget {
        messages: 2,
        logins: 1,
        changes_of_mind: 2,
        kills: 1,
        ..Budget::default()
    }), ["a session is counted anew"];

    a_client_that_counts_nothing: World {
        first_is_plain: true,
        ..world(1, Budget {
            messages: 2,
            logins: 2,
            lost_links: 1,
            failed_commits: 1,
            ..Budget::default()
        })
    }, ["an entry is written to a client that counts nothing"];

    a_client_that_counts_nothing_before_a_kill: World {
        first_is_plain: true,
        ..world(1, Budget {
            messages: 1,
            addressed: 1,
            logins: 2,
            kills: 1,
            ..Budget::default()
        })
    }, ["an entry is written to a client that counts nothing"];
}
