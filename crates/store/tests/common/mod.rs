//! What the tests of the store share: sample records, journals that are waited for, dumps of an
//! engine.
#![allow(dead_code)] // Each test binary uses its part.

use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use stdx::time::Timestamp;
use store::{
    Account, Append, EntryFlags, Journal, LogEntry, Outcome, RangeId, Reader, Record, Roster,
    RosterItem, ScramHash, ScramKeys, SlotKey, Space, Subscription, Tenure, Writer,
};

pub(crate) const KEY: SlotKey = SlotKey::new(*b"store test key 1");

pub(crate) fn range_of(slots: SlotKey, user: &str) -> RangeId {
    slots.slot(user).range()
}

pub(crate) fn account(iterations: u32) -> Account {
    let keys = |hash, len| ScramKeys {
        hash,
        iterations,
        salt: vec![7; 16],
        stored_key: vec![8; len],
        server_key: vec![9; len],
    };
    Account {
        created: Timestamp::from_millis(1_700_000_000_000),
        locked: false,
        scram: vec![keys(ScramHash::Sha1, 20), keys(ScramHash::Sha256, 32)],
    }
}

pub(crate) fn put(user: &str) -> Record {
    Record::AccountPut {
        user: user.to_owned(),
        account: account(4_096),
    }
}

pub(crate) fn item(jid: &str) -> RosterItem {
    RosterItem {
        jid: jid.to_owned(),
        name: "A Friend".to_owned(),
        groups: vec!["Friends".to_owned()],
        subscription: Subscription::Both,
        listed: true,
        ..RosterItem::default()
    }
}

pub(crate) fn roster(contacts: usize) -> Roster {
    Roster {
        version: 1,
        items: (0..contacts)
            .map(|n| item(&format!("u{n:07}@localhost")))
            .collect(),
    }
}

pub(crate) fn message(user: &str, seq: u64, body: &str) -> Record {
    Record::LogAppend {
        user: user.into(),
        entry: LogEntry {
            seq,
            at: Timestamp::from_millis(1_700_000_000_000 + seq as i64),
            peer: "romeo@localhost".into(),
            frame: format!("<message to='{user}'><body>{body}</body></message>")
                .into_bytes()
                .into(),
            flags: EntryFlags::WAITING,
            ..LogEntry::default()
        },
    }
}

/// Hands appends over and waits for the outcomes.
pub(crate) fn append_all(journal: &dyn Journal, appends: Vec<Append>) -> Vec<Outcome> {
    let (send, receive) = sync_channel(1);
    journal
        .append(
            appends,
            Box::new(move |outcomes| send.send(outcomes).unwrap()),
        )
        .unwrap();
    receive.recv().unwrap()
}

/// Appends records of one user in a tenure of its own.
pub(crate) fn append(journal: &dyn Journal, slots: SlotKey, records: Vec<Record>) -> Outcome {
    let range = range_of(slots, records[0].user());
    let append = one(range, journal.take(range), records);
    append_all(journal, vec![append]).remove(0)
}

/// An append that depends on no other one.
pub(crate) fn one(range: RangeId, tenure: Tenure, records: Vec<Record>) -> Append {
    Append {
        range,
        tenure,
        writer: Writer::NOBODY,
        records,
    }
}

/// Waits until the journal knows what became of an append in doubt.
pub(crate) fn resolved(outcome: Outcome) -> Outcome {
    let Outcome::InDoubt(doubt) = outcome else {
        panic!("in no doubt: {outcome:?}");
    };
    for _ in 0..1_200 {
        match doubt.resolved() {
            Some(outcome) => return outcome,
            None => thread::sleep(Duration::from_millis(25)),
        }
    }
    panic!("in doubt for half a minute");
}

pub(crate) fn committed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Committed(_))
}

pub(crate) type Dump = Vec<(Space, Vec<u8>, Vec<u8>)>;

/// Everything that a reader holds.
pub(crate) fn dump(reader: &dyn Reader) -> Dump {
    let mut all = Dump::new();
    for space in Space::ALL {
        reader
            .scan(space, &[], &[], &mut |key, value| {
                all.push((space, key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            })
            .unwrap();
    }
    all
}
