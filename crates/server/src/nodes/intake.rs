//! What comes to a service: which stanza is taken now, and who is told that his is not.

use actor::Context;
use delivery::{Place, Refusal};
use pubsub::{Contacts, Event};
use xml::Frame;
use xmpp::error::Condition;
use xmpp::ns;
use xmpp::stanza::{self, IqType, Kind};

use super::{Held, NodesActor};
use crate::address;
use crate::entity::life::Request;
use crate::entity::taking::{Taking, Verdict};
use crate::iq::is_request;
use crate::message::{Delivery, UserMsg};

impl NodesActor {
    /// A stanza has come.
    pub(super) fn deliver(&mut self, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let mut verdict = self.life.judge(&delivery, cx);
        if verdict == Verdict::Ask
            && let Some(taking) = Taking::of(&delivery)
        {
            // Of a service the store has no marks.
            let peer = taking.peer(&self.life.home);
            self.life.marks.learn(peer, Place::START);
            verdict = self.life.judge(&delivery, cx);
        }
        if verdict != Verdict::Take {
            return;
        }
        if delivery.resource.is_some() {
            // Nobody is behind the address of a service.
            let condition = Condition::ServiceUnavailable;
            return self
                .life
                .turn_away(&delivery, (Refusal::Final, condition), cx);
        }
        if std::mem::take(&mut self.is_review_refused) {
            // Somebody might hear of it who may not, and nobody knows when that changes.
            let condition = Condition::ResourceConstraint;
            return self
                .life
                .turn_away(&delivery, (Refusal::Final, condition), cx);
        }
        let service = self.service.as_ref();
        match service.and_then(|service| service.rosters_for(&delivery.frame)) {
            Some(wanted) => self.look_up(wanted, delivery, cx),
            None => self.give(delivery, &(), cx),
        }
    }

    /// Hands it to the machine, with what is known of rosters.
    pub(super) fn give(
        &mut self,
        mut delivery: Delivery,
        contacts: &dyn Contacts,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let frame = &delivery.frame;
        if is_ping(frame) {
            let reply = stanza::result(frame, &[]);
            return self.life.answer(reply, cx);
        }
        let taking = Taking::of(&delivery);
        self.life.taking.clone_from(&taking);
        self.life.home.panic_if_asked(frame);
        let from = frame.attr("from").unwrap_or_default();
        let may_create = &self.life.home.options.pubsub.create;
        let event = Event::Stanza {
            frame: frame.clone(),
            may_create: may_create.admits(address::bare(&from)),
        };
        drop(from);
        let held = Held {
            request: is_request(frame).then(|| frame.clone()),
            taking,
            debt: delivery.debt.take(),
            operator: None,
            is_review: false,
        };
        self.life.handling = held.request.clone().map(Request::from);
        if let Err(held) = self.happens_by(contacts, event, held, cx) {
            delivery.debt = held.debt;
            self.parked = Some(delivery);
        }
        self.life.handling = None;
    }

    /// What is parked may be busy no longer.
    pub(super) fn give_parked(&mut self, cx: &mut Context<'_, UserMsg>) {
        if let Some(delivery) = self.parked.take() {
            // What was in front of it may have been refused: then it is not its turn any more.
            self.deliver(delivery, cx);
        }
    }
}

fn is_ping(frame: &Frame) -> bool {
    stanza::parse_kind(frame) == Ok(Kind::Iq(IqType::Get))
        && frame.child("ping", ns::PING).is_some()
}
