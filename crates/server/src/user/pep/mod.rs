//! The nodes of an account (XEP-0163, docs/pubsub.md): performs what [`pubsub::Service`] decides.
//! They are read when somebody wants something of them and forgotten when nobody has for a while,
//! so a user who has none, or does nothing with them, costs nothing. Owns their life and the order
//! of what comes in; what contacts and sessions are told is in `events.rs`, what the machine is
//! told of the roster in `known.rs`.
//!
//! | state | event | what happens |
//! |---|---|---|
//! | absent | a request, a session that comes online | the store is read; it waits |
//! | being read | the same | it waits; with too many it is refused |
//! | here | a change | its records go with those of the turn; what depends on them waits |
//! | here | a request to a node that is being changed | it waits, and what comes behind it |
//! | any | the user is read again | changes and answers are refused; what waited is taken up |
//! | here | unused for a while | forgotten |

mod avatar;
mod bookmarks;
mod events;
mod items;
mod known;
mod life;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::Arc;

use actor::{Context, Mail, Reply};
use pubsub::{Effect as Act, Event, Record, Service, State};
use store::StoreError;
use telemetry::Counter;
use wire::{Interest, NodeEvent};
use xml::Frame;
use xmpp::error::{Condition, StanzaError};

use super::User;
use super::barrier::{Effect, Origin};
use super::storage;
use crate::guard::Charge;
use crate::iq::{Answer, Request};
use crate::message::credit::Debt;
use crate::message::{Ticket, UserMsg};
use crate::operator::{AdminAnswer, NodesCommand};
use crate::stored;

pub(crate) use avatar::Picture;
use avatar::{AvatarRead, Converting};
use bookmarks::Marked;
use known::Known;

/// What a user is told about its nodes.
pub(crate) enum PepMsg {
    /// What the store has of them.
    Loaded {
        /// The life that asked.
        life: Ticket,
        /// What there is.
        read: Result<(State, [u64; 2]), StoreError>,
    },
    /// Items that an answer waits for.
    Fetched {
        /// The life that asked.
        life: Ticket,
        /// The number of the question.
        ticket: u64,
        /// Those that are there.
        items: Result<Vec<pubsub::Item>, StoreError>,
    },
    /// They may have been unused for a while.
    Idle {
        /// Whose timer it is.
        life: Ticket,
    },
    /// One of the user's sessions wants to hear of nodes, and these accounts may have some.
    Owners {
        /// The session.
        interest: Interest,
        /// Bare addresses.
        owners: Vec<actor::Name>,
    },
    /// A picture that was published goes into the vCard.
    Avatar(Box<AvatarRead>),
    /// What private storage has of bookmarks.
    Bookmarks(Box<bookmarks::Stored>),
    /// A session's capabilities may be known by now.
    Caps {
        /// The session.
        conn: net::ConnRef,
        /// How often they were not.
        tries: u8,
    },
}

/// Whose stanza something is done for.
#[derive(Default)]
pub(crate) struct Held {
    /// It waits for an answer.
    request: Option<Frame>,
    /// Its sender may send another one when this is repaid.
    debt: Option<Debt>,
    /// A picture that it publishes.
    picture: Option<Picture>,
    /// Bookmarks that it changes.
    marked: Marked,
    /// What is recorded with the change, or not at all.
    with_it: Vec<store::Record>,
    /// An operator who waits for it.
    operator: Option<Reply<AdminAnswer>>,
}

struct Waiting {
    event: Event,
    held: Held,
}

/// The nodes of an account while they are in memory, or about to be.
pub(crate) struct Pep {
    /// Tells this life from others.
    life: Ticket,
    /// Absent while it is being read.
    service: Option<Box<Service>>,
    /// Deleted nodes that are elsewhere now, as the last append leaves them.
    moved: Vec<Record>,
    /// The store says that the account may have nodes.
    is_marked: bool,
    /// What comes next, in order; bounded by `waiting_max`.
    waiting: VecDeque<Waiting>,
    /// What changes that are not decided are for, in order; bounded by the machine's `pending_max`.
    pending: VecDeque<Held>,
    /// Answers that wait for items; bounded by the machine's `fetches_max`.
    asked: BTreeMap<u64, (Held, Charge)>,
    /// Pictures on their way into the vCard.
    converting: Converting,
    was_used: bool,
}

