//! What must hold after every step of a small world.

use delivery::{Place, Reason};
use stateright::Model;

use super::world::{Dest, State, Stored, World};

type Rule = fn(&World, &State) -> bool;

/// After every step.
pub(crate) const ALWAYS: &[(&str, Rule)] = &[
    (
        "what is settled was taken or has come back",
        settled_is_done,
    ),
    (
        "each recipient takes an entry once, and in order",
        taken_in_order,
    ),
    ("an entry comes back once", returned_once),
    (
        "what came back was not taken, unless it says that it may have been",
        not_both,
    ),
    ("marks stand in their order", marks_in_order),
    ("the bounds hold", bounds_hold),
    ("at rest, everything is done and nothing is kept", at_rest),
];

/// Whether the durable marks say that an entry needs nothing any more.
pub(crate) fn is_settled(stored: &Stored, (place, dest): &(Place, Dest)) -> bool {
    let own = stored.lagging.iter().find(|(lagging, _)| lagging == dest);
    *place <= own.map_or(stored.mark, |(_, mark)| *mark)
}

fn settled_is_done(_: &World, state: &State) -> bool {
    let stored = &state.stored;
    stored.entries.iter().all(|entry| {
        let (place, dest) = entry;
        !is_settled(stored, entry)
            || state.recipients[usize::from(*dest)].taken.contains(place)
            || stored
                .returned
                .iter()
                .any(|(returned, _)| returned == place)
    })
}

fn taken_in_order(_: &World, state: &State) -> bool {
    let mut recipients = state.recipients.iter();
    recipients.all(|to| to.taken.is_sorted_by(|a, b| a < b))
}

fn returned_once(_: &World, state: &State) -> bool {
    let returned = &state.stored.returned;
    let times = |place: &Place| returned.iter().filter(|(other, _)| other == place).count();
    returned.iter().all(|(place, _)| times(place) == 1)
}

fn not_both(_: &World, state: &State) -> bool {
    let returned = state.stored.returned.iter();
    let clean = returned.filter(|(_, reason)| match reason {
        Reason::Refused(()) | Reason::Poison => true,
        Reason::Expired { may_be_delivered } | Reason::Dropped { may_be_delivered } => {
            !may_be_delivered
        }
    });
    let is_taken = |place: &Place| state.recipients.iter().any(|to| to.taken.contains(place));
    clean.fold(true, |good, (place, _)| good && !is_taken(place))
}

fn marks_in_order(_: &World, state: &State) -> bool {
    state.outbox.is_consistent()
}

fn bounds_hold(world: &World, state: &State) -> bool {
    state.outbox.pending() <= world.limits.entries_max
}

fn at_rest(world: &World, state: &State) -> bool {
    let stored = &state.stored;
    let is_settled = |entry| is_settled(stored, entry);
    state.outbox.is_at_rest() && stored.entries.iter().all(is_settled) || may_go_on(world, state)
}

fn may_go_on(world: &World, state: &State) -> bool {
    let mut steps = Vec::new();
    world.actions(state, &mut steps);
    let mut steps = steps.into_iter();
    steps.any(|step| world.next_state(state, step).is_some())
}
