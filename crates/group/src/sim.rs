//! Many nodes in one thread, over a simulated network and under virtual time.
//!
//! Owns the network between real nodes (everything above the sockets is the code that production
//! runs): latency, order per connection, nodes that crash, vanish or start again, links that are
//! cut, and what a frame costs its node. The same seed gives the same run. Deliberately not here:
//! what is done with the nodes.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use actor::{Addr, Mail, Shard, Waker, system};
use stdx::rand::Rng;
use stdx::{Clock, Moment, VirtualClock};

use crate::command::{Answer, Command, Note};
use crate::config::Saved;
use crate::host::{AnswerTo, Mailed, NodeActor, NodeMsg, Transport, Witness};
use crate::node::Machine;
use crate::runtime::{Options, StartError};
use crate::types::{NodeName, Refusal};

/// The network and the processors of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// How long a byte is on its way, at least.
    pub latency: Duration,
    /// Up to so much longer, drawn anew for each write.
    pub jitter: Duration,
    /// What a frame that comes costs its node's processor.
    pub frame_in: Duration,
    /// What a frame that leaves costs it.
    pub frame_out: Duration,
    /// What a turn of the node costs that is not about a frame: a timer.
    pub turn: Duration,
}

impl Default for Costs {
    /// A millisecond of latency; processors are infinitely fast.
    fn default() -> Self {
        Costs {
            latency: Duration::from_millis(1),
            jitter: Duration::from_millis(1),
            frame_in: Duration::ZERO,
            frame_out: Duration::ZERO,
            turn: Duration::ZERO,
        }
    }
}

/// What a node's transport was told to do.
enum Out {
    Dial { conn: u64, node: NodeName },
    Write { conn: u64, bytes: Vec<u8> },
    Close { conn: u64 },
    Accepted { incoming: u64, conn: u64 },
    Forget { conn: u64 },
}

struct SimTransport(Rc<RefCell<Vec<Out>>>);

impl SimTransport {
    fn push(&mut self, out: Out) {
        self.0.borrow_mut().push(out);
    }
}

impl Transport for SimTransport {
    fn dial(&mut self, conn: u64, node: &NodeName) {
        let node = node.clone();
        self.push(Out::Dial { conn, node });
    }

    fn write(&mut self, conn: u64, bytes: Vec<u8>) {
        self.push(Out::Write { conn, bytes });
    }

    fn close(&mut self, conn: u64) {
        self.push(Out::Close { conn });
    }

    fn consumed(&mut self, _: u64, _: usize) {}

    fn accepted(&mut self, incoming: u64, conn: u64) {
        self.push(Out::Accepted { incoming, conn });
    }

    fn forget(&mut self, conn: u64) {
        self.push(Out::Forget { conn });
    }
}

/// What is kept of a node across its lives.
#[derive(Default)]
struct Kept {
    saved: Option<Saved>,
    notes: Vec<Note>,
}

struct SimWitness(Rc<RefCell<Kept>>);

impl Witness for SimWitness {
    fn note(&mut self, note: &Note) {
        let mut kept = self.0.borrow_mut();
        if kept.notes.len() < NOTES_MAX {
            kept.notes.push(note.clone());
        }
    }

    fn save(&mut self, saved: &Saved) {
        self.0.borrow_mut().saved = Some(saved.clone());
    }
}

/// Notes of one node that are kept until [`World::notes`] takes them; later ones are left out.
const NOTES_MAX: usize = 4_096;

struct NoWaker;

impl Waker for NoWaker {
    fn wake(&self) {}
}

/// A node that runs.
struct Running {
    shard: Shard,
    addr: Addr<NodeMsg>,
}

