//! The tree of a run: who is whose child, where each is, and what it is called.
//!
//! Owns the shape, which everybody knows from the beginning. Deliberately not here: actors.
//!
//! ```text
//! master ─┬─ branch ─┬─ colony
//!         │          └─ colony
//!         └─ branch ─┬─ colony
//!                    └─ colony
//! ```
//!
//! With two levels the root is the only branch, and all colonies are its children. With more, each
//! branch has at most `degree` children, so that nobody collects more answers than that.

use serde::{Deserialize, Serialize};

use crate::instance::Instance;
use crate::params::Params;

/// Members of a tree, at most.
pub const MEMBERS_MAX: usize = 65_536;

/// What a member does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Hands tasks to these members and collects their answers.
    Branch(Vec<usize>),
    /// The colony of this number.
    Colony(u32),
}

/// One member of the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// What it is called.
    pub name: String,
    /// Which of the places it runs at: a shard, or a node.
    pub place: u32,
    /// What it does.
    pub role: Role,
}

/// The plan of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The problem.
    pub instance: Instance,
    /// The parameters of all colonies.
    pub params: Params,
    /// Everybody; the root is the last.
    pub members: Vec<Member>,
    /// How many are colonies.
    pub colonies: u32,
}

impl Plan {
    /// A tree of `places` · `each` colonies in which nobody has more than `degree` children.
    ///
    /// # Panics
    /// If one of these is zero, the degree below 2, or the tree larger than [`MEMBERS_MAX`].
    pub fn new(instance: Instance, params: Params, places: u32, each: u32, degree: u32) -> Self {
        assert!(places > 0 && each > 0 && degree > 1);
        let colonies = places * each;
        assert!(2 * colonies as usize <= MEMBERS_MAX);
        let colony = |number| Member {
            name: format!("colony-{number}"),
            place: number / each,
            role: Role::Colony(number),
        };
        let mut members: Vec<Member> = (0..colonies).map(colony).collect();
        let mut level: Vec<usize> = (0..members.len()).collect();
        let mut branches = 0;
        loop {
            let mut above = Vec::new();
            for children in level.chunks(degree as usize) {
                above.push(members.len());
                members.push(Member {
                    name: format!("branch-{branches}"),
                    place: members[children[0]].place,
                    role: Role::Branch(children.to_vec()),
                });
                branches += 1;
            }
            if above.len() == 1 {
                break;
            }
            level = above;
        }
        Plan {
            instance,
            params,
            members,
            colonies,
        }
    }

    /// The member at the top.
    pub fn root(&self) -> usize {
        self.members.len() - 1
    }

    /// Branches above a colony.
    pub fn levels(&self) -> u32 {
        let mut levels = 0;
        let mut at = self.root();
        while let Role::Branch(children) = &self.members[at].role {
            levels += 1;
            at = children[0];
        }
        levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_hold_every_colony_once_within_their_degree() {
        let instance = Instance::parse("1 1 1 1").unwrap();
        for (places, each, degree, levels) in [
            (1, 1, 2, 1),
            (8, 1, 2, 3),
            (5, 3, 4, 2),
            (4, 1, 9, 1),
            (100, 1, 3, 5),
        ] {
            let plan = Plan::new(instance.clone(), Params::default(), places, each, degree);
            let mut parents = vec![0; plan.members.len()];
            for member in &plan.members {
                assert!(member.place < places);
                if let Role::Branch(children) = &member.role {
                    assert!(children.len() <= degree as usize);
                    children.iter().for_each(|child| parents[*child] += 1);
                }
            }
            assert!(parents[..plan.root()].iter().all(|count| *count == 1));
            assert_eq!(parents[plan.root()], 0);
            assert_eq!(plan.levels(), levels, "{places} {each} {degree}");
        }
    }
}
