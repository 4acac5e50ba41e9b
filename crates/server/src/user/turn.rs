//! What comes of one message: the records that it makes are appended together, its effects leave
//! behind them. Owns what happens when an append fails (docs/delivery.md).

use std::mem;
use std::time::Duration;

use actor::{Context, Mail, Name};
use net::ConnRef;
use store::Record;
use telemetry::Counter;

use super::barrier::{Append, Decided, Effect, Origin};
use super::{Phase, User};
use crate::ending::Abort;
use crate::limits::REWRITTEN_PER_SECOND;
use crate::message::control::Control;
use crate::message::credit::Debt;
use crate::message::{AppendError, UserMsg};
use wire::Source;

/// What comes of one message while it is handled.
#[derive(Default)]
pub(crate) struct Turn {
    /// Appended together when the handler ends.
    pub(super) records: Vec<Record>,
    /// What leaves with those records, or after earlier ones.
    pub(super) effects: Vec<Effect>,
    /// Whose stanza it is.
    pub(super) origin: Origin,
    /// The connection of the session whose stanza is handled, while its credit is neither given
    /// back nor on its way with what is passed on.
    pub(super) link: Option<ConnRef>,
    /// The credit of somebody else's stanza that is handled, until an answer takes it along.
    pub(super) asked: Option<Box<Debt>>,
    /// What is sent now says that a session is not there any more ([`Effect::Gone`]).
    pub(super) is_leaving: bool,
    /// A message that is being taken from another home: its sender, and the hash of that
    /// ([`store::SlotKey::peer`]), and where it is in his log.
    pub(super) taking: Option<(Name, u64, Source)>,
}

impl User {
    /// Makes a change durable together with the others of this message. State in memory changes at
    /// once; whatever leaves the user from now on waits for the commit.
    pub(crate) fn record(&mut self, record: Record) {
        let records = &mut self.turn().records;
        if records.is_empty() {
            // Most messages make one record, and it is large.
            records.reserve_exact(1);
        }
        records.push(record);
    }

    /// Says whose stanza is being handled.
    pub(crate) fn comes_from(&mut self, origin: Origin) {
        self.turn().origin = origin;
    }

    /// What came of the message so far. A shard handles one at a time, so its users share one.
    pub(super) fn turn(&mut self) -> &mut Turn {
        let home = &self.home;
        self.turn
            .get_or_insert_with(|| home.turn.take().unwrap_or_default())
    }

    /// The credit of somebody else's stanza, for whoever answers it later.
    pub(crate) fn take_asked(&mut self) -> Option<Box<Debt>> {
        self.turn.as_mut().and_then(|turn| turn.asked.take())
    }

