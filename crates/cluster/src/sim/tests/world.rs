//! The world of a schedule: events in order of time, faults by chance, and what must hold.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::time::Duration;

use stdx::Moment;
use stdx::rand::Rng;
use store::Store;

use super::kv::Bucket;
use super::load::{self, Fate, Stats};
use super::node::{Node, STREAMS, layout};
use super::stream::{Stream, To};
use super::trace::Trace;
use crate::journal::member;
use crate::journal::message::{Author, Body, Entry, Message, Run};
use crate::journal::writer::{Refused, Token};
use crate::journal::{Answer, Found, Publish, Seq};
use crate::layout::StreamId;
use crate::map::keeper;
use crate::map::{Key, Revision};

/// Faults begin and end within this, then everything is mended.
const FAULTS: Duration = Duration::from_secs(60);
/// How long after the last fault everything must go on and come to rest.
const QUIET: Duration = Duration::from_secs(45);

const TICK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) enum Asked {
    Publish(Publish),
    Read(Seq),
    Last,
}

#[derive(Debug)]
pub(super) enum Said {
    Answer(u64, Answer),
    Found(Seq, Found),
    Last(Option<Seq>),
}

#[derive(Debug)]
pub(super) enum Put {
    Node(String, Option<Revision>, String, Option<Moment>),
    Home(String, Revision, String),
}

#[derive(Debug)]
pub(super) enum Event {
    Ask(To, usize, Asked),
    Say(To, usize, Said),
    Put(To, Put),
    Renewed(To, Moment, Revision),
    Tick(To),
    Client,
    Commit(usize),
    Elected(usize),
    MapElected,
    Quorum(usize),
    Start(usize),
    /// A process that ends in order has ended.
    Gone(To),
    Fault,
    Snapshot(usize, usize),
    Mend,
}

struct Queued(Moment, u64, Event);

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}
impl Eq for Queued {}
impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now: Moment,
    queue: BinaryHeap<Reverse<Queued>>,
    queued: u64,
    pub(super) nodes: Vec<Node>,
    pub(super) streams: Vec<Stream>,
    map: Bucket,
    pub(super) tokens: u64,
    pub(super) fates: BTreeMap<Token, (usize, To, Fate)>,
    /// The newest epoch record of each stream behind which a rival was let loose.
    rivals: HashMap<usize, Seq>,
    /// The newest snapshot of each stream.
    snapshots: tempfile::TempDir,
    pub(super) is_quiet: bool,
    pub(super) stats: Stats,
    pub(super) problem: Option<String>,
    /// What happens, for whoever reads of a problem.
    pub(super) trace: Trace,
}

impl World {
    /// Plays a schedule.
    pub(super) fn run(seed: u64) -> Result<Stats, String> {
        let mut world = World::new(seed);
        let end = Moment::ZERO + FAULTS + QUIET;
        while let Some(Reverse(Queued(at, _, event))) = world.queue.pop() {
            if at > end {
                break;
            }
            world.now = at;
            world.trace.event(at, &event);
            world.on_event(event);
            world.two_homes();
            if let Some(problem) = world.problem.take() {
                return Err(format!("at {:?}: {problem}", world.now));
            }
        }
        world.check()?;
        Ok(world.stats)
    }

    fn new(seed: u64) -> World {
        let mut rng = Rng::with_seed(seed);
        let window = [2, 120][rng.usize(..2)];
        let nodes = 3 + rng.usize(..2);
        let rate = |rng: &mut Rng| 950 + rng.u64(..100);
        let names = ["a", "b", "c", "d"];
        let names = names.iter().take(nodes);
        let mut world = World {
            nodes: names
                .map(|name| Node::new((*name).to_owned(), rate(&mut rng)))
                .collect(),
            streams: (0..STREAMS)
                .map(|_| Stream::new(Duration::from_secs(window)))
                .collect(),
            rng,
            now: Moment::ZERO,
            queue: BinaryHeap::new(),
            queued: 0,
            map: Bucket::default(),
            tokens: 0,
            fates: BTreeMap::new(),
            rivals: HashMap::new(),
            snapshots: tempfile::tempdir().unwrap(),
            is_quiet: false,
            stats: Stats::default(),
            problem: None,
            trace: Trace::new(seed),
        };
        for node in 0..nodes {
            world.push(0, Event::Start(node));
        }
        world.push(100, Event::Client);
        world.push(5_000, Event::Fault);
        world.push(FAULTS.as_millis() as u64, Event::Mend);
        world
    }

