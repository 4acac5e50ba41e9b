//! What all nodes of a deployment share and nobody may change: the key of the slot hash and the
//! number of streams. One entry of the map's bucket, made by the first node that comes, with
//! compare-and-set. Owns the entry and its bytes.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use stdx::{Clock, Level, SystemClock};
use store::DeploymentId;

use crate::engine::{self, Engine, EngineError};
use crate::layout::{Layout, StreamId};
use crate::map;

/// Its key in the bucket.
pub(crate) const KEY: &str = "deployment";

/// The format level ([`stdx::level`]) that a node has to know of a deployment that was [`Grown`].
pub const FORMAT: u32 = 2;

/// What all nodes share.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// The format level: what a node has to know, and at which it writes ([`crate::level`]). At
    /// least [`FORMAT`] if it was [`Grown`].
    pub format: u32,
    /// How the ranges are divided.
    pub streams: u16,
    /// The key of the slot hash.
    pub slot_key: [u8; 16],
    /// It began with a single server's data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grown: Option<Grown>,
}

/// What the single server whose data began a deployment left there ([`crate::grow`]).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// Names the deployment in the stores of its nodes, which may have the slot key of another one:
    /// it is that of the single server.
    pub id: DeploymentId,
    /// The node that has the server's data.
    pub by: String,
    /// How often sequence numbers began anew at the server: the same on all nodes.
    pub numbering: u64,
    /// Every stream begins with it. Before that no node may start.
    pub is_done: bool,
}

/// Shown without the key, which nobody outside may know.
impl std::fmt::Debug for Deployment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployment")
            .field("format", &self.format)
            .field("streams", &self.streams)
            .field("grown", &self.grown)
            .finish_non_exhaustive()
    }
}

/// The deployment of an engine; made with this key, and empty, if there is none. Blocks while the
/// engine does not answer, for [`engine::Options::silence_max`] and one question at most, on a
/// runtime of its own.
///
/// # Errors
/// [`EngineError`] if the engine cannot be asked.
pub fn join(
    options: &engine::Options,
    layout: &Layout,
    slot_key: [u8; 16],
) -> Result<Deployment, EngineError> {
    let made = Deployment {
        // Nobody is there who knows less.
        format: Level::known().number(),
        streams: layout.streams().count() as u16,
        slot_key,
        grown: None,
    };
    patiently(options, async || {
        let engine = Engine::connect(options, layout.clone()).await?;
        let bucket = engine.map().await?;
        let find = async || {
            let found = bucket.find_deployment().await?;
            Ok::<_, EngineError>(found.map(|(_, found)| found))
        };
        if let Some(found) = find().await? {
            return Ok(found);
        }
        let Some(used) = find_used(&engine, layout).await? else {
            return bucket.deployment(&made).await;
        };
        // A copy of the map may not have what another node has made just now.
        for _ in 0..LOOKS {
            tokio::time::sleep(PAUSE).await;
            if let Some(found) = find().await? {
                return Ok(found);
            }
        }
        Err(used)
    })
}

/// How often an entry of the map that is not there is looked for, and the pause before that.
const LOOKS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// What is wrong if something is in the streams: the entry of their deployment was lost, and
/// another one, with another key, would have nobody find what is there.
async fn find_used(engine: &Engine, layout: &Layout) -> Result<Option<EngineError>, EngineError> {
    for stream in layout.streams() {
        let asked = layout.stream_name(stream);
        let Some((_, last)) = engine.bounds(stream).await else {
            let why = "no answer".to_owned();
            return Err(EngineError::Silent { asked, why });
        };
        if last > 0 {
            let why = format!(
                "its last message is {last}, and the entry `{KEY}` of {} is gone, without which \
                 none can be read: put it back from a backup of the engine, or restore the backup \
                 of a node into another deployment",
                layout.map_bucket()
            );
            return Ok(Some(EngineError::Failed { asked, why }));
        }
    }
    Ok(None)
}

/// The life of a process of this node that begins at this time, in milliseconds: the number of no
/// life before it that the map knows. Blocks as [`join`] does.
///
/// # Errors
/// [`EngineError`] if the engine cannot be asked.
pub fn life(
    options: &engine::Options,
    layout: &Layout,
    (node, wall): (&str, u64),
) -> Result<u64, EngineError> {
    patiently(options, async || {
        let engine = Engine::connect(options, layout.clone()).await?;
        let before = engine.map().await?.life(node).await?;
        Ok(map::life(wall, before))
    })
}

/// The streams of which no snapshot is stored. Blocks as [`join`] does.
///
/// # Errors
/// [`EngineError`] if the engine cannot be asked.
pub fn unsaved(options: &engine::Options, layout: &Layout) -> Result<Vec<StreamId>, EngineError> {
    patiently(options, async || {
        let engine = Engine::connect(options, layout.clone()).await?;
        let saved = engine.saved().await?;
        Ok(layout
            .streams()
            .filter(|one| !saved.contains(one))
            .collect())
    })
}

/// Asks until there is an answer, on a runtime of its own.
pub(crate) fn patiently<T, E: From<EngineError> + IsSilence>(
    options: &engine::Options,
    ask: impl AsyncFn() -> Result<T, E>,
) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| EngineError::File(error.to_string()))?;
    runtime.block_on(async {
        let clock = SystemClock::new();
        let until = clock.now() + options.silence_max;
        loop {
            match ask().await {
                Err(error) if error.is_silence() && clock.now() < until => {
                    tokio::time::sleep(options.silence_pause).await;
                }
                answered => return answered,
            }
        }
    })
}

/// Whether asking again helps.
pub(crate) trait IsSilence {
    fn is_silence(&self) -> bool;
}

impl IsSilence for EngineError {
    fn is_silence(&self) -> bool {
        matches!(
            self,
            EngineError::Silent { .. } | EngineError::Unreachable(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    /// Goal: what those wrote who knew no deployment that had grown is read, and written alike.
    #[test]
    fn a_deployment_that_began_empty_has_the_bytes_of_before() {
        let before = r#"{"format":1,"streams":16,"slot_key":[1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6]}"#;
        let read: Deployment = serde_json::from_str(before).unwrap();
        assert_eq!(read.grown, None);
        assert_eq!(serde_json::to_string(&read).unwrap(), before);
        let grown = Deployment {
            format: FORMAT,
            grown: Some(Grown {
                id: [7; 16],
                by: "a".to_owned(),
                numbering: 3,
                is_done: false,
            }),
            ..read
        };
        let bytes = serde_json::to_string(&grown).unwrap();
        assert_eq!(serde_json::from_str::<Deployment>(&bytes).unwrap(), grown);
    }

    /// Nobody is there, or somebody who says nothing, for longer than a node asks: it says so, once
    /// that time has passed, and not before.
    #[test]
    fn a_node_that_starts_asks_a_silent_engine_for_so_long() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [&silent, &gone].map(|one| one.local_addr().unwrap());
        drop(gone);
        for address in addresses {
            let mut options = engine::Options::new(vec![format!("nats://{address}")]);
            options.connect_within = Duration::from_millis(50);
            options.silence_max = Duration::from_millis(300);
            options.silence_pause = Duration::from_millis(20);
            let layout = Layout::new("test", 4).unwrap();
            let clock = SystemClock::new();
            let begun = clock.now();
            let refused = join(&options, &layout, [7; 16]);
            let took = clock.now().saturating_since(begun);
            assert!(
                matches!(refused, Err(EngineError::Unreachable(_))),
                "{refused:?}"
            );
            assert!(took >= options.silence_max, "{took:?}");
        }
    }
}
