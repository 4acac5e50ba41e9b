//! `roost provision`: a population for load tests, part by part with progress.

use std::io::{self, IsTerminal as _, Write as _};

use stdx::time::{Clock as _, SystemClock};

use super::unexpected;
use crate::cli::Place;
use crate::door::{Absent, Door};
use crate::exit::Failure;
use crate::node::{Request, Response};
use crate::secret::Secret;

/// Accounts of one request: small enough for progress, large enough that keys are not derived too
/// often.
const PART: u64 = 5_000;

/// Whom to make.
pub(super) struct Population {
    pub(super) domain: String,
    pub(super) users: u64,
    pub(super) contacts: u64,
}

pub(super) fn run(
    place: &Place,
    population: Population,
    password: &Secret,
    quiet: bool,
) -> Result<(), Failure> {
    let Population {
        domain,
        users,
        contacts,
    } = population;
    // Half of the contacts are on either side of the ring, and nobody is there twice.
    let contacts = 2 * (contacts / 2).min((users - 1) / 2);
    let mut door = Door::open(&place.source().load()?, Absent::Create)?;
    let progress = Progress::start(users, quiet);
    let mut first = 0;
    while first < users {
        let count = PART.min(users - first);
        let request = Request::Provision {
            domain: domain.clone(),
            users,
            contacts,
            password: password.reveal().to_owned(),
            first,
            count,
        };
        match door.call(request)? {
            Response::Made { .. } => first += count,
            _ => return Err(unexpected()),
        }
        progress.show(first);
    }
    progress.end();
    Ok(writeln!(
        io::stdout().lock(),
        "made {users} accounts u0@{domain} to u{}@{domain} with {contacts} contacts each",
        users - 1
    )?)
}

/// One line on the terminal that is written over and over.
struct Progress {
    total: u64,
    clock: Option<SystemClock>,
}

impl Progress {
    fn start(total: u64, quiet: bool) -> Progress {
        let is_shown = !quiet && io::stderr().is_terminal();
        Progress {
            total,
            clock: is_shown.then(SystemClock::new),
        }
    }

    fn show(&self, done: u64) {
        let Some(clock) = &self.clock else { return };
        let seconds = clock
            .now()
            .saturating_since(stdx::time::Moment::default())
            .as_secs_f64();
        let rate = done as f64 / seconds.max(0.001);
        let left = (self.total - done) as f64 / rate.max(0.001);
        let percent = done * 100 / self.total;
        let bar = "#".repeat((percent / 4) as usize);
        eprint!("\r[{bar:<25}] {percent:>3} %  {done} accounts, {rate:.0}/s, {left:.0} s left  ");
        // Progress that cannot be shown is no reason to stop.
        let _ = io::stderr().flush();
    }

    fn end(&self) {
        if self.clock.is_some() {
            eprintln!();
        }
    }
}
