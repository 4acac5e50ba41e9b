//! The actor that empties a shard's queue: hands what was collected to the journal as one batch and
//! tells each actor what became of its part. At most one batch of a shard is under way: while it
//! is, the next one collects, so that the group grows with the load by itself. What is in doubt is
//! looked at until the journal knows; meanwhile its range waits and the others go on.

use std::mem;

use actor::{Actor, Addr, AskError, Context, Mail, Reply};
use store::{Append, AppendBatch, AppendFailure, Busy, Outcome, RangeId, Record, SlotKey, Writer};
use telemetry::Gauge;

use super::import::Imported;
use super::{Owner, Shared, Who};
use crate::message::{AppendError, UserMsg};

/// The port's mailbox.
pub(crate) enum PortMsg {
    /// Something was collected in this turn.
    Flush,
    /// The journal has answered the batch of this number, or let go of it.
    Decided(u64, Result<Vec<Outcome>, AskError>),
    /// Something was in doubt a moment ago.
    Look,
    /// It is asked once more whether a batch is decided whose answer is lost.
    Probe,
    /// Ranges come, or are gone: entities are loaded in new tenures from now on.
    Moved(Vec<RangeId>, Reply<()>),
    /// An administrator's records of accounts that are at home on this shard.
    Import {
        /// Decides the ranges.
        slots: SlotKey,
        /// All of them.
        records: Vec<Record>,
        /// Answered once everything is decided.
        reply: Reply<Imported>,
    },
}

/// The actor behind a [`super::Port`].
pub(super) struct PortActor {
    queue: Shared,
}

impl PortActor {
    pub(super) fn new(queue: Shared) -> PortActor {
        PortActor { queue }
    }

    fn flush(&mut self, cx: &mut Context<'_, PortMsg>) {
        let mut queue = self.queue.borrow_mut();
        if !queue.under_way.owners.is_empty() {
            // Its answer flushes.
            return;
        }
        let (appends, owners) = queue.take_ready();
        queue.is_scheduled = !owners.is_empty();
        if owners.is_empty() {
            return;
        }
        queue.under_way.bytes = super::bytes_of(&owners);
        queue.under_way.owners = owners;
        drop(queue);
        self.hand_over(appends, cx);
    }

    fn hand_over(&mut self, appends: Vec<Append>, cx: &mut Context<'_, PortMsg>) {
        let batch = AppendBatch::new(appends);
        let (journal, number) = {
            let mut queue = self.queue.borrow_mut();
            queue.under_way.number += 1;
            let may_grow = !queue.under_way.is_lost;
            queue.under_way.adding = may_grow.then(|| batch.adding());
            (queue.journal.clone(), queue.under_way.number)
        };
        // No deadline: a disk that stalls is waited for, and what may still happen did not fail.
        // Invariant: an actor may wait for far more answers than this one's single commit.
        let reply = cx
            .expect_without_deadline(move |outcomes| PortMsg::Decided(number, outcomes))
            .expect("one answer is awaited at a time");
        let done = Box::new(move |outcomes: Vec<Outcome>| reply.answer(outcomes));
        let Err(Busy { appends, .. }) = journal.append_batch(batch, done) else {
            return;
        };
        let mut queue = self.queue.borrow_mut();
        // That there is no answer is no news.
        queue.under_way.number += 1;
        queue.under_way.adding = None;
        if queue.under_way.is_lost {
            cx.send_after(queue.options.busy_retry, PortMsg::Probe);
        } else {
            // Whoever appends beyond the bounds of the queue is told; these were taken.
            let owners = mem::take(&mut queue.under_way.owners);
            queue.put_back(appends, owners);
            cx.send_after(queue.options.busy_retry, PortMsg::Flush);
        }
    }

    fn decided(
        &mut self,
        number: u64,
        outcomes: Result<Vec<Outcome>, AskError>,
        cx: &mut Context<'_, PortMsg>,
    ) {
        let (is_lost, count) = {
            let under_way = &self.queue.borrow().under_way;
            if under_way.number != number {
                return;
            }
            (under_way.is_lost, under_way.owners.len())
        };
        match outcomes {
            Ok(outcomes) if is_lost => return self.probed(&outcomes, cx),
            Err(_) if is_lost => return self.probe_later(cx),
            Ok(outcomes) if outcomes.len() == count => self.told(outcomes, cx),
            Ok(_) => return self.lost("one outcome for each append was expected", cx),
            Err(error) => return self.lost(&error.to_string(), cx),
        }
        self.flush(cx);
    }

