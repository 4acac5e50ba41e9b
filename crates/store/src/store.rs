//! The store: typed reads over an engine. Owns opening, options and the shape of every read; changes go
//! through a journal.

use std::path::Path;

use crate::error::{OpenError, StoreError};
use crate::record::{LogEntry, Record, Seq};
use crate::slot::SlotKey;
use crate::state::UserState;

/// What a commit promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// It is on the disk (`fdatasync`, once per group).
    #[default]
    Fsync,
    /// It is in the operating system's hands: it survives the process, not the machine.
    Memory,
}

/// How to open a store.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What a commit promises.
    pub durability: Durability,
}

/// A handle to one store. Clones share it.
#[derive(Clone)]
pub struct Store {}

impl Store {
    /// Opens or creates the store in the folder `path`.
    pub fn open(path: &Path, options: &Options) -> Result<Store, OpenError> {
        let _ = (path, options);
        todo!()
    }
    /// A store in memory.
    pub fn in_memory() -> Store {
        todo!()
    }
    /// The key of the slot hash.
    pub fn slot_key(&self) -> SlotKey {
        todo!()
    }
    /// The one read of a login.
    pub fn load_user(&self, user: &str) -> Result<Option<UserState>, StoreError> {
        let _ = user;
        todo!()
    }
    /// Log entries after `after`.
    pub fn log_read(&self, user: &str, after: Seq, limit: usize) -> Result<Vec<LogEntry>, StoreError> {
        let _ = (user, after, limit);
        todo!()
    }
    /// The vCard.
    pub fn vcard(&self, user: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let _ = user;
        todo!()
    }
    /// An item of private storage.
    pub fn private(&self, user: &str, ns: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let _ = (user, ns, name);
        todo!()
    }
    /// A page of accounts.
    pub fn accounts(
        &self,
        domain: Option<&str>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let _ = (domain, after, limit);
        todo!()
    }
    /// Number of accounts.
    pub fn count_accounts(&self, domain: Option<&str>) -> Result<u64, StoreError> {
        let _ = domain;
        todo!()
    }
    /// Loads many records.
    pub fn bulk(&self, records: impl IntoIterator<Item = Record>) -> Result<u64, StoreError> {
        let _ = records.into_iter();
        todo!()
    }
}
