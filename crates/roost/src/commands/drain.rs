//! `roost drain`: empties a node of a cluster, and says what is left.

use std::fmt::Write as _;
use std::io;
use std::thread;
use std::time::Duration;

use stdx::time::{Clock as _, Moment, SystemClock};

use super::{print, unexpected};
use crate::cli::DrainArgs;
use crate::control::Client;
use crate::door;
use crate::exit::Failure;
use crate::member::DrainStatus;
use crate::member::order::{Request, Response};

/// How long a node may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// Time that clients have to go when all were asked.
const GO_WITHIN: Duration = Duration::from_secs(5);

pub(super) fn run(args: &DrainArgs) -> Result<(), Failure> {
    let data = args.place.source().load()?.settings.node.data;
    let Some(mut client) = door::connect(&data)? else {
        let message = format!("no server runs on {}", data.display());
        return Err(Failure::Failed(message));
    };
    if args.undo {
        ask(&mut client, &Request::DrainUndo)?;
        return print("not draining any more: homes come back as they are evened out\n");
    }
    let within_ms = u64::try_from(args.within.as_millis()).unwrap_or(u64::MAX);
    let mut status = ask(&mut client, &Request::Drain { within_ms })?;
    let clock = SystemClock::new();
    let end = clock.now() + args.within + GO_WITHIN;
    let mut shown = String::new();
    while !is_empty(&status) && clock.now() < end {
        wait(&clock, end);
        status = ask(&mut client, &Request::DrainStatus)?;
        if !status.is_draining {
            return Err(Failure::Failed("somebody undid the drain".to_owned()));
        }
        let line = progress(&status);
        if !args.json && line != shown {
            print(&line)?;
            shown = line;
        }
    }
    if args.json {
        let text = serde_json::to_string(&status).map_err(io::Error::from)?;
        print(&format!("{text}\n"))?;
    } else {
        print(&report(&status))?;
    }
    match status.homes.is_empty() {
        true => Ok(()),
        false => Err(Failure::TryAgain(why(&status))),
    }
}

fn wait(clock: &SystemClock, end: Moment) {
    thread::sleep(LOOK.min(end.saturating_since(clock.now())));
}

fn ask(client: &mut Client, request: &Request) -> Result<DrainStatus, Failure> {
    let answer = client.call_within(request, PATIENCE);
    match answer.map_err(|error| Failure::TryAgain(error.to_string()))? {
        Response::Drain { status } => Ok(status),
        Response::Error { message, .. } => Err(Failure::Failed(message)),
        _ => Err(unexpected()),
    }
}

fn is_empty(status: &DrainStatus) -> bool {
    status.homes.is_empty() && status.clients == 0 && status.unasked == 0
}

fn progress(status: &DrainStatus) -> String {
    format!(
        "{} homes and {} clients are left\n",
        status.homes.len(),
        status.clients
    )
}

/// What became of it.
fn report(status: &DrainStatus) -> String {
    let node = &status.node;
    let mut text = match is_empty(status) {
        true => format!("node {node} is empty: stop it whenever you like\n"),
        false => String::new(),
    };
    if status.clients > 0 {
        // A string takes everything.
        let _ = writeln!(
            text,
            "{} clients are still there, {} of them were not asked to go: they are served until \
             node {node} stops",
            status.clients, status.unasked
        );
    }
    text.push_str("roost drain --undo, or a restart, gives it homes again\n");
    text
}

fn why(status: &DrainStatus) -> String {
    let streams: Vec<String> = status.homes.iter().map(u16::to_string).collect();
    let streams = streams.join(", ");
    match status.has_takers {
        false => format!("streams {streams} stay: no other node lives and takes homes"),
        true => format!(
            "streams {streams} have not gone yet: other nodes lag, or the engine is slow; see \
             roost cluster status"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(homes: &[u16], clients: u64) -> DrainStatus {
        DrainStatus {
            node: "b".to_owned(),
            is_draining: true,
            homes: homes.to_vec(),
            has_takers: true,
            clients,
            ..DrainStatus::default()
        }
    }

    /// Goal: what is left is said, with why.
    #[test]
    fn what_is_left_is_said() {
        assert!(report(&status(&[], 0)).starts_with("node b is empty"));
        let left = report(&status(&[], 7));
        assert!(
            left.starts_with("7 clients are still there, 0 of them"),
            "{left}"
        );
        assert!(why(&status(&[3, 4], 0)).starts_with("streams 3, 4 have not gone yet"));
        let alone = DrainStatus {
            has_takers: false,
            ..status(&[3], 0)
        };
        assert_eq!(
            why(&alone),
            "streams 3 stay: no other node lives and takes homes"
        );
    }
}