    /// The batch under way is decided, but for what is in doubt.
    fn told(&mut self, outcomes: Vec<Outcome>, cx: &mut Context<'_, PortMsg>) {
        let mut failed = Vec::new();
        let was_clear = self.queue.borrow().in_doubt.is_empty();
        for outcome in outcomes {
            let mut queue = self.queue.borrow_mut();
            let Some(owner) = queue.under_way.owners.pop_front() else {
                break;
            };
            let behind = queue.in_doubt.get_mut(&owner.range);
            match (behind, &outcome) {
                (Some(behind), _) => behind.push_back((owner, outcome)),
                (None, Outcome::InDoubt(doubt)) => {
                    tracing::error!(why = doubt.why(), "a commit is in doubt");
                    queue
                        .in_doubt
                        .insert(owner.range, [(owner, outcome)].into());
                }
                (None, _) => {
                    drop(queue);
                    self.conclude(owner, outcome, &mut failed, cx);
                }
            }
        }
        self.fence_followers(&failed, cx);
        if was_clear && !self.queue.borrow().in_doubt.is_empty() {
            self.look_later(cx);
        }
    }

    fn look_later(&self, cx: &mut Context<'_, PortMsg>) {
        cx.send_after(self.queue.borrow().options.doubt_poll, PortMsg::Look);
    }

    /// Asks what became of what is in doubt.
    fn look(&mut self, cx: &mut Context<'_, PortMsg>) {
        let mut ranges: Vec<RangeId> = self.queue.borrow().in_doubt.keys().copied().collect();
        ranges.sort_unstable();
        let mut failed = Vec::new();
        for range in ranges {
            while let Some((owner, outcome)) = self.next_resolved(range) {
                self.conclude(owner, outcome, &mut failed, cx);
            }
        }
        self.fence_followers(&failed, cx);
        if !self.queue.borrow().in_doubt.is_empty() {
            self.look_later(cx);
        }
        self.flush(cx);
    }

    /// Takes the first append of a range in which nothing is in doubt any more. The range goes on
    /// after the last one.
    fn next_resolved(&self, range: RangeId) -> Option<(Owner, Outcome)> {
        let mut queue = self.queue.borrow_mut();
        let waiting = queue.in_doubt.get_mut(&range)?;
        // All of a range or nothing: the journal resolves the doubts of a commit one by one, and
        // whoever hears of the first has its later appends fenced, behind the outcome of others.
        let is_known = |outcome: &Outcome| match outcome {
            Outcome::InDoubt(doubt) => doubt.resolved().is_some(),
            _ => true,
        };
        if !waiting.iter().all(|(_, outcome)| is_known(outcome)) {
            return None;
        }
        let Some((owner, outcome)) = waiting.pop_front() else {
            queue.in_doubt.remove(&range);
            return None;
        };
        let Outcome::InDoubt(doubt) = &outcome else {
            return Some((owner, outcome));
        };
        let known = doubt.resolved()?;
        let is_committed = matches!(known, Outcome::Committed(_));
        tracing::warn!(
            is_committed,
            "the journal knows what became of a commit in doubt"
        );
        Some((owner, known))
    }

    fn conclude(
        &mut self,
        owner: Owner,
        outcome: Outcome,
        failed: &mut Vec<Addr<UserMsg>>,
        cx: &mut Context<'_, PortMsg>,
    ) {
        let result = match outcome {
            Outcome::Committed(_) => Ok(()),
            Outcome::Fenced => {
                let mut queue = self.queue.borrow_mut();
                queue.end_tenure(owner.range, owner.tenure);
                Err(AppendError::Fenced)
            }
            Outcome::Failed(AppendFailure::Full) => Err(AppendError::Full),
            Outcome::Failed(AppendFailure::Follows) => Err(AppendError::Fenced),
            Outcome::Failed(AppendFailure::Unavailable(_)) => Err(AppendError::Unavailable),
            Outcome::Failed(AppendFailure::Invalid(why)) => {
                tracing::error!(%why, "an append is invalid");
                Err(AppendError::Invalid)
            }
            // Whoever resolved it does not know either.
            Outcome::InDoubt(_) => Err(AppendError::Failed),
        };
        if result.is_err()
            && let Some(actor) = owner.who.actor()
            && !failed.contains(&actor)
        {
            failed.push(actor);
        }
        self.tell(owner, result, cx);
    }

    /// What actors appended since an append of theirs failed was built on state that never came to
    /// be.
    fn fence_followers(&mut self, failed: &[Addr<UserMsg>], cx: &mut Context<'_, PortMsg>) {
        if failed.is_empty() {
            return;
        }
        let stale = self.queue.borrow_mut().take_of(failed);
        for owner in stale {
            self.tell(owner, Err(AppendError::Fenced), cx);
        }
    }

