//! Questions to other nodes, each with a deadline, and answers to theirs.
//!
//! Owns the table of questions that wait. Each is answered exactly once: by the other node, by its
//! deadline, or because the node is gone. Deliberately not here: what an answer means to its
//! operation (`groups`, `changes`, `query`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::clashes::Contest;
use super::query::{Gather, Search};
use super::relations::Watcher;
use super::{Caller, Effect, Machine, Wake, WakeKey};
use crate::command::Answer;
use crate::process::Event;
use crate::types::{Body, CallError, MonitorRef, Name, NodeName, Pid, SpawnError};
use crate::view::{GroupId, Space};
use crate::wire::{Change, Frame, Outcome, Question, Tell};

/// What is spawned where.
#[derive(Debug)]
pub(crate) struct Spawn {
    pub(crate) node: NodeName,
    pub(crate) function: Name,
    pub(crate) args: Body,
    pub(crate) link: bool,
    pub(crate) monitor: Option<MonitorRef>,
    pub(crate) deadline: Duration,
}

/// What an answer is for.
#[derive(Debug)]
pub(crate) enum Then {
    Spawn {
        caller: Caller,
        link: Option<u64>,
        monitor: Option<(u64, u64)>,
    },
    Call(Caller),
    Names(Caller),
    Search(Box<Search>),
    /// One of the answers that an operation waits for.
    Operation(u64),
    /// A claim of this node loses, if the other one's process is alive.
    Contest(Box<Contest>),
    /// What another node asked by this number.
    Confirm(NodeName, u64),
}

/// A question that waits.
#[derive(Debug)]
pub(crate) struct Ask {
    node: NodeName,
    key: WakeKey,
    then: Then,
}

/// Work that needs several answers.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) caller: Caller,
    /// Who has not answered.
    pub(crate) waiting: BTreeSet<NodeName>,
    pub(crate) kind: Kind,
}

/// Which work.
#[derive(Debug)]
pub(crate) enum Kind {
    /// Nodes are invited into a group that is made or grows.
    Invite {
        group: GroupId,
        is_new: bool,
        accepted: BTreeSet<NodeName>,
    },
    /// A change is with the coordinator of its space.
    Submit {
        space: Space,
        change: Change,
        attempts: u32,
        /// What the caller asked for, to make the answer.
        purpose: super::changes::Purpose,
    },
    /// The members take what this node tells them: a view of a group, or names.
    Apply {
        group: Option<GroupId>,
        outcome: Outcome,
        origin: Origin,
    },
    /// This node coordinates: keepers do what it orders.
    Order {
        space: Space,
        /// The name that is to be claimed.
        claimed: Option<Name>,
        outcome: Outcome,
        origin: Origin,
    },
    /// Values, or consent, of many nodes are collected.
    Gather(Box<Gather>),
}

/// Where a change came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An operation of this node.
    Here(u64),
    /// A question of another.
    Node(NodeName, u64),
    /// An operation of this node that orders this node among others.
    Order(u64),
    /// This node made the group.
    Made(Caller, Name),
}

/// What became of a question.
#[derive(Debug)]
pub(crate) enum Told {
    Answer(Tell),
    NoConnection,
    Timeout,
}

impl Machine {
    /// Asks another node. The answer, or why there is none, goes to `then`.
    pub(super) fn ask(&mut self, node: &NodeName, question: Question, after: Duration, then: Then) {
        self.ask_life(node, None, question, after, then);
    }

    pub(super) fn ask_life(
        &mut self,
        node: &NodeName,
        life: Option<u64>,
        question: Question,
        after: Duration,
        then: Then,
    ) {
        let is_full = self.asks.len() >= self.limits.asks_max;
        let id = self.new_ask(node, after, then);
        let frame = Frame::Ask { ask: id, question };
        if is_full || self.transmit_to_life(node, life, frame).is_err() {
            self.fail_ask(id);
        }
    }

    fn new_ask(&mut self, node: &NodeName, after: Duration, then: Then) -> u64 {
        self.next_ask += 1;
        let id = self.next_ask;
        let key = self.wake_after(after, Wake::Ask(id));
        let node = node.clone();
        self.asks.insert(id, Ask { node, key, then });
        id
    }

