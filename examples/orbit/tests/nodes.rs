//! Orbits over nodes: all to all and in groups, and with a node that is killed while it works.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use group::{Node, NodeName, Options};
use orbit::generator::Fib;
use orbit::nodes::{self, Job};
use orbit::worker::Conf;

/// Generous: a test machine may have much else to do.
const WITHIN: Duration = Duration::from_secs(300);

/// A port that is free now, as the name of a node there.
fn free_name(number: usize) -> String {
    let host = format!("127.0.0.{}", number + 1);
    let listener = TcpListener::bind((host.as_str(), 0)).unwrap();
    format!("n{number}@{}", listener.local_addr().unwrap())
}

fn start(count: usize) -> Vec<Node> {
    let node = |number| {
        let options = Options::new(&free_name(number), b"orbit").shards(2);
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
        assert_eq!(outcome.restarts, 0);
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
        assert_eq!((outcome.workers.len(), outcome.restarts), (workers, 0));
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

/// A process that is ended with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    fn start(words: &[&str]) -> Self {
        let child = Command::new(env!("CARGO_BIN_EXE_orbit"))
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        Process(child.unwrap())
    }

    fn lines(&mut self) -> impl Iterator<Item = String> + use<> {
        let out = self.0.stdout.take().unwrap();
        BufReader::new(out).lines().map(Result::unwrap)
    }
}

/// Three processes on addresses of their own, one of which is killed as soon as it works.
fn one_of_three_is_killed(more: &[&str]) {
    let free: Vec<String> = (0..3).map(free_name).collect();
    let mut others: Vec<Process> = free[1..]
        .iter()
        .map(|name| Process::start(&["node", name]))
        .collect();
    let mut lines: Vec<_> = others.iter_mut().map(Process::lines).collect();
    for lines in &mut lines {
        assert_eq!(lines.next().as_deref(), Some("listening"));
    }
    let mut words = vec!["dist", &free[0], "g12345", "10000", "2"];
    words.extend(free.iter().map(String::as_str));
    words.extend(more);
    let mut master = Process::start(&words);
    assert_eq!(lines[1].next().as_deref(), Some("working"));
    others[1].0.kill().unwrap();
    let said: Vec<String> = master.lines().collect();
    assert!(said.contains(&"size 9123".to_string()), "{said:?}");
    assert!(said.contains(&"workers 4".to_string()), "{said:?}");
    // It may have seen the loss more than once, but it has seen it.
    let restarts = said.iter().find_map(|line| line.strip_prefix("restarts "));
    assert!(restarts.is_some_and(|count| count != "0"), "{said:?}");
    // The node that is left ends with its input.
    others[0].0.stdin.take().unwrap().flush().unwrap();
    assert!(others[0].0.wait().unwrap().success());
}

#[test]
fn three_processes_of_which_one_is_killed_find_the_orbit() {
    one_of_three_is_killed(&[]);
}

#[test]
fn groups_of_three_processes_of_which_one_is_killed_find_the_orbit() {
    one_of_three_is_killed(&["groups=2", "gateways=2"]);
}
