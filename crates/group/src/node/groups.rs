//! Membership: which groups this node is in, and which links follow from it.
//!
//! Owns views, invitations, and what becomes of links when a node joins or leaves. A link has a
//! reason while both nodes are in a common space; if that ends by what this node does, the link is
//! closed. Links made on demand to other nodes have no such reason and stay. Deliberately not here:
//! who decides on a change (`changes`).

use std::collections::{BTreeMap, BTreeSet};

use super::asks::{Kind, Operation, Origin};
use super::changes::Purpose;
use super::claims::Names;
use super::{Caller, Effect, Group, Machine, Wake};
use crate::command::{Answer, GroupError, Note};
use crate::config::{GroupConfig, Saved};
use crate::limits::AGREE_MAX;
use crate::types::{Name, NodeName, Refusal, check_name};
use crate::view::{GroupId, RESERVED, Space, View};
use crate::wire::{Advert, Change, Frame, Outcome, Question, Status};

impl Machine {
    // ---- The beginning -------------------------------------------------------------------------

    /// The groups of the configuration, and those of the last life, which know better.
    pub(super) fn load_groups(&mut self, config: Vec<GroupConfig>, saved: Option<Saved>) {
        for GroupConfig { name, nodes } in config {
            let members: BTreeSet<NodeName> = nodes.into_iter().collect();
            if members.contains(&self.me) {
                let view = View {
                    id: GroupId::configured(&name),
                    version: 1,
                    by: Name::from(""),
                    members,
                };
                self.enter(view);
            } else {
                self.known.insert(name, members);
            }
        }
        let Saved { groups, left } = saved.unwrap_or_default();
        for view in left {
            let name = Name::clone(&view.id.name);
            if self
                .groups
                .get(&name)
                .is_some_and(|group| group.view.id == view.id)
            {
                self.groups.remove(&name);
            }
            self.bury(view);
        }
        for view in groups {
            if view.has(&self.me) {
                self.enter(view);
            }
        }
        let members: Vec<NodeName> = self.members().into_iter().collect();
        for node in members {
            self.want(&node, false);
        }
    }

    fn enter(&mut self, view: View) {
        let name = Name::clone(&view.id.name);
        let names = Names::default();
        self.groups.insert(name, Group { view, names });
    }

    /// Members of all own groups, without this node.
    pub(super) fn members(&self) -> BTreeSet<NodeName> {
        let views = self.groups.values().map(|group| &group.view);
        let mut all: BTreeSet<NodeName> = views.flat_map(|view| view.members.clone()).collect();
        all.remove(&self.me);
        all
    }

    /// Whether a link with a node has a reason of its own.
    pub(super) fn is_wanted(&self, node: &NodeName) -> bool {
        self.groups.values().any(|group| group.view.has(node))
    }

    // ---- Spaces in common ----------------------------------------------------------------------

    fn spaces_with(&self, node: &NodeName) -> BTreeSet<Space> {
        let Some(peer) = self.peers.get(node) else {
            return BTreeSet::new();
        };
        if self.is_free() {
            let is_hidden = peer.hidden || self.hidden;
            #[cfg(test)]
            let is_hidden = is_hidden && !self.has(crate::model::bugs::Bug::HiddenIsFree);
            let both = peer.has_status && peer.groups.is_empty() && !is_hidden;
            return both.then_some(Space::Free).into_iter().collect();
        }
        let common = self.groups.values().filter(|group| group.view.has(node));
        common
            .map(|group| Space::Group(group.view.id.clone()))
            .collect()
    }

    /// Looks again what this node has in common with a linked one, and does what follows.
    ///
    /// While either is about to join a group they do not become free peers of each other: a link
    /// that is made for an invitation must not merge the free nodes around them.
    pub(super) fn refresh(&mut self, node: &NodeName, by_us: bool) {
        let new = self.spaces_with(node);
        let is_joining = !self.reserved.is_empty();
        let Some(peer) = self.peers.get_mut(node).filter(|peer| peer.is_up()) else {
            return;
        };
        let mut new = new;
        if (is_joining || peer.is_joining) && !peer.shared.contains(&Space::Free) {
            new.remove(&Space::Free);
        }
        let old = std::mem::replace(&mut peer.shared, new.clone());
        for space in old.difference(&new) {
            self.drop_kept(space, node);
            if let Some(peer) = self.peers.get_mut(node) {
                peer.told_names.remove(space);
            }
        }
        for space in new.difference(&old) {
            self.send_keep(node, space, true);
            if *space == Space::Free {
                self.send_free_peers(node);
            }
        }
        if old.is_empty() && !new.is_empty() {
            self.node_up_down(node, None);
        }
        if !old.is_empty() && new.is_empty() {
            self.node_up_down(node, Some(Refusal::Left));
            #[cfg(test)]
            let by_us = by_us && !self.has(crate::model::bugs::Bug::KeepLinks);
            if by_us {
                self.disconnect(node, Refusal::Left);
            }
        }
    }

