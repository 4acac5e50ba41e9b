//! Lines of an export that are given to a node: what each makes, in records. With nothing changed
//! it says what would be refused.

use std::collections::{BTreeMap, BTreeSet};

use pubsub::State;
use store::Record;

use super::rooms::RoomHead;
use super::text::check_characters;
use super::{Bad, Line, bad, parse};
use crate::address;
use crate::admin::{Admin, Response};
use crate::stored;

/// What lines make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Made {
    /// Accounts.
    pub(crate) accounts: u64,
    /// Rooms.
    pub(crate) rooms: u64,
    /// Nodes.
    pub(crate) nodes: u64,
}

/// Lines of one request.
pub(crate) struct Import<'a> {
    admin: &'a Admin,
    /// Nothing is changed, so what earlier requests would have made is not there.
    is_check: bool,
    /// Rooms that lines of this request belong to.
    rooms: BTreeMap<String, RoomHead>,
    /// The nodes of what lines of this request belong to, without items.
    nodes: BTreeMap<String, State>,
    /// Accounts of the store that lines of this request belong to.
    there: BTreeSet<String>,
    /// What they make.
    pub(crate) made: Made,
}

impl From<Response> for Bad {
    fn from(response: Response) -> Bad {
        match response {
            Response::Error { code, message } => Bad { code, message },
            _ => bad("it cannot be taken"),
        }
    }
}

impl<'a> Import<'a> {
    pub(crate) fn new(admin: &'a Admin, is_check: bool) -> Import<'a> {
        Import {
            admin,
            is_check,
            rooms: BTreeMap::new(),
            nodes: BTreeMap::new(),
            there: BTreeSet::new(),
            made: Made::default(),
        }
    }

    /// The records that a line makes. The account of a line that `is_stray` has to be there.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn line(&mut self, text: &str, is_stray: bool) -> Result<Vec<Record>, Bad> {
        let mut line = parse(text).map_err(|message| bad(&message))?;
        check_characters(text)?;
        let normal = self.own(&line)?;
        normal.clone_into(line.jid_mut());
        let records = match line {
            Line::Room(line) => self.room(line)?,
            Line::RoomAffiliations(line) => {
                self.room_head(&normal)?;
                line.records()?
            }
            Line::RoomMessage(line) => line.records(self.room_head(&normal)?)?,
            Line::RoomOpen(line) => line.records(self.room_head(&normal)?),
            Line::RoomMembers(line) => line.records(self.known_room(&normal)?)?,
            Line::Service(_) => {
                self.must_have_no_nodes(&normal)?;
                self.nodes.insert(normal.clone(), State::default());
                vec![Record::ServiceMake { user: normal }]
            }
            Line::Part(line) => vec![line.record()?],
            Line::Node(_)
            | Line::NodeAffiliations(_)
            | Line::NodeSubscriptions(_)
            | Line::NodeItem(_)
            | Line::NodesMoved(_) => self.node_line(&normal, line)?,
            mut line => {
                if matches!(line, Line::Account { .. }) {
                    self.made.accounts += 1;
                    self.admin.must_not_exist(&normal)?;
                    self.nodes.insert(normal, State::default());
                } else if is_stray || !self.is_check {
                    self.must_be_there(&normal)?;
                }
                line.check()?;
                vec![line.into_record().map_err(|message| bad(&message))?]
            }
        };
        for record in &records {
            let checked = record.check();
            checked.map_err(|error| bad(&error.to_string()))?;
        }
        Ok(records)
    }

    /// The normalised address of whom a line belongs to.
    fn own(&self, line: &Line) -> Result<String, Bad> {
        let (jid, options) = (line.jid(), &self.admin.options);
        if line.is_of_room() {
            let room = address::of_room(jid, &options.rooms.hosts);
            return room.ok_or_else(|| Bad {
                code: "foreign_domain".to_owned(),
                message: format!(
                    "{jid:?} is no address of a room here: rooms are at {}",
                    options.rooms.hosts.join(", ")
                ),
            });
        }
        let is_host = options.pubsub.hosts.iter().any(|host| host == jid);
        if line.may_be_of_service() && is_host {
            return Ok(jid.to_owned());
        }
        if matches!(line, Line::Service(_) | Line::Part(_)) && self.is_small(jid) {
            return Ok(jid.to_owned());
        }
        if matches!(line, Line::Service(_) | Line::Part(_)) {
            return Err(Bad {
                code: "foreign_domain".to_owned(),
                message: format!(
                    "{jid:?} is no service with nodes here, which are {}",
                    options.pubsub.hosts.join(", ")
                ),
            });
        }
        Ok(self.admin.own_address(jid)?)
    }

    /// Whether an address is one of a small service.
    fn is_small(&self, jid: &str) -> bool {
        let domains = &self.admin.options.domains;
        let mut services = self.admin.services.iter();
        services.any(|service| service.hosts(domains).any(|host| host == jid))
    }

