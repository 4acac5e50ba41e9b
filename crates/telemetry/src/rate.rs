//! Rates that decay over 1, 10 and 100 seconds.
//!
//! Owns the arithmetic: an exponentially weighted mean whose memory fades with the given time
//! constant, updated at irregular intervals. Deliberately not here: the counting itself.

use stdx::Moment;

/// Time constants in seconds.
const WINDOWS: [f64; 3] = [1.0, 10.0, 100.0];

/// Events per second over three horizons.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Mean that fades over one second.
    pub over_1s: f64,
    /// Mean that fades over ten seconds.
    pub over_10s: f64,
    /// Mean that fades over a hundred seconds.
    pub over_100s: f64,
}

/// Turns a growing total into [`Rates`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Rate {
    last: Moment,
    total: u64,
    means: [f64; 3],
}

impl Rate {
    /// A rate of zero at the start of time.
    pub const fn new() -> Self {
        Rate {
            last: Moment::ZERO,
            total: 0,
            means: [0.0; 3],
        }
    }

    /// Takes in that the total was `total` at `now`. Calls within one nanosecond are merged.
    pub fn observe(&mut self, now: Moment, total: u64) {
        let elapsed = now.saturating_since(self.last).as_secs_f64();
        if elapsed <= 0.0 {
            return;
        }
        let current = total.saturating_sub(self.total) as f64 / elapsed;
        for (mean, window) in self.means.iter_mut().zip(WINDOWS) {
            let keep = (-elapsed / window).exp();
            *mean = *mean * keep + current * (1.0 - keep);
        }
        (self.last, self.total) = (now, total);
    }

    /// The rates as of the last observation.
    pub fn rates(&self) -> Rates {
        let [over_1s, over_10s, over_100s] = self.means;
        Rates {
            over_1s,
            over_10s,
            over_100s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn steady_flow_converges_and_silence_decays() {
        let (mut rate, mut now, mut total) = (Rate::new(), Moment::ZERO, 0);
        for _ in 0..10_000 {
            now = now + Duration::from_millis(100);
            total += 50;
            rate.observe(now, total);
        }
        let rates = rate.rates();
        for mean in [rates.over_1s, rates.over_10s, rates.over_100s] {
            assert!((mean - 500.0).abs() < 1.0, "{mean}");
        }
        rate.observe(now + Duration::from_secs(10), total);
        let rates = rate.rates();
        assert!(rates.over_1s < 0.1);
        assert!((rates.over_10s - 500.0 / std::f64::consts::E).abs() < 1.0);
        assert!(rates.over_100s > 450.0);
    }
}