    pub(super) fn push(&mut self, millis: u64, event: Event) {
        self.push_micros(millis * 1_000, event);
    }

    fn push_micros(&mut self, micros: u64, event: Event) {
        self.queued += 1;
        let at = self.now + Duration::from_micros(micros);
        self.queue.push(Reverse(Queued(at, self.queued, event)));
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.u64(..100) < percent
    }

    pub(super) fn problem(&mut self, why: String) {
        self.problem.get_or_insert(why);
    }

    /// A message between a node and the engine arrives after a while, or not at all.
    fn send(&mut self, node: usize, event: Event) {
        let is_cut = self.nodes[node].cut_until > self.now;
        let is_lost = !self.is_quiet && self.chance(1);
        if !is_cut && !is_lost {
            let is_slow = !self.is_quiet && self.chance(2);
            let micros = self.rng.u64(200..if is_slow { 800_000 } else { 3_000 });
            self.push_micros(micros, event);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Ask(from, stream, asked) => self.on_asked(from, stream, asked),
            Event::Put(from, put) => self.on_put(from, put),
            Event::Say(to, stream, said) => self.at_node(to, Event::Say(to, stream, said)),
            Event::Renewed(to, at, revision) => self.at_node(to, Event::Renewed(to, at, revision)),
            Event::Tick(to) => self.at_node(to, Event::Tick(to)),
            Event::Client => self.on_client(),
            Event::Commit(stream) => self.on_commit(stream),
            Event::Elected(stream) => {
                self.streams[stream].elect();
                self.on_commit(stream);
            }
            Event::MapElected => self.on_map(true),
            Event::Quorum(stream) => {
                self.streams[stream].has_quorum = true;
                self.on_commit(stream);
            }
            Event::Start(node) => self.start(node),
            Event::Gone(to) => self.gone(to),
            Event::Fault => self.on_fault(),
            Event::Snapshot(node, stream) => self.snapshot(node, stream),
            Event::Mend => self.mend(),
        }
    }

    fn start(&mut self, node: usize) {
        if self.nodes[node].process.is_none() {
            self.nodes[node].start(self.now);
            let to = (node, self.nodes[node].incarnation);
            self.push(0, Event::Tick(to));
        }
    }

    /// Something happens to a process, unless it is another one by now, or paused.
    fn at_node(&mut self, to: To, event: Event) {
        let (at, life) = to;
        let node = &mut self.nodes[at];
        if node.incarnation != life {
            return;
        }
        let paused = node.paused_until.saturating_since(self.now);
        let local = node.local(self.now);
        let refusing = self.refusing(&event);
        let node = &mut self.nodes[at];
        let Some(process) = &mut node.process else {
            return;
        };
        if !paused.is_zero() {
            return self.push_micros(paused.as_micros() as u64, event);
        }
        let follower = &mut process.follower;
        match event {
            Event::Say(_, stream, said) => {
                let member = &mut process.members[stream];
                match said {
                    Said::Answer(number, answer) => {
                        member.on_answer(local, number, answer, follower);
                    }
                    Said::Found(seq, found) => member.on_found(local, seq, &found, follower),
                    Said::Last(last) => member.on_last(local, last),
                }
            }
            Event::Renewed(_, sent, revision) => process.keeper.on_renewed(sent, revision),
            Event::Tick(to) => {
                for name in &refusing {
                    process.keeper.on_refused(name);
                }
                for member in &mut process.members {
                    member.on_time(local, follower);
                }
                process.keeper.on_time(local);
                self.deliver(at);
                self.watch(at);
                self.push(TICK.as_millis() as u64, Event::Tick(to));
            }
            _ => {}
        }
        self.effects(at);
    }

    /// Nodes that refuse connections when one looks: those that are dead, and now and then one
    /// that lives, for something on the way may say so.
    fn refusing(&mut self, event: &Event) -> Vec<String> {
        if !matches!(event, Event::Tick(_)) {
            return Vec::new();
        }
        let mut refusing = Vec::new();
        for at in 0..self.nodes.len() {
            if self.nodes[at].process.is_none() || self.rng.u64(..200) == 0 {
                refusing.push(self.nodes[at].name.clone());
            }
        }
        refusing
    }