    /// The store takes nothing for an account that it does not have, and says nothing of it.
    fn must_be_there(&mut self, account: &str) -> Result<(), Bad> {
        if self.nodes.contains_key(account) || self.there.contains(account) {
            return Ok(());
        }
        let found = self.admin.store.load_user(account);
        if found.map_err(crate::admin::unreadable)?.is_none() {
            return Err(bad(&format!("there is no account {account}")));
        }
        self.there.insert(account.to_owned());
        Ok(())
    }

    // ---- Rooms ---------------------------------------------------------------------------------

    fn room(&mut self, line: super::rooms::RoomLine) -> Result<Vec<Record>, Bad> {
        let room = line.jid.clone();
        let loaded = self.admin.store.load_room(&room, 0);
        let (next, stored) = loaded.map_err(crate::admin::unreadable)?;
        if stored.is_some() || self.admin.is_temporary(&room) {
            return Err(Bad {
                code: "room_exists".to_owned(),
                message: format!("there is a room {room} already"),
            });
        }
        let limits = &self.admin.options.rooms.machine.limits;
        let (head, records) = line.records(next, limits)?;
        self.made.rooms += 1;
        self.rooms.insert(room, head);
        Ok(records)
    }

    /// What is known of the room that a line belongs to.
    fn known_room(&mut self, room: &str) -> Result<&mut RoomHead, Bad> {
        if !self.rooms.contains_key(room) {
            let (_, stored) = self
                .admin
                .store
                .load_room(room, 0)
                .map_err(crate::admin::unreadable)?;
            let head = match stored {
                Some(stored) => RoomHead::of(room, &stored).map_err(crate::admin::unreadable)?,
                None if self.is_check => RoomHead::unmade(),
                None => return Err(bad(&format!("there is no room {room}"))),
            };
            self.rooms.insert(room.to_owned(), head);
        }
        // Invariant: it has just been put there.
        Ok(self.rooms.entry(room.to_owned()).or_default())
    }

    /// The same, of a room that is not open yet.
    fn room_head(&mut self, room: &str) -> Result<&mut RoomHead, Bad> {
        let head = self.known_room(room)?;
        match head.is_locked {
            true => Ok(head),
            false => Err(Bad {
                code: "room_exists".to_owned(),
                message: format!("the room {room} is in use already"),
            }),
        }
    }

    // ---- Nodes ---------------------------------------------------------------------------------

    fn must_have_no_nodes(&self, service: &str) -> Result<(), Bad> {
        let mut is_any = false;
        let visited = self.admin.store.load_node_parts(service, |_| {
            is_any = true;
            Ok(())
        });
        visited.map_err(crate::admin::unreadable)?;
        match is_any {
            false => Ok(()),
            true => Err(Bad {
                code: "nodes_exist".to_owned(),
                message: format!("{service} has nodes already"),
            }),
        }
    }

    fn node_line(&mut self, owner: &str, line: Line) -> Result<Vec<Record>, Bad> {
        let is_service = self
            .admin
            .options
            .pubsub
            .hosts
            .iter()
            .any(|host| host == owner);
        let machine = match is_service {
            true => &self.admin.options.pubsub.machine,
            false => &self.admin.options.pep.machine,
        };
        let is_check = self.is_check;
        let state = match self.nodes.entry(owner.to_owned()) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(free) => {
                let read = stored::nodes::read_heads(&self.admin.store, owner, machine);
                let (state, is_there) = read.map_err(crate::admin::unreadable)?;
                if !is_there && !is_check {
                    return Err(bad(&format!("there is no {owner} that could have nodes")));
                }
                free.insert(state)
            }
        };
        let mut records = Vec::new();
        let own = match line {
            Line::Node(line) => {
                let mut all = state.nodes();
                if all.any(|(name, node)| **name == *line.node || node.number == line.number) {
                    return Err(Bad {
                        code: "nodes_exist".to_owned(),
                        message: format!("{owner} has a node {:?} already", line.node),
                    });
                }
                if !is_service {
                    records.push(stored::nodes::mark(owner));
                }
                self.made.nodes += 1;
                line.records(machine)?
            }
            Line::NodeAffiliations(line) => {
                of(state, is_check, &line.node.clone(), line.records())?
            }
            Line::NodeSubscriptions(line) => {
                of(state, is_check, &line.node.clone(), line.records())?
            }
            Line::NodeItem(line) => of(state, is_check, &line.node.clone(), line.records())?,
            Line::NodesMoved(line) => line.records(),
            _ => Vec::new(),
        };
        let moved_max = machine.limits.moved_max;
        let mut moved = state.moved().collect();
        records.extend(stored::nodes::translate(
            (owner, state),
            (&mut moved, moved_max),
            own.clone(),
        ));
        for record in own {
            if !matches!(record, pubsub::Record::Published { .. }) {
                state.apply(record, machine);
            }
        }
        Ok(records)
    }
}

/// The records of a line that belongs to a node, which has to be there.
fn of(
    state: &State,
    is_check: bool,
    node: &str,
    records: Result<Vec<pubsub::Record>, Bad>,
) -> Result<Vec<pubsub::Record>, Bad> {
    if !is_check && state.node(node).is_none() {
        return Err(bad(&format!("there is no node {node:?}")));
    }
    records
}
