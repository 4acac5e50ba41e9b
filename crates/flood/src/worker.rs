//! One worker: an event loop over its share of the users' connections.
//!
//! This file owns the loop, the timers and the phases; `worker/link.rs` the connections;
//! `worker/life.rs` what users do once online. A worker prints nothing and decides nothing about
//! the run: it follows the coordinator's words.

mod gather;
mod life;
mod link;
mod window;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use rustls::ClientConnection;

use crate::clock::{self, MILLI, SECOND};
use crate::plan::{Down, PhasePart, Plan, Tick, Up};
use crate::ring::{Ring, Seen, Standing, View};
use crate::sasl::KeyCache;
use crate::scenario::{Cut, Peer, Phase};
use crate::session::{Profile, Session, Stage};
use crate::tally::{Counts, Reasons, Timing, Timings};
use crate::websocket::Decoder;
use gather::{Gathered, Gathering, ORDERS_MAX};
use window::Chat;

/// Time between ticks.
const TICK: u64 = 250 * MILLI;
/// Timers fired before sockets are looked at again.
const TIMERS_PER_TURN: usize = 2_048;
/// Events taken from the kernel at once.
const EVENTS_PER_TURN: usize = 1_024;
/// Bytes read at once; one buffer for all connections.
const READ_BYTES: usize = 64 * 1024;
/// Dead links kept open without reading, so that the server goes on believing in them.
const ZOMBIES_MAX: usize = 4_096;
/// A user who came or went less than this ago is left out of presence checks.
const MOVING: u64 = 300 * MILLI;

const TIMER_TOKEN: Token = Token(usize::MAX - 1);

/// What a timer is for. Those after `Timeout` belong to the activity of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Login,
    Cut,
    Leave,
    Enter,
    Keepalive,
    GiveUp,
    Timeout,
    Say,
    SayAny,
    Move,
    Query,
    EndSession,
    LoseLink,
}

impl Due {
    fn is_activity(self) -> bool {
        self > Due::Timeout
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: u64,
    client: u32,
    /// The connection the timer was made for; a later one has another number.
    generation: u32,
    due: Due,
}

/// One user. Small while offline or idle: buffers and login state are dropped when not in use.
#[derive(Default)]
struct Client {
    session: Session,
    socket: Option<TcpStream>,
    tls: Option<Box<ClientConnection>>,
    /// Present over WebSocket.
    web: Option<Box<Decoder>>,
    /// Bytes of an incomplete element.
    kept: Vec<u8>,
    /// Bytes the socket would not take.
    unsent: Vec<u8>,
    chat: Option<Box<Chat>>,
    /// Present once the user has entered a room or subscribed to a node.
    gathered: Option<Box<Gathered>>,
    generation: u32,
    /// When the login under way was meant to begin.
    scheduled: u64,
    /// When the user last came online or went offline.
    since: u64,
    /// The phase waits for this user.
    pending: bool,
    /// A login is scheduled.
    coming: bool,
    /// The bind of this login was timed already.
    bound: bool,
    /// The server may believe in a session that ended here.
    ghost: bool,
}

/// Everything but the clients, so that a client and the rest can be borrowed together.
struct Core {
    plan: Plan,
    profile: Profile,
    ring: Ring,
    poll: Poll,
    tls: Option<[Arc<rustls::ClientConfig>; 2]>,
    timers: BinaryHeap<Reverse<Timer>>,
    rng: fastrand::Rng,
    keys: KeyCache,
    buffer: Vec<u8>,
    out: Vec<u8>,
    scratch: Vec<u8>,
    seen: Seen,
    gathering: Gathering,
    zombies: VecDeque<TcpStream>,
    ports: link::Ports,
    /// Clients with more to read than one turn allows.
    unfinished: Vec<u32>,
    now: u64,
    step: u32,
    phase: Phase,
    /// The activity of the phase is on.
    active: bool,
    online: u32,
    pending: u32,
    coming: u32,
    logging_in: u32,
    heard: u64,
    last_ready: u64,
    counts: Counts,
    phase_counts: Counts,
    tick_counts: Counts,
    reasons: Reasons,
    timings: Timings,
    tick_timings: Timings,
}

struct Worker {
    core: Core,
    clients: Vec<Client>,
    timer: OwnedFd,
    armed: u64,
}

/// Runs a worker until it is told to finish or its coordinator is gone.
pub(crate) fn run(plan: Plan, inbox: &Receiver<Down>, report: &mut dyn FnMut(Up)) {
    match Worker::new(plan) {
        Ok(mut worker) => {
            if let Err(error) = worker.run(inbox, report) {
                report(Up::Failed(format!("the event loop failed: {error}")));
            }
        }
        Err(error) => report(Up::Failed(format!("cannot start a worker: {error}"))),
    }
}

impl Worker {
    fn new(plan: Plan) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        poll.registry().register(
            &mut SourceFd(&timer.as_raw_fd()),
            TIMER_TOKEN,
            Interest::READABLE,
        )?;
        let scenario = &plan.scenario;
        let ring = Ring {
            size: scenario.ring(),
            contacts: scenario.users.contacts,
        };
        let wants_tls = scenario.transport.starttls > 0.0 || scenario.transport.direct > 0.0;
        let tls = if wants_tls {
            Some(link::tls_configs()?)
        } else {
            None
        };
        let mut clients = Vec::new();
        clients.resize_with(plan.count as usize, Client::default);
        let core = Core {
            profile: Profile::of(scenario),
            ring,
            poll,
            tls,
            ports: link::Ports::new(&plan.sources, plan.worker, plan.workers),
            timers: BinaryHeap::new(),
            rng: fastrand::Rng::with_seed(plan.seed ^ (u64::from(plan.worker) << 32)),
            keys: KeyCache::new(&scenario.users.password),
            buffer: vec![0; READ_BYTES],
            out: Vec::new(),
            scratch: Vec::new(),
            gathering: Gathering::default(),
            seen: Seen::new(plan.count as usize, ring.contacts),
            zombies: VecDeque::new(),
            unfinished: Vec::new(),
            now: clock::now(),
            step: 0,
            phase: Phase::default(),
            active: false,
            online: 0,
            pending: 0,
            coming: 0,
            logging_in: 0,
            heard: 0,
            last_ready: 0,
            counts: Counts::default(),
            phase_counts: Counts::default(),
            tick_counts: Counts::default(),
            reasons: Reasons::default(),
            timings: Timings::new(3),
            tick_timings: Timings::new(1),
            plan,
        };
        Ok(Worker {
            core,
            clients,
            timer,
            armed: 0,
        })
    }

