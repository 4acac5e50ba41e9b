//! Nodes of accounts and services in the store: parts, which are read in one go, and items, of
//! which only what they are called is. What an item is stays behind a key of its own until somebody
//! asks for it. What a part means is the server's. Part of `apply`: the same rules bind.

use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::apply::{Entity, Txn, blob};
use crate::engine::Space;
use crate::error::StoreError;
use crate::keys;
use crate::limits::ITEMS_MAX;
use crate::log::read_head;
use crate::record::{Item, Seq};
use crate::scan;
use crate::state::{BLOB_VERSION, Kind, decode_version, encode};
use crate::store::{Store, blob_body};

/// An item without what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemMeta {
    /// Unique within the node.
    pub id: String,
    /// Its place among the items of the entity.
    pub seq: u64,
    /// When, in milliseconds since 1970.
    pub at: i64,
    /// Who put it there.
    pub publisher: String,
    /// Bytes of what it is.
    pub bytes: u32,
}

/// One thing that a node is made of.
#[derive(Debug)]
pub enum NodeEntry<'a> {
    /// A part.
    Part {
        /// The node's number.
        node: u64,
        /// The part's name.
        part: &'a str,
        /// The part.
        value: Vec<u8>,
    },
    /// An item.
    Item {
        /// The node's number.
        node: u64,
        /// The item.
        item: ItemMeta,
    },
}

/// An item as its key has it; id and node are in the key.
#[derive(Serialize, Deserialize)]
pub(crate) struct StoredMeta<'a> {
    seq: Seq,
    at: i64,
    publisher: &'a str,
    pub(crate) bytes: u32,
}

impl<'a> StoredMeta<'a> {
    pub(crate) fn decode(value: &'a [u8], user: &str) -> Result<StoredMeta<'a>, StoreError> {
        decode_version(BLOB_VERSION, value, user)
    }
}

impl<T: Txn> Entity<'_, T> {
    pub(crate) fn service_make(&mut self) {
        if !self.head.live {
            self.begin(Kind::Service);
        }
    }

    pub(crate) fn node_put(
        &mut self,
        node: u64,
        part: &str,
        value: &[u8],
    ) -> Result<(), StoreError> {
        let key = keys::node_part(self.slots, self.user, node, part);
        self.blob_put(key, blob(value))
    }

    pub(crate) fn node_remove(&mut self, node: u64) -> Result<(), StoreError> {
        self.items_clear(node)?;
        let (start, end) = keys::node_parts(self.slots, self.user, Some(node));
        let mut parts = Vec::new();
        self.txn
            .scan(Space::Blob, &start, &end, &mut |key, value| {
                parts.push((key.to_vec(), value.len()));
                ControlFlow::Continue(())
            })?;
        for (key, bytes) in parts {
            self.blob_drop(key, bytes);
        }
        Ok(())
    }

    pub(crate) fn item_put(&mut self, node: u64, item: &Item) -> Result<(), StoreError> {
        let meta = StoredMeta {
            seq: item.seq,
            at: item.at,
            publisher: &item.publisher,
            bytes: item.payload.len() as u32,
        };
        let key = keys::item(self.slots, self.user, node, &item.id);
        self.blob_put(key, Some(encode(BLOB_VERSION, &meta)))?;
        let key = keys::payload(self.slots, self.user, node, &item.id);
        self.blob_put(key, blob(&item.payload))
    }

    pub(crate) fn items_remove(&mut self, node: u64, ids: &[String]) -> Result<(), StoreError> {
        for id in ids {
            let key = keys::item(self.slots, self.user, node, id);
            if let Some(meta) = self.txn.get(Space::Blob, &key)? {
                self.item_drop(node, id, &meta)?;
            }
        }
        Ok(())
    }

    pub(crate) fn items_clear(&mut self, node: u64) -> Result<(), StoreError> {
        let (start, end) = keys::items(self.slots, self.user, Some(node));
        let (mut items, mut bad) = (Vec::new(), None);
        self.txn
            .scan(Space::Blob, &start, &end, &mut |key, value| {
                match blob_of(key, self.user) {
                    Ok(keys::Blob::Item { id, .. }) => items.push((id.to_owned(), value.to_vec())),
                    Ok(_) => {}
                    Err(error) => bad = Some(error),
                }
                scan::until(bad.is_some())
            })?;
        if let Some(error) = bad {
            return Err(error);
        }
        for (id, meta) in items {
            self.item_drop(node, &id, &meta)?;
        }
        Ok(())
    }

    /// Removes an item without reading what it is: its size is known.
    fn item_drop(&mut self, node: u64, id: &str, meta: &[u8]) -> Result<(), StoreError> {
        let bytes = StoredMeta::decode(meta, self.user)?.bytes as usize;
        self.blob_drop(keys::item(self.slots, self.user, node, id), meta.len());
        if bytes > 0 {
            // With its version byte.
            self.blob_drop(keys::payload(self.slots, self.user, node, id), 1 + bytes);
        }
        Ok(())
    }

    /// Removes a blob whose value has so many bytes.
    fn blob_drop(&mut self, key: Vec<u8>, bytes: usize) {
        self.resize((key.len() + bytes) as u64, 0);
        self.txn.delete(Space::Blob, key);
    }
}

fn blob_of<'a>(key: &'a [u8], user: &str) -> Result<keys::Blob<'a>, StoreError> {
    let blob = keys::parse_owned(key).and_then(|(_, _, rest)| keys::parse_blob(rest));
    blob.ok_or_else(|| StoreError::Corrupt(format!("{user}: key of a node")))
}

