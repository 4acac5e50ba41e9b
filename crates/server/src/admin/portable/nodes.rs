//! Nodes of services and accounts as lines of an export, and the records that they make.

use std::sync::Arc;

use pubsub::{
    Affiliation, Config, Item, Node, Options, Record, State, Subscription, SubscriptionState,
};
use serde::{Deserialize, Serialize};
use store::limits::SEQ_MAX;
use xml::Frame;
use xmpp::form::Fields;

use super::text::address;
use super::{Bad, bad, bare};

/// Entries of a list of one line.
const ENTRIES_PER_LINE: usize = 500;

/// A service that has nodes; the first line of each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ServiceLine {
    /// Its address.
    pub(crate) jid: String,
}

/// A node; the first line of each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeLine {
    /// The service or account.
    pub(crate) jid: String,
    /// Its name.
    pub(super) node: String,
    /// Its number among those of the service, from 1.
    pub(super) number: u64,
    /// Who made it.
    creator: String,
    /// Milliseconds since the Unix epoch.
    created: i64,
    /// The fields of XEP-0060 section 16.4.4.
    config: Fields,
}

/// Affiliations of a node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeAffiliationsLine {
    /// The service or account.
    pub(crate) jid: String,
    pub(super) node: String,
    items: Vec<AffiliatedLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct AffiliatedLine {
    jid: String,
    affiliation: String,
}

/// Subscriptions of a node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSubscriptionsLine {
    /// The service or account.
    pub(crate) jid: String,
    pub(super) node: String,
    items: Vec<SubscribedLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscribedLine {
    /// Bare or full.
    jid: String,
    state: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    silent: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<i64>,
    /// Milliseconds between two digests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    digest: Option<u32>,
}

/// An item of a node.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeItemLine {
    /// The service or account.
    pub(crate) jid: String,
    pub(super) node: String,
    id: String,
    /// Its place among the items of the service.
    pub(super) seq: u64,
    /// Milliseconds since the Unix epoch.
    at: i64,
    publisher: String,
    /// The payload; empty if there is none.
    xml: String,
}

/// Deleted nodes that are elsewhere now.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodesMovedLine {
    /// The service or account.
    pub(crate) jid: String,
    items: Vec<MovedLine>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct MovedLine {
    node: String,
    to: String,
}

// ---- Export ------------------------------------------------------------------------------------

/// Deleted nodes that are elsewhere now, as a line, if there are any.
pub(super) fn moved_line(jid: &str, state: &State) -> Option<NodesMovedLine> {
    let items = state.moved().filter_map(|record| match record {
        Record::Deleted { node, moved_to } => Some(MovedLine {
            node,
            to: moved_to?,
        }),
        _ => None,
    });
    let items: Vec<MovedLine> = items.collect();
    (!items.is_empty()).then(|| NodesMovedLine {
        jid: jid.to_owned(),
        items,
    })
}

/// A node without its items.
pub(super) fn head_lines(
    jid: &str,
    name: &str,
    node: &Node,
) -> (
    NodeLine,
    Vec<NodeAffiliationsLine>,
    Vec<NodeSubscriptionsLine>,
) {
    let own = |text: &str| text.to_owned();
    let line = NodeLine {
        jid: own(jid),
        node: own(name),
        number: node.number,
        creator: own(&node.creator),
        created: node.created.as_millis(),
        config: node.config.fields(),
    };
    let mut affiliations: Vec<AffiliatedLine> = Vec::new();
    // Who made a node is its owner unless it is written that he is not.
    if node.affiliation(&node.creator) == Affiliation::None {
        affiliations.push(AffiliatedLine {
            jid: own(&node.creator),
            affiliation: own(Affiliation::None.as_str()),
        });
    }
    affiliations.extend(node.affiliations().map(|(who, what)| AffiliatedLine {
        jid: own(who),
        affiliation: own(what.as_str()),
    }));
    let subscriptions = node.subscriptions().map(|(who, what)| SubscribedLine {
        jid: own(who),
        state: own(what.state.as_str()),
        silent: what.is_silent,
        expires: what.expires,
        digest: Some(what.digest_ms).filter(|ms| *ms > 0),
    });
    let affiliations = parts(affiliations, |items| NodeAffiliationsLine {
        jid: own(jid),
        node: own(name),
        items,
    });
    let subscriptions = parts(subscriptions.collect(), |items| NodeSubscriptionsLine {
        jid: own(jid),
        node: own(name),
        items,
    });
    (line, affiliations, subscriptions)
}

