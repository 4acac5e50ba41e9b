//! The durable state of a service: what its records make of it. Payloads are not in memory: an item
//! is its id, its place, its time, its size and its publisher.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use stdx::Timestamp;
use xmpp::addr;

use crate::access::{Affiliation, SubscriptionState};
use crate::config::Config;
use crate::options::{Options, Owner};
use crate::record::{Record, Subscription};

/// What is durable of a service.
#[derive(Clone, Debug, Default)]
pub struct State {
    nodes: BTreeMap<Arc<str>, Node>,
    /// Deleted nodes with where they are now, the first that moved first.
    moved: VecDeque<(String, String)>,
    /// Bytes of all payloads.
    bytes: u64,
    /// What those take up who have created nodes. Of an account nobody: all nodes are its own.
    creators: BTreeMap<Arc<str>, Taken>,
    /// Above every number of a node and every place of an item.
    pub(crate) next: u64,
    /// Configurations that many nodes have are kept once.
    shared: Vec<Arc<Config>>,
}

/// Configurations that are compared with a new one.
const SHARED_MAX: usize = 8;

/// What an entry of a list counts beside the bytes of its address.
pub(crate) const LIST_ENTRY_BYTES: u64 = 64;

/// What the nodes of one creator take up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Taken {
    nodes: usize,
    /// Bytes of their payloads.
    items: u64,
    /// Bytes of the entries of their lists.
    lists: u64,
}

/// What an entry of a list counts.
pub(crate) fn entry_bytes(address: &str) -> u64 {
    address.len() as u64 + LIST_ENTRY_BYTES
}

/// One node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its number among those of the service, for the ids of its notifications.
    pub number: u64,
    /// When it was made.
    pub created: Timestamp,
    /// Who made it.
    pub creator: Arc<str>,
    /// How it behaves.
    pub config: Arc<Config>,
    /// By address.
    affiliations: Vec<(Arc<str>, Affiliation)>,
    owners: usize,
    /// By address, bare or full.
    pub(crate) subscriptions: BTreeMap<Arc<str>, Subscription>,
    /// By place, the oldest first.
    items: VecDeque<Meta>,
}

/// What memory has of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Unique within the node.
    pub id: Box<str>,
    /// Its place.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// The publisher's bare address.
    pub publisher: Arc<str>,
    /// Bytes of its payload.
    pub bytes: u32,
}

impl State {
    /// The state that records make, in their order; items of a node may come in any.
    pub fn of(records: impl IntoIterator<Item = Record>, options: &Options) -> State {
        let mut state = State::default();
        for record in records {
            state.apply(record, options);
        }
        state
    }

    /// Adds an item, or replaces the one with its id: what a record of it does, for who loads a
    /// service from a store and leaves payloads there. Without the node nothing happens.
    pub fn add_item(&mut self, node: &str, item: Meta) {
        self.next = self.next.max(item.seq.saturating_add(1));
        let Some(node) = self.nodes.get_mut(node) else {
            return;
        };
        let removed = node.remove(&item.id);
        let added = u64::from(item.bytes);
        self.bytes = self.bytes - removed + added;
        if let Some(taken) = self.creators.get_mut(&node.creator) {
            taken.items = taken.items - removed + added;
        }
        let publisher = node.intern(&item.publisher);
        let at = node.items.partition_point(|old| old.seq < item.seq);
        // Most nodes have one, and pay for one.
        node.items.reserve_exact(usize::from(node.items.is_empty()));
        node.items.insert(at, Meta { publisher, ..item });
    }

    /// Bytes of all payloads.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of the payloads at the nodes that somebody has created, of a service that is not an
    /// account's.
    pub(crate) fn bytes_of(&self, creator: &str) -> u64 {
        self.creators.get(creator).map_or(0, |taken| taken.items)
    }

