//! Members of the tree as actors: branches, colonies, and the ants of a colony.
//!
//! Owns what they tell each other, and recovery: a task carries everything that is needed to do it,
//! so whoever has lost a child gives the same task to its successor. A member that is asked for the
//! round it is working on goes on and answers the later question; for the round that it finished
//! last it has the answer at hand. So a lost branch costs next to nothing, and a lost colony the
//! work of at most one round. Deliberately not here: how the tree is started (`local`).
//!
//! | a branch that is | and is asked for | does |
//! |---|---|---|
//! | idle | a new round | gives the task to each child |
//! | idle | the round it did last | answers at once |
//! | at work | the same round | goes on, and answers whoever asked last |
//! | at work | another round | begins anew |
//! | at work, and loses a child | | gives the child's successor the same task |

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use actor::{Actor, Addr, AskError, Context, Mail, Name, Reason, Reply, ShardId, Signal};

use crate::ant::Tau;
use crate::colony::{Colony, Guide, History, first};
use crate::instance::Solution;
use crate::plan::{Plan, Role};

/// How often a member gives the same task away again before it gives up.
pub const TRIES_MAX: u32 = 1_000;
/// How long it waits before it does, unless the child was lost: then its successor is there.
pub const RETRY: Duration = Duration::from_millis(5);

/// One round's work for a member and all below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// The round, counted from zero.
    pub round: u32,
    /// The best solution of all colonies so far.
    pub best: Option<Solution>,
    /// The past of each colony below, by its number. Empty where nobody recovers.
    pub histories: Vec<(u32, History)>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The best solution of the colonies below.
    pub best: Solution,
    /// Their past now. Empty where nobody recovers.
    pub histories: Vec<(u32, History)>,
}

/// A member gave up: the named one below it could not be brought to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost(pub String);

/// The outcome of a task.
pub type Outcome = Result<Answer, Lost>;

/// What members take.
pub(crate) enum Msg {
    /// Do a round's work.
    Round(Box<Task>, Reply<Outcome>),
    /// A child has answered, or will not.
    Child(usize, u32, Result<Outcome, AskError>),
    /// A child is to be asked once more.
    Again(usize, u32),
    /// An ant's tour of an iteration.
    Tour(u32, u32, Result<Solution, AskError>),
}

/// How a member reaches a child.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    Addr(Addr<Msg>),
    Named(ShardId, Name),
}

/// What all members know.
pub(crate) struct Shared {
    pub(crate) plan: Plan,
    /// Children that are lost are replaced.
    pub(crate) recovers: bool,
    /// How long a task may take.
    pub(crate) within: Duration,
}

pub(crate) enum Member {
    Branch(Branch),
    Colony(Box<ColonyActor>),
}

impl Actor for Member {
    type Msg = Msg;

    fn started(&mut self, cx: &mut Context<'_, Msg>) {
        if let Member::Colony(colony) = self {
            colony.started(cx);
        }
    }

    fn handle(&mut self, msg: Msg, cx: &mut Context<'_, Msg>) {
        match self {
            Member::Branch(branch) => branch.handle(msg, cx),
            Member::Colony(colony) => colony.handle(msg, cx),
        }
    }

    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, Msg>) {
        // A colony hears of a lost ant by the tour that it did not make.
        let _ = (signal, cx);
    }

    fn stopped(&mut self, _: &Reason, cx: &mut Context<'_, Msg>) {
        if let Member::Colony(colony) = self {
            colony.ants.iter().for_each(|ant| cx.kill(ant.id()));
        }
    }
}

// ---- Branches ----------------------------------------------------------------------------------

struct Collecting {
    task: Task,
    reply: Reply<Outcome>,
    answers: Vec<Option<Answer>>,
    tries: u32,
}

pub(crate) struct Branch {
    shared: Arc<Shared>,
    at: usize,
    children: Vec<Child>,
    current: Option<Collecting>,
    last: Option<(u32, Answer)>,
}

impl Branch {
    pub(crate) fn new(shared: Arc<Shared>, at: usize, children: Vec<Child>) -> Self {
        Branch {
            shared,
            at,
            children,
            current: None,
            last: None,
        }
    }

    fn handle(&mut self, msg: Msg, cx: &mut Context<'_, Msg>) {
        match msg {
            Msg::Round(task, reply) => self.begin(*task, reply, cx),
            Msg::Child(child, round, Ok(Ok(answer))) => self.take(child, round, answer, cx),
            Msg::Child(_, round, Ok(Err(lost))) => self.give_up(round, lost, cx),
            Msg::Child(child, round, Err(error)) => self.lose(child, round, error, cx),
            Msg::Again(child, round) => {
                if self.is_at(round) {
                    self.ask(child, cx);
                }
            }
            Msg::Tour(..) => {}
        }
    }

