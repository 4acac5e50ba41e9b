//! Homes that did not take what was for them in the tenure in which they have it: one that the map
//! names before it serves does so a moment later, and one that has gone never does. Owns when they
//! are tried again.

use std::time::Duration;

use rustc_hash::FxHashMap;
use stdx::time::Moment;
use store::RangeId;

/// Pause before a home is tried again; each one after it is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// After so long only another tenure is tried, or the same once nothing has waited for it for as
/// long: it served meanwhile, and does not again.
const TRIED_MAX: Duration = Duration::from_secs(10);

/// See the module. One entry a range, of the tenure that was tried last.
#[derive(Default)]
pub(super) struct Tried {
    ranges: FxHashMap<RangeId, Home>,
}

struct Home {
    tenure: u32,
    since: Moment,
    /// When something waited for it last.
    asked: Moment,
    /// When it was tried last: everything of that moment goes together.
    last: Option<Moment>,
    next: Moment,
    pause: Duration,
}

impl Tried {
    /// Whether what a home did not take in this tenure, and which is its tenure still, goes to it
    /// now once more.
    pub(super) fn again(&mut self, range: RangeId, tenure: u32, now: Moment) -> bool {
        let home = self.ranges.entry(range).or_insert(Home::new(tenure, now));
        let is_over = now.saturating_since(home.asked) >= TRIED_MAX;
        if home.tenure != tenure || is_over {
            *home = Home::new(tenure, now);
        }
        home.asked = now;
        if home.last == Some(now) {
            return true;
        }
        if now < home.next || now.saturating_since(home.since) >= TRIED_MAX {
            return false;
        }
        home.last = Some(now);
        home.pause *= 2;
        home.next = now + home.pause;
        true
    }

    /// A range is at home here: whatever its next home elsewhere does not take is tried anew.
    pub(super) fn forget(&mut self, range: RangeId) {
        self.ranges.remove(&range);
    }
}

impl Home {
    fn new(tenure: u32, now: Moment) -> Home {
        Home {
            tenure,
            since: now,
            asked: now,
            last: None,
            next: now + PAUSE_MIN,
            pause: PAUSE_MIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(ms)
    }

    /// Goal: a home is tried after pauses that double, with all that waits for it, for ten seconds;
    /// and so is the next tenure.
    #[test]
    fn a_home_is_tried_for_ten_seconds() {
        let mut tried = Tried::default();
        let [range, other] = [0, 1].map(|index| RangeId::from_index(index).unwrap());
        for (tenure, start) in [(5, 0), (6, 20_000)] {
            let mut times = Vec::new();
            for ms in (0..20_000).step_by(10) {
                let now = at(start + ms);
                if tried.again(range, tenure, now) {
                    times.push(ms);
                    assert!(tried.again(range, tenure, now), "what waits goes together");
                }
            }
            assert_eq!(times, [50, 150, 350, 750, 1_550, 3_150, 6_350]);
        }
        assert!(!tried.again(other, 6, at(40_000)), "each has its own time");
        assert!(tried.again(other, 6, at(40_050)));
    }
    /// Goal: a home that did not serve for long and has served since, in the same tenure, is tried
    /// again when it does not; so is one whose range was here meanwhile.
    #[test]
    fn a_home_that_served_meanwhile_is_tried_again() {
        let mut tried = Tried::default();
        let range = RangeId::from_index(0).unwrap();
        let times = |tried: &mut Tried, from: u64, until: u64| {
            let all = (from..until).step_by(10);
            let tried: Vec<u64> = all.filter(|ms| tried.again(range, 5, at(*ms))).collect();
            tried.len()
        };
        assert_eq!(times(&mut tried, 0, 20_000), 7);
        assert_eq!(times(&mut tried, 25_000, 29_000), 0, "it waits still");
        assert_eq!(times(&mut tried, 60_000, 80_000), 7);
        tried.forget(range);
        assert_eq!(times(&mut tried, 80_000, 100_000), 7);
    }
}
