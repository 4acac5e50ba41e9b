//! Parts of small services as lines of an export, and the records that they make.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use store::{NodeEntry, Record, Store, StoreError};

use super::{Bad, bad};
use crate::entity::service::NO_NODE;

/// A part of a small service.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartLine {
    /// The service.
    pub(crate) jid: String,
    /// Its name.
    part: String,
    /// The part, in Base64.
    value: String,
}

/// The lines of a small service: as much as it keeps in memory while it is loaded.
///
/// # Errors
/// The store's.
pub(super) fn lines(store: &Store, jid: &str) -> Result<Vec<PartLine>, StoreError> {
    let mut lines = Vec::new();
    store.load_node_parts(jid, |entry| {
        if let NodeEntry::Part { part, value, .. } = entry {
            lines.push(PartLine {
                jid: jid.to_owned(),
                part: part.to_owned(),
                value: STANDARD.encode(value),
            });
        }
        Ok(())
    })?;
    Ok(lines)
}

impl PartLine {
    /// The record that makes it.
    ///
    /// # Errors
    /// What is wrong with the line.
    pub(super) fn record(self) -> Result<Record, Bad> {
        let value = STANDARD.decode(&self.value);
        Ok(Record::NodePut {
            user: self.jid,
            node: NO_NODE,
            part: self.part,
            value: value.map_err(|_| bad("a part that is not Base64"))?,
        })
    }
}
