//! What delivery keeps of a user: log entries, cursors, sessions that can be resumed, and what
//! recognises a message that comes again. Owns these plain types, their bounds and how an entry
//! moves them; the contract is `docs/delivery.md`.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;
use stdx::time::Timestamp;

use crate::limits::{
    ARCHIVE_PREFS_MAX, DIRECTED_MAX, LAGGING_MAX, NUMBERED_MAX, ORIGINS_MAX, REQUEUED_MAX,
    SEEN_MAX, SEQ_MAX, SESSIONS_BYTES_MAX, SESSIONS_MAX, TOKEN_BYTES_MAX, USER_BYTES_MAX,
};
use crate::octets;
use crate::record::{RecordError, Seq, millis};
use crate::shared::SharedBytes;

/// A list that mostly has one element, for one session, and then needs no memory of its own.
pub type Few<T> = SmallVec<[T; 1]>;

/// Flags of an entry. Bits from [`EntryFlags::FREE`] on are the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EntryFlags(pub u32);

impl EntryFlags {
    /// The user sent it.
    pub const SENT: EntryFlags = EntryFlags(1);
    /// Queries of the archive show it.
    pub const ARCHIVED: EntryFlags = EntryFlags(2);
    /// Nobody was there to take it: it waits for a session.
    pub const WAITING: EntryFlags = EntryFlags(4);
    /// It is to be handed over to its recipient's home.
    pub const OUTGOING: EntryFlags = EntryFlags(8);
    /// The first bit without a meaning to the store.
    pub const FREE: EntryFlags = EntryFlags(1 << 16);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: EntryFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: EntryFlags) -> EntryFlags {
        EntryFlags(self.0 | other.0)
    }
}

/// One message in a user's log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Where in the log.
    pub seq: Seq,
    /// When it was accepted: not before that of the entry in front of it.
    #[serde(with = "millis")]
    pub at: Timestamp,
    /// The bare address of the other side.
    pub peer: Arc<str>,
    /// What it is.
    pub flags: EntryFlags,
    /// The stanza.
    pub frame: SharedBytes,
    /// Of a received message, its place in the sender's log; 0 if the sender has none here.
    pub source: Seq,
    /// [`crate::SlotKey::origin`] of what it is recognised by when it is sent again; 0 without. Of
    /// an error that returns a message, [`of_returned`].
    pub origin: u64,
    /// Sessions that it was written to, with the outbound count that it had there.
    pub went_to: Few<Outbound>,
    /// Cursors that move together with it.
    pub progress: Progress,
}

/// A count of a session's outbound stream (XEP-0198).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outbound {
    /// The session's number.
    pub session: u32,
    /// The count, modulo 2^32.
    pub count: u32,
}

/// Cursors that move; each only if it is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Inbound counts by session number.
    pub inbound: Few<(u32, u32)>,
    /// By session number, the entry up to which nothing is owed to it.
    pub acked: Few<(u32, Seq)>,
    /// The entry up to which everything outgoing was taken over; 0 if that did not move.
    pub forwarded: Seq,
}

/// Where delivery stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivered {
    /// Entries up to here were given to a session, but for those below.
    pub through: Seq,
    /// Entries that wait again, in order: earlier ones, or such as never waited.
    pub requeued: Vec<Seq>,
    /// How many entries wait, `requeued` included.
    pub waiting_count: u64,
    /// Bytes of their frames.
    pub waiting_bytes: u64,
}

/// The cursors of one session that can be resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCursor {
    /// The session's number.
    pub number: u32,
    /// How many stanzas of its client were handled, modulo 2^32.
    pub inbound: u32,
    /// No entry up to here is owed to it.
    pub acked: Seq,
}

/// An entry that a session was given later than it was appended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NumberedEntry {
    /// Its outbound count there.
    pub count: u32,
    /// The entry. Its highest [`crate::limits::NUMBERED_MARK_BITS`] bits are marks of whoever wrote
    /// the list, and nothing to the store.
    pub seq: Seq,
}

