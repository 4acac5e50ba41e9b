//! What a service may do to the connection whose event it handles. Wishes take effect when the
//! handler returns.

use actor::{Shard, ShardId};
use stdx::time::Moment;

use crate::service::ConnRef;

/// The surroundings of one event of one connection.
pub struct Cx<'a> {
    pub(crate) shard: &'a mut Shard,
    pub(crate) id: ConnRef,
    pub(crate) now: Moment,
    pub(crate) out: &'a mut Vec<u8>,
    pub(crate) wishes: Wishes,
    pub(crate) in_flight: u16,
    pub(crate) window: u16,
}

/// What a handler wants to happen to its connection.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) start_tls: bool,
    pub(crate) close: bool,
    pub(crate) abort: bool,
    pub(crate) hand_over: Option<ShardId>,
    pub(crate) deadline: Option<Option<Moment>>,
    pub(crate) paused: Option<bool>,
    /// Stanzas sent on in this handler.
    pub(crate) sent: u16,
}

impl Cx<'_> {
    /// The runtime, to send to actors.
    pub fn mail(&mut self) -> &mut Shard {
        self.shard
    }

    /// What is written to the peer at the end of this turn, encrypted if TLS is on.
    pub fn out(&mut self) -> &mut Vec<u8> {
        self.out
    }

    /// This connection.
    pub fn id(&self) -> ConnRef {
        self.id
    }

    /// The time of this turn.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Starts TLS once what is in [`Cx::out`] has been written. Bytes that came behind the request
    /// are thrown away: they were not protected.
    pub fn start_tls(&mut self) {
        self.wishes.start_tls = true;
    }

    /// Closes once everything is written.
    pub fn close_after_flush(&mut self) {
        self.wishes.close = true;
    }

    /// Closes at once.
    pub fn abort(&mut self) {
        self.wishes.abort = true;
    }

    /// Sets or clears the one deadline of the connection. Moving it into the future costs next to
    /// nothing.
    pub fn set_deadline(&mut self, at: Option<Moment>) {
        self.wishes.deadline = Some(at);
    }

    /// Stops reading, or goes on; what has come already is kept.
    pub fn set_paused(&mut self, paused: bool) {
        self.wishes.paused = Some(paused);
    }

    /// Moves the connection to another shard, or does nothing if it is there.
    pub fn hand_over(&mut self, shard: ShardId) {
        if shard != self.id.shard {
            self.wishes.hand_over = Some(shard);
        }
    }

    /// One more stanza is under way to its actor; reading stops at the window until
    /// [`Io::credit`](crate::Io::credit).
    pub fn sent_on(&mut self) {
        self.wishes.sent = self.wishes.sent.saturating_add(1);
    }

    /// Whether another stanza may be sent on. A handler that gets `false` returns what it has used
    /// so far; the rest comes again when there is room.
    pub fn has_window(&self) -> bool {
        self.in_flight.saturating_add(self.wishes.sent) < self.window
    }

    /// Whether the service wants nothing more from this connection here.
    pub fn is_ending(&self) -> bool {
        let wishes = &self.wishes;
        wishes.close || wishes.abort || wishes.start_tls || wishes.hand_over.is_some()
    }
}