    fn tell(&self, owner: Owner, result: Result<(), AppendError>, cx: &mut Context<'_, PortMsg>) {
        cx.stats().lower(Gauge::JournalWaiting);
        let mut queue = self.queue.borrow_mut();
        queue.settle(owner.range);
        let (addr, ticket, result) = match owner.who {
            Who::User(addr, ticket) => (addr, ticket, result),
            // Whatever became of the question: what was appended before is decided.
            Who::Waiter(addr, ticket) => (addr, ticket, Ok(())),
            Who::Import(number) => return queue.imports.decided(number, result, cx),
        };
        drop(queue);
        match cx.send_priority(addr, UserMsg::Decided { ticket, result }) {
            Ok(()) if result.is_err() => {
                *self.queue.borrow_mut().unheard.entry(addr).or_insert(0) += 1;
            }
            // An actor that is gone has nobody left to tell: its clients were told when it ended.
            Ok(()) | Err(actor::SendError::Gone(_)) => {}
            // It would wait for ever: its next life reads what is there.
            Err(actor::SendError::Full(_)) => cx.kill(addr.id()),
        }
    }
}

// ---- Answers that are lost ---------------------------------------------------------------------

impl PortActor {
    /// Nobody will say what became of the batch under way: the port crashed, or the journal let go
    /// of it. New tenures keep it from coming to be any more; an empty append of each range, behind
    /// everything else, tells when all of it is decided.
    fn lost(&mut self, why: &str, cx: &mut Context<'_, PortMsg>) {
        tracing::error!(why, "the answer to a commit is lost");
        {
            let under_way = &mut self.queue.borrow_mut().under_way;
            under_way.is_lost = true;
            under_way.adding = None;
        }
        self.probe(cx);
    }

    fn probe_later(&self, cx: &mut Context<'_, PortMsg>) {
        cx.send_after(self.queue.borrow().options.doubt_poll, PortMsg::Probe);
    }

    fn probe(&mut self, cx: &mut Context<'_, PortMsg>) {
        let mut queue = self.queue.borrow_mut();
        let owners = queue.under_way.owners.iter();
        let mut ranges: Vec<RangeId> = owners.map(|owner| owner.range).collect();
        ranges.sort_unstable();
        ranges.dedup();
        let mut appends = Vec::new();
        for range in ranges {
            queue.tenures.remove(&range);
            appends.push(Append {
                range,
                tenure: queue.tenure(range),
                writer: Writer::NOBODY,
                records: Vec::new(),
            });
        }
        drop(queue);
        self.hand_over(appends, cx);
    }

    fn probed(&mut self, outcomes: &[Outcome], cx: &mut Context<'_, PortMsg>) {
        let is_decided = |outcome: &Outcome| matches!(outcome, Outcome::Committed(_));
        if !outcomes.iter().all(is_decided) {
            return self.probe_later(cx);
        }
        let mut actors: Vec<Addr<UserMsg>> = Vec::new();
        loop {
            let mut queue = self.queue.borrow_mut();
            let Some(owner) = queue.under_way.owners.pop_front() else {
                queue.under_way.is_lost = false;
                break;
            };
            drop(queue);
            actors.extend(owner.who.actor());
            self.tell(owner, Err(AppendError::Failed), cx);
        }
        self.fence_followers(&actors, cx);
        self.flush(cx);
    }
}

impl Actor for PortActor {
    type Msg = PortMsg;

    /// Takes up what the port before it left.
    fn started(&mut self, cx: &mut Context<'_, PortMsg>) {
        let (has_batch, is_in_doubt) = {
            let queue = self.queue.borrow();
            (
                !queue.under_way.owners.is_empty(),
                !queue.in_doubt.is_empty(),
            )
        };
        if is_in_doubt {
            self.look_later(cx);
        }
        if has_batch {
            self.lost("the port crashed", cx);
        } else {
            self.flush(cx);
        }
    }

    fn handle(&mut self, msg: PortMsg, cx: &mut Context<'_, PortMsg>) {
        match msg {
            PortMsg::Flush => self.flush(cx),
            PortMsg::Decided(number, outcomes) => self.decided(number, outcomes, cx),
            PortMsg::Probe => self.probe(cx),
            PortMsg::Look => self.look(cx),
            PortMsg::Moved(ranges, reply) => {
                self.queue.borrow_mut().forget(&ranges);
                reply.send(cx, ());
            }
            PortMsg::Import {
                slots,
                records,
                reply,
            } => {
                let mut queue = self.queue.borrow_mut();
                let count = queue.import(&slots, records, reply, cx);
                for _ in 0..count {
                    cx.stats().raise(Gauge::JournalWaiting);
                }
                queue.schedule(cx);
            }
        }
    }
}
