//! The end of the others, on a server that runs undisturbed: every queue is settled within a time,
//! and everybody comes to take what there is for him. Owns the order of that.

use super::check::{Kept, To, check};
use super::client::{Client, End, Errand};
use super::operator::{Order, gone};
use super::seen::{Event, Seen};
use super::{CLIENTS_MAX, Others, member, returns_soon, waits_out};
use crate::history::record::History;
use crate::history::server::Server;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long queues may take to be settled: longer than a quarantine (30 s) and the longest pause
/// behind it, on a machine with other work.
const SETTLE: Duration = Duration::from_secs(120);
/// How long everybody may take to be given everything then.
const READ: Duration = Duration::from_secs(60);
/// So long nothing more came: nothing more will.
const QUIET: Duration = Duration::from_millis(300);
/// Between two questions for queues, or two looks at archives.
const PAUSE: Duration = Duration::from_millis(200);
/// More senders than an account's memory has room for.
const MANY_SENDERS: usize = 150;

/// What there is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::history) enum Settling {
    GoesOn,
    /// The server is to be started anew.
    Restart,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The operator asks which accounts there are.
    Accounts,
    /// The one that was removed last is made again.
    Made,
    /// Queues are asked for until there are none.
    Queues,
    /// Everybody comes.
    Reading,
}

/// See the module.
pub(super) struct Ending {
    stage: Stage,
    since: Instant,
    /// When it may ask again.
    again_at: Instant,
    /// Those who are still to come.
    to_come: Vec<String>,
    /// Those who came and lost their link.
    lost: HashSet<String>,
    /// The queues that there were.
    queues: String,
    findings: Vec<String>,
}

impl Others {
    /// Whether the server is to be started anew before the others settle: a victim that is
    /// quarantined is not, then. Where messages come back soon that is waited for first.
    pub(in crate::history) fn wants_restart(&self, is_tiny: bool) -> bool {
        let stays = waits_out(self.seed) || is_tiny && returns_soon(self.seed);
        self.is_set_aside && !stays
    }

    /// Goes on with the end.
    pub(in crate::history) fn settle(
        &mut self,
        server: &mut Server,
        history: &mut History,
    ) -> Result<Settling, String> {
        let now = Instant::now();
        let mut ending = self.ending.take().unwrap_or_else(|| {
            // Whoever still writes has had the time for it.
            self.clients.clear();
            Ending::new(now)
        });
        // What is done here says nothing about what was done meanwhile.
        let done = self.operator.look(history, &mut Seen::default())?;
        let next = match ending.stage {
            Stage::Reading => self.read(&mut ending, server, history, now),
            _ if now > ending.since + SETTLE => {
                let queues = ending.queues.replace('\n', "; ");
                let stage = ending.stage;
                ending
                    .findings
                    .push(format!("the others do not settle ({stage:?}): {queues}"));
                Settling::Over
            }
            _ => self.order(&mut ending, done, server, now)?,
        };
        self.ending = Some(ending);
        Ok(next)
    }

    /// What was found in the end.
    pub(in crate::history) fn findings(&self) -> Vec<String> {
        let own = self.ending.iter().flat_map(|ending| &ending.findings);
        self.faults.iter().chain(own).cloned().collect()
    }

    /// The stages of the operator. A command that fails is given again.
    fn order(
        &mut self,
        ending: &mut Ending,
        done: Option<(Order, String)>,
        server: &mut Server,
        now: Instant,
    ) -> Result<Settling, String> {
        match (ending.stage, done) {
            (Stage::Accounts, Some((Order::Users, users))) => {
                ending.findings.extend(self.operator.check(&users));
                let is_there = users.lines().any(|jid| *jid == gone());
                ending.stage = if is_there { Stage::Queues } else { Stage::Made };
            }
            (Stage::Made, Some((Order::Make, _))) => ending.stage = Stage::Queues,
            (Stage::Queues, Some((Order::List, queues))) => {
                ending.again_at = now + PAUSE;
                let is_settled = queues.is_empty();
                ending.queues = queues;
                if is_settled {
                    return Ok(self.begin_to_read(ending, now));
                }
            }
            _ => {}
        }
        if !self.operator.is_busy() && now >= ending.again_at {
            let order = match ending.stage {
                Stage::Accounts => Order::Users,
                Stage::Made => Order::Make,
                _ if self.retries() => Order::Retry,
                _ => Order::List,
            };
            self.operator.begin(order, None, server)?;
        }
        Ok(Settling::GoesOn)
    }

