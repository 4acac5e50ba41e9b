//! `roost cluster snapshot`: a node stores snapshots now, and says what they cover.

use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;

use super::super::{print, unexpected};
use super::PATIENCE;
use crate::cli::Place;
use crate::control::Client;
use crate::door;
use crate::exit::{self, Failure};
use crate::member::order::{Request, Response};
use crate::member::{SnapshotDone, SnapshotStatus};

/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(200);

/// Of which streams.
#[derive(Clone, Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// Of this stream only; without it, of each.
    #[arg(long, value_name = "NUMBER")]
    stream: Option<u16>,
    /// Print JSON at the end, and nothing before.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Place,
}

/// Has the node that runs on the data folder store them, and waits.
///
/// # Errors
/// No server runs there, it is no node, or others are under way. That one was not stored is the
/// exit code's to say.
pub(super) fn run(args: &SnapshotArgs) -> Result<ExitCode, Failure> {
    let data = args.place.source().load()?.settings.node.data;
    let Some(mut client) = door::connect(&data)? else {
        let message = format!("no server runs on {}: start the node first", data.display());
        return Err(Failure::Failed(message));
    };
    let stream = args.stream;
    let mut status = ask(&mut client, &Request::Snapshot { stream })?;
    if !args.json {
        print(&head())?;
    }
    let mut shown = 0;
    loop {
        if !args.json {
            for done in &status.done[shown.min(status.done.len())..] {
                print(&line(done))?;
            }
            shown = status.done.len();
        }
        if status.left.is_empty() {
            break;
        }
        thread::sleep(LOOK);
        status = ask(&mut client, &Request::SnapshotStatus)?;
    }
    match args.json {
        true => {
            let text = serde_json::to_string(&status).map_err(io::Error::from)?;
            print(&format!("{text}\n"))?;
        }
        false => print(&end(&status))?,
    }
    Ok(match status.done.iter().any(|done| done.why.is_some()) {
        true => ExitCode::from(exit::UNFIT),
        false => ExitCode::SUCCESS,
    })
}

fn ask(client: &mut Client, request: &Request) -> Result<SnapshotStatus, Failure> {
    let answer = client.call_within(request, PATIENCE);
    match answer.map_err(|error| Failure::TryAgain(error.to_string()))? {
        Response::Snapshots { status } => Ok(status),
        Response::Error { code, message } => Err(door::refused(&code, message)),
        _ => Err(unexpected()),
    }
}

fn head() -> String {
    format!(
        "{:>6} {:>12} {:>12} {:>14} {:>8}\n",
        "stream", "message", "entries", "bytes", "ms"
    )
}

fn line(done: &SnapshotDone) -> String {
    match &done.why {
        Some(why) => format!("{:>6} not stored: {why}\n", done.stream),
        None => format!(
            "{:>6} {:>12} {:>12} {:>14} {:>8}\n",
            done.stream, done.seq, done.entries, done.bytes, done.took_ms
        ),
    }
}

/// What it comes to.
fn end(status: &SnapshotStatus) -> String {
    let stored = status.done.iter().filter(|done| done.why.is_none());
    let bytes: u64 = stored.clone().map(|done| done.bytes).sum();
    let (stored, all) = (stored.count(), status.done.len());
    let mut text = String::new();
    if stored > 0 {
        // A string takes everything.
        let _ = writeln!(
            text,
            "{stored} of {all} stored from node {}'s copy, {bytes} bytes, each read back and \
             compared. A new node begins with them and reads the messages behind.",
            status.node
        );
    }
    if stored < all {
        let _ = writeln!(
            text,
            "{} not stored: the ones of before are still there, and nothing was purged",
            all - stored
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what was stored and what was not are told apart, each with what there is to know.
    #[test]
    fn what_became_of_each_is_said() {
        let good = SnapshotDone {
            stream: 0,
            seq: 12,
            entries: 40,
            bytes: 5_000,
            took_ms: 9,
            why: None,
        };
        let bad = SnapshotDone {
            stream: 1,
            why: Some("the bucket is full".to_owned()),
            ..SnapshotDone::default()
        };
        let words: Vec<_> = line(&good).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["0", "12", "40", "5000", "9"]);
        assert_eq!(line(&bad).trim(), "1 not stored: the bucket is full");
        let status = SnapshotStatus {
            node: "a".to_owned(),
            left: Vec::new(),
            done: vec![good, bad],
        };
        let end = end(&status);
        assert!(end.starts_with("1 of 2 stored from node a"), "{end}");
        assert!(end.contains("1 not stored"), "{end}");
    }
}
