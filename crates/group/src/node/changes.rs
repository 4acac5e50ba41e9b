//! Changes of one space: ordered by its coordinator, applied by all members, then answered.
//!
//! Owns the group's lock: of the linked members the one with the smallest name orders all changes,
//! so that no two of them meet, and nobody outside of the group takes part. A change is answered
//! once every linked member has applied it. If the coordinator is lost, the change is submitted
//! again to the next one; every change may be applied twice. Members apply views as the coordinator
//! tells them. Names are their keepers' to tell: the coordinator orders them to. Deliberately not
//! here: what a change does (`groups`, `names`).

use std::collections::BTreeSet;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::asks::{Kind, Operation, Origin, Then, Told};
use super::claims::Stamp;
use super::{Caller, Machine, Wake};
use crate::command::{Answer, GroupError};
use crate::limits::{AGREE_MAX, SUBMIT_RETRY, SUBMITS_MAX};
use crate::types::{Name, NodeName};
use crate::view::{Space, View};
use crate::wire::{Change, Frame, Order, Outcome, Question, Tell};

/// What the caller of a change asked for: decides how its outcome is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Members were added to this group.
    Add(Name),
    /// A name was registered; this error says that it is taken, that one that this is no member.
    Register(GroupError, GroupError),
    /// Anything else.
    Done,
}

/// What follows from a change that the coordinator has decided.
#[derive(Debug)]
enum Follows {
    Nothing,
    /// All members take this view.
    View(View),
    /// Keepers do this.
    Orders(Vec<(NodeName, Order)>),
}

impl Machine {
    /// The member that orders the changes of a space.
    pub(super) fn coordinator(&self, space: &Space) -> Option<NodeName> {
        self.names(space)?;
        let linked = self
            .linked()
            .filter(|(_, peer)| peer.shared.contains(space));
        let smallest = linked.map(|(name, _)| name).next();
        Some(
            smallest
                .map_or(&self.me, |other| other.min(&self.me))
                .clone(),
        )
    }

    /// Whether this node knows the names of all members that it can reach.
    fn is_settled(&self, space: &Space) -> bool {
        let knows = |node: &NodeName| {
            *node == self.me
                || self.peers.get(node).is_some_and(|peer| {
                    peer.told_names.contains(space) || (!peer.is_up() && peer.failed)
                })
        };
        match space {
            Space::Free => {
                let mut linked = self.linked();
                linked.all(|(_, peer)| {
                    !peer.shared.contains(space) || peer.told_names.contains(space)
                })
            }
            Space::Group(id) => {
                let group = self.groups.get(&id.name);
                group.is_some_and(|group| group.view.members.iter().all(knows))
            }
        }
    }

    /// A number that stands for the members of a space that are linked with this node.
    pub(super) fn members_seen(&self, space: &Space) -> u64 {
        let mut members = self.members_linked(space);
        members.insert(self.me.clone());
        let mut hasher = FxHasher::default();
        for member in members {
            hasher.write(member.as_str().as_bytes());
            hasher.write_u8(0);
        }
        hasher.finish()
    }

    // ---- The submitting side -------------------------------------------------------------------

    pub(super) fn submit(
        &mut self,
        caller: Caller,
        space: Space,
        change: Change,
        purpose: Purpose,
    ) {
        let is_full = self.operations.len() >= self.limits.operations_max;
        if is_full {
            let answer = answer_of(purpose, Outcome::Busy);
            return self.answer(caller, answer);
        }
        let operation = Operation {
            caller,
            waiting: BTreeSet::new(),
            kind: Kind::Submit {
                space,
                change,
                attempts: 0,
                purpose,
            },
        };
        let id = self.new_operation(operation);
        self.submit_again(id);
    }

