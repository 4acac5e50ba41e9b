//! The steps of a world of one user's log: which may come next, and what each does.

use delivery::{Addressee, Few, Kind, Recipients, SessionNumber};
use stateright::{Model, Property};

use super::rules;
use super::world::{NOW, Record, Seen, State, Step, World};

impl World {
    fn client_steps(&self, state: &State, steps: &mut Vec<Step>) {
        let left = &state.left;
        for (at, device) in state.devices.iter().enumerate() {
            let kind = state.kind(self, at);
            if device.session.is_none() {
                // A session begins with a record of its own, in front of which nothing waits.
                // The first one is the first device's, unless they differ.
                let is_first = at == 0 || self.first_is_plain || state.next_session > 1;
                if left.logins > 0 && state.appends.is_empty() && is_first {
                    steps.push(Step::Login(at));
                }
                continue;
            }
            if left.addressed > 0 {
                steps.push(Step::ArriveFor(at));
            }
            if device.conn.is_some() {
                if !device.wire.is_empty() {
                    steps.push(Step::Receive(at));
                }
                if kind == Kind::Managed {
                    steps.push(Step::Acknowledge(at));
                }
                if left.unlogged > 0 && kind == Kind::Managed {
                    steps.push(Step::Unlogged(at));
                }
                if left.changes_of_mind > 0 && kind == Kind::Managed {
                    steps.push(Step::ChangeMind(at));
                }
            }
            let is_there = device.conn.is_some() || !device.asked.is_empty();
            if left.lost_links > 0 && is_there {
                steps.push(Step::LoseLink(at));
            }
            if left.ends > 0 {
                steps.push(Step::End(at));
            }
            if kind == Kind::Managed && (!is_there || left.second_resumptions > 0) {
                steps.push(Step::Resume(at));
            }
        }
    }

    pub(crate) fn arrives(&self, state: &mut State, device: Option<usize>) {
        let session = device.and_then(|device| state.devices[device].session);
        let mut to = Recipients {
            is_for_account: session.is_none(),
            addressee: session.map_or(Addressee::Nobody, Addressee::Session),
            sessions: Few::new(),
        };
        if self.has_copies && session.is_some() {
            let others = state.inbox.sessions();
            let others: Few<SessionNumber> = others.filter(|own| Some(*own) != session).collect();
            to.sessions = others;
        }
        state.arrive(self, to);
    }
}

impl State {
    /// Takes a step off the budget.
    pub(crate) fn spend(&mut self, step: &Step) {
        let left = &mut self.left;
        let spent = match step {
            Step::Login(_) => Some(&mut left.logins),
            Step::Arrive => Some(&mut left.messages),
            Step::ArriveFor(_) => Some(&mut left.addressed),
            Step::Unlogged(_) => Some(&mut left.unlogged),
            Step::FailCommit => Some(&mut left.failed_commits),
            Step::DoubtCommit => Some(&mut left.doubtful_commits),
            Step::FailRead => Some(&mut left.failed_reads),
            Step::LoseLink(_) => Some(&mut left.lost_links),
            Step::Resume(device) => {
                let own = &self.devices[*device];
                let is_second = own.conn.is_some() || !own.asked.is_empty();
                is_second.then_some(&mut left.second_resumptions)
            }
            Step::End(_) => Some(&mut left.ends),
            Step::ChangeMind(_) => Some(&mut left.changes_of_mind),
            Step::Kill => Some(&mut left.kills),
            Step::Crash(_) => Some(&mut left.crashes),
            _ => None,
        };
        if let Some(times) = spent {
            *times -= 1;
        }
    }

    /// Does a step. Nothing if there is nothing to do.
    pub(crate) fn step(&mut self, world: &World, step: Step) -> Option<()> {
        match step {
            Step::Login(device) => self.login(world, device),
            Step::Arrive => world.arrives(self, None),
            Step::ArriveFor(device) => world.arrives(self, Some(device)),
            Step::Unlogged(device) => self.unlogged(device),
            Step::Commit => self.commit(),
            Step::FailCommit => self.fail_commits(),
            Step::DoubtCommit => self.in_doubt(world),
            Step::Record => {
                self.inbox.record_mark();
                let changes = self.inbox.take_changes()?;
                self.append(vec![Record::Changes(changes)], Vec::new());
            }
            Step::Perform => self.read(world, true),
            Step::FailRead => self.read(world, false),
            Step::TimeOut => {
                self.inbox.handle_timeout(NOW);
                self.poll();
            }
            Step::Receive(device) => self.receive(device),
            Step::Acknowledge(device) => self.acknowledge(device),
            Step::LoseLink(device) => self.lose_link(world, device),
            Step::Resume(device) => self.resume(device),
            Step::End(device) => self.end(device),
            Step::Expire(session) => self.expire(session),
            Step::ChangeMind(device) => self.change_mind(world, device),
            Step::Kill => self.kill(world),
            Step::Crash(committed) => self.crash(world, committed),
        }
        Some(())
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.wrong.is_some() {
            return;
        }
        let left = &state.left;
        if left.messages > 0 {
            steps.push(Step::Arrive);
        }
        self.client_steps(state, steps);
        if !state.appends.is_empty() {
            steps.push(Step::Commit);
            if left.failed_commits > 0 {
                steps.push(Step::FailCommit);
            }
            if left.doubtful_commits > 0 {
                steps.push(Step::DoubtCommit);
            }
        }
        if state.inbox.has_changes() {
            steps.push(Step::Record);
        }
        if !state.effects.is_empty() {
            steps.push(Step::Perform);
            if left.failed_reads > 0 {
                steps.push(Step::FailRead);
            }
        }
        if state.inbox.deadline().is_some() {
            steps.push(Step::TimeOut);
        }
        steps.extend(state.orphans().into_iter().map(Step::Expire));
        if left.kills > 0 {
            steps.push(Step::Kill);
        }
        if left.crashes > 0 {
            steps.extend((0..=state.appends.len()).map(Step::Crash));
        }
    }

    fn next_state(&self, last: &State, step: Step) -> Option<State> {
        let mut state = last.clone();
        state.spend(&step);
        state.step(self, step)?;
        state.note_bounds(self);
        state.settle_ids();
        self.reached.note(&state.seen.all());
        state.seen = Seen::default();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<World>> {
        let always = rules::ALWAYS.iter();
        let always = always.map(|(name, rule)| Property::always(name, *rule));
        always.collect()
    }
}
