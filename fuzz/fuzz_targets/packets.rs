//! What comes from another node: any bytes, and any behind the head of each kind. Nothing panics;
//! what is read is written as the same bytes again; a version or kind that is not known is named.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::{Arrival, Kind, Packet, VERSION, VERSION_MIN, WireError};

fn read(bytes: &[u8]) {
    if let Ok(arrival) = Arrival::read(bytes) {
        let moved = arrival.moved(7);
        if let (Some((range, _)), Ok(moved)) = (arrival.place(), moved) {
            assert_eq!((moved.range, moved.tenure), (range, 7));
        }
    }
    match Packet::decode(bytes) {
        Ok(packet) => {
            let mut again = Vec::new();
            packet
                .encode(&mut again)
                .expect("what was read can be written");
            assert_eq!(again, bytes);
        }
        Err(WireError::Version { version, kind }) => {
            assert!(version > VERSION);
            assert_eq!([version, kind], bytes[..2]);
        }
        Err(WireError::Kind { version, kind }) => {
            let is_known = Kind::of(kind, version).is_some() && version >= VERSION_MIN;
            assert!(!is_known);
        }
        Err(_) => {}
    }
}

fuzz_target!(|input: &[u8]| {
    read(input);
    let Some((at, rest)) = input.split_first() else {
        return;
    };
    let kind = Kind::ALL[usize::from(*at) % Kind::ALL.len()];
    let mut packet = vec![kind.since(), kind.number()];
    packet.extend_from_slice(rest);
    read(&packet);
});
