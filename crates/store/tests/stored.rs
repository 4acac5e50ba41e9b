//! What accounts and domains have stored: counted with every change, kept over a restart, given
//! back when an account goes, and in agreement with what is there, as a verification finds.

mod common;

use std::sync::Arc;

use common::{KEY, item, message, put};
use store::limits::{ENTRY_OVERHEAD_BYTES, UNCOUNTED_BYTES_MAX};
use store::{DirectoryEntry, DomainTotals, Durability, MemoryEngine, Record, Store};

const ROMEO: &str = "romeo@localhost";
const JULIET: &str = "juliet@capulet.lit";

fn store(engine: &Arc<MemoryEngine>) -> Store {
    let engine = Arc::clone(engine);
    Store::with_engine(engine, Durability::Fsync, KEY).unwrap()
}

fn card(user: &str, bytes: usize) -> Record {
    Record::VCardPut {
        user: user.into(),
        xml: vec![b'x'; bytes],
        photo_hash: String::new(),
    }
}

fn totals(store: &Store, domain: &str) -> DomainTotals {
    store
        .totals()
        .unwrap()
        .get(domain)
        .copied()
        .unwrap_or_default()
}

/// Verification counts everything anew and compares.
fn check(store: &Store) {
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
}

#[test]
fn every_change_is_counted_and_a_removal_gives_it_back() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    kept.bulk([put(ROMEO), put(JULIET)]).unwrap();
    let empty = totals(&kept, "localhost");
    assert_eq!(empty.accounts, 1);
    assert_eq!(empty.stored_bytes, kept.stored_by(ROMEO).unwrap());
    assert!(empty.stored_bytes > 0, "a profile takes room");

    kept.bulk([card(ROMEO, 5_000)]).unwrap();
    let with_card = totals(&kept, "localhost").stored_bytes;
    assert!(with_card >= empty.stored_bytes + 5_000);
    kept.bulk([card(ROMEO, 5_000)]).unwrap();
    assert_eq!(
        totals(&kept, "localhost").stored_bytes,
        with_card,
        "replaced"
    );
    let private = |xml: &[u8]| Record::PrivatePut {
        user: ROMEO.into(),
        ns: "urn:x".into(),
        name: "e".into(),
        xml: xml.to_vec(),
    };
    kept.bulk([private(&[b'x'; 1_000])]).unwrap();
    assert!(totals(&kept, "localhost").stored_bytes >= with_card + 1_000);
    kept.bulk([private(b"")]).unwrap();
    assert_eq!(
        totals(&kept, "localhost").stored_bytes,
        with_card,
        "removed"
    );
    let listed = |first: &str| Record::DirectoryPut {
        user: ROMEO.into(),
        entry: DirectoryEntry {
            first: first.into(),
            ..DirectoryEntry::default()
        },
    };
    kept.bulk([listed(&"x".repeat(200))]).unwrap();
    assert!(totals(&kept, "localhost").stored_bytes >= with_card + 200);
    check(&kept);
    kept.bulk([listed("x"), listed("")]).unwrap();
    assert_eq!(
        totals(&kept, "localhost").stored_bytes,
        with_card,
        "taken out of the directory"
    );
    kept.bulk([listed("x")]).unwrap();
    let contact = Record::RosterPut {
        user: ROMEO.into(),
        version: 2,
        item: item("friend@localhost"),
    };
    kept.bulk([contact]).unwrap();
    assert!(totals(&kept, "localhost").stored_bytes > with_card);
    let other = totals(&kept, "capulet.lit");
    check(&kept);

    kept.bulk([Record::AccountRemove { user: ROMEO.into() }])
        .unwrap();
    assert_eq!(totals(&kept, "localhost"), DomainTotals::default());
    assert_eq!(totals(&kept, "capulet.lit"), other);
    assert_eq!(kept.stored_by(ROMEO).unwrap(), 0);
    kept.bulk([put(ROMEO)]).unwrap();
    assert_eq!(totals(&kept, "localhost"), empty, "nothing of before");
    check(&kept);
}

#[test]
fn messages_are_in_the_total_but_for_a_bound_and_a_restart_forgets_nothing() {
    let engine = Arc::new(MemoryEngine::new());
    let before = store(&engine);
    before.bulk([put(ROMEO)]).unwrap();
    let empty = totals(&before, "localhost").stored_bytes;
    let body = "x".repeat(1_000);
    let mut written = 0;
    for seq in 1..=100 {
        let record = message(ROMEO, seq, &body);
        if let Record::LogAppend { entry, .. } = &record {
            written += entry.frame.len() as u64 + ENTRY_OVERHEAD_BYTES;
        }
        before.bulk([record]).unwrap();
        let counted = totals(&before, "localhost").stored_bytes - empty;
        assert!(counted <= written && written - counted < UNCOUNTED_BYTES_MAX);
        assert_eq!(before.stored_by(ROMEO).unwrap(), empty + written);
    }
    check(&before);
    let counted = totals(&before, "localhost");
    drop(before);

    let after = store(&engine);
    assert_eq!(totals(&after, "localhost"), counted);
    assert_eq!(after.stored_by(ROMEO).unwrap(), empty + written);
    let trim = Record::LogTrim {
        user: ROMEO.into(),
        through: 100,
    };
    after.bulk([trim]).unwrap();
    assert_eq!(totals(&after, "localhost").stored_bytes, empty);
    check(&after);
}