    fn is_at(&self, round: u32) -> bool {
        let current = self.current.as_ref();
        current.is_some_and(|current| current.task.round == round)
    }

    fn begin(&mut self, task: Task, reply: Reply<Outcome>, cx: &mut Context<'_, Msg>) {
        if let Some((round, answer)) = &self.last
            && *round == task.round
        {
            return reply.send(cx, Ok(answer.clone()));
        }
        if let Some(current) = &mut self.current
            && current.task.round == task.round
        {
            current.reply = reply;
            return;
        }
        self.current = Some(Collecting {
            task,
            reply,
            answers: vec![None; self.children.len()],
            tries: 0,
        });
        (0..self.children.len()).for_each(|child| self.ask(child, cx));
    }

    fn ask(&mut self, child: usize, cx: &mut Context<'_, Msg>) {
        let Some(current) = &self.current else { return };
        let round = current.task.round;
        let below = colonies_below(&self.shared.plan, self.at, child);
        let histories = current.task.histories.iter();
        let task = Box::new(Task {
            round,
            best: current.task.best.clone(),
            histories: histories
                .filter(|(colony, _)| below.contains(colony))
                .cloned()
                .collect(),
        });
        let question = move |reply| Msg::Round(task, reply);
        let map = move |result| Msg::Child(child, round, result);
        let within = self.shared.within;
        match &self.children[child] {
            Child::Addr(addr) => cx.ask(*addr, question, within, map),
            Child::Named(shard, name) => cx.ask_named(*shard, name, question, within, map),
        }
    }

    fn take(&mut self, child: usize, round: u32, answer: Answer, cx: &mut Context<'_, Msg>) {
        if !self.is_at(round) {
            return;
        }
        let Some(current) = &mut self.current else {
            return;
        };
        current.answers[child] = Some(answer);
        if current.answers.iter().any(Option::is_none) {
            return;
        }
        let Some(current) = self.current.take() else {
            return;
        };
        let mut answers = current.answers.into_iter().flatten();
        let Some(mut all) = answers.next() else {
            return;
        };
        for answer in answers {
            all.best = all.best.better(answer.best);
            all.histories.extend(answer.histories);
        }
        if self.shared.recovers {
            self.last = Some((round, all.clone()));
        }
        current.reply.send(cx, Ok(all));
    }

    fn give_up(&mut self, round: u32, lost: Lost, cx: &mut Context<'_, Msg>) {
        if self.is_at(round)
            && let Some(current) = self.current.take()
        {
            current.reply.send(cx, Err(lost));
        }
    }

    fn lose(&mut self, child: usize, round: u32, error: AskError, cx: &mut Context<'_, Msg>) {
        if !self.is_at(round) {
            return;
        }
        let Some(current) = &mut self.current else {
            return;
        };
        current.tries += 1;
        if !self.shared.recovers || current.tries > TRIES_MAX {
            let Role::Branch(children) = &self.shared.plan.members[self.at].role else {
                return;
            };
            let name = &self.shared.plan.members[children[child]].name;
            return self.give_up(round, Lost(name.clone()), cx);
        }
        if error == AskError::Dropped {
            self.ask(child, cx);
        } else {
            cx.send_after(RETRY, Msg::Again(child, round));
        }
    }
}

/// The numbers of the colonies below a child of a branch: a range, as plans number them in order.
pub(crate) fn colonies_below(
    plan: &Plan,
    branch: usize,
    child: usize,
) -> std::ops::RangeInclusive<u32> {
    let end = |first: bool| {
        let Role::Branch(children) = &plan.members[branch].role else {
            return 0;
        };
        let mut at = children[child];
        loop {
            match &plan.members[at].role {
                Role::Colony(number) => return *number,
                Role::Branch(children) if first => at = children[0],
                Role::Branch(children) => at = children[children.len() - 1],
            }
        }
    };
    end(true)..=end(false)
}

// ---- Colonies ----------------------------------------------------------------------------------

struct Iterating {
    round: u32,
    reply: Reply<Outcome>,
    iteration: u32,
    found: Option<Solution>,
    missing: u32,
    tries: u32,
}

pub(crate) struct ColonyActor {
    shared: Arc<Shared>,
    number: u32,
    colony: Colony,
    ants: Vec<Addr<AntMsg>>,
    current: Option<Iterating>,
    last: Option<(u32, Answer)>,
}

impl ColonyActor {
    pub(crate) fn new(shared: Arc<Shared>, number: u32) -> Self {
        let plan = &shared.plan;
        let who = (number, plan.colonies);
        let colony = Colony::new(&plan.instance, &plan.params, who, History::default());
        ColonyActor {
            shared,
            number,
            colony,
            ants: Vec::new(),
            current: None,
            last: None,
        }
    }

