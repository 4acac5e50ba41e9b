//! Workers and their master as actors over the shards of one process.
//!
//! Owns how messages of the machine (`worker`) travel between actors, timers of idle workers, and
//! actors that compute one image each. Deliberately not here: nodes.

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use actor::threads::run_threads;
use actor::{Actor, Addr, AskError, Context, Mail, Options, Reason, ShardId, Signal, system};
use stdx::time::{Clock, Moment, SystemClock};

use crate::credit::Credit;
use crate::generator::Generator;
use crate::route::Layout;
use crate::stats::{Outcome, WorkerStats};
use crate::worker::{Batch, Conf, Effect, Worker};

/// How long shards may take to start their workers.
const START: Duration = Duration::from_secs(30);

/// Why a run has no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failed {
    /// The operating system gave no thread.
    Threads(String),
    /// A shard did not start its workers.
    Start(AskError),
    /// A worker ended, with its vertices.
    WorkerLost(Reason),
    /// It took longer than it was given.
    Timeout,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failed::Threads(why) => write!(f, "no thread: {why}"),
            Failed::Start(why) => write!(f, "the workers did not start: {why}"),
            Failed::WorkerLost(why) => write!(f, "a worker was lost: {why}"),
            Failed::Timeout => f.write_str("not done in time"),
        }
    }
}

impl std::error::Error for Failed {}

enum WorkerMsg {
    /// Who all are; comes before anything else.
    Peers(Arc<[Addr<WorkerMsg>]>, Addr<MasterMsg>),
    Batch(Batch),
    Taken(u32),
    /// The master has the credit.
    Returned,
    /// Go on expanding.
    Work,
    /// An image that an actor of this worker computed.
    Image(u32),
    /// The worker was idle for the time it was given, if this is still the same idleness.
    Idle(u64),
    Finish,
}

enum MasterMsg {
    Begin(Arc<[Addr<WorkerMsg>]>),
    Return(u32, Credit),
    Result(Box<WorkerStats>),
}

/// Computes one image and ends.
struct Image {
    generator: Generator,
    x: u32,
    conf: Arc<Conf>,
    to: Addr<WorkerMsg>,
}

impl Actor for Image {
    type Msg = ();

    fn started(&mut self, cx: &mut Context<'_, ()>) {
        let y = self.generator.image(self.x, self.conf.size, self.conf.fib);
        // The worker has room: it counts the images that it waits for.
        let _ = cx.send_priority(self.to, WorkerMsg::Image(y));
        cx.stop();
    }

    fn handle(&mut self, (): (), _: &mut Context<'_, ()>) {}
}

struct WorkerActor {
    machine: Worker,
    conf: Arc<Conf>,
    me: u32,
    peers: Arc<[Addr<WorkerMsg>]>,
    master: Option<Addr<MasterMsg>>,
    /// A `Work` is under way.
    is_working: bool,
    /// Grows whenever the worker becomes idle, so that an old timer means nothing.
    idleness: u64,
    /// Since when it has nothing to do.
    idle_since: Option<Moment>,
    born: Moment,
}

impl WorkerActor {
    fn new(conf: Arc<Conf>, layout: Layout, me: u32, now: Moment) -> Self {
        WorkerActor {
            machine: Worker::new((*conf).clone(), layout, me),
            conf,
            me,
            peers: Arc::new([]),
            master: None,
            is_working: false,
            idleness: 0,
            idle_since: Some(now),
            born: now,
        }
    }

    /// Notes how long it had nothing to do.
    fn wake(&mut self, now: Moment) {
        let Some(since) = self.idle_since.take() else {
            return;
        };
        self.idleness += 1;
        let stats = &mut self.machine.stats;
        if since == self.born && stats.messages_recvd == 0 {
            stats.max_init_idle = now.saturating_since(since);
        } else {
            stats.max_idle = stats.max_idle.max(now.saturating_since(since));
        }
    }

    fn step(&mut self, cx: &mut Context<'_, WorkerMsg>) {
        let more = if self.conf.spawned_max > 0 {
            while let Some(x) = self.machine.take_unexpanded() {
                self.spawn_images(x, cx);
            }
            // What waits must not wait for images that take long.
            self.machine.flush();
            false
        } else {
            self.machine.work()
        };
        if more && !self.is_working {
            self.is_working = true;
            // The priority lane always has room for this one, and others have their turn between.
            let _ = cx.send_priority(cx.myself(), WorkerMsg::Work);
        }
        if self.machine.is_idle() && self.idle_since.is_none() {
            self.idle_since = Some(cx.now());
        }
        if self.machine.wants_to_return() {
            if self.conf.idle_timeout.is_zero() {
                self.machine.return_credit();
            } else {
                cx.send_after(self.conf.idle_timeout, WorkerMsg::Idle(self.idleness));
            }
        }
        self.perform(cx);
    }

    fn spawn_images(&mut self, x: u32, cx: &mut Context<'_, WorkerMsg>) {
        let to = cx.myself();
        for generator in self.conf.generators.iter() {
            cx.spawn(Image {
                generator,
                x,
                conf: Arc::clone(&self.conf),
                to,
            });
        }
    }

    fn perform(&mut self, cx: &mut Context<'_, WorkerMsg>) {
        for effect in self.machine.take_effects() {
            let sent = match effect {
                Effect::Send(to, batch) => cx
                    .send(self.peers[to as usize], WorkerMsg::Batch(batch))
                    .is_ok(),
                Effect::Taken(from) => cx
                    .send(self.peers[from as usize], WorkerMsg::Taken(self.me))
                    .is_ok(),
                Effect::Return(credit) => self.master.is_some_and(|master| {
                    cx.send(master, MasterMsg::Return(self.me, credit)).is_ok()
                }),
            };
            // Mailboxes are as large as the machine's promise needs: a message that finds no room
            // is a broken promise, and the run must not hang on it.
            assert!(sent, "a worker's mailbox holds what its peers may send");
        }
    }
}

impl Actor for WorkerActor {
    type Msg = WorkerMsg;

