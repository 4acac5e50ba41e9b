//! One sender with the shipped [`Outbox`], two recipients with the shipped [`Marks`], and between
//! them mailboxes in order. What is durable outlives crashes; nothing else does. Which step may
//! come next is in `steps.rs`.

use std::collections::VecDeque;

use delivery::{
    Accept, Attempt, Changes, Effect, HandOver, Listed, Marks, Outbox, OutboxLimits, Page, Place,
    ReadId, Reason, Recognised, Refusal,
};
use stdx::time::{Moment, Timestamp};

use super::rules;
use crate::reached::{Reached, seen};

pub(crate) type Dest = u8;

/// Recipients.
pub(crate) const DESTS: [Dest; 2] = [0, 1];

pub(crate) const NOW: Moment = Moment::ZERO;
pub(crate) const SENDER: u8 = 0;

/// How often what may happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) messages: u8,
    pub(crate) refusals: u8,
    pub(crate) finals: u8,
    pub(crate) silences: u8,
    pub(crate) lost_answers: u8,
    pub(crate) crashes: u8,
    pub(crate) kills: u8,
    pub(crate) failed_commits: u8,
    pub(crate) doubtful_commits: u8,
    pub(crate) failed_reads: u8,
    pub(crate) drops: u8,
    /// Copies that wait on their way, as for want of a home.
    pub(crate) waits: u8,
    pub(crate) ages: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) limits: OutboxLimits,
    pub(crate) budget: Budget,
    pub(crate) reached: Reached,
}

/// A record of the sender that is not committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Append {
    Entry(Place, Dest),
    Marks(Changes<Dest>),
    Error(Place, Dest, Reason<()>, Option<Changes<Dest>>),
}

/// What the sender's store holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Stored {
    pub(crate) entries: Vec<(Place, Dest)>,
    pub(crate) mark: Place,
    pub(crate) lagging: Vec<(Dest, Place)>,
    pub(crate) returned: Vec<(Place, Reason<()>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Parcel {
    pub(crate) place: Place,
    pub(crate) over: HandOver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    Taken(Place),
    Refused(Place, Attempt, Refusal, bool),
}

/// One recipient's home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recipient {
    /// What was taken and is durable, in the order of its log.
    pub(crate) taken: Vec<Place>,
    /// What was taken and is not committed.
    pub(crate) taking: VecDeque<Place>,
    pub(crate) marks: Marks<u8>,
    pub(crate) mailbox: VecDeque<Parcel>,
    /// What waits on its way, and outlives every crash.
    pub(crate) kept: VecDeque<Parcel>,
    pub(crate) answers: VecDeque<Answer>,
}

seen! {
    lagged: "a destination lags",
    caught_up: "a destination has caught up",
    window_full: "the window is full",
    read_waits: "a read waits for another one",
    late_answer: "an answer came too late",
    early: "an entry was refused because the one in front was missing",
    again: "an entry was handed over again after a crash",
    in_doubt: "a commit that was reported as failed had happened",
    sender_full: "the sender's bound was reached",
    destination_full: "a destination's bound was reached",
    refused: "an entry came back refused",
    poison: "an entry came back as poison",
    expired: "an entry came back expired, not delivered",
    expired_in_doubt: "an entry came back, and may have been delivered",
    dropped: "an entry came back dropped",
    went_on: "a copy that had waited went on",
    stale: "a copy of an earlier attempt was dropped",
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) outbox: Outbox<Dest, ()>,
    pub(crate) effects: Vec<Effect<Dest, ()>>,
    pub(crate) appends: VecDeque<Append>,
    pub(crate) next: u64,
    pub(crate) stored: Stored,
    pub(crate) recipients: [Recipient; 2],
    pub(crate) is_old: bool,
    pub(crate) left: Budget,
    pub(crate) seen: Seen,
}

