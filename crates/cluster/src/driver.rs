//! Runs the machines of a node's streams against an engine, on a thread of its own with a small
//! runtime. Owns tasks, channels and files; decides nothing. One task a stream: streams never wait
//! for each other, but for the one writer of the local store.
//!
//! The task of the map has a thread and a connection of its own: the lease is renewed whatever
//! holds up the streams, as a slow disk does. Of what it shares with them everything is held for
//! moments only; it never waits for the store.

mod appends;
mod keeping;
mod nearness;
mod servers;
mod snapshots;
mod task;
mod ticks;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use stdx::{Clock as _, Level, SystemClock};
use store::{Follower, Position, RangeId, Record, Store, StoreError, StreamMark, Writer};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{self, channel};
use tokio::sync::{oneshot, watch};

use crate::engine::{self, Engine, EngineError};
use crate::journal::member::{self, Role};
use crate::journal::message::Author;
use crate::journal::replica::{self, Stats};
use crate::journal::writer::Refused;
use crate::journal::{Epoch, Seq};
use crate::layout::{Layout, StreamId};
use crate::map::keeper;
use crate::map::view::MapView;
use keeping::{Door, Keeping};

pub use appends::{Appending, Hear, Word, pieces};
pub use servers::{Servers, Stored as ServerStored};

/// Pause before it is looked again whether the map says that this process has left.
const LEAVE_PAUSE: Duration = Duration::from_millis(10);

/// Bounds and times of a driver.
#[derive(Clone, Debug)]
pub struct Options {
    /// How to reach the engine.
    pub engine: engine::Options,
    /// How things are called.
    pub layout: Layout,
    /// Of the machines.
    pub member: member::Options,
    /// Of the replicas.
    pub replica: replica::Options,
    /// Commands that wait for a stream; one more append is refused with [`Refused::Busy`]. Default:
    /// 4,096.
    pub commands_max: usize,
    /// Events that wait for whoever asks; further ones are dropped and counted in
    /// [`Progress::events_lost`]. Default: 1,024.
    pub events_max: usize,
    /// A replica that lags and does not get on for so long gets another consumer: the one that it
    /// has was of a server that died, or stalls behind an election. The next home of a stream waits
    /// for it. Each that brought nothing has the one behind it wait for twice as long, up to eight
    /// times this. Default: 1 s.
    pub stalled_after: Duration,
    /// Pause before the server next to this node ([`engine::Options::near`]) is asked once more to
    /// lead a stream. Default: 1 min.
    pub lead_again_after: Duration,
    /// Takes part in the map. Without it homes are whatever [`Driver::take_over`] is told.
    pub map: Option<MapOptions>,
    /// Monitoring ports of the engine's servers, which are asked how they are.
    pub monitor: Vec<String>,
    /// Pause between two times that they are asked. Default: 10 s.
    pub monitor_pause: Duration,
    /// Where snapshots are on their way to and from the engine: on a disk with room for the largest
    /// stream's twice, which is not looked for before.
    pub folder: PathBuf,
}

impl Options {
    /// Defaults.
    pub fn new(engine: engine::Options, layout: Layout, folder: PathBuf) -> Options {
        Options {
            engine,
            layout,
            member: member::Options::default(),
            replica: replica::Options::default(),
            commands_max: 4_096,
            events_max: 1_024,
            stalled_after: Duration::from_secs(1),
            lead_again_after: Duration::from_secs(60),
            map: None,
            monitor: Vec::new(),
            monitor_pause: Duration::from_secs(10),
            folder,
        }
    }
}

/// How a node takes part in the map.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// Times of the machine.
    pub times: keeper::Options,
    /// Where the node stands.
    pub zone: String,
    /// Its share of homes.
    pub weight: u32,
    /// Where other nodes reach its link.
    pub link: Option<String>,
    /// Where clients reach it.
    pub clients: Option<String>,
}

/// What happened to a stream on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// This node is its home.
    Serving(StreamId, Epoch),
    /// It is not any more, or did not become it.
    Ended(StreamId, String),
    /// Whether it acknowledges.
    Quorum(StreamId, bool),
    /// Appends of this node are in doubt: how many.
    InDoubt(StreamId, usize),
    /// This node's copy and another's differ.
    Diverged(StreamId, replica::Divergence),
    /// Its replica cannot go on.
    Stuck(StreamId, String),
    /// A snapshot was loaded.
    Loaded(StreamId, Seq),
    /// The map has entries of more nodes than are watched: this one is taken for dead.
    TooManyNodes(String),
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the stream, and in the local store.
    Committed(Position),
    /// It is not there and never will be: its tenure was over.
    Fenced,
    /// It may be there: this node was cut off for so long that the message was purged meanwhile.
    Unknown,
    /// It was not taken.
    Refused(Refused),
    /// It was not taken: an earlier one of its writer in the same call was not.
    Follows,
}

