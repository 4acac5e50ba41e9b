//! Which of the appends that wait go with the next batch. All of them, while they are few; when
//! many wait, each actor's first ones go, and of the others as many as have room, in order. So who
//! appends a lot waits for himself: whoever has one append to make has it in the next batch. Owns
//! the choice, which has no state.
//!
//! More than the first of each, as long as the batch is not large: a shard has a batch decided with
//! each of its turns, and these get longer when it is busy. Actors that may append once in a turn
//! then append less the more there is to do, and it never becomes less.

use std::collections::VecDeque;

use actor::Addr;
use rustc_hash::{FxHashMap, FxHashSet};
use store::RangeId;

use super::Who;
use super::queue::Owner;
use crate::message::UserMsg;

/// Whose appends keep their order among each other.
#[derive(PartialEq, Eq, Hash)]
enum Lane {
    Actor(Addr<UserMsg>),
    Import(u64),
}

/// How many go together.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Whoever made them ([`crate::options::Commits::batch_appends`]).
    pub(super) enough: usize,
    /// Of each lane, while there are no more than `large`.
    pub(super) each: usize,
    /// With more, only the first of each.
    pub(super) large: usize,
}

/// Whether each of the appends that wait goes now: of those that `may_go`, which is said of a range
/// as a whole, the first ones of each lane, and others until there are enough. Who waits for all
/// of a range goes only with or behind all that was appended to it before.
pub(super) fn choose(
    owners: &VecDeque<Owner>,
    sizes: Sizes,
    may_go: impl Fn(&Owner) -> bool,
) -> Vec<bool> {
    let mut lanes: FxHashMap<Lane, usize> = FxHashMap::default();
    let mut chosen = 0;
    let mut is_early = |lane: Lane| {
        let before = lanes.entry(lane).or_default();
        *before += 1;
        let goes = *before == 1 || *before <= sizes.each && chosen < sizes.large;
        chosen += usize::from(goes);
        goes
    };
    let is_early: Vec<bool> = owners
        .iter()
        .map(|owner| may_go(owner) && lane(owner).is_none_or(&mut is_early))
        .collect();
    let early = is_early.iter().filter(|is_early| **is_early).count();
    let mut places = sizes.enough.saturating_sub(early);
    let mut left_behind: FxHashSet<RangeId> = FxHashSet::default();
    owners
        .iter()
        .zip(is_early)
        .map(|(owner, is_early)| {
            let goes = match lane(owner) {
                None => is_early && !left_behind.contains(&owner.range),
                Some(_) if is_early => true,
                Some(_) => {
                    // Of a lane nothing overtakes: once there is no place left, none is found.
                    let has_place = places > 0 && may_go(owner);
                    places -= usize::from(has_place);
                    has_place
                }
            };
            if !goes {
                left_behind.insert(owner.range);
            }
            goes
        })
        .collect()
}

fn lane(owner: &Owner) -> Option<Lane> {
    match owner.who {
        Who::User(addr, _) => Some(Lane::Actor(addr)),
        Who::Import(number) => Some(Lane::Import(number)),
        Who::Waiter(..) => None,
    }
}
