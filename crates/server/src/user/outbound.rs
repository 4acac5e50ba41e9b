//! A stanza from one of the user's own sessions: where it goes (RFC 6120 section 10, RFC 6121
//! section 8.1 and 8.2).

use actor::{Context, Mail};
use net::ConnRef;
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;
use xmpp::stanza::{self, IqType, Kind, PresenceType};

use super::User;
use super::barrier::{Effect, Origin, OwnStanza};
use super::managed::What;
use super::subscription::Action;
use crate::address;
use crate::host;
use crate::message::{Delivery, UserMsg};
use crate::modules::hints::{self, Keep};
use crate::modules::{carbons, register};

/// Where an address leads from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The user's own account.
    Own,
    /// A domain of this server itself.
    Host,
    /// A domain of rooms itself.
    RoomHost,
    /// An account of this server, a room, or a service that has nodes.
    Local,
    /// Another domain.
    Remote,
}

impl User {
    /// A session sent `frame`: its `from` is stamped, its `to`, if any, is a normalised address.
    pub(super) fn stanza(&mut self, conn: ConnRef, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        self.home.lines.takes(conn, Some(&frame));
        let Some(at) = self.session_at(conn) else {
            return; // It lost its resource to a newer session; the stream is closing.
        };
        let link = conn;
        let session = &mut self.sessions[at];
        let conn = session.conn;
        let Ok(kind) = stanza::parse_kind(&frame) else {
            match frame.ns() {
                ns::STREAM_MANAGEMENT => self.stream_management(at, &frame, cx),
                _ => self.client_state(at, &frame, cx),
            }
            return self.emit(Effect::Credit(link), cx);
        };
        if let Some(managed) = &mut session.managed {
            let inbound = managed.counts(cx.now());
            let bytes_max = self.home.options.joined.kept_bytes_max;
            if self.home.lines.counts(link, inbound, bytes_max) {
                // A home before has answered it.
                return self.emit(Effect::Credit(link), cx);
            }
        }
        let is_counted = session.managed.is_some();
        self.comes_from(Origin::Session(OwnStanza {
            conn,
            link,
            is_counted,
            frame: frame.clone(),
        }));
        cx.stats().count(match kind {
            Kind::Message(_) => Counter::MessagesIn,
            Kind::Presence(_) => Counter::PresencesIn,
            Kind::Iq(_) => Counter::IqsIn,
        });
        self.turn().link = Some(link);
        match kind {
            Kind::Message(_) => self.message_from_session(conn, frame, cx),
            Kind::Iq(kind) => self.iq_from_session(conn, frame, kind, cx),
            Kind::Presence(kind) => self.presence_from_session(at, frame, kind, cx),
        }
        // What is answered later or was passed on gives the credit back then.
        if let Some(link) = self.turn().link.take() {
            self.emit(Effect::Credit(link), cx);
        }
        if self.home.lines.owes_record(link) {
            if !self.has_records() && self.turn().effects.is_empty() {
                // It is done whether this can be recorded or not.
                self.comes_from(Origin::Nobody);
            }
            self.save_progress(cx);
        }
    }

    /// A stanza of a session was malformed and is answered with an error; or it has had its answer,
    /// and only counts.
    pub(super) fn stanza_refused(
        &mut self,
        link: ConnRef,
        answer: Vec<u8>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.home.lines.takes(link, None);
        if let Some(at) = self.session_at(link) {
            let session = &mut self.sessions[at];
            if let Some(managed) = &mut session.managed {
                let inbound = managed.counts(cx.now());
                let bytes_max = self.home.options.joined.kept_bytes_max;
                self.home.lines.counts(link, inbound, bytes_max);
            }
            let conn = session.conn;
            if !answer.is_empty() {
                self.write(conn, What::Other, cx, |out| out.extend_from_slice(&answer));
            }
        }
        self.emit(Effect::Credit(link), cx);
    }

    fn message_from_session(&mut self, conn: ConnRef, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        self.panic_if_asked(&frame, false);
        let stanza = frame.clone();
        let to = stanza.attr("to");
        let is_own = to.as_deref().is_none_or(|to| to == &*self.name);
        if is_own && self.home.options.pep.enabled && pubsub::is_decision(&frame) {
            return self.decide_subscription(conn, frame, cx);
        }
        // RFC 6120 section 10.3.1: without an address it is for the sender's own account.
        match to {
            None => self.deliver(Delivery::new(None, frame), cx),
            Some(to) => self.route(conn, &to, frame, cx),
        }
    }

    fn iq_from_session(
        &mut self,
        conn: ConnRef,
        frame: Frame,
        kind: IqType,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let to = frame.attr("to").map(|to| to.into_owned());
        let own = to.as_deref().is_none_or(|to| to == &*self.name);
        // XEP-0077 section 3.2: a client that is logged in may ask the domain about its account.
        let own = own || self.is_about_account(to.as_deref(), &frame);
        match kind {
            IqType::Get | IqType::Set if own => {
                let link = self.turn().link.take();
                if !self.answer_own_iq(conn, &frame, cx) {
                    self.turn().link = link;
                }
            }
            // Answers to what the server asked: pings and roster pushes need no more than to come.
            IqType::Result | IqType::Error if own => self.caps_answered(conn, &frame, cx),
            _ => {
                if let Some(to) = to {
                    if matches!(kind, IqType::Get | IqType::Set) && self.is_another_account(&to) {
                        self.note_asked(conn, &to, &frame);
                    }
                    self.route(conn, &to, frame, cx);
                }
            }
        }
    }