    fn send_free_peers(&mut self, node: &NodeName) {
        let in_free = self
            .linked()
            .filter(|(_, peer)| peer.shared.contains(&Space::Free));
        let nodes: Vec<NodeName> = in_free.map(|(name, _)| name.clone()).collect();
        self.tell(node, &Frame::FreePeers(nodes));
    }

    /// Free nodes are linked all with all.
    pub(super) fn free_peers_told(&mut self, node: &NodeName, nodes: Vec<NodeName>) {
        let is_free_peer = self
            .peers
            .get(node)
            .is_some_and(|peer| peer.shared.contains(&Space::Free));
        // Status and list may cross: what a node says of its free peers before we know it as free
        // counts too, if we are free.
        let is_free_here = self.is_free() && !self.hidden;
        if !is_free_peer && !is_free_here {
            return;
        }
        #[cfg(test)]
        if self.has(crate::model::bugs::Bug::NoFreePeers) {
            return;
        }
        for other in nodes {
            self.want(&other, true);
        }
    }

    // ---- Status --------------------------------------------------------------------------------

    pub(super) fn send_status(&mut self, node: &NodeName) {
        let advert = |group: &Group| {
            let view = &group.view;
            let is_member = view.has(node);
            Advert {
                id: view.id.clone(),
                version: view.version,
                by: Name::clone(&view.by),
                members: (!is_member).then(|| view.members.iter().cloned().collect()),
            }
        };
        let groups = self.groups.values().map(advert).collect();
        let is_joining = !self.reserved.is_empty();
        let status = Status { is_joining, groups };
        self.tell(node, &Frame::Status(status));
    }

    pub(super) fn send_status_to_all(&mut self) {
        let linked: Vec<NodeName> = self.linked().map(|(name, _)| name.clone()).collect();
        for node in linked {
            self.send_status(&node);
        }
    }

    pub(super) fn status_told(&mut self, node: &NodeName, mut status: Status) {
        status.groups.truncate(self.limits.groups_max);
        let mut groups = BTreeMap::new();
        for advert in status.groups {
            let Advert {
                id,
                version,
                by,
                members,
            } = advert;
            let own = self
                .groups
                .get(&id.name)
                .filter(|group| group.view.id == id);
            let members: BTreeSet<NodeName> = match members {
                Some(members) => members.into_iter().take(self.limits.members_max).collect(),
                None => own.map_or_else(BTreeSet::new, |group| group.view.members.clone()),
            };
            let theirs = (version, &by);
            let newer = own
                .map(|group| &group.view)
                .filter(|view| view.rank() > theirs);
            if let Some(view) = newer.cloned() {
                self.tell(node, &Frame::View(view));
            } else if own.is_none()
                && let Some(view) = self.buried(&id).cloned()
            {
                if view.rank() > theirs {
                    self.tell(node, &Frame::View(view));
                }
            } else if own.is_none() && members.is_empty() {
                self.tell(node, &Frame::Want(id.clone()));
            }
            groups.insert(id, members);
        }
        // A group of ours that it is in and does not tell of: it was not there when that was made.
        let views = self.groups.values().map(|group| &group.view);
        let missing = views.filter(|view| view.has(node) && !groups.contains_key(&view.id));
        for view in missing.cloned().collect::<Vec<_>>() {
            self.tell(node, &Frame::View(view));
        }
        if let Some(peer) = self.peers.get_mut(node) {
            (peer.groups, peer.has_status) = (groups, true);
            peer.is_joining = status.is_joining;
        }
        self.refresh(node, false);
        let peer = self.peers.get_mut(node);
        let has_tried = peer.is_some_and(|peer| {
            std::mem::take(&mut peer.is_tried) && peer.is_up() && peer.shared.is_empty()
        });
        if has_tried {
            self.disconnect(node, Refusal::Left);
        }
    }

    pub(super) fn view_wanted(&mut self, node: &NodeName, id: &GroupId) {
        let own = self.groups.get(&id.name).map(|group| &group.view);
        let own = own.filter(|view| view.id == *id);
        if let Some(view) = own.or_else(|| self.buried(id)).cloned() {
            self.tell(node, &Frame::View(view));
        }
    }

