//! Up to where an account has the logs of rooms that deliver to their members whether they are in
//! the room or not (docs/rooms.md): the layout of it, what changes it, and how it is read. The
//! messages are in the rooms' logs and nowhere else. Part of `apply`: the same rules bind.

use crate::apply::{Entity, Txn};
use crate::engine::Space;
use crate::error::StoreError;
use crate::keys;
use crate::limits::USER_BYTES_MAX;
use crate::record::{RecordError, Seq};
use crate::scan;
use crate::state::{BLOB_VERSION, decode_version, encode};
use crate::store::Store;

pub(crate) fn check(room: &str) -> Result<usize, RecordError> {
    if room.is_empty() || room.len() > USER_BYTES_MAX || room.contains('\0') {
        return Err(RecordError::Room);
    }
    Ok(room.len())
}

impl<T: Txn> Entity<'_, T> {
    pub(crate) fn member_room_put(&mut self, room: &str, through: Seq) -> Result<(), StoreError> {
        let key = keys::member(self.slots, self.user, room);
        self.blob_put(key, Some(encode(BLOB_VERSION, &through)))
    }

    pub(crate) fn member_room_remove(&mut self, room: &str) -> Result<(), StoreError> {
        let key = keys::member(self.slots, self.user, room);
        self.blob_put(key, None)
    }
}

impl Store {
    /// The place of a room's log up to which nothing is owed to an account as its member; `None` if
    /// the room does not deliver to it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn member_place(&self, user: &str, room: &str) -> Result<Option<Seq>, StoreError> {
        let key = keys::member(&self.slot_key(), user, room);
        let value = self.snapshot()?.get(Space::Blob, &key)?;
        let place = value.map(|value| decode_version(BLOB_VERSION, &value, user));
        place.transpose()
    }

    /// The rooms that deliver to an account as their member, with the place of each one's log up to
    /// which nothing is owed to it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn member_rooms(&self, user: &str) -> Result<Vec<(String, Seq)>, StoreError> {
        let (start, end) = keys::member_run(&self.slot_key(), user);
        let (run, snapshot) = ((&*start, &*end), self.snapshot()?);
        scan::collect(&*snapshot, Space::Blob, run, usize::MAX, |key, value| {
            let blob = keys::parse_owned(key).and_then(|(_, _, rest)| keys::parse_blob(rest));
            match blob {
                Some(keys::Blob::Member(room)) => {
                    Ok((room.to_owned(), decode_version(BLOB_VERSION, value, user)?))
                }
                _ => Err(StoreError::Corrupt(format!(
                    "{user}: key of a member's room"
                ))),
            }
        })
    }
}
