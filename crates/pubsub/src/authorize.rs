//! Approvals of subscriptions (XEP-0060 sections 8.6 and 8.7): asking owners, their answers, and
//! the command that asks again (XEP-0050).

use std::collections::BTreeMap;
use std::sync::Arc;

use stdx::Timestamp;
use xml::build::Writer;
use xml::{Child, Frame};
use xmpp::error::Condition;
use xmpp::form::{Form, FormWriter, Submission, flag};
use xmpp::ns::DATA_FORMS;
use xmpp::rsm;
use xmpp::stanza::MessageType;

use crate::access::{Affiliation, SubscriptionState};
use crate::error::Refusal;
use crate::record::Record;
use crate::service::{Ask, Service};

pub(crate) const NS_COMMANDS: &str = "http://jabber.org/protocol/commands";
const GET_PENDING: &str = "http://jabber.org/protocol/pubsub#get-pending";
const FORM_TYPE: &str = "http://jabber.org/protocol/pubsub#subscribe_authorization";
/// What people are shown of the command.
const LABEL: &str = "Show who waits for an approval";

/// Approvals that owners were asked for in a minute, by the numbers of their nodes.
#[derive(Debug, Default)]
pub(crate) struct Approvals {
    minute: i64,
    asked: BTreeMap<u64, u16>,
}

impl Approvals {
    /// Takes one; false if the minute has none left for the node.
    pub(crate) fn take(&mut self, node: u64, now: Timestamp, max: u16) -> bool {
        let minute = now.as_millis().div_euclid(60_000);
        if self.minute != minute {
            self.minute = minute;
            self.asked.clear();
        }
        let asked = self.asked.entry(node).or_default();
        let has_left = *asked < max;
        *asked += u16::from(has_left);
        has_left
    }
}

/// Whether a message is an owner's decision about a subscription (section 8.6): an account that
/// gets one from its owner gives it to its nodes.
pub fn is_decision(message: &Frame) -> bool {
    let Some(x) = message.child("x", DATA_FORMS) else {
        return false;
    };
    let is_type = |field: &Frame| {
        let mut values = field.children();
        field.attr("var").as_deref() == Some("FORM_TYPE")
            && values.any(|value| value.text().as_deref() == Some(FORM_TYPE))
    };
    x.attr("type").as_deref() != Some("form") && x.children().any(|field| is_type(&field))
}

impl Service {
    /// Asks every owner of a node for an approval; the first answer counts (section 12.13).
    pub(crate) fn ask_owners(&mut self, name: &str, address: &str) {
        let Some(node) = self.state.node(name) else {
            return;
        };
        let owners: Vec<Arc<str>> = node.owner_addresses().map(Arc::from).collect();
        let frame = self.approval(name, address);
        self.send(frame, owners.into());
    }

    /// The form that asks for an approval, without `to`.
    fn approval(&mut self, name: &str, address: &str) -> Option<Frame> {
        let id = self.draw();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer
            .open("message")
            .attr("from", &self.address)
            .attr("id", &id);
        let mut form = FormWriter::new(&mut writer, "form", FORM_TYPE);
        let label = "Address that wants to subscribe";
        form.field(("pubsub#node", "text-single", "Node"), &[name], &[]);
        form.field(
            ("pubsub#subscriber_jid", "jid-single", label),
            &[address],
            &[],
        );
        form.field(("pubsub#allow", "boolean", "May it?"), &["0"], &[]);
        form.close();
        writer.close();
        Frame::parse(bytes).ok()
    }

    /// A message to the service: the answer of an owner.
    pub(crate) fn message(&mut self, ask: &Ask<'_>) -> Result<(), Refusal> {
        let Some(x) = ask.frame.child("x", DATA_FORMS) else {
            let kind = xmpp::stanza::parse_kind(ask.frame);
            let is_quiet = MessageType::Headline;
            return match kind == Ok(xmpp::stanza::Kind::Message(is_quiet)) {
                true => Ok(()),
                false => Err(Condition::ServiceUnavailable.into()),
            };
        };
        let x = Frame::parse(x.to_xml()).map_err(|_| Condition::BadRequest)?;
        match Form::parse(&x, FORM_TYPE)? {
            // What is put away waits on.
            Form::Cancelled => Ok(()),
            Form::Submitted(form) => self.decide(ask, &form),
        }
    }

    fn decide(&mut self, ask: &Ask<'_>, form: &Submission) -> Result<(), Refusal> {
        let name = form.one("pubsub#node").ok_or(Condition::BadRequest)?;
        let address = form
            .one("pubsub#subscriber_jid")
            .ok_or(Condition::BadRequest)?;
        let address = xmpp::addr::normalize(address).map_err(|_| Condition::JidMalformed)?;
        let allow = form
            .one("pubsub#allow")
            .and_then(flag)
            .ok_or(Condition::BadRequest)?;
        let (name, node) = self.owned(ask, name)?;
        let waiting = node.subscription(&address, ask.now.at);
        let waiting = waiting.filter(|one| one.state == SubscriptionState::Pending);
        let missing = Refusal::of(Condition::UnexpectedRequest, "not-subscribed");
        let mut subscription = waiting.ok_or(missing.with_kind("cancel"))?;
        subscription.state = match allow {
            true => SubscriptionState::Subscribed,
            false => SubscriptionState::None,
        };
        let address: Arc<str> = address.into();
        let record = Record::Subscribed {
            node: name.to_string(),
            address: address.to_string(),
            subscription,
        };
        self.commit(
            vec![record],
            Some(ask.frame),
            ask.now,
            move |service, now| {
                service.tell_of_subscription(&name, &address, subscription.state, true);
                if allow {
                    let who = crate::state::bare(&address).to_owned();
                    service.send_last_to_new(&name, &address, &who, now);
                }
            },
        );
        Ok(())
    }

