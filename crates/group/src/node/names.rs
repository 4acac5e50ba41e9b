//! The names of a space: who has them, and who answers for them.
//!
//! Owns the table of names. Each entry has a *keeper*: the node of the process if that is a member,
//! else the member where it was registered. The keeper watches the process, and what it does not
//! keep nobody has: members that meet tell each other what they keep, and what a lost member kept
//! is dropped. So tables agree without tombstones. Deliberately not here: who orders registrations
//! (`changes`).

use std::collections::{BTreeMap, BTreeSet};

use super::changes::Purpose;
use super::{Caller, Effect, Machine};
use crate::command::{Answer, GroupError, Mode, Note};
use crate::types::{Name, NodeName, Pid, Reason, check_name};
use crate::view::Space;
use crate::wire::{Change, Entry, Frame};

/// A registered name.
#[derive(Debug)]
struct Kept {
    entry: Entry,
    /// The keeper's monitor of the process.
    monitor: Option<u64>,
}

/// The names of one space.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_name: BTreeMap<Name, Kept>,
    by_pid: BTreeMap<Pid, BTreeSet<Name>>,
}

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|kept| &kept.entry)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.by_name.values().map(|kept| &kept.entry)
    }

    pub(crate) fn names_of(&self, pid: &Pid) -> impl Iterator<Item = &Name> {
        self.by_pid.get(pid).into_iter().flatten()
    }

    pub(crate) fn kept_by(&self, keeper: &NodeName) -> impl Iterator<Item = &Entry> {
        self.all().filter(move |entry| entry.keeper == *keeper)
    }

    /// Those whose processes this node watches: what it keeps, but for processes that have ended.
    fn watched(&self) -> impl Iterator<Item = &Entry> {
        let kept = self.by_name.values();
        kept.filter(|kept| kept.monitor.is_some())
            .map(|kept| &kept.entry)
    }

    /// The process of a name has ended, and with it the monitor.
    fn unwatched(&mut self, name: &str) {
        if let Some(kept) = self.by_name.get_mut(name) {
            kept.monitor = None;
        }
    }

    /// Whether the process of a name that `keeper` keeps has ended.
    fn has_ended(&self, name: &str, keeper: &NodeName) -> bool {
        let kept = self.by_name.get(name);
        kept.is_some_and(|kept| kept.entry.keeper == *keeper && kept.monitor.is_none())
    }

    fn insert(&mut self, entry: Entry, monitor: Option<u64>) {
        let names = self.by_pid.entry(entry.pid.clone()).or_default();
        names.insert(Name::clone(&entry.name));
        let name = Name::clone(&entry.name);
        self.by_name.insert(name, Kept { entry, monitor });
    }

    fn remove(&mut self, name: &str) -> Option<Kept> {
        let kept = self.by_name.remove(name)?;
        if let Some(names) = self.by_pid.get_mut(&kept.entry.pid) {
            names.remove(name);
            if names.is_empty() {
                self.by_pid.remove(&kept.entry.pid);
            }
        }
        Some(kept)
    }
}

impl Machine {
    // ---- Commands ------------------------------------------------------------------------------

    /// The space that a user calls by this name, if this node is in it.
    pub(super) fn space_called(&self, group: &str) -> Option<Space> {
        if group == "undefined" {
            return self.is_free().then_some(Space::Free);
        }
        let own = self.groups.get(group)?;
        Some(Space::Group(own.view.id.clone()))
    }

    pub(super) fn register(
        &mut self,
        caller: Caller,
        space: Option<Space>,
        name: Name,
        pid: Pid,
        mode: Mode,
    ) {
        let (taken, stranger) = match mode {
            Mode::New => (GroupError::AlreadyRegistered, GroupError::CannotRegister),
            Mode::Replace => (GroupError::PidRegistered, GroupError::CannotReregister),
            Mode::External => (GroupError::NameUsed, GroupError::CannotRegister),
        };
        let error = |error| Answer::Done(Err(error));
        let Some(space) = space else {
            return self.answer(caller, error(stranger));
        };
        if check_name(&name).is_err() {
            return self.answer(caller, error(GroupError::BadName));
        }
        if self.operations.len() >= self.limits.operations_max {
            return self.answer(caller, error(GroupError::Busy));
        }
        let is_member = match &space {
            Space::Free => self
                .peers
                .get(&pid.node)
                .is_some_and(|peer| peer.shared.contains(&space)),
            Space::Group(id) => {
                let group = self.groups.get(&id.name);
                group.is_some_and(|group| group.view.has(&pid.node)) && self.is_linked(&pid.node)
            }
        };
        let keeper = if is_member {
            pid.node.clone()
        } else {
            self.me.clone()
        };
        let change = Change::Register {
            name,
            pid,
            keeper,
            replace: mode == Mode::Replace,
        };
        self.submit(caller, space, change, Purpose::Register(taken, stranger));
    }

