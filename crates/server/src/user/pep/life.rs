//! The life of an account's nodes in memory: reading them, forgetting them, and who is told when
//! they are read again or the user ends.

use std::mem;
use std::sync::Arc;

use actor::{Context, Mail};
use pubsub::{Event, Service, State};
use ring::rand::{SecureRandom, SystemRandom};
use store::StoreError;
use telemetry::Counter;
use xmpp::error::{Condition, StanzaError};

use super::{Held, Pep, PepMsg, Waiting};
use crate::message::{AppendError, Ticket, UserMsg};
use crate::stored;
use crate::user::User;
use crate::user::own::OwnMsg;

impl User {
    pub(super) fn read_nodes(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(life) = self.pep().map(|pep| pep.life) else {
            return;
        };
        cx.stats().count(Counter::PepLoaded);
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let options = Arc::clone(&self.home.options.pep.machine);
        let read = move || {
            let (state, _) = stored::nodes::read(&store, &name, &options)?;
            let mut seed = [0; 16];
            let filled = SystemRandom::new().fill(&mut seed);
            filled.map_err(|_| StoreError::Unavailable("no randomness".to_owned()))?;
            let seed = u128::from_le_bytes(seed);
            Ok((state, [seed as u64, (seed >> 64) as u64]))
        };
        let map = move |read| OwnMsg::Pep(PepMsg::Loaded { life, read }).into();
        if cx.blocking(&self.home.reads, read, map).is_err() {
            let error = StoreError::Unavailable("too many reads wait".to_owned());
            self.nodes_read(life, Err(error), cx);
        }
    }

    pub(super) fn nodes_read(
        &mut self,
        life: Ticket,
        read: Result<(State, [u64; 2]), StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let options = Arc::clone(&self.home.options.pep.machine);
        let name = self.name.clone();
        let Some(pep) = self.pep_of(life) else { return };
        match read {
            Ok((state, seed)) => {
                pep.moved = state.moved().collect();
                pep.is_marked = !state.is_empty();
                pep.service = Some(Box::new(Service::new(&name, state, options, seed)));
            }
            Err(error) => {
                tracing::warn!(user = %name, %error, "cannot read nodes");
                // Whoever waits is told; the next one tries again.
                let waiting = mem::take(&mut pep.waiting);
                self.drop_nodes();
                let error = StanzaError::new(Condition::ResourceConstraint);
                for waiting in waiting {
                    self.refuse_held(waiting.held, &error, cx);
                }
                return;
            }
        }
        cx.send_after(self.home.bounds().idle_eviction, idle(life));
        // What is too old goes before anything else is done.
        let held = Held::default();
        let event = Event::Sweep;
        if let Err(sweep) = self.happens(Waiting { event, held }, cx) {
            drop(sweep);
        }
        self.give_waiting(cx);
    }

    pub(super) fn drop_nodes(&mut self) {
        if let Some(requests) = &mut self.requests {
            requests.pep = None;
        }
        self.requests.take_if(|requests| requests.is_idle());
    }

    /// The state in memory was replaced by what the store has: changes that were not decided will
    /// not be, or are in it. Who waits for one is told that it failed.
    pub(in crate::user) fn read_nodes_again(&mut self, cx: &mut Context<'_, UserMsg>) {
        let pep = self
            .requests
            .as_mut()
            .and_then(|requests| requests.pep.take());
        let Some(mut pep) = pep else { return };
        self.ask_for_cards(pep.converting.take_asked(), cx);
        let (unanswered, waiting) = pep.unanswered();
        let error = AppendError::Busy.to_stanza_error();
        for held in unanswered {
            self.refuse_held(held, &error, cx);
        }
        if waiting.is_empty() {
            return self.drop_nodes();
        }
        let life = self.home.journal.next_ticket();
        let requests = self.requests.get_or_insert_default();
        let mut pep = Box::new(Pep::new(life));
        pep.waiting = waiting;
        requests.pep = Some(pep);
        self.read_nodes(cx);
    }

    /// The account has been removed, and its nodes with it.
    pub(in crate::user) fn forget_nodes(&mut self, cx: &mut Context<'_, UserMsg>) {
        let pep = self
            .requests
            .as_mut()
            .and_then(|requests| requests.pep.take());
        let Some(mut pep) = pep else { return };
        self.drop_nodes();
        self.ask_for_cards(pep.converting.take_asked(), cx);
        let (unanswered, waiting) = pep.unanswered();
        let error = StanzaError::new(Condition::ServiceUnavailable);
        for held in unanswered
            .into_iter()
            .chain(waiting.into_iter().map(|one| one.held))
        {
            self.refuse_held(held, &error, cx);
        }
    }

    /// The user ends: others who wait for an answer hear that nobody can say what became of it. Its
    /// own sessions end with it.
    pub(in crate::user) fn answer_the_rest(&mut self, cx: &mut Context<'_, UserMsg>) {
        let pep = self
            .requests
            .as_mut()
            .and_then(|requests| requests.pep.take());
        let Some(mut pep) = pep else { return };
        let cards = pep.converting.take_asked();
        let cards = cards.iter().map(|question| question.frame().clone());
        let (unanswered, waiting) = pep.unanswered();
        let error = StanzaError::new(Condition::InternalServerError)
            .with_text("It is not known whether this was done.");
        let all = unanswered
            .into_iter()
            .chain(waiting.into_iter().map(|one| one.held));
        for request in all.filter_map(|held| held.request).chain(cards) {
            let from = request.attr("from").unwrap_or_default();
            if crate::address::bare(&from) != &*self.name {
                self.home.return_error(cx, &request, &error);
            }
        }
    }

    pub(super) fn idle_nodes(&mut self, life: Ticket, cx: &mut Context<'_, UserMsg>) {
        let Some(pep) = self.pep_of(life) else { return };
        let was_used = mem::take(&mut pep.was_used);
        if !was_used && pep.is_idle() {
            return self.drop_nodes();
        }
        cx.send_after(self.home.bounds().idle_eviction, idle(life));
    }
}

fn idle(life: Ticket) -> UserMsg {
    OwnMsg::Pep(PepMsg::Idle { life }).into()
}
