//! What must hold after every step of a world of two users: what holds of each outbox and of each
//! inbox, and what is promised from end to end.

use delivery::Place;
use stateright::Model;

use super::steps::Step;
use super::world::{State, USERS, User, World, peer};
use crate::inbox::rules::ALWAYS as OF_INBOX;
use crate::inbox::world::{Device, Step as In};
use crate::outbox::rules::ALWAYS as OF_OUTBOX;

type Rule = fn(&World, &State) -> bool;

/// The rule at a place of a list, of the machines of both users.
macro_rules! of_both {
    ($rules:ident, $field:ident, $at:literal) => {
        ($rules[$at].0, |world, state| {
            USERS.iter().all(|user| {
                let setup = &world.users[*user].$field;
                ($rules[$at].1)(setup, &state.users[*user].$field)
            })
        })
    };
}

const _: () = assert!(OF_OUTBOX.len() == 7 && OF_INBOX.len() == 8);

/// After every step.
pub(super) const ALWAYS: &[(&str, Rule)] = &[
    of_both!(OF_OUTBOX, out, 0),
    of_both!(OF_OUTBOX, out, 1),
    of_both!(OF_OUTBOX, out, 2),
    of_both!(OF_OUTBOX, out, 3),
    of_both!(OF_OUTBOX, out, 4),
    of_both!(OF_OUTBOX, out, 5),
    of_both!(OF_OUTBOX, out, 6),
    of_both!(OF_INBOX, inbox, 0),
    of_both!(OF_INBOX, inbox, 1),
    of_both!(OF_INBOX, inbox, 2),
    of_both!(OF_INBOX, inbox, 3),
    of_both!(OF_INBOX, inbox, 4),
    of_both!(OF_INBOX, inbox, 5),
    of_both!(OF_INBOX, inbox, 6),
    of_both!(OF_INBOX, inbox, 7),
    (
        "what is taken is in the recipient's log once",
        taken_is_logged,
    ),
    (
        "what came back is in the sender's log once",
        returned_is_logged,
    ),
    (
        "a session gets what was sent once, and in the order of sending",
        sent_order,
    ),
    (
        "at the end, all that was accepted has arrived or has come back",
        arrived,
    ),
];

/// The first rule that does not hold.
pub(super) fn broken(world: &World, state: &State) -> Option<&'static str> {
    let mut all = ALWAYS.iter();
    all.find(|(_, rule)| !rule(world, state))
        .map(|(name, _)| *name)
}

fn taken_is_logged(_: &World, state: &State) -> bool {
    USERS.iter().all(|user| {
        let own = &state.users[*user];
        let taken = &state.users[peer(*user)].out.recipients[*user].taken;
        own.origins.len() == own.inbox.stored.entries.len()
            && own.origins.iter().flatten().eq(taken)
    })
}

fn returned_is_logged(_: &World, state: &State) -> bool {
    state.users.iter().all(|own| {
        let errors = own.origins.iter().filter(|origin| origin.is_none());
        errors.count() == own.out.stored.returned.len()
    })
}

/// Where what a session was given is in the other's log.
fn sent<'a>(own: &'a User, device: &'a Device) -> impl Iterator<Item = Place> + 'a {
    device.seen.iter().filter_map(|place| {
        let entries = own.inbox.stored.entries.iter().zip(&own.origins);
        let mut entries = entries.filter(|(entry, _)| entry.place == *place);
        entries.next().and_then(|(_, origin)| *origin)
    })
}

fn sent_order(world: &World, state: &State) -> bool {
    USERS.iter().all(|user| {
        let own = &state.users[*user];
        let budget = &world.users[*user].inbox.budget;
        let is_strict = budget.ends == 0 && budget.changes_of_mind == 0;
        own.inbox.devices.iter().all(|device| {
            let mut sent: Vec<Place> = sent(own, device).collect();
            if !is_strict {
                sent.sort_unstable();
            }
            sent.is_sorted_by(|a, b| a < b)
        })
    })
}

/// Whether nothing happens any more but faults and what somebody may do.
fn is_at_rest(world: &World, state: &State) -> bool {
    let mut steps = world.steps(state);
    steps.retain(Step::is_inner);
    let acknowledges = |step: &Step| matches!(step, Step::In(_, In::Acknowledge(_)));
    let says_something = |step: &Step| match step {
        Step::In(user, own @ In::Acknowledge(_)) => {
            let setup = &world.users[*user].inbox;
            let next = setup.next_state(&state.users[*user].inbox, own.clone());
            next.is_some()
        }
        _ => false,
    };
    steps.iter().all(acknowledges) && !steps.iter().any(says_something)
}

/// Each entry came back, or is in its recipient's log; and if somebody is there who takes messages,
/// he has it.
fn arrived(world: &World, state: &State) -> bool {
    if !is_at_rest(world, state) {
        return true;
    }
    USERS.iter().all(|user| {
        let out = &state.users[*user].out.stored;
        let to = &state.users[peer(*user)];
        let is_taker = |device: &Device| {
            let mut stored = to.inbox.stored.sessions.iter();
            device.conn.is_some()
                && stored.any(|(session, own)| device.session == Some(*session) && own.is_taker)
        };
        let is_there = to.inbox.devices.iter().any(is_taker);
        let has_arrived = |place: &Place| {
            let logged = to.inbox.stored.entries.iter().zip(&to.origins);
            let mut logged = logged.filter(|(_, origin)| origin.as_ref() == Some(place));
            logged.next().is_some_and(|(entry, _)| {
                !is_there || !entry.to.is_for_account || to.inbox.done.contains(&entry.place)
            })
        };
        out.entries.iter().all(|(place, _)| {
            let mut returned = out.returned.iter();
            returned.any(|(own, _)| own == place) || has_arrived(place)
        })
    })
}
