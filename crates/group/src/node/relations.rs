//! Processes of this node and who is tied to them: messages, links, monitors, exits.
//!
//! Owns both ends of every relation as far as they are on this node. The end of a process, or the
//! loss of its node, is told to everybody who asked, once. Deliberately not here: running them.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::{Effect, Machine};
use crate::process::{Action, Asker, Event, ReplyTo};
use crate::types::{Body, CallError, MonitorRef, Name, NodeName, Pid, Reason};
use crate::view::Space;
use crate::wire::{Frame, Tell};

/// Who hears of the end of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Watcher {
    /// A process of this node.
    Process(u64),
    /// This node keeps the name of the process.
    Keeper(Space, Name),
    /// A process, or the keeper of a name, of another node.
    Remote(NodeName),
}

/// What is known of a process of this node.
#[derive(Debug, Default)]
struct Proc {
    links: BTreeSet<Pid>,
    traps: bool,
    watchers: BTreeMap<(u64, Option<NodeName>), Watcher>,
    watching: BTreeMap<u64, Pid>,
    /// Calls that it has not answered: who asked, by which number.
    calls: BTreeSet<(NodeName, u64)>,
}

/// Every process of this node and its relations.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    procs: FxHashMap<u64, Proc>,
    /// Monitors of processes of other nodes, by node and number.
    abroad: BTreeMap<(NodeName, u64), (Pid, Watcher)>,
    /// Monitors that other nodes have here.
    from_abroad: BTreeMap<(NodeName, u64), u64>,
    /// Links with processes of other nodes: theirs, ours.
    links: BTreeMap<NodeName, BTreeSet<(u64, u64)>>,
}

impl Relations {
    pub(crate) fn processes(&self) -> usize {
        self.procs.len()
    }

    /// Relations between this node and others.
    fn count(&self) -> usize {
        let links: usize = self.links.values().map(BTreeSet::len).sum();
        self.abroad.len() + self.from_abroad.len() + links
    }
}

impl Machine {
    fn is_full_of_relations(&self) -> bool {
        self.relations.count() >= self.limits.relations_max
    }

    pub(crate) fn has_process(&self, id: u64) -> bool {
        self.relations.procs.contains_key(&id)
    }

    /// Whether a pid names a process of this life that has not ended.
    pub(crate) fn is_alive(&self, pid: &Pid) -> bool {
        self.is_mine(pid) && pid.life == self.life && self.has_process(pid.id)
    }

    /// Whether one more process may start.
    pub(crate) fn has_room(&self) -> bool {
        self.relations.processes() < self.limits.processes_max && !self.stopped
    }

    /// A process was started here, with an id given out before.
    pub(crate) fn started(&mut self, id: u64) {
        self.relations.procs.entry(id).or_default();
    }

    // ---- What processes do ---------------------------------------------------------------------

    /// A process does something.
    pub(crate) fn act(&mut self, from: u64, action: Action) {
        if !self.has_process(from) && !matches!(action, Action::Send { .. } | Action::Reply { .. })
        {
            return;
        }
        match action {
            Action::Send { to, body } => self.send(Some(from), &to, body),
            Action::Link(who) => self.link(from, &who),
            Action::Unlink(who) => self.unlink(from, &who),
            Action::Monitor { monitor, who } => {
                self.monitor(Watcher::Process(from), monitor.0, &who);
            }
            Action::Demonitor(monitor) => self.demonitor(from, monitor.0),
            Action::Exit { to, reason } => self.exit(from, &to, reason),
            Action::Trap(traps) => {
                if let Some(proc) = self.relations.procs.get_mut(&from) {
                    proc.traps = traps;
                }
            }
            Action::Call {
                to,
                body,
                deadline,
                tag,
            } => {
                let caller = super::Caller::Process { id: from, tag };
                self.call(caller, Some(from), &to, body, deadline);
            }
            Action::Reply { to, body } => self.reply(from, to, Ok(body)),
            Action::Command { tag, command } => {
                self.command(super::Caller::Process { id: from, tag }, *command);
            }
        }
    }

