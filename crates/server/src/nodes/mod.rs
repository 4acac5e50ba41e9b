//! A service that has nodes (XEP-0060, docs/pubsub.md): one actor for each, at the home of its
//! address. It performs what [`pubsub::Service`] decides. Owns the order of what comes in; the life
//! that every entity has is in `crate::entity`. What is taken is in `intake.rs`, what is durable in
//! `durable.rs`, how the store has it in `stored.rs`, and what answers wait for in `items.rs` and
//! `rosters.rs`.
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

use actor::{Context, Mail, Name, Reason, Reply};
use pubsub::{Admitted, Contacts, Effect, Event, Record, Service, State};
use stdx::Timestamp;
use store::{Store, StoreError};
use telemetry::{Counter, Gauge};
use wire::Message;
use xml::Frame;

use crate::entity::kind::Kind;
use crate::entity::life::{Decided, Life, Request};
use crate::entity::taking::Taking;
use crate::entity::{Tenant, random};
use crate::home::Home;
use crate::iq::is_request;
use crate::leaving::{Bounds, Counters, Leaving, Out};
use crate::limits::SWEEP_RETRY;
use crate::message::credit::Debt;
use crate::message::{Delivery, Said, UserMsg};
use crate::operator::{AdminAnswer, AdminCommand};
use crate::stored;

use durable::Change;
use items::Asked;
use rosters::Looked;
pub use rosters::Rosters;

/// What a service is told beside what every entity is.
pub enum NodesMsg {
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
    life: Life<Change>,
    /// The machine; absent until the service is read.
    service: Option<Service>,
    /// The store has such an entity.
    is_made: bool,
    /// Deleted nodes that are elsewhere now, as the last append leaves them.
    moved: Vec<Record>,
    /// Goes in front of everything in the mailbox.
    parked: Option<Delivery>,
    /// What comes next, while the rosters that decide about it are read.
    looked: Option<Looked>,
    /// The review for what is parked was not made durable.
    is_review_refused: bool,
    asked: BTreeMap<u64, Asked>,
    /// When it is woken for what is due next.
    wakes_at: Option<Timestamp>,
    /// What the gauges have of this service.
    counted: usize,
}

/// Services with nodes, at addresses that are theirs alone.
const KIND: Kind = Kind {
    name: "service with nodes",
    has: Home::hosts_nodes,
    loaded: Gauge::PubsubServices,
    loads: Counter::PubsubLoaded,
};

