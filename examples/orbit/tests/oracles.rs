//! Sizes of orbits that were found independently, for every way to compute them.

use std::time::Duration;

use orbit::generator::Fib;
use orbit::local::{self, Failed};
use orbit::sequential;
use orbit::stats::Outcome;
use orbit::worker::Conf;
use stdx::time::SystemClock;

/// (set, size of the space, size of the orbit).
const ORACLES: &[(&str, u32, usize)] = &[
    ("g1", 1_000, 213),
    ("g1", 10_000, 3_125),
    ("g1", 100_000, 15_625),
    ("g13", 1_000, 895),
    ("g13", 10_000, 9_122),
    ("g13", 100_000, 82_500),
    ("g124", 1_000, 854),
    ("g124", 10_000, 6_889),
    ("g124", 100_000, 68_859),
    ("g1245", 1_000, 854),
    ("g1245", 10_000, 6_892),
    ("g1245", 100_000, 68_862),
    ("g12345", 1_000, 968),
    ("g12345", 10_000, 9_123),
    ("g12345", 100_000, 86_992),
];

/// Generous: a test machine may have much else to do.
const WITHIN: Duration = Duration::from_secs(300);

/// Numbers from a table, except in small spaces, which the published recursion does too.
fn conf(set: &str, size: u32) -> Conf {
    let mut conf = Conf::new(set.parse().unwrap(), size);
    if size > 1_000 {
        conf.fib = Fib::Table;
    }
    conf
}

/// Whoever sends a vertex has it received: no message is lost or counted twice.
fn check(outcome: &Outcome, expected: usize) {
    assert_eq!(outcome.size, expected);
    let sizes: usize = outcome.workers.iter().map(|one| one.fill.size).sum();
    assert_eq!(sizes, expected);
}

#[test]
fn one_loop_finds_every_orbit() {
    for (set, size, expected) in ORACLES {
        check(
            &sequential::run(&conf(set, *size), &SystemClock::new()),
            *expected,
        );
    }
}

#[test]
fn actors_over_shards_find_every_orbit() {
    for (set, size, expected) in ORACLES {
        for (shards, workers) in [(1, 1), (2, 5)] {
            let outcome = local::run(&conf(set, *size), shards, workers, WITHIN).unwrap();
            check(&outcome, *expected);
            assert_eq!(outcome.workers.len(), workers as usize);
        }
    }
}

#[test]
fn one_vertex_a_message_and_an_actor_an_image_change_nothing() {
    for (batch_max, spawned_max, idle) in [(1, 0, 0), (1, 3, 0), (7, 1, 1), (256, 64, 1)] {
        let mut conf = conf("g12345", 1_000);
        conf.batch_max = batch_max;
        conf.spawned_max = spawned_max;
        conf.idle_timeout = Duration::from_millis(idle);
        check(&local::run(&conf, 2, 8, WITHIN).unwrap(), 968);
    }
}

#[test]
fn more_workers_than_vertices_find_the_orbit() {
    check(&local::run(&conf("g12345", 1), 2, 40, WITHIN).unwrap(), 1);
    let alone = sequential::run(&conf("g12345", 16), &SystemClock::new()).size;
    check(
        &local::run(&conf("g12345", 16), 2, 40, WITHIN).unwrap(),
        alone,
    );
}

#[test]
fn a_run_that_takes_too_long_says_so() {
    let mut conf = conf("g12345", 1_000_000);
    conf.fib = Fib::Naive;
    let outcome = local::run(&conf, 2, 4, Duration::from_millis(20));
    assert_eq!(outcome, Err(Failed::Timeout));
}
