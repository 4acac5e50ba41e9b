//! How a record changes state: one deterministic function. It reads no clock, no configuration and
//! no randomness; the same records in the same order give the same bytes on every node.

use std::ops::ControlFlow;
use std::sync::Arc;

use byteview::ByteView;
use stdx::Level;

use crate::directory::DirectoryEntry;
use crate::engine::{Space, Visit};
use crate::error::StoreError;
use crate::heads::{LiveHead, TailEntry};
use crate::keys;
use crate::limits::VALUE_BYTES_MAX;
use crate::record::{Record, RecordError, Roster};
use crate::slot::{Slot, SlotKey};
use crate::state::{
    BLOB_VERSION, Head, Kind, Profile, VALUE_VERSION, decode_profile, encode, encode_head,
};
use crate::stored::{Stored, bytes_of};

/// State as `apply` sees it: reads include the changes made so far.
pub trait Txn {
    /// The level in whose forms values are written.
    fn level(&self) -> Level;

    /// The value of one key.
    ///
    /// # Errors
    /// Any [`StoreError`] of the engine.
    fn get(&mut self, space: Space, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;

    /// Sets a value.
    fn put(&mut self, space: Space, key: impl Into<ByteView>, value: Vec<u8>);

    /// Takes the head of a user as of the last entry, to be given back by [`Txn::put_head`]; `key`
    /// is the user's in [`Space::Head`].
    ///
    /// # Errors
    /// Any [`StoreError`] of the engine.
    fn take_head(
        &mut self,
        slots: &SlotKey,
        user: &str,
        key: &[u8],
    ) -> Result<Option<LiveHead>, StoreError>;

    /// Gives a head back. It is not written: whoever changes it writes so much that it follows.
    fn put_head(&mut self, key: &[u8], head: LiveHead);

    /// Deletes a key.
    fn delete(&mut self, space: Space, key: Vec<u8>);

    /// Visits entries with `start <= key < end` in key order; an empty `end` means "to the last
    /// one".
    ///
    /// # Errors
    /// Any [`StoreError`] of the engine.
    fn scan(
        &mut self,
        space: Space,
        start: &[u8],
        end: &[u8],
        visit: Visit<'_>,
    ) -> Result<(), StoreError>;
}

/// Applies one record.
///
/// # Errors
/// A [`StoreError`] of a read, or [`StoreError::Record`] for a record that [`Record::check`]
/// refuses. The caller takes back what the record changed until then.
pub fn apply(record: &Record, slots: &SlotKey, txn: &mut impl Txn) -> Result<(), StoreError> {
    apply_in(slots.slot(record.user()), record, slots, txn)
}

/// The same for a record of a user whose slot is known.
pub(crate) fn apply_in(
    slot: Slot,
    record: &Record,
    slots: &SlotKey,
    txn: &mut impl Txn,
) -> Result<(), StoreError> {
    record.check()?;
    let user = record.user();
    let key = keys::user_in(slot, user, 0);
    let live = txn.take_head(slots, user, &key)?;
    let LiveHead { head, tail, peer } = live.unwrap_or_default();
    let mut entity = Entity {
        txn,
        slots,
        user,
        key,
        head,
        tail,
        peer,
        is_resized: false,
    };
    if entity.takes(record) {
        let is_new = entity.count_if_uncounted()?;
        entity.apply(record)?;
        let is_due = is_new || entity.is_resized;
        entity.settle(is_due)?;
    }
    let Entity {
        txn,
        key,
        head,
        tail,
        peer,
        ..
    } = entity;
    txn.put_head(&key, LiveHead { head, tail, peer });
    Ok(())
}

/// Sorted by address; of equal addresses the last one counts.
fn sorted(roster: &Roster) -> Roster {
    let mut items = roster.items.clone();
    items.reverse();
    items.sort_by(|a, b| a.jid.cmp(&b.jid));
    items.dedup_by(|later, first| later.jid == first.jid);
    Roster {
        version: roster.version,
        items,
    }
}

/// The user under change.
pub(crate) struct Entity<'a, T> {
    pub(crate) txn: &'a mut T,
    pub(crate) slots: &'a SlotKey,
    pub(crate) user: &'a str,
    pub(crate) key: Vec<u8>,
    pub(crate) head: Head,
    /// The entries behind the last fold, as in [`LiveHead`].
    pub(crate) tail: Vec<TailEntry>,
    /// As in [`LiveHead`].
    pub(crate) peer: Option<(Arc<str>, u64)>,
    /// [`Stored::rest`] has changed.
    pub(crate) is_resized: bool,
}

