//! Items that an answer waits for: the store is asked for them, on the budget of whoever wants
//! them.

use std::mem;

use actor::{Context, Mail};
use pubsub::Event;
use store::StoreError;
use telemetry::Counter;

use super::{Held, PepMsg, Waiting};
use crate::message::credit::Debt;
use crate::message::{Ticket, UserMsg};
use crate::stored;
use crate::user::User;
use crate::user::own::OwnMsg;

impl User {
    /// Asks the store for items. False if it cannot be asked now: the node is gone, too many reads
    /// wait, or the address of whoever asks has as many questions under way as it may.
    pub(super) fn fetch(
        &mut self,
        ticket: u64,
        (node, items): (&str, Vec<(Box<str>, u64)>),
        held: &mut Held,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let Some(pep) = self.pep() else { return false };
        let life = pep.life;
        let node = pep.service.as_ref().and_then(|one| one.state().node(node));
        let Some(number) = node.map(|node| node.number) else {
            return false;
        };
        let from = held.debt.as_ref().and_then(Debt::from);
        let Some(charge) = self.home.budget(from) else {
            cx.stats().count(Counter::QuestionsRefused);
            self.home.brake(&self.name, cx.now());
            return false;
        };
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let read = move || stored::nodes::items(&store, &name, number, &items);
        let map = move |items| {
            let fetched = PepMsg::Fetched {
                life,
                ticket,
                items,
            };
            OwnMsg::Pep(fetched).into()
        };
        if cx.blocking(&self.home.reads, read, map).is_err() {
            cx.stats().count(Counter::QuestionsRefused);
            return false;
        }
        let held = mem::take(held);
        if let Some(pep) = self.pep() {
            pep.asked.insert(ticket, (held, charge));
        }
        true
    }

    pub(super) fn fetched(
        &mut self,
        (life, ticket): (Ticket, u64),
        items: Result<Vec<pubsub::Item>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let name = self.name.clone();
        let Some(pep) = self.pep_of(life) else { return };
        let asked = pep.asked.remove(&ticket);
        let held = asked.map_or_else(Held::default, |(held, _)| Held {
            request: held.request,
            debt: held.debt,
            with_it: held.with_it,
            ..Held::default()
        });
        let items = items
            .inspect_err(|error| tracing::warn!(user = %name, %error, "cannot read items"))
            .ok();
        // Invariant: what was asked for is always taken.
        let event = Event::Fetched { ticket, items };
        let _ = self.happens(Waiting { event, held }, cx);
        self.give_waiting(cx);
    }
}
