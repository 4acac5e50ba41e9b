//! Nodes in the store: parts and items come back without what the items are, which is read by id;
//! what is removed leaves nothing, not even in the count of what is stored; a backup has them.

mod common;

use std::sync::Arc;

use common::{KEY, put};
use store::limits::{ITEM_ID_BYTES_MAX, ITEMS_MAX, NODE_PART_BYTES_MAX};
use store::{
    Durability, Item, MemoryEngine, NodeEntry, Options, Record, RecordError, Store, StoreError,
};

const SERVICE: &str = "pubsub.localhost";
const HECATE: &str = "hecate@localhost";

fn store(engine: &Arc<MemoryEngine>) -> Store {
    Store::with_engine(Arc::clone(engine) as _, Durability::Fsync, KEY).unwrap()
}

fn make() -> Record {
    Record::ServiceMake {
        user: SERVICE.into(),
    }
}

fn part(user: &str, node: u64, part: &str, value: &str) -> Record {
    Record::NodePut {
        user: user.into(),
        node,
        part: part.into(),
        value: value.into(),
    }
}

fn item(user: &str, node: u64, id: &str, seq: u64, payload: &str) -> Record {
    Record::ItemPut {
        user: user.into(),
        node,
        item: Item {
            id: id.into(),
            seq,
            at: seq as i64,
            publisher: HECATE.into(),
            payload: payload.as_bytes().into(),
        },
    }
}

/// Parts as `number/name=value`, items as `number/id#seq:bytes`.
fn nodes(store: &Store, user: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let visit = |entry: NodeEntry<'_>| {
        all.push(match entry {
            NodeEntry::Part { node, part, value } => {
                format!("{node}/{part}={}", String::from_utf8_lossy(&value))
            }
            NodeEntry::Item { node, item } => {
                assert_eq!((item.at, &*item.publisher), (item.seq as i64, HECATE));
                format!("{node}/{}#{}:{}", item.id, item.seq, item.bytes)
            }
        });
        Ok(())
    };
    store.load_nodes(user, visit).unwrap().then_some(all)
}

fn payloads(store: &Store, node: u64, ids: &[&str]) -> Vec<(u64, String)> {
    let items = store.items(SERVICE, node, ids.iter().copied()).unwrap();
    let text = |item: Item| {
        (
            item.seq,
            String::from_utf8_lossy(&item.payload).into_owned(),
        )
    };
    items.into_iter().map(text).collect()
}

fn check(store: &Store, services: u64) {
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!(report.services, services);
}

#[test]
fn nodes_come_back_without_what_their_items_are() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    assert_eq!(nodes(&kept, SERVICE), None);
    kept.bulk([make(), part(SERVICE, 1, "0", "made"), make()])
        .unwrap();
    kept.bulk([
        part(SERVICE, 2, "0", "second"),
        part(SERVICE, 1, "ax@y", "owner"),
        part(SERVICE, 1, "sx@y", "gone"),
        item(SERVICE, 1, "b", 3, "<b/>"),
        item(SERVICE, 1, "a", 4, "<aa/>"),
        item(SERVICE, 2, "a", 5, ""),
        part(SERVICE, 1, "sx@y", ""),
        item(SERVICE, 1, "b", 6, "<bbb/>"),
    ])
    .unwrap();
    drop(kept);
    let kept = store(&engine);
    let expected = [
        "1/0=made",
        "1/ax@y=owner",
        "2/0=second",
        "1/a#4:5",
        "1/b#6:6",
        "2/a#5:0",
    ];
    assert_eq!(nodes(&kept, SERVICE).unwrap(), expected);
    let found = payloads(&kept, 1, &["b", "nothing", "a"]);
    assert_eq!(found, [(6, "<bbb/>".into()), (4, "<aa/>".into())]);
    assert_eq!(payloads(&kept, 2, &["a", "b"]), [(5, String::new())]);
    assert_eq!(kept.load_user(SERVICE).unwrap(), None, "it is no account");
    assert_eq!(kept.count_accounts(None).unwrap(), 0);
    check(&kept, 1);
    // Whoever reads may end it.
    let ended = kept.load_nodes(SERVICE, |_| Err(StoreError::Full));
    assert!(matches!(ended, Err(StoreError::Full)), "{ended:?}");
}

#[test]
fn what_is_removed_leaves_nothing() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    kept.bulk([make(), part(SERVICE, 1, "0", "made")]).unwrap();
    let empty = kept.stored_by(SERVICE).unwrap();
    let fill = |node| {
        let more = (0..20).map(move |n| item(SERVICE, node, &format!("i{n}"), n, "<payload/>"));
        [part(SERVICE, node, "s", "x")].into_iter().chain(more)
    };
    kept.bulk(fill(1).chain(fill(2)).chain(fill(u64::MAX)))
        .unwrap();
    check(&kept, 1);
    let ids = (0..19).map(|n| format!("i{n}")).chain(["never".into()]);
    kept.bulk([Record::ItemsRemove {
        user: SERVICE.into(),
        node: 1,
        ids: ids.collect(),
    }])
    .unwrap();
    check(&kept, 1);
    assert_eq!(payloads(&kept, 1, &["i18", "i19"]).len(), 1);
    kept.bulk([
        Record::ItemsClear {
            user: SERVICE.into(),
            node: 1,
        },
        part(SERVICE, 1, "s", ""),
    ])
    .unwrap();
    check(&kept, 1);
    for node in [2, u64::MAX] {
        assert_eq!(payloads(&kept, node, &["i7"]).len(), 1, "another node's");
        let user = SERVICE.into();
        kept.bulk([Record::NodeRemove { user, node }]).unwrap();
        assert_eq!(payloads(&kept, node, &["i7"]), []);
        check(&kept, 1);
    }
    assert_eq!(nodes(&kept, SERVICE).unwrap(), ["1/0=made"]);
    assert_eq!(kept.stored_by(SERVICE).unwrap(), empty);
}

