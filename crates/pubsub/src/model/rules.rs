//! The model: XEP-0060's rules of affiliations, access models and subscriptions for a handful of
//! users, written down once more and as plainly as possible. It sends nothing and knows no stanza.

use std::collections::{BTreeMap, BTreeSet};

use super::{Change, Command, USERS, bare, full};
use crate::access::{AccessModel, Affiliation, PublishModel, SubscriptionState};

/// What a request has as its consequence for others, and how much it shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// Who gets an event of items.
    pub(crate) events: BTreeSet<String>,
    /// Entries of the answer.
    pub(crate) entries: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Node {
    creator: u8,
    access: AccessModel,
    publish: PublishModel,
    items_max: usize,
    affiliations: BTreeMap<u8, Affiliation>,
    subscriptions: BTreeMap<u8, SubscriptionState>,
    /// Items with who published them, the oldest first.
    pub(crate) items: Vec<(u8, u8)>,
}

impl Node {
    pub(crate) fn affiliation(&self, user: u8) -> Affiliation {
        self.affiliations.get(&user).copied().unwrap_or_default()
    }

    pub(crate) fn subscription(&self, user: u8) -> SubscriptionState {
        self.subscriptions.get(&user).copied().unwrap_or_default()
    }

    fn owners(&self) -> usize {
        let all = self.affiliations.values();
        all.filter(|what| **what == Affiliation::Owner).count()
    }

    fn affiliate(&mut self, user: u8, affiliation: Affiliation) {
        self.affiliations.insert(user, affiliation);
        self.affiliations
            .retain(|_, what| *what != Affiliation::None);
    }

    fn subscribe(&mut self, user: u8, state: SubscriptionState) {
        self.subscriptions.insert(user, state);
        self.subscriptions
            .retain(|_, what| *what != SubscriptionState::None);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    is_account: bool,
    nodes: BTreeMap<u8, Node>,
    /// 1 for a contact, 2 for one in the group.
    relations: BTreeMap<u8, u8>,
    online: BTreeSet<u8>,
}

type Outcome = Result<Told, &'static str>;

const FORBIDDEN: &str = "forbidden/auth";
const NOT_FOUND: &str = "item-not-found/cancel";
const UNMET: &str = "conflict/cancel precondition-not-met";

fn unless(is_wrong: bool, condition: &'static str) -> Result<(), &'static str> {
    if is_wrong { Err(condition) } else { Ok(()) }
}

impl Model {
    pub(crate) fn new(is_account: bool) -> Model {
        Model {
            is_account,
            nodes: BTreeMap::new(),
            relations: BTreeMap::new(),
            online: BTreeSet::new(),
        }
    }

    pub(crate) fn node(&self, node: u8) -> Option<&Node> {
        self.nodes.get(&node)
    }

    fn relation(&self, user: u8) -> u8 {
        self.relations.get(&user).copied().unwrap_or(0)
    }

    /// What the roster that decides says of somebody; nothing if its owner does not own the node.
    fn judged(&self, node: &Node, user: u8) -> u8 {
        let owns = self.is_account || node.affiliation(node.creator) == Affiliation::Owner;
        if owns { self.relation(user) } else { 0 }
    }

    /// Sections 4.1 and 4.5.
    fn enter(&self, node: &Node, user: u8) -> Result<(), &'static str> {
        use Affiliation::{Member, Outcast, Owner, PublishOnly, Publisher};
        match (node.affiliation(user), node.access) {
            (Outcast | PublishOnly, _) => Err(FORBIDDEN),
            (Member | Publisher | Owner, _) => Ok(()),
            (_, AccessModel::Open | AccessModel::Authorize) => Ok(()),
            (_, AccessModel::Presence) => unless(
                self.judged(node, user) < 1,
                "not-authorized/auth presence-subscription-required",
            ),
            (_, AccessModel::Roster) => unless(
                self.judged(node, user) < 2,
                "not-authorized/auth not-in-roster-group",
            ),
            (_, AccessModel::Whitelist) => Err("not-allowed/cancel closed-node"),
        }
    }

    fn is_subscribed(&self, node: &Node, user: u8) -> bool {
        node.subscription(user) == SubscriptionState::Subscribed && self.enter(node, user).is_ok()
    }

    /// Everybody who is told of an event: sessions that are online, and subscribers who are not.
    fn audience(&self, node: &Node) -> BTreeSet<String> {
        let mut told = BTreeSet::new();
        for user in 0..USERS {
            let affiliation = node.affiliation(user);
            let is_out = matches!(affiliation, Affiliation::Outcast | Affiliation::PublishOnly);
            let by_presence = match node.access {
                AccessModel::Open => true,
                AccessModel::Presence => self.judged(node, user) >= 1,
                AccessModel::Roster => self.judged(node, user) == 2,
                AccessModel::Authorize | AccessModel::Whitelist => false,
            };
            let unasked = !is_out && (by_presence || affiliation == Affiliation::Owner);
            let is_subscribed = self.is_subscribed(node, user);
            if self.online.contains(&user) && (unasked || is_subscribed) {
                told.insert(full(user));
            } else if is_subscribed {
                told.insert(bare(user));
            }
        }
        told
    }

    fn owned(&mut self, node: u8, user: u8) -> Result<&mut Node, &'static str> {
        let node = self.nodes.get_mut(&node).ok_or(NOT_FOUND)?;
        unless(node.affiliation(user) != Affiliation::Owner, FORBIDDEN)?;
        Ok(node)
    }

