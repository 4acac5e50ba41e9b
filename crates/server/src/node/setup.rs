//! What the shards of a node are built from, on threads of their own or all on one: what is the
//! same whichever clock, journal and pools are under it.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use actor::{Addr, Handle, Mail, Name, Pool};
use ring::rand::SystemRandom;
use stdx::time::Clock;
use store::{Journal, Store};
use xmpp::sasl::Mechanism;
use xmpp::stream::C2sConfig;

use super::here::Here;
use super::{C2sService, StartError};
use crate::elsewhere::{Returned, ReturnsActor};
use crate::guard::{Bans, Guard};
use crate::home::{Home, LimitsActor, SetLimits};
use crate::join::{Keeper, KeeperMsg};
use crate::journal::Port;
use crate::kinds::Kinds;
use crate::limits::FAILED_LOGIN_LINES;
use crate::listing::Table;
use crate::message::UserMsg;
use crate::message::control::Control;
use crate::message::credit::Credits;
use crate::modules::{Extensions, csi, disco, session};
use crate::moves::{MOVER, Mover};
use crate::options::Options;
use crate::place::Place;
use crate::post::Post;
use crate::queues::Queues;
use crate::repeats::Repeats;
use crate::set_aside::{SET_ASIDE, SetAside};
use crate::talkers;
use crate::web::Connection;

/// What a node stands on.
pub(super) struct Under {
    pub clock: Arc<dyn Clock>,
    /// Of all randomness that a schedule repeats.
    pub seed: u64,
    pub journal: Arc<dyn Journal>,
    pub reads: Pool,
    pub crypto: Pool,
    pub extensions: Extensions,
}

/// Where a shard that has started takes new bounds, packets that came back, and clients of other
/// nodes.
pub(super) type Started = (Addr<SetLimits>, Addr<Returned>, Addr<KeeperMsg>);

/// A node whose shards are not built yet.
pub(super) struct Layout {
    pub setup: Setup,
    /// The way of a node of a cluster to itself.
    pub here: Option<Arc<Here>>,
    pub network: net::Network<C2sService>,
    pub shards: Vec<actor::ShardSeed>,
    /// Where each shard says that it has started.
    pub bounds: Receiver<Started>,
}

impl Layout {
    /// Binds the listeners.
    pub(super) fn new(
        mut options: Options,
        listeners: Vec<net::Listener>,
        limits: net::Limits,
        tls: Option<net::TlsConfig>,
        store: Store,
        mut under: Under,
    ) -> Result<Layout, StartError> {
        if options.domains.is_empty() || options.shards == 0 {
            return Err(StartError::Options(
                "a node needs a domain and a shard".to_owned(),
            ));
        }
        if let Err(relation) = options.delivery.check() {
            return Err(StartError::Options(format!(
                "it does not hold that {relation}"
            )));
        }
        options.settle_modules();
        under.extensions = under.extensions.with(&options.modules);
        let others = options.rooms.hosts.iter().chain(&options.pubsub.hosts);
        let others = others.chain(options.search_hosts());
        let components = options.components.served.iter().map(|one| &one.domain);
        let others = others.chain(components);
        let services = under.extensions.services.iter();
        let services = services.flat_map(|service| service.hosts(&options.domains));
        let services: Vec<String> = services.collect();
        let all = options.domains.iter().chain(others).chain(&services);
        let all: Vec<&String> = all.collect();
        let is_twice = |at: &usize| all[..*at].contains(&all[*at]);
        if let Some(at) = (options.domains.len()..all.len()).find(is_twice) {
            return Err(StartError::Options(format!(
                "{} can be one thing: a domain of accounts, rooms, nodes, searches, a service or a \
                 component",
                all[at]
            )));
        }
        let here = options.cluster.as_mut().map(|cluster| {
            let here = Arc::new(Here::new(Arc::clone(&cluster.away)));
            cluster.away = Arc::clone(&here) as _;
            here
        });
        let options = Arc::new(options);
        let iterations = options.scram_iterations;
        let bans = match options.bans_are_anothers {
            true => Bans::read(options.bans.clone()),
            false => Bans::open(options.bans.clone()),
        };
        // A server that forgets its bans does not start.
        let bans = bans.map_err(|error| StartError::Options(error.to_string()))?;
        let guard = Guard::new(&store, &options.domains, bans, iterations);
        let guard = Arc::new(guard);
        let config = Arc::new(stream_config(&options, tls.is_some(), &guard)?);
        let web_config = Arc::new(C2sConfig {
            has_tls: false,
            ..(*config).clone()
        });
        let (handle, shards) = actor::system(actor::Options {
            bounds: options.actors,
            ..actor::Options::new(options.shards, under.seed)
        });
        let exempt = limits.exempt.clone().into();
        let network = net::Network::bind(listeners, options.shards, tls, limits)?;
        let (started, bounds) = sync_channel(usize::from(options.shards));
        let setup = Setup {
            started,
            config,
            web_config,
            place: match options.cluster {
                Some(_) => Place::new(store.slot_key(), options.shards).elsewhere(),
                None => Place::new(store.slot_key(), options.shards),
            },
            store,
            journal: under.journal,
            reads: under.reads,
            crypto: under.crypto,
            extensions: under.extensions,
            remote: network.remote(&handle),
            handle,
            clock: under.clock,
            exempt,
            guard,
            rooms: Arc::default(),
            credits: Arc::new(Credits::new(
                options.wire.credits_max,
                options.cluster.clone(),
            )),
            talkers: (0..options.shards).map(|_| Default::default()).collect(),
            braked: (0..options.shards).map(|_| Default::default()).collect(),
            queues: (0..options.shards).map(|_| Default::default()).collect(),
            options,
        };
        Ok(Layout {
            setup,
            here,
            network,
            shards,
            bounds,
        })
    }
}

