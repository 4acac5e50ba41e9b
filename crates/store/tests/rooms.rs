//! Rooms in the store: their parts and their log come back, the lists name those that are there,
//! and an address is an account or a room, never both.

mod common;

use std::sync::Arc;

use common::{KEY, put};
use stdx::time::Timestamp;
use store::limits::SEEN_MAX;
use store::{
    Change, Durability, Engine as _, EntryFlags, ListedRoom, LogEntry, MemoryEngine, RangeId,
    Record, RecordError, Side, Space, Store,
};

const COVEN: &str = "coven@conference.localhost";
const HECATE: &str = "hecate@localhost";

fn store(engine: &Arc<MemoryEngine>) -> Store {
    Store::with_engine(Arc::clone(engine) as _, Durability::Fsync, KEY).unwrap()
}

fn make(room: &str, creator: &str, about: &str) -> Record {
    Record::RoomMake {
        user: room.into(),
        creator: creator.into(),
        about: about.into(),
    }
}

fn part(room: &str, part: &str, value: &str) -> Record {
    Record::RoomPut {
        user: room.into(),
        part: part.into(),
        value: value.into(),
    }
}

fn message(seq: u64, sender: &str, source: u64) -> Record {
    message_in(COVEN, seq, (sender, source))
}

fn message_in(room: &str, seq: u64, (sender, source): (&str, u64)) -> Record {
    Record::LogAppend {
        user: room.into(),
        entry: LogEntry {
            seq,
            at: Timestamp::from_millis(seq as i64),
            peer: sender.into(),
            flags: EntryFlags::ARCHIVED,
            frame: format!("<message>{seq}</message>").into_bytes().into(),
            source,
            ..LogEntry::default()
        },
    }
}

fn replace(seq: u64, frame: &str) -> Record {
    Record::LogReplace {
        user: COVEN.into(),
        seq,
        frame: frame.into(),
    }
}

fn remove(room: &str) -> Record {
    Record::RoomRemove { user: room.into() }
}

fn check(store: &Store, rooms: u64) {
    let report = store.verify().unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!(report.rooms, rooms);
}

#[test]
fn a_room_comes_back_with_its_parts_and_its_latest_messages() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    kept.bulk([make(COVEN, HECATE, "name")]).unwrap();
    kept.bulk([part(COVEN, "s", "subject"), part(COVEN, "0", "made")])
        .unwrap();
    kept.bulk([
        part(COVEN, "ahecate@localhost", "owner"),
        part(COVEN, "ax@y", "member"),
    ])
    .unwrap();
    kept.bulk((10..20).map(|seq| message(seq, HECATE, seq + 100)))
        .unwrap();
    kept.bulk([part(COVEN, "ax@y", "")]).unwrap();
    drop(kept);
    let kept = store(&engine);
    let (next, room) = kept.load_room(COVEN, 3).unwrap();
    let room = room.unwrap();
    assert_eq!((next, room.log.next_seq, room.log.count), (20, 20, 10));
    let expected = ListedRoom {
        creator: HECATE.into(),
        about: b"name".to_vec(),
    };
    assert_eq!(room.listed, expected);
    let parts: Vec<_> = room.parts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        parts,
        ["0", "ahecate@localhost", "s"],
        "in order, without what was removed"
    );
    let latest: Vec<u64> = room.latest.iter().map(|entry| entry.seq).collect();
    assert_eq!(latest, [17, 18, 19]);
    assert_eq!(kept.mark_of(COVEN, KEY.peer(HECATE)).unwrap(), 119);
    check(&kept, 1);
    assert_eq!(kept.load_user(COVEN).unwrap(), None, "it is no account");
    assert_eq!(kept.accounts(None, None, 10).unwrap(), [""; 0]);
    assert_eq!(kept.count_accounts(None).unwrap(), 0);
}

