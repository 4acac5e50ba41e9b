//! Whether the nodes of a cluster have the same: reads backups of their stores (`roost backup`), a
//! format that is documented in the crate `store`, and compares them. Owns what may differ.

use std::collections::BTreeMap;
use std::path::Path;

/// What is in front of the first chunk.
const MAGIC: &[u8] = b"ROOSTBK1";
/// Of a chunk: its length and checksum. `roost verify` looks at the latter.
const HEAD: usize = 12;
/// How often the node's own store was opened again. It is not in the streams.
const OWN: (u8, &[u8]) = (0, b"epoch");

/// Values by space and key.
type Entries = BTreeMap<(u8, Vec<u8>), Vec<u8>>;

fn number(bytes: &[u8]) -> Option<usize> {
    let bytes: [u8; 4] = bytes.get(..4)?.try_into().ok()?;
    usize::try_from(u32::from_le_bytes(bytes)).ok()
}

fn read(bytes: &[u8]) -> Option<Entries> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut entries = Entries::new();
    loop {
        let length = number(rest)?;
        if length == 0 {
            return Some(entries);
        }
        let mut chunk = rest.get(HEAD..HEAD + length)?;
        rest = &rest[HEAD + length..];
        while let Some((space, sizes)) = chunk.split_first() {
            let (key, value) = (number(sizes)?, number(sizes.get(4..)?)?);
            let both = sizes.get(8..8 + key + value)?;
            entries.insert((*space, both[..key].to_vec()), both[key..].to_vec());
            chunk = &sizes[8 + key + value..];
        }
    }
}

/// What differs between the backups of nodes, each with the node's name.
pub(super) fn differences(backups: &[(&str, &Path)]) -> Result<Vec<String>, String> {
    let mut all: Vec<(&str, Entries)> = Vec::new();
    for (name, path) in backups {
        let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
        let mut entries = read(&bytes).ok_or(format!("the backup of {name} is none"))?;
        entries.remove(&(OWN.0, OWN.1.to_vec()));
        all.push((name, entries));
    }
    let mut found = Vec::new();
    let Some(((first, expected), others)) = all.split_first() else {
        return Ok(found);
    };
    for (name, entries) in others {
        let keys = expected.keys().chain(entries.keys());
        let differs = |key: &&(u8, Vec<u8>)| expected.get(key) != entries.get(key);
        let mut keys: Vec<&(u8, Vec<u8>)> = keys.filter(differs).collect();
        keys.sort();
        keys.dedup();
        let Some(key) = keys.first() else { continue };
        let shown = |value: Option<&Vec<u8>>| match value {
            Some(value) => value.escape_ascii().to_string(),
            None => "nothing".to_owned(),
        };
        found.push(format!(
            "the stores of {first} and {name} differ in {} of {} entries, the first being {} of \
             space {}: {} and {}",
            keys.len(),
            expected.len(),
            key.1.escape_ascii(),
            key.0,
            shown(expected.get(key)),
            shown(entries.get(key)),
        ));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backup(entries: &[(u8, &str, &str)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        // A chunk each.
        for (space, key, value) in entries {
            let mut chunk = vec![*space];
            chunk.extend((key.len() as u32).to_le_bytes());
            chunk.extend((value.len() as u32).to_le_bytes());
            chunk.extend([key.as_bytes(), value.as_bytes()].concat());
            bytes.extend((chunk.len() as u32).to_le_bytes());
            bytes.extend([0; 8]);
            bytes.extend(chunk);
        }
        bytes.extend([0; 20]);
        bytes
    }

    /// Goal: every entry that is missing, too many or another one is found, but for what is a
    /// node's own.
    #[test]
    fn copies_that_differ_are_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let differ = |a: &[(u8, &str, &str)], b: &[(u8, &str, &str)]| {
            let (one, other) = (folder.path().join("a"), folder.path().join("b"));
            std::fs::write(&one, backup(a)).expect("written");
            std::fs::write(&other, backup(b)).expect("written");
            let found = differences(&[("a", &one), ("b", &other)]).expect("two backups");
            !found.is_empty()
        };
        let entry = (3, "key", "value");
        assert!(!differ(&[entry], &[entry]));
        assert!(!differ(&[entry], &[(0, "epoch", "1"), entry]));
        assert!(differ(&[entry], &[]));
        assert!(differ(&[], &[entry]));
        assert!(differ(&[entry], &[(3, "key", "other")]));
        assert!(differ(&[entry], &[(4, "key", "value")]));
    }
}
