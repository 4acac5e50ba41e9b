//! A run over nodes: the tree of [`crate::plan`] as processes, with names, recovery and groups.
//!
//! Owns starting a run, its groups, and the monkey. Deliberately not here: links between nodes,
//! which the runtime has.
//!
//! | variant | names are registered in | nodes are linked |
//! |---|---|---|
//! | `gr` | one group of all nodes | all with all |
//! | `sr` | a group for each branch: its node and those of its children | along the tree |
//!
//! A member is started by its parent, and again when it is lost: on its own node, or on the next
//! one of the list that is there.

mod member;
mod monkey;

use std::fmt;
use std::time::Duration;

use group::{Body, CallError, GroupError, Node, NodeName, Options, Pid, Process, SpawnError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stdx::time::{Clock, SystemClock};

use crate::colony::History;
use crate::instance::Solution;
use crate::member::{Outcome, TRIES_MAX, Task};
use crate::plan::{Plan, Role};

const MEMBER: &str = "aco-member";
const MONKEY: &str = "aco-monkey";

/// What is to be run, and where.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// The tree. Its places are nodes.
    pub plan: Plan,
    /// The nodes, in the order of places. The first is that of the master.
    pub nodes: Vec<NodeName>,
    /// A group for each branch instead of one for all.
    pub grouped: bool,
    /// How long a task may take before its child counts as lost.
    pub within: Duration,
    /// On every node, kill a random member so often, from the end of the first round on.
    pub monkey: Option<Duration>,
    /// A round that leaves no cost is the last.
    pub stops_at_zero: bool,
}

/// What a member is spawned with.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct MemberArgs {
    job: Job,
    at: u32,
    /// Whose end is this member's end too; the root has none.
    parent: Option<Pid>,
}

/// The outcome of a run over nodes.
#[derive(Clone, Debug)]
pub struct Report {
    /// The best solution of all colonies.
    pub best: Solution,
    /// The cost of the best solution after each round.
    pub rounds: Vec<u64>,
    /// Time with set-up.
    pub time_all: Duration,
    /// Time of the rounds alone.
    pub time_rounds: Duration,
    /// How often a task was given away again at the root.
    pub repeated: u32,
}

/// Why a run over nodes has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The groups were not made.
    Group(GroupError),
    /// The root was not started on any node.
    Start(SpawnError),
    /// The root gave no answer, however often it was asked.
    Root(CallError),
    /// A member was lost too often.
    Lost(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Group(why) => write!(f, "the groups: {why}"),
            Failed::Start(why) => write!(f, "the root did not start: {why}"),
            Failed::Root(why) => write!(f, "the root did not answer: {why}"),
            Failed::Lost(name) => write!(f, "{name} was lost"),
        }
    }
}

impl std::error::Error for Failed {}

fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Invariant: every type here is plain data, which always has an encoding.
    postcard::to_stdvec(value).expect("plain data is encoded")
}

fn decode<T: DeserializeOwned>(body: &Body) -> Option<T> {
    postcard::from_bytes(body).ok()
}

/// Adds what a node must offer so that runs may use it. `told` hears of each member that starts.
#[must_use]
pub fn offer(options: Options, told: impl Fn() + Send + Sync + 'static) -> Options {
    options
        .function(MEMBER, move |args: &Body| {
            told();
            member::make(args)
        })
        .function(MONKEY, |args: &Body| {
            Box::new(monkey::Monkey::new(decode(args))) as Box<dyn Process>
        })
}

impl Job {
    /// The group in which the children of a branch have their names.
    fn group_of(&self, branch: u32) -> String {
        if self.grouped {
            format!("aco-{}", self.plan.members[branch as usize].name)
        } else {
            "aco".into()
        }
    }

    fn node_of(&self, member: usize) -> &NodeName {
        &self.nodes[self.plan.members[member].place as usize % self.nodes.len()]
    }

    /// The groups of the run with their members, the home of each first.
    fn groups(&self, own: &NodeName) -> Vec<(String, Vec<NodeName>)> {
        let mut all = vec![("aco".to_string(), self.nodes.clone())];
        if self.grouped {
            all.clear();
            for (at, member) in self.plan.members.iter().enumerate() {
                let Role::Branch(children) = &member.role else {
                    continue;
                };
                let mut nodes = vec![self.node_of(at).clone()];
                nodes.extend(children.iter().map(|child| self.node_of(*child).clone()));
                all.push((self.group_of(at as u32), nodes));
            }
        }
        for (_, nodes) in &mut all {
            // The master makes the groups, so it is a member of each until all are made.
            nodes.insert(0, own.clone());
            let mut seen = Vec::new();
            nodes.retain(|node| {
                !seen.contains(node) && {
                    seen.push(node.clone());
                    true
                }
            });
        }
        all
    }
}