    /// Sends to a process, wherever it is. Nobody hears of one that is gone, as with any message to
    /// a process that ends before it reads it.
    pub(crate) fn send(&mut self, from: Option<u64>, to: &Pid, body: Body) {
        if self.is_mine(to) {
            if self.is_alive(to) {
                let from = from.map(|id| self.pid(id));
                self.deliver(to.id, Event::Message { from, body });
            }
            return;
        }
        if !self.is_current(to) {
            return;
        }
        let frame = Frame::Send {
            to: to.id,
            from,
            body,
        };
        if self.transmit_to(to, frame).is_err() {
            if let Some(from) = from {
                self.refused_to(from, to.clone(), CallError::NoConnection);
            }
        } else if let Some(from) = from {
            self.hold_if_full(&to.node, from);
        }
    }

    fn refused_to(&mut self, from: u64, to: Pid, reason: CallError) {
        self.deliver(from, Event::Refused { to, reason });
    }

    /// Whether a pid belongs to the life that its node has now, as far as known: one that is not
    /// linked is asked.
    pub(super) fn is_current(&self, pid: &Pid) -> bool {
        let peer = self.peers.get(&pid.node);
        peer.is_none_or(|peer| !peer.is_up() || peer.life == pid.life)
    }

    /// An event that this node gave to a process was not taken: its mailbox is full, or it is gone.
    pub(crate) fn not_taken(&mut self, to: u64, event: Event, full: bool) {
        let error = if full {
            CallError::Full
        } else {
            CallError::NoProcess
        };
        match event {
            Event::Message {
                from: Some(from), ..
            } if full => {
                let pid = self.pid(to);
                if self.is_mine(&from) {
                    self.refused_to(from.id, pid, error);
                } else {
                    let frame = Frame::Refused {
                        to,
                        from: from.id,
                        full,
                    };
                    self.tell(&from.node, &frame);
                }
            }
            Event::Request { from, .. } => self.reply(to, from, Err(error)),
            _ => {}
        }
    }

    // ---- Calls ---------------------------------------------------------------------------------

    /// A call reaches a process of this node.
    pub(super) fn called(
        &mut self,
        asker: NodeName,
        ask: u64,
        to: u64,
        from: Option<Pid>,
        body: Body,
    ) {
        let Some(proc) = self.relations.procs.get_mut(&to) else {
            return self.return_call(&asker, ask, Err(CallError::NoProcess));
        };
        proc.calls.insert((asker.clone(), ask));
        let from = ReplyTo {
            asker: Asker { node: asker, ask },
            from,
        };
        self.deliver(to, Event::Request { from, body });
    }

    fn reply(&mut self, process: u64, to: ReplyTo, result: Result<Body, CallError>) {
        let Asker { node, ask } = to.asker;
        if let Some(proc) = self.relations.procs.get_mut(&process) {
            proc.calls.remove(&(node.clone(), ask));
        }
        self.return_call(&node, ask, result);
        if node != self.me {
            self.hold_if_full(&node, process);
        }
    }

    fn return_call(&mut self, asker: &NodeName, ask: u64, result: Result<Body, CallError>) {
        let answer = Tell::Called(result);
        if *asker == self.me {
            return self.told(asker, ask, answer);
        }
        self.tell(asker, &Frame::Tell { ask, answer });
    }

    // ---- Links ---------------------------------------------------------------------------------

    pub(super) fn link(&mut self, me: u64, who: &Pid) {
        let own = self.pid(me);
        if own == *who {
            return;
        }
        if let Some(proc) = self.relations.procs.get_mut(&me) {
            proc.links.insert(who.clone());
        }
        if self.is_mine(who) {
            let is_alive = self.is_alive(who);
            match self.relations.procs.get_mut(&who.id) {
                Some(proc) if is_alive => drop(proc.links.insert(own)),
                _ => self.exited(me, who, Reason::NoProcess, false),
            }
            return;
        }
        let links = self.relations.links.entry(who.node.clone()).or_default();
        links.insert((who.id, me));
        let frame = Frame::Link {
            from: me,
            to: who.id,
        };
        if !self.is_current(who) {
            self.exited(me, who, Reason::NoProcess, false);
        } else if self.relations.count() > self.limits.relations_max {
            self.exited(me, who, full(), false);
        } else if let Err(reason) = self.transmit_to(who, frame) {
            self.exited(me, who, reason, false);
        }
    }

