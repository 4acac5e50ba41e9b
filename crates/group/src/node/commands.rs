//! What users ask of their node.
//!
//! Owns the table from commands to what carries them out, and the answers that need no other node.

use super::asks::Spawn;
use super::{Caller, Machine};
use crate::attributes::AttributeError;
use crate::command::{Answer, Command, GroupError};
use crate::types::{Name, NodeName, Pid, Reason, Refusal};
use crate::view::Space;
use crate::wire::{Frame, Question};

impl Machine {
    /// Does what a user asks; the answer comes as an effect, at once or later.
    pub(crate) fn command(&mut self, caller: Caller, command: Command) {
        match command {
            Command::Connect(node) => self.connect(caller, &node),
            Command::Disconnect(node) => {
                self.disconnect(&node, Refusal::Asked);
                self.answer(caller, Answer::Done(Ok(())));
            }
            Command::Linked => {
                let nodes = self.linked().map(|(name, _)| name.clone()).collect();
                self.answer(caller, Answer::Nodes(nodes));
            }
            spawn @ Command::Spawn { .. } => self.spawn_command(caller, spawn),
            Command::Call { to, body, deadline } => {
                let from = process_of(caller);
                self.call(caller, from, &to, body, deadline);
            }
            Command::SendTo { to, body } => {
                self.send(process_of(caller), &to, body);
                self.answer(caller, Answer::Done(Ok(())));
            }
            Command::Kill(pid) => self.kill(caller, &pid),
            Command::NewGroup { name, nodes } => self.new_group(caller, name, nodes),
            Command::AddNodes { group, nodes } => self.add_nodes(caller, &group, nodes),
            Command::RemoveNodes { group, nodes } => self.remove_nodes(caller, &group, nodes),
            Command::DeleteGroup(group) => self.delete_group(caller, &group),
            names @ (Command::Register { .. }
            | Command::Unregister { .. }
            | Command::Whereis { .. }
            | Command::Send { .. }
            | Command::NamesAt(_)
            | Command::NamesIn(_)
            | Command::GlobalRegister { .. }
            | Command::GlobalNames) => self.name_command(caller, names),
            other => self.query_command(caller, other),
        }
    }

    fn connect(&mut self, caller: Caller, node: &NodeName) {
        if *node == self.me || self.is_linked(node) {
            if let Some(peer) = self.peers.get_mut(node) {
                peer.is_tried = false;
            }
            return self.answer(caller, Answer::Done(Ok(())));
        }
        self.await_link(caller, node);
    }

    fn spawn_command(&mut self, caller: Caller, command: Command) {
        if let Command::Spawn {
            node,
            function,
            args,
            link,
            monitor,
            deadline,
        } = command
        {
            let spawn = Spawn {
                node,
                function,
                args,
                link,
                monitor,
                deadline,
            };
            self.spawn(caller, spawn, process_of(caller));
        }
    }

    fn kill(&mut self, caller: Caller, pid: &Pid) {
        if self.is_alive(pid) {
            let (id, reason) = (pid.id, Reason::Killed);
            self.effects.push(super::Effect::Kill { id, reason });
        } else if pid.node != self.me && self.is_current(pid) {
            let frame = Frame::Exit {
                from: 0,
                to: pid.id,
                reason: Reason::Killed,
                told: true,
            };
            if self.transmit_to(pid, frame).is_err() {
                let error = GroupError::NoConnection;
                return self.answer(caller, Answer::Done(Err(error)));
            }
        }
        self.answer(caller, Answer::Done(Ok(())));
    }

