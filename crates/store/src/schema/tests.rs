//! Tests of the schema version: the previous one is opened from a fixture, newer ones are refused.

use std::sync::Arc;

use super::*;
use crate::engine::faulty::FaultyEngine;
use crate::engine::fjall::{FjallEngine, FjallOptions};
use crate::engine::memory::MemoryEngine;
use crate::store::{Options, Store};

/// A store as schema 1 wrote it: `space key value`, in hex, one entry a line.
const FIXTURE: &str = include_str!("../../tests/fixtures/schema-1.txt");

const SLOTS: SlotKey = SlotKey::new(*b"schema one's key");

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(str::from_utf8(two).unwrap(), 16).unwrap())
        .collect()
}

fn fixture() -> Batch {
    let lines = FIXTURE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut parts = line.split(' ');
            let space = parts.next().unwrap().parse().unwrap();
            let space = Space::from_index(space).unwrap();
            put(
                space,
                unhex(parts.next().unwrap()),
                unhex(parts.next().unwrap_or("")),
            )
        })
        .collect()
}

/// Key of schema 1: `slot user 00 tag`.
fn tagged(user: &str, tag: u8) -> Vec<u8> {
    let mut key = keys::user(&SLOTS, user);
    key.extend_from_slice(&[0, tag]);
    key
}

/// What the fixture was written from.
fn schema_1() -> Batch {
    let mut batch = vec![
        put(
            Space::Meta,
            keys::SCHEMA.to_vec(),
            1u32.to_be_bytes().to_vec(),
        ),
        put(
            Space::Meta,
            keys::SLOT_KEY.to_vec(),
            SLOTS.to_bytes().to_vec(),
        ),
    ];
    let range = SLOTS.slot("juliet@capulet.example").range();
    batch.push(put(
        Space::Meta,
        keys::position(range).to_vec(),
        7u64.to_be_bytes().to_vec(),
    ));
    for (user, contacts, pending) in [
        ("juliet@capulet.example", 2, 3u64),
        ("romeo@montague.example", 1, 0),
        ("nurse@capulet.example", 0, 1),
    ] {
        let scram = vec![(1, 4_096, vec![1; 16], vec![2; 32], vec![3; 32])];
        let account = Account1 {
            created: 1_600_000_000_000,
            scram,
        };
        batch.push(put(Space::State, tagged(user, b'a'), encode_1(&account)));
        let item = |n: u8| Item1 {
            jid: format!("contact{}@example.org", 9 - n),
            name: "A contact".to_owned(),
            groups: vec!["Friends".to_owned()],
            subscription: 3 - n,
            ask: n == 1,
        };
        let roster = Roster1 {
            version: 5,
            items: (0..contacts).map(item).collect(),
        };
        batch.push(put(Space::State, tagged(user, b'r'), encode_1(&roster)));
        let last = (pending > 0).then(|| (1_600_000_001_000, "gone".to_owned()));
        let head = Head1 {
            next_seq: 11 + pending,
            trimmed_through: 10,
            last,
        };
        batch.push(put(Space::State, tagged(user, b'h'), encode_1(&head)));
        for seq in 11..11 + pending {
            let entry = Entry1 {
                at: seq as i64,
                from: "romeo@montague.example/o",
                frame: b"<message/>",
            };
            batch.push(put(
                Space::Log,
                keys::log_entry(&SLOTS, user, seq),
                encode_1(&entry),
            ));
        }
    }
    let mut card = vec![crate::state::BLOB_VERSION];
    card.extend_from_slice(b"<vCard/>");
    batch.push(put(
        Space::Blob,
        keys::vcard(&SLOTS, "romeo@montague.example"),
        card,
    ));
    batch
}

/// Run by hand, once, with `--ignored`: prints the fixture.
#[test]
#[ignore = "writes the fixture"]
fn print_fixture() {
    let mut text = "# A store of schema 1: number of the space, key, value.\n".to_owned();
    for change in schema_1() {
        let value = hex(&change.value.unwrap());
        text += &format!("{} {} {value}\n", change.space.index(), hex(&change.key));
    }
    std::fs::write("tests/fixtures/schema-1.txt", text).unwrap();
}

/// The code that once wrote schema 1 and the fixture agree: neither was changed alone.
#[test]
fn the_fixture_is_what_schema_1_wrote() {
    assert_eq!(fixture(), schema_1());
}

