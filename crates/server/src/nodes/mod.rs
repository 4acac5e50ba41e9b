//! A service that has nodes (XEP-0060, docs/pubsub.md): one actor for each, at the home of its
//! address. It performs what [`pubsub::Service`] decides. Owns its life: loading, the order of what
//! comes in, and eviction. What is taken is in `intake.rs`, what is durable in `durable.rs`, how
//! the store has it in `stored.rs`, and what answers wait for in `items.rs` and `rosters.rs`.
//!
//! | what waits | why | until |
//! |---|---|---|
//! | everything | the service is being read | it has been |
//! | everything but decisions | copies are under way: at most so many are written a turn | all are |
//! | everything but decisions | what comes next is for a node that is being changed | it is decided |
//! | everything but decisions | rosters that decide about what comes next are read | they have been |
//! | an answer | its items are read from the store | they have been |

mod command;
mod durable;
mod intake;
mod items;
mod rosters;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use actor::{Actor, Context, Mail, Name, Reason, Reply};
use delivery::{Marks, Refusal};
use pubsub::{Admitted, Contacts, Effect, Event, Record, Service, State};
use ring::rand::{SecureRandom, SystemRandom};
use stdx::Timestamp;
use store::StoreError;
use store::limits::SEEN_MAX;
use telemetry::{Counter, Gauge};
use wire::Message;
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use crate::appends::Appends;
use crate::home::Home;
use crate::iq::is_request;
use crate::leaving::{Bounds, Counters, Leaving, Out};
use crate::limits::SWEEP_RETRY;
use crate::message::credit::Debt;
use crate::message::{Delivery, Said, UserMsg};
use crate::operator::AdminAnswer;
use crate::stored;
use crate::taking::Taking;

use durable::For;
use items::Asked;
use rosters::Looked;
pub use rosters::Rosters;

/// What a service is told beside what every entity is.
pub enum NodesMsg {
    /// What the store has of it.
    Loaded(Box<Result<Loaded, StoreError>>),
    /// Items that an answer waits for.
    Fetched {
        /// The number of the question.
        ticket: u64,
        /// Those that are there.
        items: Result<Vec<pubsub::Item>, StoreError>,
    },
    /// The rosters that decide about what comes next.
    Rosters(Result<Rosters, StoreError>),
    /// Leases that are over and items that are too old can go.
    Sweep,
    /// Digests of subscribers are due.
    Due,
}

/// What the store has of a service.
pub struct Loaded {
    state: State,
    /// The store has such an entity.
    is_made: bool,
    /// Random.
    seed: [u64; 2],
}

/// What is known of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The store has been asked; the mailbox is held.
    Loading,
    /// It is here.
    Ready,
    /// It could not be read for a while; every question gets an error until it can be.
    Unreadable,
}

/// Whose stanza something is done for.
#[derive(Default)]
struct Held {
    /// It waits for an answer: if the service ends before, it gets an error.
    request: Option<Frame>,
    /// It is in its sender's log.
    taking: Option<Taking>,
    /// Its sender may send another one when this is repaid.
    debt: Option<Box<Debt>>,
    /// An operator who waits for it.
    operator: Option<Reply<AdminAnswer>>,
    /// It is a review, for what is parked.
    is_review: bool,
}

/// One service.
pub(crate) struct NodesActor {
    name: Name,
    home: Rc<Home>,
    phase: Phase,
    /// The machine; absent until the service is read.
    service: Option<Service>,
    /// The store has such an entity.
    is_made: bool,
    /// Deleted nodes that are elsewhere now, as the last append leaves them.
    moved: Vec<Record>,
    /// What was handed over by senders' homes in this life of the service. What comes again after
    /// it is taken again: an approval of what is approved changes nothing.
    marks: Marks<u64>,
    appends: Appends<For>,
    leaving: Leaving,
    /// Goes in front of everything in the mailbox.
    parked: Option<Delivery>,
    /// What comes next, while the rosters that decide about it are read.
    looked: Option<Looked>,
    /// The review for what is parked was not made durable.
    is_review_refused: bool,
    /// A message that is being taken: if the service crashes, its sender's home hears of it.
    taking: Option<Taking>,
    /// A request that is being handled: if the service crashes, its sender hears of it.
    handling: Option<Frame>,
    asked: BTreeMap<u64, Asked>,
    /// How often the store could not be read in a row.
    unread: u8,
    /// When it is woken for what is due next.
    wakes_at: Option<Timestamp>,
    /// What the gauges have of this service.
    counted: usize,
}

