//! What all nodes of a deployment share and nobody may change: the key of the slot hash and the
//! number of streams. One entry of the map's bucket, made by the first node that comes, with
//! compare-and-set. Owns the entry and its bytes.

use serde::{Deserialize, Serialize};

use stdx::{Clock, SystemClock};

use crate::engine::{self, Engine, EngineError};
use crate::layout::Layout;

/// Its key in the bucket.
pub(crate) const KEY: &str = "deployment";

/// Version of what nodes agree on. A node refuses a deployment of a newer one.
pub const FORMAT: u32 = 1;

/// What all nodes share.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// [`FORMAT`] of whoever made it.
    pub format: u32,
    /// How the ranges are divided.
    pub streams: u16,
    /// The key of the slot hash.
    pub slot_key: [u8; 16],
}

/// Shown without the key, which nobody outside may know.
impl std::fmt::Debug for Deployment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deployment")
            .field("format", &self.format)
            .field("streams", &self.streams)
            .finish_non_exhaustive()
    }
}

/// The deployment of an engine; made with this key if there is none. Blocks while the engine does
/// not answer, for [`engine::Options::silence_max`] and one question at most, on a runtime of its
/// own.
///
/// # Errors
/// [`EngineError`] if the engine cannot be asked.
pub fn join(
    options: &engine::Options,
    layout: &Layout,
    slot_key: [u8; 16],
) -> Result<Deployment, EngineError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| EngineError::File(error.to_string()))?;
    let made = Deployment {
        format: FORMAT,
        streams: layout.streams().count() as u16,
        slot_key,
    };
    runtime.block_on(async {
        let clock = SystemClock::new();
        let until = clock.now() + options.silence_max;
        loop {
            match ask(options, layout, &made).await {
                Err(EngineError::Silent { .. } | EngineError::Unreachable(_))
                    if clock.now() < until =>
                {
                    tokio::time::sleep(options.silence_pause).await;
                }
                answered => return answered,
            }
        }
    })
}

async fn ask(
    options: &engine::Options,
    layout: &Layout,
    made: &Deployment,
) -> Result<Deployment, EngineError> {
    let engine = Engine::connect(options, layout.clone()).await?;
    engine.map().await?.deployment(made).await
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

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
