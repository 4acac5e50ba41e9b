//! `roost cluster`: the engine of a cluster, and its nodes. Owns the arguments and what is printed;
//! what is wrong, what mends it and how things stand comes from the crate `cluster`.

mod certificates;
mod grow;
mod snapshot;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use ::cluster::check::{self, Gravity, Problem};
use ::cluster::engine;
use ::cluster::forget;
use ::cluster::layout::{Layout, STREAMS_DEFAULT};
use ::cluster::observe;
use ::cluster::status::{self, Status};
use clap::{Args, Subcommand};

use crate::cli::Place;
use crate::door;
use crate::exit::{self, Failure};
use crate::member::order::{Request, Response};
use crate::node;
use certificates::CertificatesArgs;
use grow::GrowArgs;
use snapshot::SnapshotArgs;

/// How long a node may take for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What can be done to a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Say whether an engine (NATS JetStream) keeps what a cluster needs, and what mends it.
    Check(CheckArgs),
    /// Make certificates for links between nodes: a CA if the folder has none, and one for each
    /// node. Prints what to write in each node's configuration.
    Certificates(CertificatesArgs),
    /// Take a node that is gone for good out of the map, once it has ended: it is counted no more,
    /// and `roost level --raise` does not wait for it.
    Forget {
        /// Its name, as `roost cluster status` shows it.
        node: String,
        #[command(flatten)]
        place: Place,
    },
    /// Say which node is the home of an account, a room or a service.
    Home {
        /// Its address.
        address: String,
        #[command(flatten)]
        place: Place,
    },
    /// Take a single server's data into a new cluster, whose first node it is from then on
    /// (docs/cluster.md). The server must be stopped; this takes about a second, whatever it has.
    /// Killed at any moment, it can be run again, or taken back with --undo.
    Grow(GrowArgs),
    /// Store snapshots of the streams in the engine now, from this node's copy, read them back, and
    /// forget what the streams have before them: new nodes begin with them. Says what each covers.
    Snapshot(SnapshotArgs),
    /// Say how the nodes and streams of a cluster stand.
    Status {
        #[command(flatten)]
        place: Place,
    },
}

/// Which engine, and what it should have: that of the configuration's section [cluster], unless
/// something is given.
#[derive(Clone, Debug, Args)]
pub(crate) struct CheckArgs {
    /// Addresses of its servers: nats://host:4222, with user:password@ before the host if it asks.
    /// Certificates and credentials are only those of a configuration that names the engine.
    #[arg(long, value_delimiter = ',', requires = "monitor")]
    engine: Vec<String>,
    /// Monitoring ports of all its servers: http://host:8222. Only there a server says whether it
    /// syncs.
    #[arg(long, value_delimiter = ',', requires = "engine")]
    monitor: Vec<String>,
    /// Name of the deployment: everything in the engine begins with it [default: roost].
    #[arg(long)]
    name: Option<String>,
    /// Streams of the deployment, fixed when it is made: a power of two up to 128 [default: 16].
    #[arg(long)]
    streams: Option<u16>,
    /// Make the streams and buckets that are missing first.
    #[arg(long)]
    create: bool,
    #[command(flatten)]
    place: Place,
}

