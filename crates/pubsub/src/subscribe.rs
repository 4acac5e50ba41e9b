//! Subscribing, unsubscribing and subscription options (XEP-0060 sections 6.1 to 6.4). One address
//! has one subscription: a further request is answered with what it has (section 6.1.6).

use std::sync::Arc;

use stdx::Timestamp;
use xml::Frame;
use xml::build::Writer;
use xmpp::addr;
use xmpp::error::Condition;
use xmpp::form::{Form, FormWriter, Submission, flag};
use xmpp::ns::DATA_FORMS;

use crate::access::{AccessModel, Affiliation, SendLast, SubscriptionState};
use crate::error::{NS, Refusal};
use crate::record::{Record, Subscription};
use crate::service::{Ask, Service, node_of};
use crate::state::{Node, bare};

const FORM_TYPE: &str = "http://jabber.org/protocol/pubsub#subscribe_options";
const DAY_MILLIS: i64 = 86_400_000;
/// Milliseconds between two digests if nothing else is asked for.
const DIGEST_MS: u32 = 60_000;

impl Service {
    /// Section 6.1.
    pub(crate) fn subscribe(
        &mut self,
        ask: &Ask<'_>,
        action: &Frame,
        rest: &[Frame],
    ) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let invalid = || Refusal::of(Condition::BadRequest, "invalid-jid");
        let address = address_of(action).ok_or_else(invalid)?;
        if bare(&address) != ask.bare {
            return Err(invalid());
        }
        if let (None, Some(uri)) = (self.state.node(&name), self.state.moved_to(&name)) {
            return Err(Refusal::gone(uri));
        }
        let (name, node) = self.node(&name)?;
        self.may_enter(node, ask.bare, ask.now)?;
        if !node.config.takes_subscriptions {
            return Err(Refusal::unsupported("subscribe"));
        }
        let affiliation = self.affiliation(node, ask.bare);
        let known = node.subscription(&address, ask.now.at);
        let mut subscription = match known {
            Some(known) if known.state == SubscriptionState::Pending => {
                return Err(Refusal::of(
                    Condition::NotAuthorized,
                    "pending-subscription",
                ));
            }
            Some(known) => known,
            None => self.new_subscription(node, affiliation, ask)?,
        };
        let options = options_beside(rest)?;
        if let Some(options) = &options {
            self.apply_options(&mut subscription, options, ask.now.at)?;
        }
        let number = node.number;
        if known.is_none() && subscription.state == SubscriptionState::Pending {
            // Each of its owners is sent a message for it.
            let max = self.options.limits.approvals_per_minute_max;
            if !self.approvals.take(number, ask.now.at, max) {
                return Err(Condition::ResourceConstraint.into());
            }
        }
        let mut out = Vec::new();
        self.write_subscribed(&mut out, (&name, &address), subscription, options.is_some());
        if known == Some(subscription) {
            self.answer(ask.frame, &out);
            return Ok(());
        }
        let record = Record::Subscribed {
            node: name.to_string(),
            address: address.to_string(),
            subscription,
        };
        let (request, who) = (ask.frame.clone(), ask.bare.to_owned());
        self.commit(
            vec![record],
            Some(ask.frame),
            ask.now,
            move |service, now| {
                service.answer(&request, &out);
                if known.is_some() {
                    return;
                }
                if subscription.state == SubscriptionState::Pending {
                    service.ask_owners(&name, &address);
                } else {
                    service.send_last_to_new(&name, &address, &who, now);
                }
                service.tell_of_subscription(&name, &address, subscription.state, false);
            },
        );
        Ok(())
    }

    /// What a new subscriber has, within the bounds of the node.
    fn new_subscription(
        &self,
        node: &Node,
        affiliation: Affiliation,
        ask: &Ask<'_>,
    ) -> Result<Subscription, Refusal> {
        let limits = &self.options.limits;
        let own = node.subscriptions_of(ask.bare, ask.now.at).len();
        let is_full = node.subscriptions.len() >= limits.subscriptions_per_node_max;
        if is_full || own >= limits.subscriptions_per_address_max {
            let refusal = Refusal::of(Condition::PolicyViolation, "too-many-subscriptions");
            return Err(refusal.with_kind("wait"));
        }
        // Owners approve whom they have not said anything about (section 6.1.4).
        let waits =
            node.config.access == AccessModel::Authorize && affiliation == Affiliation::None;
        Ok(Subscription {
            state: match waits {
                true => SubscriptionState::Pending,
                false => SubscriptionState::Subscribed,
            },
            ..Subscription::default()
        })
    }

    /// Sends the last item to who has just become a subscriber.
    pub(crate) fn send_last_to_new(
        &mut self,
        name: &str,
        address: &Arc<str>,
        who: &str,
        now: crate::service::Now<'_>,
    ) {
        let Some(node) = self.state.node(name) else {
            return;
        };
        if node.config.send_last != SendLast::Never && self.may_enter(node, who, now).is_ok() {
            self.send_last(name, address, now);
        }
    }

    /// Section 6.2.
    pub(crate) fn unsubscribe(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        // A `subid` is ignored: no subscription has one (section 6.2.3.5).
        let (name, address, _) = self.subscribed(ask, &name, action, "cancel")?;
        let record = Record::Subscribed {
            node: name.to_string(),
            address: address.to_string(),
            subscription: Subscription::default(),
        };
        let request = ask.frame.clone();
        self.commit(vec![record], Some(ask.frame), ask.now, move |service, _| {
            service.answer(&request, &[]);
            service.tell_of_subscription(&name, &address, SubscriptionState::None, false);
        });
        Ok(())
    }

    /// The subscription that a request of its subscriber names (sections 6.2.3 and 6.3.4). `kind`
    /// is the type of the error if there is none.
    fn subscribed(
        &self,
        ask: &Ask<'_>,
        name: &str,
        action: &Frame,
        kind: &'static str,
    ) -> Result<(Arc<str>, Arc<str>, Subscription), Refusal> {
        let (name, node) = self.node(name)?;
        if action.attr_raw("jid").is_none() {
            return Err(Refusal::of(Condition::BadRequest, "jid-required"));
        }
        let invalid = || Refusal::of(Condition::BadRequest, "invalid-jid");
        let address = address_of(action).ok_or_else(invalid)?;
        if bare(&address) != ask.bare {
            return Err(Condition::Forbidden.into());
        }
        let missing = || {
            let refusal = Refusal::of(Condition::UnexpectedRequest, "not-subscribed");
            refusal.with_kind(kind)
        };
        let found = node
            .subscription(&address, ask.now.at)
            .ok_or_else(missing)?;
        Ok((name, address, found))
    }

    // === options ===

    /// Section 6.3.2.
    pub(crate) fn options_form(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, address, subscription) = self.subscribed(ask, &name, action, "modify")?;
        without_id(action)?;
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("pubsub").attr("xmlns", NS);
        writer
            .open("options")
            .attr("node", &name)
            .attr("jid", &address);
        self.write_options(&mut writer, "form", subscription);
        writer.close().close();
        self.answer(ask.frame, &out);
        Ok(())
    }

    /// Section 6.3.5.
    pub(crate) fn set_options(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = node_of(action)?;
        let (name, address, mut subscription) = self.subscribed(ask, &name, action, "modify")?;
        without_id(action)?;
        let Some(form) = form_in(action)? else {
            self.answer(ask.frame, &[]);
            return Ok(());
        };
        self.apply_options(&mut subscription, &form, ask.now.at)?;
        if subscription.state == SubscriptionState::Unconfigured {
            subscription.state = SubscriptionState::Subscribed;
        }
        let record = Record::Subscribed {
            node: name.to_string(),
            address: address.to_string(),
            subscription,
        };
        let request = ask.frame.clone();
        self.commit(vec![record], Some(ask.frame), ask.now, move |service, _| {
            service.answer(&request, &[]);
        });
        Ok(())
    }

    /// Section 6.4.
    pub(crate) fn default_options(&mut self, ask: &Ask<'_>, action: &Frame) -> Result<(), Refusal> {
        let name = action.attr("node").filter(|node| !node.is_empty());
        if let Some(name) = &name {
            let (_, node) = self.node(name)?;
            self.may_enter(node, ask.bare, ask.now)?;
        } else {
            self.is_there_for(ask)?;
        }
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.open("pubsub").attr("xmlns", NS).open("default");
        if let Some(name) = &name {
            writer.attr("node", name);
        }
        self.write_options(&mut writer, "result", Subscription::default());
        writer.close().close();
        self.answer(ask.frame, &out);
        Ok(())
    }

    /// What a form makes of a subscription.
    fn apply_options(
        &self,
        subscription: &mut Subscription,
        form: &Submission,
        now: Timestamp,
    ) -> Result<(), Refusal> {
        let invalid = || Refusal::of(Condition::BadRequest, "invalid-options");
        let limits = &self.options.limits;
        let (mut digest, mut every) = (None, None);
        for (name, values) in form.fields() {
            let first = values.first().map_or("", String::as_str);
            match name {
                "pubsub#deliver" => subscription.is_silent = !flag(first).ok_or_else(invalid)?,
                "pubsub#expire" if first.is_empty() => subscription.expires = None,
                "pubsub#expire" => {
                    let end: Timestamp = first.parse().map_err(|_| invalid())?;
                    let days = i64::from(limits.lease_days_max);
                    let last = now.as_millis().saturating_add(days * DAY_MILLIS);
                    if end.as_millis() <= now.as_millis() {
                        return Err(invalid());
                    }
                    subscription.expires = Some(end.as_millis().min(last));
                }
                "pubsub#digest" => digest = Some(flag(first).ok_or_else(invalid)?),
                "pubsub#digest_frequency" => {
                    let most = first.parse::<u32>().map_err(|_| invalid())?;
                    every = Some(most.clamp(limits.digest_ms_min, limits.digest_ms_max));
                }
                // What is not offered here may be declined, and not asked for.
                "pubsub#include_body" if flag(first) != Some(false) => return Err(invalid()),
                "pubsub#subscription_type" if first != "items" => return Err(invalid()),
                _ => {}
            }
        }
        if digest == Some(true) && self.is_account() {
            return Err(invalid());
        }
        let own = subscription.digest_ms;
        subscription.digest_ms = match digest.unwrap_or(own > 0) {
            true => every.unwrap_or(if own > 0 { own } else { DIGEST_MS }),
            false => 0,
        };
        Ok(())
    }

    fn write_subscribed(
        &self,
        out: &mut Vec<u8>,
        (name, address): (&str, &str),
        subscription: Subscription,
        with_options: bool,
    ) {
        let mut writer = Writer::new(out);
        writer.open("pubsub").attr("xmlns", NS);
        writer.open("subscription").attr("node", name);
        writer
            .attr("jid", address)
            .attr("subscription", subscription.state.as_str());
        writer.open("subscribe-options");
        if subscription.state == SubscriptionState::Unconfigured {
            writer.open("required").close();
        }
        writer.close().close();
        if with_options {
            writer.open("options");
            self.write_options(&mut writer, "result", subscription);
            writer.close();
        }
        writer.close();
    }

    fn write_options(&self, writer: &mut Writer<'_>, kind: &str, subscription: Subscription) {
        let mut form = FormWriter::new(writer, kind, FORM_TYPE);
        let label = |label| if kind == "form" { label } else { "" };
        let flag = |holds: bool| if holds { "1" } else { "0" };
        let field = ("pubsub#deliver", "boolean", label("Send notifications"));
        form.field(field, &[flag(!subscription.is_silent)], &[]);
        let end = subscription
            .expires
            .map(|end| Timestamp::from_millis(end).to_string());
        let end: Vec<&str> = end.iter().map(String::as_str).collect();
        let field = ("pubsub#expire", "text-single", label("When it ends"));
        form.field(field, &end, &[]);
        if !self.is_account() {
            let own = subscription.digest_ms;
            let field = (
                "pubsub#digest",
                "boolean",
                label("Several of them together"),
            );
            form.field(field, &[flag(own > 0)], &[]);
            let every = if own > 0 { own } else { DIGEST_MS }.to_string();
            let most = label("Milliseconds between two of these");
            let field = ("pubsub#digest_frequency", "text-single", most);
            form.field(field, &[&every], &[]);
        }
        form.close();
    }
}

