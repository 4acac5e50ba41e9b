//! A server as a node of a cluster: what joins the crates `cluster` (journal, map, links) and
//! `server` (entities). Owns the order in which a node joins, serves and leaves; decides nothing
//! that either of them decides.
//!
//! | step | refused if |
//! |---|---|
//! | [`join`]: the engine is checked, and what all nodes share is read or made | anything is wrong with it, with what mends it |
//! | the store is opened with the key that all nodes share | it is of another deployment |
//! | [`Joined::start`]: streams are followed, links listen | the engine does not answer, the address is taken |
//! | [`Member::start`]: ranges are served as their streams come to this node | |

mod asked;
mod credentials;
mod drain;
mod homes;
mod lists;
pub(crate) mod order;
mod readiness;
mod returned;
mod slowness;
mod snapshots;
mod watcher;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use cluster::check::{self, Gravity, Problem};
use cluster::commits::StreamJournal;
use cluster::deployment::{self, Deployment};
use cluster::driver::{self, Driver, Event, MapOptions};
use cluster::engine;
use cluster::journal::message::Author;
use cluster::layout::{Layout, StreamId};
use cluster::link::{self, Credentials, Links, PeerId};
use cluster::map::keeper;
use cluster::map::lease::NODES_MAX;
use cluster::observe;
use server::Door;
use server::admin::Admin;
use server::away::{Away, Cluster, NodeId, Taken};
use stdx::Level;
use stdx::time::{Clock as _, Moment, SystemClock};
use store::{RangeId, Store};

use crate::config::Config;
use crate::exit::Failure;
use crate::node;

use asked::Asked;
pub(crate) use asked::{SnapshotDone, SnapshotStatus};
pub(crate) use drain::DrainStatus;
use drain::Draining;
use homes::Homes;
pub(crate) use returned::Returned;
use slowness::Slowness;
use snapshots::Snapshots;
use watcher::Served;
pub(crate) use watcher::Watcher;

/// How often a node looks at what its streams and links have done.
const LOOK: Duration = Duration::from_millis(20);

/// Times that a start waits for an engine that elects leaders, and the pause between them.
const ATTEMPTS: (u32, Duration) = (60, Duration::from_millis(500));

/// Asks the engine of the configuration's cluster, if there is one, whether a node may serve.
///
/// # Errors
/// Everything that is wrong with it, each with what mends it.
pub(crate) fn join(config: &Config) -> Result<Option<Joined>, Failure> {
    if !config.is_clustered() {
        return Ok(None);
    }
    let settings = &config.settings.cluster;
    let failed = |why: String| Failure::Failed(why);
    let credentials = credentials::load(config).map_err(failed)?;
    let layout = node::layout(config).map_err(|error| failed(error.to_string()))?;
    let engine = node::engine(config);
    check(config, &engine, &layout)?;
    let made = node::random_key().map_err(|error| failed(error.to_string()))?;
    let deployment = deployment::join(&engine, &layout, made);
    let deployment = deployment.map_err(|error| failed(error.to_string()))?;
    let level = Level::new(deployment.format);
    if level > Level::known() {
        return Err(failed(outdated(level)));
    }
    if deployment.streams != settings.streams {
        return Err(failed(format!(
            "the deployment was made with {} streams: set `cluster.streams` to that",
            deployment.streams
        )));
    }
    let unsaved = match &deployment.grown {
        None => Vec::new(),
        Some(grown) if grown.is_done => {
            deployment::unsaved(&engine, &layout).map_err(|error| failed(error.to_string()))?
        }
        Some(grown) => {
            return Err(failed(format!(
                "the data of a single server is being taken into the cluster: on the machine of \
                 node {}, run roost cluster grow again, or roost cluster grow --undo",
                grown.by
            )));
        }
    };
    Ok(Some(Joined {
        config: config.clone(),
        credentials,
        engine,
        layout,
        deployment,
        unsaved,
    }))
}

/// Why this program cannot be a node any more.
fn outdated(level: Level) -> String {
    let known = Level::known();
    format!("the deployment has format level {level}, this program knows up to {known}: upgrade it")
}

/// Asks the engine of the configuration's cluster whether it keeps what a cluster needs.
///
/// # Errors
/// Everything that is wrong with it, each with what mends it.
pub(crate) fn check(
    config: &Config,
    engine: &engine::Options,
    layout: &Layout,
) -> Result<(), Failure> {
    let observe = observe::Options {
        engine: engine.clone(),
        monitor: config.settings.cluster.monitor.clone(),
        layout: layout.clone(),
        create: false,
        check: check::Options {
            near: engine.near.clone(),
            ..check::Options::default()
        },
    };
    check_engine(&observe, config)
}

