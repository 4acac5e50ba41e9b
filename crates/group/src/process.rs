//! What users of nodes write: processes, and what they see of their node.
//!
//! Owns the contract between a process and its node. A process runs as an actor of the runtime,
//! one event at a time, and must not block. Deliberately not here: threads that talk to a node
//! ([`crate::NodeHandle`]).

use std::sync::Arc;
use std::time::Duration;

use actor::{Addr, Context, Mail};

use crate::command::{Answer, Command};
use crate::host::{FromProcess, Mailed, NodeMsg};
use crate::node::Shared;
use crate::types::{Body, CallError, MonitorRef, Name, NodeName, Pid, Reason, Refusal, SpawnError};

/// Private state with a mailbox, reachable from every node.
pub trait Process: 'static {
    /// Runs before the first event.
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        let _ = cx;
    }

    /// Handles one event.
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>);
}

/// Something that a process is told.
#[derive(Debug)]
pub enum Event {
    /// Somebody sent something. Without a sender it came from no process.
    Message {
        /// Who.
        from: Option<Pid>,
        /// What.
        body: Body,
    },
    /// Somebody asks, and waits for [`Scope::reply`]. If the process ends first the asker hears
    /// [`CallError::Dropped`].
    Request {
        /// Who.
        from: ReplyTo,
        /// What.
        body: Body,
    },
    /// The answer to [`Scope::call`].
    Reply {
        /// The number given to the call.
        tag: u64,
        /// The answer, or why there is none.
        result: Result<Body, CallError>,
    },
    /// What became of [`Scope::spawn`].
    Spawned {
        /// The number given to it.
        tag: u64,
        /// The process, or why there is none.
        result: Result<Pid, SpawnError>,
    },
    /// The answer to [`Scope::command`].
    Answer {
        /// The number given to it.
        tag: u64,
        /// The answer.
        answer: Answer,
    },
    /// A monitored process ended, or its node was lost.
    Down {
        /// The monitor.
        monitor: MonitorRef,
        /// Who.
        who: Pid,
        /// Why.
        reason: Reason,
    },
    /// A linked process ended, or this one was told to. Only a process that traps exits sees it.
    Exit {
        /// Who.
        who: Pid,
        /// Why.
        reason: Reason,
    },
    /// A node of a common group is linked ([`Command::MonitorNodes`]).
    NodeUp(NodeName),
    /// It is no longer.
    NodeDown(NodeName, Refusal),
    /// A message was not taken: the mailbox is full, or the node cannot be reached.
    Refused {
        /// Whose mailbox.
        to: Pid,
        /// Why.
        reason: CallError,
    },
    /// The time set by [`Scope::timer`] has come.
    Timer(u64),
}

/// Who asks, and waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyTo {
    pub(crate) asker: Asker,
    pub(crate) from: Option<Pid>,
}

