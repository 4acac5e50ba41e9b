//! Rosters that decide about what comes next (access models `presence` and `roster`,
//! `pubsub::Service::rosters_for`): they are read from the store, as their owners' homes last
//! committed them, on the budget of whoever asks.

use std::collections::{HashMap, HashSet};

use actor::{Context, Mail};
use delivery::Refusal;
use pubsub::{Contacts, Event, Wanted};
use store::{Roster, Store, StoreError, Subscription};
use telemetry::Counter;
use xml::Frame;
use xmpp::error::Condition;

use super::{Held, NodesActor, NodesMsg};
use crate::blocklist::Blocklist;
use crate::guard::Charge;
use crate::message::{Delivery, UserMsg};

/// What comes next, while rosters are read for it.
pub(super) struct Looked {
    delivery: Delivery,
    wanted: Wanted,
    _charge: Charge,
}

impl Looked {
    /// The stanza.
    pub(super) fn frame(&self) -> &Frame {
        &self.delivery.frame
    }
}

/// Who sees the presence of some accounts: for each of them, contacts with their groups.
#[derive(Debug, Default)]
pub struct Rosters(HashMap<String, HashMap<String, HashSet<String>>>);

impl Rosters {
    /// Reads those of the accounts that there are.
    fn read(store: &Store, whose: &[std::sync::Arc<str>]) -> Result<Rosters, StoreError> {
        let mut rosters = HashMap::new();
        for owner in whose {
            if let Some(user) = store.load_user(owner)? {
                rosters.insert(owner.to_string(), seeing(user.roster, user.blocked));
            }
        }
        Ok(Rosters(rosters))
    }
}

impl Contacts for Rosters {
    fn sees_presence(&self, of: &str, bare: &str) -> bool {
        let contacts = self.0.get(of);
        contacts.is_some_and(|contacts| contacts.contains_key(bare))
    }

    fn is_in_group(&self, of: &str, bare: &str, group: &str) -> bool {
        let groups = self.0.get(of).and_then(|contacts| contacts.get(bare));
        groups.is_some_and(|groups| groups.contains(group))
    }

    /// A service that belongs to nobody tells only those who are subscribed.
    fn interested(&self, _node: &str, _each: &mut dyn FnMut(&str)) {}
}

/// Contacts with a subscription of `from` or `both` who are not blocked.
fn seeing(roster: Roster, blocked: Vec<String>) -> HashMap<String, HashSet<String>> {
    let blocked = Blocklist::new(blocked);
    let sees = |of: Subscription| matches!(of, Subscription::From | Subscription::Both);
    let items = roster.items.into_iter();
    let items = items.filter(|item| sees(item.subscription) && !blocked.covers(&item.jid));
    items
        .map(|item| (item.jid, item.groups.into_iter().collect()))
        .collect()
}

impl NodesActor {
    /// Reads rosters; what they decide about waits, and all that is behind it.
    pub(super) fn look_up(
        &mut self,
        wanted: Wanted,
        delivery: Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let reader = delivery.debt.as_ref().and_then(|debt| debt.from());
        let refused = (Refusal::Final, Condition::ResourceConstraint);
        let Some(charge) = self.life.home.charge(reader, cx) else {
            return self.life.turn_away(&delivery, refused, cx);
        };
        let (store, whose) = (self.life.home.store.clone(), wanted.whose.clone());
        let read = move || Rosters::read(&store, &whose);
        let map = |rosters| UserMsg::own(NodesMsg::Rosters(rosters));
        if cx.blocking(&self.life.home.later_reads, read, map).is_err() {
            cx.stats().count(Counter::QuestionsRefused);
            return self.life.turn_away(&delivery, refused, cx);
        }
        self.looked = Some(Looked {
            delivery,
            wanted,
            _charge: charge,
        });
    }

    /// Rosters have been read: who may no longer enter a node goes before others hear of it.
    pub(super) fn rosters_read(
        &mut self,
        rosters: Result<Rosters, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(Looked {
            delivery, wanted, ..
        }) = self.looked.take()
        else {
            return;
        };
        let rosters = match rosters {
            Ok(rosters) => rosters,
            Err(error) => {
                tracing::warn!(service = %self.life.name, %error, "cannot read rosters");
                let refused = (Refusal::Final, Condition::ResourceConstraint);
                return self.life.turn_away(&delivery, refused, cx);
            }
        };
        if let Some(node) = wanted.review {
            // Of a node that is busy what comes next waits too, and comes here again.
            let review = Event::Reviewed { node };
            let held = Held {
                is_review: true,
                ..Held::default()
            };
            let _ = self.happens_by(&rosters, review, held, cx);
        }
        self.give(delivery, &rosters, cx);
    }
}
