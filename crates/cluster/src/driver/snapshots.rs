//! Snapshots on their way between the local store and the engine. Owns the files they pass through
//! and the order: stored, read back, checked, and only then is anything purged.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stdx::{Clock as _, SystemClock};
use store::{Follower, RangeId, Store, StreamMark};

use super::Stored;
use crate::engine::{Engine, EngineError, PARTS_KEPT};
use crate::journal::Seq;
use crate::journal::message::Author;
use crate::layout::StreamId;

/// How long a snapshot that was stored is asked for before it counts as lost, and the pause between
/// two questions. More than once, although one waits for a part that is gone: whoever is asked may
/// know of an earlier snapshot of the same name.
const BACK_WITHIN: Duration = Duration::from_secs(15);
const BACK_PAUSE: Duration = Duration::from_millis(100);

/// Where the snapshots of one stream pass through.
#[derive(Clone)]
pub(super) struct Place {
    stream: StreamId,
    ranges: Vec<RangeId>,
    /// Written here.
    out: PathBuf,
    /// Read back, or fetched, here.
    back: PathBuf,
}

impl Place {
    pub(super) fn new(
        folder: &Path,
        author: &Author,
        stream: StreamId,
        ranges: Vec<RangeId>,
    ) -> Place {
        let file = |what| {
            let Author { node, incarnation } = author;
            folder.join(format!("{node}.{incarnation:x}.{}.{what}", stream.0))
        };
        Place {
            stream,
            ranges,
            out: file("out"),
            back: file("back"),
        }
    }

    /// Loads what was fetched.
    pub(super) fn load(&self, follower: &mut Follower) -> Result<StreamMark, String> {
        let loaded = follower.load_snapshot(self.stream.0, &self.ranges, &self.back);
        let _ = fs::remove_file(&self.back);
        loaded.map_err(|error| error.to_string())
    }

    fn clean(&self) {
        // They are not there as a rule.
        let _ = fs::remove_file(&self.out);
        let _ = fs::remove_file(&self.back);
    }
}

/// Runs something that waits for the disk where that disturbs nobody.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let ran = tokio::task::spawn_blocking(run).await;
    ran.unwrap_or_else(|error| Err(error.to_string()))
}

/// Stores a snapshot, checks it, purges behind it, and forgets all but the newest.
pub(super) async fn store(engine: &Engine, store: &Store, place: &Place) -> Result<Stored, String> {
    let stored = try_store(engine, store, place).await;
    place.clean();
    // What is left of attempts of before is in nobody's way; it is looked for again next time.
    let _ = engine.forget_parts(PARTS_KEPT).await;
    stored
}

async fn try_store(engine: &Engine, store: &Store, place: &Place) -> Result<Stored, String> {
    place.clean();
    let (from, to) = (store.clone(), place.clone());
    let written = blocking(move || {
        let written = from.snapshot_stream(to.stream.0, &to.ranges, &to.out);
        written.map_err(|error| error.to_string())
    });
    let (mark, moved) = written.await?;
    if mark.seq == 0 {
        return Err("nothing was applied yet".to_owned());
    }
    let text = |error: EngineError| error.to_string();
    let put = engine.put_snapshot(place.stream, mark.seq, &place.out);
    put.await.map_err(text)?;
    read_back(engine, place, mark.seq).await.map_err(text)?;
    let (with, read) = (store.clone(), place.clone());
    let checked = blocking(move || {
        let checked = with.check_snapshot(read.stream.0, &read.ranges, &read.back);
        checked.map_err(|error| error.to_string())
    });
    if checked.await? != mark {
        return Err("the engine has another snapshot than was stored".to_owned());
    }
    engine
        .purge(place.stream, mark.seq + 1)
        .await
        .map_err(text)?;
    engine.forget_snapshots(place.stream).await.map_err(text)?;
    Ok(Stored {
        mark,
        entries: moved.entries,
        bytes: moved.bytes,
    })
}

/// Reads a snapshot that was just stored. A copy of the bucket that is asked may not have it yet.
async fn read_back(engine: &Engine, place: &Place, seq: Seq) -> Result<(), EngineError> {
    let clock = SystemClock::new();
    let until = clock.now() + BACK_WITHIN;
    loop {
        match engine.load_snapshot(place.stream, seq, &place.back).await {
            Err(_) if clock.now() < until => tokio::time::sleep(BACK_PAUSE).await,
            read => return read,
        }
    }
}

/// Fetches the newest snapshot of the stream, to be loaded.
pub(super) async fn fetch(engine: &Engine, place: &Place) -> Result<(), String> {
    place.clean();
    let text = |error: EngineError| error.to_string();
    let snapshots = engine.snapshots(place.stream).await.map_err(text)?;
    let newest = snapshots.last().ok_or("the stream has no snapshot")?;
    let loaded = engine.load_snapshot(place.stream, *newest, &place.back);
    loaded.await.map_err(text)
}
