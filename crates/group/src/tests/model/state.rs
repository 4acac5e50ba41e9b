//! What groups are: nodes, views, links, names, and the rules by which a command changes them.
//!
//! Owns the model. Nodes and names are small numbers; everything is settled after each command, so
//! that there are no messages and no time. Deliberately not here: real nodes.

use std::collections::{BTreeMap, BTreeSet};

pub(super) type N = usize;
/// A process: its node, and which one of that node's life.
pub(super) type Proc = (N, u64, usize);

/// Nodes, the hidden ones last.
pub(super) const NODES: usize = 16;
/// The first hidden node.
pub(super) const HIDDEN: usize = 14;
/// Processes that every node starts with.
pub(super) const PROCS: usize = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gid {
    pub(super) name: u8,
    by: N,
    at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    version: u64,
    by: N,
    pub(super) members: BTreeSet<N>,
}

impl View {
    fn rank(&self) -> (u64, N) {
        (self.version, self.by)
    }
}

/// Where a name is registered: in a group, or among free nodes.
pub(super) type Space = Option<Gid>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) space: Space,
    pub(super) name: u8,
    pub(super) proc: Proc,
    pub(super) keeper: N,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) up: bool,
    pub(super) life: u64,
    made: u64,
    pub(super) views: BTreeMap<Gid, View>,
    graves: BTreeMap<Gid, View>,
    known: BTreeMap<u8, BTreeSet<N>>,
    pub(super) alive: BTreeSet<usize>,
    /// Messages that each process was sent.
    pub(super) heard: BTreeMap<usize, u64>,
}

impl Node {
    pub(super) fn is_free(&self) -> bool {
        self.views.is_empty()
    }

    pub(super) fn called(&self, name: u8) -> Option<(&Gid, &View)> {
        self.views.iter().find(|(gid, _)| gid.name == name)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct State {
    pub(super) nodes: Vec<Node>,
    pub(super) links: BTreeSet<(N, N)>,
    pub(super) names: Vec<Entry>,
}

/// What a command may answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Ok,
    /// An error, by the name of the variant.
    Err(&'static str),
    Nodes(Vec<N>),
    Pid(Option<Proc>),
    Nothing,
}

/// The name that stands for the free nodes.
pub(super) const FREE: u8 = u8::MAX;

fn pair(a: N, b: N) -> (N, N) {
    (a.min(b), a.max(b))
}

type Relation = BTreeSet<Space>;

impl State {
    pub(super) fn new() -> Self {
        let mut state = State {
            nodes: vec![Node::default(); NODES],
            ..State::default()
        };
        for n in 0..NODES {
            state.start(n);
        }
        state
    }

    pub(super) fn is_linked(&self, a: N, b: N) -> bool {
        self.links.contains(&pair(a, b))
    }

    fn link(&mut self, a: N, b: N) -> bool {
        let can = a != b && self.nodes[a].up && self.nodes[b].up;
        if can {
            self.links.insert(pair(a, b));
        }
        can
    }

    pub(super) fn linked(&self, n: N) -> Vec<N> {
        (0..NODES)
            .filter(|other| self.is_linked(n, *other))
            .collect()
    }

    /// The spaces that `a` has in common with `b`, as `a` sees it.
    fn relation(&self, a: N, b: N) -> Relation {
        let (one, other) = (&self.nodes[a], &self.nodes[b]);
        if one.is_free() {
            let both = other.is_free() && a < HIDDEN && b < HIDDEN;
            return both.then_some(None).into_iter().collect();
        }
        let common = one
            .views
            .iter()
            .filter(|(_, view)| view.members.contains(&b));
        common.map(|(gid, _)| Some(*gid)).collect()
    }

    fn relations(&self) -> BTreeMap<(N, N), Relation> {
        let ways = self.links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]);
        ways.map(|(a, b)| ((a, b), self.relation(a, b))).collect()
    }

    /// Whether an entry is in the table of a node.
    fn sees(&self, n: N, entry: &Entry) -> bool {
        let is_in = |n: N| match entry.space {
            None => self.nodes[n].is_free(),
            Some(gid) => self.nodes[n].views.contains_key(&gid),
        };
        let k = entry.keeper;
        let both = || {
            self.relation(n, k).contains(&entry.space) && self.relation(k, n).contains(&entry.space)
        };
        is_in(n) && is_in(k) && (n == k || (self.is_linked(n, k) && both()))
    }

    pub(super) fn visible(&self, n: N) -> impl Iterator<Item = &Entry> {
        self.names.iter().filter(move |entry| self.sees(n, entry))
    }

    pub(super) fn find_local(&self, n: N, group: u8, name: u8) -> Option<Proc> {
        let space = self.space_called(n, group)?;
        let mut entries = self.visible(n);
        let entry = entries.find(|entry| entry.space == space && entry.name == name)?;
        Some(entry.proc)
    }

