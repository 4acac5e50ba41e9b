//! The command line of the orbit example. Deliberately not here: the computation.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program that prints its result.

use std::process::ExitCode;
use std::time::Duration;

use orbit::generator::{Fib, SIZE_MAX};
use orbit::worker::Conf;
use orbit::{local, sequential};
use stdx::time::SystemClock;

const USAGE: &str = "\
usage: orbit seq SET SIZE [option]
       orbit par SET SIZE WORKERS [option]

SET is g and some of 12345, such as g124; SIZE is the number of vertices of the space.

  shards=N      threads (default: one)
  batch=N       vertices in one message, at most (default 256; 1 sends each by itself)
  spawn=N       an actor for each image, N at a time for each worker (default 0: none)
  idle=MS       how long a worker without work keeps its credit (default 0)
  fib=naive     Fibonacci numbers by naive recursion, as published (default)
  fib=table     from a table: only the work of the runtime is left
";

/// A run takes at most a day.
const WITHIN: Duration = Duration::from_secs(86_400);

struct Job {
    conf: Conf,
    /// Absent for the sequential run.
    workers: Option<u32>,
    shards: u16,
}

fn number<N: std::str::FromStr>(text: Option<&str>, what: &str) -> Result<N, String> {
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{what} is not a number that fits"))
}

fn parse(words: &[String]) -> Result<Job, String> {
    let mut words = words.iter().map(String::as_str);
    let is_parallel = match words.next() {
        Some("seq") => false,
        Some("par") => true,
        _ => return Err("the first word is seq or par".into()),
    };
    let set = words.next().unwrap_or_default();
    let generators = set.parse().map_err(|error| format!("{error}"))?;
    let size: u32 = number(words.next(), "SIZE")?;
    if size == 0 || size > SIZE_MAX {
        return Err(format!("SIZE is from 1 to {SIZE_MAX}"));
    }
    let workers = match is_parallel {
        true => Some(number::<u32>(words.next(), "WORKERS")?),
        false => None,
    };
    let mut job = Job {
        conf: Conf::new(generators, size),
        workers,
        shards: 1,
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match key {
            "shards" => job.shards = number(Some(value), key)?,
            "batch" => job.conf.batch_max = number(Some(value), key)?,
            "spawn" => job.conf.spawned_max = number(Some(value), key)?,
            "idle" => job.conf.idle_timeout = Duration::from_millis(number(Some(value), key)?),
            "fib" if value == "naive" => job.conf.fib = Fib::Naive,
            "fib" if value == "table" => job.conf.fib = Fib::Table,
            _ => return Err(format!("unknown option {word}")),
        }
    }
    if job.workers == Some(0) || job.shards == 0 || job.conf.batch_max == 0 {
        return Err("WORKERS, shards and batch are at least 1".into());
    }
    Ok(job)
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let job = match parse(&words) {
        Ok(job) => job,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let outcome = match job.workers {
        None => Ok(sequential::run(&job.conf, &SystemClock::new())),
        Some(workers) => local::run(&job.conf, job.shards, workers, WITHIN),
    };
    match outcome {
        Ok(outcome) => {
            println!("{outcome}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
