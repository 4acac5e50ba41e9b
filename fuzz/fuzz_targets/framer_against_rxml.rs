//! The framer against `rxml`, on any bytes in pieces of any size: they differ in documented limits
//! only. The last byte of the input decides how the rest is cut and which limits hold.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roost_fuzz::oracle;
use xml::Limits;

fuzz_target!(|data: &[u8]| {
    let Some((control, stream)) = data.split_last() else {
        return;
    };
    let limits = if control & 0x80 == 0 {
        Limits::default()
    } else {
        Limits {
            stanza_bytes: 120,
            depth: 3,
            attributes: 3,
            children: 2,
            prefixes: 2,
        }
    };
    let sizes: Vec<usize> = match control & 3 {
        0 => Vec::new(),
        1 => vec![1; stream.len()],
        _ => {
            // Pieces of 1 to 32 bytes that the control byte alone decides.
            let mut state = usize::from(*control) + 1;
            let size = |_| {
                state = state * 1_103_515_245 % 2_147_483_647;
                state % 32 + 1
            };
            (0..stream.len()).map(size).collect()
        }
    };
    oracle::compare(stream, &sizes, &limits);
});
