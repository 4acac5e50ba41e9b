//! The master of a run over nodes.
//!
//! Owns the attempts: which nodes are there, how they are cut into groups, the teams, the credit,
//! and the outcome. Deliberately not here: workers; each belongs to a team.
//!
//! | state | event | then |
//! |---|---|---|
//! | idle | a job | look which nodes are there |
//! | looking | all have answered | make the masters' group, spawn a team for each group |
//! | starting | every team has started | tell all teams all gateways |
//! | starting | every team is ready | send the first vertex |
//! | running | all credit is back | have the teams finish |
//! | finishing | all figures | answer, and end |
//! | any but idle | a team is lost | end the others, begin anew after a while |

use std::time::Duration;

use group::{
    Answer, Command, Event, MonitorRef, Name, NodeName, Pid, Process, Reason, ReplyTo, Scope,
};
use stdx::Moment;

use super::WORKERS_MAX;
use super::wire::{Job, TEAM, TeamArgs, ToMaster, ToTeam, decode, encode};
use crate::credit::Credit;
use crate::route::Layout;
use crate::stats::{Outcome, WorkerStats};
use crate::worker::Batch;

/// How long the master waits before it begins anew: what was lost is then known everywhere.
const PAUSE: Duration = Duration::from_millis(300);

/// Tags: answers of nodes are numbered from zero, the masters' group and what is only cleaned up
/// have these.
const GROUPING: u64 = u64::MAX;
const CLEANING: u64 = u64::MAX - 1;

#[derive(Default)]
pub(super) struct Master(Option<Run>);

struct Team {
    number: u32,
    pid: Option<Pid>,
    monitor: MonitorRef,
    gateways: Option<Vec<Pid>>,
    is_ready: bool,
    results: Option<Vec<WorkerStats>>,
}

struct Run {
    job: Job,
    reply: Option<ReplyTo>,
    began: Moment,
    attempt: u32,
    /// Why those before it were given up.
    given_up: Vec<String>,
    /// Nodes that have not said yet whether they are there, by their number.
    unknown: Vec<usize>,
    alive: Vec<NodeName>,
    layout: Layout,
    teams: Vec<Team>,
    credit: Credit,
    is_paused: bool,
}

fn masters(attempt: u32) -> Name {
    format!("orbit-masters-{attempt}").into()
}

impl Process for Master {
    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        if let Event::Request { from, body } = event {
            let Some(job) = decode::<Job>(&body).filter(|_| self.0.is_none()) else {
                return cx.stop(Reason::Failed("no job, or a second one".into()));
            };
            let run = self.0.insert(Run::new(job, from, cx.now()));
            if let Err(why) = run.check() {
                return run.answer(Err(why), cx);
            }
            return run.look(cx);
        }
        let Some(run) = &mut self.0 else { return };
        if let Err(why) = run.take(event, cx) {
            run.begin_anew(why, cx);
        }
    }
}

/// Why an attempt failed.
type Step = Result<(), String>;

impl Run {
    fn new(job: Job, from: ReplyTo, now: Moment) -> Self {
        Run {
            job,
            reply: Some(from),
            began: now,
            attempt: 0,
            given_up: Vec::new(),
            unknown: Vec::new(),
            alive: Vec::new(),
            layout: Layout::new(&[1]),
            teams: Vec::new(),
            credit: Credit::whole(),
            is_paused: false,
        }
    }

    fn check(&self) -> Step {
        let workers = self.job.nodes.len() as u64 * u64::from(self.job.workers_each);
        if workers == 0 || workers > u64::from(WORKERS_MAX) || self.job.conf.size == 0 {
            return Err(format!(
                "there are 1 to {WORKERS_MAX} workers, and vertices"
            ));
        }
        if self.job.groups > 1 && self.job.gateways == 0 {
            return Err("groups have gateways".into());
        }
        Ok(())
    }

    /// Looks which nodes are there.
    fn look(&mut self, cx: &mut Scope<'_, '_>) {
        self.alive.clear();
        self.unknown.clear();
        for (tag, node) in self.job.nodes.iter().enumerate() {
            if node == cx.node() {
                self.alive.push(node.clone());
            } else if cx
                .command(Command::Connect(node.clone()), tag as u64)
                .is_ok()
            {
                self.unknown.push(tag);
            }
        }
        if self.unknown.is_empty()
            && let Err(why) = self.begin(cx)
        {
            self.begin_anew(why, cx);
        }
    }

