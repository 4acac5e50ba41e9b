//! A node in this process, under a clock and a journal that move when the test says so, and clients
//! of it over real sockets.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use server::modules::Extensions;
use server::{Options, Sim, StartError};
use stdx::time::VirtualClock;
use store::{Plan, Switches};

use super::{Disk, new_disk, sim_options, store_on};

/// Changes that come of one that is refused.
const ROUNDS_MAX: usize = 100;

/// Milliseconds without a word before one that must come is given up.
const IDLE_MAX: u32 = 20_000;

/// Milliseconds without a word after which nothing comes by itself.
const QUIET_MAX: u32 = 50;

/// A session whose link is lost has ended after that.
pub(crate) const RESUME_TIMEOUT: Duration = Duration::from_secs(10);

const OPEN: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
     xmlns:stream='http://etherx.jabber.org/streams'>";

pub(crate) const SM: &str = "xmlns='urn:xmpp:sm:3'";

/// A node in this process on a disk that survives it.
pub(crate) struct World {
    pub(crate) disk: Disk,
    pub(crate) options: Options,
    clock: VirtualClock,
    extensions: Extensions,
    sim: Option<Sim>,
}

impl World {
    pub(crate) fn new() -> World {
        World::with(|_| ())
    }

    /// With options of its own.
    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> World {
        World::extended(Extensions::default(), change)
    }

    /// The same with extensions of the test.
    pub(crate) fn extended(extensions: Extensions, change: impl FnOnce(&mut Options)) -> World {
        let mut options = sim_options(1, false);
        options.delivery.resume_timeout = RESUME_TIMEOUT;
        change(&mut options);
        let mut world = World {
            disk: new_disk(),
            options,
            clock: VirtualClock::new(),
            extensions,
            sim: None,
        };
        let users = [
            ("romeo@localhost", "secret"),
            ("juliet@localhost", "secret"),
        ];
        Sim::provision(&store_on(&world.disk), &users, 1).expect("accounts");
        world.start();
        world
    }

    /// With options of its own, and clients that need not say that they are there, however far the
    /// clock moves.
    pub(crate) fn patient(change: impl FnOnce(&mut Options)) -> World {
        const NEVER: Duration = Duration::from_secs(1_000_000);
        World::with(|options| {
            options.limits.idle_ping = NEVER;
            options.delivery.ack_timeout = NEVER;
            change(options);
        })
    }

    pub(crate) fn start(&mut self) {
        self.try_start(None).expect("a node");
    }

    /// Of its reads, once the store is open, the one behind so many may fail.
    fn try_start(&mut self, passed: Option<u64>) -> Result<(), StartError> {
        let (options, clock, store) = (
            self.options.clone(),
            self.clock.clone(),
            store_on(&self.disk),
        );
        if let Some(passed) = passed {
            self.disk.faults().pass_reads(passed);
            self.disk.faults().fail_reads(1);
        }
        let limits = net::Limits::default();
        let plan = Plan::default();
        let sim = Sim::start_with(self.extensions, options, limits, store, clock, 1, plan);
        self.sim = Some(sim?);
        Ok(())
    }

    /// The process is killed, and started again. What waits to be recorded never is.
    pub(crate) fn crash(&mut self) {
        self.end();
        self.start();
    }

    fn end(&mut self) {
        if let Some(sim) = self.sim.take() {
            sim.journal().switches().lose(u64::MAX);
        }
        self.disk.crash(0).expect("the disk is there");
    }

    /// The same, and of the reads of the new process the one behind so many fails. Whether it
    /// starts all the same.
    pub(crate) fn crash_unread(&mut self, passed: u64) -> bool {
        self.end();
        let has_started = self.try_start(Some(passed)).is_ok();
        if !has_started {
            self.disk.faults().pass_reads(0);
            self.disk.faults().fail_reads(0);
        }
        has_started
    }

    /// What is in the store is changed while nobody runs.
    pub(crate) fn rewrite(&mut self, change: impl FnOnce(&store::Store)) {
        self.sim = None;
        change(&store_on(&self.disk));
        self.start();
    }

    pub(crate) fn work(&mut self) {
        self.sim.as_mut().expect("it runs").work().expect("work");
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.clock.advance(time);
        self.work();
    }

    /// The node, for what only some tests look at.
    pub(crate) fn node(&mut self) -> &mut Sim {
        self.sim.as_mut().expect("it runs")
    }

    pub(crate) fn switches(&self) -> Arc<Switches> {
        self.sim.as_ref().expect("it runs").journal().switches()
    }