    pub(super) fn view_told(&mut self, node: &NodeName, view: View) {
        let own = self.groups.get(&view.id.name);
        if own.is_some_and(|group| group.view.id != view.id) && view.has(&self.me) {
            // Two groups of one name cannot meet in one node: it stays in the one that it has, and
            // the other one is told so.
            let change = Change::Remove(vec![self.me.clone()]);
            let question = Question::Submit {
                space: Space::Group(view.id.clone()),
                change,
                attempt: AGREE_MAX + 1,
                seen: 0,
            };
            let operation = Operation {
                caller: Caller::Nobody,
                waiting: BTreeSet::from([node.clone()]),
                kind: Kind::Apply {
                    group: None,
                    outcome: Outcome::Done,
                    origin: Origin::Made(Caller::Nobody, Name::clone(&view.id.name)),
                },
            };
            let operation = self.new_operation(operation);
            let after = self.limits.ask;
            return self.ask_all(operation, &question, after);
        }
        self.install(view);
    }

    // ---- Views ---------------------------------------------------------------------------------

    fn buried(&self, id: &GroupId) -> Option<&View> {
        self.tombstones.iter().find(|view| view.id == *id)
    }

    fn bury(&mut self, view: View) {
        self.tombstones.retain(|other| other.id != view.id);
        if self.tombstones.len() >= self.limits.tombstones_max {
            self.tombstones.pop_front();
        }
        self.tombstones.push_back(view);
    }

    /// Takes a view, if it is later than what is known of its group.
    pub(super) fn install(&mut self, view: View) {
        let id = view.id.clone();
        self.install_later(view);
        self.unreserve(&id.name, Some(&id));
    }

    fn install_later(&mut self, view: View) {
        let name = Name::clone(&view.id.name);
        if self
            .buried(&view.id)
            .is_some_and(|old| old.rank() >= view.rank())
        {
            return;
        }
        let old = match self.groups.get(&name) {
            Some(group) if group.view.id != view.id => return,
            Some(group) if group.view.rank() >= view.rank() => return,
            Some(group) => Some(group.view.members.clone()),
            None => None,
        };
        let is_in = view.has(&self.me);
        if view.members.len() > self.limits.members_max {
            return;
        }
        match (&old, is_in) {
            (None, false) => return,
            (None, true) if self.groups.len() >= self.limits.groups_max => return,
            _ => {}
        }
        self.note_change(&name, old.as_ref(), &view);
        if is_in && old.is_none() && self.is_free() {
            self.leave_space(&Space::Free);
        }
        self.tell_peers_apart(&view);
        if is_in {
            self.tombstones.retain(|other| other.id != view.id);
            let group = self.groups.entry(name).or_insert_with(|| Group {
                view: view.clone(),
                names: Names::default(),
            });
            group.view = view.clone();
        } else {
            self.leave_space(&Space::Group(view.id.clone()));
            self.groups.remove(&name);
            self.bury(view.clone());
        }
        // Before the others are told, who would go on to take this node for one that is joining.
        self.unreserve(&view.id.name, Some(&view.id));
        self.follow(&view);
    }

    /// What is noted of a change.
    fn note_change(&mut self, name: &Name, old: Option<&BTreeSet<NodeName>>, view: &View) {
        let name = Name::clone(name);
        match old {
            None => self.note(Note::Joined(name)),
            Some(_) if !view.has(&self.me) => self.note(Note::Left(name)),
            Some(old) => {
                let added: Vec<NodeName> = view.members.difference(old).cloned().collect();
                let removed: Vec<NodeName> = old.difference(&view.members).cloned().collect();
                if !added.is_empty() {
                    self.note(Note::Added(Name::clone(&name), added));
                }
                if !removed.is_empty() {
                    self.note(Note::Removed(name, removed));
                }
            }
        }
    }

    /// Notes for each linked node whether it is in a group now, as it will tell itself.
    fn tell_peers_apart(&mut self, view: &View) {
        for (node, peer) in &mut self.peers {
            if peer.is_up() && view.has(node) {
                peer.groups.insert(view.id.clone(), view.members.clone());
            } else {
                peer.groups.remove(&view.id);
            }
        }
    }

