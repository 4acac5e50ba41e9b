//! How often a journal commits. Every commit wakes threads, whatever its size: with thousands a
//! second that costs more than what they write. Owns the arithmetic; the writer waits.

use std::time::Duration;

use stdx::Moment;

/// Commits that begin at an even pace, after a few that may begin at once: a message that comes
/// alone needs several, one after the other, and shall not wait for any.
#[derive(Debug)]
pub(super) struct Pace {
    interval: Duration,
    at_once: u32,
    /// When the last one would have begun if all had kept the pace.
    even: Option<Moment>,
}

impl Pace {
    pub(super) fn new(interval: Duration, at_once: u32) -> Pace {
        Pace {
            interval,
            at_once,
            even: None,
        }
    }

    /// How long a commit has to wait that could begin now. It begins then.
    pub(super) fn wait(&mut self, now: Moment) -> Duration {
        let even = self.even.map_or(now, |even| now.max(even + self.interval));
        self.even = Some(even);
        let early = even.saturating_since(now);
        early.saturating_sub(self.interval * self.at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(1);

    /// When commits begin that come at these microseconds.
    fn begun(pace: &mut Pace, come: &[u64]) -> Vec<u64> {
        let mut free = 0;
        let begin = |come: &u64| {
            let now = free.max(*come);
            let wait = pace.wait(Moment::ZERO + Duration::from_micros(now));
            free = now + wait.as_micros() as u64;
            free
        };
        come.iter().map(begin).collect()
    }

    #[test]
    fn a_few_begin_at_once_and_the_others_evenly() {
        let mut pace = Pace::new(INTERVAL, 3);
        let at_once = [0, 0, 0, 0, 1_000, 2_000, 3_000];
        assert_eq!(begun(&mut pace, &[0; 7]), at_once);
    }

    #[test]
    fn who_keeps_the_pace_never_waits() {
        let mut pace = Pace::new(INTERVAL, 0);
        let come: Vec<u64> = (0..100).map(|n| n * 1_000).collect();
        assert_eq!(begun(&mut pace, &come), come);
    }

    #[test]
    fn a_pause_makes_up_for_a_burst_and_for_no_more() {
        let mut pace = Pace::new(INTERVAL, 2);
        begun(&mut pace, &[0; 3]);
        let later = begun(&mut pace, &[1_000_000; 4]);
        assert_eq!(later, [1_000_000, 1_000_000, 1_000_000, 1_001_000]);
    }

    #[test]
    fn without_an_interval_nothing_waits() {
        let mut pace = Pace::new(Duration::ZERO, 0);
        assert_eq!(begun(&mut pace, &[0, 0, 5, 5]), [0, 0, 5, 5]);
    }
}
