//! The conversations of an account: with whom, how late, and how much of each is unread. Reads the
//! end of the account's archive and of those of its bookmarked rooms, within bounds; changes
//! nothing.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use room::{Affiliation, State};
use stdx::Timestamp;
use store::{EntryFlags, LogEntry, PageQuery, Seq, Store, StoreError};
use xml::Frame;

use super::unread::Tail;
use super::{Place, stanza_ids};
use crate::address;
use crate::options::InboxBounds;
use crate::stored;
use crate::stored::rooms::records_of;

const NODE_BOOKMARKS: &str = "urn:xmpp:bookmarks:1";
const NODE_DISPLAYED: &str = "urn:xmpp:mds:displayed:0";

/// Entries that are read at a time.
const READ: usize = 500;

/// Of a room the first ones at a time: mostly they are enough.
const READ_OF_ROOM: usize = 25;

/// A conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conversation {
    /// A bare address: somebody's or a room's.
    pub(super) address: Arc<str>,
    /// When its last entry was accepted, in milliseconds; of a room also a private message.
    pub(super) at: i64,
    /// The last entry of its log.
    pub(super) last: Seq,
    /// The last message that people see, if it was met.
    pub(super) latest: Option<Seq>,
    /// Messages that nobody has read.
    pub(super) unread: u64,
    /// It is in the log of the room, and not in the account's.
    pub(super) is_room: bool,
}

/// What is asked of whom.
pub(super) struct Inbox {
    pub(super) owner: Arc<str>,
    pub(super) now: Timestamp,
    pub(super) bounds: InboxBounds,
    /// How nodes of accounts are set up, if there are any.
    pub(super) nodes: Option<Arc<pubsub::Options>>,
    pub(super) rooms: Arc<room::Options>,
    /// Domains of rooms.
    pub(super) hosts: Vec<String>,
}

impl Conversation {
    pub(super) fn place(&self) -> Place<'_> {
        (Reverse((self.at, self.last)), &self.address)
    }

    /// A message of it as its archive has it.
    pub(super) fn message(
        &self,
        store: &Store,
        owner: &str,
        seq: Seq,
    ) -> Result<Option<(Seq, Timestamp, Frame)>, StoreError> {
        let log = if self.is_room { &self.address } else { owner };
        let entry = store.log_entries(log, &[seq])?.pop();
        // It may have been trimmed since.
        let parsed = entry.and_then(|entry| {
            let frame = Frame::parse(&*entry.frame).ok()?;
            let frame = stanza_ids::without_claims(frame, log);
            Some((entry.seq, entry.at, frame))
        });
        Ok(parsed)
    }
}

impl Inbox {
    /// All conversations, those with the latest messages first. Blocks.
    pub(super) fn read(&self, store: &Store) -> Result<Vec<Conversation>, StoreError> {
        self.read_with(store, &Nodes::read(self, store)?)
    }

    fn read_with(&self, store: &Store, nodes: &Nodes) -> Result<Vec<Conversation>, StoreError> {
        let mut found: HashMap<Arc<str>, (Conversation, Tail)> = HashMap::new();
        let mut own = Reading::new(READ, self.bounds.bytes_max);
        own.visit((store, &self.owner), self.bounds.entries_max, |entry| {
            let (_, tail) = match found.get_mut(&*entry.peer) {
                Some(found) => found,
                None => {
                    let mark = nodes.mark(store, &self.owner, &entry.peer, &self.owner)?;
                    let new = (begun(&entry.peer, entry, false), Tail::new(mark));
                    found.entry(Arc::from(&*entry.peer)).or_insert(new)
                }
            };
            look(tail, entry, entry.flags.has(EntryFlags::SENT));
            Ok(true)
        })?;
        let mut all: Vec<Conversation> = found.into_values().map(finished).collect();
        let mut of_rooms = Reading::new(READ_OF_ROOM, self.bounds.bytes_max);
        for room in nodes.rooms.iter().take(self.bounds.rooms_max) {
            if of_rooms.bytes_left == 0 {
                break;
            }
            let Some(found) = self.room(store, room, nodes, &mut of_rooms)? else {
                continue;
            };
            // Private messages of a room are in the account's log under the same address.
            match all.iter_mut().find(|one| one.address == found.address) {
                Some(one) => {
                    *one = Conversation {
                        unread: one.unread + found.unread,
                        at: one.at.max(found.at),
                        ..found
                    };
                }
                None => all.push(found),
            }
        }
        all.sort_by(|a, b| a.place().cmp(&b.place()));
        Ok(all)
    }

