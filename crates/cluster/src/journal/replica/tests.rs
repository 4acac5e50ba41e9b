//! What a replica applies, passes over and refuses, and how it notices that it differs.

use bytes::Bytes;
use stdx::{Level, Timestamp};
use store::{Account, Position, Record, Store};

use super::*;
use crate::journal::message::Author;
use crate::layout::{Layout, StreamId};

const STREAM: u16 = 0;

struct Fixture {
    store: Store,
    follower: Follower,
    replica: Replica,
}

fn layout() -> Layout {
    Layout::new("test", 64).unwrap()
}

fn fixture() -> Fixture {
    let store = Store::in_memory();
    let follower = Follower::new(&store).unwrap();
    let options = Options {
        compare_every: 2,
        remembered_max: 1,
    };
    let ranges = layout().ranges(StreamId(STREAM));
    Fixture {
        replica: Replica::new(options, STREAM, ranges, &follower).unwrap(),
        follower,
        store,
    }
}

impl Fixture {
    fn apply(&mut self, seq: Seq, message: &Message) -> Result<Applied, ReplicaError> {
        self.replica
            .on_message(seq, &message.encode(), &mut self.follower)
    }
}

fn user(range: RangeId) -> String {
    let slots = Store::in_memory().slot_key();
    let mut names = (0..).map(|n| format!("u{n}@x"));
    names
        .find(|name| slots.slot(name).range() == range)
        .unwrap()
}

fn put(range: RangeId, at: i64) -> Entry {
    let account = Account {
        created: Timestamp::from_millis(at),
        ..Account::default()
    };
    let user = user(range);
    Entry::new(
        range,
        appended::encode(Level::FIRST, &[Record::AccountPut { user, account }]).into(),
    )
}

fn message(epoch: Epoch, body: Body) -> Message {
    let author = Author {
        node: "other".to_owned(),
        incarnation: 1,
    };
    Message {
        author,
        number: 1,
        epoch,
        body,
        level: Level::FIRST,
    }
}

fn appends(epoch: Epoch, first: u64, check: Option<Check>) -> Message {
    let range = RangeId::from_index(0).unwrap();
    let runs = vec![Run::new(range, Position::new(first), 1)];
    let entries = vec![put(range, first as i64)];
    let body = Body::Appends {
        runs,
        check,
        entries,
    };
    message(epoch, body)
}

/// Goal: an epoch's messages count from its record on, and an older epoch's behind it are void.
#[test]
fn what_an_older_epoch_writes_behind_a_newer_one_is_void() {
    let mut one = fixture();
    let unbegun = one.apply(1, &appends(1, 1, None));
    assert!(matches!(unbegun, Err(ReplicaError::Message { seq: 1, .. })));
    let is_void = |applied| matches!(applied, Ok(Applied::Void(_)));
    assert!(matches!(
        one.apply(1, &message(1, Body::Epoch)),
        Ok(Applied::Began(_))
    ));
    assert!(matches!(
        one.apply(2, &appends(1, 1, None)),
        Ok(Applied::Changed(_))
    ));
    assert!(matches!(
        one.apply(3, &message(3, Body::Epoch)),
        Ok(Applied::Began(_))
    ));
    assert!(is_void(one.apply(4, &appends(1, 2, None))));
    assert!(is_void(one.apply(5, &message(2, Body::Epoch))));
    assert!(matches!(
        one.apply(6, &appends(3, 2, None)),
        Ok(Applied::Changed(_))
    ));
    assert_eq!(one.apply(6, &appends(3, 2, None)), Ok(Applied::Known));
    assert_eq!(one.replica.stats().void, 2);
    assert_eq!(one.replica.mark(), StreamMark { seq: 6, epoch: 3 });
}

/// Goal: what is missing, does not fit, or is not of this stream stops the replica, and it stands
/// where it stood.
#[test]
fn what_does_not_fit_is_refused() {
    let mut one = fixture();
    one.apply(1, &message(1, Body::Epoch)).unwrap();
    let gap = ReplicaError::Gap {
        applied: 1,
        found: 3,
    };
    assert_eq!(one.apply(3, &appends(1, 1, None)), Err(gap));
    let position = ReplicaError::Position {
        seq: 2,
        range: 0,
        first: 2,
        stands: 0,
    };
    assert_eq!(one.apply(2, &appends(1, 2, None)), Err(position));
    let foreign = RangeId::from_index(2).unwrap();
    let first = RangeId::from_index(0).unwrap();
    let run = |range, count| Run::new(range, Position::new(1), count);
    let bodies = [
        (vec![run(foreign, 1)], vec![put(foreign, 1)]),
        (vec![run(first, 2)], vec![put(first, 1)]),
        (vec![], vec![put(first, 1)]),
        (
            vec![run(first, 1)],
            vec![Entry::new(first, Bytes::from_static(&[0, 0, 0, 9]))],
        ),
    ];
    for (runs, entries) in bodies {
        let check = None;
        let body = Body::Appends {
            runs,
            check,
            entries,
        };
        let refused = one.apply(2, &message(1, body));
        assert!(
            matches!(refused, Err(ReplicaError::Message { seq: 2, .. })),
            "{refused:?}"
        );
    }
    let newer = one.replica.on_message(2, &[9, 9], &mut one.follower);
    assert!(newer.unwrap_err().to_string().contains("upgrade"));
    assert_eq!(one.replica.mark(), StreamMark { seq: 1, epoch: 1 });
    assert!(one.store.load_user(&user(first)).unwrap().is_none());
}

/// Goal: hashes that differ are reported with range and node; equal ones, and those of messages
/// that are not remembered any more, are not.
#[test]
fn other_hashes_at_the_same_message_are_a_divergence() {
    let mut one = fixture();
    one.apply(1, &message(1, Body::Epoch)).unwrap();
    one.apply(2, &appends(1, 1, None)).unwrap();
    let own = one.replica.latest_check().unwrap().clone();
    one.apply(3, &appends(1, 2, Some(own.clone()))).unwrap();
    assert_eq!(one.replica.take_divergence(), None);
    let mut other = own;
    other.hashes[0] ^= 1;
    one.apply(4, &appends(1, 3, Some(other.clone()))).unwrap();
    let divergence = Divergence {
        seq: 2,
        ranges: vec![RangeId::from_index(0).unwrap()],
        other: "other".to_owned(),
    };
    assert_eq!(one.replica.take_divergence(), Some(divergence));
    one.apply(5, &appends(1, 4, Some(other))).unwrap();
    assert_eq!(one.replica.take_divergence(), None);
    assert_eq!(one.replica.stats().compared, 2);
}
