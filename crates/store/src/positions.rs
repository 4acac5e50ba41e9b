//! Where ranges stand, in the store: how many appends each has seen. Owns both forms in which that
//! is written. A commit that moves few ranges writes a number for each of them; one that moves many
//! writes the numbers of all together, because a key costs more than they do. A range stands at the
//! higher of its two numbers: they only grow.

use crate::apply::decode_u64;
use crate::engine::{Change, Reader, Space};
use crate::error::StoreError;
use crate::journal::Position;
use crate::keys;
use crate::slot::{RANGES, RangeId};
use crate::state::{VALUE_VERSION, decode, encode};

/// Ranges that a commit may move and write apart.
const APART_MAX: usize = 2;

/// Where every range stands, by its index.
pub(crate) type All = [Position; RANGES as usize];

/// Where a range stands.
///
/// # Errors
/// Any [`StoreError`] of a read.
pub(crate) fn read(reader: &dyn Reader, range: RangeId) -> Result<Position, StoreError> {
    let together = read_together(reader)?;
    let apart = read_apart(reader, range)?;
    Ok(apart.max(together[usize::from(range.index())]))
}

/// Where all ranges stand.
///
/// # Errors
/// Any [`StoreError`] of a read.
pub(crate) fn read_all(reader: &dyn Reader) -> Result<All, StoreError> {
    let mut all = read_together(reader)?;
    for range in RangeId::all() {
        let position = &mut all[usize::from(range.index())];
        *position = read_apart(reader, range)?.max(*position);
    }
    Ok(all)
}

/// The changes that say where these ranges stand from now on; `before` is where each other one
/// stands.
pub(crate) fn changes(
    moved: &[(RangeId, Position)],
    before: impl Fn(RangeId) -> Position,
) -> impl Iterator<Item = Change> {
    let (apart, together) = match moved.len() {
        0..=APART_MAX => (moved, None),
        _ => {
            let mut all: Vec<u64> = RangeId::all().map(|range| before(range).value()).collect();
            for (range, position) in moved {
                all[usize::from(range.index())] = position.value();
            }
            (&[][..], Some(encode(VALUE_VERSION, &all)))
        }
    };
    let change = |key: &[u8], value: &[u8]| Change {
        space: Space::Meta,
        key: key.into(),
        value: Some(value.into()),
    };
    let apart = apart.iter().map(move |(range, position)| {
        change(&keys::position(*range), &position.value().to_be_bytes())
    });
    let together = together.map(|value| change(keys::POSITIONS, &value));
    apart.chain(together)
}

/// The numbers of all ranges as they are written together.
pub(crate) fn decode_all(value: &[u8]) -> Result<All, StoreError> {
    const WHAT: &str = "positions of the ranges";
    let all: Vec<u64> = decode(value, WHAT)?;
    let count = all.len();
    let all: [u64; RANGES as usize] = all
        .try_into()
        .map_err(|_| StoreError::Corrupt(format!("{WHAT}: {count} of them")))?;
    Ok(all.map(Position::new))
}

fn read_together(reader: &dyn Reader) -> Result<All, StoreError> {
    match reader.get(Space::Meta, keys::POSITIONS)? {
        Some(value) => decode_all(&value),
        None => Ok([Position::default(); RANGES as usize]),
    }
}

fn read_apart(reader: &dyn Reader, range: RangeId) -> Result<Position, StoreError> {
    match reader.get(Space::Meta, &keys::position(range))? {
        Some(value) => decode_u64(&value, "position of a range").map(Position::new),
        None => Ok(Position::default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;
    use crate::engine::memory::MemoryEngine;
    use crate::store::Durability;

    /// Goal: whatever commits move, and however many ranges each of them, the store says what they
    /// have come to.
    #[test]
    fn both_forms_together_say_where_ranges_stand() {
        let engine = MemoryEngine::new();
        let mut expected = [Position::default(); RANGES as usize];
        let ranges: Vec<RangeId> = RangeId::all().collect();
        for (step, count) in [1, 3, 2, 128, 1, 5, 2, 2, 64, 1].into_iter().enumerate() {
            let moved: Vec<(RangeId, Position)> = (0..count)
                .map(|n| ranges[(n * 7 + step * 3) % ranges.len()])
                .map(|range| (range, expected[usize::from(range.index())].next()))
                .collect();
            let before = |range: RangeId| expected[usize::from(range.index())];
            let batch: Vec<Change> = changes(&moved, before).collect();
            assert!(
                batch.len() <= APART_MAX,
                "{count} ranges, {} keys",
                batch.len()
            );
            engine.commit(batch, Durability::Memory).unwrap();
            for (range, position) in moved {
                expected[usize::from(range.index())] = position;
            }
            assert_eq!(read_all(&engine).unwrap(), expected);
            for range in &ranges {
                let position = read(&engine, *range).unwrap();
                assert_eq!(position, expected[usize::from(range.index())]);
            }
        }
        assert_eq!(changes(&[], |_| Position::default()).count(), 0);
    }

    #[test]
    fn damaged_positions_are_not_read() {
        for bad in [
            Vec::new(),
            vec![VALUE_VERSION],
            encode(VALUE_VERSION, &vec![1_u64; 127]),
            encode(VALUE_VERSION, &vec![1_u64; 129]),
            encode(VALUE_VERSION + 1, &vec![1_u64; 128]),
        ] {
            assert!(decode_all(&bad).is_err(), "{bad:?}");
        }
        assert!(decode_all(&encode(VALUE_VERSION, &vec![1_u64; 128])).is_ok());
    }
}