struct SimNode {
    name: NodeName,
    running: Option<Running>,
    life: u64,
    outbox: Rc<RefCell<Vec<Out>>>,
    kept: Rc<RefCell<Kept>>,
    inbox: VecDeque<Arrival>,
    is_scheduled: bool,
    is_stalled: bool,
    is_frozen: bool,
    busy_until: Moment,
    timer_at: Option<Moment>,
    /// Connections of this life: which pipe, and whether this is its dialling end.
    conns: HashMap<u64, (u64, bool)>,
    frames: u64,
    bytes: u64,
}

/// Something for a node, and whom to tell that it was read.
struct Arrival {
    msg: NodeMsg,
    frames: u32,
    /// The writer's node, life, connection and number of bytes.
    written: Option<(usize, u64, u64, usize)>,
}

#[derive(Clone, Copy)]
struct End {
    node: usize,
    life: u64,
    conn: u64,
}

/// One connection.
struct Pipe {
    dialler: End,
    acceptor: Option<End>,
    acceptor_node: usize,
    /// When the last byte of each direction arrives.
    last: [Moment; 2],
    /// Bytes were lost: nothing arrives any more.
    is_dead: bool,
}

enum Event {
    Arrive {
        node: usize,
        life: u64,
        arrival: Arrival,
    },
    Run {
        node: usize,
        life: u64,
    },
    Timer {
        node: usize,
        life: u64,
    },
}

/// Nodes and the network between them.
pub struct World {
    clock: VirtualClock,
    costs: Costs,
    rng: Rng,
    nodes: Vec<SimNode>,
    by_name: BTreeMap<NodeName, usize>,
    pipes: HashMap<u64, Pipe>,
    next_pipe: u64,
    queue: BinaryHeap<Reverse<(Moment, u64)>>,
    events: HashMap<u64, Event>,
    next_event: u64,
    cuts: BTreeSet<(usize, usize)>,
    steps: u64,
}

/// An answer that comes while the world runs.
pub struct Ticket(Receiver<Answer>);

impl Ticket {
    /// The answer, once it is there.
    pub fn take(&self) -> Option<Answer> {
        self.0.try_recv().ok()
    }
}

impl World {
    /// A world without nodes.
    pub fn new(seed: u64, costs: Costs) -> Self {
        World {
            clock: VirtualClock::new(),
            costs,
            rng: Rng::with_seed(seed),
            nodes: Vec::new(),
            by_name: BTreeMap::new(),
            pipes: HashMap::new(),
            next_pipe: 0,
            queue: BinaryHeap::new(),
            events: HashMap::new(),
            next_event: 0,
            cuts: BTreeSet::new(),
            steps: 0,
        }
    }

    /// The virtual time.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Turns of nodes so far.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Frames and bytes that a node has written, over all its lives.
    pub fn traffic(&self, node: &NodeName) -> (u64, u64) {
        let at = self.by_name.get(node);
        at.map_or((0, 0), |at| (self.nodes[*at].frames, self.nodes[*at].bytes))
    }

    /// What a node has noted since this was asked last.
    pub fn notes(&mut self, node: &NodeName) -> Vec<Note> {
        let at = self.by_name.get(node);
        at.map_or_else(Vec::new, |at| {
            std::mem::take(&mut self.nodes[*at].kept.borrow_mut().notes)
        })
    }

    // ---- Nodes ---------------------------------------------------------------------------------

    /// Starts a node, or starts it again. Its groups of the last life are known to it unless
    /// [`World::forget`] was called; a node that runs is left alone.
    ///
    /// # Errors
    /// [`StartError`] of a bad name or configuration.
    pub fn start(&mut self, options: Options) -> Result<NodeName, StartError> {
        let name = NodeName::new(options.name())?;
        let at = self.add(&name);
        if self.nodes[at].running.is_some() {
            return Ok(name);
        }
        let seed = self.rng.u64(..);
        let node = &mut self.nodes[at];
        node.life += 1;
        let saved = node.kept.borrow().saved.clone();
        let (settings, functions, limits) = options.into_parts(saved, node.life, seed)?;
        let (_, seeds) = system(actor::Options::new(1, seed));
        let Some(seed) = seeds.into_iter().next() else {
            return Ok(name);
        };
        let mut shard = seed.build(Arc::new(self.clock.clone()), Arc::new(NoWaker));
        shard.set_mailbox_max::<Mailed>(limits.mailbox_max);
        shard.set_mailbox_max::<NodeMsg>(limits.queue_max.max(1));
        let machine = Machine::new(settings, self.clock.now());
        let transport = Box::new(SimTransport(Rc::clone(&node.outbox)));
        let witness = Box::new(SimWitness(Rc::clone(&node.kept)));
        let addr = shard.spawn(NodeActor::new(machine, functions, transport, witness));
        node.running = Some(Running { shard, addr });
        self.turn(at, Duration::ZERO);
        Ok(name)
    }

