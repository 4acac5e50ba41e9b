//! What of an entity's life its tenant uses: its name and surroundings, what it appends, and what
//! it takes out of senders' logs.

use std::rc::Rc;

use actor::{Context, Mail as _, Name};
use delivery::{Marks, Refusal};
use store::limits::SEEN_MAX;
use store::{RangeId, Record, Seq, StoreError};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::appends::{Appends, Fate};
use super::kind::Kind;
use super::taking::{Taking, Verdict};
use crate::home::Home;
use crate::leaving::{Leaving, Out};
use crate::message::{AppendError, Delivery, UserMsg};

/// What is known of an entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The store has been asked; the mailbox is held.
    Loading,
    /// It is here.
    Ready,
    /// It could not be read for a while; every question gets an error until it can be.
    Unreadable,
}

/// What becomes of an append.
pub(super) enum For<C> {
    /// The entity may be read.
    Settled,
    /// What the tenant says.
    Change(C),
    /// There is no append: a message that changes nothing keeps its place behind others.
    Place,
}

/// A stanza whose sender waits for an answer.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) frame: Frame,
    /// The number of his session, if it is managed and that was said: an error is for this one.
    pub(crate) session: Option<u32>,
}

impl From<Frame> for Request {
    fn from(frame: Frame) -> Request {
        Request {
            frame,
            session: None,
        }
    }
}

impl From<&Delivery> for Request {
    fn from(delivery: &Delivery) -> Request {
        Request {
            frame: delivery.frame.clone(),
            session: delivery.managed,
        }
    }
}

/// What an append is for.
pub(crate) struct Waiting<C> {
    pub(super) what: For<C>,
    /// The message that it is for, if that is in its sender's log.
    pub(super) taking: Option<Taking>,
    /// The request that is answered when it is decided.
    pub(super) request: Option<Request>,
}

impl<C> Waiting<C> {
    pub(super) fn of(what: For<C>, taking: Option<Taking>) -> Waiting<C> {
        Waiting {
            what,
            taking,
            request: None,
        }
    }

    /// What the tenant appends.
    pub(crate) fn change(&self) -> Option<&C> {
        match &self.what {
            For::Change(change) => Some(change),
            For::Settled | For::Place => None,
        }
    }

    pub(super) fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }
}

/// An append that is decided.
pub(crate) struct Decided<C> {
    /// What it was for.
    pub(crate) what: C,
    /// The message that it was for. Who is told of it, and when, is the tenant's.
    pub(crate) taking: Option<Taking>,
    /// Whether it is durable. If not, it never will be.
    pub(crate) result: Result<(), AppendError>,
}

/// One entity's life. `C` is what its appends are for.
pub(crate) struct Life<C> {
    pub(crate) name: Name,
    pub(crate) home: Rc<Home>,
    pub(crate) phase: Phase,
    /// What was handed over by senders' homes.
    pub(crate) marks: Marks<u64>,
    pub(crate) appends: Appends<Waiting<C>>,
    pub(crate) leaving: Leaving,
    /// A message that is being taken: if the entity crashes, its sender's home hears of it.
    pub(crate) taking: Option<Taking>,
    /// A stanza that is being handled: if the entity crashes, its sender hears of it.
    pub(crate) handling: Option<Request>,
    /// An earlier life of it was to come back, and it could not be read yet.
    is_woken: bool,
    /// How often the store could not be read in a row.
    unread: u8,
}

impl<C> Life<C> {
    /// One that is about to begin.
    pub(crate) fn new(name: Name, home: Rc<Home>, leaving: Leaving) -> Life<C> {
        let appends = Appends::new(home.place.range(&name));
        Life {
            name,
            home,
            phase: Phase::Loading,
            marks: Marks::new([], SEEN_MAX, false),
            appends,
            leaving,
            taking: None,
            handling: None,
            is_woken: false,
            unread: 0,
        }
    }

    /// The range that the entity is in.
    pub(crate) fn range(&self) -> RangeId {
        self.home.place.range(&self.name)
    }

    pub(super) fn is_idle(&self) -> bool {
        let is_here = self.phase != Phase::Loading && !self.is_woken;
        is_here && self.appends.is_empty() && self.leaving.is_empty()
    }

    /// An earlier life of it says that it is to come back.
    pub(super) fn wakes(&mut self) {
        self.is_woken = self.phase != Phase::Ready;
    }

