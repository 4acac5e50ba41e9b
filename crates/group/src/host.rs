//! A node as an actor: the machine with processes around it and a transport below.
//!
//! Owns the way from effects to actors and connections and back. The node's actor lives on shard 0
//! and its processes on all shards. Deliberately not here: deciding anything (`node`), and sockets
//! ([`crate::tcp`]) or their simulation ([`crate::sim`]).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use actor::{
    Actor, ActorId, Addr, Context, Core, Mail, MonitorId, Reply, SendError, ShardId, Signal,
};
use rustc_hash::FxHashMap;
use stdx::Moment;
use stdx::wheel::TimerKey;

use crate::command::{Answer, Command, Note};
use crate::config::Saved;
use crate::node::{Caller, Effect, Machine};
use crate::process::{Action, Busy, Event, Factory, Home, Process, Scope};
use crate::types::{Body, Name, NodeName, Pid, Reason, Refusal, shard_of};

/// Moves bytes for a node. Nothing here waits; what happens comes back as [`NodeMsg`].
pub(crate) trait Transport {
    /// Opens a connection. [`NodeMsg::Opened`] or [`NodeMsg::Closed`] follows.
    fn dial(&mut self, conn: u64, node: &NodeName);
    /// Writes; [`NodeMsg::Written`] follows for every byte.
    fn write(&mut self, conn: u64, bytes: Vec<u8>);
    /// Closes once all is written. Nothing follows.
    fn close(&mut self, conn: u64);
    /// The bytes of a [`NodeMsg::Received`] are used up.
    fn consumed(&mut self, conn: u64, bytes: usize);
    /// A connection that came in has this number from now on.
    fn accepted(&mut self, incoming: u64, conn: u64);
    /// A connection is gone by itself; nothing is written to it any more.
    fn forget(&mut self, conn: u64);
}

/// What a node's actor is told.
pub(crate) enum NodeMsg {
    /// A process does something.
    Act(FromProcess),
    /// A process was started on its shard.
    Started {
        id: u64,
        addr: Addr<Mailed>,
        is_new: bool,
    },
    /// A process ended; behind all that it had asked for.
    Ended(ActorId, actor::Reason),
    /// An event was not taken on another shard.
    NotTaken {
        to: u64,
        event: Event,
        full: bool,
    },
    /// Somebody outside asks.
    Command(Command, AnswerTo),
    /// Somebody connected; the number is the transport's.
    Incoming(u64),
    Opened(u64),
    Received(u64, Vec<u8>),
    Written(u64, usize),
    Closed(u64, Refusal),
    Stop(Reply<()>),
    Tick,
}

/// Who waits outside for an answer.
pub(crate) enum AnswerTo {
    Thread(Reply<Answer>),
    /// The driver of a simulation looks in here.
    Channel(SyncSender<Answer>),
}

impl AnswerTo {
    fn give(self, answer: Answer, cx: &mut Context<'_, NodeMsg>) {
        match self {
            AnswerTo::Thread(reply) => reply.send(cx, answer),
            // An error means that nobody waits any more.
            AnswerTo::Channel(to) => drop(to.try_send(answer)),
        }
    }
}

/// What a process has its node do.
pub(crate) struct FromProcess {
    pub(crate) id: u64,
    pub(crate) action: Action,
}

/// What a process's actor is told.
pub(crate) enum Mailed {
    Event(Event),
    Kill(Reason),
    Hold,
    Release,
}

/// How notes and saved groups leave a node.
pub(crate) trait Witness {
    fn note(&mut self, note: &Note);
    fn save(&mut self, saved: &Saved);
}

/// A process as the node's actor knows it.
enum Place {
    /// On its way to its shard; what is sent to it waits.
    Starting(VecDeque<Mailed>),
    Running(Addr<Mailed>),
}

/// The actor of a node.
pub(crate) struct NodeActor {
    machine: Machine,
    functions: FxHashMap<Name, Factory>,
    transport: Box<dyn Transport>,
    witness: Box<dyn Witness>,
    places: FxHashMap<u64, Place>,
    actors: FxHashMap<ActorId, (u64, MonitorId)>,
    /// Why a process was told to end, until it has.
    killed: FxHashMap<u64, Reason>,
    answers: FxHashMap<u64, AnswerTo>,
    /// Ends for which the queue had no room yet; at most one for each process.
    late_ends: VecDeque<NodeMsg>,
    next_token: u64,
    armed: Option<(Moment, TimerKey)>,
    handled: u32,
}

