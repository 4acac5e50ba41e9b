//! The one place that speaks to the server and its store: options from the configuration, the start
//! of a node with or without listeners, and errors in the operator's terms. Owns that translation
//! and nothing else.

mod components;
mod stores;

use std::fmt::Display;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use cluster::engine::{self, Access};
use cluster::layout::{Layout, LayoutError};
use server::admin::Admin;
pub(crate) use server::admin::{EraseFrom, Erased, ImportOrder, Request, Response, Status};
pub(crate) use server::guard::{Entry as BanEntry, List as BanList};
use server::modules::NotSwitched;
pub(crate) use server::operator::NodesAct;
use server::options::Switches;
use store::{OpenError, Store};
pub(crate) use stores::{Belongs, GrownFrom, backup_stopped, is_of_node, open_any, open_store};

use watch::Observer;

use crate::certs::CertificateFiles;
use crate::config::{Config, Durability, Makers, Retention};
use crate::control::Operator;
use crate::exit::Failure;
use crate::member::{Orders, Watcher, order};
use crate::split::order as split;

/// Bytes of an incomplete stanza that are kept beyond the largest stanza: the start of the next.
const INCOMPLETE_BYTES_MORE: usize = 64 * 1_024;

/// Bytes that wait for a client at an edge beyond what may wait for it at a home: the window
/// between the two, and what pauses a client.
const EDGE_BACKLOG_MORE: usize = 256 * 1_024;

/// A refusal.
pub(crate) fn refusal(code: &str, message: &str) -> Response {
    Response::Error {
        code: code.to_owned(),
        message: message.to_owned(),
    }
}

/// Why an extension of this name cannot be switched off, if there is one.
pub(crate) fn always_on(name: &str) -> Option<String> {
    match Switches::without([name]) {
        Err(refusal @ NotSwitched::Always(..)) => Some(refusal.to_string()),
        Ok(_) | Err(NotSwitched::Unknown(_)) => None,
    }
}

/// Extensions that are off, each with the one that it needs and that is off too, if that is why.
pub(crate) fn modules_off(config: &Config) -> Vec<(&'static str, Option<&'static str>)> {
    modules(config).off().collect()
}

fn modules(config: &Config) -> Switches {
    // A test holds that the names are the server's.
    Switches::without(config.switched_off()).unwrap_or_default()
}

/// What a line of an export begins: an `account`, a `room` or a `node`.
pub(crate) fn begins(line: &str, what: &str) -> bool {
    let rest = line.strip_prefix("{\"type\":\"");
    let rest = rest.and_then(|rest| rest.strip_prefix(what));
    rest.is_some_and(|rest| rest.starts_with('"'))
}

/// The normal form of a domain, `None` if it is none.
pub(crate) fn prepare_domain(text: &str) -> Option<String> {
    xmpp::addr::prepare_domain(text)
        .ok()
        .map(|domain| domain.to_string())
}

/// The normal form of a bare address, `None` if it is none.
pub(crate) fn bare_address(text: &str) -> Option<String> {
    let normal = xmpp::addr::normalize(text).ok()?;
    (!normal.contains('/')).then(|| normal.into_owned())
}

/// A domain as it is written in certificates and in TLS handshakes: in ASCII, without the brackets
/// of an IPv6 address.
pub(crate) fn ascii_domain(domain: &str) -> String {
    let bare = domain.trim_start_matches('[').trim_end_matches(']');
    // What has no ASCII form matches no certificate, in the form it has as little as in any other.
    idna::domain_to_ascii(bare).unwrap_or_else(|_| bare.to_owned())
}

/// Where the store is inside the data folder.
pub(crate) fn store_folder(data: &Path) -> PathBuf {
    data.join("store")
}

/// The web as it was before there was a node.
pub(crate) struct Web {
    /// Listeners whose sockets are bound.
    pub(crate) listeners: Vec<net::Listener>,
    /// Who answers what is no stream.
    pub(crate) pages: server::options::Pages,
}

