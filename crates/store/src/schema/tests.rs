//! Tests of the schema version: the previous one is opened from a fixture, newer ones are refused.

use std::sync::Arc;

use super::*;
use crate::delivery::{ArchivePrefs, LogEntry};
use crate::engine::faulty::FaultyEngine;
use crate::engine::fjall::{FjallEngine, FjallOptions};
use crate::engine::memory::MemoryEngine;
use crate::record::Record;
use crate::rooms::Side;
use crate::store::{Options, Store};

/// A store as schema 1 wrote it: `space key value`, in hex, one entry a line.
const FIXTURE: &str = include_str!("../../tests/fixtures/schema-1.txt");

/// The same of schema 2, written by that version: `juliet` has something of everything and three
/// messages that wait, `nurse` is removed, `romeo` is locked.
const FIXTURE_2: &str = include_str!("../../tests/fixtures/schema-2.txt");

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

fn fixture(text: &str) -> Batch {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
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
    assert_eq!(fixture(FIXTURE), schema_1());
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
    engine.commit(fixture(FIXTURE), Durability::Fsync).unwrap();
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
        engine.commit(fixture(FIXTURE), Durability::Fsync).unwrap();
        // Stop the last commit, which changes the number; then lose some of those before it.
        engine.faults().set_disk_full(false);
        upgrade_log_1(&engine).unwrap();
        upgrade_users_1(&engine, &SLOTS).unwrap();
        engine.crash(survivors).unwrap();
        let engine: Arc<dyn Engine> = Arc::new(engine);
        check_upgraded(&Store::with_engine(engine, Durability::Memory, SLOTS).unwrap());
    }
}

fn check_upgraded_from_2(store: &Store) {
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!(
        (report.accounts, report.removed, report.log_entries),
        (2, 1, 3)
    );
    let juliet = "juliet@capulet.example";
    let state = store.load_user(juliet).unwrap().unwrap();
    assert_eq!(state.roster.items.len(), 2);
    assert_eq!(state.blocked, ["paris@x"]);
    assert_eq!(state.last.unwrap().1, "gone");
    assert_eq!(state.photo_hash, "abc");
    assert_eq!(state.archive_prefs, None);
    assert_eq!(state.windows, None);
    let log = state.log;
    assert_eq!((log.next_seq, log.trimmed_through), (6, 2));
    assert_eq!((log.delivered_through, log.forwarded), (2, 2));
    assert_eq!(
        (log.count, log.waiting_count, log.archived_count),
        (3, 3, 0)
    );
    assert_eq!(log.bytes, log.waiting_bytes);
    let entries = store.log_read(juliet, 0, 10).unwrap();
    for (entry, seq) in entries.iter().zip(3..6) {
        assert_eq!(entry.seq, seq);
        assert_eq!(entry.at.as_millis(), 1_700_000_000_000 + seq as i64);
        assert_eq!(&*entry.peer, "romeo@montague.example");
        assert_eq!(entry.flags, EntryFlags::WAITING);
        let frame = format!("<message><body>{seq}</body></message>");
        assert_eq!(*entry.frame, *frame.as_bytes());
    }
    let romeo = store.load_user("romeo@montague.example").unwrap().unwrap();
    assert!(romeo.account.locked);
    assert_eq!(store.load_user("nurse@capulet.example").unwrap(), None);
    assert_eq!(store.awake(None, 10).unwrap(), [""; 0]);
    let private = store.private(juliet, "urn:a", "x").unwrap();
    assert_eq!(private.as_deref(), Some(&b"<x/>"[..]));
}

/// As the version of schema 2 left it on disk: with five keyspaces.
#[test]
fn a_store_of_schema_2_is_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    drop(Store::open(&path, &Options::default()).unwrap());
    std::fs::remove_dir_all(path.join("db")).unwrap();
    let db = fjall::Database::builder(path.join("db")).open().unwrap();
    let names = ["meta", "head", "state", "log", "blob"];
    let spaces = names.map(|name| {
        db.keyspace(name, fjall::KeyspaceCreateOptions::default)
            .unwrap()
    });
    for change in fixture(FIXTURE_2) {
        let value = change.value.unwrap();
        spaces[change.space.index()]
            .insert(change.key, value)
            .unwrap();
    }
    db.persist(fjall::PersistMode::SyncAll).unwrap();
    drop((spaces, db));
    for _upgraded_then_current in 0..2 {
        let store = Store::open(&path, &Options::default()).unwrap();
        check_upgraded_from_2(&store);
    }
}

