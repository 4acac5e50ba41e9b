//! How much accounts and domains have stored. Part of `apply`: the same rules bind. Owns when a
//! domain's total is written; who is refused anything because of it is the server's to say.
//!
//! The log of an account counts itself in its head. What else there is (the profile with its roster
//! and block list, the vCard, private storage, what the directory says of it) is counted in the
//! head by [`Stored::rest`], and all of it together in a total of the domain, one for each range. A
//! message must not cost another key: a total is written when the account has moved by
//! [`UNCOUNTED_BYTES_MAX`], and with every change of anything but the log. So it is exact but for
//! that many bytes of each account.
//!
//! Heads of before have no count: what is there is counted when a record next moves the account.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::apply::{Entity, Txn, decode_u64};
use crate::engine::{Space, Visit};
use crate::error::StoreError;
use crate::keys;
use crate::limits::{ENTRY_OVERHEAD_BYTES, UNCOUNTED_BYTES_MAX};
use crate::log::read_head;
use crate::slot::SlotKey;
use crate::state::Head;
use crate::store::Store;

/// What an account keeps beside its log, and what its domain's total has of the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    /// Bytes of keys and values.
    pub(crate) rest: u64,
    /// Bytes.
    pub(crate) counted: u64,
}

/// What is in a domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DomainTotals {
    /// Accounts.
    pub accounts: u64,
    /// Bytes that they have stored: exact but for [`UNCOUNTED_BYTES_MAX`] of each account.
    pub stored_bytes: u64,
}

impl Head {
    /// Bytes of the log: frames, and what each entry takes beside its frame.
    fn log_bytes(&self) -> u64 {
        self.log.bytes + self.log.count * ENTRY_OVERHEAD_BYTES
    }

    /// All that the account has stored; without its profile and blobs if that was never counted.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.log_bytes() + self.stored.map_or(0, |stored| stored.rest)
    }
}

/// Bytes of a value that may not be there.
pub(crate) fn bytes_of(key: &[u8], value: Option<&[u8]>) -> u64 {
    value.map_or(0, |value| (key.len() + value.len()) as u64)
}

/// Counts what a user keeps beside the log. `values` is the bytes of the profile and of the entry
/// of the directory; `scan` visits blobs.
pub(crate) fn count_rest(
    slots: &SlotKey,
    user: &str,
    values: u64,
    scan: impl FnOnce(&[u8], &[u8], Visit<'_>) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let (start, end) = keys::owned_run(slots, user);
    let mut rest = values;
    scan(&start, &end, &mut |key, value| {
        rest += bytes_of(key, Some(value));
        ControlFlow::Continue(())
    })?;
    Ok(rest)
}

impl<T: Txn> Entity<'_, T> {
    /// Counts what an account of before has. True if it was not counted until now.
    pub(crate) fn count_if_uncounted(&mut self) -> Result<bool, StoreError> {
        if !self.head.live || self.head.stored.is_some() {
            return Ok(false);
        }
        let profile = self.txn.get(Space::State, &self.key)?;
        let listed_key = keys::directory(self.slots, self.user);
        let listed = self.txn.get(Space::Meta, &listed_key)?;
        let values =
            bytes_of(&self.key, profile.as_deref()) + bytes_of(&listed_key, listed.as_deref());
        let rest = count_rest(self.slots, self.user, values, |start, end, visit| {
            self.txn.scan(Space::Blob, start, end, visit)
        })?;
        self.head.stored = Some(Stored { rest, counted: 0 });
        Ok(true)
    }

    /// A value beside the log takes the place of another one.
    pub(crate) fn resize(&mut self, before: u64, after: u64) {
        if let Some(stored) = &mut self.head.stored {
            stored.rest = stored.rest.saturating_sub(before) + after;
            self.is_resized = true;
        }
    }

    /// Brings the domain's total up to date, if the account has moved far enough or `is_due`.
    pub(crate) fn settle(&mut self, is_due: bool) -> Result<(), StoreError> {
        let (total, is_live) = (self.head.stored_bytes(), self.head.live);
        let Some(stored) = self.head.stored.as_mut().filter(|_| is_live) else {
            return Ok(());
        };
        let counted = stored.counted;
        if !is_due && total.abs_diff(counted) < UNCOUNTED_BYTES_MAX {
            return Ok(());
        }
        stored.counted = total;
        self.save_head();
        self.move_total(counted, total)
    }

    /// Takes the account out of the total; its head is about to be replaced.
    pub(crate) fn uncount(&mut self) -> Result<(), StoreError> {
        let counted = self.head.stored.map_or(0, |stored| stored.counted);
        self.move_total(counted, 0)
    }

    fn move_total(&mut self, before: u64, after: u64) -> Result<(), StoreError> {
        if before == after {
            return Ok(());
        }
        let range = self.slots.slot(self.user).range();
        let key = keys::stored(range, keys::domain_of(self.user));
        let total = match self.txn.get(Space::Meta, &key)? {
            Some(value) => decode_u64(&value, "stored bytes of a domain")?,
            None => 0,
        };
        let Some(total) = total.checked_sub(before) else {
            let what = "stored bytes of a domain run below zero";
            return Err(StoreError::Corrupt(what.to_owned()));
        };
        match total + after {
            0 => self.txn.delete(Space::Meta, key),
            total => self.txn.put(Space::Meta, key, total.to_be_bytes().to_vec()),
        }
        Ok(())
    }
}

impl Store {
    /// What each domain has. Totals are kept, not counted: at most two keys for each range and
    /// domain.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn totals(&self) -> Result<BTreeMap<String, DomainTotals>, StoreError> {
        let mut totals: BTreeMap<String, DomainTotals> = BTreeMap::new();
        let mut bad = None;
        let snapshot = self.snapshot()?;
        for (start, end) in [keys::COUNT_RUN, keys::STORED_RUN] {
            snapshot.scan(Space::Meta, start, end, &mut |key, value| {
                let number = match decode_u64(value, "total of a domain") {
                    Ok(number) => number,
                    Err(error) => {
                        bad = Some(error);
                        return ControlFlow::Break(());
                    }
                };
                match keys::parse_meta(key) {
                    Some(keys::Meta::Count(_, domain)) => {
                        totals.entry(domain.to_owned()).or_default().accounts += number;
                    }
                    Some(keys::Meta::Stored(_, domain)) => {
                        totals.entry(domain.to_owned()).or_default().stored_bytes += number;
                    }
                    _ => {}
                }
                ControlFlow::Continue(())
            })?;
        }
        bad.map_or(Ok(totals), Err)
    }

    /// What an account has stored, in bytes: messages, roster, block list, vCard, private storage
    /// and entry of the directory. 0 for none; without all but its messages for one that no record
    /// has moved since a version that did not count.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn stored_by(&self, user: &str) -> Result<u64, StoreError> {
        let head = read_head(&*self.snapshot()?, &self.slot_key(), user)?;
        Ok(head.map_or(0, |head| head.stored_bytes()))
    }
}
