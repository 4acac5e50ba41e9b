//! Random walks through worlds of two users that are too large to be explored. A walk is drawn from
//! its number alone; each step is drawn from all that may come next, and the rules hold after it.
//!
//! `WALKS` says how many, `WALK` the first one. A walk that fails prints its steps, without those
//! that it fails without.

use std::collections::BTreeMap;

use stateright::Model;

use super::rules;
use super::steps::Step;
use super::world::{State, World};

/// Steps after which a walk is given up. Most end before, because nothing can happen any more.
const STEPS_MAX: usize = 400;

/// Draws numbers from a seed (SplitMix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % bound as u64) as usize
    }

    /// The next step: mostly one that goes on by itself, so that faults come at any time and not
    /// all at the beginning.
    fn step(&mut self, mut steps: Vec<Step>) -> Option<Step> {
        if self.below(4) > 0 && steps.iter().any(Step::is_inner) {
            steps.retain(Step::is_inner);
        }
        (!steps.is_empty()).then(|| {
            let at = self.below(steps.len());
            steps.swap_remove(at)
        })
    }
}

/// What came of a walk.
struct Walk {
    steps: Vec<Step>,
    broken: Option<&'static str>,
}

fn walk(world: &World, seed: u64) -> Walk {
    let mut draw = Draw(seed);
    let mut state = world.begin();
    let mut steps = Vec::new();
    // Some steps change nothing: they may be drawn as often, and the walk ends all the same.
    for _ in 0..STEPS_MAX {
        let Some(step) = draw.step(world.steps(&state)) else {
            break;
        };
        let Some(next) = world.next_state(&state, step.clone()) else {
            continue;
        };
        if next == state {
            continue;
        }
        steps.push(step);
        state = next;
        if let broken @ Some(_) = rules::broken(world, &state) {
            return Walk { steps, broken };
        }
    }
    Walk {
        steps,
        broken: None,
    }
}

/// Where the same steps lead, as far as each may come then; the first rule that is broken.
fn again(world: &World, steps: &[Step]) -> Option<&'static str> {
    let mut state: State = world.begin();
    for step in steps {
        if !world.steps(&state).contains(step) {
            return None;
        }
        state = world.next_state(&state, step.clone())?;
        if let broken @ Some(_) = rules::broken(world, &state) {
            return broken;
        }
    }
    None
}

/// Leaves out steps one by one as long as the same rule is broken, from the end on.
fn shorten(world: &World, mut steps: Vec<Step>, rule: &str) -> Vec<Step> {
    loop {
        let before = steps.len();
        for at in (0..before).rev() {
            let mut fewer = steps.clone();
            fewer.remove(at);
            if again(world, &fewer) == Some(rule) {
                steps = fewer;
            }
        }
        if steps.len() == before {
            return steps;
        }
    }
}

fn number(name: &str, otherwise: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(otherwise, |value| value.parse().expect("a number"))
}

/// Walks through each of these worlds in turn, `usual` times in all unless `WALKS` says otherwise.
/// All of `sometimes` happened.
pub(super) fn through(name: &str, worlds: &[World], usual: u64, sometimes: &[&'static str]) {
    let (first, walks) = (number("WALK", 0), number("WALKS", usual));
    let mut taken = 0;
    for seed in first..first + walks {
        let world = &worlds[(seed % worlds.len() as u64) as usize];
        let Walk { steps, broken } = walk(world, seed);
        taken += steps.len();
        if let Some(rule) = broken {
            let steps = shorten(world, steps, rule);
            let steps: String = steps.iter().map(|step| format!("{step:?}\n")).collect();
            panic!("{name}: {rule}: walk {seed}:\n{steps}");
        }
    }
    println!("{name}: {walks} walks, {taken} steps");
    let mut table: BTreeMap<&str, u64> = BTreeMap::new();
    for (what, times) in worlds.iter().flat_map(|world| world.reached.table()) {
        *table.entry(what).or_default() += times;
    }
    for (what, times) in &table {
        println!("    {what}: {times}");
    }
    // One walk, or others, need not come to all of it.
    let are_all = first == 0 && walks >= usual;
    for what in sometimes.iter().filter(|_| are_all) {
        assert!(table.contains_key(what), "{name}: never: {what}");
    }
}
