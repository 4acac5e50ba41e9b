//! The loop of one shard's thread: poll, hand bytes to the service, let the actors have their turn,
//! write what came of it. Owns the order of a turn, timers, and the way into and out of service
//! code; reading, writing and accepting have files of their own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use actor::{Pressure, Shard, ShardId, ShardSeed, Stage};
use mio::{Events, Poll, Token};
use stdx::slab::Key;
use stdx::time::{Clock, Moment};
use stdx::wheel::{TimerKey, TimerWheel};
use telemetry::{Counter, Gauge};

use crate::accept::Acceptor;
use crate::core::Core;
use crate::cx::{Cx, Wishes};
use crate::disturb::Trouble;
use crate::io::Io;
use crate::limits::{
    EVENTS_MAX, POOLED_BYTES_MAX, READ_BUFFER, READS_APART_PER_TURN, READS_PER_TURN, RUNNABLE_MAX,
};
use crate::link::Flags;
use crate::listen::Speaks;
use crate::network::{DriverSeed, LISTENERS_MAX, Ports, Settings, Shared};
use crate::output::begin_tls;
use crate::passage::{Opener, Passage};
use crate::port::{Port, PortMsg, Remote};
use crate::record::SEALED_MAX;
use crate::service::{Closed, Service};
use crate::shed::Shedding;

const WAKE: Token = Token(usize::MAX);
/// Tokens of listeners count down from here.
const LISTENERS: usize = usize::MAX - 1;
/// The longest sleep: a bound on how late a switch is noticed whose wake-up failed.
const SLEEP_MAX: Duration = Duration::from_millis(500);
/// How often actors and protocol states answer each other within one turn before sockets are
/// looked after again.
const ROUNDS_MAX: usize = 4;
/// How often counters are published to other threads.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);

/// The loop of one shard.
pub struct Driver<S: Service> {
    pub(crate) poll: Poll,
    pub(crate) shard: Shard,
    pub(crate) service: S,
    /// Protocol states, by the index of their connection. Each in memory of its own, which goes
    /// with it.
    pub(crate) conns: Vec<Option<Box<S::Conn>>>,
    pub(crate) core: Rc<RefCell<Core<S::Control>>>,
    pub(crate) passage: Rc<RefCell<Passage<S::Conn>>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) ports: Arc<Ports<S>>,
    pub(crate) acceptor: Acceptor,
    pub(crate) settings: Settings,
    pub(crate) timers: TimerWheel<Key>,
    /// Connections that are handed over to another shard.
    pub(crate) leaving: Vec<(Key, ShardId)>,
    /// Those that move to one and keep their name.
    pub(crate) moving: Vec<(Key, ShardId)>,
    /// TLS handshake steps that this turn may still do.
    pub(crate) handshakes_left: usize,
    pub(crate) now: Moment,
    pub(crate) buffers: Buffers,
    clock: Arc<dyn Clock>,
    /// Those of the last [`Driver::step`], kept to reuse their memory.
    stepped: Option<Events>,
    /// When the next [`Driver::step`] has something to do, whatever the poll says.
    due_at: Moment,
    version: u64,
    /// Output of the handler that runs; empty in between.
    spare: Vec<u8>,
    due: Vec<Key>,
    pub(crate) draining: Option<Draining>,
    pub(crate) shedding: Shedding,
    pub(crate) trouble: Trouble,
    published_at: Moment,
    /// Nobody is read in this turn.
    holds_back: bool,
}

/// What a shard lends to whichever connection needs it.
pub(crate) struct Buffers {
    /// Bytes as they come from a socket.
    pub(crate) read: Box<[u8]>,
    /// Plaintext of the TLS records just read.
    pub(crate) plain: Vec<u8>,
    /// Ciphertext about to be written.
    pub(crate) sealed: Box<[u8]>,
}

/// A shutdown under way.
pub(crate) struct Draining {
    /// Connections that have not been told yet.
    pub(crate) left: VecDeque<Key>,
    until: Moment,
}