    /// Submits a change to whoever coordinates now.
    pub(super) fn submit_again(&mut self, id: u64) {
        let Some(operation) = self.operations.get_mut(&id) else {
            return;
        };
        let Kind::Submit {
            space,
            change,
            attempts,
            ..
        } = &mut operation.kind
        else {
            return;
        };
        *attempts += 1;
        let attempt = *attempts;
        let (space, mut change) = (space.clone(), change.clone());
        if let Change::Register { pid, keeper, .. } = &mut change {
            // Not the one of the last attempt, if that was lost.
            *keeper = self.keeper_for(&space, pid);
        }
        if attempt > SUBMITS_MAX {
            return self.finish_submit(id, Outcome::Unknown);
        }
        let Some(coordinator) = self.coordinator(&space) else {
            // A group that is gone since the first attempt was deleted by it: the coordinator may
            // close its link with us before it has answered.
            let is_deleted = attempt > 1 && change == Change::Delete;
            let outcome = if is_deleted {
                Outcome::Done
            } else {
                Outcome::NotMember
            };
            return self.finish_submit(id, outcome);
        };
        let seen = self.members_seen(&space);
        if coordinator == self.me {
            return self.coordinate(&space, change, (attempt, seen), Origin::Here(id));
        }
        let question = Question::Submit {
            space,
            change,
            attempt,
            seen,
        };
        let after = self.limits.ask;
        self.ask(&coordinator, question, after, Then::Operation(id));
    }

    pub(super) fn submitted(&mut self, id: u64, told: Told) {
        match told {
            Told::Answer(Tell::Outcome(Outcome::Elsewhere | Outcome::NotMember))
            | Told::NoConnection => {
                self.wake_after(SUBMIT_RETRY, Wake::Submit(id));
            }
            Told::Answer(Tell::Outcome(outcome)) => self.finish_submit(id, outcome),
            Told::Answer(_) | Told::Timeout => self.finish_submit(id, Outcome::Unknown),
        }
    }

    fn finish_submit(&mut self, id: u64, outcome: Outcome) {
        let Some(operation) = self.operations.remove(&id) else {
            return;
        };
        let Kind::Submit { purpose, .. } = operation.kind else {
            return;
        };
        let answer = answer_of(purpose, outcome);
        self.answer(operation.caller, answer);
    }

    // ---- The coordinating side -----------------------------------------------------------------

    /// Orders a change: decides it, applies it here and has all members apply it.
    ///
    /// Whoever asks must see the same members, so that a node that is just being linked with some
    /// of them and not yet with others misses nothing.
    pub(super) fn coordinate(
        &mut self,
        space: &Space,
        change: Change,
        (attempt, seen): (u32, u64),
        origin: Origin,
    ) {
        let is_ours = self.coordinator(space).as_ref() == Some(&self.me);
        let is_settled = self.is_settled(space);
        let agrees = attempt > AGREE_MAX || seen == self.members_seen(space);
        if !is_ours || !is_settled || !agrees {
            let outcome = if self.names(space).is_some() {
                Outcome::Elsewhere
            } else {
                Outcome::NotMember
            };
            return self.decided(outcome, origin);
        }
        if self.operations.len() >= self.limits.operations_max {
            return self.decided(Outcome::Busy, origin);
        }
        let (outcome, follows) = self.decide(space, change, attempt > 1);
        match follows {
            Follows::Nothing => self.decided(outcome, origin),
            Follows::View(view) => self.tell_view(space, view, outcome, origin),
            Follows::Orders(orders) => {
                let seen = (attempt <= AGREE_MAX).then_some(seen);
                self.give_orders(space, orders, seen, origin);
            }
        }
    }

    /// Has all members take a view.
    fn tell_view(&mut self, space: &Space, view: View, outcome: Outcome, origin: Origin) {
        let mut members = self.members_linked(space);
        if let Outcome::Added(added) = &outcome {
            members.extend(added.iter().cloned());
        }
        #[cfg(test)]
        if self.has(crate::model::bugs::Bug::ForgetOneMember) && members.len() > 2 {
            members.pop_last();
        }
        let operation = Operation {
            caller: Caller::Nobody,
            waiting: members,
            kind: Kind::Apply {
                group: Some(view.id.clone()),
                outcome,
                origin,
            },
        };
        let operation = self.new_operation(operation);
        let (question, after) = (Question::Apply(view.clone()), self.limits.silence);
        // The members first: to take a view may end our links with them.
        self.ask_all(operation, &question, after);
        self.install(view);
        self.finish_if_done(operation);
    }