    /// Links, records and words that follow from a change of this node's groups.
    fn follow(&mut self, view: &View) {
        let linked: Vec<NodeName> = self.linked().map(|(name, _)| name.clone()).collect();
        for node in &linked {
            if self.is_linked(node) {
                self.refresh(node, true);
            }
        }
        self.send_status_to_all();
        if view.has(&self.me) {
            for node in view.members.clone() {
                self.want(&node, false);
            }
        }
        let saved = Saved {
            groups: self
                .groups
                .values()
                .map(|group| group.view.clone())
                .collect(),
            left: self.tombstones.iter().cloned().collect(),
        };
        self.effects.push(Effect::Save(saved));
    }

    /// The other side ended the link and says why.
    pub(super) fn said_bye(&mut self, node: &NodeName, why: Refusal) {
        if let Some(id) = self.peers.get(node).and_then(|peer| peer.up()) {
            self.effects.push(Effect::Close { conn: id });
            self.closed(id, why);
        }
    }

    // ---- Commands ------------------------------------------------------------------------------

    /// A name that no own group has.
    fn random_name(&mut self) -> Name {
        loop {
            let letters = (0..30).map(|_| self.rng.lowercase());
            let name: Name = letters.collect::<String>().into();
            if !self.groups.contains_key(&name) {
                return name;
            }
        }
    }

    pub(super) fn new_group(&mut self, caller: Caller, name: Option<Name>, nodes: Vec<NodeName>) {
        let name = name.unwrap_or_else(|| self.random_name());
        let nodes: BTreeSet<NodeName> = nodes.into_iter().collect();
        let error = if RESERVED.contains(&name.as_ref()) {
            Some(GroupError::ReservedName)
        } else if check_name(&name).is_err() {
            Some(GroupError::BadName)
        } else if nodes.is_empty() {
            return self.answer(caller, Answer::Group(Ok((name, Vec::new()))));
        } else if !nodes.contains(&self.me) {
            Some(GroupError::RemoteGroup)
        } else if self.groups.contains_key(&name) || self.reserved.contains_key(&name) {
            Some(GroupError::NameInUse)
        } else if self.groups.len() + self.reserved.len() >= self.limits.groups_max
            || self.operations.len() >= self.limits.operations_max
        {
            Some(GroupError::Busy)
        } else {
            None
        };
        if let Some(error) = error {
            return self.answer(caller, Answer::Group(Err(error)));
        }
        self.next_group += 1;
        let id = GroupId {
            name,
            by: self.me.as_str().into(),
            at: (self.life << 20) + self.next_group,
        };
        self.reserve(&id);
        let others = nodes.into_iter().filter(|node| *node != self.me);
        let others: Vec<NodeName> = others.take(self.limits.members_max - 1).collect();
        self.invite(caller, id, others, true);
    }

    fn invite(&mut self, caller: Caller, group: GroupId, nodes: Vec<NodeName>, is_new: bool) {
        let operation = Operation {
            caller,
            waiting: nodes.into_iter().collect(),
            kind: Kind::Invite {
                group: group.clone(),
                is_new,
                accepted: BTreeSet::new(),
            },
        };
        let operation = self.new_operation(operation);
        let after = self.limits.ask;
        self.ask_all(operation, &Question::Invite(group), after);
        self.finish_if_done(operation);
    }

    fn reserve(&mut self, id: &GroupId) {
        let after = self.limits.ask * 2;
        let key = self.wake_after(after, Wake::Reservation(Name::clone(&id.name)));
        let old = self
            .reserved
            .insert(Name::clone(&id.name), (id.clone(), key));
        if let Some((_, key)) = old {
            self.cancel(key);
        }
    }

    /// A reservation came to nothing, or to a view.
    pub(super) fn unreserve(&mut self, name: &str, id: Option<&GroupId>) {
        let is_it = |(other, _): &(GroupId, _)| id.is_none_or(|id| id == other);
        if !self.reserved.get(name).is_some_and(is_it) {
            return;
        }
        if let Some((_, key)) = self.reserved.remove(name) {
            self.cancel(key);
        }
        if self.reserved.is_empty() && self.is_free() {
            self.send_status_to_all();
            let linked: Vec<NodeName> = self.linked().map(|(name, _)| name.clone()).collect();
            for node in linked {
                self.refresh(&node, false);
            }
        }
    }