/// A node of this process.
pub(crate) struct Running {
    node: server::Node,
    listeners: Vec<net::Listener>,
}

impl Running {
    /// Starts a node for clients, in a cluster if it is given one.
    ///
    /// # Errors
    /// The certificates are of no use, or a port is taken.
    pub(crate) fn start(
        config: &Config,
        certificates: Vec<CertificateFiles>,
        store: Store,
        web: Web,
        cluster: Option<server::away::Cluster>,
    ) -> Result<Running, Failure> {
        let mut options = options(config);
        options.web.pages = web.pages;
        options.cluster = cluster;
        let mut listeners = listeners(config);
        listeners.extend(web.listeners);
        listeners.extend(components::listeners(config));
        let limits = network_limits(config);
        Running::start_as(config, certificates, store, (options, listeners, limits))
    }

    /// Starts the edge of a home on this machine, which has no entities.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub(crate) fn start_edge(
        config: &Config,
        certificates: Vec<CertificateFiles>,
        slot_key: [u8; 16],
        web: Web,
        away: Arc<dyn server::away::Away>,
    ) -> Result<Running, Failure> {
        let failed = |error: OpenError| Failure::Failed(error.to_string());
        let engine = Arc::new(store::MemoryEngine::new());
        let key = store::SlotKey::new(slot_key);
        let store = Store::with_engine(engine, store::Durability::Memory, key).map_err(failed)?;
        let mut options = options(config);
        options.web.pages = web.pages;
        options.bans_are_anothers = true;
        options.joined = server::options::Joined::on_one_machine();
        let journal = local_journal(&store, config)?;
        options.cluster = Some(server::away::Cluster { journal, away });
        let mut listeners = listeners(config);
        listeners.extend(web.listeners);
        let mut limits = network_limits(config);
        // What a home that lets go has not sent comes beside what waits here.
        limits.backlog_max += EDGE_BACKLOG_MORE;
        Running::start_as(config, certificates, store, (options, listeners, limits))
    }

    /// Starts the home behind an edge on this machine, which has no sockets.
    ///
    /// # Errors
    /// As [`Running::start`].
    pub(crate) fn start_home(
        config: &Config,
        certificates: Vec<CertificateFiles>,
        store: Store,
        cluster: server::away::Cluster,
    ) -> Result<Running, Failure> {
        let mut options = options(config);
        options.joined = server::options::Joined::on_one_machine();
        options.cluster = Some(cluster);
        let limits = network_limits(config);
        Running::start_as(config, certificates, store, (options, Vec::new(), limits))
    }

    fn start_as(
        config: &Config,
        certificates: Vec<CertificateFiles>,
        store: Store,
        (options, mut listeners, limits): (server::Options, Vec<net::Listener>, net::Limits),
    ) -> Result<Running, Failure> {
        let tls = tls(config, certificates).map_err(Failure::Failed)?;
        let node = server::Node::start(options, listeners.clone(), limits, Some(tls), store)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        // The node has its own names for the sockets.
        for listener in &mut listeners {
            listener.reserved.clear();
        }
        Ok(Running { node, listeners })
    }

    /// Starts a node without listeners on the data of a stopped server.
    ///
    /// # Errors
    /// The store cannot be opened.
    pub(crate) fn start_stopped(config: &Config) -> Result<Running, Failure> {
        if config.is_clustered() {
            return Err(Failure::Failed(
                "this is a node of a cluster: start the server, whose data is changed by all nodes \
                 together"
                    .to_owned(),
            ));
        }
        let store = open_store(config, None)?;
        let options = server::Options {
            shards: 1,
            ..options(config)
        };
        let node = server::Node::start(options, Vec::new(), network_limits(config), None, store)
            .map_err(|error| Failure::Failed(error.to_string()))?;
        Ok(Running {
            node,
            listeners: Vec::new(),
        })
    }

    /// The door to the node's cluster, if it belongs to one.
    pub(crate) fn door(&self) -> Option<server::Door> {
        self.node.door()
    }

    /// Carries a request out.
    pub(crate) fn call(&self, request: Request) -> Response {
        self.node.admin().call(request)
    }

    /// The administrator's door.
    pub(crate) fn admin(&self) -> Admin {
        self.node.admin()
    }

    /// The node as the control socket sees it.
    pub(crate) fn operator(&self, observer: Arc<Observer>, orders: Option<Orders>) -> NodeOperator {
        NodeOperator {
            admin: self.node.admin(),
            observer,
            orders,
        }
    }

    /// Who sees what the node, the process and the cluster are doing.
    pub(crate) fn observer(&self, config: &Config, cluster: Option<Arc<Watcher>>) -> Observer {
        let settings = &config.settings;
        let reserve_bytes = settings.store.reserve_bytes;
        let admin = self.node.admin();
        let cluster = cluster.map(|cluster| {
            let figures: watch::Cluster = Box::new(move || cluster.sample());
            figures
        });
        Observer::new(admin, &settings.node.data, reserve_bytes, cluster)
    }

    /// Every address bound for client streams, and whether TLS starts with the first byte there.
    pub(crate) fn addresses(&self) -> Vec<(SocketAddr, bool)> {
        self.addresses_of(net::Speaks::Xmpp)
    }

    /// Every address bound for the web, likewise.
    pub(crate) fn web_addresses(&self) -> Vec<(SocketAddr, bool)> {
        self.addresses_of(net::Speaks::Http)
    }

    /// Every place bound for components.
    pub(crate) fn component_places(&self) -> Vec<String> {
        let all = self.node.addresses().iter().zip(&self.listeners);
        let own = all.filter(|(_, one)| matches!(one.speaks, net::Speaks::Component(_)));
        own.map(|(address, listener)| match &listener.path {
            Some(path) => path.display().to_string(),
            None => address.to_string(),
        })
        .collect()
    }

    fn addresses_of(&self, what: net::Speaks) -> Vec<(SocketAddr, bool)> {
        let all = self.node.addresses().iter().zip(&self.listeners);
        all.filter(|(_, listener)| listener.speaks == what)
            .map(|(address, listener)| (*address, listener.direct_tls))
            .collect()
    }

    /// Clients that are connected.
    pub(crate) fn connections(&self) -> u64 {
        self.node.connections()
    }

    /// Whether every shard is still running.
    pub(crate) fn is_sound(&self) -> bool {
        self.node.is_ready()
    }

    /// Puts certificates in force for new connections; broken ones change nothing.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn set_certificates(
        &self,
        config: &Config,
        certificates: Vec<CertificateFiles>,
    ) -> Result<(), String> {
        self.node.set_tls(Some(tls(config, certificates)?));
        Ok(())
    }

    /// Accounts that are in memory.
    pub(crate) fn accounts_loaded(&self) -> u64 {
        self.node.accounts_loaded()
    }

    /// Puts the limits of a configuration in force for what happens from now on.
    ///
    /// # Errors
    /// Not every shard could be told.
    pub(crate) fn set_limits(&self, config: &Config) -> Result<(), String> {
        let told = self
            .node
            .set_limits(&node_limits(config), network_limits(config));
        told.map_err(|error| error.to_string())
    }

    /// Accepts nobody any more; those who are there go on.
    pub(crate) fn stop_accepting(&self) {
        if let Some(door) = self.node.door() {
            door.stop_accepting();
        }
    }

    /// Closes all streams and ends the node.
    pub(crate) fn drain(self, deadline: Duration) {
        self.node.drain(deadline);
    }
}