impl NodeActor {
    pub(crate) fn new(
        machine: Machine,
        functions: FxHashMap<Name, Factory>,
        transport: Box<dyn Transport>,
        witness: Box<dyn Witness>,
    ) -> Self {
        NodeActor {
            machine,
            functions,
            transport,
            witness,
            places: FxHashMap::default(),
            actors: FxHashMap::default(),
            killed: FxHashMap::default(),
            answers: FxHashMap::default(),
            late_ends: VecDeque::new(),
            next_token: 0,
            armed: None,
            handled: 0,
        }
    }

    /// Carries effects out until none is left. Frames leave when nothing else waits here, or when
    /// `writes` says so: one write for many of them.
    fn settle(&mut self, writes: bool, cx: &mut Context<'_, NodeMsg>) {
        loop {
            let effects = self.machine.effects(writes);
            if effects.is_empty() {
                break;
            }
            for effect in effects {
                self.carry_out(effect, cx);
            }
        }
        self.arm(cx);
    }

    /// Sees to being called when the machine is due.
    fn arm(&mut self, cx: &mut Context<'_, NodeMsg>) {
        let Some(due) = self.machine.next_deadline() else {
            return;
        };
        if let Some((at, key)) = self.armed {
            if at <= due {
                return;
            }
            cx.cancel(key);
        }
        let now = cx.now();
        let key = cx.send_after(due.saturating_since(now), NodeMsg::Tick);
        self.armed = Some((due, key));
    }

    fn carry_out(&mut self, effect: Effect, cx: &mut Context<'_, NodeMsg>) {
        match effect {
            Effect::Dial { conn, node } => self.transport.dial(conn, &node),
            Effect::Write { conn, bytes } => self.transport.write(conn, bytes),
            Effect::Close { conn } => self.transport.close(conn),
            Effect::Deliver { to, event } => self.mail(to, Mailed::Event(event), cx),
            Effect::Spawn { id, function, args } => self.spawn(id, &function, args, cx),
            Effect::Kill { id, reason } => {
                self.killed.entry(id).or_insert_with(|| reason.clone());
                self.mail(id, Mailed::Kill(reason), cx);
            }
            Effect::Hold { id } => self.mail(id, Mailed::Hold, cx),
            Effect::Release { id } => self.mail(id, Mailed::Release, cx),
            Effect::Answer { token, answer } => {
                if let Some(reply) = self.answers.remove(&token) {
                    reply.give(answer, cx);
                }
            }
            Effect::Save(saved) => self.witness.save(&saved),
            Effect::Note(note) => self.witness.note(&note),
        }
    }

    // ---- Processes -----------------------------------------------------------------------------

    fn spawn(&mut self, id: u64, function: &Name, args: Body, cx: &mut Context<'_, NodeMsg>) {
        let Some(factory) = self.functions.get(function).cloned() else {
            return self.machine.ended(id, Reason::NoProcess);
        };
        let home = Home {
            me: self.machine.pid(id),
            node: cx.myself(),
            shared: Arc::clone(&self.machine.shared),
        };
        let shard = ShardId::new(shard_of(id));
        if shard == cx.shard() {
            let addr = cx.spawn(Runner::Factory(factory, args, home));
            return self.running(id, addr, cx);
        }
        self.places.insert(id, Place::Starting(VecDeque::new()));
        let node = cx.myself();
        let is_sent = cx.run_on(shard, move |core| {
            let addr = core.spawn(Runner::Factory(factory, args, home));
            let started = NodeMsg::Started {
                id,
                addr,
                is_new: false,
            };
            if core.send_priority(node, started).is_err() {
                core.kill(addr.id());
            }
        });
        if !is_sent {
            self.places.remove(&id);
            self.machine
                .ended(id, Reason::Limit("work for a shard".into()));
        }
    }