impl Pep {
    fn new(life: Ticket) -> Pep {
        Pep {
            life,
            service: None,
            moved: Vec::new(),
            is_marked: false,
            waiting: VecDeque::new(),
            pending: VecDeque::new(),
            asked: BTreeMap::new(),
            converting: Converting::default(),
            was_used: true,
        }
    }

    fn is_idle(&self) -> bool {
        self.service.is_some()
            && self.waiting.is_empty()
            && self.pending.is_empty()
            && self.asked.is_empty()
            && !self.converting.is_busy
    }

    /// Requests that have no answer.
    fn unanswered(self) -> (Vec<Held>, VecDeque<Waiting>) {
        let asked = self.asked.into_values().map(|(held, _)| held);
        (
            self.pending.into_iter().chain(asked).collect(),
            self.waiting,
        )
    }
}

/// Whether a change leaves less than there was: it needs no room.
fn frees(request: &Request<'_>) -> bool {
    let action = request.payload.children().next();
    action.is_some_and(|action| {
        matches!(
            action.name(),
            "retract" | "purge" | "delete" | "unsubscribe"
        )
    })
}

impl User {
    /// Somebody asks the account as a publish-subscribe service.
    pub(crate) fn ask_nodes(
        &mut self,
        request: &Request<'_>,
        cx: &mut Context<'_, UserMsg>,
    ) -> Answer {
        if !self.home.options.pep.enabled {
            return Answer::error(Condition::ServiceUnavailable);
        }
        let frame = request.frame;
        // Who waits for a change is told by the answer that waits with it.
        self.comes_from(Origin::Nobody);
        let held = Held {
            request: Some(frame.clone()),
            debt: request.take_debt(),
            ..Held::default()
        };
        if request.is_set && !frees(request) && !self.may_store(frame.as_bytes().len(), cx) {
            // A stranger is not told why.
            self.refuse_held(held, &storage::full(), cx);
            return Answer::Later;
        }
        let event = Event::Stanza {
            frame: frame.clone(),
            may_create: true,
        };
        self.give_nodes(event, held, cx);
        Answer::Later
    }

    /// The owner has decided about a subscription to one of the account's nodes.
    pub(super) fn decide_subscription(
        &mut self,
        conn: net::ConnRef,
        frame: Frame,
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.comes_from(Origin::Nobody);
        let debt = self.debt(conn);
        if debt.is_some() {
            self.turn().link = None;
        }
        let held = Held {
            request: Some(frame.clone()),
            debt,
            ..Held::default()
        };
        let event = Event::Stanza {
            frame,
            may_create: true,
        };
        self.give_nodes(event, held, cx);
    }

    /// Gives an event to the nodes, when they are there and its turn has come.
    pub(crate) fn give_nodes(&mut self, event: Event, held: Held, cx: &mut Context<'_, UserMsg>) {
        let max = self.home.options.pep.waiting_max;
        let life = self.home.journal.next_ticket();
        let requests = self.requests.get_or_insert_default();
        let is_new = requests.pep.is_none();
        let pep = requests.pep.get_or_insert_with(|| Box::new(Pep::new(life)));
        pep.was_used = true;
        let waiting = Waiting { event, held };
        if pep.service.is_some() && pep.waiting.is_empty() {
            if let Err(waiting) = self.happens(waiting, cx)
                && let Some(pep) = self.pep()
            {
                pep.waiting.push_back(*waiting);
            }
            return;
        }
        if pep.waiting.len() >= max {
            cx.stats().count(Counter::PepDropped);
            let error = StanzaError::new(Condition::ResourceConstraint);
            return self.refuse_held(waiting.held, &error, cx);
        }
        pep.waiting.push_back(waiting);
        if is_new {
            self.read_nodes(cx);
        }
    }

    fn pep(&mut self) -> Option<&mut Box<Pep>> {
        self.requests
            .as_mut()
            .and_then(|requests| requests.pep.as_mut())
    }

