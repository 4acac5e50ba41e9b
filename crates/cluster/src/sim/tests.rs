//! Several nodes over a twin of the engine, in one thread and under a virtual clock: killed,
//! paused, cut off, with elections, lost quorums, lost answers and a rival with prepared appends.
//! A seed decides everything. Owns what must hold: see `check`.

mod check;
mod kv;
mod load;
mod node;
mod orderly;
mod stream;
mod trace;
mod world;

use crate::flaw::{Flaw, with};
use world::World;

/// Schedules of a run of `make test`, unless `SCHEDULES` says otherwise.
const SCHEDULES: u64 = 150;
/// Schedules within which each mistake must be found.
const SCHEDULES_PER_FLAW: u64 = 400;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |value| value.parse().unwrap())
}

/// Goal: accepted is in the log once and in order, no two homes act at once, replicas are equal,
/// and when the faults are over the streams go on.
#[test]
#[allow(clippy::disallowed_methods, clippy::print_stdout)] // Says how many schedules a minute.
fn schedules_hold() {
    let (first, count) = (number("SCHEDULE", 1), number("SCHEDULES", SCHEDULES));
    let started = std::time::Instant::now();
    let mut total = load::Stats::default();
    for seed in first..first + count {
        match World::run(seed) {
            Ok(stats) => total += stats,
            Err(why) => panic!("SCHEDULE={seed} SCHEDULES=1: {why}"),
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{count} schedules in {seconds:.1} s: {total:?}");
    if count >= SCHEDULES {
        total.assert_all_happened();
    }
}

/// Goal: one seed is one history.
#[test]
fn a_schedule_repeats_itself() {
    assert_eq!(World::run(7), World::run(7));
}

/// Goal: each mistake on purpose is found, which shows that the checks look where they should.
#[test]
#[allow(clippy::print_stdout)] // Says what each was found by.
fn each_flaw_is_found() {
    let all = [
        Flaw::Pipelines,
        Flaw::TimeOutDecides,
        Flaw::RefusalDecides,
        Flaw::EpochNotChecked,
        Flaw::ServesEarly,
        Flaw::IdWithoutIncarnation,
        Flaw::AnyAcknowledgement,
        Flaw::LeaseNotChecked,
        Flaw::FenceIsBlind,
        Flaw::NewIdAfterDoubt,
        Flaw::ForgetsRecords,
        Flaw::ReadsOneLess,
        Flaw::ActsToTheEnd,
        Flaw::DoesNotWait,
        Flaw::DoubtDecides,
        Flaw::VoidTakesNoPlace,
    ];
    let mut missed = Vec::new();
    for flaw in all {
        let run = |seed| with(Some(flaw), || World::run(seed).err());
        let found = (1..=SCHEDULES_PER_FLAW).find_map(|seed| Some((seed, run(seed)?)));
        match found {
            Some((seed, why)) => println!("{flaw:?}: schedule {seed}: {why}"),
            None => missed.push(flaw),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
