//! One node: its shards on their threads, its pools, its journal. Starts, drains and reloads; what
//! process it lives in is the binary's affair.

mod sim;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use actor::{Addr, Handle, Mail, Pool};
use ring::rand::{SecureRandom, SystemRandom};
use stdx::time::{Clock, SystemClock};
use store::{Journal, LocalJournal, Store, Switches};
use xmpp::sasl::Mechanism;
use xmpp::stream::C2sConfig;

use crate::admin::Admin;
use crate::c2s::C2sService;
use crate::chaos::Chaos;
use crate::home::{Home, LimitsActor, SetLimits};
use crate::journal::PortActor;
use crate::limits::{ADMIN_DEADLINE, SWEEP_EVERY, WAKE_PACE};
use crate::modules::{csi, disco};
use crate::options::{Limits, Options};
use crate::place::Place;
use crate::user::Users;
use crate::wake::wake;
use crate::{sweep, talkers};

pub use sim::Sim;

/// Threads that read the store: enough that a slow disk delays only those who wait for it.
pub(crate) const READ_THREADS: usize = 8;
/// Reads that may wait.
const READ_QUEUE: usize = 16_384;
/// Threads that derive keys.
const CRYPTO_THREADS: usize = 2;
/// Derivations that may wait; at two milliseconds each this is a few seconds.
const CRYPTO_QUEUE: usize = 2_048;