/// A session that can be resumed after the process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// Names it in entries. Larger than that of every session of the user before it.
    pub number: u32,
    /// What the client must show to resume it.
    #[serde(with = "octets")]
    pub token: Vec<u8>,
    /// Its resource.
    pub resource: String,
    /// How long it may be detached, in seconds.
    pub max_seconds: u32,
    /// How often its client has taken it up again; `None` of before the account had a mark of its
    /// own. Records of before this was counted say 0.
    pub resumptions: Option<i64>,
    /// Its last available presence, if it is available.
    #[serde(with = "octets::optional")]
    pub presence: Option<Vec<u8>>,
    /// Who got directed presence.
    pub directed: Vec<String>,
    /// Wants copies of what other sessions send and receive (XEP-0280).
    pub carbons: bool,
    /// Said that nobody is looking at it (XEP-0352).
    pub inactive: bool,
    /// Asked for the roster.
    pub wants_roster: bool,
    /// Asked for the blocklist.
    pub wants_blocklist: bool,
    /// Counts that entries up to here carry for it are void.
    pub void_through: Seq,
    /// Entries that it was given later than they were appended.
    pub numbered: Vec<NumberedEntry>,
}

/// All sessions of a user that can be resumed. Their cursors are in [`Windows::cursors`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sessions {
    /// The number that the next one gets.
    pub next_number: u32,
    /// By number.
    pub records: Vec<SessionRecord>,
}

/// The last message that was taken over from one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// [`crate::SlotKey::peer`] of the sender.
    pub peer: u64,
    /// Its place in the sender's log.
    pub source: Seq,
}

/// A message with an origin-id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// [`crate::SlotKey::origin`].
    pub hash: u64,
    /// Its entry, when it had one in this log.
    pub seq: Seq,
    /// When it came, in milliseconds.
    pub at: i64,
}

/// A destination that does not keep up with what is handed over, with a mark of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaggingMark {
    /// [`crate::SlotKey::peer`] of the destination.
    pub peer: u64,
    /// Every outgoing entry for it up to here is settled.
    pub mark: Seq,
}

/// Windows and cursors of a log that are more than a few numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows {
    /// Entries that wait again, in order: up to [`crate::LogHead::delivered_through`], or such as
    /// never waited.
    pub requeued: Vec<Seq>,
    /// Cursors of sessions, by number: one for each session record.
    pub cursors: Vec<SessionCursor>,
    /// What recognises messages that come again.
    pub recognition: Recognition,
    /// Destinations that lag, by peer. The common mark, [`crate::LogHead::forwarded`], says nothing
    /// of entries for them.
    pub lagging: Vec<LaggingMark>,
    /// More senders are remembered than [`Recognition::seen`] has room for:
    /// [`crate::Store::mark_of`].
    pub has_older_marks: bool,
}

/// What recognises messages that come again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recognition {
    /// The senders heard of last, the latest at the end.
    pub seen: VecDeque<Seen>,
    /// The last messages with an origin-id, the latest at the end.
    pub origins: VecDeque<Origin>,
}

/// What became of a message that is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It was accepted, and did not come back since.
    Accepted,
    /// It was accepted, and its sender was told by an error that it came back.
    CameBack,
}

/// [`LogEntry::origin`] of the error that returns a message with this one: from then on whoever
/// sends that again is to be told so.
pub const fn of_returned(origin: u64) -> u64 {
    match origin {
        0 => 0,
        origin => !origin,
    }
}

/// Which messages are archived if neither list of [`ArchivePrefs`] names the other side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ArchiveDefault {
    /// All.
    #[default]
    Always,
    /// None.
    Never,
    /// Those of contacts.
    Roster,
}

