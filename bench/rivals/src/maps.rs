//! The mixes of the tables on a concurrent map.
//!
//! Owns the loops. Deliberately not here: ordered tables, ranges and insertions of many at once,
//! which the map does not have.

use std::hash::BuildHasherDefault;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use fastrand::Rng;
use papaya::HashMap;
use rustc_hash::FxHasher;

use crate::Args;

type Map = HashMap<u64, u64, BuildHasherDefault<FxHasher>>;

pub fn run(name: &str, args: &Args) -> Option<f64> {
    match name {
        "ets_test" => Some(test(args)),
        "ets_bench" if args.number(0) == 0 => Some(bench(args)),
        "ets_random_ops" if args.number(0) == 0 => Some(random_ops(args)),
        _ => None,
    }
}

fn all_threads(args: &Args, work: impl Fn(usize, usize) + Sync) -> f64 {
    let barrier = Barrier::new(args.threads);
    let times: Vec<(Instant, Instant)> = thread::scope(|scope| {
        let start = |number| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                let began = Instant::now();
                work(number, args.threads);
                (began, Instant::now())
            })
        };
        let handles: Vec<_> = (0..args.threads).map(start).collect();
        handles
            .into_iter()
            .flat_map(|handle| handle.join())
            .collect()
    });
    // Invariant: there is at least one thread, and none panics: it only calls the map.
    let began = times.iter().map(|time| time.0).min().expect("a thread");
    // Invariant: there is at least one thread, and none panics: it only calls the map.
    let ended = times.iter().map(|time| time.1).max().expect("a thread");
    ended.duration_since(began).as_nanos() as f64 / 1e3
}

fn test(args: &Args) -> f64 {
    let (writers, readers, keys) = (args.number(0), args.number(1), args.number(2));
    let map = Map::default();
    all_threads(args, |number, threads| {
        for who in (number..writers + readers).step_by(threads) {
            for key in (0..2).flat_map(|_| 0..keys as u64) {
                if who < writers {
                    map.pin().insert(key, who as u64);
                } else {
                    std::hint::black_box(map.pin().get(&key).copied());
                }
            }
        }
    })
}

fn bench(args: &Args) -> f64 {
    let (phase, keys, operations) = (args.number(1), args.number(2), args.number(3));
    let map = Map::default();
    if phase > 0 {
        (0..keys as u64).for_each(|key| {
            map.pin().insert(key, key);
        });
    }
    let updates = [0, 0, 1, 10, 0][phase.min(4)];
    all_threads(args, |number, threads| {
        let mut rng = Rng::with_seed(number as u64);
        for _ in 0..operations / threads {
            let key = rng.u64(..keys as u64);
            let map = map.pin();
            match phase {
                0 => {
                    map.insert(key, key);
                }
                4 => {
                    map.remove(&key);
                }
                _ if rng.u64(..100) < updates => {
                    map.insert(key, key + 1);
                }
                _ => {
                    std::hint::black_box(map.get(&key).copied());
                }
            }
        }
    })
}

fn random_ops(args: &Args) -> f64 {
    let (operations, range) = (args.number(1), args.number(2));
    let (insert, delete, lookup) = (args.number(3), args.number(4), args.number(5));
    let map = Map::default();
    all_threads(args, |number, threads| {
        let mut rng = Rng::with_seed(number as u64);
        for _ in 0..operations / threads {
            let (key, what) = (rng.u64(..range as u64), rng.usize(..100));
            let map = map.pin();
            if what < insert {
                map.insert(key, key);
            } else if what < insert + delete {
                map.remove(&key);
            } else if what < insert + delete + lookup {
                std::hint::black_box(map.get(&key).copied());
            }
        }
    })
}
