//! Nodes of these tests: a driver over a store in memory.

use std::thread;
use std::time::{Duration, Instant};

use cluster::driver::{Driver, Event, MapOptions, Options, Outcome};
use cluster::engine::{self, Engine};
use cluster::journal::message::Author;
use cluster::layout::{Layout, StreamId};
use stdx::Timestamp;
use store::{Account, RangeId, Record, Store};
use tokio::sync::oneshot::Receiver;

use crate::servers::{Servers, runtime};

pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

pub(crate) struct Node {
    driver: Driver,
    store: Store,
    layout: Layout,
    engine: engine::Options,
}

/// The address in range 0 that all appends are about.
fn user() -> String {
    let slots = Store::in_memory().slot_key();
    let mut names = (0..).map(|n| format!("u{n}@x"));
    names
        .find(|name| slots.slot(name).range() == range())
        .unwrap()
}

fn range() -> RangeId {
    RangeId::from_index(0).unwrap()
}

pub(crate) fn record(number: u32) -> Record {
    Record::AccountPut {
        user: user(),
        account: Account {
            created: Timestamp::from_millis(i64::from(number)),
            ..Account::default()
        },
    }
}

impl Node {
    /// A node whose homes are what the test says.
    pub(crate) fn start(servers: &Servers, layout: &Layout, name: &str, incarnation: u64) -> Node {
        let folder = servers.folder().to_owned();
        let options = Options::new(servers.options(), layout.clone(), folder);
        Node::run(servers, options, name, incarnation)
    }
    /// The same with other bounds.
    pub(crate) fn bounded(
        servers: &Servers,
        layout: &Layout,
        (commands_max, events_max): (usize, usize),
    ) -> Node {
        let folder = servers.folder().to_owned();
        let mut options = Options::new(servers.options(), layout.clone(), folder);
        (options.commands_max, options.events_max) = (commands_max, events_max);
        Node::run(servers, options, "a", 1)
    }

    /// The same, which asks the servers all the time how they are.
    pub(crate) fn watching(servers: &Servers, layout: &Layout) -> Node {
        let folder = servers.folder().to_owned();
        let mut options = Options::new(servers.options(), layout.clone(), folder);
        options.monitor = servers.observe(layout, false).monitor;
        options.monitor_pause = Duration::from_millis(50);
        Node::run(servers, options, "a", 1)
    }

    /// The same, next to this server, which shall lead the streams whose home it is.
    pub(crate) fn next_to(server: usize, servers: &Servers, layout: &Layout, name: &str) -> Node {
        let folder = servers.folder().to_owned();
        let mut engine = servers.options();
        engine.servers.rotate_left(server);
        engine.near = Some(format!("n{server}"));
        let mut options = Options::new(engine, layout.clone(), folder);
        options.lead_again_after = Duration::from_secs(2);
        Node::run(servers, options, name, 1)
    }

    /// The same, connected to this server.
    pub(crate) fn start_at(server: usize, servers: &Servers, layout: &Layout, name: &str) -> Node {
        let folder = servers.folder().to_owned();
        let options = Options::new(servers.options_of(server), layout.clone(), folder);
        Node::run(servers, options, name, 1)
    }

    /// A node that takes part in the map.
    pub(crate) fn with_map(
        servers: &Servers,
        layout: &Layout,
        name: &str,
        incarnation: u64,
    ) -> Node {
        let store = Store::in_memory();
        Node::of_map(
            servers,
            servers.options(),
            layout,
            (name, incarnation),
            store,
        )
    }

    /// The same, over this store.
    pub(crate) fn with_map_over(
        store: Store,
        servers: &Servers,
        layout: &Layout,
        name: &str,
    ) -> Node {
        Node::of_map(servers, servers.options(), layout, (name, 1), store)
    }

    /// The same, connected to this server.
    pub(crate) fn with_map_at(
        server: usize,
        servers: &Servers,
        layout: &Layout,
        name: &str,
    ) -> Node {
        let store = Store::in_memory();
        Node::of_map(
            servers,
            servers.options_of(server),
            layout,
            (name, 1),
            store,
        )
    }

