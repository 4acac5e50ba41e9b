//! Erasing what an account said, on an operator's demand: in its own archive, and in the rooms of
//! the store. What is left of a message is what is left of one that its author took back
//! (XEP-0424). In parts, so that nobody waits long; what is erased already is passed over, so that
//! it may be begun again at any time. What others keep in archives of their own is theirs.

use std::thread;
use std::time::Duration;

use room::is_tombstone;
use serde::{Deserialize, Serialize};
use stdx::time::{Clock as _, Timestamp};
use store::{EntryFlags, LogEntry, PageQuery, Seq, Store, StoreError};
use xml::Frame;
use xml::build::Writer;
use xmpp::ns;

use super::{Admin, Response, error, unreadable};
use crate::operator::{AdminAnswer, AdminCommand, ErasedEntry, RoomCommand};
use crate::stored::rooms::message_of;

/// Entries that are looked at in one part.
const ENTRIES: usize = 256;

/// Rooms that are looked at in one part.
const ROOMS: usize = 64;

/// Attempts to have a room erase something that cannot be read, or could not keep the change, and
/// the pause between them. A room that is only busy makes its operator wait.
const ATTEMPTS: u32 = 25;
const PAUSE: Duration = Duration::from_millis(200);

const NS_RETRACT: &str = "urn:xmpp:message-retract:1";

/// Where a part begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EraseFrom {
    /// In the account's own log, behind this place.
    Own(Seq),
    /// In rooms, behind this one.
    Rooms(Option<String>),
    /// In this room, behind this place.
    Room(String, Seq),
}

/// What a part has come to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erased {
    /// Messages of the account's own archive that are erased.
    pub own: u64,
    /// Messages in rooms that are.
    pub in_rooms: u64,
    /// Messages that are still to be handed over, and stay until they are.
    pub waiting: u64,
    /// Accounts and rooms that are at home on other nodes.
    pub elsewhere: u64,
    /// Rooms that could not erase what was said in them, each with the reason, and were passed
    /// over.
    #[serde(default)]
    pub failed: Vec<(String, String)>,
    /// Where the next part begins; nothing if this was the last one.
    pub next: Option<EraseFrom>,
}

impl Admin {
    /// Erases a part of what an account said.
    pub(crate) fn erase(&self, jid: &str, from: EraseFrom) -> Result<Response, Response> {
        let erased = match from {
            EraseFrom::Own(after) => self.erase_own(jid, after)?,
            EraseFrom::Rooms(after) => self.erase_in_rooms(jid, after.as_deref())?,
            EraseFrom::Room(room, after) => self.erase_in_room(jid, &room, after),
        };
        Ok(Response::Erased { erased })
    }

    fn erase_own(&self, jid: &str, after: Seq) -> Result<Erased, Response> {
        let page = self.store.log_read(jid, after, ENTRIES);
        let page = page.map_err(unreadable)?;
        let mut erased = Erased::default();
        if after == 0 {
            let first = page.first().map_or(Seq::MAX, |entry| entry.seq);
            let kept = self.kept_for_others(jid, first)?;
            match self.must_be_here(jid) {
                Ok(()) => erased.waiting = kept,
                Err(_) => erased.elsewhere = u64::from(kept > 0),
            }
        }
        let Some(last) = page.last().map(|entry| entry.seq) else {
            erased.next = Some(EraseFrom::Rooms(None));
            return Ok(erased);
        };
        let now = self.clock.wall();
        let entries = page.iter();
        let entries = entries.filter_map(|entry| self.own_entry(jid, entry, now));
        let entries: Vec<ErasedEntry> = entries.collect();
        erased.next = Some(EraseFrom::Own(last));
        let count = entries.len() as u64;
        if count == 0 {
            return Ok(erased);
        }
        match self.ask_here(jid, AdminCommand::Erase(entries))? {
            Some(AdminAnswer::Counted(own)) => {
                erased.own = own;
                erased.waiting += count - own;
            }
            // It was removed meanwhile, and its log with it.
            Some(AdminAnswer::Absent) => {}
            Some(_) => return Err(not_kept(jid)),
            None => {
                erased.elsewhere = 1;
                erased.next = Some(EraseFrom::Rooms(None));
            }
        }
        Ok(erased)
    }