    /// A room that the account may read.
    fn room(
        &self,
        store: &Store,
        room: &str,
        nodes: &Nodes,
        reading: &mut Reading,
    ) -> Result<Option<Conversation>, StoreError> {
        if !self.hosts.iter().any(|host| host == address::domain(room)) {
            return Ok(None);
        }
        let (_, Some(stored)) = store.load_room(room, 0)? else {
            return Ok(None);
        };
        let state = State::of(records_of(room, &stored)?, &self.rooms.limits);
        let may_read = |state: &State| {
            let is_owner = state.affiliation(&self.owner) == Affiliation::Owner;
            let is_there = state.config.is_persistent && (!state.is_locked || is_owner);
            is_there && state.may_follow(&self.owner)
        };
        if !state.is_some_and(|state| may_read(&state)) {
            return Ok(None);
        }
        let mark = nodes.mark(store, &self.owner, room, room)?;
        let mut found: Option<(Conversation, Tail)> = None;
        let entries_max = self.bounds.room_entries_max;
        reading.visit((store, room), entries_max, |entry| {
            let new = || (begun(room, entry, true), Tail::new(mark));
            let (_, tail) = found.get_or_insert_with(new);
            look(tail, entry, *entry.peer == *self.owner);
            Ok(!tail.is_done())
        })?;
        Ok(found.map(finished))
    }
}

/// Reads of logs from their ends, of so many bytes in all and those of one more read.
struct Reading {
    first: usize,
    bytes_left: usize,
}

impl Reading {
    /// Of each log `first` entries are read at first, then more at a time.
    fn new(first: usize, bytes_max: usize) -> Reading {
        Reading {
            first,
            bytes_left: bytes_max,
        }
    }

    /// Visits so many archived entries of a log from its end, as long as `see` wants more.
    fn visit(
        &mut self,
        (store, log): (&Store, &str),
        entries_max: usize,
        mut see: impl FnMut(&LogEntry) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let (mut before, mut left, mut read) = (None, entries_max, self.first);
        while left > 0 && self.bytes_left > 0 {
            let wanted = PageQuery {
                before,
                flags: EntryFlags::ARCHIVED,
                limit: left.min(read),
                backwards: true,
                ..PageQuery::default()
            };
            let page = store.log_page(log, &wanted)?;
            left = left.saturating_sub(page.entries.len());
            let bytes = page.entries.iter().map(|entry| entry.frame.len()).sum();
            self.bytes_left = self.bytes_left.saturating_sub(bytes);
            for entry in page.entries.iter().rev() {
                if !see(entry)? {
                    return Ok(());
                }
            }
            before = page.first();
            if page.complete || before.is_none() {
                break;
            }
            read = (4 * read).min(READ);
        }
        Ok(())
    }
}

/// Looks at an entry. One that is damaged is none that people see.
fn look(tail: &mut Tail, entry: &LogEntry, is_own: bool) {
    if tail.is_done() {
        return;
    }
    match Frame::parse(&*entry.frame) {
        Ok(frame) => tail.see(entry.seq, is_own, &frame),
        Err(_) => tracing::error!(seq = entry.seq, "a stored message is damaged"),
    }
}

fn begun(address: &str, entry: &LogEntry, is_room: bool) -> Conversation {
    Conversation {
        address: address.into(),
        at: entry.at.as_millis(),
        last: entry.seq,
        latest: None,
        unread: 0,
        is_room,
    }
}

fn finished((conversation, tail): (Conversation, Tail)) -> Conversation {
    Conversation {
        latest: tail.latest,
        unread: tail.unread,
        ..conversation
    }
}

/// What the account's nodes say.
#[derive(Default)]
struct Nodes {
    /// The number of the node of marks.
    displayed: Option<u64>,
    /// Bookmarked rooms.
    rooms: Vec<String>,
}

impl Nodes {
    fn read(inbox: &Inbox, store: &Store) -> Result<Nodes, StoreError> {
        let Some(options) = &inbox.nodes else {
            return Ok(Nodes::default());
        };
        let (state, _) = stored::nodes::read(store, &inbox.owner, options)?;
        let rooms = state.node(NODE_BOOKMARKS).map(|node| {
            let items = node.items(inbox.now);
            items.map(|item| item.id.to_string()).collect()
        });
        Ok(Nodes {
            displayed: state.node(NODE_DISPLAYED).map(|node| node.number),
            rooms: rooms.unwrap_or_default(),
        })
    }

    /// Up to where a conversation was displayed, by the ids of `by` (XEP-0490 section 3); 0 if
    /// nothing is known.
    fn mark(
        &self,
        store: &Store,
        owner: &str,
        conversation: &str,
        by: &str,
    ) -> Result<Seq, StoreError> {
        let Some(node) = self.displayed else {
            return Ok(0);
        };
        let item = store.items(owner, node, [conversation])?.pop();
        let payload = item.and_then(|item| Frame::parse(&*item.payload).ok());
        let id = payload.and_then(|displayed| {
            let id = displayed.child("stanza-id", xmpp::ns::STANZA_ID)?;
            let is_ours = id.attr("by").is_none_or(|named| named == by);
            is_ours.then(|| id.attr("id").map(|id| id.into_owned()))?
        });
        Ok(id
            .and_then(|id| stanza_ids::seq_of(&id))
            .unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