    pub(super) fn has_records(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| !turn.records.is_empty())
    }

    pub(super) fn take_effects(&mut self) -> Vec<Effect> {
        let turn = self.turn.as_mut();
        turn.map_or_else(Vec::new, |turn| mem::take(&mut turn.effects))
    }

    /// Ends the handling of a message: hands its records over and puts its effects behind them.
    pub(super) fn settle(&mut self, cx: &mut Context<'_, UserMsg>) {
        let Some(mut turn) = self.turn.take() else {
            return;
        };
        let origin = mem::take(&mut turn.origin);
        turn.taking = None;
        turn.link = None;
        turn.asked = None;
        let records = mem::take(&mut turn.records);
        if records.is_empty() {
            if !turn.effects.is_empty() {
                self.barrier.follow(&mut turn.effects);
            }
            self.home.turn.set(Some(turn));
            return self.hold_if_full(cx);
        }
        let effects = mem::replace(&mut turn.effects, self.home.spares.effects());
        self.home.turn.set(Some(turn));
        let rewrites = self.rewritten_by(&records);
        self.charge_for(rewrites, &origin, cx);
        let ticket = self.home.journal.next_ticket();
        let range = self.range();
        let journal = &self.home.journal;
        let appended = match self.barrier.has_failed() || self.is_read_again() {
            // Behind one that failed nothing is done, although there may be room for it by now: it
            // would say what the state in memory says, which the store is about to replace.
            true => Err(AppendError::Busy),
            false => journal.append(cx, range, self.barrier.tenure, records, ticket),
        };
        match appended {
            Ok(()) => {
                let append = Append::new(ticket, origin, effects).rewriting(rewrites);
                self.barrier.push(append, &self.home.spares);
                self.hold_if_full(cx);
            }
            Err(error) => {
                let failed = Decided {
                    effects: effects.into_iter().filter_map(Effect::of_failure).collect(),
                    origin,
                    again: Vec::new(),
                };
                if let Some(mut effects) = self.failed(failed, error, cx) {
                    if self.barrier.is_open() {
                        self.count_pending_again(&effects);
                        self.perform_in_order(effects, cx);
                    } else {
                        // What it is behind has counts already.
                        self.barrier.follow(&mut effects);
                        self.count_pending_again(&[]);
                    }
                }
            }
        }
    }

    /// Bytes that the journal reads and writes for records that change what is one value in the
    /// store. Without them, whoever changes a large roster again and again would keep the journal
    /// from everybody.
    fn rewritten_by(&self, records: &[Record]) -> usize {
        let changes = records.iter().filter(|record| {
            matches!(
                record,
                Record::RosterPut { .. }
                    | Record::RosterRemove { .. }
                    | Record::BlocklistPut { .. }
            )
        });
        match changes.count() {
            0 => 0,
            changes => changes * 2 * (self.roster.packed_bytes() + self.blocklist.bytes()),
        }
    }

    /// Whoever makes the journal rewrite much sends less in the time that follows.
    fn charge_for(&self, bytes: usize, origin: &Origin, cx: &mut Context<'_, UserMsg>) {
        let Origin::Session(own) = origin else { return };
        let all = bytes.saturating_mul(self.sessions.len()) as u64;
        let micros = all.saturating_mul(1_000_000) / REWRITTEN_PER_SECOND as u64;
        if micros > 0 {
            let costs = Control::Costs(Duration::from_micros(micros));
            let _ = self.home.io.control(cx, own.link, costs);
        }
    }

    /// With too much behind commits that are not finished, new stanzas wait in the mailbox.
    fn hold_if_full(&self, cx: &mut Context<'_, UserMsg>) {
        if self.has_full_barrier() {
            cx.hold();
        }
    }

    fn has_full_barrier(&self) -> bool {
        self.barrier.is_full(&self.home.options.commits)
    }

    pub(super) fn decided(
        &mut self,
        ticket: crate::message::Ticket,
        result: Result<(), AppendError>,
        cx: &mut Context<'_, UserMsg>,
    ) {
        if result.is_err() {
            self.home.journal.heard(cx.myself());
        }
        let was_full = self.has_full_barrier();
        let spares = &self.home.spares;
        let Some(decided) = self.barrier.decide(ticket, result.is_ok(), spares) else {
            return;
        };
        if let Some(log) = &mut self.log
            && result.is_ok()
        {
            log.inbox.committed();
            if self.barrier.is_open() {
                log.was_removed = false; // That is durable.
                self.rooms_settled();
            }
        }
        let effects = match result {
            Ok(()) => Some(decided.effects),
            Err(error) => {
                let effects = self.failed(decided, error, cx);
                if let Some(first) = &effects {
                    self.count_pending_again(first);
                }
                effects
            }
        };
        let Some(effects) = effects else { return };
        self.perform_in_order(effects, cx);
        if self.stale && self.barrier.is_open() {
            self.stale = false;
            self.load(cx);
        } else if was_full && !self.has_full_barrier() && !self.is_being_read() {
            cx.release();
        }
    }

    /// Handles a failed append. Returns the effects that may still run, or `None` if the actor
    /// starts over.
    fn failed(
        &mut self,
        mut append: Decided,
        error: AppendError,
        cx: &mut Context<'_, UserMsg>,
    ) -> Option<Vec<Effect>> {
        let starts_over = self.must_start_over(error)
            || self.has_too_many_refusals(&append)
            || self.contradicts_rooms(&append);
        self.keep_founded(&mut append.effects);
        if starts_over {
            // No answer: it may have been done, and what clients are sent is counted.
            self.note_failure(error, cx);
            self.is_fenced = self.home.options.cluster.is_some();
            self.start_over(append.effects, cx);
            return None;
        }
        let told = error.to_stanza_error();
        let mut effects = Vec::new();
        for own in append.again {
            effects.extend(self.refusal_of(own, &told, cx));
        }
        match append.origin {
            Origin::Nobody => {}
            Origin::Session(own) => {
                let has_it = |effect: &Effect| effect.is_credit_for(own.link);
                if !append.effects.iter().any(has_it) {
                    effects.push(Effect::Credit(own.link));
                }
                effects.extend(self.refusal_of(own, &told, cx));
            }
            Origin::Other(frame) => self.home.return_error(cx, &frame, &told),
        }
        effects.append(&mut append.effects);
        self.append_failed(error, cx);
        Some(effects)
    }

    /// Design rule 6: what was not saved is dropped and the state comes back from the store. The
    /// mailbox is held from here until it is loaded, so that nobody sees the difference.
    fn append_failed(&mut self, error: AppendError, cx: &mut Context<'_, UserMsg>) {
        self.note_failure(error, cx);
        cx.hold();
        self.stale = true;
        self.failures = self.failures.wrapping_add(1);
        self.barrier.fail();
        for managed in self.sessions.iter_mut().filter_map(|s| s.managed.as_mut()) {
            managed.not_recorded();
        }
        if self.barrier.is_open() {
            self.stale = false;
            if !self.is_read_again() {
                self.load(cx);
            }
        }
    }

    /// The store is being read because an append has failed.
    fn is_read_again(&self) -> bool {
        self.phase == Phase::Loading && self.log.is_some()
    }

    fn note_failure(&self, error: AppendError, cx: &mut Context<'_, UserMsg>) {
        if let Some(more) = self.home.failed_changes.borrow_mut().due(cx.now()) {
            let user = &self.name;
            tracing::warn!(%user, ?error, more, "a change could not be made durable");
        }
        cx.stats().count(Counter::ChangesFailed);
    }

    /// Whether reading the state again is not enough: nobody knows whether an append survived. Nor
    /// is it while the storage fails: the error that a client would be told is in no log, so that a
    /// kill could lose it although the stanza counts as handled. Nor once the account was removed:
    /// of what it had nothing is in memory to go on from.
    fn must_start_over(&self, error: AppendError) -> bool {
        let is_failing = match error {
            AppendError::Failed | AppendError::Unavailable => true,
            // It follows one that was in doubt, or another home has the range. One that follows a
            // refused one is refused like it.
            AppendError::Fenced => !self.stale,
            AppendError::Busy | AppendError::Full | AppendError::Invalid => false,
        };
        let was_removed = self.log.as_ref().is_some_and(|log| log.was_removed);
        self.log.is_some() && is_failing || was_removed
    }

    /// Nobody knows whether an append survived: what clients were given and what the log says may
    /// differ. As after a crash, connections end, and everything comes from the store.
    pub(super) fn start_over(&mut self, effects: Vec<Effect>, cx: &mut Context<'_, UserMsg>) {
        for effect in effects {
            if let Some(conn) = effect.awaited_by() {
                self.end_waiting(conn, cx);
            } else if matches!(effect, Effect::Answer(..) | Effect::Gone { .. }) {
                self.perform(effect, cx);
            }
        }
        cx.stop_with(actor::Reason::Killed);
    }

    /// Ends a connection that waits for an answer of this user: it would wait for ever. One that
    /// outlived the life before this one asks the next one.
    pub(super) fn end_waiting(&self, conn: ConnRef, cx: &mut Context<'_, UserMsg>) {
        let managed = self.sessions.iter().filter_map(|s| s.managed.as_ref());
        let mut adopted = managed.filter(|managed| managed.is_adopted());
        let why = match adopted.any(|managed| managed.resuming() == Some(conn)) {
            true => Abort::Moved,
            false => self.why_it_ends(),
        };
        let _ = self.home.io.control(cx, conn, Control::Abort(why));
    }

    /// Why streams end with this life of the user, which nobody asked for.
    pub(super) fn why_it_ends(&self) -> Abort {
        match self.is_fenced || self.home.is_elsewhere(&self.name) {
            true => Abort::Moved,
            false => Abort::Crash,
        }
    }
}
