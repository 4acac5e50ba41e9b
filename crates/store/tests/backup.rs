//! Backup, restore and verification: of good stores, of stores in use, of damaged ones.

mod common;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use common::{KEY, append, committed, message, put, roster};
use store::limits::SEQ_EPOCH_SHIFT;
use store::{
    Change, Durability, Engine, LocalJournal, MemoryEngine, OpenError, Options, Record, Space,
    Store, restore, verify,
};

fn records(users: usize) -> impl Iterator<Item = Record> {
    (0..users).flat_map(|n| {
        let user = format!("u{n}@localhost");
        [
            put(&user),
            Record::RosterReplace {
                user: user.clone(),
                roster: roster(5),
            },
            message(&user, 1, &"long ".repeat(60)),
            Record::VCardPut {
                user,
                xml: vec![b'x'; 2_000],
                photo_hash: String::new(),
            },
        ]
    })
}

fn options() -> Options {
    Options {
        slot_key: Some(KEY.to_bytes()),
        ..Options::default()
    }
}

fn filled(path: &Path, users: usize) -> Store {
    let store = Store::open(path, &options()).unwrap();
    store.bulk(records(users)).unwrap();
    store
}

#[test]
fn a_restored_backup_equals_the_original() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = filled(&path("a"), 500);
    let moved = store.backup(&path("backup")).unwrap();
    assert_eq!(moved.bytes, fs::metadata(path("backup")).unwrap().len());
    assert!(!path("backup.partial").exists());
    let report = verify(&path("backup"), &options()).unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!(
        (report.accounts, report.log_entries, report.blobs),
        (500, 500, 500)
    );
    assert_eq!(
        restore(&path("backup"), &path("b"), &Options::default()).unwrap(),
        moved
    );
    let report = verify(&path("b"), &Options::default()).unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!((report.accounts, report.roster_items), (500, 2_500));
    let copy = Store::open(&path("b"), &Options::default()).unwrap();
    assert_eq!(copy.slot_key(), store.slot_key());
    let user = "u7@localhost";
    let mut original = store.load_user(user).unwrap().unwrap();
    let restored = copy.load_user(user).unwrap().unwrap();
    // The original may have given out what follows: the copy goes on far behind it.
    let first_seq = (1 << SEQ_EPOCH_SHIFT) + 1;
    assert_eq!(
        (original.log.next_seq, restored.log.next_seq),
        (2, first_seq)
    );
    original.log.next_seq = first_seq;
    assert_eq!(restored, original);
    // What it holds more than the original is how often it was restored.
    let again = copy.backup(&path("again")).unwrap();
    assert_eq!(again.entries, moved.entries + 1);
    restore(&path("again"), &path("c"), &Options::default()).unwrap();
    let third = Store::open(&path("c"), &Options::default()).unwrap();
    let next_seq = third.load_user(user).unwrap().unwrap().log.next_seq;
    assert_eq!(next_seq, (2 << SEQ_EPOCH_SHIFT) + 1);
    drop(third);
    let seqs = [first_seq, first_seq + 1];
    let journal = LocalJournal::start(&copy).unwrap();
    for seq in seqs {
        assert!(committed(&append(
            &journal,
            KEY,
            vec![message(user, seq, "x")]
        )));
    }
    let log = copy.log_read(user, 0, 10).unwrap();
    let log: Vec<u64> = log.iter().map(|entry| entry.seq).collect();
    assert_eq!(log, [1, seqs[0], seqs[1]]);
    assert!(copy.verify().unwrap().is_good());
    // Nothing is overwritten.
    assert!(matches!(
        store.backup(&path("again")),
        Err(OpenError::NotEmpty(_))
    ));
    let again = restore(&path("backup"), &path("a"), &Options::default());
    assert!(matches!(again, Err(OpenError::NotEmpty(_))));
}