#[test]
fn a_room_that_is_removed_leaves_nothing_but_its_number() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    kept.bulk([
        make(COVEN, HECATE, "name"),
        part(COVEN, "0", "made"),
        message(7, HECATE, 1),
    ])
    .unwrap();
    kept.bulk([remove(COVEN)]).unwrap();
    assert_eq!(kept.load_room(COVEN, 10).unwrap(), (8, None));
    assert_eq!(kept.rooms(None, 10).unwrap(), []);
    assert_eq!(kept.rooms_made_by(HECATE, 10).unwrap(), [""; 0]);
    assert_eq!(kept.totals().unwrap().len(), 0);
    // What comes too late changes nothing.
    kept.bulk([
        part(COVEN, "0", "late"),
        message(9, HECATE, 2),
        remove(COVEN),
    ])
    .unwrap();
    assert_eq!(kept.load_room(COVEN, 10).unwrap(), (8, None));
    check(&kept, 0);
    kept.bulk([
        make(COVEN, HECATE, "anew"),
        message(7, HECATE, 3),
        message(8, HECATE, 3),
    ])
    .unwrap();
    let (next, room) = kept.load_room(COVEN, 10).unwrap();
    let seqs: Vec<u64> = room.unwrap().latest.iter().map(|entry| entry.seq).collect();
    assert_eq!((next, seqs), (9, vec![8]), "a number is given out once");
    check(&kept, 1);
}

#[test]
fn an_address_is_an_account_or_a_room() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    kept.bulk([
        put(HECATE),
        make(HECATE, "x@y", "room"),
        part(HECATE, "0", "made"),
    ])
    .unwrap();
    assert_eq!(kept.rooms(None, 10).unwrap(), []);
    assert_eq!(kept.load_room(HECATE, 10).unwrap().1, None);
    kept.bulk([make(COVEN, HECATE, "room"), put(COVEN)])
        .unwrap();
    kept.bulk([Record::AccountRemove { user: COVEN.into() }])
        .unwrap();
    kept.bulk([remove(HECATE)]).unwrap();
    assert_eq!(kept.accounts(None, None, 10).unwrap(), [HECATE]);
    assert_eq!(kept.rooms(None, 10).unwrap().len(), 1);
    check(&kept, 1);
}

/// What the server says about a room begins so.
fn about(name: &str, is_public: bool) -> Vec<u8> {
    postcard::to_extend(&(name, is_public, "and more"), vec![3]).unwrap()
}

#[test]
fn rooms_that_everybody_may_know_of_are_listed_by_domain() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    let room = |n: u32, domain: &str| format!("room{n:02}@{domain}");
    let (one, other) = ("conference.localhost", "conference.localhost.example");
    let made = |n: u32, domain: &str, is_public: bool| Record::RoomMake {
        user: room(n, domain),
        creator: HECATE.into(),
        about: about(&n.to_string(), is_public),
    };
    kept.bulk((0..40).map(|n| made(n, one, n % 4 == 0)))
        .unwrap();
    kept.bulk((0..3).map(|n| made(n, other, true))).unwrap();
    let all = |domain: &str, limit: usize| {
        let mut all: Vec<String> = Vec::new();
        loop {
            let side = Side::Behind(all.last().map(|last| &**last));
            let page = kept.public_rooms(domain, side, limit);
            let page = page.unwrap();
            let is_last = page.len() < limit;
            all.extend(page.into_iter().map(|(room, _)| room));
            if is_last {
                return all;
            }
        }
    };
    let back = |domain: &str, limit: usize| {
        let mut all: Vec<String> = Vec::new();
        loop {
            let side = Side::Before(all.first().map(|first| &**first));
            let page = kept.public_rooms(domain, side, limit).unwrap();
            let is_first = page.len() < limit;
            all.splice(0..0, page.into_iter().map(|(room, _)| room));
            if is_first {
                return all;
            }
        }
    };
    let expected: Vec<String> = (0..10).map(|n| room(4 * n, one)).collect();
    for limit in [1, 3, 10, 100] {
        assert_eq!(all(one, limit), expected);
        assert_eq!(back(one, limit), expected);
        assert_eq!(all(other, limit).len(), 3);
        assert_eq!(back(other, limit).len(), 3);
    }
    assert_eq!(kept.public_rooms(one, Side::Before(None), 0).unwrap(), []);
    assert_eq!(
        kept.public_rooms("localhost", Side::Behind(None), 9)
            .unwrap(),
        []
    );
    // What changes its mind, or ends, is there no more; and the other way round.
    kept.bulk([made(0, one, false), made(1, one, true), made(4, one, true)])
        .unwrap();
    kept.bulk([remove(&room(8, one))]).unwrap();
    let now = all(one, 4);
    assert_eq!(now[..3], [room(1, one), room(4, one), room(12, one)]);
    assert_eq!(now.len(), 9);
    // Whatever else it says: nobody is told of it.
    let (user, creator) = (room(2, one), HECATE.to_owned());
    for about in [vec![3], vec![3, 200, 1], b"name".to_vec()] {
        let (user, creator) = (user.clone(), creator.clone());
        kept.bulk([Record::RoomMake {
            user,
            creator,
            about,
        }])
        .unwrap();
        assert_eq!(all(one, 4), now);
    }
    check(&kept, 42);
}