    /// The consumer of a node gets on, or stalls for now.
    fn deliver(&mut self, at: usize) {
        let local = self.nodes[at].local(self.now);
        for stream in 0..usize::from(STREAMS) {
            let stalls = self.stalls(at);
            let is_cut = self.nodes[at].cut_until > self.now;
            let most = self.rng.u64(1..20);
            let Some(process) = self.nodes[at]
                .process
                .as_mut()
                .filter(|_| !stalls && !is_cut)
            else {
                continue;
            };
            let member = &mut process.members[stream];
            // A consumer that was made anew begins behind what was applied.
            let mut from = process.delivered[stream].max(member.mark().seq);
            if from + 1 < self.streams[stream].first {
                let file = self.snapshots.path().join(stream.to_string());
                let (number, ranges) = (stream as u16, member.replica().ranges().to_vec());
                let loaded = process.follower.load_snapshot(number, &ranges, &file);
                from = loaded.unwrap().seq;
                self.trace
                    .say(self.now, || format!("{at} loads stream {stream} at {from}"));
                member.on_snapshot(&mut process.follower);
                self.stats.loaded += 1;
            }
            let through = self.streams[stream].len().min(from + most);
            for seq in from + 1..=through {
                let bytes = self.streams[stream].message(seq).unwrap();
                member.on_message(local, seq, &bytes, &mut process.follower);
            }
            process.delivered[stream] = through;
            if through > from {
                let read = format_args!("{at} reads {} to {through} of stream {stream}", from + 1);
                self.trace.say(self.now, || read.to_string());
            }
        }
    }

    fn stalls(&mut self, at: usize) -> bool {
        let is_stalled = self.nodes[at].stalled_until > self.now;
        is_stalled || (!self.is_quiet && self.chance(30))
    }

    fn watch(&mut self, at: usize) {
        let stalls = self.stalls(at);
        let (is_cut, is_down) = (self.nodes[at].cut_until > self.now, self.map.is_down);
        let local = self.nodes[at].local(self.now);
        let Some(process) = &mut self.nodes[at].process else {
            return;
        };
        process.keeper.on_leader(local, !is_cut && !is_down);
        if stalls || is_cut {
            return;
        }
        for (at, (key, value)) in self.map.history.iter().enumerate().skip(process.watched) {
            let revision = at as Revision + 1;
            let keeper = &mut process.keeper;
            match Key::parse(key).unwrap() {
                Key::Home(stream) => {
                    let home = serde_json::from_str(value).unwrap();
                    keeper.on_home(local, stream, revision, home);
                }
                Key::Node(name) => {
                    let node = serde_json::from_str(value).unwrap();
                    keeper.on_node(local, &name, revision, node);
                }
            }
        }
        process.watched = self.map.history.len();
    }

    /// Performs what a process wants done.
    pub(super) fn effects(&mut self, at: usize) {
        let to = (at, self.nodes[at].incarnation);
        for _ in 0..1_000 {
            let Some(process) = &mut self.nodes[at].process else {
                return;
            };
            let members = process.members.iter_mut().enumerate();
            let mut polled = members.filter_map(|(stream, member)| Some((stream, member.poll()?)));
            if let Some((stream, effect)) = polled.next() {
                self.on_member(to, stream, effect);
            } else if let Some(effect) = process.keeper.poll() {
                self.on_keeper(to, effect);
            } else {
                return;
            }
        }
        self.problem("effects without end".to_owned());
    }