/// A backup that is taken while messages are written is one moment of the store: it verifies,
/// counts and heads included.
#[test]
fn a_backup_of_a_store_in_use_is_consistent() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(&folder.path().join("a"), 300);
    let journal = LocalJournal::start(&store).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 1;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                for user in 0..20 {
                    let user = format!("u{user}@localhost");
                    assert!(committed(&append(
                        &journal,
                        KEY,
                        vec![message(&user, n, "x")]
                    )));
                }
            }
        });
        for n in 0..5 {
            let backup = folder.path().join(format!("backup{n}"));
            let copy = folder.path().join(format!("copy{n}"));
            store.backup(&backup).unwrap();
            restore(&backup, &copy, &Options::default()).unwrap();
            let report = verify(&copy, &Options::default()).unwrap();
            assert!(report.is_good() && report.accounts == 300, "{report}");
            let report = store.verify().unwrap();
            assert!(report.is_good(), "online: {report}");
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_damaged_backup_is_refused_and_leaves_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    filled(&path("a"), 300).backup(&path("backup")).unwrap();
    let good = fs::read(path("backup")).unwrap();
    let mut damaged = vec![
        Vec::new(),
        b"ROOSTBK9".to_vec(),
        good[..good.len() - 1].to_vec(),
        good[..good.len() - 20].to_vec(),
        good[..good.len() / 2].to_vec(),
    ];
    for at in (0..good.len()).step_by(good.len() / 40) {
        let mut flipped = good.clone();
        flipped[at] ^= 0x10;
        damaged.push(flipped);
    }
    for bytes in damaged {
        fs::write(path("damaged"), &bytes).unwrap();
        let result = restore(&path("damaged"), &path("b"), &Options::default());
        assert!(
            matches!(result, Err(OpenError::Corrupt(_))),
            "{:?}",
            result.err()
        );
        assert!(matches!(
            verify(&path("damaged"), &options()),
            Err(OpenError::Corrupt(_))
        ));
        assert!(!path("b").exists());
    }
    let missing = restore(&path("nothing"), &path("b"), &Options::default());
    assert!(matches!(missing, Err(OpenError::Io { .. })));
}

#[test]
fn an_interrupted_restore_is_not_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    drop(filled(&path, 3));
    fs::write(path.join("marker"), "roost store\nrestoring\n").unwrap();
    assert!(matches!(
        Store::open(&path, &options()),
        Err(OpenError::Corrupt(_))
    ));
    // An interrupted first start, on the other hand, had nothing to lose.
    fs::write(path.join("marker"), "roost store\ncreating\n").unwrap();
    let store = Store::open(&path, &options()).unwrap();
    assert_eq!(store.count_accounts(None).unwrap(), 0);
}

#[test]
fn a_backup_by_a_newer_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, KEY).unwrap();
    let newer = (store::schema_known() + 1).to_be_bytes().to_vec();
    let change = Change {
        space: Space::Meta,
        key: b"schema".into(),
        value: Some(newer.into()),
    };
    engine.commit(vec![change], Durability::Memory).unwrap();
    store.backup(&path("backup")).unwrap();
    let result = restore(&path("backup"), &path("b"), &Options::default());
    assert!(
        matches!(result, Err(OpenError::NewerSchema { .. })),
        "{:?}",
        result.err()
    );
    assert!(!path("b").exists(), "the folder can be used by the next");
    assert!(matches!(
        verify(&path("backup"), &options()),
        Err(OpenError::NewerSchema { .. })
    ));
}

