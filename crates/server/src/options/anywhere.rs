//! Bounds of requests of sessions over BOSH that come to another node than their session's.

use std::time::Duration;

/// See the module. What happens at each bound is said here, in docs/limits.md and in decision 0148:
/// a request that is *not answered* has its connection closed, and its client makes it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Anywhere {
    /// Requests that came to one shard and wait for the answers of one node; one more is not
    /// answered.
    pub requests_max: usize,
    /// Longest wait for an answer beyond the time that a request may be held
    /// ([`xmpp::bosh::Limits::wait_max`]); then there is none.
    pub late_max: Duration,
    /// Bytes of an answer that goes to another node; with a longer one its session ends with
    /// `internal-server-error`. At most [`wire::limits::FRAME_BYTES_MAX`].
    pub answer_bytes_max: usize,
    /// How often a shard that is asked for a session of a node which it does not know looks which
    /// nodes there are.
    pub look_every: Duration,
}

impl Default for Anywhere {
    fn default() -> Anywhere {
        Anywhere {
            requests_max: 16_384,
            late_max: Duration::from_secs(10),
            answer_bytes_max: wire::limits::FRAME_BYTES_MAX,
            look_every: Duration::from_secs(1),
        }
    }
}
