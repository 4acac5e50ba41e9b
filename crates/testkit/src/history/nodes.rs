//! The cluster under test: three nodes over an engine of three servers, each a process, with ways
//! between them that can be cut. Owns what befalls them and that they get well again; when is the
//! plan's (`trouble.rs`), and what clients see is checked elsewhere.

mod copies;
mod homes;
mod trouble;
mod ways;

pub use trouble::Troubles;
pub(super) use trouble::{Trouble, What, draw};

use super::Options;
use super::device::{DOMAIN, PASSWORD};
use super::disk::Library;
use super::link::Link;
use super::plan::{Plan, USERS_MAX};
use super::server::settings;
use crate::nats::{Nats, free_ports};
use crate::roost::{Roost, Settings};
use homes::Homes;
use rustix::process::Signal;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, thread};
use stdx::Timestamp;
use ways::{Flow, Way};

/// Nodes of a cluster.
pub(super) const NODES: usize = 3;
/// Servers of its engine.
pub(super) const SERVERS: usize = 3;
/// Streams of its deployment.
const STREAMS: usize = 4;
const NAMES: [&str; NODES] = ["a", "b", "c"];

/// How long a cluster may take to begin, and to get well.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(200);
/// As a supervisor does: a node that has ended is started after this.
const START_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How long copies may take to become equal once clients are quiet.
const EQUAL_WITHIN: Duration = Duration::from_secs(30);

struct Node {
    roost: Roost,
    clients: SocketAddr,
    /// To each server, and to each other node.
    to_servers: Vec<Way>,
    to_nodes: Vec<Option<Way>>,
    /// It was killed, and not to be started yet.
    is_down: bool,
    start_at: Instant,
}

/// See the module.
pub(super) struct Cluster {
    nats: Nats,
    nodes: Vec<Node>,
    homes: Homes,
    rng: fastrand::Rng,
    /// What happened that nobody did.
    notes: Vec<String>,
}

impl Cluster {
    /// A cluster of its own for a plan, with all accounts, at peace.
    pub(super) fn start(library: &Library, bug: Option<&str>, plan: &Plan) -> Result<Self, String> {
        let nats = Nats::start()?;
        let ports = free_ports(2 * NODES)?;
        let mut cluster = Self {
            nodes: Vec::new(),
            homes: Homes::default(),
            rng: fastrand::Rng::with_seed(0),
            notes: Vec::new(),
            nats,
        };
        for node in 0..NODES {
            let prepared = cluster.prepare(node, &ports, (library, bug), plan)?;
            cluster.nodes.push(prepared);
        }
        patiently(|| cluster.run(0, &["cluster", "check", "--create"]))?;
        patiently(|| cluster.nodes[0].roost.start_again())?;
        for user in 0..USERS_MAX {
            let jid = format!("u{user}@{DOMAIN}");
            let add = ["user", "add", &jid, "--password", PASSWORD];
            // It has no homes yet.
            patiently(|| match cluster.run(0, &add) {
                Err(why) if why.contains("already") => Ok(String::new()),
                added => added,
            })?;
        }
        for node in &mut cluster.nodes[1..] {
            patiently(|| node.roost.start_again())?;
        }
        patiently(|| {
            let status = homes::parse(&cluster.run(0, &["cluster", "status"])?);
            status.illness(NODES, STREAMS).map_or(Ok(()), Err)
        })?;
        Ok(cluster)
    }

