//! The cluster as this node sees it, for figures and readiness. Owns putting it together; it holds
//! nothing alive: whoever looks after the node has ended sees nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cluster::driver::{Driver, Progress, Servers};
use cluster::journal::Epoch;
use cluster::layout::StreamId;
use cluster::link::{LinkStatus, Links};
use cluster::map::view::MapView;
use stdx::time::{Clock as _, SystemClock};
use watch::{ClusterSample, LinkSample};

use super::drain::Draining;
use super::readiness::{Readiness, Seen};

/// By stream: the tenure in which the server serves it, 0 if it does not.
pub(super) type Served = Arc<[AtomicU64]>;

/// See the module.
pub(crate) struct Watcher {
    driver: Weak<Driver>,
    links: Weak<Links>,
    own: String,
    served: Served,
    draining: Arc<Draining>,
    readiness: Mutex<Readiness>,
    clock: SystemClock,
}

impl Watcher {
    pub(super) fn new(
        driver: &Arc<Driver>,
        links: &Arc<Links>,
        own: String,
        served: Served,
        draining: Arc<Draining>,
    ) -> Watcher {
        Watcher {
            driver: Arc::downgrade(driver),
            links: Arc::downgrade(links),
            own,
            served,
            draining,
            readiness: Mutex::default(),
            clock: SystemClock::new(),
        }
    }

    /// Whether clients should come here, or why not.
    ///
    /// # Errors
    /// The reason.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if self.draining.is_wanted() {
            return Err("draining".to_owned());
        }
        let driver = self.driver.upgrade().ok_or("the node has ended")?;
        let seen = self.seen(&driver);
        let readiness = self.readiness.lock();
        let mut readiness = readiness.unwrap_or_else(PoisonError::into_inner);
        readiness.look(self.clock.now(), seen)
    }

    fn seen(&self, driver: &Driver) -> Seen {
        let map = driver.map();
        let streams = driver.layout().streams();
        let mut seen = Seen {
            holds_lease: driver.may_act(),
            ..Seen::default()
        };
        for stream in streams {
            match home(&map, stream) {
                None => seen.homeless += 1,
                Some((node, epoch)) if *node == self.own => {
                    seen.given += 1;
                    seen.served += usize::from(self.serves(stream) == *epoch);
                }
                Some(_) => {}
            }
        }
        seen
    }

    fn serves(&self, stream: StreamId) -> Epoch {
        let served = self.served.get(usize::from(stream.0));
        served.map_or(0, |served| served.load(Ordering::Relaxed))
    }

    /// Everything; `None` once the node has ended.
    pub(crate) fn sample(&self) -> Option<ClusterSample> {
        let (driver, links) = (self.driver.upgrade()?, self.links.upgrade()?);
        let (seen, map) = (self.seen(&driver), driver.map());
        let mut sample = ClusterSample {
            node: self.own.clone(),
            holds_lease: seen.holds_lease,
            homes_given: seen.given as u64,
            homes_served: seen.served as u64,
            nodes: map.nodes.len() as u64,
            nodes_alive: map.nodes.values().filter(|node| node.is_alive).count() as u64,
            links_refused: links.refused(),
            link_bytes_max: links.bytes_max() as u64,
            certificate_expires: links.expires(),
            ..ClusterSample::default()
        };
        note_servers(&mut sample, driver.servers());
        for stream in driver.layout().streams() {
            sample.streams += 1;
            sample.homes_moving += u64::from(!self.is_served(&map, stream));
            add(&mut sample, &driver.progress(stream));
        }
        let known = links.status().into_iter().filter(|link| link.is_known);
        sample.links = known.map(link).collect();
        Some(sample)
    }

    /// Whether some node serves a stream, as far as this one knows.
    fn is_served(&self, map: &MapView, stream: StreamId) -> bool {
        let Some((name, epoch)) = home(map, stream) else {
            return false;
        };
        if *name == self.own {
            return self.serves(stream) == *epoch;
        }
        let node = map.nodes.get(name).filter(|node| node.is_alive);
        let serving = node.and_then(|node| node.serving.get(usize::from(stream.0)));
        serving == Some(epoch)
    }
}

fn home(map: &MapView, stream: StreamId) -> Option<&(String, Epoch)> {
    map.homes.get(usize::from(stream.0))?.as_ref()
}

fn note_servers(sample: &mut ClusterSample, servers: Servers) {
    sample.engine_servers = servers.asked as u64;
    sample.engine_away = servers.away;
    if let Some(fullest) = servers.fullest {
        sample.engine_fullest = fullest.server;
        sample.engine_stored_bytes = fullest.bytes;
        sample.engine_stored_bytes_max = fullest.bytes_max;
    }
}

fn add(sample: &mut ClusterSample, progress: &Progress) {
    sample.lag_messages = sample.lag_messages.max(progress.lag());
    sample.lag_ms = sample.lag_ms.max(u64::from(progress.lag_ms));
    sample.applied += progress.stats.applied;
    sample.take_overs += progress.take_overs;
    sample.tenures_ended += progress.tenures_ended;
    sample.doubts += progress.doubts;
    sample.streams_without_quorum += u64::from(progress.lacks_quorum);
    sample.copies_stuck += u64::from(progress.is_stuck);
    sample.divergences += progress.divergences;
    sample.snapshots_loaded += progress.snapshots_loaded;
    sample.leaders_moved += progress.leaders_moved;
    sample.consumers_replaced += progress.consumers_replaced;
    sample.events_lost += progress.events_lost;
}

fn link(status: LinkStatus) -> LinkSample {
    LinkSample {
        peer: status.name,
        is_up: status.is_connected,
        packets: status.packets as u64,
        bytes: status.bytes as u64,
        connections: status.connections,
        taken: status.taken,
        sent_again: status.sent_again,
        returned: status.returned,
        unreadable: status.unreadable,
        error: status.last_error,
    }
}
