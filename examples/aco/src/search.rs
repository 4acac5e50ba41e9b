//! Local search: an order is changed a little as long as that helps.
//!
//! Owns the two neighbourhoods and their sequence. Deliberately not here: when a colony searches.

use crate::instance::{Instance, Solution};
use crate::params::Search;

/// Improves a solution until no single step does.
pub fn improve(instance: &Instance, search: Search, solution: Solution) -> Solution {
    let steps: &[Step] = match search {
        Search::None => return solution,
        Search::Interchange => &[interchange],
        Search::Insertion => &[insertion],
        Search::InterchangeInsertion => &[interchange, insertion],
        Search::InsertionInterchange => &[insertion, interchange],
    };
    let mut order = solution.order.to_vec();
    let mut at = 0;
    // Each success lowers the cost by at least one, which bounds the loop.
    while at < steps.len() {
        at = if steps[at](instance, &mut order) {
            0
        } else {
            at + 1
        };
    }
    Solution::new(instance, order)
}

/// Goes over a neighbourhood once, taking every step that helps; true if any did.
type Step = fn(&Instance, &mut [u16]) -> bool;

/// When the job at each position begins.
fn starts(instance: &Instance, order: &[u16]) -> Vec<u64> {
    let mut time = 0;
    let start = |job: &u16| {
        let begin = time;
        time += u64::from(instance.jobs()[usize::from(*job)].duration);
        begin
    };
    order.iter().map(start).collect()
}

/// Keeps a change of `order[from..=to]` if it lowers the cost. Only what is between the ends moves
/// in time.
fn keep_if_better(
    instance: &Instance,
    order: &mut [u16],
    (from, to): (usize, usize),
    start: u64,
    before: u64,
    change: impl Fn(&mut [u16]),
    undo: impl Fn(&mut [u16]),
) -> bool {
    let part = &mut order[from..=to];
    change(part);
    let is_better = instance.cost_from(start, part) < before;
    if !is_better {
        undo(part);
    }
    is_better
}

fn interchange(instance: &Instance, order: &mut [u16]) -> bool {
    let mut improved = false;
    let mut starts_at = starts(instance, order);
    for from in 0..order.len() {
        for to in from + 1..order.len() {
            let start = starts_at[from];
            let before = instance.cost_from(start, &order[from..=to]);
            if before == 0 {
                continue;
            }
            let swap = |part: &mut [u16]| {
                let last = part.len() - 1;
                part.swap(0, last);
            };
            if keep_if_better(instance, order, (from, to), start, before, swap, swap) {
                improved = true;
                starts_at = starts(instance, order);
            }
        }
    }
    improved
}

fn insertion(instance: &Instance, order: &mut [u16]) -> bool {
    let mut improved = false;
    let mut starts_at = starts(instance, order);
    for job in 0..order.len() {
        for place in 0..order.len() {
            // Exchanging neighbours is one insertion, not two.
            if place == job || place + 1 == job {
                continue;
            }
            let (from, to) = (job.min(place), job.max(place));
            let start = starts_at[from];
            let before = instance.cost_from(start, &order[from..=to]);
            if before == 0 {
                continue;
            }
            let later = |part: &mut [u16]| part.rotate_left(1);
            let earlier = |part: &mut [u16]| part.rotate_right(1);
            let span = (from, to);
            let is_better = if job < place {
                keep_if_better(instance, order, span, start, before, later, earlier)
            } else {
                keep_if_better(instance, order, span, start, before, earlier, later)
            };
            if is_better {
                improved = true;
                starts_at = starts(instance, order);
            }
        }
    }
    improved
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};

    proptest! {
        /// A search ends in an order that is no worse, whose cost is what it says, and that no
        /// neighbour of its last neighbourhood improves.
        #[test]
        fn searches_end_in_local_optima(
            jobs in proptest::collection::vec((1u32..20, 0u32..10, 0u32..60), 1..9),
        ) {
            let mut numbers = vec![jobs.len() as u32];
            numbers.extend(jobs.iter().map(|job| job.0));
            numbers.extend(jobs.iter().map(|job| job.1));
            numbers.extend(jobs.iter().map(|job| job.2));
            let text: Vec<String> = numbers.iter().map(u32::to_string).collect();
            let instance = Instance::parse(&text.join(" ")).unwrap();
            let order: Vec<u16> = (0..jobs.len() as u16).collect();
            for search in [Search::Interchange, Search::Insertion, Search::InterchangeInsertion,
                Search::InsertionInterchange] {
                let start = Solution::new(&instance, order.clone());
                let end = improve(&instance, search, start.clone());
                prop_assert!(instance.is_order(&end.order) && end.cost <= start.cost);
                prop_assert_eq!(end.cost, instance.cost(&end.order));
                for from in 0..order.len() {
                    for to in from + 1..order.len() {
                        let mut other = end.order.to_vec();
                        if search == Search::Insertion {
                            other[from..=to].rotate_left(1);
                        } else {
                            other.swap(from, to);
                        }
                        prop_assert!(instance.cost(&other) >= end.cost);
                    }
                }
            }
        }
    }
}
