//! The task of the map: the keeper's machine against the bucket. Owns the watch, and tells the
//! streams' tasks what the map says. Homes end without a word here: their progress says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use stdx::{Clock, Level, Moment, SystemClock};
use store::Store;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::ticks::{TICK, or_never, ticks};
use super::{Command, Event, Events, MapOptions, Progress, Shared, lock};
use crate::engine::{Bucket, Change, Engine, Entry, Put, Watch};
use crate::journal::Epoch;
use crate::journal::message::Author;
use crate::layout::StreamId;
use crate::map::keeper::{Effect, Keeper};
use crate::map::load::Load;
use crate::map::view::MapView;
use crate::map::{Key, Node, Report, Revision};

/// Ticks between two questions whether the bucket has a leader, and two reports.
const TICKS_PER_LOOK: u32 = 10;

/// A watch that said nothing for so long while renewals are answered, of which each is a change
/// that it shows, is of no use, and another one is made. Four renewals, and less than a lease: the
/// engine's client makes a new one by itself only after 10 s, if a server fell silent, or its
/// attempts failed for some seconds.
const WATCH_SILENT_MAX: Duration = Duration::from_secs(2);

/// Pause between two complaints of the same kind.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// What the map is told and asked from outside.
#[derive(Debug, Default)]
pub(super) struct Door {
    /// The node's weight.
    pub(super) weight: AtomicU32,
    /// Commits or links lag.
    pub(super) is_slow: AtomicBool,
    /// Nodes at whose addresses nobody listens.
    pub(super) refusing: Shared<Vec<String>>,
    /// It is to be the home of nothing.
    pub(super) is_draining: AtomicBool,
    /// The process ends: so does its lease.
    pub(super) is_leaving: AtomicBool,
    /// The map says so.
    pub(super) has_left: AtomicBool,
    /// Until when effects that need no commit may leave, in nanoseconds of the driver's clock. A
    /// moment, not an answer: a process that was paused must not believe an old one.
    pub(super) acts_until: AtomicU64,
    /// The level of the deployment, as the map says; 0: it has not said it yet.
    pub(super) level: AtomicU32,
    /// The map, as it was a moment ago.
    pub(super) view: Shared<Arc<MapView>>,
}

/// What it shares with the streams' tasks. Nothing of it is held while the disk or the engine is
/// waited for.
pub(super) struct Shares {
    pub(super) store: Store,
    pub(super) streams: Vec<mpsc::WeakSender<Command>>,
    pub(super) progress: Vec<Shared<Progress>>,
    pub(super) events: Events,
    pub(super) door: Arc<Door>,
    /// The one by which the door's moments count.
    pub(super) clock: SystemClock,
    /// Changes when the driver ends.
    pub(super) end: watch::Receiver<()>,
}

enum Said {
    Renewed(Moment, Put),
    Changed,
    Watching(Option<Box<(Bucket, Watch)>>),
    Leader(bool),
}

/// What the node says of itself, of which others are to hear at once.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Says {
    is_draining: bool,
    is_slow: bool,
}

/// The task of the map.
pub(super) struct Keeping {
    engine: Engine,
    shared: Shares,
    keeper: Keeper,
    name: String,
    clock: SystemClock,
    bucket: Option<Bucket>,
    watch: Option<Watch>,
    /// When the watch began, or said something last.
    heard: Moment,
    asked: JoinSet<Said>,
    /// A watch is being made.
    is_asking: bool,
    /// It was asked whether the bucket has a leader: not once more before that is answered.
    is_looking: bool,
    /// The newest tenures of this node whose end the keeper was told.
    ended: Vec<Epoch>,
    copies: Vec<Copied>,
    ticks: u32,
    says: Says,
    /// When it was last said that the map has entries of too many nodes.
    complained: Option<Moment>,
    /// What a stream is to be told once it has room: the last word counts.
    untold: Vec<Option<Command>>,
}

/// A stream's copy, as it was at the last look.
#[derive(Clone, Debug, Default)]
struct Copied {
    applied: u64,
    load: Load,
    ticks: u32,
    /// Looks in a row at which its task had not come to look itself.
    silent: u32,
}

impl Copied {
    /// What others are told of it. Its task is held up while the store is: with a disk that hangs,
    /// and refuses nothing, it says nothing at all, and so its silence is a lag.
    fn look(&mut self, shown: &mut Progress) -> Report {
        self.load
            .add(shown.stats.applied.saturating_sub(self.applied));
        self.applied = shown.stats.applied;
        self.silent = match shown.ticks == std::mem::replace(&mut self.ticks, shown.ticks) {
            true => self.silent.saturating_add(1),
            false => 0,
        };
        // The first look may have come between two ticks.
        let silent = self.silent.saturating_sub(1);
        let look_ms = TICKS_PER_LOOK * TICK.as_millis() as u32;
        shown.lag_ms = shown.lag_ms.max(silent.saturating_mul(look_ms));
        Report {
            lag_ms: shown.lag_ms,
            load: match shown.is_home {
                true => self.load.value(),
                false => 0,
            },
            serving: shown.serving,
        }
    }
}

