//! Which range moves to which shard by itself, so that the shards of a node are about equally busy.
//! Owns the decision: figures of one look in, at most one move out. Deliberately not here: how it
//! is measured, and the move itself.
//!
//! | seen | then |
//! |---|---|
//! | the busiest shard is busy, and busier than the idlest by so much, for several looks in a row | the range moves whose move brings the two closest together |
//! | the same, but no move would help enough | nothing: one hot range stays where it is, and others leave it |
//! | a shard does not answer | nothing goes there, and nothing can leave it |
//! | a range has just moved, or could not | it is left alone for a while |

use std::time::Duration;

use actor::ShardId;
use stdx::time::Moment;
use store::RangeId;

use crate::options::Balance;

/// What one look has found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Seen {
    /// The share of its time that each shard worked, from 0 to 1; `None` of one that did not
    /// answer.
    pub(crate) shards: Vec<Option<f64>>,
    /// Where each range is, and its part of that share, by range.
    pub(crate) ranges: Vec<(ShardId, f64)>,
}

/// A range should go to a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) range: RangeId,
    pub(crate) to: ShardId,
}

/// What was seen before.
#[derive(Debug)]
pub(crate) struct Balancer {
    bounds: Balance,
    /// The shard that was too busy when it was looked last, and how many looks in a row.
    busiest: Option<(usize, u32)>,
    /// Until when each range is left alone.
    rests: Vec<Moment>,
}

impl Balancer {
    pub(crate) fn new(bounds: Balance) -> Balancer {
        Balancer {
            bounds,
            busiest: None,
            rests: vec![Moment::ZERO; usize::from(store::RANGES)],
        }
    }

    /// A range has moved, or could not: it is left alone for so long.
    pub(crate) fn rests(&mut self, range: RangeId, now: Moment, pause: Duration) {
        self.rests[usize::from(range.index())] = now + pause;
        // What it changed is to be seen first.
        self.busiest = None;
    }

    /// What should move now, if anything should.
    pub(crate) fn look(&mut self, seen: &Seen, now: Moment) -> Option<Wish> {
        let shards = seen.shards.iter().enumerate();
        let loads = shards.filter_map(|(at, load)| Some((at, (*load)?)));
        let by_load = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
        let (from, busy) = loads.clone().max_by(by_load)?;
        let (to, idle) = loads.min_by(by_load)?;
        let is_uneven = busy >= self.bounds.busy_min && busy - idle >= self.bounds.gap_min;
        if !is_uneven {
            self.busiest = None;
            return None;
        }
        let times = match self.busiest {
            Some((before, times)) if before == from => times + 1,
            _ => 1,
        };
        self.busiest = Some((from, times));
        if times < self.bounds.looks {
            return None;
        }
        let range = self.best(seen, (from, busy), idle, now)?;
        let to = ShardId::new(u16::try_from(to).ok()?);
        Some(Wish { range, to })
    }

