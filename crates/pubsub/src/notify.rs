//! Who is told, and how it is said: notifications (XEP-0060 sections 7.1.2 and 12, XEP-0163 section
//! 4), the last item, and errors that come back.

use std::collections::BTreeSet;
use std::sync::Arc;

use stdx::bugs;
use xml::Frame;
use xml::build::Writer;
use xmpp::ns;

use crate::access::{SendLast, SubscriptionState};
use crate::error::NS_EVENT;
use crate::event::{Effect, Told};
use crate::record::{Item, Record, Subscription};
use crate::service::{Ask, Now, Service};
use crate::state::{Node, bare};

impl Service {
    /// Everybody who is to hear of an event at a node. `with_pending` is for its end, which also
    /// concerns those who wait for an approval (section 8.4.2).
    ///
    /// A session that is told because of its presence is told once, and its account's bare
    /// subscription then needs no copy (XEP-0163 section 4.3.2). A contact with a bare subscription
    /// needs no other copy: that one goes to all his sessions.
    pub(crate) fn audience(&self, name: &str, now: Now<'_>, with_pending: bool) -> Told {
        let Some(node) = self.state.node(name) else {
            return Told::default();
        };
        let mut to: Vec<Arc<str>> = Vec::with_capacity(node.subscriptions.len());
        let mut contacts: Vec<Arc<str>> = Vec::new();
        let mut reached: BTreeSet<String> = BTreeSet::new();
        now.contacts.interested(name, &mut |address| {
            let who = bare(address);
            let visitor = self.visitor(node, who, now);
            let config = &node.config;
            let unasked = visitor.is_told_unasked(config.access, &config.groups);
            let subscribed =
                || self.is_told(node, who, node.subscription(who, now.at), now, with_pending);
            if who.len() == address.len() {
                if unasked && !subscribed() {
                    contacts.push(address.into());
                }
            } else if unasked || subscribed() {
                reached.insert(who.to_owned());
                reached.insert(address.to_owned());
                to.push(address.into());
            }
        });
        for (address, subscription) in &node.subscriptions {
            let alive = Some(*subscription).filter(|s| s.is_alive(now.at));
            if !reached.contains(&**address)
                && self.is_told(node, bare(address), alive, now, with_pending)
            {
                to.push(Arc::clone(address));
            }
        }
        Told {
            to: to.into(),
            contacts: contacts.into(),
        }
    }

    pub(crate) fn is_told(
        &self,
        node: &Node,
        who: &str,
        subscription: Option<Subscription>,
        now: Now<'_>,
        with_pending: bool,
    ) -> bool {
        let Some(subscription) = subscription else {
            return false;
        };
        #[cfg(test)]
        let with_pending = with_pending || self.has_bug(crate::bugs::Bug::PendingAreTold);
        let is_on = subscription.state == SubscriptionState::Subscribed && !subscription.is_silent;
        (is_on || with_pending) && self.may_enter(node, who, now).is_ok()
    }

    /// A notification without `to`. Its id names the node, for errors that come back.
    pub(crate) fn event(
        &mut self,
        number: u64,
        is_headline: bool,
        content: &[u8],
    ) -> Option<Frame> {
        let id = format!("{number:x}.{}", self.draw());
        let mut bytes = Vec::with_capacity(content.len() + 192);
        let mut writer = Writer::new(&mut bytes);
        writer.open("message").attr("from", &self.address);
        writer.attr("id", &id);
        if is_headline {
            writer.attr("type", "headline");
        }
        writer.open("event").attr("xmlns", NS_EVENT);
        writer.raw(content).close().close();
        Frame::parse(bytes).ok()
    }

    /// Tells of an item that was published; without one, that something was.
    pub(crate) fn tell_of_item(&mut self, name: &str, item: Option<&Item>, now: Now<'_>) {
        let Some(node) = self.state.node(name).filter(|node| node.config.notifies) else {
            return;
        };
        let config = Arc::clone(&node.config);
        let (number, mut to) = (node.number, self.audience(name, now, false));
        if let Some(item) = item {
            to = self.hold_back(name, to, (&item.id, Some(item.seq)), now);
        }
        if to.is_empty() {
            return;
        }
        let mut content = Vec::with_capacity(item.map_or(0, |item| item.payload.len()) + 256);
        let mut writer = Writer::new(&mut content);
        writer.open("items").attr("node", name);
        if let Some(item) = item {
            write_item(
                &mut writer,
                item,
                config.names_publisher,
                config.delivers_payloads,
            );
        }
        writer.close();
        let frame = self.event(number, config.is_headline, &content);
        self.send_told(name, frame, to);
    }

