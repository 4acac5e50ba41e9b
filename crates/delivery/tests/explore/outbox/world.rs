//! One sender with the shipped [`Outbox`], two recipients with the shipped [`Marks`], and between
//! them mailboxes in order. Owns every step that the world may take, each as often as its
//! [`Budget`] allows. What is durable outlives crashes; nothing else does.

use std::collections::VecDeque;

use delivery::{
    Accept, Attempt, Changes, Effect, HandOver, Listed, Marks, Outbox, OutboxLimits, Page, Place,
    ReadId, Reason, Recognised, Refusal,
};
use stateright::{Model, Property};
use stdx::time::{Moment, Timestamp};

use super::rules;
use crate::reached::{Reached, seen};

pub(crate) type Dest = u8;

/// Recipients.
pub(crate) const DESTS: [Dest; 2] = [0, 1];

const NOW: Moment = Moment::ZERO;
const SENDER: u8 = 0;

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
    budget: Budget,
    pub(crate) reached: Reached,
}

/// A record of the sender that is not committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Append {
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
struct Parcel {
    place: Place,
    over: HandOver,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    Taken(Place),
    Refused(Place, Attempt, Refusal, bool),
}

/// One recipient's home.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Recipient {
    /// What was taken and is durable, in the order of its log.
    pub(crate) taken: Vec<Place>,
    /// What was taken and is not committed.
    taking: VecDeque<Place>,
    marks: Marks<u8>,
    mailbox: VecDeque<Parcel>,
    /// What waits on its way, and outlives every crash.
    kept: VecDeque<Parcel>,
    answers: VecDeque<Answer>,
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
    effects: Vec<Effect<Dest, ()>>,
    appends: VecDeque<Append>,
    next: u64,
    pub(crate) stored: Stored,
    pub(crate) recipients: [Recipient; 2],
    is_old: bool,
    left: Budget,
    pub(crate) seen: Seen,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Accept(Dest),
    Commit,
    FailCommit,
    DoubtCommit,
    Record,
    Perform(usize),
    FailRead(usize),
    TimeOut,
    Drop(Dest),
    Age,
    Kill,
    Deliver(Dest),
    Refuse(Dest),
    RefuseForGood(Dest),
    CrashOn(Dest),
    Take(Dest),
    FailTake(Dest),
    Answer(Dest),
    LoseAnswer(Dest),
    Wait(Dest),
    GoOn(Dest),
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

    fn is_idle(state: &State) -> bool {
        let at_rest = |to: &Recipient| {
            let is_empty = to.mailbox.is_empty() && to.kept.is_empty() && to.answers.is_empty();
            is_empty && to.taking.is_empty()
        };
        state.effects.is_empty() && state.appends.is_empty() && state.recipients.iter().all(at_rest)
    }
}