    fn space_called(&self, n: N, group: u8) -> Option<Space> {
        if group == FREE {
            return self.nodes[n].is_free().then_some(None);
        }
        let (gid, _) = self.nodes[n].called(group)?;
        Some(Some(*gid))
    }

    // ---- Settling ------------------------------------------------------------------------------

    /// Changes views of several nodes at once, and closes the links that have no reason any more.
    fn install(&mut self, changes: &[(N, Gid, View)]) {
        let before = self.relations();
        for (n, gid, view) in changes {
            let node = &mut self.nodes[*n];
            if view.members.contains(n) {
                node.graves.remove(gid);
                node.views.insert(*gid, view.clone());
            } else {
                node.views.remove(gid);
                node.graves.insert(*gid, view.clone());
            }
        }
        let after = self.relations();
        for ((a, b), old) in &before {
            if !old.is_empty() && after[&(*a, *b)].is_empty() {
                self.links.remove(&pair(*a, *b));
            }
        }
    }

    /// Everything that follows by itself.
    pub(super) fn settle(&mut self) {
        loop {
            let links = self.links.len();
            self.dial();
            let changes = self.news();
            if links == self.links.len() && changes.is_empty() {
                break;
            }
            self.install(&changes);
        }
        self.settle_names();
    }

    fn dial(&mut self) {
        for a in 0..NODES {
            let members: Vec<N> = {
                let views = self.nodes[a].views.values();
                views
                    .flat_map(|view| view.members.iter().copied())
                    .collect()
            };
            for b in members {
                self.link(a, b);
            }
        }
        let is_free_link =
            |state: &State, a, b| state.is_linked(a, b) && state.relation(a, b).contains(&None);
        for _ in 0..NODES {
            for a in 0..NODES {
                for b in 0..NODES {
                    for c in 0..NODES {
                        if a != c && is_free_link(self, a, b) && is_free_link(self, b, c) {
                            self.link(a, c);
                        }
                    }
                }
            }
        }
    }

    /// Views that linked nodes tell each other.
    fn news(&self) -> Vec<(N, Gid, View)> {
        let mut best: BTreeMap<(N, Gid), View> = BTreeMap::new();
        for (a, b) in self.links.iter().flat_map(|(a, b)| [(*a, *b), (*b, *a)]) {
            let (me, other) = (&self.nodes[a], &self.nodes[b]);
            for (gid, view) in other.views.iter().chain(&other.graves) {
                let is_new = match (me.views.get(gid), me.graves.get(gid)) {
                    (Some(own), _) => view.rank() > own.rank(),
                    (None, Some(grave)) => view.rank() > grave.rank() && view.members.contains(&a),
                    (None, None) => view.members.contains(&a) && me.called(gid.name).is_none(),
                };
                let known = best.get(&(a, *gid));
                if is_new && known.is_none_or(|known| view.rank() > known.rank()) {
                    best.insert((a, *gid), view.clone());
                }
            }
        }
        best.into_iter()
            .map(|((n, gid), view)| (n, gid, view))
            .collect()
    }

    fn settle_names(&mut self) {
        loop {
            let before = self.names.len();
            self.drop_names();
            match self.clash() {
                None if before == self.names.len() => break,
                None => {}
                Some((one, other)) if one.proc == other.proc => {
                    let loser = if one.keeper < other.keeper {
                        other
                    } else {
                        one
                    };
                    self.names.retain(|entry| *entry != loser);
                }
                Some((one, other)) => {
                    let (node, _, which) = one.proc.max(other.proc);
                    self.nodes[node].alive.remove(&which);
                }
            }
        }
    }

    fn is_alive(&self, (node, life, which): Proc) -> bool {
        let node = &self.nodes[node];
        node.up && node.life == life && node.alive.contains(&which)
    }

    fn drop_names(&mut self) {
        let names = std::mem::take(&mut self.names);
        let stays = |entry: &Entry| {
            let k = entry.keeper;
            let is_in = match entry.space {
                None => self.nodes[k].is_free(),
                Some(gid) => self.nodes[k].views.contains_key(&gid),
            };
            let watches = k == entry.proc.0 || self.is_linked(k, entry.proc.0);
            self.nodes[k].up && is_in && watches && self.is_alive(entry.proc)
        };
        self.names = names.into_iter().filter(stays).collect();
    }

    /// Two entries for one name that some node sees.
    fn clash(&self) -> Option<(Entry, Entry)> {
        for n in 0..NODES {
            let entries: Vec<&Entry> = self.visible(n).collect();
            for (at, entry) in entries.iter().enumerate() {
                let is_same =
                    |other: &&&Entry| other.space == entry.space && other.name == entry.name;
                if let Some(other) = entries[at + 1..].iter().find(is_same) {
                    return Some(((*entry).clone(), (*other).clone()));
                }
            }
        }
        None
    }