    fn running(&mut self, id: u64, addr: Addr<Mailed>, cx: &mut Context<'_, NodeMsg>) {
        let monitor = cx.monitor(addr.id());
        self.actors.insert(addr.id(), (id, monitor));
        let place = self.places.insert(id, Place::Running(addr));
        if let Some(Place::Starting(waiting)) = place {
            for mailed in waiting {
                self.mail(id, mailed, cx);
            }
        }
    }

    /// Puts something into the mailbox of a process, here or on another shard.
    fn mail(&mut self, to: u64, mailed: Mailed, cx: &mut Context<'_, NodeMsg>) {
        let addr = match self.places.get_mut(&to) {
            Some(Place::Running(addr)) => *addr,
            Some(Place::Starting(waiting)) => {
                if waiting.len() < STARTING_MAX {
                    waiting.push_back(mailed);
                } else if let Mailed::Event(event) = mailed {
                    self.machine.not_taken(to, event, true);
                }
                return;
            }
            None => {
                if let Mailed::Event(event) = mailed {
                    self.machine.not_taken(to, event, false);
                }
                return;
            }
        };
        if addr.shard() == cx.shard() {
            if let Err((event, full)) = put(cx.core(), addr, mailed) {
                self.machine.not_taken(to, event, full);
            }
            return;
        }
        let node = cx.myself();
        // A refusal of this way itself is an alarm of the runtime: more than 8,192 calls wait.
        cx.run_on(addr.shard(), move |core| {
            if let Err((event, full)) = put(core, addr, mailed) {
                let _ = core.send_priority(node, NodeMsg::NotTaken { to, event, full });
            }
        });
    }

    /// Lines ends up behind what waits in the queue. The signal of an end overtakes the last
    /// messages of its process, which wait there; without this a reply in its last event would come
    /// after the asker was told that there is none.
    fn line_up_ends(&mut self, cx: &mut Context<'_, NodeMsg>) {
        let node = cx.myself();
        while let Some(end) = self.late_ends.pop_front() {
            if let Err(SendError::Full(end)) = cx.send(node, end) {
                // What fills the queue makes room when it is handled, and this is tried again.
                self.late_ends.push_front(end);
                return;
            }
        }
    }

    fn ended(&mut self, who: ActorId, reason: &actor::Reason) {
        let Some((id, _)) = self.actors.remove(&who) else {
            return;
        };
        self.places.remove(&id);
        let told = self.killed.remove(&id);
        let reason = match (reason, told) {
            (actor::Reason::Killed, Some(told)) => told,
            (reason, _) => Reason::from(reason),
        };
        self.machine.ended(id, reason);
    }

    fn take(&mut self, msg: NodeMsg, cx: &mut Context<'_, NodeMsg>) {
        match msg {
            NodeMsg::Act(FromProcess { id, action }) => self.machine.act(id, action),
            NodeMsg::Started { id, addr, is_new } => {
                if is_new && !self.machine.has_room() {
                    // Whoever monitors it hears that there is no such process.
                    return cx.kill(addr.id());
                }
                if is_new {
                    self.machine.started(id);
                }
                self.running(id, addr, cx);
            }
            NodeMsg::Ended(who, reason) => self.ended(who, &reason),
            NodeMsg::NotTaken { to, event, full } => self.machine.not_taken(to, event, full),
            NodeMsg::Command(command, reply) => {
                self.next_token += 1;
                self.answers.insert(self.next_token, reply);
                let caller = Caller::Outside(self.next_token);
                self.machine.command(caller, command);
            }
            NodeMsg::Incoming(number) => {
                let conn = self.machine.incoming();
                self.transport.accepted(number, conn);
            }
            NodeMsg::Opened(conn) => self.machine.opened(conn),
            NodeMsg::Received(conn, bytes) => {
                self.machine.received(conn, &bytes);
                self.transport.consumed(conn, bytes.len());
            }
            NodeMsg::Written(conn, bytes) => self.machine.written(conn, bytes),
            NodeMsg::Closed(conn, why) => {
                self.transport.forget(conn);
                self.machine.closed(conn, why);
            }
            NodeMsg::Stop(reply) => {
                self.machine.stop();
                self.settle(true, cx);
                reply.send(cx, ());
            }
            NodeMsg::Tick => self.armed = None,
        }
    }
}