/// What a user wants to have archived (XEP-0313, section "Preferences").
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivePrefs {
    /// For addresses in neither list.
    pub default: ArchiveDefault,
    /// Addresses whose messages are archived.
    pub always: Vec<String>,
    /// Addresses whose messages are not.
    pub never: Vec<String>,
}

fn bounded(len: usize, max: usize, what: &'static str) -> Result<(), RecordError> {
    if len > max {
        return Err(RecordError::TooMany(what));
    }
    Ok(())
}

impl LogEntry {
    pub(crate) fn check(&self) -> Result<usize, RecordError> {
        if self.seq == 0 || self.seq > SEQ_MAX {
            return Err(RecordError::NoSequence);
        }
        if self.peer.len() > USER_BYTES_MAX {
            return Err(RecordError::Address(self.peer.chars().take(64).collect()));
        }
        // One more stands for all clients without stream management.
        bounded(self.went_to.len(), SESSIONS_MAX + 1, "receiving sessions")?;
        Ok(self.frame.len() + self.peer.len() + self.progress.check()?)
    }
}

impl Progress {
    /// Whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.inbound.is_empty() && self.acked.is_empty() && self.forwarded == 0
    }

    pub(crate) fn check(&self) -> Result<usize, RecordError> {
        bounded(self.inbound.len(), SESSIONS_MAX, "inbound counts")?;
        bounded(self.acked.len(), SESSIONS_MAX, "acknowledgements")?;
        Ok(0)
    }
}

impl Delivered {
    pub(crate) fn check(&self) -> Result<usize, RecordError> {
        bounded(self.requeued.len(), REQUEUED_MAX, "requeued entries")?;
        Ok(0)
    }
}

impl LaggingMark {
    pub(crate) fn check(list: &[LaggingMark]) -> Result<usize, RecordError> {
        bounded(list.len(), LAGGING_MAX, "lagging destinations")?;
        Ok(size_of_val(list))
    }
}

impl NumberedEntry {
    pub(crate) fn check(list: &[NumberedEntry]) -> Result<usize, RecordError> {
        bounded(list.len(), NUMBERED_MAX, "numbered entries")?;
        Ok(0)
    }
}

impl SessionRecord {
    pub(crate) fn check(&self) -> Result<usize, RecordError> {
        bounded(self.token.len(), TOKEN_BYTES_MAX, "bytes of a token")?;
        bounded(self.directed.len(), DIRECTED_MAX, "directed presences")?;
        NumberedEntry::check(&self.numbered)?;
        let size = self.size();
        bounded(size, SESSIONS_BYTES_MAX, "bytes of a session")?;
        Ok(size + 10 * self.numbered.len())
    }

    /// About how many bytes it takes beside its list, which has a bound of its own.
    pub fn size(&self) -> usize {
        let directed: usize = self.directed.iter().map(|to| to.len() + 3).sum();
        let presence = self.presence.as_ref().map_or(0, Vec::len);
        self.token.len() + self.resource.len() + presence + directed
    }
}

impl Sessions {
    /// The record of a session.
    pub fn find(&self, number: u32) -> Option<&SessionRecord> {
        self.records.iter().find(|have| have.number == number)
    }

    pub(crate) fn put(&mut self, session: &SessionRecord) -> Result<(), RecordError> {
        let at = self
            .records
            .binary_search_by_key(&session.number, |have| have.number);
        match at {
            Ok(at) => self.records[at].clone_from(session),
            Err(at) => {
                bounded(self.records.len() + 1, SESSIONS_MAX, "sessions")?;
                self.records.insert(at, session.clone());
            }
        }
        let size = self.records.iter().map(SessionRecord::size).sum();
        bounded(size, SESSIONS_BYTES_MAX, "bytes of sessions")?;
        self.next_number = self.next_number.max(session.number.saturating_add(1));
        Ok(())
    }
}

