//! A stanza from somebody else arrives: the routing matrix of RFC 6121 section 8.5 for an account
//! of this server.

use actor::{Context, Mail, Name};
use delivery::Refusal;
use net::ConnRef;
use room::told::has_status;
use telemetry::Counter;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{self, IqType, Kind, MessageType, PresenceType};

use super::barrier::Origin;
use super::intake::sender_of;
use super::managed::What;
use super::subscription::Action;
use super::{Phase, User};
use crate::address;
use crate::message::{Delivery, UserMsg};
use crate::modules::{pubsub as nodes, stanza_ids};

impl User {
    /// Routes a stanza that somebody else, or one of the user's own sessions, sent to this user.
    pub(crate) fn deliver(&mut self, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let Ok(kind) = stanza::parse_kind(&delivery.frame) else {
            return;
        };
        let source = delivery.source;
        let frame = delivery.frame.clone();
        if source.seq == 0 {
            if let Err(error) = self.deliver_new(delivery, kind, cx) {
                self.bounce_with(&frame, &error, cx);
            }
            return;
        }
        let from = sender_of(&delivery);
        let peer = self.home.place.slots().peer(&from);
        if !self.is_next((&from, peer), &delivery, cx) {
            return;
        }
        // It is durable with its sender: whatever fails here, it comes again.
        self.comes_from(Origin::Nobody);
        self.turn().taking = Some((Name::clone(&from), peer, source));
        self.panic_if_asked(&frame, true);
        match self.deliver_new(delivery, kind, cx) {
            Ok(()) => self.confirm(&from, source, cx),
            // Its sender's home tells him, so that he is told whatever happens here.
            Err(error) => self.refuse(&from, source, Refusal::Final, Some(error), cx),
        }
    }

    /// Routes a stanza that is new here.
    ///
    /// # Errors
    /// What its sender is told if it is refused.
    fn deliver_new(
        &mut self,
        mut delivery: Delivery,
        kind: Kind,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        if !self.is_registered() {
            return self.deliver_to_nobody(&delivery, kind, cx);
        }
        if self.blocklist.is_active() && self.is_blocked(&delivery) {
            return refuse_blocked(kind);
        }
        match kind {
            Kind::Message(kind) => {
                // XEP-0359 section 3.1 rule 7, whether we give it an id or not.
                let frame = delivery.stanza.frame;
                delivery.stanza.frame = stanza_ids::without_claims(frame, &self.name);
                return self.deliver_message(delivery, kind, cx);
            }
            Kind::Presence(kind) => self.deliver_presence(delivery, kind, cx),
            Kind::Iq(kind) => self.deliver_iq(&delivery, kind, cx),
        }
        Ok(())
    }

    /// Section 8.5.1: there is no such account. Nothing distinguishes it from an account that
    /// is offline and has nothing to say. Of one that could not be read nobody knows whether it
    /// exists: who waits for an answer is told to try again.
    fn deliver_to_nobody(
        &mut self,
        delivery: &Delivery,
        kind: Kind,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        let is_unreadable = self.phase == Phase::Unreadable;
        match kind {
            Kind::Message(MessageType::Error | MessageType::Headline) => {}
            Kind::Iq(IqType::Get | IqType::Set)
                if delivery.resource.is_none() && !is_unreadable =>
            {
                self.comes_from(Origin::Other(delivery.frame.clone()));
                self.answer_iq_of_other(&delivery.frame, cx);
            }
            Kind::Message(_) | Kind::Iq(IqType::Get | IqType::Set) => {
                return Err(StanzaError::new(match is_unreadable {
                    true => Condition::ResourceConstraint,
                    false => Condition::ServiceUnavailable,
                }));
            }
            Kind::Presence(PresenceType::Probe) if !is_unreadable => {
                self.answer_probe_with(&delivery.frame, Action::Unsubscribed, cx);
            }
            Kind::Presence(_) | Kind::Iq(_) => {}
        }
        Ok(())
    }

    /// Whether the user has blocked the sender of a stanza (XEP-0191 section 3.4).
    fn is_blocked(&self, delivery: &Delivery) -> bool {
        let from = delivery.frame.attr("from").unwrap_or_default();
        address::bare(&from) != &*self.name && self.blocklist.covers(&from)
    }

