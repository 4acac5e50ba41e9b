//! The shard's port to the journal: collects what the actors of a shard append, hands it over as
//! one batch, and tells each actor what became of its part. At most one batch of a shard is under
//! way: while it is, the next one collects, so that the group grows with the load by itself and the
//! expected position of a range is always known.

use std::cell::RefCell;
use std::collections::HashSet;
use std::mem;
use std::rc::Rc;
use std::sync::Arc;

use actor::{Actor, Addr, AskError, Context, Mail};
use rustc_hash::FxHashMap;
use store::{Append, AppendFailure, Busy, Journal, Outcome, Position, RangeId, Record};
use telemetry::Gauge;

use crate::limits::{COMMIT_DEADLINE, JOURNAL_BACKLOG_MAX};
use crate::message::{AppendError, UserMsg};

/// Identifies one append of one actor; the actor chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticket(pub u64);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Owner {
    addr: Addr<UserMsg>,
    range: RangeId,
    ticket: Ticket,
}

/// The port's mailbox.
pub(crate) enum PortMsg {
    /// Something was collected in this turn.
    Flush,
    /// The journal has decided the batch, or nobody knows what became of it.
    Decided(Result<Vec<Outcome>, AskError>),
}

/// The shared half: where actors of the shard leave their appends.
#[derive(Default)]
struct Collected {
    appends: Vec<Append>,
    /// Whose each of them is.
    owners: Vec<Owner>,
    /// Appends of each range that are not decided.
    undecided: FxHashMap<RangeId, u32>,
    /// A `Flush` is on its way or a batch is under way: nothing needs to be sent.
    scheduled: bool,
}

/// The handle that actors of one shard append with.
#[derive(Clone)]
pub struct Port {
    collected: Rc<RefCell<Collected>>,
    addr: Addr<PortMsg>,
}

impl Port {
    /// Hands `records` over as one atomic append. The actor at `addr` is told the outcome by
    /// [`UserMsg::Decided`], in the order of its appends.
    ///
    /// # Errors
    /// [`AppendError::Busy`] if the shard's backlog is full; nothing was taken.
    pub fn append(
        &self,
        cx: &mut Context<'_, UserMsg>,
        range: RangeId,
        records: Vec<Record>,
        ticket: Ticket,
    ) -> Result<(), AppendError> {
        let mut collected = self.collected.borrow_mut();
        if collected.owners.len() >= JOURNAL_BACKLOG_MAX {
            return Err(AppendError::Busy);
        }
        let owner = Owner {
            addr: cx.myself(),
            range,
            ticket,
        };
        *collected.undecided.entry(range).or_insert(0) += 1;
        collected.appends.push(Append {
            range,
            // Known when it is handed over.
            expected: Position::default(),
            records,
        });
        collected.owners.push(owner);
        if !mem::replace(&mut collected.scheduled, true) {
            // Normal lane on purpose: everything that runs before it joins the batch.
            if cx.send(self.addr, PortMsg::Flush).is_err() {
                collected.scheduled = false;
                collected.appends.pop();
                collected.owners.pop();
                collected.settle(range);
                return Err(AppendError::Busy);
            }
        }
        cx.stats().raise(Gauge::JournalWaiting);
        Ok(())
    }
}

impl Port {
    /// Whether nothing of a range waits for its commit.
    pub fn is_settled(&self, range: RangeId) -> bool {
        !self.collected.borrow().undecided.contains_key(&range)
    }
}

impl Collected {
    /// Takes out what some actors appended, and tells whose it was.
    fn take_of(&mut self, actors: &HashSet<Addr<UserMsg>>) -> Vec<Owner> {
        let waiting = mem::take(&mut self.appends).into_iter();
        let waiting = waiting.zip(mem::take(&mut self.owners));
        let (stale, good): (Vec<_>, Vec<_>) =
            waiting.partition(|(_, owner)| actors.contains(&owner.addr));
        (self.appends, self.owners) = good.into_iter().unzip();
        stale.into_iter().map(|(_, owner)| owner).collect()
    }

    fn settle(&mut self, range: RangeId) {
        if let Some(count) = self.undecided.get_mut(&range) {
            *count -= 1;
            if *count == 0 {
                self.undecided.remove(&range);
            }
        }
    }
}

