//! Snapshots in the engine's object store: by stream and sequence, the newest last. Owns their
//! names and how many are kept; what is in them is the store's business.

use std::collections::BTreeSet;
use std::path::Path;

use async_nats::jetstream::object_store::ObjectStore;
use futures_util::StreamExt;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Engine, EngineError, failed, silent};
use crate::journal::Seq;
use crate::layout::StreamId;

/// Snapshots of a stream that are kept: the last verified one, and the one before.
const SNAPSHOTS_MAX: usize = 2;

/// What is read of a snapshot at once: the engine has it in parts of as much.
const READ_BYTES: usize = 128 * 1024;

fn name(stream: StreamId, seq: Seq) -> String {
    // With leading zeros, so that the order of names is that of sequences.
    format!("{}.{seq:020}", stream.0)
}

fn parse(stream: StreamId, name: &str) -> Option<Seq> {
    let (of, seq) = name.split_once('.')?;
    (of == stream.0.to_string()).then(|| seq.parse().ok())?
}

fn file_error(error: std::io::Error) -> EngineError {
    EngineError::File(error.to_string())
}

/// What the engine says if it has no room: the library passes its words on, and no code.
fn is_full(why: &str) -> bool {
    let words = [
        "maximum bytes exceeded",
        "insufficient",
        "resource limits exceeded",
    ];
    words.iter().any(|word| why.contains(word))
}

impl Engine {
    pub(super) async fn bucket(&self) -> Result<ObjectStore, EngineError> {
        let bucket = self.layout.snapshot_bucket();
        let asked = format!("bucket {bucket}");
        let found = self.jetstream.get_object_store(&bucket);
        let found = self.ask(self.answer_within, found).await;
        let found = found.ok_or_else(|| silent(&asked, &"no answer"))?;
        found.map_err(|error| failed(&asked)(&error))
    }

    /// Stores a file as the snapshot at a sequence.
    ///
    /// # Errors
    /// What the engine or the file said. A part that was stored is found by nobody.
    pub async fn put_snapshot(
        &self,
        stream: StreamId,
        seq: Seq,
        file: &Path,
    ) -> Result<(), EngineError> {
        let opened = File::open(file).await;
        let mut from = opened.map_err(file_error)?;
        let name = name(stream, seq);
        let put = self.bucket().await?.put(name.as_str(), &mut from).await;
        put.map(drop).map_err(|error| {
            let why = error.to_string();
            match is_full(&why) {
                true => EngineError::Full {
                    bucket: self.layout.snapshot_bucket(),
                    why,
                },
                false => failed(format!("snapshot {name}"))(&why),
            }
        })
    }

    /// The streams of which there is a snapshot.
    ///
    /// # Errors
    /// What the engine said: nobody answered, as a rule.
    pub async fn saved(&self) -> Result<BTreeSet<StreamId>, EngineError> {
        let asked = "the list of snapshots";
        let listed = self.bucket().await?.list().await;
        let mut listed = listed.map_err(|error| silent(asked, &error))?;
        let mut saved = BTreeSet::new();
        while let Some(info) = self.part(asked, listed.next()).await? {
            let info = info.map_err(|error| silent(asked, &error))?;
            let of = info.name.split_once('.').map(|(of, _)| of.parse());
            if let Some(Ok(stream)) = of {
                saved.insert(StreamId(stream));
            }
        }
        Ok(saved)
    }

    /// The sequences of a stream's snapshots, oldest first.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn snapshots(&self, stream: StreamId) -> Result<Vec<Seq>, EngineError> {
        let asked = format!("snapshots of stream {}", stream.0);
        let fail = || failed(&asked);
        let listed = self.bucket().await?.list().await;
        let mut listed = listed.map_err(|error| fail()(&error))?;
        let mut found = Vec::new();
        while let Some(info) = self.part(&asked, listed.next()).await? {
            let info = info.map_err(|error| fail()(&error))?;
            found.extend(parse(stream, &info.name));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Writes the snapshot at a sequence to a new file. The engine's own checksum is compared on
    /// the way.
    ///
    /// # Errors
    /// What the engine or the file said; the file is of no use then.
    pub async fn load_snapshot(
        &self,
        stream: StreamId,
        seq: Seq,
        file: &Path,
    ) -> Result<(), EngineError> {
        let name = name(stream, seq);
        let asked = format!("snapshot {name}");
        let fail = || failed(&asked);
        let found = self.bucket().await?.get(&name).await;
        let mut object = found.map_err(|error| fail()(&error))?;
        let mut to = File::create(file).await.map_err(file_error)?;
        let mut bytes = vec![0; READ_BYTES];
        loop {
            let read = self.part(&asked, object.read(&mut bytes)).await?;
            match read.map_err(|error| fail()(&error))? {
                0 => return to.flush().await.map_err(file_error),
                read => to.write_all(&bytes[..read]).await.map_err(file_error)?,
            }
        }
    }

    /// Removes the snapshot at a sequence.
    ///
    /// # Errors
    /// What the engine said, also if there is none.
    pub async fn remove_snapshot(&self, stream: StreamId, seq: Seq) -> Result<(), EngineError> {
        let name = name(stream, seq);
        let deleted = self.bucket().await?.delete(&name).await;
        deleted.map_err(|error| failed(format!("snapshot {name}"))(&error))
    }

    /// Removes all but the newest snapshots of a stream.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn forget_snapshots(&self, stream: StreamId) -> Result<(), EngineError> {
        let snapshots = self.snapshots(stream).await?;
        let too_many = snapshots.len().saturating_sub(SNAPSHOTS_MAX);
        for seq in &snapshots[..too_many] {
            self.remove_snapshot(stream, *seq).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_snapshots_sort_like_their_sequences() {
        let (old, new) = (name(StreamId(3), 9), name(StreamId(3), 10));
        assert!(old < new);
        assert_eq!(parse(StreamId(3), &new), Some(10));
        assert_eq!(parse(StreamId(1), &new), None);
        assert_eq!(parse(StreamId(3), "other"), None);
    }
}
