//! Who has messages for a domain whose component is away. A sender is on the list, durably, before
//! he hears that it is away: from then on he waits to be called, and may leave the memory. He is
//! called when the component is there, a few senders at a time, and now and then while it is not,
//! so that what waits for too long comes back. Once he has answered a call he tries by himself, and
//! is taken off the list; if he hears again that the component is away he is put on it again.
//!
//! | a sender | event | then |
//! |---|---|---|
//! | not listed | his message comes, the component is away | a record; he hears nothing yet |
//! | being listed | the record is durable | listed; he hears that it is away |
//! | being listed | it is refused | not listed; he tries again after a pause |
//! | listed | it is his turn | called |
//! | called | he answers | a record; not listed |
//! | called | his message comes, the component is away | listed: his answer is to an earlier call |
//! | called | no answer | listed |

use std::collections::{BTreeMap, VecDeque};

use actor::Name;

use super::link::Logged;

/// What the name of a sender's part begins with.
const PART: &str = "s";

/// A sender who is on the list, or about to be.
enum Listed {
    /// Its record is not decided: messages that are refused when it is.
    Soon(Vec<Logged>),
    /// It waits to be called.
    Waits,
    /// It was called, with this number.
    Called(u64),
}

/// What becomes of a message for a component that is away.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// Its sender is listed: he may hear so.
    Listed,
    /// He will be: this is to be recorded.
    Record,
    /// He will be: that is being recorded.
    Soon,
    /// There is no room for another one.
    Full,
}

/// The senders of one domain.
#[derive(Default)]
pub(super) struct List {
    all: BTreeMap<Name, Listed>,
    /// Whose turn comes, in order.
    turns: VecDeque<Name>,
    /// Calls that were not answered.
    calls: usize,
    last_call: u64,
}

/// The name of a sender's part in the store.
pub(super) fn part_of(sender: &str) -> String {
    format!("{PART}{sender}")
}

/// The sender whose part that is.
pub(super) fn sender_of(part: &str) -> Option<Name> {
    part.strip_prefix(PART).map(Name::from)
}