    /// Has keepers do what was decided.
    fn give_orders(
        &mut self,
        space: &Space,
        orders: Vec<(NodeName, Order)>,
        seen: Option<u64>,
        origin: Origin,
    ) {
        let claim = orders.iter().find_map(|(_, order)| match order {
            Order::Claim { name, pid, .. } => Some((Name::clone(name), pid.clone())),
            Order::Withdraw { .. } => None,
        });
        let claimed = claim.as_ref().map(|(name, _)| Name::clone(name));
        let operation = Operation {
            caller: Caller::Nobody,
            waiting: orders.iter().map(|(keeper, _)| keeper.clone()).collect(),
            kind: Kind::Order {
                space: space.clone(),
                claimed,
                outcome: Outcome::Done,
                origin,
            },
        };
        let operation = self.new_operation(operation);
        if let Some((name, pid)) = claim
            && let Some(names) = self.names_mut(space)
        {
            names.order(&name, pid, operation);
        }
        // Twice as long as the keeper waits for the members.
        let after = self.limits.silence * 2;
        for (keeper, order) in orders {
            if keeper == self.me {
                self.ordered(space, order, seen, Origin::Order(operation));
            } else {
                let space = space.clone();
                let question = Question::Order { space, order, seen };
                self.ask(&keeper, question, after, Then::Operation(operation));
            }
        }
    }

    /// A keeper has done what it was ordered to, or will never.
    pub(super) fn order_told(&mut self, id: u64, keeper: &NodeName, told: Told) {
        let is_linked = self.is_linked(keeper);
        let Some(operation) = self.operations.get_mut(&id) else {
            return;
        };
        let Kind::Order {
            claimed, outcome, ..
        } = &mut operation.kind
        else {
            return;
        };
        match told {
            Told::Answer(Tell::Outcome(Outcome::Done)) => {}
            Told::Answer(Tell::Outcome(told)) => *outcome = told,
            // There was no room for the question.
            Told::NoConnection if is_linked => *outcome = Outcome::Busy,
            // What a lost keeper kept is gone with it; what it is to keep needs another one.
            Told::NoConnection if claimed.is_none() => {}
            Told::NoConnection => *outcome = Outcome::Elsewhere,
            Told::Answer(_) | Told::Timeout => *outcome = Outcome::Unknown,
        }
    }

    /// Every keeper has answered.
    pub(super) fn obeyed(
        &mut self,
        id: u64,
        space: &Space,
        claimed: Option<Name>,
        outcome: Outcome,
        origin: Origin,
    ) {
        if let Some(name) = claimed
            && let Some(names) = self.names_mut(space)
        {
            names.order_done(&name, id);
        }
        self.decided(outcome, origin);
    }

    /// What becomes of a change, and what follows from it.
    fn decide(&mut self, space: &Space, change: Change, again: bool) -> (Outcome, Follows) {
        match change {
            Change::Register {
                name,
                pid,
                keeper,
                replace,
            } => {
                let Some(names) = self.names(space) else {
                    return (Outcome::NotMember, Follows::Nothing);
                };
                let held = names.get(&name);
                let is_held_by_it = held.is_some_and(|claim| claim.pid == pid);
                if is_held_by_it && (again || replace) {
                    return (Outcome::Done, Follows::Nothing);
                }
                let in_turn = (!self.many_names).then_some(&pid);
                if names.is_ordered(&name, in_turn) || !self.is_member(space, &keeper) {
                    return (Outcome::Elsewhere, Follows::Nothing);
                }
                let mut over: Vec<Stamp> = Vec::new();
                if replace {
                    let held = names.claims(&name).iter();
                    over.extend(held.map(|claim| claim.stamp.clone()));
                }
                match self.verdict(space, &name, &pid, &over) {
                    Outcome::Done => {
                        let order = Order::Claim { name, pid, over };
                        (Outcome::Done, Follows::Orders(vec![(keeper, order)]))
                    }
                    outcome => (outcome, Follows::Nothing),
                }
            }
            Change::Unregister(name) => {
                let names = self.names(space);
                let claims = names.map_or(&[][..], |names| names.claims(&name));
                if claims.is_empty() {
                    return (Outcome::Done, Follows::Nothing);
                }
                let orders = claims.iter().map(|claim| {
                    let (name, number) = (Name::clone(&name), claim.stamp.number);
                    (claim.stamp.keeper.clone(), Order::Withdraw { name, number })
                });
                (Outcome::Done, Follows::Orders(orders.collect()))
            }
            Change::Add(nodes) => self.decide_view(space, |members| members.extend(nodes)),
            Change::Remove(nodes) => self.decide_view(space, |members| {
                for node in nodes {
                    members.remove(&node);
                }
            }),
            Change::Delete => self.decide_view(space, BTreeSet::clear),
        }
    }

