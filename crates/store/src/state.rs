//! What records add up to: the state of one user as a login reads it, and the values it is stored
//! as. Owns the encoding of values; which key holds which value is `keys`.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stdx::Level;
use stdx::time::Timestamp;

use crate::delivery::{
    ArchivePrefs, EntryFlags, Few, LaggingMark, LogEntry, Outbound, Progress, Recognition,
    SessionCursor, SessionRecord, Sessions, Windows,
};
use crate::error::StoreError;
use crate::octets;
use crate::record::{Account, Roster, Seq, millis};
use crate::schema;
use crate::stored::Stored;

/// The leading byte of every value. Another layout of values gets another byte.
pub(crate) const VALUE_VERSION: u8 = 2;

/// The leading byte of heads: those of [`VALUE_VERSION`] had no lagging destinations, those of
/// [`HEAD_VERSION_3`] no [`Head::stored`], those of [`HEAD_VERSION_4`] no [`Head::kind`], those of
/// [`HEAD_VERSION_5`] knew no [`Kind::Service`].
pub(crate) const HEAD_VERSION: u8 = 6;

/// The version that each level writes.
const HEAD_VERSIONS: [(Level, u8); 1] = [(Level::FIRST, HEAD_VERSION)];

/// What the next version, as tests play it, has behind a head and a record: a form of its own.
pub(crate) const NEXT_MARK: u8 = 0xed;

/// See [`HEAD_VERSION`].
pub(crate) const HEAD_VERSION_5: u8 = 5;

/// See [`HEAD_VERSION`].
pub(crate) const HEAD_VERSION_4: u8 = 4;

/// See [`HEAD_VERSION`].
const HEAD_VERSION_3: u8 = 3;

/// Room for most values: a head, a profile without a roster.
const ENCODED_BYTES: usize = 128;

/// The leading byte of blobs, which have no layout.
pub(crate) const BLOB_VERSION: u8 = 1;

/// All that a login needs, from one batched read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserState {
    /// Credentials and flags.
    pub account: Account,
    /// The roster with its pending requests.
    pub roster: Roster,
    /// Blocked addresses.
    pub blocked: Vec<String>,
    /// When the user was last here and the status text of that time.
    pub last: Option<(Timestamp, String)>,
    /// Where the user's log stands.
    pub log: LogHead,
    /// Windows and cursors of the log; `None` if there is nothing in them.
    pub windows: Option<Box<Windows>>,
    /// Sessions that can be resumed.
    pub sessions: Sessions,
    /// SHA-1 of the vCard's photo in hex, empty without one.
    pub photo_hash: String,
    /// What is to be archived, if the user said so.
    pub archive_prefs: Option<Box<ArchivePrefs>>,
}

/// Where a log stands. Its entries are those in `trimmed_through + 1 .. next_seq`; numbers in
/// between may be unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHead {
    /// The sequence number that the next entry gets; at least 1.
    pub next_seq: Seq,
    /// Everything up to here is gone; 0 if nothing is. No other cursor stands below it.
    pub trimmed_through: Seq,
    /// Entries that are there.
    pub count: u64,
    /// Bytes of their frames.
    pub bytes: u64,
    /// Those of them that are archived.
    pub archived_count: u64,
    /// Every outgoing entry up to here was taken over by its recipient's home.
    pub forwarded: Seq,
    /// The last outgoing entry; 0 without one. Entries are to be handed over if `forwarded` is
    /// below it.
    pub last_outgoing: Seq,
    /// Every waiting entry up to here was given to a session, but for [`Windows::requeued`].
    pub delivered_through: Seq,
    /// Entries that wait for a session, those of [`Windows::requeued`] included.
    pub waiting_count: u64,
    /// Bytes of their frames.
    pub waiting_bytes: u64,
    /// When the last entry was accepted.
    #[serde(with = "millis")]
    pub last_at: Timestamp,
}

impl Default for LogHead {
    fn default() -> Self {
        LogHead {
            next_seq: 1,
            trimmed_through: 0,
            count: 0,
            bytes: 0,
            archived_count: 0,
            forwarded: 0,
            last_outgoing: 0,
            delivered_through: 0,
            waiting_count: 0,
            waiting_bytes: 0,
            last_at: Timestamp::from_millis(0),
        }
    }
}

impl LogHead {
    /// Whether entries are to be handed over to their recipients' homes.
    pub fn has_outgoing(&self) -> bool {
        self.forwarded < self.last_outgoing
    }
}

