//! The user directory in the store: who is in it, for how long, and what an entry may be.

mod common;

use std::sync::Arc;

use common::{KEY, put};
use store::limits::DIRECTORY_FIELD_BYTES_MAX;
use store::{DirectoryEntry, Durability, MemoryEngine, Record, RecordError, Store};

const JULIET: &str = "juliet@localhost";

fn entry(nick: &str) -> DirectoryEntry {
    DirectoryEntry {
        nick: nick.to_owned(),
        ..DirectoryEntry::default()
    }
}

fn say(user: &str, nick: &str) -> Record {
    Record::DirectoryPut {
        user: user.to_owned(),
        entry: entry(nick),
    }
}

fn listed(store: &Store) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let visited = store.visit_directory(|user, entry| {
        all.push((user.to_owned(), entry.nick.clone()));
        true
    });
    visited.unwrap();
    all.sort();
    assert!(store.verify().unwrap().is_good());
    all
}

#[test]
fn an_entry_stays_until_it_is_empty_or_its_account_goes() {
    let engine = Arc::new(MemoryEngine::new());
    let store = || Store::with_engine(Arc::clone(&engine) as _, Durability::Fsync, KEY).unwrap();
    let kept = store();
    kept.bulk([say(JULIET, "early")]).unwrap();
    assert_eq!(listed(&kept), [], "there is no such account");
    kept.bulk([put(JULIET), put("romeo@localhost")]).unwrap();
    kept.bulk([say(JULIET, "Jule"), say("romeo@localhost", "Ro")])
        .unwrap();
    drop(kept);
    let kept = store();
    let of = |user: &str, nick: &str| (user.to_owned(), nick.to_owned());
    let both = [of(JULIET, "Jule"), of("romeo@localhost", "Ro")];
    assert_eq!(listed(&kept), both);
    assert_eq!(kept.directory_entry(JULIET).unwrap(), Some(entry("Jule")));
    kept.bulk([say("romeo@localhost", "")]).unwrap();
    assert_eq!(listed(&kept), both[..1]);
    let gone = Record::AccountRemove {
        user: JULIET.to_owned(),
    };
    kept.bulk([gone, put(JULIET)]).unwrap();
    assert_eq!(listed(&kept), [], "the next owner of a name is not listed");
    assert_eq!(kept.directory_entry(JULIET).unwrap(), None);
}

#[test]
fn a_visit_ends_where_it_is_told_to() {
    let store = Store::in_memory();
    let users = ["a@x", "b@x", "c@x"];
    store.bulk(users.map(put)).unwrap();
    store.bulk(users.map(|user| say(user, "n"))).unwrap();
    let mut seen = 0;
    let visited = store.visit_directory(|_, _| {
        seen += 1;
        seen < 2
    });
    visited.unwrap();
    assert_eq!(seen, 2);
}

#[test]
fn a_field_has_a_bound() {
    let long = |bytes: usize| say(JULIET, &"x".repeat(bytes)).check();
    assert_eq!(long(DIRECTORY_FIELD_BYTES_MAX), Ok(()));
    let refused = RecordError::TooMany("bytes of a field of the directory");
    assert_eq!(long(DIRECTORY_FIELD_BYTES_MAX + 1), Err(refused));
}
