//! The engine in memory: for tests, simulation and throw-away servers. Keeps nothing across
//! processes.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

use byteview::ByteView;

use crate::engine::{Batch, Engine, EngineStats, Reader, Space, Visit};
use crate::error::StoreError;
use crate::store::Durability;

type Maps = [BTreeMap<ByteView, ByteView>; Space::ALL.len()];

/// All spaces as ordered maps. A snapshot shares them; the first commit after it copies.
#[derive(Default)]
pub struct MemoryEngine {
    maps: RwLock<Arc<Maps>>,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> MemoryEngine {
        MemoryEngine::default()
    }

    fn maps(&self) -> Arc<Maps> {
        // A panic inside `commit` cannot leave a torn map behind that matters: the panicking
        // writer's group is reported as failed.
        Arc::clone(&self.maps.read().unwrap_or_else(PoisonError::into_inner))
    }
}

struct MemorySnapshot(Arc<Maps>);

impl MemorySnapshot {
    /// The entries of a scan.
    fn run(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
    ) -> impl DoubleEndedIterator<Item = (&ByteView, &ByteView)> {
        let upper = if end.is_empty() {
            Bound::Unbounded
        } else {
            // A map refuses an end in front of the start.
            Bound::Excluded(end.max(start))
        };
        self.0[space.index()].range::<[u8], _>((Bound::Included(start), upper))
    }
}

fn visit_all<'a>(entries: impl Iterator<Item = (&'a ByteView, &'a ByteView)>, visit: Visit<'_>) {
    for (key, value) in entries {
        if visit(key, value).is_break() {
            break;
        }
    }
}

impl Reader for MemorySnapshot {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.0[space.index()].get(key).map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        visit_all(self.run(space, start, end), visit);
        Ok(())
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        visit_all(self.run(space, start, end).rev(), visit);
        Ok(())
    }
}

impl Reader for MemoryEngine {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.maps()[space.index()]
            .get(key)
            .map(|value| value.to_vec()))
    }

    fn scan(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        MemorySnapshot(self.maps()).scan(space, start, end, visit)
    }

    fn scan_back(
        &self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError> {
        MemorySnapshot(self.maps()).scan_back(space, start, end, visit)
    }
}

impl Engine for MemoryEngine {
    fn snapshot(&self) -> Result<Box<dyn Reader>, StoreError> {
        Ok(Box::new(MemorySnapshot(self.maps())))
    }

    fn commit(&self, batch: Batch, _: Durability) -> Result<(), StoreError> {
        let mut guard = self.maps.write().unwrap_or_else(PoisonError::into_inner);
        let maps = Arc::make_mut(&mut guard);
        for change in batch {
            let map = &mut maps[change.space.index()];
            match change.value {
                Some(value) => drop(map.insert(change.key, value)),
                None => drop(map.remove(&change.key)),
            }
        }
        Ok(())
    }

    fn heal(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn is_settled(&self) -> bool {
        true
    }

    fn stats(&self) -> EngineStats {
        let bytes = |map: &BTreeMap<ByteView, ByteView>| -> u64 {
            map.iter()
                .map(|(key, value)| (key.len() + value.len()) as u64)
                .sum()
        };
        EngineStats {
            write_buffer_bytes: self.maps().iter().map(bytes).sum(),
            ..EngineStats::default()
        }
    }
}
