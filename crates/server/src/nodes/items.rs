//! Items that an answer waits for: the store is asked for them, on the budget of whoever wants
//! them, whose next request is read when he has his answer.

use actor::{Context, Mail};
use pubsub::Event;
use telemetry::Counter;
use xml::Frame;

use super::{Held, NodesActor, NodesMsg};
use crate::guard::Charge;
use crate::message::UserMsg;
use crate::message::credit::Debt;
use crate::stored;

/// An answer that waits for items.
pub(super) struct Asked {
    pub(super) request: Option<Frame>,
    debt: Option<Box<Debt>>,
    _charge: Charge,
}

impl NodesActor {
    /// Asks the store for items, for whom `held` says. False if it cannot be asked now: the node is
    /// gone, too many reads wait, or the address of whoever asks has as many questions under way as
    /// it may.
    pub(super) fn fetch(
        &mut self,
        ticket: u64,
        (node, items): (&str, Vec<(Box<str>, u64)>),
        held: &mut Held,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let node = self.service.as_ref().and_then(|one| one.state().node(node));
        let Some(number) = node.map(|node| node.number) else {
            return false;
        };
        let reader = held.debt.as_ref().and_then(|debt| debt.from());
        let Some(charge) = self.life.home.charge(reader, cx) else {
            return false;
        };
        let (store, name) = (self.life.home.store.clone(), self.life.name.clone());
        let read = move || stored::nodes::items(&store, &name, number, &items);
        let map = move |items| UserMsg::own(NodesMsg::Fetched { ticket, items });
        if cx.blocking(&self.life.home.later_reads, read, map).is_err() {
            cx.stats().count(Counter::QuestionsRefused);
            return false;
        }
        let asked = Asked {
            request: held.request.take(),
            debt: held.debt.take(),
            _charge: charge,
        };
        self.asked.insert(ticket, asked);
        true
    }

    pub(super) fn fetched(
        &mut self,
        ticket: u64,
        items: Option<Vec<pubsub::Item>>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let asked = self.asked.remove(&ticket);
        let held = Held {
            debt: asked.and_then(|asked| asked.debt),
            ..Held::default()
        };
        // Invariant: what was asked for is always taken.
        let _ = self.happens(Event::Fetched { ticket, items }, held, cx);
        self.give_parked(cx);
    }
}
