//! Changes of one space: ordered by its coordinator, applied by all members, then answered.
//!
//! Owns the group's lock: of the linked members the one with the smallest name orders all changes,
//! so that no two of them meet, and nobody outside of the group takes part. A change is answered
//! once every linked member has applied it. If the coordinator is lost, the change is submitted
//! again to the next one; every change may be applied twice. Deliberately not here: what a change
//! does (`groups`, `names`).

use std::collections::BTreeSet;
use std::hash::Hasher;

use rustc_hash::FxHasher;

use super::asks::{Kind, Operation, Origin, Then, Told};
use super::{Caller, Machine, Wake};
use crate::command::{Answer, GroupError};
use crate::limits::{AGREE_MAX, SUBMIT_RETRY, SUBMITS_MAX};
use crate::types::{Name, NodeName};
use crate::view::{Space, View};
use crate::wire::{Apply, Change, Entry, Frame, Outcome, Question, Tell};

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
    fn members_seen(&self, space: &Space) -> u64 {
        let linked = self
            .linked()
            .filter(|(_, peer)| peer.shared.contains(space));
        let mut members: BTreeSet<&NodeName> = linked.map(|(name, _)| name).collect();
        members.insert(&self.me);
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
        if is_full && caller != Caller::Nobody {
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
        let (space, change) = (space.clone(), change.clone());
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
        let Kind::Submit { purpose, space, .. } = operation.kind else {
            return;
        };
        let not_done = !matches!(outcome, Outcome::Done | Outcome::Added(_));
        if not_done && matches!(purpose, Purpose::Register(..)) {
            // Whatever became of it: what this node does not keep, nobody is to have.
            self.tell_keep(&space);
        }
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
        let (outcome, apply) = self.decide(space, change, attempt > 1);
        let Some(apply) = apply else {
            return self.decided(outcome, origin);
        };
        let linked = self
            .linked()
            .filter(|(_, peer)| peer.shared.contains(space));
        let mut members: BTreeSet<NodeName> = linked.map(|(name, _)| name.clone()).collect();
        if let Outcome::Added(added) = &outcome {
            members.extend(added.iter().cloned());
        }
        let operation = Operation {
            caller: Caller::Nobody,
            waiting: members,
            kind: Kind::Apply { outcome, origin },
        };
        let operation = self.new_operation(operation);
        let (question, after) = (
            Question::Apply {
                space: space.clone(),
                apply: apply.clone(),
            },
            self.limits.silence,
        );
        #[cfg(test)]
        if self.has(crate::model::bugs::Bug::ForgetOneMember)
            && let Some(operation) = self.operations.get_mut(&operation)
            && operation.waiting.len() > 2
        {
            operation.waiting.pop_last();
        }
        // The members first: to apply a change may end our links with them.
        self.ask_all(operation, &question, after);
        self.apply(space, apply);
        self.finish_if_done(operation);
    }

    /// What becomes of a change, and what the members do for it.
    fn decide(&mut self, space: &Space, change: Change, again: bool) -> (Outcome, Option<Apply>) {
        match change {
            Change::Register {
                name,
                pid,
                keeper,
                replace,
            } => {
                let (max, many) = (self.limits.names_max, self.many_names);
                let Some(names) = self.names(space) else {
                    return (Outcome::NotMember, None);
                };
                let held = names.get(&name);
                let is_held_by_it = held.is_some_and(|entry| entry.pid == pid);
                if is_held_by_it && (again || replace) {
                    return (Outcome::Done, None);
                }
                let has_other = names.names_of(&pid).any(|other| *other != name) && !many;
                #[cfg(test)]
                let has_other = has_other && !self.has(crate::model::bugs::Bug::TwoNames);
                if (held.is_some() && !replace) || has_other {
                    return (Outcome::Taken, None);
                }
                if held.is_none() && names.len() >= max {
                    return (Outcome::Busy, None);
                }
                let entry = Entry { name, pid, keeper };
                (Outcome::Done, Some(Apply::Put { entry, replace }))
            }
            Change::Unregister { name, pid } => {
                // Of a process that has ended a member may hold a name that this one does not.
                let is_held = self
                    .names(space)
                    .is_some_and(|names| names.get(&name).is_some());
                let take = is_held || pid.is_some();
                (Outcome::Done, take.then_some(Apply::Take { name, pid }))
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
    ) -> (Outcome, Option<Apply>) {
        let group = match space {
            Space::Free => None,
            Space::Group(id) => self
                .groups
                .get(&id.name)
                .filter(|group| group.view.id == *id),
        };
        let Some(group) = group else {
            return (Outcome::NotMember, None);
        };
        let mut members = group.view.members.clone();
        change(&mut members);
        if members.len() > self.limits.members_max {
            return (Outcome::Busy, None);
        }
        let added: Vec<NodeName> = members.difference(&group.view.members).cloned().collect();
        if members == group.view.members {
            return (Outcome::Added(added), None);
        }
        let view = View {
            id: group.view.id.clone(),
            version: group.view.version + 1,
            by: self.me.as_str().into(),
            members,
        };
        (Outcome::Added(added), Some(Apply::View(view)))
    }

    /// A change was decided without anything to apply.
    fn decided(&mut self, outcome: Outcome, origin: Origin) {
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
            Origin::Made(caller, name) => {
                let Outcome::Added(members) = outcome else {
                    return;
                };
                self.answer(caller, Answer::Group(Ok((name, members))));
            }
        }
    }

    /// Does what the coordinator has decided.
    pub(super) fn apply(&mut self, space: &Space, apply: Apply) {
        match apply {
            Apply::View(view) => self.install(view),
            Apply::Put { entry, replace } => self.put(space, entry, replace),
            Apply::Take { name, pid } => {
                let names = self.names(space);
                let held = names.and_then(|names| names.get(&name));
                if held.is_some_and(|held| pid.is_none_or(|pid| pid == held.pid)) {
                    self.take(space, &name);
                }
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