    fn prepare(
        &self,
        number: usize,
        ports: &[u16],
        (library, bug): (&Library, Option<&str>),
        plan: &Plan,
    ) -> Result<Node, String> {
        let local = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let text = |value: &str| format!("\"{value}\"");
        let listed = |all: Vec<String>| {
            let quoted: Vec<String> = all.iter().map(|one| text(one)).collect();
            format!("[{}]", quoted.join(", "))
        };
        let (clients, link) = (local(ports[2 * number]), local(ports[2 * number + 1]));
        let set = |key: &str, value: String| (format!("cluster.{key}"), value);
        let mut all: Settings = settings(Some(plan));
        let mut engine = self.nats.addresses();
        engine.rotate_left(number);
        if number > 0 {
            // Leaders follow homes but to the first node, which takes what elections bring.
            all.extend([set("engine_near", text(&Nats::server_name(number)))]);
        }
        all.extend([
            set("engine", listed(engine)),
            set("monitor", listed(self.nats.monitors())),
            set("name", text(NAMES[number])),
            set("zone", text(NAMES[number])),
            set("streams", STREAMS.to_string()),
            set("clients", text(&clients.to_string())),
            set("listen", text(&link.to_string())),
            ("c2s.listen".to_owned(), listed(vec![clients.to_string()])),
        ]);
        let mut roost = Roost::prepare(&all, &[])?;
        let servers = self.nats.ports().into_iter().map(Way::to);
        let to_servers = servers.collect::<Result<Vec<Way>, String>>()?;
        let others = (0..NODES).map(|other| {
            let way = (other != number).then(|| Way::to(ports[2 * other + 1]));
            way.transpose()
        });
        let to_nodes = others.collect::<Result<Vec<Option<Way>>, String>>()?;
        let of_servers = self.nats.ports().into_iter().zip(&to_servers);
        let of_nodes = to_nodes.iter().enumerate();
        let of_nodes =
            of_nodes.filter_map(|(other, way)| Some((ports[2 * other + 1], way.as_ref()?)));
        let ways = of_servers.chain(of_nodes);
        let ways: Vec<String> = ways
            .map(|(port, way)| format!("{port}={}", way.port()))
            .collect();
        let mut environment = vec![
            ("LD_PRELOAD".into(), library.path().into()),
            ("REDIRECT_PORTS".into(), ways.join(",").into()),
        ];
        if let Some(bug) = bug {
            environment.push(("ROOST_BUG".into(), bug.into()));
        }
        roost.set_environment(environment);
        Ok(Node {
            roost,
            clients,
            to_servers,
            to_nodes,
            is_down: false,
            start_at: Instant::now(),
        })
    }

    fn run(&self, node: usize, arguments: &[&str]) -> Result<String, String> {
        self.nodes[node].roost.run(arguments)
    }

    /// A connection to where a client was sent, or to any node.
    pub(super) fn connect(&mut self, sent_to: Option<SocketAddr>) -> io::Result<Link> {
        let any = self.rng.usize(..self.nodes.len());
        Link::open(sent_to.unwrap_or(self.nodes[any].clients))
    }
}

// === impl Cluster: troubles ===

impl Cluster {
    /// Something befalls.
    pub(super) fn begin(&mut self, what: What) -> Result<(), String> {
        match what {
            What::KillNode(node) => self.kill(node)?,
            What::LoseNode(node) => {
                self.kill(node)?;
                let data = self.nodes[node].roost.data();
                fs::remove_dir_all(&data).map_err(|error| error.to_string())?;
            }
            What::StopNode(node) => self.signal(node, Signal::STOP)?,
            What::KillServer(server) => self.nats.kill(server)?,
            What::StopServer(server) => self.nats.signal(server, Signal::STOP)?,
            _ => self.set_cut(what, true),
        }
        Ok(())
    }

    /// It is over.
    pub(super) fn end(&mut self, what: What) -> Result<(), String> {
        match what {
            What::KillNode(node) | What::LoseNode(node) => {
                self.nodes[node].is_down = false;
                self.nodes[node].start_at = Instant::now();
            }
            What::StopNode(node) => self.signal(node, Signal::CONT)?,
            What::KillServer(server) => self.nats.run(server)?,
            What::StopServer(server) => self.nats.signal(server, Signal::CONT)?,
            _ => self.set_cut(what, false),
        }
        Ok(())
    }

    fn kill(&mut self, node: usize) -> Result<(), String> {
        let node = &mut self.nodes[node];
        node.is_down = true;
        match node.roost.pid() {
            Some(_) => node.roost.kill(),
            // It had ended by itself, and was to be started in a moment.
            None => Ok(()),
        }
    }

    fn signal(&self, node: usize, signal: Signal) -> Result<(), String> {
        match self.nodes[node].roost.pid() {
            Some(_) => self.nodes[node].roost.signal(signal),
            None => Ok(()),
        }
    }

    fn set_cut(&self, what: What, is_cut: bool) {
        let node = |node: usize| &self.nodes[node];
        let engine = |of: usize, flow: Flow| {
            let ways = node(of).to_servers.iter();
            ways.for_each(|way| way.set_cut(flow, is_cut));
        };
        let link = |from: usize, to: usize, flow: Flow| {
            if let Some(way) = &node(from).to_nodes[to] {
                way.set_cut(flow, is_cut);
            }
        };
        match what {
            What::CutServer(of, server, flow) => node(of).to_servers[server].set_cut(flow, is_cut),
            What::CutEngine(of, flow) => engine(of, flow),
            What::CutLink(from, to, flow) => link(from, to, flow),
            What::CutNode(of) => {
                engine(of, Flow::Both);
                for other in 0..NODES {
                    link(of, other, Flow::Both);
                    link(other, of, Flow::Both);
                }
            }
            _ => {}
        }
    }

