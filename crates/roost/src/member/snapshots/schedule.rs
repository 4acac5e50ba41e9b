//! When a stream's home stores its next snapshot: so many messages behind the last verified one,
//! and after an attempt that failed not before a pause, which doubles. Owns these two rules.

use std::time::Duration;

use cluster::driver::Progress;
use cluster::journal::Seq;
use stdx::time::Moment;

/// Messages of a stream between two snapshots.
const MESSAGES: Seq = 100_000;

/// Pause after an attempt that failed, and the longest one: the stream may be large, and what is
/// wrong takes an operator, as a full engine does.
const PAUSE: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(600));

/// Of one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Schedule {
    /// The message of the last snapshot that this node stored: the stream's leader may not have
    /// said yet that it was purged.
    from: Seq,
    /// The pause behind the last attempt, if it failed, and until when it is.
    pause: Option<(Duration, Moment)>,
}

impl Schedule {
    /// Whether it is time. The stream is purged behind each verified snapshot: its first message
    /// says where the last one is, whoever stored it. Not before that is known.
    pub(super) fn is_due(&self, now: Moment, progress: &Progress) -> bool {
        let Some(purged) = progress.first.checked_sub(1) else {
            return false;
        };
        let is_paused = self.pause.is_some_and(|(_, until)| now < until);
        let due_at = self.from.max(purged).saturating_add(MESSAGES);
        // A copy that differs from another's is not made the truth.
        let is_good = progress.serving != 0 && progress.divergences == 0;
        is_good && !is_paused && progress.mark.seq >= due_at
    }

    /// One was stored, up to this message.
    pub(super) fn on_stored(&mut self, seq: Seq) {
        self.from = self.from.max(seq);
        self.pause = None;
    }

    /// An attempt failed just now.
    pub(super) fn on_failed(&mut self, now: Moment) {
        let pause = self.pause.map_or(PAUSE.0, |(last, _)| last * 2);
        let pause = pause.min(PAUSE.1);
        self.pause = Some((pause, now + pause));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(first: Seq, mark: Seq) -> Progress {
        let mut progress = Progress {
            first,
            serving: 1,
            ..Progress::default()
        };
        progress.mark.seq = mark;
        progress
    }

    /// Goal: a node that becomes a home counts from the snapshot of whoever was it before, and
    /// knows nothing before the stream's leader says where that is.
    #[test]
    fn a_new_home_counts_from_the_last_snapshot() {
        let (new, now) = (Schedule::default(), Moment::ZERO);
        assert!(!new.is_due(now, &at(0, 5_000_000)));
        assert!(!new.is_due(now, &at(4_950_001, 5_000_000)));
        assert!(!new.is_due(now, &at(4_950_001, 5_049_999)));
        assert!(new.is_due(now, &at(4_950_001, 5_050_000)));
        assert!(!new.is_due(now, &at(1, 99_999)));
        assert!(new.is_due(now, &at(1, 100_000)));
        let mut elsewhere = at(1, 100_000);
        elsewhere.serving = 0;
        assert!(!new.is_due(now, &elsewhere));
    }

    /// Goal: what was just stored is not stored again before the leader says that it was purged.
    #[test]
    fn a_stored_one_counts_at_once() {
        let (mut schedule, now) = (Schedule::default(), Moment::ZERO);
        schedule.on_stored(150_000);
        assert!(!schedule.is_due(now, &at(1, 150_020)));
        assert!(schedule.is_due(now, &at(150_001, 250_000)));
    }

    /// Goal: attempts that fail are further and further apart, however far behind the snapshot is.
    /// Method: an hour and three quarters, looked at as often as a node does.
    #[test]
    fn attempts_that_fail_are_paused() {
        let (mut schedule, behind) = (Schedule::default(), at(1, 5_000_000));
        let mut attempts = Vec::new();
        for look in 0..50 * 6_300u64 {
            let now = Moment::ZERO + Duration::from_millis(20 * look);
            if schedule.is_due(now, &behind) {
                attempts.push(20 * look / 1_000);
                schedule.on_failed(now);
            }
        }
        let first = [0, 10, 30, 70, 150, 310, 630, 1_230, 1_830];
        assert_eq!(attempts[..first.len()], first);
        assert_eq!(attempts.len(), 16);
        schedule.on_stored(5_000_000);
        let again = Moment::ZERO + Duration::from_secs(7_000);
        assert!(schedule.is_due(again, &at(5_000_001, 5_100_000)));
        schedule.on_failed(again);
        let ten = again + Duration::from_secs(10);
        assert!(
            schedule.is_due(ten, &at(5_000_001, 5_100_000)),
            "not doubled any more"
        );
    }
}
