//! Why bytes are no packet, or a message no bytes.

use stdx::Level;

use crate::packet::version_at;

/// What is wrong with a packet. Whoever sent it is told, and an operator can tell from it which
/// side has to be upgraded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is of a version that came after this node.
    #[error(
        "a packet of kind {kind} is of version {version}; this node knows up to {known}: \
         upgrade it",
        known = version_at(Level::known())
    )]
    Version {
        /// Its version.
        version: u8,
        /// Its kind.
        kind: u8,
    },
    /// No kind has that number in its version.
    #[error("version {version} has no packet of kind {kind}")]
    Kind {
        /// Its version.
        version: u8,
        /// The number.
        kind: u8,
    },
    /// It came with a later level than that at which it should be written.
    #[error("a packet of kind {kind:?} is not for format level {level}")]
    Level {
        /// What it is.
        kind: &'static str,
        /// The level.
        level: Level,
    },
    /// A field is none, or exceeds its bound.
    #[error("{field} of a packet of kind {kind:?} is wrong or too long")]
    Field {
        /// What it would be.
        kind: &'static str,
        /// The field.
        field: &'static str,
    },
    /// There is something behind its end.
    #[error("there are {bytes} bytes behind a packet of kind {kind:?}")]
    Trailing {
        /// What it is.
        kind: &'static str,
        /// How many.
        bytes: usize,
    },
    /// It is larger than any ([`crate::limits::PACKET_BYTES_MAX`]), or less than a head.
    #[error("{bytes} bytes are no packet")]
    Size {
        /// How many there are.
        bytes: usize,
    },
}
