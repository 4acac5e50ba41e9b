//! What a node does for entities of whom nobody has asked yet. At its start, and when ranges come
//! to it, users are loaded with sessions that can be resumed, or with messages that are not handed
//! on (docs/delivery.md). When ranges come, rooms are that have something to tell (docs/rooms.md):
//! the homes of those who are there live on elsewhere, and would not ask.

use std::thread;
use std::time::Duration;

use actor::{Handle, Name};
use stdx::time::Timestamp;
use store::{Looked, RangeId, Store, StoreError};
use wire::Message;

use crate::message::UserMsg;
use crate::options::Waking;
use crate::place::Place;
use crate::stored::rooms::{OWED, PRESENT};

/// Whether what is said to somebody who is at home here loads him for that reason alone: he may be
/// online and not be woken yet, and would stay offline for whoever asks. Only his home knows: the
/// asker's may have woken its own users long ago.
pub(crate) fn loads(place: &Place, to: &str, message: &Message) -> bool {
    matches!(message, Message::Probe { .. }) && !place.has_woken(to)
}

/// Longest pause between two questions whether the node stops.
const LOOK: Duration = Duration::from_millis(50);

/// Wakes users, as [`wake_all`] does.
pub(crate) fn wake(
    store: &Store,
    place: &Place,
    handle: &Handle,
    bounds: Waking,
    is_over: impl Fn() -> bool,
) {
    let page_max = bounds.page.max(1);
    let find = |after: Option<&str>| {
        let found = store.awake(after, page_max)?;
        let last = found.last().filter(|_| found.len() == page_max).cloned();
        Ok(Looked { found, last })
    };
    let woken = wake_all(find, (place, handle), bounds, &is_over);
    if woken > 0 {
        tracing::info!(users = woken, "took up what was not done");
    }
}

/// Wakes the rooms of a range that may owe something to those who are there, or to members: of what
/// was said last they hear from the room, and what of it was lost with the range's last home, the
/// room tells again once it is loaded. Gives how many.
pub(crate) fn wake_rooms(
    store: &Store,
    (place, handle): (&Place, &Handle),
    range: RangeId,
    (bounds, now): (Waking, Timestamp),
    is_over: impl Fn() -> bool,
) -> u64 {
    let age = i64::try_from(bounds.rooms.as_millis()).unwrap_or(i64::MAX);
    let since = Timestamp::from_millis(now.as_millis().saturating_sub(age));
    let owing = (since, &[PRESENT, OWED][..]);
    let find = |after: Option<&str>| store.lively_rooms(range, after, owing, bounds.page);
    wake_all(find, (place, handle), bounds, &is_over)
}

/// Wakes all that is found, a page at a time; gives up when the node stops, which is asked before
/// each page and often while something is waited for. What cannot be read is read again: nobody
/// else would ask for these.
fn wake_all(
    find: impl Fn(Option<&str>) -> Result<Looked, StoreError>,
    (place, handle): (&Place, &Handle),
    bounds: Waking,
    is_over: &impl Fn() -> bool,
) -> u64 {
    let mut after: Option<String> = None;
    let mut woken = 0;
    loop {
        let page = match find(after.as_deref()) {
            Ok(page) => page,
            Err(error @ StoreError::Corrupt(_)) => {
                tracing::error!(%error, "the list of what is not done is damaged: what is behind \
                    that is taken up when somebody asks for it; `roost verify` says more");
                return woken;
            }
            Err(error) => {
                tracing::error!(%error, "cannot read what is not done: tries again");
                if is_over_within(bounds.retry, is_over) {
                    return woken;
                }
                continue;
            }
        };
        for entity in &page.found {
            let wake = || UserMsg::Wake;
            if !send(place, handle, entity, wake, bounds.pace, is_over) {
                return woken;
            }
        }
        woken += page.found.len() as u64;
        if page.last.is_none() || is_over() {
            return woken;
        }
        after = page.last;
        // Leaves room for those who wait for the store on their own account.
        thread::sleep(bounds.pace);
    }
}

/// Waits; true if the node stops meanwhile.
fn is_over_within(time: Duration, is_over: impl Fn() -> bool) -> bool {
    for _ in 0..time.as_millis() / LOOK.as_millis() {
        if is_over() {
            return true;
        }
        thread::sleep(LOOK);
    }
    is_over()
}

