//! Tables against models, their bound, and what several threads see.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::{Full, NotInserted, OrderedSet, Set, TableOptions};
use crate::rand::Rng;

fn options(partitions: usize, rows_max: usize) -> TableOptions {
    TableOptions {
        partitions,
        rows_max,
    }
}

/// Random calls on both tables and a map of the standard library.
#[test]
fn tables_agree_with_a_map() {
    for seed in 0..60 {
        let mut rng = Rng::with_seed(seed);
        let opts = options(1 << rng.usize(..4), 1_000);
        let (set, ordered) = (Set::new(opts), OrderedSet::new(opts));
        let mut model: BTreeMap<u32, u32> = BTreeMap::new();
        for step in 0..400 {
            let key = rng.u32(..40);
            match rng.u32(..9) {
                0..3 => {
                    let old = model.insert(key, step);
                    assert_eq!(set.insert(key, step), Ok(old));
                    assert_eq!(ordered.insert(key, step), Ok(old));
                }
                3 => {
                    let is_new = !model.contains_key(&key);
                    assert_eq!(set.insert_new(key, step).is_ok(), is_new);
                    assert_eq!(ordered.insert_new(key, step).is_ok(), is_new);
                    model.entry(key).or_insert(step);
                }
                4 => {
                    let old = model.remove(&key);
                    assert_eq!((set.remove(&key), ordered.remove(&key)), (old, old));
                }
                5 => {
                    let new = model.get_mut(&key).map(|value| {
                        *value += 1;
                        *value
                    });
                    let add = |value: &mut u32| {
                        *value += 1;
                        *value
                    };
                    assert_eq!(
                        (set.update(&key, add), ordered.update(&key, add)),
                        (new, new)
                    );
                }
                6 => {
                    let row = |_| (rng.u32(..40), step);
                    let rows: Vec<(u32, u32)> = (0..6).map(row).collect();
                    set.insert_all(rows.clone()).unwrap();
                    ordered.insert_all(rows.clone()).unwrap();
                    model.extend(rows);
                }
                7 => {
                    let rows: Vec<(u32, u32)> = (0..2).map(|_| (rng.u32(..40), step)).collect();
                    let is_new = rows[0].0 != rows[1].0
                        && rows.iter().all(|(key, _)| !model.contains_key(key));
                    assert_eq!(set.insert_new_all(rows.clone()).is_ok(), is_new);
                    assert_eq!(ordered.insert_new_all(rows.clone()).is_ok(), is_new);
                    if is_new {
                        model.extend(rows);
                    }
                }
                _ => {
                    let (a, b) = (rng.u32(..42), rng.u32(..42));
                    let bounds = match rng.u32(..4) {
                        0 => (Bound::Included(a), Bound::Included(b)),
                        1 => (Bound::Excluded(a), Bound::Excluded(b)),
                        2 => (Bound::Excluded(a), Bound::Unbounded),
                        _ => (Bound::Unbounded, Bound::Excluded(b)),
                    };
                    let limit = rng.usize(..10);
                    let inside = model.iter().filter(|(key, _)| {
                        use std::ops::RangeBounds;
                        bounds.contains(*key)
                    });
                    let expected: Vec<(u32, u32)> =
                        inside.take(limit).map(|(k, v)| (*k, *v)).collect();
                    assert_eq!(ordered.range(bounds, limit), expected);
                }
            }
            let row = |found: Option<(&u32, &u32)>| found.map(|(key, value)| (*key, *value));
            assert_eq!(set.get(&key), model.get(&key).copied());
            assert_eq!(ordered.get(&key), model.get(&key).copied());
            assert_eq!((set.len(), ordered.len()), (model.len(), model.len()));
            assert_eq!(ordered.first(), row(model.first_key_value()));
            assert_eq!(ordered.last(), row(model.last_key_value()));
            assert_eq!(ordered.next(&key), row(model.range(key + 1..).next()));
            assert_eq!(ordered.prev(&key), row(model.range(..key).next_back()));
        }
        let mut sum = 0;
        set.for_each(|_, value| sum += u64::from(*value));
        assert_eq!(sum, model.values().map(|value| u64::from(*value)).sum());
        set.clear();
        ordered.clear();
        assert!(set.is_empty() && ordered.is_empty());
    }
}

