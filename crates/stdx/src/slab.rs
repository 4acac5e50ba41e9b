//! A slab with generational keys, stored in chunks.
//!
//! Owns: stable small indices for values that come and go, and the guarantee that a key of a
//! removed value never reaches its successor. Deliberately not here: shrinking. Entries that were
//! once used stay allocated (their generation must be remembered) and are reused first.
//!
//! Storage grows by chunks instead of doubling, so a slab of a million entries never copies itself
//! and never holds twice its need.

/// Entries in one chunk. Small enough that a slab with one value costs little.
const CHUNK: usize = 64;
const CHUNK_BITS: u32 = 6;
const NONE: u32 = u32::MAX;

/// The name of one value in a [`Slab`]: an index and the generation of the entry at that index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// Position of the entry.
    pub index: u32,
    /// How often the entry was reused before this value moved in.
    pub generation: u32,
}

impl Key {
    /// A key that no slab ever hands out.
    pub const DEAD: Key = Key {
        index: NONE,
        generation: NONE,
    };
}

#[derive(Debug)]
enum Content<T> {
    Vacant { next: u32 },
    Occupied(T),
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    content: Content<T>,
}

/// Values addressed by [`Key`]. Insert, look up and remove are O(1).
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Vec<Entry<T>>>,
    free: u32,
    len: u32,
    used: u32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    /// An empty slab; nothing is allocated until the first insert.
    pub const fn new() -> Self {
        Slab {
            chunks: Vec::new(),
            free: NONE,
            len: 0,
            used: 0,
        }
    }

    /// Number of values present.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether no value is present.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The key that the next [`insert`](Self::insert) will return.
    pub fn next_key(&self) -> Key {
        match self.entry(self.free) {
            Some(entry) => Key {
                index: self.free,
                generation: entry.generation,
            },
            None => Key {
                index: self.used,
                generation: 0,
            },
        }
    }

    /// All keys, in index order.
    pub fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }

    /// Stores `value` and names it.
    ///
    /// # Panics
    /// When 2^32 - 1 entries are in use; owners bound their slabs far below that.
    pub fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        if self.free != NONE {
            let index = self.free;
            let entry = &mut self.chunks[index as usize >> CHUNK_BITS][index as usize % CHUNK];
            if let Content::Vacant { next } = entry.content {
                self.free = next;
            }
            entry.content = Content::Occupied(value);
            return Key {
                index,
                generation: entry.generation,
            };
        }
        let index = self.used;
        assert!(index < NONE, "slab is full");
        self.used += 1;
        if (index as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        self.chunks[index as usize >> CHUNK_BITS].push(Entry {
            generation: 0,
            content: Content::Occupied(value),
        });
        Key {
            index,
            generation: 0,
        }
    }

    fn entry(&self, index: u32) -> Option<&Entry<T>> {
        self.chunks
            .get(index as usize >> CHUNK_BITS)?
            .get(index as usize % CHUNK)
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry<T>> {
        self.chunks
            .get_mut(index as usize >> CHUNK_BITS)?
            .get_mut(index as usize % CHUNK)
    }

    /// The value named by `key`, unless it was removed.
    pub fn get(&self, key: Key) -> Option<&T> {
        match self.entry(key.index) {
            Some(Entry {
                generation,
                content: Content::Occupied(value),
            }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// The value named by `key`, unless it was removed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.entry_mut(key.index) {
            Some(Entry {
                generation,
                content: Content::Occupied(value),
            }) if *generation == key.generation => Some(value),
            _ => None,
        }
    }

    /// Whether `key` still names a value.
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// The full key of whatever lives at `index` now.
    pub fn key_at(&self, index: u32) -> Option<Key> {
        match self.entry(index) {
            Some(Entry {
                generation,
                content: Content::Occupied(_),
            }) => Some(Key {
                index,
                generation: *generation,
            }),
            _ => None,
        }
    }

    /// Takes the value out. Its key is dead from then on.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let free = self.free;
        let entry = self.entry_mut(key.index)?;
        if entry.generation != key.generation || matches!(entry.content, Content::Vacant { .. }) {
            return None;
        }
        // The last generation is never handed out again: the entry retires instead of wrapping.
        let retired = entry.generation == NONE - 1;
        entry.generation = entry.generation.saturating_add(1);
        let next = if retired { NONE } else { free };
        let content = std::mem::replace(&mut entry.content, Content::Vacant { next });
        if !retired {
            self.free = key.index;
        }
        self.len -= 1;
        match content {
            Content::Occupied(value) => Some(value),
            Content::Vacant { .. } => None,
        }
    }

    /// All values with their keys, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.chunks
            .iter()
            .flatten()
            .zip(0u32..)
            .filter_map(|(entry, index)| match &entry.content {
                Content::Occupied(value) => Some((
                    Key {
                        index,
                        generation: entry.generation,
                    },
                    value,
                )),
                Content::Vacant { .. } => None,
            })
    }

    /// All values with their keys, in index order.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.chunks
            .iter_mut()
            .flatten()
            .zip(0u32..)
            .filter_map(|(entry, index)| match &mut entry.content {
                Content::Occupied(value) => Some((
                    Key {
                        index,
                        generation: entry.generation,
                    },
                    value,
                )),
                Content::Vacant { .. } => None,
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removed_key_never_reaches_its_successor() {
        let mut slab = Slab::new();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first), Some("a"));
        let second = slab.insert("b");
        assert_eq!(first.index, second.index);
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&"b"));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn grows_over_chunk_borders_and_iterates_in_order() {
        let mut slab = Slab::new();
        let keys: Vec<Key> = (0..1000).map(|n| slab.insert(n)).collect();
        for key in keys.iter().step_by(2) {
            slab.remove(*key);
        }
        let left: Vec<i32> = slab.iter().map(|(_, n)| *n).collect();
        assert_eq!(left, (0..1000).filter(|n| n % 2 == 1).collect::<Vec<_>>());
        assert_eq!(slab.key_at(1), Some(keys[1]));
        assert_eq!(slab.key_at(0), None);
        let next = slab.next_key();
        assert_eq!(slab.insert(7), next);
    }

    #[test]
    fn exhausted_generation_retires_the_entry() {
        let mut slab = Slab::new();
        let key = slab.insert(1);
        slab.chunks[0][0].generation = NONE - 1;
        let last = Key {
            index: key.index,
            generation: NONE - 1,
        };
        assert_eq!(slab.remove(last), Some(1));
        assert_ne!(slab.insert(2).index, last.index);
    }
}