    /// A test may ask for a fault of ours, to see that nobody else notices: the secret of
    /// `debug.panic_hook` makes the actor of a message's sender panic, followed by
    /// `-on-delivery` that of its recipient, and by `-in-the-room` that of a room or a service.
    pub(super) fn panic_if_asked(&self, message: &Frame, on_delivery: bool) {
        if let Some(secret) = &self.home.options.debug_panic_hook {
            let text = String::from_utf8_lossy(message.as_bytes());
            let rest = text.find(&**secret).map(|at| &text[at + secret.len()..]);
            let is_meant = |rest: &str| {
                rest.starts_with("-on-delivery") == on_delivery && !rest.starts_with("-in-the-room")
            };
            assert!(
                !rest.is_some_and(is_meant),
                "a message had the secret of debug.panic_hook"
            );
        }
    }

    fn deliver_message(
        &mut self,
        delivery: Delivery,
        kind: MessageType,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StanzaError> {
        let is_for_account = || match &delivery.resource {
            Some(resource) => self.session_of(resource).is_some(),
            None => true,
        };
        // Section 8.5.3.2.1: for a full address that nobody holds only a chat message is meant for
        // the account.
        if kind == MessageType::Chat || kind == MessageType::Normal && is_for_account() {
            return self.receive(delivery, cx);
        }
        if let Some(resource) = &delivery.resource {
            // Section 8.5.3.1: a connected resource gets it, available or not.
            if let Some(at) = self.place_of_session(resource) {
                if self.takes_unlogged(at, &delivery.frame, cx) {
                    self.write_message(self.sessions[at].conn, &delivery.frame, cx);
                }
                return Ok(());
            }
        }
        // Sections 8.5.2 and, for a full address that nobody holds, 8.5.3.2.1.
        match kind {
            MessageType::Chat => {}
            MessageType::Headline if delivery.resource.is_none() => {
                self.write_to_takers(&delivery.frame, cx);
            }
            MessageType::Headline | MessageType::Error => {}
            MessageType::Normal | MessageType::Groupchat => {
                return Err(StanzaError::new(Condition::ServiceUnavailable));
            }
        }
        Ok(())
    }

    fn write_message(&mut self, conn: ConnRef, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(Counter::MessagesOut);
        self.write_stanza(conn, frame, cx);
    }

    /// Writes a stanza; one for which last items can be sent gives way where there is no room.
    pub(super) fn write_stanza(
        &mut self,
        conn: ConnRef,
        frame: &Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let what = match is_node_event(frame) {
            true => What::Presence,
            false => What::Other,
        };
        self.write(conn, what, cx, |out| {
            out.extend_from_slice(frame.as_bytes());
        });
    }

    /// Writes a message to every resource that takes messages; false if there is none.
    pub(super) fn write_to_takers(&mut self, frame: &Frame, cx: &mut Context<'_, UserMsg>) -> bool {
        let mut any = false;
        for at in 0..self.sessions.len() {
            if self.sessions[at].takes_messages() && self.takes_unlogged(at, frame, cx) {
                self.write_message(self.sessions[at].conn, frame, cx);
                any = true;
            }
        }
        any
    }

    fn deliver_presence(
        &mut self,
        delivery: Delivery,
        kind: PresenceType,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let action = match kind {
            PresenceType::Available | PresenceType::Unavailable => {
                return self.show_presence(&delivery, cx);
            }
            PresenceType::Probe => return self.answer_probe(&delivery, cx),
            // An error to a subscription request or to directed presence: shown to whoever is
            // there.
            PresenceType::Error => return self.show_presence(&delivery, cx),
            PresenceType::Subscribe => Action::Subscribe,
            PresenceType::Subscribed => Action::Subscribed,
            PresenceType::Unsubscribe => Action::Unsubscribe,
            PresenceType::Unsubscribed => Action::Unsubscribed,
        };
        self.comes_from(Origin::Other(delivery.frame.clone()));
        self.subscription_arrives(action, &delivery.frame, cx);
    }

    /// Sections 8.5.2.1.2 and 8.5.3: presence is shown to available resources, or to the one it
    /// names.
    fn show_presence(&mut self, delivery: &Delivery, cx: &mut Context<'_, UserMsg>) {
        for at in 0..self.sessions.len() {
            let session = &self.sessions[at];
            let meant = match &delivery.resource {
                // Nothing comes before the result of its bind (RFC 6120 section 7).
                Some(resource) => session.started && session.resource() == &**resource,
                None => session.is_available(),
            };
            let number = session.number_for_rooms();
            let is_of_another = delivery.managed.is_some() && delivery.managed != number;
            let is_stray = is_of_another
                || self.has_entered_since(at, delivery)
                || delivery.resource.is_some()
                    && self.is_of_an_earlier_session(at, &delivery.frame);
            if meant && !is_stray && self.takes_presence(at, &delivery.frame, cx) {
                self.hears_of_itself(at, &delivery.frame);
                let conn = self.sessions[at].conn;
                // What a room says of the client itself does not wait until somebody looks.
                if self.sessions[at].is_inactive && has_status(&delivery.frame) {
                    self.flush_held(conn, cx);
                    self.write_presence_now(conn, &delivery.frame, cx);
                } else {
                    self.write_presence(conn, &delivery.frame, cx);
                }
            }
        }
    }

    fn deliver_iq(&mut self, delivery: &Delivery, kind: IqType, cx: &mut Context<'_, UserMsg>) {
        match &delivery.resource {
            Some(resource) => match self.place_of_session(resource) {
                Some(at)
                    if self.is_wanted(at, &delivery.frame, kind)
                        || self.takes_unlogged(at, &delivery.frame, cx) =>
                {
                    self.write_frame(self.sessions[at].conn, &delivery.frame, cx);
                }
                Some(_) => self.bounce(&delivery.frame, Condition::ResourceConstraint, cx),
                // Section 8.5.3.2.3.
                None if matches!(kind, IqType::Get | IqType::Set) => {
                    self.bounce(&delivery.frame, Condition::ServiceUnavailable, cx);
                }
                None => {}
            },
            // Section 8.5.2.1.3: the server answers on behalf of the account.
            None if matches!(kind, IqType::Get | IqType::Set) => {
                self.comes_from(Origin::Other(delivery.frame.clone()));
                self.answer_iq_of_other(&delivery.frame, cx);
            }
            None => {}
        }
    }

    /// Whether it is an answer that a session waits for.
    fn is_wanted(&mut self, at: usize, frame: &Frame, kind: IqType) -> bool {
        let conn = self.sessions[at].conn;
        matches!(kind, IqType::Result | IqType::Error) && self.was_asked_for(conn, frame)
    }

    /// Sends an error about somebody else's stanza back to them. Errors and results never bounce.
    pub(super) fn bounce(
        &mut self,
        frame: &Frame,
        condition: Condition,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.bounce_with(frame, &StanzaError::new(condition), cx);
    }

    /// As [`User::bounce`], with a text or an application condition.
    pub(super) fn bounce_with(
        &mut self,
        frame: &Frame,
        error: &StanzaError,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if let Some(reply) = xmpp::error::reply(frame, error) {
            cx.stats().count(Counter::StanzasBounced);
            self.return_to_sender(frame, reply, cx);
        }
    }

    /// Sends an answer to whoever sent `frame`: a session of this user or somebody else.
    pub(crate) fn return_to_sender(
        &mut self,
        frame: &Frame,
        reply: Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(from) = frame.attr("from") else {
            return;
        };
        let (bare, resource) = address::split(&from);
        let resource = resource.map(Into::into);
        if bare == &*self.name {
            let session = resource
                .as_deref()
                .and_then(|resource: &str| self.session_of(resource));
            if let Some(conn) = session.map(|session| session.conn) {
                self.write_frame(conn, &reply, cx);
            }
        } else {
            self.forward(bare, Delivery::new(resource, reply), false, cx);
        }
    }
}

/// Whether it is a notification of a node that nobody keeps (XEP-0060 section 7.1.2).
pub(super) fn is_node_event(frame: &Frame) -> bool {
    frame.is_named("message")
        && frame.attr_raw("type") == Some("headline")
        && frame.child("event", nodes::NS_EVENT).is_some()
}

/// XEP-0191 section 3.4: what a blocked contact's stanzas get.
///
/// # Errors
/// What the contact is told, if anything.
fn refuse_blocked(kind: Kind) -> Result<(), StanzaError> {
    match kind {
        Kind::Message(MessageType::Error | MessageType::Headline) => Ok(()),
        Kind::Message(_) | Kind::Iq(IqType::Get | IqType::Set) => {
            Err(StanzaError::new(Condition::ServiceUnavailable))
        }
        Kind::Presence(_) | Kind::Iq(_) => Ok(()),
    }
}
