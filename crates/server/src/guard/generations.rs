//! Generations of accounts. What began to log in before an account's credentials changed, before it
//! was locked, removed or its sessions were ended, must not become a session afterwards. Streams do
//! not outlive the process, so neither do generations: the shard where the account is at home keeps
//! them, past evictions and crashes of its actor.

use std::collections::{HashMap, VecDeque};

use actor::Name;

use crate::c2s::Abort;
use crate::limits::GENERATIONS_REMEMBERED;

/// When something began, in changes of accounts of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Generation(u64);

/// The changes of one shard's accounts that streams may have begun before.
pub(crate) struct Generations {
    /// The last change.
    last: u64,
    /// What began before this change is taken for ended, because changes of then are forgotten.
    forgotten: u64,
    of: HashMap<Name, (u64, Abort)>,
    order: VecDeque<(u64, Name)>,
    max: usize,
}

impl Default for Generations {
    fn default() -> Self {
        Generations::bounded(GENERATIONS_REMEMBERED)
    }
}

impl Generations {
    /// Remembers at most `max` changes.
    fn bounded(max: usize) -> Self {
        Generations {
            last: 0,
            forgotten: 0,
            of: HashMap::new(),
            order: VecDeque::new(),
            max,
        }
    }

    /// The generation of what begins now.
    pub(crate) fn now(&self) -> Generation {
        Generation(self.last)
    }

    /// Ends what has begun for an account, for a reason.
    pub(crate) fn advance(&mut self, user: &Name, why: Abort) {
        self.last += 1;
        self.of.insert(Name::clone(user), (self.last, why));
        self.order.push_back((self.last, Name::clone(user)));
        while self.order.len() > self.max {
            let Some((change, user)) = self.order.pop_front() else {
                return;
            };
            self.forgotten = change;
            if self.of.get(&user).is_some_and(|last| last.0 == change) {
                self.of.remove(&user);
            }
        }
    }

    /// Why what began then is over, if it is. What is older than all that is remembered has to
    /// begin anew.
    pub(crate) fn ended(&self, user: &Name, begun: Generation) -> Option<Abort> {
        match self.of.get(user) {
            Some((change, why)) if *change > begun.0 => Some(*why),
            _ if begun.0 < self.forgotten => Some(Abort::CredentialsChanged),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_began_before_a_change_is_over_and_what_begins_after_it_is_not() {
        let mut generations = Generations::default();
        let (romeo, juliet) = (Name::from("romeo@x"), Name::from("juliet@x"));
        let before = generations.now();
        generations.advance(&romeo, Abort::Locked);
        let after = generations.now();
        assert_eq!(generations.ended(&romeo, before), Some(Abort::Locked));
        assert_eq!(generations.ended(&romeo, after), None);
        assert_eq!(generations.ended(&juliet, before), None);
        generations.advance(&romeo, Abort::Kicked);
        assert_eq!(generations.ended(&romeo, after), Some(Abort::Kicked));
    }

    /// At the bound the oldest change is forgotten, and with it every stream that may be of before.
    #[test]
    fn what_is_forgotten_ends_more_and_never_less() {
        let mut generations = Generations::bounded(2);
        let names: Vec<Name> = (0..5).map(|n| Name::from(&*format!("u{n}@x"))).collect();
        let before = generations.now();
        for name in &names {
            generations.advance(name, Abort::Kicked);
        }
        assert_eq!((generations.of.len(), generations.order.len()), (2, 2));
        for name in &names {
            assert!(generations.ended(name, before).is_some());
            assert_eq!(generations.ended(name, generations.now()), None);
        }
        let stranger = Name::from("stranger@x");
        let why = generations.ended(&stranger, before);
        assert_eq!(why, Some(Abort::CredentialsChanged), "nobody knows");
        for _ in 0..5 {
            generations.advance(&names[0], Abort::Locked);
        }
        assert_eq!(generations.of.len(), 1, "an account is there once");
    }
}
