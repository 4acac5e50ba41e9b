//! A node of `group` that is told anything, by a stranger and by a node that it is linked with: it
//! does not panic, it answers within measure, and what it reads it writes alike.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    group::fuzz::frame(input);
    group::fuzz::link(input);
});
