//! What reading a packet allocates. The only test of its process: it counts all allocations.

mod samples;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use wire::Packet;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

/// Bytes that reading may allocate for each byte of a packet, and besides. Frames have an index;
/// short texts are behind a pointer and two counts each.
const BYTES_PER_BYTE: usize = 128;
const BYTES_BESIDES: usize = 16_384;

/// Counts that promise millions, in front of what is there.
#[test]
fn what_is_claimed_costs_no_memory() {
    let huge: [u8; 10] = [0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0, 0, 0];
    for packet in samples::all() {
        let mut bytes = Vec::new();
        packet.encode(&mut bytes).unwrap();
        for at in 8..bytes.len() {
            for length in [1, 2, 3, 4] {
                let mut claims = bytes[..at].to_vec();
                claims.extend_from_slice(&huge[4 - length..4]);
                claims.extend_from_slice(&bytes[at..]);
                let region = Region::new(ALLOCATOR);
                let read = Packet::decode(&claims);
                let allocated = region.change().bytes_allocated;
                let max = BYTES_BESIDES + BYTES_PER_BYTE * claims.len();
                assert!(allocated <= max, "{read:?} took {allocated} bytes");
            }
        }
    }
}
