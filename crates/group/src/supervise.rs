//! Supervision across nodes: children that are started again, elsewhere if need be.
//!
//! Owns the three strategies and the bound on restarts, as an ordinary process that is linked with
//! its children. A child names the nodes that it may run on, in the order of preference; one that
//! is lost with its node is started on the next. A child that cannot be heard of may be running
//! still: where that matters, register its name in a group, which only one process has.
//! Deliberately not here: actors of one shard ([`actor::Supervisor`]).

use std::collections::VecDeque;
use std::time::Duration;

pub use actor::{Intensity, Restart, Strategy};
use stdx::Moment;

use crate::process::{Event, Process, Scope};
use crate::types::{Body, NodeName, Pid, Reason, SpawnError};

/// How a child is started, each time.
#[derive(Clone, Debug)]
pub struct Child {
    /// The registered function.
    pub function: String,
    /// What it is given.
    pub args: Body,
    /// Where it may run, best first; not empty.
    pub nodes: Vec<NodeName>,
    /// When it is started again.
    pub restart: Restart,
}

#[derive(Debug)]
struct Slot {
    child: Child,
    running: Option<Pid>,
    /// Which of the nodes is next.
    next: usize,
    /// Which start of the child: an answer to an earlier one is too late.
    start: u64,
    is_done: bool,
}

/// A process that keeps processes of several nodes running.
#[derive(Debug)]
pub struct Supervisor {
    strategy: Strategy,
    intensity: Intensity,
    slots: Vec<Slot>,
    restarts: VecDeque<Moment>,
}

/// How long a child whose node cannot be reached waits before it is tried on the next.
const RETRY: Duration = Duration::from_millis(200);

/// Bits of a tag that number the child.
const CHILD_BITS: u32 = 16;

impl Supervisor {
    /// A supervisor of at most 65,536 children, which start in this order.
    pub fn new(strategy: Strategy, intensity: Intensity, children: Vec<Child>) -> Self {
        let slot = |child| Slot {
            child,
            running: None,
            next: 0,
            start: 0,
            is_done: false,
        };
        Supervisor {
            strategy,
            intensity,
            slots: children
                .into_iter()
                .take(1 << CHILD_BITS)
                .map(slot)
                .collect(),
            restarts: VecDeque::new(),
        }
    }

    fn start(&mut self, at: usize, cx: &mut Scope<'_, '_>) {
        let slot = &mut self.slots[at];
        slot.start += 1;
        let tag = (slot.start << CHILD_BITS) | at as u64;
        let Some(node) = slot
            .child
            .nodes
            .get(slot.next % slot.child.nodes.len().max(1))
        else {
            slot.is_done = true;
            return;
        };
        let (function, args) = (&slot.child.function, slot.child.args.clone());
        if cx.spawn_link(node, function, args, tag).is_err() {
            cx.timer(RETRY, tag);
        }
    }

    /// Ends a child on purpose: its end is not heard of.
    fn end(&mut self, at: usize, cx: &mut Scope<'_, '_>) {
        self.slots[at].start += 1;
        if let Some(pid) = self.slots[at].running.take() {
            end(&pid, cx);
        }
    }

    /// Notes a failure; false if there were too many, and it is over.
    fn may_restart(&mut self, cx: &mut Scope<'_, '_>) -> bool {
        let now = cx.now();
        self.restarts.push_back(now);
        while let Some(first) = self.restarts.front()
            && now.saturating_since(*first) > self.intensity.within
        {
            self.restarts.pop_front();
        }
        if self.restarts.len() > self.intensity.max_restarts as usize {
            self.end_all(cx);
            cx.stop(Reason::Escalated);
            return false;
        }
        true
    }

    fn end_all(&mut self, cx: &mut Scope<'_, '_>) {
        for at in (0..self.slots.len()).rev() {
            self.end(at, cx);
        }
    }

    fn child_ended(&mut self, at: usize, reason: &Reason, cx: &mut Scope<'_, '_>) {
        self.slots[at].running = None;
        let again = match self.slots[at].child.restart {
            Restart::Permanent => true,
            Restart::Transient => reason.is_crash(),
            Restart::Temporary => false,
        };
        if !again {
            self.slots[at].is_done = true;
            return;
        }
        if !self.may_restart(cx) {
            return;
        }
        if matches!(reason, Reason::NoConnection) {
            self.slots[at].next += 1;
        }
        let range = match self.strategy {
            Strategy::OneForOne => at..at + 1,
            Strategy::RestForOne => at..self.slots.len(),
            Strategy::OneForAll => 0..self.slots.len(),
        };
        for other in range.clone().rev() {
            if other != at {
                self.end(other, cx);
                // Temporary ones are not started again, not even on behalf of others.
                let slot = &mut self.slots[other];
                slot.is_done |= slot.child.restart == Restart::Temporary;
            }
        }
        for other in range {
            if !self.slots[other].is_done {
                self.start(other, cx);
            }
        }
    }

    fn spawned(&mut self, tag: u64, result: Result<Pid, SpawnError>, cx: &mut Scope<'_, '_>) {
        let at = (tag & ((1 << CHILD_BITS) - 1)) as usize;
        let is_current = self
            .slots
            .get(at)
            .is_some_and(|slot| slot.start == tag >> CHILD_BITS);
        match result {
            Ok(pid) if is_current => self.slots[at].running = Some(pid),
            Ok(pid) => end(&pid, cx),
            Err(_) if is_current => {
                if self.may_restart(cx) {
                    self.slots[at].next += 1;
                    cx.timer(RETRY, tag);
                }
            }
            Err(_) => {}
        }
    }
}

fn end(pid: &Pid, cx: &mut Scope<'_, '_>) {
    // A node whose queue is full does not hear it; it ends with the link when this process does.
    let _ = cx.unlink(pid);
    let _ = cx.exit(pid, Reason::Shutdown);
}

impl Process for Supervisor {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        if cx.trap_exits(true).is_err() {
            return cx.stop(Reason::Failed("the node's queue is full".into()));
        }
        for at in 0..self.slots.len() {
            self.start(at, cx);
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        match event {
            Event::Spawned { tag, result } => self.spawned(tag, result, cx),
            Event::Exit { who, reason } => {
                let is_it = |slot: &Slot| slot.running.as_ref() == Some(&who);
                match self.slots.iter().position(is_it) {
                    Some(at) => self.child_ended(at, &reason, cx),
                    // A child that ended before its start was answered, or one ended on purpose.
                    None if reason == Reason::NoProcess => {}
                    None => {
                        self.end_all(cx);
                        cx.stop(reason);
                    }
                }
            }
            Event::Timer(tag) => {
                let at = (tag & ((1 << CHILD_BITS) - 1)) as usize;
                let slot = self.slots.get(at);
                if slot.is_some_and(|slot| slot.start == tag >> CHILD_BITS) {
                    self.start(at, cx);
                }
            }
            Event::Request { from, .. } => {
                // Whoever asks hears which children run, one per line.
                let line = |slot: &Slot| match &slot.running {
                    Some(pid) => format!("{} {pid}\n", slot.child.function),
                    None => format!("{} -\n", slot.child.function),
                };
                let text: String = self.slots.iter().map(line).collect();
                let _ = cx.reply(from, text);
            }
            _ => {}
        }
    }
}
