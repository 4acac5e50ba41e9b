//! One suite for every engine: what a store promises does not depend on what it is kept in.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{KEY, append, append_all, committed, item, message, one, put, range_of, roster};
use stdx::time::Timestamp;
use store::{
    AppendFailure, Change, Durability, Engine, FaultyEngine, FjallEngine, FjallOptions,
    InlineJournal, Journal, LocalJournal, MemoryEngine, Outcome, Position, Record, Roster,
    RosterItem, Space, Store, StoreError, Tenure,
};

/// Runs every case against every engine, each with a fresh one.
macro_rules! suite {
    ($($case:ident),* $(,)?) => {
        mod memory { $(
            #[test]
            fn $case() { super::$case(std::sync::Arc::new(super::MemoryEngine::new())); }
        )* }
        mod fjall { $(
            #[test]
            fn $case() {
                let folder = tempfile::tempdir().unwrap();
                super::$case(std::sync::Arc::new(super::fjall_engine(folder.path())));
            }
        )* }
        mod faulty_memory { $(
            #[test]
            fn $case() {
                let engine = super::FaultyEngine::new(super::MemoryEngine::new());
                super::$case(std::sync::Arc::new(engine));
            }
        )* }
        mod faulty_fjall { $(
            #[test]
            fn $case() {
                let folder = tempfile::tempdir().unwrap();
                let engine = super::FaultyEngine::new(super::fjall_engine(folder.path()));
                super::$case(std::sync::Arc::new(engine));
            }
        )* }
    };
}

suite!(
    batches_are_visible_together_and_scans_are_ordered,
    a_snapshot_does_not_move,
    an_account_comes_and_goes,
    a_roster_is_one_sorted_value,
    a_log_is_appended_read_and_trimmed,
    sequence_numbers_survive_the_account,
    the_rest_of_a_user_is_kept,
    a_lock_changes_nothing_but_itself,
    records_without_an_account_change_nothing,
    accounts_are_paged_and_counted,
    appends_are_fenced_by_tenure,
    an_invalid_append_leaves_no_trace,
    a_group_reads_its_own_writes,
    bulk_loading_equals_appending,
    there_is_one_writer,
);

fn fjall_engine(path: &std::path::Path) -> FjallEngine {
    FjallEngine::open(path, FjallOptions::default()).unwrap()
}

fn store(engine: Arc<dyn Engine>) -> Store {
    Store::with_engine(engine, Durability::Memory, KEY).unwrap()
}

fn journal(store: &Store) -> InlineJournal {
    InlineJournal::new(store).unwrap()
}

fn commit(journal: &dyn Journal, records: Vec<Record>) {
    let outcome = append(journal, KEY, records);
    assert!(committed(&outcome), "{outcome:?}");
}

fn change(key: &[u8], value: Option<&[u8]>) -> Change {
    Change {
        space: Space::Blob,
        key: key.into(),
        value: value.map(Into::into),
    }
}

fn batches_are_visible_together_and_scans_are_ordered(engine: Arc<dyn Engine>) {
    let batch = vec![
        change(b"b", Some(b"2")),
        change(b"a", Some(b"1")),
        change(b"c", Some(b"3")),
    ];
    engine.commit(batch, Durability::Fsync).unwrap();
    engine
        .commit(vec![change(b"b", None)], Durability::Memory)
        .unwrap();
    let mut seen = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        seen.push(key.to_vec());
        ControlFlow::Continue(())
    };
    engine.scan(Space::Blob, b"a", b"", &mut visit).unwrap();
    engine.scan(Space::Blob, b"a", b"c", &mut visit).unwrap();
    engine.scan(Space::Blob, b"c", b"a", &mut visit).unwrap();
    engine.scan(Space::Log, b"", b"", &mut visit).unwrap();
    assert_eq!(seen, [b"a", b"c", b"a"]);
    let mut back = Vec::new();
    let mut visit = |key: &[u8], _: &[u8]| {
        back.push(key.to_vec());
        ControlFlow::Continue(())
    };
    let snapshot = engine.snapshot().unwrap();
    for (start, end) in [(b"a", &b""[..]), (b"a", b"c"), (b"c", b"a")] {
        engine
            .scan_back(Space::Blob, start, end, &mut visit)
            .unwrap();
        snapshot
            .scan_back(Space::Blob, start, end, &mut visit)
            .unwrap();
    }
    let mut last = |key: &[u8], _: &[u8]| {
        back.push(key.to_vec());
        ControlFlow::Break(())
    };
    engine.scan_back(Space::Blob, b"", b"", &mut last).unwrap();
    assert_eq!(back, [b"c", b"a", b"c", b"a", b"a", b"a", b"c"]);
    assert_eq!(engine.get(Space::Blob, b"b").unwrap(), None);
    assert_eq!(
        engine.get(Space::Blob, b"c").unwrap().as_deref(),
        Some(&b"3"[..])
    );
}

