//! Which range moves to which shard by itself, so that the shards of a node are about equally busy.
//! Owns the decision: figures of one look in, some moves out. Deliberately not here: how it is
//! measured, and the moves themselves.
//!
//! | seen | then |
//! |---|---|
//! | a shard is busy, and busier than the idlest by so much, for several looks in a row | range after range moves, each time the one that brings the two closest together, until half of that difference is left, but only so many |
//! | several are | the same of the busiest one, if a move helps it; else of the next |
//! | a shard is, but no move would help enough | nothing: one hot range stays where it is, and others leave it |
//! | a shard does not answer | nothing: it could not hand over what it has for a range that moves |
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

/// What will be where once all moves were made that were chosen so far.
struct Plan {
    loads: Vec<f64>,
    ranges: Vec<(ShardId, f64)>,
}

/// What was seen before.
#[derive(Debug)]
pub(crate) struct Balancer {
    bounds: Balance,
    /// How many looks in a row have found each shard too busy.
    too_busy: Vec<u32>,
    /// Until when each range is left alone.
    rests: Vec<Moment>,
}

impl Balancer {
    pub(crate) fn new(bounds: Balance) -> Balancer {
        Balancer {
            bounds,
            too_busy: Vec::new(),
            rests: vec![Moment::ZERO; usize::from(store::RANGES)],
        }
    }

    /// A range has moved, or could not: it is left alone for so long.
    pub(crate) fn rests(&mut self, range: RangeId, now: Moment, pause: Duration) {
        self.rests[usize::from(range.index())] = now + pause;
        self.begin_anew();
    }

    /// What was seen says nothing any more.
    pub(crate) fn begin_anew(&mut self) {
        self.too_busy.clear();
    }

    /// What should move now, what helps most first.
    pub(crate) fn look(&mut self, seen: &Seen, now: Moment) -> Vec<Wish> {
        let loads: Option<Vec<f64>> = seen.shards.iter().copied().collect();
        let Some(loads) = loads.filter(|loads| !loads.is_empty()) else {
            self.begin_anew();
            return Vec::new();
        };
        let idle = loads.iter().copied().fold(f64::INFINITY, f64::min);
        self.too_busy.resize(loads.len(), 0);
        for (looks, load) in self.too_busy.iter_mut().zip(&loads) {
            let is_one = *load >= self.bounds.busy_min && load - idle >= self.bounds.gap_min;
            *looks = if is_one { *looks + 1 } else { 0 };
        }
        let mut plan = Plan {
            loads,
            ranges: seen.ranges.clone(),
        };
        let next = || self.next(&mut plan, now);
        std::iter::from_fn(next)
            .take(self.bounds.moves_max)
            .collect()
    }

    /// The next move of a plan, which has it made then.
    fn next(&self, plan: &mut Plan, now: Moment) -> Option<Wish> {
        let loads = plan.loads.iter().copied().enumerate();
        let by_load = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
        let (to, idle) = loads.clone().min_by(by_load)?;
        let mut busy: Vec<(usize, f64)> = loads
            .filter(|(shard, load)| {
                self.too_busy[*shard] >= self.bounds.looks.max(1)
                    && load - idle > self.bounds.gap_min / 2.0
            })
            .collect();
        busy.sort_by(|a, b| by_load(b, a));
        let mut busy = busy.into_iter();
        let (from, range) =
            busy.find_map(|from| Some((from.0, self.best(plan, from, idle, now)?)))?;
        let own = plan.ranges.get_mut(usize::from(range.index()))?;
        let wish = Wish {
            range,
            to: ShardId::new(u16::try_from(to).ok()?),
        };
        own.0 = wish.to;
        plan.loads[from] -= own.1;
        plan.loads[to] += own.1;
        Some(wish)
    }

