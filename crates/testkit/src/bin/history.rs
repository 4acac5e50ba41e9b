//! `history`: plays seeds of the history checker against a server (docs/reliability.md). Owns the
//! command line only.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program for people.

use std::process::ExitCode;
use std::time::Duration;
use testkit::history::{Faults, Options, Summary, Troubles, find_bugs, run};

/// In so many seeds everything must have happened at least once.
const SEEDS_OF_EVERYTHING: u64 = 50;

const HELP: &str = "\
Plays seeds of simulated clients against a server that is killed and hindered meanwhile, and checks
that nothing is lost, doubled or reordered. ROOST_BIN names the server under test.

  --seeds N       how many seeds [1]
  --seed S        the first [1]
  --minutes M     no new seed after this time
  --jobs N        seeds at the same time [2]
  --faults LIST   of kills,stops,unsynced,disk,cuts,amnesia,actors,moves,others; all; none
                  [kills,stops,cuts,amnesia]
  --tiny          with bounds of the server as small as its configuration lets them be
  --rooms         in half of the seeds devices are in a room too
  --cluster LIST  against three nodes over three servers of the engine, which the LIST befalls, of
                  kills,pauses,servers,ways; all; none. NATS_SERVER names the engine's binary
  --prosody       against the Prosody of the system
  --folder DIR    where histories of failed seeds go [target/history]
  --keep          write the history of every seed
  --bug NAME      with this bug on purpose; ROOST_BIN was built with --features bugs
  --bugs          every bug in turn, each until a seed fails; fails if one is not found
  --first         stop at the first seed that fails
";

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(why) => {
            eprintln!("history: {why}\n\n{HELP}");
            return ExitCode::from(64);
        }
    };
    if std::env::args().any(|argument| argument == "--bugs") {
        return match find_bugs(&options, &|line| println!("{line}")) {
            Ok(found) if found.iter().all(|(_, seeds)| seeds.is_some()) => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(why) => {
                eprintln!("history: {why}");
                ExitCode::FAILURE
            }
        };
    }
    let summary = match run(&options, &|line| println!("{line}")) {
        Ok(summary) => summary,
        Err(why) => {
            eprintln!("history: {why}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "{} seeds: {} kills, {} crashes of actors, {} moves of ranges ({} more stayed), {} \
         messages ({} acknowledged, {} deliveries, {} refused) by {} devices in {} sessions; {} \
         failed",
        summary.seeds,
        summary.kills,
        summary.actors,
        summary.moves[0],
        summary.moves[1],
        summary.messages,
        summary.accepted,
        summary.deliveries,
        summary.refused,
        summary.devices,
        summary.sessions,
        summary.failed.len()
    );
    for (what, (users, gaps)) in summary.gaps_by_trouble() {
        let [half, most, all] = gaps.map(|gap| gap.as_secs_f64());
        println!(
            "{what}: nothing is accepted for {half:.1} s, {most:.1} s, {all:.1} s (half, nine in \
             ten, all of {users} users)"
        );
    }
    let is_complete = say_of_others(&options, &summary);
    if summary.failed.is_empty() && is_complete {
        return ExitCode::SUCCESS;
    }
    ExitCode::FAILURE
}

/// Says what happened among the others; false if so many seeds should have seen more.
fn say_of_others(options: &Options, summary: &Summary) -> bool {
    let is_one_process = options.troubles.is_none() && !options.is_prosody;
    if !options.faults.others || !is_one_process {
        return true;
    }
    println!("beside them: {}", summary.others);
    let never = summary.others.never();
    if summary.seeds < SEEDS_OF_EVERYTHING || never.is_empty() {
        return true;
    }
    println!("never in {} seeds: {}", summary.seeds, never.join(", "));
    false
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Option<Options>, String> {
    let mut options = Options {
        seed: 1,
        seeds: 1,
        time: None,
        jobs: 2,
        faults: faults("kills,stops,cuts,amnesia")?,
        troubles: None,
        is_prosody: false,
        is_tiny: false,
        has_rooms: false,
        folder: "target/history".into(),
        keeps_all: false,
        stops_at_first: false,
        bug: None,
        replay: "cargo run -p testkit --bin history --".to_owned(),
    };
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--help" | "-h" => return Ok(None),
            "--seeds" => options.seeds = number(&value()?)?,
            "--seed" => options.seed = number(&value()?)?,
            "--minutes" => options.time = Some(Duration::from_secs(60 * number(&value()?)?)),
            "--jobs" => options.jobs = usize::try_from(number(&value()?)?).unwrap_or(1),
            "--faults" => {
                let list = value()?;
                options.faults = faults(&list)?;
                options.replay = format!("{} --faults {list}", options.replay);
            }
            "--cluster" => {
                let list = value()?;
                options.troubles = Some(troubles(&list)?);
                options.replay = format!("{} --cluster {list}", options.replay);
            }
            "--prosody" => options.is_prosody = true,
            "--tiny" => {
                options.is_tiny = true;
                options.replay.push_str(" --tiny");
            }
            "--rooms" => {
                options.has_rooms = true;
                options.replay.push_str(" --rooms");
            }
            "--folder" => options.folder = value()?.into(),
            "--bug" => options.bug = Some(value()?),
            "--bugs" => {}
            "--keep" => options.keeps_all = true,
            "--first" => options.stops_at_first = true,
            _ => return Err(format!("what is {argument}?")),
        }
    }
    Ok(Some(options))
}

fn troubles(list: &str) -> Result<Troubles, String> {
    let mut troubles = Troubles::default();
    for name in list.split(',') {
        match name {
            "none" => {}
            "all" => troubles = Troubles::ALL,
            "kills" => troubles.kills = true,
            "pauses" => troubles.pauses = true,
            "servers" => troubles.servers = true,
            "ways" => troubles.ways = true,
            _ => return Err(format!("there is no trouble {name}")),
        }
    }
    Ok(troubles)
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}

fn faults(list: &str) -> Result<Faults, String> {
    let mut faults = Faults::default();
    for name in list.split(',') {
        match name {
            "none" => {}
            "all" => faults = Faults::ALL,
            "kills" => faults.kills = true,
            "stops" => faults.stops = true,
            "unsynced" => faults.unsynced = true,
            "disk" => faults.disk = true,
            "cuts" => faults.cuts = true,
            "amnesia" => faults.amnesia = true,
            "actors" => faults.actors = true,
            "moves" => faults.moves = true,
            "others" => faults.others = true,
            _ => return Err(format!("there is no fault {name}")),
        }
    }
    Ok(faults)
}
