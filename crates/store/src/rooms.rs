//! Rooms in the store: what has a log like an account, parts instead of a profile, and a place in
//! the list of rooms. Owns what of that is written when; what a part means is the server's. Part of
//! `apply`: the same rules bind.
//!
//! A room that nobody is in costs its keys and nothing else: nobody looks at it before it is asked
//! for, and a list of rooms reads only the keys of the list.

use serde::{Deserialize, Serialize};
use stdx::time::Timestamp;

use crate::apply::{Entity, Txn, blob};
use crate::delivery::{EntryFlags, LogEntry, Recognition};
use crate::engine::{Reader, Space};
use crate::error::StoreError;
use crate::keys;
use crate::limits::ACCOUNTS_PAGE_MAX;
use crate::log::read_head;
use crate::page::{Looked, PageQuery};
use crate::scan;
use crate::slot::{RangeId, SlotKey};
use crate::state::{Kind, LogHead, VALUE_VERSION, decode, encode};
use crate::store::{Store, blob_body, read_recognition};

/// A room as the list of rooms has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedRoom {
    /// Who made it.
    pub creator: String,
    /// What the server says about it.
    #[serde(with = "crate::octets")]
    pub about: Vec<u8>,
}

/// One side of a place in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side<'a> {
    /// What follows one, or the list from its beginning.
    Behind(Option<&'a str>),
    /// What is in front of one, or the end of the list.
    Before(Option<&'a str>),
}

impl ListedRoom {
    /// Whether everybody may know of the room. What the server says about it begins with a byte, a
    /// text and this flag, as postcard writes them; the rest is the server's alone.
    pub fn is_public(&self) -> bool {
        let body = self.about.get(1..).unwrap_or_default();
        let found = postcard::take_from_bytes::<(&str, bool)>(body);
        found.is_ok_and(|((_, is_public), _)| is_public)
    }
}

/// What a room is made of, in one read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRoom {
    /// As the list has it.
    pub listed: ListedRoom,
    /// Names and values of its parts, in the order of their names.
    pub parts: Vec<(String, Vec<u8>)>,
    /// Where its log stands.
    pub log: LogHead,
    /// What recognises messages that come again.
    pub recognition: Recognition,
    /// There are senders that [`StoredRoom::recognition`] has no room for: [`Store::mark_of`] knows
    /// them.
    pub has_older_marks: bool,
    /// The latest archived entries, the oldest first.
    pub latest: Vec<LogEntry>,
}

impl<T: Txn> Entity<'_, T> {
    pub(crate) fn room_make(&mut self, creator: &str, about: &[u8]) -> Result<(), StoreError> {
        self.unlist()?;
        if !self.head.live {
            self.begin(Kind::Room);
        }
        let listed = ListedRoom {
            creator: creator.to_owned(),
            about: about.to_vec(),
        };
        let key = keys::room(self.slots, self.user);
        let value = encode(VALUE_VERSION, &listed);
        if listed.is_public() {
            let public = keys::public(self.user);
            self.txn.put(Space::Meta, public, value.clone());
        }
        self.txn.put(Space::Meta, key, value);
        let made = keys::made(self.slots.peer(creator), self.user);
        self.txn.put(Space::Meta, made, Vec::new());
        Ok(())
    }

    /// Takes the room off all lists.
    fn unlist(&mut self) -> Result<(), StoreError> {
        let key = keys::room(self.slots, self.user);
        if let Some(value) = self.txn.get(Space::Meta, &key)? {
            let listed: ListedRoom = decode(&value, self.user)?;
            let made = keys::made(self.slots.peer(&listed.creator), self.user);
            self.txn.delete(Space::Meta, made);
            if listed.is_public() {
                self.txn.delete(Space::Meta, keys::public(self.user));
            }
            self.txn.delete(Space::Meta, key);
        }
        Ok(())
    }

    pub(crate) fn room_put(&mut self, part: &str, value: &[u8]) -> Result<(), StoreError> {
        let key = keys::room_part(self.slots, self.user, part);
        self.blob_put(key, blob(value))
    }

    pub(crate) fn room_remove(&mut self) -> Result<(), StoreError> {
        self.unlist()?;
        self.forget()
    }
}

