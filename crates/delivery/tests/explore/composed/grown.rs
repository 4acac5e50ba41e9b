//! How far a world of two users may grow: one that is described from outside, and explored as long
//! as `EXPLORE_SECONDS` says.

use super::one_way;
use super::world::World;
use crate::inbox::world::Budget as In;
use crate::outbox::limits;
use crate::outbox::world::Budget as Out;

/// A world as `GROW` says, in words such as `messages=3 devices=2 kills=1`: to see how far it
/// may grow. What begins with `sender_` is of the home of the one who writes; with `both=1` each
/// writes.
fn grown(words: &str) -> World {
    let of = |name: &str| -> u8 {
        let words = words
            .split_whitespace()
            .filter_map(|word| word.split_once('='));
        let mut words = words.filter(|(own, _)| *own == name);
        words
            .next()
            .map_or(0, |(_, value)| value.parse().expect("a number"))
    };
    let out = Out {
        messages: of("messages"),
        refusals: of("refusals"),
        finals: of("finals"),
        silences: of("silences"),
        ages: of("ages") > 0,
        ..Out::default()
    };
    let sender = In {
        kills: of("sender_kills"),
        failed_commits: of("sender_failed_commits"),
        doubtful_commits: of("sender_doubtful_commits"),
        ..In::default()
    };
    let to = In {
        kills: of("kills"),
        crashes: of("crashes"),
        failed_commits: of("failed_commits"),
        doubtful_commits: of("doubtful_commits"),
        lost_links: of("lost_links"),
        second_resumptions: of("second_resumptions"),
        ends: of("ends"),
        ..In::default()
    };
    let devices = usize::from(of("devices"));
    let world = if of("both") > 0 {
        World::new(limits(1, 2), 1, [(out, to, devices), (out, to, devices)])
    } else {
        one_way(out, sender, (to, devices))
    };
    match of("reduced") {
        0 => world,
        _ => world.reduced(),
    }
}

#[test]
#[ignore = "explores what GROW says"]
fn as_large_as_you_say() {
    let words = std::env::var("GROW").unwrap_or_default();
    let world = grown(&words);
    let reached = world.reached.clone();
    crate::explore(&words, world, &reached, &[]);
}
