//! Rooms of the node in one list: those of the store, and those that are in none. Whoever lists
//! rooms, or counts how many somebody has made, finds them here, and how many are in which room. A
//! room says so when that changes (`room/listed.rs`); nothing of it is on the message path.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use actor::Name;
use room::Listed;
use store::{Side, StoreError};

use crate::address;

/// What is said about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Temporary {
    /// Who made it.
    pub(crate) creator: Name,
    pub(crate) listed: Listed,
}

impl Inner {
    fn has_one_less(&mut self, creator: &Name) {
        if let Some(count) = self.made.get_mut(creator) {
            *count -= 1;
            if *count == 0 {
                self.made.remove(creator);
            }
        }
    }
}

/// A room that is counted before it is there: rooms are made on all shards at once.
pub(crate) struct Reserved {
    table: Arc<Table>,
    creator: Name,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.table.lock().has_one_less(&self.creator);
    }
}

/// In the order of range and address, as the store lists its rooms.
pub(crate) type Place = (u16, Name);

/// Of one that everybody may know of: its domain, its address, and where it is.
type Public = (String, Name);

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Table(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    rooms: BTreeMap<Place, Temporary>,
    /// Those that everybody may know of, with their ranges.
    public: BTreeMap<Public, u16>,
    made: BTreeMap<Name, u32>,
    /// Occupants of rooms that have any, of both kinds.
    occupants: BTreeMap<Name, u32>,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a room in, replaces what is said about it, or takes it out.
    pub(crate) fn set(&self, place: &Place, room: Option<Temporary>) {
        let mut inner = self.lock();
        let creator = room.as_ref().map(|room| Name::clone(&room.creator));
        let public = (address::domain(&place.1).to_owned(), Name::clone(&place.1));
        match room.as_ref().is_some_and(|room| room.listed.is_public) {
            true => inner.public.insert(public, place.0),
            false => inner.public.remove(&public),
        };
        let old = match room {
            Some(room) => inner.rooms.insert(place.clone(), room),
            None => inner.rooms.remove(place),
        };
        if let Some(creator) = creator {
            *inner.made.entry(creator).or_insert(0) += 1;
        }
        if let Some(old) = old {
            inner.has_one_less(&old.creator);
        }
    }

    /// Counts a room that somebody is about to make, unless he has made `max` with it and `stored`
    /// others. It is counted until what this gives is dropped; then the room itself is.
    pub(crate) fn reserve(
        self: &Arc<Self>,
        creator: &Name,
        stored: u32,
        max: u32,
    ) -> Option<Reserved> {
        let mut inner = self.lock();
        let made = inner.made.get(creator).copied().unwrap_or(0);
        (made.saturating_add(stored) < max).then(|| {
            inner.made.insert(Name::clone(creator), made + 1);
            Reserved {
                table: Arc::clone(self),
                creator: Name::clone(creator),
            }
        })
    }

    /// Occupants of a room; those of one that is not here are none.
    pub(crate) fn occupants(&self, room: &str) -> u32 {
        self.lock().occupants.get(room).copied().unwrap_or(0)
    }

    pub(crate) fn set_occupants(&self, room: &Name, count: u32) {
        let mut inner = self.lock();
        match count {
            0 => inner.occupants.remove(room),
            count => inner.occupants.insert(Name::clone(room), count),
        };
    }

    /// Whether there is one at a place.
    pub(crate) fn has(&self, place: &Place) -> bool {
        self.lock().rooms.contains_key(place)
    }

    /// How many somebody has made.
    pub(crate) fn made_by(&self, creator: &str) -> u32 {
        let inner = self.lock();
        inner.made.get(creator).copied().unwrap_or(0)
    }

    /// Those of a domain that everybody may know of, on one side of a place in the order of their
    /// addresses, at most `limit`, the nearest first. Nothing else is looked at.
    fn public_page(&self, domain: &str, side: Side<'_>, limit: usize) -> Vec<(Name, Temporary)> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let at = |room: &str| (domain.to_owned(), Name::from(room));
        let inner = self.lock();
        let known = |((_, room), range): (&(String, Name), &_)| {
            let found = inner.rooms.get(&(*range, Name::clone(room)))?;
            Some((Name::clone(room), found.clone()))
        };
        match side {
            Side::Behind(after) => {
                let start = Excluded(at(after.unwrap_or_default()));
                let page = inner.public.range((start, Unbounded));
                let page = page.take_while(|((own, _), _)| own == domain).take(limit);
                page.filter_map(known).collect()
            }
            Side::Before(before) => {
                let end = match before {
                    Some(before) => at(before),
                    // What follows every room of the domain.
                    None => (format!("{domain}\0"), Name::from("")),
                };
                let page = inner.public.range((Included(at("")), Excluded(end)));
                page.rev().take(limit).filter_map(known).collect()
            }
        }
    }

    /// Those that follow a place, in order, at most `limit`.
    pub(crate) fn page(&self, after: Option<&Place>, limit: usize) -> Vec<(Place, Temporary)> {
        use std::ops::Bound;
        let start = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.clone()));
        let inner = self.lock();
        let page = inner.rooms.range((start, Bound::Unbounded)).take(limit);
        page.map(|(place, room)| (place.clone(), room.clone()))
            .collect()
    }
}

