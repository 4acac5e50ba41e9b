//! Known optima are reached, in every variant, and kills change nothing.

use std::time::Duration;

use aco::colony::run_alone;
use aco::instance::Instance;
use aco::local::{self, Failed, LocalOptions, Report};
use aco::params::{Heuristic, Params, Search};
use aco::plan::Plan;

fn instance(text: &str) -> Instance {
    Instance::parse(text).unwrap()
}

fn wt40() -> Instance {
    instance(include_str!("../instances/wt40.001"))
}

/// Small enough for a development build, with the search that finds optima.
fn params() -> Params {
    Params {
        ants: 5,
        rounds: 6,
        iterations: 5,
        heuristic: Heuristic::Mixed,
        search: Search::InterchangeInsertion,
        ..Params::default()
    }
}

fn run(plan: Plan, options: LocalOptions) -> Report {
    let count = plan.params.rounds as usize;
    let report = local::run(plan, options, |_, _| {}).unwrap();
    assert_eq!(report.rounds.len(), count);
    assert!(report.rounds.is_sorted_by(|a, b| a >= b));
    assert_eq!(report.rounds.last(), Some(&report.best.cost));
    report
}

#[test]
fn published_optima_are_reached() {
    for (text, places, rounds, optimum) in [
        (include_str!("../instances/wt40.001"), 8, 20, 913),
        (include_str!("../instances/wt50.001"), 4, 10, 2_134),
        (include_str!("../instances/wt100.001"), 4, 10, 5_988),
    ] {
        let params = Params {
            ants: 10,
            rounds,
            iterations: 10,
            search: Search::InterchangeInsertion,
            ..Params::default()
        };
        let plan = Plan::new(instance(text), params, places, 1, 9);
        let options = LocalOptions {
            shards: 2,
            ..LocalOptions::default()
        };
        let report = run(plan, options);
        assert_eq!(report.best.cost, optimum);
    }
}

#[test]
fn one_colony_of_actors_does_what_a_loop_does() {
    for search in [Search::None, Search::Insertion] {
        let mut params = params();
        params.heuristic = Heuristic::Mdd;
        params.search = search;
        let alone = run_alone(&wt40(), &params);
        let plan = Plan::new(wt40(), params, 1, 1, 2);
        assert_eq!(run(plan, LocalOptions::default()).best, alone);
    }
}

#[test]
fn every_tree_of_the_same_colonies_finds_the_same() {
    let mut params = params();
    params.search = Search::None;
    let mut reports = Vec::new();
    for (degree, shards, recovers) in [(9, 1, false), (2, 2, false), (2, 2, true), (3, 1, true)] {
        let plan = Plan::new(wt40(), params, 4, 2, degree);
        let options = LocalOptions {
            shards,
            recovers,
            ..LocalOptions::default()
        };
        reports.push(run(plan, options));
    }
    for report in &reports {
        assert_eq!(report.rounds, reports[0].rounds);
        assert_eq!(report.best, reports[0].best);
    }
}

#[test]
fn a_monkey_changes_nothing_but_the_time() {
    let mut params = params();
    params.rounds = 100;
    params.search = Search::None;
    let plan = || Plan::new(wt40(), params, 4, 1, 2);
    let options = LocalOptions {
        shards: 2,
        recovers: true,
        ..LocalOptions::default()
    };
    let calm = run(plan(), options);
    assert_eq!(calm.killed, 0);
    let monkey = LocalOptions {
        monkey: Some(Duration::from_millis(5)),
        ..options
    };
    let disturbed = run(plan(), monkey);
    assert!(disturbed.killed > 0, "it killed nobody");
    assert_eq!(disturbed.rounds, calm.rounds);
    assert_eq!(disturbed.best, calm.best);
}

#[test]
fn a_member_that_is_too_slow_is_given_up_without_recovery() {
    let options = LocalOptions {
        within: Duration::from_millis(1),
        ..LocalOptions::default()
    };
    let mut params = params();
    params.iterations = 10_000;
    let failed = local::run(Plan::new(wt40(), params, 1, 1, 2), options, |_, _| {});
    assert!(matches!(failed, Err(Failed::Lost(_))), "{failed:?}");
}