    fn on_member(&mut self, to: To, stream: usize, effect: member::Effect) {
        let ask = |asked| Event::Ask(to, stream, asked);
        self.trace.member(self.now, to, stream, &effect);
        match effect {
            member::Effect::Publish(publish) => self.send(to.0, ask(Asked::Publish(publish))),
            member::Effect::Read(seq) => self.send(to.0, ask(Asked::Read(seq))),
            member::Effect::AskLast => self.send(to.0, ask(Asked::Last)),
            member::Effect::Serving { .. } => {
                self.stats.take_overs += 1;
                self.purge_soon(stream);
            }
            member::Effect::Committed(tokens) => {
                for (token, _) in tokens {
                    self.on_accepted(stream, token);
                }
            }
            member::Effect::Failed(tokens) => {
                for token in tokens {
                    self.on_failed(stream, token);
                }
            }
            member::Effect::Unknown(tokens) => {
                for token in tokens {
                    self.set(token, Fate::Unknown);
                }
            }
            member::Effect::InDoubt(tokens) => {
                for token in tokens {
                    self.stats.in_doubt += 1;
                    self.set(token, Fate::InDoubt);
                }
            }
            member::Effect::Quorum(has) => self.stats.without_quorum += u64::from(!has),
            member::Effect::Ended(epoch, _) => {
                let local = self.nodes[to.0].local(self.now);
                if let Some(process) = &mut self.nodes[to.0].process {
                    let seen = process.members[stream].mark().epoch;
                    let stream = StreamId(stream as u16);
                    process.keeper.on_ended(local, stream, epoch, seen);
                }
            }
            member::Effect::Diverged(divergence) => self.problem(format!("{divergence:?}")),
            member::Effect::Stuck(error) => self.problem(format!("a replica is stuck: {error}")),
        }
    }

    fn on_keeper(&mut self, to: To, effect: keeper::Effect) {
        let (local, now) = (self.nodes[to.0].local(self.now), to.0);
        let json = |node: &crate::map::Node| serde_json::to_string(node).unwrap();
        self.trace.keeper(self.now, to, &effect);
        match effect {
            keeper::Effect::Renew(sent, revision, node) => {
                let key = Key::Node(self.nodes[to.0].name.clone()).name();
                let put = Put::Node(key, Some(revision), json(&node), Some(sent));
                self.send(now, Event::Put(to, put));
            }
            keeper::Effect::Fence(name, revision, node) => {
                let is_blind = crate::flaw::is(crate::flaw::Flaw::FenceIsBlind);
                let expected = (!is_blind).then_some(revision);
                let put = Put::Node(Key::Node(name).name(), expected, json(&node), None);
                self.send(now, Event::Put(to, put));
            }
            keeper::Effect::Change(stream, revision, home) => {
                let value = serde_json::to_string(&home).unwrap();
                let put = Put::Home(Key::Home(stream).name(), revision, value);
                self.send(now, Event::Put(to, put));
            }
            keeper::Effect::TakeOver(stream, epoch) => {
                if let Some(process) = &mut self.nodes[to.0].process {
                    process.members[usize::from(stream.0)].take_over(local, epoch);
                }
            }
            keeper::Effect::StepDown(stream) => {
                if let Some(process) = &mut self.nodes[to.0].process {
                    process.members[usize::from(stream.0)].step_down();
                }
            }
        }
    }

    fn on_asked(&mut self, from: To, at: usize, asked: Asked) {
        // A leader that does not know yet that it is deposed answers from what it has.
        let behind = match !self.is_quiet && self.chance(3) {
            true => self.rng.u64(..3),
            false => 0,
        };
        let stream = &mut self.streams[at];
        let said = match asked {
            Asked::Publish(publish) => {
                let number = publish.number;
                let answer = stream.publish(self.now, publish, Some(from));
                self.push_micros(500, Event::Commit(at));
                match answer {
                    Some(answer) => Said::Answer(number, answer),
                    None => return,
                }
            }
            Asked::Read(seq) => Said::Found(seq, stream.read(seq, behind)),
            Asked::Last => Said::Last(stream.last(behind)),
        };
        self.send(from.0, Event::Say(from, at, said));
    }

    fn on_commit(&mut self, at: usize) {
        let before = self.streams[at].len();
        for (to, number, seq) in self.streams[at].commit(self.now) {
            let said = Said::Answer(number, Answer::Stored(seq));
            self.send(to.0, Event::Say(to, at, said));
        }
        for seq in before + 1..=self.streams[at].len() {
            let bytes = self.streams[at].message(seq).unwrap();
            self.trace.committed(self.now, at, seq, &bytes);
            self.rival(at, seq);
        }
    }

