//! What comes to a service: which stanza is taken now, and who is told that his is not.

use actor::{Context, Name};
use delivery::{Place, Refusal};
use pubsub::{Contacts, Event};
use store::Seq;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};
use xmpp::ns;
use xmpp::stanza::{self, IqType, Kind};

use super::durable::For;
use super::{Held, NodesActor, Phase};
use crate::address;
use crate::iq::is_request;
use crate::leaving::Out;
use crate::message::{Delivery, UserMsg};
use crate::taking::{Taking, Verdict};

impl NodesActor {
    /// A stanza has come.
    pub(super) fn deliver(&mut self, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let taking = Taking::of(&delivery);
        if self.phase == Phase::Unreadable {
            let condition = Condition::ResourceConstraint;
            return self.turn_away(&delivery, (Refusal::Unreadable, condition), cx);
        }
        if let Some(taking) = &taking {
            let waiting = self.last_waiting_of(&taking.from);
            let mut verdict = taking.judge(&self.name, &self.marks, waiting, &self.home, cx);
            if verdict == Verdict::Ask {
                // Of a service the store has no marks.
                self.marks.learn(taking.peer(&self.home), Place::START);
                verdict = taking.judge(&self.name, &self.marks, waiting, &self.home, cx);
            }
            if verdict != Verdict::Take {
                return;
            }
        }
        if delivery.resource.is_some() {
            // Nobody is behind the address of a service.
            let condition = Condition::ServiceUnavailable;
            return self.turn_away(&delivery, (Refusal::Final, condition), cx);
        }
        if std::mem::take(&mut self.is_review_refused) {
            // Somebody might hear of it who may not, and nobody knows when that changes.
            let condition = Condition::ResourceConstraint;
            return self.turn_away(&delivery, (Refusal::Final, condition), cx);
        }
        let service = self.service.as_ref();
        match service.and_then(|service| service.rosters_for(&delivery.frame)) {
            Some(wanted) => self.look_up(wanted, delivery, cx),
            None => self.give(delivery, &(), cx),
        }
    }

    /// A stanza is not taken.
    pub(super) fn turn_away(
        &self,
        delivery: &Delivery,
        (why, condition): (Refusal, Condition),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let error = StanzaError::new(condition);
        match Taking::of(delivery) {
            Some(taking) => {
                let error = (why == Refusal::Final).then_some(error);
                taking.refuse(&self.name, why, error, &self.home, cx);
            }
            None => self.home.return_error(cx, &delivery.frame, &error),
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
            self.leaving.extend(reply.map(Out::One));
            return self.leaving.go_on(&self.home, cx);
        }
        let taking = Taking::of(&delivery);
        self.taking.clone_from(&taking);
        self.home.panic_if_asked(frame);
        let from = frame.attr("from").unwrap_or_default();
        let may_create = &self.home.options.pubsub.create;
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
        self.handling.clone_from(&held.request);
        if let Err(held) = self.happens_by(contacts, event, held, cx) {
            delivery.debt = held.debt;
            self.parked = Some(delivery);
        }
        self.handling = None;
    }

    /// The last place of a sender's log that waits for its commit.
    pub(super) fn last_waiting_of(&self, from: &Name) -> Option<Seq> {
        let takings = self.appends.iter().filter_map(For::taking);
        let own = takings.filter(|taking| taking.from == *from);
        own.map(|taking| taking.source.seq).max()
    }

    /// A message was taken that nothing is appended for.
    pub(super) fn taken(&mut self, taking: Taking, cx: &mut Context<'_, UserMsg>) {
        if self.last_waiting_of(&taking.from).is_none() {
            taking.learn(&mut self.marks, &self.home);
            return taking.confirm(&self.name, &self.home, cx);
        }
        self.appends.keep_place(For::Nothing(taking), &self.home);
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