    fn decide_view(
        &mut self,
        space: &Space,
        change: impl FnOnce(&mut BTreeSet<NodeName>),
    ) -> (Outcome, Follows) {
        let group = match space {
            Space::Free => None,
            Space::Group(id) => self
                .groups
                .get(&id.name)
                .filter(|group| group.view.id == *id),
        };
        let Some(group) = group else {
            return (Outcome::NotMember, Follows::Nothing);
        };
        let mut members = group.view.members.clone();
        change(&mut members);
        if members.len() > self.limits.members_max {
            return (Outcome::Busy, Follows::Nothing);
        }
        let added: Vec<NodeName> = members.difference(&group.view.members).cloned().collect();
        if members == group.view.members {
            return (Outcome::Added(added), Follows::Nothing);
        }
        let view = View {
            id: group.view.id.clone(),
            version: group.view.version + 1,
            by: self.me.as_str().into(),
            members,
        };
        (Outcome::Added(added), Follows::View(view))
    }

    /// A change was decided, and done if there was anything to do.
    pub(super) fn decided(&mut self, outcome: Outcome, origin: Origin) {
        match (&origin, &outcome) {
            (Origin::Here(id), Outcome::Elsewhere) => {
                self.wake_after(SUBMIT_RETRY, Wake::Submit(*id));
            }
            _ => self.applied_by_all(outcome, origin),
        }
    }

    /// Every member that is linked has applied a change.
    pub(super) fn applied_by_all(&mut self, outcome: Outcome, origin: Origin) {
        match origin {
            Origin::Here(id) => self.finish_submit(id, outcome),
            Origin::Node(node, ask) => {
                let answer = Tell::Outcome(outcome);
                self.tell(&node, &Frame::Tell { ask, answer });
            }
            Origin::Order(id) => {
                let me = self.me.clone();
                let told = Told::Answer(Tell::Outcome(outcome));
                self.operation_told(id, &me, told);
            }
            Origin::Made(caller, name) => {
                let Outcome::Added(members) = outcome else {
                    return;
                };
                self.answer(caller, Answer::Group(Ok((name, members))));
            }
        }
    }
}

fn answer_of(purpose: Purpose, outcome: Outcome) -> Answer {
    let error = match outcome {
        Outcome::Busy => GroupError::Busy,
        Outcome::Unknown | Outcome::Elsewhere => GroupError::Timeout,
        Outcome::NotMember | Outcome::Taken => GroupError::NotMember,
        Outcome::Done | Outcome::Added(_) => {
            return match (purpose, outcome) {
                (Purpose::Add(name), Outcome::Added(nodes)) => Answer::Group(Ok((name, nodes))),
                (Purpose::Add(name), _) => Answer::Group(Ok((name, Vec::new()))),
                _ => Answer::Done(Ok(())),
            };
        }
    };
    match purpose {
        Purpose::Add(_) => Answer::Group(Err(error)),
        Purpose::Register(taken, _) if outcome == Outcome::Taken => Answer::Done(Err(taken)),
        Purpose::Register(_, stranger) if outcome == Outcome::NotMember => {
            Answer::Done(Err(stranger))
        }
        Purpose::Register(..) | Purpose::Done => Answer::Done(Err(error)),
    }
}
