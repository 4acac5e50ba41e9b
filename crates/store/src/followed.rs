//! How far sessions have read the logs of rooms that they are in (docs/rooms.md): the layout of it,
//! what changes it, and how it is read. The messages are in the rooms' logs and nowhere else. Part
//! of `apply`: the same rules bind.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::apply::{Entity, Txn};
use crate::delivery::NumberedEntry;
use crate::engine::Space;
use crate::error::StoreError;
use crate::keys;
use crate::limits::{FOLLOWED_GIVEN_MAX, USER_BYTES_MAX};
use crate::record::{RecordError, Seq};
use crate::scan;
use crate::state::{VALUE_VERSION, decode, encode};
use crate::store::Store;

/// How far a session has read the log of a room. Behind both, everything is owed to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoomRead {
    /// No entry up to here is owed to it.
    pub acked: Seq,
    /// Entries behind that it was given, in order, with their outbound counts.
    pub given: Vec<NumberedEntry>,
}

impl RoomRead {
    pub(crate) fn check(&self, room: &str) -> Result<usize, RecordError> {
        if room.is_empty() || room.len() > USER_BYTES_MAX || room.contains('\0') {
            return Err(RecordError::Room);
        }
        if self.given.len() > FOLLOWED_GIVEN_MAX {
            return Err(RecordError::TooMany("entries of a room"));
        }
        Ok(room.len() + 10 * self.given.len())
    }
}

impl<T: Txn> Entity<'_, T> {
    fn has_session(&self, number: u32) -> bool {
        let cursors = &self.head.cursors;
        cursors
            .binary_search_by_key(&number, |have| have.number)
            .is_ok()
    }

    /// A record that races with the end of its session leaves nothing.
    pub(crate) fn session_room_put(&mut self, number: u32, room: &str, read: &RoomRead) {
        if self.has_session(number) {
            let key = keys::followed_of(&self.key, number, room);
            self.txn.put(Space::Log, &*key, encode(VALUE_VERSION, read));
        }
    }

    pub(crate) fn session_room_remove(&mut self, number: u32, room: &str) {
        let key = keys::followed(self.slots, self.user, number, room);
        self.txn.delete(Space::Log, key);
    }

    /// A session has ended.
    pub(crate) fn session_rooms_remove(&mut self, number: u32) -> Result<(), StoreError> {
        let (start, end) = keys::followed_by(self.slots, self.user, Some(number));
        let mut rooms = Vec::new();
        self.txn.scan(Space::Log, &start, &end, &mut |key, _| {
            rooms.push(key.to_vec());
            ControlFlow::Continue(())
        })?;
        for key in rooms {
            self.txn.delete(Space::Log, key);
        }
        Ok(())
    }
}

impl Store {
    /// How far the sessions of a user have read the logs of rooms, by session number and room.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn rooms_read(&self, user: &str) -> Result<Vec<(u32, String, RoomRead)>, StoreError> {
        let (start, end) = keys::followed_by(&self.slot_key(), user, None);
        let (run, snapshot) = ((&*start, &*end), self.snapshot()?);
        scan::collect(&*snapshot, Space::Log, run, usize::MAX, |key, value| {
            let parsed = keys::parse_owned(key).and_then(|(_, _, rest)| keys::parse_log(rest));
            match parsed {
                Some(keys::Log::Followed(session, room)) => {
                    Ok((session, room.to_owned(), decode(value, user)?))
                }
                _ => Err(StoreError::Corrupt(format!("{user}: key of a room's log"))),
            }
        })
    }
}
