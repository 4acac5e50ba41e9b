//! The history checker: simulated clients chat with a real server process, which is killed,
//! stopped and starved in between, and everything they saw must fit the promises of
//! docs/delivery.md. How to use it, and what it found: docs/reliability.md.
//!
//! A seed is everything: who takes part, what they do, when the server dies. Clients are one thread
//! over sockets that never block, so that a stopped server stops nobody else.

mod checker;
mod device;
mod disk;
mod link;
mod nodes;
pub mod occupants;
mod others;
mod plan;
mod reader;
mod record;
mod run;
mod server;

pub use nodes::Troubles;
pub use others::Seen;
pub use plan::Faults;
pub use server::Host;

use run::{Tally, play};
use server::Template;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What to play.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first seed.
    pub seed: u64,
    /// How many.
    pub seeds: u64,
    /// No new seed begins after this time.
    pub time: Option<Duration>,
    /// Seeds that are played at the same time.
    pub jobs: usize,
    /// What may be done to the server and the links.
    pub faults: Faults,
    /// Against a cluster, which these befall, instead of one process.
    pub troubles: Option<Troubles>,
    /// Against the Prosody of the system instead.
    pub is_prosody: bool,
    /// With bounds of the server that are as small as its configuration lets them be.
    pub is_tiny: bool,
    /// In half of the seeds devices are in a room too.
    pub has_rooms: bool,
    /// Where histories of failed seeds go.
    pub folder: PathBuf,
    /// Writes the history of every seed.
    pub keeps_all: bool,
    /// Ends at the first seed that fails.
    pub stops_at_first: bool,
    /// A bug on purpose that the server has; it must have been built with them.
    pub bug: Option<String>,
    /// Adds to the failure of a seed how to play it again.
    pub replay: String,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Seeds that were played.
    pub seeds: u64,
    /// Those with findings.
    pub failed: Vec<u64>,
    /// Kills of the process.
    pub kills: usize,
    /// Crashes of actors.
    pub actors: usize,
    /// Moves of ranges, and those that could not be.
    pub moves: [usize; 2],
    /// Messages that were sent.
    pub messages: usize,
    /// Of these, acknowledged.
    pub accepted: usize,
    /// Messages that reached a device live, copies included.
    pub deliveries: usize,
    /// Messages that were refused, or came back.
    pub refused: usize,
    /// Sessions that were begun.
    pub sessions: usize,
    /// Devices that took part.
    pub devices: usize,
    /// What happened among the others, if they were there.
    pub others: Seen,
    /// What befell a cluster alone, and for each user: how long nothing of his was accepted then.
    pub gaps: Vec<(&'static str, Duration)>,
}

impl Summary {
    /// By what befell: users, and how long nothing of theirs was accepted: for half of them at
    /// most, for nine in ten, and for all.
    #[must_use]
    pub fn gaps_by_trouble(&self) -> BTreeMap<&'static str, (usize, [Duration; 3])> {
        let mut all: BTreeMap<&'static str, Vec<Duration>> = BTreeMap::new();
        for (what, gap) in &self.gaps {
            all.entry(what).or_default().push(*gap);
        }
        let row = |(what, mut gaps): (&'static str, Vec<Duration>)| {
            gaps.sort_unstable();
            let last = gaps.len() - 1;
            let of = [last / 2, last * 9 / 10, last].map(|at| gaps[at]);
            (what, (gaps.len(), of))
        };
        all.into_iter().map(row).collect()
    }

    fn add(&mut self, tally: Tally) {
        self.seeds += 1;
        self.kills += tally.kills;
        self.actors += tally.actors;
        for (sum, more) in self.moves.iter_mut().zip(tally.moves) {
            *sum += more;
        }
        self.messages += tally.messages;
        self.accepted += tally.accepted;
        self.deliveries += tally.deliveries;
        self.refused += tally.refused;
        self.sessions += tally.sessions;
        self.devices += tally.devices;
        self.others.add(&tally.others);
        self.gaps.extend(tally.gaps);
    }
}