    fn run(&mut self, inbox: &Receiver<Down>, report: &mut dyn FnMut(Up)) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        let mut tick_at = clock::now();
        // Ends when the coordinator says so or is gone.
        loop {
            self.core.now = clock::now();
            loop {
                match inbox.try_recv() {
                    Ok(Down::Finish) | Err(TryRecvError::Disconnected) => return Ok(()),
                    Ok(down) => self.obey(down, report),
                    Err(TryRecvError::Empty) => break,
                }
            }
            self.fire_timers();
            if self.core.now >= tick_at {
                report(Up::Tick(Box::new(self.core.tick())));
                tick_at = self.core.now + TICK;
            }
            self.wait(&mut events, tick_at)?;
            for event in &events {
                if event.token() == TIMER_TOKEN {
                    continue;
                }
                let index = event.token().0 as u32;
                let client = &mut self.clients[index as usize];
                self.core.now = clock::now();
                self.core.ready(client, index, event);
            }
            for index in std::mem::take(&mut self.core.unfinished) {
                self.core.read(&mut self.clients[index as usize], index);
            }
        }
    }

    /// Sleeps until something happens. The timer descriptor wakes the loop to the microsecond;
    /// the millisecond steps of `epoll_wait` would show in every latency.
    fn wait(&mut self, events: &mut Events, tick_at: u64) -> io::Result<()> {
        let next = self
            .core
            .timers
            .peek()
            .map_or(tick_at, |Reverse(timer)| timer.at.min(tick_at));
        let now = clock::now();
        if next <= now || !self.core.unfinished.is_empty() {
            return match self.core.poll.poll(events, Some(std::time::Duration::ZERO)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                other => other,
            };
        }
        if next != self.armed {
            self.armed = next;
            let at = Timespec {
                tv_sec: (next / SECOND) as i64,
                tv_nsec: (next % SECOND) as _,
            };
            let zero = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            let spec = Itimerspec {
                it_interval: zero,
                it_value: at,
            };
            timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &spec)?;
        }
        match self.core.poll.poll(events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            other => other,
        }
    }

    fn fire_timers(&mut self) {
        for _ in 0..TIMERS_PER_TURN {
            let Some(Reverse(timer)) = self.core.timers.peek().copied() else {
                return;
            };
            if timer.at > self.core.now {
                return;
            }
            self.core.timers.pop();
            if timer.due == Due::SayAny {
                self.say_any(timer.at);
                continue;
            }
            let client = &mut self.clients[timer.client as usize];
            if timer.due == Due::Login || timer.generation == client.generation {
                self.core.fire(client, timer);
            }
        }
    }

    /// One message of the open loop: from a random user who is online.
    fn say_any(&mut self, at: u64) {
        let Some(messages) = self.core.phase.messages.clone() else {
            return;
        };
        let Some(rate) = messages.rate else { return };
        let mean = f64::from(self.core.plan.workers) / rate;
        let next = at + self.core.exponential(mean);
        self.core.set_timer(next, 0, 0, Due::SayAny);
        for _ in 0..16 {
            let index = self.core.rng.u32(0..self.core.plan.count);
            let client = &mut self.clients[index as usize];
            let place = messages.peer.place();
            let can_say = place.is_none_or(|place| client.is_inside(place));
            if client.session.stage == Stage::Online && can_say {
                return self.core.say(client, index, at, None);
            }
        }
        self.core.counts.messages_skipped += 1;
    }

    fn obey(&mut self, down: Down, report: &mut dyn FnMut(Up)) {
        match down {
            Down::Begin { phase, at, step } => {
                self.core.step = step;
                self.core.phase = self.core.plan.scenario.phases[phase].clone();
                self.begin(at);
                if self.core.phase.meanwhile {
                    self.hold(at);
                }
            }
            Down::Hold { at, step } => {
                self.core.step = step;
                self.hold(at);
            }
            Down::Calm { step } => {
                self.core.step = step;
                self.core.active = false;
                self.core
                    .timers
                    .retain(|Reverse(timer)| !timer.due.is_activity());
            }
            Down::Collect => {
                let part = self.collect();
                report(Up::Phase(Box::new(part)));
            }
            // Handled by the loop.
            Down::Finish => {}
        }
    }

    /// Schedules the arrivals, departures or cuts of the phase.
    fn begin(&mut self, at: u64) {
        let phase = self.core.phase.clone();
        self.clients.iter_mut().for_each(Client::forget_order);
        if let Some(entering) = &phase.enter {
            self.core.expect_entries(&mut self.clients, entering, at);
        }
        let total = self.core.plan.scenario.users.count;
        if let Some(arrive) = &phase.arrive {
            let wanted = self.core.plan.part(arrive.users.of(total));
            let who = self.pick(wanted, |client| {
                client.session.stage == Stage::Offline && !client.coming
            });
            for (place, index) in who.into_iter().enumerate() {
                let due = at + self.core.plan.due(place as u32, arrive.rate);
                self.core
                    .expect(&mut self.clients[index as usize], index, due);
            }
        }
        let online = |client: &Client| client.session.stage == Stage::Online;
        if let Some(leave) = &phase.leave {
            let wanted = self.core.plan.part(leave.users.of(total));
            for (place, index) in self.pick(wanted, online).into_iter().enumerate() {
                let due = at + self.core.plan.due(place as u32, leave.rate);
                let generation = self.clients[index as usize].generation;
                self.core.set_timer(due, index, generation, Due::Leave);
            }
        }
        if let Some(storm) = &phase.storm {
            let wanted = storm.users.of(self.core.online);
            // Nobody comes back before the cut, not even at the same moment.
            let back = at + clock::nanos(storm.back_after_seconds).max(1);
            for (place, index) in self.pick(wanted, online).into_iter().enumerate() {
                let client = &mut self.clients[index as usize];
                self.core.set_timer(at, index, client.generation, Due::Cut);
                let due = back + self.core.plan.due(place as u32, storm.rate);
                self.core.expect(client, index, due);
            }
        }
    }

    /// Some users at random. If any phase has messages between pairs, both of a pair or none of it,
    /// so far as numbers allow: a user without a partner would write to nobody.
    fn pick(&mut self, wanted: u32, fits: impl Fn(&Client) -> bool) -> Vec<u32> {
        let who: Vec<u32> = (0..self.core.plan.count)
            .filter(|index| fits(&self.clients[*index as usize]))
            .collect();
        let phases = &self.core.plan.scenario.phases;
        let are_paired = phases
            .iter()
            .flat_map(|phase| &phase.messages)
            .any(|messages| messages.peer == Peer::Pair);
        // A worker's first user is the first of a pair.
        let mut groups: Vec<&[u32]> = who
            .chunk_by(|one, next| are_paired && one / 2 == next / 2)
            .collect();
        self.core.rng.shuffle(&mut groups);
        let mut who = groups.concat();
        who.truncate(wanted as usize);
        who
    }

    /// Begins the activity of the phase for everyone who is online, unless it has begun. Who comes
    /// online later begins then.
    fn hold(&mut self, at: u64) {
        if std::mem::replace(&mut self.core.active, true) {
            return;
        }
        if let Some(messages) = &self.core.phase.messages
            && messages.rate.is_some()
        {
            self.core.set_timer(at, 0, 0, Due::SayAny);
        }
        for index in 0..self.core.plan.count {
            let client = &mut self.clients[index as usize];
            if client.session.stage == Stage::Online {
                self.core.begin_activity(client, index, at);
                self.core.flush_or_end(client, index);
            }
        }
    }

    fn collect(&mut self) -> PhasePart {
        let core = &mut self.core;
        core.counts.derivations = core.keys.derivations;
        let counts = core.counts.since(&core.phase_counts);
        core.phase_counts = core.counts;
        let wants_view =
            core.profile.presence && core.ring.contacts > 0 && !core.phase.skip_presence_check;
        let mut orders: Vec<u64> = Vec::new();
        for order in self.clients.iter().filter_map(Client::order) {
            if orders.len() < ORDERS_MAX && !orders.contains(&order) {
                orders.push(order);
            }
        }
        let view = wants_view.then(|| {
            let standings: Vec<u8> = self
                .clients
                .iter()
                .map(|client| client.standing(core.now) as u8)
                .collect();
            View::new(core.plan.first, &standings, &core.seen)
        });
        PhasePart {
            counts,
            timings: core.timings.take(),
            reasons: std::mem::take(&mut core.reasons),
            last_ready: std::mem::take(&mut core.last_ready),
            inside: core.gathering.inside,
            orders,
            view,
        }
    }
}

