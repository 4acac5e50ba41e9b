//! Messages that have become too old go even if nobody asks for their user any more: a node looks
//! through all logs now and then, slowly, and loads those users who have some.

use std::thread;
use std::time::Duration;

use actor::Handle;
use stdx::time::Timestamp;
use store::Store;

use crate::limits::{SWEEP_PACE, SWEEP_PAGE};
use crate::message::UserMsg;
use crate::place::Place;
use crate::wake::send;

/// Looks through all logs once for entries that were accepted before a time; gives up when the node
/// stops.
pub(crate) fn sweep(
    store: &Store,
    place: &Place,
    handle: &Handle,
    before: Timestamp,
    is_over: impl Fn() -> bool,
) {
    let mut after: Option<String> = None;
    while !is_over() {
        let page = match store.aged(after.as_deref(), before, SWEEP_PAGE) {
            Ok(page) => page,
            Err(error) => return tracing::warn!(%error, "cannot look for messages too old"),
        };
        for user in &page.found {
            if !send(place, handle, user, || UserMsg::Aged, SWEEP_PACE, &is_over) {
                return;
            }
        }
        let Some(last) = page.last else { return };
        after = Some(last);
        // Nobody is in a hurry.
        thread::sleep(SWEEP_PACE);
    }
}

/// The time before which everything is too old.
pub(crate) fn oldest_kept(now: Timestamp, max_age: Duration) -> Timestamp {
    let age = i64::try_from(max_age.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(now.as_millis().saturating_sub(age))
}