/// Plays all seeds; `say` gets a line now and then.
///
/// # Errors
/// No server can be started.
pub fn run(options: &Options, say: &(dyn Fn(&str) + Sync)) -> Result<Summary, String> {
    let template = Template::new(options)?;
    let start = Instant::now();
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let summary = Mutex::new(Summary::default());
    let error = Mutex::new(None);
    let work = || {
        while !is_over.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let is_late = options.time.is_some_and(|time| start.elapsed() > time);
            if number >= options.seeds || is_late {
                return;
            }
            let seed = options.seed + number;
            let outcome = match play(&template, seed, options) {
                Ok(outcome) => outcome,
                Err(why) => {
                    is_over.store(true, Ordering::Relaxed);
                    *lock(&error) = Some(format!("seed {seed}: {why}"));
                    return;
                }
            };
            let has_failed = !outcome.findings.is_empty();
            if has_failed || options.keeps_all {
                let path = options.folder.join(format!("history-{seed}.txt"));
                let written = fs::create_dir_all(&options.folder)
                    .and_then(|()| fs::write(&path, &outcome.account));
                if let Err(why) = written {
                    say(&format!("cannot write {}: {why}", path.display()));
                }
            }
            let mut summary = lock(&summary);
            summary.add(outcome.tally);
            if has_failed {
                summary.failed.push(seed);
                say(&format!(
                    "seed {seed} fails; {} --seed {seed}",
                    options.replay
                ));
                for finding in outcome.findings.iter().take(12) {
                    say(&format!("    {finding}"));
                }
                if options.stops_at_first {
                    is_over.store(true, Ordering::Relaxed);
                }
            }
            if summary.seeds.is_multiple_of(50) {
                say(&format!(
                    "{} seeds, {} kills, {} failed, {:.0} s",
                    summary.seeds,
                    summary.kills,
                    summary.failed.len(),
                    start.elapsed().as_secs_f64()
                ));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(work);
        }
    });
    match lock(&error).take() {
        Some(why) => Err(why),
        None => Ok(lock(&summary).clone()),
    }
}

/// Plays seeds until one fails, for each bug on purpose; gives how many it took, or `None` if all
/// passed.
///
/// # Errors
/// No server can be started.
pub fn find_bugs(
    options: &Options,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Vec<(&'static str, Option<u64>)>, String> {
    let mut found = Vec::new();
    let all: &[(&str, &str)] = match options.troubles {
        Some(_) => &stdx::bugs::IN_CLUSTERS,
        None => &stdx::bugs::ALL,
    };
    for &(name, breaks) in all {
        if options.bug.as_ref().is_some_and(|bug| bug != name) {
            continue;
        }
        let options = Options {
            bug: Some(name.to_owned()),
            stops_at_first: true,
            ..options.clone()
        };
        let finding = Mutex::new(String::new());
        let keep = |line: &str| {
            let mut finding = lock(&finding);
            if line.starts_with("    ") && finding.is_empty() {
                line.trim().clone_into(&mut finding);
            }
        };
        let summary = run(&options, &keep)?;
        let seeds = (!summary.failed.is_empty()).then_some(summary.seeds);
        let result = match seeds {
            Some(seeds) => format!("found by seed {seeds}: {}", lock(&finding)),
            None => format!("NOT FOUND by {} seeds", summary.seeds),
        };
        say(&format!("{name} ({breaks}): {result}"));
        found.push((name, seeds));
    }
    Ok(found)
}

/// Plays one seed on a server inside this process; gives what was found and the readable account.
pub fn play_inside(host: Box<dyn Host>, seed: u64, faults: Faults) -> (Vec<String>, String) {
    let outcome = run::play_inside(host, seed, faults);
    (outcome.findings, outcome.account)
}

/// Address and password of every account that a server needs to be played on.
#[must_use]
pub fn accounts() -> Vec<(String, &'static str)> {
    let user = |user| format!("u{user}@{}", device::DOMAIN);
    let users = 0..plan::USERS_MAX;
    users.map(|at| (user(at), device::PASSWORD)).collect()
}

/// A thread that panics has ended the run anyway.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
