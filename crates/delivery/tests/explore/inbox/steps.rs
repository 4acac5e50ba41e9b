//! The steps of a world of one user's log: which may come next, and what each does.

use delivery::{Addressee, Few, Kind, Recipients, SessionNumber};
use stateright::{Model, Property};

use super::rules;
use super::world::{Seen, State, Step, World};

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

    fn arrives(&self, state: &mut State, device: Option<usize>) {
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
        state.arrive(to);
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
        let left = &mut state.left;
        match step {
            Step::Login(device) => {
                left.logins -= 1;
                state.login(self, device);
            }
            Step::Arrive => {
                left.messages -= 1;
                self.arrives(&mut state, None);
            }
            Step::ArriveFor(device) => {
                left.addressed -= 1;
                self.arrives(&mut state, Some(device));
            }
            Step::Unlogged(device) => {
                left.unlogged -= 1;
                state.unlogged(device);
            }
            Step::Commit => state.commit(),
            Step::FailCommit => {
                left.failed_commits -= 1;
                state.fail_commits();
            }
            Step::DoubtCommit => {
                left.doubtful_commits -= 1;
                state.in_doubt(self);
            }
            Step::Record => {
                let changes = {
                    state.inbox.record_mark();
                    state.inbox.take_changes()?
                };
                let record = super::world::Record::Changes(changes);
                state.append(vec![record], Vec::new());
            }
            Step::Perform => state.read(self, true),
            Step::FailRead => {
                left.failed_reads -= 1;
                state.read(self, false);
            }
            Step::TimeOut => {
                state.inbox.handle_timeout(super::world::NOW);
                state.poll();
            }
            Step::Receive(device) => state.receive(device),
            Step::Acknowledge(device) => state.acknowledge(device),
            Step::LoseLink(device) => {
                left.lost_links -= 1;
                state.lose_link(self, device);
            }
            Step::Resume(device) => {
                let own = &state.devices[device];
                if own.conn.is_some() || !own.asked.is_empty() {
                    state.left.second_resumptions -= 1;
                }
                state.resume(device);
            }
            Step::End(device) => {
                left.ends -= 1;
                state.end(device);
            }
            Step::Expire(session) => state.expire(session),
            Step::ChangeMind(device) => {
                left.changes_of_mind -= 1;
                state.change_mind(device);
            }
            Step::Kill => {
                left.kills -= 1;
                state.kill(self);
            }
            Step::Crash(committed) => {
                left.crashes -= 1;
                state.crash(self, committed);
            }
        }
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