struct Wake(Arc<mio::Waker>);

impl actor::Waker for Wake {
    fn wake(&self) {
        // A failed wake costs at most the longest sleep, which is bounded.
        let _ = self.0.wake();
    }
}

impl<S: Service> DriverSeed<S> {
    /// Builds shard, service and loop on the thread that will run them.
    ///
    /// # Errors
    /// The operating system's, if it gives no poll.
    pub fn build(
        self,
        seed: ShardSeed,
        clock: Arc<dyn Clock>,
        service: impl FnOnce(&mut Shard, Io<S::Control>, Opener<S::Conn>) -> S,
    ) -> io::Result<Driver<S>> {
        let poll = Poll::new()?;
        let waker = Arc::new(mio::Waker::new(poll.registry(), WAKE)?);
        let id = seed.id();
        if let Some(slot) = self.shared.wakers.get(usize::from(id.index())) {
            // A shard is built once.
            let _ = slot.set(Arc::clone(&waker));
        }
        let mut shard = seed.build(Arc::clone(&clock), Arc::new(Wake(waker)));
        let version = self.shared.version();
        let settings = self.shared.settings();
        let (limits, shards) = (&settings.limits, self.ports.count());
        let kept = Arc::clone(&self.shared.kept);
        let core = Core::new((id, shards), limits, kept, S::encode);
        let core = Rc::new(RefCell::new(core));
        let passage = Rc::new(RefCell::new(Passage::new(shards, limits)));
        shard.set_patient_mailbox::<PortMsg<S>>(settings.limits.port_mailbox_max);
        let port = actor::Mail::spawn(
            &mut shard,
            Port {
                core: Rc::clone(&core),
                passage: Rc::clone(&passage),
            },
        );
        self.ports.set(id, port);
        let io = Io {
            core: Rc::clone(&core),
        };
        let service = service(&mut shard, io, Opener::new(&passage));
        let acceptor = Acceptor::new(self.listeners, self.sockets, poll.registry(), LISTENERS)?;
        let now = clock.now();
        let mut timers = TimerWheel::new();
        timers.advance(now, &mut |_| {});
        Ok(Driver {
            poll,
            shard,
            service,
            conns: Vec::new(),
            core,
            passage,
            shared: self.shared,
            ports: self.ports,
            acceptor,
            handshakes_left: settings.limits.handshakes_per_turn,
            settings,
            timers,
            leaving: Vec::new(),
            moving: Vec::new(),
            now,
            buffers: Buffers {
                read: vec![0; READ_BUFFER].into(),
                plain: Vec::new(),
                sealed: vec![0; SEALED_MAX].into(),
            },
            clock,
            stepped: None,
            due_at: Moment::ZERO,
            version,
            spare: Vec::new(),
            due: Vec::new(),
            draining: None,
            shedding: Shedding::default(),
            trouble: Trouble::default(),
            published_at: now,
            holds_back: false,
        })
    }
}

// === The turn ===================================================================================