    /// Behind a new epoch's record, ten appends arrive that the home before had prepared.
    fn rival(&mut self, at: usize, seq: Seq) {
        let message = Message::decode(&self.streams[at].message(seq).unwrap()).unwrap();
        let is_record = message.body == Body::Epoch && message.epoch > 1;
        if !is_record || self.is_quiet || !self.chance(50) || self.rivals.contains_key(&at) {
            return;
        }
        self.rivals.insert(at, seq);
        self.stats.rivals += 1;
        let range = layout().ranges(StreamId(at as u16))[0];
        for ahead in 0..10 {
            let token = (1 << 40) + self.stats.rivals * 100 + ahead;
            let message = Message {
                author: Author {
                    node: "rival".to_owned(),
                    incarnation: self.stats.rivals,
                },
                number: token + 1_000 * at as u64,
                epoch: message.epoch - 1,
                body: Body::Appends {
                    runs: vec![Run::new(range, store::Position::new(ahead + 1), 1)],
                    check: None,
                    entries: vec![Entry::new(range, load::bytes(range, token))],
                },
                level: message.level,
            };
            let publish = Publish {
                number: 0,
                expected: seq - 1 + ahead,
                id: message.id(),
                payload: message.encode(),
            };
            self.streams[at].publish(self.now, publish, None);
        }
        self.push_micros(100, Event::Commit(at));
    }

    fn on_put(&mut self, from: To, put: Put) {
        match put {
            Put::Node(key, expected, value, sent) => {
                let before = self.map.stored_at(&key);
                let revision = self.map.put(self.now, &key, expected, value);
                if revision.is_some() && sent.is_none() {
                    self.stats.fences += 1;
                    self.ended_lease(&key, before);
                }
                if let (Some(revision), Some(sent)) = (revision, sent) {
                    self.send(from.0, Event::Renewed(from, sent, revision));
                }
            }
            Put::Home(key, expected, value) => {
                self.map.put(self.now, &key, Some(expected), value);
            }
        }
    }

    fn on_map(&mut self, is_up: bool) {
        self.map.is_down = !is_up;
    }

    /// A client appends something at whichever node says that it is the home.
    fn on_client(&mut self) {
        let millis = self.rng.u64(5..60);
        self.push(millis, Event::Client);
        let at = self.rng.usize(..usize::from(STREAMS));
        for _ in 0..self.rng.usize(1..4) {
            self.append(at);
        }
    }

    fn append(&mut self, at: usize) -> Option<Token> {
        let ranges = layout().ranges(StreamId(at as u16));
        let range = ranges[self.rng.usize(..ranges.len())];
        let first = self.rng.usize(..self.nodes.len());
        let count = self.nodes.len();
        for node in (0..count).map(|n| (n + first) % count) {
            let local = self.nodes[node].local(self.now);
            let to = (node, self.nodes[node].incarnation);
            if self.nodes[node].paused_until > self.now {
                continue;
            }
            let Some(process) = &mut self.nodes[node].process else {
                continue;
            };
            let token = self.tokens + 1;
            let bytes = load::bytes(range, token);
            match process.members[at].append(local, token, range, bytes) {
                Ok(()) => {
                    self.tokens = token;
                    self.fates.insert(token, (at, to, Fate::Pending));
                    self.effects(node);
                    return Some(token);
                }
                Err(Refused::NotHome) => {}
                Err(_) => self.stats.refused += 1,
            }
        }
        None
    }

    fn set(&mut self, token: Token, fate: Fate) -> Option<Fate> {
        let entry = self.fates.get_mut(&token)?;
        let before = std::mem::replace(&mut entry.2, fate);
        if matches!(before, Fate::Accepted | Fate::Failed) {
            self.problem(format!("append {token} was {before:?} and then {fate:?}"));
        }
        Some(before)
    }

    fn on_accepted(&mut self, stream: usize, token: Token) {
        self.stats.accepted += 1;
        let before = self.set(token, Fate::Accepted);
        self.stats.doubt_committed += u64::from(before == Some(Fate::InDoubt));
        let count = self.streams[stream].effective.tokens.get(&token);
        if count != Some(&1) {
            self.problem(format!("accepted {token}, which is there {count:?} times"));
        }
    }

    fn on_failed(&mut self, stream: usize, token: Token) {
        self.stats.failed += 1;
        self.set(token, Fate::Failed);
        if self.streams[stream].effective.tokens.contains_key(&token) {
            self.problem(format!("append {token} failed, and is there"));
        }
    }