/// An administrator's door that threads can share.
pub(crate) struct NodeOperator {
    admin: Admin,
    observer: Arc<Observer>,
    /// In a cluster.
    orders: Option<Orders>,
}

impl Operator for NodeOperator {
    fn call(&self, request: Request) -> Response {
        self.admin.call(request)
    }

    fn watch(&self, request: watch::Request) -> watch::Response {
        self.observer.call(request)
    }

    fn order(&self, request: order::Request) -> order::Response {
        order::call(self.orders.as_ref(), &request)
    }

    fn split(&self, request: split::Request) -> split::Response {
        match request {
            split::Request::Figures => split::Response::Figures {
                page: watch::metrics::page(&self.observer.look()),
            },
            split::Request::Upgrade { .. } => split::refusal(),
        }
    }
}

/// Connections that the process takes with this configuration.
pub(crate) fn connections_max(config: &Config) -> usize {
    network_limits(config).connections_max
}

/// How the ranges of the configuration's cluster are divided.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn layout(config: &Config) -> Result<Layout, LayoutError> {
    let cluster = &config.settings.cluster;
    Layout::new(&cluster.deployment, cluster.streams)
}

/// How the engine of the configuration's cluster is reached.
pub(crate) fn engine(config: &Config) -> engine::Options {
    let cluster = &config.settings.cluster;
    let certificate = cluster.engine_certificate.clone();
    let access = Access {
        ca: cluster.engine_ca.clone(),
        certificate: certificate.zip(cluster.engine_key.clone()),
        credentials: cluster.engine_credentials.clone(),
    };
    engine::Options {
        access,
        near: cluster.engine_near.clone(),
        ..engine::Options::new(cluster.engine.clone())
    }
}

