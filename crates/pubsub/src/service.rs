//! The machine: what comes in, what goes out, and the order of both. What each request means is in
//! the files named after the part of XEP-0060 that they implement.
//!
//! | state | event | what happens |
//! |---|---|---|
//! | nothing pending at a node | a request to it | decided at once; a change is *pending* |
//! | something pending at a node | a request to it | the event is given back: the node is busy |
//! | pending | decided | the change is applied, and what depends on it leaves, in order |
//! | pending | refused | nothing has changed; its sender gets an error |
//! | an answer needs payloads | – | they are asked for; what has changed meanwhile is left out |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use stdx::Timestamp;
use xml::Frame;
use xmpp::addr;
use xmpp::error::Condition;
use xmpp::stanza::{IqType, Kind, MessageType, parse_kind};

use crate::access::{Affiliation, Contacts, Visitor};
use crate::authorize::Approvals;
use crate::config::Offers;
use crate::digest::Digests;
use crate::error::{self, NS, NS_OWNER, Refusal};
use crate::event::{Audience, Effect, Event};
use crate::options::{Options, Owner};
use crate::record::{Item, Record};
use crate::state::{Node, State};

/// What time it is, and whom the host knows.
#[derive(Clone, Copy)]
pub(crate) struct Now<'a> {
    pub(crate) at: Timestamp,
    pub(crate) contacts: &'a dyn Contacts,
}

/// A request while it is decided.
#[derive(Clone, Copy)]
pub(crate) struct Ask<'a> {
    pub(crate) frame: &'a Frame,
    /// The sender's address.
    pub(crate) from: &'a str,
    /// Its bare part.
    pub(crate) bare: &'a str,
    pub(crate) may_create: bool,
    pub(crate) now: Now<'a>,
}

type Then = Box<dyn for<'a> FnOnce(&mut Service, Now<'a>) + Send>;
type Fetched = Box<dyn FnOnce(&mut Service, Option<Vec<Item>>) + Send>;

/// A decision whose effects wait.
struct Pending {
    records: Vec<Record>,
    /// Whom to tell if the append fails.
    request: Option<Frame>,
    then: Then,
}

/// An answer that waits for items.
struct Question {
    node: Arc<str>,
    items: Vec<(Box<str>, u64)>,
    then: Fetched,
}

/// The nodes of one address.
pub struct Service {
    pub(crate) address: Arc<str>,
    pub(crate) options: Arc<Options>,
    pub(crate) state: State,
    pub(crate) next: u64,
    seed: [u64; 2],
    drawn: u64,
    pending: VecDeque<Pending>,
    fetches: BTreeMap<u64, Question>,
    tickets: u64,
    /// Last items that are not asked for yet: session and node.
    pub(crate) lasts: VecDeque<(Arc<str>, Arc<str>)>,
    /// Nodes whose items are being read for a change of the host.
    pub(crate) changing: BTreeSet<Arc<str>>,
    /// Subscriptions whose notifications came back while their nodes were being changed: node and
    /// address.
    pub(crate) gone: BTreeSet<(Arc<str>, Arc<str>)>,
    pub(crate) approvals: Approvals,
    /// What waits for subscribers who are told now and then.
    pub(crate) digests: Digests,
    pub(crate) effects: Vec<Effect>,
    #[cfg(test)]
    pub(crate) bug: Option<crate::bugs::Bug>,
}

impl Service {
    /// The service at an address, as the store has it. `seed` is random: names of instant nodes,
    /// ids of items and ids of notifications are drawn from it.
    pub fn new(address: &str, state: State, options: Arc<Options>, seed: [u64; 2]) -> Service {
        Service {
            address: address.into(),
            options,
            next: state.next.max(1),
            state,
            seed,
            drawn: 0,
            pending: VecDeque::new(),
            fetches: BTreeMap::new(),
            tickets: 0,
            lasts: VecDeque::new(),
            changing: BTreeSet::new(),
            gone: BTreeSet::new(),
            approvals: Approvals::default(),
            digests: Digests::default(),
            effects: Vec::new(),
            #[cfg(test)]
            bug: None,
        }
    }