    /// The same, if it is this life.
    fn pep_of(&mut self, life: Ticket) -> Option<&mut Box<Pep>> {
        self.pep().filter(|pep| pep.life == life)
    }

    /// Whether something is under way for which the user has to stay.
    pub(super) fn has_busy_nodes(&self) -> bool {
        let pep = self
            .requests
            .as_ref()
            .and_then(|requests| requests.pep.as_ref());
        pep.is_some_and(|pep| !pep.is_idle())
    }

    // ---- What happens --------------------------------------------------------------------------

    /// Takes up what waited.
    fn give_waiting(&mut self, cx: &mut Context<'_, UserMsg>) {
        loop {
            let pep = self.pep().filter(|pep| pep.service.is_some());
            let Some(waiting) = pep.and_then(|pep| pep.waiting.pop_front()) else {
                return;
            };
            if let Err(waiting) = self.happens(waiting, cx) {
                if let Some(pep) = self.pep() {
                    pep.waiting.push_front(*waiting);
                }
                return;
            }
        }
    }

    /// Gives the machine an event, and performs what comes of it.
    ///
    /// # Errors
    /// What the event is about is busy: it comes again.
    fn happens(
        &mut self,
        waiting: Waiting,
        cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), Box<Waiting>> {
        let Waiting { event, held } = waiting;
        let pep = self
            .requests
            .as_mut()
            .and_then(|requests| requests.pep.as_mut());
        let Some(service) = pep.and_then(|pep| pep.service.as_mut()) else {
            return Err(Box::new(Waiting { event, held }));
        };
        let known = Known {
            name: &self.name,
            home: &self.home,
            roster: &self.roster,
            blocklist: &self.blocklist,
            sessions: &self.sessions,
            current: Cell::default(),
        };
        match service.handle(event, cx.wall(), &known) {
            Ok(acts) => {
                self.perform_acts(acts, held, cx);
                Ok(())
            }
            Err(event) => Err(Box::new(Waiting { event, held })),
        }
    }

    /// Performs what the machine wants for somebody's stanza.
    fn perform_acts(&mut self, acts: Vec<Act>, mut held: Held, cx: &mut Context<'_, UserMsg>) {
        let mut failed = Vec::new();
        self.record_without_change(&acts, &mut held);
        for act in acts {
            match act {
                Act::Append(records) => {
                    if !self.append_nodes(records, &mut held, cx) {
                        failed.push(Event::Decided {
                            is_committed: false,
                        });
                    }
                }
                Act::Send { frame, to } => self.tell_all(&frame, &to, cx),
                Act::Notify {
                    frame,
                    node,
                    contacts,
                    but,
                } => self.tell_contacts(Arc::new(NodeEvent { frame, node, but }), &contacts, cx),
                Act::Deliver(frame) => self.deliver_of_nodes(frame, cx),
                Act::Fetch {
                    ticket,
                    node,
                    items,
                } => {
                    if !self.fetch(ticket, (&node, items), &mut held, cx) {
                        let items = None;
                        failed.push(Event::Fetched { ticket, items });
                    }
                }
            }
        }
        if let Some(mut debt) = held.debt {
            debt.repay(&self.home, cx);
        }
        self.answer_operator(held.operator, AdminAnswer::Absent, cx);
        for event in failed {
            let held = Held::default();
            // Invariant: decisions and what was asked for are always taken.
            let _ = self.happens(Waiting { event, held }, cx);
        }
    }

    /// What is to be recorded with a change is recorded without one if there is nothing to change,
    /// and forgotten if the change is refused.
    fn record_without_change(&mut self, acts: &[Act], held: &mut Held) {
        let is_later = |act: &Act| matches!(act, Act::Append(_) | Act::Fetch { .. });
        if held.with_it.is_empty() || acts.iter().any(is_later) {
            return;
        }
        let is_error = |act: &Act| match act {
            Act::Deliver(frame) => frame.attr_raw("type") == Some("error"),
            _ => false,
        };
        let records = mem::take(&mut held.with_it);
        if acts.iter().any(is_error) {
            return self.forget_storage();
        }
        for record in records {
            self.record(record);
        }
    }

