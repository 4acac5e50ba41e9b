//! Parts of an append that is larger than a message of a stream may be. They wait with their range,
//! of which one append at a time is written: what is left by a home that ended between two of them
//! goes with the first part of the next one.

use crate::appended;
use crate::apply::Txn;
use crate::engine::Space;
use crate::error::StoreError;
use crate::keys;
use crate::limits::PARTS_MAX;
use crate::overlay::Overlay;
use crate::record::{Record, RecordError};
use crate::slot::RangeId;

/// Keeps a part.
pub(super) fn put(
    range: RangeId,
    at: u32,
    bytes: &[u8],
    overlay: &mut Overlay<'_>,
) -> Result<(), StoreError> {
    if at == 0 {
        forget(range, overlay)?;
    }
    overlay.put(Space::Meta, &keys::part(range, at)[..], bytes.to_vec());
    Ok(())
}

/// The records of the append that the parts make, which are gone with it.
///
/// # Errors
/// [`RecordError::Parts`] if it is not that append, or has parts itself.
pub(super) fn take(
    range: RangeId,
    parts: u32,
    hash: u64,
    overlay: &mut Overlay<'_>,
) -> Result<Vec<Record>, StoreError> {
    let mut whole = Vec::new();
    for at in 0..parts {
        let part = overlay.get(Space::Meta, &keys::part(range, at))?;
        whole.extend_from_slice(&part.ok_or(RecordError::Parts)?);
    }
    if appended::hash(&whole) != hash {
        return Err(RecordError::Parts.into());
    }
    let records = appended::decode(&whole).map_err(RecordError::Encoding)?;
    forget(range, overlay)?;
    Ok(records)
}

fn forget(range: RangeId, overlay: &mut Overlay<'_>) -> Result<(), StoreError> {
    for at in 0..PARTS_MAX {
        let key = keys::part(range, at);
        // They are from 0 on, without a gap.
        if overlay.get(Space::Meta, &key)?.is_none() {
            break;
        }
        overlay.delete(Space::Meta, key.to_vec());
    }
    Ok(())
}
