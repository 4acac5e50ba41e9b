//! What a service makes durable: appends and what comes of them. The machine changes when an append
//! is committed and not before, so one that is refused has changed nothing; after one of which
//! nobody knows whether it was done, the service is read again.

use actor::{Context, Mail};
use delivery::Refusal;
use pubsub::{Admitted, Effect, Event, Record, Service, State};
use telemetry::Counter;

use super::{Held, NodesActor, Phase};
use crate::appends::Fate;
use crate::message::UserMsg;
use crate::message::credit::Debt;
use crate::operator::AdminAnswer;
use crate::stored;
use crate::taking::Taking;

/// What an append is for.
pub(super) enum For {
    /// The service may be read.
    Settled,
    /// The machine's next decision takes effect.
    Change {
        held: Held,
        /// Items that it publishes.
        items: u64,
    },
    /// There is no append: a message keeps its place behind others.
    Nothing(Taking),
}

impl For {
    /// The message that it is for.
    pub(super) fn taking(&self) -> Option<&Taking> {
        match self {
            For::Settled => None,
            For::Change { held, .. } => held.taking.as_ref(),
            For::Nothing(taking) => Some(taking),
        }
    }

    /// The request that waits for it.
    pub(super) fn request(&self) -> Option<&xml::Frame> {
        match self {
            For::Change { held, .. } => held.request.as_ref(),
            For::Settled | For::Nothing(_) => None,
        }
    }
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
        let (user, nothing) = (&*self.name, State::default());
        let state = self.service.as_ref().map_or(&nothing, Service::state);
        let max = self.home.options.pubsub.machine.limits.moved_max;
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
        held: Held,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let is_item = |record: &&Record| matches!(record, Record::Published { .. });
        let items = records.iter().filter(is_item).count() as u64;
        let records = self.stored(records);
        let what = For::Change { held, items };
        self.appends.append(records, what, &self.home, cx);
    }

    // ---- Decisions -----------------------------------------------------------------------------

    /// Performs what is decided, in order. True if there was anything: then there may be more, that
    /// the journal did not take.
    pub(super) fn conclude_decided(&mut self, cx: &mut Context<'_, UserMsg>) -> bool {
        let mut is_any = false;
        while let Some((what, fate)) = self.appends.next(cx) {
            is_any = true;
            match (what, fate) {
                (For::Settled, _) => self.load(cx),
                (what, Fate::InDoubt) => {
                    let service = &self.name;
                    tracing::warn!(%service, "a change is in doubt: the service is read again");
                    self.handling = what.request().cloned();
                    cx.stop_with(actor::Reason::Killed);
                    return false;
                }
                (For::Nothing(taking), fate) => {
                    let was_behind_refused = true;
                    if fate != (Fate::Done { was_behind_refused }) {
                        taking.learn(&mut self.marks, &self.home);
                    }
                    taking.confirm(&self.name, &self.home, cx);
                }
                (For::Change { held, items }, Fate::Done { .. }) => {
                    cx.stats().add(Counter::PubsubItems, items);
                    self.is_made = true;
                    self.committed(held, cx);
                }
                (For::Change { held, .. }, Fate::Refused(error)) => {
                    if let Some(more) = self.home.failed_changes.borrow_mut().due(cx.now()) {
                        let service = &self.name;
                        tracing::warn!(%service, ?error, more, "a change was not made durable");
                    }
                    self.not_committed(held, cx);
                }
            }
        }
        if is_any && self.phase == Phase::Ready {
            self.give_parked(cx);
            self.leaving.go_on(&self.home, cx);
        }
        is_any
    }

    fn committed(&mut self, held: Held, cx: &mut Context<'_, UserMsg>) {
        let Held {
            taking,
            debt,
            operator,
            ..
        } = held;
        if let Some(operator) = operator {
            operator.send(cx, AdminAnswer::Done);
        }
        let effects = self.decide(true, cx);
        if let Some(taking) = &taking {
            taking.learn(&mut self.marks, &self.home);
        }
        self.perform_decided(effects, debt, cx);
        if let Some(taking) = taking {
            taking.confirm(&self.name, &self.home, cx);
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
    fn not_committed(&mut self, held: Held, cx: &mut Context<'_, UserMsg>) {
        let Held {
            taking,
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
            taking.refuse(&self.name, Refusal::Unreadable, None, &self.home, cx);
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