/// Events that wait for a process that is on its way to its shard; one more is refused.
const STARTING_MAX: usize = 1_024;

/// Messages of the node's actor between two looks at what was written.
const SETTLE_INTERVAL: u32 = 64;

/// What could not be put into a mailbox, and whether that was full.
type NotPut = (Event, bool);

fn put(core: &mut Core, addr: Addr<Mailed>, mailed: Mailed) -> Result<(), NotPut> {
    let is_plain = matches!(
        mailed,
        Mailed::Event(Event::Message { .. } | Event::Request { .. })
    );
    let sent = if is_plain {
        core.send(addr, mailed)
    } else {
        core.send_priority(addr, mailed)
    };
    match sent {
        Ok(()) => Ok(()),
        Err(SendError::Full(Mailed::Event(event))) => Err((event, true)),
        Err(SendError::Gone(Mailed::Event(event))) => Err((event, false)),
        Err(SendError::Full(Mailed::Kill(_))) => {
            core.kill(addr.id());
            Ok(())
        }
        Err(_) => Ok(()),
    }
}

impl Actor for NodeActor {
    type Msg = NodeMsg;

    fn started(&mut self, cx: &mut Context<'_, NodeMsg>) {
        let now = cx.now();
        self.machine.tick(now);
        self.settle(true, cx);
    }

    fn handle(&mut self, msg: NodeMsg, cx: &mut Context<'_, NodeMsg>) {
        let now = cx.now();
        self.machine.tick(now);
        self.take(msg, cx);
        self.line_up_ends(cx);
        self.handled = self.handled.wrapping_add(1);
        let writes = cx.waiting() == 0 || self.handled.is_multiple_of(SETTLE_INTERVAL);
        self.settle(writes, cx);
    }

    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, NodeMsg>) {
        if let Signal::Down { who, reason, .. } = signal {
            self.late_ends.push_back(NodeMsg::Ended(who, reason));
            self.line_up_ends(cx);
        }
    }
}

/// A process as an actor.
pub(crate) enum Runner {
    /// Not made yet: the function runs as part of it, so that a panic ends the process alone.
    Factory(Factory, Body, Home),
    Process(Box<dyn Process>, Home),
    /// Only while it changes from one into the other.
    Gone,
}

impl Actor for Runner {
    type Msg = Mailed;

    fn started(&mut self, cx: &mut Context<'_, Mailed>) {
        let runner = std::mem::replace(self, Runner::Gone);
        *self = match runner {
            Runner::Factory(factory, args, home) => Runner::Process(factory(&args), home),
            other => other,
        };
        if let Runner::Process(process, home) = self {
            process.started(&mut Scope { cx, home });
        }
    }

    fn handle(&mut self, msg: Mailed, cx: &mut Context<'_, Mailed>) {
        let Runner::Process(process, home) = self else {
            return;
        };
        match msg {
            Mailed::Event(event) => process.handle(event, &mut Scope { cx, home }),
            Mailed::Kill(Reason::Shutdown) => cx.stop_with(actor::Reason::Shutdown),
            Mailed::Kill(_) => cx.stop_with(actor::Reason::Killed),
            Mailed::Hold => cx.hold(),
            Mailed::Release => cx.release(),
        }
    }
}

/// Starts a process beside another one.
pub(crate) fn spawn_here(
    scope: &mut Scope<'_, '_>,
    process: Box<dyn Process>,
) -> Result<Pid, Busy> {
    let shard = scope.cx.shard().index();
    let id = scope.home.shared.new_id(shard);
    let me = Pid {
        id,
        ..scope.home.me.clone()
    };
    let home = Home {
        me: me.clone(),
        node: scope.home.node,
        shared: Arc::clone(&scope.home.shared),
    };
    let addr = scope.cx.spawn(Runner::Process(process, home));
    let started = NodeMsg::Started {
        id,
        addr,
        is_new: true,
    };
    if scope.cx.send(scope.home.node, started).is_err() {
        scope.cx.kill(addr.id());
        return Err(Busy);
    }
    Ok(me)
}