    /// A process spawned elsewhere is linked with one of ours, which may have ended meanwhile.
    pub(super) fn linked_to(&mut self, me: u64, who: &Pid) {
        if let Some(proc) = self.relations.procs.get_mut(&me) {
            proc.links.insert(who.clone());
            let links = self.relations.links.entry(who.node.clone()).or_default();
            links.insert((who.id, me));
        } else {
            let frame = Frame::Exit {
                from: me,
                to: who.id,
                reason: Reason::NoProcess,
                told: false,
            };
            self.tell(&who.node, &frame);
        }
    }

    /// A process spawned elsewhere is monitored by one of ours, which may have ended meanwhile.
    pub(super) fn monitors_now(&mut self, me: u64, monitor: u64, who: &Pid) {
        if let Some(proc) = self.relations.procs.get_mut(&me) {
            proc.watching.insert(monitor, who.clone());
            let key = (who.node.clone(), monitor);
            let watcher = Watcher::Process(me);
            self.relations.abroad.insert(key, (who.clone(), watcher));
        } else {
            self.tell(&who.node, &Frame::Demonitor { monitor });
        }
    }

    /// A frame was for a process of an earlier life of its node.
    pub(super) fn too_late(&mut self, node: &NodeName, frame: Frame) {
        match frame {
            Frame::Monitor { monitor, .. } => self.down_from(node, monitor, Reason::NoProcess),
            Frame::Ask { ask, .. } => self.told(node, ask, Tell::Called(Err(CallError::NoProcess))),
            Frame::Link { from, to } => {
                let proc = self.relations.procs.get(&from);
                let is_it = |pid: &&Pid| pid.node == *node && pid.id == to;
                if let Some(who) = proc.and_then(|proc| proc.links.iter().find(is_it).cloned()) {
                    self.exited(from, &who, Reason::NoProcess, false);
                }
            }
            _ => {}
        }
    }

    fn unlink(&mut self, me: u64, who: &Pid) {
        self.forget_link(me, who);
        let own = self.pid(me);
        if self.is_mine(who) {
            if let Some(proc) = self.relations.procs.get_mut(&who.id) {
                proc.links.remove(&own);
            }
        } else if self.is_current(who) {
            let frame = Frame::Unlink {
                from: me,
                to: who.id,
            };
            self.tell(&who.node, &frame);
        }
    }

    /// False if there was none.
    fn forget_link(&mut self, me: u64, who: &Pid) -> bool {
        if !self.is_mine(who)
            && let Some(links) = self.relations.links.get_mut(&who.node)
        {
            links.remove(&(who.id, me));
            if links.is_empty() {
                self.relations.links.remove(&who.node);
            }
        }
        let proc = self.relations.procs.get_mut(&me);
        proc.is_some_and(|proc| proc.links.remove(who))
    }

    /// Another node's process links itself to one of ours.
    pub(super) fn linked_from(&mut self, node: &NodeName, from: u64, to: u64) {
        let who = self.pid_of(node, from);
        let is_full = self.is_full_of_relations();
        match self.relations.procs.get_mut(&to) {
            Some(proc) if !is_full => {
                proc.links.insert(who);
                let links = self.relations.links.entry(node.clone()).or_default();
                links.insert((from, to));
            }
            found => {
                let reason = if found.is_some() {
                    full()
                } else {
                    Reason::NoProcess
                };
                let frame = Frame::Exit {
                    from: to,
                    to: from,
                    reason,
                    told: false,
                };
                self.tell(node, &frame);
            }
        }
    }

    pub(super) fn unlinked_from(&mut self, node: &NodeName, from: u64, to: u64) {
        let who = self.pid_of(node, from);
        self.forget_link(to, &who);
    }

    pub(super) fn pid_of(&self, node: &NodeName, id: u64) -> Pid {
        let life = self.peers.get(node).map_or(0, |peer| peer.life);
        Pid {
            node: node.clone(),
            life,
            id,
        }
    }

