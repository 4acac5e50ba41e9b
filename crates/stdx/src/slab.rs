//! A slab with generational keys, stored in chunks.
//!
//! Owns: stable small indices for values that come and go, and the guarantee that a key of a
//! removed value never reaches its successor. Entries that were once used are reused first.
//!
//! Storage grows by chunks instead of doubling, so a slab of a million entries never copies itself
//! and never holds twice its need. Chunks in which nothing is left are given back, but for a few: a
//! storm leaves no memory behind. Of such a chunk the highest generation is remembered.

/// Entries in one chunk. Small enough that a slab with one value costs little.
const CHUNK: usize = 64;
const CHUNK_BITS: u32 = 6;
const NONE: u32 = u32::MAX;

/// So many chunks in which nothing is left are kept: a slab that is small, or grows and shrinks by
/// as much, gives nothing back.
const EMPTY_KEPT: usize = 16;

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

#[derive(Debug)]
struct Chunk<T> {
    /// None if it was given back.
    entries: Vec<Entry<T>>,
    /// Of its entries, if it was given back and is wanted again.
    generation: u32,
    /// Values in it.
    len: u32,
    /// The index of its vacant entry that is used next.
    free: u32,
    /// The chunks in front of it and behind it among those with a vacant entry.
    before: u32,
    after: u32,
}

impl<T> Chunk<T> {
    const fn new() -> Self {
        Chunk {
            entries: Vec::new(),
            generation: 0,
            len: 0,
            free: NONE,
            before: NONE,
            after: NONE,
        }
    }

    /// Whether nothing is left in it, and all of its entries may be used again.
    fn is_empty(&self) -> bool {
        let may_be_used = |entry: &Entry<T>| entry.generation != NONE;
        self.len == 0 && self.entries.len() == CHUNK && self.entries.iter().all(may_be_used)
    }
}

