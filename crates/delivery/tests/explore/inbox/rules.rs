//! What must hold after every step of a world of one user's log.

use stateright::Model;

use super::world::{Record, State, Step, World};

type Rule = fn(&World, &State) -> bool;

/// After every step.
pub(crate) const ALWAYS: &[(&str, Rule)] = &[
    ("nothing that must not happen does", |_, state| {
        state.wrong.is_none()
    }),
    (
        "every entry that no client has is owed to somebody",
        nothing_is_lost,
    ),
    (
        "every entry that no client has is owed to somebody if the server is killed now",
        nothing_would_be_lost,
    ),
    ("each client gets entries in their order", in_order),
    ("what waits is counted right", is_counted),
    ("marks stand in their order", |_, state| {
        state.inbox.is_consistent()
    }),
    ("at rest, whoever is there has what he is owed", at_rest),
    ("at rest, nobody waits for a resumption", nobody_asks),
];

fn nothing_is_lost(_: &World, state: &State) -> bool {
    let mut all = state.stored.entries.iter();
    all.all(|entry| state.done.contains(&entry.place) || state.inbox.owes(entry.place, &entry.to))
}

fn nothing_would_be_lost(world: &World, state: &State) -> bool {
    let stored = &state.stored;
    let next = stored.recover(&world.limits);
    let is_owed = |entry: &super::world::Logged| next.owes(entry.place, &entry.to);
    let mut all = stored.entries.iter();
    all.all(|entry| state.done.contains(&entry.place) || is_owed(entry))
}

/// The count of what waits for the account is exact, but that it may have too many that sessions
/// acknowledged while they took no messages, or that could not be appended.
fn is_counted(world: &World, state: &State) -> bool {
    let appended = state.appends.iter().flat_map(|append| &append.records);
    let appended = appended.filter_map(|record| match record {
        Record::Entry(entry) => Some(entry),
        Record::Changes(_) | Record::Taker(..) => None,
    });
    let all = state.stored.entries.iter().chain(appended);
    let mark = state.inbox.mark();
    let waiting = all.filter(|entry| entry.to.is_for_account && entry.place > mark);
    let counted = state.inbox.waiting().0 - state.inbox.listed() as u64;
    let is_exact = world.budget.changes_of_mind == 0 && world.budget.failed_commits == 0;
    let waiting = waiting.count() as u64;
    counted == waiting || !is_exact && counted > waiting
}

/// Unless a session ended, whose entries come late, or began or ceased to take messages.
fn in_order(world: &World, state: &State) -> bool {
    let is_strict = world.budget.ends == 0 && world.budget.changes_of_mind == 0;
    let mut devices = state.devices.iter();
    !is_strict || devices.all(|device| device.seen.is_sorted())
}

/// Whether nothing can happen any more but what somebody does.
fn is_at_rest(world: &World, state: &State) -> bool {
    let mut steps = Vec::new();
    world.actions(state, &mut steps);
    let is_inner = |step: &Step| {
        matches!(
            step,
            Step::Commit | Step::Record | Step::Perform | Step::TimeOut | Step::Receive(_)
        )
    };
    // Whether an acknowledgement says anything is known only once it is tried.
    let says_something = |step: &Step| {
        matches!(step, Step::Acknowledge(_)) && world.next_state(state, step.clone()).is_some()
    };
    state.wrong.is_none() && !steps.iter().any(is_inner) && !steps.iter().any(says_something)
}

fn nobody_asks(world: &World, state: &State) -> bool {
    let mut devices = state.devices.iter();
    devices.all(|device| device.asked.is_empty()) || !is_at_rest(world, state)
}

fn at_rest(world: &World, state: &State) -> bool {
    if !is_at_rest(world, state) {
        return true;
    }
    let mut devices = state.devices.iter().filter(|device| device.conn.is_some());
    let taker = |session| {
        let mut stored = state.stored.sessions.iter();
        stored.any(|(own, stored)| *own == session && stored.is_taker)
    };
    let is_taken = devices
        .clone()
        .any(|device| device.session.is_some_and(taker));
    let mut sessions = state.inbox.sessions();
    let is_held = sessions.any(|session| state.inbox.in_flight(session) > 0);
    devices.all(|device| {
        let session = device.session;
        session.is_none_or(|session| {
            state.inbox.has_caught_up(session) && state.inbox.in_flight(session) == 0
        })
    }) && (!is_taken || is_held || state.inbox.listed() == 0)
}
