//! How far sessions have read the logs of rooms: it comes back, and goes with its session and with
//! its account.

mod common;

use std::sync::Arc;

use common::KEY;
use store::limits::FOLLOWED_GIVEN_MAX;
use store::{
    Account, Durability, MemoryEngine, NumberedEntry, Record, RecordError, RoomRead, SessionRecord,
    Store,
};

const JULIET: &str = "juliet@localhost";
const COVEN: &str = "coven@conference.localhost";

fn store(engine: &Arc<MemoryEngine>) -> Store {
    Store::with_engine(Arc::clone(engine) as _, Durability::Fsync, KEY).unwrap()
}

fn session(number: u32) -> Record {
    Record::SessionPut {
        user: JULIET.to_owned(),
        session: Box::new(SessionRecord {
            number,
            ..SessionRecord::default()
        }),
    }
}

fn read(acked: u64, given: usize) -> RoomRead {
    let entry = |n: usize| NumberedEntry {
        count: n as u32,
        seq: acked + n as u64,
    };
    RoomRead {
        acked,
        given: (1..=given).map(entry).collect(),
    }
}

fn put(number: u32, room: &str, read: RoomRead) -> Record {
    Record::SessionRoomPut {
        user: JULIET.into(),
        number,
        room: room.into(),
        read,
    }
}

fn account() -> Record {
    Record::AccountPut {
        user: JULIET.to_owned(),
        account: Account::default(),
    }
}

fn check(store: &Store) {
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
}

#[test]
fn what_a_session_has_read_comes_back_and_goes_with_it() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    kept.bulk([account(), session(3), session(4)]).unwrap();
    kept.bulk([
        put(3, COVEN, read(5, 1)),
        put(3, "b@c", read(9, 0)),
        put(4, COVEN, read(7, 0)),
        // Nobody has this one.
        put(5, COVEN, read(7, 0)),
    ])
    .unwrap();
    kept.bulk([put(3, COVEN, read(6, 2))]).unwrap();
    drop(kept);
    let kept = store(&engine);
    let all = |kept: &Store| kept.rooms_read(JULIET).unwrap();
    let (coven, other) = (COVEN.to_owned(), "b@c".to_owned());
    assert_eq!(
        all(&kept),
        [
            (3, other, read(9, 0)),
            (3, coven.clone(), read(6, 2)),
            (4, coven.clone(), read(7, 0)),
        ]
    );
    check(&kept);
    kept.bulk([Record::SessionRoomRemove {
        user: JULIET.to_owned(),
        number: 3,
        room: "b@c".to_owned(),
    }])
    .unwrap();
    kept.bulk([Record::SessionRemove {
        user: JULIET.to_owned(),
        number: 4,
    }])
    .unwrap();
    assert_eq!(all(&kept), [(3, coven, read(6, 2))]);
    // The log, beside which it is, does not know of it.
    assert_eq!(kept.log_read(JULIET, 0, 9).unwrap(), []);
    check(&kept);
    kept.bulk([Record::AccountRemove {
        user: JULIET.to_owned(),
    }])
    .unwrap();
    assert_eq!(all(&kept), []);
    check(&kept);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    for room in ["", "a\0b"] {
        assert_eq!(put(1, room, read(1, 0)).check(), Err(RecordError::Room));
    }
    let full = put(1, COVEN, read(1, FOLLOWED_GIVEN_MAX));
    assert_eq!(full.check(), Ok(()));
    let more = put(1, COVEN, read(1, FOLLOWED_GIVEN_MAX + 1));
    assert_eq!(more.check(), Err(RecordError::TooMany("entries of a room")));
}