    fn is_about_account(&self, to: Option<&str>, frame: &Frame) -> bool {
        to == Some(address::domain(&self.name)) && frame.child("query", register::NS).is_some()
    }

    /// Sends a message or an IQ on to `to`.
    fn route(&mut self, conn: ConnRef, to: &str, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        let (bare, resource) = address::split(to);
        if self.blocklist.is_active() && bare != &*self.name && self.blocklist.covers(to) {
            // XEP-0191 section 3.2: the user must unblock the contact first.
            let error = StanzaError::new(Condition::NotAcceptable)
                .with_kind("cancel")
                .with_app("<blocked xmlns='urn:xmpp:blocking:errors'/>");
            return self.reply_error(conn, &frame, &error, cx);
        }
        let delivery = |frame| Delivery::new(resource.map(Into::into), frame);
        match self.destination(bare) {
            Destination::Own => self.deliver(delivery(frame), cx),
            Destination::Local => self.send_out(conn, to, delivery(frame), cx),
            Destination::Host => {
                if let Some(reply) = host::answer(&self.home, &frame, cx.wall()) {
                    self.write_frame(conn, &reply, cx);
                }
            }
            Destination::RoomHost => self.ask_room_host(conn, &frame, cx),
            Destination::Remote => {
                let error = StanzaError::new(Condition::RemoteServerNotFound);
                self.reply_error(conn, &frame, &error, cx);
            }
        }
    }

    /// A message or an IQ for another account of this server. A message that is worth keeping goes
    /// by the user's own log, if it has to be acknowledged or archived.
    fn send_out(
        &mut self,
        conn: ConnRef,
        to: &str,
        delivery: Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let bare = address::bare(to);
        let keep = hints::keep(&delivery.frame);
        let keep = Keep {
            archive: keep.archive && self.archives(bare),
            ..keep
        };
        let session = self.sessions.iter().find(|session| session.conn == conn);
        let is_managed = session.is_some_and(|session| session.managed.is_some());
        let is_for_room = keep.for_room && self.home.hosts_rooms(address::domain(bare));
        if keep.log && (keep.archive || is_managed) || is_for_room && is_managed {
            return self.accept(conn, to, delivery.stanza.frame, keep, cx);
        }
        if carbons::are_due(keep, &delivery.frame, carbons::Direction::Sent) {
            let copies = self.carbon_sessions(Some(conn));
            self.write_copies(&delivery.frame, carbons::Direction::Sent, &copies, cx);
        }
        self.forward(bare, delivery, true, cx);
    }

    /// Where a bare address leads.
    pub(crate) fn destination(&self, bare: &str) -> Destination {
        if bare == &*self.name {
            return Destination::Own;
        }
        let (local, domain) = address::parts(bare);
        if !self.home.serves(domain) {
            Destination::Remote
        } else if local.is_some() || self.home.is_entity(bare) {
            Destination::Local
        } else {
            match self.home.hosts_rooms(bare) || self.home.hosts_search(bare) {
                true => Destination::RoomHost,
                false => Destination::Host,
            }
        }
    }

    fn presence_from_session(
        &mut self,
        at: usize,
        frame: Frame,
        kind: PresenceType,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let conn = self.sessions[at].conn;
        let to = frame.attr("to").map(|to| to.into_owned());
        let action = match kind {
            PresenceType::Available | PresenceType::Unavailable => {
                return match to {
                    Some(to) => self.directed_presence(at, &to, frame, cx),
                    None if kind == PresenceType::Available => self.available(at, frame, cx),
                    None => self.unavailable(at, frame, cx),
                };
            }
            PresenceType::Probe | PresenceType::Error => {
                return if let Some(to) = to {
                    self.route_presence(&to, frame, cx);
                };
            }
            PresenceType::Subscribe => Action::Subscribe,
            PresenceType::Subscribed => Action::Subscribed,
            PresenceType::Unsubscribe => Action::Unsubscribe,
            PresenceType::Unsubscribed => Action::Unsubscribed,
        };
        match to {
            Some(to) => self.subscription_leaves(conn, action, address::bare(&to), &frame, cx),
            None => {
                let error = StanzaError::new(Condition::BadRequest)
                    .with_text("A subscription stanza needs a 'to' address.");
                self.reply_error(conn, &frame, &error, cx);
            }
        }
    }

    /// Sends presence on to `to` as it is; to a domain that nobody serves it goes nowhere.
    pub(super) fn route_presence(&mut self, to: &str, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        let (bare, resource) = address::split(to);
        let delivery = Delivery::new(resource.map(Into::into), frame);
        match self.destination(bare) {
            Destination::Own => self.deliver(delivery, cx),
            Destination::Local => self.forward(bare, delivery, true, cx),
            Destination::Host | Destination::RoomHost => {}
            Destination::Remote => {
                self.bounce(&delivery.frame, Condition::RemoteServerNotFound, cx);
            }
        }
    }
}
