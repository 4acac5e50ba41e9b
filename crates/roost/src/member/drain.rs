//! A drain: this node's homes go to others one by one, then its clients are asked to go, spread
//! over the time that is left. Owns how far it is; who gives homes out is the map's coordinator,
//! who asks clients is the network.
//!
//! | stage | ends |
//! |---|---|
//! | homes go | when none is left, or half of the time has passed |
//! | clients are asked to go | when it is undone, or the process ends |
//!
//! `/readyz` says so from the first moment on, so that balancers send nobody any more. Who comes
//! all the same is served, and not asked to go.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use cluster::driver::Driver;
use cluster::layout::StreamId;
use serde::{Deserialize, Serialize};
use server::Door;
use stdx::time::{Clock as _, Moment, SystemClock};

use super::watcher::Served;

/// Least time over which clients are asked to go.
const ASK_MIN: Duration = Duration::from_secs(1);

/// Pause before it is looked again whether the homes of a process that ends have gone.
const LOOK: Duration = Duration::from_millis(20);

/// How far a drain is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody wants one.
    No,
    /// Homes go, until this moment at most; clients are asked until the other one.
    Homes(Moment, Moment),
    /// Clients are asked until this moment.
    Clients(Moment),
}

/// What operators are told of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DrainStatus {
    /// This node.
    pub(crate) node: String,
    /// Somebody wants it.
    pub(crate) is_draining: bool,
    /// Milliseconds until every client should have been asked.
    pub(crate) left_ms: u64,
    /// Streams that are still at home here.
    pub(crate) homes: Vec<u16>,
    /// Another node lives that takes homes.
    pub(crate) has_takers: bool,
    /// Clients whose socket is here, once they are asked to go.
    pub(crate) clients: u64,
    /// Those of them that were not asked yet, or are not to be.
    pub(crate) unasked: u64,
}

/// See the module.
pub(crate) struct Draining {
    driver: Weak<Driver>,
    door: Door,
    own: String,
    served: Served,
    stage: Mutex<Stage>,
    clock: SystemClock,
}

impl Draining {
    pub(super) fn new(driver: &Arc<Driver>, door: Door, own: String, served: Served) -> Draining {
        Draining {
            driver: Arc::downgrade(driver),
            door,
            own,
            served,
            stage: Mutex::new(Stage::No),
            clock: SystemClock::new(),
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody wants this node to be empty.
    pub(super) fn is_wanted(&self) -> bool {
        *self.stage() != Stage::No
    }

    /// Begins, or begins anew with another time.
    pub(crate) fn begin(&self, within: Duration) {
        let now = self.clock.now();
        *self.stage() = Stage::Homes(now + within / 2, now + within);
        self.door.keep();
        self.say(true);
        tracing::info!(
            seconds = within.as_secs(),
            "draining: homes go to other nodes"
        );
    }

    /// Everything is as it was; homes come back as the map evens them out.
    pub(crate) fn undo(&self) {
        *self.stage() = Stage::No;
        self.door.keep();
        self.say(false);
        tracing::info!("no longer draining");
    }

    fn say(&self, is_draining: bool) {
        if let Some(driver) = self.driver.upgrade() {
            driver.drain(is_draining);
        }
    }

    /// Some time has passed.
    pub(super) fn look(&self) {
        let stage = *self.stage();
        let Stage::Homes(until, end) = stage else {
            return;
        };
        let now = self.clock.now();
        let homes = self.homes();
        if now < until && !homes.is_empty() {
            return;
        }
        let time = end.saturating_since(now).max(ASK_MIN);
        let mut stage = self.stage();
        if *stage == Stage::Homes(until, end) {
            *stage = Stage::Clients(now + time);
            self.door.shed_within(time);
            let left = homes.len();
            tracing::info!(left, "draining: clients are asked to go");
        }
    }

    /// How it stands.
    pub(crate) fn status(&self) -> DrainStatus {
        let stage = *self.stage();
        let end = match stage {
            Stage::No => Moment::ZERO,
            Stage::Homes(_, end) | Stage::Clients(end) => end,
        };
        let (clients, unasked) = self.door.shed();
        let left = end.saturating_since(self.clock.now());
        DrainStatus {
            node: self.own.clone(),
            is_draining: stage != Stage::No,
            left_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
            homes: self.homes(),
            has_takers: self.has_takers(),
            clients,
            unasked: match stage {
                Stage::Homes(..) => clients,
                Stage::No | Stage::Clients(_) => unasked,
            },
        }
    }

    /// Streams that are at home here, as the map says, or of which something is left.
    fn homes(&self) -> Vec<u16> {
        let Some(driver) = self.driver.upgrade() else {
            return Vec::new();
        };
        let map = driver.map();
        let is_here = |stream: &StreamId| {
            let at = usize::from(stream.0);
            let home = map.homes.get(at).and_then(Option::as_ref);
            let served = self.served.get(at);
            home.is_some_and(|(node, _)| *node == self.own)
                || driver.serving(*stream) != 0
                || served.is_some_and(|served| served.load(Ordering::Relaxed) != 0)
        };
        let streams = driver.layout().streams().filter(is_here);
        streams.map(|stream| stream.0).collect()
    }

    /// The node that is the home of a bare address, as the map says.
    pub(super) fn home_of(&self, bare: &str) -> Option<String> {
        let driver = self.driver.upgrade()?;
        let stream = driver.layout().stream_of(self.door.range(bare));
        let map = driver.map();
        let home = map.homes.get(usize::from(stream.0))?;
        home.as_ref().map(|(node, _)| node.clone())
    }

    fn has_takers(&self) -> bool {
        let map = self.driver.upgrade().map(|driver| driver.map());
        map.is_some_and(|map| {
            let mut others = map.nodes.iter().filter(|(name, _)| **name != self.own);
            others.any(|(_, node)| node.is_alive && node.takes_homes)
        })
    }

    /// The process ends: its homes go to others by its own will, and not when its lease lapses.
    /// Waits for so long at most, and not at all if nobody can take them.
    pub(super) fn hand_over(&self, within: Duration) {
        let until = self.clock.now() + within;
        let may_act = || self.driver.upgrade().is_some_and(|driver| driver.may_act());
        let before = self.homes().len();
        if before == 0 {
            return;
        }
        self.say(true);
        while self.has_takers() && may_act() && self.clock.now() < until {
            if self.homes().is_empty() {
                tracing::info!(before, "homes went to other nodes");
                return;
            }
            thread::sleep(LOOK);
        }
        let left = self.homes().len();
        tracing::warn!(left, "homes stay until the lease of this node ends");
    }
}