impl ArchivePrefs {
    pub(crate) fn check(&self) -> Result<usize, RecordError> {
        let mut size = 0;
        for list in [&self.always, &self.never] {
            bounded(list.len(), ARCHIVE_PREFS_MAX, "archive preferences")?;
            size += list.iter().map(|jid| jid.len() + 3).sum::<usize>();
        }
        Ok(size)
    }
}

/// Moves the cursors of sessions. Those of sessions that are gone are ignored; acknowledgements do
/// not go back, and not beyond `last`.
pub(crate) fn advance(cursors: &mut [SessionCursor], progress: &Progress, last: Seq) {
    let find = |cursors: &[SessionCursor], number| {
        cursors.binary_search_by_key(&number, |have| have.number)
    };
    for &(number, inbound) in &progress.inbound {
        if let Ok(at) = find(cursors, number) {
            cursors[at].inbound = inbound;
        }
    }
    for &(number, acked) in &progress.acked {
        if let Ok(at) = find(cursors, number) {
            cursors[at].acked = cursors[at].acked.max(acked.min(last));
        }
    }
}

impl Windows {
    /// Whether there is nothing in them.
    pub fn is_empty(&self) -> bool {
        self.requeued.is_empty()
            && self.cursors.is_empty()
            && self.recognition.is_empty()
            && self.lagging.is_empty()
            && !self.has_older_marks
    }

    /// The cursors of a session.
    pub fn cursor(&self, number: u32) -> Option<&SessionCursor> {
        self.cursors.iter().find(|have| have.number == number)
    }

    /// Moves the cursors of sessions. Those of sessions that are gone are ignored;
    /// acknowledgements do not go back.
    pub fn advance(&mut self, progress: &Progress) {
        advance(&mut self.cursors, progress, SEQ_MAX);
    }
}

impl Recognition {
    /// Whether it recognises nothing.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.origins.is_empty()
    }

    /// Whether a message of `peer` ([`crate::SlotKey::peer`]) with this place in the sender's log
    /// was taken over before.
    pub fn has_seen(&self, peer: u64, source: Seq) -> bool {
        let seen = self.seen.iter().rev().find(|seen| seen.peer == peer);
        seen.is_some_and(|seen| source <= seen.source)
    }

    /// What became of the last message that came with the same origin
    /// ([`crate::SlotKey::origin`]) since `not_before`.
    pub fn find_origin(&self, hash: u64, not_before: Timestamp) -> Option<Before> {
        let returned = of_returned(hash);
        let mut recent = self.origins.iter().rev();
        recent
            .find(|origin| origin.hash == hash || origin.hash == returned)
            .filter(|origin| origin.at >= not_before.as_millis())
            .map(|origin| match origin.hash == hash {
                true => Before::Accepted,
                false => Before::CameBack,
            })
    }

    /// Remembers what recognises `entry`; `peer` is the [`crate::SlotKey::peer`] of its other side.
    /// Returns the mark that found no room any more.
    pub fn remember(&mut self, peer: u64, entry: &LogEntry) -> Option<Seen> {
        self.remember_parts(
            peer,
            entry.source,
            entry.origin,
            entry.seq,
            entry.at.as_millis(),
        )
    }

    pub(crate) fn remember_parts(
        &mut self,
        peer: u64,
        source: Seq,
        origin: u64,
        seq: Seq,
        at: i64,
    ) -> Option<Seen> {
        let mut left_out = None;
        if source != 0 {
            let known = self.seen.iter().rposition(|seen| seen.peer == peer);
            let known = known.and_then(|at| self.seen.remove(at));
            if known.is_none() && self.seen.len() >= SEEN_MAX {
                left_out = self.seen.pop_front();
            }
            let source = known.map_or(source, |known| known.source.max(source));
            self.seen.push_back(Seen { peer, source });
        }
        if origin != 0 {
            if self.origins.len() >= ORIGINS_MAX {
                self.origins.pop_front();
            }
            self.origins.push_back(Origin {
                hash: origin,
                seq,
                at,
            });
        }
        left_out
    }
}
