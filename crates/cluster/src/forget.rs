//! Takes a node that is gone for good out of the map. Owns whom that may be done to: one whose
//! lease others have ended, and that is the home of nothing. Whoever comes back under its name
//! makes an entry anew.

use crate::engine::{self, Engine, EngineError, Entry};
use crate::layout::Layout;
use crate::map::Revision;

/// Why a node stays in the map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// There is none of this name.
    #[error("the map has no node {name}; it has {}", .known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Its lease goes on.
    #[error(
        "node {0} is no node that has ended: drain and stop it first (roost drain), and wait until \
         roost cluster status says `ended`, as another node that runs makes it"
    )]
    Lives(String),
    /// Homes have not been given to others.
    #[error("node {name} is still the home of {homes} streams: others take them over in a moment")]
    HasHomes {
        /// The name.
        name: String,
        /// How many.
        homes: usize,
    },
    /// The engine cannot be asked, or the entry has changed meanwhile.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Forgets a node. Blocks for some seconds at most, on a runtime of its own.
///
/// # Errors
/// [`ForgetError`]; nothing was changed then.
pub fn run(options: &engine::Options, layout: &Layout, name: &str) -> Result<(), ForgetError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| EngineError::File(error.to_string()))?;
    runtime.block_on(async {
        let engine = Engine::connect(options, layout.clone()).await?;
        let bucket = engine.map().await?;
        let revision = judge(&bucket.entries().await?, name)?;
        bucket.forget(name, revision).await?;
        Ok(())
    })
}

/// The revision of a node that may be forgotten.
fn judge(entries: &[(Revision, Entry)], name: &str) -> Result<Revision, ForgetError> {
    let nodes = entries.iter().filter_map(|(revision, entry)| match entry {
        Entry::Node(node, state) => Some((node, *revision, state.is_fenced)),
        _ => None,
    });
    let Some((_, revision, has_ended)) = nodes.clone().find(|(node, ..)| *node == name) else {
        let known = nodes.map(|(node, ..)| node.clone()).collect();
        let name = name.to_owned();
        return Err(ForgetError::Unknown { name, known });
    };
    if !has_ended {
        return Err(ForgetError::Lives(name.to_owned()));
    }
    let homes = entries.iter().filter_map(|(_, entry)| match entry {
        Entry::Home(_, home) => Some(&home.node),
        _ => None,
    });
    match homes.filter(|home| *home == name).count() {
        0 => Ok(revision),
        homes => {
            let name = name.to_owned();
            Err(ForgetError::HasHomes { name, homes })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::StreamId;
    use crate::map::{Home, Node};

    /// Goal: only a node that has ended, and is no home any more, is forgotten.
    #[test]
    fn who_lives_or_is_a_home_stays() {
        let node = |name: &str, is_fenced| {
            let node = Node {
                is_fenced,
                ..Node::default()
            };
            Entry::Node(name.to_owned(), node)
        };
        let home = Home {
            node: "b".to_owned(),
            incarnation: 1,
            epoch: 1,
            after: None,
        };
        let entries = [
            (1, Entry::Home(StreamId(0), home)),
            (2, node("a", false)),
            (3, node("b", true)),
            (4, node("c", true)),
        ];
        let said = |name: &str| judge(&entries, name).map_err(|error| error.to_string());
        assert_eq!(said("c"), Ok(4));
        for (name, expected) in [
            ("a", "drain and stop it first"),
            ("b", "still the home of 1 streams"),
            ("d", "no node d; it has a, b, c"),
        ] {
            let why = said(name).unwrap_err();
            assert!(why.contains(expected), "{name}: {why}");
        }
    }
}
