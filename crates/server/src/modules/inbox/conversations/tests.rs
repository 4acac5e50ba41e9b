//! Which rooms are in an inbox, and how far their logs are looked at.

use room::{Config, Record as Change};
use store::{Account, Record};

use super::*;
use crate::stored::rooms::{CONFIGURED, CREATED, UNLOCKED};

const OWNER: &str = "juliet@localhost";

fn room(name: &str, config: Config, is_locked: bool) -> Vec<Record> {
    let user = || format!("{name}@conference.localhost");
    let part = |part: &str, change: Change| Record::RoomPut {
        user: user(),
        part: part.to_owned(),
        value: change.encode(),
    };
    let created = Change::Created {
        at: 0,
        secret: [0; 16],
        first: 1,
    };
    let mut records = vec![
        Record::RoomMake {
            user: user(),
            creator: "romeo@localhost".to_owned(),
            about: vec![1],
        },
        part(CREATED, created),
        part(CONFIGURED, Change::Configured(Box::new(config))),
    ];
    if !is_locked {
        records.push(part(UNLOCKED, Change::Unlocked));
    }
    records
}

fn said(name: &str, seq: Seq, by: &str) -> Record {
    Record::LogAppend {
        user: format!("{name}@conference.localhost").into(),
        entry: LogEntry {
            seq,
            at: Timestamp::from_millis(seq as i64),
            peer: by.into(),
            flags: EntryFlags::ARCHIVED,
            frame: b"<message><body>hi</body></message>".to_vec().into(),
            ..LogEntry::default()
        },
    }
}

fn inbox(rooms_max: usize, room_entries_max: usize) -> Inbox {
    Inbox {
        owner: OWNER.into(),
        now: Timestamp::from_millis(0),
        bounds: InboxBounds {
            rooms_max,
            room_entries_max,
            ..InboxBounds::default()
        },
        nodes: None,
        rooms: Arc::default(),
        hosts: vec!["conference.localhost".to_owned()],
    }
}

/// Rooms that are listed of those that are bookmarked, with what is unread.
fn found(store: &Store, inbox: &Inbox, bookmarked: &[&str]) -> Vec<(String, u64)> {
    let nodes = Nodes {
        displayed: None,
        rooms: bookmarked.iter().map(|room| (*room).to_owned()).collect(),
    };
    let all = inbox.read_with(store, &nodes).unwrap();
    let local = |one: &Conversation| one.address.split('@').next().unwrap().to_owned();
    all.iter().map(|one| (local(one), one.unread)).collect()
}

fn store(rooms: Vec<Vec<Record>>) -> Store {
    let store = Store::in_memory();
    let account = Record::AccountPut {
        user: OWNER.to_owned(),
        account: Account::default(),
    };
    store.bulk([account]).unwrap();
    store.bulk(rooms.into_iter().flatten()).unwrap();
    store
}

fn persistent() -> Config {
    Config {
        is_persistent: true,
        ..Config::default()
    }
}

#[test]
fn rooms_that_one_may_not_read_are_not_listed() {
    let closed = Config {
        is_members_only: true,
        ..persistent()
    };
    let secret = Config {
        password: "open sesame".to_owned(),
        ..persistent()
    };
    let store = store(vec![
        room("open", persistent(), false),
        room("closed", closed, false),
        room("secret", secret, false),
        room("locked", persistent(), true),
        room("brief", Config::default(), false),
    ]);
    let names = ["open", "closed", "secret", "locked", "brief"];
    store
        .bulk(names.map(|name| said(name, 1, "romeo@localhost")))
        .unwrap();
    let mut all: Vec<String> = names
        .iter()
        .map(|name| format!("{name}@conference.localhost"))
        .collect();
    all.push("none@conference.localhost".to_owned());
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    assert_eq!(found(&store, &inbox(9, 9), &all), [("open".to_owned(), 1)]);
    let mut elsewhere = inbox(9, 9);
    elsewhere.hosts.clear();
    assert_eq!(found(&store, &elsewhere, &all), [], "there are no rooms");
}

#[test]
fn so_many_rooms_and_messages_are_looked_at() {
    let store = store(vec![
        room("a", persistent(), false),
        room("b", persistent(), false),
    ]);
    let romeo = "romeo@localhost";
    store.bulk((1..6).map(|seq| said("a", seq, romeo))).unwrap();
    store.bulk((7..9).map(|seq| said("b", seq, romeo))).unwrap();
    let both = ["a@conference.localhost", "b@conference.localhost"];
    let of = |name: &str, unread| (name.to_owned(), unread);
    assert_eq!(found(&store, &inbox(2, 3), &both), [of("b", 2), of("a", 3)]);
    assert_eq!(found(&store, &inbox(1, 9), &both), [of("a", 5)]);
    store
        .bulk([said("a", 9, OWNER), said("a", 10, romeo)])
        .unwrap();
    assert_eq!(
        found(&store, &inbox(1, 9), &both),
        [of("a", 1)],
        "said oneself"
    );
}

#[test]
fn so_many_bytes_of_rooms_are_looked_at() {
    let store = store(vec![
        room("a", persistent(), false),
        room("b", persistent(), false),
    ]);
    let romeo = "romeo@localhost";
    let count = READ_OF_ROOM as u64 + 5;
    let all = (1..=count).map(|seq| said("a", seq, romeo));
    store.bulk(all).unwrap();
    store.bulk([said("b", 1, romeo)]).unwrap();
    let both = ["a@conference.localhost", "b@conference.localhost"];
    let of = |name: &str, unread| (name.to_owned(), unread);
    let mut few = inbox(9, 100);
    assert_eq!(
        found(&store, &few, &both),
        [of("a", count), of("b", 1)],
        "a second read goes on behind the first"
    );
    few.bounds.bytes_max = 1;
    let first = [of("a", READ_OF_ROOM as u64)];
    assert_eq!(found(&store, &few, &both), first, "one read, and no more");
}

/// A private message of a quiet room was far down in the list.
#[test]
fn a_room_is_as_late_as_its_private_messages() {
    let store = store(vec![
        room("a", persistent(), false),
        room("b", persistent(), false),
    ]);
    let romeo = "romeo@localhost";
    store
        .bulk([said("a", 1, romeo), said("b", 2, romeo)])
        .unwrap();
    let both = ["a@conference.localhost", "b@conference.localhost"];
    let of = |name: &str, unread| (name.to_owned(), unread);
    assert_eq!(found(&store, &inbox(9, 9), &both), [of("b", 1), of("a", 1)]);
    let Record::LogAppend { entry, .. } = said("a", 9, both[0]) else {
        unreachable!("a message is appended");
    };
    let user = OWNER.into();
    store.bulk([Record::LogAppend { user, entry }]).unwrap();
    assert_eq!(found(&store, &inbox(9, 9), &both), [of("a", 2), of("b", 1)]);
}
