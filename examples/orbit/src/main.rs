//! The command line of the orbit example. Deliberately not here: the computation.
#![allow(clippy::print_stdout, clippy::print_stderr)] // A program that prints its result.

use std::process::ExitCode;
use std::time::Duration;

use group::placement::Placement;
use group::{Node, NodeName, Options};
use orbit::generator::{Fib, SIZE_MAX};
use orbit::nodes::{self, Job};
use orbit::worker::Conf;
use orbit::{local, sequential};
use stdx::time::SystemClock;

const USAGE: &str = "\
usage: orbit seq SET SIZE [option]
       orbit par SET SIZE WORKERS [option]
       orbit dist ME SET SIZE WORKERS NODE... [option]
       orbit node ME [option]

SET is g and some of 12345, such as g124; SIZE is the number of vertices of the space.

dist runs with its master on a node ME and WORKERS on each NODE, ME among them or not; node offers a
node until its input ends. Nodes are called NAME@HOST:PORT, which is where they listen.

  shards=N      threads (default: one)
  batch=N       vertices in one message, at most (default 256; 1 sends each by itself)
  spawn=N       an actor for each image, N at a time for each worker (default 0: none)
  idle=MS       how long a worker without work keeps its credit (default 0)
  fib=naive     Fibonacci numbers by naive recursion, as published (default)
  fib=table     from a table: only the work of the runtime is left
  groups=N      dist: so many groups of nodes instead of all to all
  gateways=N    dist: gateways of each group (default 1)
  separate      dist: the first node of a group has no workers
  need=RULE     dist: only nodes with such attributes, as cores>=2, or so near, as distance<=0.5
  network=FILE  dist: which nodes are near each other; groups are cut along the networks
  cookie=TEXT   nodes of the same cookie link with each other (default orbit)
";

/// A run takes at most a day.
const WITHIN: Duration = Duration::from_secs(86_400);

/// What the first words ask for.
enum Task {
    Sequential(Conf),
    Parallel(Conf, u32),
    Over(NodeName, Job),
    Offer(NodeName),
}

/// What the other words ask for.
struct Settings {
    shards: u16,
    cookie: String,
    needs: Vec<String>,
    network: Option<String>,
}

/// How long nodes may take to tell their attributes.
const TELL: Duration = Duration::from_secs(10);

fn number<N: std::str::FromStr>(text: Option<&str>, what: &str) -> Result<N, String> {
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| format!("{what} is not a number that fits"))
}

fn name(text: Option<&str>) -> Result<NodeName, String> {
    let name = NodeName::new(text.unwrap_or_default());
    name.map_err(|error| format!("ME: {error}"))
}

fn space<'a>(words: &mut impl Iterator<Item = &'a str>) -> Result<Conf, String> {
    let set = words.next().unwrap_or_default();
    let generators = set.parse().map_err(|error| format!("{error}"))?;
    let size: u32 = number(words.next(), "SIZE")?;
    if size == 0 || size > SIZE_MAX {
        return Err(format!("SIZE is from 1 to {SIZE_MAX}"));
    }
    Ok(Conf::new(generators, size))
}

fn parse(words: &[String]) -> Result<(Task, Settings), String> {
    let mut words = words.iter().map(String::as_str).peekable();
    let mut task = match words.next() {
        Some("seq") => Task::Sequential(space(&mut words)?),
        Some("par") => {
            let conf = space(&mut words)?;
            Task::Parallel(conf, number(words.next(), "WORKERS")?)
        }
        Some("dist") => {
            let me = name(words.next())?;
            let conf = space(&mut words)?;
            let each = number(words.next(), "WORKERS")?;
            let mut nodes = Vec::new();
            while let Some(node) = words.next_if(|word| word.contains('@')) {
                nodes.push(name(Some(node))?);
            }
            Task::Over(me, Job::new(conf, nodes, each))
        }
        Some("node") => Task::Offer(name(words.next())?),
        _ => return Err("the first word is seq, par, dist or node".into()),
    };
    let mut settings = Settings {
        shards: 1,
        cookie: "orbit".into(),
        needs: Vec::new(),
        network: None,
    };
    for word in words {
        option(word, &mut task, &mut settings)?;
    }
    if settings.shards == 0 || matches!(task, Task::Parallel(_, 0)) {
        return Err("WORKERS and shards are at least 1".into());
    }
    Ok((task, settings))
}

fn option(word: &str, task: &mut Task, settings: &mut Settings) -> Result<(), String> {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    match key {
        "shards" => settings.shards = number(Some(value), key)?,
        "cookie" => settings.cookie = value.into(),
        _ => {
            if let Task::Over(_, job) = task {
                match key {
                    "groups" => job.groups = number(Some(value), key)?,
                    "gateways" => job.gateways = number(Some(value), key)?,
                    "separate" => job.separate = true,
                    "need" => settings.needs.push(value.into()),
                    "network" => settings.network = Some(value.into()),
                    _ => return setting(word, key, value, &mut job.conf),
                }
                return Ok(());
            }
            match task {
                Task::Sequential(conf) | Task::Parallel(conf, _) => {
                    return setting(word, key, value, conf);
                }
                _ => return Err(format!("unknown option {word}")),
            }
        }
    }
    Ok(())
}

fn setting(word: &str, key: &str, value: &str, conf: &mut Conf) -> Result<(), String> {
    match key {
        "batch" => conf.batch_max = number::<usize>(Some(value), key)?.max(1),
        "spawn" => conf.spawned_max = number(Some(value), key)?,
        "idle" => conf.idle_timeout = Duration::from_millis(number(Some(value), key)?),
        "fib" if value == "naive" => conf.fib = Fib::Naive,
        "fib" if value == "table" => conf.fib = Fib::Table,
        _ => return Err(format!("unknown option {word}")),
    }
    Ok(())
}

fn start(me: &NodeName, settings: &Settings) -> Result<Node, String> {
    let options = Options::new(me.as_str(), settings.cookie.as_bytes()).shards(settings.shards);
    let begun = std::sync::atomic::AtomicBool::new(false);
    let options = nodes::offer(options, move || {
        if !begun.swap(true, std::sync::atomic::Ordering::Relaxed) {
            println!("working");
        }
    });
    Node::start(options).map_err(|error| error.to_string())
}

fn placement(settings: &Settings) -> Result<Placement, String> {
    let read =
        |file: &String| std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"));
    let network = settings.network.as_ref().map(read).transpose()?;
    Placement::new(network.as_deref(), &settings.needs).map_err(|error| error.to_string())
}

fn run(task: Task, settings: &Settings) -> Result<(), String> {
    let outcome = match task {
        Task::Sequential(conf) => sequential::run(&conf, &SystemClock::new()),
        Task::Parallel(conf, workers) => {
            let outcome = local::run(&conf, settings.shards, workers, WITHIN);
            outcome.map_err(|error| error.to_string())?
        }
        Task::Over(me, mut job) => {
            let placement = placement(settings)?;
            let node = start(&me, settings)?;
            let chosen = placement.choose(&node, &job.nodes, TELL);
            job.nodes = chosen.map_err(|error| error.to_string())?.0;
            let outcome = nodes::run(&node, &job, WITHIN);
            node.stop();
            outcome.map_err(|error| error.to_string())?
        }
        Task::Offer(me) => {
            let node = start(&me, settings)?;
            println!("listening");
            let end = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            node.stop();
            return end.map(drop).map_err(|error| error.to_string());
        }
    };
    println!("{outcome}");
    Ok(())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (task, settings) = match parse(&words) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(task, &settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