    // ---- Nodes ---------------------------------------------------------------------------------

    pub(super) fn start(&mut self, n: N) {
        let node = &mut self.nodes[n];
        node.up = true;
        node.life += 1;
        node.made = 0;
        node.known.clear();
        node.heard.clear();
        node.alive = (0..PROCS).collect();
        self.settle();
    }

    pub(super) fn crash(&mut self, n: N) {
        self.nodes[n].up = false;
        self.links.retain(|(a, b)| *a != n && *b != n);
        self.nodes[n].life += 1;
        self.nodes[n].alive.clear();
        self.settle();
    }

    pub(super) fn connect(&mut self, a: N, b: N) -> Said {
        if a == b || self.link(a, b) {
            self.settle();
            return Said::Ok;
        }
        Said::Err("Refused")
    }

    pub(super) fn kill(&mut self, proc: Proc) {
        if self.is_alive(proc) {
            self.nodes[proc.0].alive.remove(&proc.2);
        }
        self.settle();
    }

    // ---- Groups --------------------------------------------------------------------------------

    /// Those that accept an invitation of `at`.
    fn invite(&mut self, at: N, name: u8, nodes: &BTreeSet<N>) -> BTreeSet<N> {
        let others = nodes.iter().copied().filter(|n| *n != at);
        let mut accepted = BTreeSet::new();
        for n in others {
            if self.link(at, n) && self.nodes[n].called(name).is_none() {
                accepted.insert(n);
            }
        }
        accepted
    }

    pub(super) fn new_group(&mut self, at: N, name: u8, nodes: &BTreeSet<N>) -> Said {
        if name == FREE {
            return Said::Err("ReservedName");
        }
        if nodes.is_empty() {
            return Said::Nodes(Vec::new());
        }
        if !nodes.contains(&at) {
            return Said::Err("RemoteGroup");
        }
        if self.nodes[at].called(name).is_some() {
            return Said::Err("NameInUse");
        }
        let mut members = self.invite(at, name, nodes);
        members.insert(at);
        self.nodes[at].made += 1;
        let made = (self.nodes[at].life << 20) + self.nodes[at].made;
        let gid = Gid {
            name,
            by: at,
            at: made,
        };
        let view = View {
            version: 1,
            by: at,
            members: members.clone(),
        };
        self.install_at(&members, gid, &view);
        Said::Nodes(members.into_iter().collect())
    }

    fn install_at(&mut self, nodes: &BTreeSet<N>, gid: Gid, view: &View) {
        let changes: Vec<(N, Gid, View)> = nodes.iter().map(|n| (*n, gid, view.clone())).collect();
        self.install(&changes);
        self.settle();
    }

    /// The member that orders changes.
    fn coordinator(&self, at: N, gid: &Gid) -> N {
        let view = &self.nodes[at].views[gid];
        let is_there = |n: &&N| **n == at || self.is_linked(at, **n);
        *view.members.iter().find(is_there).unwrap_or(&at)
    }

    fn change(&mut self, at: N, gid: Gid, change: impl FnOnce(&mut BTreeSet<N>)) {
        let by = self.coordinator(at, &gid);
        let old = self.nodes[at].views[&gid].clone();
        let mut members = old.members.clone();
        change(&mut members);
        if members == old.members {
            return self.settle();
        }
        let all: BTreeSet<N> = old.members.union(&members).copied().collect();
        let reached = all.into_iter().filter(|n| self.nodes[*n].up);
        let reached: BTreeSet<N> = reached.collect();
        let view = View {
            version: old.version + 1,
            by,
            members,
        };
        self.install_at(&reached, gid, &view);
    }

    pub(super) fn add_nodes(&mut self, at: N, name: u8, nodes: &BTreeSet<N>) -> Said {
        let Some((gid, view)) = self.nodes[at].called(name) else {
            return Said::Err("NotMember");
        };
        let (gid, old) = (*gid, view.members.clone());
        let others: BTreeSet<N> = nodes.iter().copied().filter(|n| *n != at).collect();
        let new: BTreeSet<N> = others.difference(&old).copied().collect();
        if new.is_empty() {
            return Said::Nodes(others.into_iter().collect());
        }
        let accepted = self.invite(at, name, &new);
        let coordinator = self.coordinator(at, &gid);
        for n in &accepted {
            self.link(coordinator, *n);
        }
        self.change(at, gid, |members| members.extend(accepted.iter().copied()));
        Said::Nodes(accepted.into_iter().collect())
    }