    /// Bytes of the entries of the lists of the nodes that somebody has created.
    pub(crate) fn list_bytes_of(&self, creator: &str) -> u64 {
        if let Some(taken) = self.creators.get(creator) {
            return taken.lists;
        }
        let own = self.nodes.values();
        let own = own.filter(|node| *node.creator == *creator);
        own.map(Node::list_bytes).sum()
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    /// Every node, by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&Arc<str>, &Node)> {
        self.nodes.iter()
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Where a deleted node is now (section 8.4).
    pub fn moved_to(&self, name: &str) -> Option<&str> {
        let mut moved = self.moved.iter();
        moved
            .find(|(node, _)| node == name)
            .map(|(_, uri)| uri.as_str())
    }

    /// The name of a node, shared.
    pub(crate) fn name(&self, node: &str) -> Option<Arc<str>> {
        self.nodes
            .get_key_value(node)
            .map(|(name, _)| Arc::clone(name))
    }

    /// Deleted nodes with where they are now, as records, the first that moved first.
    pub fn moved(&self) -> impl Iterator<Item = Record> {
        self.moved.iter().map(|(node, uri)| Record::Deleted {
            node: node.clone(),
            moved_to: Some(uri.clone()),
        })
    }

    /// What a record makes of it. One that concerns a node that is not there changes nothing, but
    /// for what [`State::moved`] gives out.
    pub fn apply(&mut self, record: Record, options: &Options) {
        match record {
            Record::Created {
                node,
                number,
                at,
                creator,
                config,
            } => self.create(&node, (number, at), &creator, *config, options),
            Record::Deleted { node, moved_to } => self.delete(&node, moved_to, options),
            Record::Configured { node, config } => {
                let config = self.share(*config, options);
                if let Some(node) = self.nodes.get_mut(&*node) {
                    node.config = config;
                }
            }
            Record::Affiliated {
                node,
                address,
                affiliation,
            } => {
                let change = |node: &mut Node| node.affiliate(&address, affiliation);
                self.change_list(&node, change);
            }
            Record::Subscribed {
                node,
                address,
                subscription,
            } => {
                let change = |node: &mut Node| node.subscribe(&address, subscription);
                self.change_list(&node, change);
            }
            Record::Published { node, item } => {
                let bytes = u32::try_from(item.payload.len()).unwrap_or(u32::MAX);
                let publisher = item.publisher.as_str().into();
                let meta = Meta {
                    id: item.id.into(),
                    seq: item.seq,
                    at: item.at,
                    publisher,
                    bytes,
                };
                self.add_item(&node, meta);
            }
            Record::Retracted { node, items } => {
                if let Some(node) = self.nodes.get_mut(&*node) {
                    let removed = items.iter().map(|id| node.remove(id)).sum::<u64>();
                    self.bytes -= removed;
                    if let Some(taken) = self.creators.get_mut(&node.creator) {
                        taken.items -= removed;
                    }
                }
            }
            Record::Purged { node } => {
                if let Some(node) = self.nodes.get_mut(&*node) {
                    let removed = node.bytes();
                    self.bytes -= removed;
                    if let Some(taken) = self.creators.get_mut(&node.creator) {
                        taken.items -= removed;
                    }
                    node.items.clear();
                }
            }
        }
    }

    /// Changes a list of a node; `change` gives what its entries have become larger by.
    fn change_list(&mut self, name: &str, change: impl FnOnce(&mut Node) -> i64) {
        let Some(node) = self.nodes.get_mut(name) else {
            return;
        };
        let more = change(node);
        if let Some(taken) = self.creators.get_mut(&node.creator) {
            taken.lists = taken.lists.saturating_add_signed(more);
        }
    }

    /// A node is not there any more.
    fn remove(&mut self, name: &str) {
        let Some(old) = self.nodes.remove(name) else {
            return;
        };
        self.bytes -= old.bytes();
        if let Some(taken) = self.creators.get_mut(&old.creator) {
            taken.nodes -= 1;
            taken.items -= old.bytes();
            taken.lists -= old.list_bytes();
            if taken.nodes == 0 {
                self.creators.remove(&old.creator);
            }
        }
    }

    fn create(
        &mut self,
        name: &str,
        (number, at): (u64, i64),
        creator: &str,
        config: Config,
        options: &Options,
    ) {
        self.next = self.next.max(number.saturating_add(1));
        self.remove(name);
        self.moved.retain(|(node, _)| node != name);
        let config = self.share(config, options);
        // An account's nodes all have the same creator.
        let known = self.nodes.values().next_back();
        let known = known.filter(|node| *node.creator == *creator);
        let creator: Arc<str> = match known {
            Some(node) => Arc::clone(&node.creator),
            None => creator.into(),
        };
        let mut node = Node {
            number,
            created: Timestamp::from_millis(at),
            creator: Arc::clone(&creator),
            config,
            affiliations: Vec::new(),
            owners: 0,
            subscriptions: BTreeMap::new(),
            items: VecDeque::new(),
        };
        node.affiliate(&creator, Affiliation::Owner);
        if options.owner == Owner::Nobody {
            let taken = self.creators.entry(creator).or_default();
            taken.nodes += 1;
            taken.lists += node.list_bytes();
        }
        self.nodes.insert(name.into(), node);
    }

    fn delete(&mut self, name: &str, moved_to: Option<String>, options: &Options) {
        self.remove(name);
        let Some(uri) = moved_to else { return };
        self.moved.push_back((name.to_owned(), uri));
        while self.moved.len() > options.limits.moved_max {
            self.moved.pop_front();
        }
    }

    fn share(&mut self, config: Config, options: &Options) -> Arc<Config> {
        let mut known = options.shared.iter().chain(&self.shared);
        if let Some(known) = known.find(|known| ***known == config) {
            return Arc::clone(known);
        }
        let config = Arc::new(config);
        if self.shared.len() >= SHARED_MAX {
            self.shared.remove(0);
        }
        self.shared.push(Arc::clone(&config));
        config
    }
}

impl Node {
    /// The affiliation of a bare address.
    pub fn affiliation(&self, bare: &str) -> Affiliation {
        let found = self.affiliated(bare);
        found.map_or(Affiliation::None, |at| self.affiliations[at].1)
    }