    pub(super) fn unregister(&mut self, caller: Caller, group: &str, name: Name) {
        let Some(space) = self.space_called(group) else {
            let answer = Answer::Done(Err(GroupError::CannotUnregister));
            return self.answer(caller, answer);
        };
        let change = Change::Unregister { name, pid: None };
        self.submit(caller, space, change, Purpose::Done);
    }

    /// The process of a name in a space of this node.
    pub(super) fn find_local(&self, group: &str, name: &str) -> Option<Pid> {
        let space = self.space_called(group)?;
        let entry = self.names(&space)?.get(name)?;
        Some(entry.pid.clone())
    }

    /// Every name that this node knows, with its group.
    pub(super) fn all_names(&self) -> Vec<(Name, Name)> {
        let groups = self
            .groups
            .iter()
            .map(|(group, own)| (Name::clone(group), &own.names));
        let free = self
            .is_free()
            .then(|| (Name::from("undefined"), &self.free));
        let spaces = groups.chain(free);
        let names = spaces.flat_map(|(group, names)| {
            names
                .all()
                .map(move |entry| (Name::clone(&group), Name::clone(&entry.name)))
        });
        names.collect()
    }

    // ---- The table -----------------------------------------------------------------------------

    /// Registers a name as the coordinator has decided, or as its keeper says.
    pub(super) fn put(&mut self, space: &Space, entry: Entry, replace: bool) {
        if entry.keeper != self.me && self.is_dead(&entry.pid) {
            // Its keeper, who watches it, is about to hear of that.
            return;
        }
        let Some(names) = self.names(space) else {
            return;
        };
        if let Some(old) = names.get(&entry.name) {
            if old.pid == entry.pid && old.keeper == entry.keeper {
                return;
            }
            // Everybody who sees both decides alike: the smaller address stays, and of two keepers
            // of one process the smaller name.
            let old_stays = (&old.pid, &old.keeper) < (&entry.pid, &entry.keeper);
            // Nor does the name of a process that this node knows to have ended stand in the way.
            let is_clash =
                old.pid != entry.pid && !replace && !names.has_ended(&entry.name, &self.me);
            if old.pid == entry.pid && old_stays && !replace {
                return;
            }
            if is_clash {
                let loser = if old_stays {
                    entry.clone()
                } else {
                    old.clone()
                };
                self.clash(loser);
                if old_stays {
                    return;
                }
            }
            self.take(space, &entry.name);
        }
        if self
            .names(space)
            .is_none_or(|names| names.len() >= self.limits.names_max)
        {
            return;
        }
        let (name, pid) = (Name::clone(&entry.name), entry.pid.clone());
        let monitor = (entry.keeper == self.me).then(|| self.new_monitor());
        if let Some(names) = self.names_mut(space) {
            names.insert(entry, monitor);
        }
        // Last, for a process that is gone already is reported at once.
        if let Some(monitor) = monitor {
            self.watch_named(space, &name, monitor, &pid);
        }
    }

    /// Whether this is a process of this node that has ended.
    fn is_dead(&self, pid: &Pid) -> bool {
        self.is_mine(pid) && !self.is_alive(pid)
    }

    /// Two processes have one name. Who has to give way ends, if this node keeps its name.
    fn clash(&mut self, loser: Entry) {
        self.note(Note::Clash(Name::clone(&loser.name), loser.pid.clone()));
        if loser.keeper != self.me {
            return;
        }
        if self.is_mine(&loser.pid) {
            let (id, reason) = (loser.pid.id, Reason::NameClash);
            self.effects.push(Effect::Kill { id, reason });
        } else {
            let frame = Frame::Exit {
                from: 0,
                to: loser.pid.id,
                reason: Reason::Killed,
                told: true,
            };
            let _ = self.transmit_to(&loser.pid, frame);
        }
    }

    /// Forgets a name.
    pub(super) fn take(&mut self, space: &Space, name: &str) {
        let kept = self.names_mut(space).and_then(|names| names.remove(name));
        let Some(Kept { entry, monitor }) = kept else {
            return;
        };
        if let Some(monitor) = monitor {
            self.unwatch(monitor, &entry.pid);
        }
        if entry.keeper == self.me {
            self.tell_unsettled(space);
        }
    }

    /// Tells members that have not confirmed what this node keeps what it keeps now: the change may
    /// reach them before what they were told at first.
    fn tell_unsettled(&mut self, space: &Space) {
        let is_it =
            |peer: &super::Peer| peer.shared.contains(space) && !peer.told_names.contains(space);
        let unsettled = self.linked().filter(|(_, peer)| is_it(peer));
        let unsettled: Vec<NodeName> = unsettled.map(|(name, _)| name.clone()).collect();
        for node in unsettled {
            self.send_keep(&node, space, false);
        }
    }

