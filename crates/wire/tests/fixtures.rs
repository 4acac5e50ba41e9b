//! What earlier versions wrote is understood for ever: one line of `tests/fixtures/v1.txt` for each
//! kind of version 1, written once. A line that changes is a form that changed: a new kind is
//! needed instead. `WIRE_FIXTURES=write` writes lines of kinds that have none yet.

mod samples;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use wire::{Arrival, Kind, Packet, VERSION, VERSION_MIN, WireError};

fn file(version: u8) -> PathBuf {
    let name = format!("tests/fixtures/v{version}.txt");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

fn fixtures(version: u8) -> BTreeMap<String, Vec<u8>> {
    let text = std::fs::read_to_string(file(version)).unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.split_once(' '));
    lines
        .map(|(name, hex)| (name.to_owned(), bytes(hex)))
        .collect()
}

#[test]
fn what_earlier_versions_wrote_means_what_it_meant() {
    let samples = samples::all();
    assert_eq!(samples.len(), Kind::ALL.len(), "a kind without a sample");
    for version in VERSION_MIN..=VERSION {
        let mut known = fixtures(version);
        let own = samples.iter().filter(|one| one.kind().since() == version);
        if std::env::var("WIRE_FIXTURES").is_ok_and(|how| how == "write") {
            let mut text = String::new();
            for packet in own.clone() {
                let mut written = Vec::new();
                packet.encode(&mut written).unwrap();
                let name = packet.kind().name();
                let old = known.remove(name).unwrap_or(written);
                writeln!(text, "{name} {}", hex(&old)).unwrap();
            }
            std::fs::write(file(version), text).unwrap();
            known = fixtures(version);
        }
        for packet in own {
            let name = packet.kind().name();
            let fixture = known.remove(name);
            let fixture = fixture.unwrap_or_else(|| panic!("no fixture of {name}"));
            assert_eq!(Packet::decode(&fixture).as_ref(), Ok(packet), "{name}");
            let mut written = Vec::new();
            packet.encode(&mut written).unwrap();
            assert_eq!(hex(&written), hex(&fixture), "{name} is written otherwise");
        }
        assert!(known.is_empty(), "kinds that are gone: {:?}", known.keys());
    }
}

/// Goal: a node of each earlier version understands what this one writes but for the kinds that
/// came later, and names the version of those.
#[test]
fn earlier_versions_understand_what_they_know() {
    for newest in VERSION_MIN..=VERSION {
        for packet in samples::all() {
            let (kind, mut bytes) = (packet.kind(), Vec::new());
            packet.encode(&mut bytes).unwrap();
            let read = Arrival::read_as(&bytes, newest).and_then(|arrival| arrival.packet());
            match kind.since() <= newest {
                true => assert_eq!(read, Ok(packet), "{} in {newest}", kind.name()),
                false => {
                    let (version, kind) = (kind.since(), kind.number());
                    assert_eq!(read, Err(WireError::Version { version, kind }));
                }
            }
        }
    }
}
