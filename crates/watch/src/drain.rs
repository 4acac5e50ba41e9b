//! When a backlog will be gone: its length over the rate at which it shrinks. Owns the smoothing;
//! what the backlog is made of is its caller's.

use std::fmt;

use super::format;

/// The rate is a mean that fades over so many seconds.
const FADE_S: f64 = 5.0;

/// A backlog that is looked at again and again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Backlog {
    /// When it was looked at in milliseconds, and its length then.
    last: Option<(i64, u64)>,
    /// What it loses in a second; negative while it grows.
    shrinks: f64,
}

/// When it will be gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Drain {
    /// There is none.
    Empty,
    /// It grows or stays as long as it is.
    Never,
    /// In so many seconds if it goes on like this.
    After(f64),
}

impl Backlog {
    /// Notes its length at a moment.
    pub(crate) fn observe(&mut self, at_ms: i64, length: u64) {
        if let Some((before_ms, before)) = self.last {
            let seconds = (at_ms - before_ms) as f64 / 1e3;
            if seconds <= 0.0 {
                return;
            }
            let rate = (before as f64 - length as f64) / seconds;
            let keep = (-seconds / FADE_S).exp();
            self.shrinks = self.shrinks * keep + rate * (1.0 - keep);
        }
        self.last = Some((at_ms, length));
    }

    /// When it will be gone.
    pub(crate) fn drain(&self) -> Drain {
        match self.last {
            None | Some((_, 0)) => Drain::Empty,
            // Less than one in a thousand seconds is standing still.
            Some(_) if self.shrinks < 1e-3 => Drain::Never,
            Some((_, length)) => Drain::After(length as f64 / self.shrinks),
        }
    }
}

impl fmt::Display for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Drain::Empty => f.pad("-"),
            Drain::Never => f.pad("never"),
            Drain::After(seconds) => f.pad(&format::wait(*seconds)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_loss_is_projected_to_its_end() {
        let mut backlog = Backlog::default();
        assert_eq!(backlog.drain(), Drain::Empty);
        for second in 0..60 {
            backlog.observe(second * 1_000, 10_000 - 100 * second as u64);
        }
        let Drain::After(seconds) = backlog.drain() else {
            panic!("{:?}", backlog.drain());
        };
        assert!((seconds - 41.0).abs() < 0.1, "{seconds}");
        assert_eq!(backlog.drain().to_string(), "41s");
        backlog.observe(60_000, 0);
        assert_eq!(backlog.drain(), Drain::Empty);
    }

    #[test]
    fn what_grows_or_stands_still_never_ends() {
        let mut backlog = Backlog::default();
        backlog.observe(0, 5);
        assert_eq!(backlog.drain(), Drain::Never);
        backlog.observe(1_000, 50);
        assert_eq!(backlog.drain(), Drain::Never);
        // A clock that was set back changes nothing.
        backlog.observe(500, 0);
        assert_eq!(backlog.drain(), Drain::Never);
    }
}
