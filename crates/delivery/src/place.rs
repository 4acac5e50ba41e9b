//! The numbers of delivery as types of their own, so that none is taken for another.

use std::fmt;
use std::time::Duration;

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
    /// Each machine has so many attempts of its own, as a power of two.
    const LIFE_BITS: u32 = 32;
    /// Different parts of a time that there are.
    const PARTS: u64 = 64;

    /// The attempt with this number.
    pub const fn new(number: u64) -> Attempt {
        Attempt(number)
    }

    /// What a machine begins with. An answer to an attempt of an earlier life is taken for none of
    /// a later one, as long as these have other numbers modulo 2^32.
    pub const fn of_life(number: u64) -> Attempt {
        Attempt(number << Attempt::LIFE_BITS)
    }

    /// The life of the machine that made it.
    pub const fn life(self) -> u64 {
        self.0 >> Attempt::LIFE_BITS
    }

    /// Its number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// A part of a time, below all of it, that differs between the lives of many machines: what
    /// failed at the same moment for all of them is not tried again at the same moment.
    pub(crate) fn spread(self, most: Duration) -> Duration {
        most * (self.life() % Attempt::PARTS) as u32 / Attempt::PARTS as u32
    }

    pub(crate) fn next(&mut self) -> Attempt {
        self.0 = self.0.wrapping_add(1);
        *self
    }
}

/// Names a session of one user, never another one afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(u32);

impl SessionNumber {
    /// The session with this number.
    pub const fn new(number: u32) -> SessionNumber {
        SessionNumber(number)
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self.0
    }
}

/// How many stanzas a stream was sent or has handled, modulo 2^32 (XEP-0198 section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Count(u32);

impl Count {
    /// This many.
    pub const fn new(count: u32) -> Count {
        Count(count)
    }

    /// The number itself.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// So many more.
    #[must_use]
    pub const fn plus(self, more: u32) -> Count {
        Count(self.0.wrapping_add(more))
    }

    /// Whether this one comes behind another. They are never half of all numbers apart.
    pub const fn is_after(self, other: Count) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_compared_across_the_end_of_their_numbers() {
        let last = Count::new(u32::MAX);
        assert!(last.plus(1).is_after(last) && last.plus(1) == Count::new(0));
        assert!(!last.is_after(last.plus(1)) && !last.is_after(last));
    }
}
