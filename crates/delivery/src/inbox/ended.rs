//! What sessions left that ended: a consumer that puts what was for their full addresses on the
//! account's list. It reads at its own pace, and waits while the list is full.

use std::collections::VecDeque;

use super::types::{Filter, Left};
use crate::outbox::ReadId;
use crate::place::{Place, SessionNumber};

/// A page on its way to the list.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Listing {
    /// Each with the sessions that it names.
    pub(crate) places: Vec<(Place, Vec<SessionNumber>)>,
    through: Place,
    end: Place,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ended {
    pub(crate) parts: Vec<Left>,
    /// The read under way: how many parts it is about, and up to where the log goes.
    pub(crate) reading: Option<(ReadId, usize, Place)>,
    pub(crate) giving: Option<(Listing, usize)>,
    pub(crate) has_changed: bool,
    /// Sessions of which nothing is left.
    pub(crate) removed: Vec<SessionNumber>,
    /// What sessions that ended had not, while others may still leave something that they had a
    /// copy of.
    pub(crate) known: VecDeque<Left>,
}

impl Ended {
    pub(crate) fn new(parts: Vec<Left>) -> Self {
        Ended {
            parts,
            ..Ended::default()
        }
    }

    pub(crate) fn leave(&mut self, part: Left) {
        self.parts.push(part);
        self.has_changed = true;
    }

    /// Whether a session that ended had acknowledged an entry that names it.
    pub(crate) fn had(&self, session: SessionNumber, place: Place) -> bool {
        let mut known = self.known.iter();
        known.any(|own| {
            let has_not = place > own.after || own.unacked.binary_search(&place).is_ok();
            own.session == session && !has_not
        })
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.reading.is_some() || self.giving.is_some()
    }

    pub(crate) fn floor(&self) -> Option<Place> {
        self.parts.iter().map(Left::floor).min()
    }

    /// Behind which place it reads, and what.
    pub(crate) fn wanted(&self) -> Option<(Place, Filter)> {
        Some((self.floor()?, Filter::Ended(self.parts.clone())))
    }

    /// A page was read up to here; it goes on the list with a record. False for an answer to
    /// another question than the last.
    pub(crate) fn read(
        &mut self,
        id: ReadId,
        places: Vec<(Place, Vec<SessionNumber>)>,
        through: Place,
    ) -> bool {
        let Some((asked, parts, end)) = self.reading else {
            return false;
        };
        if asked != id {
            return false;
        }
        self.reading = None;
        let listing = Listing {
            places,
            through,
            end,
        };
        self.giving = Some((listing, parts));
        self.has_changed = true;
        true
    }

    /// What will be left once the page under way is recorded, and the sessions of which nothing
    /// will be.
    pub(crate) fn prospect(&self) -> (Vec<Left>, Vec<SessionNumber>) {
        let mut parts = self.parts.clone();
        let mut removed = Vec::new();
        if let Some((listing, count)) = &self.giving {
            if listing.through >= listing.end {
                removed = parts.drain(..count).map(|part| part.session).collect();
            } else {
                for part in parts.iter_mut().take(*count) {
                    part.after = part.after.max(listing.through);
                    part.unacked.retain(|place| *place > listing.through);
                }
            }
        }
        (parts, removed)
    }

    /// The page under way is recorded: gives what is on the list from now on.
    pub(crate) fn committed(&mut self) -> Vec<(Place, Vec<SessionNumber>)> {
        if self.giving.is_some() {
            self.parts = self.prospect().0;
        }
        self.giving
            .take()
            .map_or_else(Vec::new, |(listing, _)| listing.places)
    }

    /// A client has an entry. Whether it was about to be listed: a list with it may be recorded.
    pub(crate) fn forget(&mut self, place: Place) -> bool {
        let Some((listing, _)) = &mut self.giving else {
            return false;
        };
        let before = listing.places.len();
        listing.places.retain(|(listed, _)| *listed != place);
        listing.places.len() < before
    }

    /// What is behind `tail` was not appended.
    pub(crate) fn failed(&mut self, tail: Place) {
        self.reading = None;
        self.giving = None;
        for part in self.parts.iter_mut().chain(&mut self.known) {
            part.after = part.after.min(tail);
            part.unacked.retain(|place| *place <= tail);
        }
        self.has_changed = true;
    }
}