    fn started(&mut self, cx: &mut Context<'_, Msg>) {
        cx.trap_exits(true);
        for _ in 0..self.shared.plan.params.ants {
            let ant = Ant(self.colony.guide());
            self.ants.push(cx.spawn_link(ant));
        }
    }

    fn handle(&mut self, msg: Msg, cx: &mut Context<'_, Msg>) {
        match msg {
            Msg::Round(task, reply) => self.begin(*task, reply, cx),
            Msg::Tour(ant, iteration, result) => self.take(ant, iteration, result, cx),
            Msg::Child(..) | Msg::Again(..) => {}
        }
    }

    fn begin(&mut self, task: Task, reply: Reply<Outcome>, cx: &mut Context<'_, Msg>) {
        if let Some((round, answer)) = &self.last
            && *round == task.round
        {
            return reply.send(cx, Ok(answer.clone()));
        }
        if let Some(current) = &mut self.current
            && current.round == task.round
        {
            current.reply = reply;
            return;
        }
        let given = task.histories.into_iter();
        let mine = given
            .filter(|(colony, _)| *colony == self.number)
            .map(|(_, history)| history);
        if let Some(history) = mine.last()
            && history != *self.colony.history()
        {
            let plan = &self.shared.plan;
            let who = (self.number, plan.colonies);
            self.colony = Colony::new(&plan.instance, &plan.params, who, history);
        }
        if let Some(best) = &task.best {
            self.colony.hear(best);
        }
        self.current = Some(Iterating {
            round: task.round,
            reply,
            iteration: 0,
            found: None,
            missing: 0,
            tries: 0,
        });
        self.iterate(cx);
    }

    /// Sends every ant on a tour.
    fn iterate(&mut self, cx: &mut Context<'_, Msg>) {
        let count = self.ants.len() as u32;
        if let Some(current) = &mut self.current {
            current.missing = count;
        }
        (0..count).for_each(|ant| self.send_out(ant, cx));
    }

    fn send_out(&mut self, ant: u32, cx: &mut Context<'_, Msg>) {
        let Some(current) = &self.current else { return };
        let (round, iteration, tau) = (current.round, current.iteration, self.colony.tau());
        let question = move |reply| AntMsg {
            tau,
            round,
            iteration,
            ant,
            reply,
        };
        let map = move |result| Msg::Tour(ant, iteration, result);
        cx.ask(self.ants[ant as usize], question, self.shared.within, map);
    }

    fn take(
        &mut self,
        ant: u32,
        iteration: u32,
        result: Result<Solution, AskError>,
        cx: &mut Context<'_, Msg>,
    ) {
        let Some(current) = &mut self.current else {
            return;
        };
        if current.iteration != iteration {
            return;
        }
        let Ok(found) = result else {
            current.tries += 1;
            if current.tries > TRIES_MAX {
                return cx.stop_with(Reason::Failed("its ants keep dying".into()));
            }
            // The ant was killed: another one makes the same tour.
            self.ants[ant as usize] = cx.spawn_link(Ant(self.colony.guide()));
            return self.send_out(ant, cx);
        };
        current.found = Some(match current.found.take() {
            Some(best) => first(best, found),
            None => found,
        });
        current.missing -= 1;
        if current.missing > 0 {
            return;
        }
        current.iteration += 1;
        let (found, iteration) = (current.found.take(), current.iteration);
        if let Some(found) = found {
            self.colony.learn(found);
        }
        if iteration < self.shared.plan.params.iterations {
            return self.iterate(cx);
        }
        self.finish(cx);
    }

    fn finish(&mut self, cx: &mut Context<'_, Msg>) {
        let (Some(current), Some(best)) = (self.current.take(), &self.colony.history().best) else {
            return;
        };
        let mut answer = Answer {
            best: best.clone(),
            histories: Vec::new(),
        };
        if self.shared.recovers {
            let history = self.colony.history().clone();
            answer.histories.push((self.number, history));
            self.last = Some((current.round, answer.clone()));
        }
        current.reply.send(cx, Ok(answer));
    }
}

// ---- Ants --------------------------------------------------------------------------------------

/// Make a tour.
pub(crate) struct AntMsg {
    tau: Arc<Tau>,
    round: u32,
    iteration: u32,
    ant: u32,
    reply: Reply<Solution>,
}

struct Ant(Guide);

impl Actor for Ant {
    type Msg = AntMsg;

    fn handle(&mut self, msg: AntMsg, cx: &mut Context<'_, AntMsg>) {
        let found = self.0.tour(&msg.tau, msg.round, msg.iteration, msg.ant);
        // Let go of before the answer, so that the colony changes its pheromone in place.
        drop(msg.tau);
        msg.reply.send(cx, found);
    }
}
