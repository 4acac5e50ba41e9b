//! Others beside the users whose clients are checked. A crowd writes to three accounts: a hub who
//! is away, in one of eight seeds from 160 senders; a victim whose actor crashes at some messages,
//! in one of four seeds until it is quarantined; and one that is removed and made again. An
//! operator does that, imports accounts and records, and asks for queues and retries them. They
//! share shards, journal, disk and bounds with the checked users, and what they had accepted is
//! kept too.
//!
//! Owns who does what, and when: drawn apart, so that everything else is as without them. What the
//! crowd says and hears is in `crowd`, what must hold in `check`, and how the end is brought about
//! in `settle`.

mod check;
mod client;
mod crowd;
mod operator;
mod seen;
mod settle;

pub use seen::Seen;
pub(super) use settle::Settling;

use super::device::{DOMAIN, PASSWORD};
use super::link::Link;
use super::plan::Dice;
use super::record::History;
use super::server::Server;
use crate::roost::Account;
use check::{Facts, To};
use client::{Client, Errand};
use operator::Operator;
use seen::Event;
use settle::Ending;
use std::collections::{HashMap, VecDeque};
use std::time::Instant;

/// More senders than one account's memory tells apart (docs/delivery.md: 128).
const CROWD: usize = 160;
const FEW: usize = 12;
/// Sessions of a small crowd, one after the other.
const SESSIONS_OF_FEW: usize = 40;
/// Clients at a time; and of a large crowd, that begin at a time.
const CLIENTS_MAX: usize = 16;
const ENTER_MAX: usize = 4;
/// Messages at which the victim crashes, twice each: with no others too few for a quarantine.
const POISONS: usize = 2;
/// The chance of each step that a command begins if none runs.
const COMMANDS: f32 = 0.15;

/// The secret of `debug.panic_hook`, at which the actor of a message's sender crashes.
const SECRET: &str = "CRASH-0123456789";

/// `delivery.return_after` of half of the seeds with tiny bounds: a quarantine lasts longer.
pub(super) const RETURN_AFTER_S: u64 = 3;
/// `limits.offline_messages_max` with tiny bounds and a large crowd.
pub(super) const CROWDED_MESSAGES_MAX: u32 = 1_000;

/// Whether the crowd is a large one.
pub(super) fn is_crowded(seed: u64) -> bool {
    seed.is_multiple_of(8)
}

/// Whether messages that cannot be delivered come back soon, with tiny bounds.
pub(super) fn returns_soon(seed: u64) -> bool {
    (seed / 8).is_multiple_of(2)
}

/// Whether the victim crashes until it is quarantined.
fn has_siege(seed: u64) -> bool {
    seed % 4 == 1
}

/// Whether the end of that is waited for; in other seeds the server is started anew before.
fn waits_out(seed: u64) -> bool {
    seed % 16 == 13
}

/// Everybody's account.
pub(super) fn accounts() -> Vec<Account> {
    let recipients = To::ALL.map(|to| to.name().to_owned());
    let all = (0..CROWD).map(member).chain(recipients);
    let account = |name: String| Account {
        jid: format!("{name}@{DOMAIN}"),
        password: PASSWORD.to_owned(),
    };
    all.map(account).collect()
}

/// The setting by which actors crash.
pub(super) fn panic_hook() -> (String, String) {
    ("debug.panic_hook".to_owned(), format!("\"{SECRET}\""))
}

fn member(at: usize) -> String {
    format!("c{at}")
}

/// See the module.
pub(super) struct Others {
    seed: u64,
    dice: Dice,
    crowd: usize,
    /// Those who are to write, one after the other.
    due: VecDeque<usize>,
    /// Sessions that have begun to.
    sessions: usize,
    clients: Vec<Client>,
    /// What those who write have said, by the name of the account.
    saying: HashMap<String, Vec<usize>>,
    facts: Facts,
    operator: Operator,
    poisons: usize,
    /// Crashes that the victim's own client caused since the server was started, and its logins in
    /// a row that were refused since.
    crashes: usize,
    refusals: usize,
    /// The victim crashes again and again until it is quarantined.
    is_besieged: bool,
    /// It is, unless that is over by now.
    is_set_aside: bool,
    seen: Seen,
    ending: Option<Ending>,
    /// When something last came.
    heard_at: Instant,
    /// What was wrong on streams.
    faults: Vec<String>,
}

