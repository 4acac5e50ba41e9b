//! The lists that owners keep: affiliations and subscriptions of a node (XEP-0060 sections 8.8 and
//! 8.9). A request changes what it can, and returns what it cannot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;
use xmpp::rsm;

use crate::access::{Affiliation, SubscriptionState, Visitor};
use crate::error::{NS_OWNER, Refusal};
use crate::record::{Record, Subscription};
use crate::service::{Ask, Now, Service, node_of};
use crate::state::{Node, bare, entry_bytes};
use crate::subscribe::address_of;

/// A subscription that has changed: of whom, and to what.
pub(crate) type Changed = (Arc<str>, SubscriptionState);

/// Entries of a request that cannot be changed, each with what it has: address and name.
type Failed = Vec<(String, &'static str)>;

impl Service {
    // === reading ===

    /// Section 8.9.1.
    pub(crate) fn affiliations(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.owned(ask, &name)?;
        let all = node.affiliations().map(|(who, what)| (who, what.as_str()));
        let out = self.list(&name, &LISTS[0], &all.collect::<Vec<_>>(), rest)?;
        self.answer(ask.frame, &out);
        Ok(())
    }

    /// Section 8.8.1: those who wait for an approval are not in it.
    pub(crate) fn subscriptions(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.owned(ask, &name)?;
        let all = node.subscriptions.iter();
        let all = all
            .filter(|(_, one)| one.is_alive(ask.now.at) && one.state > SubscriptionState::Pending);
        let all = all.map(|(who, one)| (&**who, one.state.as_str()));
        let out = self.list(&name, &LISTS[1], &all.collect::<Vec<_>>(), rest)?;
        self.answer(ask.frame, &out);
        Ok(())
    }

    fn list(
        &self,
        name: &str,
        list: &List,
        all: &[(&str, &str)],
        rest: &[Frame],
    ) -> Result<Vec<u8>, Refusal> {
        let set = rsm::Set::find(rest)?;
        let keys = (all.len(), |at: usize| all[at].0);
        let bytes = |at: usize| rsm::entry_bytes(&[all[at].0]);
        let page = rsm::page(keys, set.as_ref(), self.page_bounds(), bytes)?;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("pubsub").attr("xmlns", NS_OWNER);
        writer.open(list.name).attr("node", name);
        for (who, what) in &all[page.range.clone()] {
            writer.open(list.entry).attr("jid", who);
            writer.attr(list.entry, what).close();
        }
        writer.close();
        page.write(&mut writer);
        writer.close();
        Ok(out)
    }

    // === changing ===

    /// Section 8.9.2.
    pub(crate) fn change_affiliations(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
    ) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.owned(ask, &name)?;
        let entries = self.entries(action, &LISTS[0])?;
        let mut failed: Failed = Vec::new();
        let mut wanted: BTreeMap<String, Affiliation> = BTreeMap::new();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut owners = node.owners();
        let mut count = node.affiliations().count();
        let mut bytes_left = self.list_bytes_left(&node.creator);
        for (raw, address, value) in entries {
            let Some(address) = address.map(|address| bare(&address).to_owned()) else {
                failed.push((raw, Affiliation::None.as_str()));
                continue;
            };
            if !seen.insert(address.clone()) {
                return Err(Condition::BadRequest.into());
            }
            let old = self.affiliation(node, &address);
            let new = match value {
                None => Some(old),
                Some(value) => Affiliation::parse(&value),
            };
            let Some(new) = new.filter(|new| self.may_become(&address, old, *new)) else {
                failed.push((raw, old.as_str()));
                continue;
            };
            let is_last = old == Affiliation::Owner && new != old && owners <= 1;
            #[cfg(test)]
            let is_last = is_last && !self.has_bug(crate::bugs::Bug::LastOwnerGoes);
            let grows = old == Affiliation::None && new != old;
            let bytes = entry_bytes(&address);
            let is_full = grows
                && (count >= self.options.limits.affiliations_per_node_max || bytes > bytes_left);
            if is_last || is_full {
                failed.push((raw, old.as_str()));
                continue;
            }
            count += usize::from(grows);
            bytes_left -= if grows { bytes } else { 0 };
            owners += usize::from(new == Affiliation::Owner && new != old);
            owners -= usize::from(old == Affiliation::Owner && new != old);
            wanted.insert(address, new);
        }
        wanted.retain(|address, new| self.affiliation(node, address) != *new);
        let mut records = Vec::new();
        let mut changed: Vec<Changed> = Vec::new();
        for (address, affiliation) in wanted {
            changed.extend(self.after_affiliation(node, &address, affiliation, ask.now));
            records.push(Record::Affiliated {
                node: name.to_string(),
                address,
                affiliation,
            });
        }
        records.extend(changed.iter().map(|change| subscribed(&name, node, change)));
        self.change(ask, &name, &LISTS[0], records, changed, failed);
        Ok(())
    }

    /// The transitions of the state chart of section 4.1. An account stays the owner of its nodes.
    fn may_become(&self, address: &str, old: Affiliation, new: Affiliation) -> bool {
        use Affiliation::{Member, None, Owner, PublishOnly, Publisher};
        if self.is_account() && address == &*self.address {
            return new == Owner;
        }
        match (old, new) {
            (old, new) if old == new => true,
            (Owner, new) => new == None,
            (Publisher | PublishOnly, Member) => false,
            _ => true,
        }
    }

    /// Section 8.8.2.
    pub(crate) fn change_subscriptions(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
    ) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.owned(ask, &name)?;
        let entries = self.entries(action, &LISTS[1])?;
        let mut failed: Failed = Vec::new();
        let mut seen: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut changed: Vec<Changed> = Vec::new();
        let mut count = node.subscriptions.len();
        let mut bytes_left = self.list_bytes_left(&node.creator);
        for (raw, address, value) in entries {
            let Some(address) = address else {
                failed.push((raw, SubscriptionState::None.as_str()));
                continue;
            };
            if !seen.insert(Arc::clone(&address)) {
                return Err(Condition::BadRequest.into());
            }
            let old = node.subscription(&address, ask.now.at);
            let old = old.map_or(SubscriptionState::None, |old| old.state);
            let new = match value {
                None => Some(old),
                Some(value) => SubscriptionState::parse(&value),
            };
            let who = self.affiliation(node, bare(&address));
            let is_closed = matches!(who, Affiliation::Outcast | Affiliation::PublishOnly);
            let grows = !node.subscriptions.contains_key(&address);
            let bytes = entry_bytes(&address);
            let is_full = grows
                && (count >= self.options.limits.subscriptions_per_node_max || bytes > bytes_left);
            let is_possible = |new: &SubscriptionState| {
                *new == SubscriptionState::None || *new == old || !(is_closed || is_full)
            };
            let Some(new) = new.filter(is_possible) else {
                failed.push((raw, old.as_str()));
                continue;
            };
            if new != old {
                count += usize::from(grows);
                bytes_left -= if grows { bytes } else { 0 };
                changed.push((address, new));
            }
        }
        let records = changed.iter().map(|change| subscribed(&name, node, change));
        let records = records.collect();
        self.change(ask, &name, &LISTS[1], records, changed, failed);
        Ok(())
    }

    /// What the owners of the nodes that somebody has created may still add to their lists.
    fn list_bytes_left(&self, creator: &str) -> u64 {
        let added = self.undecided().filter_map(|record| match record {
            Record::Subscribed { node, address, .. } | Record::Affiliated { node, address, .. } => {
                let is_own = self.is_created_by(node, creator);
                is_own.then(|| entry_bytes(address))
            }
            _ => None,
        });
        let taken = self.state.list_bytes_of(creator) + added.sum::<u64>();
        let max = self.options.limits.list_bytes_per_creator_max;
        max.saturating_sub(taken)
    }

    /// The entries of a request: address as written and in normal form, and the new value.
    #[expect(clippy::type_complexity, reason = "read in two places right above")]
    fn entries(
        &self,
        action: &Frame,
        list: &List,
    ) -> Result<Vec<(String, Option<Arc<str>>, Option<String>)>, Refusal> {
        let entries = action.children();
        let entries = entries.filter(|one| one.name() == list.entry && one.ns() == NS_OWNER);
        let entries: Vec<_> = entries.collect();
        if entries.len() > self.options.limits.entries_max {
            return Err(Condition::NotAcceptable.into());
        }
        let read = |entry: &xml::Child<'_>| {
            let entry = Frame::parse(entry.to_xml()).ok()?;
            let raw = entry.attr("jid").unwrap_or_default().into_owned();
            let value = entry.attr(list.entry).map(std::borrow::Cow::into_owned);
            Some((raw, address_of(&entry), value))
        };
        Ok(entries.iter().filter_map(read).collect())
    }

    fn change(
        &mut self,
        ask: &Ask<'_>,
        name: &Arc<str>,
        list: &'static List,
        records: Vec<Record>,
        changed: Vec<Changed>,
        failed: Failed,
    ) {
        let (request, name) = (ask.frame.clone(), Arc::clone(name));
        self.commit(records, Some(ask.frame), ask.now, move |service, now| {
            if failed.is_empty() {
                service.answer(&request, &[]);
            } else {
                let entries = write_failed(&name, list, &failed);
                let refusal = Refusal::from(Condition::NotAcceptable).with_entries(entries);
                service.refuse(&request, &refusal);
            }
            service.tell_of_changes(&name, &changed, now);
        });
    }

    /// Tells those whose subscriptions have changed without their doing (section 12.14).
    pub(crate) fn tell_of_changes(&mut self, name: &str, changed: &[Changed], now: Now<'_>) {
        for (address, state) in changed {
            self.tell_of_subscription(name, address, *state, true);
            if *state == SubscriptionState::Subscribed {
                self.send_last_to_new(name, address, bare(address), now);
            }
        }
    }

    /// What a new affiliation means for the subscriptions of an address (section 8.7.4): who is
    /// known need not wait for an approval, who is banned has none, and neither has who may enter
    /// only as somebody who is known.
    fn after_affiliation(
        &self,
        node: &Node,
        address: &str,
        affiliation: Affiliation,
        now: Now<'_>,
    ) -> Vec<Changed> {
        let own = node.subscriptions_of(address, now.at).into_iter();
        let visitor = Visitor {
            affiliation,
            ..self.visitor(node, address, now)
        };
        let config = &node.config;
        if visitor.may_enter(config.access, &config.groups).is_err() {
            return own.map(|(who, _)| (who, SubscriptionState::None)).collect();
        }
        let waiting = own.filter(|(_, s)| {
            affiliation != Affiliation::None && s.state == SubscriptionState::Pending
        });
        waiting
            .map(|(who, _)| (who, SubscriptionState::Subscribed))
            .collect()
    }
}

/// One of the two kinds of list.
struct List {
    name: &'static str,
    entry: &'static str,
}

static LISTS: [List; 2] = [
    List {
        name: "affiliations",
        entry: "affiliation",
    },
    List {
        name: "subscriptions",
        entry: "subscription",
    },
];

/// The record of a changed state; options stay.
pub(crate) fn subscribed(name: &str, node: &Node, (address, state): &Changed) -> Record {
    let old = node.subscriptions.get(address).copied().unwrap_or_default();
    Record::Subscribed {
        node: name.to_owned(),
        address: address.to_string(),
        subscription: Subscription {
            state: *state,
            ..old
        },
    }
}

fn write_failed(name: &str, list: &List, failed: &Failed) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out);
    writer.open("pubsub").attr("xmlns", NS_OWNER);
    writer.open(list.name).attr("node", name);
    for (raw, what) in failed {
        writer.open(list.entry).attr("jid", raw);
        writer.attr(list.entry, what).close();
    }
    writer.close().close();
    out
}
