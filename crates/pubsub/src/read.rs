//! What anybody may ask for: items (XEP-0060 section 6.5), and one's own subscriptions and
//! affiliations (sections 5.6 and 5.7).

use std::collections::BTreeSet;
use std::sync::Arc;

use stdx::bugs;
use xml::Frame;
use xml::build::Writer;
use xmpp::error::Condition;
use xmpp::rsm;

use crate::access::{AccessModel, Affiliation};
use crate::error::{NS, Refusal};
use crate::notify::write_item;
use crate::service::{Ask, Service, node_of};
use crate::state::{Meta, Node};
use crate::subscribe::without_id;

impl Service {
    /// Whether somebody may retrieve items (section 6.5.1). With `authorize` only subscribers may,
    /// and who publishes; with `whitelist` who is on the list (section 4.5).
    pub(crate) fn may_retrieve(&self, node: &Node, ask: &Ask<'_>) -> Result<(), Refusal> {
        self.may_enter(node, ask.bare, ask.now)?;
        #[cfg(test)]
        if self.has_bug(crate::bugs::Bug::PendingRetrieve)
            && !node.subscriptions_of(ask.bare, ask.now.at).is_empty()
        {
            return Ok(());
        }
        let needs_approval = node.config.access == AccessModel::Authorize
            && self.affiliation(node, ask.bare) < Affiliation::Publisher;
        if needs_approval && !node.is_subscribed(ask.bare, ask.now.at) {
            return Err(Refusal::of(Condition::NotAuthorized, "not-subscribed"));
        }
        Ok(())
    }

    /// Entries and bytes of one answer.
    pub(crate) fn page_bounds(&self) -> (usize, u64) {
        let limits = &self.options.limits;
        (limits.page_entries_max, limits.page_bytes_max)
    }

    /// Section 6.5.
    pub(crate) fn items(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, node) = self.node(&name)?;
        self.may_retrieve(node, ask)?;
        without_id(action)?;
        if !node.config.keeps_items {
            return Err(Refusal::unsupported("persistent-items"));
        }
        let limits = &self.options.limits;
        let ids = action.children();
        let ids = ids.filter(|child| child.name() == "item" && child.ns() == NS);
        let ids: Vec<String> = ids
            .take(limits.entries_max + 1)
            .map(|item| item.attr("id").map(std::borrow::Cow::into_owned))
            .collect::<Option<_>>()
            .ok_or(Condition::BadRequest)?;
        if ids.len() > limits.entries_max {
            return Err(Condition::NotAcceptable.into());
        }
        let most = match action.attr("max_items") {
            None => usize::MAX,
            Some(most) => most.trim().parse().map_err(|_| Condition::BadRequest)?,
        };
        let wanted: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let kept = node.items(ask.now.at);
        let all: Vec<&Meta> = match ids.is_empty() {
            true => kept.collect(),
            false => kept.filter(|item| wanted.contains(&*item.id)).collect(),
        };
        // The newest of them (section 6.5.5), the oldest first.
        let all = match bugs::is("oldest_items_first") {
            true => &all[..all.len().min(most)],
            false => &all[all.len().saturating_sub(most)..],
        };
        let set = rsm::Set::find(rest)?;
        let keys = (all.len(), |at: usize| &*all[at].id);
        let bytes = |at: usize| {
            let item = all[at];
            u64::from(item.bytes) + rsm::entry_bytes(&[&item.id, &item.publisher])
        };
        let page = rsm::page(keys, set.as_ref(), self.page_bounds(), bytes)?;
        let wanted = &all[page.range.clone()];
        let wanted = wanted.iter().map(|item| (item.id.clone(), item.seq));
        let names_publisher = node.config.names_publisher;
        let request = ask.frame.clone();
        self.fetch(
            &Arc::clone(&name),
            wanted.collect(),
            move |service, items| {
                let Some(items) = items else {
                    return service.refuse(&request, &Condition::ResourceConstraint.into());
                };
                let bytes = items.iter().map(|item| item.payload.len() + 64);
                let mut out = Vec::with_capacity(bytes.sum::<usize>() + 256);
                let mut writer = Writer::new(&mut out);
                writer.open("pubsub").attr("xmlns", NS);
                writer.open("items").attr("node", &name);
                for item in &items {
                    write_item(&mut writer, item, names_publisher, true);
                }
                writer.close();
                page.write(&mut writer);
                writer.close();
                service.answer(&request, &out);
            },
        );
        Ok(())
    }

    /// Section 5.6.
    pub(crate) fn own_subscriptions(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let mut all: Vec<[String; 3]> = Vec::new();
        for (name, node) in self.nodes_of(ask, action)? {
            let own = node.subscriptions_of(ask.bare, ask.now.at);
            let own = own.iter().map(|(address, subscription)| {
                let state = subscription.state.as_str().to_owned();
                [name.to_string(), address.to_string(), state]
            });
            all.extend(own);
        }
        let names = ["node", "jid", "subscription"];
        let node = action.attr("node");
        let list = ("subscriptions", node.as_deref(), "subscription");
        self.answer_own(ask, list, &names, &all, rest)
    }

    /// Section 5.7.
    pub(crate) fn own_affiliations(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let mut all: Vec<[String; 2]> = Vec::new();
        for (name, node) in self.nodes_of(ask, action)? {
            let affiliation = self.affiliation(node, ask.bare);
            if affiliation != Affiliation::None {
                all.push([name.to_string(), affiliation.as_str().to_owned()]);
            }
        }
        let names = ["node", "affiliation"];
        let list = ("affiliations", None, "affiliation");
        self.answer_own(ask, list, &names, &all, rest)
    }

    /// The node that a request names, or all of them.
    fn nodes_of(&self, ask: &Ask<'_>, action: &Frame) -> Result<Vec<(Arc<str>, &Node)>, Refusal> {
        match action.attr("node") {
            // Who may not see a node of an account does not learn that it is there.
            Some(name) if self.is_account() => Ok(vec![self.visible(ask, &name)?]),
            Some(name) => Ok(vec![self.node(&name)?]),
            None => {
                let all = self.state.nodes();
                Ok(all.map(|(name, node)| (Arc::clone(name), node)).collect())
            }
        }
    }

    /// Answers with a list. The list itself names the node that was asked for where the text shows
    /// it, with subscriptions and not with affiliations.
    fn answer_own<const N: usize>(
        &mut self,
        ask: &Ask<'_>,
        (list, node, entry): (&str, Option<&str>, &str),
        names: &[&str; N],
        all: &[[String; N]],
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        if all.is_empty() {
            self.is_there_for(ask)?;
        }
        let set = rsm::Set::find(rest)?;
        let keys: Vec<String> = all.iter().map(|one| one[..N - 1].join(" ")).collect();
        let by_key = (all.len(), |at: usize| keys[at].as_str());
        let bytes = |at: usize| rsm::entry_bytes(&all[at].each_ref().map(String::as_str));
        let page = rsm::page(by_key, set.as_ref(), self.page_bounds(), bytes)?;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("pubsub").attr("xmlns", NS).open(list);
        if let Some(node) = node {
            writer.attr("node", node);
        }
        for one in &all[page.range.clone()] {
            writer.open(entry);
            for (name, value) in names.iter().zip(one) {
                writer.attr(name, value);
            }
            writer.close();
        }
        writer.close();
        page.write(&mut writer);
        writer.close();
        self.answer(ask.frame, &out);
        Ok(())
    }
}