/// How a stream stands on this node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How far it was applied.
    pub mark: StreamMark,
    /// The last message of the stream, as its leader said about a second ago.
    pub last: Seq,
    /// The first message that it still has, likewise; 0: the leader has not said it yet, or there
    /// is none. The stream was purged up to there behind a verified snapshot.
    pub first: Seq,
    /// For how long, in milliseconds, it lagged and did not get on; a second at least until it has
    /// once had everything.
    pub lag_ms: u32,
    /// How often its task has come to look at it. One that does not waits for the store.
    pub ticks: u32,
    /// Whether this node is its home.
    pub is_home: bool,
    /// The tenure in which it is; 0: it is not.
    pub serving: Epoch,
    /// The newest tenure of this node that ended, or did not begin.
    pub ended: Epoch,
    /// What its replica has done.
    pub stats: Stats,
    /// Times that its leader moved because this node, its home, asked for that.
    pub leaders_moved: u64,
    /// Consumers that were replaced because they stalled or ended.
    pub consumers_replaced: u64,
    /// Events that nobody took in time.
    pub events_lost: u64,
    /// Times that this node became its home.
    pub take_overs: u64,
    /// Tenures of this node that ended, or did not begin.
    pub tenures_ended: u64,
    /// Appends of this node that were in doubt.
    pub doubts: u64,
    /// It does not acknowledge what this node, its home, writes.
    pub lacks_quorum: bool,
    /// Its replica cannot go on, and no snapshot has helped yet.
    pub is_stuck: bool,
    /// That is because the store of this node refused a write: it is tried again every 10 s.
    pub has_refused: bool,
    /// Differences between this node's copy and another's.
    pub divergences: u64,
    /// Snapshots that were loaded.
    pub snapshots_loaded: u64,
}

impl Progress {
    /// Messages that were not applied here.
    pub fn lag(&self) -> u64 {
        self.last.saturating_sub(self.mark.seq)
    }
}

/// A snapshot that is in the engine, and was read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    /// It has everything up to there.
    pub mark: StreamMark,
    /// Its keys with their values.
    pub entries: u64,
    /// Its size.
    pub bytes: u64,
}

/// Why a driver did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The local store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The operating system.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

enum Command {
    Append(Option<Epoch>, Vec<Appending>),
    TakeOver(Epoch),
    StepDown,
    Snapshot(oneshot::Sender<Result<Stored, String>>),
}

type Shared<T> = Arc<Mutex<T>>;

/// The one writer of the local store. Whoever waits for it holds up no thread, and is not passed
/// over by who comes later.
type Writing = Arc<tokio::sync::Mutex<Follower>>;

fn lock<T>(shared: &Shared<T>) -> MutexGuard<'_, T> {
    // A task that panicked while it held one ended with its stream; the others go on.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells whoever asks what happens, without ever waiting.
#[derive(Clone)]
struct Events(SyncSender<Event>);

impl Events {
    /// Whether somebody has room for it.
    fn tell(&self, event: Event) -> bool {
        !matches!(self.0.try_send(event), Err(TrySendError::Full(_)))
    }
}

/// The streams of one node.
pub struct Driver {
    layout: Layout,
    store: Store,
    streams: Vec<mpsc::Sender<Command>>,
    progress: Vec<Shared<Progress>>,
    events: Mutex<Receiver<Event>>,
    door: Arc<Door>,
    servers: Shared<Servers>,
    clock: SystemClock,
    end: watch::Sender<()>,
    threads: Vec<JoinHandle<()>>,
}

