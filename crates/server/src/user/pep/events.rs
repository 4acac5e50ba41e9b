//! Who is told of what happens at nodes (XEP-0163 section 4.3): the account's own sessions,
//! contacts by way of their homes, and a session that comes online of the last items of everybody
//! whose presence it sees. At the home of a contact: which of his sessions are interested.

use std::sync::Arc;

use actor::{Context, Mail, Name};
use pubsub::Event;
use store::StoreError;
use telemetry::Counter;
use wire::{Interest, Message, NodeEvent};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;
use xmpp::stanza::{self, IqType, Kind};

use super::{Held, PepMsg};
use crate::address;
use crate::message::{Delivery, UserMsg};
use crate::stored;
use crate::user::User;
use crate::user::barrier::Effect;
use crate::user::managed::What;
use crate::user::outbound::Destination;
use crate::user::own::OwnMsg;

fn pep(msg: PepMsg) -> UserMsg {
    OwnMsg::Pep(msg).into()
}

impl User {
    // ---- What leaves ---------------------------------------------------------------------------

    /// A stanza of the nodes for whoever it is addressed to.
    pub(super) fn deliver_of_nodes(&mut self, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        let Some(to) = frame.attr("to").map(|to| to.into_owned()) else {
            return;
        };
        let (bare, resource) = address::split(&to);
        if bare == &*self.name {
            return self.deliver_to_own(frame, resource, cx);
        }
        let kind = stanza::parse_kind(&frame);
        let is_error = kind == Ok(Kind::Iq(IqType::Error));
        let frame = match is_error && !self.is_subscriber(bare) {
            // To strangers the account is not there, unless a node is open to them.
            true => as_if_nobody(&frame),
            false => frame,
        };
        // What is not a headline is worth being kept.
        let activate = frame.name() == "message" && frame.attr_raw("type") != Some("headline");
        if self.destination(bare) == Destination::Local {
            let delivery = Delivery::new(resource.map(Into::into), frame);
            self.forward(bare, delivery, activate, cx);
        }
    }

    fn deliver_to_own(
        &mut self,
        frame: Frame,
        resource: Option<&str>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        match resource {
            Some(resource) => {
                let conn = self.session_of(resource).map(|session| session.conn);
                if let Some(conn) = conn {
                    self.write_stanza(conn, &frame, cx);
                }
            }
            None if frame.name() == "iq" => self.answered_own(&frame, cx),
            None => self.deliver(Delivery::new(None, frame), cx),
        }
    }

    /// Writes one frame to many, by their addresses.
    pub(super) fn tell_all(
        &mut self,
        frame: &Frame,
        to: &pubsub::Audience,
        cx: &mut Context<'_, UserMsg>,
    ) {
        for to in to.iter() {
            let bare = address::bare(to);
            if bare != &*self.name && self.blocklist.covers(to) {
                continue;
            }
            cx.stats().count(Counter::PepEvents);
            let frame = frame.edit().set_attr("to", to).finish();
            self.deliver_of_nodes(frame, cx);
        }
    }

    /// Gives an event to the homes of contacts, as presence is given to them.
    pub(super) fn tell_contacts(
        &mut self,
        event: Arc<NodeEvent>,
        contacts: &pubsub::Audience,
        cx: &mut Context<'_, UserMsg>,
    ) {
        cx.stats().add(Counter::PepEvents, contacts.len() as u64);
        for contact in contacts.iter() {
            let to = Name::clone(contact);
            let event = Arc::clone(&event);
            self.emit(Effect::NodeEvent { to, event }, cx);
        }
    }

    pub(in crate::user) fn send_event(
        &mut self,
        to: &Name,
        event: Arc<NodeEvent>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        // Who is not here is not told.
        let msg = Message::NodeEvent(event);
        if self.home.say(cx, to, msg, false).is_some() {
            cx.stats().count(Counter::PepDropped);
        }
    }

    // ---- At the home of a contact --------------------------------------------------------------