/// The address that an element names, in normal form.
pub(crate) fn address_of(element: &Frame) -> Option<Arc<str>> {
    let address = element.attr("jid")?;
    addr::normalize(&address).ok().map(|normal| normal.into())
}

/// Subscriptions have no ids here: one that is named is not the subscriber's (sections 6.3.4.5 and
/// 6.5.7.2).
pub(crate) fn without_id(action: &Frame) -> Result<(), Refusal> {
    match action.attr("subid").is_none_or(|id| id.is_empty()) {
        true => Ok(()),
        false => Err(Refusal::of(Condition::NotAcceptable, "invalid-subid")),
    }
}

/// The submitted form in an element; `None` if it was put away.
fn form_in(element: &Frame) -> Result<Option<Submission>, Refusal> {
    let invalid = || Refusal::of(Condition::BadRequest, "invalid-options");
    let x = element
        .child("x", DATA_FORMS)
        .ok_or(Condition::BadRequest)?;
    let x = Frame::parse(x.to_xml()).map_err(|_| Condition::BadRequest)?;
    match Form::parse(&x, FORM_TYPE) {
        Ok(Form::Submitted(form)) => Ok(Some(form)),
        Ok(Form::Cancelled) => Ok(None),
        Err(_) => Err(invalid()),
    }
}

/// Options beside a request to subscribe, which must not name a node or an address (section 6.3.7).
fn options_beside(rest: &[Frame]) -> Result<Option<Submission>, Refusal> {
    let Some(options) = rest
        .iter()
        .find(|one| one.name() == "options" && one.ns() == NS)
    else {
        return Ok(None);
    };
    if options.attr_raw("node").is_some() || options.attr_raw("jid").is_some() {
        return Err(Condition::BadRequest.into());
    }
    form_in(options)
}