    fn on_fault(&mut self) {
        if self.is_quiet {
            return;
        }
        let next = self.rng.u64(300..4_000);
        self.push(next, Event::Fault);
        let node = self.rng.usize(..self.nodes.len());
        let stream = self.rng.usize(..self.streams.len());
        let fault = self.rng.u64(..100);
        self.trace.say(self.now, || {
            format!("fault {fault}: node {node}, stream {stream}")
        });
        match fault {
            0..16 => self.kill(node),
            16..20 => self.leave(node),
            20..24 => self.drain(node),
            24..40 => {
                self.stats.pauses += 1;
                let pause = Duration::from_millis(self.rng.u64(100..9_000));
                self.nodes[node].paused_until = self.now + pause;
            }
            40..48 => {
                self.stats.stalls += 1;
                let stall = Duration::from_millis(self.rng.u64(1_000..12_000));
                self.nodes[node].stalled_until = self.now + stall;
            }
            48..60 => {
                self.stats.cuts += 1;
                let cut = Duration::from_millis(self.rng.u64(100..9_000));
                self.nodes[node].cut_until = self.now + cut;
            }
            60..80 => {
                self.stats.elections += 1;
                let most = self.streams[stream].proposed();
                let survive = self.rng.usize(..=most);
                self.streams[stream].depose(survive);
                let millis = self.rng.u64(500..9_000);
                self.push(millis, Event::Elected(stream));
            }
            80..88 => {
                self.streams[stream].has_quorum = false;
                let millis = self.rng.u64(200..6_000);
                self.push(millis, Event::Quorum(stream));
                self.rivals.remove(&stream);
            }
            88..93 => self.snapshot(node, stream),
            _ => {
                self.on_map(false);
                let millis = self.rng.u64(500..9_000);
                self.push(millis, Event::MapElected);
            }
        }
    }

    /// Now and then what is behind the record of a new epoch is purged before anything follows it.
    fn purge_soon(&mut self, stream: usize) {
        if !self.is_quiet && self.chance(25) {
            let node = self.rng.usize(..self.nodes.len());
            let millis = self.rng.u64(1..400);
            self.push(millis, Event::Snapshot(node, stream));
        }
    }

    /// A node stores a snapshot, and the stream is purged behind it.
    fn snapshot(&mut self, at: usize, stream: usize) {
        let Some(process) = &self.nodes[at].process else {
            return;
        };
        let ranges = process.members[stream].replica().ranges();
        let (new, file) = (
            self.snapshots.path().join("new"),
            self.snapshots.path().join(stream.to_string()),
        );
        let store = &self.nodes[at].store;
        let (mark, _) = store.snapshot_stream(stream as u16, ranges, &new).unwrap();
        let is_newer = mark.seq >= self.streams[stream].first;
        if is_newer {
            self.trace.say(self.now, || {
                format!("{at} stores stream {stream}, purged through {}", mark.seq)
            });
            std::fs::rename(&new, &file).unwrap();
            self.streams[stream].first = mark.seq + 1;
        } else {
            std::fs::remove_file(&new).unwrap();
        }
    }

    pub(super) fn kill(&mut self, at: usize) {
        self.stats.kills += 1;
        let node = &mut self.nodes[at];
        if node.process.take().is_none() {
            return;
        }
        let life = (at, node.incarnation);
        for (_, to, fate) in self.fates.values_mut() {
            if *to == life && matches!(fate, Fate::Pending | Fate::InDoubt) {
                *fate = Fate::Unknown;
            }
        }
        // Now and then the machine is a new one.
        if self.chance(15) {
            self.stats.wiped += 1;
            self.nodes[at].store = Store::in_memory();
        }
        let millis = self.rng.u64(50..8_000);
        self.push(millis, Event::Start(at));
    }

    fn mend(&mut self) {
        self.is_quiet = true;
        self.drain_nobody();
        for node in 0..self.nodes.len() {
            self.nodes[node].paused_until = self.now;
            self.nodes[node].cut_until = self.now;
            self.nodes[node].stalled_until = self.now;
            self.push(0, Event::Start(node));
        }
        for stream in 0..self.streams.len() {
            self.push(0, Event::Quorum(stream));
            self.push(1, Event::Elected(stream));
        }
        self.push(0, Event::MapElected);
    }
}
