//! A team: the workers and gateways of one group, and their sub-master.
//!
//! Owns the group, starting its processes, collecting their credit and their figures. Deliberately
//! not here: what happens when something is lost; then the team is lost as a whole.
//!
//! | state | event | then |
//! |---|---|---|
//! | grouping | the group is made | spawn gateways and workers |
//! | starting | all are spawned | tell the master the gateways |
//! | starting | the gateways of all | tell every process whom it can reach |
//! | connecting | all have answered | tell the master |
//! | running | credit from workers | to the master, one message at a time |
//! | running | finish | have the workers finish |
//! | finishing | all figures | delete the group, tell the master, end |

use std::time::Duration;

use group::{Answer, Body, Command, Event, Name, Pid, Process, Reason, Scope};

use super::wire::{
    GATEWAY, Peers, TeamArgs, ToMaster, ToTeam, ToWorker, WORKER, WorkerArgs, decode, encode,
};
use crate::credit::Credit;
use crate::stats::WorkerStats;

/// How long a process may take to say that it knows its peers.
const CONNECT: Duration = Duration::from_secs(30);

/// The tag of the group that is being made; others number processes.
const GROUPING: u64 = u64::MAX;
/// The tag of what is only cleaned up.
const CLEANING: u64 = u64::MAX - 1;

/// Made of the bytes that a team is spawned with.
pub(super) fn make(args: &Body) -> Box<dyn Process> {
    Box::new(Team {
        args: decode(args),
        ..Team::default()
    })
}

#[derive(Default)]
struct Team {
    args: Option<TeamArgs>,
    gateways: Vec<Option<Pid>>,
    workers: Vec<Option<Pid>>,
    /// Processes that have not said yet that they know their peers.
    unconnected: usize,
    credit: Credit,
    is_returning: bool,
    results: Vec<WorkerStats>,
}

/// What the group of a team is called in one attempt.
fn group_name(number: u32, attempt: u32) -> Name {
    format!("orbit-{number}-{attempt}").into()
}

impl Process for Team {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        let Some(args) = &self.args else {
            return cx.stop(Reason::Failed("no arguments of a team".into()));
        };
        if args.job.groups == 0 {
            return self.spawn(cx);
        }
        // What an attempt that was given up left behind.
        for attempt in 0..args.attempt {
            let old = group_name(args.number, attempt);
            let _ = cx.command(Command::DeleteGroup(old), CLEANING);
        }
        let name = Some(group_name(args.number, args.attempt));
        let nodes = args.nodes.clone();
        if cx
            .command(Command::NewGroup { name, nodes }, GROUPING)
            .is_err()
        {
            cx.stop(Reason::Failed("no room for a command".into()));
        }
    }

    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        let lost = match event {
            Event::Answer {
                tag: GROUPING,
                answer,
            } => match answer {
                Answer::Group(Ok((_, joined))) if self.has_all(&joined) => {
                    self.spawn(cx);
                    None
                }
                _ => Some("the group was not made"),
            },
            Event::Spawned {
                tag,
                result: Ok(pid),
            } => self.spawned(tag as usize, pid, cx),
            Event::Spawned { .. } => Some("a process was not started"),
            Event::Reply { result, .. } => match result {
                Ok(_) => self.connected(cx),
                Err(_) => Some("a process did not answer"),
            },
            Event::Message { body, .. } => match decode(&body) {
                Some(msg) => self.take(msg, cx),
                None => Some("a message was not understood"),
            },
            Event::Refused { .. } => Some("a message of a team was lost"),
            _ => None,
        };
        if let Some(why) = lost {
            cx.stop(Reason::Failed(why.into()));
        }
    }
}

/// Why the team must end, if it must.
type Lost = Option<&'static str>;

fn sent(result: Result<(), group::Busy>) -> Lost {
    result.err().map(|_| "a message of a team was lost")
}

impl Team {
    fn has_all(&self, joined: &[group::NodeName]) -> bool {
        let args = self.args.as_ref();
        args.is_some_and(|args| args.nodes.iter().all(|node| joined.contains(node)))
    }

    fn spawn(&mut self, cx: &mut Scope<'_, '_>) {
        let Some(args) = &self.args else { return };
        let me = cx.me().clone();
        let gateways = if args.job.groups > 1 {
            args.job.gateways
        } else {
            0
        };
        self.gateways = vec![None; gateways as usize];
        self.workers = vec![None; args.places.len()];
        let first = args.layout.first_of(args.number);
        let mut all_sent = true;
        for tag in 0..u64::from(gateways) {
            let here = cx.node().clone();
            all_sent &= cx.spawn_link(&here, GATEWAY, Vec::new(), tag).is_ok();
        }
        for (at, place) in args.places.iter().enumerate() {
            let worker = WorkerArgs {
                conf: args.job.conf.clone(),
                layout: args.layout.clone(),
                me: first + at as u32,
                team: me.clone(),
            };
            let tag = u64::from(gateways) + at as u64;
            all_sent &= cx.spawn_link(place, WORKER, encode(&worker), tag).is_ok();
        }
        if !all_sent {
            cx.stop(Reason::Failed("no room for a command".into()));
        }
    }