    /// The range whose move leaves the busier one of the two shards the least busy.
    fn best(
        &self,
        seen: &Seen,
        (from, busy): (usize, f64),
        idle: f64,
        now: Moment,
    ) -> Option<RangeId> {
        let after = |load: f64| (busy - load).max(idle + load);
        let ranges = RangeId::all().zip(&seen.ranges);
        let movable = ranges.filter(|(range, (home, load))| {
            usize::from(home.index()) == from
                && self.rests[usize::from(range.index())] <= now
                && busy - after(*load) >= self.bounds.gain_min
        });
        let best = movable.min_by(|(_, (_, a)), (_, (_, b))| after(*a).total_cmp(&after(*b)));
        best.map(|(range, _)| range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(n)
    }

    fn balancer() -> Balancer {
        Balancer::new(Balance {
            looks: 3,
            ..Balance::default()
        })
    }

    /// Ranges placed by number, with loads by range; all others have none.
    fn seen(shards: u16, loads: &[(u16, f64)]) -> Seen {
        let mut seen = Seen {
            shards: vec![Some(0.0); usize::from(shards)],
            ranges: RangeId::all()
                .map(|range| (ShardId::new(range.index() % shards), 0.0))
                .collect(),
        };
        for (range, load) in loads {
            let own = &mut seen.ranges[usize::from(*range)];
            own.1 = *load;
            *seen.shards[usize::from(own.0.index())].get_or_insert_default() += load;
        }
        seen
    }

    fn place(seen: &mut Seen, wish: Wish) {
        let own = &mut seen.ranges[usize::from(wish.range.index())];
        let (from, load) = *own;
        own.0 = wish.to;
        *seen.shards[usize::from(from.index())].get_or_insert_default() -= load;
        *seen.shards[usize::from(wish.to.index())].get_or_insert_default() += load;
    }

    /// Looks once a second until nothing has moved for long; gives how many moves it took.
    fn settle(balancer: &mut Balancer, seen: &mut Seen) -> usize {
        let (mut moves, mut last) = (0, 0);
        for n in 0..10_000 {
            if let Some(wish) = balancer.look(seen, second(n)) {
                place(seen, wish);
                balancer.rests(wish.range, second(n), Duration::from_secs(60));
                (moves, last) = (moves + 1, n);
            }
            if n > last + 200 {
                return moves;
            }
        }
        panic!("it moves for ever");
    }

    #[test]
    fn nothing_moves_while_all_are_equally_busy_or_idle() {
        let mut even = seen(2, &[(0, 0.9), (1, 0.9)]);
        assert_eq!(settle(&mut balancer(), &mut even), 0);
        let mut idle = seen(2, &[(0, 0.2), (2, 0.2)]);
        assert_eq!(settle(&mut balancer(), &mut idle), 0);
        assert_eq!(settle(&mut balancer(), &mut seen(1, &[(0, 1.0)])), 0);
    }

    #[test]
    fn uneven_hashing_evens_out() {
        let loads: Vec<(u16, f64)> = (0..16).map(|n| (2 * n, 0.05)).collect();
        let mut uneven = seen(2, &loads);
        let moves = settle(&mut balancer(), &mut uneven);
        let [Some(a), Some(b)] = uneven.shards[..] else {
            panic!("{uneven:?}");
        };
        assert!((a - b).abs() < Balance::default().gap_min, "{uneven:?}");
        assert!(moves <= 8, "{moves}");
    }

    #[test]
    fn one_hot_range_stays_and_others_leave_it() {
        let mut hot = seen(2, &[(0, 0.8), (2, 0.06), (4, 0.05), (6, 0.04), (1, 0.3)]);
        settle(&mut balancer(), &mut hot);
        assert_eq!(hot.ranges[0].0, ShardId::new(0), "it would be as hot there");
        let gone = [2, 4, 6].map(|range| hot.ranges[range].0);
        assert_eq!(gone, [ShardId::new(1); 3], "{hot:?}");
        // Alone on its shard, it goes nowhere.
        let mut alone = seen(2, &[(0, 0.9)]);
        assert_eq!(settle(&mut balancer(), &mut alone), 0);
    }

    #[test]
    fn it_waits_for_several_looks_in_a_row() {
        let uneven = seen(2, &[(0, 0.4), (2, 0.4)]);
        let even = seen(2, &[(0, 0.4), (1, 0.4)]);
        let mut balancer = balancer();
        for n in 0..20 {
            let is_uneven = n % 3 > 0;
            let one = if is_uneven { &uneven } else { &even };
            assert_eq!(balancer.look(one, second(n)), None, "{n}");
        }
        assert_eq!(balancer.look(&uneven, second(20)), None);
        assert!(balancer.look(&uneven, second(21)).is_some());
    }

    #[test]
    fn a_range_that_could_not_move_is_left_alone() {
        let uneven = seen(2, &[(0, 0.4), (2, 0.38)]);
        let mut balancer = balancer();
        let first = (0..3).find_map(|n| balancer.look(&uneven, second(n)));
        let first = first.expect("one moves").range;
        balancer.rests(first, second(3), Duration::from_secs(60));
        let other = (3..50).find_map(|n| balancer.look(&uneven, second(n)));
        let other = other.expect("the other one").range;
        assert_ne!(first, other);
        balancer.rests(other, second(50), Duration::from_secs(60));
        assert!((50..60).all(|n| balancer.look(&uneven, second(n)).is_none()));
        let again = (60..70).find_map(|n| balancer.look(&uneven, second(n)));
        assert_eq!(again.map(|wish| wish.range), Some(first));
    }

    #[test]
    fn nothing_goes_to_a_shard_that_does_not_answer() {
        let mut stalled = seen(3, &[(0, 0.4), (3, 0.4), (2, 0.1)]);
        stalled.shards[1] = None;
        let mut balancer = balancer();
        let wish = (0..5).find_map(|n| balancer.look(&stalled, second(n)));
        assert_eq!(wish.map(|wish| wish.to), Some(ShardId::new(2)));
        // With nobody else there is nowhere to go.
        stalled.shards[2] = None;
        assert!((5..20).all(|n| balancer.look(&stalled, second(n)).is_none()));
    }
}
