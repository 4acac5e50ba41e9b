//! The names of one space, as a table of claims.
//!
//! Owns who claims which name, and which claim wins where several meet. A *claim* says that a
//! process has a name; it is its *keeper's*, who alone makes, tells and withdraws it. Members of a
//! space whose halves meet may have several claims for one name, each of another keeper: all are
//! kept, and the winner is shown. So a claim that is withdrawn takes no other with it, and the one
//! that was hidden behind it is shown again without a word. Deliberately not here: how claims come
//! and go (`names`), and what becomes of those that lose (`clashes`).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::types::{Name, NodeName, Pid};

/// Which claim: given out once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) keeper: NodeName,
    /// Which life of the keeper.
    pub(crate) life: u64,
    /// Which claim of that life.
    pub(crate) number: u64,
}

/// That a process has a name.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) pid: Pid,
    pub(crate) stamp: Stamp,
    /// The claims that it replaces: while it is there they do not count.
    pub(crate) over: Vec<Stamp>,
    /// The monitor that the keeper has of the process.
    pub(crate) monitor: Option<u64>,
    /// The keeper of a claim that loses looks whether the winner's process is alive.
    pub(crate) is_contested: bool,
}

impl Claim {
    /// The smaller one wins, everywhere: that of the smaller address, and of two keepers of one
    /// process that of the smaller name.
    fn rank(&self) -> (&Pid, &NodeName) {
        (&self.pid, &self.stamp.keeper)
    }

    pub(crate) fn wins_against(&self, other: &Claim) -> bool {
        self.rank() < other.rank()
    }
}

/// The names of one space. A keeper has at most one claim for a name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    by_name: BTreeMap<Name, Vec<Claim>>,
    by_pid: BTreeMap<Pid, BTreeSet<Name>>,
    claims: usize,
    /// Claims that this node, as coordinator, has ordered another one to make and has not heard of
    /// yet, with the number of the order. At most as many as a node has operations.
    ordered: BTreeMap<Name, (Pid, u64)>,
}

impl Names {
    /// The number of claims.
    pub(crate) fn len(&self) -> usize {
        self.claims
    }

    /// The claim that wins a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Claim> {
        winner(self.claims(name))
    }

    /// Every name with the claim that wins it.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Name, &Claim)> {
        let names = self.by_name.iter();
        names.filter_map(|(name, claims)| Some((name, winner(claims)?)))
    }

    /// Every claim for a name.
    pub(crate) fn claims(&self, name: &str) -> &[Claim] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// The claim of a keeper for a name.
    pub(crate) fn claim_of(&self, name: &str, keeper: &NodeName) -> Option<&Claim> {
        let mut claims = self.claims(name).iter();
        claims.find(|claim| claim.stamp.keeper == *keeper)
    }

    pub(crate) fn claim_of_mut(&mut self, name: &str, keeper: &NodeName) -> Option<&mut Claim> {
        let mut claims = self.by_name.get_mut(name)?.iter_mut();
        claims.find(|claim| claim.stamp.keeper == *keeper)
    }

    /// Whether another claim replaces this one.
    pub(crate) fn is_replaced(&self, name: &str, stamp: &Stamp) -> bool {
        is_replaced(self.claims(name), stamp)
    }

    /// What a keeper claims of the names after one (from the first) and up to one (to the last).
    pub(crate) fn kept_by(
        &self,
        keeper: &NodeName,
        after: Option<&Name>,
        upto: Option<&Name>,
    ) -> impl Iterator<Item = (&Name, &Claim)> {
        // An interval that ends before it begins has nothing in it; a map would panic.
        let is_empty = after.zip(upto).is_some_and(|(after, upto)| upto <= after);
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let upto = upto.map_or(Bound::Unbounded, Bound::Included);
        let names = (!is_empty).then(|| self.by_name.range::<Name, _>((after, upto)));
        names
            .into_iter()
            .flatten()
            .filter_map(move |(name, claims)| {
                let claim = claims.iter().find(|claim| claim.stamp.keeper == *keeper)?;
                Some((name, claim))
            })
    }

    /// Whether a process has a name other than this one.
    pub(crate) fn has_other(&self, pid: &Pid, name: &str) -> bool {
        let mut names = self.by_pid.get(pid).into_iter().flatten();
        names.any(|other| **other != *name)
    }

    /// Takes a claim, in the place of its keeper's last one for the name. Returns that.
    pub(crate) fn insert(&mut self, name: &Name, claim: Claim) -> Option<Claim> {
        let old = self.remove(name, &claim.stamp.keeper);
        if self
            .ordered
            .get(name)
            .is_some_and(|(pid, _)| *pid == claim.pid)
        {
            self.ordered.remove(name);
        }
        let names = self.by_pid.entry(claim.pid.clone()).or_default();
        names.insert(Name::clone(name));
        self.claims += 1;
        match self.by_name.get_mut(name) {
            Some(claims) => claims.push(claim),
            None => drop(self.by_name.insert(Name::clone(name), vec![claim])),
        }
        old
    }

    /// Forgets the claim of a keeper for a name.
    pub(crate) fn remove(&mut self, name: &str, keeper: &NodeName) -> Option<Claim> {
        let claims = self.by_name.get_mut(name)?;
        let at = claims
            .iter()
            .position(|claim| claim.stamp.keeper == *keeper)?;
        let claim = claims.swap_remove(at);
        self.claims -= 1;
        let has_name = claims.iter().any(|other| other.pid == claim.pid);
        if claims.is_empty() {
            self.by_name.remove(name);
        }
        if !has_name && let Some(names) = self.by_pid.get_mut(&claim.pid) {
            names.remove(name);
            if names.is_empty() {
                self.by_pid.remove(&claim.pid);
            }
        }
        Some(claim)
    }

    // ---- What the coordinator has ordered ------------------------------------------------------

    /// Whether a claim for this name, or of this process, is on its way.
    pub(crate) fn is_ordered(&self, name: &str, pid: Option<&Pid>) -> bool {
        let mut pids = self.ordered.values().map(|(pid, _)| pid);
        self.ordered.contains_key(name) || pid.is_some_and(|pid| pids.any(|other| other == pid))
    }

    pub(crate) fn order(&mut self, name: &Name, pid: Pid, number: u64) {
        self.ordered.insert(Name::clone(name), (pid, number));
    }

    /// An order was answered, or will never be.
    pub(crate) fn order_done(&mut self, name: &str, number: u64) {
        if self
            .ordered
            .get(name)
            .is_some_and(|(_, other)| *other == number)
        {
            self.ordered.remove(name);
        }
    }
}