    /// In half of the seeds queues are tried again by hand, every other time.
    fn retries(&mut self) -> bool {
        (self.seed / 2) % 2 == 1 && self.dice.chance(0.5)
    }

    fn begin_to_read(&mut self, ending: &mut Ending, now: Instant) -> Settling {
        let senders = (0..self.crowd).map(member);
        let recipients = To::ALL.map(|to| to.name().to_owned());
        ending.to_come = senders.chain(recipients).collect();
        (ending.stage, ending.since) = (Stage::Reading, now);
        match self.is_set_aside && !waits_out(self.seed) {
            true => Settling::Restart,
            false => Settling::GoesOn,
        }
    }

    fn read(
        &mut self,
        ending: &mut Ending,
        server: &mut Server,
        history: &mut History,
        now: Instant,
    ) -> Settling {
        let is_coming = |client: &&Client| !client.heard.is_shown;
        let coming = self.clients.iter().filter(is_coming).count();
        for _ in coming..CLIENTS_MAX {
            let Some(name) = ending.to_come.pop() else {
                break;
            };
            self.begin(name, Errand::Read, server);
        }
        let is_late = now > ending.since + READ;
        let is_all = coming == 0 && ending.to_come.is_empty();
        if is_all && self.has_archives(ending, now) {
            self.keep(ending);
            let findings = check(&self.facts);
            let is_quiet = now > self.heard_at + QUIET;
            if findings.is_empty() && is_quiet || is_late {
                ending.findings.extend(findings);
                return Settling::Over;
            }
        } else if is_late {
            let open = self.clients.iter().filter(is_coming);
            let open: Vec<String> = open.map(|client| client.name.clone()).collect();
            let open = [open, ending.to_come.clone()].concat().join(", ");
            history.note("others", format_args!("do not come: {open}"));
            ending.findings.push(format!("do not come to read: {open}"));
            return Settling::Over;
        }
        Settling::GoesOn
    }

    /// Whether all recipients' archives were just read; each is asked for again and again.
    fn has_archives(&mut self, ending: &mut Ending, now: Instant) -> bool {
        let is_recipient = |client: &&mut Client| To::ALL.iter().any(|to| to.name() == client.name);
        let mut recipients: Vec<&mut Client> =
            self.clients.iter_mut().filter(is_recipient).collect();
        let has_all = recipients
            .iter()
            .all(|client| client.heard.archive.is_some());
        if now < ending.again_at {
            return has_all;
        }
        ending.again_at = now + PAUSE;
        for client in &mut recipients {
            client.read_archive();
        }
        has_all
    }

    fn keep(&mut self, ending: &Ending) {
        for client in &self.clients {
            let Some(to) = To::ALL.iter().position(|to| to.name() == client.name) else {
                continue;
            };
            let is_first = !ending.lost.contains(&client.name);
            self.facts.kept[to] = Kept {
                archive: client.heard.archive.clone().unwrap_or_default(),
                given: is_first.then(|| client.heard.given.clone()),
            };
        }
        let hub = self.facts.kept[To::Hub as usize].archive.iter();
        let senders = hub.filter_map(|number| self.facts.said.get(*number));
        let senders: HashSet<usize> = senders.map(|said| said.from).collect();
        let is_crowded = senders.len() > MANY_SENDERS;
        self.seen.set(Event::Crowded, usize::from(is_crowded));
    }

    /// Whoever came to read and lost the link comes again.
    pub(super) fn comes_again(&mut self, name: &str, end: End) {
        if let Some(ending) = &mut self.ending {
            ending.to_come.push(name.to_owned());
            if end == End::Lost {
                ending.lost.insert(name.to_owned());
            }
        }
    }
}

impl Ending {
    fn new(now: Instant) -> Ending {
        Ending {
            stage: Stage::Accounts,
            since: now,
            again_at: now,
            to_come: Vec::new(),
            lost: HashSet::new(),
            queues: String::new(),
            findings: Vec::new(),
        }
    }
}