impl Store {
    /// A room with its latest `limit` archived entries, in one snapshot; `None` if there is none.
    /// With it comes the number that an entry gets next, whether there is a room or was one.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while a change of the room is in doubt; any [`StoreError`] of a
    /// read.
    pub fn load_room(
        &self,
        room: &str,
        limit: usize,
    ) -> Result<(u64, Option<StoredRoom>), StoreError> {
        self.in_doubt().check(room)?;
        let (slots, snapshot) = (self.slot_key(), self.snapshot()?);
        let first = self.first_head().next_seq;
        let Some(mut head) = read_head(&*snapshot, &slots, room)? else {
            return Ok((first, None));
        };
        // Numbers of earlier epochs may have been given out after the backup was taken.
        head.log.next_seq = head.log.next_seq.max(first);
        if !head.live || head.kind != Kind::Room {
            return Ok((head.log.next_seq, None));
        }
        let listed = snapshot.get(Space::Meta, &keys::room(&slots, room))?;
        let listed = listed.ok_or_else(|| StoreError::Corrupt(format!("{room}: is not listed")))?;
        let (start, end) = keys::room_parts(&slots, room, "");
        let (run, all) = ((&*start, &*end), usize::MAX);
        let parts = scan::collect(&*snapshot, Space::Blob, run, all, |key, value| {
            let part = keys::parse_owned(key).and_then(|(_, _, rest)| keys::parse_blob(rest));
            match part {
                Some(keys::Blob::RoomPart(part)) => Ok((part.to_owned(), blob_body(value)?)),
                _ => Err(StoreError::Corrupt(format!("{room}: key of a part"))),
            }
        })?;
        let (recognition, left_out) = read_recognition(&*snapshot, &slots, room, &head)?;
        let query = PageQuery {
            flags: EntryFlags::ARCHIVED,
            limit,
            backwards: true,
            ..PageQuery::default()
        };
        let latest = crate::page::page_of(&*snapshot, slots, room, &query)?.entries;
        let stored = StoredRoom {
            listed: decode(&listed, room)?,
            parts,
            log: head.log,
            recognition,
            has_older_marks: head.has_older_marks || left_out,
            latest,
        };
        Ok((head.log.next_seq, Some(stored)))
    }

