//! What the shards of one node share: bound listeners, TLS settings, limits, switches, and counts
//! per node. Touched at accept, at close and once per turn, never per message.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{io, mem};

use actor::{Addr, Handle, ShardId};
use telemetry::{SharedStats, Snapshot};

use crate::address::AddressTable;
use crate::core::IoError;
use crate::io::RemoteIo;
use crate::limits::Limits;
use crate::listen::{self, Bound, Listener};
use crate::port::{Batch, Batches, PortMsg};
use crate::service::Service;
use crate::shed::{Shed, ShedCount};
use crate::tls::TlsConfig;
use crate::unread::Unread;

/// Listeners of one node, at most: [`Network::bind`] refuses more.
pub const LISTENERS_MAX: usize = 64;

/// Bound listeners and everything else that the loops of one node share.
pub struct Network<S: Service> {
    listeners: Arc<[Listener]>,
    sockets: Vec<Vec<Bound>>,
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    ports: Arc<Ports<S>>,
}

/// Where the ports of the shards are; each driver sets its own before connections come.
pub(crate) struct Ports<S: Service>(Vec<OnceLock<Addr<PortMsg<S>>>>);

impl<S: Service> Ports<S> {
    pub(crate) fn of(&self, shard: ShardId) -> Option<Addr<PortMsg<S>>> {
        self.0
            .get(usize::from(shard.index()))
            .and_then(|port| port.get().copied())
    }

    pub(crate) fn set(&self, shard: ShardId, port: Addr<PortMsg<S>>) {
        if let Some(slot) = self.0.get(usize::from(shard.index())) {
            // A shard is built once.
            let _ = slot.set(port);
        }
    }

    pub(crate) fn count(&self) -> u16 {
        u16::try_from(self.0.len()).unwrap_or(u16::MAX)
    }
}

impl<S: Service> Batches<S::Control> for Ports<S> {
    fn send(
        &self,
        handle: &Handle,
        shard: ShardId,
        batch: Batch<S::Control>,
    ) -> Result<(), IoError> {
        let port = self.of(shard).ok_or(IoError::Gone)?;
        let sent = handle.send(port, PortMsg::Batch(batch));
        sent.map_err(|_| IoError::Full)
    }
}

/// What can be changed while the loops run.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) tls: Option<TlsConfig>,
    pub(crate) limits: Arc<Limits>,
    /// Nobody is accepted any more.
    pub(crate) is_closed: bool,
    /// The latest that was said of clients that should go.
    pub(crate) shed: Shed,
}

/// Something that is done to a shard on purpose, to see what comes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// So many of its connections, drawn at random, lose their link.
    DropLinks(usize),
    /// It reads from no connection for so long.
    StallReads(Duration),
    /// Its loop panics.
    Panic,
}

/// Disturbances of one node that wait for their shards.
const DISTURBANCES_MAX: usize = 64;

/// Switches and counters of a running network.
pub struct Shared {
    settings: Mutex<Settings>,
    /// Counts changes of the settings, so that loops look at the lock only when there is news.
    version: AtomicU64,
    /// Milliseconds that connections have for their goodbye, plus one; 0 while nothing drains.
    draining: AtomicU64,
    stopping: AtomicBool,
    disturbances: Mutex<Vec<(ShardId, Disturbance)>>,
    pub(crate) connections: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) addresses: AddressTable,
    pub(crate) unread: Arc<Unread>,
    /// Input that is kept, likewise.
    pub(crate) kept: Arc<Unread>,
    pub(crate) stats: Vec<SharedStats>,
    /// By shard.
    pub(crate) shed: Vec<ShedCount>,
    pub(crate) wakers: Vec<OnceLock<Arc<mio::Waker>>>,
}

impl Shared {
    /// Open connections.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Connections that a limit refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// What the loop of a shard has counted, as of its last publication.
    pub fn stats(&self, shard: ShardId) -> Option<Snapshot> {
        self.stats
            .get(usize::from(shard.index()))
            .map(SharedStats::snapshot)
    }

    /// Puts new certificates in force for handshakes to come.
    pub fn set_tls(&self, tls: Option<TlsConfig>) {
        self.change(|settings| settings.tls = tls);
    }

    /// The limits in force.
    pub fn limits(&self) -> Arc<Limits> {
        let settings = self.settings.lock();
        Arc::clone(&settings.unwrap_or_else(PoisonError::into_inner).limits)
    }

    /// Puts new limits in force for what happens from now on.
    pub fn set_limits(&self, limits: Limits) {
        self.change(|settings| settings.limits = Arc::new(limits.bounded()));
    }

    /// [`Shared::drain_within`] half a minute.
    pub fn drain(&self) {
        self.drain_within(Duration::from_secs(30));
    }

