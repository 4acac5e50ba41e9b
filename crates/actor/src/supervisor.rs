//! Supervision of services: children that are restarted when they end.
//!
//! Owns the three strategies, the bound on restarts and escalation, as an ordinary actor that
//! monitors its children. Starting and ending a child happen at once, so that no message and no
//! second failure comes between the steps of one restart. Deliberately not here: users and rooms;
//! those are entities, loaded on demand, and their class is their supervisor.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use stdx::time::Moment;
use telemetry::Counter;

use crate::ask::Reply;
use crate::context::Context;
use crate::core::{Core, Mail};
use crate::traits::Actor;
use crate::types::{ActorId, Alarm, MonitorId, Name, Reason, Signal};

/// Who is restarted when a child fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The child alone.
    OneForOne,
    /// The child and those started after it.
    RestForOne,
    /// All children.
    OneForAll,
}

/// When a child that ended is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Always.
    Permanent,
    /// Never; it is forgotten.
    Temporary,
    /// If it crashed ([`Reason::is_crash`]).
    Transient,
}

/// More than `max_restarts` within `within` end the supervisor with [`Reason::Escalated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Intensity {
    /// MaxR.
    pub max_restarts: u32,
    /// MaxT.
    pub within: Duration,
}

impl Default for Intensity {
    /// Three restarts within five seconds.
    fn default() -> Self {
        Intensity {
            max_restarts: 3,
            within: Duration::from_secs(5),
        }
    }
}

type Start = Box<dyn FnMut(&mut Core) -> ActorId + Send>;

/// How a child is started, each time.
pub struct ChildSpec {
    id: Name,
    restart: Restart,
    start: Start,
}

impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.id, self.restart)
    }
}

impl ChildSpec {
    /// A child that is made by `make`.
    pub fn new<A: Actor>(
        id: &str,
        restart: Restart,
        mut make: impl FnMut() -> A + Send + 'static,
    ) -> Self {
        Self::with(id, restart, move |core| core.spawn(make()).id())
    }

    /// A child that is started by `start`, which may name it, tell others its address, or start a
    /// blocking actor. It must be on the supervisor's shard.
    pub fn with(
        id: &str,
        restart: Restart,
        start: impl FnMut(&mut Core) -> ActorId + Send + 'static,
    ) -> Self {
        ChildSpec {
            id: id.into(),
            restart,
            start: Box::new(start),
        }
    }
}

/// What a supervisor can be told.
#[derive(Debug)]
pub enum SupervisorMsg {
    /// Start one more child, after all others.
    Start(ChildSpec),
    /// End the child of this id and forget it.
    Remove(Name),
    /// Tell the children, in their order.
    Children(Reply<Vec<ChildStatus>>),
}

/// What is known of one child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildStatus {
    /// The id in its [`ChildSpec`].
    pub id: Name,
    /// The actor, unless it ended and was not to be restarted.
    pub actor: Option<ActorId>,
}

struct Child {
    spec: ChildSpec,
    running: Option<(ActorId, MonitorId)>,
}

/// An actor that keeps its children running.
pub struct Supervisor {
    strategy: Strategy,
    intensity: Intensity,
    children: Vec<Child>,
    /// When the last restarts were; at most `max_restarts` and the one that exceeds them.
    restarts: VecDeque<Moment>,
}

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Supervisor of {} ({:?})",
            self.children.len(),
            self.strategy
        )
    }
}

impl Supervisor {
    /// A supervisor without children.
    pub fn new(strategy: Strategy, intensity: Intensity) -> Self {
        Supervisor {
            strategy,
            intensity,
            children: Vec::new(),
            restarts: VecDeque::new(),
        }
    }

    /// Adds a child, which starts after those added before.
    #[must_use]
    pub fn child(mut self, spec: ChildSpec) -> Self {
        self.children.push(Child {
            spec,
            running: None,
        });
        self
    }

    fn start(&mut self, at: usize, cx: &mut Context<'_, SupervisorMsg>) {
        let child = &mut self.children[at];
        let actor = (child.spec.start)(cx.core());
        child.running = Some((actor, cx.monitor(actor)));
    }

    /// Ends the children in a range, last first.
    fn end(&mut self, from: usize, to: usize, cx: &mut Context<'_, SupervisorMsg>) {
        for child in self.children[from..to].iter_mut().rev() {
            if let Some((actor, monitor)) = child.running.take() {
                cx.demonitor(monitor);
                cx.core().terminate(actor, Reason::Shutdown);
            }
        }
    }

    /// Restarts what the strategy says, or gives up.
    fn recover(&mut self, failed: usize, cx: &mut Context<'_, SupervisorMsg>) {
        let now = cx.now();
        self.restarts.push_back(now);
        while let Some(first) = self.restarts.front()
            && now.saturating_since(*first) > self.intensity.within
        {
            self.restarts.pop_front();
        }
        if self.restarts.len() > self.intensity.max_restarts as usize {
            let (who, child) = (
                cx.myself().id(),
                Name::clone(&self.children[failed].spec.id),
            );
            let core = cx.core();
            core.stats.count(Counter::ActorEscalations);
            core.alarm(&Alarm::Escalated { who, child });
            return cx.stop_with(Reason::Escalated);
        }
        let (from, to) = match self.strategy {
            Strategy::OneForOne => (failed, failed + 1),
            Strategy::RestForOne => (failed, self.children.len()),
            Strategy::OneForAll => (0, self.children.len()),
        };
        self.end(from, to, cx);
        // Temporary children are not started again, not even on behalf of others.
        let mut at = from;
        for _ in from..to {
            if self.children[at].spec.restart == Restart::Temporary {
                self.children.remove(at);
            } else {
                cx.core().stats.count(Counter::ActorRestarts);
                self.start(at, cx);
                at += 1;
            }
        }
    }
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;

    fn started(&mut self, cx: &mut Context<'_, SupervisorMsg>) {
        for at in 0..self.children.len() {
            self.start(at, cx);
        }
    }

    fn handle(&mut self, msg: SupervisorMsg, cx: &mut Context<'_, SupervisorMsg>) {
        match msg {
            SupervisorMsg::Start(spec) => {
                self.children.push(Child {
                    spec,
                    running: None,
                });
                self.start(self.children.len() - 1, cx);
            }
            SupervisorMsg::Remove(id) => {
                if let Some(at) = self.children.iter().position(|child| child.spec.id == id) {
                    self.end(at, at + 1, cx);
                    self.children.remove(at);
                }
            }
            SupervisorMsg::Children(reply) => {
                let status = |child: &Child| ChildStatus {
                    id: Name::clone(&child.spec.id),
                    actor: child.running.map(|(actor, _)| actor),
                };
                let all = self.children.iter().map(status).collect();
                reply.send(cx, all);
            }
        }
    }

    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, SupervisorMsg>) {
        let Signal::Down {
            monitor, reason, ..
        } = signal
        else {
            return;
        };
        let is_it = |child: &Child| child.running.is_some_and(|(_, id)| id == monitor);
        let Some(at) = self.children.iter().position(is_it) else {
            return;
        };
        self.children[at].running = None;
        match self.children[at].spec.restart {
            Restart::Permanent => self.recover(at, cx),
            Restart::Transient if reason.is_crash() => self.recover(at, cx),
            Restart::Transient => {}
            Restart::Temporary => {
                self.children.remove(at);
            }
        }
    }

    fn stopped(&mut self, _: &Reason, cx: &mut Context<'_, SupervisorMsg>) {
        self.end(0, self.children.len(), cx);
    }
}
