//! The map: which node is the home of each stream, and which nodes live. It only says where to ask
//! and who may try; what fences is the epoch in the stream. Owns the entries and their bytes; the
//! machines are beside it.
//!
//! Entries are JSON in one bucket of the engine, so that an operator can read them with its own
//! tool: `home.3`, `node.a`. Each is changed by compare-and-set with its revision, renewals of
//! leases included: that is what makes the end of a lease certain to both sides, however late
//! either hears of it (`docs/decisions/0090-journal-on-jetstream.md`).

pub mod assign;
pub mod keeper;
pub mod lease;
pub mod load;
pub mod view;

use serde::{Deserialize, Serialize};

use crate::journal::Epoch;
use crate::layout::StreamId;

/// Revision of an entry: the engine counts them.
pub type Revision = u64;

/// Whose a stream is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// The node.
    pub node: String,
    /// The life of its process for which this is.
    pub incarnation: u64,
    /// The tenure: higher than any before.
    pub epoch: Epoch,
    /// The home before, which has not said yet that it ended what it does for the stream. The new
    /// one waits for that, or for its lease to lapse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// The life of a process that begins at this time, in milliseconds, after the one that the map
/// knows of the node. Later lives have higher numbers, or nobody would hear this one: the clock
/// says so, and where it was set back, or lives follow each other within a millisecond, the entry
/// does. One that an operator deleted says nothing: then the clock has to have gone on.
pub fn life(wall: u64, before: Option<u64>) -> u64 {
    let next = before.map_or(0, |before| before.saturating_add(1));
    wall.max(next)
}

/// What a node says of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// For how long its replica has lagged without getting on, in milliseconds.
    pub lag_ms: u32,
    /// What the stream costs its home ([`load`]). 0 on others.
    pub load: u32,
    /// The tenure in which the node is the stream's home; 0 on others.
    #[serde(default)]
    pub serving: Epoch,
}

/// A node, as it says of itself. Each renewal of its lease is a new revision of this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The life of its process.
    pub incarnation: u64,
    /// Where it stands: machines of one zone fail together.
    pub zone: String,
    /// Its share of homes, against the others' weights. 0: it is the home of nothing (an edge, or a
    /// node that drains).
    pub weight: u32,
    /// An operator wants it to be the home of nothing, for a while; its weight is 0 then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_draining: bool,
    /// Commits or links lag: it keeps its lease and loses its homes.
    #[serde(default)]
    pub is_slow: bool,
    /// Its lease was seen not to be renewed, and this entry put an end to it: no renewal of before
    /// can succeed any more. Whoever it was for ends what it does, and may begin anew.
    #[serde(default)]
    pub is_fenced: bool,
    /// Where other nodes reach its link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Where clients reach it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<String>,
    /// The newest format level that its program knows. Programs that know of no levels say nothing
    /// (0), and know level 2 at most.
    #[serde(default)]
    pub level: u32,
    /// One for each stream, in order.
    pub streams: Vec<Report>,
}

/// What a key of the bucket is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// [`Home`] of a stream.
    Home(StreamId),
    /// [`Node`] with this name.
    Node(String),
}

impl Key {
    /// The key's bytes.
    pub fn name(&self) -> String {
        match self {
            Key::Home(StreamId(stream)) => format!("home.{stream}"),
            Key::Node(node) => format!("node.{node}"),
        }
    }

    /// The inverse; anything else in the bucket is nothing to us.
    pub fn parse(name: &str) -> Option<Key> {
        match name.split_once('.')? {
            ("home", stream) => stream.parse().ok().map(StreamId).map(Key::Home),
            ("node", node) => Some(Key::Node(node.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_entries_survive_their_bytes() {
        for key in [Key::Home(StreamId(3)), Key::Node("a".to_owned())] {
            assert_eq!(Key::parse(&key.name()), Some(key));
        }
        assert_eq!(Key::parse("other.3"), None);
        assert_eq!(Key::parse("home.x"), None);
        let home = r#"{"node":"a","incarnation":7,"epoch":2}"#;
        let parsed: Home = serde_json::from_str(home).unwrap();
        assert_eq!(serde_json::to_string(&parsed).unwrap(), home);
    }

    /// Goal: a life has a higher number than the one before, whatever the clock says.
    #[test]
    fn lives_follow_each_other() {
        assert_eq!(life(1_000, None), 1_000);
        assert_eq!(life(1_000, Some(700)), 1_000);
        assert_eq!(life(1_000, Some(1_000)), 1_001);
        assert_eq!(life(400, Some(1_000)), 1_001);
    }
}
