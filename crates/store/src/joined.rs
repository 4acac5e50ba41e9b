//! Which deployment's data a store holds. Owns the one key that says so, and the two changes of a
//! store as a whole: a single server's data becomes the beginning of a deployment's streams, and a
//! node's data becomes that of a server that stands alone. What a deployment is is decided by the
//! caller.
//!
//! | key `joined` | marks of streams | the store is |
//! |---|---|---|
//! | none | none | of a server that stands alone, or new |
//! | none | some | of a node of a deployment that began empty |
//! | an id | any | of a node of the deployment with this id, which a single server's data began |

use std::sync::Arc;

use crate::engine::{Change, Engine, Space};
use crate::error::StoreError;
use crate::follower::{StreamMark, read_stream};
use crate::journal::{Position, read_position};
use crate::keys;
use crate::slot::{RANGES, RangeId};
use crate::store::{Durability, Store, read_epoch};

/// Names a deployment that a single server's data began.
pub type DeploymentId = [u8; 16];

/// Where a stream stands that begins with a single server's data: behind the one message that says
/// that the rest is in a snapshot.
pub const BEGINNING: StreamMark = StreamMark { seq: 1, epoch: 0 };

impl Store {
    /// The deployment whose data this is, if it is one with an id.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn deployment(&self) -> Result<Option<DeploymentId>, StoreError> {
        let Some(value) = self.snapshot()?.get(Space::Meta, keys::JOINED)? else {
            return Ok(None);
        };
        let id = value.as_slice().try_into();
        let id = id.map_err(|_| StoreError::Corrupt("id of a deployment".to_owned()))?;
        Ok(Some(id))
    }

    /// Whether anything was ever written to it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn holds_anything(&self) -> Result<bool, StoreError> {
        let snapshot = self.snapshot()?;
        for range in RangeId::all() {
            if read_position(&*snapshot, range)? != Position::default() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How far a stream was applied.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn stream_mark(&self, stream: u16) -> Result<StreamMark, StoreError> {
        read_stream(&*self.snapshot()?, stream)
    }

    /// How often sequence numbers began anew: other nodes must not begin below that.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn numbering(&self) -> Result<u64, StoreError> {
        read_epoch(&*self.snapshot()?)
    }

    /// From now on this is a store of that deployment, and what it holds is the [`BEGINNING`] of
    /// its first `streams` streams (0: it holds nothing, and is filled by them). Durable on return,
    /// with all that was written before.
    ///
    /// # Errors
    /// [`StoreError::HasWriter`] while a journal is running, or any of the engine: nothing was
    /// changed.
    pub fn join(&self, id: DeploymentId, streams: u16) -> Result<(), StoreError> {
        let _writer = self.writer()?;
        let put = |key: &[u8], value: &[u8]| Change {
            space: Space::Meta,
            key: key.into(),
            value: Some(value.into()),
        };
        let mut batch = vec![put(keys::JOINED, &id)];
        let marks = (0..streams).map(|one| put(&keys::stream(one), &BEGINNING.encode()));
        batch.extend(marks);
        self.engine().commit(batch, Durability::Fsync)
    }

    /// From now on this is the store of a server that stands alone.
    ///
    /// # Errors
    /// [`StoreError::HasWriter`] while a journal is running, or any of the engine: nothing was
    /// changed.
    pub fn stand_alone(&self) -> Result<(), StoreError> {
        let _writer = self.writer()?;
        let engine: Arc<dyn Engine> = self.engine();
        forget_streams(&*engine)
    }
}

/// Forgets the deployment, its streams and the hashes that its nodes compare.
pub(crate) fn forget_streams(engine: &dyn Engine) -> Result<(), StoreError> {
    let delete = |key: &[u8]| Change {
        space: Space::Meta,
        key: key.into(),
        value: None,
    };
    let mut batch = vec![delete(keys::JOINED)];
    batch.extend((0..RANGES).map(|stream| delete(&keys::stream(stream))));
    batch.extend(RangeId::all().map(|range| delete(&keys::hash(range))));
    engine.commit(batch, Durability::Fsync)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backup::restore;
    use crate::follower::Follower;
    use crate::record::Record;
    use crate::store::Options;

    fn account(user: &str) -> Record {
        Record::AccountPut {
            user: user.to_owned(),
            account: crate::Account {
                created: stdx::time::Timestamp::from_millis(7),
                locked: false,
                scram: Vec::new(),
            },
        }
    }

    /// Goal: a single server's store begins a deployment's streams with all that it holds; the
    /// backup of a node is restored as a single server's store with the same content, and numbers
    /// never go back.
    #[test]
    fn a_store_joins_a_deployment_and_leaves_it_by_a_backup() {
        let folder = tempfile::tempdir().unwrap();
        let (first, file) = (folder.path().join("first"), folder.path().join("backup"));
        let store = Store::open(&first, &Options::default()).unwrap();
        assert!(!store.holds_anything().unwrap());
        store.bulk([account("a@x"), account("b@x")]).unwrap();
        assert!(store.holds_anything().unwrap());
        assert_eq!(store.deployment().unwrap(), None);
        assert!(!store.follows_streams().unwrap());
        store.join([9; 16], 4).unwrap();
        assert_eq!(store.deployment().unwrap(), Some([9; 16]));
        assert!(store.follows_streams().unwrap());
        assert_eq!(store.stream_mark(3).unwrap(), BEGINNING);
        assert_eq!(store.stream_mark(4).unwrap(), StreamMark::default());
        let numbering = store.numbering().unwrap();
        let follower = Follower::new(&store).unwrap();
        assert_eq!(follower.stream(3).unwrap(), BEGINNING);
        assert!(store.stand_alone().is_err(), "while it is followed");
        drop(follower);
        store.backup(&file).unwrap();
        store.stand_alone().unwrap();
        assert_eq!(store.deployment().unwrap(), None);
        assert!(!store.follows_streams().unwrap());
        let second = folder.path().join("second");
        restore(&file, &second, &Options::default()).unwrap();
        let restored = Store::open(&second, &Options::default()).unwrap();
        assert_eq!(restored.deployment().unwrap(), None);
        assert!(!restored.follows_streams().unwrap());
        assert_eq!(restored.count_accounts(None).unwrap(), 2);
        assert!(restored.numbering().unwrap() > numbering);
        drop((store, restored));
        for path in [&first, &second] {
            let report = crate::verify(path, &Options::default()).unwrap();
            assert!(report.is_good(), "{report}");
        }
    }

    /// Goal: all nodes of a deployment begin their numbers at the same, however often each was
    /// started, and a store that stands alone begins anew with each start that may have lost some.
    #[test]
    fn nodes_begin_their_numbers_at_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let open = |numbering, durability| {
            let options = Options {
                numbering,
                durability,
                ..Options::default()
            };
            let store = Store::open(&folder.path().join("store"), &options).unwrap();
            (store.numbering().unwrap(), store.first_head().next_seq)
        };
        let first = |numbering: u64| (numbering << crate::limits::SEQ_EPOCH_SHIFT) + 1;
        for _ in 0..3 {
            assert_eq!(open(Some(4), Durability::Memory), (4, first(4)));
        }
        assert_eq!(open(None, Durability::Fsync), (4, first(4)));
        assert_eq!(open(None, Durability::Memory), (5, first(5)));
        assert_eq!(open(Some(4), Durability::Memory), (5, first(4)));
    }
}