impl World {
    pub(crate) fn new(limits: OutboxLimits, budget: Budget) -> World {
        assert!(limits.is_sound());
        World {
            limits,
            budget,
            reached: Reached::new(Seen::NAMES),
        }
    }
}

impl State {
    pub(crate) fn new(limits: OutboxLimits, left: Budget) -> State {
        let recipient = Recipient {
            taken: Vec::new(),
            taking: VecDeque::new(),
            marks: Marks::new([], 4, false),
            mailbox: VecDeque::new(),
            kept: VecDeque::new(),
            answers: VecDeque::new(),
        };
        State {
            outbox: Outbox::recover(limits, Attempt::default(), Default::default(), 0, []),
            effects: Vec::new(),
            appends: VecDeque::new(),
            next: 1,
            stored: Stored::default(),
            recipients: [recipient.clone(), recipient],
            is_old: false,
            left,
            seen: Seen::default(),
        }
    }

    fn wall(&self) -> Timestamp {
        Timestamp::from_millis(if self.is_old { 1_000 } else { 0 })
    }

    pub(crate) fn poll(&mut self) {
        while let Some(effect) = self.outbox.poll_effect() {
            self.effects.push(effect);
        }
        self.seen.read_waits |= self.outbox.reads_wait();
    }

    /// What this step, after `last`, comes to in the table.
    pub(crate) fn note(&mut self, last: &State) {
        let lags = |state: &State| state.outbox.stuck(NOW).next().is_some();
        self.seen.lagged = lags(self);
        self.seen.caught_up = lags(last) && !lags(self);
        let before = last.stored.returned.len();
        for (_, reason) in self.stored.returned.iter().skip(before) {
            let seen = &mut self.seen;
            let came = match reason {
                Reason::Refused(()) => &mut seen.refused,
                Reason::Poison => &mut seen.poison,
                Reason::Expired {
                    may_be_delivered: false,
                } => &mut seen.expired,
                Reason::Expired {
                    may_be_delivered: true,
                } => &mut seen.expired_in_doubt,
                Reason::Dropped { .. } => &mut seen.dropped,
            };
            *came = true;
        }
    }

    /// The sender's actor reads its state again: what is in memory is gone.
    pub(crate) fn reload(&mut self, limits: OutboxLimits) {
        self.begin_anew(limits);
        self.poll();
    }

    /// The same, of appends that failed.
    pub(crate) fn fail_commits(&mut self, limits: OutboxLimits) {
        let before = self.outbox.clone();
        self.begin_anew(limits);
        self.outbox.rest(&before, NOW);
        self.poll();
    }

    fn begin_anew(&mut self, limits: OutboxLimits) {
        self.appends.clear();
        self.effects.clear();
        let stored = &self.stored;
        let tail = stored.entries.last().map_or(Place::START, |entry| entry.0);
        self.next = tail.number() + 1;
        let lagging = stored.lagging.iter().map(|(dest, mark)| {
            let own = stored
                .entries
                .iter()
                .filter(|(place, to)| to == dest && place > mark);
            (*dest, *mark, own.count() as u32)
        });
        let lagging: Vec<_> = lagging.collect();
        let pending = stored
            .entries
            .iter()
            .filter(|entry| !rules::is_settled(stored, entry));
        let pending = pending.count() as u32;
        let attempt = self.outbox.last_attempt();
        self.outbox = Outbox::recover(limits, attempt, (stored.mark, tail), pending, lagging);
    }

    fn send(&mut self, dest: Dest, place: Place, over: HandOver) {
        let to = &mut self.recipients[usize::from(dest)];
        self.seen.again |= to.taken.contains(&place);
        to.mailbox.push_back(Parcel { place, over });
    }