    /// Of the late reads that wait, the one at this place is done, and its result comes; the others
    /// keep their order.
    pub(crate) fn read_now(&mut self, at: usize) {
        let node = self.node();
        let waiting = node.stall_reads(true);
        node.let_read(at);
        // Its result waits behind the others.
        node.let_read(waiting - 1);
        self.work();
    }

    /// Whatever is to be recorded waits from here on.
    pub(crate) fn hold(&mut self) {
        self.switches().set_hold(true);
    }

    /// What waits happens.
    pub(crate) fn let_go(&mut self) {
        self.switches().set_hold(false);
        self.sim
            .as_ref()
            .expect("it runs")
            .journal()
            .release(usize::MAX);
    }

    /// The first of what waits is decided.
    pub(crate) fn release_one(&mut self) {
        let sim = self.sim.as_ref().expect("it runs");
        assert_eq!(sim.journal().release(1), 1);
    }

    /// The actors of these names end by a fault, one after the other; after each so many of what
    /// waits happen.
    pub(crate) fn kill_in_turn(&mut self, names: &[&str], between: usize) {
        for name in names {
            self.node().kill(name);
            self.work();
            for _ in 0..between {
                self.try_one();
            }
        }
    }

    /// The first of what waits happens. False if nothing waits.
    pub(crate) fn try_one(&mut self) -> bool {
        let sim = self.sim.as_ref().expect("it runs");
        let released = sim.journal().release(1);
        self.work();
        released == 1
    }

    /// The journal says what became of everything in doubt.
    pub(crate) fn settle(&mut self) {
        self.sim.as_ref().expect("it runs").journal().settle();
        self.work();
    }

    /// The first of what waits happens.
    pub(crate) fn let_one_go(&mut self) {
        self.release_one();
        self.work();
    }

    /// The first of what waits is refused, if anything waits; what comes of that is for later.
    pub(crate) fn refuse_one(&mut self) {
        self.switches().set_full(true);
        let sim = self.sim.as_ref().expect("it runs");
        sim.journal().release(1);
        self.switches().set_full(false);
        self.work();
    }

    /// What waits is refused, and what comes of that, until nothing waits any more.
    pub(crate) fn refuse(&mut self) {
        self.work();
        self.switches().set_full(true);
        for _ in 0..ROUNDS_MAX {
            let released = self.sim.as_ref().map(|sim| sim.journal().release(1));
            if released != Some(1) {
                self.switches().set_full(false);
                self.switches().set_hold(false);
                return;
            }
            self.work();
        }
        panic!("what is refused is tried again at once, for ever");
    }

    fn open(&mut self) -> Peer {
        let mut peer = Peer::new(self.sim.as_ref().expect("it runs").address());
        peer.ask(self, OPEN, "</stream:features>");
        peer
    }

    /// A connection where components come in, which has said nothing.
    pub(crate) fn stranger(&mut self) -> Peer {
        Peer::new(self.sim.as_ref().expect("it runs").components())
    }

    pub(crate) fn connect(&mut self, user: &str) -> Peer {
        let mut peer = self.open();
        let token = xmpp::sasl::encode(&format!("\0{user}\0secret"));
        let sasl = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'";
        let auth = format!("<auth {sasl} mechanism='PLAIN'>{token}</auth>");
        peer.ask(self, &auth, "<success");
        peer.ask(self, OPEN, "</stream:features>");
        peer
    }

    /// Makes an account.
    pub(crate) fn register(&mut self, user: &str) {
        let sim = self.sim.as_ref().expect("it runs");
        let made = sim.make_account(&format!("{user}@localhost"), "secret");
        made.expect("a password");
        self.work();
    }

    pub(crate) fn login(&mut self, user: &str, resource: &str) -> Peer {
        let mut peer = self.connect(user);
        peer.bind(self, resource);
        peer
    }

    /// With stream management. Gives the session's name too.
    pub(crate) fn login_managed(&mut self, user: &str, resource: &str) -> (Peer, String) {
        let mut peer = self.login(user, resource);
        let token = peer.enable(self);
        (peer, token)
    }
}

/// A client.
pub(crate) struct Peer {
    socket: TcpStream,
    pub(crate) seen: String,
    /// Its stream may end by a fault of the server.
    pub(crate) may_end: bool,
    pub(crate) has_ended: bool,
}

impl Peer {
    fn new(address: SocketAddr) -> Peer {
        let socket = TcpStream::connect(address).expect("it listens");
        socket.set_nonblocking(true).expect("a socket");
        // What is sent can be read at once.
        socket.set_nodelay(true).expect("a socket");
        Peer {
            socket,
            seen: String::new(),
            may_end: false,
            has_ended: false,
        }
    }