fn a_snapshot_does_not_move(engine: Arc<dyn Engine>) {
    engine
        .commit(vec![change(b"a", Some(b"1"))], Durability::Memory)
        .unwrap();
    let snapshot = engine.snapshot().unwrap();
    let batch = vec![change(b"a", Some(b"2")), change(b"b", Some(b"2"))];
    engine.commit(batch, Durability::Memory).unwrap();
    assert_eq!(
        snapshot.get(Space::Blob, b"a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    let mut seen = 0;
    snapshot
        .scan(Space::Blob, b"", b"", &mut |_, value| {
            assert_eq!(value, b"1");
            seen += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(seen, 1);
}

fn an_account_comes_and_goes(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let journal = journal(&store);
    assert_eq!(store.load_user("juliet@localhost").unwrap(), None);
    commit(&journal, vec![put("juliet@localhost")]);
    let state = store.load_user("juliet@localhost").unwrap().unwrap();
    assert_eq!(state.account, common::account(4_096));
    assert_eq!((state.roster, state.log.next_seq), (Roster::default(), 1));
    let account = store::Account {
        locked: true,
        ..common::account(10_000)
    };
    commit(
        &journal,
        vec![Record::AccountPut {
            user: "juliet@localhost".into(),
            account: account.clone(),
        }],
    );
    assert_eq!(
        store
            .load_user("juliet@localhost")
            .unwrap()
            .unwrap()
            .account,
        account
    );
    assert_eq!(store.count_accounts(None).unwrap(), 1);
    commit(
        &journal,
        vec![Record::AccountRemove {
            user: "juliet@localhost".into(),
        }],
    );
    assert_eq!(store.load_user("juliet@localhost").unwrap(), None);
    assert_eq!(store.count_accounts(None).unwrap(), 0);
    assert!(store.verify().unwrap().is_good());
}

fn a_roster_is_one_sorted_value(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let journal = journal(&store);
    let user = "juliet@localhost";
    let set = |version, item: RosterItem| Record::RosterPut {
        user: user.into(),
        version,
        item,
    };
    let named = RosterItem {
        name: "Mercutio".into(),
        pending_in: Some(b"<x/>".to_vec()),
        ..item("m@x")
    };
    commit(
        &journal,
        vec![
            put(user),
            set(1, item("romeo@x")),
            set(2, item("m@x")),
            set(3, named.clone()),
        ],
    );
    let roster = store.load_user(user).unwrap().unwrap().roster;
    assert_eq!(
        (roster.version, &roster.items[..]),
        (3, &[named.clone(), item("romeo@x")][..])
    );
    let remove = Record::RosterRemove {
        user: user.into(),
        version: 4,
        contact: "romeo@x".into(),
    };
    commit(&journal, vec![remove]);
    let roster = store.load_user(user).unwrap().unwrap().roster;
    assert_eq!((roster.version, roster.items), (4, vec![named]));
    let items = vec![
        item("z@x"),
        item("a@x"),
        RosterItem {
            name: "last".into(),
            ..item("z@x")
        },
    ];
    let replace = Record::RosterReplace {
        user: user.into(),
        roster: Roster { version: 9, items },
    };
    commit(&journal, vec![replace]);
    let roster = store.load_user(user).unwrap().unwrap().roster;
    let shown: Vec<_> = roster
        .items
        .iter()
        .map(|i| (i.jid.as_str(), i.name.as_str()))
        .collect();
    assert_eq!(
        (roster.version, shown),
        (9, vec![("a@x", "A Friend"), ("z@x", "last")])
    );
}

fn a_log_is_appended_read_and_trimmed(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let journal = journal(&store);
    let user = "juliet@localhost";
    commit(&journal, vec![put(user)]);
    commit(&journal, vec![put("juliet@localhost.example")]);
    for seq in 1..=5 {
        commit(&journal, vec![message(user, seq, "hi")]);
    }
    // A repeated sequence number changes nothing.
    commit(&journal, vec![message(user, 3, "again")]);
    let frames = |after, limit| -> Vec<u64> {
        store
            .log_read(user, after, limit)
            .unwrap()
            .iter()
            .map(|entry| entry.seq)
            .collect()
    };
    assert_eq!(frames(0, 100), [1, 2, 3, 4, 5]);
    assert_eq!(frames(2, 2), [3, 4]);
    assert_eq!(frames(5, 100), [0u64; 0]);
    assert_eq!(frames(u64::MAX, 1), [0u64; 0]);
    let entry = store.log_read(user, 2, 1).unwrap().remove(0);
    let Record::LogAppend { entry: sent, .. } = message(user, 3, "hi") else {
        unreachable!()
    };
    assert_eq!(entry, sent);
    let log = store.load_user(user).unwrap().unwrap().log;
    assert_eq!((log.next_seq, log.trimmed_through, log.count), (6, 0, 5));
    assert_eq!(log.bytes, 5 * sent.frame.len() as u64);
    commit(
        &journal,
        vec![Record::LogTrim {
            user: user.into(),
            through: 3,
        }],
    );
    commit(
        &journal,
        vec![Record::LogTrim {
            user: user.into(),
            through: 2,
        }],
    );
    assert_eq!(frames(0, 100), [4, 5]);
    let log = store.load_user(user).unwrap().unwrap().log;
    assert_eq!((log.trimmed_through, log.count), (3, 2));
    // Trimming ahead of the log trims what is there, and no number is lost.
    commit(
        &journal,
        vec![Record::LogTrim {
            user: user.into(),
            through: 1_000,
        }],
    );
    let log = store.load_user(user).unwrap().unwrap().log;
    assert_eq!(
        (log.next_seq, log.trimmed_through, log.count, log.bytes),
        (6, 5, 0, 0)
    );
    assert!(store.verify().unwrap().is_good());
}

fn sequence_numbers_survive_the_account(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let journal = journal(&store);
    let user = "juliet@localhost";
    commit(
        &journal,
        vec![put(user), message(user, 1, "a"), message(user, 2, "b")],
    );
    commit(&journal, vec![Record::AccountRemove { user: user.into() }]);
    assert_eq!(store.log_read(user, 0, 10).unwrap(), []);
    commit(&journal, vec![put(user)]);
    let log = store.load_user(user).unwrap().unwrap().log;
    assert_eq!((log.next_seq, log.trimmed_through, log.count), (3, 2, 0));
    assert!(store.verify().unwrap().is_good());
}

fn the_rest_of_a_user_is_kept(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let journal = journal(&store);
    let user = || "juliet@localhost".to_owned();
    let private = |ns: &str, xml: &[u8]| Record::PrivatePut {
        user: user(),
        ns: ns.into(),
        name: "x".into(),
        xml: xml.to_vec(),
    };
    commit(
        &journal,
        vec![
            put(&user()),
            Record::BlocklistPut {
                user: user(),
                blocked: vec!["tybalt@x".into(), "paris@x".into()],
            },
            Record::LastActivity {
                user: user(),
                at: Timestamp::from_millis(-5),
                status: "O happy dagger".into(),
            },
            Record::VCardPut {
                user: user(),
                xml: b"<vCard/>".to_vec(),
                photo_hash: "abc".into(),
            },
            private("urn:a", b"<a/>"),
            private("urn:b", b"<b/>"),
        ],
    );
    let state = store.load_user(&user()).unwrap().unwrap();
    assert_eq!(state.blocked, ["tybalt@x", "paris@x"]);
    assert_eq!(
        state.last,
        Some((Timestamp::from_millis(-5), "O happy dagger".to_owned()))
    );
    assert_eq!(state.photo_hash, "abc");
    assert_eq!(
        store.vcard(&user()).unwrap().as_deref(),
        Some(&b"<vCard/>"[..])
    );
    assert_eq!(
        store.private(&user(), "urn:a", "x").unwrap().as_deref(),
        Some(&b"<a/>"[..])
    );
    assert_eq!(store.private(&user(), "urn:a", "y").unwrap(), None);
    let all = store.private_all(&user()).unwrap();
    assert_eq!(
        all.iter().map(|item| item.0.as_str()).collect::<Vec<_>>(),
        ["urn:a", "urn:b"]
    );
    commit(
        &journal,
        vec![
            private("urn:a", b""),
            Record::VCardPut {
                user: user(),
                xml: Vec::new(),
                photo_hash: String::new(),
            },
        ],
    );
    assert_eq!(store.private(&user(), "urn:a", "x").unwrap(), None);
    assert_eq!(store.vcard(&user()).unwrap(), None);
    assert_eq!(store.load_user(&user()).unwrap().unwrap().photo_hash, "");
    commit(&journal, vec![Record::AccountRemove { user: user() }]);
    assert_eq!(store.private_all(&user()).unwrap(), []);
    assert!(store.verify().unwrap().is_good());
}

fn records_without_an_account_change_nothing(engine: Arc<dyn Engine>) {
    let store = store(Arc::clone(&engine));
    let journal = journal(&store);
    let user = || "ghost@localhost".to_owned();
    commit(
        &journal,
        vec![
            message(&user(), 1, "boo"),
            Record::RosterReplace {
                user: user(),
                roster: roster(2),
            },
            Record::VCardPut {
                user: user(),
                xml: b"<vCard/>".to_vec(),
                photo_hash: String::new(),
            },
            Record::AccountRemove { user: user() },
        ],
    );
    let left: Vec<Space> = common::dump(&*engine)
        .into_iter()
        .map(|entry| entry.0)
        .collect();
    assert!(left.iter().all(|&space| space == Space::Meta), "{left:?}");
}

fn accounts_are_paged_and_counted(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let users: Vec<String> = (0..50)
        .map(|n| format!("u{n}@{}", if n % 5 == 0 { "verona" } else { "localhost" }))
        .collect();
    store.bulk(users.iter().map(|user| put(user))).unwrap();
    store
        .bulk([Record::AccountRemove {
            user: users[1].clone(),
        }])
        .unwrap();
    assert_eq!(store.count_accounts(None).unwrap(), 49);
    assert_eq!(store.count_accounts(Some("verona")).unwrap(), 10);
    assert_eq!(store.count_accounts(Some("nowhere")).unwrap(), 0);
    let mut seen = Vec::new();
    loop {
        let page = store
            .accounts(None, seen.last().map(String::as_str), 7)
            .unwrap();
        let is_last = page.len() < 7;
        seen.extend(page);
        if is_last {
            break;
        }
    }
    let mut expected: Vec<String> = users
        .iter()
        .filter(|user| **user != users[1])
        .cloned()
        .collect();
    expected.sort();
    seen.sort();
    assert_eq!(seen, expected);
    assert_eq!(
        store.accounts(Some("verona"), None, 1_000).unwrap().len(),
        10
    );
    assert_eq!(store.accounts(None, None, 0).unwrap().len(), 0);
}

fn appends_are_fenced_by_tenure(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let journal = LocalJournal::start(&store).unwrap();
    let user = "juliet@localhost";
    let range = range_of(KEY, user);
    let (old, tenure) = (journal.take(range), journal.take(range));
    let outcomes = append_all(
        &journal,
        vec![
            one(range, tenure, vec![put(user)]),
            one(range, tenure, vec![message(user, 1, "a")]),
            one(range, old, vec![message(user, 2, "fenced")]),
            one(range, Tenure::NONE, vec![message(user, 2, "nobody's")]),
            one(range, tenure, vec![]),
        ],
    );
    assert_eq!(
        outcomes,
        [
            Outcome::Committed(Position::new(1)),
            Outcome::Committed(Position::new(2)),
            Outcome::Fenced,
            Outcome::Fenced,
            Outcome::Committed(Position::new(3)),
        ]
    );
    assert_eq!(journal.position(range), Position::new(3));
    assert_eq!(store.load_user(user).unwrap().unwrap().log.next_seq, 2);
    let stats = journal.stats();
    assert_eq!(
        (stats.committed, stats.fenced, stats.records, stats.groups),
        (3, 2, 2, 1)
    );
    drop(journal);
    // Another writer goes on where this one stopped.
    let journal = LocalJournal::start(&store).unwrap();
    assert_eq!(journal.position(range), Position::new(3));
}

fn an_invalid_append_leaves_no_trace(engine: Arc<dyn Engine>) {
    let store = store(Arc::clone(&engine));
    let journal = journal(&store);
    let user = "juliet@localhost";
    commit(&journal, vec![put(user)]);
    let before = common::dump(&*engine);
    let range = range_of(KEY, user);
    let (mut position, tenure) = (journal.position(range), journal.take(range));
    let foreign = (0..)
        .map(|n| format!("u{n}@x"))
        .find(|u| range_of(KEY, u) != range)
        .unwrap();
    for bad in [
        put(&foreign),
        put(""),
        put("nul\0@x"),
        put(&"x".repeat(4_000)),
        message(user, 0, "no number"),
        Record::PrivatePut {
            user: user.into(),
            ns: "a\0".into(),
            name: "n".into(),
            xml: vec![1],
        },
        Record::VCardPut {
            user: user.into(),
            xml: vec![0; 17 << 20],
            photo_hash: String::new(),
        },
    ] {
        let records = vec![message(user, 1, "good, but not alone"), bad];
        // Neither its neighbours of the range nor what does not build on it are disturbed.
        let neighbour = || one(range, tenure, Vec::new());
        let appends = vec![neighbour(), one(range, tenure, records), neighbour()];
        let outcomes = append_all(&journal, appends);
        position = position.next().next();
        assert_eq!(outcomes[2], Outcome::Committed(position), "{outcomes:?}");
        assert!(
            matches!(outcomes[1], Outcome::Failed(AppendFailure::Invalid(_))),
            "{outcomes:?}"
        );
    }
    let without_positions = |dump: common::Dump| -> common::Dump {
        let is_value = |(space, ..): &(Space, Vec<u8>, Vec<u8>)| *space != Space::Meta;
        dump.into_iter().filter(is_value).collect()
    };
    let (before, after) = (before, common::dump(&*engine));
    assert_eq!(without_positions(after), without_positions(before));
    assert_eq!(journal.position(range), position);
    assert!(matches!(store.bulk([put("")]), Err(StoreError::HasWriter)));
}

fn a_group_reads_its_own_writes(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let journal = journal(&store);
    let user = "juliet@localhost";
    let range = range_of(KEY, user);
    let steps = [
        vec![put(user)],
        vec![
            message(user, 1, "a"),
            message(user, 2, "b"),
            message(user, 3, "c"),
        ],
        vec![Record::LogTrim {
            user: user.into(),
            through: 2,
        }],
        vec![Record::RosterPut {
            user: user.into(),
            version: 1,
            item: item("r@x"),
        }],
        vec![Record::RosterPut {
            user: user.into(),
            version: 2,
            item: item("a@x"),
        }],
    ];
    let tenure = journal.take(range);
    let appends = steps.into_iter().map(|records| one(range, tenure, records));
    let outcomes = append_all(&journal, appends.collect());
    assert!(outcomes.iter().all(committed), "{outcomes:?}");
    let state = store.load_user(user).unwrap().unwrap();
    assert_eq!((state.roster.items.len(), state.log.count), (2, 1));
    assert_eq!(store.log_read(user, 0, 10).unwrap()[0].seq, 3);
}

fn bulk_loading_equals_appending(engine: Arc<dyn Engine>) {
    let bulk = store(Arc::clone(&engine));
    let one_by_one_engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
    let one_by_one = store(Arc::clone(&one_by_one_engine));
    let records: Vec<Record> = (0..300)
        .flat_map(|n| {
            let user = format!("u{n}@localhost");
            [
                put(&user),
                Record::RosterReplace {
                    user: user.clone(),
                    roster: roster(n % 20),
                },
                message(&user, 1, "welcome"),
            ]
        })
        .collect();
    let journal = journal(&one_by_one);
    for record in records.clone() {
        commit(&journal, vec![record]);
    }
    assert_eq!(bulk.bulk(records).unwrap(), 900);
    assert_eq!(bulk.bulk([]).unwrap(), 0);
    let state = |engine: &dyn Engine| -> common::Dump {
        let counts =
            |(space, key, _): &(Space, Vec<u8>, Vec<u8>)| *space != Space::Meta || key[0] == b'n';
        common::dump(engine).into_iter().filter(counts).collect()
    };
    assert_eq!(state(&*engine), state(&*one_by_one_engine));
    assert!(bulk.verify().unwrap().is_good());
}

fn there_is_one_writer(engine: Arc<dyn Engine>) {
    let store = store(engine);
    let first = LocalJournal::start(&store).unwrap();
    assert!(matches!(
        LocalJournal::start(&store),
        Err(StoreError::HasWriter)
    ));
    assert!(matches!(
        store.bulk([put("a@b")]),
        Err(StoreError::HasWriter)
    ));
    drop(first);
    assert_eq!(store.bulk([put("a@b")]).unwrap(), 1);
    LocalJournal::start(&store).unwrap();
}

/// A lock changes nothing but itself, and who is known goes with the account.
fn a_lock_changes_nothing_but_itself(engine: Arc<dyn Engine>) {
    let user = || "romeo@x".to_owned();
    let store = Store::with_engine(engine, Durability::Memory, KEY).unwrap();
    let account = common::account(1);
    let put = |account: &store::Account| Record::AccountPut {
        user: user(),
        account: account.clone(),
    };
    let lock = |locked| Record::AccountLock {
        user: user(),
        locked,
    };
    let known = vec![store::KnownAddress {
        key: 7,
        day: 20_000,
    }];
    let logins = Record::KnownAddressesPut {
        user: user(),
        known: known.clone(),
    };
    store.bulk([lock(true), logins.clone()]).unwrap();
    assert_eq!(store.load_user(&user()).unwrap(), None);
    assert_eq!(store.known_addresses(&user()).unwrap(), []);
    let changed = common::account(2);
    store
        .bulk([put(&account), logins, put(&changed), lock(true)])
        .unwrap();
    let state = store.load_user(&user()).unwrap().unwrap();
    assert!(state.account.locked);
    assert_eq!(state.account.scram, changed.scram);
    assert_eq!(store.known_addresses(&user()).unwrap(), known);
    let gone = Record::AccountRemove { user: user() };
    store.bulk([gone, put(&account)]).unwrap();
    assert_eq!(store.known_addresses(&user()).unwrap(), []);
    let too_many = Record::KnownAddressesPut {
        user: user(),
        known: vec![known[0]; store::limits::KNOWN_ADDRESSES_MAX + 1],
    };
    assert!(too_many.check().is_err());
}