    pub(super) fn remove_nodes(&mut self, at: N, name: u8, nodes: &BTreeSet<N>) -> Said {
        if nodes.is_empty() {
            return Said::Ok;
        }
        if nodes.contains(&at) {
            return Said::Err("CannotRemoveItself");
        }
        let Some((gid, _)) = self.nodes[at].called(name) else {
            return Said::Err("NotMember");
        };
        let gid = *gid;
        self.change(at, gid, |members| members.retain(|n| !nodes.contains(n)));
        Said::Ok
    }

    pub(super) fn delete_group(&mut self, at: N, name: u8) -> Said {
        let Some((gid, _)) = self.nodes[at].called(name) else {
            return Said::Err("RemoteGroup");
        };
        let gid = *gid;
        self.change(at, gid, BTreeSet::clear);
        Said::Ok
    }

    // ---- Names ---------------------------------------------------------------------------------

    pub(super) fn register(
        &mut self,
        at: N,
        group: u8,
        name: u8,
        proc: Proc,
        replace: bool,
    ) -> Said {
        let Some(space) = self.space_called(at, group) else {
            return Said::Err(if replace {
                "CannotReregister"
            } else {
                "CannotRegister"
            });
        };
        let here: Vec<Entry> = self
            .visible(at)
            .filter(|e| e.space == space)
            .cloned()
            .collect();
        let held = here.iter().find(|entry| entry.name == name);
        if replace && held.is_some_and(|entry| entry.proc == proc) {
            return Said::Ok;
        }
        let has_other = here
            .iter()
            .any(|entry| entry.proc == proc && entry.name != name);
        if has_other || (held.is_some() && !replace) {
            return Said::Err(if replace {
                "PidRegistered"
            } else {
                "AlreadyRegistered"
            });
        }
        if let Some(held) = held {
            self.names.retain(|entry| entry != held);
        }
        let node = proc.0;
        let is_member = self.is_linked(at, node) && self.relation(at, node).contains(&space);
        let keeper = if is_member { node } else { at };
        if keeper != node {
            self.link(keeper, node);
        }
        self.names.push(Entry {
            space,
            name,
            proc,
            keeper,
        });
        self.settle();
        Said::Ok
    }

    pub(super) fn unregister(&mut self, at: N, group: u8, name: u8) -> Said {
        let Some(space) = self.space_called(at, group) else {
            return Said::Err("CannotUnregister");
        };
        let held = self
            .visible(at)
            .find(|e| e.space == space && e.name == name)
            .cloned();
        self.names.retain(|entry| Some(entry) != held.as_ref());
        Said::Ok
    }

    /// Who is in a group, as far as `n` knows.
    fn members_known(&self, n: N, group: u8) -> Option<BTreeSet<N>> {
        if let Some((_, view)) = self.nodes[n].called(group) {
            return Some(view.members.clone());
        }
        let told = self.linked(n).into_iter().find_map(|other| {
            let (_, view) = self.nodes[other].called(group)?;
            Some(view.members.clone())
        });
        told.or_else(|| self.nodes[n].known.get(&group).cloned())
    }

    fn search(&mut self, at: N, group: u8, name: u8) -> Option<Proc> {
        let mut members = self.members_known(at, group);
        if members.is_none() {
            let mut around = self.linked(at).into_iter();
            members = around.find_map(|other| self.members_known(other, group));
            if let Some(members) = &members {
                self.nodes[at].known.insert(group, members.clone());
            }
        }
        let (near, far): (Vec<N>, Vec<N>) = members
            .unwrap_or_default()
            .into_iter()
            .filter(|n| *n != at)
            .partition(|n| self.is_linked(at, *n));
        for other in near.into_iter().chain(far) {
            // A node that was not linked answers before names are merged over the new link.
            let found = self.find_local(other, group, name);
            if self.link(at, other) {
                self.settle();
                return found;
            }
        }
        None
    }

    pub(super) fn whereis(&mut self, at: N, node: Option<N>, group: u8, name: u8) -> Option<Proc> {
        if node == Some(at) || (node.is_none() && self.space_called(at, group).is_some()) {
            return self.find_local(at, group, name);
        }
        let Some(node) = node else {
            return self.search(at, group, name);
        };
        let found = self.find_local(node, group, name);
        if !self.link(at, node) {
            return None;
        }
        self.settle();
        found
    }

    pub(super) fn send(&mut self, at: N, node: Option<N>, group: u8, name: u8) -> Said {
        let Some(proc) = self.whereis(at, node, group, name) else {
            return Said::Err("NotRegistered");
        };
        self.link(at, proc.0);
        if self.is_alive(proc) {
            *self.nodes[proc.0].heard.entry(proc.2).or_default() += 1;
        }
        self.settle();
        Said::Pid(Some(proc))
    }
}