impl Client {
    fn standing(&self, now: u64) -> Standing {
        let settled = now.saturating_sub(self.since) > MOVING;
        match self.session.stage {
            Stage::Online if settled => Standing::Online,
            Stage::Offline if (settled || self.since == 0) && !self.ghost => Standing::Offline,
            _ => Standing::Moving,
        }
    }
}

impl Core {
    fn tick(&mut self) -> Tick {
        self.counts.derivations = self.keys.derivations;
        let counts = self.counts.since(&self.tick_counts);
        self.tick_counts = self.counts;
        Tick {
            step: self.step,
            online: self.online,
            pending: self.pending,
            coming: self.coming + self.logging_in,
            quiet_ms: self.now.saturating_sub(self.heard) / MILLI,
            counts,
            timings: self.tick_timings.take(),
            cpu: crate::sample::own_cpu(),
        }
    }

    fn set_timer(&mut self, at: u64, client: u32, generation: u32, due: Due) {
        self.timers.push(Reverse(Timer {
            at,
            client,
            generation,
            due,
        }));
    }

    /// A random span with this mean, exponentially distributed, in nanoseconds.
    fn exponential(&mut self, mean_seconds: f64) -> u64 {
        clock::nanos(-mean_seconds * (1.0 - self.rng.f64()).ln())
    }

