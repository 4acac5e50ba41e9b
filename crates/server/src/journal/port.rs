//! The actor that empties a shard's queue: hands what was collected to the journal as one batch and
//! tells each actor what became of its part. Of each group of ranges at most one batch of a shard
//! is under way: while it is, the next one collects, so that batches grow with the load by
//! themselves, and a group whose commits take long keeps nobody of another one waiting. What is
//! in doubt is looked at until the journal knows; meanwhile its range waits and the others go on.

use std::cell::RefMut;

use actor::{Actor, Addr, AskError, Context, Mail, Reply};
use store::{Append, AppendBatch, AppendFailure, Busy, Outcome, RangeId, Record, SlotKey, Writer};
use telemetry::Gauge;

use super::import::Imported;
use super::queue::{Group, Owner, UnderWay};
use super::{Shared, Who};
use crate::message::{AppendError, UserMsg};

/// The port's mailbox.
pub(crate) enum PortMsg {
    /// Something was collected in this turn.
    Flush,
    /// The journal has answered the batch of this group and number, or let go of it.
    Decided(Group, u64, Result<Vec<Outcome>, AskError>),
    /// Something was in doubt a moment ago.
    Look,
    /// It is asked once more whether a group's batch is decided whose answer is lost.
    Probe(Group),
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
        self.queue.borrow_mut().is_scheduled = false;
        // Groups with a batch under way are left out: its answer flushes.
        while let Some((group, appends)) = self.take_ready()
            && self.hand_over(group, appends, cx)
        {}
    }

    fn take_ready(&self) -> Option<(Group, Vec<Append>)> {
        self.queue.borrow_mut().take_ready()
    }

    fn under_way(&self, group: Group) -> RefMut<'_, UnderWay> {
        RefMut::map(self.queue.borrow_mut(), |queue| {
            &mut queue.under_way[usize::from(group)]
        })
    }

    /// False if the journal has no room: once more, a moment later.
    fn hand_over(
        &mut self,
        group: Group,
        appends: Vec<Append>,
        cx: &mut Context<'_, PortMsg>,
    ) -> bool {
        let batch = AppendBatch::new(appends);
        let journal = self.queue.borrow().journal.clone();
        let number = {
            let mut under_way = self.under_way(group);
            under_way.number += 1;
            under_way.adding = (!under_way.is_lost).then(|| batch.adding());
            under_way.number
        };
        // No deadline: a disk that stalls is waited for, and what may still happen did not fail.
        // Invariant: an actor may wait for far more answers than one for each group.
        let reply = cx
            .expect_without_deadline(move |outcomes| PortMsg::Decided(group, number, outcomes))
            .expect("one answer for each group is awaited at a time");
        let done = Box::new(move |outcomes: Vec<Outcome>| reply.answer(outcomes));
        let Err(Busy { appends, .. }) = journal.append_batch(batch, done) else {
            return true;
        };
        let mut queue = self.queue.borrow_mut();
        let under_way = &mut queue.under_way[usize::from(group)];
        // That there is no answer is no news.
        under_way.number += 1;
        under_way.adding = None;
        if under_way.is_lost {
            cx.send_after(queue.options.busy_retry, PortMsg::Probe(group));
        } else {
            // Whoever appends beyond the bounds of the queue is told; these were taken.
            queue.put_back(group, appends);
            queue.is_scheduled = true;
            cx.send_after(queue.options.busy_retry, PortMsg::Flush);
        }
        false
    }

    fn decided(
        &mut self,
        (group, number): (Group, u64),
        outcomes: Result<Vec<Outcome>, AskError>,
        cx: &mut Context<'_, PortMsg>,
    ) {
        let (is_lost, count) = {
            let under_way = self.under_way(group);
            if under_way.number != number {
                return;
            }
            (under_way.is_lost, under_way.owners.len())
        };
        match outcomes {
            Ok(outcomes) if is_lost => return self.probed(group, &outcomes, cx),
            Err(_) if is_lost => return self.probe_later(group, cx),
            Ok(outcomes) if outcomes.len() == count => self.told(group, outcomes, cx),
            Ok(_) => return self.lost(group, "one outcome for each append was expected", cx),
            Err(error) => return self.lost(group, &error.to_string(), cx),
        }
        self.flush(cx);
    }

    /// A group's batch under way is decided, but for what is in doubt.
    fn told(&mut self, group: Group, outcomes: Vec<Outcome>, cx: &mut Context<'_, PortMsg>) {
        let mut failed = Vec::new();
        let was_clear = self.queue.borrow().in_doubt.is_empty();
        for outcome in outcomes {
            let Some(owner) = self.under_way(group).owners.pop_front() else {
                break;
            };
            let mut queue = self.queue.borrow_mut();
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
    fn lost(&mut self, group: Group, why: &str, cx: &mut Context<'_, PortMsg>) {
        tracing::error!(why, "the answer to a commit is lost");
        {
            let mut under_way = self.under_way(group);
            under_way.is_lost = true;
            under_way.adding = None;
        }
        self.probe(group, cx);
    }

    fn probe_later(&self, group: Group, cx: &mut Context<'_, PortMsg>) {
        cx.send_after(
            self.queue.borrow().options.doubt_poll,
            PortMsg::Probe(group),
        );
    }

    fn probe(&mut self, group: Group, cx: &mut Context<'_, PortMsg>) {
        let range = |owner: &Owner| owner.range;
        let mut ranges: Vec<RangeId> = self.under_way(group).owners.iter().map(range).collect();
        ranges.sort_unstable();
        ranges.dedup();
        let mut queue = self.queue.borrow_mut();
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
        self.hand_over(group, appends, cx);
    }

    fn probed(&mut self, group: Group, outcomes: &[Outcome], cx: &mut Context<'_, PortMsg>) {
        let is_decided = |outcome: &Outcome| matches!(outcome, Outcome::Committed(_));
        if !outcomes.iter().all(is_decided) {
            return self.probe_later(group, cx);
        }
        let mut actors: Vec<Addr<UserMsg>> = Vec::new();
        loop {
            let owner = self.under_way(group).owners.pop_front();
            let Some(owner) = owner else {
                self.under_way(group).is_lost = false;
                break;
            };
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
        if !self.queue.borrow().in_doubt.is_empty() {
            self.look_later(cx);
        }
        let groups = 0..self.queue.borrow().under_way.len();
        // Invariant: the journal numbers groups by a `Group`.
        for group in groups.filter_map(|group| Group::try_from(group).ok()) {
            if self.queue.borrow().is_under_way(group) {
                self.lost(group, "the port crashed", cx);
            }
        }
        self.flush(cx);
    }

    fn handle(&mut self, msg: PortMsg, cx: &mut Context<'_, PortMsg>) {
        match msg {
            PortMsg::Flush => self.flush(cx),
            PortMsg::Decided(group, number, outcomes) => {
                self.decided((group, number), outcomes, cx);
            }
            PortMsg::Probe(group) => self.probe(group, cx),
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
            }
        }
    }
}
