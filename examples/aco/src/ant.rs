//! One ant's tour: an order of the jobs, chosen one position after the other.
//!
//! Owns pheromone, the heuristics and the choice. Deliberately not here: when pheromone changes
//! (`colony`).

use stdx::rand::Rng;

use crate::instance::{Instance, Job, Solution};
use crate::params::{Dice, Heuristic, Params};

/// Pheromone for each position and job.
#[derive(Clone, Debug, PartialEq)]
pub struct Tau {
    jobs: usize,
    values: Vec<f64>,
}

impl Tau {
    /// The same everywhere.
    pub fn new(jobs: usize, value: f64) -> Self {
        Tau {
            jobs,
            values: vec![value; jobs * jobs],
        }
    }

    /// For each job at one position.
    pub fn at(&self, position: usize) -> &[f64] {
        &self.values[position * self.jobs..][..self.jobs]
    }

    /// Evaporates, then lays `amount` along an order.
    pub fn update(&mut self, keep: f64, amount: f64, order: &[u16]) {
        if keep < 1.0 {
            self.values.iter_mut().for_each(|value| *value *= keep);
        }
        for (position, job) in order.iter().enumerate() {
            self.values[position * self.jobs + usize::from(*job)] += amount;
        }
    }
}

/// A source of numbers from 0 to 1, exclusively.
#[derive(Debug)]
pub enum Draws {
    /// See [`Dice::Seeded`].
    Seeded(Rng),
    /// See [`Dice::Cyclic`]; the number of the next.
    Cyclic(u32),
}

impl Draws {
    /// What one ant draws from in one iteration.
    pub fn new(dice: Dice, colony: u32, round: u32, iteration: u32, ant: u32) -> Self {
        match dice {
            Dice::Seeded(seed) => {
                let mut rng = Rng::with_seed(seed);
                for part in [colony, round, iteration, ant] {
                    rng = Rng::with_seed(rng.u64(..) ^ u64::from(part));
                }
                Draws::Seeded(rng)
            }
            Dice::Cyclic => Draws::Cyclic(ant.wrapping_add(iteration)),
        }
    }

    /// The next number.
    pub fn draw(&mut self) -> f64 {
        match self {
            Draws::Seeded(rng) => rng.f64(),
            Draws::Cyclic(next) => {
                let value = f64::from(*next % 10) / 10.0 + 0.09;
                *next = next.wrapping_add(1);
                value
            }
        }
    }
}

fn power(base: f64, exponent: f64) -> f64 {
    // The defaults, which need no logarithm.
    if exponent == 1.0 {
        base
    } else if exponent == 2.0 {
        base * base
    } else {
        base.powf(exponent)
    }
}

/// How good it looks to do a job next, after `time`.
fn estimate(heuristic: Heuristic, job: Job, time: u64, mean: f64) -> f64 {
    let end = time + u64::from(job.duration);
    let due = u64::from(job.due);
    match heuristic {
        // Colonies of a mixed run have one of the others each.
        Heuristic::Mdd | Heuristic::Mixed => 1.0 / end.max(due) as f64,
        Heuristic::Edd => 1.0 / due.max(1) as f64,
        Heuristic::Au => {
            let slack = due.saturating_sub(end) as f64;
            f64::from(job.weight) / f64::from(job.duration) * (-slack / (2.0 * mean)).exp()
        }
    }
}

/// Makes an order.
pub fn tour(
    instance: &Instance,
    params: &Params,
    heuristic: Heuristic,
    tau: &Tau,
    draws: &mut Draws,
) -> Solution {
    let jobs = instance.jobs();
    let mean = instance.mean_duration();
    let mut left: Vec<u16> = (0..jobs.len() as u16).collect();
    let mut scores: Vec<f64> = Vec::with_capacity(jobs.len());
    let mut order = Vec::with_capacity(jobs.len());
    let mut time = 0;
    for position in 0..jobs.len() {
        let row = tau.at(position);
        scores.clear();
        scores.extend(left.iter().map(|job| {
            let at = usize::from(*job);
            let eta = estimate(heuristic, jobs[at], time, mean);
            power(row[at], params.alpha) * power(eta, params.beta)
        }));
        let at = if draws.draw() < params.q0 {
            best(&scores)
        } else {
            drawn(&scores, draws.draw())
        };
        let job = left.remove(at);
        time += u64::from(jobs[usize::from(job)].duration);
        order.push(job);
    }
    Solution::new(instance, order)
}

/// The position of the highest score, the first of equals.
fn best(scores: &[f64]) -> usize {
    let mut best = 0;
    for (at, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = at;
        }
    }
    best
}

/// A position, each as likely as its score is high.
fn drawn(scores: &[f64], draw: f64) -> usize {
    let sum: f64 = scores.iter().sum();
    let mut rest = draw * sum;
    for (at, score) in scores.iter().enumerate() {
        rest -= score;
        if rest < 0.0 {
            return at;
        }
    }
    // Scores that all vanished, or the rounding of a sum.
    scores.len() - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tours_are_orders_and_repeat_with_their_seed() {
        let instance = Instance::parse(include_str!("../instances/wt40.001")).unwrap();
        let params = Params::default();
        let tau = Tau::new(40, 0.001);
        for dice in [Dice::Seeded(7), Dice::Cyclic] {
            for heuristic in [Heuristic::Mdd, Heuristic::Edd, Heuristic::Au] {
                let go = |ant| {
                    let mut draws = Draws::new(dice, 0, 1, 2, ant);
                    tour(&instance, &params, heuristic, &tau, &mut draws)
                };
                assert!((0..10).all(|ant| instance.is_order(&go(ant).order)));
                assert_eq!(go(3), go(3));
            }
        }
    }

    #[test]
    fn cyclic_draws_have_a_period_of_ten() {
        let mut draws = Draws::new(Dice::Cyclic, 5, 5, 0, 0);
        let values: Vec<f64> = (0..20).map(|_| draws.draw()).collect();
        assert!((values[0] - 0.09).abs() < 1e-9 && (values[9] - 0.99).abs() < 1e-9);
        assert_eq!(values[..10], values[10..]);
    }

    #[test]
    fn draws_follow_the_scores() {
        assert_eq!(drawn(&[0.0, 1.0, 0.0], 0.999), 1);
        assert_eq!(drawn(&[1.0, 1.0, 2.0], 0.49), 1);
        assert_eq!(drawn(&[0.0, 0.0], 0.5), 1);
        assert_eq!(best(&[1.0, 3.0, 3.0]), 1);
    }
}