    /// Whether it is to be taken up again although nobody says anything to it.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_woken
    }

    pub(super) fn is_ready(&mut self) {
        self.phase = Phase::Ready;
        self.is_woken = false;
        self.unread = 0;
    }

    pub(super) fn is_handled(&mut self) {
        (self.taking, self.handling) = (None, None);
    }

    /// Tries again for as long as somebody may want something; after a while whoever asks is told.
    pub(super) fn not_loaded(
        &mut self,
        kind: &Kind,
        error: &StoreError,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.unread = self.unread.saturating_add(1);
        let unread = self.home.bounds().unread(self.unread);
        if unread.is_given_up {
            self.phase = Phase::Unreadable;
        }
        if unread.is_news {
            let (kind, entity) = (kind.name, &self.name);
            tracing::error!(kind, %entity, %error, "cannot read it");
        }
        cx.send_after(unread.pause, UserMsg::LoadAgain);
    }

    pub(super) fn note_failure(
        &self,
        kind: &Kind,
        error: AppendError,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if let Some(more) = self.home.failed_changes.borrow_mut().due(cx.now()) {
            let (kind, entity) = (kind.name, &self.name);
            tracing::warn!(kind, %entity, ?error, more, "a change could not be made durable");
        }
    }

    // ---- What leaves ---------------------------------------------------------------------------

    /// Writes so much of what leaves as one turn may.
    pub(crate) fn leave_on(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.leaving.go_on(&self.home, cx);
    }

    /// A stanza that has its `to` leaves, if there is one.
    pub(crate) fn answer(&mut self, reply: Option<Frame>, cx: &mut Context<'_, UserMsg>) {
        self.leaving.extend(reply.map(Out::One));
        self.leave_on(cx);
    }

    /// A message that could not be taken now: its sender's home says it again later.
    pub(crate) fn put_off(&self, taking: &Taking, cx: &mut Context<'_, UserMsg>) {
        taking.refuse(&self.name, Refusal::Unreadable, None, &self.home, cx);
    }

    // ---- What is appended ----------------------------------------------------------------------

    /// Appends records together.
    pub(crate) fn append(
        &mut self,
        records: Vec<Record>,
        change: C,
        (taking, request): (Option<Taking>, Option<Request>),
        cx: &mut Context<'_, UserMsg>,
    ) {
        let waiting = Waiting {
            what: For::Change(change),
            taking,
            request,
        };
        self.appends.append(records, waiting, &self.home, cx);
    }

    /// What appends are for that are not decided.
    pub(crate) fn changes(&self) -> impl Iterator<Item = &C> {
        self.appends.iter().filter_map(Waiting::change)
    }

    // ---- What is taken out of senders' logs ----------------------------------------------------

    /// What is to be done with a stanza that has come.
    pub(crate) fn judge(&self, delivery: &Delivery, cx: &mut Context<'_, UserMsg>) -> Verdict {
        if self.phase == Phase::Unreadable {
            // Nobody knows what has come already.
            let why = (Refusal::Unreadable, Condition::ResourceConstraint);
            self.turn_away(delivery, why, cx);
            return Verdict::Over;
        }
        let Some(taking) = Taking::of(delivery) else {
            return Verdict::Take;
        };
        let waiting = self.last_waiting_of(&taking.from);
        taking.judge(&self.name, &self.marks, waiting, &self.home, cx)
    }

    /// A stanza is not taken.
    pub(crate) fn turn_away(
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

    /// The last place of a sender's log that waits for its commit.
    pub(crate) fn last_waiting_of(&self, from: &Name) -> Option<Seq> {
        let takings = self.appends.iter().filter_map(|w| w.taking.as_ref());
        let own = takings.filter(|taking| taking.from == *from);
        own.map(|taking| taking.source.seq).max()
    }

    /// A message was taken that nothing is appended for.
    pub(crate) fn taken(&mut self, taking: Taking, cx: &mut Context<'_, UserMsg>) {
        if self.last_waiting_of(&taking.from).is_none() {
            taking.learn(&mut self.marks, &self.home);
            return taking.confirm(&self.name, &self.home, cx);
        }
        let waiting = Waiting::of(For::Place, Some(taking));
        self.appends.keep_place(waiting, &self.home);
    }

    /// What was in front of such a message is decided.
    pub(super) fn place_reached(
        &mut self,
        taking: Option<Taking>,
        fate: Fate,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(taking) = taking else { return };
        let was_behind_refused = true;
        if fate != (Fate::Done { was_behind_refused }) {
            taking.learn(&mut self.marks, &self.home);
        }
        taking.confirm(&self.name, &self.home, cx);
    }
}
