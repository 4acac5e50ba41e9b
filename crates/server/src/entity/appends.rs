//! Appends of a room or a service that are not decided, in order. What depends on an append leaves
//! in its turn, once it is durable. While an append that failed waits for its turn, nothing is
//! appended behind it. After an append in doubt the actor starts over.

use std::collections::VecDeque;

use actor::{Context, Mail};
use store::{RangeId, Record, Tenure};
use telemetry::Counter;

use crate::home::Home;
use crate::message::{AppendError, Ticket, UserMsg};

/// Whether an append was made after another one. Tickets wrap around.
fn is_after(ticket: Ticket, other: Ticket) -> bool {
    (ticket.0.wrapping_sub(other.0) as i32) > 0
}

/// An append that is not decided, or something that waits for one in front of it that is not.
struct Waiting<W> {
    ticket: Ticket,
    what: W,
    result: Option<Result<(), AppendError>>,
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is durable.
    Done {
        /// It waited behind one that was refused.
        was_behind_refused: bool,
    },
    /// It never will be.
    Refused(AppendError),
    /// Nobody knows, or another home has the range.
    InDoubt,
}

/// Appends of one entity; `W` is what each is for.
pub(crate) struct Appends<W> {
    range: RangeId,
    tenure: Tenure,
    last_ticket: Ticket,
    waiting: VecDeque<Waiting<W>>,
    /// Appends up to here may fail because one in front of them did.
    refused_through: Option<Ticket>,
}

impl<W> Appends<W> {
    pub(crate) fn new(range: RangeId) -> Appends<W> {
        Appends {
            range,
            tenure: Tenure::default(),
            last_ticket: Ticket::default(),
            waiting: VecDeque::new(),
            refused_through: None,
        }
    }

    fn next_ticket(&mut self, home: &Home) -> Ticket {
        self.last_ticket = home.journal.next_ticket();
        self.last_ticket
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &W> {
        self.waiting.iter().map(|waiting| &waiting.what)
    }

    /// Whether nothing that an earlier life of the entity appended is undecided. If not, `what`
    /// waits until that is so.
    pub(crate) fn is_settled(
        &mut self,
        what: W,
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) -> bool {
        if home.journal.is_settled(self.range) {
            return true;
        }
        let ticket = self.next_ticket(home);
        self.waiting.push_back(Waiting {
            ticket,
            what,
            result: None,
        });
        home.journal.await_settled(cx, self.range, ticket);
        false
    }

    /// The entity is about to be read: what another home appends from here on is noticed.
    pub(crate) fn begin(&mut self, home: &Home) {
        self.tenure = home.journal.tenure(self.range);
    }

    /// Appends records together.
    pub(crate) fn append(
        &mut self,
        records: Vec<Record>,
        what: W,
        home: &Home,
        cx: &mut Context<'_, UserMsg>,
    ) {
        let ticket = self.next_ticket(home);
        // Behind one that failed nothing may be done: its message comes again, in front of these.
        let has_failed = self
            .waiting
            .iter()
            .any(|waiting| matches!(waiting.result, Some(Err(_))));
        let handed_over = match has_failed {
            true => Err(AppendError::Busy),
            false => home
                .journal
                .append(cx, self.range, self.tenure, records, ticket),
        };
        self.waiting.push_back(Waiting {
            ticket,
            what,
            result: handed_over.err().map(Err),
        });
    }

    /// Something that needs no append keeps its place behind others.
    pub(crate) fn keep_place(&mut self, what: W, home: &Home) {
        let ticket = self.next_ticket(home);
        self.waiting.push_back(Waiting {
            ticket,
            what,
            result: Some(Ok(())),
        });
    }

    /// The journal's word about an append; [`Appends::next`] gives it out when it is its turn.
    pub(crate) fn decided(
        &mut self,
        ticket: Ticket,
        result: Result<(), AppendError>,
        home: &Home,
        cx: &Context<'_, UserMsg>,
    ) {
        if result.is_err() {
            home.journal.heard(cx.myself());
        }
        let mut waiting = self.waiting.iter_mut();
        if let Some(found) = waiting.find(|waiting| waiting.ticket == ticket) {
            found.result = Some(result);
        }
    }

    /// The first one, if it is decided: those the journal did not take are without its word.
    pub(crate) fn next(&mut self, cx: &mut Context<'_, UserMsg>) -> Option<(W, Fate)> {
        if self.waiting.is_empty() {
            self.refused_through = None;
        }
        let first = self
            .waiting
            .pop_front_if(|waiting| waiting.result.is_some())?;
        let was_behind_refused = self
            .refused_through
            .is_some_and(|through| !is_after(first.ticket, through));
        let fate = match first.result {
            None | Some(Ok(())) => Fate::Done { was_behind_refused },
            Some(Err(AppendError::Failed)) => Fate::InDoubt,
            Some(Err(AppendError::Fenced)) if !was_behind_refused => Fate::InDoubt,
            Some(Err(error)) => Fate::Refused(error),
        };
        match fate {
            Fate::Done { .. } => {}
            Fate::InDoubt => cx.stats().count(Counter::ChangesFailed),
            Fate::Refused(_) => {
                cx.stats().count(Counter::ChangesFailed);
                self.refused_through = Some(self.last_ticket);
            }
        }
        Some((first.what, fate))
    }
}
