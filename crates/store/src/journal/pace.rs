//! How often a journal commits. Every commit wakes threads, whatever its size: with thousands a
//! second that costs more than what they write. Owns the arithmetic; the writer waits.
//!
//! A message takes two commits, the second for what its recipient's home appends once it has heard
//! of the first. So commits under load come in pairs, with a pause behind each: were they spaced
//! evenly, whatever the first of two brings about would wait for a whole interval.

use std::time::Duration;

use stdx::Moment;

/// Commits that begin as they come after a pause: a message that comes alone needs several, one
/// after the other, and shall not wait for any. Behind them, pairs.
#[derive(Debug)]
pub(super) struct Pace {
    /// From one commit to the next on average; from one pair to the next twice that.
    interval: Duration,
    at_once: u32,
    /// From the end of the first commit of a pair to the begin of the second.
    gather: Duration,
    /// When the last one would have begun if all had been spaced evenly.
    even: Option<Moment>,
    /// When the last one ended.
    ended: Moment,
}

/// Commits between two pauses.
const PAIR: u32 = 2;

impl Pace {
    pub(super) fn new(interval: Duration, at_once: u32, gather: Duration) -> Pace {
        Pace {
            interval,
            at_once,
            gather,
            even: None,
            ended: Moment::ZERO,
        }
    }

    /// How long a commit has to wait that could begin now. It begins then.
    pub(super) fn wait(&mut self, now: Moment) -> Duration {
        let even = self.even.map_or(now, |even| now.max(even + self.interval));
        self.even = Some(even);
        let early = even.saturating_since(now);
        let at_once = self.interval * self.at_once;
        if early > at_once {
            // Long enough for the next one to begin without a pause.
            return early - at_once + self.interval * (PAIR - 1);
        }
        if early + self.interval > at_once && self.at_once > 0 {
            // The next one pauses: this takes along as much as it can of what the last one has
            // brought about.
            return (self.ended + self.gather).saturating_since(now);
        }
        Duration::ZERO
    }

    /// The commit that began last has ended.
    pub(super) fn ended(&mut self, now: Moment) {
        self.ended = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(1);
    const GATHER: Duration = Duration::from_micros(100);

    fn pace(at_once: u32) -> Pace {
        Pace::new(INTERVAL, at_once, GATHER)
    }

    /// When commits begin that come at these microseconds, each of which takes `taken`.
    fn begun(pace: &mut Pace, taken: u64, come: &[u64]) -> Vec<u64> {
        let at = |micros| Moment::ZERO + Duration::from_micros(micros);
        let mut free = 0;
        let begin = |come: &u64| {
            let now = free.max(*come);
            let begun = now + pace.wait(at(now)).as_micros() as u64;
            free = begun + taken;
            pace.ended(at(free));
            begun
        };
        come.iter().map(begin).collect()
    }

    #[test]
    fn a_few_begin_at_once_and_the_others_in_pairs() {
        let begun = begun(&mut pace(3), 10, &[0; 10]);
        assert_eq!(begun[..3], [0, 10, 20]);
        // A pause, and behind it two with a little time between them.
        let (mut at, mut pairs) = (0, Vec::new());
        for pair in begun[4..].chunks(2) {
            assert_eq!(pair[1] - pair[0], 10 + GATHER.as_micros() as u64);
            pairs.push(pair[0] - at);
            at = pair[0];
        }
        assert_eq!(
            pairs[1..],
            [2_000, 2_000],
            "one an interval on average: {begun:?}"
        );
    }

    #[test]
    fn who_keeps_the_pace_never_waits() {
        let come: Vec<u64> = (1..100).map(|n| n * 1_000).collect();
        assert_eq!(begun(&mut pace(1), 10, &come), come);
        assert_eq!(begun(&mut pace(4), 10, &come), come);
    }

    #[test]
    fn a_message_alone_waits_for_neither_of_its_commits() {
        let mut pace = pace(4);
        for message in 1..10 {
            let come = [message * 10_000, message * 10_000 + 50];
            assert_eq!(begun(&mut pace, 10, &come), come);
        }
    }

    #[test]
    fn a_pause_makes_up_for_a_burst_and_for_no_more() {
        let mut pace = pace(2);
        begun(&mut pace, 0, &[0; 3]);
        let later = begun(&mut pace, 0, &[1_000_000; 4]);
        assert_eq!(later[0], 1_000_000);
        assert!(later[1] - later[0] <= 100, "{later:?}");
        assert!(later[3] - later[0] >= 1_000, "{later:?}");
    }

    #[test]
    fn without_an_interval_nothing_waits() {
        let mut pace = Pace::new(Duration::ZERO, 0, GATHER);
        assert_eq!(begun(&mut pace, 0, &[0, 0, 5, 5]), [0, 0, 5, 5]);
    }
}
