//! Questions about other nodes: names of groups that this node is not in, attributes, choices.
//!
//! Owns the search for a name and the collecting of many answers. Deliberately not here: what an
//! attribute is ([`crate::attributes`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::asks::{Kind, Operation, Then, Told};
use super::{Caller, Machine};
use crate::attributes::{Attribute, Predicate, Value};
use crate::command::{Answer, Choice, Info, Missing};
use crate::types::{Body, Name, NodeName, Pid};
use crate::wire::{Question, Tell};

/// A name that is looked up elsewhere, node by node.
#[derive(Debug)]
pub(crate) struct Search {
    caller: Caller,
    group: Name,
    name: Name,
    /// What is sent to the process once it is found.
    body: Option<Body>,
    /// Nodes to ask next.
    next: VecDeque<NodeName>,
    /// Whether they are asked who is in the group, because nobody is known.
    is_asking_around: bool,
}

impl Search {
    /// What is asked of each node.
    pub(super) fn question(&self) -> Question {
        let group = Name::clone(&self.group);
        if self.is_asking_around {
            return Question::Find(group);
        }
        let name = Name::clone(&self.name);
        Question::Whereis { group, name }
    }
}

/// Answers of many nodes.
#[derive(Debug)]
pub(crate) struct Gather {
    purpose: Gathering,
    /// What is asked, if it may be asked twice.
    question: Option<Question>,
    values: BTreeMap<NodeName, BTreeMap<Name, Value>>,
    done: Vec<NodeName>,
    missing: Vec<(NodeName, Missing)>,
}

/// What they are for.
#[derive(Debug)]
enum Gathering {
    /// Who has done it.
    Done,
    Values,
    Attributes(Vec<Name>),
    Predicates(Vec<Predicate>),
}

impl Gather {
    fn new(purpose: Gathering, question: &Question) -> Self {
        // To set an attribute twice might undo what somebody else has set in between.
        let is_read = matches!(question, Question::Attributes(_));
        Gather {
            purpose,
            question: is_read.then(|| question.clone()),
            values: BTreeMap::new(),
            done: Vec::new(),
            missing: Vec::new(),
        }
    }

    /// What is asked of each node, if it may be asked twice.
    pub(super) fn question(&self) -> Option<Question> {
        self.question.clone()
    }

    pub(super) fn told(&mut self, node: &NodeName, told: Told) {
        let node = node.clone();
        match told {
            Told::Answer(Tell::Attributes(values)) => drop(self.values.insert(node, values)),
            Told::Answer(Tell::Done(true)) => self.done.push(node),
            Told::Answer(_) => {}
            Told::NoConnection => self.missing.push((node, Missing::NotFound)),
            Told::Timeout => self.missing.push((node, Missing::Timeout)),
        }
    }
}

impl Machine {
    // ---- Names ---------------------------------------------------------------------------------

    /// Looks a name up, and sends to its process if there is a body.
    pub(super) fn whereis(
        &mut self,
        caller: Caller,
        node: Option<NodeName>,
        (group, name): (Name, Name),
        body: Option<Body>,
    ) {
        let is_here = node.as_ref() == Some(&self.me);
        if is_here || (node.is_none() && self.space_called(&group).is_some()) {
            let pid = self.find_local(&group, &name);
            return self.found(caller, pid, body);
        }
        let (next, is_asking_around) = match (node, self.members_known(&group)) {
            (Some(node), _) => (VecDeque::from([node]), false),
            (None, Some(members)) => (self.nearest(members), false),
            (None, None) => (self.linked().map(|(name, _)| name.clone()).collect(), true),
        };
        self.search(Search {
            caller,
            group,
            name,
            body,
            next,
            is_asking_around,
        });
    }

    /// Nodes in the order in which they are asked: those that are linked first.
    fn nearest(&self, nodes: Vec<NodeName>) -> VecDeque<NodeName> {
        let (near, far): (Vec<_>, Vec<_>) =
            nodes.into_iter().partition(|node| self.is_linked(node));
        near.into_iter()
            .chain(far)
            .filter(|node| *node != self.me)
            .collect()
    }

    fn search(&mut self, mut search: Search) {
        let Some(node) = search.next.pop_front() else {
            return self.found(search.caller, None, search.body);
        };
        let question = search.question();
        let after = self.limits.ask;
        self.ask(&node, question, after, Then::Search(Box::new(search)));
    }