impl Others {
    /// # Errors
    /// There is no folder for the operator's files.
    pub(super) fn new(seed: u64) -> Result<Others, String> {
        let is_crowded = is_crowded(seed);
        Ok(Others {
            seed,
            dice: Dice::new(seed.rotate_left(48)),
            crowd: if is_crowded { CROWD } else { FEW },
            due: match is_crowded {
                true => (0..CROWD).collect(),
                false => (0..SESSIONS_OF_FEW).map(|at| at % FEW).collect(),
            },
            sessions: 0,
            clients: Vec::new(),
            saying: HashMap::new(),
            facts: Facts::default(),
            operator: Operator::new()?,
            poisons: POISONS,
            crashes: 0,
            refusals: 0,
            is_besieged: has_siege(seed),
            is_set_aside: false,
            seen: Seen::default(),
            ending: None,
            heard_at: Instant::now(),
            faults: Vec::new(),
        })
    }

    /// How often each thing happened.
    pub(super) fn seen(&self) -> Seen {
        let mut seen = self.seen;
        let facts = &self.facts;
        let is_poison = |number: usize| facts.said[number].is_poison;
        let poisoned = facts.backs.iter().filter(|back| is_poison(back.number));
        let accepted = facts.said.iter().filter(|said| said.is_accepted);
        seen.set(Event::Poisoned, poisoned.count());
        seen.set(Event::CameBack, facts.backs.len());
        seen.set(Event::Accepted, accepted.count());
        seen
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        self.clients.iter().filter_map(Client::link)
    }

    /// Something happens, or nothing. Once everybody else is done no command begins.
    pub(super) fn tick(
        &mut self,
        server: &mut Server,
        online: Option<&str>,
        is_last: bool,
        history: &mut History,
    ) -> Result<(), String> {
        self.operator.look(history, &mut self.seen)?;
        if !is_last && !self.operator.is_busy() && self.dice.chance(COMMANDS) {
            let who = member(self.dice.below(self.crowd));
            let (order, file) = self.operator.draw(&mut self.dice, online, &who)?;
            history.note("others", format_args!("{order:?} begins"));
            self.operator.begin(order, file, server)?;
            self.facts.was_removed |= self.operator.has_removed;
        }
        if self.is_besieged && !self.is_at_work(To::Victim.name()) {
            self.begin(To::Victim.name().to_owned(), Errand::Crash, server);
        }
        let count = match self.crowd == CROWD {
            true => ENTER_MAX,
            false => usize::from(is_last || self.dice.chance(0.5)),
        };
        for _ in 0..count {
            self.write(server, history);
        }
        Ok(())
    }

    /// Everybody has written, nobody is at work, and the victim is quarantined if it is to be.
    pub(super) fn is_done(&self) -> bool {
        let is_idle = self.clients.is_empty() && !self.operator.is_busy();
        is_idle && self.due.is_empty() && !self.is_besieged
    }

    fn is_at_work(&self, name: &str) -> bool {
        self.clients.iter().any(|client| client.name == name)
    }

    fn begin(&mut self, name: String, errand: Errand, server: &mut Server) {
        // A server that stands still may take no connection.
        if let Ok(link) = server.connect(None) {
            let client = Client::new(name, errand, link, Instant::now());
            self.clients.push(client);
        }
    }

    /// Reads and writes what there is to read and write.
    pub(super) fn turn(&mut self, history: &mut History) {
        let now = Instant::now();
        for at in 0..self.clients.len() {
            self.clients[at].turn(now);
            self.take_in(at, now, history);
        }
        self.clients.retain(|client| client.end.is_none());
    }

    /// The server is about to be killed.
    pub(super) fn hold(&mut self) -> Result<(), String> {
        self.operator.hold()
    }

    /// It is there again.
    pub(super) fn go_on(&mut self, history: &mut History) -> Result<(), String> {
        // Links of before end first: that is no crash.
        self.clients
            .retain(|client| !matches!(client.errand, Errand::Crash));
        self.turn(history);
        (self.crashes, self.refusals, self.is_set_aside) = (0, 0, false);
        self.operator.go_on()
    }
}