    /// Applies a record; returns what follows from it in memory.
    pub(crate) fn apply(&mut self, append: &Append) {
        let marks = |stored: &mut Stored, changes: &Changes<Dest>| {
            stored.mark = stored.mark.max(changes.mark);
            if let Some(lagging) = &changes.lagging {
                stored.lagging.clone_from(lagging);
            }
        };
        match append {
            Append::Entry(place, dest) => self.stored.entries.push((*place, *dest)),
            Append::Marks(changes) => marks(&mut self.stored, changes),
            Append::Error(place, _, reason, changes) => {
                self.stored.returned.push((*place, *reason));
                if let Some(changes) = changes {
                    marks(&mut self.stored, changes);
                }
            }
        }
    }

    /// An entry is accepted, if a bound does not forbid it.
    pub(crate) fn accept(&mut self, dest: Dest) {
        match self.outbox.may_accept(dest) {
            Accept::Yes => {
                let place = Place::new(self.next);
                self.next += 1;
                self.outbox.accepted();
                self.record();
                self.appends.push_back(Append::Entry(place, dest));
            }
            Accept::Full => self.seen.sender_full = true,
            Accept::DestinationFull => self.seen.destination_full = true,
        }
    }

    /// Appends what of the marks has moved, if any has.
    pub(crate) fn record(&mut self) -> Option<()> {
        let changes = self.outbox.take_changes()?;
        self.appends.push_back(Append::Marks(changes));
        Some(())
    }

    /// The first append is reported as failed, and has happened: the sender begins anew.
    pub(crate) fn in_doubt(&mut self, limits: OutboxLimits) {
        self.seen.in_doubt = true;
        if let Some(append) = self.appends.pop_front() {
            self.apply(&append);
        }
        self.reload(limits);
    }

    /// Everybody is killed.
    pub(crate) fn kill(&mut self, limits: OutboxLimits) {
        for to in &mut self.recipients {
            State::forget_taking(to);
            to.mailbox.clear();
            to.answers.clear();
        }
        self.reload(limits);
    }

    pub(crate) fn commit(&mut self) {
        let Some(append) = self.appends.pop_front() else {
            return;
        };
        self.apply(&append);
        if let Append::Error(_, dest, ..) = append {
            self.outbox.return_committed(dest);
        }
        if let Append::Entry(place, dest) = append {
            let was_full = self.outbox.pending() > 1;
            match self.outbox.committed(place, dest, NOW) {
                Some(over) => self.send(dest, place, over),
                None => self.seen.window_full |= was_full,
            }
        }
    }

    fn page(&self, dest: Option<Dest>, after: Place, limit: u32) -> Page<Dest> {
        let own = self
            .stored
            .entries
            .iter()
            .filter(|(place, to)| *place > after && dest.is_none_or(|dest| dest == *to));
        let entries: Vec<Listed<Dest>> = own
            .take(limit as usize)
            .map(|(place, dest)| Listed {
                place: *place,
                dest: *dest,
                at: Timestamp::from_millis(0),
            })
            .collect();
        let tail = self
            .stored
            .entries
            .last()
            .map_or(Place::START, |entry| entry.0);
        let through = match entries.last() {
            Some(last) if entries.len() == limit as usize => last.place,
            _ => tail,
        };
        Page { entries, through }
    }

    fn read(&mut self, id: ReadId, page: Option<Page<Dest>>) {
        let over = self.outbox.handle_page(id, page.as_ref(), NOW, self.wall());
        for (at, over) in over {
            let entry = page.as_ref().unwrap().entries[at];
            self.send(entry.dest, entry.place, over);
        }
    }

    pub(crate) fn perform(&mut self, at: usize) {
        match self.effects.remove(at) {
            Effect::Read {
                id,
                dest,
                after,
                limit,
            } => {
                let page = self.page(dest, after, limit);
                self.read(id, Some(page));
            }
            Effect::Return {
                dest,
                place,
                reason,
            } => {
                if self.outbox.still_returns(dest, place) {
                    self.outbox.returned(dest, place, NOW);
                    let changes = self.outbox.take_changes();
                    self.appends
                        .push_back(Append::Error(place, dest, reason, changes));
                }
            }
        }
    }

