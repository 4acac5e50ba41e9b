//! Branches and colonies as processes.
//!
//! Owns starting children, giving tasks to them, and giving a task again to the successor of a
//! child that was lost. A colony works an iteration an event, so that others have their turn.
//! Deliberately not here: what an iteration does.

use std::time::Duration;

use group::{Body, Command, Event, Mode, NodeName, Pid, Process, Reason, ReplyTo, Scope};

use super::{MEMBER, MemberArgs, decode, encode};
use crate::colony::{Colony, History, first};
use crate::member::{Answer, Lost, Outcome, TRIES_MAX, Task, colonies_below};
use crate::plan::Role;

/// How long a branch waits before it starts a lost child again.
const RETRY: Duration = Duration::from_millis(20);

/// The tag of commands whose answer means nothing.
const NAMING: u64 = u64::MAX;

/// Made of the bytes that a member is spawned with.
pub(super) fn make(args: &Body) -> Box<dyn Process> {
    let Some(args) = decode::<MemberArgs>(args) else {
        return Box::new(Nobody);
    };
    match args
        .job
        .plan
        .members
        .get(args.at as usize)
        .map(|member| member.role.clone())
    {
        Some(Role::Branch(children)) => Box::new(Branch::new(args, children)),
        Some(Role::Colony(number)) => Box::new(ColonyProcess::new(args, number)),
        None => Box::new(Nobody),
    }
}

/// What was spawned with garbage ends at once.
struct Nobody;

impl Process for Nobody {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        cx.stop(Reason::Failed("no arguments of a member".into()));
    }

    fn handle(&mut self, _: Event, _: &mut Scope<'_, '_>) {}
}

// ---- Branches ----------------------------------------------------------------------------------

struct Child {
    at: u32,
    /// Where it is tried first, and then in turn.
    node: usize,
    pid: Option<Pid>,
    answer: Option<Answer>,
}

struct Branch {
    args: MemberArgs,
    children: Vec<Child>,
    task: Option<(Task, ReplyTo)>,
    last: Option<(u32, Answer)>,
    tries: u32,
}

impl Branch {
    fn new(args: MemberArgs, children: Vec<usize>) -> Self {
        let child = |at: usize| Child {
            at: at as u32,
            node: args.job.plan.members[at].place as usize % args.job.nodes.len(),
            pid: None,
            answer: None,
        };
        Branch {
            children: children.into_iter().map(child).collect(),
            args,
            task: None,
            last: None,
            tries: 0,
        }
    }

    fn begin(&mut self, task: Task, from: ReplyTo, cx: &mut Scope<'_, '_>) -> Option<()> {
        if let Some((round, answer)) = &self.last
            && *round == task.round
        {
            let outcome: Outcome = Ok(answer.clone());
            return cx.reply(from, encode(&outcome)).ok();
        }
        if let Some((current, reply)) = &mut self.task
            && current.round == task.round
        {
            *reply = from;
            return Some(());
        }
        self.task = Some((task, from));
        self.tries = 0;
        self.children
            .iter_mut()
            .for_each(|child| child.answer = None);
        (0..self.children.len()).try_for_each(|child| self.engage(child, cx))
    }

    /// Has a child do its part: starts it first, if it is not there.
    fn engage(&mut self, at: usize, cx: &mut Scope<'_, '_>) -> Option<()> {
        let child = &self.children[at];
        let Some(pid) = &child.pid else {
            let args = encode(&MemberArgs {
                job: self.args.job.clone(),
                at: child.at,
                parent: Some(cx.me().clone()),
            });
            let node: &NodeName = &self.args.job.nodes[child.node];
            return cx.spawn_link(node, MEMBER, args, at as u64).ok();
        };
        let Some((task, _)) = &self.task else {
            return Some(());
        };
        let below = colonies_below(&self.args.job.plan, self.args.at as usize, at);
        let histories = task.histories.iter();
        let task = Task {
            round: task.round,
            best: task.best.clone(),
            histories: histories
                .filter(|(colony, _)| below.contains(colony))
                .cloned()
                .collect(),
        };
        cx.call(pid, encode(&task), self.args.job.within, at as u64)
            .ok()
    }

    fn started(&mut self, at: usize, pid: Pid, cx: &mut Scope<'_, '_>) -> Option<()> {
        let group = self.args.job.group_of(self.args.at);
        let child = &mut self.children[at];
        child.pid = Some(pid.clone());
        let name = &self.args.job.plan.members[child.at as usize].name;
        let command = Command::Register {
            group: group.as_str().into(),
            name: name.as_str().into(),
            pid,
            mode: Mode::Replace,
        };
        cx.command(command, NAMING).ok()?;
        self.engage(at, cx)
    }

