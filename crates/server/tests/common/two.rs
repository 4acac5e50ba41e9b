//! Two nodes with a link between them that a test holds up.

#![allow(clippy::disallowed_methods)] // These wait for sockets, on the real clock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use server::admin::{Request, Response};
use server::away::{Away, Cluster, NodeId, Taken};
use server::{Door, Node, Options};
use stdx::Level;
use stdx::time::{Clock as _, SystemClock};
use store::{Journal, LocalJournal, RangeId, Store};

use super::{Client, Disk, PATIENCE, new_disk, options, store_on};

/// Where everything is at home.
pub(crate) const HOME: NodeId = NodeId(0);
/// Where clients come to.
pub(crate) const EDGE: NodeId = NodeId(1);

/// Bytes that may be under way for one connection, as `crates/server/src/join/line.rs` says.
pub(crate) const WINDOW: usize = 64 * 1024;

/// Packets that are overtaken by others, while any are.
type Late = Mutex<Option<Vec<Vec<u8>>>>;

/// The way from one node to the other.
#[derive(Default)]
pub(crate) struct Way {
    queue: Mutex<VecDeque<Vec<u8>>>,
    /// Answers that are overtaken by everything else: links promise no order between the two.
    late: Late,
    /// The other way round.
    late_sends: Late,
    /// Nothing arrives for now.
    is_held: AtomicBool,
    /// Nothing is taken for now.
    is_full: AtomicBool,
    /// The other node knows packets of versions up to 3.
    is_older: AtomicBool,
    /// What is sent is lost.
    is_cut: AtomicBool,
    /// Nothing is taken of what can be done without.
    is_half_full: AtomicBool,
    /// The other node is none any more, for all that this one knows.
    is_gone: AtomicBool,
    /// Nodes of the first level may be there.
    is_first_level: AtomicBool,
    /// What this node is called.
    name: OnceLock<&'static str>,
    /// What was not taken where it arrived is sent on once its sender knows where to; otherwise its
    /// sender hears that nobody has it.
    does_wait: AtomicBool,
    /// For nobody's home.
    kept: Mutex<Vec<Vec<u8>>>,
    /// So many of those wait, and of those that were not taken.
    pub(crate) kept_packets: AtomicUsize,
    /// They wait although there may be a home for them.
    is_withheld: AtomicBool,
    door: OnceLock<Door>,
    /// Of the node that sends.
    origin: OnceLock<Door>,
    /// The node that it leads to.
    other: OnceLock<NodeId>,
    is_over: AtomicBool,
    /// The most bytes that ever waited.
    pub(crate) most: AtomicUsize,
}

impl Way {
    fn push(&self, packet: Vec<u8>) {
        if self.is_cut.load(Ordering::Relaxed) {
            return;
        }
        let mut queue = self.queue.lock().unwrap();
        queue.push_back(packet);
        let bytes = queue.iter().map(Vec::len).sum();
        self.most.fetch_max(bytes, Ordering::Relaxed);
    }

    /// Packets that have not arrived, oldest first.
    pub(crate) fn waiting(&self) -> Vec<Vec<u8>> {
        self.queue.lock().unwrap().iter().cloned().collect()
    }

    pub(crate) fn hold(&self, is_held: bool) {
        self.is_held.store(is_held, Ordering::Relaxed);
    }

    /// Answers arrive later than what is sent after them, until they are let go.
    pub(crate) fn delay_answers(&self, is_delayed: bool) {
        self.delay(&self.late, is_delayed);
    }

    /// What is sent arrives later than answers that are given after it, until it is let go.
    pub(crate) fn delay_sends(&self, is_delayed: bool) {
        self.delay(&self.late_sends, is_delayed);
    }

    fn delay(&self, late: &Late, is_delayed: bool) {
        let late = std::mem::replace(&mut *late.lock().unwrap(), is_delayed.then(Vec::new));
        late.into_iter()
            .flatten()
            .for_each(|packet| self.push(packet));
    }

    pub(crate) fn refuse(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    pub(crate) fn refuse_offers(&self, is_half_full: bool) {
        self.is_half_full.store(is_half_full, Ordering::Relaxed);
    }

    /// Nobody is there any more, or again.
    pub(crate) fn lead_nowhere(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::Relaxed);
    }

    /// Nothing is sent that nodes of the first level do not know.
    pub(crate) fn stay_at_first_level(&self) {
        self.is_first_level.store(true, Ordering::Relaxed);
    }

    pub(crate) fn leads_to_older(&self) {
        self.is_older.store(true, Ordering::Relaxed);
    }

