//! Slots and ranges: the keyed hash that places a bare address. Owns the hash and its key; which
//! shard or node a range lives on is decided elsewhere.

use std::fmt;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use smallvec::SmallVec;

/// Number of slots, fixed for the life of a deployment.
pub const SLOTS: u16 = 16_384;

/// Number of ranges: contiguous runs of `SLOTS / RANGES` slots.
pub const RANGES: u16 = 128;

/// One of the [`SLOTS`] that addresses hash to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u16);

impl Slot {
    /// The slot with this index, if there is one.
    pub fn from_index(index: u16) -> Option<Slot> {
        (index < SLOTS).then_some(Slot(index))
    }

    /// `0..SLOTS`.
    pub fn index(self) -> u16 {
        self.0
    }

    /// The range that holds this slot.
    pub fn range(self) -> RangeId {
        RangeId(self.0 / (SLOTS / RANGES))
    }
}

/// A contiguous run of slots: the unit of placement, of the journal and of fencing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeId(u16);

impl RangeId {
    /// The range with this index, if there is one.
    pub fn from_index(index: u16) -> Option<RangeId> {
        (index < RANGES).then_some(RangeId(index))
    }

    /// `0..RANGES`.
    pub fn index(self) -> u16 {
        self.0
    }

    /// All ranges in order.
    pub fn all() -> impl Iterator<Item = RangeId> {
        (0..RANGES).map(RangeId)
    }

    /// The first slot of the range, and how many slots it has.
    pub fn slots(self) -> (Slot, u16) {
        let width = SLOTS / RANGES;
        (Slot(self.0 * width), width)
    }
}

/// The secret of the slot hash. It is stored with the data, so that nobody outside can craft
/// addresses that all land in one slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SlotKey([u8; 16]);

impl SlotKey {
    /// A key from 16 bytes, which should be random.
    pub const fn new(bytes: [u8; 16]) -> Self {
        SlotKey(bytes)
    }

    /// The bytes to store.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The slot of a bare address (SipHash-1-3, low bits).
    pub fn slot(&self, bare: &str) -> Slot {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(bare.as_bytes());
        // The cast keeps the low 16 bits, of which the remainder takes the lowest 14: uniform.
        Slot((hasher.finish() as u16) % SLOTS)
    }

    /// A bare address as indexes and windows know it. Keyed, so that nobody outside can make two
    /// meet.
    pub fn peer(&self, bare: &str) -> u64 {
        self.hash(&["peer", bare])
    }

    /// What recognises a message that is sent again (XEP-0359): who sent it, to whom, and under
    /// which origin-id. Never 0.
    pub fn origin(&self, from: &str, to: &str, id: &str) -> u64 {
        self.hash(&["origin", from, to, id]).max(1)
    }

    /// A node as session ids name it to clients, who learn no name by that.
    pub fn node(&self, name: &str) -> u64 {
        self.hash(&["node", name])
    }

    fn hash(&self, parts: &[&str]) -> u64 {
        // In one piece: each write of the hasher costs about as much as the hashing.
        let mut text: SmallVec<[u8; 128]> = SmallVec::new();
        for part in parts {
            text.extend_from_slice(part.as_bytes());
            // No part contains it, so no two lists of parts read the same.
            text.push(0xff);
        }
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(&text);
        hasher.finish()
    }
}

impl fmt::Debug for SlotKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SlotKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The placement of existing data depends on this exact hash: it must never change.
    #[test]
    fn slot_of_a_known_address_is_stable() {
        let key = SlotKey::new(*b"0123456789abcdef");
        let slots: Vec<u16> = ["alice@localhost", "bob@localhost", ""]
            .iter()
            .map(|a| key.slot(a).index())
            .collect();
        assert_eq!(slots, SLOTS_OF_KNOWN_ADDRESSES);
    }

    const SLOTS_OF_KNOWN_ADDRESSES: [u16; 3] = [11409, 7473, 6796];

    #[test]
    fn ranges_partition_the_slots() {
        for index in 0..SLOTS {
            let slot = Slot::from_index(index).unwrap();
            let (first, width) = slot.range().slots();
            assert!(first.index() <= index && index < first.index() + width);
        }
        assert_eq!(Slot::from_index(SLOTS), None);
        assert_eq!(RangeId::all().count(), usize::from(RANGES));
    }

    #[test]
    fn addresses_spread_over_ranges() {
        let key = SlotKey::new([7; 16]);
        let mut hits = vec![0u32; usize::from(RANGES)];
        for n in 0..12_800 {
            hits[usize::from(key.slot(&format!("u{n}@localhost")).range().index())] += 1;
        }
        assert!(hits.iter().all(|&n| (50..200).contains(&n)), "{hits:?}");
    }
}
