//! What a service makes durable: appends and what comes of them. The machine changes when an append
//! is committed and not before, so one that is refused has changed nothing; after one of which
//! nobody knows whether it was done, the service is read again.

use actor::{Context, Mail};
use pubsub::{Admitted, Effect, Event, Record, Service, State};
use telemetry::Counter;

use super::{Held, NodesActor};
use crate::entity::life::{Decided, Request};
use crate::entity::taking::Taking;
use crate::message::UserMsg;
use crate::message::credit::Debt;
use crate::operator::AdminAnswer;
use crate::stored;

/// What an append is for: the machine's next decision.
pub(crate) struct Change {
    held: Held,
    /// Items that it publishes.
    items: u64,
}

/// What is told now is nobody's message, and its sender has his answer.
fn of_debt(debt: Option<Box<Debt>>) -> Held {
    Held {
        debt,
        ..Held::default()
    }
}

impl NodesActor {
    /// The records of the store for those of the machine.
    pub(super) fn stored(&mut self, records: Vec<Record>) -> Vec<store::Record> {
        let (user, nothing) = (&*self.life.name, State::default());
        let state = self.service.as_ref().map_or(&nothing, Service::state);
        let max = self.life.home.options.pubsub.machine.limits.moved_max;
        let mut stored = stored::nodes::translate((user, state), (&mut self.moved, max), records);
        if !self.is_made {
            let user = user.to_owned();
            stored.insert(0, store::Record::ServiceMake { user });
        }
        stored
    }
}

impl NodesActor {
    pub(super) fn append(
        &mut self,
        records: Vec<Record>,
        mut held: Held,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let is_item = |record: &&Record| matches!(record, Record::Published { .. });
        let items = records.iter().filter(is_item).count() as u64;
        let records = self.stored(records);
        let whose = (held.taking.take(), held.request.take().map(Request::from));
        self.life.append(records, Change { held, items }, whose, cx);
    }

    // ---- Decisions -----------------------------------------------------------------------------

    /// Performs what is decided.
    pub(super) fn conclude(&mut self, decided: Decided<Change>, cx: &mut Context<'_, UserMsg>) {
        let Decided {
            what: Change { held, items },
            taking,
            result,
        } = decided;
        if result.is_ok() {
            cx.stats().add(Counter::PubsubItems, items);
            self.is_made = true;
            self.committed(held, taking, cx);
        } else {
            self.not_committed(held, taking, cx);
        }
    }

    fn committed(&mut self, held: Held, taking: Option<Taking>, cx: &mut Context<'_, UserMsg>) {
        let Held { debt, operator, .. } = held;
        if let Some(operator) = operator {
            operator.send(cx, AdminAnswer::Done);
        }
        let effects = self.decide(true, cx);
        if let Some(taking) = &taking {
            taking.learn(&mut self.life.marks, &self.life.home);
        }
        self.perform_decided(effects, debt, cx);
        if let Some(taking) = taking {
            taking.confirm(&self.life.name, &self.life.home, cx);
        }
    }

    /// Performs what a decision brings about: a change that comes of it is nobody's.
    fn perform_decided(
        &mut self,
        effects: Vec<Effect>,
        debt: Option<Box<Debt>>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let (own, others): (Vec<_>, Vec<_>) = effects
            .into_iter()
            .partition(|effect| !matches!(effect, Effect::Append(_)));
        self.perform(own, of_debt(debt), cx);
        self.perform(others, Held::default(), cx);
    }

    /// It has not been done: a message of somebody's log comes again, others are told.
    fn not_committed(&mut self, held: Held, taking: Option<Taking>, cx: &mut Context<'_, UserMsg>) {
        let Held {
            debt,
            operator,
            is_review,
            ..
        } = held;
        self.is_review_refused |= is_review;
        if let Some(operator) = operator {
            operator.send(cx, AdminAnswer::Unavailable);
        }
        let mut effects = self.decide(false, cx);
        // Those behind it are refused too.
        let state = self.service.as_ref().map(Service::state);
        self.moved = state
            .map(|state| state.moved().collect())
            .unwrap_or_default();
        if let Some(taking) = taking {
            // It is not told that it failed.
            effects.retain(|effect| matches!(effect, Effect::Append(_)));
            self.life.put_off(&taking, cx);
        }
        self.perform_decided(effects, debt, cx);
    }

    fn decide(&mut self, is_committed: bool, cx: &mut Context<'_, UserMsg>) -> Vec<Effect> {
        let Some(service) = &mut self.service else {
            return Vec::new();
        };
        // Invariant: a decision is always taken.
        service
            .handle(Event::Decided { is_committed }, cx.wall(), &Admitted)
            .unwrap_or_default()
    }
}
