//! What a run is told: the published parameters, with the published defaults.
//!
//! Owns values only. Deliberately not here: reading them from a command line (`options`).

use serde::{Deserialize, Serialize};

/// Which estimate guides an ant besides pheromone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Heuristic {
    /// Modified due date: 1 / max(T + p, d).
    #[default]
    Mdd,
    /// Earliest due date: 1 / d.
    Edd,
    /// Apparent urgency: w / p · exp(-max(d - T - p, 0) / (2 · mean p)).
    Au,
    /// The first half of the colonies `Mdd`, the others `Au`.
    Mixed,
}

impl Heuristic {
    /// What one of so many colonies uses.
    pub fn of_colony(self, colony: u32, colonies: u32) -> Heuristic {
        match self {
            Heuristic::Mixed if colony < colonies.div_ceil(2) => Heuristic::Mdd,
            Heuristic::Mixed => Heuristic::Au,
            other => other,
        }
    }
}

/// How a colony improves the best order of an iteration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Search {
    /// Not at all.
    #[default]
    None,
    /// Interchange of two jobs.
    Interchange,
    /// Insertion of a job elsewhere.
    Insertion,
    /// Interchange, then insertion, and again while that helps.
    InterchangeInsertion,
    /// Insertion, then interchange, and again while that helps.
    InsertionInterchange,
}

/// Where an ant's randomness comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dice {
    /// A generator whose state is made of this seed and of colony, round, iteration and ant, so
    /// that work that is done again is done in the same way.
    Seeded(u64),
    /// .09, .19, … .99 and again: as the published benchmark, for comparisons.
    Cyclic,
}

/// The parameters of every colony.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Params {
    /// Influence of pheromone.
    pub alpha: f64,
    /// Influence of the heuristic.
    pub beta: f64,
    /// Evaporation in one update.
    pub rho: f64,
    /// How often an ant takes the best job instead of drawing one.
    pub q0: f64,
    /// Pheromone at the beginning; `None` is 1 / (ants · cost by earliest due date).
    pub tau0: Option<f64>,
    /// Whether pheromone evaporates.
    pub evaporates: bool,
    /// The estimate.
    pub heuristic: Heuristic,
    /// Local search.
    pub search: Search,
    /// Randomness.
    pub dice: Dice,
    /// Ants of a colony.
    pub ants: u32,
    /// Rounds after which colonies hear of the best solution of all.
    pub rounds: u32,
    /// Iterations of a colony within a round.
    pub iterations: u32,
}

/// Ants of one colony, at most: each is an actor.
pub const ANTS_MAX: u32 = 1_024;
/// Rounds, and iterations within one, at most.
pub const ROUNDS_MAX: u32 = 100_000;

impl Default for Params {
    fn default() -> Self {
        Params {
            alpha: 1.0,
            beta: 2.0,
            rho: 0.1,
            q0: 0.9,
            tau0: None,
            evaporates: true,
            heuristic: Heuristic::Mdd,
            search: Search::None,
            dice: Dice::Seeded(1),
            ants: 20,
            rounds: 20,
            iterations: 20,
        }
    }
}