    /// What of the commands somebody is shown by a node of that name (XEP-0050 sections 2.1 to
    /// 2.3), as type of its identity and name: their list, and the one there is, which is for who
    /// owns a node.
    pub(crate) fn command_node(&self, ask: &Ask<'_>, node: &str) -> Option<[&'static str; 2]> {
        let is_shown = !self.is_account() || ask.bare == &*self.address;
        match node {
            _ if !is_shown => None,
            NS_COMMANDS => Some(["command-list", "Commands"]),
            GET_PENDING if self.owns_a_node(ask) => Some(["command-node", LABEL]),
            _ => None,
        }
    }

    /// The list of commands (XEP-0050 section 2.2).
    pub(crate) fn list_commands(&mut self, ask: &Ask<'_>) {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", xmpp::ns::DISCO_ITEMS);
        writer.attr("node", NS_COMMANDS);
        if self.owns_a_node(ask) {
            writer.open("item").attr("jid", &self.address);
            writer.attr("node", GET_PENDING).attr("name", LABEL).close();
        }
        writer.close();
        self.answer(ask.frame, &out);
    }

    /// What the list of commands is, or the command.
    pub(crate) fn command_info(&mut self, ask: &Ask<'_>, node: &str, [kind, name]: [&str; 2]) {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("query").attr("xmlns", xmpp::ns::DISCO_INFO);
        writer.attr("node", node);
        writer.open("identity").attr("category", "automation");
        writer.attr("type", kind).attr("name", name).close();
        for feature in [NS_COMMANDS, DATA_FORMS] {
            writer.open("feature").attr("var", feature).close();
        }
        writer.close();
        self.answer(ask.frame, &out);
    }

    fn owns_a_node(&self, ask: &Ask<'_>) -> bool {
        let mut nodes = self.state.nodes();
        nodes.any(|(_, node)| self.affiliation(node, ask.bare) == Affiliation::Owner)
    }

    /// Section 8.7: first which nodes have somebody waiting, then who.
    pub(crate) fn command(
        &mut self,
        ask: &Ask<'_>,
        command: &Child<'_>,
        parts: &[Frame],
    ) -> Result<(), Refusal> {
        if command.attr("node").as_deref() != Some(GET_PENDING) {
            return Err(Condition::ItemNotFound.into());
        }
        let session = command.attr("sessionid").map(std::borrow::Cow::into_owned);
        let session = session.unwrap_or_else(|| self.draw());
        if command.attr("action").as_deref() == Some("cancel") {
            self.answer_command(ask, &session, "canceled", &[]);
            return Ok(());
        }
        let x = parts
            .iter()
            .find(|one| one.name() == "x" && one.ns() == DATA_FORMS);
        let form = match x.map(|x| Form::parse_lenient(x, FORM_TYPE)).transpose()? {
            None => return self.command_form(ask, &session),
            Some(Form::Cancelled) => {
                self.answer_command(ask, &session, "canceled", &[]);
                return Ok(());
            }
            Some(Form::Submitted(form)) => form,
        };
        let name = form.one("pubsub#node").ok_or(Condition::BadRequest)?;
        let (name, node) = self.owned(ask, name)?;
        let waiting = node.subscriptions.iter();
        let waiting = waiting
            .filter(|(_, one)| one.state == SubscriptionState::Pending && one.is_alive(ask.now.at));
        let waiting = waiting.map(|(address, _)| Arc::clone(address));
        // So many at once; who has answered them asks again.
        let waiting = waiting.take(self.options.limits.entries_max);
        let waiting: Vec<Arc<str>> = waiting.collect();
        self.answer_command(ask, &session, "completed", &[]);
        for address in waiting {
            let frame = self.approval(&name, &address);
            self.send(frame, [Arc::from(ask.bare)].into());
        }
        Ok(())
    }

    fn command_form(&mut self, ask: &Ask<'_>, session: &str) -> Result<(), Refusal> {
        let owned = self.state.nodes();
        let owned =
            owned.filter(|(_, node)| self.affiliation(node, ask.bare) == Affiliation::Owner);
        let owned: Vec<_> = owned.collect();
        if owned.is_empty() {
            return Err(Condition::Forbidden.into());
        }
        let is_waiting = |one: &crate::record::Subscription| {
            one.state == SubscriptionState::Pending && one.is_alive(ask.now.at)
        };
        let waiting = owned.iter();
        let waiting = waiting.filter(|(_, node)| node.subscriptions.values().any(is_waiting));
        let options = waiting.map(|(name, _)| (&***name, &***name));
        let (entries_max, mut left) = self.page_bounds();
        let fits = |option: &(&str, &str)| {
            let bytes = rsm::entry_bytes(&[option.0, option.1]);
            left.checked_sub(bytes)
                .inspect(|rest| left = *rest)
                .is_some()
        };
        let options: Vec<(&str, &str)> = options.take(entries_max).take_while(fits).collect();
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        let mut form = FormWriter::new(&mut writer, "form", FORM_TYPE);
        form.field(("pubsub#node", "list-single", "Node"), &[], &options);
        form.close();
        self.answer_command(ask, session, "executing", &out);
        Ok(())
    }

    fn answer_command(&mut self, ask: &Ask<'_>, session: &str, status: &str, content: &[u8]) {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("command").attr("xmlns", NS_COMMANDS);
        writer.attr("node", GET_PENDING).attr("sessionid", session);
        writer.attr("status", status).raw(content).close();
        self.answer(ask.frame, &out);
    }
}