    /// A process whose name this node keeps ended.
    pub(super) fn named_ended(&mut self, space: &Space, name: &Name, who: &Pid) {
        let names = self.names(space);
        let is_it = names
            .and_then(|names| names.get(name))
            .is_some_and(|entry| entry.pid == *who);
        #[cfg(test)]
        let is_it = is_it && !self.has(crate::model::bugs::Bug::DeadNames);
        if is_it {
            // Members hear of it by the coordinator. Whoever is met meanwhile is not told of it:
            // the name of a process that is gone could win against that of a living one.
            if let Some(names) = self.names_mut(space) {
                names.unwatched(name);
            }
            let change = Change::Unregister {
                name: Name::clone(name),
                pid: Some(who.clone()),
            };
            self.submit(Caller::Nobody, space.clone(), change, Purpose::Done);
        }
    }

    // ---- Members that meet and part ------------------------------------------------------------

    /// Tells a member what this node keeps; `want` asks for what it keeps.
    pub(super) fn send_keep(&mut self, node: &NodeName, space: &Space, want: bool) {
        let Some(names) = self.names(space) else {
            return;
        };
        let entries = names.watched().cloned().collect();
        let frame = Frame::Keep {
            space: space.clone(),
            entries,
            want,
        };
        self.tell(node, &frame);
    }

    /// Tells all members what this node keeps.
    pub(super) fn tell_keep(&mut self, space: &Space) {
        let linked = self
            .linked()
            .filter(|(_, peer)| peer.shared.contains(space));
        let members: Vec<NodeName> = linked.map(|(name, _)| name.clone()).collect();
        for node in members {
            self.send_keep(&node, space, false);
        }
    }

    /// A member says what it keeps.
    pub(super) fn kept_told(
        &mut self,
        node: &NodeName,
        space: &Space,
        entries: Vec<Entry>,
        want: bool,
    ) {
        let early_max = self.limits.groups_max;
        let Some(peer) = self.peers.get_mut(node) else {
            return;
        };
        if !peer.shared.contains(space) {
            // It knows already that both are in the space, this node not yet: once that has asked
            // in turn and reads the answer, it owes one itself.
            if want && peer.asked_early.len() < early_max {
                peer.asked_early.insert(space.clone());
            }
            return;
        }
        let owes = peer.asked_early.remove(space) || want;
        if !want {
            // An answer to what we told: the other side has read it.
            peer.told_names.insert(space.clone());
        }
        let told: BTreeSet<&Name> = entries.iter().map(|entry| &entry.name).collect();
        let Some(names) = self.names(space) else {
            return;
        };
        let gone = names
            .kept_by(node)
            .filter(|entry| !told.contains(&entry.name));
        let gone: Vec<Name> = gone.map(|entry| Name::clone(&entry.name)).collect();
        for name in gone {
            self.take(space, &name);
        }
        for entry in entries {
            if entry.keeper == *node && check_name(&entry.name).is_ok() {
                self.put(space, entry, false);
            }
        }
        if owes {
            self.send_keep(node, space, false);
        }
    }

    /// What a node kept in a space is gone with it.
    pub(super) fn drop_kept(&mut self, space: &Space, node: &NodeName) {
        #[cfg(test)]
        if self.has(crate::model::bugs::Bug::KeepLost) {
            return;
        }
        let Some(names) = self.names(space) else {
            return;
        };
        let its: Vec<Name> = names
            .kept_by(node)
            .map(|entry| Name::clone(&entry.name))
            .collect();
        for name in its {
            self.take(space, &name);
        }
    }

    /// This node leaves a space: its names mean nothing here any more.
    pub(super) fn leave_space(&mut self, space: &Space) {
        let Some(names) = self.names(space) else {
            return;
        };
        let all: Vec<Name> = names.all().map(|entry| Name::clone(&entry.name)).collect();
        for name in all {
            self.take(space, &name);
        }
    }

    /// Sends to the process of a name, and says to whom.
    pub(super) fn send_found(
        &mut self,
        caller: Caller,
        pid: Option<Pid>,
        body: crate::types::Body,
    ) {
        let Some(pid) = pid else {
            return self.answer(caller, Answer::Sent(Err(GroupError::NotRegistered)));
        };
        let from = match caller {
            Caller::Process { id, .. } => Some(id),
            _ => None,
        };
        self.send(from, &pid, body);
        self.answer(caller, Answer::Sent(Ok(pid)));
    }

    /// A process wants to hear of nodes, or no longer.
    pub(super) fn monitor_nodes(&mut self, caller: Caller, on: bool) {
        if let Caller::Process { id, .. } = caller {
            if on {
                self.watch_nodes.insert(id);
            } else {
                self.watch_nodes.remove(&id);
            }
        }
        self.answer(caller, Answer::Done(Ok(())));
    }
}
