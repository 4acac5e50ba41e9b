//! A histogram of `u64` values in fixed memory.
//!
//! Owns a log-linear layout: 16 steps per power of two, so that a quantile is off by at most 6.25 %
//! of the value. Deliberately not here: units (callers say nanoseconds or bytes in the name).

const STEP_BITS: u32 = 4;
const STEPS: usize = 1 << STEP_BITS;
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS;

/// Counts of values by size; 7.8 KB, whatever it counts.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let exponent = 63 - value.leading_zeros();
    let step = (value >> (exponent - STEP_BITS)) as usize & (STEPS - 1);
    (exponent - STEP_BITS + 1) as usize * STEPS + step
}

/// The largest value that falls into a bucket.
fn upper_bound(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let exponent = (bucket / STEPS - 1) as u32;
    let base = (STEPS + bucket % STEPS) as u64;
    (base << exponent) + ((1u64 << exponent) - 1)
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Histogram {
            buckets: Box::new([0; BUCKETS]),
            count: 0,
            sum: 0,
            max: 0,
        }
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.buckets[bucket(value)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds everything `other` counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The largest value, exactly; zero when empty.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Sum of the values, saturating.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Mean of the values; zero when empty.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum as f64 / self.count as f64
        }
    }

    /// The value that `quantile` (0.0 to 1.0) of all values do not exceed; zero when empty.
    pub fn quantile(&self, quantile: f64) -> u64 {
        let rank = (quantile.clamp(0.0, 1.0) * self.count as f64)
            .ceil()
            .max(1.0) as u64;
        let mut seen = 0;
        for (index, count) in self.buckets.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= rank {
                return upper_bound(index).min(self.max);
            }
        }
        self.max
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Histogram::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for shift in 0..64 {
            for value in [
                1u64 << shift,
                (1u64 << shift) - 1,
                (1u64 << shift) | (1 << (shift / 2)),
            ] {
                let at = bucket(value);
                assert!(at < BUCKETS && value <= upper_bound(at), "{value}");
                assert!(at == 0 || value > upper_bound(at - 1), "{value}");
            }
        }
        assert_eq!(upper_bound(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn quantiles_are_within_the_stated_error() {
        let mut histogram = Histogram::new();
        for value in 1..=100_000u64 {
            histogram.record(value);
        }
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999] {
            let exact = quantile * 100_000.0;
            let found = histogram.quantile(quantile) as f64;
            assert!(
                found >= exact && found <= exact * 1.0625 + 1.0,
                "{quantile}: {found}"
            );
        }
        assert_eq!(histogram.quantile(1.0), 100_000);
        assert_eq!(Histogram::new().quantile(0.5), 0);
    }
}