#[test]
fn an_account_has_nodes_until_it_is_removed() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    // Before it is there, nothing is kept for it.
    kept.bulk([part(HECATE, 1, "0", "early"), put(HECATE)])
        .unwrap();
    assert_eq!(nodes(&kept, HECATE).unwrap(), [""; 0]);
    kept.bulk([
        part(HECATE, 1, "0", "tune"),
        item(HECATE, 1, "current", 2, "<tune/>"),
        Record::ServiceMake {
            user: HECATE.into(),
        },
    ])
    .unwrap();
    assert_eq!(nodes(&kept, HECATE).unwrap().len(), 2);
    let with = |part| kept.with_part(vec![SERVICE, HECATE], (1, part)).unwrap();
    assert_eq!((with("0"), with("1")), (vec![HECATE], vec![]));
    assert!(kept.load_user(HECATE).unwrap().is_some());
    check(&kept, 0);
    kept.bulk([Record::AccountRemove {
        user: HECATE.into(),
    }])
    .unwrap();
    assert_eq!(nodes(&kept, HECATE), None);
    let found = kept.with_part(vec![HECATE], (1, "0"));
    assert_eq!(found.unwrap(), [""; 0]);
    assert_eq!(kept.totals().unwrap().len(), 0);
    check(&kept, 0);
    assert_eq!(kept.verify().unwrap().blobs, 0);
}

#[test]
fn an_address_is_one_thing() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    let room = Record::RoomMake {
        user: SERVICE.into(),
        creator: HECATE.into(),
        about: b"x".to_vec(),
    };
    kept.bulk([make(), put(SERVICE), room]).unwrap();
    assert_eq!(kept.count_accounts(None).unwrap(), 0);
    assert_eq!(kept.rooms(None, 9).unwrap(), []);
    assert_eq!(nodes(&kept, SERVICE).unwrap(), [""; 0]);
    check(&kept, 1);
}

#[test]
fn a_backup_has_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::default();
    let kept = store(&Arc::new(MemoryEngine::new()));
    kept.bulk([
        make(),
        part(SERVICE, 1, "0", "made"),
        item(SERVICE, 1, "a", 2, "<a/>"),
    ])
    .unwrap();
    let file = folder.path().join("backup");
    kept.backup(&file).unwrap();
    assert!(store::verify(&file, &options).unwrap().is_good());
    let restored = folder.path().join("restored");
    store::restore(&file, &restored, &options).unwrap();
    let restored = Store::open(&restored, &options).unwrap();
    assert_eq!(nodes(&restored, SERVICE), nodes(&kept, SERVICE));
    assert_eq!(payloads(&restored, 1, &["a"]), [(2, "<a/>".into())]);
    check(&restored, 1);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let remove = |ids: Vec<String>| Record::ItemsRemove {
        user: SERVICE.into(),
        node: 1,
        ids,
    };
    let long = |bytes: usize| "x".repeat(bytes + 1);
    for bad in [
        part(SERVICE, 1, &long(NODE_PART_BYTES_MAX), "x"),
        part(SERVICE, 1, "a\0", "x"),
        item(SERVICE, 1, &long(ITEM_ID_BYTES_MAX), 1, "x"),
        item(SERVICE, 1, "\0", 1, "x"),
        remove(vec![long(ITEM_ID_BYTES_MAX)]),
    ] {
        assert_eq!(bad.check(), Err(RecordError::Node), "{bad:?}");
    }
    let many = remove(vec![String::new(); ITEMS_MAX + 1]);
    assert_eq!(many.check(), Err(RecordError::TooMany("items")));
}

#[test]
fn records_are_read_back() {
    for record in [
        make(),
        part(SERVICE, 1, "0", "x"),
        item(SERVICE, u64::MAX, "id", 7, "<x/>"),
        Record::NodeRemove {
            user: SERVICE.into(),
            node: 3,
        },
        Record::ItemsRemove {
            user: SERVICE.into(),
            node: 3,
            ids: vec!["a".into()],
        },
        Record::ItemsClear {
            user: SERVICE.into(),
            node: 3,
        },
    ] {
        assert_eq!(record.user(), SERVICE);
        assert_eq!(
            Record::decode(&record.encode(stdx::Level::NEWEST)),
            Ok(record.clone())
        );
        // Records of before are read as they are.
        let mut old = record.encode(stdx::Level::NEWEST);
        old[0] = 4;
        assert_eq!(Record::decode(&old), Ok(record));
    }
}
