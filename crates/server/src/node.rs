//! One node: its shards on their threads, its pools, its journal. Starts, drains and reloads; what
//! process it lives in is the binary's affair.

mod door;
mod here;
mod setup;
mod sim;
mod tried;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use actor::{Addr, Pool};
use ring::rand::{SecureRandom, SystemRandom};
use stdx::time::{Clock, SystemClock};
use store::{Journal, LocalJournal, Store, Switches};

use crate::admin::Admin;
use crate::c2s::C2sService;
use crate::chaos::Chaos;
use crate::elsewhere::Returned;
use crate::errands::Errands;
use crate::home::SetLimits;
use crate::join::KeeperMsg;
use crate::limits::{ADMIN_DEADLINE, READ_THREADS, SWEEP_EVERY, TOTALS_EVERY, TOTALS_REST};
use crate::modules::Extensions;
use crate::moves::even_out;
use crate::options::{Limits, Options};
use crate::sweep;
use crate::wake::wake;

use here::Here;
use setup::{Layout, Setup, Started, Under};

pub use door::Door;
pub use sim::Sim;

/// Reads that may wait.
const READ_QUEUE: usize = 16_384;
/// Threads that derive keys.
const CRYPTO_THREADS: usize = 2;
/// Derivations that may wait; at two milliseconds each this is a few seconds.
const CRYPTO_QUEUE: usize = 2_048;

/// Why a node did not start. The operator is told what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A port is taken or not allowed, or the system has no thread to give.
    #[error("cannot start: {0}")]
    Io(#[from] io::Error),
    /// The options make no node.
    #[error("{0}")]
    Options(String),
    /// A shard ended before it ran.
    #[error("a shard did not start; the log says why")]
    Shard,
}

/// A shard did not answer in time whether it took something.
#[derive(Debug, thiserror::Error)]
#[error("a shard is too busy to take it: try again")]
pub struct Busy;

/// A running node.
pub struct Node {
    threads: Vec<JoinHandle<()>>,
    /// Loads users of whom nobody has asked: those who are not done, and those whose messages have
    /// become too old.
    caretaker: JoinHandle<()>,
    /// Reads what the domains have stored.
    counter: JoinHandle<()>,
    /// Loads users who are not done, of ranges that come from other nodes.
    waker: Option<JoinHandle<()>>,
    /// Has ranges move between shards.
    balancer: Option<JoinHandle<()>>,
    network: Arc<net::Shared>,
    addresses: Vec<SocketAddr>,
    admin: Admin,
    journal: Arc<dyn Journal>,
    /// Where each shard takes new bounds.
    bounds: Vec<Addr<SetLimits>>,
    /// To its cluster, if it belongs to one.
    door: Option<Door>,
}