    fn add(&mut self, name: &NodeName) -> usize {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        self.nodes.push(SimNode {
            name: name.clone(),
            running: None,
            life: 0,
            outbox: Rc::default(),
            kept: Rc::default(),
            inbox: VecDeque::new(),
            is_scheduled: false,
            is_stalled: false,
            is_frozen: false,
            busy_until: Moment::ZERO,
            timer_at: None,
            conns: HashMap::new(),
            frames: 0,
            bytes: 0,
        });
        self.by_name.insert(name.clone(), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// Ends a node as `kill -9` does: the others see its connections break.
    pub fn crash(&mut self, node: &NodeName) {
        self.end(node, true);
    }

    /// Ends a node as a power failure does: the others see nothing.
    pub fn vanish(&mut self, node: &NodeName) {
        self.end(node, false);
    }

    fn end(&mut self, node: &NodeName, is_seen: bool) {
        let Some(at) = self.by_name.get(node).copied() else {
            return;
        };
        let node = &mut self.nodes[at];
        node.running = None;
        node.life += 1;
        node.inbox.clear();
        node.outbox.borrow_mut().clear();
        (node.is_scheduled, node.timer_at) = (false, None);
        (node.is_stalled, node.is_frozen) = (false, false);
        let mut conns: Vec<u64> = node.conns.keys().copied().collect();
        // The table has no order of its own, and a simulation must repeat itself.
        conns.sort_unstable();
        for conn in conns {
            if is_seen {
                self.close(at, conn);
            } else if let Some((pipe, _)) = self.nodes[at].conns.remove(&conn)
                && let Some(pipe) = self.pipes.get_mut(&pipe)
            {
                pipe.is_dead = true;
            }
        }
    }

    /// Forgets what a node that does not run would know in its next life.
    pub fn forget(&mut self, node: &NodeName) {
        if let Some(at) = self.by_name.get(node) {
            self.nodes[*at].kept.borrow_mut().saved = None;
        }
    }

    /// Whether a node runs.
    pub fn is_running(&self, node: &NodeName) -> bool {
        let at = self.by_name.get(node);
        at.is_some_and(|at| self.nodes[*at].running.is_some())
    }

    /// Loses everything that two nodes send to each other, until [`World::heal`].
    pub fn cut(&mut self, one: &NodeName, other: &NodeName) {
        if let Some(pair) = self.pair(one, other) {
            self.cuts.insert(pair);
        }
    }

    /// Connects two nodes again. Connections on which something was lost stay dead.
    pub fn heal(&mut self, one: &NodeName, other: &NodeName) {
        if let Some(pair) = self.pair(one, other) {
            self.cuts.remove(&pair);
        }
    }

    fn pair(&self, one: &NodeName, other: &NodeName) -> Option<(usize, usize)> {
        let (one, other) = (*self.by_name.get(one)?, *self.by_name.get(other)?);
        Some((one.min(other), one.max(other)))
    }

    /// Has a node read nothing, or go on.
    pub fn stall(&mut self, node: &NodeName, is_stalled: bool) {
        if let Some(at) = self.by_name.get(node).copied() {
            self.nodes[at].is_stalled = is_stalled;
            self.schedule(at);
        }
    }

    /// Has a node do nothing at all, as if its machine was suspended, or go on.
    pub fn freeze(&mut self, node: &NodeName, is_frozen: bool) {
        if let Some(at) = self.by_name.get(node).copied() {
            self.nodes[at].is_frozen = is_frozen;
            if !is_frozen {
                self.turn(at, Duration::ZERO);
                self.schedule(at);
            }
        }
    }

    /// Gives a node a command.
    pub fn command(&mut self, node: &NodeName, command: Command) -> Ticket {
        let (to, from) = sync_channel(1);
        if let Some(at) = self.by_name.get(node).copied() {
            let msg = NodeMsg::Command(command, AnswerTo::Channel(to));
            self.hand_over(at, msg);
            self.turn(at, Duration::ZERO);
        }
        Ticket(from)
    }

    /// Gives a node a command and runs the world until it is answered.
    pub fn ask(&mut self, node: &NodeName, command: Command) -> Option<Answer> {
        let ticket = self.command(node, command);
        let until = self.clock.now() + ASK_MAX;
        loop {
            if let Some(answer) = ticket.take() {
                return Some(answer);
            }
            if !self.step(until) {
                return None;
            }
        }
    }

    // ---- Time ----------------------------------------------------------------------------------

    /// Runs everything that happens within a while.
    pub fn run_for(&mut self, time: Duration) {
        let until = self.clock.now() + time;
        while self.step(until) {}
        self.clock.set(until);
    }

    /// The next thing that happens, if it does before a moment.
    fn step(&mut self, until: Moment) -> bool {
        let Some(Reverse((at, number))) = self.queue.peek().copied() else {
            return false;
        };
        if at > until {
            return false;
        }
        self.queue.pop();
        let Some(event) = self.events.remove(&number) else {
            return true;
        };
        self.clock.set(at.max(self.clock.now()));
        match event {
            Event::Arrive {
                node,
                life,
                arrival,
            } => {
                if self.nodes[node].life == life {
                    self.nodes[node].inbox.push_back(arrival);
                    self.schedule(node);
                }
            }
            Event::Run { node, life } if self.nodes[node].life == life => self.run(node),
            Event::Timer { node, life } if self.nodes[node].life == life => {
                if self.nodes[node].timer_at == Some(at) {
                    self.nodes[node].timer_at = None;
                    self.turn(node, self.costs.turn);
                }
            }
            Event::Run { .. } | Event::Timer { .. } => {}
        }
        true
    }

    fn push(&mut self, at: Moment, event: Event) {
        self.next_event += 1;
        self.events.insert(self.next_event, event);
        self.queue.push(Reverse((at, self.next_event)));
    }

    fn schedule(&mut self, node: usize) {
        let now = self.clock.now();
        let it = &mut self.nodes[node];
        if it.is_scheduled || it.is_stalled || it.is_frozen || it.inbox.is_empty() {
            return;
        }
        it.is_scheduled = true;
        let (at, life) = (it.busy_until.max(now), it.life);
        self.push(at, Event::Run { node, life });
    }

    /// One thing that has arrived at a node.
    fn run(&mut self, at: usize) {
        self.nodes[at].is_scheduled = false;
        if self.nodes[at].is_stalled || self.nodes[at].is_frozen {
            return;
        }
        let Some(arrival) = self.nodes[at].inbox.pop_front() else {
            return;
        };
        if let Some((node, life, conn, bytes)) = arrival.written {
            let arrival = Arrival {
                msg: NodeMsg::Written(conn, bytes),
                frames: 0,
                written: None,
            };
            let event = Event::Arrive {
                node,
                life,
                arrival,
            };
            self.push(self.clock.now(), event);
        }
        let cost = self.costs.frame_in * arrival.frames;
        self.hand_over(at, arrival.msg);
        self.turn(at, cost);
        self.schedule(at);
    }

    fn hand_over(&mut self, at: usize, msg: NodeMsg) {
        if let Some(Running { shard, addr }) = &mut self.nodes[at].running {
            shard.begin();
            // One thing at a time: the lane is never full.
            let _ = shard.send_priority(*addr, msg);
        }
    }

    /// Lets a node do what it has to do now, and carries out what it wants of the network.
    fn turn(&mut self, at: usize, cost: Duration) {
        let node = &mut self.nodes[at];
        if node.is_frozen {
            return;
        }
        let Some(Running { shard, .. }) = &mut node.running else {
            return;
        };
        let deadline = loop {
            self.steps += 1;
            let turn = shard.turn();
            if !turn.more {
                break turn.next_deadline;
            }
        };
        let out: Vec<Out> = std::mem::take(&mut *node.outbox.borrow_mut());
        let frames: u32 = out.iter().map(Out::frames).sum();
        let now = self.clock.now();
        let cost = cost + self.costs.frame_out * frames;
        node.busy_until = node.busy_until.max(now) + cost;
        node.frames += u64::from(frames);
        let leaves = node.busy_until;
        if let Some(due) = deadline
            && node.timer_at.is_none_or(|old| due < old || old <= now)
        {
            node.timer_at = Some(due.max(now));
            let life = node.life;
            self.push(due.max(now), Event::Timer { node: at, life });
        }
        for out in out {
            self.carry_out(at, out, leaves);
        }
    }

    // ---- The network ---------------------------------------------------------------------------

    fn carry_out(&mut self, at: usize, out: Out, leaves: Moment) {
        match out {
            Out::Dial { conn, node } => self.dial(at, conn, &node, leaves),
            Out::Write { conn, bytes } => self.write(at, conn, bytes, leaves),
            Out::Close { conn } => self.close(at, conn),
            Out::Accepted { incoming, conn } => self.accepted(at, incoming, conn),
            Out::Forget { conn } => self.forget_conn(at, conn),
        }
    }

    fn latency(&mut self) -> Duration {
        let jitter = self.costs.jitter.as_nanos() as u64;
        self.costs.latency + Duration::from_nanos(self.rng.u64(..=jitter))
    }

    fn is_cut(&self, one: usize, other: usize) -> bool {
        self.cuts.contains(&(one.min(other), one.max(other)))
    }

    fn dial(&mut self, at: usize, conn: u64, node: &NodeName, leaves: Moment) {
        let life = self.nodes[at].life;
        let arrives = leaves + self.latency();
        let other = self.by_name.get(node).copied();
        let other = other.filter(|other| self.nodes[*other].running.is_some());
        let Some(other) = other else {
            let msg = NodeMsg::Closed(conn, Refusal::Broken);
            return self.arrive(arrives, at, life, msg);
        };
        self.next_pipe += 1;
        let pipe = self.next_pipe;
        let is_dead = self.is_cut(at, other);
        let dialler = End {
            node: at,
            life,
            conn,
        };
        let new = Pipe {
            dialler,
            acceptor: None,
            acceptor_node: other,
            last: [arrives; 2],
            is_dead,
        };
        self.pipes.insert(pipe, new);
        self.nodes[at].conns.insert(conn, (pipe, true));
        if !is_dead {
            let life = self.nodes[other].life;
            self.arrive(arrives, other, life, NodeMsg::Incoming(pipe));
        }
    }

    fn arrive(&mut self, at: Moment, node: usize, life: u64, msg: NodeMsg) {
        let arrival = Arrival {
            msg,
            frames: 0,
            written: None,
        };
        let event = Event::Arrive {
            node,
            life,
            arrival,
        };
        self.push(at, event);
    }

    fn accepted(&mut self, at: usize, number: u64, conn: u64) {
        let life = self.nodes[at].life;
        let latency = self.latency();
        let Some(pipe) = self.pipes.get_mut(&number) else {
            return;
        };
        pipe.acceptor = Some(End {
            node: at,
            life,
            conn,
        });
        let End {
            node,
            life,
            conn: dialler,
        } = pipe.dialler;
        let arrives = pipe.last[1].max(self.clock.now() + latency);
        pipe.last[1] = arrives;
        self.nodes[at].conns.insert(conn, (number, false));
        self.arrive(arrives, node, life, NodeMsg::Opened(dialler));
    }

    /// The other end of a connection, and when what leaves now arrives there.
    fn far_end(&mut self, at: usize, conn: u64, leaves: Moment) -> Option<(End, Moment)> {
        let (number, is_dialler) = *self.nodes[at].conns.get(&conn)?;
        let latency = self.latency();
        let other = {
            let pipe = self.pipes.get(&number)?;
            if is_dialler {
                pipe.acceptor_node
            } else {
                pipe.dialler.node
            }
        };
        let is_cut = self.is_cut(at, other);
        let pipe = self.pipes.get_mut(&number)?;
        pipe.is_dead |= is_cut;
        if pipe.is_dead {
            return None;
        }
        let end = if is_dialler {
            pipe.acceptor?
        } else {
            pipe.dialler
        };
        let last = &mut pipe.last[usize::from(!is_dialler)];
        *last = (*last).max(leaves + latency);
        Some((end, *last))
    }

    fn write(&mut self, at: usize, conn: u64, bytes: Vec<u8>, leaves: Moment) {
        let frames = count_frames(&bytes);
        self.nodes[at].bytes += bytes.len() as u64;
        let life = self.nodes[at].life;
        let len = bytes.len();
        if let Some((end, arrives)) = self.far_end(at, conn, leaves) {
            let arrival = Arrival {
                msg: NodeMsg::Received(end.conn, bytes),
                frames,
                written: Some((at, life, conn, len)),
            };
            let event = Event::Arrive {
                node: end.node,
                life: end.life,
                arrival,
            };
            self.push(arrives, event);
        }
    }

    fn close(&mut self, at: usize, conn: u64) {
        let leaves = self.nodes[at].busy_until.max(self.clock.now());
        if let Some((end, arrives)) = self.far_end(at, conn, leaves) {
            let msg = NodeMsg::Closed(end.conn, Refusal::Broken);
            self.arrive(arrives, end.node, end.life, msg);
        }
        self.forget_conn(at, conn);
    }

    fn forget_conn(&mut self, at: usize, conn: u64) {
        if let Some((number, _)) = self.nodes[at].conns.remove(&conn) {
            let is_last = self
                .pipes
                .get(&number)
                .is_some_and(|pipe| pipe.is_closed(self));
            if is_last {
                self.pipes.remove(&number);
            }
        }
    }

    /// The names of all nodes that were ever started.
    pub fn names(&self) -> Vec<NodeName> {
        self.nodes.iter().map(|node| node.name.clone()).collect()
    }
}

impl Pipe {
    /// Whether neither end knows it any more.
    fn is_closed(&self, world: &World) -> bool {
        let knows = |end: &End| {
            let node = &world.nodes[end.node];
            node.life == end.life && node.conns.contains_key(&end.conn)
        };
        !knows(&self.dialler) && !self.acceptor.as_ref().is_some_and(knows)
    }
}

/// How long [`World::ask`] waits for an answer, in virtual time.
const ASK_MAX: Duration = Duration::from_secs(60);

impl Out {
    fn frames(&self) -> u32 {
        match self {
            Out::Write { bytes, .. } => count_frames(bytes),
            _ => 0,
        }
    }
}

/// Frames of what a node writes at once, which is whole frames.
fn count_frames(bytes: &[u8]) -> u32 {
    let (mut rest, mut count) = (bytes, 0);
    while let Some((prefix, body)) = rest.split_first_chunk::<4>() {
        rest = body
            .get(u32::from_be_bytes(*prefix) as usize..)
            .unwrap_or(&[]);
        count += 1;
    }
    count
}