/// An engine in the middle of an election is asked again for a while.
fn check_engine(observe: &observe::Options, config: &Config) -> Result<(), Failure> {
    let mut problems = Vec::new();
    for attempt in 0..ATTEMPTS.0 {
        if attempt > 0 {
            thread::sleep(ATTEMPTS.1);
        }
        let found = observe::run(observe);
        problems = found.map_err(|error| Failure::Failed(error.to_string()))?;
        let is_passing = |problem: &Problem| {
            let passing = ["has no leader", "servers with JetStream"];
            problem.gravity == Gravity::Absence
                || passing.iter().any(|what| problem.what.contains(what))
        };
        let may_start = check::may_start(&problems, observe.monitor.len());
        if may_start || !problems.iter().any(is_passing) {
            break;
        }
    }
    if check::may_start(&problems, observe.monitor.len()) {
        for problem in &problems {
            tracing::warn!(problem = problem.what, "see to a server of the engine");
        }
        return Ok(());
    }
    let listed: Vec<String> = problems.iter().map(ToString::to_string).collect();
    let file = config
        .file
        .as_ref()
        .map(|file| format!(" --config {}", file.display()));
    Err(Failure::Failed(format!(
        "the engine does not keep what a cluster needs:\n{}\n\nroost cluster check{1} says when it \
         does; roost cluster check --create{1} makes what is missing",
        listed.join("\n"),
        file.unwrap_or_default(),
    )))
}

/// A node that may serve.
pub(crate) struct Joined {
    config: Config,
    credentials: Option<Credentials>,
    engine: engine::Options,
    layout: Layout,
    deployment: Deployment,
    /// Streams that a single server's data began, and of which there is no snapshot.
    unsaved: Vec<StreamId>,
}

impl Joined {
    /// What the stores of all nodes have in common.
    pub(crate) fn belongs(&self) -> node::Belongs {
        let grown = self.deployment.grown.as_ref();
        node::Belongs {
            slot_key: self.deployment.slot_key,
            level: Level::new(self.deployment.format),
            grown: grown.map(|grown| node::GrownFrom {
                id: grown.id,
                by: grown.by.clone(),
                numbering: grown.numbering,
                unsaved: self.unsaved.iter().map(|stream| stream.0).collect(),
            }),
        }
    }

    /// Follows the streams into the store, and listens for other nodes.
    ///
    /// # Errors
    /// The engine does not answer, or the address for links is taken.
    pub(crate) fn start(self, store: &Store) -> Result<Parts, Failure> {
        let settings = &self.config.settings.cluster;
        let failed =
            |what: &str, why: &dyn std::fmt::Display| Failure::Failed(format!("{what}: {why}"));
        let node = settings.name.clone().unwrap_or_default();
        let wall = SystemClock::new().wall().as_millis();
        let wall = u64::try_from(wall).unwrap_or_default();
        // Before links and streams: others hear this life by its number alone.
        let life = deployment::life(&self.engine, &self.layout, (&node, wall));
        let incarnation = life.map_err(|error| failed("cluster", &error))?;
        let author = Author { node, incarnation };
        store.agree(Level::new(self.deployment.format));
        let folder = self.config.settings.node.data.join("cluster");
        std::fs::create_dir_all(&folder)
            .map_err(|error| failed(&folder.display().to_string(), &error))?;
        let mut options = driver::Options::new(self.engine, self.layout, folder);
        options.monitor.clone_from(&settings.monitor);
        options.map = Some(MapOptions {
            times: keeper::Options::default(),
            zone: settings.zone.clone(),
            weight: settings.weight,
            link: Some(match &settings.address {
                Some(address) => address.clone(),
                None => settings.listen.to_string(),
            }),
            clients: settings.clients.clone(),
        });
        let door: Arc<std::sync::OnceLock<Door>> = Arc::default();
        let deliver = deliver(Arc::clone(&door));
        let mut listen = link::Options::new(settings.listen, settings.deployment.clone());
        listen.credentials = self.credentials;
        let links = Links::start(listen, author.clone(), deliver)
            .map_err(|error| failed(&format!("cluster.listen {}", settings.listen), &error))?;
        let driver = Driver::start(options, author.clone(), store)
            .map_err(|error| failed("cluster", &error))?;
        let driver = Arc::new(driver);
        let streams = driver.layout().streams();
        Ok(Parts {
            served: streams.map(|_| AtomicU64::new(0)).collect(),
            journal: Arc::new(StreamJournal::new(Arc::clone(&driver), store.clone())),
            driver,
            links: Arc::new(links),
            own: author.node,
            door,
            unsaved: self.unsaved,
        })
    }
}