impl NodesActor {
    fn sweep(&mut self, cx: &mut Context<'_, UserMsg>) {
        let again = match self.happens(Event::Sweep, Held::default(), cx) {
            Ok(()) => self.life.home.options.pubsub.sweep_every,
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

    /// Says what has changed to those who count.
    fn note(&mut self, cx: &mut Context<'_, UserMsg>) {
        let nodes = self.service.as_ref().map_or(0, |one| one.state().len());
        let before = std::mem::replace(&mut self.counted, nodes);
        cx.stats()
            .shift(Gauge::PubsubNodes, before as u64, nodes as u64);
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
        self.life.leave_on(cx);
        Ok(())
    }

    /// Performs what the machine wants for somebody's stanza.
    fn perform(&mut self, effects: Vec<Effect>, mut held: Held, cx: &mut Context<'_, UserMsg>) {
        let mut unread = Vec::new();
        for effect in effects {
            match effect {
                Effect::Append(records) => self.append(records, std::mem::take(&mut held), cx),
                Effect::Send { frame, to } => {
                    self.life.leaving.copies(frame, to, (0, 0), &self.life.home);
                }
                Effect::Deliver(frame) => self.life.leaving.push(Out::One(frame)),
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
            self.life.taken(taking, cx);
        }
        if let Some(mut debt) = held.debt {
            debt.repay(&self.life.home, cx);
        }
        if let Some(operator) = held.operator {
            // Nothing came of it.
            operator.send(cx, AdminAnswer::Absent);
        }
    }
}

impl Tenant for NodesActor {
    const KIND: &'static Kind = &KIND;
    type Stored = Loaded;
    type Word = NodesMsg;
    type Change = Change;

    fn new(name: Name, home: Rc<Home>) -> Self {
        let counters = Counters {
            sent: Some(Counter::PubsubCopies),
            dropped: Counter::PubsubCopiesDropped,
        };
        let bounds = Bounds {
            turn_max: home.options.pubsub.copies_per_turn,
            waits_max: u64::MAX, // Nothing waits here.
        };
        NodesActor {
            life: Life::new(name, home, Leaving::new(bounds, counters)),
            service: None,
            is_made: false,
            moved: Vec::new(),
            parked: None,
            looked: None,
            is_review_refused: false,
            asked: BTreeMap::new(),
            wakes_at: None,
            counted: 0,
        }
    }

    fn life(&self) -> &Life<Change> {
        &self.life
    }

    fn life_mut(&mut self) -> &mut Life<Change> {
        &mut self.life
    }

    fn read(&self) -> impl FnOnce(&Store) -> Result<Loaded, StoreError> + Send + 'static {
        let name = self.life.name.clone();
        let options = std::sync::Arc::clone(&self.life.home.options.pubsub.machine);
        move |store| {
            let (state, is_made) = stored::nodes::read(store, &name, &options)?;
            let seed = u128::from_le_bytes(random()?);
            Ok(Loaded {
                state,
                is_made,
                seed: [seed as u64, (seed >> 64) as u64],
            })
        }
    }

    fn recover(
        &mut self,
        loaded: Loaded,
        _cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StoreError> {
        let options = std::sync::Arc::clone(&self.life.home.options.pubsub.machine);
        self.moved = loaded.state.moved().collect();
        self.is_made = loaded.is_made;
        let service = Service::new(&self.life.name, loaded.state, options, loaded.seed);
        self.service = Some(service);
        Ok(())
    }

    fn ready(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.sweep(cx);
    }

    fn said(&mut self, said: Said, cx: &mut Context<'_, UserMsg>) {
        let Said { message, debt } = said;
        if let Message::Stanza(stanza) = message {
            self.deliver(Delivery { stanza, debt }, cx);
        }
    }

    fn word(&mut self, msg: NodesMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            NodesMsg::Rosters(rosters) => self.rosters_read(rosters, cx),
            NodesMsg::Sweep => self.sweep(cx),
            NodesMsg::Due => self.is_due(cx),
            NodesMsg::Fetched { ticket, items } => {
                let items = items.inspect_err(|error| {
                    tracing::warn!(service = %self.life.name, %error, "cannot read items");
                });
                self.fetched(ticket, items.ok(), cx);
            }
        }
    }

    fn administer(
        &mut self,
        command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.operate(command, reply, cx);
    }

    fn decided(&mut self, decided: Decided<Change>, cx: &mut Context<'_, UserMsg>) {
        self.conclude(decided, cx);
    }

    fn go_on(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.give_parked(cx);
    }

    fn handled(&mut self, cx: &mut Context<'_, UserMsg>) {
        self.note(cx);
        self.wake_when_due(cx);
    }

    fn is_idle(&self) -> bool {
        self.service.as_ref().is_none_or(Service::is_idle)
            && self.parked.is_none()
            && self.looked.is_none()
    }

    fn must_hold(&self) -> bool {
        self.parked.is_some() || self.looked.is_some() || !self.life.leaving.is_empty()
    }

    fn unanswered(&self) -> Vec<Request> {
        let asked = self.asked.values();
        let asked = asked.filter_map(|asked| asked.request.as_ref());
        let parked = self.parked.as_ref().map(|delivery| &delivery.frame);
        let looked = self.looked.as_ref().map(Looked::frame);
        let held = parked.into_iter().chain(looked);
        let held = held.filter(|frame| is_request(frame));
        asked.chain(held).cloned().map(Request::from).collect()
    }

    fn uncount(&mut self, cx: &mut Context<'_, UserMsg>) {
        cx.stats().shift(Gauge::PubsubNodes, self.counted as u64, 0);
    }

    fn ended(&mut self, _reason: &Reason, cx: &mut Context<'_, UserMsg>) {
        // What was decided before is told.
        self.life.leaving.leave_all(&self.life.home, cx);
    }
}
