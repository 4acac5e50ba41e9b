//! What a service may do to the connection whose event it handles. Wishes take effect when the
//! handler returns.

use std::net::IpAddr;
use std::time::Duration;

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
    /// The service's [`encode`](crate::Service::encode).
    pub(crate) encode: fn(&mut Vec<u8>, usize),
    /// Whether it is applied to this connection.
    pub(crate) is_encoded: bool,
    /// How much of the output needs no encoding any more.
    pub(crate) final_until: usize,
}

/// What a handler wants to happen to its connection.
#[derive(Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) start_tls: bool,
    pub(crate) close: bool,
    pub(crate) abort: bool,
    pub(crate) hand_over: Option<ShardId>,
    pub(crate) move_to: Option<ShardId>,
    pub(crate) deadline: Option<Option<Moment>>,
    pub(crate) paused: Option<bool>,
    pub(crate) apart: Option<bool>,
    pub(crate) encode: bool,
    pub(crate) wake_output: bool,
    pub(crate) mute: bool,
    pub(crate) comes_from: Option<IpAddr>,
    /// Input of a connection without a socket.
    pub(crate) feed: Vec<u8>,
    /// Stanzas sent on in this handler.
    pub(crate) sent: u16,
    /// How much input of the connection costs beyond its length, as time of its allowance.
    pub(crate) charged: Duration,
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

    /// Lets `write` append what is not to be encoded, behind what was written so far.
    pub fn raw(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.finalize();
        write(self.out);
        self.final_until = self.out.len();
    }

    /// What is written from here on is encoded ([`Service::encode`](crate::Service::encode)),
    /// whoever writes it, for as long as the connection lasts.
    pub fn encode_from_here(&mut self) {
        self.final_until = self.out.len();
        self.is_encoded = true;
        self.wishes.encode = true;
    }

    /// Encodes what the handler has written so far.
    pub(crate) fn finalize(&mut self) {
        if self.is_encoded && self.final_until < self.out.len() {
            (self.encode)(self.out, self.final_until);
        }
        self.final_until = self.out.len();
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

    /// Takes back the wish to close, for a connection without a socket of which not all output is
    /// taken ([`Service::collect`](crate::Service::collect)). Returns whether there was one: then
    /// actors write no more to it, and it closes when that is wished again.
    pub fn put_off_close(&mut self) -> bool {
        let was_wished = std::mem::take(&mut self.wishes.close);
        self.wishes.mute |= was_wished;
        was_wished
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

    /// The deadline that this handler has set so far, if any: `Some(None)` for one cleared.
    pub fn wished_deadline(&self) -> Option<Option<Moment>> {
        self.wishes.deadline
    }

    /// Input for this connection, as if it had come from a socket, behind what waits already. It
    /// is received in this turn or the next, window and pauses permitting. For connections without
    /// a socket; one for which too much waits ends ([`Limits::fed_max`](crate::Limits::fed_max)).
    pub fn feed(&mut self, input: &[u8]) {
        self.wishes.feed.extend_from_slice(input);
    }

    /// Has output that was left by [`Service::collect`](crate::Service::collect) offered again.
    pub fn wake_output(&mut self) {
        self.wishes.wake_output = true;
    }

    /// A proxy that is believed has said whose this connection is: from here on it counts for that
    /// address, and for the proxy's no more. It ends if that address has too many.
    pub fn comes_from(&mut self, address: IpAddr) {
        self.wishes.comes_from = Some(address);
    }

    /// Stops reading, or goes on; what has come already is kept.
    pub fn set_paused(&mut self, paused: bool) {
        self.wishes.paused = Some(paused);
    }

    /// Whether what comes here is no work for actors: then it is read also while they have too much
    /// to do. Of these connections few are read in a turn, whoever else is.
    pub fn set_apart(&mut self, is_apart: bool) {
        self.wishes.apart = Some(is_apart);
    }

    /// Hands the connection over to another shard, where it gets a name of its own
    /// ([`Service::adopted`](crate::Service::adopted)); nothing if its name is of that shard. What
    /// is said under the old name once it has gone finds nobody.
    pub fn hand_over(&mut self, shard: ShardId) {
        if shard != self.id.shard {
            self.wishes.hand_over = Some(shard);
        }
    }

    /// Moves the connection to another shard under the name that it has, so that whoever has that
    /// name notices nothing; the service is not told. What is said to it goes by the shard of its
    /// name, which costs a message between shards each time. Nothing if it is there, and for
    /// connections without a socket.
    pub fn move_to(&mut self, shard: ShardId) {
        if shard != self.shard() {
            self.wishes.move_to = Some(shard);
        }
    }

    /// Where the connection is: the shard that its name says, unless it has moved.
    pub fn shard(&self) -> ShardId {
        self.shard.id()
    }

    /// One more stanza is under way to its actor; reading stops at the window until
    /// [`Io::credit`](crate::Io::credit).
    pub fn sent_on(&mut self) {
        self.wishes.sent = self.wishes.sent.saturating_add(1);
    }

    /// Counts what came as all that may come in so much time (see
    /// [`Limits::rate`](crate::Limits::rate)), because it costs more than to read it. Without a
    /// rate, and for exempt addresses, nothing is counted.
    pub fn charge(&mut self, time: Duration) {
        self.wishes.charged = self.wishes.charged.saturating_add(time);
    }

    /// Whether another stanza may be sent on. A handler that gets `false` returns what it has used
    /// so far; the rest comes again when there is room.
    pub fn has_window(&self) -> bool {
        self.in_flight.saturating_add(self.wishes.sent) < self.window
    }

    /// Whether the service wants nothing more from this connection here.
    pub fn is_ending(&self) -> bool {
        let wishes = &self.wishes;
        let leaves = wishes.hand_over.is_some() || wishes.move_to.is_some();
        wishes.close || wishes.abort || wishes.start_tls || leaves
    }
}
