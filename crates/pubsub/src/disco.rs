//! Discovery (XEP-0060 sections 5.1 to 5.5, XEP-0163 section 6): what a service can do, which nodes
//! it has, and what is said of one.
//!
//! A node is there only for those who may subscribe to it or publish there: to others a private
//! node is not listed, and asking for it by its name is answered like asking for none. Whoever
//! addresses it with a publish-subscribe request gets the error that the text asks for.

use std::sync::Arc;

use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::Condition;
use xmpp::form::FormWriter;
use xmpp::{ns, rsm};

use crate::access::{Affiliation, SendLast};
use crate::authorize::NS_COMMANDS;
use crate::error::{NS, Refusal};
use crate::options::{Options, Owner};
use crate::service::{Ask, Now, Service};
use crate::state::Node;

const FORM_TYPE: &str = "http://jabber.org/protocol/pubsub#meta-data";

/// What every service of this crate can do, each behind `http://jabber.org/protocol/pubsub#`.
const COMMON: &[&str] = &[
    "config-node",
    "config-node-max",
    "create-and-configure",
    "create-nodes",
    "delete-items",
    "delete-nodes",
    "get-pending",
    "instant-nodes",
    "item-ids",
    "leased-subscription",
    "manage-subscriptions",
    "member-affiliation",
    "meta-data",
    "modify-affiliations",
    "outcast-affiliation",
    "persistent-items",
    "publish",
    "publish-only-affiliation",
    "publish-options",
    "publisher-affiliation",
    "purge-nodes",
    "retract-items",
    "retrieve-affiliations",
    "retrieve-default",
    "retrieve-default-sub",
    "retrieve-items",
    "retrieve-subscriptions",
    "subscribe",
    "subscription-notifications",
    "subscription-options",
];

/// What one of an account can do besides.
const OF_ACCOUNTS: &[&str] = &[
    "auto-subscribe",
    "filtered-notifications",
    "presence-subscribe",
];

/// The features of a service, for its own answer or for that of the account whose it is. Of access
/// models the one is named that nodes have by default, as the table of section 10 says.
pub fn features(options: &Options) -> Vec<String> {
    let mut features = vec![NS.to_owned()];
    let more = match options.owner {
        Owner::Account => OF_ACCOUNTS,
        Owner::Nobody => &[],
    };
    features.extend(COMMON.iter().chain(more).map(|name| format!("{NS}#{name}")));
    let access = options.defaults.access.as_str();
    features.push(format!("{NS}#access-{access}"));
    if options.auto_creates {
        features.push(format!("{NS}#auto-create"));
    }
    // Section 6.1.7.
    if options.defaults.send_last != SendLast::Never {
        features.push(format!("{NS}#last-published"));
    }
    features.sort_unstable();
    features
}

impl Service {
    /// Whether a node is there for somebody.
    pub(crate) fn is_visible(&self, node: &Node, bare: &str, now: Now<'_>) -> bool {
        #[cfg(test)]
        if self.has_bug(crate::bugs::Bug::PrivateNodesAreListed)
            && self.affiliation(node, bare) == Affiliation::None
        {
            return true;
        }
        self.affiliation(node, bare) == Affiliation::PublishOnly
            || self.may_enter(node, bare, now).is_ok()
    }

    /// A node that somebody may see.
    pub(crate) fn visible(&self, ask: &Ask<'_>, name: &str) -> Result<(Arc<str>, &Node), Refusal> {
        let found = self.node(name)?;
        match self.is_visible(found.1, ask.bare, ask.now) {
            true => Ok(found),
            false => Err(Condition::ItemNotFound.into()),
        }
    }