    /// What did not arrive never does, and neither does what is sent from now on.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
        self.queue.lock().unwrap().clear();
    }

    /// One packet arrives of those that are held, if there is one. What it is.
    pub(crate) fn let_one_through(&self, from: NodeId) -> Option<wire::Kind> {
        let packet = self.queue.lock().unwrap().pop_front()?;
        let taken = self.door.get().unwrap().receive(from, &packet);
        assert_eq!(taken, Taken::Yes);
        Some(wire::Arrival::read(&packet).unwrap().kind())
    }

    /// What is held comes back to its sender, for the last time.
    pub(crate) fn give_back(&self) {
        for packet in std::mem::take(&mut *self.queue.lock().unwrap()) {
            assert!(self.origin.get().unwrap().take_back(&packet, None));
        }
    }

    pub(crate) fn waits_for_homes(&self) {
        self.does_wait.store(true, Ordering::Relaxed);
    }

    /// What waits for a home is not sent on for now.
    pub(crate) fn withhold(&self, is_withheld: bool) {
        self.is_withheld.store(is_withheld, Ordering::Relaxed);
    }

    pub(crate) fn mend(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }

    /// Until the test is over.
    fn carry(&self, from: NodeId) {
        let mut returned: Vec<Vec<u8>> = Vec::new();
        let clock = SystemClock::new();
        while !self.is_over.load(Ordering::Relaxed) {
            returned.append(&mut self.kept.lock().unwrap());
            if !returned.is_empty() && !self.is_withheld.load(Ordering::Relaxed) {
                let origin = self.origin.get().unwrap();
                let now = Some(clock.now());
                returned.retain(|packet| !origin.take_back(packet, now));
            }
            self.kept_packets.store(returned.len(), Ordering::Relaxed);
            let packet = match self.is_held.load(Ordering::Relaxed) {
                true => None,
                false => self.queue.lock().unwrap().pop_front(),
            };
            let (Some(packet), Some(door)) = (packet, self.door.get()) else {
                thread::sleep(Duration::from_millis(1));
                continue;
            };
            if self.is_older.load(Ordering::Relaxed) && packet[0] > 3 {
                self.origin.get().unwrap().take_back(&packet, None);
                continue;
            }
            loop {
                match door.receive(from, &packet) {
                    Taken::Later => thread::sleep(Duration::from_millis(1)),
                    Taken::Yes => break,
                    Taken::Moved(_) if self.does_wait.load(Ordering::Relaxed) => {
                        returned.push(packet);
                        break;
                    }
                    Taken::Moved(_) => {
                        let origin = self.origin.get().unwrap();
                        assert!(origin.take_back(&packet, None));
                        break;
                    }
                    Taken::Bad(why) => panic!("{why}"),
                }
            }
        }
    }
}

impl Away for Way {
    fn send(&self, _to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(packet);
        }
        match &mut *self.late_sends.lock().unwrap() {
            Some(late) => late.push(packet),
            None => self.push(packet),
        }
        Ok(())
    }

    fn keep(&self, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(packet);
        }
        self.kept.lock().unwrap().push(packet);
        Ok(())
    }

    fn offer(&self, to: NodeId, packet: Vec<u8>) -> Result<(), Vec<u8>> {
        match self.is_half_full.load(Ordering::Relaxed) {
            true => Err(packet),
            false => self.send(to, packet),
        }
    }

    fn answer(&self, _to: NodeId, packet: Vec<u8>) {
        if let Some(late) = &mut *self.late.lock().unwrap() {
            return late.push(packet);
        }
        self.push(packet);
    }

    fn may_act(&self) -> bool {
        true
    }

    fn level(&self) -> Level {
        match self.is_first_level.load(Ordering::Relaxed) {
            true => Level::FIRST,
            false => Level::NEWEST,
        }
    }

    fn name(&self) -> Option<String> {
        self.name.get().map(|name| (*name).to_owned())
    }

    fn reaches(&self, node: NodeId) -> bool {
        self.other.get() == Some(&node) && !self.is_gone.load(Ordering::Relaxed)
    }

    fn others(&self) -> Vec<(NodeId, String)> {
        let other = self.other.get().map(|node| (*node, name(*node).to_owned()));
        other.into_iter().collect()
    }

    fn clients(&self, _range: RangeId) -> Option<String> {
        Some("home.example:5222".to_owned())
    }
}

/// What a node is called.
fn name(node: NodeId) -> &'static str {
    if node == HOME { "other" } else { "edge" }
}

/// One of the nodes, and its way to the other.
pub(crate) struct One {
    pub(crate) node: Option<Node>,
    pub(crate) door: Door,
    pub(crate) way: Arc<Way>,
    pub(crate) disk: Disk,
}

/// Both of them.
pub(crate) struct Two {
    pub(crate) home: One,
    pub(crate) edge: One,
}

/// The journal of a node over its store.
pub(crate) type Journals<'a> = &'a mut dyn FnMut(&Store, &Options) -> Arc<dyn Journal>;

fn local(store: &Store, options: &Options) -> Arc<dyn Journal> {
    let options = options.commits.journal.clone();
    Arc::new(LocalJournal::start_with(store, options).unwrap())
}