impl State {
    fn new(limits: OutboxLimits, left: Budget) -> State {
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

    fn poll(&mut self) {
        while let Some(effect) = self.outbox.poll_effect() {
            self.effects.push(effect);
        }
        self.seen.read_waits |= self.outbox.reads_wait();
    }

    /// What this step, after `last`, comes to in the table.
    fn note(&mut self, last: &State) {
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
    fn reload(&mut self, limits: OutboxLimits) {
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
        self.poll();
    }

    fn send(&mut self, dest: Dest, place: Place, over: HandOver) {
        let to = &mut self.recipients[usize::from(dest)];
        self.seen.again |= to.taken.contains(&place);
        to.mailbox.push_back(Parcel { place, over });
    }

    /// Applies a record; returns what follows from it in memory.
    fn apply(&mut self, append: &Append) {
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

    fn commit(&mut self) {
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

    fn perform(&mut self, at: usize) {
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

    fn fail_read(&mut self, at: usize) {
        self.left.failed_reads -= 1;
        match self.effects.remove(at) {
            Effect::Read { id, .. } => self.read(id, None),
            Effect::Return { dest, place, .. } => self.outbox.return_failed(dest, place, NOW),
        }
    }

    /// The recipient handles what is first in its mailbox.
    fn deliver(&mut self, dest: Dest) {
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

    fn refuse(&mut self, dest: Dest, why: Refusal) {
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

    /// What a recipient had taken and not committed is gone.
    fn forget_taking(to: &mut Recipient) {
        to.taking.clear();
        let last = to.taken.last().map(|place| (SENDER, *place));
        to.marks = Marks::new(last, 4, false);
    }

    /// The sender decides what becomes of a copy that has waited.
    fn go_on(&mut self, dest: Dest) -> Option<()> {
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

    fn answer(&mut self, dest: Dest) {
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

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.limits, self.budget)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        let left = &state.left;
        let can = |times: u8| times > 0;
        if can(left.messages) {
            // The first one goes to the first recipient: they are alike.
            let is_first = state.next == 1 && state.stored.entries.is_empty();
            steps.extend(
                DESTS
                    .iter()
                    .take(if is_first { 1 } else { 2 })
                    .map(|to| Step::Accept(*to)),
            );
        }
        if !state.appends.is_empty() {
            steps.push(Step::Commit);
            if can(left.failed_commits) {
                steps.push(Step::FailCommit);
            }
            if can(left.doubtful_commits) {
                steps.push(Step::DoubtCommit);
            }
        }
        if state.outbox.has_changes() {
            steps.push(Step::Record);
        }
        for at in 0..state.effects.len() {
            steps.push(Step::Perform(at));
            if can(left.failed_reads) {
                steps.push(Step::FailRead(at));
            }
        }
        let is_due = state.outbox.deadline().is_some();
        if is_due && (can(left.silences) || World::is_idle(state)) {
            steps.push(Step::TimeOut);
        }
        if can(left.kills) && !state.stored.entries.is_empty() {
            steps.push(Step::Kill);
        }
        if left.ages && !state.is_old {
            steps.push(Step::Age);
        }
        for dest in DESTS {
            let to = &state.recipients[usize::from(dest)];
            if can(left.drops) && state.outbox.stuck(NOW).any(|stuck| stuck.dest == dest) {
                steps.push(Step::Drop(dest));
            }
            if !to.mailbox.is_empty() {
                steps.push(Step::Deliver(dest));
                if can(left.refusals) {
                    steps.push(Step::Refuse(dest));
                }
                if can(left.finals) {
                    steps.push(Step::RefuseForGood(dest));
                }
                if can(left.crashes) {
                    steps.push(Step::CrashOn(dest));
                }
                if can(left.waits) {
                    steps.push(Step::Wait(dest));
                }
            }
            if !to.kept.is_empty() {
                steps.push(Step::GoOn(dest));
            }
            if !to.taking.is_empty() {
                steps.push(Step::Take(dest));
                if can(left.failed_commits) {
                    steps.push(Step::FailTake(dest));
                }
            }
            if !to.answers.is_empty() {
                steps.push(Step::Answer(dest));
                if can(left.lost_answers) {
                    steps.push(Step::LoseAnswer(dest));
                }
            }
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        match step {
            Step::Accept(dest) => {
                state.left.messages -= 1;
                match state.outbox.may_accept(dest) {
                    Accept::Yes => {
                        let place = Place::new(state.next);
                        state.next += 1;
                        state.outbox.accepted();
                        if let Some(changes) = state.outbox.take_changes() {
                            state.appends.push_back(Append::Marks(changes));
                        }
                        state.appends.push_back(Append::Entry(place, dest));
                    }
                    Accept::Full => state.seen.sender_full = true,
                    Accept::DestinationFull => state.seen.destination_full = true,
                }
            }
            Step::Commit => state.commit(),
            Step::FailCommit => {
                state.left.failed_commits -= 1;
                state.reload(self.limits);
            }
            Step::DoubtCommit => {
                state.left.doubtful_commits -= 1;
                state.seen.in_doubt = true;
                let append = state.appends.pop_front()?;
                state.apply(&append);
                state.reload(self.limits);
            }
            Step::Record => {
                let changes = state.outbox.take_changes()?;
                state.appends.push_back(Append::Marks(changes));
            }
            Step::Perform(at) => state.perform(at),
            Step::FailRead(at) => state.fail_read(at),
            Step::TimeOut => {
                state.left.silences = state.left.silences.saturating_sub(1);
                state.outbox.handle_timeout(NOW);
            }
            Step::Drop(dest) => {
                state.left.drops -= 1;
                state.outbox.drop_pending(dest);
            }
            Step::Age => state.is_old = true,
            Step::Kill => {
                state.left.kills -= 1;
                for to in &mut state.recipients {
                    State::forget_taking(to);
                    to.mailbox.clear();
                    to.answers.clear();
                }
                state.reload(self.limits);
            }
            Step::Deliver(dest) => state.deliver(dest),
            Step::Refuse(dest) => {
                state.left.refusals -= 1;
                state.refuse(dest, Refusal::Full);
            }
            Step::RefuseForGood(dest) => {
                state.left.finals -= 1;
                state.refuse(dest, Refusal::Final);
            }
            Step::CrashOn(dest) => {
                state.left.crashes -= 1;
                // What it had appended before is decided before its next life reads it.
                let to = &mut state.recipients[usize::from(dest)];
                if to.taking.is_empty() {
                    state.refuse(dest, Refusal::Crashed);
                } else {
                    return None;
                }
            }
            Step::Take(dest) => {
                let to = &mut state.recipients[usize::from(dest)];
                let place = to.taking.pop_front()?;
                to.taken.push(place);
                to.answers.push_back(Answer::Taken(place));
            }
            Step::FailTake(dest) => {
                state.left.failed_commits -= 1;
                State::forget_taking(&mut state.recipients[usize::from(dest)]);
            }
            Step::Answer(dest) => state.answer(dest),
            Step::LoseAnswer(dest) => {
                state.left.lost_answers -= 1;
                state.recipients[usize::from(dest)].answers.pop_front();
            }
            Step::Wait(dest) => {
                state.left.waits -= 1;
                let to = &mut state.recipients[usize::from(dest)];
                let parcel = to.mailbox.pop_front()?;
                to.kept.push_back(parcel);
            }
            Step::GoOn(dest) => state.go_on(dest)?,
        }
        state.poll();
        state.note(last);
        self.reached.note(&state.seen.all());
        state.seen = Seen::default();
        Some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let always = rules::ALWAYS.iter();
        let always = always.map(|(name, rule)| Property::always(name, *rule));
        always.collect()
    }
}
