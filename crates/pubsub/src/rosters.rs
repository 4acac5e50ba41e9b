//! Whose rosters decide about a stanza to a service that belongs to nobody: access models
//! `presence` and `roster` there go by the roster of whoever created the node, as long as he owns
//! it (XEP-0060 section 4.5). Reads no roster: the host does, and hands it in as
//! [`crate::Contacts`].
//!
//! Nobody else's roster counts. Owners are named by other owners without being asked, so that a
//! node could otherwise be used to find out who is in the groups of somebody's roster.
//!
//! | the stanza | rosters |
//! |---|---|
//! | a change of the node, which may tell its subscribers | the creator's: who may no longer enter is unsubscribed first |
//! | a change that makes the node go by a roster | the creator's: who may not enter then is unsubscribed with it |
//! | another question about the node, of somebody without an affiliation | the creator's |
//! | a question about all nodes | the creators' of nodes where the asker has no affiliation |

use std::collections::BTreeSet;
use std::sync::Arc;

use xml::Frame;
use xmpp::addr;

use crate::access::{AccessModel, Affiliation, Contacts};
use crate::service::{Concerned, Now, Service, concerns};
use crate::state::Node;

/// What a host looks up before it hands in a stanza.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bare addresses whose rosters decide.
    pub whose: Vec<Arc<str>>,
    /// A node of which [`crate::Event::Reviewed`] comes first, with these rosters.
    pub review: Option<Arc<str>>,
}

/// Whoever is subscribed was looked at when he subscribed and in the last review: what becomes of
/// a decision needs no roster.
#[derive(Clone, Copy, Debug)]
pub struct Admitted;

impl Contacts for Admitted {
    fn sees_presence(&self, _of: &str, _bare: &str) -> bool {
        true
    }

    fn is_in_group(&self, _of: &str, _bare: &str, _group: &str) -> bool {
        true
    }

    fn interested(&self, _node: &str, _each: &mut dyn FnMut(&str)) {}
}

impl Service {
    /// The rosters that decide about a stanza; `None` if none does. An account knows its own.
    pub fn rosters_for(&self, frame: &Frame) -> Option<Wanted> {
        if self.is_account() || frame.name() != "iq" {
            return None;
        }
        let from = frame.attr("from").unwrap_or_default();
        let bare = addr::bare_part(&from);
        if let Concerned::Node(name) = concerns(frame) {
            let (name, node) = (self.state.name(&name)?, self.state.node(&name)?);
            let is_owner = node.affiliation(bare) == Affiliation::Owner;
            let after = is_owner.then(|| self.access_after(node, frame)).flatten();
            let creator = self.judge_of(node);
            let creator = creator.or_else(|| self.judge_for(node, after?))?;
            let is_change = is_change(frame);
            let is_asked = is_change || node.affiliation(bare) == Affiliation::None;
            return is_asked.then(|| Wanted {
                whose: vec![creator.into()],
                review: is_change.then_some(name),
            });
        }
        if !asks_for_nodes(frame) {
            return None;
        }
        let all = self.state.nodes().map(|(_, node)| node);
        let all = all.filter(|node| node.affiliation(bare) == Affiliation::None);
        let creators: BTreeSet<&str> = all.filter_map(|node| self.judge_of(node)).collect();
        // Nodes of others are not shown to him: he can still ask for each.
        let creators = creators.into_iter().take(self.options.limits.rosters_max);
        let whose: Vec<Arc<str>> = creators.map(Arc::from).collect();
        (!whose.is_empty()).then_some(Wanted {
            whose,
            review: None,
        })
    }

    /// Whose roster decides who may enter a node, if one does.
    pub(crate) fn judge_of<'a>(&'a self, node: &'a Node) -> Option<&'a str> {
        self.judge_for(node, node.config.access)
    }

    /// The same, if the node has this access model.
    pub(crate) fn judge_for<'a>(&'a self, node: &'a Node, access: AccessModel) -> Option<&'a str> {
        if !matches!(access, AccessModel::Presence | AccessModel::Roster) {
            return None;
        }
        if self.is_account() {
            return Some(&self.address);
        }
        let owns = node.affiliation(&node.creator) == Affiliation::Owner;
        owns.then_some(&node.creator)
    }

    /// Rosters are known now: who may no longer enter the node is no subscriber.
    pub(crate) fn reviewed(&mut self, name: &Arc<str>, now: Now<'_>) {
        let Some(node) = self.state.node(name) else {
            return;
        };
        let lost = node.subscriptions.iter();
        let lost = lost.filter(|(address, one)| {
            one.is_alive(now.at) && self.may_enter(node, addr::bare_part(address), now).is_err()
        });
        let lost = lost.map(|(address, _)| (Arc::clone(name), Arc::clone(address)));
        let lost: Vec<_> = lost.take(self.options.limits.sweep_max).collect();
        self.end_subscriptions(lost, None, now);
    }
}

/// Whether subscribers may hear of it. One's own subscription is not of their concern.
fn is_change(frame: &Frame) -> bool {
    let payload = frame.children().next();
    let action = payload
        .as_ref()
        .and_then(|payload| payload.children().next());
    let is_own = action
        .is_some_and(|action| matches!(action.name(), "subscribe" | "unsubscribe" | "options"));
    frame.attr_raw("type") == Some("set") && !is_own
}

fn asks_for_nodes(frame: &Frame) -> bool {
    let payload = frame.children().next();
    payload.is_some_and(|payload| {
        payload.ns() == xmpp::ns::DISCO_ITEMS && payload.attr("node").is_none()
    })
}