/// A key for the slot hash of a new deployment.
///
/// # Errors
/// The system has no randomness to give.
pub(crate) fn random_key() -> std::io::Result<[u8; 16]> {
    let mut key = [0; 16];
    let mut random = std::fs::File::open("/dev/urandom")?;
    std::io::Read::read_exact(&mut random, &mut key)?;
    Ok(key)
}

/// The journal of a store that no other node writes to.
///
/// # Errors
/// It cannot be started.
pub(crate) fn local_journal(
    store: &Store,
    config: &Config,
) -> Result<Arc<dyn store::Journal>, Failure> {
    let options = options(config).commits.journal;
    let journal = store::LocalJournal::start_with(store, options);
    let journal = journal.map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(Arc::new(journal))
}

/// Whether another process has the store of a data folder open. To open it says which.
pub(crate) fn is_in_use(config: &Config) -> bool {
    store::holder(&store_folder(&config.settings.node.data)).is_some()
}

/// Makes the store of the configuration's data folder from a backup.
///
/// # Errors
/// There is a store already, or the backup is damaged.
pub(crate) fn restore(file: &Path, config: &Config) -> Result<impl Display, Failure> {
    let path = store_folder(&config.settings.node.data);
    let moved = store::restore(file, &path, &store_options(config))
        .map_err(|error| open_failure(&error, config))?;
    Ok(format!("{moved:?}"))
}

/// Checks the whole store. Returns the report and whether it is good.
///
/// # Errors
/// It cannot be opened at all.
pub(crate) fn verify(config: &Config) -> Result<(String, bool), Failure> {
    let path = store_folder(&config.settings.node.data);
    let report = store::verify(&path, &store_options(config))
        .map_err(|error| open_failure(&error, config))?;
    let is_good = report.is_good();
    Ok((report.to_string(), is_good))
}

fn open_failure(error: &OpenError, config: &Config) -> Failure {
    let data = config.settings.node.data.display();
    match error {
        // Whoever has the lock does not answer on the control socket.
        OpenError::Locked { .. } => Failure::TryAgain(format!(
            "{error}: another server or command is starting or stopping there, or runs with \
             another --data"
        )),
        OpenError::Corrupt(_) => Failure::Data(format!(
            "{data}: {error}; restore a backup into an empty folder with roost restore"
        )),
        OpenError::Full => Failure::Failed(format!("{data}: {error}: make room and try again")),
        _ => Failure::Failed(format!("{data}: {error}")),
    }
}