    fn name_command(&mut self, caller: Caller, command: Command) {
        match command {
            Command::Register {
                group,
                name,
                pid,
                mode,
            } => {
                let space = self.space_called(&group);
                self.register(caller, space, name, pid, mode);
            }
            Command::Unregister { group, name } => self.unregister(caller, &group, name),
            Command::Whereis { node, group, name } => {
                self.whereis(caller, node, (group, name), None);
            }
            Command::Send {
                node,
                group,
                name,
                body,
            } => self.whereis(caller, node, (group, name), Some(body)),
            Command::NamesAt(node) if node == self.me => {
                let names = self.all_names();
                self.answer(caller, Answer::Names(Ok(names)));
            }
            Command::NamesAt(node) => self.ask_names(caller, &node),
            Command::NamesIn(group) => {
                let answer = self.names_in(&group);
                self.answer(caller, Answer::Names(answer));
            }
            Command::GlobalRegister { name, pid, mode } => {
                if !self.is_free() {
                    let answer = Answer::Done(Err(GroupError::NotFree));
                    return self.answer(caller, answer);
                }
                self.register(caller, Some(Space::Free), name, pid, mode);
            }
            Command::GlobalNames => {
                let names = self.all_names();
                self.answer(caller, Answer::Names(Ok(names)));
            }
            _ => {}
        }
    }

    fn names_in(&self, group: &Name) -> Result<Vec<(Name, Name)>, GroupError> {
        let space = self.space_called(group).ok_or(GroupError::NoInformation)?;
        let names = self.names(&space).ok_or(GroupError::NoInformation)?;
        let names = names.all().map(|(name, _)| Name::clone(name));
        Ok(names.map(|name| (Name::clone(group), name)).collect())
    }

    fn query_command(&mut self, caller: Caller, command: Command) {
        let answer = match command {
            Command::Groups => Answer::Groups((!self.is_free()).then(|| {
                let own = self.groups.keys().cloned().collect();
                (own, self.other_groups().into_keys().collect())
            })),
            Command::OwnGroups => Answer::OwnGroups(self.own_groups()),
            Command::OwnNodes => Answer::Nodes(self.own_nodes()),
            Command::NodesOf(group) => Answer::Nodes(self.nodes_of(&group)),
            Command::Info => Answer::Info(Box::new(self.info())),
            Command::Sync => {
                for node in self.members() {
                    self.reach(&node);
                }
                Answer::Done(Ok(()))
            }
            Command::MonitorNodes(on) => return self.monitor_nodes(caller, on),
            Command::AddAttributes { nodes, list } => {
                let question = Question::SetAttributes(list);
                return self.change_attributes(caller, nodes, question);
            }
            Command::RemoveAttributes { nodes, names } => {
                let question = Question::DropAttributes(names);
                return self.change_attributes(caller, nodes, question);
            }
            Command::RegisteredAttributes => Answer::Attributes(self.attributes.names()),
            Command::SetAttribute {
                name,
                attribute,
                update,
            } => {
                let result = match (self.attributes.has(&name), update) {
                    (true, false) => Err(AttributeError::Exists),
                    (false, true) => Err(AttributeError::NotSet),
                    _ => {
                        let (facts, max) = (self.facts(), self.limits.attributes_max);
                        self.attributes.set(&name, attribute, &facts, max)
                    }
                };
                Answer::Attribute(result)
            }
            Command::DeleteAttribute(name) => {
                let is_done = self.attributes.remove(&name);
                Answer::Attribute(is_done.then_some(()).ok_or(AttributeError::NotSet))
            }
            Command::RequestAttributes {
                nodes,
                names,
                deadline,
            } => return self.request_attributes(caller, nodes, names, deadline),
            Command::ChooseNodes(choices) => return self.choose_nodes(caller, choices),
            Command::ChooseBy {
                nodes,
                predicates,
                deadline,
            } => return self.choose_by(caller, nodes, predicates, deadline),
            _ => return,
        };
        self.answer(caller, answer);
    }

    fn nodes_of(&self, group: &Name) -> Vec<NodeName> {
        match self.space_called(group) {
            Some(Space::Free) => self.own_nodes(),
            Some(Space::Group(id)) => {
                let group = self.groups.get(&id.name);
                let members = group.map(|group| group.view.members.iter().cloned().collect());
                members.unwrap_or_default()
            }
            None => Vec::new(),
        }
    }
}

fn process_of(caller: Caller) -> Option<u64> {
    match caller {
        Caller::Process { id, .. } => Some(id),
        _ => None,
    }
}