/// Packets that come before the node serves wait on their links.
pub(crate) fn deliver(door: Arc<std::sync::OnceLock<Door>>) -> link::Deliver {
    Arc::new(move |from: PeerId, packet: &[u8]| match door.get() {
        None => link::Taken::Later,
        Some(door) => match door.receive(NodeId(from.0), packet) {
            Taken::Yes => link::Taken::Yes,
            Taken::Later => link::Taken::Later,
            Taken::Moved(answer) => link::Taken::Moved(answer),
            Taken::Bad(why) => link::Taken::Bad(why),
        },
    })
}

/// What runs before the server does.
pub(crate) struct Parts {
    journal: Arc<StreamJournal>,
    driver: Arc<Driver>,
    links: Arc<Links>,
    own: String,
    door: Arc<std::sync::OnceLock<Door>>,
    served: Served,
    unsaved: Vec<StreamId>,
}

impl Parts {
    /// What the server is given.
    pub(crate) fn cluster(&self) -> Cluster {
        Cluster {
            journal: Arc::clone(&self.journal) as _,
            away: Arc::new(Others {
                driver: Arc::clone(&self.driver),
                links: Arc::clone(&self.links),
                own: self.own.clone(),
            }),
        }
    }
}

/// The way to other nodes.
struct Others {
    driver: Arc<Driver>,
    links: Arc<Links>,
    own: String,
}

impl Away for Others {
    fn send(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.links.send(PeerId(to.0), packet)
    }

    fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.links.keep(packet)
    }

    fn offer(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        self.links.offer(PeerId(to.0), packet)
    }

    fn answer(&self, to: NodeId, packet: Vec<u8>) {
        self.links.answer(PeerId(to.0), packet);
    }

    fn level(&self) -> Level {
        self.driver.level()
    }

    fn may_act(&self) -> bool {
        self.driver.may_act()
    }

    fn others(&self) -> Vec<(NodeId, String)> {
        let map = self.driver.map();
        let others = map
            .nodes
            .iter()
            .filter(|(name, node)| **name != self.own && node.is_alive && node.link.is_some());
        others
            .map(|(name, _)| (NodeId(self.links.peer(name).0), name.clone()))
            .collect()
    }

    fn name(&self) -> Option<String> {
        Some(self.own.clone())
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.links.takes(PeerId(node.0))
    }

    fn clients(&self, range: RangeId) -> Option<String> {
        let map = self.driver.map();
        let stream = self.driver.layout().stream_of(range);
        let (node, _) = map.homes.get(usize::from(stream.0))?.as_ref()?;
        if *node == self.own {
            // It does not serve, or not yet: whoever came here may come again.
            return None;
        }
        let node = map.nodes.get(node).filter(|node| node.is_alive)?;
        node.clients.clone()
    }
}

/// How long a process that ends waits for the map to say that its lease has ended.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// A node of a cluster that serves.
pub(crate) struct Member {
    end: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    lists: Option<JoinHandle<()>>,
    driver: Arc<Driver>,
    links: Arc<Links>,
    watcher: Arc<Watcher>,
    orders: Orders,
}

/// What operators want of a node of a cluster as such, and how far that is.
#[derive(Clone)]
pub(crate) struct Orders {
    draining: Arc<Draining>,
    snapshots: Arc<Asked>,
}

impl Member {
    /// Serves the ranges whose streams are at home here, as they come and go.
    ///
    /// # Errors
    /// The system has no thread to give.
    pub(crate) fn start(parts: Parts, door: Door) -> Result<Member, Failure> {
        // There is one start.
        let _ = parts.door.set(door.clone());
        let end = Arc::<AtomicBool>::default();
        let is_over = Arc::clone(&end);
        let (links, served) = (Arc::clone(&parts.links), Arc::clone(&parts.served));
        let driver = Arc::clone(&parts.driver);
        let own = || parts.own.clone();
        let draining = Draining::new(&driver, door.clone(), own(), Arc::clone(&served));
        let draining = Arc::new(draining);
        let watcher = Watcher::new(&driver, &links, own(), served, Arc::clone(&draining));
        let looks = Arc::clone(&draining);
        let streams = driver.layout().streams().collect();
        let asked = Arc::new(Asked::new(own(), streams));
        let orders = Orders {
            draining,
            snapshots: Arc::clone(&asked),
        };
        let run = move || {
            let mut homes = Homes::new(&parts.driver, &parts.links, &door, parts.own.clone());
            let mut snapshots = Snapshots::new(&parts.driver, &asked, parts.unsaved.clone());
            let mut returned = Returned::new();
            let mut slowness = Slowness::default();
            let clock = SystemClock::new();
            while !is_over.load(Ordering::Acquire) {
                if let Some(event) = parts.driver.event(LOOK) {
                    note(&event);
                }
                homes.look();
                homes.show(&parts.served);
                looks.look();
                snapshots.look(clock.now());
                slowness.look(clock.now(), &parts.driver, &parts.links, &parts.own);
                parts.driver.say_refusing(parts.links.refusing());
                note_links(&parts.links);
                take_back(&parts.links, &door, &mut returned, clock.now());
            }
        };
        let thread = thread::Builder::new().name("member".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Failure::Failed(format!("cluster: {error}")))?;
        Ok(Member {
            end,
            thread: Some(thread),
            lists: None,
            driver,
            links,
            watcher: Arc::new(watcher),
            orders,
        })
    }

