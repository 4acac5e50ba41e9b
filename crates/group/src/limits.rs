//! Bounds of a node, and what happens when one is reached. They are values, so that tests make
//! them tiny.

use std::time::Duration;

/// Bounds and times of one node.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest frame on a link, in bytes; a larger one ends the link ([`crate::Refusal`]).
    pub frame_bytes_max: usize,
    /// Links, including those being made. One more is refused, by name. Over TCP at most 900, so
    /// that what their threads report always finds room.
    pub links_max: usize,
    /// Bytes that wait to be written to one link beyond which senders are held: their mailboxes
    /// rest until the link has drained to half of it.
    pub link_bytes_high: usize,
    /// Bytes that wait to be written to one link; more end the link with
    /// [`crate::Refusal::Backlog`], so that memory stays bounded when a sender ignores the hold.
    pub link_bytes_max: usize,
    /// Frames that wait for a link being made; one more fails as if the node was unreachable.
    pub pending_max: usize,
    /// Questions to other nodes that wait for an answer; one more fails at once.
    pub asks_max: usize,
    /// Commands whose work is under way at this node; one more is answered with
    /// [`crate::GroupError::Busy`].
    pub operations_max: usize,
    /// Processes; one more is not spawned.
    pub processes_max: usize,
    /// Messages in the mailbox of one process; one more is refused to its sender.
    pub mailbox_max: usize,
    /// Commands and sends of this node's own processes that wait for the node; one more comes back.
    /// At least 1.
    pub queue_max: usize,
    /// Groups that one node may be in; one more invitation is declined.
    pub groups_max: usize,
    /// Members of one group; more nodes are dropped from the request.
    pub members_max: usize,
    /// Names registered in one group; one more is answered with [`crate::GroupError::Busy`]. What
    /// members that meet keep beyond it is left out here, until they meet again.
    pub names_max: usize,
    /// Groups that were deleted or left and are remembered, so that a node that was down hears of
    /// it; the oldest is forgotten first.
    pub tombstones_max: usize,
    /// Attributes of a node; more are answered with [`crate::GroupError::Busy`].
    pub attributes_max: usize,
    /// Groups of others that a node remembers because it asked for them; more are asked for again.
    pub known_max: usize,
    /// Links and monitors between processes of this node and others; one more ends at once, with
    /// [`crate::Reason::Limit`].
    pub relations_max: usize,
    /// How long a connection may take until both sides have proved who they are.
    pub handshake: Duration,
    /// How often a link that has nothing to say says so.
    pub heartbeat: Duration,
    /// How long nothing may be heard before a link counts as broken.
    pub silence: Duration,
    /// How long a question to another node waits for its answer, where its asker sets no deadline.
    pub ask: Duration,
    /// How long a node waits before it dials a member of its group whose name is smaller, which
    /// dials too: so both seldom do it at once.
    pub dial_grace: Duration,
    /// How long a node waits before it dials a member of its group again, the first time. It
    /// doubles up to [`Limits::redial_max`].
    pub redial_min: Duration,
    /// See [`Limits::redial_min`].
    pub redial_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes_max: 16 << 20,
            links_max: 512,
            link_bytes_high: 4 << 20,
            link_bytes_max: 64 << 20,
            pending_max: 4_096,
            asks_max: 65_536,
            operations_max: 16_384,
            processes_max: 60_000,
            mailbox_max: 65_536,
            queue_max: 65_536,
            groups_max: 256,
            members_max: 4_096,
            names_max: 1_000_000,
            tombstones_max: 1_024,
            attributes_max: 256,
            known_max: 8_192,
            relations_max: 1_000_000,
            handshake: Duration::from_secs(5),
            heartbeat: Duration::from_secs(5),
            silence: Duration::from_secs(20),
            ask: Duration::from_secs(5),
            dial_grace: Duration::from_millis(300),
            redial_min: Duration::from_millis(500),
            redial_max: Duration::from_secs(30),
        }
    }
}

/// The largest frame before both sides have proved who they are, in bytes.
pub(crate) const HELLO_BYTES_MAX: usize = 2_048;

/// Attempts of a change that finds another coordinator each time.
pub(crate) const SUBMITS_MAX: u32 = 64;

/// Attempts of a change for which sender and coordinator must see the same members. More, and the
/// network is one in which they never will.
pub(crate) const AGREE_MAX: u32 = 20;

/// How long a change waits before it looks for the coordinator again.
pub(crate) const SUBMIT_RETRY: Duration = Duration::from_millis(50);

const _: () = assert!(actor::limits::Bounds::USUAL.relations_max > 60_000);
