//! Credit, by which a master learns that nobody has anything left to do.
//!
//! Owns the arithmetic: an atomic credit `k` is worth 1/2^k, a credit is a set of them, and no
//! credit is made or lost, so that the computation is over exactly when the master has all of it
//! back. Deliberately not here: who holds which.
//!
//! | event | what happens |
//! |---|---|
//! | a message is sent | its sender splits an atomic credit off and puts it in |
//! | a message is received | its receiver adds the credit to its own |
//! | nothing is left to do | the credit goes back to the master |
//! | the master has 1 | nobody works, and no message is under way |

use serde::{Deserialize, Serialize};

/// Some share of the whole: distinct atomic credits, the smallest (largest number) first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit(Vec<u32>);

impl Credit {
    /// Nothing.
    pub const NONE: Credit = Credit(Vec::new());

    /// All there is: what a master begins with.
    pub fn whole() -> Self {
        Credit(vec![0])
    }

    /// Whether this is nothing.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is all there is.
    pub fn is_whole(&self) -> bool {
        self.0 == [0]
    }

    /// The atomic credits, in descending order of their numbers.
    pub fn atoms(&self) -> &[u32] {
        &self.0
    }

    /// Adds an atomic credit; two equal ones are one of twice the worth.
    pub fn add(&mut self, atom: u32) {
        let mut atom = atom;
        // Carries move towards the end, where the numbers are smaller.
        let mut at = self.0.partition_point(|other| *other > atom);
        while self.0.get(at) == Some(&atom) && atom > 0 {
            self.0.remove(at);
            atom -= 1;
        }
        at = at.min(self.0.len());
        self.0.insert(at, atom);
    }

    /// Adds all of another credit.
    pub fn add_all(&mut self, other: Credit) {
        for atom in other.0 {
            self.add(atom);
        }
    }

    /// Splits an atomic credit off, halving the last one instead of giving it away. `None` if there
    /// is nothing to split.
    pub fn split(&mut self) -> Option<u32> {
        if self.0.len() > 1 {
            // The smallest is given away, so that what is left stays easy to split.
            return Some(self.0.remove(0));
        }
        let last = self.0.first_mut()?;
        *last += 1;
        Some(*last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    #[test]
    fn halves_add_up() {
        let mut credit = Credit::whole();
        let parts: Vec<u32> = (0..5).filter_map(|_| credit.split()).collect();
        assert_eq!(parts, [1, 2, 3, 4, 5]);
        assert_eq!(credit.atoms(), [5]);
        parts.into_iter().for_each(|part| credit.add(part));
        assert!(credit.is_whole());
        assert_eq!(Credit::default().split(), None);
    }

    proptest! {
        /// However credit is passed around, it never becomes more or less, and lists stay strictly
        /// descending.
        #[test]
        fn credit_is_conserved(moves in proptest::collection::vec((0usize..4, 0usize..4), 0..300)) {
            let mut holders: Vec<Credit> = vec![Credit::whole(), Credit::NONE, Credit::NONE,
                Credit::NONE];
            for (from, to) in moves {
                if let Some(part) = holders[from].split() {
                    holders[to].add(part);
                }
                for holder in &holders {
                    prop_assert!(holder.atoms().is_sorted_by(|a, b| a > b));
                }
            }
            let mut all = Credit::NONE;
            holders.into_iter().for_each(|holder| all.add_all(holder));
            prop_assert_eq!(all.atoms(), &[0]);
        }
    }
}