impl NodesActor {
    pub(crate) fn new(name: Name, home: Rc<Home>) -> Self {
        let counters = Counters {
            sent: Counter::PubsubCopies,
            dropped: Counter::PubsubCopiesDropped,
        };
        let appends = Appends::new(home.place.range(&name));
        let bounds = Bounds {
            turn_max: home.options.pubsub.copies_per_turn,
            waits_max: u64::MAX, // Nothing waits here.
        };
        let leaving = Leaving::new(bounds, counters);
        NodesActor {
            name,
            home,
            phase: Phase::Loading,
            service: None,
            is_made: false,
            moved: Vec::new(),
            marks: Marks::new([], SEEN_MAX, false),
            appends,
            leaving,
            parked: None,
            looked: None,
            is_review_refused: false,
            taking: None,
            handling: None,
            asked: BTreeMap::new(),
            unread: 0,
            wakes_at: None,
            counted: 0,
        }
    }

    // ---- Loading and eviction ------------------------------------------------------------------

    /// Reads the service once nothing that an earlier life of it appended is undecided.
    fn begin(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.phase = Phase::Loading;
        if self.appends.is_settled(For::Settled, &self.home, cx) {
            self.load(cx);
        }
    }

    fn load(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().count(Counter::PubsubLoaded);
        self.appends.begin(&self.home);
        let (store, name) = (self.home.store.clone(), self.name.clone());
        let options = std::sync::Arc::clone(&self.home.options.pubsub.machine);
        let read = move || {
            let (state, is_made) = stored::nodes::read(&store, &name, &options)?;
            let mut seed = [0; 16];
            let filled = SystemRandom::new().fill(&mut seed);
            filled.map_err(|_| StoreError::Unavailable("no randomness".to_owned()))?;
            let seed = u128::from_le_bytes(seed);
            let seed = [seed as u64, (seed >> 64) as u64];
            Ok(Loaded {
                state,
                is_made,
                seed,
            })
        };
        let map = |loaded| UserMsg::own(NodesMsg::Loaded(Box::new(loaded)));
        if cx.blocking(&self.home.later_reads, read, map).is_err() {
            let error = StoreError::Unavailable("too many reads wait".to_owned());
            self.loaded(Err(error), cx);
        }
    }