    /// Messages that the log in front of a place has no longer, kept for recipients who lag.
    fn kept_for_others(&self, jid: &str, first: Seq) -> Result<u64, Response> {
        let kept = kept_in_front(&self.store, jid, first);
        kept.map_err(unreadable)
    }

    /// What is to become of an entry of the account's log, if the account said it.
    fn own_entry(&self, jid: &str, entry: &LogEntry, now: Timestamp) -> Option<ErasedEntry> {
        let is_own = entry.flags.has(EntryFlags::SENT) || *entry.peer == *jid;
        if !is_own || is_tombstone(&entry.frame) {
            return None;
        }
        let is_handed_over = entry.flags.has(EntryFlags::OUTGOING);
        Some(ErasedEntry {
            seq: entry.seq,
            dest: is_handed_over.then(|| self.place.slots().peer(&entry.peer)),
            bytes: entry.frame.len() as u64,
            frame: tombstone(&entry.frame, now)?,
        })
    }

    fn erase_in_rooms(&self, jid: &str, after: Option<&str>) -> Result<Erased, Response> {
        let rooms = self.store.rooms(after, ROOMS).map_err(unreadable)?;
        let mut erased = Erased::default();
        for (room, _) in &rooms {
            let part = self.erase_in_room(jid, room, 0);
            if part.elsewhere > 0 {
                // Its home does that.
                erased.next = Some(EraseFrom::Room(room.clone(), 0));
                return Ok(erased);
            }
            // One that does not answer takes a while.
            if part.in_rooms > 0 || !part.failed.is_empty() {
                return Ok(part);
            }
        }
        let last = rooms.last().filter(|_| rooms.len() == ROOMS);
        erased.next = last.map(|(room, _)| EraseFrom::Rooms(Some(room.clone())));
        Ok(erased)
    }

    /// A room that cannot do it keeps no other from it: it is named, and the next one's turn comes.
    fn erase_in_room(&self, jid: &str, room: &str, after: Seq) -> Erased {
        let why = match self.try_to_erase_in_room(jid, room, after) {
            Ok(erased) => return erased,
            Err(Response::Error { message, .. }) => message,
            Err(other) => format!("{other:?}"),
        };
        Erased {
            failed: vec![(room.to_owned(), why)],
            next: Some(EraseFrom::Rooms(Some(room.to_owned()))),
            ..Erased::default()
        }
    }

    fn try_to_erase_in_room(&self, jid: &str, room: &str, after: Seq) -> Result<Erased, Response> {
        let mut erased = Erased {
            next: Some(EraseFrom::Rooms(Some(room.to_owned()))),
            ..Erased::default()
        };
        let mut after = after;
        let messages: Vec<LogEntry> = loop {
            let query = PageQuery {
                with: Some(jid.to_owned()),
                after: Some(after),
                limit: ENTRIES,
                ..PageQuery::default()
            };
            let page = self.store.log_page(room, &query).map_err(unreadable)?;
            let Some(last) = page.last() else {
                return Ok(erased);
            };
            after = last;
            let entries = page.entries.into_iter();
            let there = entries.filter(|entry| !is_tombstone(&entry.frame));
            let there: Vec<LogEntry> = there.collect();
            if !there.is_empty() {
                break there;
            }
        };
        if self.must_be_here(room).is_err() {
            erased.elsewhere = 1;
            return Ok(erased);
        }
        self.ask_to_erase(room, &messages)?;
        erased.in_rooms = messages.len() as u64;
        erased.next = Some(EraseFrom::Room(room.to_owned(), after));
        Ok(erased)
    }

    fn ask_to_erase(&self, room: &str, messages: &[LogEntry]) -> Result<(), Response> {
        let seqs: Vec<Seq> = messages.iter().map(|entry| entry.seq).collect();
        for _ in 0..ATTEMPTS {
            let command = RoomCommand::Erase(messages.iter().map(message_of).collect());
            match self.ask_room(room, command)? {
                AdminAnswer::Done => {
                    let left = self.store.log_entries(room, &seqs).map_err(unreadable)?;
                    if left.iter().all(|entry| is_tombstone(&entry.frame)) {
                        return Ok(());
                    }
                }
                // It is gone, and its log with it.
                AdminAnswer::Absent => return Ok(()),
                _ => {}
            }
            thread::sleep(PAUSE);
        }
        Err(not_kept(room))
    }
}