impl<S: Service> Driver<S> {
    /// Runs until [`Shared::stop`].
    ///
    /// # Errors
    /// The poll's.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let mut sleep = Duration::ZERO;
        while !self.shared.stopping() {
            self.spend(Stage::Working);
            match self.poll.poll(&mut events, Some(sleep)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => result?,
            }
            self.spend(if sleep > Duration::ZERO {
                Stage::Idle
            } else {
                Stage::Polling
            });
            // What a panic leaves behind is given up, not used again; see `start_over`.
            sleep = match catch_unwind(AssertUnwindSafe(|| self.turn(&events))) {
                Ok(sleep) => sleep,
                Err(_) => {
                    self.start_over()?;
                    Duration::ZERO
                }
            };
        }
        self.finish_all();
        Ok(())
    }

    /// One turn for sockets that are ready now, without sleeping: for a simulation that runs every
    /// shard on one thread. A loop that would go on sleeping has none. Returns how long the loop
    /// could sleep after it.
    ///
    /// # Errors
    /// The poll's.
    pub fn step(&mut self) -> io::Result<Duration> {
        let events = self.stepped.take();
        let mut events = events.unwrap_or_else(|| Events::with_capacity(EVENTS_MAX));
        self.poll.poll(&mut events, Some(Duration::ZERO))?;
        self.now = self.clock.now();
        let is_quiet = events.is_empty();
        if is_quiet && self.now < self.due_at {
            self.stepped = Some(events);
            return Ok(self.due_at.saturating_since(self.now));
        }
        let sleep = self.turn(&events);
        self.due_at = self.now + sleep;
        self.stepped = Some(events);
        Ok(if is_quiet { sleep } else { Duration::ZERO })
    }

    /// The next [`Driver::step`] has something to do that no poll says.
    pub(crate) fn has_news(&mut self) {
        self.due_at = Moment::ZERO;
    }

    /// One turn; returns how long the loop may sleep after it.
    fn turn(&mut self, events: &Events) -> Duration {
        self.shard.begin_at(self.now);
        self.service.turn_begins(&mut self.shard);
        self.notice_switches();
        self.handshakes_left = self.settings.limits.handshakes_per_turn;
        for event in events {
            self.event(event);
        }
        self.accept_all();
        self.read_some();
        self.fire_timers();
        self.drain_some();
        self.shed_some();
        let mut turn = self.shard.turn();
        let mut unsettled = self.settle();
        for _ in 1..ROUNDS_MAX {
            if !unsettled {
                break;
            }
            turn = self.shard.turn();
            unsettled = self.settle();
        }
        self.flush_all();
        self.publish();
        self.sleep(turn, unsettled)
    }

    fn read_some(&mut self) {
        for _ in 0..self.reads_now() {
            let Some(id) = self.core.borrow_mut().ready.pop_front() else {
                break;
            };
            self.read(id);
        }
        if self.is_stalled() {
            return;
        }
        let apart = self.core.borrow().ready_apart.len();
        for _ in 0..apart.min(READS_APART_PER_TURN) {
            let Some(id) = self.core.borrow_mut().ready_apart.pop_front() else {
                break;
            };
            self.read(id);
        }
    }

    /// How many connections are read in this turn, and how much of each. Where messages pile up,
    /// everybody gets one through at a time, so that who sends much gets no more than others; and
    /// nobody while there is no end to the pile. While the actors have enough to do already, what
    /// comes waits in the sockets: it would only wait here instead, in memory.
    fn reads_now(&mut self) -> usize {
        let pressure = self.shard.pressure();
        self.holds_back = pressure == Pressure::Full || self.is_stalled();
        let core = &mut *self.core.borrow_mut();
        core.window = match pressure {
            Pressure::Low => self.settings.limits.window_max,
            Pressure::High | Pressure::Full => 1,
        };
        if self.holds_back || self.shard.runnable() > RUNNABLE_MAX {
            0
        } else {
            core.ready.len().min(READS_PER_TURN)
        }
    }

    /// Lets protocol states and other shards have what the actors' turn left for them. Returns
    /// whether the actors may have new mail.
    fn settle(&mut self) -> bool {
        if self.leaving.is_empty()
            && self.moving.is_empty()
            && self.core.borrow().is_settled()
            && self.passage.borrow().is_settled()
        {
            return false;
        }
        let mut again = self.adopt_arrivals();
        again |= self.open_new();
        let controls = self.core.borrow().controls.len();
        for _ in 0..controls {
            let Some((id, msg)) = self.core.borrow_mut().controls.pop_front() else {
                break;
            };
            let mut msg = Some(msg);
            self.call(id, |service, cx, conn| {
                if let Some(msg) = msg.take() {
                    service.control(cx, conn, msg);
                }
            });
            if let Some(msg) = msg {
                self.service.undelivered(&mut self.shard, msg);
            }
            again = true;
        }
        let written = mem::take(&mut self.core.borrow_mut().written);
        for id in written {
            self.call(id, |service, cx, conn| service.written(cx, conn));
        }
        again |= self.open_new();
        again |= self.send_away();
        self.flush_remotes() || again
    }

    fn is_stalled(&self) -> bool {
        self.now < self.trouble.stalled_until
    }

    fn sleep(&mut self, turn: actor::Turn, unsettled: bool) -> Duration {
        let (core, passage) = (self.core.borrow(), self.passage.borrow());
        let busy = turn.more
            || unsettled
            || (!core.ready.is_empty() && !self.holds_back)
            || (!core.ready_apart.is_empty() && !self.is_stalled())
            || !core.dirty.is_empty()
            || !core.controls.is_empty()
            || passage.has_openings()
            || !core.written.is_empty()
            || self
                .draining
                .as_ref()
                .is_some_and(|draining| !draining.left.is_empty());
        if busy {
            return Duration::ZERO;
        }
        // A shard that did not take its mail is tried again soon, without spinning.
        let blocked = !self.leaving.is_empty()
            || !self.moving.is_empty()
            || !core.roaming.called_back.is_empty()
            || !core.ready.is_empty()
            || core.remotes.iter().any(Remote::has_batch)
            || passage.has_leaving();
        let retry = blocked.then(|| self.now + Duration::from_millis(1));
        let accept = self.acceptor.wake_at(self.now);
        let until = self.draining.as_ref().map(|draining| draining.until);
        let stalled = self.is_stalled().then_some(self.trouble.stalled_until);
        let moments = [
            stalled,
            turn.next_deadline,
            self.timers.next_deadline(),
            retry,
            accept,
            until,
            self.shedding.wake_at(),
        ];
        let next = moments.into_iter().flatten().min();
        next.map_or(SLEEP_MAX, |next| next.saturating_since(self.now))
            .min(SLEEP_MAX)
    }

    fn event(&mut self, event: &mio::event::Event) {
        let Token(token) = event.token();
        if token > LISTENERS - LISTENERS_MAX {
            if event.token() != WAKE {
                self.acceptor.note_ready(LISTENERS - token);
            }
            return;
        }
        let id = key_of(token);
        let mut core = self.core.borrow_mut();
        let Some(link) = core.links.get_mut(id) else {
            return;
        };
        if event.is_writable() && link.flags.has(Flags::BLOCKED) {
            link.flags.clear(Flags::BLOCKED);
            core.mark_dirty(id);
        }
        let Some(link) = core.links.get_mut(id) else {
            return;
        };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            link.flags.set(Flags::READABLE);
            if event.is_read_closed() || event.is_error() {
                link.flags.set(Flags::READ_CLOSED);
            }
            core.enqueue(id);
        }
    }

    fn notice_switches(&mut self) {
        let version = self.shared.version();
        if version != self.version {
            self.version = version;
            self.settings = self.shared.settings();
            self.core.borrow_mut().take_limits(&self.settings.limits);
            if self.settings.is_closed {
                self.acceptor.stop();
            }
            self.notice_shed();
            self.disturb();
        }
        if self.draining.is_none()
            && let Some(deadline) = self.shared.draining()
        {
            self.acceptor.stop();
            let left = self.core.borrow().links.keys().into();
            self.draining = Some(Draining {
                left,
                until: self.now + deadline,
            });
        }
    }

    /// Tells some connections to say goodbye; ends all once their time is up and each was told,
    /// however little time that is.
    fn drain_some(&mut self) {
        let count = self.settings.limits.told_per_turn;
        let Some(draining) = &mut self.draining else {
            return;
        };
        let count = draining.left.len().min(count);
        let batch: Vec<Key> = draining.left.drain(..count).collect();
        let overdue = draining.until <= self.now && draining.left.is_empty();
        for id in batch {
            self.call(id, |service, cx, conn| service.drain(cx, conn));
        }
        if overdue {
            let left = self.core.borrow().links.keys();
            for id in left {
                self.flush(id);
                self.finish(id, Closed::Shutdown);
            }
            if let Some(draining) = &mut self.draining {
                draining.until = Moment::FAR;
            }
        }
    }

    fn finish_all(&mut self) {
        self.acceptor.stop();
        let left = self.core.borrow().links.keys();
        for id in left {
            self.finish(id, Closed::Shutdown);
        }
        self.shard.shut_down();
        self.settle();
        self.published_at = Moment::ZERO;
        self.publish();
    }
}