fn is_replaced(claims: &[Claim], stamp: &Stamp) -> bool {
    claims.iter().any(|claim| claim.over.contains(stamp))
}

fn winner(claims: &[Claim]) -> Option<&Claim> {
    let counts = |claim: &&Claim| !is_replaced(claims, &claim.stamp);
    claims
        .iter()
        .filter(counts)
        .min_by(|a, b| a.rank().cmp(&b.rank()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeName {
        NodeName::new(name).unwrap()
    }

    fn claim(keeper: &str, number: u64, pid: u64, over: Vec<Stamp>) -> Claim {
        Claim {
            pid: Pid {
                node: node("p"),
                life: 1,
                id: pid,
            },
            stamp: Stamp {
                keeper: node(keeper),
                life: 1,
                number,
            },
            over,
            monitor: None,
            is_contested: false,
        }
    }

    /// The process that a name is shown with.
    fn shown(names: &Names) -> Option<u64> {
        names.get("n").map(|claim| claim.pid.id)
    }

    #[test]
    fn a_claim_that_was_hidden_is_shown_again_once_the_winner_is_withdrawn() {
        let (mut names, name) = (Names::default(), Name::from("n"));
        names.insert(&name, claim("a", 1, 9, vec![]));
        names.insert(&name, claim("b", 1, 5, vec![]));
        assert_eq!((shown(&names), names.len()), (Some(5), 2));
        assert_eq!(names.remove("n", &node("b")).unwrap().pid.id, 5);
        assert_eq!((shown(&names), names.len()), (Some(9), 1));
        names.remove("n", &node("a"));
        assert_eq!((shown(&names), names.len()), (None, 0));
        assert!(names.by_name.is_empty() && names.by_pid.is_empty());
    }

    #[test]
    fn a_claim_replaces_those_that_it_names_and_no_later_one_of_the_same_keeper() {
        let (mut names, name) = (Names::default(), Name::from("n"));
        let old = claim("a", 1, 5, vec![]);
        names.insert(&name, old.clone());
        names.insert(&name, claim("b", 1, 9, vec![old.stamp.clone()]));
        assert_eq!(shown(&names), Some(9));
        assert!(names.is_replaced("n", &old.stamp));
        assert_eq!(
            names.insert(&name, claim("a", 2, 5, vec![])).unwrap().stamp,
            old.stamp
        );
        assert_eq!(shown(&names), Some(5));
    }

    #[test]
    fn two_keepers_of_one_process_leave_its_name_when_one_withdraws() {
        let (mut names, name) = (Names::default(), Name::from("n"));
        names.insert(&name, claim("a", 1, 5, vec![]));
        names.insert(&name, claim("b", 1, 5, vec![]));
        assert_eq!(names.get("n").unwrap().stamp.keeper, node("a"));
        names.remove("n", &node("a"));
        let pid = names.get("n").unwrap().pid.clone();
        assert!(names.has_other(&pid, "other") && !names.has_other(&pid, "n"));
    }

    #[test]
    fn what_a_keeper_claims_is_told_by_intervals() {
        let mut names = Names::default();
        for (name, keeper) in [("a", "x"), ("b", "y"), ("c", "x"), ("d", "x")] {
            names.insert(&name.into(), claim(keeper, 1, 5, vec![]));
        }
        let kept = |after: Option<&str>, upto: Option<&str>| {
            let (after, upto) = (after.map(Name::from), upto.map(Name::from));
            let keeper = node("x");
            let kept = names.kept_by(&keeper, after.as_ref(), upto.as_ref());
            kept.map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(kept(None, None), ["a", "c", "d"]);
        assert_eq!(kept(Some("a"), Some("c")), ["c"]);
        assert_eq!(kept(Some("c"), None), ["d"]);
        assert_eq!(kept(Some("c"), Some("c")), [""; 0]);
        assert_eq!(kept(Some("d"), Some("a")), [""; 0]);
    }

    #[test]
    fn a_name_and_a_process_are_taken_from_the_order_until_the_claim_is_there() {
        let (mut names, name) = (Names::default(), Name::from("n"));
        let new = claim("a", 1, 5, vec![]);
        names.order(&name, new.pid.clone(), 7);
        let other = claim("a", 2, 6, vec![]).pid;
        assert!(names.is_ordered("n", Some(&other)) && names.is_ordered("m", Some(&new.pid)));
        assert!(!names.is_ordered("m", Some(&other)));
        names.order_done("n", 6);
        assert!(names.is_ordered("n", Some(&other)), "another order");
        names.insert(&name, new.clone());
        assert!(!names.is_ordered("n", Some(&new.pid)));
        names.order(&name, new.pid, 8);
        names.order_done("n", 8);
        assert!(!names.is_ordered("n", Some(&other)));
    }
}
