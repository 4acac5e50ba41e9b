//! A run over the shards of one process.
//!
//! Owns starting the tree, the rounds, and the monkey that kills members while they work.
//! Deliberately not here: nodes.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actor::threads::run_threads;
use actor::{
    Actor, Addr, AskError, Context, EntityClass, Handle, Mail, Name, Options, ShardId, system,
};
use stdx::time::{Clock, SystemClock};

use crate::colony::History;
use crate::instance::Solution;
use crate::member::{
    Branch, Child, ColonyActor, Lost, Member, Msg, Outcome, Shared, TRIES_MAX, Task,
};
use crate::plan::{Plan, Role};

/// How long shards may take to start a member.
const START: Duration = Duration::from_secs(30);

/// How a run over shards is made.
#[derive(Clone, Copy, Debug)]
pub struct LocalOptions {
    /// Threads.
    pub shards: u16,
    /// Members have names and are replaced when they are lost.
    pub recovers: bool,
    /// On every shard, kill a random member so often, from the end of the first round on. Without
    /// `recovers` there is nobody with a name to kill.
    pub monkey: Option<Duration>,
    /// How long one task may take before its child counts as lost.
    pub within: Duration,
    /// A round that leaves no cost is the last.
    pub stops_at_zero: bool,
}

impl Default for LocalOptions {
    fn default() -> Self {
        LocalOptions {
            shards: 1,
            recovers: false,
            monkey: None,
            within: Duration::from_secs(600),
            stops_at_zero: false,
        }
    }
}

/// The outcome of a run.
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
    /// Members that the monkey killed.
    pub killed: u64,
}

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The operating system gave no thread.
    Threads(String),
    /// A shard did not start its members.
    Start(AskError),
    /// A member was lost, and nobody recovers here or it was lost too often.
    Lost(String),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Threads(why) => write!(f, "no thread: {why}"),
            Failed::Start(why) => write!(f, "a member did not start: {why}"),
            Failed::Lost(name) => write!(f, "{name} was lost"),
        }
    }
}

impl std::error::Error for Failed {}

/// Brings members to life when something is sent to them.
struct Members {
    shared: Arc<Shared>,
    by_name: Arc<HashMap<String, usize>>,
    shards: u16,
}

impl EntityClass for Members {
    type Msg = Msg;
    type Actor = Member;

    fn activate(&mut self, name: &Name, _: ShardId) -> Member {
        let at = self.by_name.get(&**name).copied().unwrap_or_default();
        let named = |child: &usize| {
            let child = &self.shared.plan.members[*child];
            Child::Named(place(child.place, self.shards), child.name.as_str().into())
        };
        member(&self.shared, at, named)
    }
}

fn place(place: u32, shards: u16) -> ShardId {
    ShardId::new((place % u32::from(shards)) as u16)
}

fn member(shared: &Arc<Shared>, at: usize, child: impl Fn(&usize) -> Child) -> Member {
    match &shared.plan.members[at].role {
        Role::Branch(children) => {
            let children = children.iter().map(child).collect();
            Member::Branch(Branch::new(Arc::clone(shared), at, children))
        }
        Role::Colony(number) => {
            Member::Colony(Box::new(ColonyActor::new(Arc::clone(shared), *number)))
        }
    }
}

/// Kills a random member of its shard now and then.
struct Monkey {
    every: Duration,
    killed: Arc<AtomicU64>,
}

impl Actor for Monkey {
    type Msg = ();

    fn started(&mut self, cx: &mut Context<'_, ()>) {
        cx.send_after(self.every, ());
    }

    fn handle(&mut self, (): (), cx: &mut Context<'_, ()>) {
        if let Some((who, _)) = cx.core().any_entity() {
            cx.kill(who);
            self.killed.fetch_add(1, Ordering::Relaxed);
        }
        cx.send_after(self.every, ());
    }
}

/// The way to the root.
enum Root {
    Addr(Addr<Msg>),
    Named(ShardId, Name),
}

struct Run<'a> {
    handle: &'a Handle,
    shared: Arc<Shared>,
    options: LocalOptions,
}

