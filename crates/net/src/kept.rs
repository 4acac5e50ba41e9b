//! Input that waits, of all connections of an address together: incomplete items, incomplete TLS
//! records, and what the service keeps. One connection has `incomplete_max`, and an address as many
//! connections as may be: without a bound for all, one address would take hundreds of megabytes,
//! before any login.

use std::sync::Arc;

use stdx::slab::Key;

use crate::address::AddressKey;
use crate::core::Core;
use crate::limits::{HELD_UNCOUNTED, KEPT_UNCOUNTED};
use crate::link::Link;
use crate::unread::Counted;

/// Bytes of a TLS record or handshake message that are not complete.
fn incomplete(link: &Link) -> usize {
    link.tls.as_ref().map_or(0, |tls| tls.incomplete())
}

impl<C> Core<C> {
    /// Counts what a connection keeps by now. False if that has become more, and the connections of
    /// its address keep too much together.
    pub(crate) fn may_keep(&mut self, id: Key) -> bool {
        let Some(link) = self.links.get_mut(id) else {
            return true;
        };
        let records = incomplete(link);
        let Some(busy) = &mut link.busy else {
            return true;
        };
        let elsewhere = busy.counted.as_ref().map_or(0, |counted| counted.elsewhere);
        let bytes = busy.kept.len() + records;
        let bytes = if bytes > KEPT_UNCOUNTED { bytes } else { 0 };
        if bytes + elsewhere == 0 || link.address == AddressKey::EXEMPT {
            busy.counted = None;
            return true;
        }
        let new = || Box::new(Counted::new(Arc::clone(&self.kept), link.address));
        let counted = busy.counted.get_or_insert_with(new);
        counted.set(bytes + elsewhere, self.kept_max)
    }

    /// The same where TLS records came of which none may have been complete.
    pub(crate) fn may_keep_records(&mut self, id: Key) -> bool {
        let Some(link) = self.links.get(id) else {
            return true;
        };
        let counted = link.busy.as_ref().and_then(|busy| busy.counted.as_ref());
        if incomplete(link) <= KEPT_UNCOUNTED && counted.is_none() {
            return true;
        }
        self.busy(id);
        let may_keep = self.may_keep(id);
        self.release(id);
        may_keep
    }

    /// The service keeps so many bytes for the client of a connection. False if that has become
    /// more than there is room for; then it is counted as before.
    pub(crate) fn holds(&mut self, id: Key, bytes: usize) -> bool {
        let bytes = if bytes > HELD_UNCOUNTED { bytes } else { 0 };
        let Some(link) = self.links.get_mut(id) else {
            return true;
        };
        let address = link.address;
        let counted = link.busy.as_ref().and_then(|busy| busy.counted.as_ref());
        let before = counted.map_or(0, |counted| counted.elsewhere);
        if bytes == before || address == AddressKey::EXEMPT {
            return true;
        }
        let table = Arc::clone(&self.kept);
        let set = |core: &mut Core<C>, bytes| {
            if let Some(busy) = core.busy(id) {
                let counted = busy
                    .counted
                    .get_or_insert_with(|| Box::new(Counted::new(table.clone(), address)));
                counted.elsewhere = bytes;
            }
            core.may_keep(id)
        };
        let may_hold = set(self, bytes);
        if !may_hold {
            set(self, before);
        }
        self.release(id);
        may_hold
    }
}
