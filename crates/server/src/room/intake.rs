//! What comes to a room: which message that a sender's home hands over is taken now, so that each
//! is taken once and in order (docs/delivery.md), and who may make a room.

use actor::{Context, Mail, Name, Reply};
use delivery::{Place, Refusal};
use room::{Event, Message, Room};
use stdx::bugs;
use store::{LogEntry, Seq, StoreError};
use telemetry::Counter;
use wire::Sitting;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::{RoomActor, RoomMsg};
use crate::address;
use crate::entity::life::{Phase, Request};
use crate::entity::taking::{Taking, Verdict};
use crate::entity::{Tenant as _, overloaded};
use crate::limits::HEIRS_MAX;
use crate::message::{Delivery, UserMsg};
use crate::operator::AdminAnswer;
use crate::stored::rooms::message_of;

const NS_MUC: &str = xmpp::ns::MUC;

/// What the room hears of an answer of the store.
type Answer<T> = fn(Result<T, StoreError>) -> RoomMsg;

/// What goes in front of the mailbox, once it may.
pub(super) enum Parked {
    /// The room is busy.
    Busy(Delivery),
    /// The store is asked what was taken from its sender.
    Mark(Delivery),
    /// The store is asked for the message of the log that it is about.
    Named(Delivery),
    /// The store is asked for those whom it leaves as owners.
    Heirs(Delivery),
    /// The store is asked how many rooms its sender has made.
    Made(Delivery),
    /// The room is busy, and a session is not there any more.
    Gone(Sitting),
    /// The room is busy, and an operator has asked for a change.
    Operator(Event, Reply<AdminAnswer>),
}

impl Parked {
    /// The stanza, unless it is in its sender's log.
    pub(super) fn unlogged(&self) -> Option<Request> {
        match self {
            Parked::Busy(delivery)
            | Parked::Mark(delivery)
            | Parked::Named(delivery)
            | Parked::Heirs(delivery)
            | Parked::Made(delivery) => (delivery.source.seq == 0).then(|| delivery.into()),
            Parked::Gone(_) | Parked::Operator(..) => None,
        }
    }
}

/// Whether a stanza is of somebody who wants to enter (XEP-0045 section 7.2.1).
pub(crate) fn enters(frame: &Frame) -> bool {
    frame.name() == "presence"
        && frame.attr_raw("type").is_none()
        && frame.child("x", NS_MUC).is_some()
}

impl RoomActor {
    /// A stanza has come.
    pub(super) fn deliver(&mut self, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        match self.life.judge(&delivery, cx) {
            Verdict::Take => self.take(delivery, cx),
            Verdict::Over if self.takes_twice(&delivery) => self.take(delivery, cx),
            Verdict::Over => {}
            Verdict::Ask => {
                let Some(taking) = Taking::of(&delivery) else {
                    return;
                };
                let (store, name) = (self.life.home.store.clone(), self.life.name.clone());
                let peer = taking.peer(&self.life.home);
                let read = move || store.mark_of(&name, peer);
                self.park((Parked::Mark(delivery), RoomMsg::Mark), read, cx);
            }
        }
    }