    /// Schedules a login that the phase waits for.
    fn expect(&mut self, client: &mut Client, index: u32, due: u64) {
        if !client.pending {
            client.pending = true;
            self.pending += 1;
        }
        self.schedule_login(client, index, due);
    }

    fn schedule_login(&mut self, client: &mut Client, index: u32, due: u64) {
        if !client.coming {
            client.coming = true;
            self.coming += 1;
            self.set_timer(due, index, 0, Due::Login);
        }
    }

    fn resolve(&mut self, client: &mut Client) {
        if client.pending {
            client.pending = false;
            self.pending -= 1;
        }
    }

    fn record(&mut self, timing: Timing, since: u64) {
        let nanos = self.now.saturating_sub(since);
        self.timings.record(timing, nanos);
        self.tick_timings.record(timing, nanos);
    }

    fn fire(&mut self, client: &mut Client, timer: Timer) {
        let index = timer.client;
        match timer.due {
            Due::Login => self.login(client, index, timer.at),
            Due::Timeout if client.session.is_logging_in() => {
                let awaited = client.session.stage.awaited();
                self.fail(client, index, &format!("timeout awaiting {awaited}"));
            }
            Due::Timeout | Due::SayAny => {}
            Due::Cut => {
                let how = self
                    .phase
                    .storm
                    .as_ref()
                    .map_or(Cut::Close, |storm| storm.how);
                self.cut(client, index, how);
            }
            Due::Leave => self.leave(client, index),
            Due::Enter => self.enter(client, index, timer.at),
            Due::GiveUp => self.drop_link(client, index, false),
            _ => self.act(client, timer),
        }
    }
}
