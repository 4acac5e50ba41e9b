//! What comes for the addresses of a component, and what becomes of it.

use std::rc::Rc;

use actor::{Context, Mail as _, Name};
use delivery::{Place, Recognised, Refusal};
use telemetry::Counter;
use wire::{Message, SharedCopy};
use xmpp::error::{Condition, StanzaError};
use xmpp::stanza::{self, Kind, PresenceType};

use super::ComponentActor;
use super::link::{Logged, Sent};
use crate::address;
use crate::entity::life::Request;
use crate::iq::is_request;
use crate::message::{Delivery, UserMsg};

impl Logged {
    /// That of a stanza, if it is in a log.
    fn of(delivery: &Delivery) -> Option<Logged> {
        let name = |attr| {
            let address = delivery.frame.attr(attr).unwrap_or_default();
            Name::from(address::bare(&address))
        };
        (delivery.source.seq != 0).then(|| Logged {
            from: name("from"),
            to: name("to"),
            source: delivery.source,
        })
    }
}

/// What is said of a component that is away.
fn away() -> StanzaError {
    StanzaError::new(Condition::RemoteServerTimeout)
        .with_text("The service is not there at the moment.")
}

/// Whether somebody waits for what becomes of presence: of a subscription, or of presence for one
/// resource, by which rooms of a component are entered. Others are told to everybody, often.
fn is_awaited(kind: PresenceType, delivery: &Delivery) -> bool {
    match kind {
        PresenceType::Available | PresenceType::Unavailable => delivery.resource.is_some(),
        PresenceType::Subscribe
        | PresenceType::Subscribed
        | PresenceType::Unsubscribe
        | PresenceType::Unsubscribed => true,
        PresenceType::Probe | PresenceType::Error => false,
    }
}

impl ComponentActor {
    /// A stanza has come.
    pub(super) fn deliver(&mut self, mut delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let logged = Logged::of(&delivery);
        if let Some(logged) = &logged
            && !self.is_next(logged, cx)
        {
            return;
        }
        let home = Rc::clone(&self.life.home);
        let frame = delivery.frame.clone();
        home.panic_if_asked(&frame);
        let Some(link) = &mut self.link else {
            return self.turn_away(&delivery, logged, cx);
        };
        let sent = match logged {
            Some(logged) => Sent::Logged(logged),
            None if is_request(&frame) => Sent::Request(Request::from(&delivery)),
            None => Sent::Other,
        };
        if !link.write((&frame, None), sent, &home, cx) {
            // It says so itself in a moment.
            return self.turn_away(&delivery, Logged::of(&delivery), cx);
        }
        if let Some(mut debt) = delivery.debt.take() {
            debt.repay(&home, cx);
        }
        self.ping(cx);
    }

    /// What a room or a service sends to one of many.
    pub(super) fn copy(&mut self, copy: &SharedCopy, cx: &mut Context<'_, UserMsg>) {
        let home = Rc::clone(&self.life.home);
        let to = Some(&*copy.to);
        let link = self.link.as_mut();
        if link.is_some_and(|link| link.write((&copy.frame, to), Sent::Other, &home, cx)) {
            return self.ping(cx);
        }
        cx.stats().count(Counter::ComponentsAway);
        if copy.frame.is_named("message") {
            // By this the room learns that its occupant is not there any more.
            let frame = copy.frame.edit().set_attr("to", &copy.to).finish();
            home.return_error(cx, &frame, &away());
        }
    }

    /// The component is away.
    fn turn_away(
        &mut self,
        delivery: &Delivery,
        logged: Option<Logged>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        cx.stats().count(Counter::ComponentsAway);
        if let Some(logged) = logged {
            return self.list(&logged, cx);
        }
        let is_silent = match stanza::parse_kind(&delivery.frame) {
            Ok(Kind::Presence(kind)) => !is_awaited(kind, delivery),
            Ok(Kind::Message(_) | Kind::Iq(_)) | Err(_) => false,
        };
        if !is_silent {
            let to = (&delivery.frame, delivery.managed);
            self.life.home.return_error_to(to, &away(), cx);
        }
    }

    // ---- Messages of senders' logs -------------------------------------------------------------

    /// Whether it is the turn of a message. If not, its sender's home is told, or will be.
    fn is_next(&mut self, logged: &Logged, cx: &mut Context<'_, UserMsg>) -> bool {
        let source = logged.source;
        let link = self.link.as_mut();
        if let Some(last) = link.and_then(|link| {
            link.comes_again(logged);
            link.last_of(&logged.from, &logged.to)
        }) {
            if source.seq <= last {
                // It is answered when it is read.
                cx.stats().count(Counter::MessagesRepeated);
                return false;
            }
            return match source.after <= last {
                true => true,
                false => self.is_early(logged, cx),
            };
        }
        let (place, after) = (Place::new(source.seq), Place::new(source.after));
        match self.marks.recognise(self.pair(logged), place, after) {
            Recognised::New => true,
            // Memory has forgotten the pair, and nobody else knows of it.
            Recognised::Unknown if after == Place::START => true,
            // It is not taken anyway.
            Recognised::Unknown | Recognised::Early if self.link.is_none() => true,
            Recognised::Unknown | Recognised::Early => self.is_early(logged, cx),
            Recognised::Again => {
                cx.stats().count(Counter::MessagesRepeated);
                self.confirm(logged, cx);
                false
            }
        }
    }

    /// The one in front of it has not been taken. [`Refusal::Early`] would say that no copy of it
    /// was: one may have been read on a stream that ended.
    fn is_early(&self, logged: &Logged, cx: &mut Context<'_, UserMsg>) -> bool {
        self.refuse(logged, Refusal::Full, cx);
        false
    }

    /// The component has read something.
    pub(super) fn is_read(&mut self, sent: Sent, cx: &mut Context<'_, UserMsg>) {
        if let Sent::Logged(logged) = sent {
            let place = Place::new(logged.source.seq);
            self.marks.learn(self.pair(&logged), place);
            self.confirm(&logged, cx);
        }
    }

    /// Nobody will ever know whether the component has read something.
    pub(super) fn is_lost(&mut self, sent: Sent, cx: &mut Context<'_, UserMsg>) {
        match sent {
            // If it comes back after all, its sender hears that it may have been delivered.
            Sent::Logged(logged) => self.refuse(&logged, Refusal::Silent, cx),
            Sent::Request(request) => {
                let to = (&request.frame, request.session);
                self.life.home.return_error_to(to, &away(), cx);
            }
            Sent::Other => {}
        }
    }

    fn pair(&self, logged: &Logged) -> u64 {
        let slots = self.life.home.place.slots();
        slots.origin(&logged.from, &logged.to, "")
    }

    fn confirm(&self, logged: &Logged, cx: &mut Context<'_, UserMsg>) {
        let home = &self.life.home;
        let (by, seq) = (home.place.slots().peer(&logged.to), logged.source.seq);
        // Lost, it is asked for again.
        home.say(cx, &logged.from, Message::Taken { by, seq }, false);
    }

    pub(super) fn refuse(&self, logged: &Logged, why: Refusal, cx: &mut Context<'_, UserMsg>) {
        let home = &self.life.home;
        let answer = home.not_taken(&logged.to, logged.source, why, None);
        home.say(cx, &logged.from, Message::NotTaken(answer), false);
    }
}