/// Rooms of the whole node in one order: those of the store, and those that are in none.
pub(crate) struct Listing {
    pub(crate) store: store::Store,
    pub(crate) rooms: Arc<Table>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) room: Name,
    pub(crate) creator: String,
    pub(crate) listed: Listed,
    pub(crate) is_persistent: bool,
}

/// A page of the rooms of a domain that everybody may know of.
#[derive(Debug, Default)]
pub(crate) struct PublicPage {
    /// In the order of their addresses.
    pub(crate) entries: Vec<Entry>,
    /// There are more on the side that was asked for.
    pub(crate) has_more: bool,
    /// Where the next page goes on.
    pub(crate) last: Option<Name>,
}

/// Rooms that are looked at at a time.
pub(crate) const LISTING_PAGE: usize = 256;

impl Entry {
    /// A room of the store, unless what is said about it is damaged.
    fn stored(room: &str, found: store::ListedRoom) -> Option<Entry> {
        let Ok(listed) = Listed::decode(&found.about) else {
            tracing::error!(room, "what is said about a room is damaged");
            return None;
        };
        Some(Entry {
            room: Name::from(room),
            creator: found.creator,
            is_persistent: !listed.is_temporary,
            listed,
        })
    }

    /// One that is in no store.
    fn temporary(room: &Name, found: Temporary) -> Entry {
        Entry {
            room: Name::clone(room),
            creator: String::from(&*found.creator),
            listed: found.listed,
            is_persistent: false,
        }
    }
}

impl Listing {
    fn place(&self, room: &str) -> Place {
        let range = self.store.slot_key().slot(room).range();
        (range.index(), Name::from(room))
    }

