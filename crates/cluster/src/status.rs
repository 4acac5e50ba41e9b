//! How a cluster stands, as its map and its streams say: for operators, from anywhere that reaches
//! the engine. A node lives if it renews its lease while it is watched.

use std::collections::BTreeMap;
use std::time::Duration;

use stdx::Level;

use crate::engine::{self, Engine, EngineError, Entry};
use crate::journal::{Epoch, Seq};
use crate::layout::Layout;
use crate::level::known_to;
use crate::map::{Home, Node, Revision};

/// How long nodes are watched: longer than between two renewals.
const WATCHED: Duration = Duration::from_millis(1_200);

/// How a cluster stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Its format level.
    pub level: Level,
    /// Its nodes, by name.
    pub nodes: Vec<NodeStatus>,
    /// Its streams, in order.
    pub streams: Vec<StreamStatus>,
}

/// How a node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub zone: String,
    /// Its share of homes.
    pub weight: u32,
    /// It renewed its lease while it was watched.
    pub is_alive: bool,
    /// It said that its commits or links lag.
    pub is_slow: bool,
    /// An operator wants it to be the home of nothing (`roost drain`).
    pub is_draining: bool,
    /// Others ended its lease.
    pub is_fenced: bool,
    /// Where other nodes reach it.
    pub link: Option<String>,
    /// Where clients reach it.
    pub clients: Option<String>,
    /// The newest format level that its program knows.
    pub level: Level,
}

impl NodeStatus {
    /// In a word.
    pub fn state(&self) -> &'static str {
        match (self.is_fenced, self.is_alive) {
            (true, _) => "ended",
            (false, false) => "silent",
            (false, true) if self.is_draining => "draining",
            (false, true) if self.is_slow => "slow",
            (false, true) => "alive",
        }
    }
}

/// How a stream stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamStatus {
    /// Its number.
    pub stream: u16,
    /// The node that has it, and since which epoch.
    pub home: Option<(String, Epoch)>,
    /// The epoch in which that node says that it serves.
    pub serving: Epoch,
    /// The last message.
    pub last: Option<Seq>,
    /// The most that the copy of a node that lives lags.
    pub lag_ms: u32,
    /// The server of the engine that leads it.
    pub leader: Option<String>,
}

impl StreamStatus {
    /// In a word.
    pub fn state(&self) -> &'static str {
        match &self.home {
            None => "none",
            Some((_, epoch)) if *epoch == self.serving => "serving",
            Some(_) => "moving",
        }
    }
}

impl Status {
    /// Of how many streams a node is the home, or is about to be.
    pub fn homes_of(&self, node: &str) -> usize {
        let homes = self
            .streams
            .iter()
            .filter_map(|stream| stream.home.as_ref());
        homes.filter(|(home, _)| home == node).count()
    }
}

/// Asks an engine. Blocks for some seconds at most, on a runtime of its own.
///
/// # Errors
/// [`EngineError`] if it cannot be asked.
pub fn read(options: &engine::Options, layout: &Layout) -> Result<Status, EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| EngineError::File(error.to_string()))?;
    runtime.block_on(ask(options, layout))
}

async fn ask(options: &engine::Options, layout: &Layout) -> Result<Status, EngineError> {
    let engine = Engine::connect(options, layout.clone()).await?;
    let bucket = engine.map().await?;
    let before = bucket.entries().await?;
    tokio::time::sleep(WATCHED).await;
    let after = bucket.entries().await?;
    let mut status = sort(before, after, layout);
    for stream in layout.streams() {
        let shown = &mut status.streams[usize::from(stream.0)];
        shown.last = engine.bounds(stream).await.map(|(_, last)| last);
        shown.leader = engine.leader(stream).await;
    }
    Ok(status)
}

/// What entries say that were read twice.
fn sort(before: Vec<(Revision, Entry)>, after: Vec<(Revision, Entry)>, layout: &Layout) -> Status {
    let mut known: BTreeMap<String, Revision> = BTreeMap::new();
    for (revision, entry) in before {
        if let Entry::Node(name, _) = entry {
            known.insert(name, revision);
        }
    }
    let (mut nodes, mut homes) = (BTreeMap::new(), BTreeMap::new());
    let mut level = Level::default();
    for (revision, entry) in after {
        match entry {
            Entry::Node(name, node) => {
                let is_alive = known.get(&name) != Some(&revision) && !node.is_fenced;
                nodes.insert(name, (is_alive, node));
            }
            Entry::Home(stream, home) => {
                homes.insert(stream, home);
            }
            Entry::Deployment(deployment) => level = Level::new(deployment.format),
        }
    }
    let stream = |id: crate::layout::StreamId| {
        let home: Option<&Home> = homes.get(&id);
        let report = |node: &Node| node.streams.get(usize::from(id.0)).copied();
        let of_home = home.and_then(|home| nodes.get(&home.node));
        let alive = nodes.values().filter(|(is_alive, _)| *is_alive);
        let lag = alive.filter_map(|(_, node)| report(node)).map(|r| r.lag_ms);
        StreamStatus {
            stream: id.0,
            home: home.map(|home| (home.node.clone(), home.epoch)),
            serving: of_home
                .filter(|(is_alive, _)| *is_alive)
                .and_then(|(_, node)| report(node))
                .map_or(0, |report| report.serving),
            lag_ms: lag.max().unwrap_or_default(),
            ..StreamStatus::default()
        }
    };
    let streams = layout.streams().map(stream).collect();
    let node = |(name, (is_alive, node)): (String, (bool, Node))| NodeStatus {
        name,
        zone: node.zone,
        weight: node.weight,
        is_alive,
        is_slow: node.is_slow,
        is_draining: node.is_draining,
        is_fenced: node.is_fenced,
        link: node.link,
        clients: node.clients,
        level: known_to(node.level),
    };
    Status {
        level,
        nodes: nodes.into_iter().map(node).collect(),
        streams,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::StreamId;
    use crate::map::Report;

    /// Goal: only who renews lives, and only a home that lives and says so serves.
    #[test]
    fn who_renews_lives_and_who_says_so_serves() {
        let node = |serving: [Epoch; 2]| {
            let report = |serving| Report {
                serving,
                lag_ms: 5,
                ..Report::default()
            };
            Node {
                streams: serving.map(report).to_vec(),
                ..Node::default()
            }
        };
        let home = |node: &str, epoch| Home {
            node: node.to_owned(),
            incarnation: 1,
            epoch,
            after: None,
        };
        let before = vec![
            (1, Entry::Node("a".to_owned(), node([3, 0]))),
            (2, Entry::Node("b".to_owned(), node([0, 4]))),
        ];
        let after = vec![
            (5, Entry::Node("a".to_owned(), node([3, 0]))),
            (2, Entry::Node("b".to_owned(), node([0, 4]))),
            (3, Entry::Home(StreamId(0), home("a", 3))),
            (4, Entry::Home(StreamId(1), home("b", 4))),
        ];
        let status = sort(before, after, &Layout::new("x", 2).unwrap());
        let states: Vec<&str> = status.nodes.iter().map(NodeStatus::state).collect();
        assert_eq!(states, ["alive", "silent"]);
        let states: Vec<&str> = status.streams.iter().map(StreamStatus::state).collect();
        assert_eq!(states, ["serving", "moving"]);
        assert_eq!(status.homes_of("a"), 1);
        assert_eq!(status.streams[0].lag_ms, 5);
    }
}
