//! A stanza from one of the user's own sessions: where it goes (RFC 6120 section 10, RFC 6121
//! section 8.1 and 8.2).

use actor::{Context, Mail};
use net::ConnRef;
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{self, IqType, Kind, PresenceType};

use super::User;
use super::barrier::{Effect, Origin};
use super::subscription::Action;
use crate::address;
use crate::host;
use crate::message::{Delivery, UserMsg};

/// Where an address leads from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    /// The user's own account.
    Own,
    /// A domain of this server itself.
    Host,
    /// An account of this server.
    Local,
    /// Another domain.
    Remote,
}

impl User {
    /// A session sent `frame`: its `from` is stamped, its `to`, if any, is a normalised address.
    pub(super) fn stanza(&mut self, conn: ConnRef, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        let Some(at) = self
            .sessions
            .iter()
            .position(|session| session.conn == conn)
        else {
            return; // It lost its resource to a newer session; the stream is closing.
        };
        let Ok(kind) = stanza::parse_kind(&frame) else {
            return;
        };
        self.origin = Origin::Session(conn, frame.clone());
        cx.stats().count(match kind {
            Kind::Message(_) => Counter::MessagesIn,
            Kind::Presence(_) => Counter::PresencesIn,
            Kind::Iq(_) => Counter::IqsIn,
        });
        match kind {
            Kind::Message(_) => self.message_from_session(conn, frame, cx),
            Kind::Iq(kind) => self.iq_from_session(conn, frame, kind, cx),
            Kind::Presence(kind) => self.presence_from_session(at, frame, kind, cx),
        }
        self.emit(Effect::Credit(conn), cx);
    }

    /// A test may ask for a fault of ours, to see that nobody else notices.
    fn panic_if_asked(&self, message: &Frame) {
        if let Some(secret) = &self.home.options.debug_panic_hook {
            let text = String::from_utf8_lossy(message.as_bytes());
            assert!(
                !text.contains(secret),
                "a message had the secret of debug.panic_hook"
            );
        }
    }

    fn message_from_session(&mut self, conn: ConnRef, frame: Frame, cx: &mut Context<'_, UserMsg>) {
        self.panic_if_asked(&frame);
        // RFC 6120 section 10.3.1: without an address it is for the sender's own account.
        let Some(to) = frame.attr("to").map(|to| to.into_owned()) else {
            return self.deliver(
                Delivery {
                    resource: None,
                    frame,
                },
                cx,
            );
        };
        self.route(conn, &to, frame, cx);
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
        match kind {
            IqType::Get | IqType::Set if own => self.answer_own_iq(conn, &frame, cx),
            // Answers to what the server asked: pings and roster pushes need no more than to come.
            IqType::Result | IqType::Error if own => {}
            _ => {
                if let Some(to) = to {
                    self.route(conn, &to, frame, cx);
                }
            }
        }
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
        let delivery = |frame| Delivery {
            resource: resource.map(Into::into),
            frame,
        };
        match self.destination(bare) {
            Destination::Own => self.deliver(delivery(frame), cx),
            Destination::Local => self.forward(bare, delivery(frame), true, cx),
            Destination::Host => {
                if let Some(reply) = host::answer(&self.home, &frame, cx.wall()) {
                    self.write_frame(conn, &reply, cx);
                }
            }
            Destination::Remote => {
                let error = StanzaError::new(Condition::RemoteServerNotFound);
                self.reply_error(conn, &frame, &error, cx);
            }
        }
    }

    /// Where a bare address leads.
    pub(crate) fn destination(&self, bare: &str) -> Destination {
        if bare == &*self.name {
            Destination::Own
        } else if !self.home.serves(address::domain(bare)) {
            Destination::Remote
        } else if address::local(bare).is_none() {
            Destination::Host
        } else {
            Destination::Local
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
        let delivery = Delivery {
            resource: resource.map(Into::into),
            frame,
        };
        match self.destination(bare) {
            Destination::Own => self.deliver(delivery, cx),
            Destination::Local => self.forward(bare, delivery, true, cx),
            Destination::Host => {}
            Destination::Remote => {
                self.bounce(&delivery.frame, Condition::RemoteServerNotFound, cx);
            }
        }
    }

    /// Answers a session's own stanza with an error.
    pub(crate) fn reply_error(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        error: &StanzaError,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if let Some(reply) = xmpp::error::reply(frame, error) {
            self.write_frame(conn, &reply, cx);
        }
    }
}