#[test]
fn full_tables_hand_rows_back_and_have_room_again() {
    let (set, ordered) = (Set::new(options(1, 2)), OrderedSet::new(options(1, 2)));
    for key in [1, 2] {
        assert_eq!(set.insert(key, 'a'), Ok(None));
        assert_eq!(ordered.insert(key, 'a'), Ok(None));
    }
    assert_eq!(set.insert(3, 'b'), Err(Full((3, 'b'))));
    assert_eq!(ordered.insert(3, 'b'), Err(Full((3, 'b'))));
    assert_eq!(set.insert_new(3, 'b'), Err(NotInserted::Full((3, 'b'))));
    assert_eq!(ordered.insert_new(3, 'b'), Err(NotInserted::Full((3, 'b'))));
    let rows = vec![(1, 'c'), (3, 'c')];
    assert_eq!(set.insert_all(rows.clone()), Err(Full(rows.clone())));
    assert_eq!(ordered.insert_all(rows.clone()), Err(Full(rows)));
    assert_eq!((set.get(&1), ordered.get(&1)), (Some('a'), Some('a')));
    // A row whose key is there needs no room.
    assert_eq!(set.insert(2, 'd'), Ok(Some('a')));
    assert_eq!(ordered.insert(2, 'd'), Ok(Some('a')));
    assert_eq!((set.remove(&1), ordered.remove(&1)), (Some('a'), Some('a')));
    assert_eq!(
        set.insert_all(vec![(3, 'e'), (3, 'f')]).err(),
        Some(Full(vec![(3, 'e'), (3, 'f')]))
    );
    assert_eq!(set.insert_all(vec![(3, 'e')]), Ok(()));
    assert_eq!(ordered.insert_new_all(vec![(3, 'e')]), Ok(()));
    set.clear();
    ordered.clear();
    assert_eq!(set.insert_all(vec![(7, 'x'), (8, 'x')]), Ok(()));
    assert_eq!(ordered.insert_all(vec![(7, 'x'), (8, 'x')]), Ok(()));
}

#[test]
fn the_bound_holds_over_partitions_to_a_sixteenth() {
    let set = Set::new(options(8, 1_024));
    let taken = (0..5_000)
        .filter(|key| set.insert(*key, ()).is_ok())
        .count();
    assert!((1_024 - 1_024 / 16..=1_024).contains(&taken), "{taken}");
    assert_eq!(set.len(), taken);
}

/// Two writers insert pairs at once and take them out again; readers never see half a pair.
#[test]
fn nobody_sees_half_of_what_was_inserted_at_once() {
    let table = Arc::new(OrderedSet::new(options(8, 1_000)));
    let done = Arc::new(AtomicBool::new(false));
    let writer = |first: u32| {
        let table = Arc::clone(&table);
        thread::spawn(move || {
            for round in 0..2_000u32 {
                table
                    .insert_all(vec![(first, round), (first + 1_000, round)])
                    .unwrap();
            }
        })
    };
    let reader = {
        let (table, done) = (Arc::clone(&table), Arc::clone(&done));
        thread::spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let rows = table.range(.., 10);
                let (low, high) = rows.split_at(rows.len() / 2);
                let values = |rows: &[(u32, u32)]| rows.iter().map(|row| row.1).collect::<Vec<_>>();
                assert_eq!(values(low), values(high));
            }
        })
    };
    let writers = [writer(1), writer(2)];
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    done.store(true, Ordering::SeqCst);
    reader.join().unwrap();
    assert_eq!(table.len(), 4);
}

/// Counters of several threads lose nothing.
#[test]
fn updates_of_several_threads_add_up() {
    let table = Arc::new(Set::new(options(2, 100)));
    table.insert("n", 0u64).unwrap();
    let adder = |_| {
        let table = Arc::clone(&table);
        thread::spawn(move || {
            (0..5_000).for_each(|_| {
                table.update("n", |n| *n += 1);
            });
        })
    };
    let adders: Vec<_> = (0..4).map(adder).collect();
    adders.into_iter().for_each(|adder| adder.join().unwrap());
    assert_eq!(table.get("n"), Some(20_000));
}

#[test]
fn a_closure_that_panics_leaves_the_table_usable() {
    let table = Arc::new(Set::new(options(1, 10)));
    table.insert(1, 1).unwrap();
    let inside = Arc::clone(&table);
    let panicked = thread::spawn(move || {
        inside.update(&1, |_| panic!("as told"));
    });
    assert!(panicked.join().is_err());
    assert_eq!(table.get(&1), Some(1));
    assert_eq!(table.insert(2, 2), Ok(None));
}