    /// Tells of an element about a node, like `<purge/>`.
    pub(crate) fn tell(&mut self, name: &str, content: &[u8], to: Told) {
        let Some(node) = self.state.node(name) else {
            return;
        };
        let (number, is_headline) = (node.number, node.config.is_headline);
        let frame = self.event(number, is_headline, content);
        self.send_told(name, frame, to);
    }

    /// Adds a frame about a node for everybody who is to hear of it.
    pub(crate) fn send_told(&mut self, name: &str, frame: Option<Frame>, told: Told) {
        let Told { to, contacts } = told;
        if let Some(frame) = frame.clone().filter(|_| !contacts.is_empty()) {
            let full = to.iter().filter(|to| to.contains('/')).cloned();
            self.effects.push(Effect::Notify {
                frame,
                node: name.into(),
                but: full.collect(),
                contacts,
            });
        }
        self.send(frame, to);
    }

    /// Tells an address what its subscription is now (section 12.14), and owners, if they want to
    /// know.
    pub(crate) fn tell_of_subscription(
        &mut self,
        name: &str,
        address: &Arc<str>,
        state: SubscriptionState,
        is_unasked: bool,
    ) {
        let Some(node) = self.state.node(name) else {
            return;
        };
        let (number, wants_owners) = (node.number, node.config.notifies_sub);
        let mut to: Vec<Arc<str>> = Vec::new();
        if is_unasked {
            to.push(Arc::clone(address));
        }
        if wants_owners {
            to.extend(node.owner_addresses().map(Arc::from));
        }
        let mut content = Vec::new();
        let mut writer = Writer::new(&mut content);
        writer.open("subscription").attr("node", name);
        writer.attr("jid", address);
        writer.attr("subscription", state.as_str()).close();
        let frame = self.event(number, false, &content);
        self.send(frame, to.into());
    }

    // === the last item ===

    /// Sends the last item of a node to an address (section 6.1.7), which may see it.
    pub(crate) fn send_last(&mut self, name: &str, to: &Arc<str>, now: Now<'_>) {
        let Some(node) = self.state.node(name).filter(|node| node.config.notifies) else {
            return;
        };
        let Some(last) = node.items(now.at).next_back() else {
            return;
        };
        let items = vec![(last.id.clone(), last.seq)];
        let (number, config) = (node.number, Arc::clone(&node.config));
        let (name, to) = (Arc::<str>::from(name), Arc::clone(to));
        self.fetch(&Arc::clone(&name), items, move |service, items| {
            let Some(item) = items.and_then(|mut items| items.pop()) else {
                return;
            };
            let mut content = Vec::new();
            let mut writer = Writer::new(&mut content);
            writer.open("items").attr("node", &name);
            write_item(
                &mut writer,
                &item,
                config.names_publisher,
                config.delivers_payloads,
            );
            writer.close();
            let mut delay = Vec::new();
            let stamp = stdx::Timestamp::from_millis(item.at).to_string();
            let mut writer = Writer::new(&mut delay);
            writer.open("delay").attr("xmlns", ns::DELAY);
            writer.attr("stamp", &stamp).close();
            let frame = service.event(number, config.is_headline, &content);
            let frame = frame.map(|frame| frame.edit().append_child(&delay).finish());
            service.send(frame, [to].into());
        });
    }

    /// A session has come online (XEP-0163 section 4.3.3): it gets the last item of each node that
    /// interests it and that it may see.
    pub(crate) fn available(&mut self, session: &Arc<str>, interests: &[Box<str>], now: Now<'_>) {
        let who = bare(session);
        let interests_max = self.options.limits.interests_max;
        let mut names: Vec<Arc<str>> = Vec::new();
        if self.is_account() {
            let all = interests.iter().take(interests_max);
            names.extend(all.filter_map(|name| self.state.name(name)));
            names.sort_unstable();
            names.dedup();
        } else {
            let all = self.state.nodes().map(|(name, _)| name);
            names.extend(all.cloned());
        }
        let is_told = |name: &Arc<str>| {
            let Some(node) = self.state.node(name) else {
                return false;
            };
            let config = &node.config;
            let subscribed = || {
                let all = [
                    node.subscription(who, now.at),
                    node.subscription(session, now.at),
                ];
                all.into_iter()
                    .any(|one| self.is_told(node, who, one, now, false))
            };
            let visitor = self.visitor(node, who, now);
            let unasked =
                self.is_account() && visitor.is_told_unasked(config.access, &config.groups);
            config.send_last == SendLast::OnSubAndPresence && (unasked || subscribed())
        };
        let names = names.into_iter().filter(is_told);
        // Of a service, what is behind the bound is had by asking: the items are there.
        let most = match self.is_account() {
            true => interests_max,
            false => self.fetches_left(),
        };
        let lasts = names.take(most).map(|name| (Arc::clone(session), name));
        self.lasts = lasts.collect();
        self.send_lasts(now);
    }

