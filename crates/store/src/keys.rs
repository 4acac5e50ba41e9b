//! Which key holds what. Every key of a user starts with the slot, so that a range is one run of
//! keys in every space and can be scanned, copied and moved.
//!
//! ```text
//! Meta   "schema"                          u32, big-endian
//!        "slot_key"                        16 bytes
//!        "p" range:u16                     u64: applied position of the range
//!        "n" range:u16 domain              u64: accounts of the domain in the range
//!        "b" range:u16 domain              u64: bytes that the domain's accounts in the range
//!                                          have stored
//!        "r" range:u16 room                ListedRoom: who made the room, and what lists say of it
//!        "q" creator:u64 room              nothing: a room by the hash of who made it
//!        "u" domain 00 room                ListedRoom: a room that everybody may know of
//!        "d" range:u16 user                DirectoryEntry: what the user directory says of him
//!        "g" range:u16 at:u32              bytes: a part of an append that is not whole yet
//!        "epoch"                           u64: how often sequence numbers began anew
//!        "h" range:u16                     u64: rolling hash of what a follower applied
//!        "s" stream:u16                    StreamMark: what a follower has applied of a stream
//!        "joined"                          16 bytes: the deployment whose data this is
//! Head   slot:u16 user                     Head, to which the entries behind it add
//! State  slot:u16 user                     Profile
//! Log    slot:u16 user 00 seq:u64          StoredEntry; the upper bit of seq is 0
//!        slot:u16 user 00 fb session:u32 room
//!                                          RoomRead: how far a session has read a room's log
//!        slot:u16 user 00 fc seq:u64       StoredEntry: trimmed, and kept for a destination
//!        slot:u16 user 00 fd peer:u64      OlderMark: a sender that Recognition has no room for
//!        slot:u16 user 00 fe               Recognition, up to the head's `folded`
//!        slot:u16 user 00 ff peer:u64 last:u64
//!                                          Vec<Seq>: archived entries with one peer, up to last
//! Blob   slot:u16 user 00 "v"              vCard
//!        slot:u16 user 00 "p" ns 00 name   item of private storage
//!        slot:u16 user 00 "l"              Vec<KnownAddress>: where its owner logged in from
//!        slot:u16 user 00 "m" room         MemberRoom: up to where the account has the log of a
//!                                          room that delivers to its members
//!        slot:u16 room 00 "r" part         part of a room
//!        slot:u16 user 00 "n" node:u64 part
//!                                          part of a node
//!        slot:u16 user 00 "i" node:u64 id  StoredMeta: an item of a node
//!        slot:u16 user 00 "j" node:u64 id  what the item is, if it is anything
//! Session
//!        slot:u16 user                     Vec<SessionRecord>, empty if only messages to hand
//!                                          over keep it there
//! ```
//! Numbers in keys are big-endian, so that byte order is number order. Addresses hold no NUL.

use smallvec::SmallVec;

use crate::record::Seq;
use crate::slot::{RangeId, Slot, SlotKey};

pub(crate) const SCHEMA: &[u8] = b"schema";
pub(crate) const SLOT_KEY: &[u8] = b"slot_key";
pub(crate) const EPOCH: &[u8] = b"epoch";
pub(crate) const JOINED: &[u8] = b"joined";
/// The upper bit of a sequence number is 0: whatever else is in a log sorts behind the entries.
const ENTRIES_END: u8 = 0x80;
const FOLLOWED: u8 = 0xfb;
const PINNED: u8 = 0xfc;
const MARK: u8 = 0xfd;
const RECOGNITION: u8 = 0xfe;
const INDEX: u8 = 0xff;
const POSITION: u8 = b'p';
const COUNT: u8 = b'n';
const STORED: u8 = b'b';
const VCARD: u8 = b'v';
const PRIVATE: u8 = b'p';
const KNOWN: u8 = b'l';
const MEMBER: u8 = b'm';
const ROOM: u8 = b'r';
const MADE: u8 = b'q';
const PUBLIC: u8 = b'u';
const DIRECTORY: u8 = b'd';
const HASH: u8 = b'h';
const STREAM: u8 = b's';
const PART: u8 = b'g';
const NODE: u8 = b'n';
const ITEM: u8 = b'i';
const PAYLOAD: u8 = b'j';