    /// Everybody with an affiliation.
    pub fn affiliations(&self) -> impl Iterator<Item = (&str, Affiliation)> {
        self.affiliations.iter().map(|(who, what)| (&**who, *what))
    }

    /// Every subscription that has not been removed, by address; leases may be over.
    pub fn subscriptions(&self) -> impl ExactSizeIterator<Item = (&str, Subscription)> {
        self.subscriptions.iter().map(|(who, what)| (&**who, *what))
    }

    /// How many owners there are.
    pub fn owners(&self) -> usize {
        self.owners
    }

    /// The subscription of an address at a moment; one whose lease is over is none.
    pub fn subscription(&self, address: &str, now: Timestamp) -> Option<Subscription> {
        let found = self.subscriptions.get(address).copied();
        found.filter(|subscription| subscription.is_alive(now))
    }

    /// The subscriptions of a bare address, its own and those of its resources.
    pub fn subscriptions_of(&self, bare: &str, now: Timestamp) -> Vec<(Arc<str>, Subscription)> {
        let own = self.subscriptions.get_key_value(bare);
        let from: Arc<str> = format!("{bare}/").into();
        let rest = self.subscriptions.range(Arc::clone(&from)..);
        let rest = rest.take_while(|(address, _)| address.starts_with(&*from));
        let all = own.into_iter().chain(rest);
        all.filter(|(_, subscription)| subscription.is_alive(now))
            .map(|(address, subscription)| (Arc::clone(address), *subscription))
            .collect()
    }

    /// Whether a bare address or one of its resources is subscribed.
    pub fn is_subscribed(&self, bare: &str, now: Timestamp) -> bool {
        let all = self.subscriptions_of(bare, now);
        all.iter()
            .any(|(_, s)| s.state == SubscriptionState::Subscribed)
    }

    /// Items that are still kept at a moment, the oldest first.
    pub fn items(&self, now: Timestamp) -> impl DoubleEndedIterator<Item = &Meta> + Clone {
        let oldest = self.oldest(now);
        self.items.iter().filter(move |item| item.at > oldest)
    }

    /// The time of the last item that is too old; the end of time if none is kept.
    fn oldest(&self, now: Timestamp) -> i64 {
        match (self.config.keeps_items, self.config.item_expire_seconds) {
            (false, _) => i64::MAX,
            (true, 0) => i64::MIN,
            (true, seconds) => now.as_millis().saturating_sub(i64::from(seconds) * 1_000),
        }
    }

    /// Every item that has not been removed, the oldest first.
    pub fn all_items(&self) -> impl ExactSizeIterator<Item = &Meta> {
        self.items.iter()
    }

    /// An item that is still kept.
    pub fn item(&self, id: &str, now: Timestamp) -> Option<&Meta> {
        self.items(now).find(|item| &*item.id == id)
    }

    /// Whether an item is at its place still.
    pub(crate) fn has(&self, id: &str, seq: u64) -> bool {
        let found = self.items.binary_search_by_key(&seq, |item| item.seq);
        found.is_ok_and(|at| &*self.items[at].id == id)
    }

