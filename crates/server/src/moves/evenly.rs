//! The thread that has ranges move by themselves: it asks every shard now and then what it has to
//! do, and the mover of a shard to let a range go. Owns what is measured; what should move is
//! decided in `balance`.

use std::thread;
use std::time::Duration;

use actor::{Handle, Name, ShardId};
use stdx::time::{Clock as _, SystemClock};
use store::RangeId;

use super::balance::{Balancer, Seen, Wish};
use super::{Load, MOVER, Move, Moved, MoverMsg, Stays};
use crate::limits::ADMIN_DEADLINE;
use crate::options::Balance;
use crate::place::Place;

/// Evens out the load of a node's shards until it stops.
pub(crate) fn even_out(
    handle: &Handle,
    place: &Place,
    bounds: &Balance,
    clock: SystemClock,
    is_over: impl Fn() -> bool,
) {
    let mut balancer = Balancer::new(bounds.clone());
    let loads = || loads(handle, bounds.answer_max);
    let mut before = loads();
    loop {
        thread::park_timeout(bounds.every);
        if is_over() {
            return;
        }
        let now = loads();
        let seen = seen(&before, &now, |range| place.home_of(range));
        before = now;
        let wishes = balancer.look(&seen, clock.now());
        if wishes.is_empty() {
            continue;
        }
        for (wish, answer) in move_all(handle, place, wishes) {
            match rest(answer, bounds) {
                Some(rest) => balancer.rests(wish.range, clock.now(), rest),
                None => balancer.begin_anew(),
            }
        }
        // What it was before says nothing of what is to come.
        before = loads();
    }
}

/// What every shard says of itself, if it does within a time.
fn loads(handle: &Handle, answer_max: Duration) -> Vec<Option<Load>> {
    let mover = Name::from(MOVER);
    let shards = (0..handle.shards()).map(ShardId::new);
    let ask = |shard| {
        let answer = handle.ask_named(shard, &mover, MoverMsg::Load, answer_max);
        answer.ok()
    };
    shards.map(ask).collect()
}

/// What became of a move; `None` if nobody says so.
type Answer = Option<Result<Moved, Stays>>;

/// Has ranges move, those of the first one's shard all at once: each may take long while it is
/// busy, and what waits for those that are paused is work that their shard does not have meanwhile.
/// Those of another shard have their turn after another look: what two shards pause would wait for
/// each other.
fn move_all(handle: &Handle, place: &Place, mut wishes: Vec<Wish>) -> Vec<(Wish, Answer)> {
    let from = wishes.first().map(|wish| place.home_of(wish.range));
    wishes.retain(|wish| Some(place.home_of(wish.range)) == from);
    thread::scope(|scope| {
        let asked = wishes.into_iter().map(|wish| {
            let ask = thread::Builder::new().name("moves".to_owned());
            let ask = ask.spawn_scoped(scope, move || move_it(handle, place, wish));
            (wish, ask)
        });
        let asked: Vec<_> = asked.collect();
        let answered = asked.into_iter().map(|(wish, ask)| {
            let answer = match ask {
                Ok(ask) => ask.join().ok().flatten(),
                Err(_) => Some(Err(Stays::Another)), // Nobody was asked, for want of a thread.
            };
            (wish, answer)
        });
        answered.collect()
    })
}

/// Has a range move.
fn move_it(handle: &Handle, place: &Place, wish: Wish) -> Answer {
    let Wish { range, to } = wish;
    let question = |reply| {
        MoverMsg::Move(Move {
            range,
            to,
            tried: None,
            reply: Some(reply),
        })
    };
    let from = place.home_of(range);
    let answer = handle.ask_named(from, &Name::from(MOVER), question, ADMIN_DEADLINE);
    let (range, from, to) = (range.index(), from.index(), to.index());
    match &answer {
        Ok(Ok(_)) => {}
        Ok(Err(why)) => tracing::debug!(range, from, to, ?why, "a range stays"),
        Err(_) => tracing::warn!(range, from, to, "a shard did not say whether a range moves"),
    }
    answer.ok()
}

/// For how long a range is left alone then, if at all.
fn rest(answer: Answer, bounds: &Balance) -> Option<Duration> {
    match answer {
        Some(Ok(_)) => Some(bounds.rest),
        // It was in nobody's way but an operator's.
        Some(Err(Stays::Another | Stays::Elsewhere)) => None,
        Some(Err(Stays::Busy(_) | Stays::InUse(_))) | None => Some(bounds.rest_stayed),
    }
}