    fn of_map(
        servers: &Servers,
        engine: engine::Options,
        layout: &Layout,
        (name, incarnation): (&str, u64),
        store: Store,
    ) -> Node {
        let folder = servers.folder().to_owned();
        let mut options = Options::new(engine, layout.clone(), folder);
        options.map = Some(MapOptions {
            zone: name.to_owned(),
            weight: 1,
            ..MapOptions::default()
        });
        Node::run_over(store, servers, options, (name, incarnation))
    }

    fn run(servers: &Servers, options: Options, name: &str, incarnation: u64) -> Node {
        Node::run_over(Store::in_memory(), servers, options, (name, incarnation))
    }

    fn run_over(
        store: Store,
        servers: &Servers,
        options: Options,
        (name, incarnation): (&str, u64),
    ) -> Node {
        let layout = options.layout.clone();
        let author = Author {
            node: name.to_owned(),
            incarnation,
        };
        Node {
            driver: Driver::start(options, author, &store).unwrap(),
            store,
            layout,
            engine: servers.options(),
        }
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn is_home(&self, stream: StreamId) -> bool {
        self.driver.progress(stream).is_home
    }

    pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < PATIENCE, "not in time: {what}");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for an event and drops those before it.
    pub(crate) fn expect(&self, within: Duration, is_it: impl Fn(&Event) -> bool) {
        let started = Instant::now();
        let mut seen = Vec::new();
        while started.elapsed() < within {
            if let Some(event) = self.driver.event(Duration::from_millis(100)) {
                if is_it(&event) {
                    return;
                }
                seen.push(event);
            }
        }
        panic!("not in time, but {seen:?}");
    }

    pub(crate) fn take_over(&self, stream: StreamId, epoch: u64) {
        assert!(self.driver.take_over(stream, epoch));
        self.expect(PATIENCE, |event| *event == Event::Serving(stream, epoch));
    }

    pub(crate) fn wait<T>(receiver: Receiver<T>) -> T {
        let waited = async { tokio::time::timeout(PATIENCE, receiver).await };
        runtime().block_on(waited).unwrap().unwrap()
    }

    pub(crate) fn begin(&self, number: u32) -> Receiver<Outcome> {
        self.driver.append(range(), &[record(number)])
    }

    pub(crate) fn append(&self, number: u32) -> Outcome {
        Node::wait(self.begin(number))
    }

    /// Tries again while nothing is taken for want of a quorum.
    pub(crate) fn append_patiently(&self, number: u32) -> Outcome {
        let started = Instant::now();
        loop {
            match self.append(number) {
                Outcome::Refused(cluster::journal::writer::Refused::NoQuorum)
                    if started.elapsed() < PATIENCE =>
                {
                    thread::sleep(Duration::from_millis(50));
                }
                outcome => return outcome,
            }
        }
    }

    /// Runs something with a connection of its own.
    pub(crate) fn block_on<T>(&self, run: impl AsyncFnOnce(Engine) -> T) -> T {
        runtime().block_on(async {
            let engine = Engine::connect(&self.engine, self.layout.clone()).await;
            run(engine.unwrap()).await
        })
    }

    /// The number of the server that leads a stream.
    pub(crate) fn leader_of(&self, stream: StreamId) -> usize {
        self.leader_if_any(stream).unwrap()
    }

    pub(crate) fn leader_if_any(&self, stream: StreamId) -> Option<usize> {
        let leader = self.block_on(async |engine: Engine| engine.leader(stream).await)?;
        Some(leader.strip_prefix('n').unwrap().parse().unwrap())
    }

    /// Waits until it has applied what another one has.
    pub(crate) fn catch_up_with(&self, other: &Node, stream: StreamId) {
        let started = Instant::now();
        loop {
            let own = self.driver.progress(stream).mark;
            let theirs = other.driver.progress(stream).mark;
            if own == theirs && self.marks(stream) == other.marks(stream) {
                return;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "{own:?} instead of {theirs:?}"
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Where each range of a stream stands, with its hash.
    pub(crate) fn marks(&self, stream: StreamId) -> Vec<store::RangeMark> {
        let ranges = self.layout.ranges(stream);
        let marks = ranges.iter().map(|range| self.store.range_mark(*range));
        marks.collect::<Result<_, _>>().unwrap()
    }
}
