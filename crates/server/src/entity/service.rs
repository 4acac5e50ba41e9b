//! Small services (`crate::modules::service`), whichever there are: the tenant that answers with
//! what their handlers return, and makes durable what they change.

use std::rc::Rc;

use actor::{Context, Mail as _, Name, Reply};
use delivery::Refusal;
use stdx::time::Timestamp;
use store::{NodeEntry, Record, Store, StoreError};
use telemetry::{Counter, Gauge};
use wire::Message;
use xml::Frame;
use xmpp::error::Condition;
use xmpp::ns;

use super::Tenant;
use super::kind::Kind;
use super::life::{Decided, Life, Phase};
use super::taking::Taking;
use crate::home::Home;
use crate::host::{self, Said as HostSaid};
use crate::iq::{Answer, is_request, reply_of};
use crate::leaving::{Bounds, Counters, Leaving};
use crate::message::credit::Debt;
use crate::message::{Delivery, Said, UserMsg};
use crate::modules::disco;
use crate::modules::service::{Outcome, Parts, Request, Service, View};
use crate::operator::{AdminAnswer, AdminCommand};

/// Small services, at domains that are theirs alone.
const KIND: Kind = Kind {
    name: "small service",
    has: |home, bare| home.service_at(bare).is_some(),
    loaded: Gauge::Services,
    loads: Counter::ServicesLoaded,
};

/// The node number of parts that no node has.
pub(crate) const NO_NODE: u64 = 0;

/// Answers that one service writes in a turn of its shard; it has one at a time.
const ANSWERS_PER_TURN: usize = 64;

/// One small service.
pub(crate) struct ServiceActor {
    life: Life<Change>,
    /// Absent if the address was one of a service when the message was sent, and is none here.
    service: Option<&'static Service>,
    parts: Parts,
    /// The store has such an entity.
    is_made: bool,
}

/// What an append is for.
pub(crate) struct Change {
    changes: Vec<(String, Vec<u8>)>,
    request: Frame,
    answer: Answer,
    /// Whoever asked may ask again when this is repaid.
    debt: Option<Box<Debt>>,
}

/// What the store has of one; `None` if it has nothing.
type Stored = Option<Parts>;

/// Reads the parts of a service.
///
/// # Errors
/// The store's.
fn read(store: &Store, name: &str) -> Result<Stored, StoreError> {
    let mut parts = Parts::default();
    let is_made = store.load_node_parts(name, |entry| {
        if let NodeEntry::Part { part, value, .. } = entry {
            parts.set(part.to_owned(), value);
        }
        Ok(())
    })?;
    Ok(is_made.then_some(parts))
}

impl ServiceActor {
    /// A stanza has come. Others wait while a change is undecided.
    fn deliver(&mut self, mut delivery: Delivery, cx: &mut Context<'_, UserMsg>) {
        if self.life.phase == Phase::Unreadable {
            let why = (Refusal::Unreadable, Condition::ResourceConstraint);
            return self.life.turn_away(&delivery, why, cx);
        }
        if Taking::of(&delivery).is_some() {
            // It answers requests, and those are in no log.
            let why = (Refusal::Final, Condition::ServiceUnavailable);
            return self.life.turn_away(&delivery, why, cx);
        }
        let frame = delivery.frame.clone();
        self.life.handling = is_request(&frame).then(|| frame.clone().into());
        self.life.home.panic_if_asked(&frame);
        let outcome = match host::request(&frame) {
            Ok(request) => self.outcome(request, &frame, cx.wall()),
            Err(HostSaid::Now(answer)) => return self.life.answer(reply_of(&frame, answer), cx),
            Err(HostSaid::Nothing | HostSaid::Read(_)) => return,
        };
        let Outcome { answer, changes } = outcome;
        let debt = delivery.debt.take();
        if changes.is_empty() {
            return self.answer(&frame, (answer, debt), cx);
        }
        let user = || String::from(&*self.life.name);
        let make = (!self.is_made).then(|| Record::ServiceMake { user: user() });
        let puts = changes.iter().map(|(part, value)| Record::NodePut {
            user: user(),
            node: NO_NODE,
            part: part.clone(),
            value: value.clone(),
        });
        let records = make.into_iter().chain(puts).collect();
        let request = self.life.handling.take();
        let change = Change {
            changes,
            request: frame,
            answer,
            debt,
        };
        self.life.append(records, change, (None, request), cx);
    }