    pub(super) fn search_told(&mut self, mut search: Search, _: &NodeName, told: Told) {
        match told {
            Told::Answer(Tell::Found(pid)) => self.found(search.caller, pid, search.body),
            Told::Answer(Tell::Group(Some(members))) => {
                let members: BTreeSet<NodeName> = members.into_iter().collect();
                let group = Name::clone(&search.group);
                if self.known.len() < self.limits.known_max {
                    self.known.insert(group, members.clone());
                }
                search.next = self.nearest(members.into_iter().collect());
                search.is_asking_around = false;
                self.search(search);
            }
            Told::Answer(_) | Told::NoConnection | Told::Timeout => self.search(search),
        }
    }

    fn found(&mut self, caller: Caller, pid: Option<Pid>, body: Option<Body>) {
        match body {
            None => self.answer(caller, Answer::Whereis(pid)),
            Some(body) => self.send_found(caller, pid, body),
        }
    }

    // ---- Attributes ----------------------------------------------------------------------------

    pub(super) fn set_attributes(&mut self, list: Vec<(Name, Value)>) -> bool {
        let (facts, max) = (self.facts(), self.limits.attributes_max);
        let mut is_done = true;
        for (name, value) in list {
            let set = self
                .attributes
                .set(&name, Attribute::Static(value), &facts, max);
            is_done &= set.is_ok();
        }
        is_done
    }

    pub(super) fn drop_attributes(&mut self, names: &[Name]) {
        for name in names {
            self.attributes.remove(name);
        }
    }

    /// Sets or forgets attributes on several nodes.
    pub(super) fn change_attributes(
        &mut self,
        caller: Caller,
        nodes: Option<Vec<NodeName>>,
        question: Question,
    ) {
        let nodes = nodes.unwrap_or_else(|| vec![self.me.clone()]);
        let after = self.limits.ask;
        self.gather(caller, nodes, question, after, Gathering::Done);
    }

    pub(super) fn request_attributes(
        &mut self,
        caller: Caller,
        nodes: Vec<NodeName>,
        names: Vec<Name>,
        deadline: Duration,
    ) {
        let question = Question::Attributes(names);
        self.gather(caller, nodes, question, deadline, Gathering::Values);
    }

    pub(super) fn choose_by(
        &mut self,
        caller: Caller,
        nodes: Vec<NodeName>,
        predicates: Vec<Predicate>,
        deadline: Duration,
    ) {
        let names = predicates
            .iter()
            .map(|one| Name::clone(&one.attribute))
            .collect();
        let question = Question::Attributes(names);
        let purpose = Gathering::Predicates(predicates);
        self.gather(caller, nodes, question, deadline, purpose);
    }

    /// Members of all the groups that have all the attributes. Without a group, linked nodes.
    pub(super) fn choose_nodes(&mut self, caller: Caller, choices: Vec<Choice>) {
        let mut nodes: Option<BTreeSet<NodeName>> = None;
        let mut attributes = Vec::new();
        for choice in choices {
            match choice {
                Choice::Attribute(name) => attributes.push(name),
                Choice::Group(name) => {
                    let own = self.groups.get(&name).map(|group| &group.view.members);
                    let own = own.cloned().unwrap_or_default();
                    nodes = Some(match nodes {
                        Some(nodes) => nodes.intersection(&own).cloned().collect(),
                        None => own,
                    });
                }
            }
        }
        if let Some(nodes) = &mut nodes {
            nodes.remove(&self.me);
        }
        if attributes.is_empty() {
            let nodes = nodes.unwrap_or_default().into_iter().collect();
            return self.answer(caller, Answer::Nodes(nodes));
        }
        let linked = self.linked().map(|(name, _)| name);
        let linked = linked.filter(|node| nodes.as_ref().is_none_or(|nodes| nodes.contains(*node)));
        let asked: Vec<NodeName> = linked.cloned().collect();
        let question = Question::Attributes(attributes.clone());
        let purpose = Gathering::Attributes(attributes);
        let after = self.limits.ask;
        self.gather(caller, asked, question, after, purpose);
    }

