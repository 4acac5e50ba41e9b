//! One node's dealings with the map: it renews its lease, watches everybody's, takes over the
//! streams that are given to it, lets go of those given to others, and hands homes out while it is
//! the one to do so. Owns no tenure: every change is a compare-and-set that may lose.
//!
//! The coordinator is the first node by name that lives, as far as each can see. Two that both
//! think so do no harm: one's compare-and-set loses. It ends leases that seem to have lapsed, and
//! gives homes away only once that end is in the map.
//!
//! | the home entry of a stream names | and | then |
//! |---|---|---|
//! | this process | nobody before it has to let go | it takes over, once for each epoch |
//! | this process | a home before it has not let go | it waits, until that one's lease has ended |
//! | this node | an earlier life of its process, or a tenure that ended | it asks for a new epoch |
//! | another node | this one still serves | it stops and says so |
//! | anybody | this process ends | it stops, and ends its own lease: nobody waits until that lapses |
//! | a node whose lease has ended, or nobody | this one is the coordinator | another one is chosen |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use stdx::Moment;

use crate::flaw::{self, Flaw};
use crate::journal::Epoch;
use crate::journal::message::Author;
use crate::layout::StreamId;
use crate::map::assign::{self, Move, View, plan};
use crate::map::lease::{Leases, OwnLease};
use crate::map::view::{MapView, NodeView};
use crate::map::{Home, Node, Report, Revision};

/// Times of a keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// T: a lease lapses after so long without a renewal. Default: 3 s.
    pub lapse_after: Duration,
    /// Pause between renewals. Default: 500 ms.
    pub renew_every: Duration,
    /// Pause before a change of the map is tried again. Default: 1 s.
    pub again_after: Duration,
    /// Of the assignment.
    pub assign: assign::Options,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            lapse_after: Duration::from_secs(3),
            renew_every: Duration::from_millis(500),
            again_after: Duration::from_secs(1),
            assign: assign::Options::default(),
        }
    }
}

/// What a keeper wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Change this node's entry, if it has this revision (0: there is none). If that was
    /// acknowledged, [`Keeper::on_renewed`] with this moment and the new revision follows.
    Renew(Moment, Revision, Node),
    /// Change another node's entry, if it has this revision: its lease ends.
    Fence(String, Revision, Node),
    /// Change the home of a stream, if its entry has this revision (0: there is none).
    Change(StreamId, Revision, Home),
    /// Become the home of a stream.
    TakeOver(StreamId, Epoch),
    /// Stop being it.
    StepDown(StreamId),
}

#[derive(Default)]
struct Stream {
    entry: Option<(Revision, Home)>,
    /// The newest epoch that this process took over for, or saw in the stream.
    known: Epoch,
    /// This process has it, or is about to.
    is_ours: bool,
    /// A change is under way; before this another one is of no use.
    again_at: Moment,
}

/// One node's dealings with the map.
pub struct Keeper {
    options: Options,
    author: Author,
    /// What this node says of itself, and the revision of its entry.
    node: Node,
    revision: Revision,
    nodes: BTreeMap<String, (Revision, Node)>,
    /// Nodes whose entries an operator deleted, while homes name them: their leases have ended.
    gone: BTreeSet<String>,
    streams: Vec<Stream>,
    leases: Leases,
    own: OwnLease,
    renew_at: Moment,
    /// When each end of a lease may be tried again.
    fence_at: BTreeMap<String, Moment>,
    /// The map was watched for so long that everybody who lives was seen.
    knows_all_at: Moment,
    /// Since when this process ends, and whether the map says that its lease has ended.
    leaving: Option<(Moment, bool)>,
    effects: VecDeque<Effect>,
}

impl Keeper {
    /// A process begins to take part, at `now`.
    pub fn new(now: Moment, options: Options, author: Author, node: Node, streams: u16) -> Keeper {
        Keeper {
            leases: Leases::new(options.lapse_after),
            own: OwnLease::new(options.lapse_after),
            knows_all_at: now + options.lapse_after,
            options,
            author,
            node,
            revision: 0,
            nodes: BTreeMap::new(),
            gone: BTreeSet::new(),
            streams: (0..streams).map(|_| Stream::default()).collect(),
            renew_at: now,
            fence_at: BTreeMap::new(),
            leaving: None,
            effects: VecDeque::new(),
        }
    }

    /// Whether effects that need no commit may leave now. Asked before each flush.
    pub fn may_act(&self, now: Moment) -> bool {
        self.own.may_act(now)
    }

    /// Until when they may, unless the lease is renewed again.
    pub fn acts_until(&self) -> Moment {
        self.own.acts_until()
    }

