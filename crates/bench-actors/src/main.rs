//! The classic actor workloads: on the runtime of this repository, beside Erlang and an actor
//! library in the same run.
//!
//! Owns the command line. Deliberately not here: what is measured (`work`), sizes and comparisons
//! (`suite`).
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program that prints its figures.

mod de;
mod shards;
mod suite;
mod work;

use std::process::ExitCode;

use suite::{Sizes, Suite};
use work::Args;

const USAGE: &str = "\
usage: bench-actors [option]...            every workload, by everyone
       bench-actors run WORKLOAD SHARDS NUMBER...   one workload, here: prints its figure
       bench-actors de NODES WORKERS SECONDS FOLDER [GROUPS [SHARDS]]   commands between nodes

  --only=A,B        these workloads alone
  --sizes=S         tiny, short (default) or long
  --shards=N        threads, Erlang schedulers and so on (default: processors, 16 at most)
  --rounds=N        everyone in turn, so often; medians are printed (default 3)
  --erlang=FOLDER   beside Erlang, whose workloads are in this folder; needs erl and erlc
  --rivals=PROGRAM  beside the library and the map that this program runs
  --json=FILE       the figures for other programs
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<(), String> {
    match words.first().map(String::as_str) {
        Some("run") => {
            let name = words.get(1).ok_or(USAGE)?;
            let numbers: Result<Vec<u64>, _> = words[2..].iter().map(|word| word.parse()).collect();
            let numbers = numbers.map_err(|_| USAGE)?;
            let (shards, numbers) = numbers.split_first().ok_or(USAGE)?;
            let shards = u16::try_from(*shards).ok().filter(|shards| *shards > 0);
            let args = Args {
                shards: shards.ok_or("SHARDS is from 1 to 65535")?,
                numbers: numbers.to_vec(),
            };
            println!("{}", work::run(name, &args)?);
            Ok(())
        }
        Some("de") => {
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok());
            let bench = de::Bench {
                nodes: number(1).ok_or(USAGE)?,
                workers: number(2).ok_or(USAGE)?,
                seconds: number(3).ok_or(USAGE)? as u64,
                folder: words.get(4).ok_or(USAGE)?.into(),
                groups: number(5).unwrap_or(0),
                shards: number(6).map_or(1, |shards| shards.clamp(1, 256) as u16),
            };
            print!("{}", bench.run()?);
            Ok(())
        }
        Some("echo") => work::echo().map_err(|error| error.to_string()),
        _ => parse(words)?.run(),
    }
}

fn parse(words: &[String]) -> Result<Suite, String> {
    let mut suite = Suite::default();
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let bad = || format!("{word}?\n\n{USAGE}");
        match key {
            "--only" => suite.only = value.split(',').map(String::from).collect(),
            "--sizes" => suite.sizes = Sizes::parse(value).ok_or_else(bad)?,
            "--shards" => suite.shards = value.parse().map_err(|_| bad())?,
            "--rounds" => suite.rounds = value.parse().map_err(|_| bad())?,
            "--erlang" => suite.erlang = Some(value.into()),
            "--rivals" => suite.rivals = Some(value.into()),
            "--json" => suite.json = Some(value.into()),
            _ => return Err(bad()),
        }
    }
    if suite.shards == 0 || suite.rounds == 0 {
        return Err("--shards and --rounds are at least 1".into());
    }
    Ok(suite)
}
