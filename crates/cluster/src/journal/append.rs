//! One append as bytes: its records, each in the encoding that the store gives it.

use stdx::Level;
use store::Record;

/// Most records of one append.
pub const RECORDS_MAX: usize = store::limits::APPEND_RECORDS_MAX;

/// The bytes of an append, in the form of a level.
pub fn encode(level: Level, records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let record = record.encode(level);
        // A record is bounded by `store::limits::VALUE_BYTES_MAX`, far below 4 GiB.
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
        if records.len() == RECORDS_MAX {
            return Err("too many records in one append".to_owned());
        }
        records.push(Record::decode(record).map_err(|error| error.to_string())?);
        bytes = rest;
    }
    Ok(records)
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
        let mut many = encode(Level::NEWEST, &[record(1)]).repeat(RECORDS_MAX + 1);
        assert!(decode(&many).is_err());
        many[4] = u8::MAX;
        assert!(decode(&many).unwrap_err().contains("version"));
    }
}