    /// Numbers by which the nodes that an operation waits for are to answer what they are told.
    /// Those for which there is no room are told without one, and not waited for.
    pub(super) fn expect_answers(&mut self, operation: u64) -> BTreeMap<NodeName, u64> {
        let nodes = self.operations.get(&operation);
        let nodes = nodes.map(|operation| operation.waiting.clone());
        let after = self.limits.silence;
        let mut asks = BTreeMap::new();
        for node in nodes.unwrap_or_default() {
            if self.asks.len() < self.limits.asks_max {
                let ask = self.new_ask(&node, after, Then::Operation(operation));
                asks.insert(node, ask);
            } else if let Some(operation) = self.operations.get_mut(&operation) {
                operation.waiting.remove(&node);
            }
        }
        asks
    }

    /// Answers what was told with a number.
    fn applied(&mut self, node: &NodeName, ask: Option<u64>) {
        if let Some(ask) = ask {
            let answer = Tell::Applied;
            self.tell(node, &Frame::Tell { ask, answer });
        }
    }

    pub(super) fn new_operation(&mut self, operation: Operation) -> u64 {
        self.next_operation += 1;
        self.operations.insert(self.next_operation, operation);
        self.next_operation
    }

    /// Asks several nodes the same, for an operation.
    pub(super) fn ask_all(&mut self, operation: u64, question: &Question, after: Duration) {
        let Some(waiting) = self.operations.get(&operation) else {
            return;
        };
        let nodes: Vec<NodeName> = waiting.waiting.iter().cloned().collect();
        for node in nodes {
            self.ask(&node, question.clone(), after, Then::Operation(operation));
        }
    }

    pub(super) fn ask_timed_out(&mut self, id: u64) {
        self.resolve(id, Told::Timeout);
    }

    pub(super) fn fail_ask(&mut self, id: u64) {
        self.resolve(id, Told::NoConnection);
    }

    /// An answer came from a node. One to a question that was put to another node is no answer.
    pub(super) fn told(&mut self, node: &NodeName, id: u64, answer: Tell) {
        if self.asks.get(&id).is_some_and(|ask| ask.node == *node) {
            self.resolve(id, Told::Answer(answer));
        }
    }

    /// The link with a node has ended, or cannot be made. With `again`, it is asked once more what
    /// may be answered twice; the deadline stays.
    pub(super) fn asks_lost(&mut self, node: &NodeName, again: bool) {
        let of_node = self.asks.iter().filter(|(_, ask)| ask.node == *node);
        let mut ids: Vec<u64> = of_node.map(|(id, _)| *id).collect();
        ids.sort_unstable();
        for id in ids {
            let question = again.then(|| self.repeated(id)).flatten();
            let is_asked = question.is_some_and(|question| {
                let frame = Frame::Ask { ask: id, question };
                self.transmit_to_life(node, None, frame).is_ok()
            });
            if !is_asked {
                self.resolve(id, Told::NoConnection);
            }
        }
    }

    /// A question that may be asked twice, as it is asked now.
    fn repeated(&self, id: u64) -> Option<Question> {
        let ask = self.asks.get(&id)?;
        #[cfg(test)]
        if self.has(crate::model::bugs::Bug::AskOnce) {
            return None;
        }
        match &ask.then {
            Then::Names(_) => Some(Question::Names),
            Then::Search(search) => Some(search.question()),
            Then::Operation(operation) => match &self.operations.get(operation)?.kind {
                Kind::Invite { group, .. } => Some(Question::Invite(group.clone())),
                Kind::Apply { group, .. } => {
                    // A node that is no member any more takes leave by itself.
                    let id = group.as_ref()?;
                    let view = &self.groups.get(&id.name)?.view;
                    let is_told = view.id == *id && view.has(&ask.node);
                    is_told.then(|| Question::Apply(view.clone()))
                }
                Kind::Gather(gather) => gather.question(),
                Kind::Submit { .. } | Kind::Order { .. } => None,
            },
            Then::Spawn { .. } | Then::Call(_) | Then::Contest(_) | Then::Confirm(..) => None,
        }
    }