    /// What a request does, or the condition with which it is refused.
    pub(crate) fn predict(&mut self, command: &Command) -> Outcome {
        match *command {
            Command::Create { user, node, access } => {
                unless(self.is_account && user != 0, FORBIDDEN)?;
                unless(self.nodes.contains_key(&node), "conflict/cancel")?;
                self.create(node, user, access);
            }
            Command::Configure { user, node, change } => self.configure(user, node, change)?,
            Command::Delete { user, node } => {
                self.owned(node, user)?;
                self.nodes.remove(&node);
            }
            Command::Purge { user, node } => self.owned(node, user)?.items.clear(),
            Command::Publish {
                user,
                node,
                item,
                only_if,
            } => {
                return self.publish(user, node, item, only_if);
            }
            Command::Retract { user, node, item } => return self.retract(user, node, item),
            Command::Subscribe { user, node } => self.subscribe(user, node)?,
            Command::Unsubscribe { user, node } => {
                let node = self.nodes.get_mut(&node).ok_or(NOT_FOUND)?;
                let removed = node.subscriptions.remove(&user);
                unless(
                    removed.is_none(),
                    "unexpected-request/cancel not-subscribed",
                )?;
            }
            Command::Decide {
                user,
                node,
                target,
                allow,
            } => {
                let node = self.owned(node, user)?;
                let is_waiting = node.subscription(target) == SubscriptionState::Pending;
                unless(!is_waiting, "unexpected-request/cancel not-subscribed")?;
                node.subscribe(
                    target,
                    match allow {
                        true => SubscriptionState::Subscribed,
                        false => SubscriptionState::None,
                    },
                );
            }
            Command::Affiliate {
                user,
                node,
                target,
                affiliation,
            } => {
                self.affiliate(user, node, target, affiliation)?;
            }
            Command::SetSubscription {
                user,
                node,
                target,
                state,
            } => {
                let node = self.owned(node, user)?;
                let is_out = node.affiliation(target) == Affiliation::Outcast
                    || node.affiliation(target) == Affiliation::PublishOnly;
                let is_new = state != node.subscription(target);
                let gives = is_new && state != SubscriptionState::None;
                unless(is_out && gives, "not-acceptable/modify")?;
                node.subscribe(target, state);
            }
            Command::Retrieve { user, node } => return self.retrieve(user, node),
            Command::List { user } => {
                let all = self.nodes.values();
                let seen = all.filter(|node| {
                    node.affiliation(user) == Affiliation::PublishOnly
                        || self.enter(node, user).is_ok()
                });
                let entries = seen.count();
                return Ok(Told {
                    entries,
                    ..Told::default()
                });
            }
            Command::Relate { target, relation } => {
                self.relations.insert(target, relation);
                let lost = self.nodes.iter();
                let lost = lost.filter(|(_, node)| self.enter(node, target).is_err());
                let lost: Vec<u8> = lost.map(|(number, _)| *number).collect();
                for number in lost {
                    if let Some(node) = self.nodes.get_mut(&number) {
                        node.subscriptions.remove(&target);
                    }
                }
            }
            Command::Presence {
                user,
                is_online: true,
            } => {
                self.online.insert(user);
            }
            Command::Presence {
                user,
                is_online: false,
            } => {
                self.online.remove(&user);
            }
        }
        Ok(Told::default())
    }

