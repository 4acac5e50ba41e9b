//! Snapshots on their way between the local store and the engine. Owns the files they pass through
//! and the order: stored, read back, checked, and only then is anything purged. What could not be
//! checked is taken away again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use stdx::{Clock as _, SystemClock};
use store::{Follower, RangeId, Store, StreamMark};

use super::{Stored, Writing};
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
    /// Read back here.
    back: PathBuf,
    /// Fetched here, to be loaded: an operator may have another one stored meanwhile.
    fetched: PathBuf,
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
            fetched: file("fetched"),
        }
    }

    /// Loads what was fetched. Nothing of this stream may be applied meanwhile; other streams go
    /// on.
    pub(super) async fn load(&self, follower: &Writing) -> Result<StreamMark, String> {
        let (place, follower) = (self.clone(), Arc::clone(follower));
        let loaded = blocking(move || {
            let lock = || follower.blocking_lock();
            let loaded = Follower::load_shared(lock, place.stream.0, &place.ranges, &place.fetched);
            loaded.map_err(|error| error.to_string())
        });
        let loaded = loaded.await;
        self.forget_fetched();
        loaded
    }

    /// What was fetched is not needed, or not there.
    pub(super) fn forget_fetched(&self) {
        let _ = fs::remove_file(&self.fetched);
    }

    /// What storing one may have left is not there as a rule.
    fn clean(&self) {
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

/// Where the snapshots of a deployment are: the engine, or what stands for it in a test.
pub(super) trait Shelf: Sync {
    /// Stores a file as the snapshot of a stream at a sequence.
    fn put(&self, of: StreamId, seq: Seq, file: &Path) -> impl Answers<()>;
    /// Writes it to a new file.
    fn get(&self, of: StreamId, seq: Seq, file: &Path) -> impl Answers<()>;
    /// Those of a stream, oldest first.
    fn list(&self, of: StreamId) -> impl Answers<Vec<Seq>>;
    /// Removes one.
    fn remove(&self, of: StreamId, seq: Seq) -> impl Answers<()>;
    /// Removes all of a stream but those that are kept.
    fn forget(&self, of: StreamId) -> impl Answers<()>;
    /// Removes what attempts of before have left.
    fn forget_parts(&self) -> impl Answers<()>;
    /// The first message that the stream has, as its leader says; nothing if it is silent.
    fn first(&self, of: StreamId) -> impl Future<Output = Option<Seq>> + Send;
    /// Forgets all messages of the stream before this one.
    fn purge(&self, of: StreamId, before: Seq) -> impl Answers<()>;
}

/// An answer that comes.
pub(super) trait Answers<T>: Future<Output = Result<T, EngineError>> + Send {}

impl<T, F: Future<Output = Result<T, EngineError>> + Send> Answers<T> for F {}

impl Shelf for Engine {
    fn put(&self, of: StreamId, seq: Seq, file: &Path) -> impl Answers<()> {
        self.put_snapshot(of, seq, file)
    }

    fn get(&self, of: StreamId, seq: Seq, file: &Path) -> impl Answers<()> {
        self.load_snapshot(of, seq, file)
    }

    fn list(&self, of: StreamId) -> impl Answers<Vec<Seq>> {
        self.snapshots(of)
    }

    fn remove(&self, of: StreamId, seq: Seq) -> impl Answers<()> {
        self.remove_snapshot(of, seq)
    }

    fn forget(&self, of: StreamId) -> impl Answers<()> {
        self.forget_snapshots(of)
    }

    async fn forget_parts(&self) -> Result<(), EngineError> {
        Engine::forget_parts(self, PARTS_KEPT).await.map(drop)
    }

    async fn first(&self, of: StreamId) -> Option<Seq> {
        self.bounds(of).await.map(|(first, _)| first)
    }

    fn purge(&self, of: StreamId, before: Seq) -> impl Answers<()> {
        Engine::purge(self, of, before)
    }
}

fn text(error: EngineError) -> String {
    error.to_string()
}

/// Stores a snapshot, checks it, purges behind it, and forgets all but the newest.
pub(super) async fn store(
    shelf: &impl Shelf,
    store: &Store,
    place: &Place,
) -> Result<Stored, String> {
    let stored = try_store(shelf, store, place).await;
    place.clean();
    // What is left of attempts of before is in nobody's way; it is looked for again next time.
    let _ = shelf.forget_parts().await;
    stored
}

async fn try_store(shelf: &impl Shelf, store: &Store, place: &Place) -> Result<Stored, String> {
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
    let stream = place.stream;
    let was_there = shelf.list(stream).await.map_err(text)?.contains(&mark.seq);
    if let Err(why) = put_and_verify(shelf, store, place, mark).await {
        if !was_there {
            take_away(shelf, stream, mark.seq).await;
        }
        return Err(why);
    }
    // It is verified, and stays whatever is said of the purge: one without an answer may be done.
    let purged = shelf.purge(stream, mark.seq + 1).await;
    shelf.forget(stream).await.map_err(text)?;
    purged.map_err(text)?;
    Ok(Stored {
        mark,
        entries: moved.entries,
        bytes: moved.bytes,
    })
}

async fn put_and_verify(
    shelf: &impl Shelf,
    store: &Store,
    place: &Place,
    mark: StreamMark,
) -> Result<(), String> {
    let put = shelf.put(place.stream, mark.seq, &place.out);
    put.await.map_err(text)?;
    read_back(shelf, place, mark.seq).await.map_err(text)?;
    if check(store, place, &place.back).await? != mark {
        return Err("the engine has another snapshot than was stored".to_owned());
    }
    Ok(())
}

/// Checks what was read back, or fetched.
async fn check(store: &Store, place: &Place, file: &Path) -> Result<StreamMark, String> {
    let (with, place, file) = (store.clone(), place.clone(), file.to_owned());
    let checked = blocking(move || {
        let checked = with.check_snapshot(place.stream.0, &place.ranges, &file);
        checked.map_err(|error| error.to_string())
    });
    checked.await
}

/// Removes a snapshot that is not good, or of which nobody knows, so that attempts do not fill the
/// engine. Another node may have verified one of the same message meanwhile, and purged the stream
/// behind it: then it is all that there is.
async fn take_away(shelf: &impl Shelf, stream: StreamId, seq: Seq) {
    if shelf.first(stream).await.is_some_and(|first| first <= seq) {
        // Without an answer it stays until two newer ones are stored.
        let _ = shelf.remove(stream, seq).await;
    }
}

/// Reads a snapshot that was just stored. A copy of the bucket that is asked may not have it yet.
async fn read_back(shelf: &impl Shelf, place: &Place, seq: Seq) -> Result<(), EngineError> {
    let clock = SystemClock::new();
    let until = clock.now() + BACK_WITHIN;
    loop {
        match shelf.get(place.stream, seq, &place.back).await {
            // A disk that is full here is full the next time, too.
            Err(EngineError::File(error)) => return Err(EngineError::File(error)),
            Err(_) if clock.now() < until => tokio::time::sleep(BACK_PAUSE).await,
            read => return read,
        }
    }
}

/// Fetches the newest good snapshot of the stream, to be loaded: one behind which the stream has
/// all that follows.
pub(super) async fn fetch(shelf: &impl Shelf, store: &Store, place: &Place) -> Result<(), String> {
    let snapshots = shelf.list(place.stream).await.map_err(text)?;
    let mut failed = None;
    for seq in snapshots.into_iter().rev() {
        // An older one is of no use if the stream was purged behind the next.
        if failed.is_some() {
            let first = shelf.first(place.stream).await;
            if first.is_none_or(|first| first > seq + 1) {
                break;
            }
        }
        match try_fetch(shelf, store, place, seq).await {
            Ok(()) => return Ok(()),
            // What is wrong with the newest is what has to be mended.
            Err(why) => drop(failed.get_or_insert(why)),
        }
    }
    place.forget_fetched();
    Err(failed.unwrap_or_else(|| "the stream has no snapshot".to_owned()))
}

async fn try_fetch(
    shelf: &impl Shelf,
    store: &Store,
    place: &Place,
    seq: Seq,
) -> Result<(), String> {
    place.forget_fetched();
    let fetched = shelf.get(place.stream, seq, &place.fetched).await;
    fetched.map_err(text)?;
    match check(store, place, &place.fetched).await? {
        mark if mark.seq == seq => Ok(()),
        _ => Err(format!("the snapshot at {seq} is of another message")),
    }
}

#[cfg(test)]
mod tests;