    /// Who does what an operator wants of the node as such.
    pub(crate) fn orders(&self) -> Orders {
        self.orders.clone()
    }

    /// Takes over the ban and allow lists of other nodes, if this one has none.
    pub(crate) fn ask_for_lists(&mut self, admin: Admin, data: &Path) {
        self.lists = lists::ask(admin, data, &self.end);
    }

    /// The process ends: gives the homes of this node to others, within this time at most.
    pub(crate) fn hand_over(&self, within: Duration) {
        self.orders.draining.hand_over(within);
    }

    /// Nothing of this process acts any more: its lease ends, and with it what is still at home
    /// here.
    pub(crate) fn leave(&self) {
        if !self.driver.leave(LEAVE_WITHIN) {
            tracing::warn!("the engine does not answer: others wait until the lease lapses");
        }
    }

    /// Why this process has to end: the deployment was raised to what it does not know.
    pub(crate) fn outdated(&self) -> Option<String> {
        self.driver.outdated_by().map(outdated)
    }

    /// Who sees how the cluster is.
    pub(crate) fn watcher(&self) -> Arc<Watcher> {
        Arc::clone(&self.watcher)
    }

    /// What a configuration says that may be put in force by [`Self::set_credentials`].
    ///
    /// # Errors
    /// It is of no use, or takes a restart.
    pub(crate) fn credentials(&self, config: &Config) -> Result<Option<Credentials>, String> {
        let new = credentials::load(config)?;
        match new.is_some() == self.links.expires().is_some() {
            true => Ok(new),
            false => {
                Err("`cluster.certificate`: whether links are encrypted takes a restart".to_owned())
            }
        }
    }

    /// Shows other certificates to other nodes from now on.
    ///
    /// # Errors
    /// See [`Self::credentials`].
    pub(crate) fn set_credentials(&self, new: Option<Credentials>) -> Result<(), String> {
        if self.links.set_credentials(new)? {
            tracing::info!("links are made anew with other certificates");
        }
        Ok(())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Release);
        for thread in [self.thread.take(), self.lists.take()]
            .into_iter()
            .flatten()
        {
            // A panic of the thread was printed where it happened.
            let _ = thread.join();
        }
    }
}

/// Packets that no node took wait until somebody is at home for them, but not for ever.
pub(crate) fn take_back(links: &Links, door: &Door, returned: &mut Returned, now: Moment) {
    links.tell_gone(|gone| door.forget_node(NodeId(gone.0)));
    for complaint in links.take_complaints() {
        tracing::error!(
            complaint,
            "a packet of another node cannot be read: it goes back"
        );
    }
    returned.add(now, links.take_returned());
    returned.offer(now, |packet, is_last| {
        door.take_back(packet, (!is_last).then_some(now))
    });
}

fn note_links(links: &Links) {
    for note in links.take_notes() {
        match note.is_good {
            true => tracing::info!("cluster: {}", note.text),
            false => tracing::warn!("cluster: {}", note.text),
        }
    }
}

fn note(event: &Event) {
    match event {
        Event::Serving(stream, epoch) => {
            tracing::info!(
                stream = stream.0,
                epoch,
                "this node is the home of a stream"
            );
        }
        Event::Ended(stream, why) => {
            tracing::info!(
                stream = stream.0,
                why,
                "a stream is not at home here any more"
            );
        }
        Event::Quorum(stream, true) => {
            tracing::info!(stream = stream.0, "the stream acknowledges again");
        }
        Event::Quorum(stream, false) => {
            tracing::error!(
                stream = stream.0,
                "the stream does not acknowledge: no quorum"
            );
        }
        Event::InDoubt(stream, appends) => {
            tracing::warn!(stream = stream.0, appends, "appends are in doubt");
        }
        Event::Diverged(stream, divergence) => tracing::error!(
            stream = stream.0,
            ?divergence,
            "this node's copy and another's differ"
        ),
        Event::Stuck(stream, why) => {
            tracing::error!(stream = stream.0, why, "the copy of a stream cannot go on");
        }
        Event::Loaded(stream, seq) => {
            tracing::info!(stream = stream.0, seq, "loaded a snapshot");
        }
        Event::TooManyNodes(node) => tracing::error!(
            node,
            known = NODES_MAX,
            "a node is taken for dead, as the map has entries of too many: delete those of nodes \
             that have gone for good (docs/runbook.md)"
        ),
    }
}
