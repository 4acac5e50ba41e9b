//! Orbits over nodes: all to all and in groups, and with a node that is killed while it works.

#[path = "../../tests/processes.rs"]
mod processes;

use std::time::Duration;

use group::{Limits, Node, NodeName, Options};
use orbit::generator::Fib;
use orbit::nodes::{self, Job};
use orbit::worker::Conf;
use processes::{Process, free_name, kill_one_of_three};

/// Generous: a test machine may have much else to do.
const WITHIN: Duration = Duration::from_secs(300);

/// As generous, for what one node waits for from another one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Nodes none of which takes another one for lost because it is slow.
fn start(count: usize) -> Vec<Node> {
    let limits = Limits {
        handshake: PATIENCE,
        silence: PATIENCE,
        ask: PATIENCE,
        ..Limits::default()
    };
    let node = |number| {
        let options = Options::new(&free_name(number), b"orbit").shards(2);
        let options = options.limits(limits.clone());
        Node::start(nodes::offer(options, || {})).unwrap()
    };
    (0..count).map(node).collect()
}

fn conf(set: &str, size: u32) -> Conf {
    let mut conf = Conf::new(set.parse().unwrap(), size);
    conf.fib = Fib::Table;
    conf
}

fn names(nodes: &[Node]) -> Vec<NodeName> {
    nodes.iter().map(|node| node.name().clone()).collect()
}

#[test]
fn all_to_all_finds_every_orbit() {
    let nodes = start(3);
    for (set, size, expected) in [("g124", 1_000, 854), ("g12345", 10_000, 9_123)] {
        let job = Job::new(conf(set, size), names(&nodes), 2);
        let outcome = nodes::run(&nodes[0], &job, WITHIN).unwrap();
        assert_eq!((outcome.size, outcome.workers.len()), (expected, 6));
        assert_eq!(outcome.given_up, [""; 0]);
    }
}

#[test]
fn groups_with_gateways_find_every_orbit_and_leave_nothing_behind() {
    let nodes = start(5);
    for (groups, gateways, separate, workers) in
        [(2, 2, false, 10), (2, 1, true, 6), (1, 1, false, 10)]
    {
        let mut job = Job::new(conf("g12345", 10_000), names(&nodes), 2);
        (job.groups, job.gateways, job.separate) = (groups, gateways, separate);
        let outcome = nodes::run(&nodes[0], &job, WITHIN).unwrap();
        assert_eq!(outcome.size, 9_123);
        assert_eq!(outcome.given_up, [""; 0]);
        assert_eq!(outcome.workers.len(), workers);
        // The last group goes while the outcome is on its way.
        for node in &nodes {
            for _ in 0..3_000 {
                if node.own_groups().unwrap().is_empty() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            assert_eq!(node.own_groups().unwrap(), []);
        }
    }
}

#[test]
fn a_node_that_is_not_there_is_left_out() {
    let nodes = start(2);
    let mut all = names(&nodes);
    all.push(NodeName::new(&free_name(7)).unwrap());
    let job = Job::new(conf("g124", 1_000), all, 3);
    let outcome = nodes::run(&nodes[0], &job, WITHIN).unwrap();
    assert_eq!((outcome.size, outcome.workers.len()), (854, 6));
}

#[test]
fn a_job_without_workers_is_refused() {
    let nodes = start(1);
    let job = Job::new(conf("g124", 1_000), Vec::new(), 3);
    let outcome = nodes::run(&nodes[0], &job, WITHIN);
    assert!(
        matches!(outcome, Err(nodes::Failed::Lost(_))),
        "{outcome:?}"
    );
}

/// Three processes on addresses of their own, one of which is killed as soon as it works.
fn one_of_three_is_killed(more: &[&str]) {
    let words = |names: &[String]| {
        let fixed = ["dist", &names[0], "g12345", "10000", "2"];
        let all = fixed.into_iter().chain(names.iter().map(String::as_str));
        all.chain(more.iter().copied()).map(String::from).collect()
    };
    let said = kill_one_of_three(env!("CARGO_BIN_EXE_orbit"), words);
    assert!(said.contains(&"size 9123".to_string()), "{said:?}");
    assert!(said.contains(&"workers 4".to_string()), "{said:?}");
    // It may have seen the loss more than once, but it has seen it.
    let restarts = said.iter().find_map(|line| line.strip_prefix("restarts "));
    assert!(restarts.is_some_and(|count| count != "0"), "{said:?}");
}

#[test]
fn three_processes_of_which_one_is_killed_find_the_orbit() {
    one_of_three_is_killed(&[]);
}

#[test]
fn groups_of_three_processes_of_which_one_is_killed_find_the_orbit() {
    one_of_three_is_killed(&["groups=2", "gateways=2"]);
}

/// One of three nodes is in another network; then a rule wants what none has.
#[test]
fn work_goes_to_nodes_that_are_near_and_have_what_it_needs() {
    let program = env!("CARGO_BIN_EXE_orbit");
    let names: Vec<String> = (0..3).map(free_name).collect();
    let start = |name: &String| Process::start(program, &["node", name]);
    let mut others: Vec<Process> = names[1..].iter().map(start).collect();
    for other in &mut others {
        assert_eq!(other.line().as_deref(), Some("listening"));
    }
    let map = format!(
        "[[network]]\nnodes = [{:?}, {:?}]\n[[network]]\nnodes = [{:?}]\n",
        names[0], names[1], names[2]
    );
    let file = std::env::temp_dir().join(format!("orbit-network-{}", std::process::id()));
    std::fs::write(&file, map).unwrap();
    let network = format!("network={}", file.display());
    let mut rules = vec!["need=cores>=1", "need=distance<=0.5"];
    for (more, workers) in [
        (None, Some("workers 4")),
        (Some("need=cores>1000000"), None),
    ] {
        rules.extend(more);
        let fixed = [
            "dist", &names[0], "g12345", "10000", "2", &names[0], &names[1], &names[2],
        ];
        let words = [&fixed[..], &[&network, "groups=1"], &rules].concat();
        let said = Process::start(program, &words).rest();
        let line = said.iter().find(|line| line.starts_with("workers "));
        assert_eq!(line.map(String::as_str), workers, "{said:?}");
        assert_eq!(said.contains(&"size 9123".to_string()), workers.is_some());
    }
    let _ = std::fs::remove_file(&file);
}