    /// The home of a stream, as far as this node knows.
    pub fn home(&self, stream: StreamId) -> Option<&Home> {
        let at = self.streams.get(usize::from(stream.0))?;
        at.entry.as_ref().map(|(_, home)| home)
    }

    /// The map as this node sees it.
    pub fn view(&self, now: Moment) -> MapView {
        let home = |at: &Stream| {
            let (_, home) = at.entry.as_ref()?;
            Some((home.node.clone(), home.epoch))
        };
        let node = |(name, (_, node)): (&String, &(Revision, Node))| {
            let view = NodeView {
                incarnation: node.incarnation,
                link: node.link.clone(),
                clients: node.clients.clone(),
                is_alive: self.is_alive(now, name),
                takes_homes: assign::may_be_home(node),
                serving: node.streams.iter().map(|report| report.serving).collect(),
            };
            (name.clone(), view)
        };
        MapView {
            homes: self.streams.iter().map(home).collect(),
            nodes: self.nodes.iter().map(node).collect(),
        }
    }

    /// What this node says of itself from now on.
    pub fn report(&mut self, is_slow: bool, weight: u32, streams: Vec<Report>) {
        self.node.is_slow = is_slow;
        self.node.weight = weight;
        self.node.streams = streams;
    }

    /// Whether this node is to be the home of nothing from now on, until it is said otherwise.
    pub fn drain(&mut self, is_draining: bool) {
        self.node.is_draining = is_draining;
    }

    /// The next renewal is not waited for: what this node says of itself has changed.
    pub fn renew_now(&mut self, now: Moment) {
        self.renew_at = now;
    }