    fn loaded(&mut self, loaded: Result<Loaded, StoreError>, cx: &mut Context<'_, UserMsg>) {
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return self.not_loaded(&error, cx),
        };
        let options = std::sync::Arc::clone(&self.home.options.pubsub.machine);
        self.moved = loaded.state.moved().collect();
        self.is_made = loaded.is_made;
        let service = Service::new(&self.name, loaded.state, options, loaded.seed);
        self.service = Some(service);
        self.phase = Phase::Ready;
        self.unread = 0;
        self.sweep(cx);
    }

    /// Tries again for as long as somebody may want something; after a while whoever asks is told.
    fn not_loaded(&mut self, error: &StoreError, cx: &mut Context<'_, UserMsg>) {
        self.unread = self.unread.saturating_add(1);
        let unread = self.home.bounds().unread(self.unread);
        if unread.is_given_up {
            self.phase = Phase::Unreadable;
        }
        if unread.is_news {
            tracing::error!(service = %self.name, %error, "cannot read a service");
        }
        cx.send_after(unread.pause, UserMsg::LoadAgain);
    }

    /// Nothing is under way.
    fn is_idle(&self) -> bool {
        self.service.as_ref().is_none_or(Service::is_idle)
            && self.phase != Phase::Loading
            && self.appends.is_empty()
            && self.leaving.is_empty()
            && self.parked.is_none()
            && self.looked.is_none()
    }

    fn idle(&mut self, cx: &mut Context<'_, UserMsg>) {
        if !(self.is_idle() && cx.stop_when_idle()) {
            cx.send_after(self.home.bounds().idle_eviction, UserMsg::Idle);
        }
    }

    fn sweep(&mut self, cx: &mut Context<'_, UserMsg>) {
        let again = match self.happens(Event::Sweep, Held::default(), cx) {
            Ok(()) => self.home.options.pubsub.sweep_every,
            // It is busy.
            Err(_) => SWEEP_RETRY,
        };
        cx.send_after(again, UserMsg::own(NodesMsg::Sweep));
    }

    /// Digests are due.
    fn is_due(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.wakes_at = None;
        // A service that is being read has none.
        let _ = self.happens(Event::Due, Held::default(), cx);
    }

    /// Sees to it that it is woken for what is due next.
    fn wake_when_due(&mut self, cx: &mut Context<'_, UserMsg>) {
        let due = self.service.as_ref().and_then(Service::due);
        let sooner = |due: &Timestamp| self.wakes_at.is_none_or(|at| *due < at);
        let Some(due) = due.filter(sooner) else {
            return;
        };
        self.wakes_at = Some(due);
        let wait = due.as_millis().saturating_sub(cx.wall().as_millis());
        let wait = Duration::from_millis(u64::try_from(wait).unwrap_or(0));
        cx.send_after(wait, UserMsg::own(NodesMsg::Due));
    }

    /// Whether what comes has to wait.
    fn must_hold(&self) -> bool {
        self.phase == Phase::Loading
            || self.parked.is_some()
            || self.looked.is_some()
            || !self.leaving.is_empty()
    }

    /// Says what has changed to those who count.
    fn note(&mut self, cx: &mut Context<'_, UserMsg>) {
        let nodes = self.service.as_ref().map_or(0, |one| one.state().len());
        while self.counted < nodes {
            cx.stats().raise(Gauge::PubsubNodes);
            self.counted += 1;
        }
        while self.counted > nodes {
            cx.stats().lower(Gauge::PubsubNodes);
            self.counted -= 1;
        }
    }

    /// Gives the machine an event that no roster decides about, and performs what comes of it.
    ///
    /// # Errors
    /// What the event is about is busy: it comes again.
    fn happens(
        &mut self,
        event: Event,
        held: Held,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), Held> {
        self.happens_by(&Admitted, event, held, cx)
    }

    /// Gives the machine an event, and performs what comes of it.
    ///
    /// # Errors
    /// What the event is about is busy: it comes again.
    fn happens_by(
        &mut self,
        contacts: &dyn Contacts,
        event: Event,
        held: Held,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), Held> {
        let Some(service) = &mut self.service else {
            return Err(held);
        };
        match service.handle(event, cx.wall(), contacts) {
            Ok(effects) => self.perform(effects, held, cx),
            Err(_) => return Err(held),
        }
        self.leaving.go_on(&self.home, cx);
        Ok(())
    }

    /// Performs what the machine wants for somebody's stanza.
    fn perform(&mut self, effects: Vec<Effect>, mut held: Held, cx: &mut Context<'_, UserMsg>) {
        let mut unread = Vec::new();
        for effect in effects {
            match effect {
                Effect::Append(records) => self.append(records, std::mem::take(&mut held), cx),
                Effect::Send { frame, to } => {
                    self.leaving.copies(frame, to, (0, 0), &self.home);
                }
                Effect::Deliver(frame) => self.leaving.push(Out::One(frame)),
                // It has no contacts.
                Effect::Notify { .. } => {}
                Effect::Fetch {
                    ticket,
                    node,
                    items,
                } => {
                    if !self.fetch(ticket, (&node, items), &mut held, cx) {
                        unread.push(ticket);
                    }
                }
            }
        }
        for ticket in unread {
            self.fetched(ticket, None, cx);
        }
        if let Some(taking) = held.taking {
            self.taken(taking, cx);
        }
        if let Some(mut debt) = held.debt {
            debt.repay(&self.home, cx);
        }
        if let Some(operator) = held.operator {
            // Nothing came of it.
            operator.send(cx, AdminAnswer::Absent);
        }
    }

    fn nodes_msg(&mut self, msg: NodesMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            NodesMsg::Loaded(loaded) => self.loaded(*loaded, cx),
            NodesMsg::Rosters(rosters) => self.rosters_read(rosters, cx),
            NodesMsg::Sweep => self.sweep(cx),
            NodesMsg::Due => self.is_due(cx),
            NodesMsg::Fetched { ticket, items } => {
                let items = items.inspect_err(|error| {
                    tracing::warn!(service = %self.name, %error, "cannot read items");
                });
                self.fetched(ticket, items.ok(), cx);
            }
        }
    }
}

