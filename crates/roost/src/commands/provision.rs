//! `roost provision`: a population for load tests, part by part with progress.

use std::io::{self, Write as _};

use super::progress::Progress;
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
    let progress = Progress::start(Some(users), quiet);
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
        progress.show(first, first);
    }
    progress.end();
    Ok(writeln!(
        io::stdout().lock(),
        "made {users} accounts u0@{domain} to u{}@{domain} with {contacts} contacts each",
        users - 1
    )?)
}