    fn take(&mut self, event: Event, cx: &mut Scope<'_, '_>) -> Step {
        match event {
            Event::Answer { tag: CLEANING, .. } => Ok(()),
            Event::Answer {
                tag: GROUPING,
                answer,
            } => match answer {
                Answer::Group(Ok(_)) => self.spawn(cx),
                other => Err(format!("the masters' group was not made: {other:?}")),
            },
            Event::Answer { tag, answer } => self.heard(tag, &answer, cx),
            Event::Spawned { tag, result } => {
                let (attempt, number) = ((tag >> 32) as u32, tag as u32 as usize);
                match (result, self.teams.get_mut(number)) {
                    (Ok(pid), Some(team)) if attempt == self.attempt => team.pid = Some(pid),
                    // It comes too late.
                    (Ok(pid), _) => drop(cx.exit(&pid, Reason::Killed)),
                    (Err(error), _) if attempt == self.attempt => {
                        return Err(format!("a team did not start: {error}"));
                    }
                    (Err(_), _) => {}
                }
                Ok(())
            }
            Event::Down {
                monitor, reason, ..
            } => {
                let team = self.teams.iter().find(|team| team.monitor == monitor);
                match team {
                    // The end of a team that is done may be heard of before its figures.
                    Some(team) if team.results.is_none() && reason.is_crash() => {
                        Err(format!("a team ended: {reason}"))
                    }
                    _ => Ok(()),
                }
            }
            Event::Timer(_) if self.is_paused => {
                self.is_paused = false;
                self.look(cx);
                Ok(())
            }
            Event::Message {
                from: Some(from),
                body,
            } if !self.is_paused => {
                // What an earlier attempt still says means nothing.
                match self
                    .teams
                    .iter()
                    .any(|team| team.pid.as_ref() == Some(&from))
                {
                    true => self.hear(decode(&body).ok_or("not understood")?, cx),
                    false => Ok(()),
                }
            }
            Event::Refused { .. } => Err("a message of the master was lost".into()),
            _ => Ok(()),
        }
    }

    /// A node has said whether it is there.
    fn heard(&mut self, tag: u64, answer: &Answer, cx: &mut Scope<'_, '_>) -> Step {
        let Some(at) = self.unknown.iter().position(|known| *known == tag as usize) else {
            return Ok(());
        };
        self.unknown.swap_remove(at);
        if matches!(answer, Answer::Done(Ok(()))) {
            self.alive.push(self.job.nodes[tag as usize].clone());
        }
        if self.unknown.is_empty() {
            return self.begin(cx);
        }
        Ok(())
    }

    /// Cuts the nodes that are there into groups.
    fn begin(&mut self, cx: &mut Scope<'_, '_>) -> Step {
        if self.alive.is_empty() {
            return Err("no node is there".into());
        }
        let nodes = &self.job.nodes;
        self.alive
            .sort_by_key(|node| nodes.iter().position(|other| other == node));
        if self.job.groups == 0 {
            return self.spawn(cx);
        }
        let mut members: Vec<NodeName> = self.cut().iter().map(|nodes| nodes[0].clone()).collect();
        let me = cx.node().clone();
        if !members.contains(&me) {
            members.push(me);
        }
        for attempt in 0..self.attempt {
            let old = Command::DeleteGroup(masters(attempt));
            cx.command(old, CLEANING).map_err(|busy| busy.to_string())?;
        }
        let command = Command::NewGroup {
            name: Some(masters(self.attempt)),
            nodes: members,
        };
        cx.command(command, GROUPING)
            .map_err(|busy| busy.to_string())
    }

    /// The nodes of each group: as equal as possible.
    fn cut(&self) -> Vec<Vec<NodeName>> {
        let groups = (self.job.groups.max(1) as usize).min(self.alive.len());
        let first = |group: usize| group * self.alive.len() / groups;
        (0..groups)
            .map(|group| self.alive[first(group)..first(group + 1)].to_vec())
            .collect()
    }