impl Keeping {
    pub(super) fn new(
        options: MapOptions,
        author: Author,
        engine: Engine,
        shared: Shares,
    ) -> Keeping {
        let clock = shared.clock;
        let streams = shared.progress.len();
        let node = Node {
            incarnation: author.incarnation,
            zone: options.zone,
            link: options.link,
            clients: options.clients,
            weight: shared.door.weight.load(Ordering::Relaxed),
            streams: vec![Report::default(); streams],
            level: Level::known().number(),
            ..Node::default()
        };
        let name = author.node.clone();
        // There are at most `layout::STREAMS_MAX` of them.
        let keeper = Keeper::new(clock.now(), options.times, author, node, streams as u16);
        Keeping {
            keeper,
            name,
            clock,
            bucket: None,
            watch: None,
            heard: Moment::ZERO,
            asked: JoinSet::new(),
            is_asking: false,
            is_looking: false,
            ended: vec![0; streams],
            copies: vec![Copied::default(); streams],
            ticks: 0,
            says: Says::default(),
            complained: None,
            untold: (0..streams).map(|_| None).collect(),
            engine,
            shared,
        }
    }

    /// Until the driver ends.
    pub(super) async fn run(mut self) {
        let mut ticks = ticks();
        loop {
            tokio::select! {
                _ = self.shared.end.changed() => return,
                Some(said) = self.asked.join_next() => {
                    if let Ok(said) = said {
                        self.on_said(said);
                    }
                }
                change = or_never(self.watch.as_mut().map(Watch::next)) => self.on_change(change),
                _ = ticks.tick() => self.on_tick(),
            }
            self.perform();
        }
    }

    fn on_said(&mut self, said: Said) {
        let now = self.clock.now();
        match said {
            Said::Renewed(_, Put::Silence) | Said::Changed => {}
            Said::Renewed(_, Put::Overtaken) => self.doubt_watch(now),
            Said::Renewed(sent, Put::Stored(revision)) => {
                self.keeper.on_renewed(sent, revision);
                self.doubt_watch(now);
            }
            Said::Watching(watching) => {
                self.is_asking = false;
                // Without a new one the node goes on with what it has: renewals may be answered
                // while no consumer can be made.
                if let Some((bucket, watch)) = watching.map(|both| *both) {
                    (self.bucket, self.watch) = (Some(bucket), Some(watch));
                    self.heard = now;
                }
            }
            Said::Leader(has_leader) => {
                self.is_looking = false;
                self.keeper.on_leader(now, has_leader);
            }
        }
    }

    /// The bucket has just answered: what the watch says may be late, and not absent.
    fn doubt_watch(&mut self, now: Moment) {
        if now.saturating_since(self.heard) >= WATCH_SILENT_MAX {
            self.ask_for_watch();
        }
    }

    fn ask_for_watch(&mut self) {
        if !std::mem::replace(&mut self.is_asking, true) {
            let engine = self.engine.clone();
            self.asked
                .spawn(async move { Said::Watching(watch_map(&engine).await) });
        }
    }

    fn on_change(&mut self, change: Option<(Revision, Change)>) {
        let now = self.clock.now();
        self.heard = now;
        let Some((revision, change)) = change else {
            self.watch = None;
            return;
        };
        match change {
            Change::Put(Entry::Home(stream, home)) => {
                self.keeper.on_home(now, stream, revision, home);
            }
            Change::Put(Entry::Node(name, node)) => {
                self.keeper.on_node(now, &name, revision, node);
            }
            Change::Put(Entry::Deployment(deployment)) => {
                let level = Level::new(deployment.format);
                self.shared.store.agree(level);
                let known = &self.shared.door.level;
                known.fetch_max(level.number(), Ordering::Relaxed);
            }
            Change::Gone(Key::Home(stream)) => self.keeper.on_home_gone(now, stream, revision),
            Change::Gone(Key::Node(name)) => self.keeper.on_node_gone(now, &name, revision),
        }
    }

    /// Says that the map has entries of too many nodes, but not with each renewal of one.
    fn complain(&mut self, now: Moment) {
        let Some(name) = self.keeper.take_passed_over() else {
            return;
        };
        let is_late = |said: Moment| now.saturating_since(said) >= COMPLAIN_EVERY;
        if self.complained.is_none_or(is_late) && self.shared.events.tell(Event::TooManyNodes(name))
        {
            self.complained = Some(now);
        }
    }

