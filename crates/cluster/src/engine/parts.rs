//! Parts of snapshots that were never stored to their end: the engine keeps them, and nobody finds
//! them. Owns which those are; a snapshot that is being stored has new parts all the time.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt;
use stdx::{Clock, SystemClock};

use super::{Engine, EngineError, failed};

/// Parts that are older than this, and of no snapshot, are of none that is being stored: each part
/// waits for its acknowledgement, for seconds at most.
pub(crate) const PARTS_KEPT: Duration = Duration::from_secs(600);

impl Engine {
    /// Removes such parts if the newest of them is older than `kept`. Returns of how many
    /// snapshots.
    ///
    /// # Errors
    /// What the engine said.
    pub async fn forget_parts(&self, kept: Duration) -> Result<usize, EngineError> {
        let bucket = self.layout.snapshot_bucket();
        let fail = || failed(format!("parts of snapshots in {bucket}"));
        let handle = self.jetstream.get_stream(format!("OBJ_{bucket}")).await;
        let handle = handle.map_err(|error| fail()(&error))?;
        let found = handle.info_with_subjects(format!("$O.{bucket}.C.>")).await;
        let mut found = found.map_err(|error| fail()(&error))?;
        let mut parts = Vec::new();
        while let Some(subject) = self.part("parts of snapshots", found.next()).await? {
            parts.push(subject.map_err(|error| fail()(&error))?.0);
        }
        // Read behind the parts: what is stored meanwhile is of a snapshot.
        let known = self.names_of_parts().await?;
        let is_known = |subject: &str| {
            subject
                .rsplit('.')
                .next()
                .is_some_and(|n| known.contains(n))
        };
        let now = SystemClock::new().wall().as_millis() / 1_000;
        let kept = i64::try_from(kept.as_secs()).unwrap_or(i64::MAX);
        let mut forgotten = 0;
        for subject in parts.iter().filter(|subject| !is_known(subject)) {
            let Ok(last) = handle.get_last_raw_message_by_subject(subject).await else {
                continue;
            };
            if now.saturating_sub(last.time.unix_timestamp()) < kept {
                continue;
            }
            let purged = handle.purge().filter(subject.as_str()).await;
            purged.map_err(|error| fail()(&error))?;
            forgotten += 1;
        }
        Ok(forgotten)
    }

    /// Under which names the parts of stored snapshots are.
    async fn names_of_parts(&self) -> Result<BTreeSet<String>, EngineError> {
        let asked = "the list of snapshots";
        let fail = || failed(asked);
        let listed = self.bucket().await?.list().await;
        let mut listed = listed.map_err(|error| fail()(&error))?;
        let mut names = BTreeSet::new();
        while let Some(info) = self.part(asked, listed.next()).await? {
            names.insert(info.map_err(|error| fail()(&error))?.nuid);
        }
        Ok(names)
    }
}