impl Store {
    /// Visits all that the nodes of an account or a service are made of, in one snapshot: parts, by
    /// number and name, then items, by number and id. False if there is no such entity.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] while a change of it is in doubt; any [`StoreError`] of a read,
    /// or of `visit`.
    pub fn load_nodes(
        &self,
        user: &str,
        visit: impl FnMut(NodeEntry<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let slots = self.slot_key();
        let runs = [
            keys::node_parts(&slots, user, None),
            keys::items(&slots, user, None),
        ];
        self.visit_nodes(user, &runs, visit)
    }

    /// As [`Store::load_nodes`], without items.
    ///
    /// # Errors
    /// As [`Store::load_nodes`].
    pub fn load_node_parts(
        &self,
        user: &str,
        visit: impl FnMut(NodeEntry<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        let runs = [keys::node_parts(&self.slot_key(), user, None)];
        self.visit_nodes(user, &runs, visit)
    }

    fn visit_nodes(
        &self,
        user: &str,
        runs: &[(Vec<u8>, Vec<u8>)],
        mut visit: impl FnMut(NodeEntry<'_>) -> Result<(), StoreError>,
    ) -> Result<bool, StoreError> {
        self.in_doubt().check(user)?;
        let (slots, snapshot) = (self.slot_key(), self.snapshot()?);
        let head = read_head(&*snapshot, &slots, user)?;
        if !head.is_some_and(|head| head.may_have_nodes()) {
            return Ok(false);
        }
        for (start, end) in runs {
            scan::visit(&*snapshot, Space::Blob, (start, end), |key, value| {
                visit(match blob_of(key, user)? {
                    keys::Blob::NodePart { node, part } => NodeEntry::Part {
                        node,
                        part,
                        value: blob_body(value)?,
                    },
                    keys::Blob::Item { node, id } => NodeEntry::Item {
                        node,
                        item: meta(id, &StoredMeta::decode(value, user)?),
                    },
                    _ => return Err(StoreError::Corrupt(format!("{user}: key of a node"))),
                })?;
                Ok(ControlFlow::Continue(()))
            })?;
        }
        Ok(true)
    }

    /// Those of these accounts or services that have a part. Each costs one look-up of a key.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn with_part<T: AsRef<str>>(
        &self,
        users: Vec<T>,
        (node, part): (u64, &str),
    ) -> Result<Vec<T>, StoreError> {
        let (slots, snapshot) = (self.slot_key(), self.snapshot()?);
        let mut found = Vec::new();
        for user in users {
            let key = keys::node_part(&slots, user.as_ref(), node, part);
            if snapshot.get(Space::Blob, &key)?.is_some() {
                found.push(user);
            }
        }
        Ok(found)
    }

    /// Items of a node by their ids, in one snapshot: those that are there, in the order of `ids`,
    /// of which no more than [`ITEMS_MAX`] are looked at.
    ///
    /// # Errors
    /// Any [`StoreError`] of a read.
    pub fn items<'a>(
        &self,
        user: &str,
        node: u64,
        ids: impl IntoIterator<Item = &'a str>,
    ) -> Result<Vec<Item>, StoreError> {
        let (slots, snapshot) = (self.slot_key(), self.snapshot()?);
        let mut items = Vec::new();
        for id in ids.into_iter().take(ITEMS_MAX) {
            let Some(value) = snapshot.get(Space::Blob, &keys::item(&slots, user, node, id))?
            else {
                continue;
            };
            let meta = meta(id, &StoredMeta::decode(&value, user)?);
            let payload = match meta.bytes {
                0 => Vec::new(),
                _ => {
                    let value =
                        snapshot.get(Space::Blob, &keys::payload(&slots, user, node, id))?;
                    let missing = || StoreError::Corrupt(format!("{user}: item {id} is empty"));
                    blob_body(&value.ok_or_else(missing)?)?
                }
            };
            items.push(Item {
                id: meta.id,
                seq: meta.seq,
                at: meta.at,
                publisher: meta.publisher,
                payload: payload.into(),
            });
        }
        Ok(items)
    }
}

fn meta(id: &str, stored: &StoredMeta<'_>) -> ItemMeta {
    ItemMeta {
        id: id.to_owned(),
        seq: stored.seq,
        at: stored.at,
        publisher: stored.publisher.to_owned(),
        bytes: stored.bytes,
    }
}

/// Whether an item and what it is say the same of each other.
pub(crate) fn item_is_right(
    reader: &dyn crate::engine::Reader,
    (slots, user): (&crate::slot::SlotKey, &str),
    blob: &keys::Blob<'_>,
    value: &[u8],
) -> Result<(), String> {
    let text = |error: StoreError| error.to_string();
    let read = |key: Vec<u8>| reader.get(Space::Blob, &key).map_err(text);
    let (said, there) = match *blob {
        keys::Blob::Item { node, id } => {
            let said = StoredMeta::decode(value, user).map_err(text)?.bytes;
            let there = read(keys::payload(slots, user, node, id))?;
            (said, there.map_or(0, |value| value.len() - 1))
        }
        keys::Blob::Payload { node, id } => {
            let meta = read(keys::item(slots, user, node, id))?;
            let meta = meta.ok_or_else(|| format!("{user}: the item {id} is missing"))?;
            let said = StoredMeta::decode(&meta, user).map_err(text)?.bytes;
            (said, value.len() - 1)
        }
        _ => return Ok(()),
    };
    match said as usize == there {
        true => Ok(()),
        false => Err(format!(
            "{user}: an item says {said} bytes, {there} are there"
        )),
    }
}