impl<T: Txn> Entity<'_, T> {
    fn apply(&mut self, record: &Record) -> Result<(), StoreError> {
        match record {
            Record::AccountPut { account, .. } => self.account_put(account.clone()),
            Record::AccountRemove { .. } => self.account_remove(),
            Record::RosterPut { version, item, .. } => self.profile(|profile| {
                profile.roster.version = *version;
                let items = &mut profile.roster.items;
                match items.binary_search_by(|have| have.jid.cmp(&item.jid)) {
                    Ok(at) => items[at].clone_from(item),
                    Err(at) => items.insert(at, item.clone()),
                }
            }),
            Record::RosterRemove {
                version, contact, ..
            } => self.profile(|profile| {
                profile.roster.version = *version;
                profile.roster.items.retain(|item| item.jid != *contact);
            }),
            Record::RosterReplace { roster, .. } => {
                let roster = sorted(roster);
                self.profile(|profile| profile.roster = roster)
            }
            Record::BlocklistPut { blocked, .. } => {
                self.profile(|profile| profile.blocked.clone_from(blocked))
            }
            Record::LastActivity { at, status, .. } => {
                self.head.last = Some((at.as_millis(), status.clone()));
                self.save_head();
                Ok(())
            }
            Record::VCardPut {
                xml, photo_hash, ..
            } => self.vcard_put(xml, photo_hash),
            Record::PrivatePut { ns, name, xml, .. } => {
                let key = keys::private(self.slots, self.user, ns, name);
                self.blob_put(key, blob(xml))
            }
            Record::LogAppend { entry, .. } => self.log_append(entry),
            Record::LogReplace { seq, frame, .. } => self.log_replace(*seq, frame),
            Record::LogTrim { through, .. } => self.log_trim(*through),
            Record::LogProgress { progress, .. } => {
                self.log_progress(progress);
                Ok(())
            }
            Record::LogDelivered { delivered, .. } => {
                self.log_delivered(delivered);
                Ok(())
            }
            Record::SessionPut { session, .. } => self.session_put(session),
            Record::SessionRemove { number, .. } => self.session_remove(*number),
            Record::SessionNumbered {
                number,
                void_through,
                numbered,
                ..
            } => self.session_numbered(*number, *void_through, numbered),
            Record::SessionRoomPut {
                number, room, read, ..
            } => {
                self.session_room_put(*number, room, read);
                Ok(())
            }
            Record::SessionRoomRemove { number, room, .. } => {
                self.session_room_remove(*number, room);
                Ok(())
            }
            Record::MemberRoomPut { room, through, .. } => self.member_room_put(room, *through),
            Record::MemberRoomRemove { room, .. } => self.member_room_remove(room),
            Record::AccountLock { locked, .. } => {
                self.profile(|profile| profile.account.locked = *locked)
            }
            Record::KnownAddressesPut { known, .. } => {
                let key = keys::known(self.slots, self.user);
                self.blob_put(key, Some(encode(BLOB_VERSION, known)))
            }
            Record::ArchivePrefsPut { prefs, .. } => self.profile(|profile| {
                profile.archive_prefs = Some(Box::new(prefs.clone()));
            }),
            Record::LaggingPut { lagging, .. } => self.lagging_put(lagging),
            Record::MarksForget { before, .. } => self.marks_forget(*before),
            Record::RoomMake { creator, about, .. } => self.room_make(creator, about),
            Record::RoomPut { part, value, .. } => self.room_put(part, value),
            Record::RoomRemove { .. } => self.room_remove(),
            Record::ServiceMake { .. } => {
                self.service_make();
                Ok(())
            }
            Record::NodePut {
                node, part, value, ..
            } => self.node_put(*node, part, value),
            Record::NodeRemove { node, .. } => self.node_remove(*node),
            Record::ItemPut { node, item, .. } => self.item_put(*node, item),
            Record::ItemsRemove { node, ids, .. } => self.items_remove(*node, ids),
            Record::ItemsClear { node, .. } => self.items_clear(*node),
            Record::DirectoryPut { entry, .. } => self.directory_put(entry),
            // They are of streams: whoever follows one puts them together.
            Record::PartPut { .. } | Record::PartsApply { .. } => Err(RecordError::Parts.into()),
        }
    }

    /// Whether the record is for what there is at this address: an account, a room, a service, or
    /// nothing.
    fn takes(&self, record: &Record) -> bool {
        let (live, kind) = (self.head.live, self.head.kind);
        match record {
            Record::PartPut { .. } | Record::PartsApply { .. } => true,
            Record::AccountPut { .. } => !live || kind == Kind::Account,
            Record::RoomMake { .. } => !live || kind == Kind::Room,
            Record::ServiceMake { .. } => !live,
            Record::RoomPut { .. } | Record::RoomRemove { .. } => live && kind == Kind::Room,
            Record::NodePut { .. }
            | Record::NodeRemove { .. }
            | Record::ItemPut { .. }
            | Record::ItemsRemove { .. }
            | Record::ItemsClear { .. } => self.head.may_have_nodes(),
            Record::LogAppend { .. }
            | Record::LogReplace { .. }
            | Record::LogTrim { .. }
            | Record::LogProgress { .. }
            | Record::MarksForget { .. } => live,
            _ => live && kind == Kind::Account,
        }
    }

    pub(crate) fn save_head(&mut self) {
        let value = encode_head(self.txn.level(), &self.head);
        self.txn.put(Space::Head, self.key.clone(), value);
    }

    /// The profile, and the bytes that it takes.
    fn load_profile(&mut self) -> Result<(Profile, u64), StoreError> {
        match self.txn.get(Space::State, &self.key)? {
            Some(value) => {
                let bytes = bytes_of(&self.key, Some(&value));
                Ok((decode_profile(&value, self.user)?, bytes))
            }
            None => Ok((Profile::default(), 0)),
        }
    }

    fn profile(&mut self, change: impl FnOnce(&mut Profile)) -> Result<(), StoreError> {
        let (mut profile, before) = self.load_profile()?;
        change(&mut profile);
        let value = encode(VALUE_VERSION, &profile);
        if value.len() > VALUE_BYTES_MAX && bytes_of(&self.key, Some(&value)) > before {
            return Err(RecordError::TooLarge(value.len()).into());
        }
        self.resize(before, bytes_of(&self.key, Some(&value)));
        self.txn.put(Space::State, self.key.clone(), value);
        Ok(())
    }

    /// Changes the number of accounts of the user's domain in the user's range.
    fn count(&mut self, up: bool) -> Result<(), StoreError> {
        let range = self.slots.slot(self.user).range();
        let key = keys::count(range, keys::domain_of(self.user));
        let count = match self.txn.get(Space::Meta, &key)? {
            Some(value) => decode_u64(&value, "account count")?,
            None => 0,
        };
        let count = if up {
            count.checked_add(1)
        } else {
            count.checked_sub(1)
        };
        match count {
            None => {
                return Err(StoreError::Corrupt(
                    "account count runs below zero".to_owned(),
                ));
            }
            Some(0) => self.txn.delete(Space::Meta, key),
            Some(count) => self.txn.put(Space::Meta, key, count.to_be_bytes().to_vec()),
        }
        Ok(())
    }

    /// Something begins to be at this address.
    pub(crate) fn begin(&mut self, kind: Kind) {
        self.head.live = true;
        self.head.kind = kind;
        self.head.stored = Some(Stored::default());
        self.save_head();
    }

    fn account_put(&mut self, account: crate::record::Account) -> Result<(), StoreError> {
        if !self.head.live {
            self.begin(Kind::Account);
            self.count(true)?;
        }
        self.profile(|profile| profile.account = account)
    }

    fn account_remove(&mut self) -> Result<(), StoreError> {
        self.count(false)?;
        self.txn.delete(Space::State, self.key.clone());
        self.directory_put(&DirectoryEntry::default())?;
        self.forget()
    }

    /// All that is left of an account or a room is what must not be given out again.
    pub(crate) fn forget(&mut self) -> Result<(), StoreError> {
        self.uncount()?;
        let (start, end) = keys::owned_run(self.slots, self.user);
        for space in [Space::Log, Space::Blob] {
            let mut owned = Vec::new();
            self.txn.scan(space, &start, &end, &mut |key, _| {
                owned.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
            for key in owned {
                self.txn.delete(space, key);
            }
        }
        self.txn.delete(Space::Session, self.key.clone());
        self.log_forget();
        self.save_head();
        Ok(())
    }

    fn vcard_put(&mut self, xml: &[u8], photo_hash: &str) -> Result<(), StoreError> {
        let key = keys::vcard(self.slots, self.user);
        self.blob_put(key, blob(xml))?;
        if self.load_profile()?.0.photo_hash == photo_hash {
            return Ok(());
        }
        self.profile(|profile| photo_hash.clone_into(&mut profile.photo_hash))
    }

    pub(crate) fn blob_put(
        &mut self,
        key: Vec<u8>,
        value: Option<Vec<u8>>,
    ) -> Result<(), StoreError> {
        let before = self.txn.get(Space::Blob, &key)?;
        let before = bytes_of(&key, before.as_deref());
        self.resize(before, bytes_of(&key, value.as_deref()));
        match value {
            Some(value) => self.txn.put(Space::Blob, key, value),
            None => self.txn.delete(Space::Blob, key),
        }
        Ok(())
    }
}

/// Blobs are stored as they are, behind a version byte; empty ones are not.
pub(crate) fn blob(xml: &[u8]) -> Option<Vec<u8>> {
    if xml.is_empty() {
        return None;
    }
    let mut value = Vec::with_capacity(1 + xml.len());
    value.push(BLOB_VERSION);
    value.extend_from_slice(xml);
    Some(value)
}

/// Numbers in `Meta` are eight bytes, big-endian.
pub(crate) fn decode_u64(value: &[u8], what: &str) -> Result<u64, StoreError> {
    value
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| StoreError::Corrupt(format!("{what}: {} bytes instead of 8", value.len())))
}