    /// Hands records over with those of the turn. False if there is no account to have nodes.
    fn append_nodes(
        &mut self,
        records: Vec<Record>,
        held: &mut Held,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        if !self.is_registered() {
            return false;
        }
        let is_item = |record: &&Record| matches!(record, Record::Published { .. });
        let items = records.iter().filter(is_item).count() as u64;
        let with_it = mem::take(&mut held.with_it);
        let makes_node = |record: &Record| matches!(record, Record::Created { .. });
        let makes_node = records.iter().any(makes_node);
        // What the account publishes by itself was made of the other form: it must not change that
        // again, which may be another one by now.
        if held.request.is_some() {
            held.picture = self.published_picture(&records);
            held.marked = self.marked(&records);
        } else if self.marked(&records) == Marked::Native {
            held.marked = Marked::Native;
        }
        let moved_max = self.home.options.pep.machine.limits.moved_max;
        let name = self.name.clone();
        let Some(pep) = self.pep() else { return false };
        let Some(service) = &pep.service else {
            return false;
        };
        let mut all = stored::nodes::translate(
            (&name, service.state()),
            (&mut pep.moved, moved_max),
            records,
        );
        if makes_node && !pep.is_marked {
            pep.is_marked = true;
            all.push(stored::nodes::mark(&name));
        }
        pep.pending.push_back(mem::take(held));
        let life = pep.life;
        for record in with_it {
            self.record(record);
        }
        for record in all {
            self.record(record);
        }
        self.emit(Effect::NodesDecided { life, items }, cx);
        true
    }

    /// The first change that was not decided is durable.
    pub(super) fn nodes_decided(
        &mut self,
        life: Ticket,
        items: u64,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let Some(pep) = self.pep_of(life) else { return };
        let held = pep.pending.pop_front().unwrap_or_default();
        cx.stats().add(Counter::PepItems, items);
        let Held {
            debt,
            picture,
            marked,
            operator,
            ..
        } = held;
        self.answer_operator(operator, AdminAnswer::Done, cx);
        let held = Held {
            debt,
            ..Held::default()
        };
        let is_committed = true;
        let event = Event::Decided { is_committed };
        // Invariant: a decision is always taken.
        let _ = self.happens(Waiting { event, held }, cx);
        if let Some(picture) = picture {
            self.convert_picture(picture, cx);
        }
        self.bookmarks_changed(&marked, cx);
        self.give_waiting(cx);
    }

    /// A request is not done.
    fn refuse_held(&mut self, held: Held, error: &StanzaError, cx: &mut Context<'_, UserMsg>) {
        if !held.with_it.is_empty() {
            self.forget_storage();
        }
        if let Some(request) = &held.request
            && let Some(reply) = xmpp::error::reply(request, error)
        {
            self.deliver_of_nodes(reply, cx);
        }
        if let Some(mut debt) = held.debt {
            debt.repay(&self.home, cx);
        }
        self.answer_operator(held.operator, AdminAnswer::Unavailable, cx);
    }

    /// An operator wants something to be done to a node.
    pub(in crate::user) fn operate_nodes(
        &mut self,
        command: NodesCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let held = Held {
            operator: Some(reply),
            ..Held::default()
        };
        self.comes_from(Origin::Nobody);
        self.give_nodes(command.event(), held, cx);
    }

    fn answer_operator(
        &mut self,
        operator: Option<Reply<AdminAnswer>>,
        answer: AdminAnswer,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if let Some(operator) = operator {
            operator.send(cx, answer);
        }
    }

    pub(super) fn pep_msg(&mut self, msg: PepMsg, cx: &mut Context<'_, UserMsg>) {
        match msg {
            PepMsg::Loaded { life, read } => self.nodes_read(life, read, cx),
            PepMsg::Fetched {
                life,
                ticket,
                items,
            } => self.fetched((life, ticket), items, cx),
            PepMsg::Idle { life } => self.idle_nodes(life, cx),
            PepMsg::Owners { interest, owners } => self.owners_found(&interest, owners, cx),
            PepMsg::Avatar(read) => self.picture_read(*read, cx),
            PepMsg::Bookmarks(stored) => self.bookmarks_read(*stored, cx),
            PepMsg::Caps { conn, tries } => self.caps_due(conn, tries, cx),
        }
    }
}