    /// Keeps a stanza in front of the mailbox until the store has answered what it waits for.
    fn park<T: Send + 'static>(
        &mut self,
        (parked, answer): (Parked, Answer<T>),
        read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.parked = Some(parked);
        let map = move |found| UserMsg::own(answer(found));
        if cx.blocking(&self.life.home.later_reads, read, map).is_err() {
            self.word(answer(Err(overloaded())), cx);
        }
    }

    /// A bug on purpose: what is over is taken once more.
    fn takes_twice(&self, delivery: &Delivery) -> bool {
        let is_ready = self.life.phase == Phase::Ready;
        let taking = Taking::of(delivery).filter(|_| is_ready && bugs::is("room_takes_twice"));
        taking.is_some_and(|taking| self.life.last_waiting_of(&taking.from).is_none())
    }

    /// The store has said what was taken from a sender.
    pub(super) fn mark_read(
        &mut self,
        mark: Result<Seq, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(Parked::Mark(delivery)) = self.parked.take() else {
            return;
        };
        let Some(taking) = Taking::of(&delivery) else {
            return;
        };
        match mark {
            Ok(mark) => {
                self.life
                    .marks
                    .learn(taking.peer(&self.life.home), Place::new(mark));
                self.deliver(delivery, cx);
            }
            Err(error) => {
                tracing::warn!(room = %self.life.name, %error, "cannot read what was taken");
                self.life.put_off(&taking, cx);
            }
        }
    }

    /// A stanza is to be taken.
    fn take(&mut self, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        match self.may_create(&delivery) {
            Some(may_create) => self.look_up(delivery, may_create, cx),
            None => self.count_made(delivery, cx),
        }
    }

    /// Reads the message that a stanza is about, if it is about one that is not in memory.
    fn look_up(&mut self, delivery: Delivery, may_create: bool, cx: &mut Context<'_, UserMsg>) {
        if self.asks_archive(&delivery.frame) {
            return self.ask_archive(delivery, cx);
        }
        let room = self.room.as_ref();
        if let Some(heirs) = room.and_then(|room| room.heirs(&delivery.frame)) {
            return self.look_for(heirs, delivery, cx);
        }
        let Some(seq) = room.and_then(|room| room.names(&delivery.frame)) else {
            return self.give(delivery, (may_create, None), cx);
        };
        let (store, name) = (self.life.home.store.clone(), self.life.name.clone());
        let read = move || store.log_entries(&name, &[seq]);
        self.park((Parked::Named(delivery), RoomMsg::Named), read, cx);
    }

    /// The store has said which message a stanza is about.
    pub(super) fn named_read(
        &mut self,
        found: Result<Vec<LogEntry>, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(Parked::Named(delivery)) = self.parked.take() else {
            return;
        };
        match found {
            Ok(entries) => {
                let named = entries.first().map(message_of).map(Box::new);
                self.give(delivery, (false, named), cx);
            }
            Err(error) => {
                self.cannot_read(&delivery, ("a message of the log", error), cx);
            }
        }
    }

    /// The store could not be asked what a stanza waits for: it may come again.
    fn cannot_read(
        &mut self,
        delivery: &Delivery,
        (what, error): (&str, StoreError),
        cx: &mut Context<'_, UserMsg>,
    ) {
        tracing::warn!(room = %self.life.name, %error, "cannot read {what}");
        let why = (Refusal::Unreadable, Condition::ResourceConstraint);
        self.life.turn_away(delivery, why, cx);
    }

    /// Looks for one of those whom a request leaves as owners: a room keeps one who can come
    /// (XEP-0045 section 10.4). Of who is at home elsewhere nobody knows whether he is there.
    fn look_for(&mut self, heirs: Vec<String>, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let home = &self.life.home;
        let is_elsewhere = |who: &str| !home.serves(address::domain(who));
        let may_be = |who: &String| is_elsewhere(who) || home.component_of(who).is_some();
        if heirs.len() > HEIRS_MAX || heirs.iter().any(may_be) {
            return self.give(delivery, (false, None), cx);
        }
        let own = heirs.into_iter();
        let own = own.filter(|who| home.hosts_accounts(address::domain(who)));
        let own: Vec<String> = own.collect();
        let store = home.store.clone();
        let read = move || {
            for who in &own {
                if store.load_user(who)?.is_some() {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        self.park((Parked::Heirs(delivery), RoomMsg::Heirs), read, cx);
    }

    /// The store has said whether one of them is there.
    pub(super) fn heirs_read(
        &mut self,
        found: Result<bool, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(Parked::Heirs(delivery)) = self.parked.take() else {
            return;
        };
        match found {
            Ok(true) => self.give(delivery, (false, None), cx),
            Ok(false) => {
                let why = (Refusal::Final, Condition::Conflict);
                self.life.turn_away(&delivery, why, cx);
            }
            Err(error) => self.cannot_read(&delivery, ("who owns it then", error), cx),
        }
    }

    fn give(
        &mut self,
        delivery: Delivery,
        (may_create, named): (bool, Option<Box<Message>>),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let taking = Taking::of(&delivery);
        self.life.taking.clone_from(&taking);
        self.life.handling = taking.is_none().then(|| Request::from(&delivery));
        self.life.home.panic_if_asked(&delivery.frame);
        let had_room = self
            .room
            .as_ref()
            .is_some_and(|room| room.state().is_some());
        let event = Event::Stanza {
            frame: delivery.frame.clone(),
            may_create,
            managed: delivery.managed,
            named,
        };
        // Before what comes of it is performed: an append names it.
        if !had_room && may_create {
            let from = delivery.frame.attr("from").unwrap_or_default();
            self.creator = Some(Name::from(address::bare(&from)));
        }
        if self.happens(event, taking, cx).is_err() {
            self.life.handling = None;
            self.parked = Some(Parked::Busy(delivery));
        }
    }

    /// The room may be busy no longer.
    pub(super) fn give_parked(&mut self, cx: &mut Context<'_, UserMsg>) {
        match self.parked.take() {
            // What was in front of it may have been refused: then it is not its turn any more.
            Some(Parked::Busy(delivery)) => self.deliver(delivery, cx),
            Some(Parked::Gone(who)) => self.is_gone(who, cx),
            Some(Parked::Operator(event, reply)) => self.change(event, reply, cx),
            other => self.parked = other,
        }
    }

    // ---- Who may make a room -------------------------------------------------------------------

    /// Whether a stanza may make the room that is not there; `None` if the store has to be asked.
    fn may_create(&self, delivery: &Delivery) -> Option<bool> {
        let frame = &delivery.frame;
        // One that is being made, or ends, may be there or not: what comes waits for that.
        let may_have_one = |room: &Room| room.state().is_some() || room.is_busy();
        if self.room.as_ref().is_none_or(may_have_one) || !enters(frame) {
            return Some(false);
        }
        let from = frame.attr("from").unwrap_or_default();
        let bare = address::bare(&from);
        match self.life.home.options.rooms.create.admits(bare) {
            true => None,
            false => Some(false),
        }
    }

    fn count_made(&mut self, delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        let from = delivery.frame.attr("from").unwrap_or_default();
        let creator = address::bare(&from).to_owned();
        let store = self.life.home.store.clone();
        let max = self.life.home.options.rooms.per_account_max;
        // Who makes rooms without end shall not have the store asked for each.
        if self.life.home.rooms.made_by(&creator) >= max {
            drop(from);
            return self.too_many_made(&delivery.frame, cx);
        }
        let read = move || {
            let made = store.rooms_made_by(&creator, max as usize)?;
            Ok(made.len() as u32)
        };
        drop(from);
        self.park((Parked::Made(delivery), RoomMsg::Made), read, cx);
    }

    /// The store has said how many rooms somebody has made.
    pub(super) fn made_read(
        &mut self,
        count: Result<u32, StoreError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(Parked::Made(delivery)) = self.parked.take() else {
            return;
        };
        let max = self.life.home.options.rooms.per_account_max;
        let from = delivery.frame.attr("from").unwrap_or_default();
        let creator = Name::from(address::bare(&from));
        drop(from);
        match count.map(|count| self.life.home.rooms.reserve(&creator, count, max)) {
            Ok(Some(reserved)) => {
                self.give(delivery, (true, None), cx);
                self.reserved = Some(reserved);
            }
            Ok(None) => self.too_many_made(&delivery.frame, cx),
            Err(error) => {
                tracing::warn!(room = %self.life.name, %error, "cannot read who made which rooms");
                let error = StanzaError::new(Condition::ResourceConstraint);
                self.life.home.return_error(cx, &delivery.frame, &error);
            }
        }
    }

    fn too_many_made(&self, frame: &Frame, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(Counter::RoomsRefused);
        let error = StanzaError::new(Condition::ResourceConstraint)
            .with_text("This account has made as many rooms as it may.");
        self.life.home.return_error(cx, frame, &error);
    }
}
