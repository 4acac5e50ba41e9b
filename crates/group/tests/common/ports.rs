//! Ports for nodes of tests.

use std::net::TcpListener;
use std::ops::Range;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The system gives none of them to connections that go out: one that it gives could be taken
/// between this and the start of the node, by any program of this machine.
const PORTS: Range<u16> = 10_000..32_000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A port of a host at which nobody listens now. No two calls of a process return the same one.
pub(crate) fn free_port(host: &str) -> u16 {
    let count = u32::from(PORTS.end - PORTS.start);
    let first = process::id().wrapping_mul(7_919);
    let mut ports = (0..count).map(|_| {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        PORTS.start + (first.wrapping_add(step) % count) as u16
    });
    let free = ports.find(|port| TcpListener::bind((host, *port)).is_ok());
    free.expect("a free port")
}