fn store_options(config: &Config) -> store::Options {
    let settings = &config.settings.store;
    let durability = match settings.durability {
        // What a node lost with its machine the stream still has.
        _ if config.is_clustered() => store::Durability::Memory,
        Durability::Fsync => store::Durability::Fsync,
        Durability::Memory => store::Durability::Memory,
    };
    let engine = store::FjallOptions {
        cache_bytes: settings.cache_bytes,
        reserve_bytes: settings.reserve_bytes,
        ..store::FjallOptions::default()
    };
    store::Options {
        durability,
        engine,
        read_delay: config.settings.debug.read_delay,
        ..store::Options::default()
    }
}

/// Threads that carry connections and users.
pub(crate) fn shards(config: &Config) -> u16 {
    match config.settings.server.shards {
        0 => available_parallelism().map_or(1, |n| u16::try_from(n.get()).unwrap_or(u16::MAX)),
        shards => shards,
    }
}

fn options(config: &Config) -> server::Options {
    let settings = &config.settings;
    server::Options {
        domains: config.domains(),
        shards: shards(config),
        moves: server::options::Moves::default(),
        balance: server::options::Balance {
            is_on: settings.server.balance,
            ..server::options::Balance::default()
        },
        hand_over: settings.server.hand_over,
        mechanisms: settings.auth.mechanisms.clone(),
        require_tls: settings.c2s.require_tls,
        plain_without_tls: settings.auth.plain_without_tls,
        scram_iterations: settings.auth.scram_iterations,
        registration_enabled: settings.registration.enabled,
        registrations_per_hour: settings.registration.per_hour,
        delivery: server::options::Delivery {
            stream_management: settings.delivery.stream_management,
            resume_timeout: settings.delivery.resume_timeout,
            ack_timeout: settings.delivery.ack_timeout,
            unacked_max: settings.delivery.unacked_max,
            outbox: outbox_limits(&settings.delivery),
            limits: server::options::DeliveryLimits::default(),
        },
        inbox: server::options::InboxBounds::default(),
        archive: server::options::Archive {
            enabled: settings.archive.enabled,
            until_delivered: settings.archive.retention == Retention::UntilDelivered,
            max_age: settings.archive.max_age,
            max_messages: settings.archive.max_messages,
            max_bytes: settings.archive.max_bytes,
            searched_max: server::options::ARCHIVE_SEARCHED_MAX,
        },
        rooms: rooms(config),
        directory: server::options::Directory {
            hosts: config.directory_hosts(),
            results_max: settings.directory.results_max as usize,
            searches_per_minute: settings.directory.searches_per_minute,
            ..server::options::Directory::default()
        },
        pubsub: pubsub(config),
        pep: pep(config),
        components: components::options(config),
        web: web(config),
        modules: modules(config),
        limits: node_limits(config),
        bans: Some(settings.node.data.join("bans")),
        bans_are_anothers: false,
        commits: server::options::Commits::default(),
        joined: server::options::Joined::default(),
        actors: server::options::ActorBounds::default(),
        mailboxes: server::options::Mailboxes::default(),
        waking: server::options::Waking::default(),
        wire: server::options::Wire {
            through_bytes: settings.debug.messages_as_bytes,
            ..server::options::Wire::default()
        },
        cluster: None,
        traced_max: server::options::TRACED_MAX,
        chaos: settings.chaos.enabled,
        debug_commit_delay: settings.debug.commit_delay,
        debug_move_sockets: settings.debug.move_sockets,
        debug_panic_hook: settings.debug.panic_hook.clone(),
    }
}

fn rooms(config: &Config) -> server::options::Rooms {
    let rooms = &config.settings.rooms;
    let mut machine = server::room::Machine::default();
    machine.limits.occupants_max = rooms.occupants_max;
    machine.limits.large_from = rooms.large_from;
    machine.has_archive = config.settings.archive.enabled;
    machine.limits.history_max = rooms.history_max;
    machine.limits.message_bytes_max = rooms.message_bytes_max as usize;
    machine.defaults.history_length = rooms.history.min(rooms.history_max);
    server::options::Rooms {
        hosts: config.room_hosts(),
        search_hosts: config.search_hosts(),
        create: create(rooms.create, &rooms.creators),
        per_account_max: rooms.per_account_max,
        copies_per_turn: rooms.copies_per_turn as usize,
        machine: Arc::new(machine),
        ..server::options::Rooms::default()
    }
}

