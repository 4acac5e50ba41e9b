//! The account as a consumer of its user's log: one mark, and one bounded list.

use super::types::StoredAccount;
use crate::place::{Place, SessionNumber};

/// An entry for the full address of a session that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Listed {
    pub(crate) place: Place,
    /// The session that has it in its window: nobody else is given it.
    pub(crate) held_by: Option<SessionNumber>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Account {
    /// Everything for the account up to here was acknowledged by a session, or written to one
    /// whose client does not acknowledge.
    pub(crate) mark: Place,
    /// The mark as it was taken to be recorded last.
    pub(crate) recorded: Place,
    /// The last entry for the account.
    pub(crate) last: Place,
    /// Entries for it behind the mark, and their bytes.
    pub(crate) waiting: (u64, u64),
    /// Sorted by place.
    pub(crate) listed: Vec<Listed>,
    pub(crate) has_changed: bool,
}

impl Account {
    pub(crate) fn new(stored: &StoredAccount<'_>) -> Self {
        let mut account = Account {
            mark: stored.mark,
            recorded: stored.recorded,
            last: stored.last,
            waiting: stored.waiting,
            ..Account::default()
        };
        for place in stored.listed {
            account.list(*place, None);
        }
        account.has_changed = false;
        account
    }

    /// An entry for the account is appended.
    pub(crate) fn append(&mut self, place: Place, before: Place, bytes: u32) {
        self.settle(before);
        self.last = place;
        self.waiting.0 += 1;
        self.waiting.1 += u64::from(bytes);
    }

    /// If nothing waits, the mark is where the log ends: nobody has to look through what is not for
    /// the account.
    pub(crate) fn settle(&mut self, appended: Place) {
        if self.mark >= self.last {
            self.mark = self.mark.max(appended);
            self.waiting = (0, 0);
        }
    }

    /// Somebody has everything for the account up to a place, and of what was behind the mark these
    /// entries, with their bytes. Marks never go back.
    pub(crate) fn advance(&mut self, through: Place, (count, bytes): (u64, u64)) {
        if through > self.mark {
            self.mark = through;
            self.waiting = self.waiting_without((count, bytes));
            self.settle(through);
        }
    }

    pub(crate) fn waiting_without(&self, (count, bytes): (u64, u64)) -> (u64, u64) {
        let (have, have_bytes) = self.waiting;
        (have.saturating_sub(count), have_bytes.saturating_sub(bytes))
    }

    pub(crate) fn list(&mut self, place: Place, held_by: Option<SessionNumber>) {
        let at = self.listed.binary_search_by_key(&place, |have| have.place);
        if let Err(at) = at {
            self.listed.insert(at, Listed { place, held_by });
            self.has_changed = true;
        }
    }

    /// Somebody has it, or it is gone from the log.
    pub(crate) fn unlist(&mut self, place: Place) {
        let at = self.listed.binary_search_by_key(&place, |have| have.place);
        if let Ok(at) = at {
            self.listed.remove(at);
            self.has_changed = true;
        }
    }

    /// A session takes the first ones that nobody holds and that it is not given otherwise.
    pub(crate) fn hold(
        &mut self,
        session: SessionNumber,
        max: usize,
        is_given: impl Fn(Place) -> bool,
    ) -> Vec<Place> {
        let free = self.listed.iter_mut();
        let free = free.filter(|listed| listed.held_by.is_none() && !is_given(listed.place));
        let mut held = Vec::new();
        for listed in free.take(max) {
            listed.held_by = Some(session);
            held.push(listed.place);
        }
        held
    }

    /// A session gives back all that it holds, but for what is `kept`.
    pub(crate) fn release(&mut self, session: SessionNumber, kept: impl Fn(Place) -> bool) {
        for listed in &mut self.listed {
            if listed.held_by == Some(session) && !kept(listed.place) {
                listed.held_by = None;
            }
        }
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = Place> {
        self.listed.iter().map(|listed| listed.place)
    }

    /// What is behind `tail` was not appended: of that, nothing was acknowledged. `stored` is the
    /// mark that is recorded, and what waits behind it: no more does behind a mark that is further.
    pub(crate) fn failed(&mut self, tail: Place, (mark, waiting): (Place, (u64, u64))) {
        self.mark = self.mark.min(tail).max(mark);
        self.recorded = mark;
        self.last = match waiting.0 {
            0 => Place::START,
            _ => tail,
        };
        self.waiting = match self.mark == mark {
            true => waiting,
            false => (self.waiting.0.min(waiting.0), self.waiting.1.min(waiting.1)),
        };
        self.has_changed = true;
    }
}
