//! The workloads of bench-actors on an actor library (`ractor`, on tokio's threads) and a
//! concurrent map (`papaya`): `rivals WORKLOAD THREADS NUMBER...` prints one figure, or `none`.
//!
//! Owns nothing that ships. Written as a user of these libraries would: mailboxes without a bound,
//! a task for each actor.

mod actors;
mod maps;

use std::process::ExitCode;

/// Threads and numbers of a workload.
pub struct Args {
    threads: usize,
    numbers: Vec<u64>,
}

impl Args {
    fn number(&self, at: usize) -> usize {
        self.numbers.get(at).copied().unwrap_or_default() as usize
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Result<Vec<u64>, _> = words.iter().skip(1).map(|word| word.parse()).collect();
    let (Some(name), Ok(numbers)) = (words.first(), numbers) else {
        eprintln!("usage: rivals WORKLOAD THREADS NUMBER...");
        return ExitCode::from(2);
    };
    let Some((threads, numbers)) = numbers.split_first() else {
        eprintln!("usage: rivals WORKLOAD THREADS NUMBER...");
        return ExitCode::from(2);
    };
    let args = Args {
        threads: (*threads).max(1) as usize,
        numbers: numbers.to_vec(),
    };
    match actors::run(name, &args).or_else(|| maps::run(name, &args)) {
        Some(figure) => println!("{figure}"),
        None => println!("none"),
    }
    ExitCode::SUCCESS
}
