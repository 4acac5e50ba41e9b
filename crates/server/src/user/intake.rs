//! At the recipient's home: which message that another home hands over is taken, so that each is
//! taken once and in order. Decisions are those of [`delivery::Marks`]; this file asks the store
//! for senders that memory does not know, and answers the sender's home.

use actor::{Context, Mail, Name};
use delivery::{Place, Recognised, Refusal};
use store::{Seq, StoreError};
use telemetry::Counter;
use wire::Source;
use xmpp::error::StanzaError;

use super::barrier::Effect;
use super::own::OwnMsg;
use super::{Phase, User};
use crate::address;
use crate::message::{Delivery, UserMsg};

/// Up to where a sender's messages were taken, as the store says.
pub(crate) struct MarkRead {
    peer: u64,
    /// As it was read last when the store was asked ([`User::outbox_life`]).
    life: u64,
    mark: Result<Seq, StoreError>,
}

impl User {
    /// The name of this user as a destination.
    pub(super) fn own_peer(&self) -> u64 {
        self.home.place.slots().peer(&self.name)
    }

    /// Whether a message that the home of `from` hands over is to be taken now. If not, that home
    /// is told why, or will be once the store was asked.
    pub(super) fn is_next(
        &mut self,
        (from, peer): (&Name, u64),
        delivery: &Delivery,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        let source = delivery.source;
        if self.phase == Phase::Unreadable {
            // Nobody knows what has come from there already.
            self.refuse(from, source, Refusal::Unreadable, None, cx);
            return false;
        }
        let (place, after) = (Place::new(source.seq), Place::new(source.after));
        let recognised = match &self.log {
            Some(log) => log.marks.recognise(peer, place, after),
            None if source.after == 0 => Recognised::New,
            None => Recognised::Early,
        };
        match recognised {
            Recognised::New => return true,
            Recognised::Again => {
                cx.stats().count(Counter::MessagesRepeated);
                self.confirm(from, source, cx);
            }
            Recognised::Early => self.refuse(from, source, Refusal::Early, None, cx),
            Recognised::Unknown => self.park(peer, delivery, cx),
        }
        false
    }

    /// Tells the sender's home that a message need not be kept for this user any more, once that
    /// is durable.
    pub(super) fn confirm(&mut self, to: &Name, source: Source, cx: &mut Context<'_, UserMsg>) {
        let to = Name::clone(to);
        self.emit(Effect::Taken { to, source }, cx);
    }

    /// Tells the sender's home that a message was not taken; `error` is what its sender is told if
    /// that is for good.
    pub(super) fn refuse(
        &mut self,
        to: &Name,
        source: Source,
        why: Refusal,
        error: Option<StanzaError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let answer = self.home.not_taken(&self.name, source, why, error);
        let to = Name::clone(to);
        self.emit(Effect::NotTaken { to, answer }, cx);
    }

    /// Keeps a message until the store has said what was taken from its sender.
    fn park(&mut self, peer: u64, delivery: &Delivery, cx: &mut Context<'_, UserMsg>) {
        let parked_max = self.home.bounds().parked_max;
        let parked = &mut self.log().parked;
        let is_asked = parked.iter().any(|(waiting, _)| *waiting == peer);
        if parked.len() >= parked_max {
            let from = sender_of(delivery);
            return self.refuse(&from, delivery.source, Refusal::Full, None, cx);
        }
        parked.push((peer, delivery.clone()));
        if !is_asked {
            // Behind the commits that are under way: marks that memory has forgotten since are in
            // the store by then.
            self.emit(Effect::ReadMark(peer), cx);
        }
    }

    pub(super) fn read_mark(&mut self, peer: u64, cx: &mut Context<'_, UserMsg>) {
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let life = self.outbox_life();
        let job = move || {
            let mark = store.mark_of(&name, peer);
            MarkRead { peer, life, mark }
        };
        let map = |read| OwnMsg::MarkRead(read).into();
        if cx.blocking(&self.home.reads, job, map).is_err() {
            let mark = Err(super::overloaded());
            self.mark_read(MarkRead { peer, life, mark }, cx);
        }
    }

    /// The store has said what was taken from a sender: what waits for that is taken, or not.
    pub(super) fn mark_read(&mut self, read: MarkRead, cx: &mut Context<'_, UserMsg>) {
        if read.life != self.outbox_life() {
            return; // What waited for it was refused when the user was read again.
        }
        let log = self.log();
        let (own, others) = std::mem::take(&mut log.parked)
            .into_iter()
            .partition(|(peer, _)| *peer == read.peer);
        log.parked = others;
        let own: Vec<(u64, Delivery)> = own;
        match read.mark {
            Ok(mark) => {
                // Nobody may forget it again before these are through.
                log.marks.learn(read.peer, Place::new(mark));
                for (_, delivery) in own {
                    self.deliver(delivery, cx);
                }
            }
            Err(error) => {
                tracing::warn!(user = %self.name, %error, "cannot read what was taken");
                for (_, delivery) in own {
                    let from = sender_of(&delivery);
                    self.refuse(&from, delivery.source, Refusal::Unreadable, None, cx);
                }
            }
        }
    }

    /// The user is read again: what waits for a mark is handed over again later.
    pub(super) fn refuse_parked(
        &mut self,
        parked: Vec<(u64, Delivery)>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        for (_, delivery) in parked {
            let from = sender_of(&delivery);
            self.refuse(&from, delivery.source, Refusal::Full, None, cx);
        }
    }
}

/// The bare address of a stanza's sender.
pub(super) fn sender_of(delivery: &Delivery) -> Name {
    let from = delivery.frame.attr("from").unwrap_or_default();
    Name::from(address::bare(&from))
}
