//! Rooms that deliver to an account as their member: the mark of each comes back, and goes with the
//! account.

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::KEY;
use store::{
    Account, Change, Durability, Engine as _, MemoryEngine, Reader as _, Record, RecordError,
    Space, Store,
};

const JULIET: &str = "juliet@localhost";
const COVEN: &str = "coven@conference.localhost";

fn store(engine: &Arc<MemoryEngine>) -> Store {
    Store::with_engine(Arc::clone(engine) as _, Durability::Fsync, KEY).unwrap()
}

fn put(room: &str, through: u64) -> Record {
    Record::MemberRoomPut {
        user: JULIET.to_owned(),
        room: room.to_owned(),
        through,
    }
}

fn check(store: &Store) {
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
}

#[test]
fn marks_come_back_and_go_with_the_account() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    let account = Record::AccountPut {
        user: JULIET.to_owned(),
        account: Account::default(),
    };
    kept.bulk([account, put(COVEN, 5), put("b@c", u64::MAX >> 1)])
        .unwrap();
    kept.bulk([put(COVEN, 9)]).unwrap();
    drop(kept);
    let kept = store(&engine);
    let all = |kept: &Store| kept.member_rooms(JULIET).unwrap();
    let (coven, other) = (COVEN.to_owned(), "b@c".to_owned());
    assert_eq!(all(&kept), [(other.clone(), u64::MAX >> 1), (coven, 9)]);
    assert_eq!(kept.member_place(JULIET, COVEN).unwrap(), Some(9));
    assert_eq!(kept.member_place("nurse@localhost", COVEN).unwrap(), None);
    assert_eq!(kept.member_rooms("nurse@localhost").unwrap(), []);
    check(&kept);
    kept.bulk([Record::MemberRoomRemove {
        user: JULIET.to_owned(),
        room: COVEN.to_owned(),
    }])
    .unwrap();
    assert_eq!(all(&kept), [(other, u64::MAX >> 1)]);
    check(&kept);
    kept.bulk([Record::AccountRemove {
        user: JULIET.to_owned(),
    }])
    .unwrap();
    assert_eq!(all(&kept), []);
    check(&kept);
}

/// Goal: a mark that is no place is found before its owner logs in. Method: other bytes, as many.
#[test]
fn a_damaged_mark_is_found() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    let account = Record::AccountPut {
        user: JULIET.to_owned(),
        account: Account::default(),
    };
    kept.bulk([account, put(COVEN, 5)]).unwrap();
    let mut marks = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        marks.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    engine.scan(Space::Blob, &[], &[], &mut visit).unwrap();
    let [(key, value)] = &marks[..] else {
        panic!("one mark: {marks:?}");
    };
    let mut damaged = value.clone();
    // A number that goes on behind its last byte.
    *damaged.last_mut().unwrap() = 0xff;
    let change = Change {
        space: Space::Blob,
        key: key.clone().into(),
        value: Some(damaged.into()),
    };
    engine.commit(vec![change], Durability::Fsync).unwrap();
    let report = kept.verify().unwrap();
    assert!(!report.is_good());
    let said = format!("the mark of {JULIET} in {COVEN}");
    assert!(report.to_string().contains(&said), "{report}");
}

#[test]
fn what_cannot_be_stored_is_refused() {
    for room in ["", "a\0b"] {
        assert_eq!(put(room, 1).check(), Err(RecordError::Room));
    }
}