/// See [`Admin::kept_for_others`].
fn kept_in_front(store: &Store, jid: &str, first: Seq) -> Result<u64, StoreError> {
    let end = first.saturating_sub(1);
    let (mut after, mut count) = (0, 0);
    while after < end {
        let (entries, through) = store.log_outgoing(jid, None, (after, end), ENTRIES)?;
        count += entries.len() as u64;
        after = through;
    }
    Ok(count)
}

fn not_kept(who: &str) -> Response {
    error(
        "busy",
        &format!("{who} is busy, or could not keep the change: what is erased stays so, try again"),
    )
}

/// What is left of a message in its author's archive. `None` if it is damaged.
fn tombstone(frame: &[u8], at: Timestamp) -> Option<Vec<u8>> {
    let frame = Frame::parse(frame.to_vec()).ok()?;
    let mut xml = Vec::with_capacity(256);
    let mut writer = Writer::new(&mut xml);
    writer.open("message");
    for name in ["from", "to", "type", "id"] {
        if let Some(value) = frame.attr(name) {
            writer.attr(name, &value);
        }
    }
    for child in frame.children() {
        if matches!(
            (child.name(), child.ns()),
            ("origin-id" | "stanza-id", ns::STANZA_ID)
        ) {
            writer.raw(child.to_xml().as_bytes());
        }
    }
    writer
        .open("retracted")
        .attr("xmlns", NS_RETRACT)
        .attr("stamp", &at.to_string())
        .close();
    writer.close();
    Some(xml)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use store::{Account, Durability, LaggingMark, MemoryEngine, Record, SlotKey};

    use super::*;

    /// Goal: messages that were dropped from the log and are kept for a recipient who lags are
    /// counted, all of them: more than are read at once.
    #[test]
    fn what_is_kept_for_those_who_lag_is_counted() {
        const USER: &str = "romeo@localhost";
        let slots = SlotKey::new([7; 16]);
        let count = ENTRIES as u64 + 10;
        let peer = slots.peer("late@localhost");
        let engine = Arc::new(MemoryEngine::new());
        let store = Store::with_engine(engine, Durability::Fsync, slots).unwrap();
        let account = Record::AccountPut {
            user: USER.to_owned(),
            account: Account::default(),
        };
        store.bulk([account]).unwrap();
        let entries = (1..=2 * count).map(|seq| Record::LogAppend {
            user: USER.into(),
            entry: LogEntry {
                seq,
                flags: EntryFlags::OUTGOING.and(EntryFlags::SENT),
                // Every other one is for somebody who keeps up.
                peer: ["late@localhost", "soon@localhost"][seq as usize % 2].into(),
                frame: b"<message/>"[..].into(),
                ..LogEntry::default()
            },
        });
        store.bulk(entries).unwrap();
        assert_eq!(kept_in_front(&store, USER, 1).unwrap(), 0);
        let lagging = Record::LaggingPut {
            user: USER.to_owned(),
            lagging: vec![LaggingMark { peer, mark: 0 }],
        };
        let trim = Record::LogTrim {
            user: USER.to_owned(),
            through: 2 * count - 2,
        };
        store.bulk([lagging, trim]).unwrap();
        let page = store.log_read(USER, 0, ENTRIES).unwrap();
        assert_eq!(page.len(), 2);
        let kept = kept_in_front(&store, USER, page[0].seq).unwrap();
        assert_eq!(kept, count - 1);
        assert_eq!(kept_in_front(&store, USER, Seq::MAX).unwrap(), count + 1);
    }

    #[test]
    fn nothing_but_ids_is_left_of_a_message() {
        let said = b"<message xmlns='jabber:client' from='a@b/c' to='d@e' type='chat' id='1'>\
            <body>secret</body><origin-id xmlns='urn:xmpp:sid:0' id='o'/>\
            <retracted xmlns='urn:xmpp:message-retract:1' stamp='x'/></message>";
        // Who claims that it is nothing does not keep it.
        assert!(!is_tombstone(said));
        let left = tombstone(said, Timestamp::from_millis(0)).unwrap();
        let text = String::from_utf8(left.clone()).unwrap();
        assert!(!text.contains("secret"), "{text}");
        assert!(text.contains("id='1'") && text.contains("id='o'"), "{text}");
        assert!(is_tombstone(&left), "{text}");
        assert_eq!(tombstone(b"<message", Timestamp::from_millis(0)), None);
    }
}