/// Runs a command.
///
/// # Errors
/// The engine cannot be reached, or there is none in the configuration.
pub(crate) fn run(command: ClusterCommand) -> Result<ExitCode, Failure> {
    match command {
        ClusterCommand::Check(args) => run_check(args),
        ClusterCommand::Certificates(args) => certificates::run(&args).map(|()| ExitCode::SUCCESS),
        ClusterCommand::Forget { node, place } => forget(&place, &node),
        ClusterCommand::Home { address, place } => home(&place, address),
        ClusterCommand::Grow(args) => grow::run(&args),
        ClusterCommand::Snapshot(args) => snapshot::run(&args),
        ClusterCommand::Status { place } => {
            let (engine, layout) = of_configuration(&place)?;
            let status = status::read(&engine, &layout);
            let status = status.map_err(|error| Failure::Failed(error.to_string()))?;
            io::stdout().lock().write_all(table(&status).as_bytes())?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn home(place: &Place, address: String) -> Result<ExitCode, Failure> {
    let data = place.source().load()?.settings.node.data;
    let Some(mut client) = door::connect(&data)? else {
        let message = format!("no server runs on {}", data.display());
        return Err(Failure::Failed(message));
    };
    let answer = client.call_within(&Request::Home { address }, PATIENCE);
    match answer.map_err(|error| Failure::TryAgain(error.to_string()))? {
        Response::Home { node: Some(node) } => {
            writeln!(io::stdout().lock(), "{node}")?;
            Ok(ExitCode::SUCCESS)
        }
        Response::Home { node: None } => {
            let message = "no node is at the moment: see roost cluster status".to_owned();
            Err(Failure::TryAgain(message))
        }
        Response::Error { message, .. } => Err(Failure::Failed(message)),
        _ => Err(Failure::Failed("another answer came".to_owned())),
    }
}

fn none() -> Failure {
    Failure::Usage(
        "the configuration has no `cluster.engine`: name one, or a --config that has it".to_owned(),
    )
}

fn run_check(args: CheckArgs) -> Result<ExitCode, Failure> {
    let options = observe_options(args)?;
    let problems = observe::run(&options).map_err(|error| Failure::Failed(error.to_string()))?;
    io::stdout()
        .lock()
        .write_all(report(&problems).as_bytes())?;
    Ok(match to_mend(&problems) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(exit::UNFIT),
    })
}

/// The engine that the configuration names, and how things are called there.
fn of_configuration(place: &Place) -> Result<(engine::Options, Layout), Failure> {
    let config = place.source().load()?;
    if !config.is_clustered() {
        return Err(none());
    }
    let layout = node::layout(&config);
    let layout = layout.map_err(|error| Failure::Usage(error.to_string()))?;
    Ok((node::engine(&config), layout))
}

fn forget(place: &Place, name: &str) -> Result<ExitCode, Failure> {
    let (engine, layout) = of_configuration(place)?;
    let forgotten = forget::run(&engine, &layout, name);
    forgotten.map_err(|error| Failure::Failed(error.to_string()))?;
    writeln!(io::stdout().lock(), "Node {name} is forgotten.")?;
    Ok(ExitCode::SUCCESS)
}

/// How many there are that are more than a warning.
fn to_mend(problems: &[Problem]) -> usize {
    let problems = problems.iter();
    problems
        .filter(|one| one.gravity != Gravity::Warning)
        .count()
}

fn observe_options(args: CheckArgs) -> Result<observe::Options, Failure> {
    let (engine, monitor, deployment, streams) = match args.engine.is_empty() {
        false => (
            engine::Options::new(args.engine),
            args.monitor,
            "roost".to_owned(),
            STREAMS_DEFAULT,
        ),
        true => {
            let config = args.place.source().load()?;
            if !config.is_clustered() {
                return Err(none());
            }
            let engine = node::engine(&config);
            let cluster = config.settings.cluster;
            (engine, cluster.monitor, cluster.deployment, cluster.streams)
        }
    };
    let name = args.name.unwrap_or(deployment);
    let layout = Layout::new(&name, args.streams.unwrap_or(streams));
    Ok(observe::Options {
        check: check::Options {
            near: engine.near.clone(),
            ..check::Options::default()
        },
        engine,
        monitor,
        layout: layout.map_err(|error| Failure::Usage(error.to_string()))?,
        create: args.create,
    })
}

fn report(problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems {
        // A string takes everything.
        let _ = writeln!(text, "{problem}");
    }
    match to_mend(problems) {
        0 => text.push_str("The engine keeps what a cluster needs.\n"),
        count => {
            let _ = writeln!(text, "\n{count} to mend before a node may serve.");
        }
    }
    text
}

fn table(status: &Status) -> String {
    let mut text = format!(
        "{:<16} {:<8} {:<12} {:>6} {:>6}  {}\n",
        "node", "state", "zone", "weight", "homes", "link"
    );
    for node in &status.nodes {
        // A string takes everything.
        let _ = writeln!(
            text,
            "{:<16} {:<8} {:<12} {:>6} {:>6}  {}",
            node.name,
            node.state(),
            node.zone,
            node.weight,
            status.homes_of(&node.name),
            node.link.as_deref().unwrap_or("-"),
        );
    }
    let _ = writeln!(
        text,
        "\n{:>6} {:<16} {:>6} {:<8} {:>12} {:>10}  leader",
        "stream", "home", "epoch", "state", "messages", "lag ms"
    );
    for stream in &status.streams {
        let (home, epoch) = stream.home.clone().unwrap_or(("-".to_owned(), 0));
        let _ = writeln!(
            text,
            "{:>6} {:<16} {:>6} {:<8} {:>12} {:>10}  {}",
            stream.stream,
            home,
            epoch,
            stream.state(),
            stream.last.map_or("-".to_owned(), |last| last.to_string()),
            stream.lag_ms,
            stream.leader.as_deref().unwrap_or("none"),
        );
    }
    let _ = writeln!(text, "\nformat level {}; see roost level", status.level);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_says_what_mends() {
        assert!(report(&[]).contains("keeps what a cluster needs"));
        let problem = Problem {
            what: "the stream roost-0 is missing".to_owned(),
            mend: "roost cluster check --create".to_owned(),
            gravity: Gravity::Wrong,
        };
        let text = report(&[problem]);
        assert!(
            text.contains("missing\n    roost cluster check --create\n"),
            "{text}"
        );
        assert!(text.ends_with("1 to mend before a node may serve.\n"));
    }

    /// Goal: an engine that is not there is an error of its own, not a list of problems.
    #[test]
    fn an_engine_that_is_not_there_is_said() {
        let args = CheckArgs {
            // Nobody listens on the discard port of the loopback address.
            engine: vec!["nats://127.0.0.1:9".to_owned()],
            monitor: vec!["http://127.0.0.1:9".to_owned()],
            name: None,
            streams: None,
            create: false,
            place: Place::default(),
        };
        let failed = run(ClusterCommand::Check(args.clone()));
        assert!(matches!(failed, Err(Failure::Failed(why)) if why.contains("cannot be reached")));
        let args = CheckArgs {
            streams: Some(3),
            ..args
        };
        let failed = run(ClusterCommand::Check(args));
        assert!(matches!(failed, Err(Failure::Usage(_))));
    }

    #[test]
    fn a_status_has_a_line_for_each_node_and_stream() {
        let status = Status {
            nodes: vec![status::NodeStatus {
                name: "a".to_owned(),
                zone: "east".to_owned(),
                weight: 1,
                is_alive: true,
                ..status::NodeStatus::default()
            }],
            streams: vec![
                status::StreamStatus {
                    stream: 0,
                    home: Some(("a".to_owned(), 7)),
                    serving: 7,
                    last: Some(12),
                    ..status::StreamStatus::default()
                },
                status::StreamStatus {
                    stream: 1,
                    ..status::StreamStatus::default()
                },
            ],
            ..Status::default()
        };
        let text = table(&status);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|l| l.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["a", "alive", "east", "1", "1", "-"]);
        assert_eq!(lines[4], ["0", "a", "7", "serving", "12", "0", "none"]);
        assert_eq!(lines[5], ["1", "-", "0", "none", "-", "0", "none"]);
    }
}