    fn bytes(&self) -> u64 {
        self.items.iter().map(|item| u64::from(item.bytes)).sum()
    }

    /// A publisher's address, kept once for many items.
    fn intern(&self, publisher: &Arc<str>) -> Arc<str> {
        let last = self.items.back().map(|last| &last.publisher);
        let mut known = last.into_iter().chain([&self.creator]);
        Arc::clone(known.find(|known| *known == publisher).unwrap_or(publisher))
    }

    fn remove(&mut self, id: &str) -> u64 {
        let found = self.items.iter().position(|item| &*item.id == id);
        let removed = found.and_then(|at| self.items.remove(at));
        removed.map_or(0, |item| u64::from(item.bytes))
    }

    /// Bytes of the entries of its lists.
    pub(crate) fn list_bytes(&self) -> u64 {
        let affiliated = self.affiliations.iter().map(|(who, _)| who);
        let all = affiliated.chain(self.subscriptions.keys());
        all.map(|who| entry_bytes(who)).sum()
    }

    /// Gives what the list has become larger by.
    fn affiliate(&mut self, address: &str, affiliation: Affiliation) -> i64 {
        let old = self.affiliation(address);
        self.owners -= usize::from(old == Affiliation::Owner);
        self.owners += usize::from(affiliation == Affiliation::Owner);
        match (self.affiliated(address), affiliation) {
            (Ok(at), Affiliation::None) => {
                self.affiliations.remove(at);
                -entry_bytes(address).cast_signed()
            }
            (Ok(at), affiliation) => {
                self.affiliations[at].1 = affiliation;
                0
            }
            (Err(_), Affiliation::None) => 0,
            (Err(at), affiliation) => {
                let address = match *self.creator == *address {
                    true => Arc::clone(&self.creator),
                    false => address.into(),
                };
                // Most nodes have one, and pay for one.
                self.affiliations
                    .reserve_exact(usize::from(self.affiliations.is_empty()));
                let bytes = entry_bytes(&address);
                self.affiliations.insert(at, (address, affiliation));
                bytes.cast_signed()
            }
        }
    }

    fn affiliated(&self, bare: &str) -> Result<usize, usize> {
        let all = &self.affiliations;
        all.binary_search_by(|(address, _)| (**address).cmp(bare))
    }

    /// Gives what the list has become larger by.
    fn subscribe(&mut self, address: &str, subscription: Subscription) -> i64 {
        let bytes = entry_bytes(address).cast_signed();
        if subscription.state == SubscriptionState::None {
            return match self.subscriptions.remove(address) {
                Some(_) => -bytes,
                None => 0,
            };
        }
        if let Some(known) = self.subscriptions.get_mut(address) {
            *known = subscription;
            return 0;
        }
        self.subscriptions.insert(address.into(), subscription);
        bytes
    }

    /// How many addresses are subscribed, lapsed leases included.
    pub(crate) fn subscribers(&self) -> usize {
        let all = self.subscriptions.values();
        all.filter(|s| s.state == SubscriptionState::Subscribed)
            .count()
    }

    pub(crate) fn owner_addresses(&self) -> impl Iterator<Item = &str> {
        let all = self.affiliations();
        all.filter(|(_, what)| *what == Affiliation::Owner)
            .map(|(who, _)| who)
    }

    /// Leases that are over and items that are too old, at most so many.
    pub(crate) fn lapsed(&self, now: Timestamp, max: usize) -> (Vec<Arc<str>>, Vec<String>) {
        let subscriptions = self.subscriptions.iter();
        let over = subscriptions.filter(|(_, s)| !s.is_alive(now));
        let over: Vec<Arc<str>> = over.map(|(who, _)| Arc::clone(who)).take(max).collect();
        let oldest = self.oldest(now);
        let old = self.items.iter().filter(|item| item.at <= oldest);
        let old = old.map(|item| item.id.to_string());
        let old = old.take(max - over.len()).collect();
        (over, old)
    }
}

impl Subscription {
    /// Whether its lease is not over.
    pub fn is_alive(&self, now: Timestamp) -> bool {
        self.expires.is_none_or(|end| now.as_millis() < end)
    }
}

/// The bare address that a subscription belongs to.
pub(crate) fn bare(address: &str) -> &str {
    addr::bare_part(address)
}
