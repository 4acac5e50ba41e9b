//! A slab whose keys know their generation: a key of something that was removed never finds what
//! took its place.

/// The key of a slot. Two words; never given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Which slot.
    pub index: u32,
    /// Which of its tenants.
    pub generation: u32,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Values in slots that are used again under a new generation. A slot whose generations are used up
/// (four billion tenants) is retired.
pub struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { slots: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slab<T> {
    /// An empty slab, without memory.
    pub fn new() -> Self {
        Slab::default()
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The key that the next insert will give out.
    pub fn next_key(&self) -> Key {
        match self.free.last() {
            Some(index) => {
                Key { index: *index, generation: self.slots[*index as usize].generation }
            }
            None => Key { index: self.slots.len() as u32, generation: 0 },
        }
    }

    /// Adds a value.
    pub fn insert(&mut self, value: T) -> Key {
        let key = self.next_key();
        if self.free.pop().is_none() {
            self.slots.push(Slot { generation: 0, value: None });
        }
        self.slots[key.index as usize].value = Some(value);
        self.len += 1;
        key
    }

    /// The value of a key, if it has not been removed.
    pub fn get(&self, key: Key) -> Option<&T> {
        let slot = self.slots.get(key.index as usize)?;
        slot.value.as_ref().filter(|_| slot.generation == key.generation)
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        slot.value.as_mut().filter(|_| slot.generation == key.generation)
    }

    /// Whether a key's value is there.
    pub fn contains(&self, key: Key) -> bool {
        self.get(key).is_some()
    }

    /// Takes a value out.
    pub fn remove(&mut self, key: Key) -> Option<T> {
        let slot = self.slots.get_mut(key.index as usize)?;
        if slot.generation != key.generation {
            return None;
        }
        let value = slot.value.take()?;
        self.len -= 1;
        if let Some(next) = slot.generation.checked_add(1) {
            slot.generation = next;
            self.free.push(key.index);
        }
        Some(value)
    }

    /// Every value with its key.
    pub fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let key = Key { index: index as u32, generation: slot.generation };
            slot.value.as_ref().map(|value| (key, value))
        })
    }

    /// Every value, to be changed, with its key.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Key, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(index, slot)| {
            let key = Key { index: index as u32, generation: slot.generation };
            slot.value.as_mut().map(|value| (key, value))
        })
    }

    /// The keys in use.
    pub fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_find_the_new_tenant() {
        let mut slab = Slab::new();
        let old = slab.insert('a');
        assert_eq!(slab.remove(old), Some('a'));
        let new = slab.insert('b');
        assert_eq!(new.index, old.index);
        assert_eq!((slab.get(old), slab.get(new)), (None, Some(&'b')));
        assert_eq!(slab.remove(old), None);
        assert_eq!(slab.len(), 1);
    }
}
