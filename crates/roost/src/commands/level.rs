//! `roost level`: the format level of a deployment or of a single server's data, and its raising
//! (`docs/versions.md`). Owns what is printed; who has to know a level says `cluster::level`.

use std::fmt::Write as _;

use ::cluster::engine;
use ::cluster::level::{self, RaiseError};
use ::cluster::status::{self, Status};
use stdx::Level;

use super::{print, unexpected};
use crate::cli::LevelArgs;
use crate::config::Config;
use crate::door::{Absent, Door};
use crate::exit::Failure;
use crate::node::{self, Request, Response};

pub(super) fn run(args: &LevelArgs) -> Result<(), Failure> {
    let config = args.place.source().load()?;
    match config.is_clustered() {
        true => of_cluster(args, &config),
        false => of_single(args, &config),
    }
}

fn of_single(args: &LevelArgs, config: &Config) -> Result<(), Failure> {
    if !args.without.is_empty() {
        let message = "--without is for nodes of a cluster, and this server is none".to_owned();
        return Err(Failure::Usage(message));
    }
    let mut door = Door::open(config, Absent::Refuse)?;
    let mut ask = |raise| match door.call(Request::Level { raise })? {
        Response::Level { level, known } => Ok((Level::new(level), Level::new(known))),
        _ => Err(unexpected()),
    };
    let (before, known) = ask(false)?;
    if !args.raise {
        return print(&standing(before, known));
    }
    let (after, _) = ask(true)?;
    print(&raised(before, after, "program"))
}

fn of_cluster(args: &LevelArgs, config: &Config) -> Result<(), Failure> {
    let layout = node::layout(config).map_err(|error| Failure::Usage(error.to_string()))?;
    let engine = engine::Options::new(config.settings.cluster.engine.clone());
    if args.raise {
        let (before, after) = level::raise(&engine, &layout, &args.without).map_err(refused)?;
        return print(&raised(before, after, "node"));
    }
    let status = status::read(&engine, &layout).map_err(|error| refused(error.into()))?;
    print(&of_nodes(&status))
}

fn refused(error: RaiseError) -> Failure {
    Failure::Failed(error.to_string())
}

fn raised(before: Level, after: Level, what: &str) -> String {
    match before == after {
        true => format!("format level {after} is the newest that this program knows\n"),
        false => format!(
            "format level {after}, and no longer {before}: no {what} that does not know it can \
             take this data up any more\n"
        ),
    }
}

fn standing(level: Level, known: Level) -> String {
    match level < known {
        true => format!(
            "format level {level}; this program knows up to {known}\nWhen nobody has to go back to \
             an older program: roost level --raise\n"
        ),
        false => format!("format level {level}, the newest that this program knows\n"),
    }
}

fn of_nodes(status: &Status) -> String {
    let mut text = standing(status.level, Level::known());
    for node in &status.nodes {
        // A string takes everything.
        let _ = writeln!(
            text,
            "node {} ({}) knows up to {}",
            node.name,
            node.state(),
            node.level
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use ::cluster::status::NodeStatus;

    use super::*;

    #[test]
    fn a_level_that_may_rise_says_how() {
        let text = standing(Level::new(2), Level::new(3));
        assert!(text.contains("roost level --raise"), "{text}");
        let text = standing(Level::new(2), Level::new(2));
        assert!(!text.contains("--raise"), "{text}");
        assert!(raised(Level::new(2), Level::new(2), "node").contains("newest"));
        assert!(raised(Level::new(2), Level::new(3), "node").contains("no longer 2"));
    }

    #[test]
    fn each_node_says_what_it_knows() {
        let node = |name: &str, level| NodeStatus {
            name: name.to_owned(),
            is_alive: true,
            level: Level::new(level),
            ..NodeStatus::default()
        };
        let status = Status {
            level: Level::new(2),
            nodes: vec![node("a", 3), node("b", 2)],
            ..Status::default()
        };
        let text = of_nodes(&status);
        assert!(text.contains("node a (alive) knows up to 3\n"), "{text}");
        assert!(text.contains("node b (alive) knows up to 2\n"), "{text}");
    }
}
