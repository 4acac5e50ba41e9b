//! The steps of a world of one sender: which may come next, each as often as the [`Budget`] allows,
//! and what each does.

use delivery::Refusal;
use stateright::{Model, Property};

use super::rules;
use super::world::{Budget, DESTS, Dest, NOW, Recipient, Seen, State, World};

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

/// Whether something may still happen so often.
fn can(times: u8) -> bool {
    times > 0
}

impl World {
    /// Nothing is under way: only time can pass.
    fn is_idle(state: &State) -> bool {
        let at_rest = |to: &Recipient| {
            let is_empty = to.mailbox.is_empty() && to.kept.is_empty() && to.answers.is_empty();
            is_empty && to.taking.is_empty()
        };
        state.effects.is_empty() && state.appends.is_empty() && state.recipients.iter().all(at_rest)
    }

    pub(crate) fn sender_steps(state: &State, steps: &mut Vec<Step>) {
        let left = &state.left;
        if can(left.messages) {
            // The first one goes to the first recipient: they are alike.
            let is_first = state.next == 1 && state.stored.entries.is_empty();
            let dests = DESTS.iter().take(if is_first { 1 } else { 2 });
            steps.extend(dests.map(|to| Step::Accept(*to)));
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
        // The pause after a failure is over before or after whatever else happens.
        let rests = state.outbox.rests();
        if is_due && (rests || can(left.silences) || World::is_idle(state)) {
            steps.push(Step::TimeOut);
        }
        if can(left.kills) && !state.stored.entries.is_empty() {
            steps.push(Step::Kill);
        }
        if left.ages && !state.is_old {
            steps.push(Step::Age);
        }
        for dest in DESTS {
            if can(left.drops) && state.outbox.stuck(NOW).any(|stuck| stuck.dest == dest) {
                steps.push(Step::Drop(dest));
            }
        }
    }

    pub(crate) fn recipient_steps(
        left: &Budget,
        dest: Dest,
        to: &Recipient,
        steps: &mut Vec<Step>,
    ) {
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

impl State {
    /// Does a step, and takes it off the budget. Nothing if there is nothing to do.
    pub(crate) fn step(&mut self, world: &World, step: Step) -> Option<()> {
        let left = &mut self.left;
        let spent = match step {
            Step::Accept(_) => Some(&mut left.messages),
            Step::FailCommit | Step::FailTake(_) => Some(&mut left.failed_commits),
            Step::DoubtCommit => Some(&mut left.doubtful_commits),
            Step::FailRead(_) => Some(&mut left.failed_reads),
            Step::Drop(_) => Some(&mut left.drops),
            Step::Kill => Some(&mut left.kills),
            Step::Refuse(_) => Some(&mut left.refusals),
            Step::RefuseForGood(_) => Some(&mut left.finals),
            Step::CrashOn(_) => Some(&mut left.crashes),
            Step::LoseAnswer(_) => Some(&mut left.lost_answers),
            Step::Wait(_) => Some(&mut left.waits),
            _ => None,
        };
        if let Some(times) = spent {
            *times -= 1;
        }
        match step {
            Step::Accept(dest) => self.accept(dest),
            Step::Commit => self.commit(),
            Step::FailCommit => self.fail_commits(world.limits),
            Step::DoubtCommit => self.in_doubt(world.limits),
            Step::Record => self.record()?,
            Step::Perform(at) => self.perform(at),
            Step::FailRead(at) => self.fail_read(at),
            Step::TimeOut => {
                // With none left it comes only when nothing else can happen.
                if !self.outbox.rests() {
                    self.left.silences = self.left.silences.saturating_sub(1);
                }
                self.outbox.handle_timeout(NOW);
            }
            Step::Drop(dest) => {
                self.outbox.drop_pending(dest);
            }
            Step::Age => self.is_old = true,
            Step::Kill => self.kill(world.limits),
            Step::Deliver(dest) => self.deliver(dest),
            Step::Refuse(dest) => self.refuse(dest, Refusal::Full),
            Step::RefuseForGood(dest) => self.refuse(dest, Refusal::Final),
            Step::CrashOn(dest) => self.crash_on(dest)?,
            Step::Take(dest) => self.take(dest)?,
            Step::FailTake(dest) => State::forget_taking(&mut self.recipients[usize::from(dest)]),
            Step::Answer(dest) => self.answer(dest),
            Step::LoseAnswer(dest) => {
                self.recipients[usize::from(dest)].answers.pop_front();
            }
            Step::Wait(dest) => self.wait(dest)?,
            Step::GoOn(dest) => self.go_on(dest)?,
        }
        Some(())
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.limits, self.budget)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        World::sender_steps(state, steps);
        for dest in DESTS {
            let to = &state.recipients[usize::from(dest)];
            World::recipient_steps(&state.left, dest, to, steps);
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        state.step(self, step)?;
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