/// How long a member may take to start.
const START: Duration = Duration::from_secs(10);

/// How long the master waits before it asks a lost root again.
const PAUSE: Duration = Duration::from_millis(100);

struct Run<'a> {
    node: &'a Node,
    job: &'a Job,
    root: Option<Pid>,
    repeated: u32,
}

/// Runs a job with its master on `node`, which is one of the job's nodes or a further one. `told`
/// hears of each round and the best cost so far.
///
/// # Errors
/// Why there is no outcome.
pub fn run(node: &Node, job: &Job, told: impl FnMut(u32, u64)) -> Result<Report, Failed> {
    let clock = SystemClock::new();
    let began = clock.now();
    let own = node.name().clone();
    let groups = job.groups(&own);
    for (name, nodes) in &groups {
        node.new_group(name, nodes).map_err(Failed::Group)?;
    }
    let mut run = Run {
        node,
        job,
        root: None,
        repeated: 0,
    };
    let rounds_began = clock.now();
    let outcome = run.rounds(told);
    let now = clock.now();
    for (name, _) in &groups {
        // What is left of a group when its nodes are gone does not matter any more.
        let _ = node.delete_group(name);
    }
    let (best, rounds) = outcome?;
    Ok(Report {
        best,
        rounds,
        time_all: now.saturating_since(began),
        time_rounds: now.saturating_since(rounds_began),
        repeated: run.repeated,
    })
}

impl Run<'_> {
    fn rounds(&mut self, mut told: impl FnMut(u32, u64)) -> Result<(Solution, Vec<u64>), Failed> {
        let mut best: Option<Solution> = None;
        let mut histories: Vec<(u32, History)> = Vec::new();
        let mut costs = Vec::new();
        let mut monkeys = Vec::new();
        for round in 0..self.job.plan.params.rounds {
            let task = Task {
                round,
                best: best.clone(),
                histories,
            };
            let answer = self.ask(&task)?.map_err(|lost| Failed::Lost(lost.0))?;
            let found = match best.take() {
                Some(best) => best.better(answer.best),
                None => answer.best,
            };
            told(round, found.cost);
            costs.push(found.cost);
            best = Some(found);
            histories = answer.histories;
            if self.job.stops_at_zero && costs.last() == Some(&0) {
                break;
            }
            if round == 0 && self.job.monkey.is_some() {
                monkeys = self.let_loose();
            }
        }
        for pid in monkeys.iter().chain(&self.root) {
            let _ = self.node.kill(pid);
        }
        // Invariant: there is at least one round, as options are checked.
        Ok((best.expect("every round leaves a best"), costs))
    }

    /// Asks the root, and another one if it is lost.
    fn ask(&mut self, task: &Task) -> Result<Outcome, Failed> {
        let mut last = CallError::Dropped;
        for _ in 0..TRIES_MAX {
            let root = self.start()?;
            match self.node.call(&root, encode(task), self.job.within) {
                Ok(body) => match decode(&body) {
                    Some(outcome) => return Ok(outcome),
                    None => last = CallError::Dropped,
                },
                Err(error) => last = error,
            }
            self.repeated += 1;
            let _ = self.node.kill(&root);
            self.root = None;
            std::thread::sleep(PAUSE);
        }
        Err(Failed::Root(last))
    }

    /// The root, on the first node that takes it.
    fn start(&mut self) -> Result<Pid, Failed> {
        if let Some(root) = &self.root {
            return Ok(root.clone());
        }
        let at = self.job.plan.root();
        let args = encode(&MemberArgs {
            job: self.job.clone(),
            at: at as u32,
            parent: None,
        });
        let mut last = SpawnError::NoConnection;
        let first = self.job.node_of(at);
        for node in std::iter::once(first).chain(&self.job.nodes) {
            match self.node.spawn(node, MEMBER, args.clone(), START) {
                Ok(root) => {
                    self.root = Some(root.clone());
                    return Ok(root);
                }
                Err(error) => last = error,
            }
        }
        Err(Failed::Start(last))
    }

    /// A monkey on each node that is there.
    fn let_loose(&self) -> Vec<Pid> {
        let start = |node| self.node.spawn(node, MONKEY, encode(self.job), START);
        self.job
            .nodes
            .iter()
            .filter_map(|node| start(node).ok())
            .collect()
    }
}