impl Node {
    /// Starts a node on `store`. Without listeners it serves only [`Node::admin`].
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        options: Options,
        listeners: Vec<net::Listener>,
        limits: net::Limits,
        tls: Option<net::TlsConfig>,
        store: Store,
    ) -> Result<Node, StartError> {
        Node::start_with(
            Extensions::default(),
            options,
            listeners,
            limits,
            tls,
            store,
        )
    }

    /// The same with more extensions and services.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start_with(
        extensions: impl Into<Extensions>,
        options: Options,
        listeners: Vec<net::Listener>,
        limits: net::Limits,
        tls: Option<net::TlsConfig>,
        store: Store,
    ) -> Result<Node, StartError> {
        let clock = SystemClock::new();
        let (journal, commits) = journal(&store, &options)?;
        let reads = Pool::new("read", READ_THREADS, READ_QUEUE)?;
        let under = Under {
            clock: Arc::new(clock),
            seed: seed()?,
            journal: Arc::clone(&journal),
            reads: reads.clone(),
            crypto: Pool::new("crypto", CRYPTO_THREADS, CRYPTO_QUEUE)?,
            extensions: extensions.into(),
        };
        let mut layout = Layout::new(options, listeners, limits, tls, store, under)?;
        let Setup {
            options,
            handle,
            place,
            store,
            talkers,
            braked,
            queues,
            guard,
            rooms,
            credits,
            remote,
            extensions,
            ..
        } = layout.setup.clone();
        let (addresses, shared) = (layout.network.addresses().to_vec(), layout.network.shared());
        let chaos = commits.filter(|_| options.chaos).map(|commits| Chaos {
            handle: handle.clone(),
            network: Arc::clone(&shared),
            commits,
            commit_delay: options.debug_commit_delay,
            reads,
            turn: Arc::default(),
        });
        let admin = Admin {
            handle,
            store,
            place,
            options,
            network: Some(Arc::clone(&shared)),
            clock,
            started: clock.wall(),
            journal: Arc::clone(&journal),
            talkers,
            braked,
            queues,
            chaos,
            guard,
            rooms,
            services: extensions.services,
            errands: Arc::new(Errands::new()),
        };
        let mut threads = Vec::new();
        for (index, shard) in layout.shards.into_iter().enumerate() {
            let (driver, setup) = (layout.network.seed(index), layout.setup.clone());
            let run = move || setup.run(driver, shard);
            threads.push(
                thread::Builder::new()
                    .name(format!("shard-{index}"))
                    .spawn(run)?,
            );
        }
        drop(layout.setup);
        let started: Vec<_> = layout.bounds.iter().take(threads.len()).collect();
        if started.len() < threads.len() {
            shared.stop();
            return Err(StartError::Shard);
        }
        let (bounds, returns, keepers) = in_order(started);
        let door = admin.options.cluster.is_some().then(|| Door {
            place: admin.place.clone(),
            handle: admin.handle.clone(),
            credits,
            remote,
            returns,
            keepers,
            tried: Arc::default(),
            network: Arc::clone(&shared),
            admin: admin.clone(),
        });
        let (store, handle) = (admin.store.clone(), admin.handle.clone());
        let place = admin.place.clone();
        let network = Arc::clone(&shared);
        let max_age = admin.options.archive.max_age;
        let waking = admin.options.waking;
        let guard = Arc::clone(&admin.guard);
        let comers = door.clone();
        let caretaker = thread::Builder::new()
            .name("caretaker".to_owned())
            .spawn(move || {
                let is_over = || network.is_stopping();
                if comers.is_none() {
                    wake(&store, &place, &handle, waking, is_over);
                    // The last of them are in the shards' inboxes; a moment later they are there.
                    thread::sleep(waking.pace);
                    place.set_all_woken();
                }
                while !is_over() {
                    let before = sweep::oldest_kept(clock.wall(), max_age);
                    sweep::sweep(&store, &place, &handle, before, is_over);
                    guard.decoys.learn(&store);
                    thread::park_timeout(SWEEP_EVERY);
                }
            })?;
        let waker = match door.clone().zip(layout.here) {
            Some(both) => Some(waker(admin.store.clone(), both)?),
            None => None,
        };
        let balancer = balancer(&admin, Arc::clone(&shared))?;
        let (store, guard) = (admin.store.clone(), Arc::clone(&admin.guard));
        let network = Arc::clone(&shared);
        let counter = thread::Builder::new()
            .name("counter".to_owned())
            .spawn(move || {
                while !network.is_stopping() {
                    let began = clock.now();
                    if let Err(error) = guard.shares.learn(&store) {
                        tracing::debug!(%error, "cannot read what the domains have stored");
                    }
                    let took = clock.now().saturating_since(began);
                    thread::park_timeout(TOTALS_EVERY.max(took * TOTALS_REST));
                }
            })?;
        Ok(Node {
            threads,
            caretaker,
            counter,
            waker,
            balancer,
            network: shared,
            addresses,
            admin,
            journal,
            bounds,
            door,
        })
    }

    /// The addresses that were bound, in the listeners' order.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The administrator's door.
    pub fn admin(&self) -> Admin {
        self.admin.clone()
    }

    /// The door to the node's cluster, if it belongs to one.
    pub fn door(&self) -> Option<Door> {
        self.door.clone()
    }

    /// Whether every shard is running.
    pub fn is_ready(&self) -> bool {
        self.threads.iter().all(|thread| !thread.is_finished())
    }

    /// Accounts that are in memory: online, or written to a moment ago.
    pub fn accounts_loaded(&self) -> u64 {
        self.admin.accounts_loaded()
    }

    /// Open client connections.
    pub fn connections(&self) -> u64 {
        self.network.connections()
    }

    /// Puts new certificates in force for connections to come.
    pub fn set_tls(&self, tls: Option<net::TlsConfig>) {
        self.network.set_tls(tls);
    }

    /// Puts new bounds in force for what happens from now on; what is larger already stays. They
    /// are in force everywhere when this returns. For threads of their own, never for a shard.
    ///
    /// # Errors
    /// A shard did not take them: some shards keep the old bounds.
    pub fn set_limits(&self, limits: &Limits, network: net::Limits) -> Result<(), Busy> {
        self.network.set_limits(network);
        for shard in &self.bounds {
            let question = |reply| SetLimits {
                limits: limits.clone(),
                reply,
            };
            let told = self.admin.handle.ask(*shard, question, ADMIN_DEADLINE);
            told.map_err(|_| Busy)?;
        }
        Ok(())
    }

    /// Stops accepting and says goodbye to every client; then stops, once they have gone or
    /// `deadline` has passed. Everything accepted is durable afterwards.
    pub fn drain(self, deadline: Duration) {
        self.network.drain_within(deadline);
        let clock = self.admin.clock;
        let end = clock.now() + deadline;
        while self.network.connections() > 0 && clock.now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        self.network.stop();
        let others = [self.caretaker, self.counter].into_iter();
        let others: Vec<_> = others.chain(self.waker).chain(self.balancer).collect();
        others.iter().for_each(|thread| thread.thread().unpark());
        for thread in self.threads.into_iter().chain(others) {
            // A shard that panicked has said so already.
            let _ = thread.join();
        }
        drop(self.journal);
    }
}

fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| io::Error::other("the system's random generator fails"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// What each shard said when it had started, by shard.
type InOrder = (
    Vec<Addr<SetLimits>>,
    Vec<Addr<Returned>>,
    Vec<Addr<KeeperMsg>>,
);

fn in_order(mut started: Vec<Started>) -> InOrder {
    started.sort_by_key(|(bounds, ..)| bounds.shard());
    started.into_iter().collect()
}

fn waker(store: Store, (door, here): (Door, Arc<Here>)) -> io::Result<JoinHandle<()>> {
    let door = Arc::new(door);
    here.set_door(&door);
    let wake = move || door::wake_those_who_come(&store, &door, &here);
    thread::Builder::new().name("waker".to_owned()).spawn(wake)
}

/// Who has ranges move by themselves, where there is something to even out.
fn balancer(admin: &Admin, network: Arc<net::Shared>) -> io::Result<Option<JoinHandle<()>>> {
    let options = Arc::clone(&admin.options);
    if !options.balance.is_on || options.shards < 2 || options.cluster.is_some() {
        return Ok(None);
    }
    let (handle, place, clock) = (admin.handle.clone(), admin.place.clone(), admin.clock);
    let is_over = move || network.is_stopping();
    let run = move || even_out(&handle, &place, &options.balance, clock, is_over);
    let thread = thread::Builder::new().name("balancer".to_owned());
    thread.spawn(run).map(Some)
}

/// The journal, and what disturbs it if it shall be disturbed.
type Disturbed = (Arc<dyn Journal>, Option<Arc<Switches>>);

fn journal(store: &Store, options: &Options) -> Result<Disturbed, StartError> {
    let journal: Arc<dyn Journal> = match &options.cluster {
        Some(cluster) => Arc::clone(&cluster.journal),
        None => {
            let journal = LocalJournal::start_with(store, options.commits.journal.clone());
            Arc::new(journal.map_err(|e| StartError::Options(e.to_string()))?)
        }
    };
    if options.debug_commit_delay.is_zero() && !options.chaos {
        return Ok((journal, None));
    }
    let twin = store::TwinJournal::start(journal, store::Plan::default())?;
    let switches = twin.switches();
    switches.set_delay(options.debug_commit_delay);
    Ok((Arc::new(twin), Some(switches)))
}