    /// Stops accepting and has the service say goodbye to every connection. Those that are not
    /// closed within `deadline` are closed then. The loops go on, for the actors' sake, until
    /// [`Shared::stop`].
    pub fn drain_within(&self, deadline: Duration) {
        let millis = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX - 1);
        self.draining
            .store(millis.saturating_add(1), Ordering::Release);
        self.wake();
    }

    /// Accepts nobody any more. Connections that there are go on.
    pub fn stop_accepting(&self) {
        self.change(|settings| settings.is_closed = true);
    }

    /// Has the service ask every client that is there now to go, spread evenly over this time.
    /// Others are accepted meanwhile. Said again, it begins anew.
    pub fn shed_within(&self, time: Duration) {
        self.change(|settings| settings.shed = settings.shed.next(Some(time)));
    }

    /// Asks nobody any more to go.
    pub fn keep(&self) {
        self.change(|settings| settings.shed = settings.shed.next(None));
    }

    /// Clients that are there, and those of them that were not asked yet to go. Counted about once
    /// a second after [`Shared::shed_within`]; 0 before.
    pub fn shed(&self) -> (u64, u64) {
        let counts = self.shed.iter().map(ShedCount::read);
        counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Ends the loops; connections that are left are closed.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
    }

    /// Disturbs a shard in its next turn. False if too many disturbances wait.
    pub fn disturb(&self, shard: ShardId, what: Disturbance) -> bool {
        let mut waiting = self.disturbances();
        if waiting.len() >= DISTURBANCES_MAX {
            return false;
        }
        waiting.push((shard, what));
        drop(waiting);
        self.version.fetch_add(1, Ordering::Release);
        self.wake();
        true
    }

    pub(crate) fn take_disturbances(&self, shard: ShardId) -> Vec<Disturbance> {
        let mut waiting = self.disturbances();
        let own = waiting.extract_if(.., |(of, _)| *of == shard);
        own.map(|(_, what)| what).collect()
    }

    fn disturbances(&self) -> MutexGuard<'_, Vec<(ShardId, Disturbance)>> {
        self.disturbances
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings.lock().unwrap_or_else(PoisonError::into_inner));
        self.version.fetch_add(1, Ordering::Release);
        self.wake();
    }

    fn wake(&self) {
        for waker in self.wakers.iter().filter_map(OnceLock::get) {
            // A failed wake costs at most the longest sleep, which is bounded.
            let _ = waker.wake();
        }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Whether it says goodbye to its clients, or has ended.
    pub fn is_stopping(&self) -> bool {
        self.stopping() || self.draining().is_some()
    }

    pub(crate) fn draining(&self) -> Option<Duration> {
        let millis = self.draining.load(Ordering::Acquire).checked_sub(1)?;
        Some(Duration::from_millis(millis))
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}

impl<S: Service> Network<S> {
    /// Binds every listener for `shards` shards.
    ///
    /// # Errors
    /// The operating system's, with the address.
    pub fn bind(
        listeners: Vec<Listener>,
        shards: u16,
        tls: Option<TlsConfig>,
        limits: Limits,
    ) -> io::Result<Self> {
        if listeners.len() > LISTENERS_MAX {
            return Err(io::Error::other(format!(
                "more than {LISTENERS_MAX} listeners"
            )));
        }
        let mut sockets: Vec<Vec<_>> = (0..shards).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for listener in &listeners {
            let (address, bound) = listen::bind(listener, usize::from(shards)).map_err(|e| {
                let place = match &listener.path {
                    Some(path) => path.display().to_string(),
                    None => listener.address.to_string(),
                };
                io::Error::new(e.kind(), format!("{place}: {e}"))
            })?;
            addresses.push(address);
            for (shard, socket) in bound.into_iter().enumerate() {
                sockets[shard].push(socket);
            }
        }
        let settings = Settings {
            tls,
            limits: Arc::new(limits.bounded()),
            is_closed: false,
            shed: Shed::default(),
        };
        let shared = Arc::new(Shared {
            settings: Mutex::new(settings),
            version: AtomicU64::new(1),
            draining: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            disturbances: Mutex::default(),
            connections: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            addresses: AddressTable::new(),
            unread: Arc::default(),
            kept: Arc::default(),
            stats: (0..shards).map(|_| SharedStats::new()).collect(),
            shed: (0..shards).map(|_| ShedCount::default()).collect(),
            wakers: (0..shards).map(|_| OnceLock::new()).collect(),
        });
        let ports = Arc::new(Ports((0..shards).map(|_| OnceLock::new()).collect()));
        Ok(Network {
            listeners: listeners.into(),
            sockets,
            addresses,
            shared,
            ports,
        })
    }

    /// The addresses that were bound, in the listeners' order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Switches and counters.
    pub fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    /// The way to connections for threads that are no shard's.
    pub fn remote(&self, handle: &Handle) -> RemoteIo<S::Control> {
        let ports = Arc::clone(&self.ports);
        RemoteIo {
            handle: handle.clone(),
            ports,
        }
    }

    /// The part of one shard, to be built on its thread. Gives a shard's sockets out once.
    pub fn seed(&mut self, shard: usize) -> DriverSeed<S> {
        DriverSeed {
            listeners: Arc::clone(&self.listeners),
            sockets: self
                .sockets
                .get_mut(shard)
                .map(mem::take)
                .unwrap_or_default(),
            shared: Arc::clone(&self.shared),
            ports: Arc::clone(&self.ports),
        }
    }
}

/// The part of one shard, see [`Network::seed`] and [`DriverSeed::build`].
pub struct DriverSeed<S: Service> {
    pub(crate) listeners: Arc<[Listener]>,
    pub(crate) sockets: Vec<Bound>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) ports: Arc<Ports<S>>,
}
