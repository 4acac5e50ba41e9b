//! Every interleaving of small worlds, with the shipped machines and not models of them, under
//! limits of 1 and 2. Owns how a world is explored and what is counted; the worlds of handing over
//! are in `outbox`, those of a user's sessions in `inbox`, those of both together in `composed`.
//!
//! `cargo test -p delivery --test explore` explores the small ones; `make explore` all of them.

#![allow(
    clippy::print_stdout,
    reason = "the numbers of states are what is published"
)]

#[cfg(feature = "bugs")]
mod bugs;
mod composed;
mod inbox;
mod outbox;
mod reached;

use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use reached::Reached;
use stateright::{Checker, Model};

/// Explores a world to exhaustion. What must always hold does, and all of `sometimes` happened; in
/// how many steps each thing did is printed.
fn explore<M>(name: &str, world: M, reached: &Reached, sometimes: &[&'static str])
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + PartialEq + Hash + Send + Sync,
    M::Action: Clone + Debug + PartialEq + Send + Sync,
{
    let mut checker = world.checker().threads(2);
    // For work on the machines: `make explore` and CI set no bound.
    if let Ok(seconds) = std::env::var("EXPLORE_SECONDS") {
        let seconds = seconds.parse().expect("a number");
        checker = checker.timeout(Duration::from_secs(seconds));
    }
    let checker = checker.spawn_bfs().join();
    println!(
        "{name}: {} states, {} of them distinct, depth {}",
        checker.state_count(),
        checker.unique_state_count(),
        checker.max_depth()
    );
    let table = reached.table();
    for (what, times) in &table {
        println!("    {what}: {times}");
    }
    if let Some((rule, path)) = checker.discoveries().into_iter().next() {
        let steps = path.into_actions();
        let steps: String = steps.iter().map(|step| format!("{step:?}\n")).collect();
        panic!("{name}: {rule}:\n{steps}");
    }
    for what in sometimes {
        let is_it = |(have, _): &(&str, u64)| have == what;
        assert!(table.iter().any(is_it), "{name}: never: {what}");
    }
}

/// A test for each world, by its name: all of what is listed with it happened in it. With `all of`
/// what may happen (`Seen::NAMES`) one test more: each of those is listed with a world that is not
/// left to `make explore`.
macro_rules! worlds {
    (
        all of $names:expr;
        $($(#[$attribute:meta])* $name:ident: $world:expr, $sometimes:expr;)*
    ) => {
        $crate::worlds! { $($(#[$attribute])* $name: $world, $sometimes;)* }

        #[test]
        fn everything_happens_in_some_world() {
            let mut happens: Vec<&str> = Vec::new();
            $(
                if !stringify!($($attribute)*).starts_with("ignore") {
                    let sometimes: &[&str] = &$sometimes;
                    happens.extend(sometimes);
                }
            )*
            for what in $names {
                assert!(happens.contains(what), "no world: {what}");
            }
        }
    };
    ($($(#[$attribute:meta])* $name:ident: $world:expr, $sometimes:expr;)*) => {
        $(
            $(#[$attribute])*
            #[test]
            fn $name() {
                let world = $world;
                let reached = world.reached.clone();
                $crate::explore(&stringify!($name).replace('_', " "), world, &reached, &$sometimes);
            }
        )*
    };
}
pub(crate) use worlds;