    /// Takes an event and returns what is to be done.
    ///
    /// # Errors
    /// The event comes back if what it concerns is busy: give it again after the next
    /// [`Event::Decided`] or [`Event::Fetched`], in front of everything that came later.
    pub fn handle(
        &mut self,
        event: Event,
        at: Timestamp,
        contacts: &dyn Contacts,
    ) -> Result<Vec<Effect>, Event> {
        let now = Now { at, contacts };
        if !self.takes(&event) {
            return Err(event);
        }
        match event {
            Event::Stanza { frame, may_create } => self.stanza(&frame, may_create, now),
            Event::Available { session, interests } => self.available(&session, &interests, now),
            Event::Related { bare } => self.related(&bare, now),
            Event::Reviewed { node } => self.reviewed(&node, now),
            Event::Change {
                node,
                request,
                changes,
            } => self.change_items(&node, request, changes, now),
            Event::Operate { node, act } => self.operate(&node, act, now),
            Event::Due => self.send_digests(now),
            Event::Sweep => self.sweep(now),
            Event::Fetched { ticket, items } => {
                self.fetched(ticket, items);
                self.send_lasts(now);
                self.send_digests(now);
            }
            Event::Decided { is_committed } => self.decided(is_committed, now),
        }
        Ok(std::mem::take(&mut self.effects))
    }

    fn takes(&self, event: &Event) -> bool {
        let limits = &self.options.limits;
        let has_room =
            self.pending.len() < limits.pending_max && self.fetches.len() < limits.fetches_max;
        match event {
            Event::Fetched { .. } | Event::Decided { .. } | Event::Due => true,
            Event::Related { .. } => self.is_settled(),
            Event::Available { .. } => has_room && self.lasts.is_empty(),
            Event::Sweep => has_room && self.changing.is_empty(),
            Event::Reviewed { node } => has_room && !self.is_busy(node),
            Event::Change { node, .. } | Event::Operate { node, .. } => {
                has_room && !self.is_busy(node)
            }
            Event::Stanza { frame, .. } => {
                has_room
                    && (self.is_settled()
                        || match concerns(frame) {
                            Concerned::Node(node) => !self.is_busy(&node),
                            Concerned::Nothing => true,
                            Concerned::Everything => false,
                        })
            }
        }
    }

    /// Whether no node is busy.
    fn is_settled(&self) -> bool {
        self.pending.is_empty() && self.changing.is_empty()
    }

    /// Whether a change of a node is not decided yet, or is being made of its items.
    pub fn is_busy(&self, node: &str) -> bool {
        self.changing.contains(node) || self.undecided().any(|record| record.node() == node)
    }

