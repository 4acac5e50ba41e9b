//! The user directory (XEP-0055) in the store: what accounts that want to be found say of
//! themselves. Owns where an entry is and how entries are visited; who may search is the server's.
//! Part of `apply`: the same rules bind.
//!
//! Entries are beside each other and apart from the accounts, so a search reads those who are
//! listed and nobody else. An entry goes with its account.

use serde::{Deserialize, Serialize};

use crate::apply::{Entity, Txn};
use crate::engine::Space;
use crate::error::StoreError;
use crate::keys;
use crate::limits::DIRECTORY_FIELD_BYTES_MAX;
use crate::record::RecordError;
use crate::scan::{self, until};
use crate::state::{VALUE_VERSION, decode, encode};
use crate::store::Store;
use crate::stored::bytes_of;

/// What the directory says of an account. All fields are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryEntry {
    /// Given name.
    pub first: String,
    /// Family name.
    pub last: String,
    /// Nickname.
    pub nick: String,
    /// Email address.
    pub email: String,
}

impl DirectoryEntry {
    /// Its fields, in the order of XEP-0055.
    pub fn fields(&self) -> [&str; 4] {
        [&self.first, &self.last, &self.nick, &self.email]
    }

    /// Whether it says nothing: the account is not in the directory.
    pub fn is_empty(&self) -> bool {
        self.fields().iter().all(|field| field.is_empty())
    }

    pub(crate) fn check(&self) -> Result<usize, RecordError> {
        let fields = self.fields();
        let longest = fields.iter().map(|field| field.len()).max();
        match longest.is_some_and(|longest| longest > DIRECTORY_FIELD_BYTES_MAX) {
            true => Err(RecordError::TooMany("bytes of a field of the directory")),
            false => Ok(fields.iter().map(|field| field.len()).sum()),
        }
    }
}

impl<T: Txn> Entity<'_, T> {
    pub(crate) fn directory_put(&mut self, entry: &DirectoryEntry) -> Result<(), StoreError> {
        let key = keys::directory(self.slots, self.user);
        let before = self.txn.get(Space::Meta, &key)?;
        let value = (!entry.is_empty()).then(|| encode(VALUE_VERSION, entry));
        let before = bytes_of(&key, before.as_deref());
        self.resize(before, bytes_of(&key, value.as_deref()));
        match value {
            Some(value) => self.txn.put(Space::Meta, key, value),
            None => self.txn.delete(Space::Meta, key),
        }
        Ok(())
    }
}

impl Store {
    /// What the directory says of an account; `None` if it is not in it.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn directory_entry(&self, user: &str) -> Result<Option<DirectoryEntry>, StoreError> {
        let key = keys::directory(&self.slot_key(), user);
        let value = self.snapshot()?.get(Space::Meta, &key)?;
        value.map(|value| decode(&value, user)).transpose()
    }

    /// Visits the directory, in the order of range and address, until `visit` returns false.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn visit_directory(
        &self,
        mut visit: impl FnMut(&str, &DirectoryEntry) -> bool,
    ) -> Result<(), StoreError> {
        let snapshot = self.snapshot()?;
        scan::visit(
            &*snapshot,
            Space::Meta,
            keys::DIRECTORY_RUN,
            |key, value| {
                let Some(keys::Meta::Directory(_, user)) = keys::parse_meta(key) else {
                    return Err(StoreError::Corrupt("key in the directory".to_owned()));
                };
                let entry: DirectoryEntry = decode(value, user)?;
                Ok(until(!visit(user, &entry)))
            },
        )
    }
}