/// What shards did between two looks.
fn seen(
    before: &[Option<Load>],
    now: &[Option<Load>],
    home_of: impl Fn(RangeId) -> ShardId,
) -> Seen {
    let both = before.iter().zip(now);
    let spent: Vec<Option<(f64, Vec<u64>)>> = both
        .map(|(before, now)| spent(before.as_ref()?, now.as_ref()?))
        .collect();
    let part = |range: RangeId| {
        let home = home_of(range);
        let spent = spent.get(usize::from(home.index()));
        let part = spent
            .and_then(Option::as_ref)
            .map_or(0.0, |(share, costs)| {
                let sum: u64 = costs.iter().sum();
                let own = costs.get(usize::from(range.index())).copied();
                share * own.unwrap_or_default() as f64 / sum.max(1) as f64
            });
        (home, part)
    };
    Seen {
        ranges: RangeId::all().map(part).collect(),
        shards: spent
            .iter()
            .map(|spent| spent.as_ref().map(|(share, _)| *share))
            .collect(),
    }
}

/// The share of its time that a shard worked between two looks, and what its ranges cost then.
fn spent(before: &Load, now: &Load) -> Option<(f64, Vec<u64>)> {
    let time = now.at.saturating_since(before.at).as_nanos();
    if time == 0 {
        return None;
    }
    let worked = now.working.saturating_sub(before.working);
    let costs = now.costs.iter().zip(&before.costs);
    let costs = costs.map(|(now, before)| now.saturating_sub(*before));
    Some(((worked as f64 / time as f64).min(1.0), costs.collect()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use actor::threads::run_threads;
    use actor::{Actor, Context, Mail as _};
    use stdx::time::Moment;

    use super::*;

    fn load(seconds: u64, worked_ms: u64, costs: &[(u16, u64)]) -> Load {
        let mut all = vec![0; usize::from(store::RANGES)];
        for (range, cost) in costs {
            all[usize::from(*range)] = *cost;
        }
        Load {
            at: Moment::ZERO + Duration::from_secs(seconds),
            working: worked_ms * 1_000_000,
            costs: all,
        }
    }

    /// Says what a shard has, at once.
    struct Answers;

    impl Actor for Answers {
        type Msg = MoverMsg;

        fn handle(&mut self, msg: MoverMsg, cx: &mut Context<'_, MoverMsg>) {
            if let MoverMsg::Load(reply) = msg {
                reply.send(cx, load(7, 0, &[]));
            }
        }
    }

    /// Goal: a shard that does not say in time what it has keeps nobody from hearing the others.
    #[test]
    fn a_silent_shard_is_not_waited_for() {
        let (handle, mut seeds) = actor::system(actor::Options::new(2, 1));
        // The other one has no thread.
        seeds.truncate(1);
        let clock = Arc::new(SystemClock::new());
        let threads = run_threads(seeds, clock, |shard| {
            let mover = shard.spawn(Answers);
            shard.register(mover, &Name::from(MOVER));
        });
        let threads = threads.expect("a thread");
        // The first one may not have begun yet.
        let both = (0..1_000).find_map(|_| {
            let loads = loads(&handle, Duration::from_millis(20));
            loads[0].is_some().then_some(loads)
        });
        let both = both.expect("one answers");
        let at = |load: &Option<Load>| load.as_ref().map(|load| load.at);
        assert_eq!(at(&both[0]), Some(Moment::ZERO + Duration::from_secs(7)));
        assert_eq!(at(&both[1]), None);
        handle.shut_down();
        threads.join();
    }

    #[test]
    fn a_range_that_met_another_one_is_tried_again_at_once() {
        let bounds = Balance::default();
        let moved = Moved {
            entities: 1,
            gap: Duration::ZERO,
            paused: Duration::ZERO,
        };
        let rest = |answer| rest(answer, &bounds);
        assert_eq!(rest(Some(Ok(moved))), Some(bounds.rest));
        assert_eq!(rest(Some(Err(Stays::Another))), None);
        assert_eq!(rest(Some(Err(Stays::Elsewhere))), None);
        for stays in [Stays::Busy(1), Stays::InUse(1)] {
            assert_eq!(rest(Some(Err(stays))), Some(bounds.rest_stayed));
        }
        assert_eq!(rest(None), Some(bounds.rest_stayed));
    }

    #[test]
    fn ranges_share_the_time_of_their_shard_by_their_cost() {
        let before = [Some(load(10, 500, &[(0, 100)])), None];
        let now = [
            Some(load(20, 8_500, &[(0, 400), (2, 100)])),
            Some(load(20, 9_000, &[(1, 1)])),
        ];
        let seen = seen(&before, &now, |range| ShardId::new(range.index() % 2));
        assert_eq!(seen.shards, [Some(0.8), None]);
        let part = |range: usize| (seen.ranges[range].1 * 1_000.0).round();
        assert_eq!(
            (part(0), part(1), part(2), part(4)),
            (600.0, 0.0, 200.0, 0.0)
        );
    }
}
