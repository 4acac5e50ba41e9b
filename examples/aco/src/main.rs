//! The command line of the ant colony example. Deliberately not here: the algorithm.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program that prints its result.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aco::instance::Instance;
use aco::local::{self, LocalOptions, Report};
use aco::nodes::{self, Job};
use aco::options::{Output, Seed, USAGE, Variant, Words};
use aco::params::Dice;
use aco::plan::Plan;
use group::placement::Placement;
use group::{Node, NodeName, Options};
use stdx::time::{Clock, SystemClock};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, name, rest @ ..] = &words[..]
        && first == "node"
        && rest.len() < 2
    {
        let cookie = rest.first().map_or("aco", String::as_str);
        return end(offer(name, cookie));
    }
    let words = match Words::parse(&words) {
        Ok(words) => words,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    end(run(words))
}

/// The master's node and the names of all.
type Nodes = (Node, Vec<NodeName>);

type Done = Result<(), Box<dyn Error>>;

fn end(done: Done) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start(name: &str, cookie: &str, shards: u16) -> Result<Node, Box<dyn Error>> {
    let begun = AtomicBool::new(false);
    let options = Options::new(name, cookie.as_bytes()).shards(shards);
    let options = nodes::offer(options, move || {
        if !begun.swap(true, Ordering::Relaxed) {
            println!("working");
        }
    });
    Ok(Node::start(options)?)
}

fn offer(name: &str, cookie: &str) -> Done {
    let node = start(name, cookie, 1)?;
    println!("listening");
    let end = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    node.stop();
    end?;
    Ok(())
}

fn run(mut words: Words) -> Done {
    let text = std::fs::read_to_string(&words.input);
    let text = text.map_err(|error| format!("{}: {error}", words.input))?;
    let instance = Instance::parse(&text)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let shards = words.shards.unwrap_or(processors.min(1_024) as u16);
    let node = nodes_of(&words, shards)?;
    let all = node.as_ref().map(|(_, names)| names.len() as u32);
    for repetition in 0..words.runs {
        words.params.dice = match words.seed {
            Seed::Given(seed) => Dice::Seeded(seed.wrapping_add(u64::from(repetition))),
            Seed::Clock => Dice::Seeded(SystemClock::new().wall().as_millis() as u64),
            Seed::Cyclic => Dice::Cyclic,
        };
        let places = all.or(words.places).unwrap_or(u32::from(shards));
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
        let told = |round, cost| {
            if words.verbosity > 0 {
                println!("round {round}: {cost}");
            }
        };
        let report = match &node {
            None => local::run(plan, options, told)?,
            Some((node, names)) => over_nodes(&words, plan, node, names, told)?,
        };
        print(&words, &instance, &report);
    }
    if let Some((node, _)) = node {
        node.stop();
    }
    Ok(())
}

fn over_nodes(
    words: &Words,
    plan: Plan,
    node: &Node,
    names: &[NodeName],
    told: impl FnMut(u32, u64),
) -> Result<Report, Box<dyn Error>> {
    let job = Job {
        plan,
        nodes: names.to_vec(),
        grouped: words.variant == Variant::Sr,
        within: LocalOptions::default().within,
        monkey: words.monkey,
        stops_at_zero: words.stop,
    };
    let report = nodes::run(node, &job, told)?;
    Ok(Report {
        best: report.best,
        rounds: report.rounds,
        time_all: report.time_all,
        time_rounds: report.time_rounds,
        killed: u64::from(report.repeated),
    })
}

/// How long nodes may take to tell their attributes.
const TELL: Duration = Duration::from_secs(10);

/// The master's node and the names of all, if the run is over nodes.
fn nodes_of(words: &Words, shards: u16) -> Result<Option<Nodes>, Box<dyn Error>> {
    let (Some(file), Some(me)) = (&words.nodes, &words.me) else {
        return Ok(None);
    };
    let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
    let names: Result<Vec<NodeName>, _> = text.split_whitespace().map(NodeName::new).collect();
    let network = words.network.as_ref().map(std::fs::read_to_string);
    let network = network.transpose()?;
    let placement = Placement::new(network.as_deref(), &words.needs)?;
    let node = start(me, &words.cookie, shards)?;
    let (mut names, _) = placement.choose(&node, &names?, TELL)?;
    names.truncate(words.places.map_or(usize::MAX, |places| places as usize));
    if names.is_empty() {
        return Err(format!("{file}: no names of nodes that fit").into());
    }
    Ok(Some((node, names)))
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
            if words.nodes.is_some() {
                println!("Repeated = {}", report.killed);
            } else if words.monkey.is_some() {
                println!("Killed = {}", report.killed);
            }
        }
    }
}