/// `slot user`: the key in `Head` and `State`.
pub(crate) fn user(slots: &SlotKey, user: &str) -> Vec<u8> {
    user_in(slots.slot(user), user, 0)
}

/// The first key in `Head`, `State` or `Session` behind that of a user, or of all.
pub(crate) fn behind(slots: &SlotKey, user_before: Option<&str>) -> Vec<u8> {
    let mut key = user_before.map_or_else(Vec::new, |before| user(slots, before));
    if user_before.is_some() {
        key.push(0);
    }
    key
}

/// The same of a user whose slot is known, with room for `extra` bytes.
pub(crate) fn user_in(slot: Slot, user: &str, extra: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + user.len() + extra);
    key.extend_from_slice(&slot.index().to_be_bytes());
    key.extend_from_slice(user.as_bytes());
    key
}

/// `slot user 00`, with room for `extra` bytes.
fn owned(slots: &SlotKey, user: &str, extra: usize) -> Vec<u8> {
    let mut key = user_in(slots.slot(user), user, 1 + extra);
    key.push(0);
    key
}

pub(crate) fn log_entry(slots: &SlotKey, user: &str, seq: Seq) -> Vec<u8> {
    let mut key = owned(slots, user, 8);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

/// The same from the user's own key.
pub(crate) fn log_entry_of(user: &[u8], seq: Seq) -> SmallVec<[u8; 64]> {
    let mut key = SmallVec::from_slice(user);
    key.push(0);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

/// Where the entries of a log end.
pub(crate) fn log_entries_end(slots: &SlotKey, user: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 1);
    key.push(ENTRIES_END);
    key
}

/// An outgoing entry that was trimmed and is kept for a destination that lags.
pub(crate) fn log_pinned(slots: &SlotKey, user: &str, seq: Seq) -> Vec<u8> {
    let mut key = owned(slots, user, 9);
    key.push(PINNED);
    key.extend_from_slice(&seq.to_be_bytes());
    key
}

/// Where those end.
pub(crate) fn log_pinned_end(slots: &SlotKey, user: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 1);
    key.push(PINNED + 1);
    key
}

/// How far a session has read the log of a room.
pub(crate) fn followed(slots: &SlotKey, user: &str, session: u32, room: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 5 + room.len());
    key.push(FOLLOWED);
    key.extend_from_slice(&session.to_be_bytes());
    key.extend_from_slice(room.as_bytes());
    key
}

/// The same from the user's own key.
pub(crate) fn followed_of(user: &[u8], session: u32, room: &str) -> SmallVec<[u8; 64]> {
    let mut key = SmallVec::from_slice(user);
    key.extend_from_slice(&[0, FOLLOWED]);
    key.extend_from_slice(&session.to_be_bytes());
    key.extend_from_slice(room.as_bytes());
    key
}

/// The run of keys of all rooms of a session, or of all sessions.
pub(crate) fn followed_by(slots: &SlotKey, user: &str, session: Option<u32>) -> (Vec<u8>, Vec<u8>) {
    let start = followed(slots, user, session.unwrap_or_default(), "");
    let end = match session.map(|session| session.checked_add(1)) {
        Some(Some(next)) => followed(slots, user, next, ""),
        _ => log_pinned(slots, user, 0),
    };
    (start, end)
}

/// How far a sender was heard of that [`crate::Recognition`] has no room for.
pub(crate) fn log_mark(slots: &SlotKey, user: &str, peer: u64) -> Vec<u8> {
    let mut key = owned(slots, user, 9);
    key.push(MARK);
    key.extend_from_slice(&peer.to_be_bytes());
    key
}

