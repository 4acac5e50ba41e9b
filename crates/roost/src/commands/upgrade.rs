//! `roost upgrade`: has another program be the home, and says what became of that.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use super::{print, unexpected};
use crate::cli::UpgradeArgs;
use crate::door;
use crate::exit::{self, Failure};
use crate::split::order::{Outcome, Request, Response};

/// What everything takes at most beside the time for the new home to serve: checks, and twice the
/// same for the way back.
const PATIENCE: Duration = Duration::from_secs(900);

pub(super) fn run(args: &UpgradeArgs) -> Result<ExitCode, Failure> {
    let data = args.place.source().load()?.settings.node.data;
    let binary = match &args.binary {
        Some(binary) => absolute(binary)?,
        None => std::env::current_exe()?,
    };
    let Some(mut client) = door::connect(&data)? else {
        let message = format!("no server runs on {}", data.display());
        return Err(Failure::Failed(message));
    };
    let request = Request::Upgrade {
        binary: binary.to_string_lossy().into_owned(),
        one_way: args.one_way,
        within_ms: u64::try_from(args.within.as_millis()).unwrap_or(u64::MAX),
    };
    let answer = client.call_within(&request, args.within + PATIENCE);
    let outcome = match answer.map_err(|error| Failure::TryAgain(error.to_string()))? {
        Response::Upgraded { outcome } => outcome,
        Response::Error { code, message } => return Err(door::refused(&code, message)),
        Response::Figures { .. } => return Err(unexpected()),
    };
    match args.json {
        true => {
            let text = serde_json::to_string(&outcome).map_err(io::Error::from)?;
            print(&format!("{text}\n"))?;
        }
        false => print(&report(&binary, &outcome))?,
    }
    Ok(match outcome.failed {
        None => ExitCode::SUCCESS,
        Some(_) => ExitCode::from(exit::UNDONE),
    })
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    path.canonicalize()
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

/// What became of it.
fn report(binary: &Path, outcome: &Outcome) -> String {
    let Outcome {
        from,
        to,
        failed,
        is_untouched,
        without_home_ms: gap,
        connections,
    } = outcome;
    let binary = binary.display();
    match failed {
        None => format!(
            "{to} serves ({binary}; before: {from})\n\
             there was no home for {gap} ms; {connections} connections are there\n"
        ),
        Some(why) if *is_untouched => {
            format!("not begun, nothing was touched: {why}\n{from} serves\n")
        }
        Some(why) => format!(
            "undone: {why}\n\
             {to} serves again; there was no home for {gap} ms; {connections} connections are \
             there\n"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: what was done, what was undone and what was never begun are told apart.
    #[test]
    fn what_became_of_it_is_said() {
        let done = Outcome {
            from: "1".to_owned(),
            to: "2".to_owned(),
            without_home_ms: 80,
            connections: 7,
            ..Outcome::default()
        };
        let at = Path::new("/x/roost");
        assert_eq!(
            report(at, &done),
            "2 serves (/x/roost; before: 1)\n\
             there was no home for 80 ms; 7 connections are there\n"
        );
        let failed = Some("it ended".to_owned());
        let undone = Outcome {
            to: "1".to_owned(),
            failed: failed.clone(),
            ..done.clone()
        };
        assert!(report(at, &undone).starts_with("undone: it ended\n1 serves again"));
        let untouched = Outcome {
            is_untouched: true,
            failed,
            ..done
        };
        assert!(report(at, &untouched).starts_with("not begun, nothing was touched: it ended"));
    }
}
