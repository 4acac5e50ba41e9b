//! A worker of a run over nodes: the machine of [`crate::worker`] as a process.
//!
//! Owns its messages and its timer. Deliberately not here: what it computes.

use group::{Body, Event, Pid, Process, Reason, Scope};
use stdx::Moment;

use super::wire::{Peers, Relay, ToTeam, ToWorker, WorkerArgs, decode, encode};
use crate::worker::{Effect, Worker};

/// Made of the bytes that a worker is spawned with.
pub(super) fn make(args: &Body) -> Box<dyn Process> {
    let args: Option<WorkerArgs> = decode(args);
    Box::new(WorkerProcess(args.map(Inner::new)))
}

/// A worker; one that was spawned with garbage ends at once.
struct WorkerProcess(Option<Inner>);

struct Inner {
    machine: Worker,
    args: WorkerArgs,
    peers: Peers,
    is_working: bool,
    idleness: u64,
    idle_since: Option<Moment>,
    is_new: bool,
}

impl Process for WorkerProcess {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        match &mut self.0 {
            Some(inner) => inner.idle_since = Some(cx.now()),
            None => cx.stop(Reason::Failed("no arguments of a worker".into())),
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        let Some(inner) = &mut self.0 else { return };
        // A message that could not be sent is lost, with its credit: the run begins anew.
        if inner.take(event, cx).is_none() {
            cx.stop(Reason::Failed("a message of a worker was lost".into()));
        }
    }
}

impl Inner {
    fn new(args: WorkerArgs) -> Self {
        Inner {
            machine: Worker::new(args.conf.clone(), args.layout.clone(), args.me),
            args,
            peers: Peers::default(),
            is_working: false,
            idleness: 0,
            idle_since: None,
            is_new: true,
        }
    }

    /// `None` if something could not be understood or sent.
    fn take(&mut self, event: Event, cx: &mut Scope<'_, '_>) -> Option<()> {
        match event {
            Event::Request { from, body } => {
                self.peers = decode(&body)?;
                return cx.reply(from, Vec::new()).ok();
            }
            Event::Message { body, .. } => match decode(&body)? {
                ToWorker::Batch(batch) => {
                    self.wake(cx.now());
                    self.machine.handle_batch(batch);
                }
                ToWorker::Taken(by) => self.machine.handle_taken(by),
                ToWorker::Returned => self.machine.handle_returned(),
                ToWorker::Work => self.is_working = false,
                ToWorker::Finish => return self.finish(cx),
            },
            Event::Timer(idleness) if idleness == self.idleness => self.machine.return_credit(),
            Event::Refused { .. } => return None,
            _ => return Some(()),
        }
        self.step(cx)
    }

    /// Notes how long it had nothing to do.
    fn wake(&mut self, now: Moment) {
        let Some(since) = self.idle_since.take() else {
            return;
        };
        self.idleness += 1;
        let idle = now.saturating_since(since);
        let stats = &mut self.machine.stats;
        if std::mem::take(&mut self.is_new) {
            stats.max_init_idle = idle;
        } else {
            stats.max_idle = stats.max_idle.max(idle);
        }
    }

    fn step(&mut self, cx: &mut Scope<'_, '_>) -> Option<()> {
        if self.machine.work() && !self.is_working {
            self.is_working = true;
            let me = cx.me().clone();
            cx.send(&me, encode(&ToWorker::Work)).ok()?;
        }
        if self.machine.is_idle() && self.idle_since.is_none() {
            self.idle_since = Some(cx.now());
        }
        if self.machine.wants_to_return() {
            if self.args.conf.idle_timeout.is_zero() {
                self.machine.return_credit();
            } else {
                cx.timer(self.args.conf.idle_timeout, self.idleness);
            }
        }
        for effect in self.machine.take_effects() {
            match effect {
                Effect::Send(to, batch) => self.send(to, ToWorker::Batch(batch), cx)?,
                Effect::Taken(from) => self.send(from, ToWorker::Taken(self.args.me), cx)?,
                Effect::Return(credit) => {
                    let returned = ToTeam::Return(self.args.me, credit);
                    cx.send(&self.args.team, encode(&returned)).ok()?;
                }
            }
        }
        Some(())
    }

    /// To a worker of the same group directly, to others by a gateway.
    fn send(&self, to: u32, msg: ToWorker, cx: &mut Scope<'_, '_>) -> Option<()> {
        if self.args.layout.group_of(to) == self.peers.group {
            let pid: &Pid = self.peers.workers.get((to - self.peers.first) as usize)?;
            return cx.send(pid, encode(&msg)).ok();
        }
        let own = self.peers.gateways.get(self.peers.group as usize)?;
        let gateway = own.get(to as usize % own.len().max(1))?;
        cx.send(gateway, encode(&Relay { to, msg })).ok()
    }

    fn finish(&mut self, cx: &mut Scope<'_, '_>) -> Option<()> {
        let now = cx.now();
        let since = self.idle_since.unwrap_or(now);
        self.machine.stats.max_tail_idle = now.saturating_since(since);
        let stats = Box::new(self.machine.finish());
        cx.send(&self.args.team, encode(&ToTeam::Result(stats)))
            .ok()?;
        cx.stop(Reason::Normal);
        Some(())
    }
}