/// Sends a user who may have to be loaded a message, as soon as there is room for it, which is
/// looked for after each `pause`; one who is at home elsewhere gets none. False if the node stops
/// before.
pub(crate) fn send(
    place: &Place,
    handle: &Handle,
    user: &str,
    msg: impl Fn() -> UserMsg,
    pause: Duration,
    is_over: impl Fn() -> bool,
) -> bool {
    if !place.is_here(place.range(user)) {
        return true;
    }
    let name = Name::from(user);
    while handle.send_named(place.shard(user), &name, msg()).is_err() {
        if is_over() {
            return false;
        }
        thread::sleep(pause);
    }
    true
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use store::{Durability, EntryFlags, FaultyEngine, LogEntry, MemoryEngine, Record, SlotKey};

    use super::*;

    /// Goal: whoever has something else to see to on this thread does so often while the store
    /// cannot be read, and a node that stops is not waited for.
    #[test]
    fn a_store_that_cannot_be_read_holds_up_nobody() {
        let slots = SlotKey::new([7; 16]);
        let disk = std::sync::Arc::new(FaultyEngine::new(MemoryEngine::new()));
        let store = Store::with_engine(disk.clone(), Durability::Fsync, slots).unwrap();
        let place = Place::new(slots, 1);
        let (handle, _shards) = actor::system(actor::Options::new(1, 7));
        let looks = Cell::new(0);
        let run = |bounds: Waking, fail: u64, looks_max: u32| {
            disk.faults().fail_reads(fail);
            looks.set(0);
            wake(&store, &place, &handle, bounds, || {
                looks.set(looks.get() + 1);
                looks.get() > looks_max
            });
            looks.get()
        };
        let usual = Waking::default();
        assert_eq!(run(usual, 0, u32::MAX), 0);
        let each = (usual.retry.as_millis() / LOOK.as_millis()) as u32;
        assert_eq!(run(usual, 2, u32::MAX), 2 * (each + 1));
        let short = Waking {
            retry: 2 * LOOK,
            ..usual
        };
        assert_eq!(run(short, 2, u32::MAX), 2 * (2 + 1));
        assert_eq!(run(usual, u64::MAX, 3), 4);
        disk.faults().fail_reads(0);
    }
    /// Goal: of the rooms of a range those are loaded that may owe something, on whatever pages
    /// they are, and no others.
    #[test]
    fn rooms_are_loaded_that_may_owe_something() {
        const NOW: i64 = 10_000_000;
        let slots = SlotKey::new([7; 16]);
        let engine = std::sync::Arc::new(MemoryEngine::new());
        let store = Store::with_engine(engine, Durability::Fsync, slots).unwrap();
        let place = Place::new(slots, 1);
        let (handle, _shards) = actor::system(actor::Options::new(1, 7));
        let make = |n: i64, part: &str, said_at: i64| {
            let user = format!("r{n}@conference.localhost");
            let entry = LogEntry {
                seq: 1,
                at: Timestamp::from_millis(said_at),
                flags: EntryFlags::ARCHIVED,
                ..LogEntry::default()
            };
            store.bulk([
                Record::RoomMake {
                    user: user.clone(),
                    creator: "hecate@localhost".to_owned(),
                    about: vec![0],
                },
                Record::RoomPut {
                    user: user.clone(),
                    part: part.to_owned(),
                    value: vec![1],
                },
                Record::LogAppend {
                    user: (&*user).into(),
                    entry,
                },
            ])
        };
        for n in 0..20 {
            make(n, "0", NOW - n * 1_000).unwrap();
        }
        make(20, PRESENT, 0).unwrap();
        make(21, OWED, 0).unwrap();
        let loaded = |bounds: Waking| {
            let now = Timestamp::from_millis(NOW);
            let of_node = (&place, &handle);
            let wake = |range| wake_rooms(&store, of_node, range, (bounds, now), || false);
            RangeId::all().map(wake).sum::<u64>()
        };
        let usual = Waking::default();
        for page in [1, 2, usual.page] {
            assert_eq!(loaded(Waking { page, ..usual }), 22);
            let rooms = Duration::from_secs(4);
            let bounds = Waking {
                page,
                rooms,
                ..usual
            };
            assert_eq!(loaded(bounds), 5 + 2, "none that is older");
        }
    }
}