#[test]
fn rooms_are_listed_page_by_page_and_by_their_makers() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    let room = |n: u32| format!("room{n}@conference.localhost");
    let maker = |n: u32| format!("maker{}@localhost", n % 3);
    kept.bulk((0..40).map(|n| make(&room(n), &maker(n), "x")))
        .unwrap();
    let mut all = Vec::new();
    loop {
        let after = all.last().cloned();
        let page = kept.rooms(after.as_deref(), 7).unwrap();
        let is_last = page.len() < 7;
        all.extend(page.into_iter().map(|(room, _)| room));
        if is_last {
            break;
        }
    }
    let mut expected: Vec<String> = (0..40).map(room).collect();
    expected.sort();
    all.sort();
    assert_eq!(all, expected);
    assert_eq!(
        kept.rooms_made_by("maker1@localhost", 100).unwrap().len(),
        13
    );
    assert_eq!(kept.rooms_made_by("maker1@localhost", 5).unwrap().len(), 5);
    assert_eq!(kept.rooms_made_by("nobody@localhost", 5).unwrap().len(), 0);
    // Made again by somebody else, it is on one list.
    kept.bulk([make(&room(1), "maker2@localhost", "y")])
        .unwrap();
    assert_eq!(
        kept.rooms_made_by("maker1@localhost", 100).unwrap().len(),
        12
    );
    assert_eq!(
        kept.rooms_made_by("maker2@localhost", 100).unwrap().len(),
        14
    );
    assert_eq!(kept.room(&room(1)).unwrap().unwrap().about, b"y");
    check(&kept, 40);
}

#[test]
fn more_senders_than_are_remembered_together_are_remembered() {
    let kept = store(&Arc::new(MemoryEngine::new()));
    let sender = |n: u64| format!("sender{n}@localhost");
    let senders = SEEN_MAX as u64 + 70;
    kept.bulk([make(COVEN, HECATE, "x")]).unwrap();
    kept.bulk((1..=senders).map(|n| message(n, &sender(n), n + 500)))
        .unwrap();
    let (_, room) = kept.load_room(COVEN, 1).unwrap();
    assert!(room.unwrap().has_older_marks);
    for n in 1..=senders {
        let mark = kept.mark_of(COVEN, KEY.peer(&sender(n))).unwrap();
        assert_eq!(mark, n + 500, "sender {n}");
    }
    check(&kept, 1);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let long = "x".repeat(store::limits::ROOM_PART_BYTES_MAX + 1);
    for bad in [
        make(COVEN, HECATE, ""),
        make(COVEN, "he\0cate", "x"),
        part(COVEN, &long, "x"),
        part(COVEN, "a\0", "x"),
    ] {
        assert_eq!(bad.check(), Err(RecordError::Room), "{bad:?}");
    }
}