    /// This process ends, and nothing of it acts any more: its lease ends with an entry of its own,
    /// so that others need not wait until it lapses. It is not renewed again.
    pub fn leave(&mut self, now: Moment) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some((now, false));
        self.node.is_fenced = true;
        self.own.on_fenced();
        self.step_down_all();
        self.renew_at = now;
        self.on_time(now);
    }

    /// Whether the map says that the lease of this process, which ends, has ended.
    pub fn has_left(&self) -> bool {
        self.leaving.is_some_and(|(_, is_known)| is_known)
    }

    /// A renewal that was sent at this moment was acknowledged.
    pub fn on_renewed(&mut self, sent: Moment, revision: Revision) {
        // Entries that end the lease come by the watch, and have a higher revision.
        if revision > self.revision {
            self.revision = revision;
        }
        match &mut self.leaving {
            // One of before the end may come late.
            Some((since, is_known)) => *is_known |= sent >= *since,
            None if revision == self.revision => self.own.on_renewed(sent),
            None => {}
        }
    }

    /// At a node's address nobody listens: it is not waited for as long as for one that is silent.
    pub fn on_refused(&mut self, name: &str) {
        self.leases.on_refused(name);
    }

    /// Whether the map has a leader.
    pub fn on_leader(&mut self, now: Moment, has_leader: bool) {
        self.leases.on_leader(now, has_leader);
    }

    /// A node's entry.
    pub fn on_node(&mut self, now: Moment, name: &str, revision: Revision, node: Node) {
        let known = self.nodes.get(name).map_or(0, |(known, _)| *known);
        if revision <= known {
            return;
        }
        self.leases.on_revision(now, name, revision);
        if name == self.author.node && revision > self.revision {
            self.on_own(now, revision, &node);
        }
        if self.leases.is_alive(now, name) {
            self.gone.remove(name);
            self.nodes.insert(name.to_owned(), (revision, node));
        }
    }

    /// A node's entry was deleted, in this revision. No renewal of before can succeed any more: it
    /// is as if the lease had been ended, until the node makes an entry again.
    pub fn on_node_gone(&mut self, now: Moment, name: &str, revision: Revision) {
        let known = self.nodes.get(name).map_or(0, |(known, _)| *known);
        if revision <= known {
            return;
        }
        if name == self.author.node && revision > self.revision {
            let is_fenced = true;
            let entry = Node {
                is_fenced,
                ..Node::default()
            };
            self.on_own(now, revision, &entry);
        }
        self.nodes.remove(name);
        self.leases.forget(name);
        self.gone.insert(name.to_owned());
        self.forget_gone();
    }

    /// Nobody asks about a node that is gone and that no home names.
    fn forget_gone(&mut self) {
        if self.gone.is_empty() {
            return; // As nearly always.
        }
        let homes = self.streams.iter().filter_map(|at| at.entry.as_ref());
        let named: BTreeSet<&String> = homes
            .flat_map(|(_, home)| home.after.iter().chain([&home.node]))
            .collect();
        let leases = &mut self.leases;
        self.gone.retain(|name| {
            let is_named = named.contains(name);
            if !is_named {
                leases.forget(name);
            }
            is_named
        });
    }

    /// A node that is not seen, as the map has entries of too many: the last since this was asked.
    pub fn take_passed_over(&mut self) -> Option<String> {
        self.leases.take_passed_over()
    }

    /// This node's entry is newer than this process knew: a renewal whose answer was lost, what an
    /// earlier life left, or the end of the lease.
    fn on_own(&mut self, now: Moment, revision: Revision, entry: &Node) {
        self.revision = revision;
        if let Some((_, is_known)) = &mut self.leaving {
            // An earlier renewal came first: the end is sent once more.
            *is_known |= entry.is_fenced;
            self.renew_at = now;
            return;
        }
        if !entry.is_fenced {
            return;
        }
        self.renew_at = now;
        self.own.on_fenced();
        self.step_down_all();
    }

    fn step_down_all(&mut self) {
        for stream in 0..self.streams.len() {
            if std::mem::take(&mut self.streams[stream].is_ours) {
                let stream = StreamId(stream as u16);
                self.effects.push_back(Effect::StepDown(stream));
            }
        }
    }

    /// The entry of a stream's home.
    pub fn on_home(&mut self, now: Moment, stream: StreamId, revision: Revision, home: Home) {
        let Some(at) = self.streams.get_mut(usize::from(stream.0)) else {
            return;
        };
        if at
            .entry
            .as_ref()
            .is_some_and(|(known, _)| *known >= revision)
        {
            return;
        }
        at.again_at = now;
        for node in home.after.iter().chain([&home.node]) {
            self.leases.expect(now, node);
        }
        at.entry = Some((revision, home));
        self.forget_gone();
        self.settle(now, stream);
    }

    /// The entry of a stream's home was deleted, in this revision. Who is the home is so still: it
    /// puts the entry there again, and whoever changes it next does so from this revision.
    pub fn on_home_gone(&mut self, now: Moment, stream: StreamId, revision: Revision) {
        let at = self.streams.get_mut(usize::from(stream.0));
        let Some((known, home)) = at.and_then(|at| at.entry.as_mut()) else {
            return;
        };
        if *known >= revision {
            return;
        }
        *known = revision;
        if home.node == self.author.node {
            let home = home.clone();
            self.change(now, stream, revision, home);
        }
    }

    /// A tenure of this process ended, or did not begin; `seen` is the newest epoch in the stream.
    /// One that is not the last one that it took says nothing.
    pub fn on_ended(&mut self, now: Moment, stream: StreamId, ended: Epoch, seen: Epoch) {
        if let Some(at) = self.streams.get_mut(usize::from(stream.0))
            && ended >= at.known
        {
            at.is_ours = false;
            at.known = at.known.max(seen);
            self.settle(now, stream);
        }
    }

    /// Time has passed.
    pub fn on_time(&mut self, now: Moment) {
        if now >= self.renew_at && !self.has_left() {
            self.renew_at = now + self.options.renew_every;
            let renewal = Effect::Renew(now, self.revision, self.node.clone());
            self.effects.push_back(renewal);
        }
        for stream in 0..self.streams.len() {
            self.settle(now, StreamId(stream as u16));
        }
        if self.is_coordinator(now) {
            self.fence(now);
            self.assign(now);
        }
    }

    /// The next effect.
    pub fn poll(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    fn has_ended(&self, node: &str) -> bool {
        let entry = self.nodes.get(node);
        self.gone.contains(node) || entry.is_some_and(|(_, node)| node.is_fenced)
    }

    fn settle(&mut self, now: Moment, stream: StreamId) {
        let at = &mut self.streams[usize::from(stream.0)];
        let Some((revision, home)) = at.entry.clone() else {
            return;
        };
        if home.node != self.author.node {
            if std::mem::take(&mut at.is_ours) {
                self.effects.push_back(Effect::StepDown(stream));
            }
            // Whatever this process did for the stream has ended: the next home need not wait.
            if home.after.as_deref() == Some(&self.author.node) && now >= at.again_at {
                let after = None;
                self.change(now, stream, revision, Home { after, ..home });
            }
            return;
        }
        let is_this_life = home.incarnation == self.author.incarnation;
        if at.is_ours && is_this_life && at.known == home.epoch {
            return;
        }
        if !is_this_life || at.known >= home.epoch {
            if now >= at.again_at && self.own.may_act(now) {
                let again = Home {
                    incarnation: self.author.incarnation,
                    epoch: home.epoch.max(at.known) + 1,
                    ..home
                };
                self.change(now, stream, revision, again);
            }
            return;
        }
        let holds = |before: &String| {
            *before != home.node && !self.has_ended(before) && !flaw::is(Flaw::DoesNotWait)
        };
        if !self.own.may_act(now) || home.after.as_ref().is_some_and(holds) {
            return;
        }
        let at = &mut self.streams[usize::from(stream.0)];
        at.is_ours = true;
        at.known = home.epoch;
        let taking = Effect::TakeOver(stream, home.epoch);
        self.effects.push_back(taking);
    }

    fn change(&mut self, now: Moment, stream: StreamId, revision: Revision, home: Home) {
        self.streams[usize::from(stream.0)].again_at = now + self.options.again_after;
        self.effects
            .push_back(Effect::Change(stream, revision, home));
    }

    /// The first of those that live, once everybody had time to be seen.
    fn is_coordinator(&self, now: Moment) -> bool {
        let mut alive = self.nodes.keys();
        let first = alive.find(|name| self.is_alive(now, name));
        now >= self.knows_all_at
            && self.own.may_act(now)
            && first.is_some_and(|name| *name == self.author.node)
    }

    fn is_alive(&self, now: Moment, name: &str) -> bool {
        self.leases.is_alive(now, name) && !self.has_ended(name)
    }

    /// Ends the leases that seem to have lapsed: of homes, and of nodes that are the home of
    /// nothing, as only a node that has ended can be taken out of the map ([`crate::forget`]).
    fn fence(&mut self, now: Moment) {
        let homes = self.streams.iter().filter_map(|at| at.entry.as_ref());
        let named = homes.flat_map(|(_, home)| home.after.iter().chain([&home.node]));
        let named = named.chain(self.nodes.keys());
        let lapsed = named.filter(|name| self.leases.is_lapsed(now, name) && !self.has_ended(name));
        let mut lapsed: Vec<String> = lapsed.cloned().collect();
        lapsed.sort_unstable();
        lapsed.dedup();
        self.fence_at.retain(|_, again| *again > now);
        for name in lapsed {
            if self.fence_at.contains_key(&name) {
                continue;
            }
            let (revision, node) = self.nodes.get(&name).cloned().unwrap_or_default();
            let again = now + self.options.again_after;
            self.fence_at.insert(name.clone(), again);
            let is_fenced = true;
            let fence = Effect::Fence(name, revision, Node { is_fenced, ..node });
            self.effects.push_back(fence);
        }
    }

    fn assign(&mut self, now: Moment) {
        let nodes = self.nodes.iter();
        let alive = nodes.filter(|(name, _)| self.is_alive(now, name));
        let homes = self.streams.iter().map(|stream| {
            let (_, home) = stream.entry.as_ref()?;
            (!self.has_ended(&home.node)).then(|| home.node.clone())
        });
        let view = View {
            homes: homes.collect(),
            nodes: alive
                .map(|(name, (_, node))| (name.clone(), node.clone()))
                .collect(),
        };
        // A home that has to let go first does so before the next one is asked to.
        let mut moving = self.letting_go();
        for moved in plan(&self.options.assign, &view) {
            if moved.is_planned && moving >= self.options.assign.moves_max {
                continue;
            }
            moving += usize::from(moved.is_planned);
            self.give(now, &view, moved);
        }
    }

    /// Streams whose home before has not said yet that it let go, and may.
    fn letting_go(&self) -> usize {
        let homes = self.streams.iter().filter_map(|at| at.entry.as_ref());
        let before = homes.filter_map(|(_, home)| home.after.as_ref());
        before.filter(|node| !self.has_ended(node)).count()
    }

    fn give(&mut self, now: Moment, view: &View, moved: Move) {
        let at = &self.streams[usize::from(moved.stream.0)];
        let entry = at.entry.as_ref();
        let has_let_go = |home: &Home| home.after.as_ref().is_none_or(|node| self.has_ended(node));
        let is_settled = entry.is_none_or(|(_, home)| has_let_go(home));
        let Some(to) = view.nodes.get(&moved.to) else {
            return;
        };
        if now < at.again_at || (moved.is_planned && !is_settled) {
            return;
        }
        let (revision, epoch) = entry.map_or((0, 0), |(revision, home)| (*revision, home.epoch));
        // Who had to let go when the home died has to all the same.
        let after = entry.and_then(|(_, home)| match moved.is_planned {
            true => Some(home.node.clone()),
            false => home.after.clone(),
        });
        let home = Home {
            incarnation: to.incarnation,
            epoch: epoch + 1,
            after: after.filter(|before| *before != moved.to && !self.has_ended(before)),
            node: moved.to,
        };
        self.change(now, moved.stream, revision, home);
    }
}

#[cfg(test)]
mod tests;