/// The small value that changes with every message: apart from [`Profile`], so that a message does
/// not rewrite a roster, and from [`Recognition`], which follows from the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    /// The account exists. The head outlives it, for the sake of numbers that are not reused.
    pub(crate) live: bool,
    pub(crate) log: LogHead,
    /// Entries up to here are in the index of addresses and in [`Recognition`].
    pub(crate) folded: Seq,
    /// Entries behind `folded`.
    pub(crate) tail_count: u32,
    /// A [`Recognition`] was written.
    pub(crate) is_recognising: bool,
    pub(crate) requeued: Vec<Seq>,
    /// One for each session record, by number.
    pub(crate) cursors: Vec<SessionCursor>,
    /// The number that the next session gets.
    pub(crate) next_session: u32,
    /// Milliseconds and status of the last activity.
    pub(crate) last: Option<(i64, String)>,
    /// Destinations with a mark of their own, by peer.
    pub(crate) lagging: Vec<LaggingMark>,
    /// Outgoing entries that were trimmed from the log and are kept for one of them.
    pub(crate) pinned: u32,
    /// Senders that [`Recognition`] has no room for have keys of their own.
    pub(crate) has_older_marks: bool,
    /// `None` in a head of before this was counted, until the account next moves. The last field
    /// but one: see [`decode_head`].
    pub(crate) stored: Option<Stored>,
    /// What is live. The last field: see [`decode_head`].
    pub(crate) kind: Kind,
}

/// What an entity is. New kinds come last: the first two are what a flag for rooms was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// An account, with a profile; it may have nodes.
    #[default]
    Account,
    /// A room, with parts and a place in the list of rooms.
    Room,
    /// A service that has nodes and nothing else.
    Service,
}

/// How far a sender was heard of that [`Recognition`] has no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OlderMark {
    pub(crate) source: Seq,
    /// When, in milliseconds, or a little later.
    pub(crate) at: i64,
}

/// A head as it was before lagging destinations had marks.
#[derive(Deserialize)]
struct HeadOf2 {
    live: bool,
    log: LogHead,
    folded: Seq,
    tail_count: u32,
    is_recognising: bool,
    requeued: Vec<Seq>,
    cursors: Vec<SessionCursor>,
    next_session: u32,
    last: Option<(i64, String)>,
}

impl From<HeadOf2> for Head {
    fn from(old: HeadOf2) -> Head {
        Head {
            live: old.live,
            log: old.log,
            folded: old.folded,
            tail_count: old.tail_count,
            is_recognising: old.is_recognising,
            requeued: old.requeued,
            cursors: old.cursors,
            next_session: old.next_session,
            last: old.last,
            ..Head::default()
        }
    }
}

impl Head {
    /// Whether entries are to be handed over to their recipients' homes.
    pub(crate) fn has_outgoing(&self) -> bool {
        self.log.has_outgoing() || !self.lagging.is_empty()
    }

    /// There is an account.
    pub(crate) fn is_account(&self) -> bool {
        self.live && self.kind == Kind::Account
    }

    /// There is something that may have nodes.
    pub(crate) fn may_have_nodes(&self) -> bool {
        self.live && self.kind != Kind::Room
    }

    /// Whether an outgoing entry is not settled although the common mark has passed it.
    pub(crate) fn is_pinned(&self, peer: u64, seq: Seq) -> bool {
        let found = self.lagging.binary_search_by_key(&peer, |own| own.peer);
        found.is_ok_and(|at| seq > self.lagging[at].mark)
    }
}

/// The larger value that changes when the user changes something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub(crate) account: Account,
    pub(crate) roster: Roster,
    pub(crate) blocked: Vec<String>,
    pub(crate) photo_hash: String,
    pub(crate) archive_prefs: Option<Box<ArchivePrefs>>,
}

/// A log entry without its sequence number, which is in the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredEntry<'a> {
    pub(crate) at: i64,
    pub(crate) peer: &'a str,
    pub(crate) flags: EntryFlags,
    pub(crate) source: Seq,
    pub(crate) origin: u64,
    pub(crate) went_to: Cow<'a, Few<Outbound>>,
    pub(crate) progress: Cow<'a, Progress>,
    #[serde(serialize_with = "octets::serialize")]
    pub(crate) frame: &'a [u8],
}

impl<'a> StoredEntry<'a> {
    pub(crate) fn new(entry: &'a LogEntry) -> StoredEntry<'a> {
        StoredEntry {
            at: entry.at.as_millis(),
            peer: &entry.peer,
            flags: entry.flags,
            source: entry.source,
            origin: entry.origin,
            went_to: Cow::Borrowed(&entry.went_to),
            progress: Cow::Borrowed(&entry.progress),
            frame: &entry.frame,
        }
    }

    /// Encodes it as a value.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let bytes = ENCODED_BYTES + self.peer.len() + self.frame.len();
        encode_sized(VALUE_VERSION, self, bytes)
    }

    pub(crate) fn into_entry(self, seq: Seq) -> LogEntry {
        LogEntry {
            seq,
            at: Timestamp::from_millis(self.at),
            peer: self.peer.into(),
            flags: self.flags,
            frame: self.frame.into(),
            source: self.source,
            origin: self.origin,
            went_to: self.went_to.into_owned(),
            progress: self.progress.into_owned(),
        }
    }