/// Entries that are folded, that are not, that are gone, and that never were.
#[test]
fn the_frame_of_an_entry_is_replaced_and_nothing_else() {
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    kept.bulk([make(COVEN, HECATE, "name")]).unwrap();
    kept.bulk((1..200).map(|seq| message(seq, HECATE, seq + 100)))
        .unwrap();
    kept.bulk([Record::LogTrim {
        user: COVEN.into(),
        through: 5,
    }])
    .unwrap();
    let before = kept.log_read(COVEN, 0, 300).unwrap();
    let (_, room) = kept.load_room(COVEN, 1).unwrap();
    let bytes = room.unwrap().log.bytes;
    kept.bulk([
        replace(5, "<trimmed/>"),
        replace(6, ""),
        replace(199, "<message>a much longer one</message>"),
        replace(200, "<not-yet/>"),
    ])
    .unwrap();
    check(&kept, 1);
    drop(kept);
    let kept = store(&engine);
    check(&kept, 1);
    let after = kept.log_read(COVEN, 0, 300).unwrap();
    assert_eq!(after.len(), before.len());
    for (old, new) in before.iter().zip(&after) {
        let expected = match old.seq {
            6 => b"".to_vec(),
            199 => b"<message>a much longer one</message>".to_vec(),
            _ => old.frame.to_vec(),
        };
        assert_eq!(new.frame.to_vec(), expected);
        let mut same = new.clone();
        same.frame = old.frame.clone();
        assert_eq!(same, *old);
    }
    let (next, room) = kept.load_room(COVEN, 1).unwrap();
    let less = "<message>6</message>".len() as u64;
    let more = "a much longer one".len() as u64 - 3;
    assert_eq!((next, room.unwrap().log.bytes), (200, bytes - less + more));
    // So are those of an account.
    kept.bulk([put("a@localhost")]).unwrap();
    let entry = |user: &str| Record::LogAppend {
        user: user.into(),
        entry: LogEntry {
            seq: 1,
            peer: "x@y".into(),
            frame: b"<message/>".to_vec().into(),
            ..LogEntry::default()
        },
    };
    kept.bulk([entry("a@localhost")]).unwrap();
    kept.bulk([Record::LogReplace {
        user: "a@localhost".into(),
        seq: 1,
        frame: b"<gone/>".to_vec(),
    }])
    .unwrap();
    let report = kept.verify().unwrap();
    assert!(report.is_good(), "{report}");
    let kept = kept.log_read("a@localhost", 0, 9).unwrap();
    assert_eq!(&*kept[0].frame, b"<gone/>");
}

#[test]
fn a_look_at_a_range_finds_the_rooms_that_may_owe_something() {
    const SINCE: u64 = 50;
    let engine = Arc::new(MemoryEngine::new());
    let kept = store(&engine);
    let rooms: Vec<String> = (0..40)
        .map(|n| format!("r{n}@conference.localhost"))
        .collect();
    let mut expected = Vec::new();
    for (n, room) in rooms.iter().enumerate() {
        kept.bulk([make(room, HECATE, "name"), part(room, "a", "none's")])
            .unwrap();
        let (is_lively, more) = match n % 5 {
            0 => (true, message_in(room, SINCE, (HECATE, 1))),
            1 => (false, message_in(room, SINCE - 1, (HECATE, 1))),
            2 => (true, part(room, "ohecate", "there")),
            3 => (true, part(room, "m", "owed")),
            _ => (false, part(room, "n", "of others")),
        };
        kept.bulk([more]).unwrap();
        if is_lively {
            expected.push(room.clone());
        }
    }
    // A damaged one does not keep those behind it from being found.
    let damaged = expected.remove(0);
    let slot = KEY.slot(&damaged).index().to_be_bytes();
    let head = Change {
        space: Space::Head,
        key: [&slot[..], damaged.as_bytes()].concat().into(),
        value: Some([2, 0xff][..].into()),
    };
    engine.commit(vec![head], Durability::Memory).unwrap();
    let kept = store(&engine); // Heads are remembered.
    expected.sort();
    for limit in [1, 2, 1_000] {
        let mut all = Vec::new();
        for range in RangeId::all() {
            let mut after: Option<String> = None;
            loop {
                let owing = (Timestamp::from_millis(SINCE as i64), &["o", "m"][..]);
                let page = kept.lively_rooms(range, after.as_deref(), owing, limit);
                let page = page.unwrap();
                assert!(page.found.len() <= limit);
                all.extend(page.found);
                match page.last {
                    Some(last) => after = Some(last),
                    None => break,
                }
            }
        }
        all.sort();
        assert_eq!(all, expected, "{limit}");
    }
}