fn one(node: NodeId, mut options: Options, network: net::Limits, journals: Journals<'_>) -> One {
    let disk = new_disk();
    let store = store_on(&disk);
    let way = Arc::<Way>::default();
    way.name.set(name(node)).unwrap();
    options.cluster = Some(Cluster {
        journal: journals(&store, &options),
        away: Arc::clone(&way) as _,
    });
    let listener = net::Listener::new("127.0.0.1:0".parse().unwrap());
    let web = net::Listener {
        speaks: net::Speaks::Http,
        ..listener.clone()
    };
    let node = Node::start(options, vec![listener, web], network, None, store).unwrap();
    let door = node.door().unwrap();
    One {
        node: Some(node),
        door,
        way,
        disk,
    }
}

impl One {
    /// Where it speaks HTTP.
    pub(crate) fn web(&self) -> SocketAddr {
        self.node().addresses()[1]
    }

    pub(crate) fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }
}

impl Two {
    pub(crate) fn start(users: &[&str]) -> Two {
        Two::start_with(users, |_| {}, net::Limits::default())
    }

    /// With options of both, and bounds of the network of the home.
    pub(crate) fn start_with(
        users: &[&str],
        change: impl Fn(&mut Options),
        network: net::Limits,
    ) -> Two {
        Two::start_bounded(users, change, [network, net::Limits::default()])
    }

    /// With options of both, and bounds of the networks of home and edge.
    pub(crate) fn start_bounded(
        users: &[&str],
        change: impl Fn(&mut Options),
        limits: [net::Limits; 2],
    ) -> Two {
        Two::start_over(users, change, limits, &mut local)
    }

    /// With a journal of each, home first, which has all ranges in tenure 5.
    pub(crate) fn start_over(
        users: &[&str],
        change: impl Fn(&mut Options),
        [of_home, of_edge]: [net::Limits; 2],
        journals: Journals<'_>,
    ) -> Two {
        let mut both = options(2, true);
        change(&mut both);
        let home = one(HOME, both.clone(), of_home, journals);
        let edge = one(EDGE, both, of_edge, journals);
        let ranges: Vec<RangeId> = RangeId::all().collect();
        home.door.gain(&ranges, 5);
        for range in ranges {
            edge.door.set_away(range, Some((HOME, 5)));
        }
        for (here, there, from) in [(&home, &edge, HOME), (&edge, &home, EDGE)] {
            assert!(here.way.door.set(there.door.clone()).is_ok());
            assert!(here.way.origin.set(here.door.clone()).is_ok());
            let other = if from == HOME { EDGE } else { HOME };
            assert!(here.way.other.set(other).is_ok());
            let way = Arc::clone(&here.way);
            thread::spawn(move || way.carry(from));
        }
        let two = Two { home, edge };
        for user in users {
            let jid = format!("{user}@localhost");
            let password = "secret".into();
            two.administer(Request::UserAdd { jid, password });
        }
        two
    }

    pub(crate) fn administer(&self, request: Request) {
        assert_eq!(self.home.node().admin().call(request), Response::Ok);
    }

    pub(crate) fn login(&self, user: &str, resource: &str) -> Client {
        Client::login(self.edge.node().addresses()[0], user, resource)
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.edge.node().addresses()[0])
    }

    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Two) -> bool) {
        let started = Instant::now();
        while !is_so(self) {
            assert!(started.elapsed() < PATIENCE, "not in time: {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Two {
    fn drop(&mut self) {
        for one in [&self.home, &self.edge] {
            one.way.is_over.store(true, Ordering::Relaxed);
        }
    }
}

pub(crate) fn message(to: &str, body: &str) -> String {
    format!("<message to='{to}' type='chat'><body>{body}</body></message>")
}

/// Reads until the stream or its connection is over; what came.
pub(crate) fn rest(client: &mut Client) -> String {
    while client.read_some().is_ok_and(|read| read > 0) {}
    std::mem::take(&mut client.seen)
}

/// What alice says to bob while her account has no home: once `next` has made one, each of it comes
/// once and in order, all of it is answered up to this count, and no stream ends.
pub(crate) fn says_without_a_home(
    (alice, bob): (&mut Client, &mut Client),
    (tenure, handled): (u32, u32),
    next: impl FnOnce(),
) {
    for n in 0..3 {
        alice.send(&message("bob@localhost", &format!("{tenure}.{n}")));
    }
    alice.send("<iq type='get' id='p' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>");
    alice.send("<r xmlns='urn:xmpp:sm:3'/>");
    thread::sleep(Duration::from_millis(50));
    next();
    let answered = alice.expect(&format!("h='{handled}'/>"));
    assert_eq!(answered.matches("id='p'").count(), 1, "{answered}");
    assert!(!answered.contains("<resumed") && !answered.contains("stream:"));
    let heard = bob.expect(&format!("<body>{tenure}.2</body>"));
    let expected: Vec<String> = (0..3).map(|n| format!("{tenure}.{n}")).collect();
    assert_eq!(bodies(&heard), expected);
    assert!(!heard.contains("unavailable"), "{heard}");
}

/// The bodies that came.
pub(crate) fn bodies(heard: &str) -> Vec<&str> {
    let bodies = heard.split("<body>").skip(1);
    bodies
        .filter_map(|rest| rest.split("</body>").next())
        .collect()
}
