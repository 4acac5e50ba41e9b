//! Followers that apply the same, and those that load a snapshot instead.

use std::fs;

use super::*;
use crate::appended;
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
    assert_eq!((schema(&store), schema(&other)), (5, 5));
    let raised = both(2, next);
    assert_eq!((schema(&store), schema(&other)), (6, 6));
    // A home that has not heard of it yet.
    both(3, Level::FIRST);
    assert_eq!((schema(&store), schema(&other)), (6, 6));
    assert_eq!(form(&store, 1), form(&store, 3));
    assert_eq!(form(&store, 2), form(&store, 1) + 1);
    // Another form is another value: hashes notice.
    for seq in 1..=2 {
        odd.apply(STREAM, at(seq.into()), Level::FIRST, &[put(seq, 1)])
            .unwrap();
    }
    assert_ne!(marks(&odd), raised);
}

/// The pieces that stand for an append of `bytes` bytes.
fn pieces(number: u32, bytes: usize) -> (RangeId, Vec<Vec<Record>>) {
    let (range, user) = user(number);
    let records = [Record::VCardPut {
        user,
        xml: vec![b'x'; bytes],
        photo_hash: String::new(),
    }];
    let cut = appended::cut(Level::NEWEST, &records).unwrap();
    let decoded = cut.iter().map(|one| appended::decode(one).unwrap());
    (range, decoded.collect())
}

fn parts_left(store: &Store) -> usize {
    let mut parts = 0;
    let mut count = |key: &[u8], _: &[u8]| {
        let is_part = matches!(keys::parse_meta(key), Some(keys::Meta::Part(..)));
        parts += usize::from(is_part);
        std::ops::ControlFlow::Continue(())
    };
    let engine = store.engine();
    engine.scan(Space::Meta, &[], &[], &mut count).unwrap();
    parts
}

fn vcard_bytes(store: &Store, number: u32) -> Option<usize> {
    let vcard = store.vcard(&user(number).1).unwrap();
    vcard.map(|xml| xml.len())
}

/// Goal: a large append that comes in pieces changes what it would in one, at its last piece and
/// not before, on one who loads a snapshot between two of them, too; and nothing of it stays. What
/// a home left that ended between two pieces goes with the next one.
#[test]
fn an_append_in_pieces_is_applied_with_the_last_one() {
    const BYTES: usize = 3 * crate::limits::PART_BYTES_MAX;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let [(store, mut one), (late_store, mut late)] = [follower(), follower()];
    one.apply(STREAM, at(1), Level::FIRST, &[put(1, 1)])
        .unwrap();
    let mut seq = 1;
    let mut send = |follower: &mut Follower, range, records: &[Record]| {
        seq += 1;
        let message = [(range, records.to_vec())];
        follower
            .apply(STREAM, at(seq), Level::NEWEST, &message)
            .unwrap()
    };
    // Of an earlier home, which ended before the last piece; it was longer, too.
    let (range, cut_short) = pieces(1, 2 * BYTES);
    for piece in &cut_short[..cut_short.len() - 1] {
        assert_eq!(send(&mut one, range, piece), 0);
    }
    assert_eq!(parts_left(&store), cut_short.len() - 1);
    let (range, whole) = pieces(1, BYTES);
    let (last, parts) = whole.split_last().unwrap();
    for piece in parts {
        assert_eq!(send(&mut one, range, piece), 0);
    }
    assert_eq!(parts_left(&store), parts.len());
    assert_eq!(vcard_bytes(&store, 1), None);
    assert!(store.verify().unwrap().problems.is_empty());
    store.snapshot_stream(STREAM, &ranges(), &file).unwrap();
    late.load_snapshot(STREAM, &ranges(), &file).unwrap();
    let position = one.range(range).unwrap().position;
    for follower in [&mut one, &mut late] {
        assert_eq!(send(follower, range, last), 0);
    }
    for (store, follower) in [(&store, &one), (&late_store, &late)] {
        assert_eq!(vcard_bytes(store, 1), Some(BYTES));
        assert_eq!(parts_left(store), 0);
        assert!(store.verify().unwrap().problems.is_empty());
        assert_eq!(follower.range(range).unwrap().position, position.next());
    }
    assert_eq!(marks(&one), marks(&late));
}

/// Goal: a last piece that is not of the parts that wait, parts above their bounds, parts in parts
/// and a record of another range are refused on every replica alike, and change nothing.
#[test]
fn pieces_that_do_not_fit_are_refused() {
    let (store, mut follower) = follower();
    let mut seq = 0;
    let mut send = |range, records: &[Record]| {
        seq += 1;
        let message = [(range, records.to_vec())];
        follower
            .apply(STREAM, at(seq), Level::NEWEST, &message)
            .unwrap()
    };
    let (range, account) = put(1, 1);
    assert_eq!(send(range, &account), 0);
    let (_, whole) = pieces(1, crate::limits::PART_BYTES_MAX);
    let [first, second, last] = &whole[..] else {
        panic!("{} pieces", whole.len());
    };
    // Without one of its parts; with one of another append; in another order.
    assert_eq!((send(range, first), send(range, last)), (0, 1));
    assert_eq!((send(range, second), send(range, first)), (0, 0));
    assert_eq!(send(range, last), 1);
    let user = user(1).1;
    let part = |at, bytes| Record::PartPut {
        user: user.clone(),
        at,
        bytes: vec![0; bytes],
    };
    let most = crate::limits::PART_BYTES_MAX;
    assert_eq!(send(range, &[part(0, most + 1)]), 1);
    assert_eq!(send(range, &[part(crate::limits::PARTS_MAX, 1)]), 1);
    let made_of = |records: &[Record]| {
        let bytes = appended::encode(Level::NEWEST, records);
        let hash = appended::hash(&bytes);
        let part = Record::PartPut {
            user: user.clone(),
            at: 0,
            bytes,
        };
        let last = Record::PartsApply {
            user: user.clone(),
            parts: 1,
            hash,
        };
        [part, last]
    };
    let foreign = Record::AccountRemove {
        user: (0..)
            .map(|n| format!("{n}@y"))
            .find(|name| store.slot_key().slot(name).range() != range)
            .unwrap(),
    };
    for bad in [last[0].clone(), part(0, 1), foreign] {
        let [part, last] = made_of(&[account[0].clone(), bad]);
        assert_eq!((send(range, &[part]), send(range, &[last])), (0, 1));
    }
    assert_eq!(vcard_bytes(&store, 1), None);
    // And what fits goes on being applied.
    for piece in &whole {
        assert_eq!(send(range, piece), 0);
    }
    assert_eq!(vcard_bytes(&store, 1), Some(crate::limits::PART_BYTES_MAX));
}