    pub(crate) fn fail_read(&mut self, at: usize) {
        match self.effects.remove(at) {
            Effect::Read { id, .. } => self.read(id, None),
            Effect::Return { dest, place, .. } => self.outbox.return_failed(dest, place, NOW),
        }
    }

    /// The recipient handles what is first in its mailbox.
    pub(crate) fn deliver(&mut self, dest: Dest) {
        let to = &mut self.recipients[usize::from(dest)];
        let Some(Parcel { place, over }) = to.mailbox.pop_front() else {
            return;
        };
        match to.marks.recognise(SENDER, place, over.after) {
            Recognised::New => {
                to.marks.learn(SENDER, place);
                to.taking.push_back(place);
            }
            // The answer waits for the commit, as everything that depends on it.
            Recognised::Again if to.taking.is_empty() => to.answers.push_back(Answer::Taken(place)),
            Recognised::Again => {}
            Recognised::Early | Recognised::Unknown => {
                self.seen.early = true;
                let early = Answer::Refused(place, over.attempt, Refusal::Early, false);
                to.answers.push_back(early);
            }
        }
    }

    pub(crate) fn refuse(&mut self, dest: Dest, why: Refusal) {
        let to = &mut self.recipients[usize::from(dest)];
        let Some(Parcel { place, over }) = to.mailbox.pop_front() else {
            return;
        };
        let is_final = why == Refusal::Final;
        if is_final && to.marks.recognise(SENDER, place, over.after) != Recognised::New {
            to.mailbox.push_front(Parcel { place, over });
            return self.deliver(dest);
        }
        to.answers
            .push_back(Answer::Refused(place, over.attempt, why, is_final));
    }

    /// The recipient crashes at what is first in its mailbox. What it had appended before is
    /// decided before its next life reads it.
    pub(crate) fn crash_on(&mut self, dest: Dest) -> Option<()> {
        let has_appended = !self.recipients[usize::from(dest)].taking.is_empty();
        (!has_appended).then(|| self.refuse(dest, Refusal::Crashed))
    }

    /// The recipient's append is committed.
    pub(crate) fn take(&mut self, dest: Dest) -> Option<()> {
        let to = &mut self.recipients[usize::from(dest)];
        let place = to.taking.pop_front()?;
        to.taken.push(place);
        to.answers.push_back(Answer::Taken(place));
        Some(())
    }

    /// A copy waits on its way.
    pub(crate) fn wait(&mut self, dest: Dest) -> Option<()> {
        let to = &mut self.recipients[usize::from(dest)];
        let parcel = to.mailbox.pop_front()?;
        to.kept.push_back(parcel);
        Some(())
    }

    /// What a recipient had taken and not committed is gone.
    pub(crate) fn forget_taking(to: &mut Recipient) {
        to.taking.clear();
        let last = to.taken.last().map(|place| (SENDER, *place));
        to.marks = Marks::new(last, 4, false);
    }

    /// The sender decides what becomes of a copy that has waited.
    pub(crate) fn go_on(&mut self, dest: Dest) -> Option<()> {
        let to = &mut self.recipients[usize::from(dest)];
        let parcel = to.kept.pop_front()?;
        let Parcel { place, over } = parcel;
        match self.outbox.is_latest(dest, (place, over.attempt)) {
            true => {
                self.seen.went_on = true;
                to.mailbox.push_back(parcel);
            }
            false => self.seen.stale = true,
        }
        Some(())
    }

    pub(crate) fn answer(&mut self, dest: Dest) {
        let to = &mut self.recipients[usize::from(dest)];
        match to.answers.pop_front() {
            Some(Answer::Taken(place)) => self.outbox.handle_taken(dest, place, NOW),
            Some(Answer::Refused(place, attempt, why, is_final)) => {
                let before = self.outbox.clone();
                let error = is_final.then_some(());
                self.outbox
                    .handle_refused(dest, (place, attempt), why, error, NOW);
                self.seen.late_answer |= before == self.outbox;
            }
            None => {}
        }
    }
}