impl ReplyTo {
    /// The process that asks; nobody if it is none.
    pub fn pid(&self) -> Option<&Pid> {
        self.from.as_ref()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asker {
    pub(crate) node: NodeName,
    pub(crate) ask: u64,
}

/// Something that a process has its node do.
#[derive(Debug)]
pub(crate) enum Action {
    Send {
        to: Pid,
        body: Body,
    },
    Link(Pid),
    Unlink(Pid),
    Monitor {
        monitor: MonitorRef,
        who: Pid,
    },
    Demonitor(MonitorRef),
    Exit {
        to: Pid,
        reason: Reason,
    },
    Trap(bool),
    Call {
        to: Pid,
        body: Body,
        deadline: Duration,
        tag: u64,
    },
    Reply {
        to: ReplyTo,
        body: Body,
    },
    Command {
        tag: u64,
        command: Box<Command>,
    },
}

/// The node's queue is full: it did not take this. What was to be sent is the caller's still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node's queue is full")]
pub struct Busy;

/// How a process is made of the bytes that it is spawned with.
pub type Factory = Arc<dyn Fn(&Body) -> Box<dyn Process> + Send + Sync>;

/// What a process knows of where it runs.
pub(crate) struct Home {
    pub(crate) me: Pid,
    pub(crate) node: Addr<NodeMsg>,
    pub(crate) shared: Arc<Shared>,
}

/// What a process sees of its node while it handles an event.
///
/// Whatever is asked of the node is done in the order in which it was asked. Everything can fail
/// with [`Busy`] when the node's queue is full.
pub struct Scope<'a, 'c> {
    pub(crate) cx: &'a mut Context<'c, Mailed>,
    pub(crate) home: &'a Home,
}

impl Scope<'_, '_> {
    /// This process.
    pub fn me(&self) -> &Pid {
        &self.home.me
    }

    /// This node.
    pub fn node(&self) -> &NodeName {
        &self.home.me.node
    }

    /// Monotonic time as of this event.
    pub fn now(&mut self) -> stdx::Moment {
        self.cx.now()
    }

    /// Randomness, seeded by the driver. Not for secrets.
    pub fn rng(&mut self) -> &mut stdx::rand::Rng {
        self.cx.rng()
    }

    fn act(&mut self, action: Action) -> Result<(), Busy> {
        let from = FromProcess {
            id: self.home.me.id,
            action,
        };
        let sent = self.cx.send(self.home.node, NodeMsg::Act(from));
        sent.map_err(|_| Busy)
    }

    /// Sends to a process, wherever it is. Order is kept from one process to another. Nobody hears
    /// of one that is gone; a full mailbox comes back as [`Event::Refused`]. While the link to its
    /// node is full this process's mailbox rests.
    ///
    /// # Errors
    /// [`Busy`]: it was not sent.
    pub fn send(&mut self, to: &Pid, body: impl Into<Body>) -> Result<(), Busy> {
        let (to, body) = (to.clone(), body.into());
        self.act(Action::Send { to, body })
    }

    /// Asks a process; the answer, or why there is none, is an [`Event::Reply`].
    ///
    /// # Errors
    /// [`Busy`]: nothing was asked.
    pub fn call(
        &mut self,
        to: &Pid,
        body: impl Into<Body>,
        deadline: Duration,
        tag: u64,
    ) -> Result<(), Busy> {
        self.act(Action::Call {
            to: to.clone(),
            body: body.into(),
            deadline,
            tag,
        })
    }

    /// Answers an [`Event::Request`].
    ///
    /// # Errors
    /// [`Busy`]: nothing was answered.
    pub fn reply(&mut self, to: ReplyTo, body: impl Into<Body>) -> Result<(), Busy> {
        let body = body.into();
        self.act(Action::Reply { to, body })
    }

    /// Has the node do something; the answer is an [`Event::Answer`], or [`Event::Spawned`] and
    /// [`Event::Reply`] for the commands that are answered so.
    ///
    /// # Errors
    /// [`Busy`]: nothing is done.
    pub fn command(&mut self, command: Command, tag: u64) -> Result<(), Busy> {
        let command = Box::new(command);
        self.act(Action::Command { tag, command })
    }

    /// Starts a process on a node, by the name of a registered function; [`Event::Spawned`] tells
    /// what became of it.
    ///
    /// # Errors
    /// [`Busy`]: nothing is started.
    pub fn spawn(
        &mut self,
        node: &NodeName,
        function: &str,
        args: impl Into<Body>,
        tag: u64,
    ) -> Result<(), Busy> {
        let command = self.spawn_command(node, function, args.into());
        self.command(command, tag)
    }

    /// As [`Scope::spawn`], monitored from the beginning.
    ///
    /// # Errors
    /// [`Busy`]: nothing is started.
    pub fn spawn_monitor(
        &mut self,
        node: &NodeName,
        function: &str,
        args: impl Into<Body>,
        tag: u64,
    ) -> Result<MonitorRef, Busy> {
        let new = self.home.shared.new_monitor();
        let mut command = self.spawn_command(node, function, args.into());
        if let Command::Spawn { monitor, .. } = &mut command {
            *monitor = Some(new);
        }
        self.command(command, tag)?;
        Ok(new)
    }

    /// As [`Scope::spawn`], linked from the beginning.
    ///
    /// # Errors
    /// [`Busy`]: nothing is started.
    pub fn spawn_link(
        &mut self,
        node: &NodeName,
        function: &str,
        args: impl Into<Body>,
        tag: u64,
    ) -> Result<(), Busy> {
        let mut command = self.spawn_command(node, function, args.into());
        if let Command::Spawn { link, .. } = &mut command {
            *link = true;
        }
        self.command(command, tag)
    }

    fn spawn_command(&self, node: &NodeName, function: &str, args: Body) -> Command {
        Command::Spawn {
            node: node.clone(),
            function: Name::from(function),
            args,
            link: false,
            monitor: None,
            deadline: SPAWN_DEADLINE,
        }
    }

    /// Starts a process on this shard of this node, at once.
    ///
    /// # Errors
    /// [`Busy`]: nothing is started.
    pub fn spawn_here(&mut self, process: impl Process) -> Result<Pid, Busy> {
        crate::host::spawn_here(self, Box::new(process))
    }

    /// Ties the lives of two processes together: the crash of one ends the other, unless it traps
    /// exits.
    ///
    /// # Errors
    /// [`Busy`]: they are not tied.
    pub fn link(&mut self, who: &Pid) -> Result<(), Busy> {
        self.act(Action::Link(who.clone()))
    }

    /// Takes a link back.
    ///
    /// # Errors
    /// [`Busy`]: they are still tied.
    pub fn unlink(&mut self, who: &Pid) -> Result<(), Busy> {
        self.act(Action::Unlink(who.clone()))
    }

    /// Hears of the end of a process once, at once if it is gone already.
    ///
    /// # Errors
    /// [`Busy`]: it is not monitored.
    pub fn monitor(&mut self, who: &Pid) -> Result<MonitorRef, Busy> {
        let monitor = self.home.shared.new_monitor();
        let who = who.clone();
        self.act(Action::Monitor { monitor, who })?;
        Ok(monitor)
    }

    /// Takes a monitor back.
    ///
    /// # Errors
    /// [`Busy`]: it is there still.
    pub fn demonitor(&mut self, monitor: MonitorRef) -> Result<(), Busy> {
        self.act(Action::Demonitor(monitor))
    }

    /// Tells a process to end. [`Reason::Killed`] cannot be trapped; [`Reason::Normal`] ends
    /// nobody.
    ///
    /// # Errors
    /// [`Busy`]: it was not told.
    pub fn exit(&mut self, to: &Pid, reason: Reason) -> Result<(), Busy> {
        let to = to.clone();
        self.act(Action::Exit { to, reason })
    }

    /// Whether the end of a linked process comes as an event instead of ending this one.
    ///
    /// # Errors
    /// [`Busy`]: nothing has changed.
    pub fn trap_exits(&mut self, trap: bool) -> Result<(), Busy> {
        self.act(Action::Trap(trap))
    }

    /// Whether nodes of common groups that come and go are told to this process.
    ///
    /// # Errors
    /// [`Busy`]: nothing has changed.
    pub fn monitor_nodes(&mut self, on: bool) -> Result<(), Busy> {
        self.command(Command::MonitorNodes(on), 0)
    }

    /// Gives an [`Event::Timer`] with this number after a while.
    pub fn timer(&mut self, after: Duration, number: u64) {
        self.cx
            .send_after(after, Mailed::Event(Event::Timer(number)));
    }

    /// Ends this process after this event.
    pub fn stop(&mut self, reason: Reason) {
        let reason = match reason {
            Reason::Normal => actor::Reason::Normal,
            Reason::Shutdown => actor::Reason::Shutdown,
            Reason::Escalated => actor::Reason::Escalated,
            Reason::Killed => actor::Reason::Killed,
            Reason::Failed(text) => actor::Reason::Failed(text.into()),
            other => actor::Reason::Failed(other.to_string().into()),
        };
        self.cx.stop_with(reason);
    }
}

/// How long [`Scope::spawn`] waits for the other node.
const SPAWN_DEADLINE: Duration = Duration::from_secs(5);
