//! Which of the appends that wait go with the next batch. All of them, while they are few; when
//! many wait, actors take turns, so that one that appends a lot waits for itself: whoever has one
//! append to make has it in the next batch. Owns the choice, which has no state.

use std::collections::VecDeque;

use actor::Addr;
use rustc_hash::{FxHashMap, FxHashSet};
use store::RangeId;

use super::{Owner, Who};
use crate::message::UserMsg;

/// Whose appends keep their order among each other.
#[derive(PartialEq, Eq, Hash)]
enum Lane {
    Actor(Addr<UserMsg>),
    Import(u64),
}

/// Whether each of the appends that wait goes now: those of ranges that `may_go`, in whole rounds
/// until there are `enough`. In a round each actor has one turn. Who waits for all of a range goes
/// only with or behind all that was appended to it before.
pub(super) fn choose(
    owners: &VecDeque<Owner>,
    enough: usize,
    may_go: impl Fn(RangeId) -> bool,
) -> Vec<bool> {
    let mut had: FxHashMap<Lane, u32> = FxHashMap::default();
    // How many of the same lane are in front; nothing of what waits for a doubt has a round.
    let rounds: Vec<Option<u32>> = owners
        .iter()
        .map(|owner| {
            let lane = match owner.who {
                Who::User(addr, _) => Lane::Actor(addr),
                Who::Import(number) => Lane::Import(number),
                Who::Waiter(..) => return may_go(owner.range).then_some(0),
            };
            if !may_go(owner.range) {
                return None;
            }
            let in_front = had.entry(lane).or_insert(0);
            *in_front += 1;
            Some(*in_front - 1)
        })
        .collect();
    let last = last_round(&rounds, enough);
    let mut left_behind: FxHashSet<RangeId> = FxHashSet::default();
    owners
        .iter()
        .zip(rounds)
        .map(|(owner, round)| {
            let is_waiter = matches!(owner.who, Who::Waiter(..));
            let goes = round.is_some_and(|round| round <= last)
                && !(is_waiter && left_behind.contains(&owner.range));
            if !goes {
                left_behind.insert(owner.range);
            }
            goes
        })
        .collect()
}

/// The round with which there are `enough`.
fn last_round(rounds: &[Option<u32>], enough: usize) -> u32 {
    let mut sizes: Vec<usize> = Vec::new();
    for &round in rounds.iter().flatten() {
        let round = round as usize;
        if sizes.len() <= round {
            sizes.resize(round + 1, 0);
        }
        sizes[round] += 1;
    }
    let mut sum = 0;
    let found = sizes.iter().position(|size| {
        sum += size;
        sum >= enough
    });
    u32::try_from(found.unwrap_or(sizes.len())).unwrap_or(u32::MAX)
}
