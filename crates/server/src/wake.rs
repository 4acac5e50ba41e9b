//! What a node does at its start for users of whom nobody has asked yet: those with sessions that
//! can be resumed, or with messages that are not handed on (docs/delivery.md), are loaded.

use std::thread;

use actor::{Handle, Name};
use store::Store;

use crate::limits::{WAKE_PACE, WAKE_PAGE};
use crate::message::UserMsg;
use crate::place::Place;

/// Wakes them, a page at a time; gives up when the node stops.
pub(crate) fn wake(store: &Store, place: &Place, handle: &Handle, is_over: impl Fn() -> bool) {
    let mut after: Option<String> = None;
    let mut woken = 0u64;
    loop {
        let page = match store.awake(after.as_deref(), WAKE_PAGE) {
            Ok(page) => page,
            Err(error) => {
                tracing::error!(%error, "cannot read whose sessions can be resumed");
                return;
            }
        };
        for user in &page {
            if !send(place, handle, user, || UserMsg::Wake, &is_over) {
                return;
            }
        }
        woken += page.len() as u64;
        if page.len() < WAKE_PAGE || is_over() {
            break;
        }
        after = page.last().cloned();
        // Leaves room for those who wait for the store on their own account.
        thread::sleep(WAKE_PACE);
    }
    if woken > 0 {
        tracing::info!(users = woken, "took up what was not done");
    }
}

/// Sends a user who may have to be loaded a message, as soon as there is room for it; one who is at
/// home elsewhere gets none. False if the node stops before.
pub(crate) fn send(
    place: &Place,
    handle: &Handle,
    user: &str,
    msg: impl Fn() -> UserMsg,
    is_over: impl Fn() -> bool,
) -> bool {
    if !place.is_here(place.range(user)) {
        return true;
    }
    let name = Name::from(user);
    while handle.send_named(place.shard(user), &name, msg()).is_err() {
        if is_over() {
            return false;
        }
        thread::sleep(WAKE_PACE);
    }
    true
}