    /// Whether this node would join a group.
    pub(super) fn invited(&mut self, id: GroupId) -> bool {
        let is_taken = self
            .groups
            .get(&id.name)
            .is_some_and(|group| group.view.id != id);
        let is_reserved = self
            .reserved
            .get(&id.name)
            .is_some_and(|(other, _)| *other != id);
        let is_bad = check_name(&id.name).is_err() || RESERVED.contains(&id.name.as_ref());
        let is_full = self.groups.len() + self.reserved.len() >= self.limits.groups_max;
        #[cfg(test)]
        let is_taken = is_taken && !self.has(crate::model::bugs::Bug::NameTwice);
        if is_taken || is_reserved || is_bad || is_full || self.stopped {
            return false;
        }
        if !self.groups.contains_key(&id.name) {
            self.reserve(&id);
        }
        true
    }

    /// Everybody who was invited has answered.
    pub(super) fn invited_all(
        &mut self,
        caller: Caller,
        id: GroupId,
        is_new: bool,
        mut accepted: BTreeSet<NodeName>,
    ) {
        if !is_new {
            let added: Vec<NodeName> = accepted.into_iter().collect();
            if added.is_empty() {
                return self.answer(caller, Answer::Group(Ok((id.name, Vec::new()))));
            }
            let name = Name::clone(&id.name);
            let change = Change::Add(added);
            return self.submit(caller, Space::Group(id), change, Purpose::Add(name));
        }
        let others = accepted.clone();
        accepted.insert(self.me.clone());
        let view = View {
            id,
            version: 1,
            by: self.me.as_str().into(),
            members: accepted,
        };
        let members: Vec<NodeName> = view.members.iter().cloned().collect();
        let operation = Operation {
            caller: Caller::Nobody,
            waiting: others,
            kind: Kind::Apply {
                group: Some(view.id.clone()),
                outcome: Outcome::Added(members),
                origin: Origin::Made(caller, Name::clone(&view.id.name)),
            },
        };
        let operation = self.new_operation(operation);
        let after = self.limits.ask;
        self.ask_all(operation, &Question::Apply(view.clone()), after);
        self.install(view);
        self.finish_if_done(operation);
    }

    pub(super) fn add_nodes(&mut self, caller: Caller, group: &Name, nodes: Vec<NodeName>) {
        let Some(own) = self.groups.get(group) else {
            return self.answer(caller, Answer::Group(Err(GroupError::NotMember)));
        };
        let id = own.view.id.clone();
        let nodes: BTreeSet<NodeName> = nodes.into_iter().collect();
        let others = nodes.iter().filter(|node| **node != self.me);
        let others: Vec<NodeName> = others.cloned().collect();
        if others.is_empty() {
            let answer = (Name::clone(group), Vec::new());
            return self.answer(caller, Answer::Group(Ok(answer)));
        }
        let new: Vec<NodeName> = others
            .iter()
            .filter(|node| !own.view.has(node))
            .cloned()
            .collect();
        if new.is_empty() {
            let answer = (Name::clone(group), others);
            return self.answer(caller, Answer::Group(Ok(answer)));
        }
        let has_room = own.view.members.len() + new.len() <= self.limits.members_max;
        if !has_room || self.operations.len() >= self.limits.operations_max {
            return self.answer(caller, Answer::Group(Err(GroupError::Busy)));
        }
        self.invite(caller, id, new, false);
    }

    pub(super) fn remove_nodes(&mut self, caller: Caller, group: &Name, nodes: Vec<NodeName>) {
        let error = |error| Answer::Done(Err(error));
        if nodes.is_empty() {
            return self.answer(caller, Answer::Done(Ok(())));
        }
        if nodes.contains(&self.me) {
            return self.answer(caller, error(GroupError::CannotRemoveItself));
        }
        let Some(own) = self.groups.get(group) else {
            return self.answer(caller, error(GroupError::NotMember));
        };
        let space = Space::Group(own.view.id.clone());
        self.submit(caller, space, Change::Remove(nodes), Purpose::Done);
    }

    pub(super) fn delete_group(&mut self, caller: Caller, group: &Name) {
        let Some(own) = self.groups.get(group) else {
            return self.answer(caller, Answer::Done(Err(GroupError::RemoteGroup)));
        };
        let space = Space::Group(own.view.id.clone());
        self.submit(caller, space, Change::Delete, Purpose::Done);
    }

    pub(super) fn members_known(&self, group: &str) -> Option<Vec<NodeName>> {
        if let Some(own) = self.groups.get(group) {
            return Some(own.view.members.iter().cloned().collect());
        }
        let told = self.peers.values().flat_map(|peer| &peer.groups);
        let told = told.filter(|(id, members)| &*id.name == group && !members.is_empty());
        let told = told.map(|(_, members)| members).next();
        let members = told.or_else(|| self.known.get(group))?;
        Some(members.iter().cloned().collect())
    }
}