/// The actor behind a [`Port`].
pub(crate) struct PortActor {
    journal: Arc<dyn Journal>,
    collected: Rc<RefCell<Collected>>,
    under_way: Vec<Owner>,
    expected: FxHashMap<RangeId, Position>,
}

impl PortActor {
    /// Makes the actor and a function that turns its address into the handle for others.
    pub(crate) fn new(journal: Arc<dyn Journal>) -> (Self, impl FnOnce(Addr<PortMsg>) -> Port) {
        let collected = Rc::new(RefCell::new(Collected::default()));
        let shared = Rc::clone(&collected);
        let actor = PortActor {
            journal,
            collected,
            under_way: Vec::new(),
            expected: FxHashMap::default(),
        };
        (actor, move |addr| Port {
            collected: shared,
            addr,
        })
    }

    fn flush(&mut self, cx: &mut Context<'_, PortMsg>) {
        let mut collected = self.collected.borrow_mut();
        if collected.owners.is_empty() {
            collected.scheduled = false;
            return;
        }
        // The next batch is about as large.
        let next = Vec::with_capacity(collected.appends.len());
        let mut appends = mem::replace(&mut collected.appends, next);
        mem::swap(&mut self.under_way, &mut collected.owners);
        drop(collected);
        for append in &mut appends {
            let (journal, range) = (&self.journal, append.range);
            let expected = self.expected.entry(range);
            let expected = expected.or_insert_with(|| journal.position(range));
            append.expected = *expected;
            *expected = expected.next();
        }
        // Invariant: an actor may wait for far more answers than this one's single commit.
        let reply = cx
            .expect(COMMIT_DEADLINE, PortMsg::Decided)
            .expect("one answer is awaited at a time");
        let done = Box::new(move |outcomes: Vec<Outcome>| reply.answer(outcomes));
        if let Err(Busy { .. }) = self.journal.append(appends, done) {
            self.expected.clear();
            for owner in mem::take(&mut self.under_way) {
                self.tell(cx, owner, Err(AppendError::Busy));
            }
            self.collected.borrow_mut().scheduled = false;
        }
    }

    fn decided(&mut self, outcomes: Result<Vec<Outcome>, AskError>, cx: &mut Context<'_, PortMsg>) {
        let mut owners = mem::take(&mut self.under_way);
        let outcomes = outcomes.unwrap_or_else(|error| {
            tracing::error!(%error, "a commit was given up");
            vec![Outcome::Failed(AppendFailure::Io(error.to_string())); owners.len()]
        });
        assert_eq!(owners.len(), outcomes.len(), "one outcome for each append");
        let mut failed = HashSet::new();
        for (owner, outcome) in owners.drain(..).zip(outcomes) {
            let result = match outcome {
                Outcome::Committed(_) => Ok(()),
                Outcome::Fenced(_) => Err(AppendError::Fenced),
                Outcome::Failed(AppendFailure::Full) => Err(AppendError::Full),
                Outcome::Failed(_) => Err(AppendError::Failed),
            };
            if result.is_err() {
                failed.insert(owner.addr);
            }
            self.tell(cx, owner, result);
        }
        if !failed.is_empty() {
            // Positions are asked for anew, and what the failed actors appended since then was
            // built on state that never came to be.
            self.expected.clear();
            let stale = self.collected.borrow_mut().take_of(&failed);
            for owner in stale {
                self.tell(cx, owner, Err(AppendError::Fenced));
            }
        }
        // Empty, and large enough for the next batch.
        self.under_way = owners;
        self.flush(cx);
    }
}

impl PortActor {
    fn tell(&self, cx: &mut Context<'_, PortMsg>, owner: Owner, result: Result<(), AppendError>) {
        self.collected.borrow_mut().settle(owner.range);
        cx.stats().lower(Gauge::JournalWaiting);
        // An actor that is gone has nobody left to tell: its clients were told when it ended.
        let _ = cx.send_priority(
            owner.addr,
            UserMsg::Decided {
                ticket: owner.ticket,
                result,
            },
        );
    }
}

impl Actor for PortActor {
    type Msg = PortMsg;

    fn handle(&mut self, msg: PortMsg, cx: &mut Context<'_, PortMsg>) {
        match msg {
            PortMsg::Flush => self.flush(cx),
            PortMsg::Decided(outcomes) => self.decided(outcomes, cx),
        }
    }
}
