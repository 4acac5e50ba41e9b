//! What an operator asks of nodes, of services and of accounts alike: to tell about themselves,
//! which the store knows, to be emptied, or to end, which is their machine's to do.

use std::collections::BTreeMap;

use actor::Name;
use pubsub::{Affiliation, Node, State, SubscriptionState};
use serde::{Deserialize, Serialize};
use stdx::time::Clock as _;

use super::{Admin, Response, error, unreadable};
use crate::limits::ADMIN_DEADLINE;
use crate::message::UserMsg;
use crate::operator::{AdminAnswer, AdminCommand, NodesCommand};
use crate::stored;

/// Items of one page.
const ITEMS_PAGE_MAX: usize = 50;

/// A node in a list for operators.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLine {
    /// The service or account.
    pub address: String,
    /// Its name.
    pub node: String,
    /// Its name for people.
    pub title: String,
    /// Items that it has.
    pub items: u64,
    /// Addresses that are subscribed, or wait for it.
    pub subscriptions: u64,
}

/// A node as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSample {
    /// As a list has it.
    #[serde(flatten)]
    pub line: NodeLine,
    /// Who made it.
    pub creator: String,
    /// When, in milliseconds since 1970.
    pub created_ms: i64,
    /// Bytes of the payloads of its items.
    pub bytes: u64,
    /// Bare addresses of its owners.
    pub owners: Vec<String>,
    /// Addresses with an affiliation.
    pub affiliations: u64,
    /// The fields of its configuration (XEP-0060 section 16.4.4).
    pub config: BTreeMap<String, Vec<String>>,
}

/// An item as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeItem {
    /// Unique within the node.
    pub id: String,
    /// Its place: the next page starts behind it.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: i64,
    /// Who published it.
    pub publisher: String,
    /// What, empty if nothing.
    pub payload: String,
}

impl Admin {
    /// A page of the nodes of an address, or of all services; `after` is the last one before.
    pub(crate) fn list_nodes(
        &self,
        address: Option<&str>,
        after: Option<&(String, String)>,
        limit: usize,
    ) -> Result<Response, Response> {
        let addresses = match address {
            Some(address) => vec![self.with_nodes(address)?],
            None => self.options.pubsub.hosts.clone(),
        };
        let begun = after.and_then(|(begun, _)| addresses.iter().position(|one| one == begun));
        let mut nodes = Vec::new();
        for address in addresses.into_iter().skip(begun.unwrap_or(0)) {
            let (state, _) = self.read_nodes(&address)?;
            let is_behind = |name: &str| {
                after.is_none_or(|(begun, last)| *begun != address || name > last.as_str())
            };
            let rest = state.nodes().filter(|(name, _)| is_behind(name));
            let rest = rest.take(limit - nodes.len());
            nodes.extend(rest.map(|(name, node)| line(&address, name, node)));
        }
        Ok(Response::Nodes { nodes })
    }

    /// What one node is.
    pub(crate) fn show_node(&self, address: &str, name: &str) -> Result<Response, Response> {
        let address = self.with_nodes(address)?;
        let (state, _) = self.read_nodes(&address)?;
        let node = node_of(&state, &address, name)?;
        let owners = node.affiliations();
        let owners = owners.filter(|(_, what)| *what == Affiliation::Owner);
        let sample = NodeSample {
            line: line(&address, name, node),
            creator: node.creator.to_string(),
            created_ms: node.created.as_millis(),
            bytes: node.all_items().map(|item| u64::from(item.bytes)).sum(),
            owners: owners.map(|(who, _)| who.to_owned()).collect(),
            affiliations: node.affiliations().count() as u64,
            config: node.config.fields(),
        };
        Ok(Response::Node {
            node: Box::new(sample),
        })
    }

    /// A page of the items of a node, the oldest first, behind a place.
    pub(crate) fn node_items(
        &self,
        address: &str,
        name: &str,
        after: u64,
    ) -> Result<Response, Response> {
        let address = self.with_nodes(address)?;
        let (state, _) = self.read_nodes(&address)?;
        let node = node_of(&state, &address, name)?;
        let wanted = node.items(self.clock.wall()).filter(|one| one.seq > after);
        let wanted = wanted.map(|item| (item.id.clone(), item.seq));
        let wanted: Vec<_> = wanted.take(ITEMS_PAGE_MAX).collect();
        let found = stored::nodes::items(&self.store, &address, node.number, &wanted);
        let items = found.map_err(unreadable)?.into_iter().map(|item| NodeItem {
            id: item.id,
            seq: item.seq,
            at_ms: item.at,
            publisher: item.publisher,
            payload: String::from_utf8_lossy(&item.payload).into_owned(),
        });
        Ok(Response::Items {
            items: items.collect(),
            is_last: wanted.len() < ITEMS_PAGE_MAX,
        })
    }