    /// Waits for a session, as the head says.
    pub(crate) fn is_waiting(&self, seq: Seq, head: &Head) -> bool {
        (self.flags.has(EntryFlags::WAITING) && seq > head.log.delivered_through)
            || head.requeued.binary_search(&seq).is_ok()
    }
}

impl UserState {
    pub(crate) fn from_parts(
        head: Head,
        profile: Profile,
        recognition: Recognition,
        records: Vec<SessionRecord>,
    ) -> UserState {
        let windows = Windows {
            requeued: head.requeued,
            cursors: head.cursors,
            recognition,
            lagging: head.lagging,
            has_older_marks: head.has_older_marks,
        };
        UserState {
            account: profile.account,
            roster: profile.roster,
            blocked: profile.blocked,
            last: head
                .last
                .map(|(at, status)| (Timestamp::from_millis(at), status)),
            log: head.log,
            windows: (!windows.is_empty()).then(|| Box::new(windows)),
            sessions: Sessions {
                next_number: head.next_session,
                records,
            },
            photo_hash: profile.photo_hash,
            archive_prefs: profile.archive_prefs,
        }
    }
}

/// A version byte and the postcard of `value`.
pub(crate) fn encode<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    encode_sized(version, value, ENCODED_BYTES)
}

/// The same, with room for `bytes` from the start.
pub(crate) fn encode_sized<T: Serialize>(version: u8, value: &T, bytes: usize) -> Vec<u8> {
    let mut encoded = Vec::with_capacity(bytes);
    encoded.push(version);
    // Invariant: writing to a `Vec` cannot fail, and none of our types refuses to serialise.
    postcard::to_extend(value, encoded).expect("plain data serialises")
}

/// Decodes a profile. One of schema 2 is rewritten when it next changes, so that an upgrade does
/// not rewrite the rosters of all accounts.
pub(crate) fn decode_profile(bytes: &[u8], user: &str) -> Result<Profile, StoreError> {
    match bytes.first() {
        Some(&schema::VALUE_VERSION_2) => schema::profile_from_2(bytes, user),
        _ => decode(bytes, user),
    }
}

/// A head in the form of a level.
pub(crate) fn encode_head(level: Level, head: &Head) -> Vec<u8> {
    let mut bytes = encode(level.version(&HEAD_VERSIONS), head);
    if level.is_next() {
        bytes.push(NEXT_MARK);
    }
    bytes
}

/// Decodes a head. One of before is rewritten when it next changes.
pub(crate) fn decode_head(bytes: &[u8], user: &str) -> Result<Head, StoreError> {
    let known = Level::known();
    match bytes.first() {
        Some(&version) if known.is_next() && version == known.version(&HEAD_VERSIONS) => {
            match bytes.split_last() {
                Some((&NEXT_MARK, bytes)) => decode_version(version, bytes, user),
                _ => Err(StoreError::Corrupt(format!(
                    "{user}: a head without a mark"
                ))),
            }
        }
        Some(&VALUE_VERSION) => decode::<HeadOf2>(bytes, user).map(Head::from),
        Some(&version @ (HEAD_VERSION_3 | HEAD_VERSION_4)) => {
            // The encodings of `None` and of an account are what they lack.
            let mut bytes = bytes.to_vec();
            bytes.extend(std::iter::repeat_n(
                0,
                usize::from(HEAD_VERSION_5 - version),
            ));
            decode_version(version, &bytes, user)
        }
        Some(&HEAD_VERSION_5) => decode_version(HEAD_VERSION_5, bytes, user),
        _ => decode_version(HEAD_VERSION, bytes, user),
    }
}

/// Decodes a value of [`VALUE_VERSION`]; `what` names it in the error.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], what: &str) -> Result<T, StoreError> {
    decode_borrowed(bytes, what)
}

/// The same for types that borrow from `bytes`.
pub(crate) fn decode_borrowed<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    what: &str,
) -> Result<T, StoreError> {
    decode_version(VALUE_VERSION, bytes, what)
}

/// The same for any version.
pub(crate) fn decode_version<'a, T: Deserialize<'a>>(
    expected: u8,
    bytes: &'a [u8],
    what: &str,
) -> Result<T, StoreError> {
    let Some((&version, body)) = bytes.split_first() else {
        return Err(StoreError::Corrupt(format!("{what}: empty value")));
    };
    if version != expected {
        return Err(StoreError::Corrupt(format!(
            "{what}: value version {version}"
        )));
    }
    match postcard::take_from_bytes(body) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(StoreError::Corrupt(format!(
            "{what}: {} bytes too many",
            rest.len()
        ))),
        Err(error) => Err(StoreError::Corrupt(format!("{what}: {error}"))),
    }
}
