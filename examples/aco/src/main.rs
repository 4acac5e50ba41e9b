//! The command line of the ant colony example. Deliberately not here: the algorithm.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program that prints its result.

use std::process::ExitCode;

use aco::instance::Instance;
use aco::local::{self, LocalOptions, Report};
use aco::options::{Output, Seed, USAGE, Variant, Words};
use aco::params::Dice;
use aco::plan::Plan;
use stdx::time::{Clock, SystemClock};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words = match Words::parse(&words) {
        Ok(words) => words,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut words: Words) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(&words.input);
    let text = text.map_err(|error| format!("{}: {error}", words.input))?;
    let instance = Instance::parse(&text)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let shards = words.shards.unwrap_or(processors.min(1_024) as u16);
    for repetition in 0..words.runs {
        words.params.dice = match words.seed {
            Seed::Given(seed) => Dice::Seeded(seed.wrapping_add(u64::from(repetition))),
            Seed::Clock => Dice::Seeded(SystemClock::new().wall().as_millis() as u64),
            Seed::Cyclic => Dice::Cyclic,
        };
        let places = words.places.unwrap_or(u32::from(shards));
        let plan = Plan::new(
            instance.clone(),
            words.params,
            places,
            words.dup,
            words.degree,
        );
        if words.verbosity > 1 {
            for member in &plan.members {
                println!("{} at {}: {:?}", member.name, member.place, member.role);
            }
        }
        let options = LocalOptions {
            shards,
            recovers: words.variant == Variant::Gr,
            monkey: words.monkey,
            stops_at_zero: words.stop,
            ..LocalOptions::default()
        };
        let report = local::run(plan, options, |round, cost| {
            if words.verbosity > 0 {
                println!("round {round}: {cost}");
            }
        })?;
        print(&words, &instance, &report);
    }
    Ok(())
}

fn print(words: &Words, instance: &Instance, report: &Report) {
    let (all, rounds) = (report.time_all.as_micros(), report.time_rounds.as_micros());
    let cost = report.best.cost;
    match words.output {
        Output::Time => println!("{rounds}"),
        Output::R => {
            let params = &words.params;
            let (jobs, ants) = (instance.count(), params.ants);
            let (global, local) = (params.rounds, params.iterations);
            println!("{jobs:>6} {ants:>6} {global:>6} {local:>6} {cost:>9} {all:>10} {rounds:>10}");
        }
        Output::Usual | Output::Schedule => {
            println!("Best cost = {cost}");
            if words.output == Output::Schedule {
                println!("Best order = {:?}", report.best.order);
            }
            println!("Time1 = {all}");
            println!("Time2 = {rounds}");
            if words.monkey.is_some() {
                println!("Killed = {}", report.killed);
            }
        }
    }
}