fn parts<T, L>(mut items: Vec<T>, line: impl Fn(Vec<T>) -> L) -> Vec<L> {
    let mut lines = Vec::new();
    while !items.is_empty() {
        let rest = items.split_off(items.len().min(ENTRIES_PER_LINE));
        lines.push(line(std::mem::replace(&mut items, rest)));
    }
    lines
}

pub(super) fn item_line(jid: &str, node: &str, item: Item) -> NodeItemLine {
    NodeItemLine {
        jid: jid.to_owned(),
        node: node.to_owned(),
        id: item.id,
        seq: item.seq,
        at: item.at,
        publisher: item.publisher,
        xml: String::from_utf8_lossy(&item.payload).into_owned(),
    }
}

// ---- Import ------------------------------------------------------------------------------------

fn place(number: u64) -> Result<u64, Bad> {
    let is_good = (1..=SEQ_MAX / 2).contains(&number);
    is_good
        .then_some(number)
        .ok_or_else(|| bad("a number of 0, or one that leaves none"))
}

impl NodeLine {
    pub(super) fn records(self, options: &Options) -> Result<Vec<Record>, Bad> {
        let config = Config::of_fields(&self.config, options);
        let config = config.map_err(|field| bad(&format!("a bad value of {field}")))?;
        let is_name = (1..=options.limits.node_id_bytes_max).contains(&self.node.len());
        if !is_name || self.node.contains('\0') {
            return Err(bad("a node without a name, or with one that is too long"));
        }
        Ok(vec![Record::Created {
            node: self.node,
            number: place(self.number)?,
            at: self.created,
            creator: bare(&self.creator)?,
            config: Box::new(config),
        }])
    }
}

impl NodeAffiliationsLine {
    pub(super) fn records(self) -> Result<Vec<Record>, Bad> {
        let node = self.node;
        let record = |one: AffiliatedLine| {
            let affiliation = Affiliation::parse(&one.affiliation)
                .ok_or_else(|| bad(&format!("an unknown affiliation {:?}", one.affiliation)))?;
            Ok(Record::Affiliated {
                node: node.clone(),
                address: bare(&one.jid)?,
                affiliation,
            })
        };
        self.items.into_iter().map(record).collect()
    }
}

impl NodeSubscriptionsLine {
    pub(super) fn records(self) -> Result<Vec<Record>, Bad> {
        let node = self.node;
        let record = |one: SubscribedLine| {
            let state = SubscriptionState::parse(&one.state)
                .filter(|state| *state != SubscriptionState::None)
                .ok_or_else(|| bad(&format!("an unknown state {:?}", one.state)))?;
            Ok(Record::Subscribed {
                node: node.clone(),
                address: address(&one.jid)?,
                subscription: Subscription {
                    state,
                    is_silent: one.silent,
                    expires: one.expires,
                    digest_ms: one.digest.unwrap_or(0),
                },
            })
        };
        self.items.into_iter().map(record).collect()
    }
}

impl NodeItemLine {
    pub(super) fn records(self) -> Result<Vec<Record>, Bad> {
        if !self.xml.is_empty() && Frame::parse(&*self.xml).is_err() {
            return Err(bad("xml that is no element"));
        }
        Ok(vec![Record::Published {
            node: self.node,
            item: Item {
                id: self.id,
                seq: place(self.seq)?,
                at: self.at,
                publisher: bare(&self.publisher)?,
                payload: Arc::from(self.xml.into_bytes()),
            },
        }])
    }
}

impl NodesMovedLine {
    pub(super) fn records(self) -> Vec<Record> {
        let record = |one: MovedLine| Record::Deleted {
            node: one.node,
            moved_to: Some(one.to),
        };
        self.items.into_iter().map(record).collect()
    }
}