    fn started(&mut self, cx: &mut Context<'_, WorkerMsg>) {
        // Another worker may hear of its peers sooner, and send: that waits until this one has.
        cx.hold();
    }

    fn handle(&mut self, msg: WorkerMsg, cx: &mut Context<'_, WorkerMsg>) {
        match msg {
            WorkerMsg::Peers(peers, master) => {
                (self.peers, self.master) = (peers, Some(master));
                return cx.release();
            }
            WorkerMsg::Batch(batch) => {
                self.wake(cx.now());
                self.machine.handle_batch(batch);
            }
            WorkerMsg::Taken(by) => self.machine.handle_taken(by),
            WorkerMsg::Returned => self.machine.handle_returned(),
            WorkerMsg::Work => self.is_working = false,
            WorkerMsg::Image(y) => self.machine.handle_image(y),
            WorkerMsg::Idle(idleness) => {
                if idleness == self.idleness {
                    self.machine.return_credit();
                }
            }
            WorkerMsg::Finish => {
                let since = self.idle_since.unwrap_or(cx.now());
                self.machine.stats.max_tail_idle = cx.now().saturating_since(since);
                let stats = Box::new(self.machine.finish());
                if let Some(master) = self.master {
                    let _ = cx.send(master, MasterMsg::Result(stats));
                }
                return cx.stop();
            }
        }
        self.step(cx);
    }
}

struct Master {
    credit: Credit,
    workers: Arc<[Addr<WorkerMsg>]>,
    results: Vec<WorkerStats>,
    layout: Layout,
    began: Moment,
    to: SyncSender<Result<Outcome, Failed>>,
}

impl Actor for Master {
    type Msg = MasterMsg;

    fn handle(&mut self, msg: MasterMsg, cx: &mut Context<'_, MasterMsg>) {
        match msg {
            MasterMsg::Begin(workers) => {
                self.workers = workers;
                self.began = cx.now();
                for worker in self.workers.iter() {
                    cx.monitor(worker.id());
                    let peers = Arc::clone(&self.workers);
                    let hello = WorkerMsg::Peers(peers, cx.myself());
                    let _ = cx.send_priority(*worker, hello);
                }
                let first = Batch {
                    from: None,
                    vertices: vec![0],
                    credit: self.credit.split().unwrap_or(0),
                };
                let owner = self.workers[self.layout.owner(0) as usize];
                let _ = cx.send(owner, WorkerMsg::Batch(first));
            }
            MasterMsg::Return(worker, credit) => {
                self.credit.add_all(credit);
                let _ = cx.send_priority(self.workers[worker as usize], WorkerMsg::Returned);
                if self.credit.is_whole() {
                    for worker in self.workers.iter() {
                        let _ = cx.send_priority(*worker, WorkerMsg::Finish);
                    }
                }
            }
            MasterMsg::Result(stats) => {
                self.results.push(*stats);
                if self.results.len() == self.workers.len() {
                    let wall_time = cx.now().saturating_since(self.began);
                    let results = std::mem::take(&mut self.results);
                    let _ = self
                        .to
                        .try_send(Ok(Outcome::new(wall_time, Vec::new(), results)));
                    cx.stop();
                }
            }
        }
    }

    fn signal(&mut self, signal: Signal, cx: &mut Context<'_, MasterMsg>) {
        // Workers end normally once their figures are on their way.
        if let Signal::Down { reason, .. } = signal
            && reason.is_crash()
        {
            let _ = self.to.try_send(Err(Failed::WorkerLost(reason)));
            cx.stop();
        }
    }
}

/// Computes the orbit with `workers` workers over `shards` shards of this process.
///
/// # Errors
/// Why there is no outcome.
pub fn run(conf: &Conf, shards: u16, workers: u32, within: Duration) -> Result<Outcome, Failed> {
    let clock = SystemClock::new();
    let (handle, seeds) = system(Options::new(shards, 1));
    // A message and an acknowledgement from each worker, and the master's first vertex.
    let mailbox_max = 2 * workers as usize + 1;
    let threads = run_threads(seeds, Arc::new(clock), move |shard| {
        shard.set_mailbox_max::<WorkerMsg>(mailbox_max);
        shard.set_mailbox_max::<MasterMsg>(mailbox_max);
    });
    let threads = threads.map_err(|error| Failed::Threads(error.to_string()))?;
    let begin = || {
        let conf = Arc::new(conf.clone());
        let layout = Layout::new(&[workers]);
        let (to, outcome) = sync_channel(2);
        let mut addrs = Vec::new();
        for me in 0..workers {
            let shard = ShardId::new((me % u32::from(shards)) as u16);
            let (conf, layout) = (Arc::clone(&conf), layout.clone());
            let make = move || WorkerActor::new(conf, layout, me, clock.now());
            addrs.push(handle.spawn_on(shard, make, START).map_err(Failed::Start)?);
        }
        let make = move || Master {
            credit: Credit::whole(),
            workers: Arc::new([]),
            results: Vec::new(),
            layout,
            began: clock.now(),
            to,
        };
        let master = handle
            .spawn_on(ShardId::new(0), make, START)
            .map_err(Failed::Start)?;
        let _ = handle.send(master, MasterMsg::Begin(addrs.into()));
        outcome.recv_timeout(within).unwrap_or(Err(Failed::Timeout))
    };
    let outcome = begin();
    handle.shut_down();
    threads.join();
    outcome
}