    fn create(&mut self, number: u8, user: u8, access: AccessModel) {
        let node = Node {
            creator: user,
            access,
            publish: PublishModel::Publishers,
            items_max: 1,
            affiliations: BTreeMap::from([(user, Affiliation::Owner)]),
            subscriptions: BTreeMap::new(),
            items: Vec::new(),
        };
        self.nodes.insert(number, node);
    }

    fn configure(&mut self, user: u8, node: u8, change: Change) -> Result<(), &'static str> {
        let number = node;
        let node = self.owned(node, user)?;
        match change {
            Change::Access(access) if access != node.access => {
                node.access = access;
                self.review(number);
            }
            Change::Access(_) => {}
            Change::Publish(model) => node.publish = model,
            Change::ItemsMax(count) => {
                node.items_max = usize::from(count);
                let gone = node.items.len().saturating_sub(node.items_max);
                node.items.drain(..gone);
            }
        }
        Ok(())
    }

    /// Nobody is subscribed who may not enter, and nobody waits where nobody is approved.
    fn review(&mut self, number: u8) {
        let Some(node) = self.nodes.get(&number) else {
            return;
        };
        let mut after = node.clone();
        for (user, state) in &node.subscriptions {
            let is_waiting = *state == SubscriptionState::Pending;
            if self.enter(node, *user).is_err() {
                after.subscribe(*user, SubscriptionState::None);
            } else if is_waiting && node.access != AccessModel::Authorize {
                after.subscribe(*user, SubscriptionState::Subscribed);
            }
        }
        self.nodes.insert(number, after);
    }

    fn review_one(&mut self, number: u8, user: u8) {
        let node = self.nodes.get(&number);
        let is_out = node.is_some_and(|node| self.enter(node, user).is_err());
        if let Some(node) = self.nodes.get_mut(&number).filter(|_| is_out) {
            node.subscribe(user, SubscriptionState::None);
        }
    }

    fn publish(&mut self, user: u8, number: u8, item: u8, only_if: Option<AccessModel>) -> Outcome {
        if !self.nodes.contains_key(&number) {
            unless(self.is_account && user != 0, FORBIDDEN)?;
            unless(!self.is_account, NOT_FOUND)?;
            let access = only_if.unwrap_or(AccessModel::Presence);
            self.create(number, user, access);
        }
        let node = self.nodes.get(&number).ok_or(NOT_FOUND)?;
        let may = match (node.affiliation(user), node.publish) {
            (Affiliation::Outcast, _) => false,
            (Affiliation::Owner | Affiliation::Publisher | Affiliation::PublishOnly, _) => true,
            (_, PublishModel::Publishers) => false,
            (_, PublishModel::Subscribers) => self.is_subscribed(node, user),
            (_, PublishModel::Open) => true,
        };
        unless(!may, FORBIDDEN)?;
        let by_another = |&(known, by): &(u8, u8)| known == item && by != user;
        let is_owner = node.affiliation(user) == Affiliation::Owner;
        unless(!is_owner && node.items.iter().any(by_another), FORBIDDEN)?;
        unless(only_if.is_some_and(|wanted| wanted != node.access), UNMET)?;
        let events = self.audience(node);
        let node = self.nodes.get_mut(&number).ok_or(NOT_FOUND)?;
        node.items.retain(|(known, _)| *known != item);
        node.items.push((item, user));
        let gone = node.items.len().saturating_sub(node.items_max);
        node.items.drain(..gone);
        Ok(Told { events, entries: 0 })
    }

    fn retract(&mut self, user: u8, number: u8, item: u8) -> Outcome {
        let node = self.nodes.get(&number).ok_or(NOT_FOUND)?;
        let found = node.items.iter().find(|(known, _)| *known == item);
        let is_own = found.is_some_and(|(_, by)| *by == user);
        let affiliation = node.affiliation(user);
        match affiliation {
            Affiliation::Owner => {}
            Affiliation::Outcast => return Err(FORBIDDEN),
            Affiliation::Publisher | Affiliation::PublishOnly => {
                unless(found.is_some() && !is_own, FORBIDDEN)?;
            }
            Affiliation::None | Affiliation::Member => unless(!is_own, FORBIDDEN)?,
        }
        unless(found.is_none(), NOT_FOUND)?;
        let events = self.audience(node);
        let node = self.nodes.get_mut(&number).ok_or(NOT_FOUND)?;
        node.items.retain(|(known, _)| *known != item);
        Ok(Told { events, entries: 0 })
    }

    fn subscribe(&mut self, user: u8, number: u8) -> Result<(), &'static str> {
        let node = self.nodes.get(&number).ok_or(NOT_FOUND)?;
        self.enter(node, user)?;
        let waits =
            node.access == AccessModel::Authorize && node.affiliation(user) == Affiliation::None;
        let state = match node.subscription(user) {
            SubscriptionState::Pending => {
                return Err("not-authorized/auth pending-subscription");
            }
            SubscriptionState::None if waits => SubscriptionState::Pending,
            SubscriptionState::None => SubscriptionState::Subscribed,
            known => known,
        };
        let node = self.nodes.get_mut(&number).ok_or(NOT_FOUND)?;
        node.subscribe(user, state);
        Ok(())
    }

    fn retrieve(&self, user: u8, number: u8) -> Outcome {
        let node = self.nodes.get(&number).ok_or(NOT_FOUND)?;
        self.enter(node, user)?;
        let is_free = matches!(
            node.affiliation(user),
            Affiliation::Owner | Affiliation::Publisher
        );
        let needs = node.access == AccessModel::Authorize && !is_free;
        let has = node.subscription(user) == SubscriptionState::Subscribed;
        unless(needs && !has, "not-authorized/auth not-subscribed")?;
        let entries = node.items.len();
        Ok(Told {
            entries,
            ..Told::default()
        })
    }

    /// The state chart of section 4.1, and section 8.7.4.
    fn affiliate(
        &mut self,
        user: u8,
        number: u8,
        target: u8,
        new: Affiliation,
    ) -> Result<(), &'static str> {
        use Affiliation::{Member, None, Outcast, Owner, PublishOnly, Publisher};
        let is_account = self.is_account;
        let node = self.owned(number, user)?;
        let old = node.affiliation(target);
        if old == new {
            return Ok(());
        }
        let is_possible = match (old, new) {
            (Owner, None) => node.owners() > 1 && !(is_account && target == 0),
            (Owner, _) | (Publisher | PublishOnly, Member) => false,
            _ => true,
        };
        unless(!is_possible, "not-acceptable/modify")?;
        node.affiliate(target, new);
        match (new, node.subscription(target)) {
            (Outcast | PublishOnly, _) => node.subscribe(target, SubscriptionState::None),
            (Member | Publisher | Owner, SubscriptionState::Pending) => {
                node.subscribe(target, SubscriptionState::Subscribed);
            }
            (None, _) => self.review_one(number, target),
            _ => {}
        }
        Ok(())
    }
}
