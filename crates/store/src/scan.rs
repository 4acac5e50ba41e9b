//! Reading a run of keys: one entry after the other, until one is bad or there is enough. Owns no
//! layout.

use std::ops::ControlFlow;

use crate::engine::{Reader, Space};
use crate::error::StoreError;

/// Goes on until something is so.
pub(crate) fn until(is_done: bool) -> ControlFlow<()> {
    if is_done {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Visits the entries with `start <= key < end`; an empty `end` means "to the last one". It ends
/// with the first error.
pub(crate) fn visit(
    reader: &dyn Reader,
    space: Space,
    (start, end): (&[u8], &[u8]),
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, StoreError>,
) -> Result<(), StoreError> {
    let mut bad = None;
    reader.scan(space, start, end, &mut |key, value| {
        visit(key, value).unwrap_or_else(|error| {
            bad = Some(error);
            ControlFlow::Break(())
        })
    })?;
    bad.map_or(Ok(()), Err)
}

/// What the first entries of a run are, at most `limit`.
pub(crate) fn collect<T>(
    reader: &dyn Reader,
    space: Space,
    run: (&[u8], &[u8]),
    limit: usize,
    mut parse: impl FnMut(&[u8], &[u8]) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut found = Vec::new();
    if limit > 0 {
        visit(reader, space, run, |key, value| {
            found.push(parse(key, value)?);
            Ok(until(found.len() == limit))
        })?;
    }
    Ok(found)
}

/// What the last entries of a run are, at most `limit`, in the order of their keys.
pub(crate) fn collect_back<T>(
    reader: &dyn Reader,
    space: Space,
    (start, end): (&[u8], &[u8]),
    limit: usize,
    mut parse: impl FnMut(&[u8], &[u8]) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let (mut found, mut bad) = (Vec::new(), None);
    if limit > 0 {
        reader.scan_back(space, start, end, &mut |key, value| {
            match parse(key, value) {
                Ok(one) => found.push(one),
                Err(error) => bad = Some(error),
            }
            until(bad.is_some() || found.len() == limit)
        })?;
    }
    found.reverse();
    bad.map_or(Ok(found), Err)
}