    /// A contact's home says that something happened at one of his nodes.
    pub(in crate::user) fn node_event(&mut self, event: &NodeEvent, cx: &mut Context<'_, UserMsg>) {
        let frame = &event.frame;
        let from = frame.attr("from").unwrap_or_default();
        if !self.is_registered() || self.blocklist.covers(&from) {
            return;
        }
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            let wants = session.caps.as_ref();
            let wants = wants.is_some_and(|caps| caps.wants(&event.node));
            let is_meant = wants
                && session.started
                && session.takes_messages()
                && !event.but.contains(&session.full);
            if !is_meant {
                continue;
            }
            let (conn, full) = (session.conn, Arc::clone(&session.full));
            cx.stats().count(Counter::MessagesOut);
            // Last items take its place where it is lost.
            self.write(conn, What::Presence, cx, |out| {
                room::write_copy(frame, &full, out);
            });
        }
    }

    // ---- Last items ----------------------------------------------------------------------------

    /// A session wants to hear of nodes: whoever lets it see presence and has nodes sends it their
    /// last items (XEP-0163 section 4.3.3). The store says who may have some, in one question.
    pub(in crate::user) fn ask_for_last_items(
        &mut self,
        at: usize,
        nodes: Arc<[Box<str>]>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let items = self.roster.iter();
        let seen = items.filter(|item| item.state.subscription.to() && self.may_reach(item.jid));
        let mut owners: Vec<Name> = seen.map(|item| Name::from(item.jid)).collect();
        owners.push(Name::clone(&self.name));
        let session = Arc::clone(&self.sessions[at].full);
        let interest = Interest { session, nodes };
        let store = self.home.store.clone();
        let read = move || stored::nodes::with_nodes(&store, owners);
        let map = move |owners: Result<Vec<Name>, StoreError>| {
            // Who cannot be read now has nothing to say now.
            let owners = owners.unwrap_or_default();
            pep(PepMsg::Owners { interest, owners })
        };
        if cx.blocking(&self.home.reads, read, map).is_err() {
            cx.stats().count(Counter::PepDropped);
        }
    }

    pub(super) fn owners_found(
        &mut self,
        interest: &Interest,
        owners: Vec<Name>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        for owner in owners {
            if owner == self.name {
                self.interested(interest, cx);
            } else {
                self.show_interest(interest.clone(), &owner, cx);
            }
        }
    }

    fn show_interest(&mut self, interest: Interest, owner: &Name, cx: &mut Context<'_, UserMsg>) {
        let msg = Message::Interest(interest);
        if self.home.say(cx, owner, msg, true).is_some() {
            cx.stats().count(Counter::PepDropped);
        }
    }

    /// A contact lets this user see presence from now on: sessions that are here hear of his nodes.
    pub(in crate::user) fn interest_in(&mut self, contact: &str, cx: &mut Context<'_, UserMsg>) {
        let owner = Name::from(contact);
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            let caps = session.caps.as_ref().filter(|_| session.takes_messages());
            let Some(nodes) = caps.map(|caps| caps.since(None)) else {
                continue;
            };
            if !nodes.is_empty() {
                let session = Arc::clone(&session.full);
                self.show_interest(Interest { session, nodes }, &owner, cx);
            }
        }
    }

    /// A session of a contact, or the user's own, wants the last items of the user's nodes.
    pub(in crate::user) fn interested(
        &mut self,
        interest: &Interest,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let bare = address::bare(&interest.session);
        let is_own = bare == &*self.name;
        let may_see = is_own || self.is_subscriber(bare) && !self.blocklist.covers(bare);
        if !self.is_registered() || !may_see || !self.home.options.pep.enabled {
            return;
        }
        let event = Event::Available {
            session: Arc::clone(&interest.session),
            interests: interest.nodes.to_vec(),
        };
        self.give_nodes(event, Held::default(), cx);
    }

    /// A contact is another kind of contact now: what he may no longer see is no longer his
    /// (XEP-0163 section 7.1).
    pub(in crate::user) fn contact_lost_rights(
        &mut self,
        bare: &str,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if self.home.options.pep.enabled && self.is_registered() {
            let event = Event::Related { bare: bare.into() };
            self.give_nodes(event, Held::default(), cx);
        }
    }
}

/// The answer that a name which nobody has gives.
fn as_if_nobody(error: &Frame) -> Frame {
    let condition = StanzaError::new(Condition::ServiceUnavailable);
    let mut content = Vec::new();
    let mut writer = xml::build::Writer::new(&mut content);
    writer
        .open("error")
        .attr("type", condition.condition.kind());
    writer
        .open(condition.condition.as_str())
        .attr("xmlns", ns::STANZA_ERRORS)
        .close();
    writer.close();
    let edit = error.edit().remove_children(|_| true);
    edit.append_child(&content).finish()
}
