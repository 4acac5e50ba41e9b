//! A colony: pheromone, the best solution, and how both change.
//!
//! Owns the updates and their history. A history is small, and replayed it gives the same pheromone
//! to the last bit: that is how a colony that was lost goes on elsewhere as if nothing had
//! happened. Deliberately not here: ants (`ant`) and messages (`tree`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::ant::{Draws, Tau, tour};
use crate::instance::{Instance, Solution};
use crate::params::{Heuristic, Params};
use crate::search::improve;

/// Everything that a colony is made of, as plain data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// The best solution of the colony itself.
    pub best: Option<Solution>,
    /// What pheromone was laid along, in order, each with the number of updates in a row. No more
    /// entries than updates.
    pub laid: Vec<(Solution, u32)>,
}

impl History {
    fn lay(&mut self, solution: &Solution) {
        match self.laid.last_mut() {
            Some((last, times)) if last == solution => *times += 1,
            _ => self.laid.push((solution.clone(), 1)),
        }
    }
}

/// One colony.
#[derive(Clone, Debug)]
pub struct Colony {
    instance: Instance,
    params: Params,
    heuristic: Heuristic,
    number: u32,
    tau: Arc<Tau>,
    history: History,
}

impl Colony {
    /// One of so many colonies, with the past that it is given.
    pub fn new(
        instance: &Instance,
        params: &Params,
        (number, colonies): (u32, u32),
        history: History,
    ) -> Self {
        let mut colony = Colony {
            instance: instance.clone(),
            params: *params,
            heuristic: params.heuristic.of_colony(number, colonies),
            number,
            tau: Arc::new(Tau::new(instance.count(), tau0(instance, params))),
            history: History::default(),
        };
        for (solution, times) in &history.laid {
            for _ in 0..*times {
                colony.lay(solution);
            }
        }
        colony.history = history;
        colony
    }

    /// Its past, to be kept elsewhere.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Pheromone, for its ants to read. Whoever still has it while it changes keeps the old one.
    pub fn tau(&self) -> Arc<Tau> {
        Arc::clone(&self.tau)
    }

    /// What an ant needs to make its tours without the colony.
    pub fn guide(&self) -> Guide {
        Guide {
            instance: self.instance.clone(),
            params: self.params,
            heuristic: self.heuristic,
            number: self.number,
        }
    }

    /// Hears of the best solution of all colonies: pheromone follows it, the own best stays.
    pub fn hear(&mut self, best: &Solution) {
        if self.history.best.as_ref() != Some(best) {
            self.lay(best);
        }
    }

    /// Ends an iteration with the best tour of its ants.
    pub fn learn(&mut self, found: Solution) {
        // The tour is improved, not the best so far, which is a local optimum already: that way
        // each iteration searches around another order.
        let found = improve(&self.instance, self.params.search, found);
        let best = match self.history.best.take() {
            Some(best) => best.better(found),
            None => found,
        };
        self.lay(&best);
        self.history.best = Some(best);
    }

    fn lay(&mut self, solution: &Solution) {
        let keep = if self.params.evaporates {
            1.0 - self.params.rho
        } else {
            1.0
        };
        let amount = self.params.rho / solution.cost.max(1) as f64;
        Arc::make_mut(&mut self.tau).update(keep, amount, &solution.order);
        self.history.lay(solution);
    }
}

/// What an ant knows.
#[derive(Clone, Debug)]
pub struct Guide {
    instance: Instance,
    params: Params,
    heuristic: Heuristic,
    number: u32,
}

impl Guide {
    /// The tour of one ant.
    pub fn tour(&self, tau: &Tau, round: u32, iteration: u32, ant: u32) -> Solution {
        let mut draws = Draws::new(self.params.dice, self.number, round, iteration, ant);
        tour(
            &self.instance,
            &self.params,
            self.heuristic,
            tau,
            &mut draws,
        )
    }
}

/// Pheromone at the beginning.
pub fn tau0(instance: &Instance, params: &Params) -> f64 {
    params.tau0.unwrap_or_else(|| {
        let cost = instance.cost(&instance.earliest_due());
        if cost == 0 {
            1.0
        } else {
            1.0 / (f64::from(params.ants) * cost as f64)
        }
    })
}

/// The better of two tours of one iteration; of equal ones that of the lower order, whichever came
/// first.
pub fn first(one: Solution, other: Solution) -> Solution {
    if (one.cost, &one.order) <= (other.cost, &other.order) {
        one
    } else {
        other
    }
}

/// A colony alone, on the caller's thread: what the actors must agree with.
pub fn run_alone(instance: &Instance, params: &Params) -> Solution {
    let mut colony = Colony::new(instance, params, (0, 1), History::default());
    let guide = colony.guide();
    for round in 0..params.rounds {
        for iteration in 0..params.iterations {
            let tau = colony.tau();
            let mut found = guide.tour(&tau, round, iteration, 0);
            for ant in 1..params.ants {
                found = first(found, guide.tour(&tau, round, iteration, ant));
            }
            drop(tau);
            colony.learn(found);
        }
    }
    // Invariant: there is at least one round, iteration and ant, as options are checked.
    colony.history.best.expect("every iteration leaves a best")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replayed_history_gives_the_same_pheromone_to_the_last_bit() {
        let instance = Instance::parse(include_str!("../instances/wt40.001")).unwrap();
        let params = Params::default();
        let mut colony = Colony::new(&instance, &params, (1, 4), History::default());
        for iteration in 0..30 {
            let found = colony.guide().tour(&colony.tau(), 0, iteration, 0);
            if iteration % 7 == 3 {
                colony.hear(&found);
            }
            colony.learn(found);
        }
        let again = Colony::new(&instance, &params, (1, 4), colony.history().clone());
        assert_eq!(again.tau(), colony.tau());
        assert_eq!(again.history(), colony.history());
        assert!(colony.history().laid.len() < 30);
    }
}