/// What each shard builds its part from.
#[derive(Clone)]
pub(super) struct Setup {
    pub options: Arc<Options>,
    pub extensions: Extensions,
    pub place: Place,
    pub store: Store,
    pub handle: Handle,
    /// By shard.
    pub talkers: Vec<talkers::Published>,
    /// Who reached a budget, by shard.
    pub braked: Vec<talkers::Published>,
    /// Senders with messages for destinations that do not keep up, by shard.
    pub queues: Vec<Queues>,
    pub guard: Arc<Guard>,
    /// Rooms that are in no store.
    pub rooms: Arc<Table>,
    /// Of stanzas that left as bytes.
    pub credits: Arc<Credits>,
    started: SyncSender<Started>,
    config: Arc<C2sConfig>,
    web_config: Arc<C2sConfig>,
    journal: Arc<dyn Journal>,
    reads: Pool,
    crypto: Pool,
    pub remote: net::RemoteIo<Control>,
    clock: Arc<dyn Clock>,
    exempt: Arc<[net::AddressRange]>,
}

impl Setup {
    /// Where packets are written and read.
    pub(super) fn post(&self) -> Post {
        Post::new(Arc::clone(&self.credits), self.remote.clone(), false)
    }

    pub(super) fn run(self, driver: net::DriverSeed<C2sService>, shard: actor::ShardSeed) {
        match self.build(driver, shard).and_then(net::Driver::run) {
            Ok(()) => {}
            Err(error) => tracing::error!(%error, "a shard ended"),
        }
    }

    pub(super) fn build(
        self,
        driver: net::DriverSeed<C2sService>,
        shard: actor::ShardSeed,
    ) -> io::Result<net::Driver<C2sService>> {
        let clock = Arc::clone(&self.clock);
        driver.build(shard, clock, |shard, io, opener| {
            self.service(shard, io, opener)
        })
    }

    fn service(
        self,
        shard: &mut actor::Shard,
        io: net::Io<Control>,
        opener: net::Opener<Connection>,
    ) -> C2sService {
        let port = Port::start(self.journal, self.options.commits.clone(), shard);
        let home = Home::new(
            io,
            self.remote.clone(),
            self.place,
            self.store,
            port,
            self.reads,
            self.crypto,
            self.options,
            self.extensions,
            self.clock.wall(),
            self.talkers[usize::from(shard.id().index())].clone(),
            self.braked[usize::from(shard.id().index())].clone(),
            self.queues[usize::from(shard.id().index())].clone(),
            Arc::clone(&self.guard),
            self.rooms,
            self.credits,
        );
        home.begin_lives(shard.rng().u32(..));
        let home = Rc::new(home);
        shard.set_class(Kinds::new(Rc::clone(&home)));
        let (place, here) = (home.place.clone(), shard.id());
        shard.set_locator::<UserMsg>(move |name| place.whereabouts(name, here));
        let place = home.place.clone();
        shard.set_parts::<UserMsg>(store::RANGES, move |name| place.range(name).index());
        let mover = shard.spawn(Mover::new(Rc::clone(&home), self.queues));
        shard.register(mover, &Name::from(MOVER));
        let set_aside = shard.spawn(SetAside::new(Rc::clone(&home)));
        shard.register(set_aside, &Name::from(SET_ASIDE));
        shard.set_mailbox_max::<KeeperMsg>(home.options.joined.comers_max);
        let keeper = shard.spawn(Keeper(Rc::clone(&home), opener.clone()));
        // Whoever waits for this gives up only when it has failed itself.
        let _ = self.started.send((
            shard.spawn(LimitsActor(Rc::clone(&home))),
            shard.spawn(ReturnsActor(Rc::clone(&home))),
            keeper,
        ));
        C2sService {
            config: self.config,
            web_config: self.web_config,
            home,
            remote: self.remote,
            opener,
            handle: self.handle,
            random: SystemRandom::new(),
            scratch: xml::Scratch::default(),
            effects: Vec::new(),
            heard_from: 0,
            heard: 0,
            message: Vec::new(),
            actions: Vec::new(),
            exempt: self.exempt,
            keeper,
            bans: (0, Arc::default()),
            failed_logins: Repeats::several(FAILED_LOGIN_LINES),
            strangers: Vec::new(),
        }
    }
}

fn stream_config(options: &Options, has_tls: bool, guard: &Guard) -> Result<C2sConfig, StartError> {
    let mut mechanisms = Vec::new();
    for name in &options.mechanisms {
        let unknown = || StartError::Options(format!("an unknown SASL mechanism: {name}"));
        mechanisms.push(Mechanism::parse(name).ok_or_else(unknown)?);
    }
    Ok(C2sConfig {
        domains: options.domains.clone(),
        mechanisms,
        has_tls,
        require_tls: options.require_tls,
        plain_without_tls: options.plain_without_tls,
        registration: options.registration_enabled,
        features: disco::caps_element(options),
        session_features: session_features(options),
        secret: guard.decoys.secret(),
        iterations: options.scram_iterations,
    })
}

fn session_features(options: &Options) -> Vec<u8> {
    let mut features = Vec::new();
    if options.modules.has(&session::MODULE) {
        features.extend_from_slice(session::FEATURE);
    }
    if options.modules.has(&csi::MODULE) {
        features.extend_from_slice(csi::FEATURE);
    }
    if options.delivery.stream_management {
        features.extend_from_slice(xmpp::sm::FEATURE);
    }
    features
}