impl Driver {
    /// Connects, and follows every stream into the store. `author` is new in each life of the
    /// process. Blocks until the engine was reached.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(options: Options, author: Author, store: &Store) -> Result<Driver, StartError> {
        let follower: Writing = Arc::new(tokio::sync::Mutex::new(Follower::new(store)?));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("cluster")
            .enable_all()
            .build()?;
        let layout = options.layout.clone();
        let engine = runtime.block_on(Engine::connect(&options.engine, layout.clone()))?;
        let (tell, events) = sync_channel(options.events_max);
        let (mut streams, mut progress, mut tasks) = (Vec::new(), Vec::new(), Vec::new());
        for stream in layout.streams() {
            let (send, commands) = channel(options.commands_max);
            let shown = Shared::<Progress>::default();
            let parts = task::Parts {
                stream,
                engine: engine.clone(),
                store: store.clone(),
                follower: Arc::clone(&follower),
                commands,
                events: Events(tell.clone()),
                progress: Arc::clone(&shown),
            };
            tasks.push(task::Task::new(&options, author.clone(), parts)?);
            streams.push(send);
            progress.push(shown);
        }
        let (end, ended) = watch::channel(());
        let door = Arc::<Door>::default();
        let servers = Shared::<Servers>::default();
        let asking = servers::run(
            options.monitor,
            options.monitor_pause,
            Arc::clone(&servers),
            ended.clone(),
        );
        let clock = SystemClock::new();
        let mut threads = Vec::new();
        if let Some(map) = options.map {
            door.weight.store(map.weight, Ordering::Relaxed);
            let shared = keeping::Shares {
                store: store.clone(),
                streams: streams.iter().map(mpsc::Sender::downgrade).collect(),
                progress: progress.clone(),
                events: Events(tell),
                door: Arc::clone(&door),
                clock,
                end: ended,
            };
            threads.push(keep(map, &options.engine, layout.clone(), author, shared)?);
        }
        threads.push(spawn("cluster", move || follow(&runtime, tasks, asking))?);
        Ok(Driver {
            layout,
            store: store.clone(),
            streams,
            progress,
            events: Mutex::new(events),
            door,
            servers,
            clock,
            end,
            threads,
        })
    }

    fn command(&self, stream: StreamId, command: Command) -> Result<(), Command> {
        let Some(to) = self.streams.get(usize::from(stream.0)) else {
            return Err(command);
        };
        to.try_send(command).map_err(|error| error.into_inner())
    }

    /// Hands an append to its stream. The outcome comes when it is certain, however late; if the
    /// node ends before, the receiver ends without one.
    pub fn append(&self, range: RangeId, records: &[Record]) -> oneshot::Receiver<Outcome> {
        let (done, outcome) = oneshot::channel();
        let mut done = Some(done);
        let mut hear = move |word| {
            if let Word::Decided(outcome) = word
                && let Some(done) = done.take()
            {
                // Nobody needs to listen.
                let _ = done.send(outcome);
            }
        };
        let Ok(pieces) = pieces(self.store.level(), records) else {
            hear(Word::Decided(Outcome::Refused(Refused::TooLarge)));
            return outcome;
        };
        let appending = Appending {
            range,
            writer: Writer::NOBODY,
            pieces,
            hear: Box::new(hear),
        };
        self.append_in(None, self.layout.stream_of(range), vec![appending]);
        outcome
    }

    /// Hands appends to their stream, in order. With an epoch, they are only taken while this node
    /// is the stream's home in that tenure. What becomes of each is said to it.
    pub fn append_in(&self, epoch: Option<Epoch>, stream: StreamId, appends: Vec<Appending>) {
        let refused = self.command(stream, Command::Append(epoch, appends));
        if let Err(Command::Append(_, appends)) = refused {
            for mut append in appends {
                (append.hear)(Word::Decided(Outcome::Refused(Refused::Busy)));
            }
        }
    }

    /// How things are called, and which ranges share a stream.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The tenure in which this node is a stream's home; 0: it is not.
    pub fn serving(&self, stream: StreamId) -> Epoch {
        self.progress(stream).serving
    }

    /// How the servers of the engine are, as they said last.
    pub fn servers(&self) -> Servers {
        lock(&self.servers).clone()
    }

    /// The map as this node sees it.
    pub fn map(&self) -> Arc<MapView> {
        Arc::clone(&lock(&self.door.view))
    }

    /// The map gave a stream to this node, with an epoch that was never given to anybody. Whether
    /// the command was taken; it is tried again otherwise.
    #[must_use]
    pub fn take_over(&self, stream: StreamId, epoch: Epoch) -> bool {
        self.command(stream, Command::TakeOver(epoch)).is_ok()
    }

    /// The map gave it to another node. Whether the command was taken.
    #[must_use]
    pub fn step_down(&self, stream: StreamId) -> bool {
        self.command(stream, Command::StepDown).is_ok()
    }

    /// Stores a snapshot of a stream in the engine, reads it back, and purges the stream behind it
    /// if it is good.
    pub fn snapshot(&self, stream: StreamId) -> oneshot::Receiver<Result<Stored, String>> {
        let (done, result) = oneshot::channel();
        if let Err(Command::Snapshot(done)) = self.command(stream, Command::Snapshot(done)) {
            // Nobody needs to listen.
            let _ = done.send(Err("too much waits for the stream".to_owned()));
        }
        result
    }

    /// Whether effects that need no commit may leave now: this node's lease was renewed less than
    /// half of its time ago. Asked before each flush.
    pub fn may_act(&self) -> bool {
        self.clock.now().as_nanos() < self.door.acts_until.load(Ordering::Relaxed)
    }

    /// Whether this node says of itself that its commits or links lag: then it loses its homes.
    pub fn say_slow(&self, is_slow: bool) {
        self.door.is_slow.store(is_slow, Ordering::Relaxed);
    }

    /// The nodes at whose addresses nobody listens now. Their leases lapse sooner.
    pub fn say_refusing(&self, names: Vec<String>) {
        *lock(&self.door.refusing) = names;
    }

    /// Whether this node wants to be the home of nothing: its homes are moved one by one, and none
    /// comes back, until this is said otherwise.
    pub fn drain(&self, is_draining: bool) {
        self.door.is_draining.store(is_draining, Ordering::Relaxed);
    }

    /// Ends the lease of this process in the map, so that nobody waits until it lapses: nothing of
    /// it may act any more. Waits for so long at most; whether the map says so.
    pub fn leave(&self, within: Duration) -> bool {
        let until = self.clock.now() + within;
        self.door.is_leaving.store(true, Ordering::Relaxed);
        while !self.door.has_left.load(Ordering::Relaxed) {
            if self.clock.now() >= until {
                return false;
            }
            thread::sleep(LEAVE_PAUSE);
        }
        true
    }

    /// The level at which this node writes records, messages and packets.
    pub fn level(&self) -> Level {
        self.store.level()
    }

    /// The level that the deployment was raised to although this program does not know it: it can
    /// follow no stream any more, and has to end.
    pub fn outdated_by(&self) -> Option<Level> {
        let level = Level::new(self.door.level.load(Ordering::Relaxed));
        (level > Level::known()).then_some(level)
    }

    /// How a stream stands here.
    pub fn progress(&self, stream: StreamId) -> Progress {
        let shown = self.progress.get(usize::from(stream.0));
        shown.map(|shown| *lock(shown)).unwrap_or_default()
    }

    /// The next event, if one comes in time.
    pub fn event(&self, within: Duration) -> Option<Event> {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.recv_timeout(within).ok()
    }
}