impl Actor for NodesActor {
    type Msg = UserMsg;

    fn started(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().raise(Gauge::PubsubServices);
        cx.send_after(self.home.bounds().idle_eviction, UserMsg::Idle);
        cx.hold();
        self.begin(cx);
    }

    fn handle(&mut self, msg: UserMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            UserMsg::Said(Said {
                message: Message::Stanza(stanza),
                debt,
            }) => self.deliver(Delivery { stanza, debt }, cx),
            UserMsg::Decided { ticket, result } => {
                self.appends.decided(ticket, result, &self.home, cx);
            }
            UserMsg::Own(own) => {
                if let Some(msg) = own.take() {
                    self.nodes_msg(msg, cx);
                }
            }
            UserMsg::GoOn => self.leaving.next_turn(&self.home, cx),
            UserMsg::LoadAgain if self.phase != Phase::Ready => self.begin(cx),
            UserMsg::Admin { command, reply } => self.administer(*command, reply, cx),
            UserMsg::Idle => self.idle(cx),
            // What accounts are told.
            _ => {}
        }
        self.taking = None;
        while self.conclude_decided(cx) {
            self.taking = None;
        }
        self.note(cx);
        self.wake_when_due(cx);
        if self.must_hold() {
            cx.hold();
        } else {
            cx.release();
        }
    }

    fn stopped(&mut self, _reason: &Reason, cx: &mut Context<'_, UserMsg>) {
        cx.stats().lower(Gauge::PubsubServices);
        for _ in 0..self.counted {
            cx.stats().lower(Gauge::PubsubNodes);
        }
        self.home.journal.forget(cx.myself());
        if let Some(taking) = self.taking.take() {
            // Its sender's home counts how often that happens.
            let why = match self.home.is_elsewhere(&self.name) {
                true => Refusal::Full,
                false => Refusal::Crashed,
            };
            taking.refuse(&self.name, why, None, &self.home, cx);
        }
        self.answer_the_rest(cx);
    }
}

impl NodesActor {
    /// The service ends: whoever waits for an answer hears that nobody can say what became of it.
    fn answer_the_rest(&mut self, cx: &mut Context<'_, UserMsg>) {
        let error = StanzaError::new(Condition::InternalServerError)
            .with_text("It is not known whether this was done.");
        let asked = self
            .asked
            .values()
            .filter_map(|asked| asked.request.as_ref());
        let parked = self.parked.as_ref().map(|delivery| &delivery.frame);
        let looked = self.looked.as_ref().map(Looked::frame);
        let waiting = self.appends.iter().filter_map(For::request);
        let all = waiting.chain(asked).chain(&self.handling);
        for request in all.chain(
            parked
                .into_iter()
                .chain(looked)
                .filter(|frame| is_request(frame)),
        ) {
            self.home.return_error(cx, request, &error);
        }
        // What was decided before is told.
        self.leaving.leave_all(&self.home, cx);
    }
}
