//! The format level of a deployment, and its raising by an operator. Owns who has to know a level
//! before everything is written at it; what a level is says [`stdx::level`].
//!
//! | a node | that does not know the level | then |
//! |---|---|---|
//! | lives | | refused: it could follow no stream any more |
//! | is silent or has ended | was not given up by name | refused: it could not come back |
//! | is silent or has ended | was given up by name | raised: it has to be upgraded before it comes back |

use stdx::Level;

use crate::deployment::patiently;
use crate::engine::{self, Engine, EngineError};
use crate::layout::Layout;
use crate::status::{self, Status};

/// What nodes know that say nothing of levels: their programs are of before there were such.
const UNSAID: Level = Level::new(2);

/// Times that somebody else may change the deployment's entry meanwhile.
const CHANGES_MAX: u32 = 8;

/// Why a level was not raised.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RaiseError {
    /// Nodes do not know it.
    #[error("{0}")]
    Unknown(String),
    /// It is higher than this program knows.
    #[error("the deployment has format level {0}, this program knows up to {1}: upgrade it")]
    Outdated(Level, Level),
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The level that a node says it knows.
pub(crate) fn known_to(said: u32) -> Level {
    Level::new(said).max(UNSAID)
}

/// Raises the level of a deployment to the newest that this program knows, for which every node has
/// to know it, but for those that do not live and are named in `without`. Blocks for some seconds
/// at most, on a runtime of its own. Returns the level before and after.
///
/// # Errors
/// [`RaiseError`]: nothing was changed.
pub fn raise(
    options: &engine::Options,
    layout: &Layout,
    without: &[String],
) -> Result<(Level, Level), RaiseError> {
    let status = status::read(options, layout)?;
    let (before, to) = (status.level, Level::known());
    if before > to {
        return Err(RaiseError::Outdated(before, to));
    }
    if before == to {
        return Ok((before, to));
    }
    may_rise(&status, to, without).map_err(RaiseError::Unknown)?;
    patiently(options, async || change(options, layout, to).await)?;
    Ok((before, to))
}

async fn change(options: &engine::Options, layout: &Layout, to: Level) -> Result<(), EngineError> {
    let bucket = Engine::connect(options, layout.clone())
        .await?
        .map()
        .await?;
    let mut last = None;
    for _ in 0..CHANGES_MAX {
        let Some((revision, mut deployment)) = bucket.find_deployment().await? else {
            return Err(EngineError::Failed {
                asked: "the deployment's entry in the map".to_owned(),
                why: "there is none: no node has started yet".to_owned(),
            });
        };
        if deployment.format >= to.number() {
            return Ok(());
        }
        deployment.format = to.number();
        match bucket.change_deployment(revision, Some(&deployment)).await {
            Ok(()) => return Ok(()),
            Err(error) => last = Some(error),
        }
    }
    Err(last.unwrap_or_else(|| EngineError::Failed {
        asked: "the deployment's entry in the map".to_owned(),
        why: "it changes all the time".to_owned(),
    }))
}

/// Whether every node that counts knows a level, or which do not and what mends that.
fn may_rise(status: &Status, to: Level, without: &[String]) -> Result<(), String> {
    let mut problems = Vec::new();
    for node in status.nodes.iter().filter(|node| node.level < to) {
        let (name, level) = (&node.name, node.level);
        let knows = format!("node {name} knows format levels up to {level}");
        if node.is_alive {
            problems.push(format!("{knows}: upgrade it first"));
        } else if !without.contains(name) {
            problems.push(format!(
                "{knows} and does not live: upgrade it and start it, or say --without {name}; it \
                 then cannot come back before it was upgraded"
            ));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "the format level stays at {}:\n{}",
            status.level,
            problems.join("\n")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::NodeStatus;

    const NEXT: Level = Level::new(3);

    fn status(nodes: &[(&str, u32, bool)]) -> Status {
        let node = |(name, level, is_alive): &(&str, u32, bool)| NodeStatus {
            name: (*name).to_owned(),
            level: known_to(*level),
            is_alive: *is_alive,
            ..NodeStatus::default()
        };
        Status {
            level: Level::new(2),
            nodes: nodes.iter().map(node).collect(),
            ..Status::default()
        }
    }

    /// Goal: a level rises once every node knows it. One that lives and does not is not passed
    /// over; one that is gone is only by its name. Who says nothing knows what there was before.
    #[test]
    fn a_level_rises_once_every_node_knows_it() {
        let none: &[String] = &[];
        assert_eq!(may_rise(&status(&[]), NEXT, none), Ok(()));
        let all = [("a", 3, true), ("b", 4, false)];
        assert_eq!(may_rise(&status(&all), NEXT, none), Ok(()));
        let without = ["b".to_owned()];
        for (nodes, without, refused) in [
            ([("a", 3, true), ("b", 2, true)], none, Some("b")),
            ([("a", 3, true), ("b", 2, true)], &without, Some("b")),
            ([("a", 3, true), ("b", 2, false)], none, Some("b")),
            ([("a", 3, true), ("b", 2, false)], &without, None),
            ([("a", 0, true), ("b", 2, false)], &without, Some("a")),
        ] {
            let said = may_rise(&status(&nodes), NEXT, without).err();
            match (&said, refused) {
                (None, None) => {}
                (Some(said), Some(node)) => {
                    assert!(said.contains(&format!("node {node} knows")), "{said}");
                    assert!(
                        said.contains("up to 2") && said.contains("upgrade it"),
                        "{said}"
                    );
                    assert_eq!(said.lines().count(), 2, "{said}");
                }
                _ => panic!("{nodes:?}: {said:?}"),
            }
        }
    }
}