/// Values addressed by [`Key`]. Insert, look up and remove are O(1).
#[derive(Debug)]
pub struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// Chunks that were given back.
    spare: Vec<u32>,
    /// The first chunk with a vacant entry.
    open: u32,
    /// Chunks in which nothing is left and that were not given back.
    empty: usize,
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
            spare: Vec::new(),
            open: NONE,
            empty: 0,
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
        let open = self.chunks.get(self.open as usize);
        if let Some(entry) = open.and_then(|chunk| self.entry(chunk.free)) {
            return Key {
                index: open.map_or(NONE, |chunk| chunk.free),
                generation: entry.generation,
            };
        }
        match self.spare.last() {
            Some(chunk) => Key {
                index: chunk << CHUNK_BITS,
                generation: self.chunks[*chunk as usize].generation,
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
        if self.open == NONE
            && let Some(number) = self.spare.pop()
        {
            self.take_back(number);
        }
        if self.open != NONE {
            return self.reuse(value);
        }
        let index = self.used;
        assert!(index < NONE, "slab is full");
        self.used += 1;
        if (index as usize).is_multiple_of(CHUNK) {
            self.chunks.push(Chunk {
                entries: Vec::with_capacity(CHUNK),
                ..Chunk::new()
            });
        }
        let chunk = &mut self.chunks[index as usize >> CHUNK_BITS];
        chunk.len += 1;
        chunk.entries.push(Entry {
            generation: 0,
            content: Content::Occupied(value),
        });
        Key {
            index,
            generation: 0,
        }
    }

    /// Stores a value in a vacant entry of the first chunk that has one.
    fn reuse(&mut self, value: T) -> Key {
        let number = self.open;
        let chunk = &mut self.chunks[number as usize];
        if chunk.is_empty() {
            self.empty -= 1;
        }
        let index = chunk.free;
        let entry = &mut chunk.entries[index as usize % CHUNK];
        let generation = entry.generation;
        let content = std::mem::replace(&mut entry.content, Content::Occupied(value));
        chunk.len += 1;
        chunk.free = match content {
            Content::Vacant { next } => next,
            Content::Occupied(_) => NONE,
        };
        if chunk.free == NONE {
            self.unlink(number);
        }
        Key { index, generation }
    }

    fn entry(&self, index: u32) -> Option<&Entry<T>> {
        self.chunks
            .get(index as usize >> CHUNK_BITS)?
            .entries
            .get(index as usize % CHUNK)
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut Entry<T>> {
        self.chunks
            .get_mut(index as usize >> CHUNK_BITS)?
            .entries
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
        let number = key.index >> CHUNK_BITS;
        let chunk = self.chunks.get_mut(number as usize)?;
        let entry = chunk.entries.get_mut(key.index as usize % CHUNK)?;
        if entry.generation != key.generation || matches!(entry.content, Content::Vacant { .. }) {
            return None;
        }
        // The last generation is never handed out again: the entry retires instead of wrapping.
        let retired = entry.generation == NONE - 1;
        entry.generation = entry.generation.saturating_add(1);
        let was_full = chunk.free == NONE;
        let next = if retired { NONE } else { chunk.free };
        let content = std::mem::replace(&mut entry.content, Content::Vacant { next });
        chunk.len -= 1;
        self.len -= 1;
        if !retired {
            chunk.free = key.index;
            if was_full {
                self.link(number);
            }
        }
        if self.chunks[number as usize].is_empty() {
            self.is_emptied(number);
        }
        match content {
            Content::Occupied(value) => Some(value),
            Content::Vacant { .. } => None,
        }
    }

    /// A chunk has a vacant entry from now on, which is used next.
    fn link(&mut self, number: u32) {
        let first = std::mem::replace(&mut self.open, number);
        if let Some(first) = self.chunks.get_mut(first as usize) {
            first.before = number;
        }
        let chunk = &mut self.chunks[number as usize];
        (chunk.before, chunk.after) = (NONE, first);
    }

    /// A chunk has none any more.
    fn unlink(&mut self, number: u32) {
        let chunk = &mut self.chunks[number as usize];
        let (before, after) = (chunk.before, chunk.after);
        match self.chunks.get_mut(before as usize) {
            Some(chunk) => chunk.after = after,
            None => self.open = after,
        }
        if let Some(chunk) = self.chunks.get_mut(after as usize) {
            chunk.before = before;
        }
    }

    /// Nothing is left in a chunk: with enough of those it is given back.
    fn is_emptied(&mut self, number: u32) {
        if self.empty < EMPTY_KEPT {
            self.empty += 1;
            return;
        }
        self.unlink(number);
        let chunk = &mut self.chunks[number as usize];
        let generations = chunk.entries.iter().map(|entry| entry.generation);
        *chunk = Chunk {
            generation: generations.max().unwrap_or_default(),
            ..Chunk::new()
        };
        self.spare.push(number);
    }

    /// A chunk that was given back is wanted again.
    fn take_back(&mut self, number: u32) {
        let first = number << CHUNK_BITS;
        let chunk = &mut self.chunks[number as usize];
        let generation = chunk.generation;
        let entries = (1..=CHUNK as u32).map(|next| Entry {
            generation,
            content: Content::Vacant {
                next: match next as usize {
                    CHUNK => NONE,
                    _ => first + next,
                },
            },
        });
        chunk.entries = entries.collect();
        chunk.free = first;
        self.empty += 1;
        self.link(number);
    }

    /// All values with their keys, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        let entries = self.chunks.iter().zip(0u32..).flat_map(|(chunk, number)| {
            let first = number << CHUNK_BITS;
            chunk.entries.iter().zip(first..)
        });
        entries.filter_map(|(entry, index)| match &entry.content {
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
        let chunks = self.chunks.iter_mut().zip(0u32..);
        let entries = chunks.flat_map(|(chunk, number)| {
            let first = number << CHUNK_BITS;
            chunk.entries.iter_mut().zip(first..)
        });
        entries.filter_map(|(entry, index)| match &mut entry.content {
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
    use std::collections::HashSet;

    use super::*;
    use crate::rand::Rng;

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
        slab.chunks[0].entries[0].generation = NONE - 1;
        let last = Key {
            index: key.index,
            generation: NONE - 1,
        };
        assert_eq!(slab.remove(last), Some(1));
        assert_ne!(slab.insert(2).index, last.index);
    }

    fn chunks_held<T>(slab: &Slab<T>) -> usize {
        let held = slab.chunks.iter().filter(|chunk| !chunk.entries.is_empty());
        held.count()
    }

    /// Goal: what comes and goes in large numbers, in any order, leaves little memory behind, and
    /// no key is handed out twice although the entries that had it are not there any more.
    #[test]
    fn chunks_are_given_back_and_no_key_comes_again() {
        const MANY: usize = 100 * CHUNK;
        let mut rng = Rng::with_seed(7);
        let mut slab = Slab::new();
        let mut seen = HashSet::new();
        let mut stays = Vec::new();
        for round in 0..4 {
            let mut keys = Vec::new();
            for value in 0..MANY {
                let next = slab.next_key();
                let key = slab.insert((round, value));
                assert_eq!(key, next);
                assert!(seen.insert(key), "{key:?} was handed out before");
                keys.push((key, (round, value)));
            }
            assert!(chunks_held(&slab) <= 100 + stays.len().div_ceil(CHUNK));
            rng.shuffle(&mut keys);
            stays.extend(keys.drain(..10));
            for (key, value) in &keys {
                assert_eq!(slab.remove(*key), Some(*value));
            }
            for (key, _) in &keys {
                assert_eq!(slab.get(*key), None);
                assert_eq!(slab.remove(*key), None);
            }
            let occupied: HashSet<u32> = stays.iter().map(|(key, _)| key.index / 64).collect();
            assert!(
                chunks_held(&slab) <= occupied.len() + EMPTY_KEPT + 1,
                "{round}"
            );
            let mut left: Vec<_> = slab.iter().map(|(key, value)| (key, *value)).collect();
            left.sort_by_key(|(_, value)| *value);
            stays.sort_by_key(|(_, value)| *value);
            assert_eq!(left, stays);
            let places = slab.iter_mut().map(|(key, _)| key.index);
            assert!(places.is_sorted_by(|one, next| one < next));
            for (key, value) in &stays {
                assert_eq!(slab.get(*key), Some(value));
                assert_eq!(slab.key_at(key.index), Some(*key));
            }
        }
    }

    #[test]
    fn a_few_empty_chunks_are_kept() {
        for (chunks, kept) in [(EMPTY_KEPT, EMPTY_KEPT), (100, EMPTY_KEPT)] {
            let mut slab = Slab::new();
            let keys: Vec<Key> = (0..chunks * CHUNK)
                .map(|value| slab.insert(value))
                .collect();
            for key in keys {
                slab.remove(key);
            }
            assert!(slab.is_empty());
            assert_eq!((chunks_held(&slab), slab.empty), (kept, kept), "{chunks}");
            // They are used before others are made.
            for value in 0..kept * CHUNK {
                slab.insert(value);
            }
            assert_eq!((chunks_held(&slab), slab.empty), (kept, 0), "{chunks}");
        }
    }

    /// Goal: an entry whose generations are used up is not made anew with its chunk.
    #[test]
    fn a_chunk_with_a_retired_entry_stays() {
        let mut slab = Slab::new();
        let keys: Vec<Key> = (0..2_048).map(|value| slab.insert(value)).collect();
        slab.chunks[30].entries[5].generation = NONE - 1;
        for mut key in keys {
            if key.index == 30 * CHUNK as u32 + 5 {
                key.generation = NONE - 1;
            }
            slab.remove(key).expect("it is there");
        }
        assert!(!slab.chunks[30].entries.is_empty());
        let fresh = (0..2_048).map(|value| slab.insert(value).index);
        assert!(
            !fresh
                .collect::<HashSet<_>>()
                .contains(&(30 * CHUNK as u32 + 5))
        );
    }
}