fn check_upgraded(store: &Store) {
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!(
        (report.accounts, report.log_entries, report.blobs),
        (3, 4, 1)
    );
    assert_eq!(store.count_accounts(Some("capulet.example")).unwrap(), 2);
    let juliet = store.load_user("juliet@capulet.example").unwrap().unwrap();
    assert_eq!(juliet.account.created.as_millis(), 1_600_000_000_000);
    assert!(!juliet.account.locked);
    assert_eq!(juliet.account.scram[0].hash, ScramHash::Sha256);
    assert_eq!(juliet.account.scram[0].server_key, [3; 32]);
    let roster: Vec<_> = juliet
        .roster
        .items
        .iter()
        .map(|i| (i.jid.as_str(), i.subscription))
        .collect();
    let expected = [
        ("contact8@example.org", Subscription::From),
        ("contact9@example.org", Subscription::Both),
    ];
    assert_eq!(roster, expected);
    assert!(juliet.roster.items.iter().all(|item| item.listed));
    assert_eq!(juliet.last.unwrap().1, "gone");
    assert_eq!(
        (juliet.log.next_seq, juliet.log.count, juliet.log.bytes),
        (14, 3, 30)
    );
    let log = store.log_read("juliet@capulet.example", 11, 10).unwrap();
    assert_eq!(
        log.iter().map(|entry| entry.seq).collect::<Vec<_>>(),
        [12, 13]
    );
    assert_eq!(
        store.vcard("romeo@montague.example").unwrap().unwrap(),
        b"<vCard/>"
    );
}

#[test]
fn a_store_of_schema_1_is_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    drop(Store::open(&path, &Options::default()).unwrap());
    // The folder's engine is replaced by one that holds what schema 1 wrote.
    std::fs::remove_dir_all(path.join("db")).unwrap();
    let engine = FjallEngine::open(&path.join("db"), FjallOptions::default()).unwrap();
    engine.commit(fixture(), Durability::Fsync).unwrap();
    drop(engine);
    for _upgraded_then_current in 0..2 {
        let store = Store::open(&path, &Options::default()).unwrap();
        check_upgraded(&store);
    }
}

/// An upgrade that stops at any of its commits is finished by the next start.
#[test]
fn an_interrupted_upgrade_goes_on() {
    for survivors in 0..4 {
        let engine = FaultyEngine::new(MemoryEngine::new());
        engine.commit(fixture(), Durability::Fsync).unwrap();
        // Stop the last commit, which changes the number; then lose some of those before it.
        engine.faults().set_disk_full(false);
        upgrade_log_1(&engine).unwrap();
        upgrade_users_1(&engine, &SLOTS).unwrap();
        engine.crash(survivors).unwrap();
        let engine: Arc<dyn Engine> = Arc::new(engine);
        check_upgraded(&Store::with_engine(engine, Durability::Memory, SLOTS).unwrap());
    }
}

fn opened(batch: Batch) -> Result<Store, OpenError> {
    let engine = MemoryEngine::new();
    engine.commit(batch, Durability::Memory).unwrap();
    Store::with_engine(Arc::new(engine), Durability::Memory, SLOTS)
}

#[test]
fn newer_data_is_refused() {
    match opened(vec![schema_change(SCHEMA + 1)]) {
        Err(OpenError::NewerSchema { found, supported }) => {
            assert_eq!((found, supported), (SCHEMA + 1, SCHEMA));
        }
        other => panic!("{:?}", other.err()),
    }
}

#[test]
fn contradictory_meta_data_is_damage() {
    let slot_key = || put(Space::Meta, keys::SLOT_KEY.to_vec(), vec![0; 16]);
    for batch in [
        vec![schema_change(0), slot_key()],
        vec![schema_change(SCHEMA)],
        vec![
            schema_change(SCHEMA),
            put(Space::Meta, keys::SLOT_KEY.to_vec(), vec![0; 3]),
        ],
        vec![put(Space::Meta, keys::SCHEMA.to_vec(), vec![2])],
        vec![put(Space::Head, b"what".to_vec(), vec![1])],
    ] {
        let result = opened(batch.clone());
        assert!(
            matches!(result, Err(OpenError::Corrupt(_))),
            "{batch:?}: {:?}",
            result.err()
        );
    }
}

/// A damaged value stops the upgrade with an error and changes no number.
#[test]
fn a_damaged_value_stops_the_upgrade() {
    let mut batch = fixture();
    let account = batch
        .iter_mut()
        .find(|change| change.key.ends_with(b"\0a"))
        .unwrap();
    account.value = Some(vec![VALUE_VERSION_1, 0xff]);
    assert!(matches!(
        opened(batch),
        Err(OpenError::Store(StoreError::Corrupt(_)))
    ));
}
