//! The problem: jobs with a duration, a weight and a due date, one after the other on one machine.
//! Wanted is an order with the least sum of weighted tardiness.
//!
//! Owns reading an instance and the cost of an order. Deliberately not here: finding one.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Jobs of the largest instance. The pheromone of a colony takes eight bytes for each pair.
pub const JOBS_MAX: usize = 4_096;

/// The largest duration, weight or due date; with [`JOBS_MAX`] jobs no cost exceeds 64 bits.
pub const VALUE_MAX: u32 = 1 << 24;

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// How long the machine works on it; at least 1.
    pub duration: u32,
    /// What each unit of tardiness costs.
    pub weight: u32,
    /// When it should be done.
    pub due: u32,
}

/// An instance of the problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    jobs: Arc<[Job]>,
}

/// What is wrong with the text of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadInstance {
    /// Something is not a number from 0 to [`VALUE_MAX`].
    NotANumber(String),
    /// The number of jobs is not from 1 to [`JOBS_MAX`].
    Jobs(u32),
    /// There are not three numbers for each job.
    Count {
        /// Numbers that were expected after the first.
        expected: usize,
        /// Numbers that were there.
        found: usize,
    },
    /// A job takes no time.
    NoDuration(usize),
}

impl fmt::Display for BadInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadInstance::NotANumber(word) => {
                write!(f, "{word:?} is not a number from 0 to {VALUE_MAX}")
            }
            BadInstance::Jobs(count) => write!(f, "{count} jobs: 1 to {JOBS_MAX} are possible"),
            BadInstance::Count { expected, found } => {
                write!(f, "{found} numbers after the first instead of {expected}")
            }
            BadInstance::NoDuration(job) => write!(f, "job {job} has no duration"),
        }
    }
}

impl std::error::Error for BadInstance {}

impl Instance {
    /// Reads the number of jobs, then all durations, all weights, all due dates.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, BadInstance> {
        let mut numbers = Vec::new();
        for word in text.split_whitespace() {
            match word.parse::<u32>() {
                Ok(number) if number <= VALUE_MAX => numbers.push(number),
                _ => return Err(BadInstance::NotANumber(word.chars().take(40).collect())),
            }
            if numbers.len() > 3 * JOBS_MAX + 1 {
                break;
            }
        }
        let Some((count, rest)) = numbers.split_first() else {
            return Err(BadInstance::Count {
                expected: 1,
                found: 0,
            });
        };
        let jobs = *count as usize;
        if !(1..=JOBS_MAX).contains(&jobs) {
            return Err(BadInstance::Jobs(*count));
        }
        if rest.len() != 3 * jobs {
            return Err(BadInstance::Count {
                expected: 3 * jobs,
                found: rest.len(),
            });
        }
        let job = |at: usize| Job {
            duration: rest[at],
            weight: rest[jobs + at],
            due: rest[2 * jobs + at],
        };
        let jobs: Arc<[Job]> = (0..jobs).map(job).collect();
        match jobs.iter().position(|job| job.duration == 0) {
            Some(at) => Err(BadInstance::NoDuration(at)),
            None => Ok(Instance { jobs }),
        }
    }

    /// The jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.jobs.len()
    }

    /// The sum of weighted tardiness of the jobs `order`, which begin at `start`.
    pub fn cost_from(&self, start: u64, order: &[u16]) -> u64 {
        let mut time = start;
        let mut cost = 0;
        for job in order {
            let job = self.jobs[usize::from(*job)];
            time += u64::from(job.duration);
            cost += u64::from(job.weight) * time.saturating_sub(u64::from(job.due));
        }
        cost
    }

    /// The cost of a complete order.
    pub fn cost(&self, order: &[u16]) -> u64 {
        self.cost_from(0, order)
    }

    /// The order by earliest due date.
    pub fn earliest_due(&self) -> Vec<u16> {
        let mut order: Vec<u16> = (0..self.count() as u16).collect();
        order.sort_by_key(|job| self.jobs[usize::from(*job)].due);
        order
    }

    /// The mean duration.
    pub fn mean_duration(&self) -> f64 {
        let sum: u64 = self.jobs.iter().map(|job| u64::from(job.duration)).sum();
        sum as f64 / self.count() as f64
    }

    /// Whether each job is in the order exactly once.
    pub fn is_order(&self, order: &[u16]) -> bool {
        let mut seen = vec![false; self.count()];
        let is_new = |job: &u16| {
            let slot = seen.get_mut(usize::from(*job));
            slot.is_some_and(|seen| !std::mem::replace(seen, true))
        };
        order.len() == self.count() && order.iter().all(is_new)
    }
}

/// An order and what it costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Solution {
    /// The sum of weighted tardiness.
    pub cost: u64,
    /// The jobs, first to last.
    pub order: Arc<[u16]>,
}

impl Solution {
    /// The solution of an order.
    pub fn new(instance: &Instance, order: Vec<u16>) -> Self {
        Solution {
            cost: instance.cost(&order),
            order: order.into(),
        }
    }

    /// The better of two; the first if they are equal.
    #[must_use]
    pub fn better(self, other: Solution) -> Self {
        if other.cost < self.cost { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_instances_are_read_and_their_due_dates_cost_what_they_should() {
        for (text, count, cost) in [
            (include_str!("../instances/wt40.001"), 40, 1_588),
            (include_str!("../instances/wt100.001"), 100, 14_138),
        ] {
            let instance = Instance::parse(text).unwrap();
            assert_eq!(instance.count(), count);
            let order = instance.earliest_due();
            assert!(instance.is_order(&order));
            assert_eq!(instance.cost(&order), cost);
        }
    }

    #[test]
    fn bad_instances_say_what_is_wrong() {
        use BadInstance::{Count, Jobs, NoDuration, NotANumber};
        let count = |expected, found| Count { expected, found };
        for (text, error) in [
            ("", count(1, 0)),
            ("0", Jobs(0)),
            ("5000 1", Jobs(5000)),
            ("1 1 1", count(3, 2)),
            ("1 1 1 1 1", count(3, 4)),
            ("1 0 1 1", NoDuration(0)),
            ("1 -1 1 1", NotANumber("-1".into())),
            ("1 99999999 1 1", NotANumber("99999999".into())),
        ] {
            assert_eq!(Instance::parse(text), Err(error), "{text}");
        }
        assert!(Instance::parse(&"1 ".repeat(100_000)).is_err());
    }
}