// === Into the service and back ==================================================================

impl<S: Service> Driver<S> {
    /// Runs the service's handler for a connection that it does not know yet.
    pub(crate) fn call_new(
        &mut self,
        id: Key,
        handler: impl FnOnce(&mut S, &mut Cx<'_>) -> S::Conn,
    ) -> Option<(S::Conn, Wishes)> {
        let mut cx = Cx {
            shard: &mut self.shard,
            id: self.core.borrow().name(id),
            now: self.now,
            out: &mut self.spare,
            wishes: Wishes::default(),
            in_flight: 0,
            window: self.core.borrow().window,
            encode: S::encode,
            is_encoded: false,
            final_until: 0,
        };
        let result = catch_unwind(AssertUnwindSafe(|| handler(&mut self.service, &mut cx)));
        let wishes = cx.wishes;
        if let Ok(conn) = result {
            return Some((conn, wishes));
        }
        self.spare.clear();
        self.finish(id, Closed::Crashed);
        None
    }

    /// Runs one of the service's handlers for a connection and does what it wished for. `None`
    /// when there is no such connection any more, or the handler panicked.
    pub(crate) fn call<R>(
        &mut self,
        id: Key,
        handler: impl FnOnce(&mut S, &mut Cx<'_>, &mut S::Conn) -> R,
    ) -> Option<R> {
        let conn = self.conns.get_mut(id.index as usize)?.as_mut()?;
        let (in_flight, is_encoded) = {
            let core = self.core.borrow();
            let link = core.links.get(id)?;
            if link.flags.has(Flags::LINGERING | Flags::ABORT) {
                return None;
            }
            (link.in_flight, link.flags.has(Flags::ENCODED))
        };
        let mut cx = Cx {
            shard: &mut self.shard,
            id: self.core.borrow().name(id),
            now: self.now,
            out: &mut self.spare,
            wishes: Wishes::default(),
            in_flight,
            window: self.core.borrow().window,
            encode: S::encode,
            is_encoded,
            final_until: 0,
        };
        // The state of a handler that panicked is dropped with its connection, never used again.
        let result = catch_unwind(AssertUnwindSafe(|| {
            handler(&mut self.service, &mut cx, conn)
        }));
        cx.finalize();
        let wishes = cx.wishes;
        self.after(id, wishes);
        match result {
            Ok(value) => Some(value),
            Err(_) => {
                self.core.borrow_mut().stats.count(Counter::NetCrashed);
                self.finish(id, Closed::Crashed);
                None
            }
        }
    }

    /// Makes a handler's wishes come true.
    pub(crate) fn after(&mut self, id: Key, mut wishes: Wishes) {
        if let Some(address) = wishes.comes_from {
            wishes.abort |= !self.count_for(id, address);
        }
        let core = &mut *self.core.borrow_mut();
        if !self.spare.is_empty() {
            if let Some(busy) = core.busy(id) {
                if busy.out.is_empty() && busy.out.capacity() < self.spare.len() {
                    mem::swap(&mut busy.out, &mut self.spare);
                } else {
                    busy.out.extend_from_slice(&self.spare);
                }
            }
            self.spare.clear();
            self.spare.shrink_to(POOLED_BYTES_MAX);
            core.mark_dirty(id);
        }
        let Some(link) = core.links.get_mut(id) else {
            return;
        };
        link.in_flight = link.in_flight.saturating_add(wishes.sent);
        if link.in_flight >= core.window {
            link.flags.set(Flags::PAUSED_WINDOW);
        }
        if wishes.encode {
            link.flags.set(Flags::ENCODED);
        }
        if wishes.mute {
            link.flags.set(Flags::ENDED);
        }
        if wishes.charged > Duration::ZERO {
            core.charge(id, wishes.charged, self.settings.limits.rate, self.now);
        }
        let Some(link) = core.links.get_mut(id) else {
            return;
        };
        if let Some(deadline) = wishes.deadline {
            link.deadline = deadline.unwrap_or(Moment::FAR);
        }
        match wishes.apart {
            Some(true) => link.flags.set(Flags::APART),
            Some(false) => link.flags.clear(Flags::APART),
            None => {}
        }
        match wishes.paused {
            Some(true) => link.flags.set(Flags::PAUSED_SERVICE),
            Some(false) => core.resume(id, Flags::PAUSED_SERVICE),
            None => {}
        }
        if !wishes.feed.is_empty()
            && let Some(busy) = core.busy(id)
        {
            busy.kept.append(&mut wishes.feed);
            let is_long = busy.kept.len() > self.settings.limits.fed_max;
            let is_too_much = !core.may_keep(id);
            if let Some(link) = core.links.get_mut(id) {
                link.flags.set(Flags::TO_RECEIVE);
                if is_long || is_too_much {
                    link.flags.set(Flags::FLOODED);
                    core.mark_dirty(id);
                }
            }
            core.enqueue(id);
        }
        if wishes.wake_output {
            core.mark_dirty(id);
        }
        if wishes.start_tls {
            begin_tls(core, &self.settings, self.now, id, Speaks::Xmpp);
        }
        let Some(link) = core.links.get_mut(id) else {
            return;
        };
        if let Some(shard) = wishes.move_to
            && !link.flags.has(Flags::DEAF)
        {
            link.flags.set(Flags::LEAVING);
            self.moving.push((id, shard));
        }
        // Also one that is about to move.
        if let Some(shard) = wishes.hand_over
            && !link.flags.has(Flags::ENDING)
        {
            link.flags.set(Flags::LEAVING);
            self.leaving.push((id, shard));
        }
        if wishes.close {
            link.flags.set(Flags::CLOSING);
            core.mark_dirty(id);
        }
        if wishes.abort
            && let Some(link) = core.links.get_mut(id)
        {
            link.flags.set(Flags::ABORT);
            core.mark_dirty(id);
        }
        arm(core, &mut self.timers, id);
    }

    /// Ends a connection: tells the service, and frees everything, at once or after the peer's end.
    pub(crate) fn finish(&mut self, id: Key, why: Closed) {
        let (lingers, name) = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            let lingers = why == Closed::ByUs && !link.flags.has(Flags::READ_CLOSED);
            // Two halves are one connection, which has ended once.
            if !link.flags.has(Flags::LINGERING | Flags::HALF) {
                core.stats.count(counter_of(why));
            }
            (lingers, core.name(id))
        };
        if let Some(conn) = self.conns.get_mut(id.index as usize).and_then(Option::take) {
            let service = &mut self.service;
            let runtime = &mut self.shard;
            let closed = AssertUnwindSafe(|| {
                service.closed(runtime, name, *conn, why);
            });
            if catch_unwind(closed).is_err() {
                self.core.borrow_mut().stats.count(Counter::NetCrashed);
            }
            self.core.borrow_mut().drop_name(id);
        }
        if lingers {
            self.linger(id);
        } else {
            self.remove(id);
        }
    }

    /// Frees a connection of which the service knows nothing any more.
    pub(crate) fn remove(&mut self, id: Key) {
        let core = &mut *self.core.borrow_mut();
        // Closing the descriptor takes it out of the poll.
        let Some(link) = core.links.remove(id) else {
            return;
        };
        self.timers.cancel(link.timer);
        if !link.flags.has(Flags::HALF) {
            self.shared.addresses.leave(link.address);
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
        if let Some(busy) = link.busy {
            core.recycle(busy);
        }
    }
}

// === Time =======================================================================================

/// Sees to it that the wheel holds an entry no later than the connection's next moment. An entry
/// that is too early is left alone: it is filed again when it fires, so that a deadline that moves
/// with every stanza costs nothing.
pub(crate) fn arm<C>(core: &mut Core<C>, timers: &mut TimerWheel<Key>, id: Key) {
    let Some(link) = core.links.get_mut(id) else {
        return;
    };
    let due = link.due();
    if due >= link.timer_at {
        return;
    }
    timers.cancel(link.timer);
    link.timer = timers.insert(due, id);
    link.timer_at = due;
}

impl<S: Service> Driver<S> {
    fn fire_timers(&mut self) {
        let mut due = mem::take(&mut self.due);
        self.timers.advance(self.now, &mut |id| due.push(id));
        for id in due.drain(..) {
            self.fire(id);
        }
        self.due = due;
    }

    fn fire(&mut self, id: Key) {
        let now = self.now;
        let (overdue, flags, deadline) = {
            let core = &mut *self.core.borrow_mut();
            let Some(link) = core.links.get_mut(id) else {
                return;
            };
            link.timer = TimerKey::DEAD;
            link.timer_at = Moment::FAR;
            let resumes = link.busy.as_ref().is_some_and(|busy| busy.resume_at <= now);
            let overdue = link.busy.as_ref().is_some_and(|busy| busy.deadline <= now);
            let deadline = link.deadline <= now;
            if deadline {
                link.deadline = Moment::FAR;
            }
            let flags = link.flags;
            if resumes {
                if let Some(busy) = &mut link.busy {
                    busy.resume_at = Moment::FAR;
                }
                core.resume(id, Flags::PAUSED_RATE);
                core.release(id);
            }
            (overdue, flags, deadline)
        };
        if overdue {
            return if flags.has(Flags::LINGERING) {
                self.remove(id);
            } else {
                self.finish(id, Closed::Timeout);
            };
        }
        if deadline && !flags.has(Flags::ENDING) {
            self.call(id, |service, cx, conn| service.deadline(cx, conn));
        }
        arm(&mut self.core.borrow_mut(), &mut self.timers, id);
    }

    /// Notes what the time since the last call was spent on.
    fn spend(&mut self, stage: Stage) {
        let before = mem::replace(&mut self.now, self.clock.now());
        self.shard
            .note_time(stage, self.now.saturating_since(before));
    }

    fn publish(&mut self) {
        if self.now.saturating_since(self.published_at) < PUBLISH_EVERY {
            return;
        }
        self.published_at = self.now;
        let core = &mut *self.core.borrow_mut();
        core.stats
            .set(Gauge::NetConnections, core.links.len() as u64);
        if let Some(shared) = self.shared.stats.get(usize::from(core.shard.index())) {
            shared.publish(&core.stats);
        }
    }
}

/// The poll's token of a connection, and back.
pub(crate) fn token_of(id: Key) -> Token {
    Token(id.index as usize | (id.generation as usize) << 32)
}

fn key_of(token: usize) -> Key {
    Key {
        index: (token & 0xffff_ffff) as u32,
        generation: (token >> 32) as u32,
    }
}

fn counter_of(why: Closed) -> Counter {
    match why {
        Closed::ByPeer => Counter::NetClosedByPeer,
        Closed::ByUs => Counter::NetClosedByUs,
        Closed::Broken => Counter::NetBroken,
        Closed::Backlog => Counter::NetBacklog,
        Closed::Overflow => Counter::NetOverflow,
        Closed::Tls => Counter::NetTlsFailed,
        Closed::Timeout => Counter::NetTimeouts,
        Closed::Shutdown => Counter::NetShutdown,
        Closed::Crashed => Counter::NetCrashed,
    }
}