    /// A process tells another to end, or ends it: `Killed` cannot be trapped.
    fn exit(&mut self, from: u64, to: &Pid, reason: Reason) {
        let reason = reason.bounded();
        if self.is_mine(to) {
            if self.is_alive(to) {
                let from = self.pid(from);
                self.exited(to.id, &from, reason, true);
            }
        } else if self.is_current(to) {
            let frame = Frame::Exit {
                from,
                to: to.id,
                reason,
                told: true,
            };
            // One that cannot be reached does not hear it; a link with it would have told so.
            let _ = self.transmit_to(to, frame);
        }
    }

    /// Something that a process is tied to ended, or it is told to end.
    pub(super) fn exited(&mut self, id: u64, who: &Pid, reason: Reason, told: bool) {
        let was_linked = self.forget_link(id, who);
        let Some(proc) = self.relations.procs.get(&id) else {
            return;
        };
        if !told && !was_linked {
            return;
        }
        let is_kill = told && reason == Reason::Killed;
        if proc.traps && !is_kill {
            let who = who.clone();
            self.deliver(id, Event::Exit { who, reason });
        } else if is_kill || reason.is_crash() || (told && reason == Reason::Shutdown) {
            self.effects.push(Effect::Kill { id, reason });
        }
    }

    // ---- Monitors ------------------------------------------------------------------------------

    /// Hears of the end of a process, at once if it is gone already.
    pub(super) fn monitor(&mut self, watcher: Watcher, monitor: u64, who: &Pid) {
        if let Watcher::Process(id) = watcher
            && let Some(proc) = self.relations.procs.get_mut(&id)
        {
            proc.watching.insert(monitor, who.clone());
        }
        if self.is_mine(who) {
            let is_alive = self.is_alive(who);
            return match self.relations.procs.get_mut(&who.id) {
                Some(proc) if is_alive => {
                    drop(proc.watchers.insert((monitor, None), watcher));
                }
                _ => self.down(&watcher, monitor, who, Reason::NoProcess),
            };
        }
        if !self.is_current(who) {
            return self.down(&watcher, monitor, who, Reason::NoProcess);
        }
        if self.is_full_of_relations() {
            return self.down(&watcher, monitor, who, full());
        }
        let frame = Frame::Monitor {
            monitor,
            who: who.id,
        };
        match self.transmit_to(who, frame) {
            Ok(()) => {
                let key = (who.node.clone(), monitor);
                self.relations.abroad.insert(key, (who.clone(), watcher));
            }
            Err(reason) => self.down(&watcher, monitor, who, reason),
        }
    }

    pub(super) fn new_monitor(&mut self) -> u64 {
        self.shared.new_monitor().0
    }

    /// Has this node watch a process whose name it keeps.
    pub(super) fn watch_named(&mut self, space: &Space, name: &Name, monitor: u64, who: &Pid) {
        let watcher = Watcher::Keeper(space.clone(), Name::clone(name));
        self.monitor(watcher, monitor, who);
    }

    pub(super) fn unwatch(&mut self, monitor: u64, who: &Pid) {
        if self.is_mine(who) {
            if let Some(proc) = self.relations.procs.get_mut(&who.id) {
                proc.watchers.remove(&(monitor, None));
            }
            return;
        }
        let key = (who.node.clone(), monitor);
        if self.relations.abroad.remove(&key).is_some() {
            self.tell(&who.node, &Frame::Demonitor { monitor });
        }
    }

    fn demonitor(&mut self, me: u64, monitor: u64) {
        let proc = self.relations.procs.get_mut(&me);
        if let Some(who) = proc.and_then(|proc| proc.watching.remove(&monitor)) {
            self.unwatch(monitor, &who);
        }
    }

    pub(super) fn monitored_from(&mut self, node: &NodeName, monitor: u64, who: u64) {
        let is_full = self.is_full_of_relations();
        match self.relations.procs.get_mut(&who) {
            Some(proc) if !is_full => {
                let key = (monitor, Some(node.clone()));
                proc.watchers.insert(key, Watcher::Remote(node.clone()));
                let key = (node.clone(), monitor);
                self.relations.from_abroad.insert(key, who);
            }
            found => {
                let reason = if found.is_some() {
                    full()
                } else {
                    Reason::NoProcess
                };
                self.tell(node, &Frame::Down { monitor, reason });
            }
        }
    }

