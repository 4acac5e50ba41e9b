//! A log line that says the same of everybody while something is wrong, such as a full disk: once a
//! second is enough, with how many there were.

use std::time::Duration;

use stdx::time::Moment;

/// Between two lines.
const PACE: Duration = Duration::from_secs(1);

/// One kind of line of one shard.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    next: Option<Moment>,
    left_out: u64,
    /// Lines beyond the first in each [`PACE`].
    more: u32,
    /// Of those, the ones that are left.
    left: u32,
}

impl Repeats {
    /// So many lines in each second, at least one.
    pub(crate) fn several(lines: u32) -> Self {
        Repeats {
            more: lines.saturating_sub(1),
            ..Repeats::default()
        }
    }

    /// Whether the line is due, and then how many were left out since the last one.
    pub(crate) fn due(&mut self, now: Moment) -> Option<u64> {
        if self.next.is_some_and(|next| now < next) {
            if self.left == 0 {
                self.left_out += 1;
                return None;
            }
            self.left -= 1;
            return Some(0);
        }
        self.next = Some(now + PACE);
        self.left = self.more;
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_tells_of_those_that_were_left_out() {
        let mut repeats = Repeats::default();
        let at = |ms| Moment::ZERO + Duration::from_millis(ms);
        assert_eq!(repeats.due(at(0)), Some(0));
        assert_eq!(repeats.due(at(10)), None);
        assert_eq!(repeats.due(at(999)), None);
        assert_eq!(repeats.due(at(1_000)), Some(2));
        assert_eq!(repeats.due(at(5_000)), Some(0));
    }

    #[test]
    fn several_lines_a_second_are_as_many() {
        let mut repeats = Repeats::several(3);
        let at = |ms| Moment::ZERO + Duration::from_millis(ms);
        let lines = (0..10).filter_map(|ms| repeats.due(at(ms))).count();
        assert_eq!(lines, 3);
        assert_eq!(repeats.due(at(1_000)), Some(7));
    }
}
