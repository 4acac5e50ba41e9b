//! Registering names, and how the members of a space come to know who has which.
//!
//! Every claim has a *keeper*: the node of the process if that is a member, else the member where
//! it was registered. The keeper watches the process and withdraws the claim when that ends. It
//! alone tells the members of its claims: all of them when it meets a member, and each change after
//! that, over the one link that the two have. So what a member knows of a keeper's claims is what
//! they were a moment ago, in whatever order links are made, coordinators change and messages of
//! others arrive; what a lost member kept is dropped. The coordinator of a space (`changes`)
//! decides who may register, and has the keeper do it. Deliberately not here: which claim wins
//! (`claims`), and what becomes of the loser (`clashes`).

use std::collections::{BTreeMap, BTreeSet};

use super::asks::{Kind, Operation, Origin};
use super::changes::Purpose;
use super::claims::{Claim, Stamp};
use super::{Caller, Machine};
use crate::command::{Answer, GroupError, Mode};
use crate::types::{Name, NodeName, Pid, check_name};
use crate::view::Space;
use crate::wire::{Change, Entry, Frame, Order, Outcome};

/// The numbers by which members are to answer what they are told.
type Asks = BTreeMap<NodeName, u64>;

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
        let keeper = self.keeper_for(&space, &pid);
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
        self.submit(caller, space, Change::Unregister(name), Purpose::Done);
    }

    /// Who is to keep a name of a process that is registered at this node.
    pub(super) fn keeper_for(&self, space: &Space, pid: &Pid) -> NodeName {
        if self.is_member(space, &pid.node) {
            pid.node.clone()
        } else {
            self.me.clone()
        }
    }

    /// Whether a node is in a space and linked, or this one.
    pub(super) fn is_member(&self, space: &Space, node: &NodeName) -> bool {
        let peer = self.peers.get(node).filter(|peer| peer.is_up());
        *node == self.me || peer.is_some_and(|peer| peer.shared.contains(space))
    }

    /// The process of a name in a space of this node.
    pub(super) fn find_local(&self, group: &str, name: &str) -> Option<Pid> {
        let space = self.space_called(group)?;
        let claim = self.names(&space)?.get(name)?;
        Some(claim.pid.clone())
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
                .map(move |(name, _)| (Name::clone(&group), Name::clone(name)))
        });
        names.collect()
    }

    // ---- What this node keeps ------------------------------------------------------------------

    /// The coordinator orders something of this node as a keeper. It is answered once all members
    /// know.
    pub(super) fn ordered(
        &mut self,
        space: &Space,
        order: Order,
        seen: Option<u64>,
        origin: Origin,
    ) {
        // Who orders must see the same members, so that all of them are told before it is answered.
        let agrees = seen.is_none_or(|seen| seen == self.members_seen(space));
        let outcome = if self.names(space).is_none() {
            Outcome::NotMember
        } else if !agrees {
            Outcome::Elsewhere
        } else if self.operations.len() >= self.limits.operations_max {
            Outcome::Busy
        } else {
            self.may_obey(space, &order)
        };
        let own = self.own_claim(space, order.name());
        // A claim that has made room for another one is withdrawn, and all know.
        let is_past = match &order {
            Order::Withdraw { number, .. } => own.is_some_and(|own| own.stamp.number != *number),
            Order::Claim { .. } => false,
        };
        if outcome != Outcome::Done || is_past {
            return self.decided(outcome, origin);
        }
        let operation = Operation {
            caller: Caller::Nobody,
            waiting: self.members_linked(space),
            kind: Kind::Apply {
                group: None,
                outcome,
                origin,
            },
        };
        let operation = self.new_operation(operation);
        let asks = self.expect_answers(operation);
        match order {
            Order::Claim { name, pid, over } => self.claim(space, &name, pid, over, &asks),
            Order::Withdraw { name, .. } => self.withdraw(space, &name, &asks),
        }
        self.finish_if_done(operation);
    }

    fn may_obey(&self, space: &Space, order: &Order) -> Outcome {
        let Order::Claim { name, pid, over } = order else {
            return Outcome::Done;
        };
        let own = self.own_claim(space, name);
        if own.is_some_and(|own| own.pid == *pid) {
            // Done before, for a coordinator that was lost.
            return Outcome::Done;
        }
        if check_name(name).is_err() || over.len() > self.limits.members_max {
            return Outcome::Taken;
        }
        self.verdict(space, name, pid, over)
    }

    /// Whether a process may have a name, in the place of these claims.
    pub(super) fn verdict(&self, space: &Space, name: &Name, pid: &Pid, over: &[Stamp]) -> Outcome {
        let Some(names) = self.names(space) else {
            return Outcome::NotMember;
        };
        let held = names.claims(name);
        let has_other = names.has_other(pid, name) && !self.many_names;
        #[cfg(test)]
        let has_other = has_other && !self.has(crate::model::bugs::Bug::TwoNames);
        if has_other || !held.iter().all(|claim| over.contains(&claim.stamp)) {
            Outcome::Taken
        } else if held.is_empty() && names.len() >= self.limits.names_max {
            Outcome::Busy
        } else {
            Outcome::Done
        }
    }

    pub(super) fn own_claim(&self, space: &Space, name: &str) -> Option<&Claim> {
        self.names(space)?.claim_of(name, &self.me)
    }

    /// Claims a name for a process, and tells the members.
    fn claim(&mut self, space: &Space, name: &Name, pid: Pid, over: Vec<Stamp>, asks: &Asks) {
        let own = self.own_claim(space, name);
        if let Some(own) = own.filter(|own| own.pid == pid) {
            let entry = entry_of(name, own);
            return self.tell_members(space, asks, |space, ask| Frame::Kept {
                space,
                entry: entry.clone(),
                ask,
            });
        }
        self.next_claim += 1;
        let stamp = Stamp {
            keeper: self.me.clone(),
            life: self.life,
            number: self.next_claim,
        };
        let monitor = self.new_monitor();
        let claim = Claim {
            pid: pid.clone(),
            stamp,
            over,
            monitor: Some(monitor),
            is_contested: false,
        };
        let entry = entry_of(name, &claim);
        let names = self.names_mut(space);
        let old = names.and_then(|names| names.insert(name, claim));
        self.unwatch_claim(old);
        self.tell_members(space, asks, |space, ask| Frame::Kept {
            space,
            entry: entry.clone(),
            ask,
        });
        // Last, for a process that is gone already is reported at once.
        self.watch_named(space, name, monitor, &pid);
    }

    /// Withdraws this node's claim for a name, and tells the members.
    pub(super) fn withdraw(&mut self, space: &Space, name: &Name, asks: &Asks) {
        let me = self.me.clone();
        let names = self.names_mut(space);
        let claim = names.and_then(|names| names.remove(name, &me));
        self.unwatch_claim(claim);
        self.tell_members(space, asks, |space, ask| Frame::Withdrawn {
            space,
            name: Name::clone(name),
            ask,
        });
    }

    fn unwatch_claim(&mut self, claim: Option<Claim>) {
        if let Some(Claim {
            pid,
            monitor: Some(monitor),
            ..
        }) = claim
        {
            self.unwatch(monitor, &pid);
        }
    }

    /// A process whose name this node keeps ended.
    pub(super) fn named_ended(&mut self, space: &Space, name: &Name, who: &Pid) {
        let is_it = self
            .own_claim(space, name)
            .is_some_and(|own| own.pid == *who);
        #[cfg(test)]
        let is_it = is_it && !self.has(crate::model::bugs::Bug::DeadNames);
        if is_it {
            self.withdraw(space, name, &Asks::new());
        }
    }

    /// The members of a space that this node is linked with.
    pub(super) fn members_linked(&self, space: &Space) -> BTreeSet<NodeName> {
        let linked = self
            .linked()
            .filter(|(_, peer)| peer.shared.contains(space));
        linked.map(|(name, _)| name.clone()).collect()
    }

    fn tell_members(
        &mut self,
        space: &Space,
        asks: &Asks,
        frame: impl Fn(Space, Option<u64>) -> Frame,
    ) {
        #[cfg_attr(not(test), allow(unused_mut))]
        let mut members = self.members_linked(space);
        #[cfg(test)]
        if self.has(crate::model::bugs::Bug::ForgetOneMember) && members.len() > 2 {
            members.pop_last();
        }
        for node in members {
            let ask = asks.get(&node).copied();
            self.tell(&node, &frame(space.clone(), ask));
        }
    }

    /// Tells a member everything that this node keeps; `want` asks for what it keeps. In several
    /// frames if one has not room for all.
    pub(super) fn send_keep(&mut self, node: &NodeName, space: &Space, want: bool) {
        let Some(names) = self.names(space) else {
            return;
        };
        let room = self.limits.frame_bytes_max / 2;
        let (mut frames, mut entries, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut after = None;
        for (name, claim) in names.kept_by(&self.me, None, None) {
            let entry: Entry = entry_of(name, claim);
            bytes += entry.bytes_max();
            entries.push(entry);
            if bytes >= room {
                let upto = Some(Name::clone(name));
                let space = space.clone();
                frames.push(Frame::Keep {
                    space,
                    after: std::mem::replace(&mut after, upto.clone()),
                    upto,
                    entries: std::mem::take(&mut entries),
                    want: false,
                });
                bytes = 0;
            }
        }
        let space = space.clone();
        frames.push(Frame::Keep {
            space,
            after,
            upto: None,
            entries,
            want,
        });
        for frame in frames {
            self.tell(node, &frame);
        }
    }

    // ---- What others keep ----------------------------------------------------------------------

    /// A member says what it keeps of an interval of names.
    ///
    /// Each of two nodes finds out by itself that they have a space in common, and asks the other
    /// one when it does. What it was told before that is left out, for it is told again: by the
    /// answer, or because the other one finds out later still.
    pub(super) fn keep_told(
        &mut self,
        node: &NodeName,
        space: &Space,
        (after, upto): (Option<Name>, Option<Name>),
        entries: Vec<Entry>,
        want: bool,
    ) {
        if !self.is_member(space, node) {
            return;
        }
        if upto.is_none()
            && let Some(peer) = self.peers.get_mut(node)
        {
            peer.told_names.insert(space.clone());
        }
        let told: BTreeSet<&Name> = entries.iter().map(|entry| &entry.name).collect();
        let Some(names) = self.names(space) else {
            return;
        };
        let kept = names.kept_by(node, after.as_ref(), upto.as_ref());
        let gone = kept
            .map(|(name, _)| name)
            .filter(|name| !told.contains(name));
        let gone: Vec<Name> = gone.cloned().collect();
        for name in gone {
            self.withdrawn_told(node, space, &name);
        }
        for entry in entries {
            self.kept_told(node, space, entry);
        }
        if want {
            self.send_keep(node, space, false);
        }
    }

    /// A member says that it keeps a name.
    pub(super) fn kept_told(&mut self, node: &NodeName, space: &Space, entry: Entry) {
        let Entry {
            name,
            pid,
            number,
            mut over,
        } = entry;
        over.truncate(self.limits.members_max);
        if !self.is_member(space, node) || check_name(&name).is_err() {
            return;
        }
        let life = self.peers.get(node).map_or(0, |peer| peer.life);
        let max = self.limits.names_max;
        let claim = Claim {
            pid,
            stamp: Stamp {
                keeper: node.clone(),
                life,
                number,
            },
            over,
            monitor: None,
            is_contested: false,
        };
        if let Some(names) = self.names_mut(space)
            && (names.len() < max || names.claim_of(&name, node).is_some())
        {
            names.insert(&name, claim);
            self.contend(space, &name);
        }
    }

    /// A member keeps a name no longer.
    pub(super) fn withdrawn_told(&mut self, node: &NodeName, space: &Space, name: &Name) {
        if let Some(names) = self.names_mut(space) {
            names.remove(name, node);
        }
        self.contend(space, name);
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
            .kept_by(node, None, None)
            .map(|(name, _)| Name::clone(name))
            .collect();
        for name in its {
            self.withdrawn_told(node, space, &name);
        }
    }

    /// This node leaves a space: its names mean nothing here any more. Members drop what it kept
    /// when they hear that it has left.
    pub(super) fn leave_space(&mut self, space: &Space) {
        let Some(names) = self.names_mut(space) else {
            return;
        };
        let names = std::mem::take(names);
        let own: Vec<Claim> = names
            .kept_by(&self.me, None, None)
            .map(|(_, claim)| claim.clone())
            .collect();
        for claim in own {
            self.unwatch_claim(Some(claim));
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

/// A claim of this node, as it is told.
fn entry_of(name: &Name, claim: &Claim) -> Entry {
    Entry {
        name: Name::clone(name),
        pid: claim.pid.clone(),
        number: claim.stamp.number,
        over: claim.over.clone(),
    }
}