    pub(crate) fn send(&mut self, text: &str) {
        let written = self.socket.write_all(text.as_bytes());
        self.has_ended |= self.may_end && written.is_err();
        assert!(self.has_ended || written.is_ok(), "{written:?}");
    }

    /// Lets the node work until `wanted` has come; gives everything up to its end.
    pub(crate) fn expect(&mut self, world: &mut World, wanted: &str) -> String {
        let mut idle = 0;
        while !self.seen.contains(wanted) {
            world.work();
            if !self.read() {
                idle += 1;
                assert!(idle < IDLE_MAX, "no {wanted:?}; {:?}", self.seen);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let end = self.seen.find(wanted).expect("it is there") + wanted.len();
        self.seen.drain(..end).collect()
    }

    /// The same of what comes as time passes.
    pub(crate) fn expect_patiently(&mut self, world: &mut World, wanted: &str) -> String {
        for _ in 0..QUIET_MAX {
            world.work();
            while self.read() {}
            if self.seen.contains(wanted) {
                break;
            }
            world.pass(Duration::from_millis(100));
        }
        self.expect(world, wanted)
    }

    pub(crate) fn ask(&mut self, world: &mut World, text: &str, wanted: &str) -> String {
        self.send(text);
        self.expect(world, wanted)
    }

    pub(crate) fn read(&mut self) -> bool {
        let mut buffer = [0; 4096];
        match self.socket.read(&mut buffer) {
            Ok(0) if self.has_ended => false,
            Ok(0) => panic!("closed; seen {:?}", self.seen),
            Ok(read) => {
                let text = String::from_utf8_lossy(&buffer[..read]);
                self.seen.push_str(&text);
                self.has_ended |= self.may_end && self.seen.contains("<internal-server-error");
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(_) if self.may_end => {
                self.has_ended = true;
                false
            }
            Err(error) => panic!("{error}; seen {:?}", self.seen),
        }
    }

    pub(crate) fn say(&mut self, to: &str, text: &str) {
        self.send(&message(to, text));
    }

    /// What came up to the last question for what it has, if one came.
    pub(crate) fn wait_for_question(&mut self, world: &mut World) -> Option<String> {
        let question = format!("<r {SM}/>");
        for _ in 0..QUIET_MAX {
            world.work();
            self.read();
            if let Some(at) = self.seen.rfind(&question) {
                return Some(self.seen.drain(..at + question.len()).collect());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }

    /// Everything that was sent is handled.
    pub(crate) fn sync(&mut self, world: &mut World) -> String {
        let ping = "<iq type='get' id='ping' to='localhost'><ping xmlns='urn:xmpp:ping'/></iq>";
        self.ask(world, ping, "id='ping'")
    }

    pub(crate) fn bind(&mut self, world: &mut World, resource: &str) {
        let bind = format!(
            "<iq type='set' id='bind'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
             <resource>{resource}</resource></bind></iq>"
        );
        self.ask(world, &bind, "</bind></iq>");
    }

    /// Its stanzas are counted from now on. Gives the session's name.
    pub(crate) fn enable(&mut self, world: &mut World) -> String {
        let enable = format!("<enable {SM} resume='true'/>");
        let enabled = self.ask(world, &enable, "resume='true'");
        let (_, token) = enabled.split_once("id='").expect("a name");
        let (token, _) = token.split_once('\'').expect("its end");
        token.to_owned()
    }

    pub(crate) fn resume(&mut self, token: &str, h: u32) {
        self.send(&format!("<resume {SM} previd='{token}' h='{h}'/>"));
    }
}

pub(crate) fn message(to: &str, text: impl std::fmt::Display) -> String {
    format!("<message type='chat' to='{to}'><body>{text}</body></message>")
}

/// The bodies in what a client was sent, which are numbers here.
pub(crate) fn bodies(seen: &str) -> Vec<usize> {
    let parts = seen.split("<body>").skip(1);
    let bodies = parts.filter_map(|part| part.split_once('<'));
    bodies
        .map(|(body, _)| body.parse().expect("a number"))
        .collect()
}

/// Stanzas in what a client was sent.
pub(crate) fn stanzas(seen: &str) -> u32 {
    let count = |name: &str| seen.matches(name).count() as u32;
    count("<message ") + count("<presence ") + count("<iq ")
}

/// A change of the roster.
pub(crate) const ROSTER_SET: &str = "<iq type='set' id='roster'><query xmlns='jabber:iq:roster'>\
     <item jid='nurse@localhost'/></query></iq>";
