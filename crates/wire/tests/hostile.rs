//! Bytes that nobody wrote: cut, changed, and with claims about themselves that are not true.

mod samples;

use proptest::prelude::*;
use wire::{Kind, Packet, VERSION, WireError};

fn written(packet: &Packet) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.encode(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_packet_that_is_cut_is_none() {
    for packet in samples::all() {
        let bytes = written(&packet);
        for end in 0..bytes.len() {
            assert!(
                Packet::decode(&bytes[..end]).is_err(),
                "{:?}",
                packet.kind()
            );
        }
    }
}

#[test]
fn nothing_stands_behind_a_packet() {
    for packet in samples::all() {
        let mut bytes = written(&packet);
        bytes.push(0);
        let kind = packet.kind().name();
        let refused = Err(WireError::Trailing { kind, bytes: 1 });
        assert_eq!(Packet::decode(&bytes), refused);
    }
}

/// Whatever is understood is written as it came: every packet has one form. A version above that of
/// its kind says no more.
fn reads_alike(bytes: &[u8]) {
    if let Ok(packet) = Packet::decode(bytes) {
        let mut bytes = bytes.to_vec();
        bytes[0] = packet.kind().since();
        assert_eq!(written(&packet), bytes);
    }
}

#[test]
fn a_packet_with_one_byte_changed_is_another_one_or_none() {
    for packet in samples::all() {
        let bytes = written(&packet);
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut changed = bytes.clone();
                changed[at] = value;
                reads_alike(&changed);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(
        kind in 0..Kind::ALL.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..600),
    ) {
        reads_alike(&bytes);
        let mut packet = vec![VERSION, Kind::ALL[kind].number()];
        packet.extend_from_slice(&bytes);
        reads_alike(&packet);
    }
}
