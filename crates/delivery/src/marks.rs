//! What a recipient remembers of its senders: how far into each one's log it has taken entries.
//! Recognition is exact: memory holds the senders heard of last, and whoever owns the marks reads
//! the others from the store. Owns no storage.

use std::collections::VecDeque;

use stdx::bugs;

use crate::place::Place;

/// What is known of an entry that is handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recognised {
    /// It is the next one.
    New,
    /// It was taken before.
    Again,
    /// The entry in front of it has not been taken: neither may this one be.
    Early,
    /// Memory says nothing of its sender: the store is asked, then [`Marks::learn`].
    Unknown,
}

/// For each sender the last place taken from its log. `P` names a sender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Marks<P> {
    /// The latest at the end.
    latest: VecDeque<(P, Place)>,
    /// Senders that memory has room for; at least 1.
    max: usize,
    /// The store may know senders that memory does not.
    has_more: bool,
}

impl<P: Copy + Eq> Marks<P> {
    /// The marks that are in `latest`, the latest at the end; of more than `max` senders the first
    /// ones are left to the store, which `has_more` already if that is true.
    pub fn new(latest: impl IntoIterator<Item = (P, Place)>, max: usize, has_more: bool) -> Self {
        let mut marks = Marks {
            latest: VecDeque::new(),
            max: max.max(1),
            has_more,
        };
        for (sender, place) in latest {
            marks.learn(sender, place);
        }
        marks
    }

    /// What is known of the entry at `place` of a sender's log. `after` is the last entry in front
    /// of it that its sender does not know to be settled, or [`Place::START`].
    pub fn recognise(&self, sender: P, place: Place, after: Place) -> Recognised {
        match self.of(sender) {
            Some(mark) if place <= mark => Recognised::Again,
            Some(mark) if after > mark && !bugs::is("order_is_not_checked") => Recognised::Early,
            Some(_) => Recognised::New,
            None if self.has_more => Recognised::Unknown,
            None if after > Place::START && !bugs::is("order_is_not_checked") => Recognised::Early,
            None => Recognised::New,
        }
    }

    /// The last place taken from a sender, as far as memory knows.
    pub fn of(&self, sender: P) -> Option<Place> {
        let mut known = self.latest.iter().rev();
        known
            .find(|(have, _)| *have == sender)
            .map(|(_, mark)| *mark)
    }

    /// Everything of a sender up to `place` was taken. Marks never go back.
    pub fn learn(&mut self, sender: P, place: Place) {
        let known = self.latest.iter().rposition(|(have, _)| *have == sender);
        let known = known.and_then(|at| self.latest.remove(at));
        if known.is_none() && self.latest.len() >= self.max {
            self.latest.pop_front();
            self.has_more = true;
        }
        let mark = known.map_or(place, |(_, mark)| mark.max(place));
        self.latest.push_back((sender, mark));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(max: usize) -> Marks<u8> {
        Marks::new([], max, false)
    }

    #[test]
    fn an_entry_is_taken_once_and_behind_the_one_in_front() {
        let mut marks = marks(2);
        let (first, second) = (Place::new(3), Place::new(7));
        assert_eq!(marks.recognise(1, first, Place::START), Recognised::New);
        assert_eq!(marks.recognise(1, second, first), Recognised::Early);
        marks.learn(1, first);
        assert_eq!(marks.recognise(1, first, Place::START), Recognised::Again);
        assert_eq!(marks.recognise(1, second, first), Recognised::New);
        assert_eq!(marks.recognise(2, first, Place::START), Recognised::New);
    }

    #[test]
    fn a_sender_beyond_memory_is_asked_for() {
        let mut marks = marks(2);
        for sender in 1..=3 {
            marks.learn(sender, Place::new(5));
        }
        assert_eq!(
            marks.recognise(1, Place::new(5), Place::START),
            Recognised::Unknown
        );
        assert_eq!(
            marks.recognise(9, Place::new(1), Place::START),
            Recognised::Unknown
        );
        marks.learn(1, Place::new(5));
        assert_eq!(
            marks.recognise(1, Place::new(5), Place::START),
            Recognised::Again
        );
    }

    #[test]
    fn marks_never_go_back() {
        let mut marks = marks(1);
        marks.learn(1, Place::new(5));
        marks.learn(1, Place::new(2));
        assert_eq!(marks.of(1), Some(Place::new(5)));
    }

    /// What is in front of an entry may be the last one that was taken.
    #[test]
    fn an_entry_right_behind_the_last_one_is_new() {
        let mut marks = marks(2);
        marks.learn(1, Place::new(5));
        let behind = |after| marks.recognise(1, Place::new(9), Place::new(after));
        assert_eq!(behind(5), Recognised::New);
        assert_eq!(behind(6), Recognised::Early);
        // Each sender has a mark of its own.
        marks.learn(2, Place::new(3));
        marks.learn(1, Place::new(7));
        let all = [1, 2].map(|sender| marks.of(sender));
        assert_eq!(all, [Some(Place::new(7)), Some(Place::new(3))]);
    }
}
