//! The steps of a world of two users: those of their machines but for what the journal and the home
//! do as a whole, and which may be put off. What each does is in `perform.rs`.

use delivery::Recognised;
use stateright::{Model, Property};

use super::rules;
use super::world::{State, USERS, World, peer};
use crate::inbox::world::Step as In;
use crate::outbox::steps::Step as Out;
use crate::outbox::world as outbox;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Accept(usize),
    /// A step of what a user sends: at his home, or of the other's with what is on its way there.
    Out(usize, Out),
    /// The same: the other takes what is for the full address of this device of his.
    DeliverFor(usize, usize),
    /// A step of what a user gets.
    In(usize, In),
    Commit(usize),
    Fail(usize),
    Doubt(usize),
    Kill(usize),
    Crash(usize, usize),
}

impl Step {
    /// At whose home it happens.
    pub(super) fn at(&self) -> usize {
        match self {
            Step::Out(
                from,
                Out::Deliver(_)
                | Out::Refuse(_)
                | Out::RefuseForGood(_)
                | Out::CrashOn(_)
                | Out::Wait(_),
            )
            | Step::DeliverFor(from, _) => peer(*from),
            Step::Accept(user)
            | Step::Out(user, _)
            | Step::In(user, _)
            | Step::Commit(user)
            | Step::Fail(user)
            | Step::Doubt(user)
            | Step::Kill(user)
            | Step::Crash(user, _) => *user,
        }
    }

    /// Whether it goes on by itself: no fault, and nothing that somebody may do or not do.
    pub(super) fn is_inner(&self) -> bool {
        match self {
            Step::Commit(_) => true,
            Step::Out(_, step) => matches!(
                step,
                Out::Record
                    | Out::Perform(_)
                    | Out::TimeOut
                    | Out::Deliver(_)
                    | Out::Answer(_)
                    | Out::GoOn(_)
            ),
            Step::In(_, step) => matches!(
                step,
                In::Record | In::Perform | In::TimeOut | In::Receive(_) | In::Acknowledge(_)
            ),
            _ => false,
        }
    }
}

impl World {
    /// All that may come next.
    pub(super) fn steps(&self, state: &State) -> Vec<Step> {
        let mut steps = Vec::new();
        for user in USERS {
            self.out_steps(state, user, &mut steps);
            self.in_steps(state, user, &mut steps);
            let own = &state.users[user];
            let left = &own.inbox.left;
            if !own.journal.is_empty() {
                steps.push(Step::Commit(user));
                if left.failed_commits > 0 {
                    steps.push(Step::Fail(user));
                }
                if left.doubtful_commits > 0 {
                    steps.push(Step::Doubt(user));
                }
            }
            if left.kills > 0 {
                steps.push(Step::Kill(user));
            }
            if left.crashes > 0 {
                steps.extend((0..=own.journal.len()).map(|durable| Step::Crash(user, durable)));
            }
        }
        steps
    }

    fn out_steps(&self, state: &State, user: usize, steps: &mut Vec<Step>) {
        let out = &state.users[user].out;
        let to = peer(user);
        if out.left.messages > 0 {
            steps.push(Step::Accept(user));
        }
        let mut own = Vec::new();
        outbox::World::sender_steps(out, &mut own);
        let parcels = &out.recipients[to];
        outbox::World::recipient_steps(&out.left, to as u8, parcels, &mut own);
        let inbox = &state.users[to].inbox;
        // A crash is told of an entry that was new to the home; what it had appended is decided.
        let is_new = parcels.mailbox.front().is_some_and(|first| {
            let (place, after) = (first.place, first.over.after);
            parcels.marks.recognise(outbox::SENDER, place, after) == Recognised::New
        });
        let has_appended = !state.users[to].journal.is_empty();
        let may_crash = inbox.left.crashes > 0 && is_new && !has_appended;
        own.retain(|step| match step {
            // The journal does these for all machines together, or not at all.
            Out::Accept(_) | Out::Commit | Out::FailCommit | Out::DoubtCommit => false,
            Out::Kill | Out::Take(_) | Out::FailTake(_) => false,
            Out::CrashOn(_) => may_crash,
            _ => true,
        });
        if own.contains(&Out::Deliver(to as u8)) && inbox.left.addressed > 0 {
            let devices = inbox.devices.iter().enumerate();
            let devices = devices.filter(|(_, device)| device.session.is_some());
            steps.extend(devices.map(|(at, _)| Step::DeliverFor(user, at)));
        }
        steps.extend(own.into_iter().map(|step| Step::Out(user, step)));
    }

    fn in_steps(&self, state: &State, user: usize, steps: &mut Vec<Step>) {
        let mut own = Vec::new();
        let world = &self.users[user].inbox;
        world.actions(&state.users[user].inbox, &mut own);
        own.retain(|step| {
            let of_all = matches!(
                step,
                In::Commit | In::FailCommit | In::DoubtCommit | In::Kill | In::Crash(_)
            );
            !of_all && !matches!(step, In::Arrive | In::ArriveFor(_))
        });
        steps.extend(own.into_iter().map(|step| Step::In(user, step)));
    }

    /// The home whose steps alone need to be looked at now, if there is one. Only where the first
    /// user alone writes. What a home does depends on the other only by what comes to it, in two
    /// rows: it takes the first, and the other puts something behind the last. If there is a first
    /// one, the two are independent, in whatever order they come; so whatever the other might do
    /// first, it may do later as well. A kill empties a row, and is not independent.
    fn alone(&self, state: &State) -> Option<usize> {
        let [sender, to] = &state.users;
        let left = &to.inbox.left;
        let is_simple = self.is_reduced && self.users[1].out.budget.messages == 0;
        if !is_simple || left.kills > 0 || left.doubtful_commits > 0 {
            return None;
        }
        let rows = &sender.out.recipients[1];
        if !rows.mailbox.is_empty() {
            Some(1)
        } else if !rows.answers.is_empty() {
            Some(0)
        } else {
            None
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![self.begin()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        *steps = self.steps(state);
        if let Some(user) = self.alone(state) {
            steps.retain(|step| step.at() == user);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        state.step(self, step)?;
        for user in USERS {
            let own = &mut state.users[user].inbox;
            own.note_bounds(&self.users[user].inbox);
            own.settle_ids();
            // Sessions have numbers: which device is the first one is no difference.
            own.devices
                .sort_by_key(|device| (device.session.is_none(), device.session));
        }
        self.note(last, &mut state);
        Some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let always = rules::ALWAYS.iter();
        let always = always.map(|(name, rule)| Property::always(name, *rule));
        always.collect()
    }
}
