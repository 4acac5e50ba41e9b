//! Generations of accounts. What began to log in before an account's credentials changed, before it
//! was locked, removed or its sessions were ended, must not become a session afterwards. Streams do
//! not outlive the process, so neither do generations: the shard where the account is at home keeps
//! them, past evictions and crashes of its actor. While the account is at home on another node, its
//! changes are made there: what began in an earlier tenure of its home is over.

use std::collections::{HashMap, VecDeque};

use actor::Name;

use crate::ending::Abort;
use crate::limits::GENERATIONS_REMEMBERED;

/// When something began, in changes of accounts of one shard and tenures of the account's home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Generation {
    change: u64,
    tenure: u32,
}

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

    /// The generation of what begins now, in this tenure of the account's home.
    pub(crate) fn now(&self, tenure: u32) -> Generation {
        Generation {
            change: self.last,
            tenure,
        }
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

    /// Why what began then is over in this tenure, if it is. What is older than all that is
    /// remembered has to begin anew, and so does what began before the account was at home
    /// elsewhere: what was changed there is not known here.
    pub(crate) fn ended(&self, user: &Name, begun: Generation, tenure: u32) -> Option<Abort> {
        match self.of.get(user) {
            Some((change, why)) if *change > begun.change => Some(*why),
            _ if begun.change < self.forgotten => Some(Abort::CredentialsChanged),
            _ if begun.tenure != tenure => Some(Abort::Moved),
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
        let before = generations.now(1);
        generations.advance(&romeo, Abort::Locked);
        let after = generations.now(1);
        assert_eq!(generations.ended(&romeo, before, 1), Some(Abort::Locked));
        assert_eq!(generations.ended(&romeo, after, 1), None);
        assert_eq!(generations.ended(&juliet, before, 1), None);
        generations.advance(&romeo, Abort::Kicked);
        assert_eq!(generations.ended(&romeo, after, 1), Some(Abort::Kicked));
    }

    #[test]
    fn what_began_in_another_tenure_is_over() {
        let generations = Generations::default();
        let romeo = Name::from("romeo@x");
        let before = generations.now(1);
        assert_eq!(generations.ended(&romeo, before, 1), None);
        assert_eq!(generations.ended(&romeo, before, 3), Some(Abort::Moved));
    }

    /// At the bound the oldest change is forgotten, and with it every stream that may be of before.
    #[test]
    fn what_is_forgotten_ends_more_and_never_less() {
        let mut generations = Generations::bounded(2);
        let names: Vec<Name> = (0..5).map(|n| Name::from(&*format!("u{n}@x"))).collect();
        let before = generations.now(1);
        for name in &names {
            generations.advance(name, Abort::Kicked);
        }
        assert_eq!((generations.of.len(), generations.order.len()), (2, 2));
        for name in &names {
            assert!(generations.ended(name, before, 1).is_some());
            assert_eq!(generations.ended(name, generations.now(1), 1), None);
        }
        let stranger = Name::from("stranger@x");
        let why = generations.ended(&stranger, before, 1);
        assert_eq!(why, Some(Abort::CredentialsChanged), "nobody knows");
        for _ in 0..5 {
            generations.advance(&names[0], Abort::Locked);
        }
        assert_eq!(generations.of.len(), 1, "an account is there once");
    }
}