/// What is rewritten lazily is, when it changes.
#[test]
fn what_schema_2_left_can_be_changed() {
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    engine
        .commit(fixture(FIXTURE_2), Durability::Memory)
        .unwrap();
    let store = Store::with_engine(engine, Durability::Memory, SLOTS).unwrap();
    let juliet = || "juliet@capulet.example".to_owned();
    let prefs = ArchivePrefs {
        never: vec!["tybalt@x".to_owned()],
        ..ArchivePrefs::default()
    };
    let entry = LogEntry {
        seq: 6,
        flags: EntryFlags::ARCHIVED,
        source: 1,
        ..LogEntry::default()
    };
    let records = [
        Record::ArchivePrefsPut {
            user: juliet(),
            prefs: prefs.clone(),
        },
        Record::LogAppend {
            user: juliet().into(),
            entry,
        },
        Record::LogTrim {
            user: juliet(),
            through: 4,
        },
    ];
    store.bulk(records).unwrap();
    let state = store.load_user(&juliet()).unwrap().unwrap();
    assert_eq!(state.archive_prefs.as_deref(), Some(&prefs));
    assert_eq!(state.roster.items.len(), 2);
    assert_eq!((state.log.count, state.log.waiting_count), (2, 1));
    assert_eq!(state.windows.unwrap().recognition.seen.len(), 1);
    assert!(store.verify().unwrap().is_good());
}

/// Times of schema 2 followed the clock wherever it went.
#[test]
fn times_of_schema_2_do_not_run_backwards() {
    let mut batch = fixture(FIXTURE_2);
    let entries = batch.iter_mut().filter(|c| c.space == Space::Log);
    let mut entries: Vec<&mut Change> = entries.collect();
    let (first, last) = entries.split_at_mut(2);
    std::mem::swap(&mut first[0].value, &mut last[0].value);
    let store = opened(batch).unwrap();
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    let juliet = "juliet@capulet.example";
    let log = store.log_read(juliet, 0, 10).unwrap();
    let latest = 1_700_000_000_005;
    assert!(log.iter().all(|entry| entry.at.as_millis() == latest));
    let head = store.load_user(juliet).unwrap().unwrap().log;
    assert_eq!(head.last_at.as_millis(), latest);
}

/// An upgrade of schema 2 that stops at any of its commits is finished by the next start.
#[test]
fn an_interrupted_upgrade_of_schema_2_goes_on() {
    for survivors in 0..3 {
        let engine = FaultyEngine::new(MemoryEngine::new());
        engine
            .commit(fixture(FIXTURE_2), Durability::Fsync)
            .unwrap();
        rewrite_log_2(&engine).unwrap();
        rewrite_heads_2(&engine).unwrap();
        engine.crash(survivors).unwrap();
        let engine: Arc<dyn Engine> = Arc::new(engine);
        let store = Store::with_engine(engine, Durability::Memory, SLOTS).unwrap();
        check_upgraded_from_2(&store);
    }
}

/// Heads of before rooms are read as those of accounts, and written anew when they next change.
#[test]
fn a_head_without_rooms_is_read_and_can_be_changed() {
    use crate::state::{HEAD_VERSION_4, Kind, decode_head};

    let user = "juliet@capulet.example";
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    let account = Record::AccountPut {
        user: user.to_owned(),
        account: Account::default(),
    };
    let entry = |seq| Record::LogAppend {
        user: user.into(),
        entry: LogEntry {
            seq,
            flags: EntryFlags::ARCHIVED,
            ..LogEntry::default()
        },
    };
    store.bulk([account, entry(1)]).unwrap();
    drop(store);
    let key = keys::user(&SLOTS, user);
    let mut old = engine.get(Space::Head, &key).unwrap().unwrap();
    // What the field of rooms takes is its last byte.
    assert_eq!((old[0], old.pop()), (HEAD_VERSION, Some(0)));
    old[0] = HEAD_VERSION_4;
    assert_eq!(decode_head(&old, user).unwrap().kind, Kind::Account);
    engine
        .commit(vec![put(Space::Head, key.clone(), old)], Durability::Memory)
        .unwrap();
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    assert_eq!(store.load_user(user).unwrap().unwrap().log.count, 1);
    assert_eq!(store.accounts(None, None, 9).unwrap(), [user]);
    let trim = Record::LogTrim {
        user: user.to_owned(),
        through: 1,
    };
    store.bulk([entry(2), trim]).unwrap();
    assert_eq!(store.load_user(user).unwrap().unwrap().log.count, 1);
    let new = engine.get(Space::Head, &key).unwrap().unwrap();
    assert_eq!(new[0], HEAD_VERSION);
    assert!(store.verify().unwrap().is_good());
}