/// All of those: start and end of the run of keys.
pub(crate) fn log_marks(slots: &SlotKey, user: &str) -> (Vec<u8>, Vec<u8>) {
    (log_mark(slots, user, 0), log_recognition(slots, user))
}

/// What recognises messages that come again.
pub(crate) fn log_recognition(slots: &SlotKey, user: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 1);
    key.push(RECOGNITION);
    key
}

/// A chunk of the index of addresses: archived entries with `peer` up to `last`.
pub(crate) fn log_index(slots: &SlotKey, user: &str, peer: u64, last: Seq) -> Vec<u8> {
    let mut key = owned(slots, user, 17);
    key.push(INDEX);
    key.extend_from_slice(&peer.to_be_bytes());
    key.extend_from_slice(&last.to_be_bytes());
    key
}

/// Everything of a user in `Log` or `Blob`: start and end of the run of keys.
pub(crate) fn owned_run(slots: &SlotKey, user: &str) -> (Vec<u8>, Vec<u8>) {
    let start = owned(slots, user, 0);
    let mut end = start.clone();
    // Nothing of the user sorts at or after `slot user 01`.
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    (start, end)
}

pub(crate) fn vcard(slots: &SlotKey, user: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 1);
    key.push(VCARD);
    key
}

/// The addresses that a user logged in from.
pub(crate) fn known(slots: &SlotKey, user: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 1);
    key.push(KNOWN);
    key
}

/// Up to where a user has the log of a room as its member.
pub(crate) fn member(slots: &SlotKey, user: &str, room: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 1 + room.len());
    key.push(MEMBER);
    key.extend_from_slice(room.as_bytes());
    key
}

/// The run of those keys of a user.
pub(crate) fn member_run(slots: &SlotKey, user: &str) -> (Vec<u8>, Vec<u8>) {
    let mut start = owned(slots, user, 1);
    let mut end = start.clone();
    start.push(MEMBER);
    end.push(MEMBER + 1);
    (start, end)
}

pub(crate) fn private(slots: &SlotKey, user: &str, ns: &str, name: &str) -> Vec<u8> {
    let mut key = owned(slots, user, 2 + ns.len() + name.len());
    key.push(PRIVATE);
    key.extend_from_slice(ns.as_bytes());
    key.push(0);
    key.extend_from_slice(name.as_bytes());
    key
}

/// The run of keys of all private-storage items of a user.
pub(crate) fn private_run(slots: &SlotKey, user: &str) -> (Vec<u8>, Vec<u8>) {
    let mut start = owned(slots, user, 1);
    let mut end = start.clone();
    start.push(PRIVATE);
    end.push(PRIVATE + 1);
    (start, end)
}

pub(crate) fn position(range: RangeId) -> [u8; 3] {
    let [high, low] = range.index().to_be_bytes();
    [POSITION, high, low]
}

/// The rolling hash of what a follower applied to a range.
pub(crate) fn hash(range: RangeId) -> [u8; 3] {
    let [high, low] = range.index().to_be_bytes();
    [HASH, high, low]
}

/// What a follower has applied of a stream. There are no more streams than ranges.
pub(crate) fn stream(stream: u16) -> [u8; 3] {
    let [high, low] = stream.to_be_bytes();
    [STREAM, high, low]
}

/// A part of a large append.
pub(crate) fn part(range: RangeId, at: u32) -> [u8; 7] {
    let [high, low] = range.index().to_be_bytes();
    let [a, b, c, d] = at.to_be_bytes();
    [PART, high, low, a, b, c, d]
}

pub(crate) fn count(range: RangeId, domain: &str) -> Vec<u8> {
    of_domain(COUNT, range, domain)
}

/// What the domain's accounts in the range have stored.
pub(crate) fn stored(range: RangeId, domain: &str) -> Vec<u8> {
    of_domain(STORED, range, domain)
}

fn of_domain(tag: u8, range: RangeId, domain: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(3 + domain.len());
    key.push(tag);
    key.extend_from_slice(&range.index().to_be_bytes());
    key.extend_from_slice(domain.as_bytes());
    key
}