/// Runs a plan. `told` hears of each round and the best cost so far.
///
/// # Errors
/// Why there is no outcome.
pub fn run(
    plan: Plan,
    options: LocalOptions,
    told: impl FnMut(u32, u64),
) -> Result<Report, Failed> {
    let clock = SystemClock::new();
    let began = clock.now();
    let shards = options.shards;
    let (handle, seeds) = system(Options::new(shards, 1));
    let by_name = plan.members.iter().enumerate();
    let by_name: HashMap<String, usize> = by_name
        .map(|(at, member)| (member.name.clone(), at))
        .collect();
    let by_name = Arc::new(by_name);
    let shared = Arc::new(Shared {
        plan,
        recovers: options.recovers,
        within: options.within,
    });
    let class = Arc::clone(&shared);
    let threads = run_threads(seeds, Arc::new(clock), move |shard| {
        shard.set_class(Members {
            shared: Arc::clone(&class),
            by_name: Arc::clone(&by_name),
            shards,
        });
    });
    let threads = threads.map_err(|error| Failed::Threads(error.to_string()))?;
    let run = Run {
        handle: &handle,
        shared,
        options,
    };
    let killed = Arc::new(AtomicU64::new(0));
    let started = run.start();
    let rounds_began = clock.now();
    let outcome = started.and_then(|root| run.rounds(&root, &killed, told));
    let now = clock.now();
    handle.shut_down();
    threads.join();
    let (best, rounds) = outcome?;
    Ok(Report {
        best,
        rounds,
        time_all: now.saturating_since(began),
        time_rounds: now.saturating_since(rounds_began),
        killed: killed.load(Ordering::Relaxed),
    })
}

impl Run<'_> {
    /// Starts all members, children first; those with names are started by the first task.
    fn start(&self) -> Result<Root, Failed> {
        let plan = &self.shared.plan;
        let shard = |at: usize| place(plan.members[at].place, self.options.shards);
        if self.options.recovers {
            let root = plan.root();
            let name = plan.members[root].name.as_str().into();
            return Ok(Root::Named(shard(root), name));
        }
        let mut addrs: Vec<Addr<Msg>> = Vec::new();
        for at in 0..plan.members.len() {
            let (shared, known) = (Arc::clone(&self.shared), addrs.clone());
            let make = move || member(&shared, at, |child| Child::Addr(known[*child]));
            let addr = self.handle.spawn_on(shard(at), make, START);
            addrs.push(addr.map_err(Failed::Start)?);
        }
        Ok(Root::Addr(addrs[plan.root()]))
    }

    fn rounds(
        &self,
        root: &Root,
        killed: &Arc<AtomicU64>,
        mut told: impl FnMut(u32, u64),
    ) -> Result<(Solution, Vec<u64>), Failed> {
        let mut best: Option<Solution> = None;
        let mut histories: Vec<(u32, History)> = Vec::new();
        let mut costs = Vec::new();
        for round in 0..self.shared.plan.params.rounds {
            let task = Task {
                round,
                best: best.clone(),
                histories,
            };
            let answer = self
                .ask(root, &task)?
                .map_err(|Lost(name)| Failed::Lost(name))?;
            let found = match best.take() {
                Some(best) => best.better(answer.best),
                None => answer.best,
            };
            told(round, found.cost);
            costs.push(found.cost);
            best = Some(found);
            histories = answer.histories;
            if self.options.stops_at_zero && costs.last() == Some(&0) {
                break;
            }
            if round == 0 {
                self.let_loose(killed)?;
            }
        }
        // Invariant: there is at least one round, as options are checked.
        Ok((best.expect("every round leaves a best"), costs))
    }

    /// Asks the root, again if it is lost.
    fn ask(&self, root: &Root, task: &Task) -> Result<Outcome, Failed> {
        for _ in 0..TRIES_MAX {
            let question = |reply| Msg::Round(Box::new(task.clone()), reply);
            let within = self.options.within;
            let answer = match root {
                Root::Addr(addr) => self.handle.ask(*addr, question, within),
                Root::Named(shard, name) => self.handle.ask_named(*shard, name, question, within),
            };
            match answer {
                Ok(outcome) => return Ok(outcome),
                Err(_) if self.options.recovers => {}
                Err(_) => break,
            }
        }
        let plan = &self.shared.plan;
        Err(Failed::Lost(plan.members[plan.root()].name.clone()))
    }

    fn let_loose(&self, killed: &Arc<AtomicU64>) -> Result<(), Failed> {
        let Some(every) = self.options.monkey else {
            return Ok(());
        };
        for shard in 0..self.options.shards {
            let killed = Arc::clone(killed);
            let make = move || Monkey { every, killed };
            let monkey = self.handle.spawn_on(ShardId::new(shard), make, START);
            monkey.map_err(Failed::Start)?;
        }
        Ok(())
    }
}
