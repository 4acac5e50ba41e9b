//! Small things std lacks: generational slab, bounded ring, timer wheel, clock, seeded randomness,
//! tables that threads share.
//!
//! Owns containers and time types that know nothing of actors, sockets or XMPP. It deliberately
//! holds no thread, no global state and no I/O; [`time::SystemClock`] is the one place of the
//! workspace that reads the machine's clock.

pub mod bugs;
pub mod level;
pub mod ring;
pub mod slab;
pub mod table;
pub mod time;
pub mod wheel;

/// Seeded randomness for everything that is not a secret.
///
/// Code takes an [`rand::Rng`] as an argument, so that a simulation with the same seed makes the
/// same choices. Secrets (nonces, salts, keys) come from the cryptography crates instead.
pub mod rand {
    pub use fastrand::Rng;
}

pub use level::Level;
pub use slab::{Key, Slab};
pub use time::{Clock, Moment, SystemClock, Timestamp, VirtualClock};
pub use wheel::{TimerKey, TimerWheel};