    /// Who is related to a node, or subscribed to it: addresses with what they are.
    pub(crate) fn node_people(
        &self,
        address: &str,
        name: &str,
        of_subscriptions: bool,
    ) -> Result<Response, Response> {
        let address = self.with_nodes(address)?;
        let (state, _) = self.read_nodes(&address)?;
        let node = node_of(&state, &address, name)?;
        let own = |(who, what): (&str, &str)| (who.to_owned(), what.to_owned());
        let affiliations = node.affiliations().map(|(who, what)| (who, what.as_str()));
        let now = self.clock.wall();
        let subscriptions = node.subscriptions().filter(|(_, one)| one.is_alive(now));
        let subscriptions = subscriptions.map(|(who, one)| (who, one.state.as_str()));
        let people = match of_subscriptions {
            false => affiliations.map(own).collect(),
            true => subscriptions.map(own).collect(),
        };
        Ok(Response::People { people })
    }

    /// Does something to a node; subscribers are told.
    pub(crate) fn change_node(
        &self,
        address: &str,
        command: NodesCommand,
    ) -> Result<Response, Response> {
        let address = self.with_nodes(address)?;
        self.must_be_here(&address)?;
        let absent = no_such_node(&address, &command.node);
        let busy = "is busy with a change, or could not keep this one: try again";
        let busy = error("busy", &format!("{address} {busy}"));
        let (shard, name) = (self.place.shard(&address), Name::from(&*address));
        let question = |reply| UserMsg::Admin {
            command: Box::new(AdminCommand::Nodes(command)),
            reply,
        };
        let answer = self
            .handle
            .ask_named(shard, &name, question, ADMIN_DEADLINE);
        match answer {
            Ok(AdminAnswer::Done) => Ok(Response::Ok),
            Ok(AdminAnswer::Absent) => Err(absent),
            Ok(_) => Err(busy),
            Err(_) => Err(error("no_answer", &format!("{address} did not answer"))),
        }
    }

    /// The normalised address of a service, or of an account, which have nodes.
    fn with_nodes(&self, address: &str) -> Result<String, Response> {
        let hosts = &self.options.pubsub.hosts;
        let normal = xmpp::addr::normalize(address).unwrap_or_default();
        if hosts.iter().any(|host| *host == normal) {
            return Ok(normal.into_owned());
        }
        if crate::address::local(&normal).is_none() {
            let message = format!(
                "{address:?} has no nodes here: name an account, or one of {}",
                hosts.join(", ")
            );
            return Err(error("bad_address", &message));
        }
        let jid = self.own_address(address)?;
        match self.store.load_user(&jid).map_err(unreadable)? {
            Some(_) => Ok(jid),
            None => Err(error("no_such_user", &format!("there is no account {jid}"))),
        }
    }

    fn read_nodes(&self, address: &str) -> Result<(State, bool), Response> {
        let options = &self.options;
        let machine = match options.pubsub.hosts.iter().any(|host| host == address) {
            true => &options.pubsub.machine,
            false => &options.pep.machine,
        };
        stored::nodes::read(&self.store, address, machine).map_err(unreadable)
    }
}

fn line(address: &str, name: &str, node: &Node) -> NodeLine {
    let subscriptions = node.subscriptions();
    let is_any = |one: &pubsub::Subscription| one.state != SubscriptionState::None;
    NodeLine {
        address: address.to_owned(),
        node: name.to_owned(),
        title: node.config.title.clone(),
        items: node.all_items().len() as u64,
        subscriptions: subscriptions.filter(|(_, one)| is_any(one)).count() as u64,
    }
}

fn node_of<'a>(state: &'a State, address: &str, name: &str) -> Result<&'a Node, Response> {
    state.node(name).ok_or_else(|| no_such_node(address, name))
}

fn no_such_node(address: &str, name: &str) -> Response {
    error("no_such_node", &format!("{address} has no node {name:?}"))
}