    /// A page of the rooms of a domain that everybody may know of, behind one or before one: it
    /// costs what it shows, however many others there are. Fewer than `limit` are there if
    /// something is damaged.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub(crate) fn public(
        &self,
        domain: &str,
        side: Side<'_>,
        limit: usize,
    ) -> Result<PublicPage, StoreError> {
        let stored = self.store.public_rooms(domain, side, limit + 1)?;
        let temporary = self.rooms.public_page(domain, side, limit + 1);
        let mut all: BTreeMap<Name, Option<Entry>> = BTreeMap::new();
        for (room, found) in stored {
            all.insert(Name::from(&*room), Entry::stored(&room, found));
        }
        for (room, found) in temporary {
            let entry = Entry::temporary(&room, found);
            all.insert(room, Some(entry));
        }
        let mut page = PublicPage {
            has_more: all.len() > limit,
            ..PublicPage::default()
        };
        let left_out = match side {
            Side::Behind(_) => 0,
            Side::Before(_) => all.len().saturating_sub(limit),
        };
        for (room, entry) in all.into_iter().skip(left_out).take(limit) {
            page.last = Some(room);
            page.entries.extend(entry);
        }
        Ok(page)
    }

    /// Visits rooms behind one, in order, until `visit` says that it is enough.
    pub(crate) fn visit(
        &self,
        after: Option<&str>,
        mut visit: impl FnMut(Entry) -> bool,
    ) -> Result<(), StoreError> {
        let mut after = after.map(str::to_owned);
        loop {
            let stored = self.store.rooms(after.as_deref(), LISTING_PAGE)?;
            let place = after.as_deref().map(|after| self.place(after));
            let temporary = self.rooms.page(place.as_ref(), LISTING_PAGE);
            let is_last = stored.len() < LISTING_PAGE && temporary.len() < LISTING_PAGE;
            // Beyond the end of a page that is full the other list says nothing.
            let own = stored.last().filter(|_| stored.len() == LISTING_PAGE);
            let end = own.map(|(room, _)| self.place(room)).into_iter();
            let other = temporary.last().filter(|_| temporary.len() == LISTING_PAGE);
            let end = end.chain(other.map(|(place, _)| place.clone())).min();
            let mut all = BTreeMap::new();
            for (room, found) in stored {
                if let Some(entry) = Entry::stored(&room, found) {
                    all.insert(self.place(&room), entry);
                }
            }
            for (place, found) in temporary {
                let entry = Entry::temporary(&place.1, found);
                all.insert(place, entry);
            }
            for (place, entry) in all {
                if end.as_ref().is_some_and(|end| place > *end) {
                    break;
                }
                after = Some(String::from(&*entry.room));
                if !visit(entry) {
                    return Ok(());
                }
            }
            if is_last {
                return Ok(());
            }
            after = end.map(|(_, room)| String::from(&*room)).or(after);
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{Record, Store};

    use super::*;

    fn room(n: u32) -> String {
        format!("room{n}@conference.localhost")
    }

    fn listed(n: u32) -> Listed {
        Listed {
            name: n.to_string(),
            is_public: n.is_multiple_of(2),
            ..Listed::default()
        }
    }

    fn all(listing: &Listing, after: Option<&str>, limit: usize) -> Vec<String> {
        let mut found = Vec::new();
        let visit = |entry: Entry| {
            found.push(String::from(&*entry.room));
            found.len() < limit
        };
        listing.visit(after, visit).unwrap();
        found
    }

    #[test]
    fn rooms_of_both_kinds_are_visited_once_and_in_one_order() {
        const ROOMS: u32 = 3 * LISTING_PAGE as u32 + 17;
        for every in [1, 2, 3, ROOMS + 1] {
            let listing = Listing {
                store: Store::in_memory(),
                rooms: Arc::default(),
            };
            let (kept, temporary): (Vec<u32>, Vec<u32>) = (0..ROOMS).partition(|n| n % every == 0);
            let make = |n: &u32| Record::RoomMake {
                user: room(*n),
                creator: "a@localhost".into(),
                about: listed(*n).encode(),
            };
            listing.store.bulk(kept.iter().map(make)).unwrap();
            for n in temporary {
                let found = Temporary {
                    creator: Name::from("b@localhost"),
                    listed: listed(n),
                };
                let place = listing.place(&room(n));
                listing.rooms.set(&place, Some(found));
            }
            let found = all(&listing, None, usize::MAX);
            let mut sorted = found.clone();
            sorted.sort();
            let mut expected: Vec<String> = (0..ROOMS).map(room).collect();
            expected.sort();
            assert_eq!(sorted, expected);
            // Page by page it is the same.
            let mut paged: Vec<String> = Vec::new();
            while paged.len() < ROOMS as usize {
                let after = paged.last().cloned();
                paged.extend(all(&listing, after.as_deref(), 100));
            }
            assert_eq!(paged, found);
        }
    }

    #[test]
    fn public_rooms_of_both_kinds_are_in_one_order_and_nothing_else_is_read() {
        const ROOMS: u32 = 100;
        let listing = Listing {
            store: Store::in_memory(),
            rooms: Arc::default(),
        };
        let make = |n: u32| Record::RoomMake {
            user: room(n),
            creator: "a@localhost".into(),
            about: listed(n).encode(),
        };
        // Every second one is public, every third one is in no store.
        let stored = (0..ROOMS).filter(|n| n % 3 != 0);
        listing.store.bulk(stored.map(make)).unwrap();
        let set = |n: u32, listed: Option<Listed>| {
            let found = listed.map(|listed| Temporary {
                creator: Name::from("b@localhost"),
                listed,
            });
            listing.rooms.set(&listing.place(&room(n)), found);
        };
        (0..ROOMS).step_by(3).for_each(|n| set(n, Some(listed(n))));
        let pages = |limit: usize| {
            let (mut all, mut count, mut after) = (Vec::new(), 0, None);
            loop {
                let side = Side::Behind(after.as_deref());
                let page = listing.public("conference.localhost", side, limit);
                let page = page.unwrap();
                count += 1;
                all.extend(page.entries.iter().map(|entry| String::from(&*entry.room)));
                if !page.has_more {
                    return (all, count);
                }
                assert_eq!(page.entries.len(), limit);
                after = page.last.map(|last| String::from(&*last));
            }
        };
        let mut expected: Vec<String> = (0..ROOMS).step_by(2).map(room).collect();
        expected.sort();
        for limit in [1, 7, 50, 51] {
            let count = expected.len().div_ceil(limit);
            assert_eq!(pages(limit), (expected.clone(), count));
        }
        let back = |limit: usize| {
            let mut all: Vec<String> = Vec::new();
            loop {
                let side = Side::Before(all.first().map(|first| &**first));
                let page = listing.public("conference.localhost", side, limit);
                let page = page.unwrap();
                let found = page.entries.iter();
                let found = found.map(|entry| String::from(&*entry.room));
                all.splice(0..0, found);
                if !page.has_more {
                    return all;
                }
                assert_eq!(page.entries.len(), limit);
            }
        };
        for limit in [1, 7, 50, 51] {
            assert_eq!(back(limit), expected);
        }
        let start = Side::Behind(None);
        let none = listing.public("conference.localhost", start, 0).unwrap();
        assert!(none.has_more && none.entries.is_empty());
        let elsewhere = listing.public("localhost", start, 9).unwrap();
        assert!(!elsewhere.has_more && elsewhere.entries.is_empty());
        // One that hides, and one that ends.
        set(0, Some(listed(1)));
        set(6, None);
        expected.retain(|own| *own != room(0) && *own != room(6));
        assert_eq!(pages(10).0, expected);
        assert_eq!(listing.rooms.lock().public.len(), 15);
    }

    #[test]
    fn occupants_are_counted_while_there_are_any() {
        let table = Table::default();
        let (one, other) = (Name::from("a@x"), Name::from("b@x"));
        table.set_occupants(&one, 3);
        table.set_occupants(&other, 1);
        assert_eq!((table.occupants("a@x"), table.occupants("b@x")), (3, 1));
        table.set_occupants(&other, 0);
        assert_eq!(table.occupants("b@x"), 0);
        assert_eq!(table.lock().occupants.len(), 1);
    }

    #[test]
    fn rooms_that_are_being_made_count_too() {
        let (table, creator) = (Arc::<Table>::default(), Name::from("a@x"));
        let first = table.reserve(&creator, 1, 3).expect("the second of three");
        let second = table.reserve(&creator, 1, 3).expect("the third");
        assert!(table.reserve(&creator, 1, 3).is_none());
        assert!(table.reserve(&Name::from("b@x"), 0, 1).is_some());
        drop(first);
        assert!(table.reserve(&creator, 1, 3).is_some(), "one was not made");
        drop(second);
        assert_eq!(table.made_by("a@x"), 0);
        assert!(table.lock().made.is_empty());
    }

    #[test]
    fn rooms_are_counted_by_who_made_them() {
        let table = Table::default();
        let of = |creator: &str| {
            Some(Temporary {
                creator: Name::from(creator),
                listed: listed(1),
            })
        };
        let place = |n: u16| (n, Name::from(&*room(u32::from(n))));
        table.set(&place(1), of("a@x"));
        table.set(&place(2), of("a@x"));
        assert_eq!(table.made_by("a@x"), 2);
        table.set(&place(2), of("a@x"));
        assert_eq!(table.made_by("a@x"), 2, "what is said about it has changed");
        table.set(&place(2), of("b@x"));
        assert_eq!((table.made_by("a@x"), table.made_by("b@x")), (1, 1));
        table.set(&place(1), None);
        table.set(&place(1), None);
        assert_eq!((table.made_by("a@x"), table.made_by("b@x")), (0, 1));
    }
}