    /// Starts nodes that have ended and should run, and looks at what the map says. Returns what
    /// happened.
    pub(super) fn tend(&mut self) -> Result<Vec<String>, String> {
        for (node, name) in self.nodes.iter_mut().zip(NAMES) {
            if node.is_down {
                continue;
            }
            if let Some(status) = node.roost.has_ended()? {
                let log = node.roost.log_tail();
                let last = log.lines().last().unwrap_or_default();
                self.notes
                    .push(format!("{name} ended by itself ({status}): {last}"));
                node.start_at = Instant::now() + START_AGAIN_AFTER;
            }
            if node.roost.pid().is_none() && Instant::now() >= node.start_at {
                self.notes.push(format!("{name} is started"));
                node.roost.begin_to_start()?;
            }
        }
        let any = &self.nodes[0].roost;
        let ask = || any.begin_to_run(&["cluster", "status"]);
        self.notes.extend(self.homes.look(ask)?);
        Ok(std::mem::take(&mut self.notes))
    }

    /// What was true of the map before does not count as its state any more.
    pub(super) fn forget_health(&mut self) {
        self.homes.forget();
    }

    /// What is not well, as the map says since that; `None` if all is.
    pub(super) fn illness(&self) -> Option<String> {
        match self.homes.latest() {
            None => Some("the map was not read".to_owned()),
            Some(status) => status.illness(NODES, STREAMS),
        }
    }
}

// === impl Cluster: the end ===

impl Cluster {
    /// When streams got the homes that they had so far.
    pub(super) fn homes_began(&self) -> Vec<Timestamp> {
        let logs = self.nodes.iter().map(|node| node.roost.log());
        logs.flat_map(|log| homes::began(&log)).collect()
    }

    /// What is wrong in the nodes' logs, in what they stored, and with who was the home of what
    /// when. Clients have to be quiet.
    pub(super) fn check(&mut self) -> Vec<String> {
        let mut findings = self.homes.findings();
        let logs = NAMES.iter().zip(&self.nodes);
        let logs: Vec<(&str, String)> =
            logs.map(|(name, node)| (*name, node.roost.log())).collect();
        findings.extend(homes::claimed_twice(&logs));
        for (name, log) in &logs {
            let wrong = log
                .lines()
                .filter(|line| WRONG.iter().any(|wrong| line.contains(wrong)));
            findings.extend(wrong.take(5).map(|line| format!("{name}: {line}")));
        }
        for (node, name) in NAMES.iter().enumerate() {
            if let Err(why) = self.run(node, &["verify"]) {
                findings.push(format!("{name}: {why}"));
            }
        }
        let deadline = Instant::now() + EQUAL_WITHIN;
        loop {
            match self.compare() {
                Ok(different) if different.is_empty() => break,
                Ok(different) if Instant::now() > deadline => {
                    findings.extend(different);
                    break;
                }
                Err(why) if Instant::now() > deadline => {
                    findings.push(why);
                    break;
                }
                _ => thread::sleep(PAUSE),
            }
        }
        findings
    }

    /// What differs in the nodes' stores.
    fn compare(&self) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut files: Vec<(&str, PathBuf)> = Vec::new();
        for (node, name) in NAMES.iter().enumerate() {
            let file = folder.path().join(name);
            self.run(node, &["backup", &file.to_string_lossy()])?;
            files.push((name, file));
        }
        let files: Vec<(&str, &Path)> = files.iter().map(|(name, file)| (*name, &**file)).collect();
        copies::differences(&files)
    }

    /// The nodes' logs, and what servers of the engine complain of.
    pub(super) fn log_tail(&self) -> String {
        let logs = NAMES.iter().zip(&self.nodes);
        let logs = logs.map(|(name, node)| format!("== {name}\n{}", node.roost.log()));
        let engine = (0..SERVERS).map(|at| format!("== n{at}\n{}", self.nats.troubles(at)));
        logs.chain(engine).collect::<Vec<String>>().join("\n")
    }
}

/// What no node ever writes.
const WRONG: [&str; 3] = [
    "panicked at",
    "this node's copy and another's differ",
    "a packet of another node is none",
];

/// Tries until it is so.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, String>) -> Result<T, String> {
    let started = Instant::now();
    loop {
        match attempt() {
            Err(_) if started.elapsed() < PATIENCE => thread::sleep(PAUSE),
            done => return done,
        }
    }
}

/// What every seed's cluster is made with.
pub(super) struct Template {
    library: Library,
    bug: Option<String>,
}

impl Template {
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        Ok(Self {
            library: Library::build("redirect.c")?,
            bug: options.bug.clone(),
        })
    }

    pub(super) fn start(&self, plan: &Plan) -> Result<Cluster, String> {
        Cluster::start(&self.library, self.bug.as_deref(), plan)
    }
}