fn pubsub(config: &Config) -> server::options::Pubsub {
    let pubsub = &config.settings.pubsub;
    let default = server::options::Pubsub::default();
    let mut machine = server::NodesMachine::clone(&default.machine);
    let limits = &mut machine.limits;
    limits.nodes_max = pubsub.nodes_max as usize;
    limits.nodes_per_creator_max = pubsub.nodes_per_account_max as usize;
    limits.items_per_node_max = pubsub.items_per_node_max;
    limits.item_bytes_max = pubsub.item_bytes_max;
    limits.bytes_max = pubsub.bytes_max;
    limits.bytes_per_creator_max = pubsub.bytes_per_account_max;
    limits.subscriptions_per_node_max = pubsub.subscriptions_per_node_max as usize;
    let items_max = &mut machine.defaults.items_max;
    *items_max = (*items_max).min(pubsub.items_per_node_max);
    server::options::Pubsub {
        hosts: config.pubsub_hosts(),
        create: create(pubsub.create, &pubsub.creators),
        copies_per_turn: pubsub.copies_per_turn as usize,
        machine: Arc::new(machine),
        ..default
    }
}

fn pep(config: &Config) -> server::options::Pep {
    let pep = &config.settings.pep;
    let mut machine = server::NodesMachine::account();
    let limits = &mut machine.limits;
    limits.nodes_max = pep.nodes_max as usize;
    limits.nodes_per_creator_max = limits.nodes_max;
    limits.items_per_node_max = pep.items_per_node_max;
    limits.item_bytes_max = pep.item_bytes_max;
    limits.bytes_max = pep.bytes_max;
    machine.share_defaults();
    server::options::Pep {
        enabled: pep.enabled,
        machine: Arc::new(machine),
        ..server::options::Pep::default()
    }
}

fn create(who: Makers, creators: &[String]) -> server::options::Create {
    let normalized = |one: &String| xmpp::addr::normalize(one).ok().map(|one| one.into_owned());
    match who {
        Makers::Everybody => server::options::Create::Everybody,
        Makers::Listed => {
            server::options::Create::Listed(creators.iter().filter_map(normalized).collect())
        }
    }
}

fn outbox_limits(settings: &crate::config::table::Delivery) -> delivery::OutboxLimits {
    delivery::OutboxLimits {
        entries_max: settings.outbox_max,
        entries_per_destination_max: settings.outbox_per_recipient_max.min(settings.outbox_max),
        give_up_after: settings.return_after,
        ..delivery::OutboxLimits::default()
    }
}

fn web(config: &Config) -> server::options::Web {
    let http = &config.settings.http;
    server::options::Web {
        websocket: http.websocket,
        bosh_enabled: http.bosh,
        origins: http.origins.clone(),
        metrics: ranges(&http.metrics),
        proxies: ranges(&http.proxies),
        head_timeout: http.request_timeout,
        idle_timeout: http.idle_timeout,
        bosh: xmpp::bosh::Limits {
            wait_max: http.bosh_wait_max,
            inactivity: http.bosh_inactivity,
            inactivity_polling: http.bosh_inactivity * 2,
            polling: http.bosh_polling,
            pause_max: http.bosh_pause_max,
            ..xmpp::bosh::Limits::default()
        },
        ..server::options::Web::default()
    }
}

fn node_limits(config: &Config) -> server::options::Limits {
    let limits = &config.settings.limits;
    server::options::Limits {
        stanza_bytes_max: limits.stanza_bytes_max,
        sessions_per_user: limits.sessions_per_user,
        roster_items_max: limits.roster_items_max,
        offline_messages_max: limits.offline_messages_max,
        offline_bytes_max: limits.offline_bytes_max,
        private_bytes_max: limits.private_bytes_max,
        private_total_bytes_max: limits.private_total_bytes_max,
        domain_bytes_max: limits.domain_bytes_max,
        vcard_bytes_max: limits.vcard_bytes_max,
        questions_per_address_max: limits.questions_per_address_max,
        answer_bytes_per_address_max: limits.answer_bytes_per_address_max,
        login_timeout: limits.login_timeout,
        idle_ping: limits.idle_ping,
        ping_timeout: limits.ping_timeout,
    }
}

