//! A node in this process under a clock and a journal that move when the test says so, and clients
//! of it that never block.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use server::{Options, Sim};
use stdx::time::VirtualClock;
use store::{Plan, Switches, TwinJournal};

use super::{Disk, new_disk, sim_options, store_on};

/// Longest time that passes at once: timers of the node see every step.
const STEP: Duration = Duration::from_secs(5);

/// Polls after which everything is read that was written before.
const POLLS: usize = 4;

/// A node on a disk, with the users of [`USERS`].
pub(crate) struct World {
    pub(crate) disk: Disk,
    clock: VirtualClock,
    sim: Sim,
}

/// Their password is "secret".
pub(crate) const USERS: [&str; 3] = ["romeo", "juliet", "nurse"];

impl World {
    /// A node with options of its own.
    pub(crate) fn new(set: impl FnOnce(&mut Options)) -> World {
        World::with_network(net::Limits::default(), set)
    }

    /// The same with bounds of its connections.
    pub(crate) fn with_network(limits: net::Limits, set: impl FnOnce(&mut Options)) -> World {
        let disk = new_disk();
        let mut options = sim_options(1, false);
        // Clients here answer no pings.
        options.limits.idle_ping = Duration::from_secs(1_000_000);
        set(&mut options);
        let users = USERS.map(|user| format!("{user}@localhost"));
        let users: Vec<_> = users.iter().map(|user| (&**user, "secret")).collect();
        Sim::provision(&store_on(&disk), &users, 1).expect("accounts");
        let clock = VirtualClock::new();
        let store = store_on(&disk);
        let sim = Sim::start(options, limits, store, clock.clone(), 1, Plan::default());
        World {
            disk,
            clock,
            sim: sim.expect("a node"),
        }
    }

    /// Everything that can happen at this time. What a turn makes ready is polled in the next one.
    pub(crate) fn work(&mut self) {
        for _ in 0..POLLS {
            self.sim.work().expect("work");
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        let mut left = time;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.clock.advance(step);
            left -= step;
            self.work();
        }
    }

    /// Time passes at once: nobody acts on what lies in between.
    pub(crate) fn leap(&mut self, time: Duration) {
        self.clock.advance(time);
        self.work();
    }

    /// Makes an account.
    pub(crate) fn register(&mut self, user: &str) {
        let made = self
            .sim
            .make_account(&format!("{user}@localhost"), "secret");
        made.expect("a password");
        self.work();
    }

    pub(crate) fn sim(&self) -> &Sim {
        &self.sim
    }

    pub(crate) fn sim_mut(&mut self) -> &mut Sim {
        &mut self.sim
    }

    pub(crate) fn journal(&self) -> &TwinJournal {
        self.sim.journal()
    }

    pub(crate) fn switches(&self) -> Arc<Switches> {
        self.sim.journal().switches()
    }

    /// Whatever is to be recorded waits from here on.
    pub(crate) fn hold(&mut self) {
        self.switches().set_hold(true);
    }

    /// The first batch that waits happens. False if none does.
    pub(crate) fn let_one_go(&mut self) -> bool {
        let released = self.journal().release(1);
        self.work();
        released == 1
    }

    /// What waits happens, and nothing waits any more.
    pub(crate) fn let_go(&mut self) {
        self.switches().set_hold(false);
        self.journal().release(usize::MAX);
        self.work();
    }

    /// A client whose stream is open.
    pub(crate) fn connect(&mut self) -> Peer {
        let socket = self.sim.connect().expect("a socket");
        let seen = String::new();
        let mut peer = Peer { socket, seen };
        peer.ask(self, OPEN, "</stream:features>");
        peer
    }

    /// A client with a session.
    pub(crate) fn login(&mut self, user: &str) -> Peer {
        let mut peer = self.connect();
        peer.authenticate(user);
        peer.expect(self, "<success");
        peer.bind(self);
        peer
    }

    /// The same, which is available.
    pub(crate) fn online(&mut self, user: &str) -> Peer {
        let mut peer = self.login(user);
        peer.ask(self, "<presence/>", "<presence");
        peer
    }
}

/// A client.
pub(crate) struct Peer {
    socket: UnixStream,
    seen: String,
}

pub(crate) const OPEN: &str = "<stream:stream to='localhost' version='1.0' xmlns='jabber:client' \
     xmlns:stream='http://etherx.jabber.org/streams'>";

impl Peer {
    /// Begins a login.
    pub(crate) fn authenticate(&mut self, user: &str) {
        let token = xmpp::sasl::encode(&format!("\0{user}\0secret"));
        let sasl = "xmlns='urn:ietf:params:xml:ns:xmpp-sasl'";
        self.send(&format!("<auth {sasl} mechanism='PLAIN'>{token}</auth>"));
    }

    /// Ends it.
    pub(crate) fn bind(&mut self, world: &mut World) {
        self.ask(world, OPEN, "</stream:features>");
        let bind = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'/></iq>";
        self.ask(world, bind, "</bind></iq>");
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.socket.write_all(text.as_bytes()).expect("written");
    }

    pub(crate) fn say(&mut self, to: &str, body: impl std::fmt::Display) {
        self.send(&format!(
            "<message type='chat' to='{to}@localhost' id='{body}'><body>{body}</body></message>"
        ));
    }

    /// Everything that has come, and that the node has to say at this time.
    pub(crate) fn read(&mut self, world: &mut World) -> String {
        world.work();
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => panic!("closed; seen {:?}", self.seen),
                Ok(read) => {
                    let text = String::from_utf8_lossy(&buffer[..read]);
                    self.seen.push_str(&text);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("{error}; seen {:?}", self.seen),
            }
        }
        std::mem::take(&mut self.seen)
    }

    /// Everything until the node ends the stream.
    pub(crate) fn end(mut self, world: &mut World) -> String {
        world.work();
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => return self.seen,
                Ok(read) => {
                    let text = String::from_utf8_lossy(&buffer[..read]);
                    self.seen.push_str(&text);
                }
                Err(error) => panic!("still open: {error}; seen {:?}", self.seen),
            }
        }
    }

    /// What comes at this time, in which `wanted` is.
    pub(crate) fn expect(&mut self, world: &mut World, wanted: &str) -> String {
        let seen = self.read(world);
        assert!(seen.contains(wanted), "no {wanted:?} in {seen:?}");
        seen
    }

    pub(crate) fn ask(&mut self, world: &mut World, text: &str, wanted: &str) -> String {
        self.send(text);
        self.expect(world, wanted)
    }
}

/// The bodies in what a client was sent, which are numbers here.
pub(crate) fn bodies(seen: &str) -> Vec<u32> {
    let parts = seen.split("<body>").skip(1);
    let bodies = parts.filter_map(|part| part.split_once('<'));
    bodies
        .map(|(body, _)| body.parse().expect("a number"))
        .collect()
}