/// What a list says about a room.
pub(crate) fn room(slots: &SlotKey, room: &str) -> Vec<u8> {
    of_domain(ROOM, slots.slot(room).range(), room)
}

/// The run of keys of all rooms that follow one, or of all.
pub(crate) fn rooms_behind(slots: &SlotKey, room_before: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let mut start = room_before.map_or_else(|| vec![ROOM], |before| room(slots, before));
    if room_before.is_some() {
        start.push(0);
    }
    (start, vec![ROOM + 1])
}

/// The run of keys of the rooms of a range that follow one, or of all.
pub(crate) fn rooms_of(
    slots: &SlotKey,
    range: RangeId,
    room_before: Option<&str>,
) -> (Vec<u8>, Vec<u8>) {
    let (start, _) = rooms_behind(slots, room_before);
    let first = of_domain(ROOM, range, "");
    let mut end = vec![ROOM];
    end.extend_from_slice(&(range.index() + 1).to_be_bytes());
    (start.max(first), end)
}

/// What the user directory says of an account.
pub(crate) fn directory(slots: &SlotKey, user: &str) -> Vec<u8> {
    of_domain(DIRECTORY, slots.slot(user).range(), user)
}

/// The run of keys of the whole directory.
pub(crate) const DIRECTORY_RUN: (&[u8], &[u8]) = (&[DIRECTORY], &[DIRECTORY + 1]);

/// A room by the [`SlotKey::peer`] of who made it.
pub(crate) fn made(creator: u64, room: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + room.len());
    key.push(MADE);
    key.extend_from_slice(&creator.to_be_bytes());
    key.extend_from_slice(room.as_bytes());
    key
}

/// The run of keys of all rooms that somebody made.
pub(crate) fn made_by(creator: u64) -> (Vec<u8>, Vec<u8>) {
    let end = match creator.checked_add(1) {
        Some(next) => made(next, ""),
        None => vec![MADE + 1],
    };
    (made(creator, ""), end)
}

/// A room that everybody may know of, by its domain.
pub(crate) fn public(room: &str) -> Vec<u8> {
    let mut key = public_at(domain_of(room), room.len());
    key.extend_from_slice(room.as_bytes());
    key
}

fn public_at(domain: &str, extra: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + domain.len() + extra);
    key.push(PUBLIC);
    key.extend_from_slice(domain.as_bytes());
    key.push(0);
    key
}

/// The run of keys of a domain's rooms that everybody may know of, or of those that follow one.
pub(crate) fn public_behind(domain: &str, room_before: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let mut start = public_at(domain, 0);
    let mut end = start.clone();
    end.pop();
    end.push(1);
    if let Some(before) = room_before {
        start.extend_from_slice(before.as_bytes());
        start.push(0);
    }
    (start, end)
}

/// The run of keys of a domain's rooms that everybody may know of, or of those before one.
pub(crate) fn public_before(domain: &str, room_behind: Option<&str>) -> (Vec<u8>, Vec<u8>) {
    let (start, mut end) = public_behind(domain, None);
    if let Some(behind) = room_behind {
        end.clone_from(&start);
        end.extend_from_slice(behind.as_bytes());
    }
    (start, end)
}

/// The run of keys of the list of all rooms.
pub(crate) const ROOM_RUN: (&[u8], &[u8]) = (&[ROOM], &[ROOM + 1]);

/// A part of a room.
pub(crate) fn room_part(slots: &SlotKey, room: &str, part: &str) -> Vec<u8> {
    let mut key = owned(slots, room, 1 + part.len());
    key.push(ROOM);
    key.extend_from_slice(part.as_bytes());
    key
}

/// The run of keys of a room's parts whose names begin like this.
pub(crate) fn room_parts(slots: &SlotKey, room: &str, beginning: &str) -> (Vec<u8>, Vec<u8>) {
    let start = room_part(slots, room, beginning);
    let mut end = start.clone();
    // Neither the tag nor any byte of a text is the highest that there is.
    let last = end.pop();
    end.extend(last.map(|last| last + 1));
    (start, end)
}