    fn spawn(&mut self, cx: &mut Scope<'_, '_>) -> Step {
        let cut = self.cut();
        let each = self.job.workers_each as usize;
        let places: Vec<Vec<NodeName>> = cut
            .iter()
            .map(|nodes| {
                let spare = usize::from(self.job.separate && nodes.len() > 1);
                let used = nodes[spare..].iter();
                used.flat_map(|node| std::iter::repeat_n(node.clone(), each))
                    .collect()
            })
            .collect();
        let sizes: Vec<u32> = places.iter().map(|places| places.len() as u32).collect();
        self.layout = Layout::new(&sizes);
        self.credit = Credit::whole();
        self.teams.clear();
        for (number, (nodes, places)) in cut.into_iter().zip(places).enumerate() {
            let home = match self.job.groups {
                0 => cx.node().clone(),
                _ => nodes[0].clone(),
            };
            let args = TeamArgs {
                job: self.job.clone(),
                attempt: self.attempt,
                number: number as u32,
                layout: self.layout.clone(),
                nodes,
                places,
                master: cx.me().clone(),
            };
            let tag = u64::from(self.attempt) << 32 | number as u64;
            let monitor = cx.spawn_monitor(&home, TEAM, encode(&args), tag);
            self.teams.push(Team {
                number: number as u32,
                pid: None,
                monitor: monitor.map_err(|busy| busy.to_string())?,
                gateways: None,
                is_ready: false,
                results: None,
            });
        }
        Ok(())
    }

    fn tell(&self, team: &Team, msg: &ToTeam, cx: &mut Scope<'_, '_>) -> Step {
        let pid = team.pid.as_ref().ok_or("a team is not there")?;
        cx.send(pid, encode(msg)).map_err(|busy| busy.to_string())
    }

    fn tell_all(&self, msg: &ToTeam, cx: &mut Scope<'_, '_>) -> Step {
        self.teams
            .iter()
            .try_for_each(|team| self.tell(team, msg, cx))
    }

    fn hear(&mut self, msg: ToMaster, cx: &mut Scope<'_, '_>) -> Step {
        let number = match &msg {
            ToMaster::Started(number, _)
            | ToMaster::Ready(number)
            | ToMaster::Return(number, _)
            | ToMaster::Results(number, _) => *number,
        };
        let team = self.teams.iter_mut().find(|team| team.number == number);
        let team = team.ok_or("a team that is not there")?;
        match msg {
            ToMaster::Started(_, gateways) => {
                team.gateways = Some(gateways);
                let all: Option<Vec<Vec<Pid>>> = self
                    .teams
                    .iter()
                    .map(|team| team.gateways.clone())
                    .collect();
                match all {
                    Some(all) => self.tell_all(&ToTeam::Gateways(all), cx),
                    None => Ok(()),
                }
            }
            ToMaster::Ready(_) => {
                team.is_ready = true;
                if !self.teams.iter().all(|team| team.is_ready) {
                    return Ok(());
                }
                let first = Batch {
                    from: None,
                    vertices: vec![0],
                    credit: self.credit.split().ok_or("no credit")?,
                };
                let group = self.layout.group_of(self.layout.owner(0));
                self.tell(&self.teams[group as usize], &ToTeam::First(first), cx)
            }
            ToMaster::Return(_, credit) => {
                self.credit.add_all(credit);
                let group = number as usize;
                self.tell(&self.teams[group], &ToTeam::Returned, cx)?;
                match self.credit.is_whole() {
                    true => self.tell_all(&ToTeam::Finish, cx),
                    false => Ok(()),
                }
            }
            ToMaster::Results(_, results) => {
                team.results = Some(results);
                if self.teams.iter().all(|team| team.results.is_some()) {
                    self.finish(cx);
                }
                Ok(())
            }
        }
    }

    fn finish(&mut self, cx: &mut Scope<'_, '_>) {
        let results = self.teams.iter_mut().filter_map(|team| team.results.take());
        let results: Vec<WorkerStats> = results.flatten().collect();
        let wall_time = cx.now().saturating_since(self.began);
        let outcome = Outcome::new(wall_time, std::mem::take(&mut self.given_up), results);
        if self.job.groups > 0 {
            let command = Command::DeleteGroup(masters(self.attempt));
            let _ = cx.command(command, CLEANING);
        }
        self.answer(Ok(outcome), cx);
    }

    fn answer(&mut self, outcome: Result<Outcome, String>, cx: &mut Scope<'_, '_>) {
        if let Some(reply) = self.reply.take() {
            let _ = cx.reply(reply, encode(&outcome));
        }
        cx.stop(Reason::Normal);
    }

    /// Ends what is left of an attempt and begins the next.
    fn begin_anew(&mut self, why: String, cx: &mut Scope<'_, '_>) {
        for team in self.teams.drain(..) {
            let _ = cx.demonitor(team.monitor);
            if let Some(pid) = &team.pid {
                let _ = cx.exit(pid, Reason::Killed);
            }
        }
        if self.attempt >= self.job.conf.restarts_max {
            return self.answer(Err(why), cx);
        }
        if !std::mem::replace(&mut self.is_paused, true) {
            self.attempt += 1;
            self.given_up.push(why);
            cx.timer(PAUSE, 0);
        }
    }
}