    fn on_tick(&mut self) {
        let now = self.clock.now();
        self.ticks = self.ticks.wrapping_add(1);
        let door = &self.shared.door;
        let says = Says {
            is_draining: door.is_draining.load(Ordering::Relaxed),
            is_slow: door.is_slow.load(Ordering::Relaxed),
        };
        let has_news = std::mem::replace(&mut self.says, says) != says;
        if has_news || self.ticks.is_multiple_of(TICKS_PER_LOOK) {
            self.look();
        }
        if has_news {
            // Whoever gives homes out hears of it now, and not with the next renewal.
            self.keeper.renew_now(now);
        }
        if self.shared.door.is_leaving.load(Ordering::Relaxed) {
            self.keeper.leave(now);
        }
        for at in 0..self.shared.progress.len() {
            let shown = *lock(&self.shared.progress[at]);
            if shown.ended > self.ended[at] {
                self.ended[at] = shown.ended;
                let stream = StreamId(at as u16);
                self.keeper
                    .on_ended(now, stream, shown.ended, shown.mark.epoch);
            }
        }
        for name in lock(&self.shared.door.refusing).iter() {
            self.keeper.on_refused(name);
        }
        self.keeper.on_time(now);
        self.complain(now);
    }

    fn look(&mut self) {
        if self.watch.is_none() {
            self.ask_for_watch();
        }
        if !std::mem::replace(&mut self.is_looking, true) {
            let engine = self.engine.clone();
            self.asked
                .spawn(async move { Said::Leader(engine.map_leader().await.is_some()) });
        }
        let reports = (0..self.shared.progress.len()).map(|at| {
            let mut shown = lock(&self.shared.progress[at]);
            self.copies[at].look(&mut shown)
        });
        let reports = reports.collect();
        let door = &self.shared.door;
        let weight = match self.says.is_draining {
            // Older nodes know no other word for it.
            true => 0,
            false => door.weight.load(Ordering::Relaxed),
        };
        self.keeper.drain(self.says.is_draining);
        self.keeper.report(self.says.is_slow, weight, reports);
    }

    fn perform(&mut self) {
        while let Some(effect) = self.keeper.poll() {
            match effect {
                Effect::Renew(sent, revision, node) => {
                    let entry = Entry::Node(self.name.clone(), node);
                    self.put(revision, entry, move |put| Said::Renewed(sent, put));
                }
                Effect::Fence(name, revision, node) => {
                    self.put(revision, Entry::Node(name, node), |_| Said::Changed);
                }
                Effect::Change(stream, revision, home) => {
                    self.put(revision, Entry::Home(stream, home), |_| Said::Changed);
                }
                Effect::TakeOver(stream, epoch) => self.tell(stream, Command::TakeOver(epoch)),
                Effect::StepDown(stream) => self.tell(stream, Command::StepDown),
            }
        }
        self.tell_all();
        let until = self.keeper.acts_until().as_nanos();
        self.shared.door.acts_until.store(until, Ordering::Relaxed);
        let has_left = self.keeper.has_left();
        self.shared.door.has_left.store(has_left, Ordering::Relaxed);
        let view = self.keeper.view(self.clock.now());
        let shown = &mut *lock(&self.shared.door.view);
        if **shown != view {
            *shown = Arc::new(view);
        }
    }

    fn put(
        &mut self,
        revision: Revision,
        entry: Entry,
        say: impl FnOnce(Put) -> Said + Send + 'static,
    ) {
        if let Some(bucket) = self.bucket.clone() {
            self.asked
                .spawn(async move { say(bucket.put(revision, &entry).await) });
        }
    }

    fn tell(&mut self, stream: StreamId, command: Command) {
        if let Some(untold) = self.untold.get_mut(usize::from(stream.0)) {
            *untold = Some(command);
        }
    }

    /// Tells the streams that have room for it what there is to tell.
    fn tell_all(&mut self) {
        for (to, untold) in self.shared.streams.iter().zip(&mut self.untold) {
            let Some(command) = untold.take() else {
                continue;
            };
            // A stream whose task has ended has no home here.
            let Some(to) = to.upgrade() else { continue };
            if let Err(TrySendError::Full(command)) = to.try_send(command) {
                *untold = Some(command);
            }
        }
    }
}

async fn watch_map(engine: &Engine) -> Option<Box<(Bucket, Watch)>> {
    let bucket = engine.map().await.ok()?;
    let watch = bucket.watch().await.ok()?;
    Some(Box::new((bucket, watch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a copy whose task is held up lags for as long, as others and alarms see it.
    #[test]
    fn a_task_that_is_held_up_is_a_lag() {
        let mut copy = Copied::default();
        let mut shown = Progress::default();
        let mut look = |ticks, looks| {
            shown.ticks = ticks;
            (0..looks).map(|_| copy.look(&mut shown).lag_ms).last()
        };
        assert_eq!(look(1, 1), Some(0));
        assert_eq!(look(2, 2), Some(0), "one look may come early");
        assert_eq!(look(2, 40), Some(20_000));
        shown.lag_ms = 0; // As the task says once it goes on.
        let mut look = |ticks| {
            shown.ticks = ticks;
            copy.look(&mut shown).lag_ms
        };
        assert_eq!((look(3), look(4)), (0, 0));
    }
}
