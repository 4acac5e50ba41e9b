//! The numbers of delivery as types of their own, so that none is taken for another.

use std::fmt;

/// A place in one log. Places grow; they need not be consecutive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place(u64);

impl Place {
    /// In front of every entry.
    pub const START: Place = Place(0);

    /// The place with this number; 0 is [`Place::START`].
    pub const fn new(number: u64) -> Place {
        Place(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The place in front of this one, whether an entry has it or not.
    #[must_use]
    pub const fn before(self) -> Place {
        Place(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// One handing over of one entry. An answer names it, so that the answer to an earlier attempt is
/// not taken for one to the latest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(u64);

impl Attempt {
    /// The attempt with this number.
    pub const fn new(number: u64) -> Attempt {
        Attempt(number)
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }

    pub(crate) fn next(&mut self) -> Attempt {
        self.0 = self.0.wrapping_add(1);
        *self
    }
}