    /// Asks for as many last items as can be asked for now.
    pub(crate) fn send_lasts(&mut self, now: Now<'_>) {
        while self.fetches_left() > 0
            && let Some((session, name)) = self.lasts.pop_front()
        {
            let node = self.state.node(&name);
            if node.is_some_and(|node| self.may_enter(node, bare(&session), now).is_ok()) {
                self.send_last(&name, &session, now);
            }
        }
    }

    // === what changes by itself ===

    /// A contact is another kind of contact now: what he may no longer see is no longer his
    /// (XEP-0163 section 7.1).
    pub(crate) fn related(&mut self, who: &str, now: Now<'_>) {
        let mut lost: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (name, node) in self.state.nodes() {
            if self.may_enter(node, who, now).is_err() {
                let all = node.subscriptions_of(who, now.at);
                lost.extend(
                    all.into_iter()
                        .map(|(address, _)| (Arc::clone(name), address)),
                );
            }
        }
        self.end_subscriptions(lost, None, now);
    }

    /// Ends subscriptions and tells those who had them.
    pub(crate) fn end_subscriptions(
        &mut self,
        all: Vec<(Arc<str>, Arc<str>)>,
        request: Option<&Frame>,
        now: Now<'_>,
    ) {
        let records = all.iter().map(|(name, address)| Record::Subscribed {
            node: name.to_string(),
            address: address.to_string(),
            subscription: Subscription::default(),
        });
        self.commit(records.collect(), request, now, move |service, _| {
            for (name, address) in &all {
                service.tell_of_subscription(name, address, SubscriptionState::None, true);
            }
        });
    }

    /// Removes leases that are over and items that are too old.
    pub(crate) fn sweep(&mut self, now: Now<'_>) {
        let mut left = self.options.limits.sweep_max;
        let mut records = Vec::new();
        let mut over = Vec::new();
        for (name, node) in self.state.nodes() {
            if self.is_busy(name) {
                continue;
            }
            let (leases, items) = node.lapsed(now.at, left);
            left -= leases.len() + items.len();
            for address in leases {
                records.push(Record::Subscribed {
                    node: name.to_string(),
                    address: address.to_string(),
                    subscription: Subscription::default(),
                });
                over.push((Arc::clone(name), address));
            }
            if !items.is_empty() {
                let node = name.to_string();
                records.push(Record::Retracted { node, items });
            }
            if left == 0 {
                break;
            }
        }
        self.commit(records, None, now, move |service, _| {
            for (name, address) in &over {
                service.tell_of_subscription(name, address, SubscriptionState::None, true);
            }
        });
    }

    /// A notification came back (section 12.4): who is not there any more is no subscriber.
    pub(crate) fn bounced(&mut self, ask: &Ask<'_>) {
        let Some(error) = ask.frame.child("error", xml::NS_CONTENT) else {
            return;
        };
        let is_final = error.attr("type").as_deref() == Some("cancel")
            || error.children().any(|child| child.name() == "gone");
        let id = ask.frame.attr("id").unwrap_or_default();
        let number = id
            .split_once('.')
            .and_then(|(number, _)| u64::from_str_radix(number, 16).ok());
        let Some(number) = number.filter(|_| is_final) else {
            return;
        };
        let found = self.state.nodes().find(|(_, node)| node.number == number);
        if let Some((name, _)) = found
            && self.gone.len() < self.options.limits.sweep_max
        {
            self.gone.insert((Arc::clone(name), ask.from.into()));
        }
        self.end_gone(ask.now);
    }

    /// Ends the subscriptions of those who are gone, together; those at a node that is being
    /// changed wait until it has been.
    pub(crate) fn end_gone(&mut self, now: Now<'_>) {
        let all = std::mem::take(&mut self.gone).into_iter();
        let (busy, free): (BTreeSet<_>, BTreeSet<_>) = all.partition(|one| self.is_busy(&one.0));
        self.gone = busy;
        let is_there = |(name, address): &&(Arc<str>, Arc<str>)| {
            let node = self.state.node(name);
            node.is_some_and(|node| node.subscription(address, now.at).is_some())
        };
        let records = free.iter().filter(is_there);
        let records = records.map(|(name, address)| Record::Subscribed {
            node: name.to_string(),
            address: address.to_string(),
            subscription: Subscription::default(),
        });
        self.commit(records.collect(), None, now, |_, _| {});
    }
}

/// Writes an item of an answer or a notification.
pub(crate) fn write_item(
    writer: &mut Writer<'_>,
    item: &Item,
    names_publisher: bool,
    with_payload: bool,
) {
    writer.open("item").attr("id", &item.id);
    if names_publisher && !bugs::is("publisher_is_not_named") {
        writer.attr("publisher", &item.publisher);
    }
    if with_payload {
        writer.raw(&item.payload);
    }
    writer.close();
}
