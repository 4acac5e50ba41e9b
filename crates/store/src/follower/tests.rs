//! Followers that apply the same, and those that load a snapshot instead.

use std::fs;

use super::*;
use crate::error::OpenError;
use crate::record::Account;
use crate::slot::RANGES;
use stdx::time::Timestamp;

const STREAM: u16 = 0;

fn ranges() -> Vec<RangeId> {
    RangeId::all().take(usize::from(RANGES / 2)).collect()
}

/// An account of one of the stream's ranges.
fn user(number: u32) -> (RangeId, String) {
    let slots = Store::in_memory().slot_key();
    let named = (0..).map(|try_| format!("u{number}.{try_}@x"));
    let mut placed = named.map(|user| (slots.slot(&user).range(), user));
    let is_ours = |range: RangeId| range.index() < RANGES / 2;
    placed.find(|(range, _)| is_ours(*range)).unwrap()
}

fn put(number: u32, at: i64) -> (RangeId, Vec<Record>) {
    let (range, user) = user(number);
    let account = Account {
        created: Timestamp::from_millis(at),
        ..Account::default()
    };
    (range, vec![Record::AccountPut { user, account }])
}

fn follower() -> (Store, Follower) {
    let store = Store::in_memory();
    let follower = Follower::new(&store).unwrap();
    (store, follower)
}

fn marks(follower: &Follower) -> Vec<RangeMark> {
    RangeId::all()
        .map(|range| follower.range(range).unwrap())
        .collect()
}

fn at(seq: u64) -> StreamMark {
    StreamMark { seq, epoch: 1 }
}

/// Goal: the same messages give the same hashes, another change gives another one, and only in its
/// range.
#[test]
fn hashes_are_equal_as_long_as_changes_are() {
    let [(_, mut one), (_, mut two), (_, mut odd)] = [follower(), follower(), follower()];
    for seq in 1..=20 {
        let message = [put(seq, 1), put(seq % 5, i64::from(seq))];
        for follower in [&mut one, &mut two] {
            assert_eq!(
                follower.apply(STREAM, at(seq.into()), Level::FIRST, &message),
                Ok(0)
            );
        }
        let other = [put(seq, 1), put(seq % 5, i64::from(seq.min(19)))];
        odd.apply(STREAM, at(seq.into()), Level::FIRST, &other)
            .unwrap();
    }
    assert_eq!(marks(&one), marks(&two));
    assert_eq!(one.stream(STREAM), Ok(at(20)));
    let differ = marks(&one)
        .iter()
        .zip(marks(&odd))
        .filter(|(a, b)| *a != b)
        .count();
    assert_eq!(differ, 1);
}

/// Goal: an append that must not be applied takes its position on every replica and changes
/// nothing, and the others of its message are applied.
#[test]
fn an_append_that_must_not_be_applied_counts_and_changes_nothing() {
    let (store, mut follower) = follower();
    let (range, good) = put(1, 1);
    let bad = vec![
        good[0].clone(),
        Record::AccountRemove {
            user: String::new(),
        },
    ];
    let foreign = RangeId::from_index(RANGES - 1).unwrap();
    let message = [(range, bad), (foreign, good.clone()), (range, good)];
    assert_eq!(follower.apply(STREAM, at(1), Level::FIRST, &message), Ok(2));
    assert_eq!(follower.range(range).unwrap().position, Position::new(2));
    assert_eq!(follower.range(foreign).unwrap().position, Position::new(1));
    assert!(store.load_user(&user(1).1).unwrap().is_some());
}

/// Goal: who loads a snapshot and applies the tail is equal to who applied everything, and what
/// was there before is gone.
#[test]
fn a_snapshot_and_the_tail_are_as_good_as_everything() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let [(store, mut one), (other_store, mut other)] = [follower(), follower()];
    for seq in 1..=30 {
        one.apply(STREAM, at(seq.into()), Level::FIRST, &[put(seq, 1)])
            .unwrap();
    }
    other
        .apply(STREAM, at(1), Level::FIRST, &[put(1_000, 1)])
        .unwrap();
    let (mark, moved) = store.snapshot_stream(STREAM, &ranges(), &file).unwrap();
    assert_eq!(mark, at(30));
    assert!(moved.entries > 30);
    assert_eq!(
        other_store
            .check_snapshot(STREAM, &ranges(), &file)
            .unwrap(),
        mark
    );
    assert_eq!(other.load_snapshot(STREAM, &ranges(), &file).unwrap(), mark);
    for follower in [&mut one, &mut other] {
        assert_eq!(
            follower.apply(STREAM, at(31), Level::FIRST, &[put(7, 2)]),
            Ok(0)
        );
    }
    assert_eq!(marks(&one), marks(&other));
    assert_eq!(other.stream(STREAM), Ok(at(31)));
    assert!(other_store.load_user(&user(30).1).unwrap().is_some());
    assert!(other_store.load_user(&user(1_000).1).unwrap().is_none());
    let report = other_store.verify();
    assert!(report.unwrap().problems.is_empty());
}

