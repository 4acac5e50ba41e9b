//! Kills a random member of its node now and then.
//!
//! Owns the choice: among the names of the run's groups, those whose process is here. Deliberately
//! not here: the root, which has no name; its node is what the tests kill.

use std::time::Duration;

use group::{Answer, Command, Event, Name, Process, Reason, Scope};

use super::Job;
use crate::plan::Role;

/// The tag of the question for a process; the timer has no other.
const WHERE: u64 = 1;

pub(super) struct Monkey {
    every: Duration,
    names: Vec<(Name, Name)>,
    /// Nobody was killed yet this time.
    is_armed: bool,
}

impl Monkey {
    /// For a job; one without a job kills nobody.
    pub(super) fn new(job: Option<Job>) -> Self {
        let mut names = Vec::new();
        let every = job
            .as_ref()
            .and_then(|job| job.monkey)
            .unwrap_or(Duration::MAX);
        if let Some(job) = &job {
            for (at, member) in job.plan.members.iter().enumerate() {
                if let Role::Branch(children) = &member.role {
                    let group: Name = job.group_of(at as u32).as_str().into();
                    let name =
                        |child: &usize| -> Name { job.plan.members[*child].name.as_str().into() };
                    names.extend(children.iter().map(|child| (group.clone(), name(child))));
                }
            }
        }
        Monkey {
            every,
            names,
            is_armed: false,
        }
    }
}

impl Process for Monkey {
    fn started(&mut self, cx: &mut Scope<'_, '_>) {
        cx.timer(self.every, 0);
    }

    fn handle(&mut self, event: Event, cx: &mut Scope<'_, '_>) {
        match event {
            Event::Timer(_) => {
                cx.timer(self.every, 0);
                self.is_armed = true;
                // In random order; the first that is here is killed.
                let mut names = self.names.clone();
                cx.rng().shuffle(&mut names);
                for (group, name) in names.into_iter().take(LOOKED_AT) {
                    let command = Command::Whereis {
                        node: None,
                        group,
                        name,
                    };
                    // A node that is too busy is disturbed next time.
                    let _ = cx.command(command, WHERE);
                }
            }
            Event::Answer {
                answer: Answer::Whereis(Some(pid)),
                ..
            } if pid.node == *cx.node() && self.is_armed => {
                self.is_armed = false;
                let _ = cx.exit(&pid, Reason::Killed);
            }
            _ => {}
        }
    }
}

/// Names that are looked at each time, at most.
const LOOKED_AT: usize = 64;