    fn gather(
        &mut self,
        caller: Caller,
        nodes: Vec<NodeName>,
        question: Question,
        deadline: Duration,
        purpose: Gathering,
    ) {
        let mut gather = Gather::new(purpose, &question);
        let mut waiting: BTreeSet<NodeName> = nodes.into_iter().collect();
        if waiting.remove(&self.me) {
            let told = self.answer_here(&question);
            gather.told(&self.me, told);
        }
        let operation = Operation {
            caller,
            waiting,
            kind: Kind::Gather(Box::new(gather)),
        };
        let operation = self.new_operation(operation);
        self.ask_all(operation, &question, deadline);
        self.finish_if_done(operation);
    }

    fn answer_here(&mut self, question: &Question) -> Told {
        Told::Answer(match question {
            Question::Attributes(names) => {
                let facts = self.facts();
                Tell::Attributes(self.attributes.values(names, &facts))
            }
            Question::SetAttributes(list) => Tell::Done(self.set_attributes(list.clone())),
            Question::DropAttributes(names) => {
                self.drop_attributes(names);
                Tell::Done(true)
            }
            _ => Tell::Done(false),
        })
    }

    pub(super) fn gathered(&mut self, caller: Caller, gather: Gather) {
        let Gather {
            purpose,
            values,
            done,
            missing,
            ..
        } = gather;
        let answer = match purpose {
            Gathering::Done => {
                let mut done = done;
                done.sort();
                Answer::Nodes(done)
            }
            Gathering::Values => {
                let told = values.into_iter().map(|(node, values)| (node, Ok(values)));
                let missing = missing.into_iter().map(|(node, why)| (node, Err(why)));
                Answer::Values(told.chain(missing).collect())
            }
            Gathering::Attributes(names) => {
                let has_all = |values: &BTreeMap<Name, Value>| {
                    names.iter().all(|name| values.contains_key(name))
                };
                let chosen = values.into_iter().filter(|(_, values)| has_all(values));
                Answer::Nodes(chosen.map(|(node, _)| node).collect())
            }
            Gathering::Predicates(predicates) => {
                let holds = |values: &BTreeMap<Name, Value>| {
                    predicates.iter().all(|predicate| predicate.holds(values))
                };
                let chosen = values.into_iter().filter(|(_, values)| holds(values));
                let nodes = chosen.map(|(node, _)| node).collect();
                Answer::Chosen { nodes, missing }
            }
        };
        self.answer(caller, answer);
    }

    // ---- Everything ----------------------------------------------------------------------------

    pub(super) fn own_groups(&self) -> Vec<(Name, Vec<NodeName>)> {
        let pair = |(name, group): (&Name, &super::Group)| {
            (
                Name::clone(name),
                group.view.members.iter().cloned().collect(),
            )
        };
        self.groups.iter().map(pair).collect()
    }

    /// Groups that this node is not in, as far as known.
    pub(super) fn other_groups(&self) -> BTreeMap<Name, Vec<NodeName>> {
        let told = self.peers.values().flat_map(|peer| &peer.groups);
        let told = told.map(|(id, members)| (&id.name, members));
        let all = self.known.iter().chain(told);
        let others = all.filter(|(name, _)| !self.groups.contains_key(*name));
        let pair = |(name, members): (&Name, &BTreeSet<NodeName>)| {
            (Name::clone(name), members.iter().cloned().collect())
        };
        others.map(pair).collect()
    }

    /// Members of all own groups; of a free node, itself and the free nodes that it knows.
    pub(super) fn own_nodes(&self) -> Vec<NodeName> {
        if !self.is_free() {
            let mut nodes = self.members();
            nodes.insert(self.me.clone());
            return nodes.into_iter().collect();
        }
        let free = self
            .linked()
            .filter(|(_, peer)| peer.shared.contains(&crate::view::Space::Free));
        let mut nodes: BTreeSet<NodeName> = free.map(|(name, _)| name.clone()).collect();
        nodes.insert(self.me.clone());
        nodes.into_iter().collect()
    }

    pub(super) fn info(&self) -> Info {
        let (synced, no_contact): (Vec<_>, Vec<_>) = self
            .members()
            .into_iter()
            .partition(|node| self.is_linked(node));
        Info {
            is_synced: !self.is_free() || self.has_config,
            own_groups: self.own_groups(),
            synced_nodes: synced,
            no_contact,
            other_groups: self.other_groups().into_iter().collect(),
            monitoring: self.watch_nodes.len(),
            attributes: self.attributes.names(),
        }
    }
}