    /// A process ended: its own questions have nobody to answer.
    pub(super) fn forget_asks_of(&mut self, process: u64) {
        let is_its =
            |caller: &Caller| matches!(caller, Caller::Process { id, .. } if *id == process);
        let its = self.asks.iter().filter(|(_, ask)| match &ask.then {
            Then::Call(caller) => is_its(caller),
            _ => false,
        });
        let ids: Vec<u64> = its.map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(ask) = self.asks.remove(&id) {
                self.cancel(ask.key);
            }
        }
    }

    fn resolve(&mut self, id: u64, told: Told) {
        let Some(ask) = self.asks.remove(&id) else {
            return;
        };
        self.cancel(ask.key);
        match ask.then {
            Then::Spawn {
                caller,
                link,
                monitor,
            } => {
                let result = match told {
                    Told::Answer(Tell::Spawned(Ok(id))) => {
                        Ok(self.tie_to_spawned(&ask.node, id, link, monitor))
                    }
                    Told::Answer(Tell::Spawned(Err(error))) => Err(error),
                    Told::Answer(_) | Told::NoConnection => Err(SpawnError::NoConnection),
                    Told::Timeout => Err(SpawnError::Timeout),
                };
                self.answer(caller, Answer::Spawned(result));
            }
            Then::Call(caller) => {
                let result = match told {
                    Told::Answer(Tell::Called(result)) => result,
                    Told::Answer(_) | Told::NoConnection => Err(CallError::NoConnection),
                    Told::Timeout => Err(CallError::Timeout),
                };
                self.answer(caller, Answer::Called(result));
            }
            Then::Names(caller) => self.names_told(caller, told),
            Then::Search(search) => self.search_told(*search, &ask.node, told),
            Then::Operation(operation) => self.operation_told(operation, &ask.node, told),
            Then::Contest(contest) => self.contest_told(&contest, &told),
            Then::Confirm(node, ask) => {
                let is_alive = matches!(told, Told::Answer(Tell::Done(true)));
                self.confirmed(&node, ask, is_alive);
            }
        }
    }

    pub(super) fn operation_told(&mut self, id: u64, node: &NodeName, told: Told) {
        let Some(operation) = self.operations.get_mut(&id) else {
            return;
        };
        operation.waiting.remove(node);
        match &mut operation.kind {
            Kind::Invite { accepted, .. } => {
                if matches!(told, Told::Answer(Tell::Invited(true))) {
                    accepted.insert(node.clone());
                }
            }
            Kind::Gather(gather) => gather.told(node, told),
            Kind::Submit { .. } => return self.submitted(id, told),
            Kind::Order { .. } => self.order_told(id, node, told),
            Kind::Apply { .. } => {}
        }
        self.finish_if_done(id);
    }

    /// Goes on with an operation that waits for nobody.
    pub(super) fn finish_if_done(&mut self, id: u64) {
        let is_done = |operation: &Operation| operation.waiting.is_empty();
        if !self.operations.get(&id).is_some_and(is_done) {
            return;
        }
        let Some(operation) = self.operations.remove(&id) else {
            return;
        };
        match operation.kind {
            Kind::Invite {
                group,
                is_new,
                accepted,
            } => self.invited_all(operation.caller, group, is_new, accepted),
            Kind::Apply {
                outcome, origin, ..
            } => self.applied_by_all(outcome, origin),
            Kind::Order {
                space,
                claimed,
                outcome,
                origin,
            } => self.obeyed(id, &space, claimed, outcome, origin),
            Kind::Gather(gather) => self.gathered(operation.caller, *gather),
            Kind::Submit { .. } => {}
        }
    }

    // ---- Spawning and calling ------------------------------------------------------------------

    /// Spawns a function of another node, or of this one, and ties it to `parent` as it asks.
    pub(super) fn spawn(&mut self, caller: Caller, spawn: Spawn, parent: Option<u64>) {
        let Spawn {
            node,
            function,
            args,
            link,
            monitor,
            deadline,
        } = spawn;
        let parent_link = parent.filter(|_| link);
        let watch = parent.zip(monitor.map(|monitor| monitor.0));
        if node == self.me {
            let result = self.spawn_here(&function, args).map(|id| self.pid(id));
            if let Ok(pid) = &result {
                if let Some(parent) = parent_link {
                    self.link(parent, pid);
                }
                if let Some((parent, monitor)) = watch {
                    self.monitor(Watcher::Process(parent), monitor, pid);
                }
            }
            return self.answer(caller, Answer::Spawned(result));
        }
        let question = Question::Spawn {
            function: function.as_ref().into(),
            args,
            link: parent_link,
            monitor: watch.map(|(_, monitor)| monitor),
        };
        let then = Then::Spawn {
            caller,
            link: parent_link,
            monitor: watch,
        };
        self.ask(&node, question, deadline, then);
    }

    fn spawn_here(&mut self, function: &str, args: Body) -> Result<u64, SpawnError> {
        let Some(function) = self.functions.get(function).cloned() else {
            return Err(SpawnError::NoFunction);
        };
        if !self.has_room() {
            return Err(SpawnError::Full);
        }
        self.next_shard = (self.next_shard + 1) % self.shards;
        let id = self.shared.new_id(self.next_shard);
        self.started(id);
        self.effects.push(Effect::Spawn { id, function, args });
        Ok(id)
    }

    /// Another node asks for a process here.
    fn spawn_for(&mut self, node: &NodeName, question: Question) -> Result<u64, SpawnError> {
        let Question::Spawn {
            function,
            args,
            link,
            monitor,
        } = question
        else {
            return Err(SpawnError::NoFunction);
        };
        let id = self.spawn_here(&function, args)?;
        if let Some(parent) = link {
            self.linked_from(node, parent, id);
        }
        if let Some(monitor) = monitor {
            self.monitored_from(node, monitor, id);
        }
        Ok(id)
    }

    /// A process was spawned elsewhere, tied to one of ours: this is our end of it.
    fn tie_to_spawned(
        &mut self,
        node: &NodeName,
        id: u64,
        link: Option<u64>,
        monitor: Option<(u64, u64)>,
    ) -> Pid {
        let pid = self.pid_of(node, id);
        if let Some(parent) = link {
            self.linked_to(parent, &pid);
        }
        if let Some((parent, monitor)) = monitor {
            self.monitors_now(parent, monitor, &pid);
        }
        pid
    }

    /// Asks a process, wherever it is.
    pub(super) fn call(
        &mut self,
        caller: Caller,
        from: Option<u64>,
        to: &Pid,
        body: Body,
        deadline: Duration,
    ) {
        if self.is_mine(to) {
            self.next_ask += 1;
            let id = self.next_ask;
            let ask = Ask {
                node: self.me.clone(),
                key: self.wake_after(deadline, Wake::Ask(id)),
                then: Then::Call(caller),
            };
            let is_full = self.asks.len() >= self.limits.asks_max;
            self.asks.insert(id, ask);
            let from = from.map(|id| self.pid(id));
            let target = if self.is_alive(to) && !is_full {
                to.id
            } else {
                0
            };
            return self.called(self.me.clone(), id, target, from, body);
        }
        let question = Question::Call {
            to: to.id,
            from,
            body,
        };
        let peer = self.peers.get(&to.node);
        if peer.is_some_and(|peer| peer.is_up() && peer.life != to.life) {
            return self.answer(caller, Answer::Called(Err(CallError::NoProcess)));
        }
        self.ask_life(
            &to.node,
            Some(to.life),
            question,
            deadline,
            Then::Call(caller),
        );
        if let Some(id) = from {
            self.hold_if_full(&to.node, id);
        }
    }

    // ---- What others ask -----------------------------------------------------------------------

    /// A frame of a linked node.
    pub(super) fn frame(&mut self, node: &NodeName, frame: Frame) {
        match frame {
            Frame::Send { to, from, body } => {
                if self.has_process(to) {
                    let from = from.map(|id| self.pid_of(node, id));
                    self.deliver(to, Event::Message { from, body });
                }
            }
            Frame::Refused { to, from, full } => {
                let to = self.pid_of(node, to);
                let reason = if full {
                    CallError::Full
                } else {
                    CallError::NoProcess
                };
                self.deliver(from, Event::Refused { to, reason });
            }
            Frame::Alive => {}
            Frame::Bye(why) => self.said_bye(node, why),
            Frame::Link { from, to } => self.linked_from(node, from, to),
            Frame::Unlink { from, to } => self.unlinked_from(node, from, to),
            Frame::Exit {
                from,
                to,
                reason,
                told,
            } => {
                let who = self.pid_of(node, from);
                self.exited(to, &who, reason.bounded(), told);
            }
            Frame::Monitor { monitor, who } => self.monitored_from(node, monitor, who),
            Frame::Demonitor { monitor } => self.demonitored_from(node, monitor),
            Frame::Down { monitor, reason } => self.down_from(node, monitor, reason.bounded()),
            Frame::Ask { ask, question } => self.asked(node, ask, question),
            Frame::Tell { ask, answer } => self.told(node, ask, answer),
            Frame::Status(status) => self.status_told(node, status),
            Frame::View(view) => self.view_told(node, view),
            Frame::Want(id) => self.view_wanted(node, &id),
            Frame::Keep {
                space,
                after,
                upto,
                entries,
                want,
            } => self.keep_told(node, &space, (after, upto), entries, want),
            Frame::Kept { space, entry, ask } => {
                self.kept_told(node, &space, entry);
                self.applied(node, ask);
            }
            Frame::Withdrawn { space, name, ask } => {
                self.withdrawn_told(node, &space, &name);
                self.applied(node, ask);
            }
            Frame::FreePeers(nodes) => self.free_peers_told(node, nodes),
        }
    }

    fn asked(&mut self, node: &NodeName, ask: u64, question: Question) {
        let answer = match question {
            Question::Call { to, from, body } => {
                let from = from.map(|id| self.pid_of(node, id));
                return self.called(node.clone(), ask, to, from, body);
            }
            Question::Submit {
                space,
                change,
                attempt,
                seen,
            } => {
                let origin = Origin::Node(node.clone(), ask);
                return self.coordinate(&space, change, (attempt, seen), origin);
            }
            spawn @ Question::Spawn { .. } => Tell::Spawned(self.spawn_for(node, spawn)),
            Question::Invite(id) => Tell::Invited(self.invited(id)),
            Question::Order { space, order, seen } => {
                let origin = Origin::Node(node.clone(), ask);
                return self.ordered(&space, order, seen, origin);
            }
            Question::Confirm {
                space,
                name,
                number,
            } => return self.confirm(node, ask, &space, (&name, number)),
            Question::Alive(id) => Tell::Done(self.has_process(id)),
            Question::Apply(view) => {
                self.install(view);
                Tell::Applied
            }
            Question::Whereis { group, name } => Tell::Found(self.find_local(&group, &name)),
            Question::Find(group) => Tell::Group(self.members_known(&group)),
            Question::Names => Tell::Names(self.all_names()),
            Question::Attributes(names) => {
                let facts = self.facts();
                let mut values = self.attributes.values(&names, &facts);
                values.retain(|_, value| is_short(value));
                Tell::Attributes(values)
            }
            Question::SetAttributes(list) => Tell::Done(self.set_attributes(list)),
            Question::DropAttributes(names) => {
                self.drop_attributes(&names);
                Tell::Done(true)
            }
        };
        self.tell(node, &Frame::Tell { ask, answer });
    }

    fn names_told(&mut self, caller: Caller, told: Told) {
        let names: Vec<(Name, Name)> = match told {
            Told::Answer(Tell::Names(names)) => names,
            _ => Vec::new(),
        };
        self.answer(caller, Answer::Names(Ok(names)));
    }

    pub(super) fn ask_names(&mut self, caller: Caller, node: &NodeName) {
        let after = self.limits.ask;
        self.ask(node, Question::Names, after, Then::Names(caller));
    }
}

/// A dynamic attribute may evaluate to anything; only what fits is told.
fn is_short(value: &crate::attributes::Value) -> bool {
    !matches!(value, crate::attributes::Value::Text(text)
        if text.len() > crate::attributes::TEXT_BYTES_MAX)
}