impl List {
    /// What the store has.
    pub(super) fn recover(senders: impl IntoIterator<Item = Name>) -> List {
        let senders = senders.into_iter();
        List {
            all: senders.map(|sender| (sender, Listed::Waits)).collect(),
            ..List::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A message has come that cannot be taken.
    pub(super) fn enter(&mut self, logged: &Logged, max: usize) -> Entered {
        let is_full = self.all.len() >= max;
        match self.all.get_mut(&logged.from) {
            Some(Listed::Soon(waiting)) => {
                // One that comes again is the same one.
                waiting.retain(|other| {
                    (&other.to, other.source.seq) != (&logged.to, logged.source.seq)
                });
                waiting.push(logged.clone());
                Entered::Soon
            }
            Some(listed) => {
                *listed = Listed::Waits;
                Entered::Listed
            }
            None if is_full => Entered::Full,
            None => {
                let soon = Listed::Soon(vec![logged.clone()]);
                self.all.insert(logged.from.clone(), soon);
                Entered::Record
            }
        }
    }

    /// The record of a sender is decided. Returns his messages, which are refused now.
    pub(super) fn entered(&mut self, sender: &Name, is_durable: bool) -> Vec<Logged> {
        let listed = match is_durable {
            true => self.all.insert(sender.clone(), Listed::Waits),
            false => self.all.remove(sender),
        };
        match listed {
            Some(Listed::Soon(waiting)) => waiting,
            Some(Listed::Waits | Listed::Called(_)) | None => Vec::new(),
        }
    }

    /// Everybody's turn comes, of those who are not called already.
    pub(super) fn call_all(&mut self) {
        let waiting = self
            .all
            .iter()
            .filter(|(_, it)| matches!(it, Listed::Waits));
        self.turns = waiting.map(|(sender, _)| sender.clone()).collect();
    }

    /// One sender's turn comes.
    pub(super) fn call(&mut self, sender: &Name) {
        if !self.turns.contains(sender) {
            self.turns.push_back(sender.clone());
        }
    }

    /// Whether anybody's turn comes.
    pub(super) fn has_turns(&self) -> bool {
        !self.turns.is_empty()
    }

    /// Who is called next, and the number of the call, unless `max` are.
    pub(super) fn next(&mut self, max: usize) -> Option<(Name, u64)> {
        while self.calls < max {
            let sender = self.turns.pop_front()?;
            if let Some(listed @ Listed::Waits) = self.all.get_mut(&sender) {
                self.calls += 1;
                self.last_call += 1;
                *listed = Listed::Called(self.last_call);
                return Some((sender, self.last_call));
            }
        }
        None
    }

    /// A call was answered, or never will be. True if the sender is not listed any more, which is
    /// to be recorded.
    pub(super) fn answered(&mut self, sender: &Name, call: u64, is_heard: bool) -> bool {
        self.calls = self.calls.saturating_sub(1);
        let listed = self.all.get_mut(sender);
        let Some(listed) = listed.filter(|it| matches!(it, Listed::Called(own) if *own == call))
        else {
            return false; // He has heard since that the component is away.
        };
        if is_heard {
            self.all.remove(sender);
        } else {
            *listed = Listed::Waits;
        }
        is_heard
    }

    /// That a sender is not listed any more could not be recorded: the store has him on the list.
    pub(super) fn is_listed_still(&mut self, sender: &Name) {
        self.all.entry(sender.clone()).or_insert(Listed::Waits);
    }
}

#[cfg(test)]
mod tests {
    use wire::Source;

    use super::*;

    fn logged(from: &str, seq: u64) -> Logged {
        Logged {
            from: Name::from(from),
            to: Name::from("x@irc"),
            source: Source {
                seq,
                ..Source::default()
            },
        }
    }

    /// On the list, durably.
    fn listed(senders: &[&str]) -> List {
        List::recover(senders.iter().map(|sender| Name::from(*sender)))
    }

    #[test]
    fn nobody_hears_that_it_is_away_before_he_is_on_the_list() {
        let mut list = List::default();
        assert_eq!(list.enter(&logged("a", 1), 1), Entered::Record);
        assert_eq!(list.enter(&logged("a", 2), 1), Entered::Soon);
        assert_eq!(list.enter(&logged("a", 2), 1), Entered::Soon);
        assert_eq!(list.enter(&logged("b", 1), 1), Entered::Full);
        list.call_all();
        assert!(!list.has_turns(), "he is not on it yet");
        let heard = list.entered(&Name::from("a"), true);
        assert_eq!(heard, [logged("a", 1), logged("a", 2)]);
        assert_eq!(list.enter(&logged("a", 3), 1), Entered::Listed);
        let mut list = List::default();
        list.enter(&logged("a", 1), 1);
        assert_eq!(list.entered(&Name::from("a"), false), [logged("a", 1)]);
        assert!(list.is_empty());
    }

    #[test]
    fn calls_are_few_at_a_time_and_everybody_is_called() {
        let mut list = listed(&["a", "b", "c"]);
        list.call_all();
        let (first, call) = list.next(2).expect("a turn");
        assert!(list.next(2).is_some() && list.next(2).is_none());
        assert!(list.has_turns());
        assert!(list.answered(&first, call, true));
        assert!(!list.answered(&first, call, true), "once");
        let (third, call) = list.next(2).expect("a turn");
        assert!(!list.answered(&third, call, false), "he did not hear it");
        list.call_all();
        assert_eq!(list.next(3).map(|(sender, _)| sender), Some(third));
        assert!(list.next(3).is_none(), "the other one is being called");
    }

    #[test]
    fn who_hears_again_that_it_is_away_stays_on_the_list() {
        let mut list = listed(&["a"]);
        list.call_all();
        let (sender, call) = list.next(1).expect("a turn");
        assert_eq!(list.enter(&logged("a", 1), 1), Entered::Listed);
        assert!(!list.answered(&sender, call, true), "that was before");
        list.call(&sender);
        list.call(&sender);
        let (sender, call) = list.next(1).expect("a turn");
        assert!(list.answered(&sender, call, true) && list.is_empty());
        assert!(list.next(1).is_none(), "he had one turn");
        // Once more, and the record that he is off the list is refused.
        assert_eq!(list.enter(&logged("a", 2), 1), Entered::Record);
        list.is_listed_still(&sender);
        assert_eq!(list.entered(&sender, true), [logged("a", 2)]);
    }
}
