//! Two users, each with the shipped `Outbox`, `Inbox` and, of the other, `Marks`, and one journal
//! for all of them. The pieces are those of `outbox` and `inbox`; what is here ties them together:
//! what one's outbox hands over is appended to the other's log, and what comes back to one's own.

use std::collections::VecDeque;

use delivery::{OutboxLimits, Place};

use crate::inbox::world as inbox;
use crate::outbox::world as outbox;
use crate::reached::Reached;

/// Users by their numbers, which are also the names of their homes as destinations.
pub(crate) const USERS: [usize; 2] = [0, 1];

/// Whom a user writes to.
pub(super) const fn peer(user: usize) -> usize {
    1 - user
}

/// One user's part of a world.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(super) out: outbox::World,
    pub(super) inbox: inbox::World,
    /// Devices that are logged in at the beginning.
    logged_in: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(super) users: [Setup; 2],
    /// Steps of one home are put off while the other has something to do that they cannot change.
    pub(super) is_reduced: bool,
    pub(crate) reached: Reached,
}

/// A record of a user's journal, in the order of its commits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Record {
    /// The next one of the outbox.
    Out,
    /// The next one of the inbox.
    In,
    /// The next one of the inbox, which takes this entry of the other's log.
    Taken(Place),
    /// The next one of both: the error that returns an entry.
    Returned,
}

/// A user's home, and whoever is connected to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct User {
    /// His outbox; and in `out.recipients` what the other's home knows of it.
    pub(super) out: outbox::State,
    pub(super) inbox: inbox::State,
    pub(super) journal: VecDeque<Record>,
    /// For each entry of his log where it is in the other's; nothing for an error.
    pub(super) origins: Vec<Option<Place>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) users: [User; 2],
}

/// What may happen at one user's home: to what he sends, and to what he gets. Faults of his journal
/// and crashes of his home are in the second one. Devices that are logged in at the beginning.
pub(crate) type Part = (outbox::Budget, inbox::Budget, usize);

/// What happened, as it is counted for both machines.
pub(super) const NAMES: [&str; OUT + IN] = {
    let mut names = [""; OUT + IN];
    let mut at = 0;
    while at < OUT + IN {
        names[at] = if at < OUT {
            outbox::Seen::NAMES[at]
        } else {
            inbox::Seen::NAMES[at - OUT]
        };
        at += 1;
    }
    names
};
const OUT: usize = outbox::Seen::NAMES.len();
const IN: usize = inbox::Seen::NAMES.len();

impl World {
    pub(crate) fn new(limits: OutboxLimits, window: usize, parts: [Part; 2]) -> World {
        let users = parts.map(|(out, inbox, logged_in)| Setup {
            out: outbox::World::new(limits, out),
            inbox: crate::inbox::world(window, inbox),
            logged_in,
        });
        World {
            users,
            is_reduced: false,
            reached: Reached::new(&NAMES),
        }
    }

    pub(crate) fn reduced(self) -> World {
        World {
            is_reduced: true,
            ..self
        }
    }

    pub(super) fn begin(&self) -> State {
        let users = USERS.map(|user| {
            let setup = &self.users[user];
            let mut inbox = inbox::State::new(&setup.inbox);
            for device in 0..setup.logged_in {
                inbox.login(&setup.inbox, device);
            }
            User {
                out: outbox::State::new(setup.out.limits, setup.out.budget),
                inbox,
                journal: VecDeque::new(),
                origins: Vec::new(),
            }
        });
        State { users }
    }

    /// Counts what this step, after `last`, came to, and forgets it.
    pub(super) fn note(&self, last: &State, state: &mut State) {
        let mut happened = [false; OUT + IN];
        for (user, last) in state.users.iter_mut().zip(&last.users) {
            user.out.note(&last.out);
            let all = user.out.seen.all().into_iter().chain(user.inbox.seen.all());
            for (happened, did) in happened.iter_mut().zip(all) {
                *happened |= did;
            }
            user.out.seen = outbox::Seen::default();
            user.inbox.seen = inbox::Seen::default();
        }
        self.reached.note(&happened);
    }
}