    fn outcome(
        &self,
        (payload, is_set): (xml::Child<'_>, bool),
        frame: &Frame,
        now: Timestamp,
    ) -> Outcome {
        let Some(service) = self.service else {
            return Outcome::error(Condition::ServiceUnavailable);
        };
        let of_every = match (payload.name(), payload.ns()) {
            ("ping", ns::PING) if !is_set => Some(Answer::done()),
            ("query", disco::NS_INFO) if !is_set && payload.attr("node").is_none() => {
                let own = [disco::NS_INFO, ns::PING];
                let features: Vec<_> = own.iter().chain(service.features).copied().collect();
                Some(disco::info(None, &[service.identity], &features))
            }
            _ => None,
        };
        if let Some(answer) = of_every {
            let changes = Vec::new();
            return Outcome { answer, changes };
        }
        let view = View {
            parts: &self.parts,
            now,
        };
        let request = Request {
            payload,
            is_set,
            from: &frame.attr("from").unwrap_or_default(),
        };
        let outcome = (service.handle)(&view, &request);
        // What an import brought may be more: it may shrink.
        let max = service.bytes_max.max(self.parts.bytes_with(&[]));
        match outcome.answer {
            Answer::Result(_) if self.parts.bytes_with(&outcome.changes) > max => {
                Outcome::error(Condition::ResourceConstraint)
            }
            Answer::Result(_) => outcome,
            error => Outcome {
                answer: error,
                changes: Vec::new(),
            },
        }
    }

    fn answer(
        &mut self,
        request: &Frame,
        (answer, debt): (Answer, Option<Box<Debt>>),
        cx: &mut Context<'_, UserMsg>,
    ) {
        self.life.answer(reply_of(request, answer), cx);
        if let Some(mut debt) = debt {
            debt.repay(&self.life.home, cx);
        }
    }
}

impl Tenant for ServiceActor {
    const KIND: &'static Kind = &KIND;
    type Stored = Stored;
    type Word = ();
    type Change = Change;

    fn new(name: Name, home: Rc<Home>) -> Self {
        let counters = Counters {
            sent: None,
            dropped: Counter::ActorDropped,
        };
        let bounds = Bounds {
            turn_max: ANSWERS_PER_TURN,
            waits_max: u64::MAX, // Nothing waits here.
        };
        ServiceActor {
            service: home.service_at(&name),
            life: Life::new(name, home, Leaving::new(bounds, counters)),
            parts: Parts::default(),
            is_made: false,
        }
    }

    fn life(&self) -> &Life<Change> {
        &self.life
    }

    fn life_mut(&mut self) -> &mut Life<Change> {
        &mut self.life
    }

    fn read(&self) -> impl FnOnce(&Store) -> Result<Stored, StoreError> + Send + 'static {
        let name = self.life.name.clone();
        move |store| read(store, &name)
    }

    fn recover(
        &mut self,
        stored: Stored,
        _cx: &mut Context<'_, UserMsg>,
    ) -> Result<(), StoreError> {
        self.is_made = stored.is_some();
        self.parts = stored.unwrap_or_default();
        Ok(())
    }

    fn said(&mut self, said: Said, cx: &mut Context<'_, UserMsg>) {
        let Said { message, debt } = said;
        if let Message::Stanza(stanza) = message {
            self.deliver(Delivery { stanza, debt }, cx);
        }
    }

    fn administer(
        &mut self,
        _command: AdminCommand,
        reply: Reply<AdminAnswer>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        reply.send(cx, AdminAnswer::Absent);
    }

    fn decided(&mut self, decided: Decided<Change>, cx: &mut Context<'_, UserMsg>) {
        let Change {
            changes,
            request,
            answer,
            debt,
        } = decided.what;
        let answer = match decided.result {
            Ok(()) => answer,
            Err(error) => Answer::Error(error.to_stanza_error()),
        };
        if decided.result.is_ok() {
            self.is_made = true;
            cx.stats()
                .add(Counter::ServiceChanges, changes.len() as u64);
            for (name, value) in changes {
                self.parts.set(name, value);
            }
        }
        self.answer(&request, (answer, debt), cx);
    }

    fn must_hold(&self) -> bool {
        !self.life.appends.is_empty()
    }
}
