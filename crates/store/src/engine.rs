//! What the store needs from a storage engine: ordered keys in six spaces, atomic batches,
//! snapshots. Owns the trait and the batch; deliberately small, so that an engine can be replaced,
//! wrapped or kept in memory. Keys and values have no meaning here.

pub(crate) mod faulty;
pub(crate) mod fjall;
pub(crate) mod memory;

use std::ops::ControlFlow;

use byteview::ByteView;

use crate::error::StoreError;
use crate::store::Durability;

/// A key space of its own: tuned, flushed and compacted apart from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// Schema, slot key, positions of ranges, counts.
    Meta = 0,
    /// One small value per user that changes with every message.
    Head = 1,
    /// One larger value per user that changes when the user changes something.
    State = 2,
    /// Entries of logs with what recognises and finds them.
    Log = 3,
    /// vCards and private storage.
    Blob = 4,
    /// One value per user who has sessions that can be resumed, or messages to hand over.
    Session = 5,
}

impl Space {
    /// All spaces, in the order of their numbers.
    pub const ALL: [Space; 6] = [
        Space::Meta,
        Space::Head,
        Space::State,
        Space::Log,
        Space::Blob,
        Space::Session,
    ];

    /// The space with this number.
    pub fn from_index(index: u8) -> Option<Space> {
        Space::ALL.get(usize::from(index)).copied()
    }

    /// `0..6`.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Receives key and value of one entry and says whether to go on.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>;

/// Reads. Both a snapshot and an engine (its newest state) can be read.
pub trait Reader: Send {
    /// The value of one key.
    ///
    /// # Errors
    /// Any [`StoreError`] of the engine.
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Visits entries with `start <= key < end` in key order; an empty `end` means "to the last
    /// one".
    ///
    /// # Errors
    /// Any [`StoreError`] of the engine; entries visited before it were good.
    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;

    /// The same from the last entry to the first.
    ///
    /// # Errors
    /// As [`Reader::scan`].
    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;
}

/// One change of a batch: a new value, or none to delete the key. Both are shared bytes, which an
/// engine can keep as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where.
    pub space: Space,
    /// The key.
    pub key: ByteView,
    /// The value from now on.
    pub value: Option<ByteView>,
}

/// Changes that become visible, and durable, together or not at all. At most one for each key.
pub type Batch = Vec<Change>;

/// What an engine says of itself, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct EngineStats {
    /// Bytes on disk, journals included.
    pub disk_bytes: u64,
    /// Bytes in write buffers.
    pub write_buffer_bytes: u64,
    /// Bytes in the block cache.
    pub cache_bytes: u64,
    /// How often it was reopened in process after a failure.
    pub reopened: u64,
}

/// A storage engine. There is one writer at a time; readers are many.
pub trait Engine: Reader + Sync {
    /// A consistent view of everything committed so far. Held only as long as needed: an engine
    /// that must be reopened ends it, and its reads fail with [`StoreError::Unavailable`] from then
    /// on.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while the engine is closed.
    fn snapshot(&self) -> Result<Box<dyn Reader>, StoreError>;

    /// Commits a batch. With [`Durability::Fsync`] it, and everything committed before it, is on
    /// the disk when this returns; an empty batch makes what came before durable.
    ///
    /// # Errors
    /// After an error it is in doubt whether the batch survives, if the engine is not settled then.
    /// It may refuse every further commit until [`Engine::heal`].
    fn commit(&self, batch: Batch, durability: Durability) -> Result<(), StoreError>;

    /// Makes writing possible again after a failed commit, by reopening if that is what it takes;
    /// cheap if nothing is wrong. What it finds after reopening is durable before it returns.
    ///
    /// # Errors
    /// The reason why writing is still not possible. Reads may still work.
    fn heal(&self) -> Result<(), StoreError>;

    /// Whether it is known of every batch if it survives: not from a failed commit, unless that was
    /// refused before anything was written, until [`Engine::heal`] succeeds.
    fn is_settled(&self) -> bool;

    /// Sizes for operators.
    fn stats(&self) -> EngineStats;
}