/// Every kind of contradiction that can be planted is found, and named.
#[test]
fn verification_finds_planted_damage() {
    let user = "u0@localhost";
    let slot = KEY.slot(user).index().to_be_bytes();
    let key = |rest: &[u8]| [&slot[..], user.as_bytes(), rest].concat();
    let log_key = |seq: u64| key(&[&[0][..], &seq.to_be_bytes()[..]].concat());
    let index = |last: u64| key(&[&[0, 0xff][..], &[7; 8], &last.to_be_bytes()].concat());
    let cases: Vec<(&str, Change)> = vec![
        ("undecodable key", set(Space::Log, key(b"\0\xfd"), b"")),
        (
            "stored data is damaged",
            set(Space::Log, key(b"\0\xfe"), &[2, 0xff]),
        ),
        (
            "a chunk of the index is out of order",
            set(Space::Log, index(1), &[2, 2, 1, 0]),
        ),
        (
            "the index of addresses disagrees",
            set(Space::Log, index(1), &[2, 1, 1]),
        ),
        (
            "a mark without anything",
            set(Space::Session, key(b""), &[2, 0]),
        ),
        (
            "undecodable key of sessions",
            set(Space::Session, b"x".to_vec(), &[2, 0]),
        ),
        (
            "times of the log run backwards",
            // A later entry, accepted a millisecond before the epoch.
            set(Space::Log, log_key(2), &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        (
            "the sessions are missing",
            // Its last outgoing entry is the first one, and nothing was forwarded.
            set(
                Space::Head,
                key(b""),
                &[2, 1, 2, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0],
            ),
        ),
        ("profile is missing", delete(Space::State, key(b""))),
        (
            "undecodable key",
            set(Space::Head, b"\xff\xffx".to_vec(), b""),
        ),
        (
            "foreign slot",
            set(Space::Head, b"\0\0stranger@x".to_vec(), &head([0, 1, 0])),
        ),
        ("head", set(Space::Head, key(b""), &head([1, 0, 0]))),
        ("empty value", set(Space::Head, key(b""), b"")),
        ("value version", set(Space::State, key(b""), b"\x09")),
        ("data without an account", delete(Space::Head, key(b""))),
        ("head describes is empty", delete(Space::Log, log_key(1))),
        (
            "entries outside",
            set(Space::Log, log_key(0), &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        (
            "the head says",
            set(Space::Log, log_key(1), &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        ),
        (
            "blob of an unknown version",
            set(Space::Blob, key(b"\0v"), b""),
        ),
        (
            "undecodable key of a blob",
            set(Space::Blob, key(b"\0z"), b"\x01"),
        ),
        (
            "unknown key in meta",
            set(Space::Meta, b"surprise".to_vec(), b""),
        ),
        (
            "account counts disagree",
            set(Space::Meta, b"n\0\0nowhere".to_vec(), &1u64.to_be_bytes()),
        ),
        (
            "bytes instead of 8",
            set(Space::Meta, b"p\0\0".to_vec(), b"12"),
        ),
    ];
    for (expected, change) in cases {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let store = Store::with_engine(Arc::clone(&engine), Durability::Memory, KEY).unwrap();
        store.bulk(records(2)).unwrap();
        assert!(store.verify().unwrap().is_good());
        engine
            .commit(vec![change.clone()], Durability::Memory)
            .unwrap();
        let report = store.verify().unwrap();
        let found = report
            .problems
            .iter()
            .any(|problem| problem.contains(expected));
        assert!(found, "{expected:?} not in {report} after {change:?}");
    }
}

/// A head that starts with these fields; all others are 0.
fn head(fields: [u8; 3]) -> Vec<u8> {
    let mut value = vec![2];
    value.extend(fields);
    value.resize(1 + 19, 0);
    value
}

fn set(space: Space, key: Vec<u8>, value: &[u8]) -> Change {
    Change {
        space,
        key: key.into(),
        value: Some(value.into()),
    }
}

fn delete(space: Space, key: Vec<u8>) -> Change {
    Change {
        space,
        key: key.into(),
        value: None,
    }
}

/// What a record may have is bounded, and so is the value that comes of several: a reader of
/// backups takes no larger one. A backup could be made of such an account, and not be restored.
#[test]
fn an_account_is_not_larger_than_what_can_be_restored() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let store = filled(&path("a"), 0);
    let journal = LocalJournal::start(&store).unwrap();
    let user = "u@localhost";
    let mut large = roster(1);
    large.items[0].groups = vec!["x".repeat(15 << 20)];
    let replace = Record::RosterReplace {
        user: user.to_owned(),
        roster: large,
    };
    assert!(committed(&append(&journal, KEY, vec![put(user), replace])));
    let block = |bytes| Record::BlocklistPut {
        user: user.to_owned(),
        blocked: vec!["b".repeat(bytes)],
    };
    assert!(!committed(&append(&journal, KEY, vec![block(2 << 20)])));
    assert!(committed(&append(&journal, KEY, vec![block(1 << 10)])));
    drop(journal);
    store.backup(&path("backup")).unwrap();
    restore(&path("backup"), &path("b"), &options()).unwrap();
    assert!(verify(&path("b"), &options()).unwrap().is_good());
}
