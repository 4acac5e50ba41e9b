//! What the users of one shard share beyond what all its entities do: memory that is lent to
//! whoever needs it for the moment.

use std::cell::Cell;
use std::ops::Deref;
use std::rc::Rc;

use super::barrier::Spares;
use super::turn::Turn;
use crate::home::Home;

/// See the module.
pub(crate) struct Shared {
    home: Rc<Home>,
    /// Lent to the user who handles a message.
    pub(super) turn: Cell<Option<Box<Turn>>>,
    /// Lent to what waits for commits.
    pub(super) spares: Spares,
}

impl Shared {
    /// That of the shard that `home` belongs to.
    pub(crate) fn new(home: Rc<Home>) -> Rc<Shared> {
        Rc::new(Shared {
            home,
            turn: Cell::default(),
            spares: Spares::default(),
        })
    }
}

impl Deref for Shared {
    type Target = Home;

    fn deref(&self) -> &Home {
        &self.home
    }
}