fn network_limits(config: &Config) -> net::Limits {
    let limits = &config.settings.limits;
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let stanza = size(u64::from(limits.stanza_bytes_max));
    let defaults = net::Limits::default();
    let rate = u32::try_from(limits.input_bytes_per_second).unwrap_or(u32::MAX);
    net::Limits {
        connections_max: match limits.connections_max {
            0 => defaults.connections_max,
            most => size(most).min(defaults.connections_max),
        },
        connections_per_address_max: limits.connections_per_address_max,
        accepts_per_second: limits.accepts_per_second,
        accept_burst: limits.accept_burst,
        exempt: ranges(&limits.exempt_addresses),
        window_max: limits.window_max,
        backlog_max: size(limits.backlog_bytes_max),
        backlog_per_address_max: limits.backlog_bytes_per_address_max,
        incomplete_max: stanza + INCOMPLETE_BYTES_MORE,
        fed_max: 2 * (stanza + INCOMPLETE_BYTES_MORE),
        kept_per_address_max: limits.input_bytes_per_address_max,
        rate: (rate > 0).then(|| net::Rate {
            per_second: rate,
            burst: rate.max(limits.stanza_bytes_max),
        }),
        ..defaults
    }
}

fn ranges(networks: &[String]) -> Vec<net::AddressRange> {
    // They were checked when the configuration was read.
    networks
        .iter()
        .filter_map(|network| network.parse().ok())
        .collect()
}

fn listeners(config: &Config) -> Vec<net::Listener> {
    let c2s = &config.settings.c2s;
    let proxies = ranges(&c2s.proxies);
    let starttls = c2s
        .listen
        .iter()
        .map(|address| net::Listener::new(*address));
    let direct = c2s
        .listen_tls
        .iter()
        .map(|address| net::Listener::direct_tls(*address));
    let has_v6 = has_ipv6();
    starttls
        .chain(direct)
        .filter(|listener| has_v6 || !is_every_v6(listener.address))
        .map(|listener| net::Listener {
            proxies: proxies.clone(),
            ..listener
        })
        .collect()
}

/// The listeners of the web, each with the key that names it.
pub(crate) fn web_listeners(config: &Config) -> Vec<(&'static str, net::Listener)> {
    let http = &config.settings.http;
    let plain = http
        .listen
        .iter()
        .map(|address| ("http.listen", net::Listener::new(*address)));
    let tls = http.listen_tls.iter();
    let tls = tls.map(|address| ("http.listen_tls", net::Listener::direct_tls(*address)));
    plain
        .chain(tls)
        .map(|(name, listener)| {
            let listener = net::Listener {
                speaks: net::Speaks::Http,
                ..listener
            };
            (name, listener)
        })
        .collect()
}

/// The default addresses name all of IPv6, which not every system has.
fn is_every_v6(address: SocketAddr) -> bool {
    address.is_ipv6() && address.ip().is_unspecified()
}

fn has_ipv6() -> bool {
    TcpListener::bind("[::1]:0").is_ok()
}

fn tls(config: &Config, files: Vec<CertificateFiles>) -> Result<net::TlsConfig, String> {
    let mut certificates = Vec::new();
    for CertificateFiles {
        names,
        chain,
        key,
        origin,
    } in files
    {
        let certificate = net::Certificate::from_pem(names, &chain, &key)
            .map_err(|error| format!("{}: {error}", origin.display()))?;
        certificates.push(certificate);
    }
    let mut settings = net::TlsSettings::new(certificates);
    settings.tls12 = config.settings.tls.tls12;
    settings.tickets = config.settings.tls.tickets;
    settings.build().map_err(|error| error.to_string())
}
