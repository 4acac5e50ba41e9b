//! Nodes of these tests: processes of the server over one engine.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use testkit::nats::{Nats, free_ports};
use testkit::roost::{Roost, Settings};

pub(crate) const PASSWORD: &str = "pencil";
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a node may take to end in order; these tests let it drain for a minute.
pub(crate) const STOPS_WITHIN: Duration = Duration::from_secs(180);
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) struct Nodes {
    nats: Nats,
    nodes: BTreeMap<String, Roost>,
    ports: BTreeMap<String, [u16; 2]>,
}

/// Two accounts at different nodes.
pub(crate) struct Homes {
    pub(crate) one: String,
    pub(crate) other: String,
    pub(crate) other_name: String,
}

fn listed(all: &[String]) -> String {
    let quoted: Vec<String> = all.iter().map(|one| format!("\"{one}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

impl Nodes {
    /// Nodes that do not run, over an engine that has no streams yet.
    pub(crate) fn prepare(names: &[&str]) -> Nodes {
        Nodes::prepare_with(names, |_| Settings::new())
    }

    /// The same with more settings, or others, for each.
    pub(crate) fn prepare_with(names: &[&str], more: impl Fn(&str) -> Settings) -> Nodes {
        let nats = Nats::start().unwrap();
        let ports = free_ports(2 * names.len()).unwrap();
        let mut nodes = Nodes {
            nats,
            nodes: BTreeMap::new(),
            ports: BTreeMap::new(),
        };
        for (name, ports) in names.iter().zip(ports.chunks(2)) {
            let mut settings = nodes.settings(name, ports);
            settings.extend(more(name));
            let node = Roost::prepare(&settings, &[]).unwrap();
            nodes.nodes.insert((*name).to_owned(), node);
            nodes.ports.insert((*name).to_owned(), [ports[0], ports[1]]);
        }
        nodes
    }

    fn settings(&self, name: &str, ports: &[u16]) -> Settings {
        let clients = format!("127.0.0.1:{}", ports[0]);
        let text = |value: &str| format!("\"{value}\"");
        Settings::from([
            ("c2s.listen".to_owned(), format!("[{}]", text(&clients))),
            ("cluster.engine".to_owned(), listed(&self.nats.addresses())),
            ("cluster.monitor".to_owned(), listed(&self.nats.monitors())),
            ("cluster.name".to_owned(), text(name)),
            ("cluster.streams".to_owned(), "4".to_owned()),
            ("cluster.clients".to_owned(), text(&clients)),
            (
                "cluster.listen".to_owned(),
                text(&format!("127.0.0.1:{}", ports[1])),
            ),
            ("auth.scram_iterations".to_owned(), "4096".to_owned()),
        ])
    }

    /// Nodes that serve.
    pub(crate) fn start(names: &[&str]) -> Nodes {
        let mut nodes = Nodes::prepare(names);
        nodes.create();
        for name in names {
            nodes.begin(name);
        }
        nodes.await_homes();
        nodes
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut Roost {
        self.nodes.get_mut(name).unwrap()
    }

    /// SIGKILL of a server of the engine.
    pub(crate) fn kill_server(&mut self, server: usize) {
        self.nats.kill(server).unwrap();
    }

    /// Makes the streams, however long the servers take to find each other.
    pub(crate) fn create(&mut self) {
        let node = self.nodes.values().next().unwrap();
        let started = Instant::now();
        while let Err(why) = node.run(&["cluster", "check", "--create"]) {
            assert!(started.elapsed() < PATIENCE, "{why}");
            thread::sleep(PAUSE);
        }
    }

    /// Starts one until it refuses for this reason.
    pub(crate) fn refused(&mut self, name: &str, why: &str) -> String {
        let started = Instant::now();
        loop {
            let refused = self.node(name).start_again().unwrap_err();
            if refused.contains(why) {
                return refused;
            }
            assert!(started.elapsed() < PATIENCE, "{refused}");
            thread::sleep(PAUSE);
        }
    }

    /// The servers of the engine.
    pub(crate) fn engine(&mut self) -> &mut Nats {
        &mut self.nats
    }

    /// What a node answers to a request for a page: status and body. Nothing, if it does not
    /// answer.
    pub(crate) fn page(&self, name: &str, path: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(self.nodes[name].address().web).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some((status, body.trim().to_owned()))
    }

    /// A figure of a node, by its name with its labels.
    pub(crate) fn figure(&self, name: &str, figure: &str) -> f64 {
        let (_, page) = self.page(name, "/metrics").expect("figures");
        let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
        let mut found = lines.filter(|(of, _)| *of == figure);
        let (_, value) = found
            .next()
            .unwrap_or_else(|| panic!("no {figure}: {page}"));
        value.parse().unwrap()
    }

    /// Waits until it is so.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Nodes) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            let logs = self.nodes.values().map(Roost::log_tail);
            assert!(
                started.elapsed() < PATIENCE,
                "not in time: {what}\n{}",
                logs.collect::<Vec<_>>().join("\n\n")
            );
            thread::sleep(PAUSE);
        }
    }

    pub(crate) fn begin(&mut self, name: &str) {
        self.node(name).start_again().unwrap();
    }

    /// Starts one, and waits until every stream has a home that serves.
    pub(crate) fn restart(&mut self, name: &str) {
        self.begin(name);
        self.await_homes();
    }

    pub(crate) fn await_homes(&mut self) {
        let started = Instant::now();
        loop {
            let running = self.nodes.values().find(|node| node.pid().is_some());
            let status = running.unwrap().run(&["cluster", "status"]);
            match status {
                Ok(status) if status.matches("serving").count() == 4 => return,
                other => assert!(started.elapsed() < PATIENCE, "{other:?}"),
            }
            thread::sleep(PAUSE);
        }
    }

    /// Where other nodes reach it.
    pub(crate) fn link(&self, name: &str) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.ports[name][1]))
    }

    /// Runs a command against a node.
    pub(crate) fn run(&self, name: &str, command: &[&str]) -> Result<String, String> {
        self.nodes[name].run(command)
    }

    /// What they are called.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.nodes.keys()
    }

    /// All that every node wrote.
    pub(crate) fn logs(&self) -> Vec<String> {
        self.nodes.values().map(Roost::log).collect()
    }

    /// The same, one behind the other.
    pub(crate) fn log_of_all(&self) -> String {
        self.logs().join("\n\n")
    }

    /// All that a node wrote.
    pub(crate) fn log_of(&self, name: &str) -> String {
        self.nodes[name].log()
    }

    /// What a node wrote last.
    pub(crate) fn log(&self, name: &str) -> String {
        self.nodes[name].log_tail()
    }

    /// A node that is none of these.
    pub(crate) fn other(&self, known: &[&String]) -> String {
        let mut names = self.nodes.keys();
        names.find(|name| !known.contains(name)).unwrap().clone()
    }

    /// Makes the first account, and one whose name begins with the other and is at home elsewhere.
    pub(crate) fn add_at_different_homes(&mut self, one: &str, other: &str) -> Homes {
        let first = self.add(one);
        (0..100)
            .map(|n| format!("{other}{n}"))
            .find_map(|name| {
                let home = self.add(&name);
                (home != first).then(|| Homes {
                    one: first.clone(),
                    other: home,
                    other_name: name,
                })
            })
            .expect("somebody is at home elsewhere")
    }

    /// Makes an account that is at home there, and leaves no other.
    pub(crate) fn add_at(&mut self, home: &str, user: &str) -> String {
        (0..100)
            .map(|n| format!("{user}{n}"))
            .find(|name| {
                let is_there = self.add(name) == home;
                if !is_there {
                    self.patiently(&["user", "del", &format!("{name}@localhost")]);
                }
                is_there
            })
            .expect("somebody is at home there")
    }

    /// A server that stands alone, beside the nodes and under a name of its own.
    pub(crate) fn add_single(&mut self, name: &str, single: Roost) {
        self.nodes.insert(name.to_owned(), single);
    }

    /// Gives a node the data of another one, which must not run.
    pub(crate) fn give(&mut self, from: &str, to: &str) {
        let settings = self.settings(to, &self.ports[to]);
        let copy = self.nodes[from].copy(&settings).unwrap();
        self.nodes.insert(to.to_owned(), copy);
    }

    /// What a server says that stands alone, on a node's folder.
    pub(crate) fn alone(&mut self, name: &str) -> String {
        let node = self.nodes.remove(name).unwrap();
        let mut copy = node.copy(&Settings::new()).unwrap();
        copy.start_again().unwrap_err()
    }

    /// Makes an account at its home, and says where that is.
    pub(crate) fn add(&mut self, user: &str) -> String {
        let jid = format!("{user}@localhost");
        self.patiently(&["user", "add", &jid, "--password", PASSWORD]);
        self.home_of(&jid)
    }

    /// The node that is the home of an address.
    pub(crate) fn home_of(&mut self, address: &str) -> String {
        let home = self.patiently(&["cluster", "home", address]);
        home.trim().to_owned()
    }

    /// Runs a command on any node that runs, until it succeeds.
    fn patiently(&mut self, command: &[&str]) -> String {
        let started = Instant::now();
        loop {
            let running = self.nodes.values().filter(|node| node.pid().is_some());
            for node in running {
                match node.run(command) {
                    Ok(said) => return said,
                    Err(why) => assert!(started.elapsed() < PATIENCE, "{why}"),
                }
            }
            thread::sleep(PAUSE);
        }
    }
}