    /// The address of the service.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its durable state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Nothing waits: it can be evicted and loaded again.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.fetches.is_empty() && self.digests.is_empty()
    }

    #[cfg(test)]
    pub(crate) fn has_bug(&self, bug: crate::bugs::Bug) -> bool {
        self.bug == Some(bug)
    }

    // === dispatch ===

    fn stanza(&mut self, frame: &Frame, may_create: bool, now: Now<'_>) {
        let from = frame.attr("from").unwrap_or_default();
        let bare = addr::bare_part(&from);
        let ask = Ask {
            frame,
            from: &from,
            bare,
            may_create: may_create && (!self.is_account() || bare == &*self.address),
            now,
        };
        let outcome = match parse_kind(frame) {
            Ok(Kind::Iq(IqType::Get)) => self.request(&ask, false),
            Ok(Kind::Iq(IqType::Set)) => self.request(&ask, true),
            Ok(Kind::Iq(_) | Kind::Presence(_)) => Ok(()),
            Ok(Kind::Message(MessageType::Error)) => {
                self.bounced(&ask);
                Ok(())
            }
            Ok(Kind::Message(_)) => self.message(&ask),
            Err(condition) => Err(condition.into()),
        };
        if let Err(refusal) = outcome {
            self.refuse(frame, &refusal);
        }
    }

    fn request(&mut self, ask: &Ask<'_>, is_set: bool) -> Result<(), Refusal> {
        let payload = ask.frame.children().next();
        let payload = payload.ok_or(Condition::BadRequest)?;
        let parts: Vec<Frame> = payload.children().collect();
        match (payload.name(), payload.ns(), is_set) {
            ("pubsub", NS, _) => {
                let (action, rest) = action(&parts, NS)?;
                match (action.name(), is_set) {
                    ("publish", true) => self.publish(ask, action, rest),
                    ("retract", true) => self.retract(ask, action),
                    ("create", true) => self.create(ask, action, rest),
                    ("subscribe", true) => self.subscribe(ask, action, rest),
                    ("unsubscribe", true) => self.unsubscribe(ask, action),
                    ("options", true) => self.set_options(ask, action),
                    ("options", false) => self.options_form(ask, action),
                    ("default", false) => self.default_options(ask, action),
                    ("items", false) => self.items(ask, action, rest),
                    ("subscriptions", false) => self.own_subscriptions(ask, action, rest),
                    ("affiliations", false) => self.own_affiliations(ask, action, rest),
                    _ => Err(Condition::BadRequest.into()),
                }
            }
            ("pubsub", NS_OWNER, _) => {
                let (action, rest) = action(&parts, NS_OWNER)?;
                match (action.name(), is_set) {
                    ("configure", false) => self.config_form(ask, action),
                    ("configure", true) => self.configure(ask, action),
                    ("default", false) => self.default_config(ask),
                    ("delete", true) => self.delete(ask, action),
                    ("purge", true) => self.purge(ask, action),
                    ("subscriptions", false) => self.subscriptions(ask, action, rest),
                    ("subscriptions", true) => self.change_subscriptions(ask, action),
                    ("affiliations", false) => self.affiliations(ask, action, rest),
                    ("affiliations", true) => self.change_affiliations(ask, action),
                    _ => Err(Condition::BadRequest.into()),
                }
            }
            ("query", xmpp::ns::DISCO_INFO | xmpp::ns::DISCO_ITEMS, true) => {
                Err(Condition::NotAllowed.into())
            }
            ("query", xmpp::ns::DISCO_INFO, _) => self.disco_info(ask, &payload),
            ("query", xmpp::ns::DISCO_ITEMS, _) => self.disco_items(ask, &payload, &parts),
            ("command", crate::authorize::NS_COMMANDS, true) => self.command(ask, &payload, &parts),
            _ => Err(Condition::ServiceUnavailable.into()),
        }
    }

    // === what waits ===

    /// Makes a change when its records are committed; `then` runs once it is in force.
    pub(crate) fn commit(
        &mut self,
        records: Vec<Record>,
        request: Option<&Frame>,
        now: Now<'_>,
        then: impl for<'a> FnOnce(&mut Service, Now<'a>) + Send + 'static,
    ) {
        if records.is_empty() {
            return then(self, now);
        }
        self.effects.push(Effect::Append(records.clone()));
        self.pending.push_back(Pending {
            records,
            request: request.cloned(),
            then: Box::new(then),
        });
    }

    /// Records that are appended and not decided.
    pub(crate) fn undecided(&self) -> impl Iterator<Item = &Record> {
        self.pending.iter().flat_map(|pending| &pending.records)
    }

    fn decided(&mut self, is_committed: bool, now: Now<'_>) {
        let Some(first) = self.pending.pop_front() else {
            return;
        };
        if is_committed {
            for record in first.records {
                self.state.apply(record, &self.options);
            }
            (first.then)(self, now);
        } else if let Some(request) = first.request {
            self.refuse(&request, &Condition::ResourceConstraint.into());
        }
        self.end_gone(now);
    }

    /// Asks for items; `then` gets those that are what they were when they were asked for, in the
    /// order in which they were asked for.
    pub(crate) fn fetch(
        &mut self,
        node: &Arc<str>,
        items: Vec<(Box<str>, u64)>,
        then: impl FnOnce(&mut Service, Option<Vec<Item>>) + Send + 'static,
    ) {
        if items.is_empty() {
            return then(self, Some(Vec::new()));
        }
        self.tickets += 1;
        let ticket = self.tickets;
        self.effects.push(Effect::Fetch {
            ticket,
            node: Arc::clone(node),
            items: items.clone(),
        });
        let question = Question {
            node: Arc::clone(node),
            items,
            then: Box::new(then),
        };
        self.fetches.insert(ticket, question);
    }

    fn fetched(&mut self, ticket: u64, items: Option<Vec<Item>>) {
        let Some(question) = self.fetches.remove(&ticket) else {
            return;
        };
        let found = items.map(|items| {
            let items = items.into_iter().map(|item| (item.seq, item));
            let mut by_place: BTreeMap<u64, Item> = items.collect();
            let node = self.state.node(&question.node);
            // What was removed meanwhile is gone, and an id that was published anew may be for
            // fewer eyes.
            let wanted = question.items.iter();
            let wanted = wanted.filter(|(id, seq)| node.is_some_and(|node| node.has(id, *seq)));
            let found = wanted.filter_map(|(id, seq)| {
                let item = by_place.remove(seq)?;
                (*item.id == **id).then_some(item)
            });
            found.collect()
        });
        (question.then)(self, found);
    }

    /// Answers that still wait for items may be as many more.
    pub(crate) fn fetches_left(&self) -> usize {
        self.options
            .limits
            .fetches_max
            .saturating_sub(self.fetches.len())
    }

    // === answers ===

    /// Answers with an error, if the stanza may be answered with one.
    pub(crate) fn refuse(&mut self, frame: &Frame, refusal: &Refusal) {
        if frame.attr_raw("from").is_some() {
            self.effects
                .extend(error::reply(frame, refusal).map(Effect::Deliver));
        }
    }

    /// Answers a request with a result.
    pub(crate) fn answer(&mut self, request: &Frame, payload: &[u8]) {
        self.effects
            .extend(xmpp::stanza::result(request, payload).map(Effect::Deliver));
    }

    /// Adds a frame for several addresses.
    pub(crate) fn send(&mut self, frame: Option<Frame>, to: Audience) {
        if let Some(frame) = frame.filter(|_| !to.is_empty()) {
            self.effects.push(Effect::Send { frame, to });
        }
    }

    // === what many parts ask ===

    pub(crate) fn is_account(&self) -> bool {
        self.options.owner == Owner::Account
    }

    pub(crate) fn offers(&self) -> Offers<'_> {
        Offers {
            limits: &self.options.limits,
        }
    }

    /// A node that is there.
    pub(crate) fn node(&self, name: &str) -> Result<(Arc<str>, &Node), Refusal> {
        let found = self.state.name(name).zip(self.state.node(name));
        found.ok_or(Condition::ItemNotFound.into())
    }

    /// The affiliation of a bare address; an account owns all its nodes.
    pub(crate) fn affiliation(&self, node: &Node, bare: &str) -> Affiliation {
        match self.is_account() && bare == &*self.address {
            true => Affiliation::Owner,
            false => node.affiliation(bare),
        }
    }

    pub(crate) fn visitor<'a>(
        &'a self,
        node: &'a Node,
        bare: &'a str,
        now: Now<'a>,
    ) -> Visitor<'a> {
        Visitor {
            bare,
            affiliation: self.affiliation(node, bare),
            judge: self.judge_of(node),
            contacts: now.contacts,
        }
    }

    /// Whether somebody may subscribe to a node, and with that see it.
    pub(crate) fn may_enter(&self, node: &Node, bare: &str, now: Now<'_>) -> Result<(), Refusal> {
        #[cfg(test)]
        {
            let affiliation = self.affiliation(node, bare);
            let is_overlooked = (self.has_bug(crate::bugs::Bug::OutcastsEnter)
                && affiliation == Affiliation::Outcast)
                || (self.has_bug(crate::bugs::Bug::GroupsDoNotCount)
                    && node.config.access == crate::AccessModel::Roster
                    && affiliation == Affiliation::None
                    && now.contacts.sees_presence(&self.address, bare));
            if is_overlooked {
                return Ok(());
            }
        }
        let visitor = self.visitor(node, bare, now);
        visitor.may_enter(node.config.access, &node.config.groups)
    }

    /// What every service answers: an account only to those who may know that it is there.
    ///
    /// # Errors
    /// `item-not-found` for a stranger.
    pub(crate) fn is_there_for(&self, ask: &Ask<'_>) -> Result<(), Refusal> {
        let is_known = !self.is_account()
            || ask.bare == &*self.address
            || ask.now.contacts.sees_presence(&self.address, ask.bare);
        match is_known {
            true => Ok(()),
            false => Err(Condition::ItemNotFound.into()),
        }
    }

    /// The place of what is made next.
    pub(crate) fn next_place(&mut self) -> u64 {
        self.next = self.next.max(self.state.next);
        self.next += 1;
        self.next - 1
    }

    /// A name that nothing else has.
    pub(crate) fn draw(&mut self) -> String {
        self.drawn += 1;
        let [high, low] = self.seed;
        format!(
            "{:016x}{:016x}",
            mix(high, self.drawn),
            mix(low, self.drawn)
        )
    }
}