    /// The range whose move leaves the busier one of the two shards the least busy.
    fn best(
        &self,
        plan: &Plan,
        (from, busy): (usize, f64),
        idle: f64,
        now: Moment,
    ) -> Option<RangeId> {
        let after = |load: f64| (busy - load).max(idle + load);
        let ranges = RangeId::all().zip(&plan.ranges);
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

    fn first_wish(balancer: &mut Balancer, seen: &Seen, n: u64) -> Option<Wish> {
        balancer.look(seen, second(n)).first().copied()
    }

    /// Looks once a second until nothing has moved for long; gives how many moves it took.
    fn settle(balancer: &mut Balancer, seen: &mut Seen) -> usize {
        let (mut moves, mut last) = (0, 0);
        for n in 0..10_000 {
            for wish in balancer.look(seen, second(n)) {
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

    /// Goal: ranges that are each a small part of a shard even out, too, and soon.
    #[test]
    fn many_small_ranges_move_after_one_look() {
        let loads: Vec<(u16, f64)> = (0..64).map(|n| (2 * n, 0.01)).collect();
        let mut uneven = seen(2, &loads);
        let mut balancer = balancer();
        let wishes = (0..3).find_map(|n| {
            let wishes = balancer.look(&uneven, second(n));
            (!wishes.is_empty()).then_some(wishes)
        });
        for wish in wishes.expect("some move") {
            place(&mut uneven, wish);
        }
        let [Some(a), Some(b)] = uneven.shards[..] else {
            panic!("{uneven:?}");
        };
        assert!((a - b).abs() < 0.15, "{a} {b}");
    }

    #[test]
    fn no_more_move_after_one_look_than_may() {
        let loads: Vec<(u16, f64)> = (0..64).map(|n| (2 * n, 0.01)).collect();
        let mut balancer = Balancer::new(Balance {
            looks: 1,
            moves_max: 2,
            ..Balance::default()
        });
        assert_eq!(balancer.look(&seen(2, &loads), second(0)).len(), 2);
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
            assert_eq!(balancer.look(one, second(n)), [], "{n}");
        }
        assert_eq!(balancer.look(&uneven, second(20)), []);
        assert!(!balancer.look(&uneven, second(21)).is_empty());
    }

    #[test]
    fn a_range_that_could_not_move_is_left_alone() {
        let uneven = seen(2, &[(0, 0.4), (2, 0.38)]);
        let mut balancer = balancer();
        let first = (0..3).find_map(|n| first_wish(&mut balancer, &uneven, n));
        let first = first.expect("one moves").range;
        balancer.rests(first, second(3), Duration::from_secs(60));
        let other = (3..50).find_map(|n| first_wish(&mut balancer, &uneven, n));
        let other = other.expect("the other one").range;
        assert_ne!(first, other);
        balancer.rests(other, second(50), Duration::from_secs(60));
        assert!((50..60).all(|n| balancer.look(&uneven, second(n)).is_empty()));
        let again = (60..70).find_map(|n| first_wish(&mut balancer, &uneven, n));
        assert_eq!(again.map(|wish| wish.range), Some(first));
    }

    #[test]
    fn equally_hot_shards_are_helped_as_soon_as_one() {
        let mut hot = seen(3, &[(0, 0.4), (3, 0.4), (1, 0.4), (4, 0.4)]);
        let mut balancer = balancer();
        for n in 0..2 {
            // Which of them is the hotter one changes from look to look.
            let (a, b) = if n % 2 == 0 {
                (0.81, 0.79)
            } else {
                (0.79, 0.81)
            };
            (hot.shards[0], hot.shards[1]) = (Some(a), Some(b));
            assert_eq!(balancer.look(&hot, second(n)), [], "{n}");
        }
        let wish = first_wish(&mut balancer, &hot, 2).expect("one moves");
        assert_eq!(wish.to, ShardId::new(2));
    }

    #[test]
    fn a_shard_that_nothing_helps_keeps_no_other_from_being_helped() {
        let hot = seen(3, &[(0, 0.9), (1, 0.4), (4, 0.4)]);
        let mut balancer = balancer();
        let wish = (0..5).find_map(|n| first_wish(&mut balancer, &hot, n));
        let wish = wish.expect("one moves");
        assert!([1, 4].contains(&wish.range.index()), "{wish:?}");
    }

    #[test]
    fn nothing_moves_while_a_shard_does_not_answer() {
        let uneven = seen(3, &[(0, 0.4), (3, 0.4), (2, 0.1)]);
        let mut stalled = uneven.clone();
        stalled.shards[1] = None;
        let mut balancer = balancer();
        assert!((0..20).all(|n| balancer.look(&stalled, second(n)).is_empty()));
        // From then on it is looked several times again.
        let first = (20..30).find(|n| first_wish(&mut balancer, &uneven, *n).is_some());
        assert_eq!(first, Some(22));
    }
}