    fn spawned(&mut self, tag: usize, pid: Pid, cx: &mut Scope<'_, '_>) -> Lost {
        let gateways = self.gateways.len();
        let slot = match tag < gateways {
            true => self.gateways.get_mut(tag),
            false => self.workers.get_mut(tag - gateways),
        };
        *slot? = Some(pid);
        if self
            .gateways
            .iter()
            .chain(&self.workers)
            .any(Option::is_none)
        {
            return None;
        }
        let gateways = self.gateways.iter().flatten().cloned().collect();
        let args = self.args.as_ref()?;
        let started = ToMaster::Started(args.number, gateways);
        sent(cx.send(&args.master, encode(&started)))
    }

    /// Tells everybody whom he can reach.
    fn connect(&mut self, gateways: Vec<Vec<Pid>>, cx: &mut Scope<'_, '_>) -> Lost {
        let args = self.args.as_ref()?;
        let for_worker = Peers {
            group: args.number,
            first: args.layout.first_of(args.number),
            workers: self.workers.iter().flatten().cloned().collect(),
            gateways: gateways
                .iter()
                .enumerate()
                .map(|(group, all)| match group == args.number as usize {
                    true => all.clone(),
                    false => Vec::new(),
                })
                .collect(),
            layout: None,
        };
        let for_gateway = Peers {
            gateways,
            layout: Some(args.layout.clone()),
            ..for_worker.clone()
        };
        let (for_worker, for_gateway) = (encode(&for_worker), encode(&for_gateway));
        self.unconnected = self.gateways.len() + self.workers.len();
        for pid in self.gateways.iter().flatten() {
            if cx.call(pid, for_gateway.clone(), CONNECT, 0).is_err() {
                return Some("a message of a team was lost");
            }
        }
        for pid in self.workers.iter().flatten() {
            if cx.call(pid, for_worker.clone(), CONNECT, 0).is_err() {
                return Some("a message of a team was lost");
            }
        }
        None
    }

    fn connected(&mut self, cx: &mut Scope<'_, '_>) -> Lost {
        self.unconnected = self.unconnected.saturating_sub(1);
        if self.unconnected > 0 {
            return None;
        }
        let args = self.args.as_ref()?;
        sent(cx.send(&args.master, encode(&ToMaster::Ready(args.number))))
    }

    fn take(&mut self, msg: ToTeam, cx: &mut Scope<'_, '_>) -> Lost {
        match msg {
            ToTeam::Gateways(gateways) => self.connect(gateways, cx),
            ToTeam::First(batch) => {
                let args = self.args.as_ref()?;
                let owner = args.layout.owner(*batch.vertices.first()?);
                let at = owner - args.layout.first_of(args.number);
                let worker = self.workers.get(at as usize)?.as_ref()?;
                sent(cx.send(worker, encode(&ToWorker::Batch(batch))))
            }
            ToTeam::Return(worker, credit) => {
                self.credit.add_all(credit);
                let at = worker
                    - self
                        .args
                        .as_ref()?
                        .layout
                        .first_of(self.args.as_ref()?.number);
                let worker = self.workers.get(at as usize)?.as_ref()?;
                let lost = sent(cx.send(worker, encode(&ToWorker::Returned)));
                lost.or_else(|| self.pass_on(cx))
            }
            ToTeam::Returned => {
                self.is_returning = false;
                self.pass_on(cx)
            }
            ToTeam::Finish => {
                let finish = encode(&ToWorker::Finish);
                let mut lost = None;
                for worker in self.workers.iter().flatten() {
                    lost = lost.or(sent(cx.send(worker, finish.clone())));
                }
                lost
            }
            ToTeam::Result(stats) => self.collect(*stats, cx),
        }
    }

    /// Credit goes on to the master, if none is under way.
    fn pass_on(&mut self, cx: &mut Scope<'_, '_>) -> Lost {
        if self.is_returning || self.credit.is_none() {
            return None;
        }
        self.is_returning = true;
        let args = self.args.as_ref()?;
        let credit = std::mem::take(&mut self.credit);
        let back = ToMaster::Return(args.number, credit);
        sent(cx.send(&args.master, encode(&back)))
    }

    fn collect(&mut self, stats: WorkerStats, cx: &mut Scope<'_, '_>) -> Lost {
        self.results.push(stats);
        if self.results.len() < self.workers.len() {
            return None;
        }
        let args = self.args.as_ref()?;
        let results = std::mem::take(&mut self.results);
        let lost = sent(cx.send(
            &args.master,
            encode(&ToMaster::Results(args.number, results)),
        ));
        for gateway in self.gateways.iter().flatten() {
            let _ = cx.exit(gateway, Reason::Shutdown);
        }
        if args.job.groups > 0 {
            // Without the group the links between its nodes go, which must not look like a loss.
            for pid in self.gateways.iter().chain(&self.workers).flatten() {
                let _ = cx.unlink(pid);
            }
            let name = group_name(args.number, args.attempt);
            let _ = cx.command(Command::DeleteGroup(name), CLEANING);
        }
        if lost.is_none() {
            cx.stop(Reason::Normal);
        }
        lost
    }
}