fn of_node(slots: &SlotKey, user: &str, tag: u8, (node, rest): (u64, &str)) -> Vec<u8> {
    let mut key = owned(slots, user, 9 + rest.len());
    key.push(tag);
    key.extend_from_slice(&node.to_be_bytes());
    key.extend_from_slice(rest.as_bytes());
    key
}

/// The run of keys with a tag, of one node or of all.
fn run_of_nodes(slots: &SlotKey, user: &str, tag: u8, node: Option<u64>) -> (Vec<u8>, Vec<u8>) {
    let start = of_node(slots, user, tag, (node.unwrap_or_default(), ""));
    let end = match node.map(|node| node.checked_add(1)) {
        Some(Some(next)) => of_node(slots, user, tag, (next, "")),
        _ => {
            let mut end = owned(slots, user, 1);
            end.push(tag + 1);
            end
        }
    };
    (start, end)
}

/// A part of a node.
pub(crate) fn node_part(slots: &SlotKey, user: &str, node: u64, part: &str) -> Vec<u8> {
    of_node(slots, user, NODE, (node, part))
}

/// The run of keys of all parts of a node, or of all nodes.
pub(crate) fn node_parts(slots: &SlotKey, user: &str, node: Option<u64>) -> (Vec<u8>, Vec<u8>) {
    run_of_nodes(slots, user, NODE, node)
}

/// An item of a node, without what it is.
pub(crate) fn item(slots: &SlotKey, user: &str, node: u64, id: &str) -> Vec<u8> {
    of_node(slots, user, ITEM, (node, id))
}

/// The run of keys of all items of a node, or of all nodes.
pub(crate) fn items(slots: &SlotKey, user: &str, node: Option<u64>) -> (Vec<u8>, Vec<u8>) {
    run_of_nodes(slots, user, ITEM, node)
}

/// What an item is.
pub(crate) fn payload(slots: &SlotKey, user: &str, node: u64, id: &str) -> Vec<u8> {
    of_node(slots, user, PAYLOAD, (node, id))
}

/// The run of keys of all account counts.
pub(crate) const COUNT_RUN: (&[u8], &[u8]) = (&[COUNT], &[COUNT + 1]);

/// The run of keys of what domains have stored.
pub(crate) const STORED_RUN: (&[u8], &[u8]) = (&[STORED], &[STORED + 1]);

/// The domain of a bare address: what follows the `@`, or all of it.
pub(crate) fn domain_of(user: &str) -> &str {
    user.split_once('@').map_or(user, |(_, domain)| domain)
}

