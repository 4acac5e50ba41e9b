//! Subscription stanzas at a user (RFC 6121 section 3): applies the machine of `subscription.rs` to
//! the roster, records the change, tells the user's clients and the contact.

use actor::Context;
use net::ConnRef;
use store::Record;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::acts::roster;
use super::outbound::Destination;
use super::presence::presence_of;
use super::roster::{Item, Subscription};
use super::subscription::{self, Action, Follow};
use crate::address;
use crate::limits::{REQUEST_BYTES_MAX, REQUESTS_BYTES_MAX, REQUESTS_MAX};
use crate::message::{Delivery, UserMsg};

impl User {
    /// A session sends a subscription stanza to the bare address `to` (appendix A.2).
    pub(super) fn subscription_leaves(
        &mut self,
        conn: ConnRef,
        action: Action,
        to: &str,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        match self.destination(to) {
            // One sees oneself without a subscription, and neither a domain nor a room nor a
            // service keeps a roster.
            Destination::Own | Destination::Host | Destination::RoomHost => return,
            Destination::Local if !self.keeps_roster(to) => return,
            Destination::Remote => {
                let error = StanzaError::new(Condition::RemoteServerNotFound);
                return self.reply_error(conn, frame, &error, cx);
            }
            Destination::Local => {}
        }
        let old = self
            .roster
            .find(to)
            .map_or_else(|| Item::new(to), |item| item.to_item());
        let outbound = subscription::outbound(old.state, action);
        let mut item = Item {
            state: outbound.state,
            ..old.clone()
        };
        let visible = item.state.ask || item.state.approved;
        item.listed |= visible || item.state.subscription != Subscription::None;
        if item.takes_room() && !old.takes_room() && self.is_roster_full() {
            let error =
                StanzaError::new(Condition::ResourceConstraint).with_text("The roster is full.");
            return self.reply_error(conn, frame, &error, cx);
        }
        if item.takes_room() && !old.takes_room() && !self.may_store(to.len(), cx) {
            return self.reply_error(conn, frame, &super::storage::full(), cx);
        }
        self.change_item(&old, item, cx);
        if outbound.route {
            // Section 3: a subscription stanza goes from bare address to bare address.
            let frame = frame
                .edit()
                .set_attr("from", &self.name)
                .set_attr("to", to)
                .finish();
            self.forward(to, Delivery::new(None, frame), true, cx);
        }
        self.follow(to, outbound.follow, cx);
    }

    /// A subscription stanza arrives (appendix A.3).
    pub(super) fn subscription_arrives(
        &mut self,
        action: Action,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(from) = frame.attr("from") else {
            return;
        };
        let from = address::bare(&from).to_owned();
        if from == *self.name {
            return;
        }
        let old = self
            .roster
            .find(&from)
            .map_or_else(|| Item::new(&from), |item| item.to_item());
        let inbound = subscription::inbound(old.state, action);
        let mut item = Item {
            state: inbound.state,
            ..old.clone()
        };
        if item.state.pending_in && !old.state.pending_in {
            let (requests, bytes) = self.roster.requests();
            // Whose roster is full could not say yes either.
            if requests >= REQUESTS_MAX || !old.takes_room() && self.is_roster_full() {
                return self.bounce(frame, Condition::ResourceConstraint, cx);
            }
            item.request = request_to_keep(frame, REQUESTS_BYTES_MAX.saturating_sub(bytes));
        }
        item.listed |= item.state.subscription != Subscription::None;
        if item == old && inbound.reply.is_some() {
            self.confirm_item(&from, Some(&old));
        }
        self.change_item(&old, item, cx);
        if inbound.deliver {
            for at in 0..self.sessions.len() {
                // A request that a session is spared is shown to the next one.
                let is_request = action == Action::Subscribe;
                if self.sessions[at].is_available()
                    && (!is_request || self.takes_presence(at, frame, cx))
                {
                    self.write_presence(self.sessions[at].conn, frame, cx);
                }
            }
        }
        if let Some(reply) = inbound.reply {
            let frame = presence_of(&self.name, Some(reply.as_str()));
            self.forward(&from, Delivery::new(None, frame), true, cx);
        }
        self.follow(&from, inbound.follow, cx);
    }

    /// Whether somebody at an address may keep a roster: accounts do, and components decide.
    fn keeps_roster(&self, bare: &str) -> bool {
        self.home.hosts_accounts(address::domain(bare)) || self.home.component_of(bare).is_some()
    }

    fn follow(&mut self, contact: &str, follow: Follow, cx: &mut Context<'_, UserMsg>) {
        match follow {
            Follow::Nothing => {}
            Follow::Available => {
                self.send_own_presence(contact, None, cx);
            }
            Follow::Unavailable => self.hide_from(contact, cx),
        }
    }

    /// Whether the user may have no further contact. Requests of strangers take no room.
    pub(crate) fn is_roster_full(&self) -> bool {
        let items = self.roster.iter().filter(|item| !item.is_only_asking());
        self.roster.is_full() || items.count() >= self.home.limits().roster_items_max as usize
    }

    /// Makes `item` the state of its contact: a record, the roster in memory, and a push to the
    /// clients if what they see has changed.
    pub(crate) fn change_item(&mut self, old: &Item, item: Item, cx: &mut Context<'_, UserMsg>) {
        if *old == item {
            return;
        }
        if item.is_empty() {
            return self.remove_item(&item.jid, cx);
        }
        self.put_item(&item);
        let lost = old.state.subscription.from() && !item.state.subscription.from()
            || old.groups.iter().any(|group| !item.groups.contains(group));
        let gained = !old.state.subscription.to() && item.state.subscription.to();
        if item.listed && !item.looks_like(old) {
            roster::push(self, &item, cx);
        }
        if lost {
            self.contact_lost_rights(&item.jid, cx);
        }
        if gained {
            self.interest_in(&item.jid, cx);
        }
    }

    fn put_item(&mut self, item: &Item) {
        let version = self.roster.put(item);
        self.record(Record::RosterPut {
            user: String::from(&*self.name),
            version,
            item: item.into(),
        });
    }

    /// A client is about to hear that a contact is what it is in memory, or that there is none:
    /// what is not decided yet is recorded once more, for what came first may be refused.
    pub(super) fn confirm_item(&mut self, jid: &str, item: Option<&Item>) {
        match item {
            _ if self.barrier.is_open() => {}
            Some(item) => self.put_item(item),
            None => self.drop_item(jid),
        }
    }

    /// Forgets a contact: a record and the roster in memory. Nothing is pushed: the caller knows
    /// whether clients saw the item.
    pub(crate) fn remove_item(&mut self, jid: &str, cx: &mut Context<'_, UserMsg>) {
        let could_see = self.is_subscriber(jid);
        self.drop_item(jid);
        if could_see {
            self.contact_lost_rights(jid, cx);
        }
    }

    fn drop_item(&mut self, jid: &str) {
        let version = self.roster.remove(jid);
        self.record(Record::RosterRemove {
            user: String::from(&*self.name),
            version,
            contact: jid.to_owned(),
        });
    }
}

/// The request as it is kept for sessions to come (section 3.1.3): whole, or, if it is too long or
/// others have taken the room, without its children.
fn request_to_keep(frame: &Frame, room: usize) -> Vec<u8> {
    if frame.as_bytes().len() <= REQUEST_BYTES_MAX.min(room) {
        frame.as_bytes().to_vec()
    } else {
        frame
            .edit()
            .remove_children(|_| true)
            .finish()
            .as_bytes()
            .to_vec()
    }
}