/// Heads of before services are read as those of rooms and accounts, whatever is done to them next.
#[test]
fn a_head_without_services_is_read_and_can_be_changed() {
    use crate::state::{HEAD_VERSION_5, Kind, decode_head};

    let (room, user) = ("coven@conference.x", "juliet@capulet.example");
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    let account = Record::AccountPut {
        user: user.to_owned(),
        account: Account::default(),
    };
    let made = Record::RoomMake {
        user: room.to_owned(),
        creator: user.to_owned(),
        about: vec![1],
    };
    store.bulk([account, made]).unwrap();
    drop(store);
    for (address, kind) in [(user, Kind::Account), (room, Kind::Room)] {
        let key = keys::user(&SLOTS, address);
        let mut head = engine.get(Space::Head, &key).unwrap().unwrap();
        assert_eq!((head[0], head.last()), (HEAD_VERSION, Some(&(kind as u8))));
        head[0] = HEAD_VERSION_5;
        assert_eq!(decode_head(&head, address).unwrap().kind, kind);
        engine
            .commit(vec![put(Space::Head, key, head)], Durability::Memory)
            .unwrap();
    }
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    assert!(store.load_user(user).unwrap().is_some());
    assert!(store.load_room(room, 0).unwrap().1.is_some());
    let part = |user: &str| Record::NodePut {
        user: user.to_owned(),
        node: 1,
        part: "0".to_owned(),
        value: vec![1],
    };
    store.bulk([part(user), part(room)]).unwrap();
    let nodes = |of: &str| {
        let mut count = 0;
        let there = store.load_nodes(of, |_| {
            count += 1;
            Ok(())
        });
        (there.unwrap(), count)
    };
    assert_eq!((nodes(user), nodes(room)), ((true, 1), (false, 0)));
    let new = engine.get(Space::Head, &keys::user(&SLOTS, user)).unwrap();
    assert_eq!(new.unwrap()[0], HEAD_VERSION);
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
}

/// Of a store of before there was a list of public rooms one is made, in as many steps as it takes.
#[test]
fn public_rooms_of_schema_3_are_listed() {
    let rooms = UPGRADE_ENTRIES_MAX as u32 + 100;
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    let room = |n: u32| format!("room{n:05}@conference.x");
    let make = |n: u32| Record::RoomMake {
        user: room(n),
        creator: "juliet@x".to_owned(),
        about: postcard::to_extend(&("name", n.is_multiple_of(3)), vec![1]).unwrap(),
    };
    store.bulk((0..rooms).map(make)).unwrap();
    drop(store);
    // As an upgrade that was interrupted leaves it.
    let mut batch: Batch = vec![schema_change(3)];
    let forget = |n: u32| Change {
        space: Space::Meta,
        key: keys::public(&room(n)).into(),
        value: None,
    };
    batch.extend((9..rooms).map(forget));
    engine.commit(batch, Durability::Memory).unwrap();
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    let listed = store
        .public_rooms("conference.x", Side::Behind(None), 10_000)
        .unwrap();
    let listed: Vec<String> = listed.into_iter().map(|(room, _)| room).collect();
    let expected: Vec<String> = (0..rooms).step_by(3).map(room).collect();
    assert_eq!(listed, expected);
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    let schema = engine.get(Space::Meta, keys::SCHEMA).unwrap();
    assert_eq!(schema.as_deref(), Some(&SCHEMA.to_be_bytes()[..]));
    // A list that says something else is damage.
    let wrong = put(Space::Meta, keys::public(&room(1)), vec![VALUE_VERSION]);
    engine.commit(vec![wrong], Durability::Memory).unwrap();
    assert!(!store.verify().unwrap().is_good());
}

/// A session of before rooms were read by sessions is given a place in a room's log.
#[test]
fn a_session_of_before_may_read_the_log_of_a_room() {
    let mut versions = vec![];
    let room = "coven@conference.x";
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    let user = || "juliet@capulet.example".to_owned();
    let before = [
        Record::AccountPut {
            user: user(),
            account: Account::default(),
        },
        Record::SessionPut {
            user: user(),
            session: Box::default(),
        },
    ];
    for record in &before {
        // Records of the version before this one differ in nothing else.
        let mut bytes = record.encode(Level::FIRST);
        versions.push(std::mem::replace(&mut bytes[0], 5));
        assert_eq!(Record::decode(&bytes).as_ref(), Ok(record));
    }
    assert_eq!(versions, [9, 9]);
    store.bulk(before).unwrap();
    drop(store);
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, SLOTS).unwrap();
    assert_eq!(store.rooms_read(&user()).unwrap(), []);
    let read = crate::RoomRead {
        acked: 7,
        given: Vec::new(),
    };
    let put = Record::SessionRoomPut {
        user: user().into(),
        number: 0,
        room: room.into(),
        read: read.clone(),
    };
    store.bulk([put]).unwrap();
    let expected = (0, room.to_owned(), read);
    assert_eq!(store.rooms_read(&user()).unwrap(), [expected]);
    assert!(store.verify().unwrap().is_good());
}

fn opened(batch: Batch) -> Result<Store, OpenError> {
    let engine = MemoryEngine::new();
    engine.commit(batch, Durability::Memory).unwrap();
    Store::with_engine(Arc::new(engine), Durability::Memory, SLOTS)
}

#[test]
fn newer_data_is_refused() {
    let known = schema_known();
    match opened(vec![schema_change(known + 1)]) {
        Err(OpenError::NewerSchema { found, supported }) => {
            assert_eq!((found, supported), (known + 1, known));
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
    let mut batch = fixture(FIXTURE);
    let account = batch
        .iter_mut()
        .find(|change| change.key.ends_with(b"\0a"))
        .unwrap();
    account.value = Some([VALUE_VERSION_1, 0xff].into());
    assert!(matches!(
        opened(batch),
        Err(OpenError::Store(StoreError::Corrupt(_)))
    ));
}
