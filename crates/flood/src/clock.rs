//! The machine's monotonic clock, in nanoseconds: the one place of this crate that reads time.
//!
//! `std::time::Instant` will not do: its values cannot be compared between processes, and a
//! message's latency often spans two.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds in a second.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// Nanoseconds in a millisecond.
pub(crate) const MILLI: u64 = 1_000_000;

/// Nanoseconds since the machine started, the same in all its processes.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Milliseconds since the Unix epoch, for the report's date.
pub(crate) fn unix_millis() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    time.tv_sec as u64 * 1_000 + time.tv_nsec as u64 / MILLI
}

/// `seconds` as nanoseconds; nothing negative.
pub(crate) fn nanos(seconds: f64) -> u64 {
    (seconds.max(0.0) * SECOND as f64) as u64
}
