//! Runs over nodes give the same result as a run over shards, with groups, kills and a lost node.

#[path = "../../tests/processes.rs"]
mod processes;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aco::instance::Instance;
use aco::local::{self, LocalOptions};
use aco::nodes::{self, Job, Report};
use aco::params::{Params, Search};
use aco::plan::Plan;
use group::{Node, Options};
use processes::{free_name, kill_one_of_three};

/// Nodes, and how many members have started on them.
fn start(count: usize) -> (Vec<Node>, Arc<AtomicUsize>) {
    let started = Arc::new(AtomicUsize::new(0));
    let node = |number| {
        let options = Options::new(&free_name(number), b"aco");
        let started = Arc::clone(&started);
        let told = move || {
            started.fetch_add(1, Ordering::Relaxed);
        };
        Node::start(nodes::offer(options, told)).unwrap()
    };
    ((0..count).map(node).collect(), started)
}

fn plan(places: u32, degree: u32, rounds: u32) -> Plan {
    let instance = Instance::parse(include_str!("../instances/wt40.001")).unwrap();
    let params = Params {
        ants: 5,
        rounds,
        iterations: 5,
        search: Search::Insertion,
        ..Params::default()
    };
    Plan::new(instance, params, places, 1, degree)
}

fn job(nodes: &[Node], plan: Plan, grouped: bool) -> Job {
    Job {
        plan,
        nodes: nodes.iter().map(|node| node.name().clone()).collect(),
        grouped,
        within: Duration::from_secs(300),
        monkey: None,
        stops_at_zero: false,
    }
}

fn check(report: &Report, plan: Plan) {
    let expected = local::run(plan, LocalOptions::default(), |_, _| {}).unwrap();
    assert_eq!(report.rounds, expected.rounds);
    assert_eq!(report.best, expected.best);
}

#[test]
fn nodes_find_what_shards_find_in_one_group_and_in_many() {
    let (nodes, _) = start(4);
    for (degree, grouped) in [(9, false), (2, false), (2, true)] {
        let plan = plan(4, degree, 6);
        let report = nodes::run(&nodes[0], &job(&nodes, plan.clone(), grouped), |_, _| {});
        let report = report.unwrap();
        assert_eq!(report.repeated, 0);
        check(&report, plan);
    }
}

#[test]
fn monkeys_on_every_node_change_nothing() {
    let (nodes, started) = start(3);
    for grouped in [false, true] {
        let plan = plan(3, 2, 60);
        let mut job = job(&nodes, plan.clone(), grouped);
        job.monkey = Some(Duration::from_millis(20));
        let before = started.load(Ordering::Relaxed);
        let members = plan.members.len();
        check(&nodes::run(&nodes[0], &job, |_, _| {}).unwrap(), plan);
        let after = started.load(Ordering::Relaxed);
        assert!(after - before > members, "nobody was killed");
    }
}

/// Three processes on addresses of their own, one of which is killed as soon as it works.
fn one_of_three_is_killed(variant: &str) {
    let file = std::env::temp_dir().join(format!("aco-{variant}-{}", std::process::id()));
    let words = |names: &[String]| {
        std::fs::write(&file, names.join("\n")).unwrap();
        let (nodes, me) = (
            format!("nodes={}", file.display()),
            format!("me={}", names[0]),
        );
        let input = concat!(env!("CARGO_MANIFEST_DIR"), "/instances/wt40.001");
        let words = [variant, &nodes, &me, "o2", input, "2", "1", "5", "200", "5"];
        words.into_iter().map(String::from).collect()
    };
    let said = kill_one_of_three(env!("CARGO_BIN_EXE_aco"), words);
    let _ = std::fs::remove_file(&file);
    let calm = local::run(plan(3, 2, 200), LocalOptions::default(), |_, _| {}).unwrap();
    let cost = format!("Best cost = {}", calm.best.cost);
    assert!(said.contains(&cost), "{cost}: {said:?}");
}

#[test]
fn three_processes_of_which_one_is_killed_find_the_same() {
    one_of_three_is_killed("gr");
}

#[test]
fn groups_of_three_processes_of_which_one_is_killed_find_the_same() {
    one_of_three_is_killed("sr");
}