    fn take(&mut self, at: usize, outcome: Outcome, cx: &mut Scope<'_, '_>) -> Option<()> {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(lost) => return self.finish(Err(lost), cx),
        };
        let child = self.children.get_mut(at)?;
        child.answer = Some(answer);
        if self.children.iter().any(|child| child.answer.is_none()) {
            return Some(());
        }
        let mut answers = self
            .children
            .iter_mut()
            .filter_map(|child| child.answer.take());
        let mut all = answers.next()?;
        for answer in answers {
            all.best = all.best.better(answer.best);
            all.histories.extend(answer.histories);
        }
        self.finish(Ok(all), cx)
    }

    fn finish(&mut self, outcome: Outcome, cx: &mut Scope<'_, '_>) -> Option<()> {
        let (task, from) = self.task.take()?;
        if let Ok(answer) = &outcome {
            self.last = Some((task.round, answer.clone()));
        }
        cx.reply(from, encode(&outcome)).ok()
    }

    /// A child did not start or did not answer: it is started again, on the next node of the list
    /// if its own does not take it.
    fn lose(&mut self, at: usize, moves: bool, cx: &mut Scope<'_, '_>) -> Option<()> {
        let nodes = self.args.job.nodes.len();
        let child = self.children.get_mut(at)?;
        if let Some(pid) = child.pid.take() {
            // It may live on behind a link that is gone.
            let _ = cx.exit(&pid, Reason::Killed);
        }
        if moves {
            child.node = (child.node + 1) % nodes;
        }
        self.tries += 1;
        if self.tries > TRIES_MAX {
            let name = &self.args.job.plan.members[self.children[at].at as usize].name;
            let lost = Lost(name.clone());
            return self.finish(Err(lost), cx);
        }
        cx.timer(RETRY, at as u64);
        Some(())
    }

    fn react(&mut self, event: Event, cx: &mut Scope<'_, '_>) -> Option<()> {
        match event {
            Event::Request { from, body } => self.begin(decode(&body)?, from, cx),
            Event::Spawned { tag, result } => match result {
                Ok(pid) => self.started(tag as usize, pid, cx),
                Err(_) => self.lose(tag as usize, true, cx),
            },
            Event::Reply { tag, result } => match result.ok().map(|body| decode(&body)) {
                Some(outcome) => self.take(tag as usize, outcome?, cx),
                None => self.lose(tag as usize, false, cx),
            },
            Event::Timer(at) if self.task.is_some() => self.engage(at as usize, cx),
            // The end of a child shows in the call that it does not answer, or in the next one.
            _ => Some(()),
        }
    }
}

impl Process for Branch {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        if cx.trap_exits(true).is_err() {
            cx.stop(Reason::Failed("no room at the node".into()));
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Exit { who, .. } = &event
            && self.args.parent.as_ref() == Some(who)
        {
            return cx.stop(Reason::Killed);
        }
        if self.react(event, cx).is_none() {
            cx.stop(Reason::Failed("a message of a branch was lost".into()));
        }
    }
}

// ---- Colonies ----------------------------------------------------------------------------------

struct Working {
    round: u32,
    iteration: u32,
    reply: ReplyTo,
}

struct ColonyProcess {
    args: MemberArgs,
    number: u32,
    colony: Colony,
    current: Option<Working>,
    last: Option<(u32, Answer)>,
    /// A message to itself is under way.
    is_stepping: bool,
}

impl ColonyProcess {
    fn new(args: MemberArgs, number: u32) -> Self {
        let plan = &args.job.plan;
        let who = (number, plan.colonies);
        let colony = Colony::new(&plan.instance, &plan.params, who, History::default());
        ColonyProcess {
            args,
            number,
            colony,
            current: None,
            last: None,
            is_stepping: false,
        }
    }

    fn begin(&mut self, task: Task, from: ReplyTo, cx: &mut Scope<'_, '_>) -> Option<()> {
        if let Some((round, answer)) = &self.last
            && *round == task.round
        {
            let outcome: Outcome = Ok(answer.clone());
            return cx.reply(from, encode(&outcome)).ok();
        }
        if let Some(current) = &mut self.current
            && current.round == task.round
        {
            current.reply = from;
            return Some(());
        }
        let mine = task
            .histories
            .into_iter()
            .find(|(colony, _)| *colony == self.number);
        if let Some((_, history)) = mine
            && history != *self.colony.history()
        {
            let plan = &self.args.job.plan;
            let who = (self.number, plan.colonies);
            self.colony = Colony::new(&plan.instance, &plan.params, who, history);
        }
        if let Some(best) = &task.best {
            self.colony.hear(best);
        }
        self.current = Some(Working {
            round: task.round,
            iteration: 0,
            reply: from,
        });
        self.step_soon(cx)
    }

    fn step_soon(&mut self, cx: &mut Scope<'_, '_>) -> Option<()> {
        if std::mem::replace(&mut self.is_stepping, true) {
            return Some(());
        }
        let me = cx.me().clone();
        cx.send(&me, Vec::new()).ok()
    }

    /// One iteration.
    fn step(&mut self, cx: &mut Scope<'_, '_>) -> Option<()> {
        self.is_stepping = false;
        let Some(current) = &mut self.current else {
            return Some(());
        };
        let (round, iteration) = (current.round, current.iteration);
        let (guide, tau) = (self.colony.guide(), self.colony.tau());
        let mut found = guide.tour(&tau, round, iteration, 0);
        for ant in 1..self.args.job.plan.params.ants {
            found = first(found, guide.tour(&tau, round, iteration, ant));
        }
        drop(tau);
        self.colony.learn(found);
        current.iteration += 1;
        if current.iteration < self.args.job.plan.params.iterations {
            return self.step_soon(cx);
        }
        let current = self.current.take()?;
        let history = self.colony.history().clone();
        let answer = Answer {
            best: history.best.clone()?,
            histories: vec![(self.number, history)],
        };
        self.last = Some((round, answer.clone()));
        let outcome: Outcome = Ok(answer);
        cx.reply(current.reply, encode(&outcome)).ok()
    }
}

impl Process for ColonyProcess {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        let done = match event {
            Event::Request { from, body } => match decode(&body) {
                Some(task) => self.begin(task, from, cx),
                None => None,
            },
            Event::Message { .. } => self.step(cx),
            Event::Refused { .. } => None,
            _ => Some(()),
        };
        if done.is_none() {
            cx.stop(Reason::Failed("a message of a colony was lost".into()));
        }
    }
}