impl Drop for Driver {
    /// Ends all tasks. What is in doubt stays so for whoever takes over.
    fn drop(&mut self) {
        self.streams.clear();
        // Without a task of the map nobody listens.
        let _ = self.end.send(());
        for thread in self.threads.drain(..) {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

fn spawn(
    name: &str,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, std::io::Error> {
    thread::Builder::new().name(name.to_owned()).spawn(run)
}

/// Follows the streams, until the driver ends.
fn follow(
    runtime: &Runtime,
    tasks: Vec<task::Task>,
    asking: impl Future<Output = ()> + Send + 'static,
) {
    runtime.block_on(async {
        let running = tasks.into_iter().map(|task| tokio::spawn(task.run()));
        let running = running.chain([tokio::spawn(asking)]);
        for one in running.collect::<Vec<_>>() {
            // A task that panicked has said so; its stream has no home here any more.
            let _ = one.await;
        }
    });
}

/// Takes part in the map, until the driver ends.
fn keep(
    map: MapOptions,
    engine: &engine::Options,
    layout: Layout,
    author: Author,
    shared: keeping::Shares,
) -> Result<JoinHandle<()>, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let engine = runtime.block_on(Engine::connect(engine, layout))?;
    let keeping = Keeping::new(map, author, engine, shared);
    let running = spawn("cluster-map", move || runtime.block_on(keeping.run()));
    Ok(running?)
}

fn is_home(role: Role) -> bool {
    role == Role::Home
}

#[cfg(test)]
mod tests;