    /// Sections 5.1, 5.3 and 5.4.
    pub(crate) fn disco_info(&mut self, ask: &Ask<'_>, query: &Child<'_>) -> Result<(), Refusal> {
        let node = query.attr("node").unwrap_or_default();
        if let Some(shown) = self.command_node(ask, &node) {
            self.command_info(ask, &node, shown);
            return Ok(());
        }
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", ns::DISCO_INFO);
        let identity = |writer: &mut Writer<'_>, kind: &str, name: &str| {
            writer
                .open("identity")
                .attr("category", "pubsub")
                .attr("type", kind);
            if !name.is_empty() {
                writer.attr("name", name);
            }
            writer.close();
        };
        if let Some(name) = query.attr("node") {
            let (name, node) = self.visible(ask, &name)?;
            writer.attr("node", &name);
            identity(&mut writer, "leaf", &node.config.title);
            for feature in [NS, ns::DISCO_INFO, ns::DISCO_ITEMS] {
                writer.open("feature").attr("var", feature).close();
            }
            self.write_meta_data(&mut writer, node);
        } else {
            let kind = if self.is_account() { "pep" } else { "service" };
            identity(&mut writer, kind, "");
            let own = features(&self.options);
            let more = [ns::DISCO_INFO, ns::DISCO_ITEMS, rsm::NS, NS_COMMANDS];
            let of_host = self.options.features.iter().copied();
            for feature in own.iter().map(String::as_str).chain(more).chain(of_host) {
                writer.open("feature").attr("var", feature).close();
            }
        }
        writer.close();
        self.answer(ask.frame, &out);
        Ok(())
    }

    /// Section 5.4.
    fn write_meta_data(&self, writer: &mut Writer<'_>, node: &Node) {
        let config = &node.config;
        let names_max = self.options.limits.names_max;
        let of = |wanted: Affiliation| {
            let all = node.affiliations().filter(move |(_, what)| *what == wanted);
            all.map(|(who, _)| who)
                .take(names_max)
                .collect::<Vec<&str>>()
        };
        let created = node.created.to_string();
        let subscribers = node.subscribers().to_string();
        let contacts: Vec<&str> = config.contacts.iter().map(String::as_str).collect();
        let mut form = FormWriter::new(writer, "result", FORM_TYPE);
        let one = "text-single";
        for (name, kind, label, value) in [
            (
                "pubsub#type",
                one,
                "Namespace of payloads",
                &*config.payload_type,
            ),
            (
                "pubsub#creator",
                "jid-single",
                "Who made it",
                &*node.creator,
            ),
            ("pubsub#creation_date", one, "When", &created),
            ("pubsub#title", one, "Name", &config.title),
            (
                "pubsub#description",
                one,
                "Description",
                &config.description,
            ),
            (
                "pubsub#language",
                "list-single",
                "Language",
                &config.language,
            ),
            (
                "pubsub#access_model",
                "list-single",
                "Who may see it",
                config.access.as_str(),
            ),
            ("pubsub#num_subscribers", one, "Subscribers", &subscribers),
        ] {
            if !value.is_empty() {
                form.field((name, kind, label), &[value], &[]);
            }
        }
        for (name, label, values) in [
            ("pubsub#contact", "Whom to ask", contacts),
            ("pubsub#owner", "Owners", of(Affiliation::Owner)),
            ("pubsub#publisher", "Publishers", of(Affiliation::Publisher)),
        ] {
            if !values.is_empty() {
                form.field((name, "jid-multi", label), &values, &[]);
            }
        }
        form.close();
    }

    /// Sections 5.2 and 5.5.
    pub(crate) fn disco_items(
        &mut self,
        ask: &Ask<'_>,
        query: &Child<'_>,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let is_commands = query.attr("node").as_deref() == Some(NS_COMMANDS);
        if is_commands && self.command_node(ask, NS_COMMANDS).is_some() {
            self.list_commands(ask);
            return Ok(());
        }
        let set = rsm::Set::find(rest)?;
        let bounds = self.page_bounds();
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", ns::DISCO_ITEMS);
        let page = if let Some(name) = query.attr("node") {
            let (name, node) = self.visible(ask, &name)?;
            self.may_retrieve(node, ask)?;
            writer.attr("node", &name);
            let all: Vec<&str> = node.items(ask.now.at).map(|item| &*item.id).collect();
            let keys = (all.len(), |at: usize| all[at]);
            let bytes = |at: usize| rsm::entry_bytes(&[&self.address, all[at]]);
            let page = rsm::page(keys, set.as_ref(), bounds, bytes)?;
            for id in &all[page.range.clone()] {
                writer.open("item").attr("jid", &self.address);
                writer.attr("name", id).close();
            }
            page
        } else {
            let all = self.state.nodes();
            let all = all.filter(|(_, node)| self.is_visible(node, ask.bare, ask.now));
            let all: Vec<_> = all.collect();
            let keys = (all.len(), |at: usize| &**all[at].0);
            let bytes = |at: usize| {
                let (name, node) = &all[at];
                rsm::entry_bytes(&[&self.address, name, &node.config.title])
            };
            let page = rsm::page(keys, set.as_ref(), bounds, bytes)?;
            for (name, node) in &all[page.range.clone()] {
                writer
                    .open("item")
                    .attr("jid", &self.address)
                    .attr("node", name);
                if !node.config.title.is_empty() {
                    writer.attr("name", &node.config.title);
                }
                writer.close();
            }
            page
        };
        page.write(&mut writer);
        writer.close();
        self.answer(ask.frame, &out);
        Ok(())
    }
}