    pub(super) fn demonitored_from(&mut self, node: &NodeName, monitor: u64) {
        let key = (node.clone(), monitor);
        if let Some(who) = self.relations.from_abroad.remove(&key)
            && let Some(proc) = self.relations.procs.get_mut(&who)
        {
            proc.watchers.remove(&(monitor, Some(node.clone())));
        }
    }

    /// Another node says that a process we watch ended.
    pub(super) fn down_from(&mut self, node: &NodeName, monitor: u64, reason: Reason) {
        let key = (node.clone(), monitor);
        if let Some((who, watcher)) = self.relations.abroad.remove(&key) {
            self.down(&watcher, monitor, &who, reason);
        }
    }

    fn down(&mut self, watcher: &Watcher, monitor: u64, who: &Pid, reason: Reason) {
        match watcher {
            Watcher::Process(id) => {
                let Some(proc) = self.relations.procs.get_mut(id) else {
                    return;
                };
                if proc.watching.remove(&monitor).is_some() {
                    let (monitor, who) = (MonitorRef(monitor), who.clone());
                    let event = Event::Down {
                        monitor,
                        who,
                        reason,
                    };
                    self.deliver(*id, event);
                }
            }
            Watcher::Keeper(space, name) => self.named_ended(space, name, who),
            Watcher::Remote(node) => {
                let key = (node.clone(), monitor);
                self.relations.from_abroad.remove(&key);
                self.tell(node, &Frame::Down { monitor, reason });
            }
        }
    }

    // ---- Ends ----------------------------------------------------------------------------------

    /// A process of this node ended.
    pub(crate) fn ended(&mut self, id: u64, reason: Reason) {
        let Some(proc) = self.relations.procs.remove(&id) else {
            return;
        };
        let reason = reason.bounded();
        let who = self.pid(id);
        self.watch_nodes.remove(&id);
        self.forget_held(id);
        for ((monitor, _), watcher) in proc.watchers {
            self.down(&watcher, monitor, &who, reason.clone());
        }
        for other in proc.links {
            if self.is_mine(&other) {
                self.exited(other.id, &who, reason.clone(), false);
                continue;
            }
            if let Some(links) = self.relations.links.get_mut(&other.node) {
                links.remove(&(other.id, id));
            }
            let frame = Frame::Exit {
                from: id,
                to: other.id,
                reason: reason.clone(),
                told: false,
            };
            self.tell(&other.node, &frame);
        }
        for (monitor, other) in proc.watching {
            self.unwatch(monitor, &other);
        }
        for (node, ask) in proc.calls {
            self.return_call(&node, ask, Err(CallError::Dropped));
        }
        self.forget_asks_of(id);
    }

    /// A node is gone: what is tied to its processes hears of it.
    pub(super) fn relations_lost(&mut self, node: &NodeName, reason: &Reason) {
        let from = (node.clone(), 0);
        let of_node = |(key, _): &(&(NodeName, u64), _)| key.0 == *node;
        let watched: Vec<u64> = self
            .relations
            .abroad
            .range(from.clone()..)
            .take_while(|(key, _)| key.0 == *node)
            .map(|(key, _)| key.1)
            .collect();
        for monitor in watched {
            self.down_from(node, monitor, reason.clone());
        }
        let watchers: Vec<u64> = self
            .relations
            .from_abroad
            .range(from..)
            .take_while(|entry| of_node(&(entry.0, entry.1)))
            .map(|(key, _)| key.1)
            .collect();
        for monitor in watchers {
            self.demonitored_from(node, monitor);
        }
        for (theirs, ours) in self.relations.links.remove(node).unwrap_or_default() {
            let proc = self.relations.procs.get(&ours);
            let is_it = |pid: &&Pid| pid.node == *node && pid.id == theirs;
            if let Some(who) = proc.and_then(|proc| proc.links.iter().find(is_it).cloned()) {
                self.exited(ours, &who, reason.clone(), false);
            }
        }
        for proc in self.relations.procs.values_mut() {
            proc.calls.retain(|(asker, _)| asker != node);
        }
    }
}

fn full() -> Reason {
    Reason::Limit("links and monitors with other nodes".into())
}