/// What a key in `Meta` is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Meta<'a> {
    Schema,
    SlotKey,
    Epoch,
    Joined,
    Position(RangeId),
    Hash(RangeId),
    Stream(u16),
    Part(RangeId, u32),
    Count(RangeId, &'a str),
    Stored(RangeId, &'a str),
    Room(RangeId, &'a str),
    Made(u64, &'a str),
    Public(&'a str),
    Directory(RangeId, &'a str),
}

pub(crate) fn parse_meta(key: &[u8]) -> Option<Meta<'_>> {
    if key == SCHEMA {
        return Some(Meta::Schema);
    }
    if key == SLOT_KEY {
        return Some(Meta::SlotKey);
    }
    if key == EPOCH {
        return Some(Meta::Epoch);
    }
    if key == JOINED {
        return Some(Meta::Joined);
    }
    if let Some((&MADE, rest)) = key.split_first() {
        let (creator, room) = rest.split_first_chunk::<8>()?;
        let creator = u64::from_be_bytes(*creator);
        return Some(Meta::Made(creator, std::str::from_utf8(room).ok()?));
    }
    if let Some((&PUBLIC, rest)) = key.split_first() {
        let (domain, room) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
        return (domain_of(room) == domain).then_some(Meta::Public(room));
    }
    let (&[tag, high, low], rest) = key.split_first_chunk()?;
    let range = RangeId::from_index(u16::from_be_bytes([high, low]))?;
    match (tag, rest) {
        (POSITION, []) => Some(Meta::Position(range)),
        (HASH, []) => Some(Meta::Hash(range)),
        (STREAM, []) => Some(Meta::Stream(range.index())),
        (PART, at) => Some(Meta::Part(range, u32::from_be_bytes(at.try_into().ok()?))),
        (COUNT, domain) => Some(Meta::Count(range, std::str::from_utf8(domain).ok()?)),
        (STORED, domain) => Some(Meta::Stored(range, std::str::from_utf8(domain).ok()?)),
        (ROOM, room) => Some(Meta::Room(range, std::str::from_utf8(room).ok()?)),
        (DIRECTORY, user) => Some(Meta::Directory(range, std::str::from_utf8(user).ok()?)),
        _ => None,
    }
}

/// Slot and address of a key in `Head` or `State`.
pub(crate) fn parse_user(key: &[u8]) -> Option<(Slot, &str)> {
    let (&[high, low], user) = key.split_first_chunk()?;
    let slot = Slot::from_index(u16::from_be_bytes([high, low]))?;
    let user = std::str::from_utf8(user).ok()?;
    (!user.is_empty() && !user.contains('\0')).then_some((slot, user))
}

/// Slot, address and the rest of a key in `Log` or `Blob`.
pub(crate) fn parse_owned(key: &[u8]) -> Option<(Slot, &str, &[u8])> {
    let nul = 2 + key.get(2..)?.iter().position(|&byte| byte == 0)?;
    let (slot, user) = parse_user(&key[..nul])?;
    Some((slot, user, &key[nul + 1..]))
}

/// The sequence number in the rest of the key of a log entry.
pub(crate) fn parse_seq(rest: &[u8]) -> Option<Seq> {
    Some(Seq::from_be_bytes(rest.try_into().ok()?))
}

/// What a key in `Log` is for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Log<'a> {
    Entry(Seq),
    Followed(u32, &'a str),
    Pinned(Seq),
    Mark(u64),
    Recognition,
    Index { peer: u64, last: Seq },
}

pub(crate) fn parse_log(rest: &[u8]) -> Option<Log<'_>> {
    match rest.split_first()? {
        (&INDEX, rest) => {
            let (peer, last) = rest.split_first_chunk::<8>()?;
            let (peer, last) = (u64::from_be_bytes(*peer), parse_seq(last)?);
            Some(Log::Index { peer, last })
        }
        (&FOLLOWED, rest) => {
            let (session, room) = rest.split_first_chunk::<4>()?;
            let session = u32::from_be_bytes(*session);
            Some(Log::Followed(session, std::str::from_utf8(room).ok()?))
        }
        (&PINNED, rest) => parse_seq(rest).map(Log::Pinned),
        (&MARK, rest) => parse_seq(rest).map(Log::Mark),
        (&RECOGNITION, []) => Some(Log::Recognition),
        (&first, _) if first >= ENTRIES_END => None,
        _ => parse_seq(rest).map(Log::Entry),
    }
}

/// What a blob is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Blob<'a> {
    VCard,
    Known,
    Member(&'a str),
    Private { ns: &'a str, name: &'a str },
    RoomPart(&'a str),
    NodePart { node: u64, part: &'a str },
    Item { node: u64, id: &'a str },
    Payload { node: u64, id: &'a str },
}

pub(crate) fn parse_blob(rest: &[u8]) -> Option<Blob<'_>> {
    match rest.split_first()? {
        (&VCARD, []) => Some(Blob::VCard),
        (&KNOWN, []) => Some(Blob::Known),
        (&MEMBER, room) => Some(Blob::Member(std::str::from_utf8(room).ok()?)),
        (&ROOM, part) => Some(Blob::RoomPart(std::str::from_utf8(part).ok()?)),
        (&tag @ (NODE | ITEM | PAYLOAD), rest) => {
            let (node, rest) = rest.split_first_chunk::<8>()?;
            let (node, rest) = (u64::from_be_bytes(*node), std::str::from_utf8(rest).ok()?);
            Some(match tag {
                NODE => Blob::NodePart { node, part: rest },
                ITEM => Blob::Item { node, id: rest },
                _ => Blob::Payload { node, id: rest },
            })
        }
        (&PRIVATE, rest) => {
            let (ns, name) = std::str::from_utf8(rest).ok()?.split_once('\0')?;
            Some(Blob::Private { ns, name })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: SlotKey = SlotKey::new([1; 16]);

    #[test]
    fn keys_parse_back() {
        let slot = KEY.slot("a@b");
        assert_eq!(parse_user(&user(&KEY, "a@b")), Some((slot, "a@b")));
        let entry = log_entry(&KEY, "a@b", 7);
        let (_, owner, rest) = parse_owned(&entry).unwrap();
        assert_eq!((owner, parse_log(rest)), ("a@b", Some(Log::Entry(7))));
        assert_eq!(entry[..], log_entry_of(&user(&KEY, "a@b"), 7)[..]);
        let follows = followed(&KEY, "a@b", 7, "r@c");
        assert_eq!(follows[..], followed_of(&user(&KEY, "a@b"), 7, "r@c")[..]);
        let index = log_index(&KEY, "a@b", u64::MAX, 7);
        let (_, owner, rest) = parse_owned(&index).unwrap();
        let chunk = Log::Index {
            peer: u64::MAX,
            last: 7,
        };
        assert_eq!((owner, parse_log(rest)), ("a@b", Some(chunk)));
        let pinned = log_pinned(&KEY, "a@b", 7);
        let (_, _, rest) = parse_owned(&pinned).unwrap();
        assert_eq!(parse_log(rest), Some(Log::Pinned(7)));
        assert!(pinned < log_pinned_end(&KEY, "a@b"));
        for session in [7, u32::MAX] {
            let key = followed(&KEY, "a@b", session, "r@c");
            let (_, _, rest) = parse_owned(&key).unwrap();
            assert_eq!(parse_log(rest), Some(Log::Followed(session, "r@c")));
            for run in [Some(session), None] {
                let (start, end) = followed_by(&KEY, "a@b", run);
                assert!(start <= key && key < end && end <= pinned);
            }
        }
        assert!(log_entries_end(&KEY, "a@b") < followed_by(&KEY, "a@b", None).0);
        let mark = log_mark(&KEY, "a@b", u64::MAX);
        let (_, _, rest) = parse_owned(&mark).unwrap();
        assert_eq!(parse_log(rest), Some(Log::Mark(u64::MAX)));
        let (start, end) = log_marks(&KEY, "a@b");
        assert!(start < mark && mark < end);
        let recognition = log_recognition(&KEY, "a@b");
        let (_, _, rest) = parse_owned(&recognition).unwrap();
        assert_eq!(parse_log(rest), Some(Log::Recognition));
        assert!(log_entry(&KEY, "a@b", crate::limits::SEQ_MAX) < log_entries_end(&KEY, "a@b"));
        let stored = private(&KEY, "a@b", "urn:x", "item");
        let (_, _, rest) = parse_owned(&stored).unwrap();
        assert_eq!(
            parse_blob(rest),
            Some(Blob::Private {
                ns: "urn:x",
                name: "item"
            })
        );
        let part = node_part(&KEY, "a@b", u64::MAX, "ax@y");
        let (start, end) = node_parts(&KEY, "a@b", Some(u64::MAX));
        assert!(start <= part && part < end && end <= owned_run(&KEY, "a@b").1);
        let parsed = Blob::NodePart {
            node: u64::MAX,
            part: "ax@y",
        };
        assert_eq!(parse_blob(parse_owned(&part).unwrap().2), Some(parsed));
        let (start, end) = items(&KEY, "a@b", Some(7));
        let (own, next) = (item(&KEY, "a@b", 7, "id"), item(&KEY, "a@b", 8, ""));
        assert!(start <= own && own < end && end <= next);
        let parsed = Blob::Item { node: 7, id: "id" };
        assert_eq!(parse_blob(parse_owned(&own).unwrap().2), Some(parsed));
        let what = payload(&KEY, "a@b", 7, "");
        let parsed = Blob::Payload { node: 7, id: "" };
        assert_eq!(parse_blob(parse_owned(&what).unwrap().2), Some(parsed));
        let card = vcard(&KEY, "a@b");
        assert_eq!(parse_blob(parse_owned(&card).unwrap().2), Some(Blob::VCard));
        let addresses = known(&KEY, "a@b");
        let (_, _, rest) = parse_owned(&addresses).unwrap();
        assert_eq!(parse_blob(rest), Some(Blob::Known));
        let room_of = member(&KEY, "a@b", "r@c");
        let (_, _, rest) = parse_owned(&room_of).unwrap();
        assert_eq!(parse_blob(rest), Some(Blob::Member("r@c")));
        let (start, end) = member_run(&KEY, "a@b");
        assert!(start < room_of && room_of < end && addresses < start);
        let part = room_part(&KEY, "a@b", "ax@y");
        let (_, _, rest) = parse_owned(&part).unwrap();
        assert_eq!(parse_blob(rest), Some(Blob::RoomPart("ax@y")));
        let (start, end) = room_parts(&KEY, "a@b", "");
        assert!(start < part && part < end);
        let listed = room(&KEY, "a@b");
        assert_eq!(parse_meta(&listed), Some(Meta::Room(slot.range(), "a@b")));
        let (start, end) = rooms_behind(&KEY, None);
        assert!(start < listed && listed < end);
        assert!(rooms_behind(&KEY, Some("a@b")).0 > listed);
        let entry = directory(&KEY, "a@b");
        let expected = Meta::Directory(slot.range(), "a@b");
        assert_eq!(parse_meta(&entry), Some(expected));
        assert!(*DIRECTORY_RUN.0 <= *entry && *entry < *DIRECTORY_RUN.1);
        for creator in [7, u64::MAX] {
            let key = made(creator, "a@b");
            assert_eq!(parse_meta(&key), Some(Meta::Made(creator, "a@b")));
            let (start, end) = made_by(creator);
            assert!(start < key && key < end);
        }
        let key = public("a@b");
        assert_eq!(parse_meta(&key), Some(Meta::Public("a@b")));
        let (start, end) = public_behind("b", None);
        assert!(start < key && key < end && end < public_behind("b.c", None).0);
        let (start, end) = public_behind("b", Some("a@b"));
        assert!(key < start && start < public("aa@b") && public("z@b") < end);
        let range = RangeId::from_index(3).unwrap();
        assert_eq!(parse_meta(&position(range)), Some(Meta::Position(range)));
        assert_eq!(parse_meta(&hash(range)), Some(Meta::Hash(range)));
        assert_eq!(parse_meta(&stream(3)), Some(Meta::Stream(3)));
        assert_eq!(
            parse_meta(&super::part(range, 7)),
            Some(Meta::Part(range, 7))
        );
        assert_eq!(
            parse_meta(&count(range, "b")),
            Some(Meta::Count(range, "b"))
        );
        assert_eq!(parse_meta(b"schema"), Some(Meta::Schema));
        assert_eq!(parse_meta(b"epoch"), Some(Meta::Epoch));
        assert_eq!(parse_meta(b"x"), None);
    }

    /// The run of one user must not hold a key of another whose address starts with the same
    /// letters.
    #[test]
    fn runs_hold_only_their_user() {
        let (start, end) = owned_run(&KEY, "a@b");
        for seq in [0, 1, crate::limits::SEQ_MAX] {
            let key = log_entry(&KEY, "a@b", seq);
            assert!(start <= key && key < end);
        }
        let mut longer = user_in(KEY.slot("a@b"), "a@bc", 1);
        longer.push(0);
        assert!(longer >= end);
    }
}