    /// A page of the list of rooms, with what it says about each, in the order of range and
    /// address: those that follow `after`, at most `limit` and never more than
    /// [`ACCOUNTS_PAGE_MAX`]. Fewer than asked for means that there are no more.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn rooms(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(String, ListedRoom)>, StoreError> {
        let limit = limit.min(ACCOUNTS_PAGE_MAX);
        let (start, end) = keys::rooms_behind(&self.slot_key(), after);
        let (run, snapshot) = ((&*start, &*end), self.snapshot()?);
        scan::collect(
            &*snapshot,
            Space::Meta,
            run,
            limit,
            |key, value| match keys::parse_meta(key) {
                Some(keys::Meta::Room(_, room)) => {
                    Ok((room.to_owned(), decode(value, "list of rooms")?))
                }
                _ => Err(StoreError::Corrupt("key in the list of rooms".to_owned())),
            },
        )
    }

    /// Looks at the next `limit` rooms of a range, never more than [`ACCOUNTS_PAGE_MAX`], in the
    /// order of their addresses, those that follow `after`: in which somebody has spoken at this
    /// time or later, or which have a part whose name begins with one of these. One that is damaged
    /// is passed over: it would be read in vain.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn lively_rooms(
        &self,
        range: RangeId,
        after: Option<&str>,
        (since, parts): (Timestamp, &[&str]),
        limit: usize,
    ) -> Result<Looked, StoreError> {
        let limit = limit.clamp(1, ACCOUNTS_PAGE_MAX);
        let (slots, snapshot) = (self.slot_key(), self.snapshot()?);
        let (start, end) = keys::rooms_of(&slots, range, after);
        let run = (&*start, &*end);
        let rooms = names(&*snapshot, run, limit, "key in the list of rooms")?;
        let mut looked = Looked {
            last: rooms.last().filter(|_| rooms.len() == limit).cloned(),
            found: Vec::new(),
        };
        for room in rooms {
            let mut is_lively = match read_head(&*snapshot, &slots, &room) {
                Ok(head) => head.is_some_and(|head| head.log.last_at >= since),
                Err(StoreError::Corrupt(_)) => continue,
                Err(error) => return Err(error),
            };
            for part in parts {
                let (start, end) = keys::room_parts(&slots, &room, part);
                is_lively = is_lively || has_any(&*snapshot, Space::Blob, (&start, &end))?;
            }
            if is_lively {
                looked.found.push(room);
            }
        }
        Ok(looked)
    }

    /// A page of a domain's rooms that everybody may know of, in the order of their addresses: at
    /// most `limit` on one side of a place, and never more than [`ACCOUNTS_PAGE_MAX`]. Nothing else
    /// is looked at. Fewer than asked for means that there are no more on that side.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn public_rooms(
        &self,
        domain: &str,
        side: Side<'_>,
        limit: usize,
    ) -> Result<Vec<(String, ListedRoom)>, StoreError> {
        let limit = limit.min(ACCOUNTS_PAGE_MAX);
        let snapshot = self.snapshot()?;
        let parse = |key: &[u8], value: &[u8]| match keys::parse_meta(key) {
            Some(keys::Meta::Public(room)) => {
                Ok((room.to_owned(), decode(value, "list of public rooms")?))
            }
            _ => Err(StoreError::Corrupt("key of a public room".to_owned())),
        };
        match side {
            Side::Behind(after) => {
                let (start, end) = keys::public_behind(domain, after);
                scan::collect(&*snapshot, Space::Meta, (&start, &end), limit, parse)
            }
            Side::Before(before) => {
                let (start, end) = keys::public_before(domain, before);
                scan::collect_back(&*snapshot, Space::Meta, (&start, &end), limit, parse)
            }
        }
    }

    /// A room as the list has it; `None` if there is no such room.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn room(&self, room: &str) -> Result<Option<ListedRoom>, StoreError> {
        let key = keys::room(&self.slot_key(), room);
        let value = self.snapshot()?.get(Space::Meta, &key)?;
        value.map(|value| decode(&value, room)).transpose()
    }

    /// Rooms that somebody made and that are still there, at most `limit` and never more than
    /// [`ACCOUNTS_PAGE_MAX`].
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn rooms_made_by(&self, creator: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let limit = limit.min(ACCOUNTS_PAGE_MAX);
        let (start, end) = keys::made_by(self.slot_key().peer(creator));
        let (run, snapshot) = ((&*start, &*end), self.snapshot()?);
        names(&*snapshot, run, limit, "key of a room by its maker")
    }
}

/// The rooms that a run of keys of one kind names, at most `limit`; `what` they are.
fn names(
    reader: &dyn Reader,
    run: (&[u8], &[u8]),
    limit: usize,
    what: &str,
) -> Result<Vec<String>, StoreError> {
    let name = |key: &[u8], _: &[u8]| match keys::parse_meta(key) {
        Some(keys::Meta::Room(_, room) | keys::Meta::Made(_, room)) => Ok(room.to_owned()),
        _ => Err(StoreError::Corrupt(what.to_owned())),
    };
    scan::collect(reader, Space::Meta, run, limit, name)
}

fn has_any(reader: &dyn Reader, space: Space, run: (&[u8], &[u8])) -> Result<bool, StoreError> {
    let any = scan::collect(reader, space, run, 1, |_, _| Ok(()))?;
    Ok(!any.is_empty())
}

/// Whether a key by a room's maker says what the list of rooms says.
pub(crate) fn is_made_by(
    reader: &dyn Reader,
    slots: &SlotKey,
    creator: u64,
    room: &str,
) -> Result<(), String> {
    let listed = reader.get(Space::Meta, &keys::room(slots, room));
    let listed = listed.map_err(|error| error.to_string())?;
    let listed = listed.map(|value| decode::<ListedRoom>(&value, room));
    match listed.transpose().map_err(|error| error.to_string())? {
        Some(listed) if slots.peer(&listed.creator) == creator => Ok(()),
        _ => Err(format!(
            "{room}: somebody made it whom the list does not name"
        )),
    }
}