/// Actors of each shard that are no accounts: the port to the journal and the keeper of limits.
pub(crate) const SYSTEM_ACTORS_PER_SHARD: u64 = 2;

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
    network: Arc<net::Shared>,
    addresses: Vec<SocketAddr>,
    admin: Admin,
    journal: Arc<dyn Journal>,
    /// Where each shard takes new bounds.
    bounds: Vec<Addr<SetLimits>>,
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
        if options.domains.is_empty() || options.shards == 0 {
            return Err(StartError::Options(
                "a node needs a domain and a shard".to_owned(),
            ));
        }
        let clock = SystemClock::new();
        let options = Arc::new(options);
        let config = Arc::new(stream_config(&options, tls.is_some())?);
        let seed = seed()?;
        let (handle, shards) = actor::system(actor::Options {
            shards: options.shards,
            seed,
        });
        let exempt = limits.exempt.clone().into();
        let mut network = net::Network::bind(listeners, options.shards, tls, limits)?;
        let place = Place::new(store.slot_key(), options.shards);
        let (journal, commits) = journal(&store, &options)?;
        let reads = Pool::new("read", READ_THREADS, READ_QUEUE)?;
        let (started, bounds) = sync_channel(usize::from(options.shards));
        let talkers: Vec<talkers::Published> =
            (0..options.shards).map(|_| Default::default()).collect();
        let setup = Setup {
            started,
            config,
            options: Arc::clone(&options),
            place: place.clone(),
            store: store.clone(),
            journal: Arc::clone(&journal),
            reads: reads.clone(),
            crypto: Pool::new("crypto", CRYPTO_THREADS, CRYPTO_QUEUE)?,
            handle: handle.clone(),
            remote: network.remote(&handle),
            clock: Arc::new(clock),
            exempt,
            talkers: talkers.clone(),
        };
        let chaos = commits.filter(|_| options.chaos).map(|commits| Chaos {
            handle: handle.clone(),
            network: network.shared(),
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
            network: Some(network.shared()),
            clock,
            started: clock.wall(),
            journal: Arc::clone(&journal),
            talkers,
            chaos,
        };
        let (addresses, shared) = (network.addresses().to_vec(), network.shared());
        let mut threads = Vec::new();
        for (index, shard) in shards.into_iter().enumerate() {
            let (driver, setup) = (network.seed(index), setup.clone());
            let run = move || setup.run(driver, shard);
            threads.push(
                thread::Builder::new()
                    .name(format!("shard-{index}"))
                    .spawn(run)?,
            );
        }
        drop(setup);
        let bounds: Vec<_> = bounds.iter().take(threads.len()).collect();
        if bounds.len() < threads.len() {
            shared.stop();
            return Err(StartError::Shard);
        }
        let (store, handle) = (admin.store.clone(), admin.handle.clone());
        let place = admin.place.clone();
        let network = Arc::clone(&shared);
        let max_age = admin.options.archive.max_age;
        let caretaker = thread::Builder::new()
            .name("caretaker".to_owned())
            .spawn(move || {
                let is_over = || network.is_stopping();
                wake(&store, &place, &handle, is_over);
                // The last of them are in the shards' inboxes; a moment later they are there.
                thread::sleep(WAKE_PACE);
                place.set_woken();
                while !is_over() {
                    let before = sweep::oldest_kept(clock.wall(), max_age);
                    sweep::sweep(&store, &place, &handle, before, is_over);
                    thread::park_timeout(SWEEP_EVERY);
                }
            })?;
        Ok(Node {
            threads,
            caretaker,
            network: shared,
            addresses,
            admin,
            journal,
            bounds,
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
        self.caretaker.thread().unpark();
        for thread in self.threads.into_iter().chain([self.caretaker]) {
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

fn stream_config(options: &Options, has_tls: bool) -> Result<C2sConfig, StartError> {
    let mut mechanisms = Vec::new();
    for name in &options.mechanisms {
        let unknown = || StartError::Options(format!("an unknown SASL mechanism: {name}"));
        mechanisms.push(Mechanism::parse(name).ok_or_else(unknown)?);
    }
    let mut secret = [0; 32];
    SystemRandom::new()
        .fill(&mut secret)
        .map_err(|_| io::Error::other("the system's random generator fails"))?;
    Ok(C2sConfig {
        domains: options.domains.clone(),
        mechanisms,
        has_tls,
        require_tls: options.require_tls,
        plain_without_tls: options.plain_without_tls,
        registration: options.registration_enabled,
        features: disco::caps_element(),
        session_features: session_features(options),
        secret,
        iterations: options.scram_iterations,
    })
}

fn session_features(options: &Options) -> Vec<u8> {
    let mut features = csi::FEATURE.to_vec();
    if options.delivery.stream_management {
        features.extend_from_slice(xmpp::sm::FEATURE);
    }
    features
}

/// The journal, and what disturbs it if it shall be disturbed.
type Disturbed = (Arc<dyn Journal>, Option<Arc<Switches>>);

fn journal(store: &Store, options: &Options) -> Result<Disturbed, StartError> {
    let journal = LocalJournal::start(store).map_err(|e| StartError::Options(e.to_string()))?;
    if options.debug_commit_delay.is_zero() && !options.chaos {
        return Ok((Arc::new(journal), None));
    }
    let twin = store::TwinJournal::start(Arc::new(journal), store::Plan::default())?;
    let switches = twin.switches();
    switches.set_delay(options.debug_commit_delay);
    Ok((Arc::new(twin), Some(switches)))
}

/// What each shard's thread builds its part from.
#[derive(Clone)]
struct Setup {
    started: SyncSender<Addr<SetLimits>>,
    config: Arc<C2sConfig>,
    options: Arc<Options>,
    place: Place,
    store: Store,
    journal: Arc<dyn Journal>,
    reads: Pool,
    crypto: Pool,
    handle: Handle,
    remote: net::RemoteIo<C2sService>,
    clock: Arc<dyn Clock>,
    exempt: Arc<[net::AddressRange]>,
    /// By shard.
    talkers: Vec<talkers::Published>,
}

impl Setup {
    fn run(self, driver: net::DriverSeed<C2sService>, shard: actor::ShardSeed) {
        match self.build(driver, shard).and_then(net::Driver::run) {
            Ok(()) => {}
            Err(error) => tracing::error!(%error, "a shard ended"),
        }
    }

    fn build(
        self,
        driver: net::DriverSeed<C2sService>,
        shard: actor::ShardSeed,
    ) -> io::Result<net::Driver<C2sService>> {
        let clock = Arc::clone(&self.clock);
        driver.build(shard, clock, |shard, io| self.service(shard, io))
    }

    fn service(self, shard: &mut actor::Shard, io: net::Io<C2sService>) -> C2sService {
        let (port, into_port) = PortActor::new(self.journal);
        let port = into_port(shard.spawn(port));
        let home = Home::new(
            io,
            self.place,
            self.store,
            port,
            self.reads,
            self.crypto,
            self.options,
            self.clock.wall(),
            self.talkers[usize::from(shard.id().index())].clone(),
        );
        let home = Rc::new(home);
        shard.set_class(Users::new(Rc::clone(&home)));
        // Whoever waits for this gives up only when it has failed itself.
        let _ = self
            .started
            .send(shard.spawn(LimitsActor(Rc::clone(&home))));
        C2sService {
            config: self.config,
            home,
            remote: self.remote,
            handle: self.handle,
            random: SystemRandom::new(),
            scratch: xml::Scratch::default(),
            effects: Vec::new(),
            penalties: HashMap::new(),
            registrations: HashMap::new(),
            exempt: self.exempt,
        }
    }
}
