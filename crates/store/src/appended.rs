//! One append as bytes: its records, one behind the other. Owns that form, and how a large append
//! is cut into smaller ones.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use stdx::Level;

use crate::limits::{APPEND_RECORDS_MAX, PART_BYTES_MAX, PARTS_MAX};
use crate::record::{Record, RecordError};

/// The bytes of an append, in the form of a level.
pub fn encode(level: Level, records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let record = record.encode(level);
        // A record is bounded by [`crate::limits::VALUE_BYTES_MAX`], far below 4 GiB.
        bytes.extend_from_slice(&(record.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&record);
    }
    bytes
}

/// The inverse of [`encode`].
///
/// # Errors
/// What is wrong with the bytes; a newer record version says so.
pub fn decode(mut bytes: &[u8]) -> Result<Vec<Record>, String> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let cut = || "an append is cut off".to_owned();
        let (length, rest) = bytes.split_first_chunk::<4>().ok_or_else(cut)?;
        let length = u32::from_be_bytes(*length) as usize;
        let (record, rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        if records.len() == APPEND_RECORDS_MAX {
            return Err("too many records in one append".to_owned());
        }
        records.push(Record::decode(record).map_err(|error| error.to_string())?);
        bytes = rest;
    }
    Ok(records)
}

/// The level from which on appends are cut.
const PARTS_SINCE: Level = Level::new(3);

/// The appends that stand for one in a stream, whose messages are bounded, in order: itself, or
/// its parts, each of up to [`PART_BYTES_MAX`], and a last one that has them applied together.
/// Below level 3 nobody knows of parts.
///
/// # Errors
/// [`RecordError::TooLarge`] for an append of more than [`PARTS_MAX`] parts.
pub fn cut(level: Level, records: &[Record]) -> Result<Vec<Vec<u8>>, RecordError> {
    let bytes = encode(level, records);
    let user = match records.first() {
        Some(first) if bytes.len() > PART_BYTES_MAX && level >= PARTS_SINCE => first.user(),
        _ => return Ok(vec![bytes]),
    };
    if bytes.len() > PART_BYTES_MAX * PARTS_MAX as usize {
        return Err(RecordError::TooLarge(bytes.len()));
    }
    let parts = bytes.chunks(PART_BYTES_MAX).zip(0..);
    let parts = parts.map(|(part, at)| Record::PartPut {
        user: user.to_owned(),
        at,
        bytes: part.to_vec(),
    });
    let mut cut: Vec<Vec<u8>> = parts.map(|part| encode(level, &[part])).collect();
    let last = Record::PartsApply {
        user: user.to_owned(),
        // No more than `PARTS_MAX`.
        parts: cut.len() as u32,
        hash: hash(&bytes),
    };
    cut.push(encode(level, &[last]));
    Ok(cut)
}

/// What tells the bytes of one append from those of another.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(0, 0x7061_7274_7370_6172);
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends_survive_their_bytes_and_cut_ones_do_not() {
        let record = |n: u64| Record::LogTrim {
            user: "a@x".to_owned(),
            through: n,
        };
        let records = vec![record(1), record(2)];
        let bytes = encode(Level::NEWEST, &records);
        assert_eq!(decode(&bytes), Ok(records));
        assert_eq!(decode(&[]), Ok(Vec::new()));
        let whole = bytes.len() / 2;
        for at in (1..bytes.len()).filter(|at| *at != whole) {
            assert!(decode(&bytes[..at]).is_err());
        }
        let mut many = encode(Level::NEWEST, &[record(1)]).repeat(APPEND_RECORDS_MAX + 1);
        assert!(decode(&many).is_err());
        many[4] = u8::MAX;
        assert!(decode(&many).unwrap_err().contains("version"));
    }

    /// Goal: what is cut is below the bound and makes the whole again; what need not be cut, or may
    /// not yet, is left alone.
    #[test]
    fn large_appends_are_cut_and_small_ones_are_not() {
        let of = |bytes: usize| {
            let user = "a@x".to_owned();
            let xml = (0..bytes).map(|at| at as u8).collect();
            vec![Record::VCardPut {
                user,
                xml,
                photo_hash: String::new(),
            }]
        };
        for bytes in [
            1,
            PART_BYTES_MAX - 64,
            PART_BYTES_MAX + 1,
            5 * PART_BYTES_MAX,
        ] {
            let records = of(bytes);
            let whole = encode(Level::NEWEST, &records);
            let cut_up = cut(Level::NEWEST, &records).unwrap();
            if whole.len() <= PART_BYTES_MAX {
                assert_eq!(cut_up, [whole]);
                continue;
            }
            assert_eq!(cut_up.len(), whole.len().div_ceil(PART_BYTES_MAX) + 1);
            assert!(cut_up.iter().all(|one| one.len() < PART_BYTES_MAX + 64));
            let mut again = Vec::new();
            for (one, expected) in cut_up.iter().zip(0..) {
                match &decode(one).unwrap()[..] {
                    [Record::PartPut { at, bytes, .. }] => {
                        assert_eq!(*at, expected);
                        again.extend_from_slice(bytes);
                    }
                    [
                        Record::PartsApply {
                            parts, hash: of, ..
                        },
                    ] => {
                        assert_eq!((*parts, *of), (expected, hash(&whole)));
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(again, whole);
            let whole = encode(Level::new(2), &records);
            assert_eq!(cut(Level::new(2), &records), Ok(vec![whole]));
        }
        // As many parts as may be, and a byte more.
        let most = PARTS_MAX as usize * PART_BYTES_MAX;
        let around = encode(Level::NEWEST, &of(most)).len() - most;
        let full = cut(Level::NEWEST, &of(most - around)).unwrap();
        assert_eq!(full.len(), PARTS_MAX as usize + 1);
        let more = cut(Level::NEWEST, &of(most - around + 1));
        assert_eq!(more, Err(RecordError::TooLarge(most + 1)));
    }
}