/// A step of SplitMix64: two different counts give two different numbers.
fn mix(seed: u64, count: u64) -> u64 {
    let mut z = seed.wrapping_add(count.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The element that says what is to be done, and those behind it.
fn action<'a>(parts: &'a [Frame], ns: &str) -> Result<(&'a Frame, &'a [Frame]), Refusal> {
    match parts.split_first() {
        Some((first, rest)) if first.ns() == ns => Ok((first, rest)),
        _ => Err(Condition::BadRequest.into()),
    }
}

/// The node that an element names.
pub(crate) fn node_of(element: &Frame) -> Result<String, Refusal> {
    let node = element.attr("node").filter(|node| !node.is_empty());
    let missing = Refusal::of(Condition::BadRequest, "nodeid-required");
    node.map(std::borrow::Cow::into_owned).ok_or(missing)
}

/// What a stanza may read or change.
pub(crate) enum Concerned {
    Nothing,
    Node(String),
    Everything,
}

pub(crate) fn concerns(frame: &Frame) -> Concerned {
    if frame.name() == "message" {
        return match frame.attr_raw("type") {
            // What came back waits for its node by itself: there may be thousands.
            Some("error") => Concerned::Nothing,
            // Approvals name a node inside; they are rare.
            _ => Concerned::Everything,
        };
    }
    let Some(payload) = frame.children().next() else {
        return Concerned::Nothing;
    };
    let own = payload.attr("node").map(std::borrow::Cow::into_owned);
    let inner = || {
        payload
            .children()
            .next()?
            .attr("node")
            .map(std::borrow::Cow::into_owned)
    };
    match (own, payload.ns()) {
        (Some(node), xmpp::ns::DISCO_INFO | xmpp::ns::DISCO_ITEMS) => Concerned::Node(node),
        (_, NS | NS_OWNER) => match inner() {
            Some(node) => Concerned::Node(node),
            // Lists of everything that one has, which may be changing: in order.
            None => Concerned::Everything,
        },
        _ => Concerned::Nothing,
    }
}