/// Goal: a snapshot that is damaged, cut, of another stream or deployment is refused, and nothing
/// of the store has changed.
#[test]
fn a_snapshot_that_is_not_right_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let [(store, mut one), (_, mut other)] = [follower(), follower()];
    one.apply(STREAM, at(1), Level::FIRST, &[put(1, 1)])
        .unwrap();
    other
        .apply(STREAM, at(1), Level::FIRST, &[put(2, 1)])
        .unwrap();
    let before = marks(&other);
    store.snapshot_stream(STREAM, &ranges(), &file).unwrap();
    assert!(store.snapshot_stream(STREAM, &ranges(), &file).is_err());
    let good = fs::read(&file).unwrap();
    let mut refused = |bytes: &[u8], stream: u16, ranges: &[RangeId]| {
        fs::write(&file, bytes).unwrap();
        let loaded = other.load_snapshot(stream, ranges, &file);
        assert!(matches!(loaded, Err(OpenError::Corrupt(_))), "{loaded:?}");
        assert_eq!(marks(&other), before);
    };
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        refused(&bad, STREAM, &ranges());
        refused(&good[..at], STREAM, &ranges());
    }
    refused(&good, 1, &ranges());
    let others: Vec<RangeId> = RangeId::all().skip(64).collect();
    refused(&good, STREAM, &others);
    refused(&good, STREAM, &[others[0], others[2]]);
    let engine = Arc::new(crate::MemoryEngine::new());
    let elsewhere = Store::with_engine(engine, crate::Durability::Memory, SlotKey::new([1; 16]));
    let mut elsewhere = Follower::new(&elsewhere.unwrap()).unwrap();
    fs::write(&file, &good).unwrap();
    let loaded = elsewhere.load_snapshot(STREAM, &ranges(), &file);
    assert!(matches!(loaded, Err(OpenError::Corrupt(_))), "{loaded:?}");
}

/// Goal: what a message changes is in the forms of its own level, on every replica alike, whatever
/// came before. With the first one of a level the store keeps older programs out, and not before.
#[test]
fn forms_follow_from_the_level_of_the_message() {
    let next = Level::new(Level::NEWEST.number() + 1);
    let schema = |store: &Store| {
        let value = store.engine().get(Space::Meta, keys::SCHEMA).unwrap();
        u32::from_be_bytes(value.unwrap().try_into().unwrap())
    };
    let form = |store: &Store, number| {
        let key = keys::user(&store.slot_key(), &user(number).1);
        let head = store.engine().get(Space::Head, &key).unwrap();
        head.unwrap()[0]
    };
    let [(store, mut one), (other, mut two), (_, mut odd)] = [follower(), follower(), follower()];
    let mut both = |seq: u32, level| {
        for follower in [&mut one, &mut two] {
            let message = [put(seq, 1)];
            assert_eq!(
                follower.apply(STREAM, at(seq.into()), level, &message),
                Ok(0)
            );
        }
        assert_eq!(marks(&one), marks(&two));
        marks(&one)
    };
    both(1, Level::NEWEST);
    assert_eq!((schema(&store), schema(&other)), (4, 4));
    let raised = both(2, next);
    assert_eq!((schema(&store), schema(&other)), (5, 5));
    // A home that has not heard of it yet.
    both(3, Level::FIRST);
    assert_eq!((schema(&store), schema(&other)), (5, 5));
    assert_eq!(form(&store, 1), form(&store, 3));
    assert_eq!(form(&store, 2), form(&store, 1) + 1);
    // Another form is another value: hashes notice.
    for seq in 1..=2 {
        odd.apply(STREAM, at(seq.into()), Level::FIRST, &[put(seq, 1)])
            .unwrap();
    }
    assert_ne!(marks(&odd), raised);
}
